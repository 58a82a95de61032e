/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a chunk comes from: the pool; a freed range, longest freed first; an eviction. Which block
 * to evict is decided here: the range whose next use is farthest when a plan knows, else the one
 * whose last use is longest ago; within a range, the last in its order, so that what stays lies
 * evenly. What moves is idle: not pinned, and the brackets that named it are done.
 */
#include <errno.h>

#include "src/base/log.h"
#include "src/residency/residency.h"

/* Whether the bracket being placed names the block. */
static bool is_marked(const struct weir_space *space, const struct range *range, uint32_t i)
{
	return space->placing && range->mark == space->mark && i >= range->mark_first &&
	       i <= range->mark_last;
}

bool room_is_idle(const struct weir_space *space, const struct range *range, uint32_t i)
{
	return !range_block_is_pinned(range, i) && !block_is_moving(&range->block[i]) &&
	       !is_marked(space, range, i) && range_block_last_use(range, i) <= space->done_seq;
}

/* An error that only costs speed here is still one that weir_space_sync() tells. */
static int note(struct weir_space *space, int err)
{
	if (err && err != -ENOMEM)
		space_note_error(space, err);
	return err;
}

/* Take a chunk of the tier from a freed range that is idle, the one freed first. */
static struct chunk *take_from_pooled(struct weir_space *space, enum tier tier)
{
	enum block_state held = tier == TIER_HBM ? BLOCK_HBM : BLOCK_HOST;
	struct range *oldest = NULL;

	for (struct range *range = space->pooled; range; range = range->next_pooled)
		if (range->nr_state[held] &&
		    MAX(range->last_use, range->last_part_use) <= space->done_seq)
			oldest = range;
	if (!oldest)
		return NULL;
	for (uint32_t n = oldest->nr_blocks; n-- > 0;) {
		uint32_t i = range_nth_block(oldest, n);

		if (oldest->block[i].state != held || !room_is_idle(space, oldest, i))
			continue;
		if (note(space, migrate_unback(space, oldest, i)))
			return NULL;
		return pmm_chunk_get(&space->pmm[tier]);
	}
	return NULL;
}

struct chunk *room_hbm_try(struct weir_space *space)
{
	struct chunk *chunk = pmm_chunk_get(&space->pmm[TIER_HBM]);

	return chunk ? chunk : take_from_pooled(space, TIER_HBM);
}

struct chunk *room_host(struct weir_space *space)
{
	struct chunk *chunk = pmm_chunk_get(&space->pmm[TIER_HOST]);

	if (!chunk)
		chunk = take_from_pooled(space, TIER_HOST);
	for (uint32_t r = 0; !chunk && r < space->nr_ranges; r++) {
		struct range *range = space->range[r];

		for (uint32_t i = 0; range->nr_clean && i < range->nr_blocks; i++) {
			if (!range->block[i].clean || range->block[i].state != BLOCK_HBM)
				continue;
			migrate_drop_lower(space, range, &range->block[i]);
			return pmm_chunk_get(&space->pmm[TIER_HOST]);
		}
	}
	return chunk;
}

int room_evict(struct weir_space *space, struct range *range, uint32_t i, enum weir_cause cause,
	       bool *freed)
{
	struct block *block = &range->block[i];
	struct chunk *lower = NULL;
	int err;

	if (!block->dead && !block->clean) {
		lower = room_host(space);
		if (!lower)
			return -ENOMEM;
	}
	err = migrate_evict(space, range, i, lower, cause, freed);
	if (lower && block->chunk[TIER_HOST] != lower)
		pmm_chunk_put(&space->pmm[TIER_HOST], lower);
	return err;
}

/* Distance that ranks a range as a victim: larger goes first. 0: not at all. */
static uint64_t victim_rank(const struct weir_space *space, const struct range *range)
{
	uint32_t distance = follow_next_use(space, range);
	bool host = range->prefer == (int32_t)space->pmm[TIER_HOST].memory;

	if (range->arena || range->pooled || !range->nr_state[BLOCK_HBM])
		return 0;
	if (space->residency->plan)
		return ((uint64_t)distance << 1 | (range->nr_clean != 0)) + 1;
	if (range->prefer == (int32_t)space->pmm[TIER_HBM].memory)
		return 1;
	return (host ? UINT64_MAX / 2 : UINT64_MAX / 4) -
	       MAX(range->last_use, range->last_part_use);
}

