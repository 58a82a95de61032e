/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four algorithms on a graph whose edges may not fit into the GPU's memory: bfs, sssp, cc and
 * pagerank. Edges and weights are allocated from a manager, as memory that kernels only read; what
 * has an entry a vertex is in the device's own memory, and not managed. docs/graphs.md says how
 * each works, what is counted, and how it is checked.
 */
#ifndef WEIR_GRAPH_RUN_H
#define WEIR_GRAPH_RUN_H

#include "managers/manager.h"
#include "workloads/agents.h"
#include "workloads/graph/csr.h"
#include "workloads/graph/kernels.h"
#include "workloads/passes.h"
#include "workloads/workload.h"

#define GRAPH_SOURCES_MAX 4096u
#define GRAPH_ITERATIONS 20u
#define GRAPH_DAMPING 0.85
#define GRAPH_THREADS 512u

struct graph_params {
	enum graph_algorithm algorithm;
	/* The graph; for pagerank the lists of the edges that end at a vertex, the graph
	 * transposed. Both borrowed, and have passed csr_check(). Up to 2^32 - 1 vertices. */
	const struct csr *graph;
	const uint32_t *degree;	 /* pagerank: edges out of each vertex; NULL: graph's own lists' */
	const uint64_t *sources; /* bfs, sssp: vertices. Borrowed. Each is a search of its own */
	uint32_t nr_sources;	 /* > 0 for these; others: 0 */
	uint32_t iterations;	 /* pagerank: > 0 */
	double damping;		 /* pagerank: 0 to 1 */
	uint64_t delta;		 /* sssp: how much further the next bucket goes; 0: one is chosen */
	uint32_t passes;	 /* in all, warm-up included; > 0. Each does all of it */
	uint32_t warm_up;	 /* of them */
	bool warm;		 /* what a pass left on the device is there for the next one */
	bool check;		 /* compare with the references of reference.h, in the first pass */
	uint32_t blocks, threads; /* of expanding, on a GPU; blocks 0: as many as are resident */
	uint32_t agents;	  /* threads that page, on a simulated machine */
	workload_progress_fn progress; /* called with passes done; may be NULL */
	void *progress_arg;
};

/* Of one pass, and the same in each. Lines are of 128 bytes of edges, and of weights where the
 * algorithm reads them; in a round (an iteration, a frontier) each counts once. */
struct graph_work {
	uint64_t nr_rounds;   /* in which anything was expanded */
	uint64_t nr_edges;    /* expanded, repeats included */
	uint64_t line_bytes;  /* touched */
	uint64_t first_bytes; /* of them, of lines that no round of the pass touched before */
};

struct graph_result {
	struct passes_result passes; /* read_bytes, distinct_bytes: of lines, as in work */
	uint64_t edge_bytes;	     /* of edges and weights that are the manager's */
	struct graph_work work;
	/* The last source's, or the only, answer; nr_vertices of one of them, the other is NULL.
	 * value: bfs: level, sssp: distance, GRAPH_FAR: not reached; cc: the least vertex of the
	 * component. rank: pagerank. */
	uint64_t *value;
	double *rank;
	uint64_t nr_reached; /* bfs, sssp: vertices; cc: components; pagerank: 0 */
	double error;	     /* pagerank, checked: sum of differences to the reference; else 0 */
};

/* -EINVAL: a figure out of range, err says which. For programs that ask before they run. */
WEIR_MUST_CHECK int graph_params_check(const struct graph_params *p, char *err, size_t err_bytes);

/*
 * Run all passes. m: by this thread alone; on return nothing that the run allocated is left in it,
 * and no queued work. out: written on success only; graph_result_free() it. err: on failure one
 * line, cut to err_bytes. May be NULL.
 *
 * A wrong answer is a result (out->passes.passed), not an error.
 *
 * 0, or -ENOMEM: the manager cannot hold the edges, or the device the vertices (a result); -EAGAIN:
 * this computer has no memory for what a run needs beside them; -EINTR: progress asked to stop;
 * -EINVAL; -ENOTSUP: the machine is simulated without bytes; or an error of the manager. Blocks.
 */
WEIR_MUST_CHECK int graph_run(struct manager *m, const struct graph_params *p,
			      struct graph_result *out, char *err, size_t err_bytes);
void graph_result_free(struct graph_result *r);

/*
 * Seconds that no pass takes less than, with resident_bytes of the device's memory for edges that
 * stay there from round to round: over the link goes, at its copy engine's rate, what is touched
 * first, and of later touches the part that cannot be resident; and the device's memory and the
 * link together carry all that is touched.
 */
double graph_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct graph_result *r, uint64_t resident_bytes);

/* "bfs", "sssp", "cc", "pagerank". Static. */
const char *graph_algorithm_name(enum graph_algorithm algorithm);

#endif
