/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of chunk pools, and what their files share, in order: a file uses those above it
 * alone.
 *
 *   chunk_state.c     a chunk's state, address and size
 *   chunk_buddy.c     what is free for small requests: buddies, class pools
 *   chunk_large.c     what is free for large requests
 *   chunk_root.c      roots, whatever their kind: made, taken from, idle, given back
 *   chunk_pending.c   chunks that queued work may still name; zeroing
 *   chunk_pressure.c  what to do where nothing is free: wait, grow, evict
 *   chunk_check.c     statistics, the checker
 *   chunk.c           what chunk.h offers
 *
 * pool->lock guards everything that can change; functions below are called with it held unless they
 * say otherwise. Those whose name ends in _unlocked drop it for calls of the backend or of an owner
 * and take it again: the caller looks at everything anew.
 */
#ifndef WEIR_MEM_CHUNK_INTERNAL_H
#define WEIR_MEM_CHUNK_INTERNAL_H

#include <pthread.h>

#include "src/base/list.h"
#include "src/base/util.h"
#include "src/mem/chunk.h"

#define CHUNK_ORDERS 24u    /* a root has at most 2^23 least chunks */
#define CHUNK_SIZE_STEPS 8u /* classes of large sizes, between two powers of two */
#define CHUNK_SIZE_CLASSES (64u * CHUNK_SIZE_STEPS)

enum chunk_state {
	CHUNK_NONE,	 /* no chunk begins here */
	CHUNK_FREE,	 /* in a free list, or in the root's while it is being emptied */
	CHUNK_POOLED,	 /* in a class pool */
	CHUNK_PENDING,	 /* in pool->pending, or in the hands of a call that has dropped the lock */
	CHUNK_PINNED,	 /* the caller's */
	CHUNK_PUBLISHED, /* in pool->published */
	CHUNK_EVICTING,	 /* its owner is being asked */
	CHUNK_STATE_NR
};

/* Whom a root is for. */
enum chunk_kind {
	CHUNK_BUDDY,  /* small requests: cut in powers of two of least chunks */
	CHUNK_SHARED, /* large ones: cut in any number of granules */
	CHUNK_OWN,    /* one large one: never cut */
	CHUNK_KIND_NR
};

/*
 * What begins at a unit of a root, which is nr units. Of buddies, free and pooled ones are 2^order
 * units, aligned to that. The last unit of a free chunk, if that is not the first as well, says nr,
 * too: so whoever is freed behind it finds it.
 */
struct mem_chunk {
	struct list_link link; /* first: a link is its chunk */
	struct chunk_root *root;
	uint64_t owner; /* published, evicting */
	fence_t fence;	/* pending: may be named by work before it. Handed out: of its zeroing */
	uint32_t nr;
	uint32_t rounding; /* of a chunk handed out: bytes that were not asked for */
	uint8_t state, order;
	bool zeroed;   /* free, pooled */
	bool zeroing;  /* pending: zeroed when the fence is reached */
	bool unfenced; /* pending: work is queued, and its fence could not be recorded */
	bool given_up; /* evicting: chunk_free() was called */
};

/* nr units of unit_bytes are the root. used = sum of nr over chunks that are neither free nor
 * pooled. idle <=> used is 0, the root is in the pool and nobody is emptying it. */
struct chunk_root {
	struct list_link all, idle_link;
	struct backend_chunk backend;
	uint64_t unit_bytes;  /* a least chunk; a granule; of a root of its own all of it */
	uint64_t asked_bytes; /* of a root of its own that is handed out: of its chunk */
	uint32_t nr, used, nr_pinned;
	enum chunk_kind kind;
	bool emptying;	       /* its free chunks are in held, and nobody is given them */
	struct list_link held; /* then */
	struct mem_chunk chunk[];
};

/* Free chunks by size. Bit c of nonempty <=> list[c] is not empty. */
struct chunk_sizes {
	struct list_link list[CHUNK_SIZE_CLASSES];
	uint64_t nonempty[CHUNK_SIZE_CLASSES / 64];
};

/*
 * held_bytes = sum over roots = sum of bytes[] over states. bit o of nonempty[z] <=> free[z][o] is
 * not empty; the same of pooled. published is in the order of eviction, idle the latest first.
 */
