/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench pagein` and `weir bench gups` are asked to do. As in bench_options.h: whatever
 * can be known to be wrong before anything runs is refused here.
 */
#ifndef WEIR_CLI_BENCH_TOUCH_OPTIONS_H
#define WEIR_CLI_BENCH_TOUCH_OPTIONS_H

#include "cli/bench_pass_options.h"
#include "workloads/touch/touch.h"

/* Each size, page, budget and pattern is run under each manager. */
struct bench_touch_params {
	struct bench_pass_params pass;
	enum touch_kind kind;
	uint64_t bytes[BENCH_LIST_MAX];
	enum touch_pattern pattern[TOUCH_PATTERN_NR];
	unsigned int nr_bytes, nr_patterns;
	enum touch_access access;
	double touch_fraction; /* of the pages, in a pass; 0: gups */
	bool elements;
	uint64_t updates; /* a pass; 0: by the table */
};

/* As bench_params_parse(). */
int bench_touch_parse(enum touch_kind kind, int argc, char **argv, struct bench_touch_params *out,
		      char *err, size_t err_bytes);
void bench_touch_params_fini(struct bench_touch_params *params);

/* One case's parameters, but for progress. */
struct touch_params bench_touch_case(const struct bench_touch_params *params, uint64_t bytes,
				     uint64_t page_bytes, enum touch_pattern pattern);

void bench_touch_help(enum touch_kind kind, FILE *out);

#endif
