/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a bracket's uses ready. For each block that is not resident: bring it in (copying only
 * contents that are needed), or leave it in place, as decide.h answers.
 */
#include <errno.h>

#include "src/residency/residency.h"

/* What stays where it is, for want of room; beside SETTLE_WAIT. */
#define PLACE_NO_ROOM 2

/* What a rule that knows no plan is told of the past. Who would go is looked for where there are
 * too few free chunks. */
static void add_past(const struct weir_space *space, const struct space_use *use,
		     struct bring_in *q)
{
	const struct range *range = use->range, *victim;

	q->nr_unbacked = range_nr_unbacked(range);
	q->nr_away = MIN(range->nr_blocks - q->nr_resident - q->nr_unbacked, use->nr);
	q->past = past_get(space, range);
	q->nr_free = past_nr_free(space, range->own);
	victim = q->nr_free < q->nr_away ? pick_victim(space, range->own) : NULL;
	if (victim)
		q->victim = past_get(space, victim);
}

/* Blocks of a use that are not resident. */
static uint32_t nr_missing(const struct space_use *use)
{
	uint32_t nr = 0;

	for (uint32_t i = use->first; i < use->first + use->nr; i++)
		nr += !block_is_at(&use->range->block[i], range_block_own(use->range, i));
	return nr;
}

/* Whether it is one of the parts of its range that come or go. */
static bool is_flowing(const struct space_use *use)
{
	return use->nr < use->range->nr_blocks && schedule_flow(use->range) != FLOW_NONE;
}

/* What the plan wants resident of a use's range; where parts of it come or go, all of this one. */
static uint32_t planned_for(const struct space_use *use)
{
	return is_flowing(use) ? range_nr_resident(use->range) + nr_missing(use)
			       : schedule_level(use->range);
}

/* What of the use's range should be resident. A bracket gets one answer, however often it waits. */
static void get_wanted(struct weir_space *space, const struct space_use *use,
		       struct brought_in *out)
{
	const struct range *range = use->range;
	struct range_residency *r = range->residency;
	const bool kept = space->keep_marked;
	struct bring_in q = {
		.nr_blocks = range->nr_blocks,
		.nr_resident = range_nr_resident(range),
		.planned = planned_for(use),
		.follows_plan = range_follows_plan(range),
		.touches = (use->read_bytes + use->write_bytes) / (double)use->bytes *
			   (1 - (double)use->unused),
		.kind = use->kind,
		.prefer = prefer_rank(range),
		.stays = range->arena,
	};

	if (space->impatient) { /* what is not there is used where it is */
		*out = (struct brought_in){.level = q.nr_resident};
		return;
	}
	if (!q.follows_plan && r->answer_mark == space->mark && r->answer_first == use->first) {
		*out = r->answer;
		return;
	}
	space->keep_marked = true; /* who would go is none of what the bracket names */
	if (!q.follows_plan && !range->arena)
		add_past(space, use, &q);
	*out = space->residency->decide->bring_in(&q);
	/* The few blocks that all of a range goes through are worth more than what others have. */
	out->evict_for_moved |= is_flowing(use);
	ask_admit(space, use, out);
	space->keep_marked = kept;
	r->answer_mark = space->mark;
	r->answer_first = use->first;
	r->answer = *out;
}

/* Whether a whole range's contents are not needed: the use overwrites it, or there are none. */
static bool is_fresh(const struct space_use *use)
{
	const struct range *range = use->range;

	return use->nr == range->nr_blocks &&
	       (use->kind == WEIR_OVERWRITE || range->nr_dead == range->nr_blocks);
}

/* Whether the plan, if there is one, wants less than all of a range resident in this stage. */
static inline bool is_confined(const struct range *range)
{
	return range_follows_plan(range) && range->residency->planner->plan->confines &&
	       schedule_level(range) < range->nr_blocks;
}

/* Whether nothing is to be asked: all of the range is there and shown, and stays. */
static inline bool is_ready(const struct space_use *use)
{
	const struct range *range = use->range;

	return range_nr_resident(range) == range->nr_blocks && !range->nr_unmapped &&
	       !(is_fresh(use) && is_confined(range));
}

bool place_is_all_ready(const struct space_use *uses, uint32_t nr_uses)
{
	for (uint32_t u = 0; u < nr_uses; u++)
		if (!is_ready(&uses[u]))
			return false;
	return true;
}

