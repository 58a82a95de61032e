/* SPDX-License-Identifier: Apache-2.0 */
/* What `weir bench pagein` and `weir bench gups` print for people. */
#ifndef WEIR_CLI_BENCH_TOUCH_TABLE_H
#define WEIR_CLI_BENCH_TOUCH_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/result_touch.h"

/* One result. manager is borrowed. */
struct bench_touch_row {
	bool gups;
	uint64_t bytes, budget_bytes;
	uint32_t page_bytes;
	enum touch_pattern pattern;
	enum touch_access access;
	const char *manager;
	enum result_status status;
	enum result_check check;
	double median_s, bound_s, useful_bytes_per_s, updates_per_s;
	double in, out, in_place; /* pages, accesses: NaN: not of this manager */
};

struct bench_touch_row bench_touch_row(const struct result *result);

/* 0, -ENOMEM or -EIO. */
int bench_touch_table_print(FILE *out, const struct bench_touch_row *rows, unsigned int nr);

#endif
