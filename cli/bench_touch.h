/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLI_BENCH_TOUCH_H
#define WEIR_CLI_BENCH_TOUCH_H

/* `weir bench pagein` and `weir bench gups`; argv[0]: the first option. Return the exit status. */
int bench_pagein(int argc, char **argv);
int bench_gups(int argc, char **argv);

#endif