/*
 * Where a loop's parts come and go, the next one takes the room of one that is behind it, which
 * launches may still use, or which may still be on its way to them: the program runs ahead of the
 * device by as many parts as the plan has room for, and not at the cost of what others have.
 */
static int settle_on_behind(struct weir_space *space, const struct space_use *use,
			    struct settle *settle)
{
	struct range *range = use->range;
	bracket_seq_t first = 0;
	uint32_t level;
	bool freed;
	int err;

	if (use->nr == range->nr_blocks || schedule_flow(range) != FLOW_THROUGH)
		return 0;
	level = schedule_level(range);
	for (uint32_t i = 0; i < use->first && range_nr_resident(range) >= level; i++) {
		const bracket_seq_t seq = range_block_last_use(space, range, i);

		if (!block_is_at(&range->block[i], range->own) ||
		    range_is_marked(space, range, i) || range_block_is_pinned(space, range, i))
			continue;
		if (room_is_idle(space, range, i)) {
			err = room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed);
			if (err)
				return err == -ENOSPC ? 0 : err; /* it stays, and others may go */
		} else if (seq > space->done_seq && (!first || seq < first)) {
			first = seq;
		}
	}
	return first && range_nr_resident(range) >= level ? settle_on_seq(space, first, settle) : 0;
}

/* A chunk of the memory that a block of the use is resident in; NULL: leave it in place. fresh: the
 * block's contents are not needed. left: blocks that are going to want one. */
static int chunk_for(struct weir_space *space, const struct space_use *use, uint32_t i,
		     const struct brought_in *in, uint32_t left, bool fresh, struct settle *settle,
		     struct chunk **out)
{
	place_t own = range_block_own(use->range, i);

	*out = NULL;
	if (range_nr_resident(use->range) >= in->level)
		return 0;
	if (space->mode != WEIR_FIXED && (fresh ? in->evict_for_fresh : in->evict_for_moved))
		return room_make(space, own, left, settle, out);
	*out = room_try(space, own);
	/* What nobody would go for is not worth asking others of the machine for, either; but a
	 * plan counts on its budget, and a fixed space never gets a second chance. */
	if (*out || (space->mode != WEIR_FIXED && !range_follows_plan(use->range)))
		return 0;
	return settle_on_others(space, own, left, settle);
}

/* Until the block can be mapped. */
static int settle_on_held(struct weir_space *space, const struct range *range, uint32_t i,
			  struct settle *settle)
{
	if (!range_block_is_held(space, range, i))
		return 0;
	return settle_on_seq(space, range_block_last_use(space, range, i), settle);
}

static int place_unbacked(struct weir_space *space, const struct space_use *use, uint32_t i,
			  const struct brought_in *in, uint32_t left, struct settle *settle)
{
	struct range *range = use->range;
	place_t own = range_block_own(range, i);
	struct chunk *chunk = NULL;
	int err = settle_on_held(space, range, i, settle);

	if (!err)
		err = chunk_for(space, use, i, in, left, true, settle, &chunk);
	if (!err && !chunk)
		err = room_below_settled(space, range, i, settle, &chunk);
	if (!err && !chunk)
		err = settle_on_others_below(space, own, own, settle);
	if (!err && !chunk)
		err = room_make(space, own, left, settle, &chunk);
	/* A copy of another place's block that is being made takes room until it is done. */
	if (!err && !chunk)
		err = settle_on_any(space, settle);
	if (err)
		return err;
	if (chunk && chunk->place == own)
		past_moved(space, range, true);
	return chunk ? migrate_back(space, range, i, chunk) : -ENOMEM;
}

/* A block at a lower place, no open bracket on it: up, or in place. @return also PLACE_NO_ROOM. */
static int place_lower(struct weir_space *space, const struct space_use *use, uint32_t i,
		       const struct brought_in *in, uint32_t left, struct settle *settle)
{
	struct range *range = use->range;
	struct block *block = &range->block[i];
	bool overwritten = use->kind == WEIR_OVERWRITE && use_covers(use, i);
	struct chunk *chunk = NULL;
	int err = settle_on_behind(space, use, settle);

	if (!err)
		err = chunk_for(space, use, i, in, left, overwritten || block->at.dead, settle,
				&chunk);
	if (err || !chunk)
		return err ? err : PLACE_NO_ROOM;
	err = settle_on_seq(space, range_block_last_use(space, range, i), settle);
	if (err) { /* no chunk is held across a wait */
		pmm_chunk_put(&space->pmm[chunk->place], chunk);
		return err;
	}
	if (overwritten && !block->at.dead) {
		migrate_set_dead(space, range, block, true);
		space->stats.nr_overwrites_saved++;
	}
	past_moved(space, range, true);
	return migrate_fetch(space, range, i, chunk, WEIR_CAUSE_DEMAND);
}

