/* SPDX-License-Identifier: Apache-2.0 */
/* Tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Wider than 80 columns: in parts, with the keys; keys that are the same everywhere stand above. */
static void test_table_in_parts(void **state)
{
	static const struct table_column wide[] = {{"nodes", TABLE_RIGHT},  {"budget", TABLE_RIGHT},
						   {"manager", TABLE_LEFT}, {"first", TABLE_RIGHT},
						   {"second", TABLE_RIGHT}, {"third", TABLE_LEFT}};
	struct table *table;
	char *text;

	(void)state;
	assert_int_equal(unsetenv("COLUMNS"), 0);
	assert_int_equal(table_create(wide, 6, &table), 0);
	table_set_keys(table, 3);
	for (int row = 1; row <= 2; row++) {
		assert_int_equal(table_add(table, "%dM", row), 0);
		assert_int_equal(table_add(table, "1 GB"), 0);
		assert_int_equal(table_add(table, row == 1 ? "weir" : "native"), 0);
		assert_int_equal(table_add(table, "%030d", row), 0);
		assert_int_equal(table_add(table, "%033d", row), 0);
		assert_int_equal(table_add(table, "x"), 0);
	}
	text = printed(table);
	assert_string_equal(text, "budget: 1 GB\n\n"
				  "nodes  manager                           first\n"
				  "----------------------------------------------\n"
				  "   1M  weir     000000000000000000000000000001\n"
				  "   2M  native   000000000000000000000000000002\n\n"
				  "nodes  manager                             second  third\n"
				  "--------------------------------------------------------\n"
				  "   1M  weir     000000000000000000000000000000001  x\n"
				  "   2M  native   000000000000000000000000000000002  x\n");
	free(text);
	assert_int_equal(setenv("COLUMNS", "120", 1), 0);
	text = printed(table);
	assert_int_equal(strcspn(text, "\n"), 96);
	assert_non_null(strstr(text, "1 GB  weir"));
	free(text);
	assert_int_equal(unsetenv("COLUMNS"), 0);
	table_destroy(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_aligns_columns),
		cmocka_unit_test(test_table_has_no_trailing_blanks),
		cmocka_unit_test(test_table_fills_a_short_last_row),
		cmocka_unit_test(test_table_refuses_no_columns),
		cmocka_unit_test(test_table_reports_a_full_disk),
		cmocka_unit_test(test_table_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
