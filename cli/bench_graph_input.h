/* SPDX-License-Identifier: Apache-2.0 */
/* The graph that `weir bench bfs`, sssp, cc and pagerank work on, and what they need beside it. */
#ifndef WEIR_CLI_BENCH_GRAPH_INPUT_H
#define WEIR_CLI_BENCH_GRAPH_INPUT_H

#include "cli/bench_graph_options.h"
#include "workloads/graph/input.h"

struct bench_graph_input {
	struct graph_input input;
	const struct csr *edges; /* gone through; pagerank: those that end at each vertex */
	uint32_t *degree; /* pagerank: edges out of each vertex; NULL: as many as end there */
	uint64_t *source; /* bfs, sssp; else NULL */
	uint32_t nr_sources;
	char name[128]; /* "kron26 degree 16", or the file's without its folder */
};

/*
 * Get the graph. watch: borrowed until this returns.
 *
 * @param [out] out  bench_graph_close() it. Written on success only. Not to be moved.
 * @return 0; -ECANCELED: the watch asked to stop; another negative errno: err has one line.
 */
int bench_graph_open(const struct bench_graph_params *params, const struct graph_watch *watch,
		     struct bench_graph_input *out, char *err, size_t err_bytes);

/* A zeroed one, too. */
void bench_graph_close(struct bench_graph_input *input);

#endif