/* own: the memory of the bracket's device; what is resident in another one's is used where it
 * is. */
static int place_block(struct weir_space *space, const struct space_use *use, uint32_t i,
		       place_t own, const struct brought_in *in, uint32_t left,
		       struct settle *settle)
{
	struct range *range = use->range;
	struct block *block = &range->block[i];

	if (!block_is_backed(block))
		return place_unbacked(space, use, i, in, left, settle);
	/* What is being copied to the host is used where it is rather than waited for. */
	if (range_block_own(range, i) == own && range_block_is_settled_below(range, i) &&
	    !block_is_cleaning(block) && space->mode == WEIR_PLANNED &&
	    !range_block_is_pinned(space, range, i) && range_nr_resident(range) < in->level)
		return place_lower(space, use, i, in, left, settle);
	return 0;
}

/* Whether the block is resident for nothing: no open bracket names it, no copy reads
 * it. */
static bool is_spare(const struct weir_space *space, const struct range *range, uint32_t i)
{
	const struct block *block = &range->block[i];

	return block_is_settled_at(block, range->own) && block->at.dead &&
	       !block_is_cleaning(block) && !range_block_is_pinned(space, range, i);
}

/*
 * A range about to be overwritten may hold more chunks than the plan gives it, from its last life.
 * Give them back before it has contents that would have to be copied. settle: where launches that
 * used them are to be waited for; else NULL.
 */
static int trim_fresh(struct weir_space *space, const struct space_use *use, uint32_t level,
		      struct settle *settle)
{
	struct range *range = use->range;

	/* What is discarded is free to give its chunks to others as it is. */
	if (!range_follows_plan(range) || !is_fresh(use) || use->kind == WEIR_DISCARD)
		return 0;
	for (uint32_t n = range->nr_blocks; n-- > 0 && range_nr_resident(range) > level;) {
		uint32_t i = range_nth_block(range, n);
		int err;

		if (!is_spare(space, range, i))
			continue;
		if (!settle && range_block_last_use(space, range, i) > space->done_seq)
			continue;
		err = settle ? settle_on_seq(space, range_block_last_use(space, range, i), settle)
			     : 0;
		if (!err)
			err = migrate_unback(space, range, i);
		if (err)
			return err;
	}
	return 0;
}

/* What may be touched is backed, wherever there is room, and goes nowhere. */
static int place_staying(struct weir_space *space, struct place_pass *p, struct settle *settle)
{
	const struct space_use *use = &p->uses[p->use];
	const struct brought_in in = {.level = use->range->nr_blocks};

	for (; range_nr_unbacked(use->range) && p->nth < use->nr; p->nth++) {
		uint32_t i = range_nth_block(use->range, p->nth);
		int err = 0;

		if (!block_is_backed(&use->range->block[i]))
			err = place_unbacked(space, use, i, &in, 1, settle);
		if (err)
			return err;
	}
	return 0;
}

/* Place the blocks of the use that the pass is at. */
static int place_use(struct weir_space *space, struct place_pass *p, struct settle *settle)
{
	const struct space_use *use = &p->uses[p->use];
	struct range *range = use->range;
	struct brought_in in;
	int err;

	if (is_ready(use))
		return 0;
	err = compare_settle(space, use, settle);
	if (err)
		return err;
	if (use->stays)
		return place_staying(space, p, settle);
	get_wanted(space, use, &in);
	err = p->nth ? 0 : trim_fresh(space, use, in.level, settle);

	for (; !err && p->nth < use->nr; p->nth++) {
		uint32_t i = use->nr == range->nr_blocks ? range_nth_block(range, p->nth)
							 : use->first + p->nth;
		uint32_t resident = range_nr_resident(range);
		uint32_t left =
			in.level > resident ? MIN(in.level - resident, use->nr - p->nth) : 0;

		if (!range_nr_unbacked(range) &&
		    (!left || p->no_room || !range_nr_settled_below(range)))
			break;
		if (p->no_room && block_is_backed(&range->block[i]))
			continue;
		err = place_block(space, use, i, p->own, &in, left, settle);
		if (err == PLACE_NO_ROOM) {
			p->no_room = true;
			err = 0;
		} else if (err) {
			return err;
		}
	}
	return err ? err : near_place_fresh(space, use, in.level, settle);
}

