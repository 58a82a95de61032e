/* SPDX-License-Identifier: Apache-2.0 */
/* Signals to a program that does not look for them, see cli/interrupt.h: in a child process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/interrupt.h"
#include "tests/support/child.h"

#define CHILD_S 20u

static char partial[64];

/* Works for ever, and never looks. */
static int be_deaf(void)
{
	child_begin(CHILD_S);
	if (interrupt_init())
		return 1;
	interrupt_set_partial(0, getenv("PARTIAL"));
	puts("ready");
	fflush(stdout);
	while (!interrupt_pending())
		usleep(1000); /* a signal may come just before a pause(), which would then last */
	puts("pending");
	fflush(stdout);
	for (;;)
		pause();
}

static void start(struct test_child *child, int number)
{
	char set[sizeof(partial) + sizeof("PARTIAL=")];
	int file;

	strcpy(partial, "/tmp/weir-interrupt-XXXXXX");
	file = mkstemp(partial);
	assert_true(file >= 0);
	close(file);
	snprintf(set, sizeof(set), "PARTIAL=%s", partial);
	child_start(child, "deaf", set);
	child_expect(child, "ready", CHILD_S);
	assert_int_equal(kill(child->pid, number), 0);
	child_expect(child, "pending", CHILD_S);
}

/* The first asks, and leaves everything to the program; the second ends it. */
static void test_interrupt_second_ends(void **state)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct test_child child;

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		start(&child, numbers[i]);
		assert_int_equal(access(partial, F_OK), 0);
		assert_int_equal(kill(child.pid, SIGTERM), 0);
		assert_int_equal(child_wait(&child, CHILD_S), 128 + SIGTERM);
		assert_non_null(strstr(child.text, "weir: interrupted twice, ended at once\n"));
		assert_int_equal(access(partial, F_OK), -1);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interrupt_second_ends),
	};

	(void)argv;
	return argc > 1 ? be_deaf() : cmocka_run_group_tests(tests, NULL, NULL);
}
