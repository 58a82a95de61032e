/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes for tests: see child.h. */
#include "tests/support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SIGNALLED 256
#define EXEC_FAILED 127

/* Between fork and exec: only calls that are safe in the child of a program with threads. */
static void child_exec(const char *path, const char *task, char **environment, int out)
{
	char *const argv[] = {(char *)path, (char *)task, NULL};

	if (dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
		(void)execve(path, argv, environment);
	_exit(EXEC_FAILED);
}

/* This program's environment with a variable set. Free the array. */
static char **environment_with(const char *set)
{
	size_t length = set ? strcspn(set, "=") + 1 : 0, nr = 0, out = 0;
	char **environment;

	while (environ[nr])
		nr++;
	environment = calloc(nr + 2, sizeof(*environment));
	assert_non_null(environment);
	if (set)
		environment[out++] = (char *)set;
	for (size_t i = 0; i < nr; i++)
		if (!set || strncmp(environ[i], set, length) != 0)
			environment[out++] = environ[i];
	return environment;
}

void child_start(struct test_child *child, const char *task, const char *set)
{
	char path[4096], **environment = environment_with(set);
	ssize_t nr = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int ends[2];

	assert_true(nr > 0);
	path[nr] = '\0';
	*child = (struct test_child){0};
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child->pid = fork();
	if (child->pid == 0)
		child_exec(path, task, environment, ends[1]);
	assert_true(child->pid > 0);
	free(environment);
	(void)close(ends[1]);
	child->out = ends[0];
}

void child_begin(unsigned int seconds)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(seconds);
}

/* ------------------------------------------------------------------ what it says */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Read some more, until end_ms. False: it has closed its output, or time is up. */
static bool read_some(struct test_child *child, int64_t end_ms)
{
	struct pollfd poll_fd = {.fd = child->out, .events = POLLIN};
	int64_t left = end_ms - now_ms();
	char more[512];
	ssize_t nr;
	size_t room = sizeof(child->text) - 1 - child->nr_text;

	if (left <= 0 || poll(&poll_fd, 1, (int)left) <= 0)
		return false;
	nr = read(child->out, more, sizeof(more));
	if (nr <= 0)
		return false;
	room = (size_t)nr < room ? (size_t)nr : room;
	memcpy(child->text + child->nr_text, more, room);
	child->nr_text += room;
	child->text[child->nr_text] = '\0';
	return true;
}

void child_expect(struct test_child *child, const char *text, unsigned int seconds)
{
	int64_t end_ms = now_ms() + (int64_t)seconds * 1000;

	while (!strstr(child->text, text))
		if (!read_some(child, end_ms)) {
			child_kill(child);
			fail_msg("a child has not said '%s' but: %s", text, child->text);
		}
}

unsigned int child_count(const struct test_child *child, const char *begin)
{
	unsigned int nr = 0;

	for (const char *at = child->text; at && *at; at = strchr(at, '\n')) {
		at += *at == '\n';
		nr += strncmp(at, begin, strlen(begin)) == 0;
	}
	return nr;
}

/* ------------------------------------------------------------------ its end */

static int reap(struct test_child *child)
{
	int status = 0;

	while (waitpid(child->pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	(void)close(child->out);
	return WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_wait(struct test_child *child, unsigned int seconds)
{
	int64_t end_ms = now_ms() + (int64_t)seconds * 1000;

	while (read_some(child, end_ms))
		;
	if (now_ms() >= end_ms) {
		child_kill(child);
		fail_msg("a child is not done after %u seconds: %s", seconds, child->text);
	}
	return reap(child);
}

void child_kill(struct test_child *child)
{
	assert_int_equal(kill(child->pid, SIGKILL), 0);
	assert_int_equal(reap(child), SIGNALLED + SIGKILL);
}
