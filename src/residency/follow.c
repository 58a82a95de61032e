/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following a plan: keeping count of where the program and the device are in it, and carrying out
 * its actions. An action begins when the device enters its stage, and at the latest when the
 * program begins the bracket that it is due for, which then waits for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/residency/residency.h"

/*
 * Moves under way in one direction at a time: enough to keep the link busy until the next of them
 * completes, few enough that the mapping calls of a long action do not hold up the program's own.
 */
#define MOVES_MAX (3u * SPACE_BATCH_MAX)

/* Blocks or lives that one call looks at for being too far away. */
#define NEAR_TRIES 4u

/* The newest event agrees with the plan. */
static void follow_position(struct weir_space *space, struct range *range)
{
	struct residency *r = space->residency;
	uint64_t number = r->record.next_event - 1, period,
		 k = schedule_position(r, number, &period);
	const struct event *event = record_event(&r->record, number);

	switch (event->kind) {
	case EVENT_ALLOC:
		if (range && r->life_of_event[k] != UINT32_MAX) {
			range->residency->plan_life = (int32_t)r->life_of_event[k];
			r->life[range->residency->plan_life] = range;
		}
		break;
	case EVENT_FREE: /* follow_freed() comes next */
		break;
	case EVENT_BEGIN:
		r->host_stage = schedule_stage(r, period, r->step_of_event[k]);
		break;
	case EVENT_HOST:
		break;
	}
}

/* false: no memory. What is pending costs speed only: it comes later, or never. */
static bool pending_add(struct residency *r, const struct pending_action *action)
{
	if (r->nr_pending == r->max_pending) {
		uint32_t max = MAX(64u, r->max_pending * 2);
		struct pending_action *pending = realloc(r->pending, max * sizeof(*pending));

		if (!pending)
			return false;
		r->pending = pending;
		r->max_pending = max;
	}
	r->pending[r->nr_pending++] = *action;
	return true;
}

/*
 * A plan was made. It speaks of a period that follows one like it: what it holds resident all the
 * time, or never, it does not move. Bring that to where it thinks it is.
 */
static void follow_start(struct weir_space *space)
{
	struct residency *r = space->residency;
	const struct plan *plan = r->plan;
	bool *moved = calloc(r->nr_lives + 1u, sizeof(*moved)); /* by the plan, at some time */

	if (!moved)
		return; /* what is pending costs speed only */
	for (uint32_t a = 0; a < plan->nr_actions; a++)
		moved[plan->action[a].life] = true;
	for (uint32_t life = 0; life < r->nr_lives; life++) {
		uint32_t level, tracked = plan->tracked[life], resident;
		struct pending_action action = {.life = life,
						.from = r->first_stage,
						.due = r->first_stage + plan->nr_stages};

		if (!r->life[life] || tracked == PLAN_UNTRACKED || moved[life])
			continue;
		level = plan_level_max(plan, tracked);
		resident = range_nr_resident(r->life[life]);
		action.move = resident > level ? PLAN_EVICT : PLAN_FETCH;
		action.nr_blocks = level;
		if (resident != level)
			(void)pending_add(r, &action);
	}
	free(moved);
}

/* The plan for the record's period, in place of the one that there may be. */
static int plan_anew(struct weir_space *space)
{
	int err = learn_plan(space);

	if (!err)
		follow_start(space);
	return err;
}

void follow_event(struct weir_space *space, struct range *range)
{
	struct residency *r = space->residency;
	enum record_state state = record_follow(&r->record);
	int err = 0;

	switch (state) {
	case RECORD_RECOGNISED:
		err = plan_anew(space);
		break;
	case RECORD_FOLLOWED:
		if (!r->plan)
			break;
		follow_position(space, range);
		/* At the end of a period, with better times: before anything of the next begins. */
		if (r->record.followed % r->record.period == 0 && schedule_wants_times(space))
			err = plan_anew(space);
		break;
	case RECORD_DIVERGED:
		space->stats.nr_divergences++;
		learn_forget(space);
		break;
	case RECORD_UNKNOWN:
		space->stats.nr_given_up = r->record.nr_given_up;
		learn_forget(space);
		break;
	}
	/* A repetition without brackets is followed without a plan. */
	if (err && err != -ENOENT) {
		log_warning("plan: none: %s", weir_strerror(err));
		record_drop(&r->record);
	}
}

void follow_freed(struct weir_space *space, struct range *range)
{
	struct residency *r = space->residency;

	if (r->plan && range->residency->plan_life >= 0 &&
	    r->life[range->residency->plan_life] == range)
		r->life[range->residency->plan_life] = NULL;
	range->residency->plan_life = -1;
}

