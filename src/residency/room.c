/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a chunk comes from: the pool; a freed range, longest freed first; a lower copy; an
 * eviction. From which range is pick.c's to say, or a policy's (ask.c); where to is asked
 * (decide.h). What moves is idle: not pinned, and the brackets that named it are done.
 */
#include <errno.h>

#include "src/base/log.h"
#include "src/residency/residency.h"

/* An error that only costs speed here is still one that weir_space_sync() tells. */
static int note(struct weir_space *space, int err)
{
	if (err && err != -ENOSPC)
		space_note_error(space, err);
	return err;
}

/* Of the range freed first. */
bool room_free_pooled(struct weir_space *space, place_t place)
{
	struct range *oldest = NULL;
	bool any = false;
	uint32_t n;

	if (space->residency->dry[place] == space->epoch)
		return false;
	for (struct range *range = space->pooled; range; range = range->next_pooled) {
		uint32_t settled = range_nr_settled(range, place);

		any |= settled || range_is_moving(range);
		if (settled && range_is_idle(space, range))
			oldest = range;
	}
	if (!any)
		space->residency->dry[place] = space->epoch;
	if (!oldest)
		return false;
	n = pick_last_settled(oldest, place, oldest->nr_blocks);
	while (n < oldest->nr_blocks && !room_is_idle(space, oldest, range_nth_block(oldest, n)))
		n = pick_last_settled(oldest, place, n);
	if (n == oldest->nr_blocks)
		return false;
	n = range_nth_block(oldest, n);
	return !note(space, space_is_waited_for(space) ? migrate_unback_later(space, oldest, n)
						       : migrate_unback(space, oldest, n));
}

/* Whether the slot's bracket discards the block; then it names it in no other use. */
static bool is_discarded(const struct stream_slot *slot, const struct range *range, uint32_t i)
{
	for (uint32_t u = 0; u < slot->uses.nr; u++) {
		const struct space_use *use = &slot->uses.use[u];

		if (use->range == range && use->kind == WEIR_DISCARD && i >= use->first &&
		    i < use->first + use->nr)
			return true;
	}
	return false;
}

/* Whether a block that loses its chunk is then where it may be used: not on the host, if a
 * neighbour could have it, and there is no time for that later. */
static bool may_give(const struct weir_space *space, const struct range *range,
		     const struct block *block)
{
	return block->at.dead ||
	       (block_is_clean(block) &&
		(!space_has_neighbours(space) || block->at.below->place != space_host(space) ||
		 schedule_needs_no_copy(range)));
}

/*
 * The last block of a range, in its order, that can give its chunk away; nr_blocks: none. What
 * could not is not looked at again in the same epoch.
 */
static uint32_t giving_block(const struct weir_space *space, struct range *range,
			     const struct stream_slot *slot)
{
	if (range_is_pinned(space, range) || (!range->nr_dead && !range->nr_clean) ||
	    range->own != slot->own || range->homes || !range_is_before(space, range, slot))
		return range->nr_blocks;
	if (range->residency->give_epoch != space->epoch) {
		range->residency->give_epoch = space->epoch;
		range->residency->give = range->nr_blocks;
	}
	for (uint32_t n = pick_last_settled(range, range->own, range->residency->give);
	     n < range->nr_blocks; n = pick_last_settled(range, range->own, n)) {
		uint32_t i = range_nth_block(range, n);
		const struct block *block = &range->block[i];

		range->residency->give = n + 1;
		if (may_give(space, range, block) && !block_is_cleaning(block) && !block->pins &&
		    block->at.home->stale < SPACE_STALE_MAX && !block_is_unmapped(block) &&
		    (!range_is_placing(space, range) || is_discarded(slot, range, i)))
			return i;
	}
	range->residency->give = 0;
	return range->nr_blocks;
}

