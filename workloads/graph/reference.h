/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graph algorithms on the CPU, written to be believed: one thread, the plainest algorithm that ends
 * in time, exact where the answer is. They judge the versions that are fast.
 *
 * The graph has passed csr_check(). Outputs are of nr_vertices, and undefined on error. Each
 * function returns 0, or -ENOMEM.
 */
#ifndef WEIR_GRAPH_REFERENCE_H
#define WEIR_GRAPH_REFERENCE_H

#include "workloads/graph/csr.h"

/* Edges on the shortest path from the source, which is a vertex; REFERENCE_FAR: there is none. */
#define REFERENCE_FAR UINT64_MAX
int reference_bfs(const struct csr *g, uint64_t source, uint64_t *level);

/*
 * Least sum of weights on a path from the source; REFERENCE_FAR: there is none. Without weights
 * each edge counts 1. Also -EOVERFLOW: a sum beyond 64 bits, which takes more than 2^32 edges.
 */
int reference_sssp(const struct csr *g, uint64_t source, uint64_t *distance);

/* The least vertex of each vertex's component, edges taken in both directions. Cannot fail. */
int reference_cc(const struct csr *g, uint64_t *label);

/*
 * The PageRank of each vertex after a number of iterations from 1 / n, with damping d:
 *   rank'(v) = (1 - d) / n + d (sum over edges u -> v of rank(u) / degree(u) + S / n)
 * S is the rank of all vertices without edges out. Ranks add up to 1.
 *
 * @param [in] in  The graph transposed: the list of v has the u of edges u -> v. A symmetric graph
 *                 is its own.
 */
#define REFERENCE_PAGERANK_DAMPING 0.85
#define REFERENCE_PAGERANK_ITERATIONS 20u
int reference_pagerank(const struct csr *in, double damping, unsigned int nr_iterations,
		       double *rank);

#endif