/* The blocks of the use are none to be evicted for it. */
static void mark_blocks(const struct space_use *use)
{
	struct range *range = use->range;

	range->mark_first = MIN(range->mark_first, use->first);
	range->mark_last = MAX(range->mark_last, use->first + use->nr - 1);
}

void place_mark(struct weir_space *space, const struct space_use *uses, uint32_t nr_uses)
{
	for (uint32_t u = 0; u < nr_uses; u++) {
		struct range *range = uses[u].range;

		if (range->mark != space->mark) {
			range->mark = space->mark;
			range->mark_first = UINT32_MAX;
			range->mark_last = 0;
		}
		if (!uses[u].stays)
			mark_blocks(&uses[u]);
	}
}

/* From here on what may be touched stays where it is: what it gave way to is placed. */
static void mark_staying(struct place_pass *p)
{
	p->staying = true;
	for (uint32_t u = p->use; u < p->nr_uses; u++)
		mark_blocks(&p->uses[u]);
}

/* Map what is used in place and was left unmapped. */
static int mend_use(struct weir_space *space, const struct space_use *use, struct settle *settle)
{
	int err = 0;

	for (uint32_t i = use->first; !err && use->range->nr_unmapped && i < use->first + use->nr;
	     i++) {
		err = settle_on_held(space, use->range, i, settle);
		if (!err)
			err = migrate_mend(space, use->range, i);
	}
	return err;
}

int place_uses(struct weir_space *space, struct place_pass *p, struct settle *settle)
{
	int err = 0;

	/* Making room for one use must not evict another. */
	space->keep_marked = true;
	for (; p->use < p->nr_uses; p->use++) {
		if (p->uses[p->use].stays && !p->staying)
			mark_staying(p);
		if (p->uses[p->use].kind != WEIR_DISCARD)
			err = place_use(space, p, settle);
		if (err)
			return err;
		p->nth = 0;
		p->no_room = false;
	}
	/* A flush that fails leaves the blocks of its batch unmapped, and a wait lets others queue
	 * copies: this is done anew after each wait, so every copy is behind a fence in the end. */
	err = migrate_flush(space);
	for (uint32_t u = 0; !err && u < p->nr_uses; u++)
		if (p->uses[u].kind != WEIR_DISCARD)
			err = mend_use(space, &p->uses[u], settle);
	return err;
}

/* Give a block without contents a chunk of the device's own memory: a free one, or one that
 * launches before the bracket's are the last to use. @return PLACE_DONE, PLACE_WAITS or an
 * error. */
static int place_fresh_block(struct weir_space *space, const struct stream_slot *slot,
			     struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	struct range *giver;
	struct chunk *chunk;
	uint32_t given;

	if (!block->at.dead || block_is_at(block, slot->own) ||
	    range_block_is_held(space, range, i) ||
	    (block_is_backed(block) && !room_is_idle(space, range, i)))
		return PLACE_DONE;
	chunk = pmm_chunk_get(&space->pmm[slot->own]);
	if (!chunk) {
		giver = room_giver(space, slot, &given);
		return giver ? migrate_take(space, giver, given, range, i) : PLACE_WAITS;
	}
	return migrate_up(space, range, i, chunk, WEIR_CAUSE_DEMAND);
}

/* Map what the use will find in place: the blocks beyond its level. */
static int mend_ahead(struct weir_space *space, const struct space_use *use, uint32_t level)
{
	struct range *range = use->range;

	if (use->nr != range->nr_blocks || use->kind == WEIR_DISCARD)
		return 0;
	for (uint32_t n = level; n < range->nr_blocks && range->nr_unmapped; n++) {
		uint32_t i = range_nth_block(range, n);
		int err = range_block_is_held(space, range, i) ? 0 : migrate_mend(space, range, i);

		if (err)
			return err;
	}
	return 0;
}

/*
 * Give a fresh range its chunks of the device's own memory, as far as its level, a batch
 * at a time: mapping calls take long, and copies must be queued in between. @return as
 * place_ahead().
 */
static int place_fresh(struct weir_space *space, const struct stream_slot *slot,
		       struct space_use *use, uint32_t level)
{
	struct range *range = use->range;
	uint32_t end = range_nr_resident(range) + SPACE_BATCH_MAX;

