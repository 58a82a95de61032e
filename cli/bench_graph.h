/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_GRAPH_H
#define WEIR_CLI_BENCH_GRAPH_H

/* `weir bench bfs`, sssp, cc and pagerank; argv[0]: the first option or the graph. Return the exit
 * status. */
int bench_bfs(int argc, char **argv);
int bench_sssp(int argc, char **argv);
int bench_cc(int argc, char **argv);
int bench_pagerank(int argc, char **argv);

#endif
