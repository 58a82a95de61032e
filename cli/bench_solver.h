/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_SOLVER_H
#define WEIR_CLI_BENCH_SOLVER_H

#include <stdbool.h>

/* `weir bench jacobi`, `diffusion` and `als`, and `pagerank` and `sssp` with --devices; argv[0]:
 * the first option. Return the exit status. */
int bench_jacobi(int argc, char **argv);
int bench_diffusion(int argc, char **argv);
int bench_als(int argc, char **argv);
int bench_solver_pagerank(int argc, char **argv);
int bench_solver_sssp(int argc, char **argv);

/* Whether the options of an algorithm on graphs ask for several devices: --devices is there. */
bool bench_solver_wanted(int argc, char **argv);

#endif
