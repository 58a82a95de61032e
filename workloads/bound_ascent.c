/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ascent on the dual: gradient steps with momentum, each coordinate scaled by the size of its
 * recent gradients (as Adam does), with step lengths that fall geometrically. The dual is concave
 * but not smooth, and this way of climbing does not mind; nothing depends on its convergence,
 * since every point on the way is a bound and the best is kept.
 *
 * Time prices of a step are kept positive and adding up to one by writing them as exp(x_r) over
 * the sum of all exp(x_r); capacity prices are cut off at 0.
 *
 * Iterative programs launch the same few kernels hundreds of times in a row. The prices of such
 * repetitions are about the same, and are tied: a repetition of n rounds of q launches has BUCKETS
 * * q prices, each shared by the same launch of n / BUCKETS neighbouring rounds. That makes the
 * search short; a tie that is wrong makes the bound lower, never invalid.
 */
#include "workloads/bound_ascent.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 16u   /* groups of rounds in a repetition that share prices */
#define PERIOD_MAX 8u /* launches of a round */

/* Search: the most evaluations, and the most events visited in them altogether. */
#define NR_ROUNDS 700u
#define NR_ROUNDS_LINK 80u
#define NR_ROUNDS_MIN 40u
#define NR_EVENTS 12000000u

#define STEP_FIRST 1.0
#define STEP_LAST 0.005
#define MOMENTUM 0.9
#define SQUARE_MEMORY 0.99
#define LOG_LEAST (-14.0)  /* of a time price, relative to the largest of its step */
#define PRICE_START 0.004  /* of resources that the start has no use for */
#define IN_PLACE_SCALE 0.2 /* weight of the time in place in the unit of capacity prices */

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* One coordinate: its value, and running means of its gradient and of the gradient's square. */
struct coordinate {
	double x, mean, square;
};

/* Steps that share prices. */
struct group {
	struct coordinate time[BOUND_RESOURCE_NR];
	struct coordinate capacity; /* in units of scale_ns */
	double price[BOUND_RESOURCE_NR];
	double gradient[BOUND_RESOURCE_NR], gradient_capacity; /* sums over its steps */
	double scale_ns; /* about how long one of its steps lasts */
	uint32_t nr_steps;
};

struct ascent {
	const struct bound_model *model;
	enum bound_ascent_mode mode;
	struct bound_dual *dual;
	struct bound_prices prices, gradient;
	struct group *groups;
	uint32_t nr_groups;
	uint32_t *group_of; /* by step */
};

/* ------------------------------------------------------------------ groups */

static uint64_t hash_u64(uint64_t h, uint64_t v)
{
	for (int i = 0; i < 8; i++, v >>= 8)
		h = (h ^ (v & 0xff)) * FNV_PRIME;
	return h;
}

/* What makes two steps alike: kernel and sizes, not the lives they touch. Two that are not alike
 * and hash the same share prices, which is allowed. */
static uint64_t step_hash(const struct trace *t, const struct trace_step *step)
{
	uint64_t h = FNV_OFFSET, ops;

	for (const char *c = step->name ? step->name : ""; *c; c++)
		h = (h ^ (uint8_t)*c) * FNV_PRIME;
	memcpy(&ops, &step->ops, sizeof(ops));
	h = hash_u64(h, ops);
	for (uint32_t i = step->first_use; i < step->first_use + step->nr_uses; i++) {
		const struct trace_use *u = &t->uses[i];

		h = hash_u64(h, u->bytes);
		h = hash_u64(h, u->read_bytes);
		h = hash_u64(h, u->write_bytes);
		h = hash_u64(h, (uint64_t)u->granule << 8 | (uint64_t)u->kind << 4 |
					(uint64_t)u->pattern);
	}
	return h;
}

/* The rounds of q steps that repeat from a step on. */
static uint32_t count_rounds(const uint64_t *hash, uint32_t nr, uint32_t from, uint32_t q)
{
	uint32_t i = from;

	while (i + q < nr && hash[i] == hash[i + q])
		i++;
	return (i - from) / q + 1;
}

/* The period that covers most steps from a step on, and its rounds; 1 round: no repetition. */
static uint32_t find_period(const uint64_t *hash, uint32_t nr, uint32_t from, uint32_t *nr_rounds)
{
	uint32_t best = 1, covered = 0;

	*nr_rounds = 1;
	for (uint32_t q = 1; q <= PERIOD_MAX && from + q <= nr; q++) {
		uint32_t rounds = count_rounds(hash, nr, from, q);

		if (rounds >= 2 * BUCKETS && rounds * q > covered) {
			best = q;
			covered = rounds * q;
			*nr_rounds = rounds;
		}
	}
	return best;
}

