/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of the dual: at given prices pieces do not interact, and the cheapest way for each
 * through its events is a shortest path over three states. The path is exact; that is what makes
 * the result a bound.
 *
 *   A away      the host has the contents, HBM has not
 *   C clean     both have them
 *   D dirty     only HBM has them
 *
 * Between two events whose contents matter:
 *   A -> C  a copy in during one step j, resident from j on
 *   C -> A  free
 *   D -> A  a copy out during one step j, resident until before j
 *   D -> C  a copy out during one step, resident throughout
 * The cheapest j is a minimum over a range of steps, found in tables that are made once for each
 * set of prices. Where contents do not matter all changes are free.
 */
#include "workloads/bound_dual.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AWAY, CLEAN, DIRTY, NR_STATES };

/* How a state was entered before an event, and used at it. */
enum {
	FROM_MASK = 3, /* state after the event before */
	COPY_OUT = 4,  /* copied out between */
	COPY_IN = 8,   /* copied in between, after it went or was away */
	IN_PLACE = 16, /* clean, but used in place */
};

/* Minima over ranges of steps: level l holds the index of the least of 2^l keys from a step on. */
struct range_min {
	double *key;
	uint32_t **level;
};

struct bound_dual {
	const struct bound_model *model;
	uint32_t nr_levels;
	struct range_min copy_in;    /* cost of a copy in, less the capacity price of all before */
	struct range_min copy_out;   /* cost of a copy out, plus the same */
	struct range_min write_back; /* cost of a copy out */
	double *prefix;		     /* capacity price of a byte through all steps before */
	double *resident;	     /* gradient: change of resident bytes from a step on */
	double *used;		     /* gradient: resident bytes at events */
	uint8_t (*how)[NR_STATES];   /* by event of one piece */
	uint32_t *memory;	     /* of all levels */
};

int bound_prices_init(struct bound_prices *p, uint32_t nr_steps)
{
	p->nr_steps = nr_steps;
	p->time = calloc((size_t)nr_steps + 1, sizeof(*p->time));
	p->capacity = calloc((size_t)nr_steps + 1, sizeof(*p->capacity));
	if (p->time && p->capacity)
		return 0;
	bound_prices_fini(p);
	return -ENOMEM;
}

void bound_prices_fini(struct bound_prices *p)
{
	free(p->time);
	free(p->capacity);
	p->time = NULL;
	p->capacity = NULL;
}

static uint32_t log2_floor(uint32_t v)
{
	return 31 - (uint32_t)__builtin_clz(v);
}

static int range_min_init(struct range_min *r, uint32_t n, uint32_t nr_levels, uint32_t *memory)
{
	r->key = calloc((size_t)n + 1, sizeof(*r->key));
	r->level = calloc((size_t)nr_levels, sizeof(*r->level));
	if (!r->key || !r->level)
		return -ENOMEM;
	for (uint32_t l = 0; l < nr_levels; l++)
		r->level[l] = memory + (size_t)l * n;
	return 0;
}

static void range_min_fill(struct range_min *r, uint32_t n, uint32_t nr_levels)
{
	for (uint32_t i = 0; i < n; i++)
		r->level[0][i] = i;
	for (uint32_t l = 1; l < nr_levels; l++) {
		uint32_t half = 1u << (l - 1);

		for (uint32_t i = 0; i + 2 * half <= n; i++) {
			uint32_t a = r->level[l - 1][i], b = r->level[l - 1][i + half];

			r->level[l][i] = r->key[b] < r->key[a] ? b : a;
		}
	}
}

/* The step in from .. to (inclusive) with the least key; the earliest of two. */
static uint32_t range_min_find(const struct range_min *r, uint32_t from, uint32_t to)
{
	uint32_t l = log2_floor(to - from + 1);
	uint32_t a = r->level[l][from], b = r->level[l][to + 1 - (1u << l)];

	return r->key[b] < r->key[a] ? b : a;
}

