/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connected components by union-find (Tarjan, 1975), with path halving. The root of a tree is its
 * least vertex, so labels are what is asked for; trees may be deeper than with union by rank.
 */
#include "workloads/graph/reference.h"

static uint64_t find(uint64_t *parent, uint64_t v)
{
	while (parent[v] != v) {
		parent[v] = parent[parent[v]];
		v = parent[v];
	}
	return v;
}

int reference_cc(const struct csr *g, uint64_t *label)
{
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		label[v] = v;
	for (uint64_t u = 0; u < g->nr_vertices; u++) {
		for (uint64_t e = g->offset[u]; e < g->offset[u + 1]; e++) {
			uint64_t a = find(label, u), b = find(label, csr_neighbour(g, e));

			if (a < b)
				label[b] = a;
			else
				label[a] = b;
		}
	}
	for (uint64_t v = 0; v < g->nr_vertices; v++)
		label[v] = find(label, v);
	return 0;
}
