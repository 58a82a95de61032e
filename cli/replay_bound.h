/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower bound of what `weir replay` replays: the mean of the bounds of the epochs that count,
 * each for itself, so that it holds whatever the program does between two epochs.
 */
#ifndef WEIR_CLI_REPLAY_BOUND_H
#define WEIR_CLI_REPLAY_BOUND_H

#include "cli/bench_options.h"
#include "workloads/replay.h"

/* Epochs in which the same is asked for. */
struct replay_alike {
	struct trace *steps;
	uint32_t nr;
};

struct replay_bound {
	const struct bench_params *params; /* the machine and the device */
	struct replay_alike *alike;
	uint32_t nr_alike, nr_epochs; /* nr_alike 0: there is no bound */
	/* Known of the newest budget, without other devices' memory and with it. */
	struct {
		uint64_t budget_bytes; /* 0: of none */
		double s;
	} known[2];
};

/* Find the epochs, without warm_up of them. Where there can be no bound there is none. */
void replay_bound_init(struct replay_bound *b, const struct trace_file *file,
		       const struct replay_plan *plan, uint32_t warm_up,
		       const struct bench_params *params);
void replay_bound_fini(struct replay_bound *b);

/* Of one epoch on average; NaN: not known. near_bytes: as in bound_compute(), always the same, or
 * NULL. */
double replay_bound_s(struct replay_bound *b, uint64_t budget_bytes, const uint64_t *near_bytes);

#endif