int bound_dual_create(const struct bound_model *model, struct bound_dual **out)
{
	uint32_t n = model->nr_steps, most = 1;
	struct bound_dual *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->nr_pieces; i++) {
		if (model->pieces[i].nr_events > most)
			most = model->pieces[i].nr_events;
	}
	d->model = model;
	d->nr_levels = n ? log2_floor(n) + 1 : 1;
	d->memory = calloc((size_t)n * d->nr_levels * 3 + 1, sizeof(*d->memory));
	d->prefix = calloc((size_t)n + 1, sizeof(*d->prefix));
	d->resident = calloc((size_t)n + 2, sizeof(*d->resident));
	d->used = calloc((size_t)n + 1, sizeof(*d->used));
	d->how = calloc(most, sizeof(*d->how));
	if (!d->memory || !d->prefix || !d->resident || !d->used || !d->how)
		goto err_dual;
	if (range_min_init(&d->copy_in, n, d->nr_levels, d->memory) ||
	    range_min_init(&d->copy_out, n, d->nr_levels, d->memory + (size_t)n * d->nr_levels) ||
	    range_min_init(&d->write_back, n, d->nr_levels,
			   d->memory + (size_t)n * d->nr_levels * 2))
		goto err_dual;
	*out = d;
	return 0;

err_dual:
	bound_dual_destroy(d);
	return -ENOMEM;
}

static void range_min_fini(struct range_min *r)
{
	free(r->key);
	free(r->level);
}

void bound_dual_destroy(struct bound_dual *d)
{
	if (!d)
		return;
	range_min_fini(&d->copy_in);
	range_min_fini(&d->copy_out);
	range_min_fini(&d->write_back);
	free(d->memory);
	free(d->prefix);
	free(d->resident);
	free(d->used);
	free(d->how);
	free(d);
}

/* Price of a byte that goes in, or out, during a step. */
static double price_in(const struct bound_rates *r, const double *time)
{
	return time[BOUND_LINK_IN] * r->in_ns + time[BOUND_LINK_OUT] * r->out_of_in_ns;
}

static double price_out(const struct bound_rates *r, const double *time)
{
	return time[BOUND_LINK_OUT] * r->out_ns + time[BOUND_LINK_IN] * r->in_of_out_ns;
}

/* Fill the tables for a set of prices. */
static void prepare(struct bound_dual *d, const struct bound_prices *p)
{
	const struct bound_model *m = d->model;

	d->prefix[0] = 0;
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		double out = price_out(&m->rates, p->time[i]);

		d->copy_in.key[i] = price_in(&m->rates, p->time[i]) - d->prefix[i];
		d->copy_out.key[i] = out + d->prefix[i];
		d->write_back.key[i] = out;
		d->prefix[i + 1] = d->prefix[i] + p->capacity[i] / m->budget_bytes;
	}
	range_min_fill(&d->copy_in, m->nr_steps, d->nr_levels);
	range_min_fill(&d->copy_out, m->nr_steps, d->nr_levels);
	range_min_fill(&d->write_back, m->nr_steps, d->nr_levels);
}

static uint32_t least(const double cost[NR_STATES])
{
	uint32_t best = cost[CLEAN] < cost[AWAY] ? CLEAN : AWAY;

	return cost[DIRTY] < cost[best] ? DIRTY : best;
}

static void relax(double *cost, uint8_t *how, double by, uint32_t way)
{
	if (by < *cost) {
		*cost = by;
		*how = (uint8_t)way;
	}
}

/* The first step in which a copy in may flow: during the event before if that only reads. */
static uint32_t copy_in_from(const struct bound_event *e)
{
	if (e->flags & BOUND_FIRST)
		return 0;
	return e[-1].flags & BOUND_WRITES ? e[-1].step + 1 : e[-1].step;
}

static uint32_t gap_from(const struct bound_event *e)
{
	return e->flags & BOUND_FIRST ? 0 : e[-1].step + 1;
}

