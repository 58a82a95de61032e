/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_SOLVER_H
#define WEIR_CLI_BENCH_SOLVER_H

/* `weir bench jacobi`, `diffusion` and `als`; argv[0]: the first option. Return the exit status. */
int bench_jacobi(int argc, char **argv);
int bench_diffusion(int argc, char **argv);
int bench_als(int argc, char **argv);

#endif
