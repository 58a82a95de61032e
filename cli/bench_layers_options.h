/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench layers` is asked to do. As in bench_options.h: whatever can be known to be wrong
 * before anything runs is refused here.
 */
#ifndef WEIR_CLI_BENCH_LAYERS_OPTIONS_H
#define WEIR_CLI_BENCH_LAYERS_OPTIONS_H

#include "cli/bench_pass_options.h"
#include "workloads/layers/layers.h"

/* Several splits are run, and the fastest is the result. */
#define BENCH_SPLIT_BEST (LAYERS_NO_SPLIT - 1)

/* Each order is run with each budget, each split and each manager. */
struct bench_layers_params {
	struct bench_pass_params pass;
	uint64_t range_bytes;
	uint32_t nr_ranges;
	enum layers_order order[LAYERS_ORDER_NR];
	uint32_t split[BENCH_LIST_MAX]; /* ranges, LAYERS_NO_SPLIT or BENCH_SPLIT_BEST */
	unsigned int nr_orders, nr_splits;
	bool write;
	double compute;
};

/* As bench_params_parse(). */
int bench_layers_parse(int argc, char **argv, struct bench_layers_params *out, char *err,
		       size_t err_bytes);
void bench_layers_params_fini(struct bench_layers_params *params);

/* One case's parameters, but for progress. */
struct layers_params bench_layers_case(const struct bench_layers_params *params,
				       enum layers_order order, uint32_t split);

/* All ranges. */
static inline uint64_t bench_layers_bytes(const struct bench_layers_params *params)
{
	return params->nr_ranges * params->range_bytes;
}

void bench_layers_help(FILE *out);

#endif
