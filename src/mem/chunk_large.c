/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is free for large requests. Those up to a size share roots: these are cut in any number of
 * granules, the best fit first, and what comes back merges with what is free before and behind it
 * (Knuth, The Art of Computer Programming, 2.5: boundary tags). Larger ones have roots of their
 * own, which are a single unit and so are neither cut nor merged.
 *
 * Free chunks are in lists by size, eight between two powers of two, with a bit map of those that
 * are not empty, as in the TLSF allocator (Masmano and others, 2004). Within a list a few are
 * looked at, so the fit is not always the best, and the time is bounded.
 */
#include "src/mem/chunk_internal.h"

/* Chunks of one size class that are looked at. */
#define LOOK 16u
/* A root of its own that is to be had again is at most a fifth larger than the request. */
#define OWN_SPARE 5u

/* ------------------------------------------------------------------ lists by size */

uint32_t chunk_size_class(uint64_t bytes)
{
	uint32_t log = log2_floor(bytes);
	uint64_t rest = bytes - (UINT64_C(1) << log);

	/* Sizes are far above 8. */
	return log * CHUNK_SIZE_STEPS + (uint32_t)(rest >> (log - 3));
}

/* The first class from one on that is not empty; CHUNK_SIZE_CLASSES: none. */
static uint32_t class_from(const struct chunk_sizes *sizes, uint32_t class)
{
	uint32_t word = class / 64;
	uint64_t bits;

	if (class >= CHUNK_SIZE_CLASSES)
		return CHUNK_SIZE_CLASSES;
	bits = sizes->nonempty[word] & UINT64_MAX << class % 64;
	while (!bits && ++word < CHUNK_SIZE_CLASSES / 64)
		bits = sizes->nonempty[word];
	return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : CHUNK_SIZE_CLASSES;
}

static struct chunk_sizes *sizes_of(struct chunk_pool *pool, enum chunk_kind kind)
{
	return kind == CHUNK_OWN ? &pool->own : &pool->shared;
}

/* ------------------------------------------------------------------ giving back */

static void large_push(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		       bool zeroed)
{
	struct chunk_sizes *sizes = sizes_of(pool, root->kind);
	struct mem_chunk *chunk = &root->chunk[at];
	uint32_t class;

	root->chunk[at + nr - 1].nr = nr;
	chunk->root = root;
	chunk->nr = nr;
	chunk->zeroed = zeroed;
	chunk_set_state(pool, chunk, CHUNK_FREE);
	if (zeroed)
		pool->zeroed_bytes += chunk_span(chunk);
	if (root->emptying) {
		list_add(&root->held, &chunk->link);
		return;
	}
	class = chunk_size_class(chunk_span(chunk));
	list_add(&sizes->list[class], &chunk->link);
	sizes->nonempty[class / 64] |= UINT64_C(1) << class % 64;
}

void chunk_large_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	struct chunk_sizes *sizes = sizes_of(pool, chunk->root->kind);
	uint32_t class = chunk_size_class(chunk_span(chunk));

	list_del(&chunk->link);
	if (list_empty(&sizes->list[class]))
		sizes->nonempty[class / 64] &= ~(UINT64_C(1) << class % 64);
	if (chunk->zeroed)
		pool->zeroed_bytes -= chunk_span(chunk);
	chunk_set_state(pool, chunk, CHUNK_NONE);
}

/* Take the free chunk out that is to be merged with nr units that are zeroed or not. @return
 * whether all of it is zeroed */
static bool merge(struct chunk_pool *pool, struct mem_chunk *other, uint64_t bytes, bool zeroed)
{
	chunk_large_unlink(pool, other);
	if (other->zeroed != zeroed)
		pool->stats.unzeroed_bytes += zeroed ? bytes : chunk_span(other);
	pool->stats.nr_merges++;
	return zeroed && other->zeroed;
}

/* The chunk that ends before a unit, if it is free. */
static struct mem_chunk *free_before(struct chunk_root *root, uint32_t at)
{
	struct mem_chunk *last = at ? &root->chunk[at - 1] : NULL, *first = last;

