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
#define WORDS ((LINES + 31) / 32)
#define THREADS 4u

static _Alignas(LINE) unsigned char array[LINES * LINE];

static bool is_noted(const uint32_t *bits, uint32_t line)
{
	return bits[line / 32] >> line % 32 & 1;
}

static void test_lines_that_are_read(void **state)
{
	uint32_t bits[WORDS + 1] = {0}, nr = 0;
	const struct weir_tracked tracked = {array, bits};

	(void)state;
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4, nr++) {
		const unsigned char *byte = weir_tracked_at(&tracked, at);

		assert_ptr_equal(byte, &array[at]);
		(void)weir_tracked_at(&tracked, at); /* again changes nothing */
	}
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4, nr--)
		assert_true(is_noted(bits, (uint32_t)(at / LINE)));
	assert_int_equal(nr, 0);
	for (uint64_t at = 0; at < sizeof(array); at += 3 * LINE + 4)
		bits[at / LINE / 32] &= ~(UINT32_C(1) << at / LINE % 32);
	for (uint32_t i = 0; i <= WORDS; i++)
		assert_int_equal(bits[i], 0);
	/* The first and the last byte of a line, and of the array. */
	weir_tracked_note(&tracked, LINE - 1);
	weir_tracked_note(&tracked, sizeof(array) - 1);
	assert_int_equal(bits[0], 1);
	assert_int_equal(bits[WORDS - 1], UINT32_C(1) << (LINES - 1) % 32);
	weir_tracked_note(&tracked, LINE);
	assert_int_equal(bits[0], 3);
}

static struct weir_tracked shared;

/* Each THREADS-th line, so that threads set bits of the same words. */
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
		uint32_t bits[WORDS] = {0}, first[THREADS];
		pthread_t thread[THREADS];

		shared = (struct weir_tracked){array, bits};
		for (uint32_t i = 0; i < THREADS; i++) {
			first[i] = i;
			assert_int_equal(pthread_create(&thread[i], NULL, note_lines, &first[i]),
					 0);
		}
		for (uint32_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
		for (uint32_t line = 0; line < LINES; line++)
			assert_true(is_noted(bits, line));
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
