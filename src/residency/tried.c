/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plans of one repetition: the first is made of times measured without a plan, each of the next
 * ones of better times, but none of them is sure to be better. So one that is replaced is set
 * aside, with what a period took under it; and when periods of the last one were measured too, the
 * shortest decides which is followed from then on. Where the last one's model missed what a period
 * takes, there is another one first: see schedule_wants_plans().
 *
 * A plan may also be worse than none. So unless the best one leaves nothing to gain, the repetition
 * is followed without a plan for a while, and if that takes less, nothing is planned for many
 * periods. What a plan left in place makes the first period without one shorter than those after
 * it, and these need not be alike: their mean counts.
 *
 * A period is measured on the device, from the end of a bracket to the end of the one like it: what
 * the program queues ahead does not count. The first one under a plan counts only until there is
 * another: in it data move. What disturbs one of the others makes it longer, never shorter, so the
 * worst that a disturbed one does is that a plan is followed that was as good before.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* One before is taken up again when a period took so many times as long under the last one. */
#define WORSE 1.01
/* Periods that the last plan is given to be measured in: times come late, or not at all. */
#define PERIODS_MAX 6

/*
 * A trial without a plan may hold the program up for a period or two. So it comes when the
 * repetition has been followed for so many; and where a period takes no more than so many times
 * what its computation does, or what the plan's model says, there is none.
 */
#define BARE_AFTER 16
#define NOTHING_TO_GAIN 1.02
#define AS_MODELLED 1.02
/* A loop of fewer brackets may well be a part of what really repeats. */
#define BARE_STEPS_MIN 4
/* Periods that are measured in a trial, the first for nothing; and that it may take. */
#define BARE_MEASURED 4
#define BARE_PERIODS_MAX 8
/* It ends when it is behind the plan by such a share of a period: what is resident becomes another
 * first, and that may take longer than what it gains in the same period. */
#define BEHIND 0.4
/* When no plan is better, so many periods go by until it is planned anew. */
#define BARE_PERIODS 64

/* A plan that was set aside, or one that is being made. */
struct tried {
	struct tried *next;
	struct plan *plan;
	uint32_t nr_lives;
	uint32_t *life_of_event, *step_of_event;
	uint64_t place, event, until; /* as in the planner; the first event without it */
	struct timed timed;
	uint32_t nr_tied;
	struct tied {
		life_t life;
		uint32_t index; /* what the plan knows it as */
	} tied[];		/* by life: those that it was tied to last */
};

void tried_free(struct tried *t)
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
	p->timed = (struct timed){0};
	p->mark = (struct period_mark){0};
	p->bare = false;
	p->bare_place = 0;
	p->without = (struct timed){0};
}

static int compare_tied(const void *a, const void *b)
{
	const struct tied *x = a, *y = b;

	return x->life < y->life ? -1 : x->life > y->life;
}

struct tried *tried_new(const struct planner *p, struct range *const *range, uint32_t nr_lives,
			uint32_t *life_of_event, uint32_t *step_of_event)
{
	struct tried *t = malloc(sizeof(*t) + (nr_lives + 1u) * sizeof(t->tied[0]));

	if (!t)
		return NULL;
	*t = (struct tried){.nr_lives = nr_lives,
			    .life_of_event = life_of_event,
			    .step_of_event = step_of_event,
			    .place = p->record.next_place,
			    .event = p->record.next_event,
			    .until = p->record.next_event};
	for (uint32_t i = 0; i < nr_lives; i++)
		if (range[i])
			t->tied[t->nr_tied++] = (struct tied){range[i]->life, i};
	qsort(t->tied, t->nr_tied, sizeof(t->tied[0]), compare_tied);
	return t;
}

/* Set the plan aside, if there is one: it is not followed any more. Where there is no memory for
 * that it stays, to be freed. */
static void set_aside(struct weir_space *space, struct planner *p)
{
	struct tried *t;

	if (p->plan)
		tracing_plan(space, p->own, NULL);
	t = p->plan ? tried_new(p, p->life, p->nr_lives, p->life_of_event, p->step_of_event) : NULL;
	if (!t)
		return;
	t->next = p->tried;
	t->plan = p->plan;
	t->place = p->plan_place;
	t->event = p->plan_event;
	t->timed = p->timed;
	p->tried = t;
	p->plan = NULL;
	explain_forget(p);
	p->life_of_event = p->step_of_event = NULL;
	p->timed = (struct timed){0};
}

