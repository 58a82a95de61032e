/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pooling allocator of pool.h.
 *
 * A segment is a chain of blocks in the order of their addresses that covers it without a gap. Free
 * blocks also stand in an array sorted by size and address: a search is a binary one, an insertion
 * moves pointers. With the dozens to hundreds of free blocks that training has, this beats a tree,
 * and freeing cannot fail: room for every block is made when the block is made. Live blocks are
 * found by address in a tree (tsearch).
 */
#include "managers/pool.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"

#define ROUND_BYTES 512u
#define SMALL_BYTES (UINT64_C(1) << 20)	  /* requests below it are small */
#define SEGMENT_BYTES (UINT64_C(2) << 20) /* of small requests; unit of the others */
#define REQUEST_MAX (UINT64_C(1) << 56)	  /* rounding and adding up stay far from overflow */

struct segment;

/*
 * Invariants: a block is either live and in the tree, or free and in its bin's array; two free
 * blocks are never neighbours.
 */
struct block {
	char *addr; /* first: the tree compares keys by it */
	uint64_t bytes;
	uint64_t asked_bytes; /* live: rounded to ROUND_BYTES; free: 0 */
	struct block *prev, *next;
	struct segment *segment;
};

/* Invariant: bytes = sum of its blocks' bytes. */
struct segment {
	struct segment *next;
	struct block *first;
	uint64_t bytes;
	struct bin *bin;
};

/* One size class. Invariant: nr_free <= nr_blocks <= capacity. */
struct bin {
	struct block **free; /* sorted by size, then address */
	size_t nr_free, nr_blocks, capacity;
	uint64_t unit_bytes; /* sizes are multiples of it */
};

struct pool {
	struct pool_source source;
	struct bin small, large;
	struct segment *segments;
	void *live; /* tree of struct block, by address */
	struct pool_stats stats;
};

static int compare_addr(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* ------------------------------------------------------------------ free blocks */

/* The first free block not before (bytes, addr). */
static size_t bin_lower(const struct bin *bin, uint64_t bytes, const char *addr)
{
	struct block *const *f = bin->free;
	size_t at;

	SEARCH_SORTED(at, 0, bin->nr_free,
		      f[at]->bytes < bytes || (f[at]->bytes == bytes && f[at]->addr < addr));
	return at;
}

static void bin_insert(struct bin *bin, struct block *block)
{
	size_t at = bin_lower(bin, block->bytes, block->addr);

	memmove(bin->free + at + 1, bin->free + at, (bin->nr_free - at) * sizeof(*bin->free));
	bin->free[at] = block;
	bin->nr_free++;
}

static void bin_remove(struct bin *bin, const struct block *block)
{
	size_t at = bin_lower(bin, block->bytes, block->addr);

	bin->nr_free--;
	memmove(bin->free + at, bin->free + at + 1, (bin->nr_free - at) * sizeof(*bin->free));
}

/* ------------------------------------------------------------------ blocks, segments */

/* A block in no chain yet, with room for it in the bin's array. NULL: no memory. */
static struct block *block_new(struct bin *bin)
{
	struct block *block;

	if (bin->nr_blocks == bin->capacity) {
		size_t capacity = bin->capacity ? bin->capacity * 2 : 64;
		struct block **grown = reallocarray(bin->free, capacity, sizeof(*grown));

		if (!grown)
			return NULL;
		bin->free = grown;
		bin->capacity = capacity;
	}
	block = calloc(1, sizeof(*block));
	if (block)
		bin->nr_blocks++;
	return block;
}

static void block_delete(struct bin *bin, struct block *block)
{
	bin->nr_blocks--;
	free(block);
}

/* Add next to block, which is in no array, and delete next. */
static void block_merge(struct bin *bin, struct block *block, struct block *next)
{
	block->bytes += next->bytes;
	block->next = next->next;
	if (block->next)
		block->next->prev = block;
	block_delete(bin, next);
}

/* Take a segment that holds bytes; it becomes one free block. */
static int segment_add(struct pool *pool, struct bin *bin, uint64_t bytes)
{
	struct segment *segment;
	struct block *block;
	void *addr;
	int err;

	segment = calloc(1, sizeof(*segment));
	if (!segment)
		return -ENOMEM;
	block = block_new(bin);
	if (!block) {
		err = -ENOMEM;
		goto err_free_segment;
	}
	segment->bytes = round_up(bytes, SEGMENT_BYTES);
	err = pool->source.get(pool->source.arg, segment->bytes, &addr);
	if (err)
		goto err_delete_block;

	segment->bin = bin;
	segment->first = block;
	segment->next = pool->segments;
	pool->segments = segment;
	block->addr = addr;
	block->bytes = segment->bytes;
	block->segment = segment;
	bin_insert(bin, block);
	pool->stats.reserved_bytes += segment->bytes;
	pool->stats.nr_segments++;
	return 0;

err_delete_block:
	block_delete(bin, block);
err_free_segment:
	free(segment);
	return err;
}

/* Give a segment back whose only block is free; link is what points to it in the pool's list. */
static void segment_del(struct pool *pool, struct segment **link)
{
	struct segment *segment = *link;
	struct block *block = segment->first;

	bin_remove(segment->bin, block);
	pool->source.put(pool->source.arg, block->addr, segment->bytes);
	pool->stats.reserved_bytes -= segment->bytes;
	pool->stats.nr_segments--;
	*link = segment->next;
	block_delete(segment->bin, block);
	free(segment);
}

/* ------------------------------------------------------------------ the pool */

int pool_create(const struct pool_source *source, struct pool **out)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->source = *source;
	pool->small.unit_bytes = ROUND_BYTES;
	pool->large.unit_bytes = SEGMENT_BYTES;
	*out = pool;
	return 0;
}