	for (; use->placed < range->nr_blocks && range_nr_resident(range) < level; use->placed++) {
		int err;

		if (range_nr_resident(range) >= end)
			return PLACE_MORE;
		err = place_fresh_block(space, slot, range, range_nth_block(range, use->placed));
		if (err)
			return err;
	}
	return PLACE_DONE;
}

int place_ahead(struct weir_space *space, struct stream_slot *slot)
{
	int done = PLACE_DONE;

	for (uint32_t u = 0; u < slot->uses.nr_named; u++) {
		struct space_use *use = &slot->uses.use[u];
		struct brought_in in;
		int err;

		if (is_ready(use))
			continue;
		get_wanted(space, use, &in);
		err = near_place_fresh(space, use, in.level, NULL);
		if (!err)
			err = mend_ahead(space, use, in.level);
		if (!err)
			err = trim_fresh(space, use, in.level, NULL);
		if (err)
			return err;
		if (!is_fresh(use) || use->range->homes || use->range->own != slot->own)
			continue;
		if (done == PLACE_DONE)
			done = place_fresh(space, slot, use, in.level);
		if (done < 0)
			return done;
	}
	return done;
}

int place_map_ahead(struct weir_space *space)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint32_t n = range->nr_blocks;

		if (range->nr_unmapped && !range->pooled && !range->arena)
			n = schedule_next_level(range);
		for (; n < range->nr_blocks; n++) {
			uint32_t i = range_nth_block(range, n);
			int err;

			if (!range_block_is_settled_below(range, i) ||
			    !block_is_unmapped(&range->block[i]) ||
			    range_block_is_held(space, range, i))
				continue;
			err = migrate_mend(space, range, i);
			return err ? err : 1;
		}
	}
	return 0;
}

/* What freed ranges give of a device's own memory when they are idle; -ENOSPC: nothing in time. */
static int settle_on_freed(struct weir_space *space, place_t own, struct settle *settle)
{
	const bracket_seq_t first = space->impatient ? 0 : room_first_pooled_use(space, own);

	return first && settle_on_seq(space, first, settle) ? SETTLE_WAIT : -ENOSPC;
}

/* Whether others go for a block that is backed at once. An arena never moves, and programs that
 * know nothing of weir use what is small most often: it is not to be in place for good. */
static bool is_worth_room(const struct weir_space *space, const struct range *range)
{
	return space->guessed && space->mode == WEIR_PLANNED && range->arena && !space->impatient;
}

/* A chunk for a block, one of nr, wherever there is one. */
static int back_room(struct weir_space *space, const struct range *range, uint32_t i, uint32_t nr,
		     struct settle *settle, struct chunk **out)
{
	place_t own = range_block_own(range, i);
	int err;

	*out = room_try(space, own);
	if (!*out && settle_on_others(space, own, nr, settle))
		return SETTLE_WAIT;
	if (!*out && space->own_only)
		return settle_on_freed(space, own, settle);
	if (!*out && is_worth_room(space, range) && room_make(space, own, 1, settle, out))
		return SETTLE_WAIT;
	if (!*out)
		*out = room_below(space, range, i, own);
	if (*out)
		return 0;
	if (settle_on_others_below(space, own, own, settle))
		return SETTLE_WAIT;
	/* Copies and freed ranges that are in use will give some back. */
	err = migrate_flush(space);
	if (!err)
		err = settle_on_any(space, settle);
	return err ? err : -ENOMEM;
}

int place_back(struct weir_space *space, void *arg, struct settle *settle)
{
	struct back_pass *p = arg;
	struct range *range = p->part.range;
	int err;

	for (; p->nth < p->part.nr; p->nth++) {
		/* All of a range: in its order, so that what is resident lies evenly. */
		uint32_t i = p->part.nr == range->nr_blocks ? range_nth_block(range, p->nth)
							    : p->part.first + p->nth;
		struct chunk *chunk = NULL;

		err = settle_on_held(space, range, i, settle);
		if (err)
			return err;
		if (!block_is_backed(&range->block[i])) {
			err = back_room(space, range, i, p->part.nr - p->nth, settle, &chunk);
			if (err)
				return err;
		}
		err = chunk ? migrate_back(space, range, i, chunk) : migrate_mend(space, range, i);
		if (err)
			return err;
	}
	return 0;
}

int place_back_all(struct weir_space *space, struct range *range)
{
	struct back_pass all = {.part = {.range = range, .nr = range->nr_blocks}};

	return space_settle(space, place_back, &all);
}
