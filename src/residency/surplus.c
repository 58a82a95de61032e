/* SPDX-License-Identifier: Apache-2.0 */
/* What is at a neighbour, should be on the host by the plan, and leaves for what should be near. */
#include "src/residency/residency.h"

uint32_t surplus_nr(const struct weir_space *space, const struct range *range)
{
	uint32_t host = range->nr_home[space_host(space)];
	uint32_t below = range->nr_backed - range_nr_resident(range), far;

	if (range->arena || range->pooled || below == host || !range_follows_plan(range))
		return 0;
	far = MIN(schedule_far(space, range), below);
	return far - MIN(far, host);
}

uint32_t surplus_block(const struct weir_space *space, const struct range *range, place_t place,
		       bool copied)
{
	for (uint32_t n = range->nr_blocks; n-- > 0;) {
		uint32_t i = range_nth_block(range, n);
		const struct block *block = &range->block[i];

		if (block_is_settled_at(block, place) && block_is_dirty(block) == copied &&
		    room_is_idle(space, range, i))
			return i;
	}
	return range->nr_blocks;
}

bool surplus_leave(struct weir_space *space, place_t place)
{
	uint64_t *none = &space->residency->near_none[place];

	if (!space_is_near(space, place) || *none == space->epoch)
		return false;
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint32_t i = range->nr_blocks;
		bool freed;

		if (range_nr_settled(range, place) && (range->nr_clean || range->nr_dead) &&
		    surplus_nr(space, range))
			i = surplus_block(space, range, place, false);
		if (i < range->nr_blocks)
			return !migrate_evict(space, range, i, NULL, WEIR_CAUSE_EVICTION, &freed);
	}
	*none = space->epoch;
	return false;
}
