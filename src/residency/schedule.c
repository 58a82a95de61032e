/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan as a schedule: where in it the program is, and what it says of a range there. Changes
 * nothing: what carries it out is in follow.c.
 */
#include "src/residency/residency.h"

/* Plans made for one repetition: the first from times measured without a plan; the others know how
 * long kernels took under the ones before. */
#define PLANS_MAX 2

uint64_t schedule_position(const struct residency *r, uint64_t event, uint64_t *period)
{
	*period = (event - r->plan_event) / r->record.period;
	return (event - r->plan_event) % r->record.period;
}

uint64_t schedule_stage(const struct residency *r, uint64_t period, uint32_t step)
{
	if (step == r->plan->nr_steps) {
		step = 0;
		period++;
	}
	if (step >= r->plan->first_step)
		period++;
	return period * r->plan->nr_stages + r->plan->stage_of_step[step];
}

bool schedule_is_new(const struct residency *r)
{
	return r->plan_event == r->record.next_event;
}

uint64_t schedule_first_stage(const struct residency *r)
{
	return schedule_stage(r, 0, 0);
}

uint32_t schedule_expected_level(const struct weir_space *space, uint32_t nr_blocks)
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
	k = schedule_position(r, r->record.next_event, &period);
	life = r->life_of_event[k];
	if (life == UINT32_MAX || r->plan->tracked[life] == PLAN_UNTRACKED)
		return nr_blocks;
	stage = r->plan->stage_of_step[r->step_of_event[k] % r->plan->nr_steps];
	return plan_level(r->plan, stage, r->plan->tracked[life]);
}

bool schedule_wants_times(const struct weir_space *space)
{
	const struct residency *r = space->residency;

	return !r->plan || r->nr_plans_made < PLANS_MAX;
}

bool schedule_evicts(const struct weir_space *space, const struct range *range)
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

/* The stage of the newest bracket, in its period. */
static uint32_t stage_now(const struct residency *r)
{
	return (uint32_t)(r->host_stage % r->plan->nr_stages);
}

/* What the plan tracks a range as. */
static uint32_t tracked_as(const struct residency *r, const struct range *range)
{
	return range->residency->plan_life < 0 ? PLAN_UNTRACKED
					       : r->plan->tracked[range->residency->plan_life];
}

uint32_t schedule_level(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t t;

	/* A plan that the very bracket being placed brought about does not speak of it. */
	if (!r->plan || schedule_is_new(r))
		return DECIDE_UNKNOWN;
	t = tracked_as(r, range);
	return t == PLAN_UNTRACKED ? DECIDE_UNKNOWN : plan_level(r->plan, stage_now(r), t);
}

uint32_t schedule_next_level(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t distance = schedule_next_use(space, range);

	if (distance == UINT32_MAX || !distance)
		return range->nr_blocks;
	return plan_level(r->plan, (stage_now(r) + distance) % r->plan->nr_stages,
			  tracked_as(r, range));
}

uint32_t schedule_far(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t t;

	if (!r->plan || !space_has_neighbours(space))
		return DECIDE_UNKNOWN;
	t = tracked_as(r, range);
	return t == PLAN_UNTRACKED ? DECIDE_UNKNOWN : r->plan->far[t];
}

bool schedule_is_used_soon(const struct weir_space *space, const struct range *range,
			   uint32_t nr_stages)
{
	const struct residency *r = space->residency;
	uint32_t t = r->plan ? tracked_as(r, range) : PLAN_UNTRACKED;

	/* In a period of few stages all is soon. */
	return t != PLAN_UNTRACKED &&
	       plan_next_use(r->plan, stage_now(r), t) < MIN(nr_stages, r->plan->nr_stages / 4);
}

uint32_t schedule_next_use(const struct weir_space *space, const struct range *range)
{
	const struct residency *r = space->residency;
	uint32_t t;

	if (!r->plan || range->residency->plan_life < 0)
		return UINT32_MAX;
	t = tracked_as(r, range);
	return t == PLAN_UNTRACKED ? 0 : plan_next_use(r->plan, stage_now(r), t);
}