void follow_launched(struct weir_space *space, uint64_t event, const char *kernel)
{
	struct record *record = &space->residency->record;

	if (event && event >= record->first_event)
		record_event(record, event)->kernel = kernel;
}

void follow_in_place(struct weir_space *space, uint64_t event, const struct space_use *uses,
		     uint32_t nr_uses)
{
	struct record *record = &space->residency->record;

	if (event && event >= record->first_event && schedule_wants_times(space))
		record_event(record, event)->link_ns = learn_link_ns(space, uses, nr_uses);
}

void follow_done(struct weir_space *space, const struct ended_bracket *bracket)
{
	struct residency *r = space->residency;
	struct backend *b = space->backend;
	uint64_t begin, end, period, k;

	if (!bracket->event || bracket->event < r->record.first_event)
		return;
	begin = b->observe->fence_time_ns(b, bracket->begin);
	end = b->observe->fence_time_ns(b, bracket->end);
	if (begin && end > begin) {
		struct event *event = record_event(&r->record, bracket->event);

		event->ns = (double)(end - begin);
		event->in_place = bracket->in_place;
	}
	if (!r->plan || bracket->event < r->plan_event)
		return;
	k = schedule_position(r, bracket->event, &period);
	r->gpu_stage = MAX(r->gpu_stage, schedule_stage(r, period, r->step_of_event[k] + 1));
}

/* Add the actions whose stage the program has reached. */
static void pending_fill(struct residency *r)
{
	while (r->plan->nr_actions) {
		const struct plan_action *action = &r->plan->action[r->next_action];
		uint64_t base = r->action_period * r->plan->nr_stages;
		uint64_t due =
			base + action->due + (action->due < action->from ? r->plan->nr_stages : 0);

		if (base + action->from > r->host_stage)
			return;
		/* Those of a stage before the plan was made are left out. */
		if (due >= r->first_stage &&
		    !pending_add(r, &(struct pending_action){.move = action->move,
							     .life = action->life,
							     .nr_blocks = action->nr_blocks,
							     .from = base + action->from,
							     .due = due}))
			return;
		if (++r->next_action == r->plan->nr_actions) {
			r->next_action = 0;
			r->action_period++;
		}
	}
}

static bool is_busy(const struct path *path)
{
	return path_nr_moves(path) >= MOVES_MAX;
}

/* Whether enough leaves the device's own memory. */
static bool is_busy_down(const struct weir_space *space)
{
	return space_nr_to_leave(space, PLACE_OWN) >= MOVES_MAX;
}

/* Evict towards the action's level. @return whether it is finished. */
static bool run_evict(struct weir_space *space, struct pending_action *a, struct range *range)
{
	/* The bracket that made the plan is placed without it, and would take back what goes. */
	if (schedule_is_new(space->residency) && range->mark == space->mark)
		return false;
	while (range_nr_resident(range) > a->nr_blocks && a->cursor < range->nr_blocks) {
		uint32_t i = range_nth_block(range, range->nr_blocks - 1 - a->cursor);
		bool freed;
		int err;

		if (block_is_resident(&range->block[i])) {
			bool copies = block_is_dirty(&range->block[i]);

			if (!room_is_idle(space, range, i) || (copies && is_busy_down(space)))
				return false;
			err = room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed);
			if (err == -ENOSPC)
				return true;
			if (err) {
				space->residency->error = err;
				return true;
			}
		}
		a->cursor++;
	}
	return true;
}

/* A chunk for one of so many blocks. The plan has made room, but for what it does not know of. */
static struct chunk *fetch_room(struct weir_space *space, uint32_t wanted)
{
	struct chunk *chunk = room_try(space, PLACE_OWN);

	if (!chunk && space_nr_to_leave(space, PLACE_OWN) < wanted && room_evict_unplanned(space))
		chunk = room_try(space, PLACE_OWN);
	return chunk;
}

/* Fetch towards the action's level. @return whether it is finished. */
static bool run_fetch(struct weir_space *space, struct pending_action *a, struct range *range)
{
	while (range_nr_resident(range) < a->nr_blocks && a->cursor < range->nr_blocks) {
		uint32_t i = range_nth_block(range, a->cursor);

		if (block_is_backed(&range->block[i]) && !block_is_resident(&range->block[i])) {
			place_t from = range->block[i].at.home->place;
			struct chunk *chunk;
			int err;

			if (!room_is_idle(space, range, i) ||
			    is_busy(space_path(space, from, PLACE_OWN)))
				return false; /* it may still be on its way down */
			chunk = fetch_room(space, a->nr_blocks - range_nr_resident(range));
			if (!chunk)
				return false;
			err = migrate_fetch(space, range, i, chunk, WEIR_CAUSE_PREFETCH);
			if (err) {
				space->residency->error = err;
				return true;
			}
		}
		a->cursor++;
	}
	return true;
}

