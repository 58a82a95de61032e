/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph looks like. */
#ifndef WEIR_GRAPH_STATS_H
#define WEIR_GRAPH_STATS_H

#include "workloads/graph/csr.h"

/* From the offsets alone. Degrees are numbers of edges out. */
struct csr_degrees {
	uint64_t min, median, max; /* median: the lower of two in the middle */
	uint64_t nr_without;	   /* vertices without edges out */
};

void csr_degrees(const struct csr *g, struct csr_degrees *out);

/* From all edges. */
struct csr_stats {
	uint64_t nr_isolated;	/* vertices without edges, in or out */
	uint64_t nr_self_loops; /* edges from a vertex to itself */
	uint64_t nr_duplicates; /* edges beyond the first between the same vertices */
	uint64_t nr_components; /* edges taken in both directions */
	uint64_t largest_component;
	uint32_t weight_min, weight_max; /* 0 without weights or edges */
	bool symmetric; /* every edge in both directions, as CSR_SYMMETRIC has it */
};

/*
 * The graph has passed csr_check(). Takes 8 bytes a vertex.
 * 0; -ENOMEM; -ECANCELED: watch (may be NULL) asked to stop.
 */
int csr_stats(const struct csr *g, const struct graph_watch *watch, struct csr_stats *out);

#endif
