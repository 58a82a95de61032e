/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plans of one repetition: the first is made of times measured without a plan, each of the next
 * ones of better times, but none of them is sure to be better. So one that is replaced is set
 * aside, with what a period took under it; and when a period of the last one was measured too, the
 * shortest decides which is followed from then on.
 *
 * A period is measured on the device, from the end of a bracket to the end of the one like it: what
 * the program queues ahead does not count. What disturbs a period makes it longer, never shorter,
 * so the worst that a disturbed one does is that a plan is followed that was as good before.
 */
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* One before is taken up again when a period took so many times as long under the last one. */
#define WORSE 1.03
/* Periods that the last plan is given to be measured in: times come late, or not at all. */
#define PERIODS_MAX 6

/* A plan that was set aside. */
struct tried {
	struct tried *next;
	struct plan *plan;
	uint32_t nr_lives;
	uint32_t *life_of_event, *step_of_event;
	uint64_t place, event, until; /* as in the planner; the first event without it */
	double period_ns;	      /* the shortest that was measured; 0: none */
	uint32_t nr_tied;
	struct tied {
		life_t life;
		uint32_t index; /* what the plan knows it as */
	} tied[];		/* by life: those that it was tied to last */
};

static void tried_free(struct tried *t)
{
	plan_destroy(t->plan);
	free(t->life_of_event);
	free(t->step_of_event);
	free(t);
}

void tried_forget(struct planner *p)
{
	struct tried *t = p->tried;

	while (t) {
		struct tried *next = t->next;

		tried_free(t);
		t = next;
	}
	p->tried = NULL;
	p->settled = false;
	p->nr_plans_made = 0;
	p->settle_place = 0;
	p->period_ns = 0;
	p->mark = (struct period_mark){0};
}

static int compare_tied(const void *a, const void *b)
{
	const struct tied *x = a, *y = b;

	return x->life < y->life ? -1 : x->life > y->life;
}

void tried_set_aside(struct planner *p)
{
	struct tried *t;

	t = p->plan ? malloc(sizeof(*t) + (p->nr_lives + 1u) * sizeof(t->tied[0])) : NULL;
	if (!t)
		return;
	*t = (struct tried){.next = p->tried,
			    .plan = p->plan,
			    .nr_lives = p->nr_lives,
			    .life_of_event = p->life_of_event,
			    .step_of_event = p->step_of_event,
			    .place = p->plan_place,
			    .event = p->plan_event,
			    .until = p->record.next_event,
			    .period_ns = p->period_ns};
	for (uint32_t i = 0; i < p->nr_lives; i++)
		if (p->life[i])
			t->tied[t->nr_tied++] = (struct tied){p->life[i]->life, i};
	qsort(t->tied, t->nr_tied, sizeof(t->tied[0]), compare_tied);
	p->tried = t;
	p->plan = NULL;
	explain_forget(p);
	p->life_of_event = p->step_of_event = NULL;
	p->period_ns = 0;
}

/* Where the shortest period is kept of the plan that was followed at an event; NULL: of none. */
static double *period_of(struct planner *p, uint64_t event)
{
	if ((p->plan || p->suspended) && event >= p->plan_event)
		return &p->period_ns;
	for (struct tried *t = p->tried; t; t = t->next)
		if (event >= t->event && event < t->until)
			return &t->period_ns;
	return NULL;
}

void tried_note(struct planner *p, uint64_t event, double ns)
{
	const uint64_t place = record_event(&p->record, event)->place;
	double *period_ns = p->mark.place ? period_of(p, p->mark.event) : NULL;
	const bool same_plan = period_ns && period_ns == period_of(p, event);

	if (p->settled || !place || !period_of(p, event) ||
	    (same_plan && place < p->mark.place + p->record.period))
		return;
	/* The first bracket under another plan may end the last period under the one before. */
	if (period_ns && place == p->mark.place + p->record.period && ns > p->mark.ns &&
	    (*period_ns <= 0 || ns - p->mark.ns < *period_ns))
		*period_ns = ns - p->mark.ns;
	p->mark = (struct period_mark){.event = event, .place = place, .ns = ns};
}

/* Tie the plan's lives to what it was tied to last and is still there. */
static void tie_again(struct weir_space *space, struct planner *p, const struct tried *t)
{
	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		struct range *range = space->range[r];
		const struct tied key = {.life = range->life}, *tied = NULL;

		if (range->residency->planner != p)
			continue;
		range->residency->plan_life = -1;
		if (range->life && !range->pooled)
			tied = bsearch(&key, t->tied, t->nr_tied, sizeof(key), compare_tied);
		if (!tied)
			continue;
		range->residency->plan_life = (int32_t)tied->index;
		p->life[tied->index] = range;
	}
}

/* Follow one that was set aside in place of the one that is followed. */
static void take_up(struct weir_space *space, struct planner *p, struct tried **at)
{
	struct tried *t = *at;
	struct range **life = calloc(t->nr_lives + 1u, sizeof(struct range *));

	if (!life)
		return;
	log_info("plan: %.3f ms a period, %.3f ms under one before, which is followed again",
		 p->period_ns / 1e6, t->period_ns / 1e6);
	*at = t->next;
	tracing_plan(space, p->own, NULL);
	held_release(p);
	p->plan = t->plan;
	p->life = life;
	p->nr_lives = t->nr_lives;
	p->life_of_event = t->life_of_event;
	p->step_of_event = t->step_of_event;
	p->plan_place = t->place;
	p->plan_event = t->event;
	p->nr_pending = 0;
	tie_again(space, p, t);
	if (window_list(p))
		log_warning("plan: no memory for a list of what comes and goes in loops");
	resume_from(space, p, t->until);
	free(t);
}

void tried_settle(struct weir_space *space, struct planner *p)
{
	struct tried **best = NULL;
	uint32_t nr_made = p->nr_plans_made;

	if (p->settled)
		return;
	if (!p->settle_place)
		p->settle_place = p->record.next_place + PERIODS_MAX * p->record.period;
	if (p->period_ns <= 0 && p->record.next_place < p->settle_place)
		return;
	for (struct tried **at = &p->tried; *at; at = &(*at)->next)
		if ((*at)->period_ns > 0 && (!best || (*at)->period_ns < (*best)->period_ns))
			best = at;
	if (best && p->period_ns > WORSE * (*best)->period_ns)
		take_up(space, p, best);
	tried_forget(p);
	p->nr_plans_made = nr_made;
	p->settled = true;
}