/* From the states after the event before to those in which an event begins. */
static void cross_gap(const struct bound_dual *d, const struct bound_event *e, double bytes,
		      double cost[NR_STATES], uint8_t how[NR_STATES])
{
	double in[NR_STATES], stay, fetch;
	uint32_t from = gap_from(e), j;

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		uint32_t best = least(cost);

		for (int s = 0; s < NR_STATES; s++) {
			in[s] = cost[best];
			how[s] = (uint8_t)best;
		}
		memcpy(cost, in, sizeof(in));
		return;
	}
	stay = bytes * (d->prefix[e->step] - d->prefix[from]);
	in[AWAY] = cost[AWAY];
	how[AWAY] = AWAY;
	relax(&in[AWAY], &how[AWAY], cost[CLEAN], CLEAN);
	in[CLEAN] = cost[CLEAN] + stay;
	how[CLEAN] = CLEAN;
	in[DIRTY] = cost[DIRTY] + stay;
	how[DIRTY] = DIRTY;
	if (cost[DIRTY] < INFINITY) {
		double out, back;

		j = range_min_find(&d->copy_out, from, e->step);
		out = bytes * (d->copy_out.key[j] - d->prefix[from]);
		relax(&in[AWAY], &how[AWAY], cost[DIRTY] + out, DIRTY | COPY_OUT);
		j = range_min_find(&d->write_back, from, e->step);
		back = bytes * d->write_back.key[j];
		relax(&in[CLEAN], &how[CLEAN], cost[DIRTY] + stay + back, DIRTY | COPY_OUT);
	}
	j = range_min_find(&d->copy_in, copy_in_from(e), e->step);
	fetch = bytes * (d->copy_in.key[j] + d->prefix[e->step]);
	relax(&in[CLEAN], &how[CLEAN], in[AWAY] + fetch, how[AWAY] | COPY_IN);
	memcpy(cost, in, sizeof(in));
}

/* Cost of an event by where the piece is. */
static double cost_away(const struct bound_rates *r, const double *time,
			const struct bound_event *e)
{
	double cost = e->in_bytes * price_in(r, time) + e->out_bytes * price_out(r, time);

	for (int i = 0; i < 4; i++)
		cost += e->ns[i] * time[BOUND_IN_NEAR + i];
	return cost;
}

static void use_event(const struct bound_dual *d, const struct bound_event *e, double bytes,
		      const struct bound_prices *p, double cost[NR_STATES], uint8_t how[NR_STATES])
{
	const double *time = p->time[e->step];
	double hold = bytes * p->capacity[e->step] / d->model->budget_bytes;
	double here = e->hbm_ns * time[BOUND_HBM] + hold;
	double away = cost_away(&d->model->rates, time, e);

	cost[AWAY] += away;
	if (!(e->flags & BOUND_WRITES)) {
		cost[DIRTY] += here;
		if (away + hold < here) {
			cost[CLEAN] += away + hold;
			how[CLEAN] |= IN_PLACE;
		} else {
			cost[CLEAN] += here;
		}
		return;
	}
	if (cost[CLEAN] < cost[DIRTY]) {
		cost[DIRTY] = cost[CLEAN];
		how[DIRTY] = how[CLEAN];
	}
	cost[DIRTY] += here;
	cost[CLEAN] = INFINITY;
}

static void add_in(const struct bound_rates *r, double *time, double bytes)
{
	time[BOUND_LINK_IN] += bytes * r->in_ns;
	time[BOUND_LINK_OUT] += bytes * r->out_of_in_ns;
}

static void add_out(const struct bound_rates *r, double *time, double bytes)
{
	time[BOUND_LINK_OUT] += bytes * r->out_ns;
	time[BOUND_LINK_IN] += bytes * r->in_of_out_ns;
}

/* Resident during steps from .. to - 1. */
static void add_resident(struct bound_dual *d, uint32_t from, uint32_t to, double bytes)
{
	d->resident[from] += bytes;
	d->resident[to] -= bytes;
}

/* What an event in a state adds to the gradient. */
static void trace_event(struct bound_dual *d, const struct bound_event *e, bool away, bool held,
			double bytes, struct bound_prices *g)
{
	double *time = g->time[e->step];

	if (held)
		d->used[e->step] += bytes;
	if (!away) {
		time[BOUND_HBM] += e->hbm_ns;
		return;
	}
	add_in(&d->model->rates, time, e->in_bytes);
	add_out(&d->model->rates, time, e->out_bytes);
	for (int i = 0; i < 4; i++)
		time[BOUND_IN_NEAR + i] += e->ns[i];
}

