/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency over time, out of a timeline in Chrome's trace format: an array of events, alone or as
 * "traceEvents" of an object. Of these only two kinds are looked at, and others passed over:
 *
 *   {"ph":"M", "name":"process_name", "pid":P, "args":{"name":TEXT}}       a run's name
 *   {"ph":"C", "name":"resident", "pid":P, "ts":US, "args":{MEMORY:BYTES}} resident from here on
 *
 * "resident bytes" is the same as "resident".
 */
#ifndef WEIR_CLI_REPORT_TIMELINE_H
#define WEIR_CLI_REPORT_TIMELINE_H

#include <jansson.h>
#include <stddef.h>

#include "weir/weir.h"

#define REPORT_RUNS_MAX 32
#define REPORT_MEMORIES_MAX WEIR_MEMORIES_MAX

struct report_sample {
	double s, bytes;
};

/* Resident bytes of one memory, in the order of time. */
struct report_residency {
	const char *memory;
	struct report_sample *sample;
	size_t nr, room;
};

struct report_run {
	double pid;
	const char *name; /* NULL: none was given */
	struct report_residency residency[REPORT_MEMORIES_MAX];
	size_t nr_residencies;
	double start_s, end_s;
};

/* Runs that have an extent in time, and of each the memories that hold anything at any time. Texts
 * belong to json. */
struct report_timeline {
	json_t *json;
	struct report_run run[REPORT_RUNS_MAX];
	size_t nr_runs;
};

/**
 * Read a timeline.
 *
 * @param [in]  file  What the text is called in errors.
 * @param [out] out   report_timeline_fini() it, also on error.
 * @param [out] err   One printable line that begins with the file. Written on error.
 * @return 0, -EINVAL (also when nothing in it is resident anywhere) or -ENOMEM.
 */
int report_timeline_read(const char *text, size_t bytes, const char *file,
			 struct report_timeline *out, char *err, size_t err_bytes);

void report_timeline_fini(struct report_timeline *timeline);

#endif
