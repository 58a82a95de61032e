/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --near and --near-rate: how much of other GPUs' memories may be used, and how fast. Functions
 * that fail return a negative errno and leave one line, culprit and remedy.
 */
#ifndef WEIR_CLI_BENCH_NEAR_H
#define WEIR_CLI_BENCH_NEAR_H

#include "cli/bench_reader.h"

/* p->near; after machine, device, managers and block size. */
int bench_read_near(struct bench_reader *r, struct bench_params *p);

/*
 * How much may be used of each memory where the work needs so many bytes. needs_bytes 0: that is
 * not known yet; where it matters, as to a percentage or to the size of blocks, it is all of each
 * memory that is named.
 */
void bench_near_bytes(const struct bench_params *p, uint64_t needs_bytes,
		      uint64_t near_bytes[WEIR_MEMORIES_MAX]);

/* Whether each manager can be created with what the work gets that needs so many bytes, once that
 * is known. gpu_budget_bytes: of the device's own memory. */
int bench_near_check(const struct bench_params *p, uint64_t needs_bytes, uint64_t gpu_budget_bytes,
		     char *err, size_t err_bytes);

#endif