/* A giver among the ranges that the slot's bracket names, or among those that the plan evicts. */
static struct range *giver_in_use(struct weir_space *space, const struct stream_slot *slot,
				  bool named, uint32_t *i)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];

		if (range->pooled || range->arena || range_is_placing(space, range) != named ||
		    (!named && !schedule_evicts(range)))
			continue;
		*i = giving_block(space, range, slot);
		if (*i < range->nr_blocks)
			return range;
	}
	return NULL;
}

struct range *room_giver(struct weir_space *space, const struct stream_slot *slot, uint32_t *i)
{
	struct range *giver = giver_in_use(space, slot, false, i);

	if (giver)
		return giver;
	for (struct range *range = space->pooled; range; range = range->next_pooled) {
		uint32_t block = giving_block(space, range, slot);

		if (block < range->nr_blocks) {
			giver = range;
			*i = block;
		}
	}
	/* Last what the bracket discards: freed soon, whole, it can be the next range. */
	return giver ? giver : giver_in_use(space, slot, true, i);
}

/* The neighbours whose limits need the copies at a place, a bit each: others do not get these. */
static uint32_t find_saved(const struct weir_space *space, place_t place)
{
	uint32_t saved = 0;

	if (place != space_host(space))
		return 0;
	for (uint32_t home = space->nr_devices; home < place; home++)
		if (space_nr_dirty(space, (place_t)home) >= space->residency->dirty_max[home])
			saved |= 1u << home;
	return saved;
}

/* Free the lower copy of a block at a place, of ranges that are read mostly or of others.
 * own: for the space itself. */
static bool free_lower_copy(struct weir_space *space, place_t place, bool read_mostly, bool own)
{
	uint32_t saved = own ? 0 : find_saved(space, place);

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];

		if (range->residency->read_mostly != read_mostly)
			continue;
		for (uint32_t i = 0;
		     (range->nr_clean || range->nr_unproved) && i < range->nr_blocks; i++) {
			struct block *block = &range->block[i];

			if (!block_has_spare(block, place) || block_is_moving(block) ||
			    saved & 1u << block->at.home->place)
				continue;
			migrate_drop_lower(space, range, block);
			return true;
		}
	}
	return false;
}

/* Free the chunk of a dead block of a place. Not in a fixed space, where any launch may use
 * any block, nor of what an open bracket names, or the one being placed. */
static bool free_dead(struct weir_space *space, place_t place)
{
	for (uint32_t r = 0; r < space->nr_ranges && space->mode != WEIR_FIXED; r++) {
		struct range *range = space->range[r];

		if (range->arena || range->pooled || !range->nr_dead ||
		    !range_nr_settled(range, place) || range_is_named(space, range))
			continue;
		for (uint32_t i = 0; i < range->nr_blocks; i++)
			if (block_is_settled_at(&range->block[i], place) &&
			    range->block[i].at.dead && room_is_idle(space, range, i))
				return !note(space, migrate_unback(space, range, i));
	}
	return false;
}

static bool free_lower_copies(struct weir_space *space, place_t place, bool own)
{
	bool may = place != PLACE_OWN || space->nr_devices > 1; /* else there are none */

	return may && (free_lower_copy(space, place, false, own) ||
		       free_lower_copy(space, place, true, own));
}

struct chunk *room_try(struct weir_space *space, place_t place)
{
	struct pmm *pmm = &space->pmm[place];
	struct chunk *chunk = pmm_chunk_get(pmm);

	/* Beyond a budget that was lowered, what comes free is not to be had. */
	if (chunk || pmm_nr_out(pmm) > pmm->max_chunks)
		return chunk;
	if (room_free_pooled(space, place))
		chunk = pmm_chunk_get(pmm);
	if (!chunk && free_lower_copies(space, place, true))
		chunk = pmm_chunk_get(pmm);
	return chunk;
}

bool room_free(struct weir_space *space, place_t place, bool own)
{
	return room_free_pooled(space, place) || free_dead(space, place) ||
	       free_lower_copies(space, place, own);
}

/* Whether blocks that are resident at `own` may leave for a place. Another device's own memory
 * takes them while that device follows no plan, which would count on all of it. */
