/* SPDX-License-Identifier: Apache-2.0 */
/* `weir bench --oracle`: what a run copied in, against MIN on what it served from GPU memory. */
#ifndef WEIR_CLI_BENCH_ORACLE_H
#define WEIR_CLI_BENCH_ORACLE_H

#include "cli/bench_run.h"
#include "cli/result.h"

/*
 * Compare a run whose record has a trace, under a manager that moves blocks.
 * @return 0, or a negative errno: err has one line. -ENOSPC: there is no least number, since a
 * launch needs more than there is room for at once; that is no failure.
 */
int bench_oracle(const struct bench_run *run, struct result_oracle *out, char *err,
		 size_t err_bytes);

#endif
