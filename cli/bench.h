/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_H
#define WEIR_CLI_BENCH_H

/* Exit statuses of its commands beside 0. */
enum { BENCH_EXIT_FAILED = 1, BENCH_EXIT_BAD = 2 };

/* `weir bench`: argv[0] is "bench". Returns the exit status. */
int bench_main(int argc, char **argv);

#endif