	if (!last)
		return NULL;
	if (last->state == CHUNK_NONE)
		first = last->nr && last->nr <= at ? &root->chunk[at - last->nr] : NULL;
	return first && first->state == CHUNK_FREE && first->nr == last->nr ? first : NULL;
}

void chunk_large_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		      bool zeroed)
{
	struct mem_chunk *before = free_before(root, at), *behind = NULL;

	if (before) {
		zeroed = merge(pool, before, nr * root->unit_bytes, zeroed);
		at -= before->nr;
		nr += before->nr;
	}
	if (at + nr < root->nr && root->chunk[at + nr].state == CHUNK_FREE)
		behind = &root->chunk[at + nr];
	if (behind) {
		zeroed = merge(pool, behind, nr * root->unit_bytes, zeroed);
		nr += behind->nr;
	}
	large_push(pool, root, at, nr, zeroed);
}

/* ------------------------------------------------------------------ taking */

/* The largest root that a request may have as its own. */
static uint64_t own_most(const struct chunk_request *request)
{
	return request->bytes + request->bytes / OWN_SPARE;
}

bool chunk_fits(const struct mem_chunk *chunk, const struct chunk_request *request)
{
	uint64_t bytes = chunk_span(chunk);

	return chunk->root->kind == request->kind && bytes >= request->bytes &&
	       (request->kind != CHUNK_OWN || bytes <= own_most(request));
}

void chunk_large_ask(struct chunk_pool *pool, const struct mem_chunk *chunk,
		     const struct chunk_request *request)
{
	if (chunk->root->kind != CHUNK_OWN)
		return;
	chunk->root->asked_bytes = request->bytes;
	pool->tail_bytes += chunk_tail(chunk);
}

/* The smallest of those in a class that fit; if so wanted a zeroed one first. */
static struct mem_chunk *class_best(struct list_link *list, const struct chunk_request *request)
{
	struct mem_chunk *best = NULL;
	uint32_t nr = 0;

	for (struct list_link *l = list->next; l != list && nr < LOOK; l = l->next, nr++) {
		struct mem_chunk *chunk = chunk_of(l);
		bool better = !best || chunk->nr < best->nr;

		if (!chunk_fits(chunk, request))
			continue;
		if (best && request->zeroed && best->zeroed != chunk->zeroed)
			better = chunk->zeroed;
		if (better)
			best = chunk;
	}
	return best;
}

struct mem_chunk *chunk_large_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	struct chunk_sizes *sizes = sizes_of(pool, request->kind);
	uint32_t end = request->kind == CHUNK_OWN ? chunk_size_class(own_most(request)) + 1
						  : CHUNK_SIZE_CLASSES;
	struct mem_chunk *chunk = NULL;
	struct chunk_root *root;
	uint32_t at, nr;

	for (uint32_t c = class_from(sizes, chunk_size_class(request->bytes)); c < end && !chunk;
	     c = class_from(sizes, c + 1))
		chunk = class_best(&sizes->list[c], request);
	if (!chunk)
		return NULL;
	root = chunk->root;
	at = chunk_index(chunk);
	nr = chunk->nr;
	chunk_large_unlink(pool, chunk);
	chunk->nr = request->nr;
	chunk_set_state(pool, chunk, CHUNK_PINNED);
	if (nr > request->nr) {
		pool->stats.nr_splits++;
		large_push(pool, root, at + request->nr, nr - request->nr, chunk->zeroed);
	}
	chunk_large_ask(pool, chunk, request);
	return chunk;
}

uint64_t chunk_large_largest(const struct chunk_pool *pool)
{
	uint64_t largest = 0;

	for (uint32_t c = CHUNK_SIZE_CLASSES; c-- && !largest;)
		for (struct list_link *l = pool->shared.list[c].next; l != &pool->shared.list[c];
		     l = l->next)
			if (chunk_span(chunk_of(l)) > largest)
				largest = chunk_span(chunk_of(l));
	return largest;
}
