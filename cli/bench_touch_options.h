/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench pagein` and `weir bench gups` are asked to do. As in bench_options.h: whatever
 * can be known to be wrong before anything runs is refused here.
 */
#ifndef WEIR_CLI_BENCH_TOUCH_OPTIONS_H
#define WEIR_CLI_BENCH_TOUCH_OPTIONS_H

#include "cli/bench_options.h"
#include "workloads/touch/touch.h"

/* Each size, page and pattern is run under each manager. */
struct bench_touch_params {
	/* Machine, device, data, managers, host budget, seed, epochs (measured passes), warm-up,
	 * json and check; the GPU budget is one of frames, 0: the whole table. */
	struct bench_params base;
	enum touch_kind kind;
	uint64_t bytes[BENCH_LIST_MAX];
	uint64_t page_bytes[BENCH_LIST_MAX];
	enum touch_pattern pattern[TOUCH_PATTERN_NR];
	unsigned int nr_bytes, nr_page_bytes, nr_patterns;
	enum touch_access access;
	double touch_fraction; /* of the pages, in a pass; 0: gups */
	bool elements, warm;
	uint64_t updates; /* a pass; 0: by the table */
	uint32_t blocks, threads, agents;
};

/* As bench_params_parse(). */
int bench_touch_parse(enum touch_kind kind, int argc, char **argv, struct bench_touch_params *out,
		      char *err, size_t err_bytes);
void bench_touch_params_fini(struct bench_touch_params *params);

/* GPU memory for the table, of so many bytes. */
uint64_t bench_touch_budget(const struct bench_touch_params *params, uint64_t bytes,
			    uint64_t page_bytes);

/* One case's parameters, but for progress. */
struct touch_params bench_touch_case(const struct bench_touch_params *params, uint64_t bytes,
				     uint64_t page_bytes, enum touch_pattern pattern);

/* What a manager gets of the GPU's memory: the budget, and what the sums and a pool's granularity
 * take beside it; 0: all there is. */
uint64_t bench_touch_room(const struct bench_touch_params *params, uint64_t budget_bytes);

void bench_touch_help(enum touch_kind kind, FILE *out);

#endif
