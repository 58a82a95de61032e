/* SPDX-License-Identifier: Apache-2.0 */
/* Edges that are computed, and those of a graph file; see source.h. */
#include "workloads/graph/source.h"

#include <errno.h>

#include "src/base/util.h"

static int gen_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	for (uint64_t i = 0; i < nr; i++) {
		struct gen_pair pair = gen_edge(arg, first + i);

		out[i] = (struct edge){.u = pair.u, .v = pair.v};
	}
	return 0;
}

struct edge_source edge_source_gen(const struct gen *gen, uint64_t nr_edges)
{
	return (struct edge_source){.nr_vertices = UINT64_C(1) << gen->scale,
				    .nr_edges = nr_edges,
				    .read = gen_read,
				    .arg = gen};
}

/* The vertex whose list has an edge: the last one whose list begins at or before it. */
static uint64_t vertex_of(const struct csr *g, uint64_t edge)
{
	uint64_t beyond;

	SEARCH_SORTED(beyond, 1, g->nr_vertices, g->offset[beyond] <= edge);
	return beyond - 1;
}

static int csr_read(const void *arg, uint64_t first, uint64_t nr, struct edge *out)
{
	const struct csr *g = arg;
	uint64_t u = vertex_of(g, first);

	for (uint64_t i = 0; i < nr; i++) {
		while (g->offset[u + 1] <= first + i)
			u++;
		out[i] = (struct edge){.u = u,
				       .v = csr_neighbour(g, first + i),
				       .weight = g->weight ? g->weight[first + i] : 0};
		if (out[i].v >= g->nr_vertices)
			return -EINVAL;
	}
	return 0;
}

struct edge_source edge_source_csr(const struct csr *g)
{
	return (struct edge_source){.nr_vertices = g->nr_vertices,
				    .nr_edges = g->nr_edges,
				    .weighted = g->weight != NULL,
				    .symmetric = g->flags & CSR_SYMMETRIC,
				    .id = g->id,
				    .read = csr_read,
				    .arg = g};
}