static bool run_action(struct weir_space *space, struct pending_action *a)
{
	struct range *range = space->residency->life[a->life];

	if (!range)
		return true;
	return a->move == PLAN_FETCH ? run_fetch(space, a, range) : run_evict(space, a, range);
}

/* One pass over what is pending, in order; a fetch that waits keeps later ones from its chunk. */
static void pending_run(struct weir_space *space)
{
	struct residency *r = space->residency;
	uint32_t kept = 0;
	bool fetch_waits = false;

	for (uint32_t i = 0; i < r->nr_pending; i++) {
		struct pending_action *a = &r->pending[i];
		bool may = r->gpu_stage >= a->from || r->host_stage >= a->due ||
			   (a->move == PLAN_EVICT && r->host_stage >= a->from &&
			    !space_nr_to_leave(space, PLACE_OWN));

		if (may && !(a->move == PLAN_FETCH && fetch_waits) && run_action(space, a))
			continue;
		fetch_waits |= a->move == PLAN_FETCH;
		r->pending[kept++] = *a;
	}
	r->nr_pending = kept;
}

/* Bring a block of the host's that its next use will find in place to a neighbour that has room.
 * @return whether there was one. */
static bool bring_near(struct weir_space *space, struct range *range)
{
	place_t host = space_host(space);

	for (uint32_t n = schedule_next_level(space, range); n < range->nr_blocks; n++) {
		uint32_t i = range_nth_block(range, n);
		struct chunk *chunk = NULL;

		if (!block_is_settled_at(&range->block[i], host) || !room_is_idle(space, range, i))
			continue;
		for (uint32_t place = 1; place < host && !chunk; place++)
			if (!is_busy(space_path(space, host, (place_t)place)))
				chunk = pmm_chunk_get(&space->pmm[place]);
		if (chunk)
			space_note_error(
				space, migrate_fetch(space, range, i, chunk, WEIR_CAUSE_PREFETCH));
		return chunk != NULL;
	}
	return false;
}

/* What is on the host and should be used near comes there, over the neighbours' own links, while
 * there is room: one life after the other. */
static void near_advance(struct weir_space *space)
{
	struct residency *r = space->residency;

	if (!r->nr_lives)
		return;
	for (uint32_t tries = 0; tries < NEAR_TRIES; tries++) {
		struct range *range = r->life[r->next_near];

		if (!range || range->nr_home[space_host(space)] <= schedule_far(space, range) ||
		    !bring_near(space, range))
			r->next_near = (r->next_near + 1) % r->nr_lives;
	}
}

void follow_advance(struct weir_space *space)
{
	struct residency *r = space->residency;
	int err;

	if (!r->plan)
		return;
	if (space_has_neighbours(space))
		near_advance(space);
	pending_fill(r);
	if (!r->nr_pending && !space_has_neighbours(space))
		return;
	pending_run(space);
	err = migrate_flush(space);
	if (err)
		r->error = err;
}

int follow_due(struct weir_space *space, struct stream_slot *slot, bracket_seq_t last,
	       struct settle *settle)
{
	struct residency *r = space->residency;
	int err;

	while (r->plan) {
		uint32_t i = 0;
		int placed;

		space_progress(space);
		placed = place_ahead(space, slot);
		if (placed < 0)
			return placed;
		if (placed == PLACE_MORE)
			continue;
		/* Evictions are waited for when somebody needs the room. */
		while (i < r->nr_pending &&
		       (r->pending[i].due > r->host_stage ||
			(placed == PLACE_DONE && r->pending[i].move == PLAN_EVICT)))
			i++;
		if (i == r->nr_pending)
			break;
		if (settle_on_others(space, PLACE_OWN, 1, settle))
			return SETTLE_WAIT;
		/* Short waits: chunks that come free meanwhile are mapped at once. */
		if ((space_is_copying(space) || space->done_seq < last) &&
		    settle_on_any(space, settle))
			return SETTLE_WAIT;
		/* It cannot be done: what it was for happens in place. */
		for (r->nr_pending--; i < r->nr_pending; i++)
			r->pending[i] = r->pending[i + 1];
	}
	err = r->error;
	r->error = 0;
	return err;
}
