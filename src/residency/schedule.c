/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan as a schedule: where in it the program is, and what it says of a range there. Changes
 * nothing: what carries it out is in follow.c.
 */
#include "src/residency/residency.h"

/* Plans made for one repetition: the first from times measured without a plan; the others know how
 * long kernels took under the ones before. */
#define PLANS_MAX 2
/* The same where uses are guesses, since each plan shows more of what they are; and where a period
 * takes so many times as long as the last plan's model says, since that lacked something. */
#define PLANS_MORE_MAX 4
#define MISSED 1.05
/* Periods under a plan before the next one is made, since in the first one data move to where the
 * plan wants them. Of guesses one is enough: the next plan is better by far for what it shows. */
#define PERIODS_MIN 2

/* Blocks are at a neighbour in time if their way from the host may take so many times as long. */
#define LIFT_TIMES 2

uint64_t schedule_position(const struct planner *p, uint64_t place, uint64_t *period)
{
	*period = (place - p->plan_place) / p->record.period;
	return (place - p->plan_place) % p->record.period;
}

uint64_t schedule_stage(const struct planner *p, uint64_t period, uint32_t step)
{
	if (step == p->plan->nr_steps) {
		step = 0;
		period++;
	}
	if (step >= p->plan->first_step)
		period++;
	return period * p->plan->nr_stages + p->plan->stage_of_step[step];
}

bool schedule_is_new(const struct planner *p)
{
	return p->plan_event == p->record.next_event;
}

uint64_t schedule_first_stage(const struct planner *p)
{
	return schedule_stage(p, 0, 0);
}

struct range_wanted schedule_expected(const struct weir_space *space, const struct planner *p,
				      uint32_t nr_blocks)
{
	struct range_wanted wanted = {.resident = nr_blocks};
	const struct event *expected;
	uint64_t period, k;
	uint32_t life, tracked, below;

	if (!p->plan)
		return wanted;
	expected = record_event(&p->record, record_expected(&p->record));
	if (expected->kind != EVENT_ALLOC || expected->nr_blocks != nr_blocks)
		return wanted;
	k = schedule_position(p, p->record.next_place, &period);
	life = p->life_of_event[k];
	tracked = life == UINT32_MAX ? PLAN_UNTRACKED : p->plan->tracked[life];
	if (tracked == PLAN_UNTRACKED)
		return wanted;
	wanted.resident = MIN(
		nr_blocks,
		plan_level(p->plan, p->plan->stage_of_step[p->step_of_event[k] % p->plan->nr_steps],
			   tracked));
	/* Plans of guesses come and go at first; then idle ranges' blocks lie on the host. */
	wanted.planned = p->plan->confines && !space_has_neighbours(space) &&
			 (p->settled || !p->record.guessed);
	below = nr_blocks - wanted.resident;
	wanted.far = space_has_neighbours(space) ? MIN(p->plan->far[tracked], below) : below;
	return wanted;
}

uint32_t schedule_periods(const struct planner *p)
{
	return p->record.guessed ? 1 : PERIODS_MIN;
}

/* Whether the last plan's model lacks something. Not asked again after a trial without a plan. */
static bool has_missed(const struct planner *p)
{
	return p->plan && !p->settled && !p->bare_place && p->timed.nr >= schedule_periods(p) &&
	       p->timed.ns > MISSED * p->plan->modelled_ns;
}

bool schedule_wants_plans(const struct planner *p)
{
	return p->nr_plans_made < (p->record.guessed || has_missed(p) ? PLANS_MORE_MAX : PLANS_MAX);
}

bool schedule_wants_times(const struct planner *p)
{
	if (p->bare && p->settled) /* the last periods before it is planned anew */
		return p->record.next_place + 2 * p->record.period >= p->bare_place;
	return !p->plan || !p->settled || explain_wants_times(p->plan);
}

bool schedule_evicts(const struct range *range)
{
	const struct planner *p = range->residency->planner;

	for (uint32_t i = 0; p && i < p->nr_pending; i++) {
		const struct pending_action *a = &p->pending[i];

		if (a->move == PLAN_EVICT && p->life[a->life] == range &&
		    range_nr_resident(range) > a->nr_blocks)
			return true;
	}
	return false;
}

uint32_t schedule_stage_now(const struct planner *p)
{
	return (uint32_t)(p->host_stage % p->plan->nr_stages);
}

/* What the plan tracks a range as. */
static uint32_t tracked_as(const struct planner *p, const struct range *range)
{
	return range->residency->plan_life < 0 ? PLAN_UNTRACKED
					       : p->plan->tracked[range->residency->plan_life];
}

uint32_t schedule_level(const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t;

	/* A plan that the very bracket being placed brought about does not speak of it. */
	if (!range_follows_plan(range) || schedule_is_new(p))
		return DECIDE_UNKNOWN;
	t = tracked_as(p, range);
	/* A loop's last temporaries may be smaller than those that they are tracked as. */
	return t == PLAN_UNTRACKED
		       ? DECIDE_UNKNOWN
		       : MIN(range->nr_blocks, plan_level(p->plan, schedule_stage_now(p), t));
}

