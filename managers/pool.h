/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pooling allocator over any source of memory, as training frameworks keep one: memory once
 * taken is kept and given out again, so that the source's cost is paid once and not per tensor.
 *
 * Requests below 1 MiB are cut from segments of 2 MiB; larger ones are rounded up to 2 MiB and cut
 * from segments of their own size. The smallest free block that is large enough is taken, what is
 * left of it stays free, and free neighbours grow together again. When the source is exhausted,
 * segments that are free as a whole go back to it and it is asked once more.
 *
 * The pool never touches the memory that it manages. It is not thread-safe: a manager serves one
 * thread. Reuse is immediate: right where all use is in the order of one stream.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <stdint.h>

struct pool;

/* Where segments come from. */
struct pool_source {
	int (*get)(void *arg, uint64_t bytes, void **addr); /* -ENOMEM: exhausted */
	void (*put)(void *arg, void *addr, uint64_t bytes); /* bytes as in get */
	void *arg;
};

/* What counts for out of memory is reserved_bytes; live_bytes is what the program holds. */
struct pool_stats {
	uint64_t live_bytes;	 /* requested, rounded up to 512 each */
	uint64_t reserved_bytes; /* segments taken from the source */
	uint64_t nr_segments;
};

/* source is copied; its arg outlives the pool. -ENOMEM. */
int pool_create(const struct pool_source *source, struct pool **out);

/* Everything, live or not, goes back to the source. NULL is allowed. */
void pool_destroy(struct pool *pool);

/* -EINVAL: bytes is 0. -ENOMEM: the source is exhausted, or bytes is beyond any memory. */
int pool_alloc(struct pool *pool, uint64_t bytes, void **addr);

/* -EINVAL: not an address that pool_alloc() gave and that is live. NULL is allowed. */
int pool_free(struct pool *pool, void *addr);

/* Give segments that are free as a whole back to the source. Returns how many bytes. */
uint64_t pool_trim(struct pool *pool);

void pool_stats(const struct pool *pool, struct pool_stats *out);

/* Walk every structure. 0 or -EUCLEAN. */
int pool_check(const struct pool *pool);

#endif