/* Where the period is kept of the plan that was followed at an event; NULL: of none. */
static struct timed *period_of(struct planner *p, uint64_t event)
{
	if (p->bare && event >= p->bare_event)
		return &p->without;
	if ((p->plan || p->suspended) && event >= p->plan_event)
		return &p->timed;
	for (struct tried *t = p->tried; t; t = t->next)
		if (event >= t->event && event < t->until)
			return &t->timed;
	return NULL;
}

/* The one with the shortest period; NULL: none was measured. */
static struct tried **shortest(struct planner *p)
{
	struct tried **best = NULL;

	for (struct tried **at = &p->tried; *at; at = &(*at)->next)
		if ((*at)->timed.ns > 0 && (!best || (*at)->timed.ns < (*best)->timed.ns))
			best = at;
	return best;
}

/* When the stage of a bracket ends, by the model of a plan. */
static double modelled_end_ns(const struct planner *p, const struct tried *t, uint64_t place)
{
	uint32_t step = t->step_of_event[(place - t->place) % p->record.period];

	return t->plan->end_ns[t->plan->stage_of_step[step % t->plan->nr_steps]];
}

/* How far a period without a plan is behind one under a plan at a bracket. */
static double behind_ns(const struct planner *p, const struct tried *t, uint64_t place, double ns)
{
	const double modelled_ns = t->plan->end_ns[t->plan->nr_stages - 1];
	double expected_ns = modelled_end_ns(p, t, place) - modelled_end_ns(p, t, p->mark.place);

	if (expected_ns < 0)
		expected_ns += modelled_ns;
	return ns - p->mark.ns - expected_ns * t->timed.ns / modelled_ns;
}

/* A bracket of the trial is done. */
static void note_bare(struct planner *p, uint64_t place, double ns)
{
	struct tried **best = shortest(p);
	const uint64_t end = p->mark.place + p->record.period;

	if (best && place >= p->mark.place && place < end &&
	    behind_ns(p, *best, place, ns) > BEHIND * (*best)->timed.ns) {
		p->without.nr = 0;
		p->bare_place = 0;
	}
	if (place == end && ns > p->mark.ns) {
		p->without.ns += p->without.nr ? ns - p->mark.ns : 0;
		p->without.nr++;
		if (p->without.nr == BARE_MEASURED)
			p->bare_place = 0;
	}
}

/* Data are moved to where a plan wants them in its first period, which may take less for what the
 * one before left in place, or more. */
static void note_period(struct timed *timed, double ns)
{
	if (timed->nr < 2 || ns < timed->ns)
		timed->ns = ns;
	timed->nr++;
}

void tried_note(struct planner *p, uint64_t event, double ns)
{
	const uint64_t place = record_event(&p->record, event)->place;
	struct timed *timed = p->mark.place ? period_of(p, p->mark.event) : NULL;
	const bool same_plan = timed && timed == period_of(p, event);

	if (p->settled || !place || !period_of(p, event))
		return;
	if (same_plan && p->bare)
		note_bare(p, place, ns);
	if (same_plan && place < p->mark.place + p->record.period)
		return;
	/* The first bracket under another plan may end the last period under the one before. */
	if (timed && timed != &p->without && place == p->mark.place + p->record.period &&
	    ns > p->mark.ns)
		note_period(timed, ns - p->mark.ns);
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
		if (range->life && range_lives(range))
			tied = bsearch(&key, t->tied, t->nr_tied, sizeof(key), compare_tied);
		if (!tied)
			continue;
		range->residency->plan_life = (int32_t)tied->index;
		p->life[tied->index] = range;
	}
}

/* Hold a plan in place of the one that there may be; what the planner does not have of it is freed.
 * @return 0, or -ENOMEM: all is as it was. */
static int hold(struct weir_space *space, struct planner *p, struct tried *t)
{
	struct range **life = calloc(t->nr_lives + 1u, sizeof(struct range *));

	if (!life)
		return -ENOMEM;
	if (p->plan)
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
	p->timed = t->timed;
	tie_again(space, p, t);
	if (window_list(p))
		log_warning("plan: no memory for a list of what comes and goes in loops");
	free(t);
	return 0;
}

