/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was planned and what happened, of results of --explain: read with each result, and shown as
 * a table for each and its devices, stage by stage, the planned time beside the measured one.
 */
#ifndef WEIR_CLI_REPORT_EXPLAIN_H
#define WEIR_CLI_REPORT_EXPLAIN_H

#include "cli/report_read.h"
#include "src/residency/explain.h"

/* Means of a period. The name belongs to the result's json; NULL: not known. */
struct report_stage {
	const char *name;
	double brackets, planned_s, measured_s, kernels_s, waited_s;
	double brought, ahead, late, out; /* blocks */
	double calls, calls_s;
	double room[EXPLAIN_ROOM_NR], filled; /* chunks; all 0: not known */
};

/* A device. Texts belong to the result's json. */
struct report_explained {
	const char *device;
	const char *why; /* why there is no plan; NULL: there is one */
	bool suspended;
	double chunk_bytes;	    /* 0: not known */
	struct report_stage *stage; /* owned */
	size_t nr_stages;
};

/* Read the member "explain" of a result, if it is there: result->explained and nr_explained, which
 * are freed by report_explain_fini(), whatever is returned. 0, -EINVAL or -ENOMEM. */
int report_explain_read(struct report_source *source, struct report_result *result);
void report_explain_fini(struct report_result *result);

/* The part of the page; nothing where no result has any. Errors stay in the stream. */
void report_explain_put(FILE *out, const struct report_results *results);

#endif
