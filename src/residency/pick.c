/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which block a memory gives away: of the range that ranks highest (decide.h), the last one in its
 * order that may go, so that what stays lies evenly. Nothing moves here.
 */
#include "src/residency/residency.h"

/* pick_last_settled() of the range's own place. */
static uint32_t last_resident(struct range *range, uint32_t n)
{
	struct range_residency *r = range->residency;
	bool top;

	if (r->top_arrivals != range->nr_arrivals) {
		r->top = range->nr_blocks;
		r->top_arrivals = range->nr_arrivals;
	}
	top = n >= r->top;
	for (n = MIN(n, r->top); n-- > 0;) {
		uint32_t i = range_nth_block(range, n);

		if (block_is_settled_at(&range->block[i], range->own))
			return n;
		if (top)
			r->top = n;
	}
	return range->nr_blocks;
}

uint32_t pick_last_settled(struct range *range, place_t place, uint32_t n)
{
	if (place == range->own)
		return last_resident(range, n);
	while (n-- > 0)
		if (block_is_settled_at(&range->block[range_nth_block(range, n)], place))
			return n;
	return range->nr_blocks;
}

/* Whether blocks of a range may be evicted from a place. */
static bool may_evict(const struct weir_space *space, const struct range *range, place_t place)
{
	return !range->arena && !range->pooled && range_nr_settled(range, place) &&
	       range != space->residency->keep;
}

/* What ranks a range as a victim at a place: larger goes first. 0: the rule keeps it. */
static uint64_t victim_rank(const struct weir_space *space, const struct range *range,
			    place_t place)
{
	struct give_up q = {
		.next_use = schedule_next_use(range),
		.follows_plan = range_follows_plan(range),
		.guest = place < space->nr_devices && !range->homes && range->own != place,
		.idle = space->last_seq - range_newest_use(space, range),
		.clean = range->nr_clean != 0,
		.prefer = prefer_rank(range),
		.nr_resident = range_nr_resident(range),
		.past = past_get(space, range),
	};

	return space->residency->decide->give_up(&q);
}

static bool may_go(const struct weir_space *space, const struct range *range, uint32_t i,
		   enum pick pick)
{
	if (range_is_marked(space, range, i) || range_block_is_pinned(space, range, i))
		return false;
	return pick == PICK_LATER || (room_is_idle(space, range, i) &&
				      (pick != PICK_CLEAN || !block_is_dirty(&range->block[i])));
}

/* The last block that may go, of a range of which parts come or go: it is used last. nr_blocks:
 * none. */
static uint32_t pick_part(const struct weir_space *space, const struct range *range, enum pick pick)
{
	for (uint32_t i = range->nr_blocks; i-- > 0;)
		if (block_is_settled_at(&range->block[i], range->own) &&
		    may_go(space, range, i, pick))
			return i;
	return range->nr_blocks;
}

/* The next block of a range to evict from a place; nr_blocks: none. */
static uint32_t pick_block(const struct weir_space *space, struct range *range, place_t place,
			   enum pick pick)
{
	uint32_t n = range->nr_blocks;

	if (range_is_pinned(space, range) ||
	    (pick != PICK_LATER && range_last_use(space, range) > space->done_seq))
		return n;
	if (place == range->own && schedule_flow(range) != FLOW_NONE)
		return pick_part(space, range, pick);
	for (n = pick_last_settled(range, place, n); n < range->nr_blocks;
	     n = pick_last_settled(range, place, n)) {
		uint32_t i = range_nth_block(range, n);

		if (may_go(space, range, i, pick))
			return i;
	}
	return range->nr_blocks;
}

/* Each is looked at once: where open brackets hold most of them, that is in every progress. */
struct range *pick_range(const struct weir_space *space, place_t place, enum pick pick,
			 uint32_t *block)
{
	struct range *best = NULL;
	uint64_t best_rank = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint64_t rank = 0;
		uint32_t i;

		if (may_evict(space, range, place))
			rank = victim_rank(space, range, place) + (pick >= PICK_CLEAN);
		if (rank <= best_rank)
			continue;
		i = pick_block(space, range, place, pick);
		if (i == range->nr_blocks)
			continue;
		best = range;
		best_rank = rank;
		*block = i;
	}
	return best;
}

bool pick_idle(const struct weir_space *space, struct range *range, place_t own, uint32_t *i)
{
	if (!may_evict(space, range, own) || !victim_rank(space, range, own))
		return false;
	*i = pick_block(space, range, own, PICK_IDLE);
	return *i < range->nr_blocks;
}

struct range *pick_victim(const struct weir_space *space, place_t own)
{
	uint32_t i;

	return pick_range(space, own, PICK_LATER, &i);
}
