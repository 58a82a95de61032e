/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan whose repetition is suspended, and resumed somewhere else: see record_resume.c. While it
 * is suspended nothing is moved by it. What the program did meanwhile and what was moved for that
 * leaves ranges at levels that the plan does not expect: when it is resumed they are brought there,
 * in the order in which they are used.
 */
#include <stdlib.h>

#include "src/core/tracing.h"
#include "src/residency/residency.h"

void resume_suspend(struct weir_space *space, struct planner *p)
{
	if (!p->plan)
		return;
	tracing_plan(space, p->own, NULL);
	p->suspended = p->plan;
	p->plan = NULL;
	p->nr_pending = 0;
	explain_forget(p);
}

/* Tie lives of the plan to ranges that were allocated meanwhile, from an event on. */
static void tie_lives(struct weir_space *space, struct planner *p, uint64_t since)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		uint64_t place, period;
		uint32_t life;

		if (range->residency->planner != p || !range_lives(range) ||
		    range->life < MAX(since, p->record.first_event))
			continue;
		place = record_event(&p->record, range->life)->place;
		if (place < p->plan_place)
			continue;
		life = p->life_of_event[schedule_position(p, place, &period)];
		if (life == UINT32_MAX)
			continue;
		range->residency->plan_life = (int32_t)life;
		p->life[life] = range;
	}
}

/* The blocks that the plan expects to be resident of each life as it enters a stage: what its last
 * move left, and of lives that it does not move as many as it wants always. NULL: no memory. */
static uint32_t *expected_levels(const struct planner *p, uint32_t stage)
{
	const struct plan *plan = p->plan;
	uint32_t *level = malloc((p->nr_lives + 1u) * sizeof(*level)), first = 0;

	if (!level)
		return NULL;
	for (uint32_t life = 0; life < p->nr_lives; life++)
		level[life] = plan->tracked[life] == PLAN_UNTRACKED
				      ? UINT32_MAX
				      : plan_level_max(plan, plan->tracked[life]);
	while (first < plan->nr_actions && plan->action[first].from <= stage)
		first++;
	for (uint32_t i = 0; i < plan->nr_actions; i++) {
		const struct plan_action *a = &plan->action[(first + i) % plan->nr_actions];

		level[a->life] = a->nr_blocks;
	}
	return level;
}

static int compare_due(const void *a, const void *b)
{
	const struct pending_action *x = a, *y = b;

	if (x->due != y->due)
		return x->due < y->due ? -1 : 1;
	return x->life < y->life ? -1 : x->life > y->life;
}

/* Bring every range to its expected level: what goes, now; what comes, by its next use. */
static void bring_to_levels(struct planner *p)
{
	uint32_t stage = schedule_stage_now(p);
	uint32_t *level = expected_levels(p, stage);

	for (uint32_t life = 0; level && life < p->nr_lives; life++) {
		struct range *range = p->life[life];
		struct pending_action action = {
			.life = life, .from = p->host_stage, .due = p->host_stage};
		uint32_t next, resident;

		if (!range || level[life] == UINT32_MAX)
			continue;
		resident = range_nr_resident(range);
		action.move = resident > level[life] ? PLAN_EVICT : PLAN_FETCH;
		action.nr_blocks = level[life];
		next = plan_next_use(p->plan, stage, p->plan->tracked[life]);
		if (action.move == PLAN_FETCH)
			action.due += MIN(next, p->plan->nr_stages);
		if (resident != level[life])
			(void)pending_add(p, &action);
	}
	free(level);
	if (p->nr_pending)
		qsort(p->pending, p->nr_pending, sizeof(*p->pending), compare_due);
}

/* The next action to begin is the first of a later stage. */
static void skip_actions(struct planner *p)
{
	const struct plan *plan = p->plan;

	p->action_period = p->host_stage / plan->nr_stages;
	p->next_action = 0;
	while (p->next_action < plan->nr_actions &&
	       plan->action[p->next_action].from <= schedule_stage_now(p))
		p->next_action++;
	if (p->next_action == plan->nr_actions) {
		p->next_action = 0;
		p->action_period++;
	}
}

void resume_from(struct weir_space *space, struct planner *p, uint64_t since)
{
	uint64_t period, k = schedule_position(p, p->record.next_place - 1, &period);

	p->host_stage = p->next_stage = schedule_stage(p, period, p->step_of_event[k]);
	p->gpu_stage = p->first_stage = p->host_stage;
	tie_lives(space, p, since);
	bring_to_levels(p);
	skip_actions(p);
	held_trace(space, p);
}

void resume_plan(struct weir_space *space, struct planner *p)
{
	/* A repetition without brackets is followed without a plan. */
	if (!p->suspended)
		return;
	p->plan = p->suspended;
	p->suspended = NULL;
	resume_from(space, p, p->record.suspended.since);
	space->stats.nr_resumed++;
}
