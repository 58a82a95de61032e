/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What launches name: the ranges whose addresses stand in their parameters. Each launch is given a
 * bracket of the space (brackets.h) with these. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_LAUNCHES_H
#define WEIR_SHIM_LAUNCHES_H

#include "shim/brackets.h"

#define LAUNCHES_LAST 8u /* kernels that are kept for the report of a fault */

struct infer_launch;
struct kernel;

/* A launch under way. */
struct launch {
	struct kernel *kernel; /* NULL: weir has no memory yet */
	struct bracket bracket;
};

/* Around a launch. The stream is named as in brackets.h.
 * @return CU_SUCCESS: launch_end() is to follow the launch; or what the launch is to end with */
cu_result launch_begin(struct launch *l, cu_function function, cu_stream stream,
		       const struct infer_launch *launch);
void launch_end(struct launch *l);

/* A module is about to be unloaded, or a context to go with its own: handles of their kernels may
 * be given to others. */
void launches_forget_kernels(void);

/* The names of the kernels launched last, newest first; NULL: there were no more. name: room for
 * LAUNCHES_LAST; they last as long as the process. */
void launches_last(const char **name);

/* Spent on finding what launches name, in all. */
uint64_t launches_infer_ns(void);

#endif
