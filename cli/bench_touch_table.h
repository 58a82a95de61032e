/* SPDX-License-Identifier: Apache-2.0 */
/* What `weir bench pagein` and `weir bench gups` print for people. */
#ifndef WEIR_CLI_BENCH_TOUCH_TABLE_H
#define WEIR_CLI_BENCH_TOUCH_TABLE_H

#include "cli/bench_pass_table.h"
#include "cli/result_touch.h"

/* One result. */
struct bench_touch_row {
	bool gups;
	uint64_t bytes;
	uint32_t page_bytes;
	enum touch_pattern pattern;
	enum touch_access access;
	struct bench_pass_row pass; /* its rate: GB, or millions of updates, a second */
};

struct bench_touch_row bench_touch_row(const struct result *result);

/* 0, -ENOMEM or -EIO. */
int bench_touch_table_print(FILE *out, const struct bench_touch_row *rows, unsigned int nr);

#endif
