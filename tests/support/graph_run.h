/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms on graphs run under managers, for tests on simulated machines and on GPUs: graphs
 * of many shapes, parameters, and answers that are the same everywhere. Graphs are csr_close()d by
 * the caller. Functions assert; they do not return errors, but for those whose name ends in _try.
 */
#ifndef WEIR_TESTS_SUPPORT_GRAPH_RUN_H
#define WEIR_TESTS_SUPPORT_GRAPH_RUN_H

#include "tests/support/graph.h"
#include "workloads/graph/run.h"

#define RUN_SEED 20261u
#define RUN_SOURCES 3u
#define RUN_PASSES 3u /* one of them is warm-up */

/* The next number of a sequence. */
uint64_t run_random(uint64_t *state);

/* ------------------------------------------------------------------ graphs */

/* Kronecker or uniform, of any density, up to 512 vertices; with or without weights, directions,
 * duplicates, loops, neighbours of 64 bits. */
void run_graph_random(uint64_t *random, struct csr *out);

/* Lists that are longer than an item, begin anywhere and end anywhere; 3000 vertices. */
void run_graph_long(bool symmetric, struct csr *out);

/* Weights up to 2^32 - 1, 0 among them; duplicates, loops, vertices without edges. 40 vertices. */
void run_graph_weights(uint64_t *random, struct csr *out);

/* One vertex without edges; or three, and loops alone, one of them twice. */
void run_graph_least(bool loops, struct csr *out);

/* Edges out of each vertex, where the graph has those that end there. free() it. */
uint32_t *run_degrees(const struct csr *in);

/* ------------------------------------------------------------------ runs */

/* A simulated machine with bytes or without; each memory has as many, 0: a few MiB. */
struct weir_machine *run_simulated(enum weir_data data, uint64_t memory_bytes);

/* What a run is under; 0: the manager's default. */
struct run_under {
	const char *manager;
	uint64_t gpu_bytes, block_bytes;
	uint32_t page_bytes;
	const struct weir_paged_kernels *kernels; /* of a GPU's paged memory */
};

/* Checked against the references. sources: RUN_SOURCES, of searches. All are borrowed. */
struct graph_params run_params(enum graph_algorithm algorithm, const struct csr *g,
			       const uint64_t *sources);

/* As graph_run() with room for `bytes` in err, or manager_create(); the manager's structures have
 * been checked. */
int run_under_try(struct weir_machine *machine, const struct run_under *under,
		  const struct graph_params *p, struct graph_result *out, char *err, size_t bytes);

/* The same of a run that must end well, with an answer that is right if it was to be checked.
 * graph_result_free() it. */
void run_under(struct weir_machine *machine, const struct run_under *under,
	       const struct graph_params *p, struct graph_result *out);

#endif
