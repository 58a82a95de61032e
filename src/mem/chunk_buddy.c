/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is free: buddies inside roots, and class pools above them. Everything on the way of a hit is
 * here, and none of it searches or allocates: a bit map says which size has something, lists are
 * last in, first out. That was preferred to the lowest address: it costs nothing, and memory that
 * was used last is the warmest.
 */
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ buddies */

static void buddy_push(struct chunk_pool *pool, struct chunk_root *root, uint32_t at,
		       uint32_t order)
{
	struct mem_chunk *chunk = &root->chunk[at];

	chunk->root = root;
	chunk->nr = 1u << order;
	chunk->order = (uint8_t)order;
	chunk_set_state(pool, chunk, CHUNK_FREE);
	list_add(&pool->free[order], &chunk->link);
	pool->nonempty |= 1u << order;
}

void chunk_buddy_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	list_del(&chunk->link);
	if (list_empty(&pool->free[chunk->order]))
		pool->nonempty &= ~(1u << chunk->order);
	chunk_set_state(pool, chunk, CHUNK_NONE);
}

/* Free 2^order least chunks, and their halves' halves as long as the other is free too. */
static void buddy_merge(struct chunk_pool *pool, struct chunk_root *root, uint32_t at,
			uint32_t order)
{
	for (;; order++) {
		uint32_t other = at ^ 1u << order;
		struct mem_chunk *buddy = &root->chunk[other];

		if (other + (1u << order) > root->nr || buddy->state != CHUNK_FREE ||
		    buddy->order != order)
			break;
		chunk_buddy_unlink(pool, buddy);
		at &= ~(1u << order);
		pool->stats.nr_merges++;
	}
	buddy_push(pool, root, at, order);
}

void chunk_buddy_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr)
{
	uint32_t end = at + nr;

	while (at < end) {
		uint32_t order = log2_floor(end - at);

		if (at && (uint32_t)__builtin_ctz(at) < order)
			order = (uint32_t)__builtin_ctz(at);
		buddy_merge(pool, root, at, order);
		at += 1u << order;
	}
}

/* The free chunk to cut: the smallest that is large enough. */
static struct mem_chunk *buddy_find(struct chunk_pool *pool, uint32_t order)
{
	uint32_t match = pool->nonempty >> order;

	return match ? chunk_of(pool->free[order + (uint32_t)__builtin_ctz(match)].next) : NULL;
}

/* Cut off and take the first nr least chunks; the rest stays free. */
static struct mem_chunk *buddy_cut(struct chunk_pool *pool, struct mem_chunk *chunk, uint32_t nr)
{
	struct chunk_root *root = chunk->root;
	uint32_t at = chunk_index(chunk), end = at + chunk->nr;

	chunk_buddy_unlink(pool, chunk);
	chunk->nr = nr;
	chunk_set_state(pool, chunk, CHUNK_TAKEN);
	pool->stats.nr_splits += at + nr < end;
	/* Each piece's lower half is used, so none can merge. */
	for (at += nr; at < end;) {
		uint32_t order = (uint32_t)__builtin_ctz(at);

		buddy_push(pool, root, at, order);
		at += 1u << order;
	}
	return chunk;
}

/* ------------------------------------------------------------------ class pools */

void chunk_pooled_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	list_del(&chunk->link);
	pool->nr_pooled[chunk->order]--;
	if (!pool->nr_pooled[chunk->order])
		pool->pooled_nonempty &= ~(1u << chunk->order);
	chunk_set_state(pool, chunk, CHUNK_NONE);
}

bool chunk_pooled_put(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	uint32_t order = log2_floor(chunk->nr);

	if (chunk->nr != 1u << order || chunk->nr == chunk->root->nr ||
	    pool->nr_pooled[order] >= pool->config.nr_pooled)
		return false;
	chunk->order = (uint8_t)order;
	chunk_set_state(pool, chunk, CHUNK_POOLED);
	list_add(&pool->pooled[order], &chunk->link);
	pool->nr_pooled[order]++;
	pool->pooled_nonempty |= 1u << order;
	return true;
}

bool chunk_buddy_flush(struct chunk_pool *pool)
{
	bool any = false;

	while (pool->pooled_nonempty) {
		uint32_t order = log2_floor(pool->pooled_nonempty);
		struct mem_chunk *chunk = chunk_of(pool->pooled[order].next);

		chunk_pooled_unlink(pool, chunk);
		chunk_buddy_free(pool, chunk->root, chunk_index(chunk), chunk->nr);
		any = true;
	}
	return any;
}

struct mem_chunk *chunk_buddy_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	bool exact = request->nr == 1u << request->order;
	struct mem_chunk *chunk;

	if (exact && pool->pooled_nonempty >> request->order & 1) {
		chunk = chunk_of(pool->pooled[request->order].next);
		chunk_pooled_unlink(pool, chunk);
		chunk_set_state(pool, chunk, CHUNK_TAKEN);
		return chunk;
	}
	chunk = buddy_find(pool, request->order);
	return chunk ? buddy_cut(pool, chunk, request->nr) : NULL;
}
