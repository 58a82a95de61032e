/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test's program started again as another process, for what needs one of its own: sharing a card,
 * being killed, an environment without a GPU. The child finds its task in argv[1], and dies with
 * its parent. Functions assert.
 */
#ifndef WEIR_TEST_CHILD_H
#define WEIR_TEST_CHILD_H

#include <stddef.h>
#include <sys/types.h>

struct test_child {
	pid_t pid;
	int out; /* its standard output and error */
	size_t nr_text;
	char text[4096]; /* what it said; more is dropped */
};

/* Start this program with one argument. set: "NAME=value" for its environment; may be NULL. */
void child_start(struct test_child *child, const char *task, const char *set);

/* In the child, first: so that it does not outlive its parent, nor a time limit. */
void child_begin(unsigned int seconds);

/* Read until the child has said a line that contains so much; fail after so many seconds. */
void child_expect(struct test_child *child, const char *text, unsigned int seconds);

/* Read to the end of it: its exit status, or 256 and the signal that ended it. Fail, and kill it,
 * after so many seconds. */
int child_wait(struct test_child *child, unsigned int seconds);

/* SIGKILL, and wait. */
void child_kill(struct test_child *child);

/* Lines of what the child said that begin with this. */
unsigned int child_count(const struct test_child *child, const char *begin);

#endif