static void group_steps(struct ascent *a, const uint64_t *hash)
{
	uint32_t nr = a->model->nr_steps, rounds, q;

	for (uint32_t s = 0; s < nr; s += rounds * q) {
		uint32_t buckets;

		q = find_period(hash, nr, s, &rounds);
		buckets = rounds > 1 ? BUCKETS : 1;
		for (uint32_t i = 0; i < rounds * q; i++) {
			uint32_t bucket = (uint32_t)((uint64_t)(i / q) * buckets / rounds);

			a->group_of[s + i] = a->nr_groups + bucket * q + i % q;
		}
		a->nr_groups += buckets * q;
	}
}

/* ------------------------------------------------------------------ start */

void bound_step_reliefs(const struct bound_model *model, double *hbm_ns, double *relief)
{
	for (uint32_t i = 0; i < model->nr_steps; i++) {
		hbm_ns[i] = model->steps[i].hbm_ns;
		relief[i] = 0;
	}
	for (uint32_t i = 0; i < model->nr_events; i++) {
		const struct bound_event *e = &model->events[i];
		double away = e->ns[0] + e->ns[2];

		hbm_ns[e->step] += e->hbm_ns;
		if (away > 0)
			relief[e->step] = fmax(relief[e->step], e->hbm_ns / away);
	}
}

/*
 * With a price of 1 on HBM and of relief on each way in place, nothing gains by being away: a use
 * pays relief * (in + out) >= hbm there. The price left over from 1 + 2 * relief is none.
 */
double bound_step_alone(const struct bound_step *step, double hbm_ns, double relief,
			double time[BOUND_RESOURCE_NR])
{
	double own = hbm_ns / (1 + 2 * relief);

	memset(time, 0, BOUND_RESOURCE_NR * sizeof(*time));
	if (step->fixed_ns >= own) {
		time[BOUND_FIXED] = 1;
		return step->fixed_ns;
	}
	time[BOUND_HBM] = 1 / (1 + 2 * relief);
	time[BOUND_IN_NEAR] = relief / (1 + 2 * relief);
	time[BOUND_OUT_NEAR] = time[BOUND_IN_NEAR];
	return own;
}

/* Groups begin with the prices of their first step. */
static int start(struct ascent *a)
{
	const struct bound_model *m = a->model;
	double *hbm_ns = calloc((size_t)m->nr_steps + 1, sizeof(*hbm_ns));
	double *relief = calloc((size_t)m->nr_steps + 1, sizeof(*relief));
	double *away_ns = calloc((size_t)m->nr_steps + 1, sizeof(*away_ns));
	int err = -ENOMEM;

	if (!hbm_ns || !relief || !away_ns)
		goto out;
	bound_step_reliefs(m, hbm_ns, relief);
	for (uint32_t i = 0; i < m->nr_events; i++)
		away_ns[m->events[i].step] += m->events[i].ns[0] + m->events[i].ns[2];
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		struct group *g = &a->groups[a->group_of[i]];
		double time[BOUND_RESOURCE_NR];

		if (g->nr_steps++)
			continue;
		bound_step_alone(&m->steps[i], hbm_ns[i], relief[i], time);
		for (int r = 0; r < BOUND_RESOURCE_NR; r++)
			g->time[r].x = log(fmax(time[r], PRICE_START));
		g->scale_ns =
			1 + fmax(hbm_ns[i], m->steps[i].fixed_ns) + IN_PLACE_SCALE * away_ns[i];
	}
	err = 0;
out:
	free(hbm_ns);
	free(relief);
	free(away_ns);
	return err;
}

/* ------------------------------------------------------------------ search */

/* Resources before it have no price. */
static int first_resource(enum bound_ascent_mode mode)
{
	return mode == BOUND_ASCENT_LINK ? BOUND_LINK_IN : BOUND_FIXED;
}

/* Turn a group's coordinates into time prices. */
static void group_price(struct group *g, enum bound_ascent_mode mode)
{
	double most = -INFINITY, sum = 0;

	for (int r = first_resource(mode); r < BOUND_RESOURCE_NR; r++)
		most = fmax(most, g->time[r].x);
	for (int r = first_resource(mode); r < BOUND_RESOURCE_NR; r++) {
		g->time[r].x = fmax(g->time[r].x - most, LOG_LEAST);
		g->price[r] = exp(g->time[r].x);
		sum += g->price[r];
	}
	for (int r = first_resource(mode); r < BOUND_RESOURCE_NR; r++)
		g->price[r] /= sum;
}

static void spread_prices(struct ascent *a)
{
	for (uint32_t i = 0; i < a->nr_groups; i++)
		group_price(&a->groups[i], a->mode);
	for (uint32_t i = 0; i < a->model->nr_steps; i++) {
		const struct group *g = &a->groups[a->group_of[i]];

		memcpy(a->prices.time[i], g->price, sizeof(g->price));
		a->prices.capacity[i] = g->capacity.x * g->scale_ns;
	}
}