/* Make a live block free: out of the tree, together with its free neighbours, into the array. */
static void block_put(struct pool *pool, struct block *block)
{
	struct bin *bin = block->segment->bin;

	tdelete(block, &pool->live, compare_addr);
	pool->stats.live_bytes -= block->asked_bytes;
	block->asked_bytes = 0;
	if (block->next && !block->next->asked_bytes) {
		bin_remove(bin, block->next);
		block_merge(bin, block, block->next);
	}
	if (block->prev && !block->prev->asked_bytes) {
		block = block->prev;
		bin_remove(bin, block);
		block_merge(bin, block, block->next);
	}
	bin_insert(bin, block);
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	/* The tree's root node begins with the pointer to its block. */
	while (pool->live)
		block_put(pool, *(struct block **)pool->live);
	pool_trim(pool);
	free(pool->small.free);
	free(pool->large.free);
	free(pool);
}

/* Take the free block at an index for a request, and leave the rest of it free. */
static int block_get(struct pool *pool, struct bin *bin, size_t at, uint64_t bytes,
		     uint64_t asked_bytes, void **addr)
{
	struct block *rest = NULL;
	struct block *block = bin->free[at];

	if (block->bytes > bytes) {
		rest = block_new(bin);
		if (!rest)
			return -ENOMEM;
	}
	if (!tsearch(block, &pool->live, compare_addr)) {
		if (rest)
			block_delete(bin, rest);
		return -ENOMEM;
	}
	bin_remove(bin, block);
	block->asked_bytes = asked_bytes;
	if (rest) {
		rest->addr = block->addr + bytes;
		rest->bytes = block->bytes - bytes;
		rest->segment = block->segment;
		rest->prev = block;
		rest->next = block->next;
		if (rest->next)
			rest->next->prev = rest;
		block->next = rest;
		block->bytes = bytes;
		bin_insert(bin, rest);
	}
	pool->stats.live_bytes += asked_bytes;
	*addr = block->addr;
	return 0;
}

