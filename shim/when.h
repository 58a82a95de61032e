/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --when oom: operations have no brackets until an allocation has no room in the GPU's budget.
 *
 * Before that the space is a fixed one without memory of the host's, and operations *pass*: each is
 * counted while the program is inside the driver's call, and nothing else is done. At the first
 * allocation that has no room:
 *
 *   1. Operations that begin from here on open brackets. The space is still fixed, so these move
 *      nothing, and allocations may lie in the host's memory.
 *   2. A thread of weir's waits until none passes any more, and then for all work in the contexts
 *      in which any did, in the GPU's primary one and in that of the allocation.
 *   3. The space becomes a planned one.
 *
 * So there is no launch without a bracket when memory moves, and nobody is held up: a driver call
 * that does not return, and a kernel that waits for what the program launches next, only keep
 * memory where it is. While a stream is captured the second step waits, see captures.h.
 *
 * Without --when oom, when_is_before() and when_pass() say no, and nothing here does anything.
 *
 * Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_WHEN_H
#define WEIR_SHIM_WHEN_H

#include <stdbool.h>

#include "shim/hooks.h"

/* The space is made, on a device with that primary context. */
void when_begin(cu_context primary);

/* Whether operations have no brackets yet. Once it is false it stays so. */
bool when_is_before(void);

/* An operation is about to be queued. stream: as in brackets.h, where that may be one of another
 * context than the current one, else CU_STREAM_LEGACY. @return whether it goes to the driver as it
 * is; when_passed() follows the driver's call */
bool when_pass(cu_stream stream);
void when_passed(void);

/* An allocation of so many bytes has no room in the GPU's budget: switch brackets on, unless they
 * are. The first caller waits for the third step for as long as operations are held (--hold). */
void when_switch(uint64_t bytes);

/* A context is about to be destroyed. */
void when_context_ends(cu_context context);

/* The space is about to be destroyed. */
void when_end(void);

struct when_account {
	bool late;     /* --when oom */
	bool switched; /* the first step was made */
	bool moves;    /* and the third one */
	uint64_t nr_passed;
	/* The allocation that had no room: its number, from 1, and size; 0: all had. */
	uint64_t allocation, bytes;
	uint64_t switched_ns; /* when, since the space was made */
	uint64_t waited_ns;   /* from there to the third step */
};
void when_account(struct when_account *out);

#endif
