/* SPDX-License-Identifier: Apache-2.0 */
/* What `weir bench bfs`, sssp, cc and pagerank print for people. */
#ifndef WEIR_CLI_BENCH_GRAPH_TABLE_H
#define WEIR_CLI_BENCH_GRAPH_TABLE_H

#include "cli/bench_pass_table.h"
#include "cli/result_graph.h"

/* One result. */
struct bench_graph_row {
	uint64_t edge_bytes;
	uint32_t page_bytes;
	bool teps;		    /* its rate is of edges */
	struct bench_pass_row pass; /* its rate: millions of edges a second, or GB */
};

struct bench_graph_row bench_graph_row(const struct result *result);

/* All rows are of one algorithm. 0, -ENOMEM or -EIO. */
int bench_graph_table_print(FILE *out, const struct bench_graph_row *rows, unsigned int nr);

#endif
