/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_GRAPH_OUTPUT_H
#define WEIR_CLI_BENCH_GRAPH_OUTPUT_H

#include <stdio.h>

#include "workloads/graph/run.h"

/*
 * Write an answer, a line a vertex: what the input calls it, a blank, and its value, as LDBC
 * Graphalytics (Iosup et al., 2016) has them: levels and distances as whole numbers, ranks with the
 * digits that read back the same, components by what their least vertex is called. What was not
 * reached has the level 9223372036854775807, or the distance "infinity".
 *
 * Errors stay in the stream.
 */
void bench_graph_write(FILE *out, enum graph_algorithm algorithm, const struct csr *graph,
		       const struct graph_result *result);

#endif
