/* SPDX-License-Identifier: Apache-2.0 */
/* What results of bfs, sssp, cc and pagerank have, and others do not; see result.h. */
#ifndef WEIR_CLI_RESULT_GRAPH_H
#define WEIR_CLI_RESULT_GRAPH_H

#include "cli/result.h"
#include "workloads/graph/run.h"

/* Borrowed, as a result is. */
struct result_graph {
	const struct graph_params *params;
	const char *graph; /* what it is called */
	bool symmetric;
	uint32_t page_bytes;
	uint64_t seed;
	const uint64_t *source; /* as the input calls it; NULL: drawn, or none */
	uint64_t edge_bytes;
	const struct graph_result *run; /* NULL: it did not get through */
	double teps_per_s;		/* NaN: not known, or not of this algorithm */
};

/* For struct result_pass; of: struct result_graph. */
void result_graph_parameters(FILE *out, const void *of);
void result_graph_members(FILE *out, const void *of);

#endif
