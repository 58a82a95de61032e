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
struct kernel_line;

/* A launch under way. */
struct launch {
	struct kernel *kernel; /* NULL: weir has no memory yet, or all of it is mapped */
	struct bracket bracket;
	bool proves; /* others wait for it, to learn: see proof.h */
	bool checks; /* and it is looked at */
	cu_stream stream;
	struct kernel_line *line; /* what is known of its kernel; NULL: nothing */
};

/* Around a launch. The stream is named as in brackets.h. launch_end: with what it ended with.
 * @return CU_SUCCESS: launch_end() is to follow the launch; or what the launch is to end with */
cu_result launch_begin(struct launch *l, cu_function function, cu_stream stream,
		       const struct infer_launch *launch);
void launch_end(struct launch *l, cu_result result);

/* A module is about to be unloaded, or a context to go with its own: handles of their kernels may
 * be given to others. */
void launches_forget_kernels(void);

/* The names of the kernels launched last, newest first; NULL: there were no more. name: room for
 * LAUNCHES_LAST; they last as long as the process. */
void launches_last(const char **name);

/* What became of launches where memory moves: those that were taken to use what they name, and
 * those that might use any range; and the time spent on finding what they name, in all. */
struct launches_account {
	uint64_t nr_closed, nr_open, nr_windows, infer_ns;
};
void launches_account(struct launches_account *out);

#endif
