/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of physical memory of any size up to a root's, cut from root chunks of one size: buddies
 * with lazy split and eager merge. One pool serves one memory, on the account of one client
 * (src/phys/phys.h). docs/memory.md says how it works.
 *
 * Does not know what chunks hold, nor maps them: a chunk's bytes are at its alias, for copies and,
 * where the backend lets them, for kernels.
 *
 * Metadata is 48 bytes for each least chunk of a root, from the C library when the root is created
 * and touched only where the root is split; allocating and freeing ask it for nothing.
 *
 * Threads: every function may be called from any thread, with any lock held, and from progress
 * functions where it does not block. The pool's lock is a leaf: no backend call is made under it.
 */
#ifndef WEIR_MEM_CHUNK_H
#define WEIR_MEM_CHUNK_H

#include "src/phys/phys.h"

/* A chunk that is handed out. Lives until it is given to chunk_free(). */
struct mem_chunk;
struct chunk_pool;

struct chunk_pool_config {
	struct phys_client *client; /* outlives the pool */
	uint64_t root_bytes;	    /* multiple of the granularity and of least_bytes */
	uint64_t least_bytes;	    /* power of two */
	/* Unused roots are kept while no more is held than is allocated and one of these beyond it,
	 * whichever is more. */
	uint64_t idle_bytes;
	uint32_t idle_per_mille; /* of what is allocated */
	uint32_t nr_pooled;	 /* chunks of each size that are kept unmerged; <= 255 */
	bool zero;		 /* zeroed chunks can be asked for: makes a stream */
	uint32_t zero_device;	 /* of that device */
};

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
 * ones: blocks. NULL is allowed. */
void chunk_pool_destroy(struct chunk_pool *pool);

/*
 * Hand out a chunk. Within its root it is aligned to the next power of two.
 *
 * @param [in]  bytes   > 0. Rounded up to the least size. At most the largest power of two that a
 *                      root has room for.
 * @param [out] zeroed  The contents are zero once this fence is reached, and the chunk is to be
 *                      touched behind it only. NULL: contents are undefined.
 * @return 0, or, with every chunk as before:
 *   -EINVAL   bytes is out of range
 *   -EAGAIN   there is no room, and other clients of the memory hold some: phys_reclaim()
 *   -ENOMEM   there is no room
 *   -ENOTSUP  zeroed, of a pool without zeroing
 *   another   of the backend: zeroing could not be queued, a root could not be created
 * Blocks: no.
 */
int chunk_alloc(struct chunk_pool *pool, uint64_t bytes, fence_t *zeroed, struct mem_chunk **out);

/*
 * Give a chunk back.
 * after: a fence behind all queued work that names it, and behind the fence it came with if that
 * may not be reached; 0: there is no such work. The pool waits for the chunk's own zeroing itself.
 * It is mapped at no block address. A chunk that is not handed out is logged and left alone. NULL
 * is allowed.
 */
void chunk_free(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after);

/* Of a chunk that is handed out. Its bytes: at least what was asked for. Its root: what the backend
 * made, and how far into it the chunk begins. */
void *chunk_addr(const struct mem_chunk *chunk);
uint64_t chunk_bytes(const struct mem_chunk *chunk);
const struct backend_chunk *chunk_root_of(const struct mem_chunk *chunk, uint64_t *offset);

/*
 * Have the engines of these devices reach a chunk that is handed out, and with it all of its root.
 * @return 0, or an error of the backend. Blocks: no.
 */
int chunk_add_devices(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t devices);

/* Give back unused roots, those that were unused longest first, until it is at least so many bytes
 * or none is left. What queued work still names is not unused. @return bytes given back */
uint64_t chunk_pool_trim(struct chunk_pool *pool, uint64_t bytes);

/* held = allocated + free + pending. External fragmentation is 1 - allocated / held. */
struct chunk_pool_stats {
	uint64_t held_bytes;	  /* of the backend */
	uint64_t allocated_bytes; /* handed out, after rounding */
	uint64_t rounding_bytes;  /* of these: beyond what was asked for */
	uint64_t free_bytes;	  /* can be handed out at once, pooled ones too */
	uint64_t pooled_bytes;	  /* of these: unmerged */
	uint64_t idle_bytes;	  /* of roots of which nothing is used */
	uint64_t pending_bytes;	  /* wait for queued work, zeroing included */
	uint64_t largest_free_bytes;
	uint64_t nr_chunks; /* handed out */
	uint64_t nr_roots;
	uint64_t nr_allocs, nr_hits; /* hits: without a call of the backend */
	uint64_t nr_splits, nr_merges;
	uint64_t nr_creates, nr_destroys; /* roots */
	uint64_t nr_zeroings;
	uint64_t nr_fence_errors; /* questions about fences that failed */
	uint64_t nr_wrong;	  /* calls with chunks that were not handed out */
};
void chunk_pool_stats(struct chunk_pool *pool, struct chunk_pool_stats *out);

/* Walk every structure of the pool. 0, or -EUCLEAN, logged. Slow. */
int chunk_pool_check(struct chunk_pool *pool);

#endif
