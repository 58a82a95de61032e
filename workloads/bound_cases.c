/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's value is that of its least case (bound_group.h), at the best prices that are found for
 * each. How they are found is of no importance to the bound. Each case starts from the prices for
 * all steps, which give no less than the chords do; the case that is least at the time is improved
 * for a few rounds, as in bound_ascent.c; and so on.
 */
#include "workloads/bound_cases.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "workloads/bound_group.h"
#include "workloads/bound_place.h"

/* A group whose chords cost less than this share of as many mean kernels is left as it is. */
#define LEAST_CHORDS 1e-3

/* Rounds of one case; from one exact evaluation to the next; and visits of members in all groups
 * together. What is left of those is shared out over the steps that are left, so many shares to a
 * step. */
#define NR_ROUNDS 150u
#define NR_ROUNDS_EXACT 5u
#define NR_VISITS 5e6
#define NR_SHARES 4.0

#define NR_VISITS_CHAIN 3e7 /* of pieces by the chain; longer traces are left as they are */

#define SOFTNESS_FIRST 3e-3 /* of the time of a byte over the link */
#define SOFTNESS_LAST 1e-4
#define STEP_FIRST 0.05
#define STEP_LAST 0.005
#define RAISE 0.01 /* of the price of room at the start, doubled while that is better, so often */
#define NR_RAISES 16

/* The search of a case. */
struct trial {
	struct bound_place at[BOUND_GROUP_STEPS];
	struct bound_coordinate reach[BOUND_GROUP_STEPS];
	struct bound_pace pace;
	struct bound_local prices;
	double value; /* the best so far */
	uint32_t nr_rounds;
};

struct cases {
	const struct bound_model *model;
	struct bound_group group;
	struct trial trial[BOUND_GROUP_CASES]; /* by which uses are beyond reach */
};

static const struct bound_step *step_at(const struct cases *s, uint32_t j)
{
	return &s->model->steps[s->group.first + j];
}

/* For the use of a step within reach: have the kernel alone count in place of the time in place,
 * and the price of reach make up for it. */
static void count_alone(const struct bound_jump *jump, double *time, double *reach)
{
	for (int l = 0; l < 4; l++) {
		*reach += time[BOUND_IN_NEAR + l] * jump->ns[l & ~1];
		time[BOUND_ALONE] += time[BOUND_IN_NEAR + l];
		time[BOUND_IN_NEAR + l] = 0;
	}
}

/* Raise the price of room by a share, and that of reach with it: else what is resident would only
 * be driven out. */
static void raise_room(const struct cases *s, struct bound_local *p, double by)
{
	double room = 0;

	for (uint32_t j = 0; j < s->group.nr_steps; j++) {
		room += by * p->capacity[j];
		p->capacity[j] += by * p->capacity[j];
	}
	for (uint32_t j = 0; j < s->group.nr_steps; j++)
		p->reach[j] += room / s->model->budget_bytes * step_at(s, j)->jump.bytes;
}

/* Take other prices if they are better. */
static bool try_prices(struct cases *s, uint32_t beyond, const struct bound_local *p)
{
	struct trial *t = &s->trial[beyond];
	double value = bound_group_value(&s->group, beyond, p, 0, NULL);

	if (!(value > t->value))
		return false;
	t->value = value;
	t->prices = *p;
	return true;
}

/* Start from the prices for all steps, or from others that are easily seen to be better. */
static void trial_start(struct cases *s, uint32_t beyond)
{
	struct bound_group *g = &s->group;
	struct trial *t = &s->trial[beyond];
	struct bound_local p;

	*t = (struct trial){.value = -INFINITY};
	try_prices(s, beyond, &g->prices);
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		if (!(g->jumps & ~beyond & 1u << j))
			continue;
		p = t->prices;
		count_alone(&step_at(s, j)->jump, p.time[j], &p.reach[j]);
		try_prices(s, beyond, &p);
	}
	p = t->prices;
	for (int i = 0; i < NR_RAISES; i++) {
		raise_room(s, &p, ldexp(RAISE, i));
		if (!try_prices(s, beyond, &p))
			break;
	}
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		bound_place_set(&t->at[j], step_at(s, j), t->prices.time[j], t->prices.capacity[j]);
		t->reach[j].x = (float)(t->prices.reach[j] / t->at[j].scale_ns);
	}
}

/* One round: a step along the slope. */
static void trial_step(struct cases *s, uint32_t beyond)
{
	struct trial *t = &s->trial[beyond];
	double share = (double)t->nr_rounds++ / NR_ROUNDS;
	double softness = s->model->rates.in_ns * bound_fall(SOFTNESS_FIRST, SOFTNESS_LAST, share);
	struct bound_local usage, *p = &t->prices;

	bound_group_value(&s->group, beyond, p, softness, &usage);
	bound_pace_next(&t->pace, bound_fall(STEP_FIRST, STEP_LAST, share));
	for (uint32_t j = 0; j < s->group.nr_steps; j++) {
		bound_place_move(&t->at[j], p->time[j], usage.time[j], usage.capacity[j], &t->pace);
		bound_place_get(&t->at[j], p->time[j], &p->capacity[j]);
		bound_coordinate_move(&t->reach[j], usage.reach[j], &t->pace);
		t->reach[j].x = fmaxf(t->reach[j].x, 0);
		p->reach[j] = (double)t->reach[j].x * t->at[j].scale_ns;
	}
}

/* The case with the least value. */
static uint32_t least_case(const struct cases *s)
{
	uint32_t jumps = s->group.jumps, least = 0;

	for (uint32_t c = jumps; c; c = (c - 1) & jumps) {
		if (s->trial[c].value < s->trial[least].value)
			least = c;
	}
	return least;
}

/* What a group gains, in no more visits than that. */
static double group_gain(struct cases *s, double nr_visits)
{
	struct bound_group *g = &s->group;
	uint32_t c = g->jumps;

	do {
		trial_start(s, c);
		c = (c - 1) & g->jumps;
	} while (c != g->jumps); /* all subsets */
	nr_visits += g->nr_visits;
	c = least_case(s);
	while (s->trial[c].nr_rounds < NR_ROUNDS && g->nr_visits < nr_visits) {
		struct trial *t = &s->trial[c];

		for (uint32_t i = 0; i < NR_ROUNDS_EXACT; i++)
			trial_step(s, c);
		t->value = fmax(t->value, bound_group_value(g, c, &t->prices, 0, NULL));
		c = least_case(s);
	}
	return fmax(0, s->trial[c].value - g->value);
}

static double all_groups(struct cases *s)
{
	double least = LEAST_CHORDS * s->model->compute_ns / s->model->nr_steps, gain = 0;
	struct bound_group *g = &s->group;

	while (bound_group_back(g)) {
		double steps = g->nr_steps, left = g->first + steps;

		if (g->chords > least * steps && bound_group_enter(g))
			gain += group_gain(s, (NR_VISITS - g->nr_visits) *
						      fmin(1, NR_SHARES * steps / left));
	}
	return gain;
}

int bound_cases(const struct bound_tables *tables, const struct bound_prices *prices, double *gain)
{
	struct cases *s;
	int err;

	*gain = 0;
	if (bound_chain_visits(tables->model) > NR_VISITS_CHAIN)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->model = tables->model;
	err = bound_group_init(&s->group, tables, prices);
	if (!err) {
		*gain = all_groups(s);
		bound_group_fini(&s->group);
	}
	free(s);
	return err;
}
