/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, counts, rates and durations: what is read, what is refused, what is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/size.h"

struct reading {
	const char *text;
	int err;
	uint64_t value;
};

static void check(int (*parse)(const char *text, uint64_t *out), const struct reading *readings,
		  size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint64_t value = 12345;
		int err = parse(readings[i].text, &value);
		uint64_t expected = readings[i].err ? 12345 : readings[i].value;

		if (err != readings[i].err || value != expected)
			fail_msg("'%s': %d and %llu, not %d and %llu", readings[i].text, err,
				 (unsigned long long)value, readings[i].err,
				 (unsigned long long)expected);
	}
}

static void test_size_parse_accepts(void **state)
{
	static const struct reading readings[] = {
		{"0", 0, 0},
		{"1", 0, 1},
		{"00012", 0, 12},
		{"4096", 0, 4096},
		{"512B", 0, 512},
		{"512 B", 0, 512},
		{"1.0", 0, 1},
		{"1.000000000000000000000000000", 0, 1},
		{"1k", 0, 1000},
		{"1K", 0, 1000},
		{"1kB", 0, 1000},
		{"1KB", 0, 1000},
		{"1Ki", 0, 1024},
		{"1KiB", 0, 1024},
		{"2M", 0, 2000000},
		{"2MB", 0, 2000000},
		{"2MiB", 0, 2097152},
		{"2Mi", 0, 2097152},
		{"3G", 0, 3000000000},
		{"3GB", 0, 3000000000},
		{"3Gi", 0, 3221225472},
		{"3GiB", 0, 3221225472},
		{"4T", 0, 4000000000000},
		{"4TB", 0, 4000000000000},
		{"4Ti", 0, 4398046511104},
		{"4TiB", 0, 4398046511104},
		{"33.67GB", 0, 33670000000},
		{"33.67 GB", 0, 33670000000},
		{"1.5k", 0, 1500},
		{"0.5KiB", 0, 512},
		/* Parts of a byte go to the nearest, upwards from a half. */
		{"0.1GiB", 0, 107374182},
		{"0.0005k", 0, 1},
		{"1.0005k", 0, 1001},
		{"1.0004k", 0, 1000},
		{"0.0000000000005T", 0, 1},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551.615k", 0, UINT64_MAX},
		{"16777215.999999TiB", 0, UINT64_C(18446744073708452104)},
		{"0GB", 0, 0},
		{"0.000k", 0, 0},
	};

	(void)state;
	check(size_parse, readings, sizeof(readings) / sizeof(*readings));
}

