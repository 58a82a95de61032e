/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How workloads run that make passes over memory: each case under each manager, on a fresh machine,
 * with the table at the end. As for other workloads, the output of a simulated machine is the same
 * byte for byte from two runs; with more than one agent, what agents do depends on the host.
 */
#ifndef WEIR_CLI_BENCH_PASS_H
#define WEIR_CLI_BENCH_PASS_H

#include "cli/bench_explain.h"
#include "cli/bench_host.h"
#include "cli/bench_pass_options.h"
#include "cli/bench_policy.h"
#include "cli/bench_record.h"
#include "cli/bench_write.h"
#include "cli/progress.h"
#include "cli/result.h"
#include "workloads/passes.h"
#include "workloads/passes_bound.h"
#include "workloads/workload.h"

#define BENCH_PASS_ERROR_BYTES 512

/* One run of the command: zeroed, but for the first two. */
struct bench_pass {
	const struct bench_pass_params *params; /* borrowed */
	double total;				/* of the progress, in passes of all cases */
	double done;
	struct bench_files files;
	struct progress bar;
	struct bench_decisions decisions;
	struct bench_explain explain;
	int status; /* exit status so far */
	char err[BENCH_PASS_ERROR_BYTES];
};

/* One case under one manager, and what came of it. */
struct bench_pass_run {
	const char *manager;
	uint64_t needs_bytes;  /* managed */
	uint64_t budget_bytes; /* of frames; others get bench_pass_room() of it */
	uint32_t page_bytes, passes;
	const struct weir_paged_kernels *kernels; /* of the workload, for real GPUs */
	/* Do the work on a manager, telling `progress` of it; 0 or an error with one line. */
	int (*work)(struct manager *m, void *arg, workload_progress_fn progress, void *progress_arg,
		    char *err, size_t err_bytes);
	/* The same on a machine, for workloads with managers of their own, which fill stats; then
	 * work is NULL. */
	int (*work_on)(struct weir_machine *machine, void *arg, workload_progress_fn progress,
		       void *progress_arg, char *err, size_t err_bytes);
	void *arg;

	int err;			    /* 0, -ENOMEM: it does not fit, else it failed */
	char error[BENCH_PASS_ERROR_BYTES]; /* in words */
	struct manager_stats stats;
	struct bench_host host;
	double run_s;				/* of the computer's time */
	uint64_t near_bytes[WEIR_MEMORIES_MAX]; /* other GPUs' that the manager may use */
	struct bench_record record; /* of work_on, if it got through and one is wanted */
	bool explains;		    /* what was planned is asked for, */
	struct explain *explain;    /* and this is it; NULL: the manager plans nothing */
};

/* A line on standard error, the bar out of its way. */
void bench_pass_complain(struct bench_pass *b, const char *text);

/* Complain of b->err, and remember the exit status. Returns -1. */
int bench_pass_stop(struct bench_pass *b, int status);

/*
 * The command, but for its options: `run` does all cases, or returns -1 after bench_pass_stop() or
 * an interrupt; then `print` writes the table, and returns 0 or a negative errno.
 * @return the exit status.
 */
int bench_pass_main(struct bench_pass *b, int (*run)(void *arg), int (*print)(void *arg, FILE *out),
		    void *arg);

/* Run one case under its manager, on a machine opened for it. bench_pass_run_fini() it. */
void bench_pass_run(struct bench_pass *b, struct bench_pass_run *run);
void bench_pass_run_fini(struct bench_pass_run *run);

/* For work_on: what the manager planned, if that is asked for, before it is destroyed. 0, or an
 * error with one line. */
int bench_pass_explain(struct bench_pass_run *run, struct manager *m, char *err, size_t err_bytes);

/* What a pass finds and leaves of what is managed in GPUs' memory, at most; borrows the run's
 * near_bytes. On a real GPU nothing limits what the driver keeps there of managed memory. */
struct passes_held bench_pass_held(const struct bench_pass *b, const struct bench_pass_run *run);

/* What a result borrows, of one run. */
struct bench_pass_result {
	struct result_pass pass;
	struct result_real_gpu gpu;
	struct result result;
};

/* All of a result but its workload, and what pass.parameters and pass.members write. r, bound_s: of
 * its passes; looked at only if the run did not fail. Borrowed. */
void bench_pass_fill(const struct bench_pass *b, const struct bench_pass_run *run,
		     const struct passes_result *r, double bound_s, struct bench_pass_result *out);

/* The record of a run, if there is one, goes into the timeline. title: what the run is called;
 * r: of its passes. 0, or -1 as bench_pass_stop(). */
int bench_pass_add_timeline(struct bench_pass *b, const struct bench_pass_run *run,
			    const struct passes_result *r, const char *title);

/* A result is there: say what is wrong with it, and write it. 0, or -1 as bench_pass_stop(). */
int bench_pass_add(struct bench_pass *b, const struct result *result);

#endif
