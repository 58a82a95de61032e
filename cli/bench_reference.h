/* SPDX-License-Identifier: Apache-2.0 */
/* What all runs of one size are compared with: a GPU with enough memory. */
#ifndef WEIR_CLI_BENCH_REFERENCE_H
#define WEIR_CLI_BENCH_REFERENCE_H

#include "cli/bench_run.h"

/*
 * native without a budget. On a simulated machine its device has as much memory as it takes. On a
 * real GPU the same is measured: epochs without recording, and one more for the trace; where that
 * does not fit the card, the description's model stands in.
 */
struct bench_reference {
	double epoch_s;	     /* after warm-up; measured: the median of some */
	uint64_t live_bytes; /* what the workload has allocated at its peak */
	/* The smallest GPU budget under which native gets through, by the simulation, where the
	 * pool makes the same calls as on a real GPU. More than live_bytes: segments have gaps. */
	uint64_t needs_bytes;
	struct trace *trace;	   /* of one epoch, after warm-up */
	bool measured;		   /* on a real GPU, which held it */
	bool timed;		   /* and so were the times of all launches of the trace */
	struct bench_outcome real; /* whose losses are right: with --check on the CPU, else
				    * of the measured run; zeroed where there are none */
};

/* 0 (bench_reference_fini() it), -EINTR, or an error: then err has one line. On a real GPU err may
 * have one with 0 as well: why something is modelled that should have been measured. */
int bench_reference_run(const struct bench_params *params, uint64_t nodes,
			struct bench_progress *work, struct bench_reference *out, char *err,
			size_t err_bytes);
void bench_reference_fini(struct bench_reference *reference);

/* What a size's reference weighs in the progress of the whole; see bench_run_weight(). */
double bench_reference_weight(const struct bench_params *params, uint64_t nodes);

#endif