struct chunk_pool {
	/* Nothing down to the lock ever changes. */
	struct chunk_pool_config config;
	struct backend *backend;
	uint64_t granularity, zero_bytes;
	uint64_t share_bytes;	    /* the largest request that shares a root */
	uint64_t shared_root_bytes; /* of such a root, unless the request or the limits say else */
	uint32_t shift;		    /* of least_bytes */
	void *zero;		    /* the source of zeros: zero_bytes of them */
	stream_id_t zero_stream;

	/* A leaf: held for bookkeeping only. No call of the backend, no callback, no allocation, no
	 * log: all of these may take other locks or a long time. */
	pthread_mutex_t lock;
	struct list_link roots, idle, pending, published;
	struct list_link free[2][CHUNK_ORDERS], pooled[2][CHUNK_ORDERS];
	uint32_t nonempty[2], pooled_nonempty[2];
	uint8_t nr_pooled[2][CHUNK_ORDERS];
	struct chunk_sizes shared, own; /* of large requests: pieces that are free, and roots */
	uint64_t bytes[CHUNK_STATE_NR];
	uint64_t zeroed_bytes;	/* of free and pooled ones */
	uint64_t zeroing_bytes; /* of pending ones: being zeroed */
	uint64_t idle_bytes, creating_bytes, tail_bytes, rounding_bytes;
	uint64_t most_bytes;	       /* held at a time, since the last trim */
	uint64_t nr_in_hand;	       /* pending ones that are in no list */
	bool progressing;	       /* some thread polls */
	struct chunk_pool_stats stats; /* the counters and peaks */
};

/* What chunk_alloc() was asked for. */
struct chunk_request {
	uint64_t bytes; /* rounded */
	enum chunk_kind kind;
	uint32_t nr;	/* units of its kind of root */
	uint32_t order; /* of the least power of two that holds nr */
	bool zeroed, evict, fence;
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

/* Bytes that it takes of its root; a root of its own as a whole. */
static inline uint64_t chunk_span(const struct mem_chunk *chunk)
{
	return chunk->nr * chunk->root->unit_bytes;
}

/* Of these, what nobody asked for and nobody else is given. It is handed out. */
static inline uint64_t chunk_tail(const struct mem_chunk *chunk)
{
	const struct chunk_root *root = chunk->root;

	return root->kind == CHUNK_OWN ? root->backend.bytes - root->asked_bytes : 0;
}

static inline uint64_t chunk_held_bytes(const struct chunk_pool *pool)
{
	uint64_t held = 0;

	for (uint32_t s = CHUNK_FREE; s < CHUNK_STATE_NR; s++)
		held += pool->bytes[s];
	return held;
}

static inline uint64_t chunk_allocated_bytes(const struct chunk_pool *pool)
{
	return pool->bytes[CHUNK_PINNED] + pool->bytes[CHUNK_PUBLISHED] +
	       pool->bytes[CHUNK_EVICTING] - pool->tail_bytes;
}

/* ------------------------------------------------------------------ state (chunk_state.c) */

/* The one function that changes a chunk's state. Counts it there: its nr and root are set. */
void chunk_set_state(struct chunk_pool *pool, struct mem_chunk *chunk, enum chunk_state state);

/* ------------------------------------------------------------------ free lists (chunk_buddy.c) */

/* Free nr least chunks from a place on, merging. Nothing begins there. */
void chunk_buddy_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		      bool zeroed);
/* Take a free chunk off its list: nothing begins there then. */
void chunk_buddy_unlink(struct chunk_pool *pool, struct mem_chunk *chunk);
/* A chunk of a root to be cut, pinned, from class pool or free list; NULL: none. */
struct mem_chunk *chunk_buddy_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Merge the class pools. false: they were empty. */
bool chunk_buddy_flush(struct chunk_pool *pool);
/* Put a chunk that is to be merged by nobody into its class pool. false: it is full, or none. */
bool chunk_pooled_put(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed);
/* Take a chunk out of the class pool: nothing begins there then. */
void chunk_pooled_unlink(struct chunk_pool *pool, struct mem_chunk *chunk);

/* ------------------------------------------------------------------ large (chunk_large.c) */

