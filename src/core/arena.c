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
	bool pending; /* freed inside an open bracket: reusable when the arena is not pinned */
};

/* Extents cover the block without gaps, in order; no two free ones are neighbours. */
struct arena {
	uint32_t nr, max;
	struct extent extent[];
};

static bool arena_is_pinned(const struct range *range)
{
	return range->pins || range->part_pins;
}

/* Merge free neighbours, and what was pending. */
static void arena_settle(struct range *range)
{
	struct arena *arena = range->small;
	uint32_t out = 0;

	for (uint32_t i = 0; i < arena->nr; i++) {
		struct extent extent = arena->extent[i];

		if (extent.pending && !arena_is_pinned(range))
			extent.pending = extent.used = false;
		if (out && !extent.used && !arena->extent[out - 1].used)
			arena->extent[out - 1].bytes += extent.bytes;
		else
			arena->extent[out++] = extent;
	}
	arena->nr = out;
}

static int arena_cut(struct range *range, uint32_t bytes, void **addr)
{
	struct arena *arena = range->small;

	arena_settle(range);
	for (uint32_t i = 0; i < arena->nr; i++) {
		struct extent *extent = &arena->extent[i];

		if (extent->used || extent->bytes < bytes)
			continue;
		if (extent->bytes > bytes) {
			if (arena->nr == arena->max) {
				uint32_t max = arena->max * 2;

				arena = realloc(arena, sizeof(*arena) + max * sizeof(*extent));
				if (!arena)
					return -ENOMEM;
				arena->max = max;
				range->small = arena;
				extent = &arena->extent[i];
			}
			memmove(extent + 2, extent + 1, (arena->nr - i - 1) * sizeof(*extent));
			extent[1] = (struct extent){.offset = extent->offset + bytes,
						    .bytes = extent->bytes - bytes};
			extent->bytes = bytes;
			arena->nr++;
		}
		extent->used = true;
		*addr = (char *)range->addr + extent->offset;
		return 0;
	}
	return -ENOSPC;
}

static int arena_create(struct weir_space *space, struct range **out)
{
	struct arena *arena = malloc(sizeof(*arena) + 16 * sizeof(struct extent));
	struct range *range;
	int err;

	if (!arena)
		return -ENOMEM;
	arena->nr = 1;
	arena->max = 16;
	arena->extent[0] = (struct extent){.bytes = (uint32_t)space->block_bytes};
	err = range_create(space, 1, &range);
	if (err) {
		free(arena);
		return err;
	}
	range->arena = true;
	range->small = arena;
	range->bytes = space->block_bytes;
	space->nr_live_blocks++;
	*out = range;
	return 0;
}

int arena_alloc(struct weir_space *space, uint64_t bytes, void **addr)
{
	uint32_t rounded =
		(uint32_t)((bytes + SPACE_SMALL_ALIGN - 1) / SPACE_SMALL_ALIGN * SPACE_SMALL_ALIGN);
	struct range *range;
	int err;

	for (uint32_t i = 0; i < space->nr_ranges; i++) {
		if (!space->range[i]->arena)
			continue;
		err = arena_cut(space->range[i], rounded, addr);
		if (err != -ENOSPC)
			return err;
	}
	if (!space_has_room(space, 1))
		return -ENOMEM;
	err = arena_create(space, &range);
	if (err)
		return err;
	return arena_cut(range, rounded, addr);
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
	if (arena_is_pinned(range))
		extent->pending = true;
	else
		extent->used = false;
	arena_settle(range);
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

bool arena_is_empty(const struct range *range)
{
	for (uint32_t i = 0; i < range->small->nr; i++)
		if (range->small->extent[i].used)
			return false;
	return true;
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
