/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following a plan: keeping count of where the program and the device are in it, and carrying out
 * its actions. An action begins when the device enters its stage, and at the latest when the
 * program begins the bracket that it is due for, which then waits for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/*
 * Moves under way in one direction at a time: enough to keep the link busy until the next of them
 * completes, few enough that the mapping calls of a long action do not hold up the program's own.
 */
#define MOVES_MAX (3u * SPACE_BATCH_MAX)
/* The same of what comes ahead in a stage in which parts come and go: these have little room, so
 * that the next launches wait for what is behind the moves. */
#define MOVES_BESIDE_STREAMS_MAX 8u

/* Periods that may be planned without haste before one of them is followed to its end. */
#define UNPROVEN_MAX 3u

/* The newest event agrees with the plan. */
static void follow_position(struct planner *p, struct range *range)
{
	const struct event *event = record_event(&p->record, p->record.next_event - 1);
	uint64_t period, k = schedule_position(p, event->place, &period);

	switch (event->kind) {
	case EVENT_ALLOC:
		if (range && p->life_of_event[k] != UINT32_MAX) {
			range->residency->plan_life = (int32_t)p->life_of_event[k];
			p->life[range->residency->plan_life] = range;
		}
		break;
	case EVENT_FREE: /* follow_freed() comes next */
		break;
	case EVENT_BEGIN:
		p->host_stage = schedule_stage(p, period, p->step_of_event[k]);
		p->next_stage = schedule_stage(p, period, p->step_of_event[k] + 1);
		break;
	case EVENT_HOST:
		break;
	}
}

/*
 * A plan was made. It speaks of a period that follows one like it: what it holds resident all the
 * time, or never, it does not move. Bring that to where it thinks it is.
 */
static void follow_start(struct planner *p)
{
	const struct plan *plan = p->plan;
	bool *moved = calloc(p->nr_lives + 1u, sizeof(*moved)); /* by the plan, at some time */

	if (!moved)
		return; /* what is pending costs speed only */
	for (uint32_t a = 0; a < plan->nr_actions; a++)
		moved[plan->action[a].life] = true;
	for (uint32_t life = 0; life < p->nr_lives; life++) {
		uint32_t level, tracked = plan->tracked[life], resident;
		struct pending_action action = {.life = life,
						.from = p->first_stage,
						.due = p->first_stage + plan->nr_stages};

		if (!p->life[life] || tracked == PLAN_UNTRACKED || moved[life])
			continue;
		level = plan_level_max(plan, tracked);
		resident = range_nr_resident(p->life[life]);
		action.move = resident > level ? PLAN_EVICT : PLAN_FETCH;
		action.nr_blocks = level;
		if (resident != level)
			(void)pending_add(p, &action);
	}
	free(moved);
}

/* A plan for the period, in place of the one that there may be: now, or when it is made. */
static int plan_anew(struct weir_space *space, struct planner *p, uint32_t haste)
{
	int err = learn_plan(space, p, haste);

	if (!err && !p->job)
		follow_start(p);
	return err;
}

/* Whether a whole period was followed since an event differed: what can be learnt is one's. */
static bool is_alike(const struct planner *p)
{
	return p->record.followed >= p->record.period;
}

/* Whether another plan is to be made, with better times. */
static bool wants_another(const struct planner *p)
{
	return schedule_wants_plans(p) && !p->job && is_alike(p) &&
	       p->record.next_event >= p->plan_event + schedule_periods(p) * p->record.period;
}

/*
 * A repetition was recognised. A few events are enough for that, and in a program of several
 * threads they may agree by chance; the best plan of thousands takes longer than they do. So the
 * more was planned in vain, the less each next plan may cost, half of the one before. A
 * repetition's second plan, of a period that was followed, is made without haste.
 */
static int plan_recognised(struct weir_space *space, struct planner *p)
{
	const uint64_t nr = p->nr_unproven / p->record.period;
	const uint32_t nr_made = p->nr_plans_made;

	/* Of guesses one is recognised while another is followed, whose plans are of other events,
	 * and more or fewer of them. */
	learn_forget(space, p);
	p->nr_plans_made = nr_made;
	if (!space->residency->plans)
		return 0;
	p->nr_unproven += p->record.period;
	return plan_anew(space, p,
			 nr < UNPROVEN_MAX ? 0 : (uint32_t)MIN(nr, 64u) - UNPROVEN_MAX + 1);
}

