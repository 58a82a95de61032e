/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search: ascent on the softened dual (bound_soft.c), by steps along its slope
 * (bound_place.h). Softness and step length fall together, geometrically. Every few steps the
 * exact dual is evaluated, and the best value counts: every point on the way is a bound, so
 * nothing depends on convergence.
 */
#include "workloads/bound_ascent.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/bound_dual.h"
#include "workloads/bound_place.h"
#include "workloads/bound_soft.h"

/* Steps of the search; and events and launches visited in them altogether, which has it shorter
 * for very long traces. */
#define NR_ROUNDS 800u
#define NR_ROUNDS_MIN 60u
#define NR_VISITS 20000000u
#define NR_ROUNDS_EXACT 10u /* from one exact evaluation to the next */

#define SOFTNESS_FIRST 0.05 /* of the time of a byte over the link */
#define SOFTNESS_LAST 3e-4
#define STEP_FIRST 2.0
#define STEP_LAST 0.01
#define TIME_START 4e-3 /* price of all resources but the kernel alone, relative to that */

struct ascent {
	const struct bound_model *model;
	struct bound_tables tables;
	struct bound_soft *soft;
	struct bound_prices prices, usage;
	struct bound_place *places;
};

static void start(struct ascent *a)
{
	const struct bound_model *m = a->model;
	double time[BOUND_RESOURCE_NR];

	for (int r = 0; r < BOUND_RESOURCE_NR; r++)
		time[r] = r == BOUND_ALONE ? 1 : TIME_START;
	for (uint32_t i = 0; i < m->nr_steps; i++)
		bound_place_set(&a->places[i], &m->steps[i], time, 0);
}

static void set_prices(struct ascent *a)
{
	for (uint32_t i = 0; i < a->model->nr_steps; i++)
		bound_place_get(&a->places[i], a->prices.time[i], &a->prices.capacity[i]);
}

static uint32_t nr_rounds(const struct bound_model *m)
{
	uint32_t nr = NR_VISITS / (m->nr_events + m->nr_steps + 1);

	if (nr > NR_ROUNDS)
		return NR_ROUNDS;
	return nr < NR_ROUNDS_MIN ? NR_ROUNDS_MIN : nr;
}

/* Evaluate the prices; where they are better than those in out, put them there. */
static void keep_better(const struct ascent *a, struct bound_prices *out, double *value)
{
	double here = bound_dual_value(&a->tables, &a->prices);
	size_t nr = a->model->nr_steps;

	if (!(here > *value))
		return;
	*value = here;
	memcpy(out->time, a->prices.time, nr * sizeof(*out->time));
	memcpy(out->capacity, a->prices.capacity, nr * sizeof(*out->capacity));
}

static double climb(struct ascent *a, struct bound_prices *out)
{
	const struct bound_model *m = a->model;
	struct bound_pace pace = {0};
	uint32_t nr = nr_rounds(m);
	double best = -INFINITY;

	for (uint32_t k = 0; k < nr; k++) {
		double share = (double)k / nr;
		double softness = m->rates.in_ns * bound_fall(SOFTNESS_FIRST, SOFTNESS_LAST, share);

		set_prices(a);
		bound_tables_fill(&a->tables, &a->prices);
		if (k % NR_ROUNDS_EXACT == 0 || k + 1 == nr)
			keep_better(a, out, &best);
		bound_soft_usage(a->soft, &a->tables, &a->prices, softness, &a->usage);
		bound_pace_next(&pace, bound_fall(STEP_FIRST, STEP_LAST, share));
		for (uint32_t i = 0; i < m->nr_steps; i++)
			bound_place_move(&a->places[i], a->prices.time[i], a->usage.time[i],
					 a->usage.capacity[i], &pace);
	}
	return best;
}

static int ascent_init(struct ascent *a)
{
	uint32_t nr = a->model->nr_steps;
	int err;

	a->places = calloc((size_t)nr + 1, sizeof(*a->places));
	if (!a->places)
		return -ENOMEM;
	err = bound_tables_init(&a->tables, a->model);
	if (err)
		return err;
	err = bound_soft_create(a->model, &a->soft);
	if (err)
		return err;
	err = bound_prices_init(&a->prices, nr);
	if (err)
		return err;
	return bound_prices_init(&a->usage, nr);
}

static void ascent_fini(struct ascent *a)
{
	bound_prices_fini(&a->usage);
	bound_prices_fini(&a->prices);
	bound_soft_destroy(a->soft);
	bound_tables_fini(&a->tables);
	free(a->places);
}

int bound_ascent(const struct bound_model *model, struct bound_prices *prices, double *value)
{
	struct ascent a = {.model = model};
	int err = ascent_init(&a);

	if (!err) {
		start(&a);
		*value = climb(&a, prices);
	}
	ascent_fini(&a);
	return err;
}
