/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench gcn` is asked to do, read from its options and checked against the machine:
 * whatever can be known to be wrong before anything runs is refused here.
 */
#ifndef WEIR_CLI_BENCH_OPTIONS_H
#define WEIR_CLI_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "machine/machine_file.h"
#include "managers/manager.h"

#define BENCH_LIST_MAX 64 /* sizes or managers in one run */
#define BENCH_BUDGET_PERCENT_MAX 1000.0
#define BENCH_WARM_UP 2 /* epochs before the measured ones, of a random graph */

/* What may be used of other GPUs' memories, by memory; 0: none of it. */
struct bench_near {
	bool given;
	uint64_t bytes[WEIR_MEMORIES_MAX];
	double fraction[WEIR_MEMORIES_MAX]; /* as gpu_budget_fraction; 0: bytes are given */
	double bytes_per_s;		    /* over a link to one of them, each way; 0: no limit */
};

struct bench_params {
	struct weir_machine_desc machine;
	struct machine_file file; /* what machine was read from; on a real GPU what was measured of
				   * it before, or zeroed */
	uint32_t device;
	uint32_t nr_devices; /* from `device` on, that run the kernels; 0: 1 */
	enum weir_data data;

	char *manager_text; /* owned: what manager[] points into */
	const char *manager[BENCH_LIST_MAX];
	unsigned int nr_managers;
	uint64_t nodes[BENCH_LIST_MAX]; /* with a graph: its own, one */
	unsigned int nr_nodes;

	uint64_t gpu_budget_bytes;  /* never 0, unless a percentage is given */
	double gpu_budget_fraction; /* of what native needs; 0: bytes are given */
	uint64_t host_budget_bytes; /* never 0 */
	struct bench_near near;

	uint64_t slice, block_bytes, seed; /* block_bytes 0: the manager's default */
	uint32_t epochs, warm_up, hidden, threads;
	const char *graph_dir;	/* borrowed from argv; NULL: the random graph */
	const char *json;	/* borrowed from argv, as those below; NULL: none */
	const char *timeline;	/* file of the timeline */
	const char *fit;	/* file of the description with fitted kernels */
	const char *plan;	/* file of the levels that weir follows */
	const char *plan_input; /* file of what weir's plan is made from */
	bool timeline_all;	/* all of a run, not its last epoch */
	bool check, verbose, explain;
	bool oracle;	/* compare copies in with the least number of them */
	bool real_gpu;	/* the machine is this computer's, not a simulated one */
	char *command;	/* owned: the command line that asks for the same results */
	char date[24];	/* of the command, on a real GPU; else empty: nothing depends on it */
	char note[384]; /* one line that the user should see; or empty */
};

/*
 * Read the options of `weir bench gcn` (argv[0] is the first option).
 * @return 0 (bench_params_fini() it), or a negative errno: err has one line, culprit and remedy.
 */
int bench_params_parse(int argc, char **argv, struct bench_params *out, char *err,
		       size_t err_bytes);
void bench_params_fini(struct bench_params *params);

/* Whether losses are compared with those of a simulated machine that holds everything. */
static inline bool bench_has_losses(const struct bench_params *params)
{
	return params->data == WEIR_DATA_REAL && (!params->real_gpu || params->check);
}

/* What was measured of a real GPU before; NULL: nothing. */
static inline const struct weir_machine_desc *bench_measured(const struct bench_params *params)
{
	return params->real_gpu && params->file.nr_constants ? &params->file.desc : NULL;
}

/* The host memory that a device uses, as an index. */
uint32_t bench_host_memory(const struct bench_params *params);

void bench_params_help(FILE *out);

#endif
