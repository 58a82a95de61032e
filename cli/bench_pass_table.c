/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_pass_table.h. Figures are rounded here and nowhere else. */
#include "cli/bench_pass_table.h"

#include <errno.h>

/* "edges paged, weights in place", or only "paged". */
static void put_picked(char *text, size_t text_bytes, const struct manager_stats *stats)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < stats->nr_picks && used < text_bytes; i++) {
		const struct manager_pick *pick = &stats->pick[i];

		used += (size_t)snprintf(text + used, text_bytes - used, "%s%s%s%s", i ? ", " : "",
					 stats->nr_picks > 1 ? pick->name : "",
					 stats->nr_picks > 1 ? " " : "", result_pick_name(pick));
	}
}

struct bench_pass_row bench_pass_row(const struct result *result, double rate)
{
	struct bench_pass_row row = {
		.budget_bytes = result->gpu_budget_bytes,
		.manager = result->manager,
		.status = result->status,
		.check = result->check,
		.median_s = result->epoch_median_s,
		.bound_s = result->bound_s,
		.rate = rate,
		.in = result->pass->in,
		.out = result->pass->out,
		.in_place = result->pass->in_place,
	};

	put_picked(row.picked, sizeof(row.picked), &result->stats);
	return row;
}

void bench_pass_row_add(struct table *table, const struct bench_pass_row *row)
{
	static const char *const checks[] = {"-", "right", "WRONG"};

	(void)table_add(table, "%s", row->manager);
	if (row->status == RESULT_OK)
		(void)table_add_double(table, "%.4g", row->median_s);
	else
		(void)table_add(table, "%s", result_status_name(row->status));
	(void)table_add_double(table, "%.4g", row->rate);
	(void)table_add_double(table, "%.0f", row->in);
	(void)table_add_double(table, "%.0f", row->out);
	(void)table_add_double(table, "%.0f", row->in_place);
	(void)table_add_double(table, "%.4g", row->bound_s);
	(void)table_add_double(table, "%.3f", row->median_s / row->bound_s);
	(void)table_add(table, "%s", row->status == RESULT_OK ? checks[row->check] : "-");
	(void)table_add(table, "%s", row->picked[0] ? row->picked : "-");
}

int bench_pass_table_end(struct table *table, FILE *out)
{
	int err = table_print(table, out);

	table_destroy(table);
	if (err)
		return err;
	fputs("\npass s: median of the measured passes. in, out: pages that the kernels moved in\n"
	      "one, in place: their accesses to the host's memory. distance: that time over the\n"
	      "lower bound for this budget. picked: what was done with memory that is paged\n"
	      "once that pays.\n",
	      out);
	return ferror(out) ? -EIO : 0;
}
