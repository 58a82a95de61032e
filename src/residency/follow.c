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

/* Plans made for one repetition: the first from times measured without a plan; the others know how
 * long kernels took under the ones before. */
#define PLANS_MAX 2

/* Event of the period, and which period. */
static uint64_t plan_position(const struct residency *r, uint64_t event, uint64_t *period)
{
	*period = (event - r->plan_event) / r->record.period;
	return (event - r->plan_event) % r->record.period;
}

static uint64_t stage_of(const struct residency *r, uint64_t period, uint32_t step)
{
	if (step == r->plan->nr_steps) {
		step = 0;
		period++;
	}
	if (step >= r->plan->first_step)
		period++;
	return period * r->plan->nr_stages + r->plan->stage_of_step[step];
}

/* Whether the newest event made the plan, which begins with the next. */
static bool is_new(const struct residency *r)
{
	return r->plan_event == r->record.next_event;
}

uint64_t follow_first_stage(const struct residency *r)
{
	return stage_of(r, 0, 0);
}

uint32_t follow_expected_level(const struct weir_space *space, uint32_t nr_blocks)
{
	const struct residency *r = space->residency;
	const struct event *expected;
	uint64_t period, k;
	uint32_t life, stage;

	if (!r->plan)
		return nr_blocks;
	expected = record_event(&r->record, r->record.next_event - r->record.period);
	if (expected->kind != EVENT_ALLOC || expected->nr_blocks != nr_blocks)
		return nr_blocks;
	k = plan_position(r, r->record.next_event, &period);
	life = r->life_of_event[k];
	if (life == UINT32_MAX || r->plan->tracked[life] == PLAN_UNTRACKED)
		return nr_blocks;
	stage = r->plan->stage_of_step[r->step_of_event[k] % r->plan->nr_steps];
	return plan_level(r->plan, stage, r->plan->tracked[life]);
}

/* The newest event agrees with the plan. */
static void follow_position(struct weir_space *space, struct range *range)
{
	struct residency *r = space->residency;
	uint64_t number = r->record.next_event - 1, period, k = plan_position(r, number, &period);
	const struct event *event = record_event(&r->record, number);

	switch (event->kind) {
	case EVENT_ALLOC:
		if (range && r->life_of_event[k] != UINT32_MAX) {
			range->plan_life = (int32_t)r->life_of_event[k];
			r->life[range->plan_life] = range;
		}
		break;
	case EVENT_FREE: /* follow_freed() comes next */
		break;
	case EVENT_BEGIN:
		r->host_stage = stage_of(r, period, r->step_of_event[k]);
		break;
	case EVENT_HOST:
		break;
	}
}