static bool may_be_at(const struct weir_space *space, place_t own, place_t place)
{
	return place == own || place >= space->nr_devices || !space->residency->planner[place].plan;
}

/* The place below that a block of a range should go to from one. Places are ranks in the question,
 * and in its answer. */
static place_t ask_where(const struct weir_space *space, const struct range *range, uint32_t i,
			 place_t place)
{
	place_t own = range_block_own(range, i), near = schedule_near(space, range), to;
	struct evict_to q = {
		.from = place_rank(own, place),
		.nr_places = space->nr_places,
		.prefer = prefer_rank(range),
		.near = near ? place_rank(own, near) : 0,
		.planned_last = schedule_far(space, range),
		.nr_last = range->nr_home[space_host(space)],
		.nr_unbacked = range_nr_unbacked(range),
		.copies_only = space->residency->near_copy_only,
	};

	for (uint32_t rank = q.from + 1u; rank < space->nr_places; rank++) {
		to = place_ranked(own, (place_t)rank);
		q.room[rank] = may_be_at(space, own, to) ? pmm_nr_available(&space->pmm[to]) : 0;
	}
	to = place_ranked(own, space->residency->decide->evict_to(&q));
	/* Else to the first place that is no device's own. */
	return may_be_at(space, own, to) ? to : (place_t)space->nr_devices;
}

/* A chunk of the place where blocks should go to; at a neighbour others may leave for it. */
static struct chunk *room_where(struct weir_space *space, place_t to)
{
	struct chunk *chunk = room_try(space, to);

	return !chunk && surplus_leave(space, to) ? room_try(space, to) : chunk;
}

/* At the first place below where there is a chunk; at last another device's that follows a plan. */
static struct chunk *room_first_below(struct weir_space *space, place_t own, place_t place)
{
	struct chunk *chunk = NULL;

	for (uint32_t last = 0; !chunk && last < 2; last++)
		for (uint32_t rank = place_rank(own, place) + 1u; !chunk && rank < space->nr_places;
		     rank++) {
			place_t below = place_ranked(own, (place_t)rank);

			if (may_be_at(space, own, below) == !last)
				chunk = room_try(space, below);
		}
	return chunk;
}

struct chunk *room_below(struct weir_space *space, const struct range *range, uint32_t i,
			 place_t place)
{
	struct chunk *chunk;

	if (place == space_host(space))
		return NULL;
	chunk = room_where(space, ask_where(space, range, i, place));
	return chunk ? chunk : room_first_below(space, range_block_own(range, i), place);
}

int room_below_settled(struct weir_space *space, const struct range *range, uint32_t i,
		       struct settle *settle, struct chunk **out)
{
	place_t own = range_block_own(range, i), to = ask_where(space, range, i, own);

	*out = room_where(space, to);
	if (!*out && room_settle_near(space, own, to, settle))
		return SETTLE_WAIT;
	if (!*out)
		*out = room_first_below(space, own, own);
	return 0;
}

/* Move an idle block down into a chunk, which goes back if it is not needed. */
static int evict_into(struct weir_space *space, struct range *range, uint32_t i,
		      struct chunk *lower, enum weir_cause cause, bool *freed)
{
	int err;

	if (range->block[i].at.home->place == range->own)
		past_moved(space, range, false);
	*freed = false;
	err = compare_is_wanted(space, &range->block[i], cause)
		      ? compare_evict(space, range, i, cause)
		      : -EBUSY;
	if (err == -EBUSY)
		err = migrate_evict(space, range, i, lower, cause, freed);
	if (lower && range->block[i].at.home != lower)
		pmm_chunk_put(&space->pmm[lower->place], lower);
	return err;
}

/* A chunk for a clean block that leaves: of a place between, where it should be rather than where
 * its copy is. A copy to a neighbour takes less than what is used on the host, or comes from there.
 * NULL: it goes to its copy. */
static struct chunk *room_between(struct weir_space *space, const struct range *range, uint32_t i)
{
	const struct copies *at = &range->block[i].at;
	place_t below = range_block_rank(range, i, at->below->place), to;