/* The newest event agrees with the repetition that is followed. */
static int follow_agreed(struct weir_space *space, struct planner *p, struct range *range)
{
	const struct event *newest = record_event(&p->record, p->record.next_event - 1);
	int err = aside_follow(space, p);

	if (p->record.followed % p->record.period == 0)
		p->nr_unproven -= MIN(p->nr_unproven, p->record.period);
	if (err)
		return err;
	if (!p->plan)
		return p->bare && is_alike(p) && tried_bare(space, p) ? plan_anew(space, p, 0) : 0;
	follow_position(p, range);
	if (newest->kind == EVENT_BEGIN)
		explain_begun(space, p, newest->place);
	if (!schedule_wants_plans(p))
		tried_settle(space, p);
	return wants_another(p) ? plan_anew(space, p, 0) : 0;
}

void follow_event(struct weir_space *space, struct planner *p, struct range *range)
{
	enum record_state state = record_follow(&p->record);
	int err = 0;

	switch (state) {
	case RECORD_RECOGNISED:
		err = plan_recognised(space, p);
		break;
	case RECORD_FOLLOWED:
		err = follow_agreed(space, p, range);
		break;
	case RECORD_SUSPENDED:
		resume_suspend(space, p);
		break;
	case RECORD_RESUMED:
		resume_plan(space, p);
		break;
	case RECORD_DIVERGED:
		space->stats.nr_divergences++;
		learn_forget(space, p);
		break;
	case RECORD_UNKNOWN:
		space->stats.nr_given_up = p->record.nr_given_up;
		learn_forget(space, p);
		break;
	}
	/* A repetition without brackets is followed without a plan. */
	if (err && err != -ENOENT) {
		log_warning("plan: none: %s", weir_strerror(err));
		learn_forget(space, p);
		record_drop(&p->record);
	}
}

void follow_life(struct weir_space *space, enum event_kind kind, struct range *range)
{
	struct planner *p = range->residency->planner;
	uint64_t number;

	if (!space->residency->recording || !p)
		return;
	number = record_add(&p->record, kind, 0, range->life, range->nr_blocks);
	if (!number) {
		learn_forget(space, p);
		return;
	}
	if (kind == EVENT_ALLOC)
		range->life = number;
	follow_event(space, p, range);
}

void follow_freed(struct range *range)
{
	struct planner *p = range->residency->planner;

	/* A suspended plan has lives, too. */
	if (p && p->life && range->residency->plan_life >= 0 &&
	    p->life[range->residency->plan_life] == range)
		p->life[range->residency->plan_life] = NULL;
	range->residency->plan_life = -1;
}

void follow_launched(struct planner *p, uint64_t event, const char *kernel)
{
	struct record *record = &p->record;

	if (event && event >= record->first_event)
		record_event(record, event)->kernel = kernel;
}

/* Whether copies cross links of a device's own memory. */
static bool is_copying_own(const struct weir_space *space, place_t own)
{
	for (uint32_t p = 0; p < space->nr_paths; p++)
		if (space->path[p].moving.nr &&
		    (space->path[p].from == own || space->path[p].to == own))
			return true;
	return false;
}

void follow_in_place(const struct weir_space *space, struct planner *p, struct stream_slot *slot)
{
	struct record *record = &p->record;
	const uint64_t event = slot->event;

	if (event && event >= record->first_event && schedule_wants_times(p)) {
		struct event *e = record_event(record, event);

		e->link = learn_link_times(space, p->own, slot->uses.use, slot->uses.nr_named);
		e->beside = is_copying_own(space, p->own);
	}
}

/* What a bracket of guessed uses took says how much of them it touched. */
static void note_guess(struct weir_space *space, const struct planner *p,
		       const struct ended_bracket *bracket, double ns)
{
	double cost_ns[GUESS_USES_MAX];
	struct guess_seen seen = {.key = bracket->guess,
				  .nr_uses = MIN(bracket->uses.nr_named, GUESS_USES_MAX),
				  .cost_ns = cost_ns,
				  .ns = ns,
				  .in_place = bracket->in_place};

	if (!bracket->guess || !space->residency->guesses)
		return;
	for (uint32_t u = 0; u < seen.nr_uses; u++)
		cost_ns[u] = bracket->in_place ? (double)bracket->uses.use[u].link_ns
					       : learn_hbm_ns(space, p->own, &bracket->uses.use[u]);
	guess_note(space->residency->guesses, &seen);
}

