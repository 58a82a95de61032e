/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges: creation, the tables of them, the pool of freed ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/core/space.h"

/* A mapping call for a block of host memory takes about so many times one for a block of HBM (an
 * H200, blocks of 32 MiB). */
#define HOST_WEIGHT 8u
/* The same of what is still in use: nothing of it can be mapped before the device has to wait. */
#define BUSY_WEIGHT 8u
/* Freed ranges of a size that may be idle while another one is made, so that a range can be mapped
 * while all that would suit is in use: with one 200 simulated trainings took 0.25 % less than with
 * none, with two 0.5 %, with five 0.55 %. Their blocks on the host count for its budget. */
#define IDLE_MAX 2u

/* A step near the golden section that visits each of nr blocks: its multiples lie evenly for any
 * count. */
static uint32_t pick_stride(uint32_t nr)
{
	uint32_t stride = (uint32_t)((double)nr * 0.6180339887498949);

	for (stride = MAX(stride, 1u);; stride++) {
		uint32_t a = nr, b = stride;

		while (b) {
			uint32_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			return stride;
	}
}

/* Index of the first range above addr, in by_addr. */
static uint32_t table_upper(const struct weir_space *space, const void *addr)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, space->nr_ranges,
		      (uintptr_t)space->by_addr[at]->addr <= (uintptr_t)addr);
	return at;
}

/* Both tables have room for max_ranges, or on failure for what they had. */
static int tables_grow(struct weir_space *space, uint32_t max_ranges)
{
	struct range ***const tables[] = {&space->range, &space->by_addr};

	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		struct range **table = realloc(*tables[i], max_ranges * sizeof(*table));

		if (!table)
			return -ENOMEM;
		*tables[i] = table;
	}
	space->max_ranges = max_ranges;
	return 0;
}

static void table_insert(struct range **table, uint32_t nr, uint32_t at, struct range *range)
{
	memmove(&table[at + 1], &table[at], (nr - at) * sizeof(*table));
	table[at] = range;
}

static void table_remove(struct range **table, uint32_t nr, uint32_t at)
{
	memmove(&table[at], &table[at + 1], (nr - at - 1) * sizeof(*table));
}

/* Programs ask for the same addresses again and again. */
static struct range **found_at(struct weir_space *space, const void *addr)
{
	return &space->found[(uintptr_t)addr * HASH_FACTOR >> (64 - RANGES_FOUND_BITS)];
}

static int table_add(struct weir_space *space, struct range *range)
{
	uint32_t nr = space->nr_ranges;

	if (nr == space->max_ranges && tables_grow(space, MAX(64u, nr * 2)))
		return -ENOMEM;
	table_insert(space->by_addr, nr, table_upper(space, range->addr), range);
	table_insert(space->range, nr, 0, range);
	space->nr_ranges++;
	return 0;
}

static void table_del(struct weir_space *space, const struct range *range)
{
	uint32_t nr = space->nr_ranges, at = 0;

	table_remove(space->by_addr, nr, table_upper(space, range->addr) - 1);
	while (space->range[at] != range)
		at++;
	table_remove(space->range, nr, at);
	space->nr_ranges--;
	for (uint32_t i = 0; i < RANGES_FOUND; i++)
		if (space->found[i] == range)
			space->found[i] = NULL;
}

static bool has_addr(const struct weir_space *space, const struct range *range, const void *addr)
{
	return (uintptr_t)addr - (uintptr_t)range->addr < range_span(space, range);
}

struct range *range_find(struct weir_space *space, const void *addr)
{
	struct range **found = found_at(space, addr);
	uint32_t above;

	if (*found && has_addr(space, *found, addr))
		return *found;
	above = table_upper(space, addr);
	if (!above || !has_addr(space, space->by_addr[above - 1], addr))
		return NULL;
	*found = space->by_addr[above - 1];
	return *found;
}

/* What a new range is mapped for. Each device in the list costs a mapping call some time: of
 * several, those that name the range in brackets come into it then; in a fixed space all may use
 * it. */
static uint64_t devices_at_first(const struct weir_space *space)
{
	return space->nr_devices > 1 && space->mode == WEIR_PLANNED ? 0 : space->devices;
}