	if (below <= range_block_rank(range, i, at->home->place) + 1 ||
	    schedule_needs_no_copy(range))
		return NULL;
	to = ask_where(space, range, i, at->home->place);
	return range_block_rank(range, i, to) < below ? room_try(space, to) : NULL;
}

int room_evict(struct weir_space *space, struct range *range, uint32_t i, enum weir_cause cause,
	       bool *freed)
{
	struct block *block = &range->block[i];
	struct chunk *lower = NULL;

	if (block_is_clean(block)) {
		lower = room_between(space, range, i);
	} else if (block_is_dirty(block) && !block->at.unproved) {
		lower = room_below(space, range, i, block->at.home->place);
		if (!lower)
			return -ENOSPC;
	}
	return evict_into(space, range, i, lower, cause, freed);
}

int room_send(struct weir_space *space, struct range *range, uint32_t i, place_t to,
	      enum weir_cause cause, bool *freed)
{
	struct block *block = &range->block[i];
	struct chunk *lower = NULL;

	if (!block->at.dead && !block_has_spare(block, to)) {
		lower = room_try(space, to);
		if (!lower)
			return -ENOSPC;
	}
	return evict_into(space, range, i, lower, cause, freed);
}

int room_clean(struct weir_space *space, struct range *range, uint32_t i, place_t place)
{
	struct block *block = &range->block[i];
	struct chunk *lower;

	if (!block_is_settled_at(block, place) || !block_is_dirty(block) ||
	    block_is_cleaning(block))
		return 0;
	if (range_block_is_pinned(space, range, i) || range_is_marked(space, range, i) ||
	    range_block_last_write(space, range, i) > space->done_seq)
		return -EAGAIN;
	migrate_drop_lower(space, range, block); /* an unproved one */
	lower = pmm_chunk_get(&space->pmm[space_host(space)]);
	if (!lower)
		return -ENOSPC; /* not at the cost of other lower copies */
	return migrate_clean(space, range, i, lower);
}

int room_leave(struct weir_space *space, place_t place)
{
	struct chunk *chunk = NULL;
	struct range *range;
	bool freed;
	uint32_t i;

	range = pick_range(space, place, PICK_CLEAN, &i);
	if (range)
		return evict_into(space, range, i, NULL, WEIR_CAUSE_EVICTION, &freed);
	range = pick_range(space, place, PICK_ANY, &i);
	if (!range)
		return -EAGAIN;
	if (range->block[i].at.unproved)
		return evict_into(space, range, i, NULL, WEIR_CAUSE_EVICTION, &freed);
	chunk = room_below(space, range, i, place);
	if (chunk)
		return evict_into(space, range, i, chunk, WEIR_CAUSE_EVICTION, &freed);
	for (place_t rank = range_block_rank(range, i, place); !chunk && rank-- > 0;)
		chunk = room_try(space, place_ranked(range_block_own(range, i), rank));
	return chunk ? migrate_up(space, range, i, chunk, WEIR_CAUSE_EVICTION) : -ENOSPC;
}

bool room_evict_unplanned(struct weir_space *space, place_t own)
{
	const struct planner *p = &space->residency->planner[own];

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint32_t i;
		bool freed;

		if ((range->residency->planner == p && range->residency->plan_life >= 0) ||
		    range->homes || !pick_idle(space, range, own, &i))
			continue;
		return !note(space, room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed));
	}
	return false;
}

/* Who gives an idle block: the rule's choice, or a policy's. */
static struct range *choose_victim(struct weir_space *space, place_t own, uint32_t *i)
{
	struct range *range = pick_range(space, own, PICK_IDLE, i);

	return ask_victim(space, own, range, i);
}

/* Start evictions of idle blocks for `wanted` chunks beyond those already on their way. */
static void evict_some(struct weir_space *space, place_t own, uint32_t wanted)
{
	uint32_t coming = space_nr_to_leave(space, own);

	while (coming < wanted && space->mode != WEIR_FIXED) {
		struct range *range;
		uint32_t i;
		bool freed;

		range = choose_victim(space, own, &i);
		if (!range || note(space, room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed)))
			break;
		coming++;
	}
}

