/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory's host side on a simulated machine: what weir/paged.h promises, function by function,
 * and what it says to wrong use.
 */
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words of it */

static void test_writes_come_home(void **unused)
{
	struct weir_paged_stats stats;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, 2, 0);
	range = paged_range(&t, 8 * 4096 + 24, 0, &words);
	assert_int_equal(range, 0);
	for (uint32_t i = 0; i < 8 * PAGE + 3; i++)
		assert_int_equal(words[i], 0);
	words[5] = 7;
	words[8 * PAGE + 2] = 9;
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 5, 7}, {PAGED_ADD, range, 5, 3},
				   {PAGED_READ, range, 8 * PAGE + 2, 9},
				   {PAGED_WRITE, range, 8 * PAGE + 1, 11}),
			 0);
	assert_int_equal(words[5], 7); /* in its frame */
	assert_int_equal(weir_flush(t.pool), 0);
	assert_int_equal(words[5], 10);
	assert_int_equal(words[8 * PAGE + 1], 11);
	assert_int_equal(words[8 * PAGE + 2], 9);
	stats = paged_stats(&t);
	assert_int_equal(stats.nr_frames, 2);
	assert_int_equal(stats.nr_max_frames, 2);
	assert_int_equal(stats.nr_resident, 2);
	assert_int_equal(stats.range[0].nr[WEIR_PAGED_IN], 2);
	assert_int_equal(stats.range[0].nr[WEIR_PAGED_OUT], 2);
	assert_int_equal(stats.range[0].in_bytes, 8192);
	assert_true(stats.epoch >= 1);
	/* Clean: nothing is written twice. */
	assert_int_equal(weir_flush(t.pool), 0);
	assert_int_equal(paged_stats(&t).range[0].nr[WEIR_PAGED_OUT], 2);
	/* The host writes between launches. */
	assert_int_equal(weir_paged_drain(t.pool), 0);
	assert_int_equal(paged_stats(&t).nr_resident, 0);
	words[5] = 100;
	assert_int_equal(PAGED_RUN(&t, false, {PAGED_READ, range, 5, 100}), 0);
	paged_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes_come_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
