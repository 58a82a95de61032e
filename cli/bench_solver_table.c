/* SPDX-License-Identifier: Apache-2.0 */
/* See bench_solver_table.h. Figures are rounded here and nowhere else. */
#include "cli/bench_solver_table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/table.h"
#include "src/base/util.h"

/* An iteration where nothing is sent, with the row's budget if there is one of that; NaN: that was
 * not run. */
static double limit_s(const struct bench_solver_row *rows, unsigned int nr,
		      const struct bench_solver_row *row)
{
	double s = NAN;

	for (unsigned int i = 0; i < nr; i++) {
		const struct bench_solver_row *limit = &rows[i];

		if (!limit->ops->limit || limit->status != RESULT_OK ||
		    limit->params.devices != row->params.devices ||
		    memcmp(&limit->params.shape, &row->params.shape, sizeof(row->params.shape)))
			continue;
		if (limit->budget_bytes == row->budget_bytes)
			return limit->iteration_s;
		s = isnan(s) ? limit->iteration_s : s;
	}
	return s;
}

void bench_solver_field(const struct solver_params *p, uint32_t scale, char *text, size_t bytes)
{
	const struct solver_shape *shape = &p->shape;

	if (scale)
		snprintf(text, bytes, "kron%" PRIu32, scale);
	else if (p->kind == SOLVER_ALS)
		snprintf(text, bytes, "%" PRIu32 "x%" PRIu32, shape->slices, shape->rows);
	else if (p->kind == SOLVER_DIFFUSION)
		snprintf(text, bytes, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, shape->slices,
			 shape->rows, shape->columns);
	else
		snprintf(text, bytes, "%" PRIu32 "x%" PRIu32, shape->slices, shape->columns);
}

static void row_add_key(struct table *table, const struct bench_solver_row *row)
{
	char field[BENCH_SOLVER_FIELD_BYTES];

	bench_solver_field(&row->params, row->scale, field, sizeof(field));
	(void)table_add(table, "%s", field);
	(void)table_add(table, "%" PRIu32, row->params.devices);
	(void)table_add(table, "%s", row->ops->name);
	if (row->budget_bytes)
		(void)table_add_size(table, row->budget_bytes);
	else
		(void)table_add(table, "all");
}

static void row_add(struct table *table, const struct bench_solver_row *row, double limit)
{
	static const char *const checks[] = {"-", "right", "WRONG"};
	static const enum weir_cause causes[] = {WEIR_CAUSE_DEMAND, WEIR_CAUSE_PREFETCH,
						 WEIR_CAUSE_INPLACE};

	row_add_key(table, row);
	if (row->status == RESULT_OK)
		(void)table_add_double(table, "%.4g", row->iteration_s * 1e6);
	else
		(void)table_add(table, "%s", result_status_name(row->status));
	(void)table_add_double(table, "%.4g", row->bytes_per_s / 1e9);
	(void)table_add_double(table, "%.3f", row->speed_up);
	(void)table_add_double(table, "%.1f", 100 * limit / row->iteration_s);
	(void)table_add_double(table, "%.3f", row->iteration_s / row->bound_s);
	for (size_t i = 0; i < ARRAY_LEN(causes); i++)
		(void)table_add_size(table, row->moved_bytes[causes[i]]);
	(void)table_add(table, "%s", row->status == RESULT_OK ? checks[row->check] : "-");
}

/* ------------------------------------------------------------------ by mechanism */

static int print_mechanisms(FILE *out, const struct bench_solver_row *rows, unsigned int nr)
{
	static const struct table_column columns[] = {
		{"field", TABLE_RIGHT},	 {"GPUs", TABLE_RIGHT},	  {"manager", TABLE_LEFT},
		{"budget", TABLE_RIGHT}, {"whole", TABLE_RIGHT},  {"bytes", TABLE_RIGHT},
		{"runs", TABLE_RIGHT},	 {"bytes", TABLE_RIGHT},  {"packets", TABLE_RIGHT},
		{"bytes", TABLE_RIGHT},	 {"blocks", TABLE_RIGHT}, {"in place", TABLE_RIGHT},
	};
	struct table *table;
	int err = table_create(columns, ARRAY_LEN(columns), &table);

	if (err)
		return err;
	table_set_keys(table, 4);
	for (unsigned int i = 0; i < nr; i++) {
		row_add_key(table, &rows[i]);
		for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++) {
			(void)table_add(table, "%" PRIu64, rows[i].nr_sent[how]);
			(void)table_add_size(table, rows[i].sent_bytes[how]);
		}
		(void)table_add_size(table, rows[i].block_bytes);
		(void)table_add_size(table, rows[i].moved_bytes[WEIR_CAUSE_INPLACE]);
	}
	fputc('\n', out);
	err = table_print(table, out);
	table_destroy(table);
	if (err)
		return err;
	fputs("\nMessages in the whole run, also those over no link, and their bytes. whole: one\n"
	      "copy each, with what lies between elements of a list. runs: a copy for each\n"
	      "run of elements that follow each other. packets: elements side by side, packed and\n"
	      "unpacked by kernels. blocks: bytes of blocks that moved since a budget was too\n"
	      "small. in place: bytes that kernels used over links. Neither is a message.\n",
	      out);
	return 0;
}

int bench_solver_table_print(FILE *out, const struct bench_solver_row *rows, unsigned int nr,
			     const struct bench_params *base)
{
	static const struct table_column columns[] = {
		{"field", TABLE_RIGHT},	   {"GPUs", TABLE_RIGHT},	  {"manager", TABLE_LEFT},
		{"budget", TABLE_RIGHT},   {"iteration us", TABLE_RIGHT}, {"GB/s", TABLE_RIGHT},
		{"speed-up", TABLE_RIGHT}, {"limit %", TABLE_RIGHT},	  {"bound x", TABLE_RIGHT},
		{"fetched", TABLE_RIGHT},  {"published", TABLE_RIGHT},	  {"in place", TABLE_RIGHT},
		{"check", TABLE_LEFT},
	};
	struct table *table;
	int err = table_create(columns, ARRAY_LEN(columns), &table);

	if (err)
		return err;
	table_set_keys(table, 4);
	for (unsigned int i = 0; i < nr; i++)
		row_add(table, &rows[i], limit_s(rows, nr, &rows[i]));
	err = table_print(table, out);
	table_destroy(table);
	if (err)
		return err;
	fputs("\niteration us: median of the measured passes, over their iterations. speed-up:\n"
	      "over single. limit %: of the speed of weir+nopublish, which sends nothing.\n"
	      "bound x: the time over the lower bound, which knows no budget. fetched,\n"
	      "published, in place: over links in the whole run, by copies that are waited for,\n"
	      "by others, and by kernels. check: the field at the end.\n",
	      out);
	if (base->real_gpu)
		fputs("The bound's kernels are those of single as measured, in the share that a\n"
		      "GPU has of them; without single, those of the description's model.\n",
		      out);
	err = base->verbose ? print_mechanisms(out, rows, nr) : 0;
	return !err && ferror(out) ? -EIO : err;
}