void follow_done(struct weir_space *space, const struct ended_bracket *bracket)
{
	struct planner *p = slot_planner(space, bracket->slot);
	struct backend *b = space->backend;
	bool recorded = bracket->event && bracket->event >= p->record.first_event;
	uint64_t begin, end, period, place, k;

	if (!recorded && !is_traced(space))
		return;
	begin = bracket->begin ? b->observe->fence_time_ns(b, bracket->begin) : 0;
	end = begin ? b->observe->fence_time_ns(b, bracket->end) : 0;
	if (begin && end > begin)
		tracing_time(space, bracket, space->done_seq, begin, end);
	if (!recorded)
		return;
	if (begin && end > begin && !bracket->sampled) {
		struct event *event = record_event(&p->record, bracket->event);

		event->ns = (double)(end - begin);
		event->in_place = bracket->in_place;
		event->beside |= bracket->in_place && is_copying_own(space, p->own);
		note_guess(space, p, bracket, event->ns);
		tried_note(p, bracket->event, (double)end);
	}
	if (!p->plan || bracket->event < p->plan_event)
		return;
	place = record_event(&p->record, bracket->event)->place;
	if (!place)
		return; /* while the plan was suspended */
	if (begin && end > begin && !bracket->sampled)
		explain_done(space, p, bracket->event, (double)begin, (double)end);
	else
		p->explained.end_ns = 0; /* whom the next one waits for has no time */
	k = schedule_position(p, place, &period);
	p->gpu_stage = MAX(p->gpu_stage, schedule_stage(p, period, p->step_of_event[k] + 1));
}

/* Add the actions whose stage the program has reached. */
static void pending_fill(struct planner *p)
{
	while (p->plan->nr_actions) {
		const struct plan_action *action = &p->plan->action[p->next_action];
		uint64_t base = p->action_period * p->plan->nr_stages;
		uint64_t due =
			base + action->due + (action->due < action->from ? p->plan->nr_stages : 0);

		if (base + action->from > p->host_stage)
			return;
		/* Those of a stage before the plan was made are left out. */
		if (due >= p->first_stage &&
		    !pending_add(p, &(struct pending_action){.move = action->move,
							     .life = action->life,
							     .nr_blocks = action->nr_blocks,
							     .from = base + action->from,
							     .due = due}))
			return;
		if (++p->next_action == p->plan->nr_actions) {
			p->next_action = 0;
			p->action_period++;
		}
	}
}

/* Whether enough comes over a path. */
static bool is_busy(const struct planner *p, const struct pending_action *a,
		    const struct path *path)
{
	const bool streams = p->plan->streams[schedule_stage_now(p)];

	return path_nr_moves(path) >=
	       (streams && a->due > p->host_stage ? MOVES_BESIDE_STREAMS_MAX : MOVES_MAX);
}

/* Whether enough leaves a place. */
static bool is_busy_down(const struct weir_space *space, place_t from)
{
	return space_nr_to_leave(space, from) >= MOVES_MAX;
}

/*
 * Whether a move to or from the host has to wait: the program is ahead and wants it for a bracket
 * that it queues now, but the plan has it begin later, and the device is in a stage whose kernels
 * keep the host's link busy. Both would share that.
 */
static bool is_early(const struct planner *p, const struct pending_action *a)
{
	return p->gpu_stage < a->from && a->from < a->due &&
	       p->plan->link_busy[p->gpu_stage % p->plan->nr_stages];
}

/* Evict towards the action's level. Where all blocks go, those go first that launches under way do
 * not use: a loop's parts are behind it from the first one on. It is over when the program is where
 * some are to be resident again. @return whether it is finished. */
static bool run_evict(struct weir_space *space, struct planner *p, struct pending_action *a,
		      struct range *range)
{
	bool waits = false;
	uint32_t n;

	/* The bracket that made the plan is placed without it, and would take back what goes. */
	if (schedule_is_new(p) && range_is_placing(space, range))
		return false;
	if (!a->nr_blocks && plan_level(p->plan, schedule_stage_now(p), p->plan->tracked[a->life]))
		return true;
	for (n = a->cursor; range_nr_resident(range) > a->nr_blocks && n < range->nr_blocks; n++) {
		uint32_t i = range_nth_block(range, range->nr_blocks - 1 - n);
		bool freed;
		int err;

		if (block_is_at(&range->block[i], p->own)) {
			bool copies = block_is_dirty(&range->block[i]);

			if (!room_is_idle(space, range, i) ||
			    (copies && (is_busy_down(space, p->own) || is_early(p, a)))) {
				if (a->nr_blocks)
					return false;
				waits = true;
				continue;
			}
			err = room_evict(space, range, i, WEIR_CAUSE_EVICTION, &freed);
			if (err == -ENOSPC)
				return true;
			if (err) {
				p->error = err;
				return true;
			}
		}
		a->cursor += !waits;
	}
	return !waits;
}

