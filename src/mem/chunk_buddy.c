/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is free for small requests: buddies inside roots, and class pools above them. Everything on
 * the way of their hits is here, and none of it searches or allocates: a bit map says which size
 * has something, lists are last in, first out.
 *
 * Last in, first out was preferred to the lowest address: it costs nothing, and memory that was
 * used last is the warmest. What that loses in fragmentation is bounded by keeping large requests
 * out of here.
 */
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ buddies */

static void buddy_push(struct chunk_pool *pool, struct chunk_root *root, uint32_t at,
		       uint32_t order, bool zeroed)
{
	struct mem_chunk *chunk = &root->chunk[at];

	chunk->root = root;
	chunk->nr = 1u << order;
	chunk->order = (uint8_t)order;
	chunk->zeroed = zeroed;
	chunk_set_state(pool, chunk, CHUNK_FREE);
	if (zeroed)
		pool->zeroed_bytes += (uint64_t)chunk->nr << pool->shift;
	if (root->emptying) {
		list_add(&root->held, &chunk->link);
		return;
	}
	list_add(&pool->free[zeroed][order], &chunk->link);
	pool->nonempty[zeroed] |= 1u << order;
}

void chunk_buddy_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	list_del(&chunk->link);
	if (list_empty(&pool->free[chunk->zeroed][chunk->order]))
		pool->nonempty[chunk->zeroed] &= ~(1u << chunk->order);
	if (chunk->zeroed)
		pool->zeroed_bytes -= (uint64_t)chunk->nr << pool->shift;
	chunk_set_state(pool, chunk, CHUNK_NONE);
}

/* Free 2^order least chunks, and their halves' halves as long as the other is free too. */
static void buddy_merge(struct chunk_pool *pool, struct chunk_root *root, uint32_t at,
			uint32_t order, bool zeroed)
{
	for (;; order++) {
		uint32_t other = at ^ 1u << order;
		struct mem_chunk *buddy = &root->chunk[other];

		if (other + (1u << order) > root->nr || buddy->state != CHUNK_FREE ||
		    buddy->order != order)
			break;
		chunk_buddy_unlink(pool, buddy);
		if (buddy->zeroed != zeroed)
			pool->stats.unzeroed_bytes += (UINT64_C(1) << order) << pool->shift;
		zeroed = zeroed && buddy->zeroed;
		at &= ~(1u << order);
		pool->stats.nr_merges++;
	}
	buddy_push(pool, root, at, order, zeroed);
}

void chunk_buddy_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		      bool zeroed)
{
	uint32_t end = at + nr;

	while (at < end) {
		uint32_t order = log2_floor(end - at);

		if (at && (uint32_t)__builtin_ctz(at) < order)
			order = (uint32_t)__builtin_ctz(at);
		buddy_merge(pool, root, at, order, zeroed);
		at += 1u << order;
	}
}

/* The free chunk to cut: the smallest that is large enough; among equals one whose contents are as
 * wanted. For zeroed memory any zeroed one goes before others. */
static struct mem_chunk *buddy_find(struct chunk_pool *pool, uint32_t order, bool zeroed)
{
	uint32_t match = pool->nonempty[zeroed] >> order, other = pool->nonempty[!zeroed] >> order;
	bool use_match =
		match && (zeroed || !other || __builtin_ctz(match) <= __builtin_ctz(other));
	bool which = use_match ? zeroed : !zeroed;

	if (!match && !other)
		return NULL;
	order += (uint32_t)__builtin_ctz(use_match ? match : other);
	return chunk_of(pool->free[which][order].next);
}

/* Cut off and pin the first nr least chunks; the rest stays free. */
static struct mem_chunk *buddy_cut(struct chunk_pool *pool, struct mem_chunk *chunk, uint32_t nr)
{
	struct chunk_root *root = chunk->root;
	uint32_t at = chunk_index(chunk), end = at + chunk->nr;

	chunk_buddy_unlink(pool, chunk);
	chunk->nr = nr;
	chunk_set_state(pool, chunk, CHUNK_PINNED);
	pool->stats.nr_splits += at + nr < end;
	/* Each piece's lower half is used, so none can merge. */
	for (at += nr; at < end;) {
		uint32_t order = (uint32_t)__builtin_ctz(at);

		buddy_push(pool, root, at, order, chunk->zeroed);
		at += 1u << order;
	}
	return chunk;
}

/* ------------------------------------------------------------------ class pools */

void chunk_pooled_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	list_del(&chunk->link);
	pool->nr_pooled[chunk->zeroed][chunk->order]--;
	if (!pool->nr_pooled[chunk->zeroed][chunk->order])
		pool->pooled_nonempty[chunk->zeroed] &= ~(1u << chunk->order);
	if (chunk->zeroed)
		pool->zeroed_bytes -= (uint64_t)chunk->nr << pool->shift;
	chunk_set_state(pool, chunk, CHUNK_NONE);
}

bool chunk_pooled_put(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed)
{
	uint32_t order = log2_floor(chunk->nr);

	if (chunk->nr != 1u << order || chunk->nr == chunk->root->nr || chunk->root->emptying ||
	    pool->nr_pooled[zeroed][order] >= pool->config.nr_pooled)
		return false;
	chunk->order = (uint8_t)order;
	chunk->zeroed = zeroed;
	chunk_set_state(pool, chunk, CHUNK_POOLED);
	if (zeroed)
		pool->zeroed_bytes += (uint64_t)chunk->nr << pool->shift;
	list_add(&pool->pooled[zeroed][order], &chunk->link);
	pool->nr_pooled[zeroed][order]++;
	pool->pooled_nonempty[zeroed] |= 1u << order;
	return true;
}

bool chunk_buddy_flush(struct chunk_pool *pool)
{
	bool any = false;

	for (uint32_t z = 0; z < 2; z++)
		while (pool->pooled_nonempty[z]) {
			uint32_t order = log2_floor(pool->pooled_nonempty[z]);
			struct mem_chunk *chunk = chunk_of(pool->pooled[z][order].next);

			chunk_pooled_unlink(pool, chunk);
			chunk_buddy_free(pool, chunk->root, chunk_index(chunk), chunk->nr, z);
			any = true;
		}
	return any;
}

static struct mem_chunk *pooled_take(struct chunk_pool *pool, uint32_t order, bool zeroed)
{
	struct mem_chunk *chunk;

	if (!(pool->pooled_nonempty[zeroed] >> order & 1))
		return NULL;
	chunk = chunk_of(pool->pooled[zeroed][order].next);
	chunk_pooled_unlink(pool, chunk);
	chunk_set_state(pool, chunk, CHUNK_PINNED);
	return chunk;
}

struct mem_chunk *chunk_buddy_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	bool exact = request->nr == 1u << request->order;
	struct mem_chunk *chunk = NULL;

	if (exact)
		chunk = pooled_take(pool, request->order, request->zeroed);
	/* What is not as wanted goes before cutting, unless zeroed memory is there to be cut. */
	if (!chunk && exact && !(request->zeroed && pool->nonempty[1] >> request->order))
		chunk = pooled_take(pool, request->order, !request->zeroed);
	if (!chunk) {
		chunk = buddy_find(pool, request->order, request->zeroed);
		if (!chunk)
			return NULL;
		chunk = buddy_cut(pool, chunk, request->nr);
	}
	return chunk;
}