/* Follow one that was set aside in place of the one that is followed. */
static void take_up(struct weir_space *space, struct planner *p, struct tried **at)
{
	struct tried *next = (*at)->next;
	uint64_t until = (*at)->until;

	if (hold(space, p, *at))
		return;
	log_info("plan: one before is followed again, %.3f ms a period", p->timed.ns / 1e6);
	*at = next;
	resume_from(space, p, until);
}

int tried_begin(struct weir_space *space, struct planner *p, struct tried *t, struct plan *plan)
{
	uint64_t until = t->until;
	int err;

	set_aside(space, p);
	t->plan = plan;
	t->event = p->record.next_event;
	err = hold(space, p, t);
	if (err) {
		tried_free(t);
		return err;
	}
	p->nr_plans_made++;
	p->settle_place = 0;
	space->stats.nr_plans++;
	if (until != p->record.next_event) { /* it comes late */
		resume_from(space, p, until);
		return 0;
	}
	p->host_stage = p->gpu_stage = p->first_stage = schedule_first_stage(p);
	p->next_stage = p->host_stage;
	held_trace(space, p);
	return 0;
}

/* The choice is made: forget the others. next: periods until a trial without a plan begins, or
 * until it is planned anew; 0: never. */
static void settle(struct planner *p, uint64_t next)
{
	const uint32_t nr_made = p->nr_plans_made;

	tried_forget(p);
	p->nr_plans_made = nr_made;
	p->settled = true;
	p->bare_place = next ? p->record.next_place + next * p->record.period : 0;
}

/* Whether a period might take less without a plan. Of guesses a repetition is recognised again and
 * again, and each time a trial would cost time; and who makes plans in weir's stead wants to see
 * them followed. */
static bool may_gain(const struct weir_space *space, const struct planner *p)
{
	const double least_ns =
		MAX(p->plan->compute_ns * NOTHING_TO_GAIN, p->plan->modelled_ns * AS_MODELLED);

	return space->residency->trials && !p->record.guessed && !space->residency->maker &&
	       p->plan->nr_steps >= BARE_STEPS_MIN && p->timed.ns > least_ns;
}

/* Follow no plan for a while. */
static void start_bare(struct weir_space *space, struct planner *p)
{
	set_aside(space, p);
	held_release(p); /* where there was no memory for that, the plan */
	p->bare = true;
	p->bare_event = p->record.next_event;
	p->bare_place = p->record.next_place + BARE_PERIODS_MAX * p->record.period;
}

void tried_settle(struct weir_space *space, struct planner *p)
{
	struct tried **best;

	if (p->settled && p->bare_place && p->record.next_place >= p->bare_place) {
		/* What it was measured with is long ago. */
		p->settled = false;
		p->settle_place = 0;
		p->timed = (struct timed){0};
		p->mark = (struct period_mark){0};
	}
	if (p->settled)
		return;
	if (!p->settle_place)
		p->settle_place = p->record.next_place + PERIODS_MAX * p->record.period;
	if (p->timed.nr < schedule_periods(p) && p->record.next_place < p->settle_place)
		return;
	if (p->bare_place) {
		if (may_gain(space, p))
			start_bare(space, p);
		else
			settle(p, 0);
		return;
	}
	best = shortest(p);
	if (best && p->timed.ns > WORSE * (*best)->timed.ns)
		take_up(space, p, best);
	settle(p, may_gain(space, p) ? BARE_AFTER : 0);
}

bool tried_bare(struct weir_space *space, struct planner *p)
{
	const double bare_ns = p->without.nr > 1 ? p->without.ns / (p->without.nr - 1) : 0;
	struct tried **best = shortest(p);

	if (p->record.next_place < p->bare_place)
		return false;
	if (p->settled || !best) {
		tried_forget(p);
		return true;
	}
	if (bare_ns <= 0 || bare_ns * WORSE >= (*best)->timed.ns) {
		take_up(space, p, best);
		settle(p, 0);
		return false;
	}
	log_info("plan: none: %.3f ms a period without one, %.3f ms under the best", bare_ns / 1e6,
		 (*best)->timed.ns / 1e6);
	settle(p, BARE_PERIODS);
	p->bare = true;
	return false;
}
