/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours' memory under a plan: what the plan wants near and is on the host comes, and what it
 * wants on the host and is near makes room for that. Nothing here waits, and nothing moves for whom
 * the plan has no use: as long as a neighbour has room, what is there may stay.
 */
#include "src/residency/residency.h"

/* Blocks or ranges that one call looks at for being too far away. */
#define TRIES 4u

/* Moves under way at a time between a neighbour and the host: its link is busy with them. */
#define MOVES_MAX (3u * SPACE_BATCH_MAX)

/* Of these, those that are under way for later: what is wanted there now waits for no more. */
#define LIFTS_MAX 4u

/* Free chunks of a neighbour's memory below which what should not be there leaves. */
#define SPARE (2ull * SPACE_BATCH_MAX)

static bool is_busy(const struct weir_space *space, place_t from, place_t to, uint32_t most)
{
	return path_nr_moves(space_path(space, from, to)) >= most;
}

/* A chunk of a neighbour for a range, for which others may leave it at once. */
static struct chunk *near_chunk(struct weir_space *space, const struct range *range)
{
	place_t wanted = schedule_near(space, range);
	struct chunk *chunk = wanted ? room_try(space, wanted) : NULL;

	for (place_t place = (place_t)space->nr_devices; !chunk && place < space_host(space);
	     place++) {
		chunk = room_try(space, place);
		if (!chunk && surplus_leave(space, place))
			chunk = pmm_chunk_get(&space->pmm[place]);
	}
	return chunk;
}

/* One that nobody has any use for, not even the copies that are to come. */
static struct chunk *near_idle_chunk(struct weir_space *space)
{
	struct chunk *chunk = NULL;

	for (place_t place = (place_t)space->nr_devices; !chunk && place < space_host(space);
	     place++) {
		struct pmm *pmm = &space->pmm[place];

		if (pmm_nr_available(pmm) > MIN(pmm->max_chunks / 8, SPACE_BATCH_MAX) ||
		    room_free_pooled(space, place))
			chunk = pmm_chunk_get(pmm);
	}
	return chunk;
}

/* Whether so many blocks are on their way to each neighbour from the host. */
static bool is_coming(const struct weir_space *space, uint32_t most)
{
	place_t host = space_host(space);
	bool busy = true;

	for (place_t place = (place_t)space->nr_devices; place < host; place++)
		busy &= is_busy(space, host, place, most);
	return busy;
}

/*
 * Bring a block of a range from the host to a neighbour that has room: one of those that the next
 * use will find in place, or of all that nobody writes. lift: of what may stay on the host, while
 * there is nothing else to do with the room. @return whether there was one.
 */
static bool bring(struct weir_space *space, struct range *range, bool lift)
{
	uint32_t n = schedule_is_kept(range) ? 0 : schedule_next_level(range);

	for (; n < range->nr_blocks; n++) {
		uint32_t i = range_nth_block(range, n);
		struct chunk *chunk;

		if (!block_is_settled_at(&range->block[i], space_host(space)) ||
		    !room_is_idle(space, range, i))
			continue;
		chunk = lift ? near_idle_chunk(space) : near_chunk(space, range);
		if (!chunk)
			return false;
		/* What goes on from there before it is used needs no mapping there. */
		space_note_error(space, n < schedule_next_level(range)
						? migrate_fetch_unmapped(space, range, i, chunk,
									 WEIR_CAUSE_PREFETCH)
						: migrate_fetch(space, range, i, chunk,
								WEIR_CAUSE_PREFETCH));
		return true;
	}
	return false;
}

/* Send a block that should be on the host there. @return whether there was one. */
static bool send(struct weir_space *space, struct range *range)
{
	place_t host = space_host(space);

	if (!surplus_nr(space, range))
		return false;
	for (uint32_t place = space->nr_devices; place < host; place++) {
		uint32_t i = range->nr_blocks;
		bool freed;

		if (pmm_nr_available(&space->pmm[place]) < SPARE &&
		    range_nr_settled(range, (place_t)place) &&
		    !is_busy(space, (place_t)place, host, MOVES_MAX))
			i = surplus_block(space, range, (place_t)place, true);
		if (i < range->nr_blocks)
			return !room_send(space, range, i, host, WEIR_CAUSE_EVICTION, &freed);
	}
	return false;
}

/* @return whether there was something to move. */
static bool advance_range(struct weir_space *space, struct range *range)
{
	uint32_t nr = range->nr_home[space_host(space)], far = schedule_far(space, range);
	bool lifted = far && schedule_is_kept(range);

	if (range->arena || range->pooled)
		return false;
	if (nr > far)
		return !is_coming(space, MOVES_MAX) && bring(space, range, false);
	if (nr && lifted)
		return !is_coming(space, LIFTS_MAX) && bring(space, range, true);
	return !lifted && send(space, range);
}

