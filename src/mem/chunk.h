/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of physical memory of any size, cut from root chunks of a backend: buddies for small ones,
 * best fit for large ones, with lazy split and eager merge. One pool serves one memory.
 * docs/memory.md says how it works.
 *
 * Does not know what chunks hold, nor maps them: a chunk's bytes are at its alias, for copies and,
 * where the backend lets them, for kernels.
 *
 * Metadata is 56 bytes for each least chunk of a root, for each granule if large requests share it,
 * from the C library when the root is created and touched only where the root is split; allocating
 * and freeing ask it for nothing.
 *
 * Threads: every function may be called from any thread, with any lock held but those that a
 * function says it must not have, and from progress functions where it does not block. The pool's
 * lock is a leaf: no backend call and no callback is made under it.
 */
#ifndef WEIR_MEM_CHUNK_H
#define WEIR_MEM_CHUNK_H

#include "src/backend/backend.h"

/* A chunk that is handed out. Lives until it is given to chunk_free(), or its owner's callback let
 * it go. */
struct mem_chunk;
struct chunk_pool;

/*
 * Asks an owner to give up a published chunk. owner: what chunk_publish() was told; the chunk may
 * have been given back, or pinned again, since the question arose: the owner looks its number up
 * under its own lock. To give it up: save what it holds, then chunk_free() it, with the fence of
 * what was queued for that, before returning 0. Any error: it stays.
 * Called with no lock of the pool held, and may call the pool, but not with CHUNK_EVICT. While a
 * chunk is published, its owner calls chunk_pin() and chunk_touch() under the lock that is taken
 * here, and chunk_free() either so, or when the number is no longer found: else the chunk could be
 * gone already.
 */
typedef int (*chunk_evict_fn)(void *arg, struct mem_chunk *chunk, uint64_t owner);

struct chunk_pool_config {
	struct backend *backend; /* outlives the pool */
	uint32_t memory;
	uint64_t root_bytes;  /* multiple of the granularity and of least_bytes */
	uint64_t least_bytes; /* power of two */
	uint64_t share_bytes; /* large requests up to this share roots: see there */
	uint64_t max_bytes;   /* that the pool may hold; 0: no limit of its own */
	/* Unused roots are kept while no more is held than is allocated and one of these beyond it,
	 * whichever is more; or with hold_peak than was ever held since the last trim. So a root is
	 * created beyond what was held before only within these two. */
	uint64_t idle_bytes;
	uint32_t idle_per_mille; /* of what is allocated */
	bool hold_peak;
	uint32_t nr_pooled;	   /* chunks of each size that are kept unmerged; <= 255 */
	bool zero;		   /* zeroed chunks can be asked for: makes a stream */
	uint32_t zero_device;	   /* of that device */
	uint64_t zero_ahead_bytes; /* free bytes to keep zeroed; 0: zero on request alone */
	chunk_evict_fn evict;	   /* NULL: nothing is evicted */
	void *evict_arg;
};

/* Defaults: roots of 8 MiB (a granule, if that is more; halved while they are above a 16th of the
 * memory), least size 4 KiB, roots shared up to 64 MiB (halved while that is above a 64th of the
 * memory), no limit, a tenth or two roots kept beyond what is allocated, the peak held, 8 pooled,
 * no zeroing, no eviction. */
void chunk_pool_config_init(struct chunk_pool_config *config, struct backend *b, uint32_t memory);

/*
 * Make a pool. Nothing is held yet, but for the source of zeros (at most 2 MiB) with config->zero.
 * @return 0, or, and nothing was made:
 *   -EINVAL  a size or number is out of range
 *   -ENOMEM  the C library's memory, or the source of zeros
 *   another  of the backend, while the source was filled
 * Blocks: with config->zero.
 */
int chunk_pool_create(const struct chunk_pool_config *config, struct chunk_pool **out);

/* Give everything back. Chunks that are still handed out are logged, and gone. Waits for pending
 * ones: blocks. Progress is no longer called. NULL is allowed. */
void chunk_pool_destroy(struct chunk_pool *pool);

#define CHUNK_ZEROED 1u /* contents are zero once the fence is reached; else undefined */
#define CHUNK_EVICT 2u	/* evict published chunks if need be: see there */

