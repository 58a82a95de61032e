/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench jacobi`, `diffusion` and `als`, and `pagerank` and `sssp` on several devices,
 * are asked to do. As in bench_options.h: whatever can be known to be wrong before anything runs is
 * refused here.
 */
#ifndef WEIR_CLI_BENCH_SOLVER_OPTIONS_H
#define WEIR_CLI_BENCH_SOLVER_OPTIONS_H

#include "cli/bench_pass.h"
#include "workloads/solver/solver.h"

/* Each size and number of devices is run under each manager; under those that take one device, each
 * size once, and under those that spill with each budget. */
struct bench_solver_params {
	/* Of base: machine, data, managers, epochs (measured passes), warm-up, json and check; the
	 * budgets, of which one is all of a GPU's memory where none is asked for. */
	struct bench_pass_params pass;
	enum solver_kind kind;
	struct solver_shape size[BENCH_LIST_MAX];
	unsigned int nr_sizes;
	/* Of what runs on graphs, by size: a phantom one, split between all numbers of devices. */
	struct solver_graph graph[BENCH_LIST_MAX];
	uint64_t degree, seed;
	uint32_t devices[WEIR_DEVICES_MAX];
	unsigned int nr_devices;
	uint32_t iterations;
};

/* As bench_params_parse(). */
int bench_solver_parse(enum solver_kind kind, int argc, char **argv,
		       struct bench_solver_params *out, char *err, size_t err_bytes);
void bench_solver_params_fini(struct bench_solver_params *params);

/* One case's parameters, but for progress, on the size-th size. */
struct solver_params bench_solver_case(const struct bench_solver_params *params, unsigned int size,
				       uint32_t devices);

/* What each device may use of its memory; 0: all. Returns the largest of them. */
uint64_t bench_solver_budget(const struct bench_solver_params *p, const struct solver_params *one,
			     const struct bench_budget *budget, uint64_t out[WEIR_DEVICES_MAX]);

void bench_solver_help(enum solver_kind kind, FILE *out);

#endif
