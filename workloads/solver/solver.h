/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solvers: step by step in time, each element of a field becomes what it and its neighbours make of
 * it. The field is two arrays, read and written in turn; several devices have a slab of slices each
 * and read one slice of either neighbour.
 *
 *   jacobi     two dimensions: the mean of four neighbours
 *   diffusion  three: heat equation and Burgers' advection, six neighbours
 *
 *   als        no field: a factor of users and one of items, of 64 elements a row; each row of the
 *              one is computed from all of the other, by least squares over the row's ratings
 *
 *   pagerank  a vector with an element for each vertex of a graph: each is computed from those of
 *             the vertices that have an edge to it, anywhere in the vector
 *   sssp      the same with distances from one vertex, until none changes
 *
 * docs/solver.md says what is in them, how they are split and how results are checked.
 */
#ifndef WEIR_SOLVER_H
#define WEIR_SOLVER_H

#include "workloads/passes.h"
#include "workloads/solver/graph.h"
#include "workloads/solver/kernels.h"
#include "workloads/solver/manager.h"
#include "workloads/workload.h"

#define SOLVER_SIDE_MAX (1u << 20) /* slices, rows, columns */
#define SOLVER_RUN_ARRAYS 2u

#define SOLVER_ROWS_MAX (1u << 28) /* users, items */

enum solver_kind {
	SOLVER_JACOBI,
	SOLVER_DIFFUSION,
	SOLVER_ALS,
	SOLVER_PAGERANK,
	SOLVER_SSSP,
	SOLVER_KIND_NR
};
#define SOLVER_FIELDS_NR SOLVER_ALS /* the kinds before it solve fields */

struct solver_params {
	enum solver_kind kind;
	/* Of als: users, items, SOLVER_WIDTH; of what runs on graphs: solver_graph_shape(). */
	struct solver_shape shape;
	const struct solver_graph *graph; /* split between so many devices; else NULL. Borrowed */
	uint32_t iterations;		  /* of a pass; > 0; of sssp at most */
	uint32_t passes;	       /* in all, warm-up included; the field goes on from each */
	uint32_t warm_up;	       /* of them */
	uint32_t devices;	       /* that the slices are split between; > 0 */
	bool check;		       /* compare all elements with what the CPU makes of them */
	workload_progress_fn progress; /* called with passes done, each iteration; may be NULL */
	void *progress_arg;
};

/* A round of sssp. */
struct solver_round {
	/* How many elements that were written others read, by who wrote and who reads. */
	double listed[WEIR_DEVICES_MAX][WEIR_DEVICES_MAX];
	uint64_t nr_changed; /* distances; with check alone */
};

struct solver_result {
	struct passes_result passes;
	uint64_t hash;		     /* of the field at the end; of phantom machines 0 */
	uint32_t nr_iterations;	     /* of the last pass */
	struct solver_round *rounds; /* of sssp, these iterations; else NULL */
};

void solver_result_free(struct solver_result *r);

static inline bool solver_on_graph(const struct solver_params *p)
{
	return p->kind == SOLVER_PAGERANK || p->kind == SOLVER_SSSP;
}

/* A graph's vector, in slices. */
static inline struct solver_shape solver_graph_shape(const struct solver_graph *g)
{
	return (struct solver_shape){solver_graph_slices(g), 1, SOLVER_GRAPH_SLICE};
}

/* What an array has: the field, or of als the users' factor, 0, or the items', 1. */
static inline struct solver_shape solver_array_shape(const struct solver_params *p, uint32_t array)
{
	struct solver_shape factor = {array ? p->shape.rows : p->shape.slices, 1, SOLVER_WIDTH};

	return p->kind == SOLVER_ALS ? factor : p->shape;
}

static inline uint64_t solver_array_bytes(const struct solver_params *p, uint32_t array)
{
	const struct solver_shape shape = solver_array_shape(p, array);

	return shape.slices * solver_slice_bytes(&shape);
}

/* Of a field's array. */
static inline uint64_t solver_bytes(const struct solver_params *p)
{
	return solver_array_bytes(p, 0);
}

/* Of both arrays. */
static inline uint64_t solver_all_bytes(const struct solver_params *p)
{
	return solver_array_bytes(p, 0) + solver_array_bytes(p, 1);
}

/* The first slice of the index-th device, of an array; of the one behind the last, how many slices
 * there are. */
static inline uint32_t solver_array_first(const struct solver_params *p, uint32_t array,
					  uint32_t index)
{
	if (p->graph)
		return p->graph->split[p->devices]->share[index].first;
	return (uint32_t)((uint64_t)solver_array_shape(p, array).slices * index / p->devices);
}

static inline uint32_t solver_first_slice(const struct solver_params *p, uint32_t index)
{
	return solver_array_first(p, 0, index);
}

/* What a device's kernels name of both arrays, its slab and halos, in whole pages. */
uint64_t solver_named_bytes(const struct solver_params *p, uint32_t device, uint64_t page_bytes);

/* "jacobi", "diffusion", "als", "pagerank", "sssp". Static. */
const char *solver_kind_name(enum solver_kind kind);

/* -EINVAL: a figure out of range, err says which. For programs that ask before they run. */
WEIR_MUST_CHECK int solver_params_check(const struct solver_params *p, char *err, size_t err_bytes);

/* How an array of a run is split; all arrays, for creating its manager. p: checked. */
struct solver_layout solver_layout_of(const struct solver_params *p, uint32_t array);
void solver_config_set(struct solver_config *config, const struct solver_params *p);

/*
 * Run all passes on a manager that was created for solver_layout_of(p) and has no arrays yet; what
 * is allocated stays with it. out: written on success only; solver_result_free() it. err:
 * on failure one line, cut to err_bytes. May be NULL.
 *
 * A wrong field is a result (passes.passed), not an error.
 *
 * 0, or -ENOMEM: the manager cannot hold the arrays (a result); -EAGAIN: this computer has no
 * memory for what a run needs; -EINTR: progress asked to stop; -EINVAL; or an error of the manager.
 * Blocks; nothing is queued any more on return.
 */
WEIR_MUST_CHECK int solver_run(struct solver_manager *m, const struct solver_params *p,
			       struct solver_result *out, char *err, size_t err_bytes);

#endif
