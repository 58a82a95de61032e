/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be known to be wrong with a benchmark before it runs, beyond its single options. Those
 * that check return 0 or a negative errno; then err has one line with culprit and remedy.
 */
#ifndef WEIR_CLI_BENCH_CHECK_H
#define WEIR_CLI_BENCH_CHECK_H

#include "cli/bench_options.h"

/* Of this computer's memory; UINT64_MAX: not known. */
uint64_t bench_ram_bytes(void);

/* What training needs is a number, and with real data this computer has as much memory. */
int bench_check_peaks(const struct bench_params *p, char *err, size_t err_bytes);

/* Each manager can be created with these settings: done once, on a machine without bytes. */
int bench_check_managers(const struct bench_params *p, char *err, size_t err_bytes);

/* About how long simulating managed memory takes this computer, in seconds. over: what the work
 * needs over the GPU budget. */
double bench_check_uvm_s(const struct bench_params *p, uint64_t nodes, double over);

#endif