enum plan_flow schedule_flow(const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t;

	if (!range_follows_plan(range) || schedule_is_new(p))
		return FLOW_NONE;
	t = tracked_as(p, range);
	return t == PLAN_UNTRACKED ? FLOW_NONE : plan_flow(p->plan, schedule_stage_now(p), t);
}

uint32_t schedule_next_level(const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t = range_follows_plan(range) ? tracked_as(p, range) : PLAN_UNTRACKED, distance;

	if (t == PLAN_UNTRACKED)
		return range->nr_blocks;
	distance = plan_next_use(p->plan, schedule_stage_now(p), t);
	if (distance == UINT32_MAX)
		return range->nr_blocks;
	return plan_level(p->plan, (schedule_stage_now(p) + distance) % p->plan->nr_stages, t);
}

uint32_t schedule_far(const struct weir_space *space, const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t;

	if (!range_follows_plan(range) || !space_has_neighbours(space))
		return DECIDE_UNKNOWN;
	t = tracked_as(p, range);
	return t == PLAN_UNTRACKED ? DECIDE_UNKNOWN : p->plan->far[t];
}

bool schedule_is_kept(const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t = range_follows_plan(range) ? tracked_as(p, range) : PLAN_UNTRACKED;

	return t != PLAN_UNTRACKED && p->plan->kept[t];
}

bool schedule_needs_no_copy(const struct range *range)
{
	const struct planner *p = range->residency->planner;

	return schedule_is_kept(range) &&
	       plan_between_ns(p->plan, schedule_stage_now(p), schedule_next_use(range)) >
		       LIFT_TIMES * p->plan->lift_ns * range->nr_blocks;
}

bool schedule_is_spread(const struct weir_space *space)
{
	return space->residency->near_bytes_per_s > 0;
}

place_t schedule_near(const struct weir_space *space, const struct range *range)
{
	const place_t first = (place_t)space->nr_devices, host = space_host(space);
	const bool spread = schedule_is_spread(space);
	place_t best = 0;
	uint64_t left = 0;

	if (host - first < 2 || !range_follows_plan(range))
		return 0;
	for (place_t place = first; place < host; place++) {
		uint64_t available = pmm_nr_available(&space->pmm[place]);
		uint32_t nr = range->nr_home[place];

		if (!available)
			continue;
		if (!best || (spread ? nr < range->nr_home[best] : nr > range->nr_home[best]) ||
		    (nr == range->nr_home[best] && available > left)) {
			best = place;
			left = available;
		}
	}
	return best;
}

/* Whether the stage is a loop that goes on, and uses it. */
static bool is_used_on(const struct planner *p, uint32_t t)
{
	return p->next_stage == p->host_stage && plan_uses(p->plan, schedule_stage_now(p), t);
}

bool schedule_is_used_soon(const struct range *range, uint32_t nr_stages)
{
	const struct planner *p = range->residency->planner;
	uint32_t t = range_follows_plan(range) ? tracked_as(p, range) : PLAN_UNTRACKED;

	if (t == PLAN_UNTRACKED)
		return false;
	/* In a period of few stages all is soon. */
	return is_used_on(p, t) || plan_next_use(p->plan, schedule_stage_now(p), t) <
					   MIN(nr_stages, p->plan->nr_stages / 4);
}

uint32_t schedule_next_use(const struct range *range)
{
	const struct planner *p = range->residency->planner;
	uint32_t t;

	if (!range_follows_plan(range) || range->residency->plan_life < 0)
		return UINT32_MAX;
	t = tracked_as(p, range);
	if (t == PLAN_UNTRACKED || is_used_on(p, t))
		return 0;
	return plan_next_use(p->plan, schedule_stage_now(p), t);
}

/* Chunks of the device's own memory that what the stage uses is still going to want, but for what
 * only goes: its levels, less what is there. */
static uint64_t nr_reserved(const struct weir_space *space, const struct planner *p)
{
	uint64_t there = 0, levels = p->plan->levels[schedule_stage_now(p)];

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		const struct range *range = space->range[r];
		uint32_t level;

		if (range->residency->planner != p || range->residency->plan_life < 0 ||
		    schedule_flow(range) == FLOW_OUT)
			continue;
		level = schedule_level(range);
		there += level == DECIDE_UNKNOWN ? 0 : MIN(range_nr_resident(range), level);
	}
	return levels - MIN(levels, there);
}

/* Chunks that are free, or of freed ranges. */
static uint64_t nr_free(const struct weir_space *space, place_t own)
{
	uint64_t nr = pmm_nr_available(&space->pmm[own]);

	for (const struct range *range = space->pooled; range; range = range->next_pooled)
		nr += range_nr_settled(range, own);
	return nr;
}

bool schedule_has_room_ahead(const struct weir_space *space, const struct planner *p)
{
	return nr_free(space, p->own) > nr_reserved(space, p);
}
