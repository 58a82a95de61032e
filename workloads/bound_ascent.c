/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search: ascent on the softened dual (bound_soft.c), by steps along its slope with momentum,
 * each coordinate scaled by its recent slopes (as Adam does). Softness and step length fall
 * together, geometrically. Every few steps the exact dual is evaluated, and the best value counts:
 * every point on the way is a bound, so nothing depends on convergence.
 *
 * Time prices of a step are positive and add up to one because they are written as exp(x_r) over
 * the sum of all exp(x_r); capacity prices are cut off at 0.
 */
#include "workloads/bound_ascent.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/bound_dual.h"
#include "workloads/bound_soft.h"

/* Steps of the search; and events and launches visited in them altogether, which has it shorter
 * for very long traces. */
#define NR_ROUNDS 800u
#define NR_ROUNDS_MIN 60u
#define NR_VISITS 20000000u
#define NR_ROUNDS_EXACT 10u /* from one exact evaluation to the next */

#define SOFTNESS_FIRST 0.05 /* of the time of a byte over the fastest link */
#define SOFTNESS_LAST 3e-4
#define STEP_FIRST 2.0
#define STEP_LAST 0.01
#define MOMENTUM 0.9f
#define SQUARE_MEMORY 0.97f
#define LOG_LEAST (-14.0f) /* of a time price, relative to the largest of its step */
#define LOG_START (-5.5f)  /* the same, of all resources but the kernel alone, at the start */
#define IN_PLACE_SCALE 0.2 /* weight of the time in place in the unit of capacity prices */

enum { CAPACITY = BOUND_RESOURCE_NR, TOTAL, NR_COORDINATES };

/* With running means of its slopes and of the slopes' squares. */
struct coordinate {
	float x, mean, square;
};

/* The prices of a step: logarithms of time prices but for a constant, and the prices of capacity
 * in units of scale_ns. Of the coordinates those are used for which the model has resources. */
struct place {
	struct coordinate at[NR_COORDINATES];
	double scale_ns; /* about how long the step lasts */
};

struct ascent {
	const struct bound_model *model;
	struct bound_tables tables;
	struct bound_soft *soft;
	struct bound_prices prices, usage;
	struct place *places;
};

/* From the kernels alone. */
static void start(struct ascent *a)
{
	for (uint32_t i = 0; i < a->model->nr_steps; i++) {
		const struct bound_step *s = &a->model->steps[i];
		struct place *p = &a->places[i];

		p->scale_ns = 1 + s->alone_ns + IN_PLACE_SCALE * s->place_ns;
		for (int r = 0; r < a->model->nr_resources; r++)
			p->at[r].x = r == BOUND_ALONE ? 0 : LOG_START;
	}
}

/* Turn a place into time prices. */
static void place_prices(struct place *p, int nr_resources, double *time)
{
	float most = p->at[0].x;
	double sum = 0;

	for (int r = 1; r < nr_resources; r++)
		most = p->at[r].x > most ? p->at[r].x : most;
	for (int r = 0; r < nr_resources; r++) {
		float x = p->at[r].x - most;

		p->at[r].x = x > LOG_LEAST ? x : LOG_LEAST;
		time[r] = (double)expf(p->at[r].x);
		sum += time[r];
	}
	for (int r = 0; r < nr_resources; r++)
		time[r] /= sum;
}

static void set_prices(struct ascent *a)
{
	for (uint32_t i = 0; i < a->model->nr_steps; i++) {
		struct place *p = &a->places[i];

		place_prices(p, a->model->nr_resources, a->prices.time[i]);
		a->prices.capacity[i] = (double)p->at[CAPACITY].x * p->scale_ns;
		a->prices.total[i] = (double)p->at[TOTAL].x * p->scale_ns;
	}
}

/* How far to go. All zero before the first step. */
struct pace {
	float step;
	float mean, square;		 /* corrections for the running means' start from 0 */
	double mean_share, square_share; /* of the means that is not of that start */
};

static void pace_next(struct pace *p, double step)
{
	p->mean_share = 1 - (1 - p->mean_share) * (double)MOMENTUM;
	p->square_share = 1 - (1 - p->square_share) * (double)SQUARE_MEMORY;
	p->step = (float)step;
	p->mean = (float)(1 / p->mean_share);
	p->square = (float)(1 / p->square_share);
}

static void coordinate_move(struct coordinate *c, double slope, const struct pace *p)
{
	float s = (float)slope;

	c->mean = MOMENTUM * c->mean + (1 - MOMENTUM) * s;
	c->square = SQUARE_MEMORY * c->square + (1 - SQUARE_MEMORY) * s * s;
	c->x += p->step * c->mean * p->mean / (sqrtf(c->square * p->square) + 1e-12f);
}

/* A price of capacity goes along its slope, which is in budgets, but not below 0. */
static void capacity_move(struct coordinate *c, double beyond, const struct pace *pace)
{
	coordinate_move(c, beyond, pace);
	if (c->x < 0)
		c->x = 0;
}

/* Step i goes along the slope. */
static void place_move(struct ascent *a, uint32_t i, const struct pace *pace)
{
	const double *time = a->prices.time[i], *busy = a->usage.time[i];
	struct place *p = &a->places[i];
	int nr = a->model->nr_resources;
	double mean = 0;

	for (int r = 0; r < nr; r++)
		mean += time[r] * busy[r];
	for (int r = 0; r < nr; r++)
		coordinate_move(&p->at[r], (busy[r] - mean) / p->scale_ns, pace);
	capacity_move(&p->at[CAPACITY], a->usage.capacity[i], pace);
	if (a->model->near_bytes > 0)
		capacity_move(&p->at[TOTAL], a->usage.total[i], pace);
}

static uint32_t nr_rounds(const struct bound_model *m)
{
	uint32_t nr = NR_VISITS / (m->nr_events + m->nr_steps + 1);

	if (nr > NR_ROUNDS)
		return NR_ROUNDS;
	return nr < NR_ROUNDS_MIN ? NR_ROUNDS_MIN : nr;
}

/* From first to last, geometrically. */
static double fall(double first, double last, double share)
{
	return first * pow(last / first, share);
}

static double climb(struct ascent *a)
{
	const struct bound_model *m = a->model;
	struct pace pace = {0};
	uint32_t nr = nr_rounds(m);
	double best = -INFINITY, byte_ns = m->rates.in_ns;

	if (m->near_bytes > 0)
		byte_ns = min_double(byte_ns, m->near_rates.in_ns);
	for (uint32_t k = 0; k < nr; k++) {
		double share = (double)k / nr;
		double softness = byte_ns * fall(SOFTNESS_FIRST, SOFTNESS_LAST, share);

		set_prices(a);
		bound_tables_fill(&a->tables, &a->prices);
		if (k % NR_ROUNDS_EXACT == 0 || k + 1 == nr)
			best = fmax(best, bound_dual_value(&a->tables, &a->prices));
		bound_soft_usage(a->soft, &a->tables, &a->prices, softness, &a->usage);
		pace_next(&pace, fall(STEP_FIRST, STEP_LAST, share));
		for (uint32_t i = 0; i < m->nr_steps; i++)
			place_move(a, i, &pace);
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

int bound_ascent(const struct bound_model *model, double *out)
{
	struct ascent a = {.model = model};
	int err = ascent_init(&a);

	if (!err) {
		start(&a);
		*out = climb(&a);
	}
	ascent_fini(&a);
	return err;
}
