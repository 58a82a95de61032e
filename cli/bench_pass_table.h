/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of workloads that make passes share: the columns from the manager on. */
#ifndef WEIR_CLI_BENCH_PASS_TABLE_H
#define WEIR_CLI_BENCH_PASS_TABLE_H

#include "cli/result.h"
#include "cli/table.h"

#define BENCH_PASS_COLUMNS(rate)                                                            \
	{"manager", TABLE_LEFT}, {"pass s", TABLE_RIGHT}, {rate, TABLE_RIGHT},              \
		{"in", TABLE_RIGHT}, {"out", TABLE_RIGHT}, {"in place", TABLE_RIGHT},       \
		{"bound s", TABLE_RIGHT}, {"distance", TABLE_RIGHT}, {"check", TABLE_LEFT}, \
	{                                                                                   \
		"picked", TABLE_LEFT                                                        \
	}

/* One result. manager is borrowed. */
struct bench_pass_row {
	uint64_t budget_bytes;
	const char *manager;
	enum result_status status;
	enum result_check check;
	double median_s, bound_s;
	double rate;		  /* in the unit of its column */
	double in, out, in_place; /* pages, accesses: NaN: not of this manager */
	char picked[64];	  /* by allocation; empty: the manager does not pick */
};

struct bench_pass_row bench_pass_row(const struct result *result, double rate);

/* Its cells. Failures are kept by the table. */
void bench_pass_row_add(struct table *table, const struct bench_pass_row *row);

/* Print a table that is whole, what its columns mean, and destroy it. 0, -ENOMEM or -EIO. */
int bench_pass_table_end(struct table *table, FILE *out);

#endif
