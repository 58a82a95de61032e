/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and the progress bar's text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/table.h"

static const struct table_column columns[] = {
	{"n", TABLE_RIGHT}, {"manager", TABLE_LEFT}, {"s", TABLE_RIGHT}};

static char *printed(const struct table *table)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(table_print(table, out), 0);
	fclose(out);
	return text;
}

static void test_table_aligns_columns(void **state)
{
	struct table *table;
	char *text;

	(void)state;
	assert_int_equal(table_create(columns, 3, &table), 0);
	assert_int_equal(table_add(table, "%s", "15M"), 0);
	assert_int_equal(table_add(table, "weir"), 0);
	assert_int_equal(table_add(table, "%.2f", 2.5), 0);
	assert_int_equal(table_add(table, "1M"), 0);
	assert_int_equal(table_add(table, "zerocopies"), 0);
	assert_int_equal(table_add(table, "10.25"), 0);
	text = printed(table);
	assert_string_equal(text, "  n  manager         s\n"
				  "----------------------\n"
				  "15M  weir         2.50\n"
				  " 1M  zerocopies  10.25\n");
	free(text);
	table_destroy(table);
}

static void test_table_has_no_trailing_blanks(void **state)
{
	static const struct table_column left[] = {{"a", TABLE_LEFT}, {"check", TABLE_LEFT}};
	struct table *table;
	char *text;

	(void)state;
	assert_int_equal(table_create(left, 2, &table), 0);
	assert_int_equal(table_add(table, "x"), 0);
	assert_int_equal(table_add(table, "-"), 0);
	text = printed(table);
	assert_null(strstr(text, " \n"));
	free(text);
	table_destroy(table);
}

static void test_table_fills_a_short_last_row(void **state)
{
	struct table *table;
	char *text;

	(void)state;
	assert_int_equal(table_create(columns, 3, &table), 0);
	text = printed(table);
	assert_string_equal(text, "n  manager  s\n-------------\n");
	free(text);
	assert_int_equal(table_add(table, "1"), 0);
	text = printed(table);
	assert_string_equal(text, "n  manager  s\n-------------\n1            \n");
	free(text);
	table_destroy(table);
}

static void test_table_refuses_no_columns(void **state)
{
	struct table *table;

	(void)state;
	assert_int_equal(table_create(columns, 0, &table), -EINVAL);
	table_destroy(NULL);
}

static void test_table_reports_a_full_disk(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct table *table;

	(void)state;
	if (!full)
		skip();
	setvbuf(full, NULL, _IONBF, 0);
	assert_int_equal(table_create(columns, 3, &table), 0);
	assert_int_equal(table_print(table, full), -EIO);
	table_destroy(table);
	fclose(full);
}

static void test_progress_shows_the_time_left(void **state)
{
	char text[128];

	(void)state;
	progress_format(text, sizeof(text), 0.5, UINT64_C(65000000000), "weir");
	assert_string_equal(text, "[##############              ]  50 %  1 min 05 s left  weir");
	progress_format(text, sizeof(text), 0.0, 1000, "weir");
	assert_string_equal(text, "[                            ]   0 %  weir");
	progress_format(text, sizeof(text), 2.0, 1000, "x");
	assert_string_equal(text, "[############################] 100 %  0 s left  x");
}

static void test_progress_is_silent_in_a_pipe(void **state)
{
	FILE *file = tmpfile();
	struct progress bar;

	(void)state;
	assert_non_null(file);
	progress_start(&bar, file);
	progress_set(&bar, 0.5, "weir");
	progress_clear(&bar);
	assert_int_equal(ftell(file), 0);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_aligns_columns),
		cmocka_unit_test(test_table_has_no_trailing_blanks),
		cmocka_unit_test(test_table_fills_a_short_last_row),
		cmocka_unit_test(test_table_refuses_no_columns),
		cmocka_unit_test(test_table_reports_a_full_disk),
		cmocka_unit_test(test_progress_shows_the_time_left),
		cmocka_unit_test(test_progress_is_silent_in_a_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