/*
 * Hand out a chunk, pinned. Within its root it is aligned to the next power of two; a large one to
 * the granularity.
 *
 * @param [in]  bytes  > 0. Rounded up to the least size. Above the largest power of two that a root
 *                     has room for it is large: rounded up to the granularity, in a root that it
 *                     shares with other large ones or, above share_bytes, has to itself.
 * @param [in]  flags  CHUNK_EVICT: blocks for the owners' callbacks and the work that they queued;
 *                     the caller holds no lock that those take.
 * @param [out] fence  The chunk is to be touched behind it only; 0: at once. NULL: the caller
 *                     cannot wait, and gets only what is ready.
 * @return 0, or, with every chunk as before (unused roots may have been given back):
 *   -EINVAL   bytes is 0, unknown flags
 *   -ENOMEM   the backend or the limit has no more, and nothing else could be given up
 *   -ENOTSUP  CHUNK_ZEROED of a pool without zeroing
 *   -EAGAIN   CHUNK_ZEROED, no fence, and none is ready: some is being zeroed now
 *   another   of the backend: zeroing could not be queued, a root could not be created
 * Blocks: only with CHUNK_EVICT.
 */
int chunk_alloc(struct chunk_pool *pool, uint64_t bytes, uint32_t flags, fence_t *fence,
		struct mem_chunk **out);

/*
 * Give a chunk back.
 * after: a fence behind all queued work that names it, and behind the fence it came with if that
 * may not be reached; 0: there is no such work. The pool waits for the chunk's own zeroing itself.
 * It is mapped at no block address. A chunk that is not handed out is logged and left alone. NULL
 * is allowed.
 */
void chunk_free(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after);

/* Let the chunk be evicted from now on; owner: the number that the callback is told. A chunk that
 * is not pinned is left alone: -EINVAL. */
int chunk_publish(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t owner);

/* Take a published chunk back: it is pinned. -EBUSY: its owner is being asked now. -EINVAL: it is
 * neither published nor pinned. */
int chunk_pin(struct chunk_pool *pool, struct mem_chunk *chunk);

/* It was used: among the published ones it is evicted last. No matter what state it is in. */
void chunk_touch(struct chunk_pool *pool, struct mem_chunk *chunk);

/* Of a chunk that is handed out. Its bytes: at least what was asked for. Its root: what the backend
 * made, and how far into it the chunk begins. */
void *chunk_addr(const struct mem_chunk *chunk);
uint64_t chunk_bytes(const struct mem_chunk *chunk);
const struct backend_chunk *chunk_root_of(const struct mem_chunk *chunk, uint64_t *offset);

/*
 * The progress function: takes back what became ready and queues zeroing ahead of need. To be
 * called when work completes. Does little where another thread is in it; a call does a bounded
 * amount of work.
 * @return whether there is something to come back for: pending chunks, or zeroing left to queue
 */
bool chunk_pool_progress(struct chunk_pool *pool);

/* Give back unused roots until at most keep_bytes of them are left, and forget the peak that others
 * were kept for. @return bytes given back */
uint64_t chunk_pool_trim(struct chunk_pool *pool, uint64_t keep_bytes);

/*
 * held = allocated + tail + free + pending. External fragmentation is 1 - allocated / held; the
 * figures at the peak are those of the moment when held_bytes last reached a new maximum.
 */
struct chunk_pool_stats {
	uint64_t held_bytes;	  /* of the backend */
	uint64_t allocated_bytes; /* handed out, after rounding */
	uint64_t rounding_bytes;  /* of these: beyond what was asked for */
	uint64_t tail_bytes;	  /* of roots of their own, unused behind the chunk */
	uint64_t free_bytes;	  /* can be handed out at once, pooled ones too */
	uint64_t pooled_bytes;	  /* of these: unmerged */
	uint64_t zeroed_bytes;	  /* of these: zeroed */
	uint64_t idle_bytes;	  /* of roots of which nothing is used */
	uint64_t pending_bytes;	  /* wait for queued work, zeroing included */
	uint64_t evictable_bytes; /* published */
	uint64_t largest_free_bytes;
	uint64_t peak_held_bytes, peak_allocated_bytes, peak_rounding_bytes;
	uint64_t nr_chunks; /* handed out */
	uint64_t nr_roots;  /* of them nr_shared for large requests, nr_own for one each */
	uint64_t nr_shared, nr_own;
	uint64_t nr_allocs, nr_hits; /* hits: without a call of the backend */
	uint64_t nr_splits, nr_merges;
	uint64_t nr_creates, nr_destroys, nr_refused; /* roots */
	uint64_t created_bytes;			      /* of nr_creates */
	uint64_t nr_zeroings, nr_zeroed_hits;
	uint64_t unzeroed_bytes; /* lost their zeros by merging with what had none */
	uint64_t nr_evicted, nr_evict_refused;
	uint64_t nr_fence_errors; /* questions about fences that failed */
	uint64_t nr_wrong;	  /* calls with chunks that were not handed out */
};
void chunk_pool_stats(struct chunk_pool *pool, struct chunk_pool_stats *out);

/* Walk every structure of the pool. 0, or -EUCLEAN, logged. Slow. */
int chunk_pool_check(struct chunk_pool *pool);

#endif