int range_create(struct weir_space *space, uint32_t nr_blocks, struct range **out)
{
	struct backend *b = space->backend;
	uint64_t bytes = nr_blocks * space->block_bytes;
	struct range *range =
		calloc(1, sizeof(*range) + nr_blocks * sizeof(struct block) +
				  space->nr_paths * sizeof(struct range_path) +
				  space->ops->range_bytes + nr_blocks * space->ops->block_bytes);
	int err;

	if (!range)
		return -ENOMEM;
	range->nr_blocks = nr_blocks;
	range->path = (struct range_path *)&range->block[nr_blocks];
	range->residency = (struct range_residency *)&range->path[space->nr_paths];
	range->stride = pick_stride(MAX(nr_blocks, 2u) - 1);
	range->devices = range->granted = devices_at_first(space);
	range->wide_born = UINT64_MAX;
	range->nr_dead = nr_blocks;
	for (uint32_t i = 0; i < nr_blocks; i++)
		range->block[i].at.dead = true;
	space->ops->range_reset(space, range);
	err = b->ops->va_reserve(b, bytes, space->block_bytes, &range->addr);
	if (err)
		goto err_free;
	err = table_add(space, range);
	if (err)
		goto err_release;
	*out = range;
	return 0;

err_release:
	b->ops->va_release(b, range->addr, bytes);
err_free:
	free(range);
	return err;
}

int range_create_bare(struct weir_space *space, void *addr, uint64_t bytes, struct range **out)
{
	uint32_t above = table_upper(space, (const char *)addr + bytes - 1);
	const struct range *below = above ? space->by_addr[above - 1] : NULL;
	struct range *range;

	if (below && (uintptr_t)below->addr + range_span(space, below) > (uintptr_t)addr) {
		log_error("space: %llu bytes at %p: part of them is the range at %p",
			  (unsigned long long)bytes, addr, below->addr);
		return -EINVAL;
	}
	range = calloc(1, sizeof(*range) + space->nr_paths * sizeof(struct range_path) +
				  space->ops->range_bytes);
	if (!range)
		return -ENOMEM;
	range->addr = addr;
	range->bytes = bytes;
	range->wide_born = UINT64_MAX;
	range->path = (struct range_path *)&range->block[0];
	range->residency = (struct range_residency *)&range->path[space->nr_paths];
	range->devices = range->granted = space->devices;
	space->ops->range_reset(space, range);
	if (table_add(space, range)) {
		free(range);
		return -ENOMEM;
	}
	*out = range;
	return 0;
}

void range_forget(struct weir_space *space, struct range *range)
{
	table_del(space, range);
}

void range_destroy(struct weir_space *space, struct range *range)
{
	struct backend *b = space->backend;

	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		struct block *block = &range->block[i];

		migrate_set_dead(space, range, block, true);
		for (int t = 0; t < SPACE_TRIES && block_is_backed(block); t++)
			(void)migrate_unback(space, range, i);
		for (int t = 0; t < SPACE_TRIES && block_is_stale(block); t++)
			(void)migrate_unstale(space, range, i);
	}
	compare_forget_range(space, range);
	wide_del(space, range);
	if (range->pooled) {
		struct range **at = &space->pooled;

		while (*at != range)
			at = &(*at)->next_pooled;
		*at = range->next_pooled;
	}
	table_del(space, range);
	b->ops->va_release(b, range->addr, range->nr_blocks * space->block_bytes);
	arena_destroy(range->small);
	free(range->homes);
	free(range);
}

/* A block is resident elsewhere from here on: what is below its home stays below. */
static void keep_order(struct weir_space *space, struct range *range, uint32_t i, place_t own)
{
	struct block *block = &range->block[i];
	const struct copies *at = &block->at;

	if (at->below && place_rank(own, at->below->place) <= place_rank(own, at->home->place))
		migrate_drop_lower(space, range, block);
}

void range_set_own(struct weir_space *space, struct range *range, place_t own)
{
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		keep_order(space, range, i, own);
	free(range->homes);
	range->homes = NULL;
	range->own = own;
	range->nr_resident = range->nr_home[own];
	range->nr_arriving = range->nr_moving[own];
	range->nr_arrivals++; /* what was known of blocks at rest there holds no more */
	space->epoch++;
}

int range_split(struct range *range)
{
	struct block_home *homes = malloc(range->nr_blocks * sizeof(*homes));

	if (!homes)
		return -ENOMEM;
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		homes[i] = (struct block_home){.own = range->own, .user = range->own};
	range->homes = homes;
	return 0;
}

void range_block_set_own(struct weir_space *space, struct range *range, uint32_t i, place_t own)
{
	const struct block *block = &range->block[i];

	keep_order(space, range, i, own);
	if (block_is_at(block, range->homes[i].own)) {
		range->nr_resident--;
		range->nr_arriving -= block_is_moving(block);
	}
	range->homes[i].own = own;
	if (block_is_at(block, own)) {
		range->nr_resident++;
		range->nr_arriving += block_is_moving(block);
	}
	space->epoch++;
}

void range_pool_add(struct weir_space *space, struct range *range)
{
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		struct block *block = &range->block[i];

		migrate_set_dead(space, range, block, true);
	}
	space->ops->range_reset(space, range);
	space->epoch++;
	wide_del(space, range);
	range->pooled = true;
	range->free_pending = false;
	range->life = 0;
	range->next_pooled = space->pooled;
	space->pooled = range;
	space->nr_live_blocks -= range->nr_blocks;
}

