/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PageRank (Page, Brin, Motwani, Winograd, 1999) by pulling, in double precision. Each iteration
 * computes what a vertex gives along each of its edges, then what each vertex gets; sums are in the
 * order of vertices, so a run repeats to the bit.
 */
#include "workloads/graph/reference.h"

#include <errno.h>
#include <stdlib.h>

static void iterate(const struct csr *in, const uint64_t *degree, double damping, double *rank,
		    double *share)
{
	const double n = (double)in->nr_vertices;
	double spread = 0;

	for (uint64_t v = 0; v < in->nr_vertices; v++) {
		share[v] = degree[v] ? rank[v] / (double)degree[v] : 0;
		spread += degree[v] ? 0 : rank[v];
	}
	for (uint64_t v = 0; v < in->nr_vertices; v++) {
		double sum = 0;

		for (uint64_t e = in->offset[v]; e < in->offset[v + 1]; e++)
			sum += share[csr_neighbour(in, e)];
		rank[v] = (1 - damping) / n + damping * (sum + spread / n);
	}
}

int reference_pagerank(const struct csr *in, double damping, unsigned int nr_iterations,
		       double *rank)
{
	uint64_t *degree = calloc(in->nr_vertices, sizeof(*degree)); /* edges out */
	double *share = malloc(in->nr_vertices * sizeof(*share));
	int rc = -ENOMEM;

	if (!degree || !share)
		goto out;
	for (uint64_t e = 0; e < in->nr_edges; e++)
		degree[csr_neighbour(in, e)]++;
	for (uint64_t v = 0; v < in->nr_vertices; v++)
		rank[v] = 1 / (double)in->nr_vertices;
	for (unsigned int i = 0; i < nr_iterations; i++)
		iterate(in, degree, damping, rank, share);
	rc = 0;
out:
	free(degree);
	free(share);
	return rc;
}