static void test_size_parse_refuses(void **state)
{
	static const struct reading readings[] = {
		{NULL, -EINVAL, 0},
		{"", -EINVAL, 0},
		{" ", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1  GB", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{"-0", -EINVAL, 0},
		{"GB", -EINVAL, 0},
		{".5G", -EINVAL, 0},
		{"5.G", -EINVAL, 0},
		{"5.", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"1.5B", -EINVAL, 0},
		{"1e9", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1,000", -EINVAL, 0},
		{"1.2.3", -EINVAL, 0},
		{"1g", -EINVAL, 0},
		{"1gb", -EINVAL, 0},
		{"1Gb", -EINVAL, 0},
		{"1GBx", -EINVAL, 0},
		{"1GB ", -EINVAL, 0},
		{"1GiBB", -EINVAL, 0},
		{"1P", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{"inf", -EINVAL, 0},
		{"ten", -EINVAL, 0},
		{"\xd9\xa1", -EINVAL, 0}, /* a digit, but an Arabic one */
		{"0.0001k", -EINVAL, 0},  /* rounds to nothing */
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999999", -ERANGE, 0},
		{"18446744073709551.6155k", -ERANGE, 0}, /* rounds to 2^64 */
		{"16777216TiB", -ERANGE, 0},
		{"18446745T", -ERANGE, 0},
		{"18446744073709551615T", -ERANGE, 0},
		{"0.1234567890123456789k", -ERANGE, 0},
	};

	(void)state;
	check(size_parse, readings, sizeof(readings) / sizeof(*readings));
}

static void test_count_parse(void **state)
{
	static const struct reading readings[] = {
		{"0", 0, 0},
		{"1000000", 0, 1000000},
		{"20k", 0, 20000},
		{"20K", 0, 20000},
		{"5M", 0, 5000000},
		{"1.5M", 0, 1500000},
		{"2.0", 0, 2},
		{"1G", 0, 1000000000},
		{"1T", 0, 1000000000000},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"18446744073710M", -ERANGE, 0},
		/* A count is whole. */
		{"1.5", -EINVAL, 0},
		{"1.2345k", -EINVAL, 0},
		{"5MB", -EINVAL, 0},
		{"5Mi", -EINVAL, 0},
		{"5 M", -EINVAL, 0},
		{"5B", -EINVAL, 0},
		{"-5", -EINVAL, 0},
		{"1e6", -EINVAL, 0},
		{"5M,8M", -EINVAL, 0},
		{"", -EINVAL, 0},
		{NULL, -EINVAL, 0},
	};

	(void)state;
	check(count_parse, readings, sizeof(readings) / sizeof(*readings));
}

static void test_size_format(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1, "1 B"},
		{1000, "1000 B"},
		{1023, "1023 B"},
		{1024, "1 KiB"},
		{1025, "1.025 kB"},
		{2097152, "2 MiB"},
		{149250113536, "139 GiB"},
		{33670000000, "33.67 GB"},
		{8000000000, "8 GB"},
		{1000000, "1 MB"},
		{999950, "1 MB"},
		{999949, "999.9 kB"},
		{UINT64_C(1) << 40, "1 TiB"},
		{UINT64_C(1) << 60, "1152922 TB"},
		{UINT64_MAX, "18446744 TB"},
	};
	char text[SIZE_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(size_format(cases[i].bytes, text, sizeof(text)), cases[i].text);
}

/* What is printed can be typed. */
static void test_size_format_is_read_back(void **state)
{
	char text[SIZE_TEXT_BYTES];

	(void)state;
	for (unsigned shift = 0; shift < 64; shift++) {
		for (uint64_t times = 1; times < 16; times += 2) {
			uint64_t bytes = (UINT64_C(1) << shift) / times;
			uint64_t back = 0, off;

			if (!bytes)
				continue;
			assert_int_equal(size_parse(size_format(bytes, text, sizeof(text)), &back),
					 0);
			off = back > bytes ? back - bytes : bytes - back;
			assert_true(off <= bytes / 1998);
		}
	}
}

static void test_others_format(void **state)
{
	char text[SIZE_TEXT_BYTES];

	(void)state;
	assert_string_equal(count_format(0, text, sizeof(text)), "0");
	assert_string_equal(count_format(15000000, text, sizeof(text)), "15M");
	assert_string_equal(count_format(1333, text, sizeof(text)), "1.333k");
	assert_string_equal(duration_format(0, text, sizeof(text)), "0 ns");
	assert_string_equal(duration_format(600, text, sizeof(text)), "600 ns");
	assert_string_equal(duration_format(53667, text, sizeof(text)), "53.67 us");
	assert_string_equal(duration_format(2798000000, text, sizeof(text)), "2.798 s");
	assert_string_equal(duration_format(20000000000000, text, sizeof(text)), "20000 s");
	assert_string_equal(rate_format(55.4e9, "B/s", text, sizeof(text)), "55.4 GB/s");
	assert_string_equal(rate_format(60e12, "/s", text, sizeof(text)), "60 T/s");
	assert_string_equal(rate_format(0.25, "B/s", text, sizeof(text)), "0.25 B/s");
}

static void test_format_is_cut(void **state)
{
	char text[4];

	(void)state;
	assert_string_equal(size_format(33670000000, text, sizeof(text)), "33.");
	assert_string_equal(size_format(0, text, 1), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size_parse_accepts),
		cmocka_unit_test(test_size_parse_refuses),
		cmocka_unit_test(test_count_parse),
		cmocka_unit_test(test_size_format),
		cmocka_unit_test(test_size_format_is_read_back),
		cmocka_unit_test(test_others_format),
		cmocka_unit_test(test_format_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
