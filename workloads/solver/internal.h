/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a solver's run share. */
#ifndef WEIR_SOLVER_INTERNAL_H
#define WEIR_SOLVER_INTERNAL_H

#include "workloads/solver/graph.h"
#include "workloads/solver/solver.h"

/* Of a device and array, where what is written is sent at once. */
#define SOLVER_LAUNCHES 8u
#define SOLVER_ALS_LAUNCHES 16u

/* Each device's edges, in plain memory of its own, which managers know nothing of (edges.h). */
struct solver_edges {
	uint64_t *offset[WEIR_DEVICES_MAX]; /* of a device's vertices, and one more */
	uint32_t *neighbour[WEIR_DEVICES_MAX];
	uint8_t *weight[WEIR_DEVICES_MAX]; /* of sssp */
	/* Of rows that are cut into pieces, in vertices' order: the device's, and the host's. */
	struct solver_piece *piece[WEIR_DEVICES_MAX], *host_piece[WEIR_DEVICES_MAX];
	uint32_t nr_pieces[WEIR_DEVICES_MAX];
};

/* Of sssp, in the same memory. */
struct solver_search {
	float *next[WEIR_DEVICES_MAX];	      /* distances of a device's vertices after a round */
	uint32_t *changed[WEIR_DEVICES_MAX];  /* its blocks', launch by launch */
	stream_id_t stream[WEIR_DEVICES_MAX]; /* that changed is read on; 0: none */
	uint32_t *got;			      /* what was read; of phantom machines made up */
	/* By device and block: the last round in which something changed. */
	uint32_t *last_changed[WEIR_DEVICES_MAX];
	uint32_t nr_blocks;  /* of any device, at most */
	uint32_t block_log2; /* vertices of a block */
	uint32_t nr_rounds;  /* of the present pass, so far */
};

/* One run. A part that fails stores its error, and what comes after it does nothing. */
struct solver_job {
	struct solver_manager *m;      /* borrowed */
	const struct solver_params *p; /* borrowed */
	bool phantom;
	/* How many times as many slices each launch has as the one before, by array; 0: as many. */
	double growth[SOLVER_RUN_ARRAYS];
	uint32_t nr_launches[SOLVER_RUN_ARRAYS]; /* of a device's part; 0: the usual number */
	uint64_t nr_done; /* iterations: array nr_done % 2 has the field; of als both count */

	struct solver_edges edges;   /* of pagerank and sssp */
	struct solver_search search; /* of sssp */
	bool settled;		     /* of sssp: nothing has changed in the last round */
	struct solver_round *rounds; /* of sssp, iterations of the last pass; or NULL */

	int status; /* the first error */
	char *err;  /* what became of it, in words */
	size_t err_bytes;
};

__attribute__((format(printf, 3, 4))) void solver_fail(struct solver_job *job, int status,
						       const char *format, ...);

/* Something was tried: keep its error, if that is the first. */
void solver_did(struct solver_job *job, int err, const char *what);

/* The kernel of an iteration. */
const struct weir_kernel *solver_kernel_of(enum solver_kind kind);

/* Queue the beginning of the field into both arrays; one iteration. */
void solver_fill(struct solver_job *job);
void solver_iterate(struct solver_job *job);

/* How many launches compute a device's slices of an array in an iteration; which ones the index-th
 * does, if any. */
struct solver_part_slices {
	uint32_t first, end;
};
uint32_t solver_launches(const struct solver_job *job, uint32_t array);
struct solver_part_slices solver_part_at(const struct solver_job *job, uint32_t array,
					 uint32_t device, uint32_t index);

/* als.c: a run's ratings; what launches that compute so many rows of a side read of the other one,
 * in all; one iteration. */
struct ratings als_ratings(const struct solver_params *p);
uint64_t als_random_bytes(const struct solver_params *p, uint32_t side, uint32_t nr_rows);
void als_iterate(struct solver_job *job);

/* pagerank.c: a kernel's arguments but for rows and vectors, after some iterations; the beginning
 * of the vector; one iteration. */
struct solver_pagerank_args solver_pagerank_args_of(const struct solver_graph *g,
						    uint64_t iteration);
void solver_pagerank_fill(struct solver_job *job);
void solver_pagerank_iterate(struct solver_job *job);

/* sssp.c: memory beside the edges, freed also if init failed; the beginning of both vectors; one
 * round. */
void solver_sssp_init(struct solver_job *job);
void solver_sssp_fini(struct solver_job *job);
void solver_sssp_fill(struct solver_job *job);
void solver_sssp_iterate(struct solver_job *job);

/* A number that stands for the field. Waits. */
void solver_hash(struct solver_job *job, uint64_t *out);

/* Read the field back and compare each element with what the CPU's kernels make of it, all slices
 * together. */
void solver_check(struct solver_job *job, struct passes_result *result);

#endif
