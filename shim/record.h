/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What launches name, for a trace of the program (`weir run --trace`): each becomes a bracket of
 * the space, with the ranges whose addresses stand in its parameters. The space is fixed and moves
 * nothing, and such uses order nothing (WEIR_ATOMIC), so the program runs as it would without, but
 * for the time that it takes. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_RECORD_H
#define WEIR_SHIM_RECORD_H

#include <pthread.h>

#include "shim/hooks.h"

struct infer_launch;
struct kernel;
struct weir_stream;

/* A launch under way. */
struct record_launch {
	struct weir_stream *stream; /* NULL: it is not recorded */
	struct kernel *kernel;
	pthread_mutex_t *lock; /* of its stream: launches there are one at a time */
};

/* Whether there is a trace. */
bool record_is_on(void);

/* Around a launch, in any case both. The stream is named as in memory.h. */
void record_begin(struct record_launch *r, cu_function function, cu_stream stream,
		  const struct infer_launch *launch);
void record_end(struct record_launch *r);

/* A module is about to be unloaded: handles of its kernels may be given to others. */
void record_forget_kernels(void);

struct record_account {
	uint64_t nr_brackets, nr_uses; /* launches recorded, and the ranges that they name */
	uint64_t nr_missed;	       /* launches that name none, or could not be recorded */
	uint64_t infer_ns;	       /* spent on finding what they name, in all */
};
void record_account(struct record_account *out);

#endif
