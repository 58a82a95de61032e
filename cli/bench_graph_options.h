/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `weir bench bfs`, sssp, cc and pagerank are asked to do. As in bench_options.h: whatever can
 * be known to be wrong without the graph is refused here.
 */
#ifndef WEIR_CLI_BENCH_GRAPH_OPTIONS_H
#define WEIR_CLI_BENCH_GRAPH_OPTIONS_H

#include "cli/bench_pass_options.h"
#include "workloads/graph/gen.h"
#include "workloads/graph/run.h"

struct bench_graph_params {
	struct bench_pass_params pass;
	enum graph_algorithm algorithm;
	const char *file;   /* borrowed from argv; NULL: generated */
	enum gen_kind kind; /* of a generated graph, as are scale and degree */
	uint32_t scale;
	uint64_t degree;
	bool symmetrize;
	/* bfs, sssp: one source, which the input calls so, or a number of them at random. */
	bool one_source;
	uint64_t source;
	uint32_t nr_sources;
	uint64_t delta;	     /* sssp; 0: chosen */
	uint32_t iterations; /* pagerank */
	double damping;
	const char *output; /* borrowed from argv; NULL: none */
};

/* As bench_params_parse(). */
int bench_graph_parse(enum graph_algorithm algorithm, int argc, char **argv,
		      struct bench_graph_params *out, char *err, size_t err_bytes);
void bench_graph_params_fini(struct bench_graph_params *params);

void bench_graph_help(enum graph_algorithm algorithm, FILE *out);

#endif
