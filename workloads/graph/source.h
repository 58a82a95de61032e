/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the edges of a graph come from: something that has a number of them and gives any part, to
 * any thread, as often as asked. So a graph can be built in several passes.
 *
 * Three sources: edges that are computed (gen.h), those of a graph file, and a spool, which is what
 * text files are read into (spool.h).
 */
#ifndef WEIR_GRAPH_SOURCE_H
#define WEIR_GRAPH_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/graph/csr.h"
#include "workloads/graph/gen.h"

struct edge {
	uint64_t u, v;
	uint32_t weight; /* 0 where the source has none */
};

struct edge_source {
	uint64_t nr_vertices, nr_edges;
	bool weighted;
	/* Every edge is there in both directions already. */
	bool symmetric;
	const uint64_t *id; /* what vertices were called, ascending; NULL: their numbers */
	/*
	 * Edges first to first + nr - 1, all of which there are, with u and v below nr_vertices.
	 * From any thread. 0, -EIO or another error of reading, -EINVAL: the input is damaged.
	 */
	int (*read)(const void *arg, uint64_t first, uint64_t nr, struct edge *out);
	const void *arg;
};

/* Edges of a generator, borrowed. */
struct edge_source edge_source_gen(const struct gen *gen, uint64_t nr_edges);

/* Edges of a graph, borrowed. */
struct edge_source edge_source_csr(const struct csr *g);

#endif