static uint64_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

/* Blocks that the range has elsewhere than they are wanted: each is one or two mapping calls. */
static uint64_t cost_of_range(const struct weir_space *space, const struct range *range,
			      place_t own, const struct range_wanted *wanted)
{
	uint32_t resident = own == range->own ? range_nr_resident(range) : 0;
	uint32_t host = range->nr_home[space_host(space)];
	uint32_t near = range->nr_backed - resident - host;

	return distance(resident, wanted->resident) + HOST_WEIGHT * distance(host, wanted->far) +
	       distance(near, range->nr_blocks - wanted->resident - wanted->far);
}

/* The same of a new one. */
static uint64_t cost_of_new(const struct range_wanted *wanted)
{
	return wanted->resident + (uint64_t)HOST_WEIGHT * wanted->far;
}

/* Freed ranges of a size that are idle. */
static uint32_t nr_idle(const struct weir_space *space, uint32_t nr_blocks)
{
	uint32_t nr = 0;

	for (const struct range *range = space->pooled; range; range = range->next_pooled)
		nr += range->nr_blocks == nr_blocks && range_is_idle(space, range);
	return nr;
}

struct range *range_pool_get(struct weir_space *space, uint32_t nr_blocks,
			     const struct stream_slot *slot, const struct range_wanted *wanted)
{
	uint64_t best = UINT64_MAX;
	struct range **pick = NULL, *range;

	for (struct range **at = &space->pooled; *at && best; at = &(*at)->next_pooled) {
		uint64_t cost;
		bool idle;

		range = *at;
		idle = range_is_idle(space, range);
		if (range->nr_blocks != nr_blocks || (range->nr_stale && !idle))
			continue;
		/* A fence that is shared may be behind a launch that waits for who takes it. */
		if (!idle && space->shared_seq > space->done_seq &&
		    !(slot && range_is_before(space, range, slot)))
			continue;
		cost = cost_of_range(space, range, slot ? slot->own : range->own, wanted);
		if (!idle)
			cost *= BUSY_WEIGHT;
		if (!idle && !(slot && range_is_before(space, range, slot)))
			cost += UINT32_MAX; /* would have to be waited for */
		if (cost < best) {
			best = cost;
			pick = at;
		}
	}
	if (!pick ||
	    (wanted->planned && best > cost_of_new(wanted) && nr_idle(space, nr_blocks) < IDLE_MAX))
		return NULL;
	range = *pick;
	*pick = range->next_pooled;
	range->next_pooled = NULL;
	range->pooled = false;
	if (range_is_idle(space, range))
		range->users = 0;
	space->nr_live_blocks += nr_blocks;
	return range;
}

int range_check(const struct weir_space *space, const struct range *range)
{
	struct range counted = {.nr_dead = 0};
	uint32_t pins = 0;

	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		const struct block *block = &range->block[i];

		if (block_check(range, block))
			return -EUCLEAN;
		block_count(&counted, block, 1);
		if (block_is_stale(block) && i < range->first_stale)
			counted.nr_stale--;
		pins += block->pins;
		counted.nr_resident += range_block_is_resident(range, i);
		counted.nr_arriving += range_block_is_resident(range, i) && block_is_moving(block);
	}
	if (memcmp(counted.nr_home, range->nr_home, sizeof(range->nr_home)) ||
	    memcmp(counted.nr_moving, range->nr_moving, sizeof(range->nr_moving)) ||
	    memcmp(counted.nr_dirty, range->nr_dirty, sizeof(range->nr_dirty)) ||
	    counted.nr_dead != range->nr_dead || counted.nr_clean != range->nr_clean ||
	    counted.nr_unmapped != range->nr_unmapped ||
	    counted.nr_cleaning != range->nr_cleaning || counted.nr_stale != range->nr_stale ||
	    counted.nr_unproved != range->nr_unproved ||
	    counted.nr_comparing != range->nr_comparing ||
	    counted.nr_resident != range->nr_resident ||
	    counted.nr_arriving != range->nr_arriving || pins != range->part_pins) {
		log_error("range %p: its counts differ from its blocks'", range->addr);
		return -EUCLEAN;
	}
	if (range->pooled &&
	    (range_is_pinned(space, range) || pins || range->nr_dead != range->nr_blocks)) {
		log_error("range %p is pooled but pinned or not dead", range->addr);
		return -EUCLEAN;
	}
	if (range_newest_use(space, range) > space->last_seq) {
		log_error("range %p was used by a bracket that has not ended", range->addr);
		return -EUCLEAN;
	}
	return range->arena ? arena_check(range) : 0;
}
