/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run of the benchmark records beside its times, from some epoch on: the trace of what the
 * workload asked for (workloads/trace.h), the log of what happened on the machine
 * (src/backend/watch/watch.h), or both. And what follows from the two together: how long each
 * launch of the trace took.
 */
#ifndef WEIR_CLI_BENCH_RECORD_H
#define WEIR_CLI_BENCH_RECORD_H

#include "src/backend/watch/watch.h"
#include "workloads/trace.h"

struct bench_record {
	/* What is wanted. */
	bool trace_wanted, log_wanted;
	uint32_t first_epoch; /* epochs that go before; 0: with the workload's set-up */
	bool to_end;	      /* of the workload, what follows the last epoch included */

	/* What came of it, where the run went well; bench_record_fini() */
	struct trace *trace;
	struct watch_log *log;
	struct manager_stats from, to; /* when recording began, and ended; of a manager */

	/* Of a run that goes on. Both are the machine's and the manager's to destroy. */
	struct backend *watch;
	struct manager *tracer; /* NULL: the workload has its own */
	bool started;
};

/* In this order, each once a run: the machine is new; the manager is new, and is wrapped in place
 * (NULL: the workload makes one of its own, of which there is a log and no trace); so many epochs
 * are done (as often as one likes); the workload has returned. Errors are negative errnos, and what
 * was made is undone by closing the machine and destroying the manager. */
int bench_record_machine(struct bench_record *record, struct weir_machine *machine);
int bench_record_manager(struct bench_record *record, struct manager **manager);
int bench_record_progress(struct bench_record *record, uint32_t done, uint32_t total);
int bench_record_end(struct bench_record *record);

/* A zeroed one is allowed. */
void bench_record_fini(struct bench_record *record);

/*
 * Take the time of each launch of the trace from the log, into its compute_ns: meant for a run that
 * had everything in HBM.
 * @return false: not all launches have a time; then none is taken.
 */
bool bench_record_times(struct bench_record *record);

#endif
