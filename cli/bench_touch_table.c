/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_touch_table.h. Figures are rounded here and nowhere else. */
#include "cli/bench_touch_table.h"

#include <errno.h>
#include <math.h>

#include "cli/size.h"
#include "cli/table.h"

#define GB 1e9

struct bench_touch_row bench_touch_row(const struct result *result)
{
	const struct touch_params *p = result->touch->params;

	return (struct bench_touch_row){
		.gups = p->kind == TOUCH_GUPS,
		.bytes = p->bytes,
		.budget_bytes = result->gpu_budget_bytes,
		.page_bytes = p->page_bytes,
		.pattern = p->pattern,
		.access = p->access,
		.manager = result->manager,
		.status = result->status,
		.check = result->check,
		.median_s = result->epoch_median_s,
		.bound_s = result->bound_s,
		.useful_bytes_per_s = result->touch->useful_bytes_per_s,
		.updates_per_s = result->touch->updates_per_s,
		.in = result->touch->in,
		.out = result->touch->out,
		.in_place = result->touch->in_place,
	};
}

/* Failures to add a cell are kept by the table and come out of table_print(). */
static void add_double(struct table *table, const char *format, double value)
{
	char text[32];

	snprintf(text, sizeof(text), format, value);
	(void)table_add(table, "%s", isfinite(value) ? text : "-");
}

static void add_size(struct table *table, uint64_t bytes)
{
	char text[SIZE_TEXT_BYTES];

	(void)table_add(table, "%s", size_format(bytes, text, sizeof(text)));
}

static void add_row(struct table *table, const struct bench_touch_row *row)
{
	static const char *const checks[] = {"-", "right", "WRONG"};

	add_size(table, row->bytes);
	add_size(table, row->budget_bytes);
	add_size(table, row->page_bytes);
	if (!row->gups) {
		(void)table_add(table, "%s", touch_pattern_name(row->pattern));
		(void)table_add(table, "%s", touch_access_name(row->access));
	}
	(void)table_add(table, "%s", row->manager);
	if (row->status == RESULT_OK)
		add_double(table, "%.4g", row->median_s);
	else
		(void)table_add(table, "%s", result_status_name(row->status));
	add_double(table, "%.4g",
		   row->gups ? row->updates_per_s / 1e6 : row->useful_bytes_per_s / GB);
	add_double(table, "%.0f", row->in);
	add_double(table, "%.0f", row->out);
	add_double(table, "%.0f", row->in_place);
	add_double(table, "%.4g", row->bound_s);
	add_double(table, "%.3f", row->median_s / row->bound_s);
	(void)table_add(table, "%s", row->status == RESULT_OK ? checks[row->check] : "-");
}

int bench_touch_table_print(FILE *out, const struct bench_touch_row *rows, unsigned int nr)
{
	static const struct table_column pagein[] = {
		{"table", TABLE_RIGHT},	   {"GPU budget", TABLE_RIGHT}, {"page", TABLE_RIGHT},
		{"pattern", TABLE_LEFT},   {"access", TABLE_LEFT},	{"manager", TABLE_LEFT},
		{"pass s", TABLE_RIGHT},   {"GB/s", TABLE_RIGHT},	{"in", TABLE_RIGHT},
		{"out", TABLE_RIGHT},	   {"in place", TABLE_RIGHT},	{"bound s", TABLE_RIGHT},
		{"distance", TABLE_RIGHT}, {"check", TABLE_LEFT},
	};
	static const struct table_column gups[] = {
		{"table", TABLE_RIGHT},	  {"GPU budget", TABLE_RIGHT}, {"page", TABLE_RIGHT},
		{"manager", TABLE_LEFT},  {"pass s", TABLE_RIGHT},     {"M updates/s", TABLE_RIGHT},
		{"in", TABLE_RIGHT},	  {"out", TABLE_RIGHT},	       {"in place", TABLE_RIGHT},
		{"bound s", TABLE_RIGHT}, {"distance", TABLE_RIGHT},   {"check", TABLE_LEFT},
	};
	bool is_gups = nr && rows[0].gups;
	struct table *table;
	int err;

	err = table_create(
		is_gups ? gups : pagein,
		is_gups ? sizeof(gups) / sizeof(*gups) : sizeof(pagein) / sizeof(*pagein), &table);
	if (err)
		return err;
	for (unsigned int i = 0; i < nr; i++)
		add_row(table, &rows[i]);
	err = table_print(table, out);
	table_destroy(table);
	if (err)
		return err;
	fputs("\npass s: median of the measured passes. in, out: pages that the kernel moved in "
	      "one, in place: its\naccesses to the host's memory. distance: that time over the "
	      "lower bound for this budget.\n",
	      out);
	return ferror(out) ? -EIO : 0;
}