int pool_alloc(struct pool *pool, uint64_t bytes, void **addr)
{
	struct bin *bin = bytes < SMALL_BYTES ? &pool->small : &pool->large;
	uint64_t block_bytes;
	size_t at;
	int err;

	if (!bytes)
		return -EINVAL;
	if (bytes > REQUEST_MAX)
		return -ENOMEM;
	block_bytes = round_up(bytes, bin->unit_bytes);
	at = bin_lower(bin, block_bytes, NULL);
	if (at == bin->nr_free) {
		err = segment_add(pool, bin, block_bytes);
		if (err == -ENOMEM && pool_trim(pool))
			err = segment_add(pool, bin, block_bytes);
		if (err)
			return err;
		at = bin_lower(bin, block_bytes, NULL);
	}
	return block_get(pool, bin, at, block_bytes, round_up(bytes, ROUND_BYTES), addr);
}

int pool_free(struct pool *pool, void *addr)
{
	struct block key = {.addr = addr};
	void *node;

	if (!addr)
		return 0;
	node = tfind(&key, &pool->live, compare_addr);
	if (!node)
		return -EINVAL;
	block_put(pool, *(struct block **)node);
	return 0;
}

uint64_t pool_trim(struct pool *pool)
{
	struct segment **link = &pool->segments;
	uint64_t bytes = 0;

	while (*link) {
		const struct segment *segment = *link;

		if (segment->first->next || segment->first->asked_bytes) {
			link = &(*link)->next;
			continue;
		}
		bytes += segment->bytes;
		segment_del(pool, link);
	}
	return bytes;
}

void pool_stats(const struct pool *pool, struct pool_stats *out)
{
	*out = pool->stats;
}

/* ------------------------------------------------------------------ check */

/* What the walk adds up, to compare with what the pool believes. */
struct tally {
	uint64_t reserved_bytes, live_bytes, nr_segments;
	size_t nr_blocks[2], nr_free[2];
};

static bool block_is_sound(const struct pool *pool, const struct block *block)
{
	const struct bin *bin = block->segment->bin;
	size_t at;

	if (block->next &&
	    (block->next->prev != block || block->next->addr != block->addr + block->bytes ||
	     block->next->segment != block->segment))
		return false;
	if (!block->bytes || block->bytes % bin->unit_bytes || block->asked_bytes > block->bytes)
		return false;
	if (block->asked_bytes)
		return tfind(block, &pool->live, compare_addr) != NULL;
	if (block->next && !block->next->asked_bytes)
		return false;
	at = bin_lower(bin, block->bytes, block->addr);
	return at < bin->nr_free && bin->free[at] == block;
}

static bool segment_is_sound(const struct pool *pool, const struct segment *segment,
			     struct tally *tally)
{
	unsigned int large = segment->bin == &pool->large;
	uint64_t bytes = 0;

	for (const struct block *block = segment->first; block; block = block->next) {
		if (!block_is_sound(pool, block))
			return false;
		bytes += block->bytes;
		tally->nr_blocks[large]++;
		tally->nr_free[large] += !block->asked_bytes;
		tally->live_bytes += block->asked_bytes;
	}
	tally->reserved_bytes += segment->bytes;
	tally->nr_segments++;
	return bytes == segment->bytes && segment->first && !segment->first->prev;
}

int pool_check(const struct pool *pool)
{
	struct tally tally = {0};

	for (const struct segment *segment = pool->segments; segment; segment = segment->next)
		if (!segment_is_sound(pool, segment, &tally))
			return -EUCLEAN;
	if (tally.nr_free[0] != pool->small.nr_free || tally.nr_free[1] != pool->large.nr_free ||
	    tally.nr_blocks[0] != pool->small.nr_blocks ||
	    tally.nr_blocks[1] != pool->large.nr_blocks ||
	    pool->small.nr_blocks > pool->small.capacity ||
	    pool->large.nr_blocks > pool->large.capacity)
		return -EUCLEAN;
	if (tally.reserved_bytes != pool->stats.reserved_bytes ||
	    tally.nr_segments != pool->stats.nr_segments ||
	    tally.live_bytes != pool->stats.live_bytes)
		return -EUCLEAN;
	return 0;
}
