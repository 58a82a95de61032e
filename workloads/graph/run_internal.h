/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a run on a graph share: its memory and launches, its rounds, what is right. */
#ifndef WEIR_GRAPH_RUN_INTERNAL_H
#define WEIR_GRAPH_RUN_INTERNAL_H

#include "workloads/graph/run.h"

#define GRAPH_ARRAYS_MAX 16u

/* One run. A step that fails stores its error, and every step after it does nothing. */
struct graph_job {
	struct manager *m;	      /* borrowed */
	const struct graph_params *p; /* borrowed */
	struct backend *b;
	stream_id_t copies; /* of uploads and downloads; the manager has its own for kernels */
	bool has_copies;
	struct graph_args args;	       /* its arrays are this run's */
	void *array[GRAPH_ARRAYS_MAX]; /* what was allocated of the device's memory */
	uint32_t nr_arrays;
	uint32_t item_bytes;	      /* of edges in an item, on average over all lists */
	struct graph_control control; /* as last read */
	bool counts;		      /* rounds add to `work` */
	struct graph_work work;
	uint32_t pass;

	int status; /* the first error */
	char *err;  /* what became of it, in words */
	size_t err_bytes;
};

__attribute__((format(printf, 3, 4))) void graph_job_fail(struct graph_job *j, int status,
							  const char *format, ...);

/* A step that returned err, unless one failed before. */
void graph_job_step(struct graph_job *j, int err, const char *what);

/* Tell how far the run is. @return whether it is to end: for that, or for an error */
bool graph_job_stopped(struct graph_job *j);

/* ---- run_memory.c */

/* Everything that the algorithm needs, with the graph in it; or an error. */
void graph_job_create(struct graph_job *j);
/* Waits for what is queued, and gives everything back. */
void graph_job_destroy(struct graph_job *j);

/* Wait for the kernels; copy memory of the device from or to a buffer. */
void graph_job_get(struct graph_job *j, void *data, const void *from, uint64_t bytes,
		   const char *what);
void graph_job_put(struct graph_job *j, void *to, const void *data, uint64_t bytes,
		   const char *what);

/* ---- run_rounds.c */

/* All rounds of one search, or of the algorithm. Kernels may still run when it returns. */
void graph_job_rounds(struct graph_job *j, uint64_t source);

/* ---- run_right.c */

/* Fetch the answer into r->value or r->rank, which are allocated. */
void graph_job_answer(struct graph_job *j, struct graph_result *r);

/* Hold the answer in r to the reference: r->passes. */
void graph_job_check(struct graph_job *j, struct graph_result *r, uint64_t source);

#endif
