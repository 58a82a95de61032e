/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_touch_table.h. */
#include "cli/bench_touch_table.h"

#include "src/base/util.h"

struct bench_touch_row bench_touch_row(const struct result *result)
{
	const struct result_touch *touch = result->pass->of;
	const struct touch_params *p = touch->params;
	bool gups = p->kind == TOUCH_GUPS;

	return (struct bench_touch_row){
		.gups = gups,
		.bytes = p->bytes,
		.page_bytes = p->page_bytes,
		.pattern = p->pattern,
		.access = p->access,
		.pass = bench_pass_row(result, gups ? touch->updates_per_s / 1e6
						    : result->pass->useful_bytes_per_s / 1e9),
	};
}

/* Failures to add a cell are kept by the table and come out at its end. */
static void add_row(struct table *table, const struct bench_touch_row *row)
{
	(void)table_add_size(table, row->bytes);
	(void)table_add_size(table, row->pass.budget_bytes);
	(void)table_add_size(table, row->page_bytes);
	if (!row->gups) {
		(void)table_add(table, "%s", touch_pattern_name(row->pattern));
		(void)table_add(table, "%s", touch_access_name(row->access));
	}
	bench_pass_row_add(table, &row->pass);
}

int bench_touch_table_print(FILE *out, const struct bench_touch_row *rows, unsigned int nr)
{
	static const struct table_column pagein[] = {
		{"table", TABLE_RIGHT},	 {"GPU budget", TABLE_RIGHT}, {"page", TABLE_RIGHT},
		{"pattern", TABLE_LEFT}, {"access", TABLE_LEFT},      BENCH_PASS_COLUMNS("GB/s"),
	};
	static const struct table_column gups[] = {
		{"table", TABLE_RIGHT},
		{"GPU budget", TABLE_RIGHT},
		{"page", TABLE_RIGHT},
		BENCH_PASS_COLUMNS("M updates/s"),
	};
	bool is_gups = nr && rows[0].gups;
	struct table *table;
	int err;

	err = table_create(is_gups ? gups : pagein, is_gups ? ARRAY_LEN(gups) : ARRAY_LEN(pagein),
			   &table);
	if (err)
		return err;
	table_set_keys(table, is_gups ? 4 : 6);
	for (unsigned int i = 0; i < nr; i++)
		add_row(table, &rows[i]);
	return bench_pass_table_end(table, out);
}