bracket_seq_t room_first_pooled_use(const struct weir_space *space, place_t place)
{
	bracket_seq_t first = 0;

	for (const struct range *range = space->pooled; range; range = range->next_pooled) {
		bracket_seq_t seq = range_newest_use(space, range);

		if (range_nr_settled(range, place) && seq > space->done_seq &&
		    (!first || seq < first))
			first = seq;
	}
	return first;
}

int room_settle_near(struct weir_space *space, place_t own, place_t place, struct settle *settle)
{
	bracket_seq_t first;

	if (!space->residency->planner[own].plan || !space_is_near(space, place))
		return 0;
	first = room_first_pooled_use(space, place);
	if (first && settle_on_seq(space, first, settle))
		return SETTLE_WAIT;
	return settle_on_path(space, space_path(space, place, own), settle);
}

/* What gives a chunk of a device's own memory: a copy out, the freed range that is used for the
 * shortest time, a copy in that may go again, a block that is in use or being cleaned. */
static int settle_on_room(struct weir_space *space, place_t own, struct settle *settle)
{
	bracket_seq_t first = room_first_pooled_use(space, own);
	uint32_t i;

	if (settle_on_leaving(space, own, settle))
		return SETTLE_WAIT;
	if (first)
		return settle_on_seq(space, first, settle);
	if (settle_on_coming(space, own, settle))
		return SETTLE_WAIT;
	return space->mode != WEIR_FIXED && pick_range(space, own, PICK_LATER, &i)
		       ? settle_on_any(space, settle)
		       : 0;
}

int room_make(struct weir_space *space, place_t own, uint32_t wanted, struct settle *settle,
	      struct chunk **out)
{
	*out = room_try(space, own);
	if (*out)
		return 0;
	/* Copies of what is elsewhere, too, come before what is here alone. */
	if (space->shared && space->shared_ops->give(space, own)) {
		*out = room_try(space, own);
		if (*out)
			return 0;
	}
	if (settle_on_others(space, own, wanted, settle))
		return SETTLE_WAIT;
	/* A plan has made room: wait for it rather than evict what it wants to keep. */
	if (!space->residency->planner[own].plan ||
	    (!room_first_pooled_use(space, own) && !space_nr_leaving(space, own))) {
		evict_some(space, own, MIN(MAX(wanted, 1u), 2u * SPACE_BATCH_MAX));
		*out = room_try(space, own);
		if (*out)
			return 0;
		if (settle_on_others_below(space, own, own, settle)) /* for what is evicted */
			return SETTLE_WAIT;
	}
	if (note(space, migrate_flush(space)))
		return 0;
	return settle_on_room(space, own, settle);
}

struct chunk *room_or_evict(struct weir_space *space, place_t own)
{
	struct chunk *chunk = room_try(space, own);
	struct range *range;
	uint32_t i;
	bool freed;

	if (chunk || space->mode == WEIR_FIXED)
		return chunk;
	range = choose_victim(space, own, &i);
	if (!range || note(space, room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed)) ||
	    !freed)
		return NULL;
	return room_try(space, own);
}

bool room_exists(const struct weir_space *space, place_t own)
{
	uint32_t i;

	if (pmm_nr_available(&space->pmm[own]) || space_is_copying(space))
		return true;
	for (const struct range *range = space->pooled; range; range = range->next_pooled)
		if (range_nr_settled(range, own))
			return true;
	return pick_range(space, own, PICK_LATER, &i) != NULL;
}

struct chunk *room_planned(struct weir_space *space, place_t own, uint32_t wanted)
{
	struct chunk *chunk = room_try(space, own);

	if (!chunk && space_nr_to_leave(space, own) < wanted && room_evict_unplanned(space, own))
		chunk = room_try(space, own);
	return chunk;
}