/* As chunk_buddy_free() and chunk_buddy_unlink(), of roots that large requests share or own. */
void chunk_large_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		      bool zeroed);
void chunk_large_unlink(struct chunk_pool *pool, struct mem_chunk *chunk);
/* A chunk of such a root, pinned; NULL: none. */
struct mem_chunk *chunk_large_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Note what was asked for of a chunk that is about to be handed out. */
void chunk_large_ask(struct chunk_pool *pool, const struct mem_chunk *chunk,
		     const struct chunk_request *request);
/* Whether a chunk, in the state that it is in, is as large as a request needs and may be. */
bool chunk_fits(const struct mem_chunk *chunk, const struct chunk_request *request);
/* The largest free piece of a shared root. */
uint64_t chunk_large_largest(const struct chunk_pool *pool);
/* The class of a size. */
uint32_t chunk_size_class(uint64_t bytes);

/* ------------------------------------------------------------------ roots (chunk_root.c) */

/* A root for requests of a kind; not in the pool. Called without the lock. */
int chunk_root_create(struct chunk_pool *pool, uint64_t bytes, enum chunk_kind kind,
		      struct chunk_root **out);
/* All of it is free from here on. */
void chunk_root_add(struct chunk_pool *pool, struct chunk_root *root);
/* Give doomed roots back to the backend. Called without the lock. */
void chunk_roots_destroy(struct chunk_pool *pool, struct list_link *doomed);
/* A pinned chunk from what is free; NULL: none. */
struct mem_chunk *chunk_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Put a chunk that nothing names any more where it belongs. It is pending or handed out. */
void chunk_root_put(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed);
/* Put a root on the idle list or take it off, by whether any of it is used. */
void chunk_root_settle(struct chunk_pool *pool, struct chunk_root *root);
/* Take idle roots out of the pool, into a list, the oldest first, until at most so many bytes of
 * them are left. */
uint64_t chunk_roots_trim(struct chunk_pool *pool, uint64_t keep_bytes, struct list_link *doomed);
/* What may be held, with so many more bytes about to be allocated. */
uint64_t chunk_roots_most(const struct chunk_pool *pool, uint64_t more_bytes);
/* Take idle roots out as well, down to that, with so many more bytes about to be created. */
void chunk_roots_limit(struct chunk_pool *pool, uint64_t more_bytes, struct list_link *doomed);
/* Take a root's free chunks out of reach, and give them back. */
void chunk_root_empty_begin(struct chunk_pool *pool, struct chunk_root *root);
void chunk_root_empty_end(struct chunk_pool *pool, struct chunk_root *root);

/* ------------------------------------------------------------------ pending (chunk_pending.c) */

/* Make the source of zeros and its stream, and give them back. Called without the lock. */
int chunk_zero_init(struct chunk_pool *pool);
void chunk_zero_fini(struct chunk_pool *pool);
/*
 * Queue zeroing of a chunk that is the caller's alone. Called without the lock. *queued: whether
 * work may name it, by fence *fence, or 0 where that could not be recorded.
 */
int chunk_zero_queue(struct chunk_pool *pool, const struct mem_chunk *chunk, bool *queued,
		     fence_t *fence);
/* Put a chunk that is pending, and in no list, into the list. fence 0: unfenced. */
void chunk_pending_add(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t fence,
		       bool zeroing);
/* A chunk that is handed out, and in no list, is no longer. after: as for chunk_free(). */
void chunk_put(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after);
/* A pending chunk of just the size, to be handed out with its fence; NULL: none. */
struct mem_chunk *chunk_pending_take(struct chunk_pool *pool, const struct chunk_request *request);
/* Ask about pending chunks, the oldest first: a few, or on while some are ready. false: none was,
 * or another thread is at it. */
bool chunk_pending_poll_unlocked(struct chunk_pool *pool, bool on);
/* Wait for the pending chunks of a root, or of the pool if root is NULL. false: some stay. */
bool chunk_pending_wait_unlocked(struct chunk_pool *pool, const struct chunk_root *root);
/* Queue zeroing of some free memory, if there is not enough. */
void chunk_zero_ahead_unlocked(struct chunk_pool *pool);
bool chunk_zero_ahead_wanted(const struct chunk_pool *pool);

/* ------------------------------------------------------------------ pressure (chunk_pressure.c) */

/* What no free list had: a pinned chunk, or an error. */
int chunk_pressure_take_unlocked(struct chunk_pool *pool, const struct chunk_request *request,
				 struct mem_chunk **out);

#endif