/* The next block to evict; waits for nothing. range: the one to begin with, updated. */
static bool pick_block(const struct weir_space *space, struct range *range, bool idle,
		       uint32_t *block)
{
	for (uint32_t n = range->nr_blocks; n-- > 0;) {
		uint32_t i = range_nth_block(range, n);

		if (range->block[i].state != BLOCK_HBM || is_marked(space, range, i) ||
		    range_block_is_pinned(range, i))
			continue;
		if (idle && !room_is_idle(space, range, i))
			continue;
		*block = i;
		return true;
	}
	return false;
}

/* The highest ranked range below a rank that has a block to evict. */
static struct range *pick_range(const struct weir_space *space, bool idle, uint32_t *block)
{
	uint64_t below = UINT64_MAX;

	for (;;) {
		struct range *best = NULL;
		uint64_t best_rank = 0;

		for (uint32_t r = 0; r < space->nr_ranges; r++) {
			uint64_t rank = victim_rank(space, space->range[r]);

			if (rank > best_rank && rank < below) {
				best = space->range[r];
				best_rank = rank;
			}
		}
		if (!best)
			return NULL;
		if (pick_block(space, best, idle, block))
			return best;
		below = best_rank;
	}
}

/* Start evictions for `wanted` chunks beyond those already on their way. Waits for brackets that
 * ended when no idle block is left. @return whether any chunk came free or is on its way. */
static bool evict_some(struct weir_space *space, uint32_t wanted)
{
	uint32_t coming = space->moving[TIER_HOST].nr + space->batch[TIER_HOST].nr;
	bool any = coming != 0;

	if (space->mode == WEIR_FIXED)
		return any;
	while (coming < wanted) {
		struct range *range;
		uint32_t i;
		bool freed;

		range = pick_range(space, true, &i);
		if (!range && any)
			break;
		if (!range) {
			range = pick_range(space, false, &i);
			if (!range)
				break;
			/* Ended, since it is not pinned; not done yet. */
			space_wait_seq(space, range_block_last_use(range, i));
			if (!room_is_idle(space, range, i) || range->block[i].state != BLOCK_HBM)
				continue;
		}
		if (note(space, room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed)))
			break;
		any = true;
		coming++;
	}
	return any;
}

/* Wait until one of the freed ranges, or of the copies under way, gives a chunk. */
static bool wait_for_room(struct weir_space *space)
{
	struct move_queue *queue = &space->moving[TIER_HOST];
	struct range *range = space->pooled;

	if (note(space, migrate_flush(space)))
		return false;
	if (queue->nr) {
		space_wait_fence(space, queue->move[queue->head].fence);
		return true;
	}
	for (; range; range = range->next_pooled) {
		bracket_seq_t seq = MAX(range->last_use, range->last_part_use);

		if (range->nr_state[BLOCK_HBM] && seq > space->done_seq) {
			space_wait_seq(space, seq);
			return true;
		}
	}
	return false;
}

struct chunk *room_hbm_wait(struct weir_space *space, uint32_t wanted)
{
	wanted = MIN(MAX(wanted, 1u), 2u * SPACE_BATCH_MAX);
	for (;;) {
		struct chunk *chunk = room_hbm_try(space);
		bool any;

		if (chunk)
			return chunk;
		any = evict_some(space, wanted);
		chunk = room_hbm_try(space);
		if (chunk)
			return chunk;
		if (!wait_for_room(space) && !any)
			return NULL;
	}
}

struct chunk *room_hbm_or_evict(struct weir_space *space)
{
	struct chunk *chunk = room_hbm_try(space);
	struct range *range;
	uint32_t i;
	bool freed;

	if (chunk || space->mode == WEIR_FIXED)
		return chunk;
	range = pick_range(space, true, &i);
	if (!range || note(space, room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed)) ||
	    !freed)
		return NULL;
	return room_hbm_try(space);
}

bool room_exists(const struct weir_space *space)
{
	uint32_t i;

	if (pmm_nr_available(&space->pmm[TIER_HBM]) || space->moving[TIER_HOST].nr)
		return true;
	for (const struct range *range = space->pooled; range; range = range->next_pooled)
		if (range->nr_state[BLOCK_HBM])
			return true;
	return pick_range(space, false, &i) != NULL;
}