void near_advance(struct weir_space *space)
{
	struct residency *r = space->residency;

	for (uint32_t tries = 0; tries < TRIES && space->nr_ranges; tries++)
		if (!advance_range(space, space->range[r->next_near % space->nr_ranges]))
			r->next_near = (r->next_near + 1) % space->nr_ranges;
}

/* Whether a block has a chunk and no contents, so that it may have another one. settle: as in
 * near_place_fresh(). */
static bool is_spare(const struct weir_space *space, const struct range *range, uint32_t i,
		     const struct settle *settle)
{
	const struct block *block = &range->block[i];

	return block_is_backed(block) && block->at.dead && !block_is_moving(block) &&
	       !block_is_cleaning(block) && !range_block_is_pinned(space, range, i) &&
	       (settle || range_block_last_use(space, range, i) <= space->done_seq);
}

static bool is_near(const struct weir_space *space, const struct block *block)
{
	return block_is_backed(block) && space_is_near(space, block->at.home->place);
}

/* Give a spare block a chunk of another place, if that has any. */
static int exchange(struct weir_space *space, struct range *range, uint32_t i, place_t to,
		    struct settle *settle)
{
	int err = settle ? settle_on_seq(space, range_block_last_use(space, range, i), settle) : 0;
	struct chunk *chunk;

	if (err)
		return err;
	chunk = pmm_chunk_get(&space->pmm[to]);
	if (!chunk)
		return 0;
	err = migrate_unback(space, range, i);
	if (err) {
		pmm_chunk_put(&space->pmm[to], chunk);
		return err;
	}
	return migrate_back(space, range, i, chunk);
}

/* Whether a neighbour has more than an eighth more of a range's blocks than others have. */
static bool is_crowded(const struct weir_space *space, const struct range *range, place_t place)
{
	uint64_t nr = space_host(space) - space->nr_devices, near = 0;

	for (place_t at = (place_t)space->nr_devices; at < space_host(space); at++)
		near += range->nr_home[at];
	return 8 * nr * range->nr_home[place] > 9 * near + 8 * nr;
}

/* What has too many chunks of one neighbour from its last life gets others' for some of them. */
static int spread_fresh(struct weir_space *space, struct range *range, uint32_t level,
			struct settle *settle)
{
	int err = 0;

	for (uint32_t n = level; !err && n < range->nr_blocks; n++) {
		uint32_t i = range_nth_block(range, n);
		place_t from, to;

		if (!is_near(space, &range->block[i]) || !is_spare(space, range, i, settle))
			continue;
		from = range->block[i].at.home->place;
		if (!is_crowded(space, range, from))
			continue;
		to = schedule_near(space, range);
		if (!to || to == from)
			break;
		err = exchange(space, range, i, to, settle);
	}
	return err;
}

/* The last blocks of the range in its order get chunks of the host's, until as many are there as
 * the plan wants: use in place there is to go on beside that at neighbours. */
static int place_far(struct weir_space *space, struct range *range, uint32_t level, uint32_t far,
		     struct settle *settle)
{
	place_t host = space_host(space);
	int err = 0;

	for (uint32_t n = range->nr_blocks; !err && n-- > level && range->nr_home[host] < far;) {
		uint32_t i = range_nth_block(range, n);

		if (is_near(space, &range->block[i]) && is_spare(space, range, i, settle))
			err = exchange(space, range, i, host, settle);
	}
	return err;
}

int near_place_fresh(struct weir_space *space, const struct space_use *use, uint32_t level,
		     struct settle *settle)
{
	struct range *range = use->range;
	place_t host = space_host(space);
	uint32_t far = schedule_far(space, range);
	int err;

	if (far == DECIDE_UNKNOWN || use->kind != WEIR_OVERWRITE || use->nr != range->nr_blocks)
		return 0;
	err = schedule_is_spread(space) ? spread_fresh(space, range, level, settle) : 0;
	if (err)
		return err;
	if (range->nr_home[host] < far)
		return place_far(space, range, level, far, settle);
	for (uint32_t n = level; n < range->nr_blocks && range->nr_home[host] > far; n++) {
		uint32_t i = range_nth_block(range, n);
		struct chunk *chunk;

		if (!block_is_at(&range->block[i], host) || !is_spare(space, range, i, settle))
			continue;
		chunk = near_chunk(space, range);
		for (place_t place = (place_t)space->nr_devices; !chunk && settle && place < host;
		     place++)
			if (room_settle_near(space, range->own, place, settle))
				return SETTLE_WAIT;
		if (!chunk)
			break;
		if (settle)
			err = settle_on_seq(space, range_block_last_use(space, range, i), settle);
		if (err) { /* no chunk is held across a wait */
			pmm_chunk_put(&space->pmm[chunk->place], chunk);
			return err;
		}
		err = migrate_fetch(space, range, i, chunk, WEIR_CAUSE_DEMAND);
		if (err)
			return err;
	}
	return 0;
}
