/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a workload: its allocations and launches, in their order, through any manager on a
 * simulated machine without bytes. A bracket is one launch, of a kernel with the bracket's uses and
 * operations. What the program does between its calls it does again, as host time, unless that is
 * left out. Advice, prefetches and changes of budgets are for what recorded it, and are left out.
 */
#ifndef WEIR_REPLAY_H
#define WEIR_REPLAY_H

#include "workloads/trace_file.h"
#include "workloads/workload.h"

struct replay_params {
	const struct trace_file *file; /* borrowed */
	bool think;		       /* with what the program does between its calls */
	uint32_t warm_up;	       /* epochs that do not count */
	workload_progress_fn progress; /* of epochs; may be NULL */
	void *progress_arg;
};

/* What the trace is of; what it has that cannot be replayed is told in err. */
struct replay_plan {
	uint32_t nr_epochs;   /* from each mark to the next one */
	uint64_t needs_bytes; /* allocated at most */
};

/* -ENOTSUP: brackets of several devices, paged ranges or windows of replicated ones. */
int replay_check(const struct trace_file *file, struct replay_plan *out, char *err,
		 size_t err_bytes);

/*
 * A machine's kernel factors as the trace measured them, for kernels that the description does not
 * list: what they took with everything in the device's memory over what the cost model says. Of a
 * trace of a simulated machine, those of its description. kernels that the machine has no room for
 * have none.
 */
void replay_kernels(const struct trace_file *file, struct weir_machine_desc *machine);

/*
 * Replay it. epoch_s: of the plan's epochs, without warm_up: written as far as they were reached.
 * 0 or an error of the manager, with one line: -ENOMEM, -EINTR (progress said so), ...
 */
int replay_run(struct manager *m, const struct replay_params *p, double *epoch_s, char *err,
	       size_t err_bytes);

#endif