/* What a crossing of a gap adds to the gradient. */
static void trace_gap(struct bound_dual *d, const struct bound_event *e, uint32_t state,
		      uint32_t how, double bytes, struct bound_prices *g)
{
	const struct bound_rates *r = &d->model->rates;
	uint32_t from = gap_from(e), j;

	if (!(e->flags & BOUND_LIVE_BEFORE))
		return;
	if (how & COPY_OUT) {
		bool leaves = state == AWAY || (how & COPY_IN);

		j = range_min_find(leaves ? &d->copy_out : &d->write_back, from, e->step);
		add_out(r, g->time[j], bytes);
		add_resident(d, from, leaves ? j : e->step, bytes);
	} else if (state != AWAY && !(how & COPY_IN)) {
		add_resident(d, from, e->step, bytes);
	}
	if (how & COPY_IN) {
		j = range_min_find(&d->copy_in, copy_in_from(e), e->step);
		add_in(r, g->time[j], bytes);
		add_resident(d, j, e->step, bytes);
	}
}

/* Walk the cheapest path of a piece backwards. */
static void trace_piece(struct bound_dual *d, const struct bound_piece *piece, uint32_t state,
			struct bound_prices *g)
{
	const struct bound_event *events = &d->model->events[piece->first_event];

	for (uint32_t i = piece->nr_events; i-- > 0;) {
		const struct bound_event *e = &events[i];
		uint32_t how = d->how[i][state];
		bool away = state == AWAY || (state == CLEAN && (how & IN_PLACE));

		trace_event(d, e, away, state != AWAY, piece->bytes, g);
		trace_gap(d, e, state, how, piece->bytes, g);
		state = how & FROM_MASK;
	}
}

/* The least cost of one piece. */
static double piece_value(struct bound_dual *d, const struct bound_piece *piece,
			  const struct bound_prices *p, struct bound_prices *gradient)
{
	const struct bound_event *events = &d->model->events[piece->first_event];
	double cost[NR_STATES] = {0, 0, INFINITY};
	uint32_t best;

	for (uint32_t i = 0; i < piece->nr_events; i++) {
		cross_gap(d, &events[i], piece->bytes, cost, d->how[i]);
		use_event(d, &events[i], piece->bytes, p, cost, d->how[i]);
	}
	best = least(cost);
	if (gradient)
		trace_piece(d, piece, best, gradient);
	return cost[best];
}

static void gradient_start(struct bound_dual *d, struct bound_prices *g)
{
	const struct bound_model *m = d->model;

	memset(d->resident, 0, ((size_t)m->nr_steps + 2) * sizeof(*d->resident));
	memset(d->used, 0, ((size_t)m->nr_steps + 1) * sizeof(*d->used));
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		const struct bound_step *s = &m->steps[i];

		memset(g->time[i], 0, sizeof(g->time[i]));
		g->time[i][BOUND_FIXED] = s->fixed_ns;
		g->time[i][BOUND_HBM] = s->hbm_ns;
		for (int l = 0; l < 4; l++)
			g->time[i][BOUND_IN_NEAR + l] = -s->slack_ns[l];
	}
}

static void gradient_finish(const struct bound_dual *d, struct bound_prices *g)
{
	const struct bound_model *m = d->model;
	double resident = 0;

	for (uint32_t i = 0; i < m->nr_steps; i++) {
		resident += d->resident[i];
		g->capacity[i] = (resident + d->used[i]) / m->budget_bytes - 1;
	}
}

double bound_dual_value(struct bound_dual *d, const struct bound_prices *p,
			struct bound_prices *gradient)
{
	const struct bound_model *m = d->model;
	double value = 0;

	prepare(d, p);
	if (gradient)
		gradient_start(d, gradient);
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		const struct bound_step *s = &m->steps[i];
		double step = p->time[i][BOUND_FIXED] * s->fixed_ns +
			      p->time[i][BOUND_HBM] * s->hbm_ns - p->capacity[i];

		for (int l = 0; l < 4; l++)
			step -= p->time[i][BOUND_IN_NEAR + l] * s->slack_ns[l];
		value += step;
	}
	for (uint32_t i = 0; i < m->nr_pieces; i++)
		value += piece_value(d, &m->pieces[i], p, gradient);
	if (gradient)
		gradient_finish(d, gradient);
	return value;
}
