/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_graph_output.h"

#include <inttypes.h>

#define LEVEL_FAR "9223372036854775807"
#define DISTANCE_FAR "infinity"

void bench_graph_write(FILE *out, enum graph_algorithm algorithm, const struct csr *graph,
		       const struct graph_result *result)
{
	for (uint64_t v = 0; v < graph->nr_vertices && !ferror(out); v++) {
		fprintf(out, "%" PRIu64 " ", csr_id(graph, v));
		if (result->rank)
			fprintf(out, "%.17g\n", result->rank[v]);
		else if (result->value[v] == GRAPH_FAR)
			fprintf(out, "%s\n", algorithm == GRAPH_BFS ? LEVEL_FAR : DISTANCE_FAR);
		else
			fprintf(out, "%" PRIu64 "\n",
				algorithm == GRAPH_CC ? csr_id(graph, result->value[v])
						      : result->value[v]);
	}
}
