/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_MATRIX_H
#define WEIR_CLI_BENCH_MATRIX_H

/* `weir bench mvt`, `atax` and `bicg`; argv[0]: the first option. Return the exit status. */
int bench_mvt(int argc, char **argv);
int bench_atax(int argc, char **argv);
int bench_bicg(int argc, char **argv);

#endif
