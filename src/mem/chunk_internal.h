/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of chunk pools, and what their files share, in order: a file uses those above it
 * alone.
 *
 *   chunk_state.c     a chunk's state, address and size
 *   chunk_buddy.c     what is free: buddies, class pools
 *   chunk_root.c      roots: made, idle, given back
 *   chunk_pending.c   chunks that queued work may still name; zeroing
 *   chunk_check.c     statistics, the checker
 *   chunk.c           what chunk.h offers
 *
 * pool->lock guards everything that can change; functions below are called with it held unless they
 * say otherwise. Those whose name ends in _unlocked drop it for calls of the backend and take it
 * again: the caller looks at everything anew.
 */
#ifndef WEIR_MEM_CHUNK_INTERNAL_H
#define WEIR_MEM_CHUNK_INTERNAL_H

#include <pthread.h>

#include "src/base/list.h"
#include "src/base/util.h"
#include "src/mem/chunk.h"

#define CHUNK_ORDERS 24u /* a root has at most 2^23 least chunks */

enum chunk_state {
	CHUNK_NONE,    /* no chunk begins here */
	CHUNK_FREE,    /* in a free list */
	CHUNK_POOLED,  /* in a class pool */
	CHUNK_PENDING, /* in pool->pending, or in the hands of a call that has dropped the lock */
	CHUNK_TAKEN,   /* handed out */
	CHUNK_STATE_NR
};

/*
 * What begins at a least chunk of a root, and is nr of them. Free and pooled ones are 2^order of
 * them, aligned to that.
 */
struct mem_chunk {
	struct list_link link; /* first: a link is its chunk */
	struct chunk_root *root;
	fence_t fence; /* pending: may be named by work before it. Handed out: of its zeroing */
	uint32_t nr;
	uint32_t rounding; /* of a chunk handed out: bytes that were not asked for */
	uint8_t state, order;
	bool unfenced; /* pending: work is queued, and its fence could not be recorded */
};

/* nr least chunks. used = sum of nr over chunks that are neither free nor pooled. idle <=> used is
 * 0 and the root is in the pool. */
struct chunk_root {
	struct list_link all, idle_link;
	struct backend_chunk backend;
	uint64_t devices;    /* whose engines reach it, as far as is known; with the lock */
	uint64_t unit_bytes; /* of a least chunk */
	uint32_t nr, used;
	struct mem_chunk chunk[];
};

/*
 * held bytes = sum over roots = sum of bytes[] over states. bit o of nonempty <=> free[o] is not
 * empty; the same of pooled. idle: the latest first.
 */
struct chunk_pool {
	/* Nothing down to the lock ever changes. */
	struct chunk_pool_config config;
	struct backend *backend;
	uint32_t memory;
	uint32_t shift;	     /* of least_bytes */
	uint64_t zero_bytes; /* of the source of zeros */
	void *zero;
	stream_id_t zero_stream;

	/* A leaf: held for bookkeeping only. No call of the backend, no allocation, no log: all of
	 * these may take other locks or a long time. */
	pthread_mutex_t lock;
	struct list_link roots, idle, pending;
	struct list_link free[CHUNK_ORDERS], pooled[CHUNK_ORDERS];
	uint32_t nonempty, pooled_nonempty;
	uint8_t nr_pooled[CHUNK_ORDERS];
	uint64_t bytes[CHUNK_STATE_NR];
	uint64_t idle_bytes, rounding_bytes;
	uint64_t nr_in_hand;	       /* pending ones that are in no list */
	bool polling;		       /* some thread asks about pending ones */
	struct chunk_pool_stats stats; /* the counters */
};

/* What chunk_alloc() was asked for. */
struct chunk_request {
	uint32_t nr;	/* least chunks */
	uint32_t order; /* of the least power of two that holds nr */
};

/* ------------------------------------------------------------------ small things */

static inline struct mem_chunk *chunk_of(struct list_link *link)
{
	return (struct mem_chunk *)link;
}

