/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small arithmetic, where it is easily wrong: at 0, at powers of two and beside them. And the
 * folder of the running program.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/program.h"
#include "src/base/util.h"

static void test_round(void **state)
{
	(void)state;
	assert_int_equal(div_round_up(0, 8), 0);
	assert_int_equal(div_round_up(1, 8), 1);
	assert_int_equal(div_round_up(8, 8), 1);
	assert_int_equal(div_round_up(9, 8), 2);
	assert_int_equal(div_round_up(UINT64_MAX, 2), UINT64_C(1) << 63);
	assert_int_equal(round_up(0, 12), 0);
	assert_int_equal(round_up(1, 12), 12);
	assert_int_equal(round_up(12, 12), 12);
	assert_int_equal(round_up(13, 12), 24);
}

static void test_bits(void **state)
{
	(void)state;
	assert_false(is_power_of_2(0));
	assert_int_equal(lowest_bit(0), 0);
	for (uint32_t bit = 0; bit < 64; bit++) {
		const uint64_t n = UINT64_C(1) << bit, more = n | UINT64_C(1) << 63;

		assert_true(is_power_of_2(n));
		assert_int_equal(is_power_of_2(more), bit == 63);
		assert_int_equal(lowest_bit(more), n);
		assert_int_equal(log2_floor(n), bit);
		assert_int_equal(log2_floor(n | (n - 1)), bit);
	}
}

/* Every place among sorted values, some of them alike, against the first by looking at all. */
static void test_search_sorted(void **state)
{
	static const uint32_t value[] = {1, 3, 3, 3, 5, 9, 9, 12};

	(void)state;
	for (uint32_t from = 0; from <= ARRAY_LEN(value); from++)
		for (uint32_t end = from; end <= ARRAY_LEN(value); end++)
			for (uint32_t wanted = 0; wanted < 14; wanted++) {
				uint32_t at, first = from;

				while (first < end && value[first] < wanted)
					first++;
				SEARCH_SORTED(at, from, end, value[at] < wanted);
				assert_int_equal(at, first);
			}
}

/* The folder is that of this file's program; a buffer that is too small by one byte stays as it
 * is. */
static void test_program_folder(void **state)
{
	char folder[PATH_MAX], path[PATH_MAX + 16], *found;
	char *tight;
	size_t length;

	(void)state;
	assert_int_equal(program_folder(folder, sizeof(folder)), 0);
	length = strlen(folder);
	assert_int_equal(folder[0], '/');
	assert_int_not_equal(folder[length - 1], '/');
	(void)snprintf(path, sizeof(path), "%s/test_util", folder);
	found = realpath("/proc/self/exe", NULL);
	assert_string_equal(found, path);
	free(found);
	tight = calloc(1, length + 1);
	assert_non_null(tight);
	assert_int_equal(program_folder(tight, length), -ENAMETOOLONG);
	assert_int_equal(tight[0], '\0');
	assert_int_equal(program_folder(tight, length + 1), 0);
	assert_string_equal(tight, folder);
	free(tight);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_search_sorted),
		cmocka_unit_test(test_program_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
