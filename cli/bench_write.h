/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a benchmark writes: results, a timeline, a description with fitted kernels. Each
 * appears, or is replaced, when all of it is there (output_file.h). Functions that can fail return
 * a negative errno, and err has one line.
 */
#ifndef WEIR_CLI_BENCH_WRITE_H
#define WEIR_CLI_BENCH_WRITE_H

#include "cli/bench_run.h"
#include "cli/output_file.h"
#include "cli/result.h"
#include "cli/timeline.h"

/* Those that are not asked for have no stream. */
struct bench_files {
	struct output_file json, timeline, fit;
	struct machine_file *description; /* that kernels are fitted into; borrowed */
	uint32_t nr_runs;		  /* in the timeline */
};

/* Open all that are asked for: what cannot be written is known before hours of work. Fitted kernels
 * go into the description, which is borrowed until they are closed; NULL: none are asked for. */
int bench_files_open(struct bench_files *files, const struct bench_params *params,
		     struct machine_file *description, char *err, size_t err_bytes);

/* What a run has to record for these files and the oracle. @return record, filled, or zeroed and
 * NULL: nothing. */
struct bench_record *bench_record_wanted(const struct bench_params *params,
					 struct bench_record *record);

/* Write what came of a run. -EAGAIN: kernels cannot be fitted to it. */
int bench_write(struct bench_files *files, const struct bench_run *run,
		const struct bench_outcome *outcome, const struct result *result, char *err,
		size_t err_bytes);

/* Add a run, but for its number, to the timeline. */
int bench_write_timeline(struct bench_files *files, struct timeline_run *run, char *err,
			 size_t err_bytes);

/* Finish all of them, or give up all of them. */
int bench_files_commit(struct bench_files *files, char *err, size_t err_bytes);
void bench_files_abandon(struct bench_files *files);

#endif
