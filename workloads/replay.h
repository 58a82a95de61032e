/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a workload: its allocations and launches, in their order, through any manager on a
 * simulated machine without bytes. A bracket is one launch, of a kernel with the bracket's uses and
 * operations. What the program does between its calls it does again, as host time, and so are
 * advice, prefetches and changes of budgets, where the manager takes them, unless that is left out.
 * An epoch ends once the device is idle.
 */
#ifndef WEIR_REPLAY_H
#define WEIR_REPLAY_H

#include "workloads/trace_file.h"
#include "workloads/workload.h"

/* What the trace is of; what it has that cannot be replayed is told in err. */
struct replay_plan {
	uint32_t nr_epochs;   /* from each mark that is no pause to the next mark */
	uint32_t nr_devices;  /* that have brackets, or lie between two that do */
	uint32_t device;      /* the first of them */
	uint64_t needs_bytes; /* allocated at most */
};

struct replay_params {
	const struct trace_file *file;	/* borrowed */
	const struct replay_plan *plan; /* what replay_check() said; borrowed */
	bool think;			/* with what the program does between its calls */
	bool advice;			/* with advice, prefetches and changes of budgets */
	bool cold;			/* each epoch begins with nothing in the device's memory */
	uint32_t warm_up;		/* epochs that do not count */
	/* What the manager was given of the device's memory, of several devices' of each, and of
	 * the host's: where the trace changes a budget, these change in proportion. */
	uint64_t gpu_budget_bytes, host_budget_bytes;
	workload_progress_fn progress; /* of epochs; may be NULL */
	void *progress_arg;
	/* Called as the epochs that count begin, and as they end, between two launches; may be
	 * NULL. What it returns ends the replay unless it is 0. */
	int (*counting)(void *arg, bool begin);
	void *counting_arg;
};

/* -ENOTSUP: paged ranges or windows of replicated ones, or no allocation. */
int replay_check(const struct trace_file *file, struct replay_plan *out, char *err,
		 size_t err_bytes);

/* The parts of a trace that its epochs are: plan->nr_epochs of them. */
void replay_epochs(const struct trace_file *file, struct trace_span *span);

/* What a trace says of a memory's budget last before its first mark; 0: nothing. */
uint64_t replay_budget(const struct trace_file *file, uint32_t memory);

/*
 * A machine's kernel factors as the trace measured them, for kernels that the description does not
 * list: what they took with everything in the device's memory over what the cost model says. Of a
 * trace of a simulated machine, those of its description. kernels that the machine has no room for
 * have none.
 */
void replay_kernels(const struct trace_file *file, struct weir_machine_desc *machine);

/*
 * Replay it. epoch_s: of the plan's epochs, without warm_up: written as far as they were reached.
 * A manager of plan->nr_devices devices is needed; on each of them a trace's launches are queued
 * one behind the other.
 * 0 or an error of the manager, with one line: -ENOMEM, -EINTR (progress said so), ...
 */
int replay_run(struct manager *m, const struct replay_params *p, double *epoch_s, char *err,
	       size_t err_bytes);

#endif
