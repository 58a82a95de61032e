/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations below one block, cut from ranges of one block each that are never evicted: first
 * fit over a sorted list of extents, which suits the few dozen small tensors of a program. Many
 * thousands of small allocations would want size classes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/core/space.h"

struct extent {
	uint32_t offset, bytes;
	bool used;
	bool pending; /* given back, and used until no open bracket names the arena */
	uint64_t traced_life;
	bracket_seq_t born;
};

/* Extents cover the block without gaps, in order; settled, no two free ones are neighbours. */
struct arena {
	uint32_t nr, max;
	bool pending; /* some extent is */
	struct extent extent[];
};

bool arena_settle(struct range *range)
{
	struct arena *arena = range->small;
	bool empty = arena->pending;
	uint32_t out = 0;

	for (uint32_t i = 0; arena->pending && i < arena->nr; i++) {
		struct extent extent = arena->extent[i];

		if (extent.pending)
			extent.pending = extent.used = false;
		empty &= !extent.used;
		if (out && !extent.used && !arena->extent[out - 1].used)
			arena->extent[out - 1].bytes += extent.bytes;
		else
			arena->extent[out++] = extent;
	}
	if (arena->pending)
		arena->nr = out;
	arena->pending = false;
	return empty;
}

/* Cut the first bytes off a free extent. */
static int extent_split(struct range *range, uint32_t i, uint32_t bytes)
{
	struct arena *arena = range->small;
	struct extent *extent;

	if (arena->nr == arena->max) {
		uint32_t max = arena->max * 2;

		arena = realloc(arena, sizeof(*arena) + max * sizeof(*extent));
		if (!arena)
			return -ENOMEM;
		arena->max = max;
		range->small = arena;
	}
	extent = &arena->extent[i];
	memmove(extent + 2, extent + 1, (arena->nr - i - 1) * sizeof(*extent));
	extent[1] =
		(struct extent){.offset = extent->offset + bytes, .bytes = extent->bytes - bytes};
	extent->bytes = bytes;
	arena->nr++;
	return 0;
}

int arena_alloc(struct range *range, uint64_t bytes, bracket_seq_t born, void **addr)
{
	uint32_t rounded = (uint32_t)round_up(bytes, SPACE_SMALL_ALIGN);

	for (uint32_t i = 0; i < range->small->nr; i++) {
		const struct extent *extent = &range->small->extent[i];

		if (extent->used || extent->bytes < rounded)
			continue;
		if (extent->bytes > rounded && extent_split(range, i, rounded))
			return -ENOMEM;
		range->small->extent[i].used = true;
		range->small->extent[i].traced_life = 0;
		range->small->extent[i].born = born;
		*addr = (char *)range->addr + range->small->extent[i].offset;
		return 0;
	}
	return -ENOSPC;
}

int arena_init(struct weir_space *space, struct range *range)
{
	struct arena *arena = malloc(sizeof(*arena) + 16 * sizeof(struct extent));

	if (!arena)
		return -ENOMEM;
	arena->nr = 1;
	arena->max = 16;
	arena->pending = false;
	arena->extent[0] = (struct extent){.bytes = (uint32_t)space->block_bytes};
	range->arena = true;
	range->small = arena;
	range->bytes = space->block_bytes;
	return 0;
}

void arena_fini(struct range *range)
{
	arena_destroy(range->small);
	range->small = NULL;
	range->arena = false;
}

static struct extent *extent_at(const struct range *range, const void *addr)
{
	uint64_t offset = (uint64_t)((const char *)addr - (const char *)range->addr);

	for (uint32_t i = 0; i < range->small->nr; i++) {
		struct extent *extent = &range->small->extent[i];

		if (offset - extent->offset < extent->bytes)
			return extent;
	}
	return NULL;
}

int arena_free(struct range *range, void *addr)
{
	struct extent *extent = extent_at(range, addr);

	if (!extent || !extent->used || extent->pending ||
	    (char *)range->addr + extent->offset != (char *)addr)
		return -EINVAL;
	extent->pending = range->small->pending = true;
	return 0;
}

uint64_t arena_find(const struct range *range, const void *addr, uint64_t *offset)
{
	const struct extent *extent = extent_at(range, addr);

	if (!extent || !extent->used || extent->pending)
		return 0;
	*offset = extent->offset;
	return extent->bytes;
}

bracket_seq_t arena_born(const struct range *range, uint64_t offset)
{
	const struct extent *extent = extent_at(range, (const char *)range->addr + offset);

	return extent ? extent->born : 0;
}

uint64_t *arena_life(struct range *range, uint64_t offset, uint64_t *begin)
{
	struct extent *extent = extent_at(range, (char *)range->addr + offset);

	*begin = extent ? extent->offset : 0;
	return extent ? &extent->traced_life : NULL;
}

uint64_t *arena_next(struct range *range, uint64_t *offset, uint64_t *bytes)
{
	for (uint32_t i = 0; i < range->small->nr; i++) {
		struct extent *extent = &range->small->extent[i];

		if (extent->offset < *offset || !extent->used || extent->pending)
			continue;
		*offset = extent->offset + extent->bytes;
		*bytes = extent->bytes;
		return &extent->traced_life;
	}
	return NULL;
}

uint64_t arena_used(const struct range *range)
{
	const struct arena *arena = range->small;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < arena->nr; i++)
		bytes += arena->extent[i].used ? arena->extent[i].bytes : 0;
	return bytes;
}

void arena_destroy(struct arena *arena)
{
	free(arena);
}

int arena_check(const struct range *range)
{
	const struct arena *arena = range->small;
	uint32_t offset = 0;

	for (uint32_t i = 0; i < arena->nr; i++) {
		if (arena->extent[i].offset != offset || !arena->extent[i].bytes) {
			log_error("arena %p: extent %u does not begin where the last one ends",
				  range->addr, i);
			return -EUCLEAN;
		}
		offset += arena->extent[i].bytes;
	}
	if (offset != range->bytes) {
		log_error("arena %p: its extents do not cover it", range->addr);
		return -EUCLEAN;
	}
	return 0;
}
