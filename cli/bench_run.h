/* SPDX-License-Identifier: Apache-2.0 */
/* Single runs of the benchmark: one workload under one manager on a fresh machine. */
#ifndef WEIR_CLI_BENCH_RUN_H
#define WEIR_CLI_BENCH_RUN_H

#include "cli/bench_host.h"
#include "cli/bench_options.h"
#include "cli/bench_record.h"
#include "cli/progress.h"
#include "workloads/workload.h"

#define BENCH_ERROR_BYTES 512

/* How far the whole benchmark is, in units of work of its own. */
struct bench_progress {
	struct progress bar;
	double done, total;
};

/* What came of a run. */
struct bench_outcome {
	int err; /* 0, -ENOMEM: it does not fit, -EINTR: stopped, else it failed */
	char error[BENCH_ERROR_BYTES];
	struct workload_result run;	/* zeroed unless err is 0 */
	double time_s[BACKEND_TIME_NR]; /* means of the measured epochs; where run has times */
	struct manager_stats stats;	/* valid unless no manager could be created: then zeroed */
	struct bench_host host;		/* of a real GPU's run */
	struct explain *explain; /* what the manager planned, if that is asked for and it did */
	double run_s;		 /* of the computer's time */
};

/* What to run. */
struct bench_run {
	const struct bench_params *params;
	const struct weir_machine_desc *machine; /* not always the parameters' own */
	enum weir_data data;
	bool real_gpu; /* this computer's: machine and data are not looked at */
	uint64_t nodes;
	const char *manager;
	struct manager_config config; /* its machine is not looked at */
	uint32_t epochs;	      /* in all */
	struct bench_progress *work;  /* moves on by weight */
	double weight;
	struct bench_record *record; /* NULL: nothing is recorded */
};

/* Train once. out is always written; bench_outcome_fini() it. */
void bench_run(const struct bench_run *run, struct bench_outcome *out);
void bench_outcome_fini(struct bench_outcome *outcome);

/* What one run weighs beside others in the progress of the whole. */
double bench_run_weight(const struct bench_params *params, uint64_t nodes, enum weir_data data,
			uint32_t epochs);

#endif