static void gather_gradient(struct ascent *a)
{
	for (uint32_t i = 0; i < a->nr_groups; i++) {
		memset(a->groups[i].gradient, 0, sizeof(a->groups[i].gradient));
		a->groups[i].gradient_capacity = 0;
	}
	for (uint32_t i = 0; i < a->model->nr_steps; i++) {
		struct group *g = &a->groups[a->group_of[i]];

		for (int r = 0; r < BOUND_RESOURCE_NR; r++)
			g->gradient[r] += a->gradient.time[i][r];
		g->gradient_capacity += a->gradient.capacity[i];
	}
}

/* Corrections for the running means' start from 0. */
struct pace {
	double step, mean, square;
};

static void move(struct coordinate *c, double gradient, const struct pace *pace)
{
	double size;

	c->mean = MOMENTUM * c->mean + (1 - MOMENTUM) * gradient;
	c->square = SQUARE_MEMORY * c->square + (1 - SQUARE_MEMORY) * gradient * gradient;
	size = sqrt(c->square / pace->square);
	if (size > 0)
		c->x += pace->step * c->mean / pace->mean / size;
}

static void group_move(struct group *g, enum bound_ascent_mode mode, const struct pace *pace)
{
	double unit = 1 / (g->nr_steps * g->scale_ns), mean = 0;

	for (int r = first_resource(mode); r < BOUND_RESOURCE_NR; r++)
		mean += g->price[r] * g->gradient[r];
	for (int r = first_resource(mode); r < BOUND_RESOURCE_NR; r++)
		move(&g->time[r], (g->gradient[r] - mean) * unit, pace);
	move(&g->capacity, g->gradient_capacity / g->nr_steps, pace);
	g->capacity.x = fmax(g->capacity.x, 0);
}

static uint32_t nr_rounds(const struct ascent *a)
{
	uint32_t most = a->mode == BOUND_ASCENT_ALL ? NR_ROUNDS : NR_ROUNDS_LINK;
	uint32_t nr = NR_EVENTS / (a->model->nr_events + a->model->nr_steps + 1);

	if (nr > most)
		return most;
	return nr < NR_ROUNDS_MIN ? NR_ROUNDS_MIN : nr;
}

static double climb(struct ascent *a)
{
	uint32_t nr = nr_rounds(a);
	double best = 0, mean = 1, square = 1;

	for (uint32_t k = 0; k < nr; k++) {
		struct pace pace;
		double value;

		spread_prices(a);
		value = bound_dual_value(a->dual, &a->prices, &a->gradient);
		best = fmax(best, value);
		gather_gradient(a);
		mean *= MOMENTUM;
		square *= SQUARE_MEMORY;
		pace.step = STEP_FIRST * pow(STEP_LAST / STEP_FIRST, (double)k / nr);
		pace.mean = 1 - mean;
		pace.square = 1 - square;
		for (uint32_t i = 0; i < a->nr_groups; i++)
			group_move(&a->groups[i], a->mode, &pace);
	}
	return best;
}

static int ascent_init(struct ascent *a, const struct trace *trace)
{
	uint32_t nr = a->model->nr_steps;
	uint64_t *hash = calloc((size_t)nr + 1, sizeof(*hash));
	int err = -ENOMEM;

	a->group_of = calloc((size_t)nr + 1, sizeof(*a->group_of));
	a->groups = calloc((size_t)nr + 1, sizeof(*a->groups));
	if (!hash || !a->group_of || !a->groups)
		goto out;
	for (uint32_t s = 0; s < nr; s++)
		hash[s] = step_hash(trace, &trace->steps[s]);
	group_steps(a, hash);
	err = start(a);
	if (err)
		goto out;
	err = bound_dual_create(a->model, &a->dual);
	if (err)
		goto out;
	err = bound_prices_init(&a->prices, nr);
	if (err)
		goto out;
	err = bound_prices_init(&a->gradient, nr);
out:
	free(hash);
	return err;
}

static void ascent_fini(struct ascent *a)
{
	bound_prices_fini(&a->gradient);
	bound_prices_fini(&a->prices);
	bound_dual_destroy(a->dual);
	free(a->groups);
	free(a->group_of);
}

int bound_ascent(const struct bound_model *model, const struct trace *trace,
		 enum bound_ascent_mode mode, double *out)
{
	struct ascent a = {.model = model, .mode = mode};
	int err = ascent_init(&a, trace);

	if (!err)
		*out = climb(&a);
	ascent_fini(&a);
	return err;
}