/* Fetch towards the action's level. @return whether it is finished. */
static bool run_fetch(struct weir_space *space, struct planner *p, struct pending_action *a,
		      struct range *range)
{
	while (range_nr_resident(range) < a->nr_blocks && a->cursor < range->nr_blocks) {
		uint32_t i = range_nth_block(range, a->cursor);

		if (block_is_backed(&range->block[i]) && !block_is_at(&range->block[i], p->own)) {
			place_t from = range->block[i].at.home->place;
			struct chunk *chunk;
			int err;

			if (!room_is_idle(space, range, i) ||
			    (from == space_host(space) && is_early(p, a)) ||
			    is_busy(p, a, space_path(space, from, p->own)))
				return false; /* it may still be on its way down */
			if (a->due > p->host_stage && !schedule_has_room_ahead(space, p))
				return false;
			chunk = room_planned(space, p->own,
					     a->nr_blocks - range_nr_resident(range));
			if (!chunk)
				return false;
			err = migrate_fetch(space, range, i, chunk, WEIR_CAUSE_PREFETCH);
			if (err) {
				p->error = err;
				return true;
			}
		}
		a->cursor++;
	}
	return true;
}

static bool run_action(struct weir_space *space, struct planner *p, struct pending_action *a)
{
	struct range *range = p->life[a->life];

	if (!range)
		return true;
	return a->move == PLAN_FETCH ? run_fetch(space, p, a, range)
				     : run_evict(space, p, a, range);
}

/* One pass over what is pending, in order; a fetch that waits keeps later ones from its chunk, but
 * for those that the program waits for. */
static void pending_run(struct weir_space *space, struct planner *p)
{
	uint32_t kept = 0;
	bool fetch_waits = false;

	for (uint32_t i = 0; i < p->nr_pending; i++) {
		struct pending_action *a = &p->pending[i];
		bool may = p->gpu_stage >= a->from || p->host_stage >= a->due ||
			   (a->move == PLAN_EVICT && p->host_stage >= a->from &&
			    !space_nr_to_leave(space, p->own));

		if (a->move == PLAN_FETCH && a->due > p->host_stage)
			may &= !fetch_waits;
		if (may && run_action(space, p, a))
			continue;
		fetch_waits |= a->move == PLAN_FETCH;
		p->pending[kept++] = *a;
	}
	p->nr_pending = kept;
}

static void planner_advance(struct weir_space *space, struct planner *p)
{
	int err;

	if (!p->plan)
		return;
	if (space_has_neighbours(space))
		near_advance(space);
	pending_fill(p);
	if (!p->nr_pending && !p->nr_flowing && !space_has_neighbours(space))
		return;
	pending_run(space, p);
	err = window_advance(space, p);
	if (!err)
		err = migrate_flush(space);
	if (err)
		p->error = err;
}

void follow_advance(struct weir_space *space)
{
	for (uint32_t d = 0; d < space->nr_devices; d++)
		planner_advance(space, &space->residency->planner[d]);
}

int follow_due(struct weir_space *space, struct stream_slot *slot, bracket_seq_t last,
	       struct settle *settle)
{
	struct planner *p = slot_planner(space, slot);
	int err;

	while (p->plan) {
		uint32_t i = 0;
		int placed;

		space_progress(space);
		placed = place_ahead(space, slot);
		if (placed < 0)
			return placed;
		if (placed == PLACE_MORE)
			continue;
		/* Evictions are waited for when somebody needs the room. */
		while (i < p->nr_pending &&
		       (p->pending[i].due > p->host_stage ||
			(placed == PLACE_DONE && p->pending[i].move == PLAN_EVICT)))
			i++;
		if (i == p->nr_pending)
			break;
		if (!space->impatient && settle_on_others(space, p->own, 1, settle))
			return SETTLE_WAIT;
		/* Short waits: chunks that come free meanwhile are mapped at once. */
		if (!space->impatient && (space_is_copying(space) || space->done_seq < last) &&
		    settle_on_any(space, settle))
			return SETTLE_WAIT;
		/* It cannot be done: what it was for happens in place. */
		explain_missed(p, &p->pending[i]);
		for (p->nr_pending--; i < p->nr_pending; i++)
			p->pending[i] = p->pending[i + 1];
	}
	err = p->error;
	p->error = 0;
	return err;
}
