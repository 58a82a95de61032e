/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that are noted (weir/tracked.h), on the CPU: the lines that were read and no others, also
 * by several threads at once.
 *
 * Labels: threads
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "weir/tracked.h"

#define LINES 1000u
#define LINE WEIR_TRACKED_LINE_BYTES
#define THREADS 4u

static _Alignas(LINE) unsigned char array[LINES * LINE];

static void test_lines_that_are_read(void **state)
{
	uint8_t mark[LINES + 1] = {0};
	uint32_t nr = 0;
	const struct weir_tracked tracked = {array, mark};

	(void)state;
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4, nr++) {
		const unsigned char *byte = weir_tracked_at(&tracked, at);

		assert_ptr_equal(byte, &array[at]);
		(void)weir_tracked_at(&tracked, at); /* again changes nothing */
	}
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4, nr--)
		assert_int_equal(mark[at / LINE], 1);
	assert_int_equal(nr, 0);
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4)
		mark[at / LINE] = 0;
	for (uint32_t i = 0; i <= LINES; i++)
		assert_int_equal(mark[i], 0);
	/* The first and the last byte of a line, and of the array. */
	weir_tracked_note(&tracked, LINE - 1);
	weir_tracked_note(&tracked, sizeof(array) - 1);
	assert_int_equal(mark[0], 1);
	assert_int_equal(mark[1], 0);
	assert_int_equal(mark[LINES - 1], 1);
	assert_int_equal(mark[LINES], 0);
	weir_tracked_note(&tracked, LINE);
	assert_int_equal(mark[1], 1);
}

static struct weir_tracked shared;

/* Each THREADS-th line, so that threads store marks side by side. */
static void *note_lines(void *arg)
{
	for (uint64_t line = *(const uint32_t *)arg; line < LINES; line += THREADS)
		weir_tracked_note(&shared, line * LINE);
	return NULL;
}

static void test_threads_together(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		uint32_t first[THREADS];
		uint8_t mark[LINES] = {0};
		pthread_t thread[THREADS];

		shared = (struct weir_tracked){array, mark};
		for (uint32_t i = 0; i < THREADS; i++) {
			first[i] = i;
			assert_int_equal(pthread_create(&thread[i], NULL, note_lines, &first[i]),
					 0);
		}
		for (uint32_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
		for (uint32_t line = 0; line < LINES; line++)
			assert_int_equal(mark[line], 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_that_are_read),
		cmocka_unit_test(test_threads_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