void follow_event(struct weir_space *space, struct range *range)
{
	struct residency *r = space->residency;
	enum record_state state = record_follow(&r->record);
	int err = 0;

	switch (state) {
	case RECORD_RECOGNISED:
		err = learn_plan(space);
		break;
	case RECORD_FOLLOWED:
		if (!r->plan)
			break;
		follow_position(space, range);
		/* At the end of a period, with better times: before anything of the next begins. */
		if (r->record.followed % r->record.period == 0 && r->nr_plans_made < PLANS_MAX)
			err = learn_plan(space);
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

	if (r->plan && range->plan_life >= 0 && r->life[range->plan_life] == range)
		r->life[range->plan_life] = NULL;
	range->plan_life = -1;
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

	if (event && event >= record->first_event && follow_wants_times(space))
		record_event(record, event)->link_ns = learn_link_ns(space, uses, nr_uses);
}

void follow_done(struct weir_space *space, const struct ended_bracket *bracket)
{
	struct residency *r = space->residency;
	struct backend *b = space->backend;
	uint64_t begin, end, period, k;

	if (!bracket->event || bracket->event < r->record.first_event)
		return;
	begin = b->ops->fence_time_ns(b, bracket->begin);
	end = b->ops->fence_time_ns(b, bracket->end);
	if (begin && end > begin) {
		struct event *event = record_event(&r->record, bracket->event);

		event->ns = (double)(end - begin);
		event->in_place = bracket->in_place;
	}
	if (!r->plan || bracket->event < r->plan_event)
		return;
	k = plan_position(r, bracket->event, &period);
	r->gpu_stage = MAX(r->gpu_stage, stage_of(r, period, r->step_of_event[k] + 1));
}

bool follow_wants_times(const struct weir_space *space)
{
	const struct residency *r = space->residency;

	return !r->plan || r->nr_plans_made < PLANS_MAX;
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

void follow_start(struct weir_space *space, uint32_t nr_lives)
{
	struct residency *r = space->residency;
	const struct plan *plan = r->plan;
	bool *moved = calloc(nr_lives + 1u, sizeof(*moved)); /* by the plan, at some time */

	if (!moved)
		return; /* what is pending costs speed only */
	for (uint32_t a = 0; a < plan->nr_actions; a++)
		moved[plan->action[a].life] = true;
	for (uint32_t life = 0; life < nr_lives; life++) {
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

static bool is_busy(const struct weir_space *space, enum tier towards)
{
	return space->moving[towards].nr + space->batch[towards].nr >= MOVES_MAX;
}

/* Evict towards the action's level. @return whether it is finished. */
static bool run_evict(struct weir_space *space, struct pending_action *a, struct range *range)
{
	/* The bracket that made the plan is placed without it, and would take back what goes. */
	if (is_new(space->residency) && range->mark == space->mark)
		return false;
	while (range_nr_resident(range) > a->nr_blocks && a->cursor < range->nr_blocks) {
		uint32_t i = range_nth_block(range, range->nr_blocks - 1 - a->cursor);
		bool freed;
		int err;

		if (block_is_resident(&range->block[i])) {
			bool copies = !range->block[i].dead && !range->block[i].clean;

			if (!room_is_idle(space, range, i) || (copies && is_busy(space, TIER_HOST)))
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
	struct chunk *chunk = room_hbm_try(space);

	if (!chunk && space->moving[TIER_HOST].nr + space->batch[TIER_HOST].nr < wanted &&
	    room_evict_unplanned(space))
		chunk = room_hbm_try(space);
	return chunk;
}

/* Fetch towards the action's level. @return whether it is finished. */
static bool run_fetch(struct weir_space *space, struct pending_action *a, struct range *range)
{
	while (range_nr_resident(range) < a->nr_blocks && a->cursor < range->nr_blocks) {
		uint32_t i = range_nth_block(range, a->cursor);

		if (range->block[i].state == BLOCK_TO_HOST)
			return false;
		if (range->block[i].state == BLOCK_HOST) {
			struct chunk *chunk;
			int err;

			if (!room_is_idle(space, range, i) || is_busy(space, TIER_HBM))
				return false;
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
			    !space->moving[TIER_HOST].nr && !space->batch[TIER_HOST].nr);

		if (may && !(a->move == PLAN_FETCH && fetch_waits) && run_action(space, a))
			continue;
		fetch_waits |= a->move == PLAN_FETCH;
		r->pending[kept++] = *a;
	}
	r->nr_pending = kept;
}

void follow_advance(struct weir_space *space)
{
	struct residency *r = space->residency;
	int err;

	if (!r->plan)
		return;
	pending_fill(r);
	if (!r->nr_pending)
		return;
	pending_run(space);
	err = migrate_flush(space);
	if (err)
		r->error = err;
}

bool follow_evicts(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;

	for (uint32_t i = 0; i < r->nr_pending; i++) {
		const struct pending_action *a = &r->pending[i];

		if (a->move == PLAN_EVICT && r->life[a->life] == range &&
		    range_nr_resident(range) > a->nr_blocks)
			return true;
	}
	return false;
}

int follow_due(struct weir_space *space, struct stream_slot *slot)
{
	struct residency *r = space->residency;
	bracket_seq_t last = space->last_seq; /* later ones are not waited for: no end to them */
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
		/* Short waits: chunks that come free meanwhile are mapped at once. */
		if ((space->moving[TIER_HOST].nr || space->moving[TIER_HBM].nr ||
		     space->done_seq < last) &&
		    space_wait_any(space))
			continue;
		/* It cannot be done: what it was for happens in place. */
		for (r->nr_pending--; i < r->nr_pending; i++)
			r->pending[i] = r->pending[i + 1];
	}
	err = r->error;
	r->error = 0;
	return err;
}

/* The stage of the newest bracket, in its period. */
static uint32_t stage_now(const struct residency *r)
{
	return (uint32_t)(r->host_stage % r->plan->nr_stages);
}

/* What the plan tracks a range as. */
static uint32_t tracked_as(const struct residency *r, const struct range *range)
{
	return range->plan_life < 0 ? PLAN_UNTRACKED : r->plan->tracked[range->plan_life];
}

uint32_t follow_level(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t t;

	/* A plan that the very bracket being placed brought about does not speak of it. */
	if (!r->plan || is_new(r))
		return range->nr_blocks;
	t = tracked_as(r, range);
	return t == PLAN_UNTRACKED ? range->nr_blocks : plan_level(r->plan, stage_now(r), t);
}

uint32_t follow_next_level(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t distance = follow_next_use(space, range);

	if (distance == UINT32_MAX || !distance)
		return range->nr_blocks;
	return plan_level(r->plan, (stage_now(r) + distance) % r->plan->nr_stages,
			  tracked_as(r, range));
}

uint32_t follow_next_use(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t t;

	if (!r->plan || range->plan_life < 0)
		return UINT32_MAX;
	t = tracked_as(r, range);
	return t == PLAN_UNTRACKED ? 0 : plan_next_use(r->plan, stage_now(r), t);
}