static inline struct chunk_root *chunk_root_of_all(struct list_link *link)
{
	return (struct chunk_root *)link;
}

static inline struct chunk_root *chunk_root_of_idle(struct list_link *link)
{
	return (struct chunk_root *)((char *)link - offsetof(struct chunk_root, idle_link));
}

static inline uint32_t log2_ceil(uint64_t n)
{
	return n > 1 ? log2_floor(n - 1) + 1 : 0;
}

static inline uint32_t chunk_index(const struct mem_chunk *chunk)
{
	return (uint32_t)(chunk - chunk->root->chunk);
}

static inline uint64_t chunk_held_bytes(const struct chunk_pool *pool)
{
	uint64_t held = 0;

	for (uint32_t s = CHUNK_FREE; s < CHUNK_STATE_NR; s++)
		held += pool->bytes[s];
	return held;
}

/* ------------------------------------------------------------------ state (chunk_state.c) */

/* The one function that changes a chunk's state. Counts it there: its nr and root are set. */
void chunk_set_state(struct chunk_pool *pool, struct mem_chunk *chunk, enum chunk_state state);

/* ------------------------------------------------------------------ free lists (chunk_buddy.c) */

/* Free nr least chunks from a place on, merging. Nothing begins there. */
void chunk_buddy_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr);
/* Take a free chunk off its list: nothing begins there then. */
void chunk_buddy_unlink(struct chunk_pool *pool, struct mem_chunk *chunk);
/* A chunk from class pool or free list, which is then taken; NULL: none. */
struct mem_chunk *chunk_buddy_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Merge the class pools. false: they were empty. */
bool chunk_buddy_flush(struct chunk_pool *pool);
/* Put a chunk that is to be merged by nobody into its class pool. false: it is full, or none. */
bool chunk_pooled_put(struct chunk_pool *pool, struct mem_chunk *chunk);
/* Take a chunk out of the class pool: nothing begins there then. */
void chunk_pooled_unlink(struct chunk_pool *pool, struct mem_chunk *chunk);

/* ------------------------------------------------------------------ roots (chunk_root.c) */

/* Create a root that the request fits into, as large as roots are, or as small as need be if there
 * is no room for that; all of it is free then. Drops the lock. Errors as of phys_take(). */
int chunk_root_add_unlocked(struct chunk_pool *pool, const struct chunk_request *request);
/* Give doomed roots back to the backend. Called without the lock. */
void chunk_roots_destroy(struct chunk_pool *pool, struct list_link *doomed);
/* A chunk from what is free, which is then taken; NULL: none. */
struct mem_chunk *chunk_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Put a chunk that nothing names any more where it belongs. It is pending or taken. */
void chunk_root_put(struct chunk_pool *pool, struct mem_chunk *chunk);
/* Take idle roots out of the pool, into a list, the oldest first, until they are so many bytes or
 * none is left. @return their bytes */
uint64_t chunk_roots_trim(struct chunk_pool *pool, uint64_t bytes, struct list_link *doomed);
/* The same, until no more is held than may be. */
void chunk_roots_limit(struct chunk_pool *pool, struct list_link *doomed);

/* ------------------------------------------------------------------ pending (chunk_pending.c) */

/* Make the source of zeros and its stream, and give them back. Called without the lock. */
int chunk_zero_init(struct chunk_pool *pool);
void chunk_zero_fini(struct chunk_pool *pool);
/* Queue zeroing of a chunk that is taken: chunk->fence is behind it then. Drops the lock. On an
 * error the chunk is pending, or free. */
int chunk_zero_unlocked(struct chunk_pool *pool, struct mem_chunk *chunk);
/* A chunk that is taken is no longer. after: as for chunk_free(). */
void chunk_put(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after);
/* Ask about pending chunks, the oldest first, on while some are ready. false: none was, or another
 * thread is at it. */
bool chunk_pending_poll_unlocked(struct chunk_pool *pool);
/* Wait for all pending chunks. false: some stay. */
bool chunk_pending_wait_unlocked(struct chunk_pool *pool);

#endif
