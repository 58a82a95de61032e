/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a memory leave it while somebody looks, and whether launches that were queued
 * before use them: what a machine's backend is asked to do is noted on its way there.
 *
 * It costs a mark (see fence_mark) a launch while launches are noted, and no virtual time.
 */
#ifndef WEIR_BENCH_TRAINING_TAKEN_H
#define WEIR_BENCH_TRAINING_TAKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "src/backend/backend.h"

/* What left a memory between taken_begin() and taken_end(), and what was under way at the former:
 * launches that were queued and not known to be done. */
struct taken {
	uint64_t held_bytes;  /* chunks of the memory that there were at the beginning */
	uint64_t freed_bytes; /* chunks of it that were destroyed */
	uint32_t nr_blocks;   /* of it that were unmapped */
	uint32_t nr_used;     /* of these, named by a launch that was under way */
	uint32_t nr_queued;   /* launches under way */
	uint32_t nr_calls;    /* that make and map chunks of all memories, unmap and destroy them */
	uint64_t calls_ns;    /* in these calls */
	uint32_t nr_waits;    /* for fences, by the host */
	uint64_t waited_ns;   /* in these waits; calls made in them are among the calls, too */
	fence_t queued;	      /* reached when the last launch under way is done; 0: none was */
	fence_t used;	      /* the same of those that name blocks that left */
};

/* Watch a machine on which nothing was made yet. One at a time. */
void taken_watch(struct weir_machine *machine);

/* Note launches from now on, or no more. */
void taken_launches(bool noted);

/* Forget launches that are done; to be called every now and then while they are noted. */
void taken_forget(void);

/* Bytes of a memory's chunks that there are. */
uint64_t taken_held(uint32_t memory);

/* By one thread, between which it queues no launch. -ENOMEM, -EOVERFLOW (a launch of more uses than
 * are noted): something was missed since the watch began. */
void taken_begin(uint32_t memory);
int taken_end(struct taken *out);

/* When a fence of struct taken was reached, by the machine's clock; 0: it was not. */
uint64_t taken_reached(fence_t fence);

/* After the machine was closed. */
void taken_fini(void);

#endif
