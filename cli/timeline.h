/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines: what happened in runs, as one file in the trace event format that chrome://tracing and
 * Perfetto open. docs/timeline.md says how to read one, and what is in it beyond the format.
 */
#ifndef WEIR_CLI_TIMELINE_H
#define WEIR_CLI_TIMELINE_H

#include <stdio.h>

#include "src/backend/watch/watch.h"

/* A moment that has a name, up to the next one. */
struct timeline_mark {
	const char *name;
	uint64_t ns;
};

/* One run: a process of the file. Everything is borrowed. */
struct timeline_run {
	uint32_t number; /* from 1, each once a file */
	const char *title;
	const struct weir_machine_desc *machine;
	uint32_t device;
	uint64_t gpu_budget_bytes, host_budget_bytes;
	const uint64_t *near_bytes; /* budgets of other GPUs' memories, by memory; 0: none */
	const struct watch_log *log;
	/* Its epochs, from the number behind first_epoch on, of which the record has some; 0: its
	 * marks are shown as such. */
	uint32_t nr_epochs, first_epoch;
	const uint64_t *epoch_begin_ns;
	const double *epoch_s;
	const struct timeline_mark *mark;
	uint32_t nr_marks;
};

/* Begin a file, add its runs, end it. Errors stay in the stream: ferror(). */
void timeline_begin(FILE *out);
void timeline_end(FILE *out);

/* -ENOMEM: the run is not written whole. */
int timeline_add(FILE *out, const struct timeline_run *run) WEIR_MUST_CHECK;

#endif
