/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices of copies by when they are made, with minima over ranges of steps.
 */
#include "workloads/bound_tables.h"

#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"

/*
 * Near memory takes over from own memory; the host gets the byte; near and own memory get it from
 * the host; own memory gets it from near memory; and near memory once more. docs/bound.md shows
 * that no other order costs less, as own memory is never cheaper to be in than near memory and the
 * host's links are one resource.
 */
const struct bound_move bound_moves[BOUND_MOVE_NR] = {
	{BOUND_AT_OWN, BOUND_AT_NEAR, BOUND_AT_NEAR, BOUND_AT_OWN, BOUND_WAY_NEAR_OUT},
	{BOUND_AT_OWN | BOUND_AT_NEAR, BOUND_AT_HOST, BOUND_AT_HOST, 0, BOUND_WAY_OUT},
	{BOUND_AT_OWN, BOUND_AT_HOST | BOUND_AT_NEAR, BOUND_AT_HOST, BOUND_AT_OWN, BOUND_WAY_OUT},
	{BOUND_AT_NEAR, BOUND_AT_HOST | BOUND_AT_OWN, BOUND_AT_HOST, BOUND_AT_NEAR, BOUND_WAY_OUT},
	{BOUND_AT_HOST, BOUND_AT_NEAR, BOUND_AT_NEAR, 0, BOUND_WAY_IN},
	{BOUND_AT_HOST, BOUND_AT_OWN, BOUND_AT_OWN, 0, BOUND_WAY_IN},
	{BOUND_AT_NEAR, BOUND_AT_OWN, BOUND_AT_OWN, 0, BOUND_WAY_NEAR_IN},
	{BOUND_AT_NEAR, BOUND_AT_OWN, BOUND_AT_OWN, BOUND_AT_NEAR, BOUND_WAY_NEAR_IN},
	{BOUND_AT_OWN, BOUND_AT_NEAR, BOUND_AT_NEAR, 0, BOUND_WAY_NEAR_OUT},
	{BOUND_AT_HOST, BOUND_AT_NEAR, BOUND_AT_NEAR, 0, BOUND_WAY_IN},
};

#define CHUNK 16u /* keys that the lowest level takes together */

int bound_prices_init(struct bound_prices *p, uint32_t nr_steps)
{
	p->time = calloc((size_t)nr_steps + 1, sizeof(*p->time));
	p->capacity = calloc((size_t)nr_steps + 1, sizeof(*p->capacity));
	p->total = calloc((size_t)nr_steps + 1, sizeof(*p->total));
	if (p->time && p->capacity && p->total)
		return 0;
	bound_prices_fini(p);
	return -ENOMEM;
}

void bound_prices_fini(struct bound_prices *p)
{
	free(p->time);
	free(p->capacity);
	free(p->total);
	*p = (struct bound_prices){0};
}

/* ------------------------------------------------------------------ ranges */

static int range_init(struct bound_range *r, uint32_t nr_keys)
{
	uint32_t nr_chunks = nr_keys / CHUNK;

	r->nr_keys = nr_keys;
	r->nr_levels = nr_chunks ? log2_floor(nr_chunks) + 1 : 0;
	r->key = calloc((size_t)nr_keys + 1, sizeof(*r->key));
	r->level = calloc((size_t)r->nr_levels + 1, sizeof(*r->level));
	if (!r->key || !r->level)
		return -ENOMEM;
	for (uint32_t l = 0; l < r->nr_levels; l++) {
		r->level[l] = calloc(nr_chunks, sizeof(*r->level[l]));
		if (!r->level[l])
			return -ENOMEM;
	}
	return 0;
}

static void range_fini(struct bound_range *r)
{
	for (uint32_t l = 0; r->level && l < r->nr_levels; l++)
		free(r->level[l]);
	free(r->level);
	free(r->key);
}

/* The index with the lesser key, a of equals. */
static uint32_t lesser(const struct bound_range *r, uint32_t a, uint32_t b)
{
	return r->key[b] < r->key[a] ? b : a;
}

/* As bound_range_least(), one by one. */
static uint32_t scan(const struct bound_range *r, uint32_t from, uint32_t to)
{
	uint32_t best = from;

	for (uint32_t i = from + 1; i <= to; i++)
		best = lesser(r, best, i);
	return best;
}

static void range_fill(struct bound_range *r)
{
	uint32_t nr_chunks = r->nr_keys / CHUNK;

	for (uint32_t i = 0; i < nr_chunks; i++)
		r->level[0][i] = scan(r, i * CHUNK, i * CHUNK + CHUNK - 1);
	for (uint32_t l = 1; l < r->nr_levels; l++) {
		const uint32_t *below = r->level[l - 1];
		uint32_t half = 1u << (l - 1);

		for (uint32_t i = 0; i + 2 * half <= nr_chunks; i++)
			r->level[l][i] = lesser(r, below[i], below[i + half]);
	}
}

uint32_t bound_range_least(const struct bound_range *r, uint32_t from, uint32_t to)
{
	/* whole chunks inside: first .. end - 1 */
	uint32_t first = (from + CHUNK - 1) / CHUNK, end = (to + 1) / CHUNK, best, l;

	if (first >= end)
		return scan(r, from, to);
	l = log2_floor(end - first);
	best = lesser(r, r->level[l][first], r->level[l][end - (1u << l)]);
	if (from < first * CHUNK)
		best = lesser(r, scan(r, from, first * CHUNK - 1), best);
	if (end * CHUNK <= to)
		best = lesser(r, best, scan(r, end * CHUNK, to));
	return best;
}

/* ------------------------------------------------------------------ tables */

int bound_tables_init(struct bound_tables *t, const struct bound_model *model)
{
	uint32_t n = model->nr_steps;

	*t = (struct bound_tables){.model = model};
	t->charge = calloc((size_t)n + 1, sizeof(*t->charge));
	t->prefix = calloc((size_t)n + 1, sizeof(*t->prefix));
	t->near_prefix = calloc((size_t)n + 1, sizeof(*t->near_prefix));
	if (!t->charge || !t->prefix || !t->near_prefix)
		goto err_tables;
	if (range_init(&t->copy_in, n) || range_init(&t->copy_out, n) ||
	    range_init(&t->write_back, n))
		goto err_tables;
	for (int i = 0; i < BOUND_MOVE_NR && model->near_bytes > 0; i++)
		if (range_init(&t->move[i], n))
			goto err_tables;
	return 0;

err_tables:
	bound_tables_fini(t);
	return -ENOMEM;
}

void bound_tables_fini(struct bound_tables *t)
{
	range_fini(&t->copy_in);
	range_fini(&t->copy_out);
	range_fini(&t->write_back);
	for (int i = 0; i < BOUND_MOVE_NR; i++)
		range_fini(&t->move[i]);
	free(t->charge);
	free(t->prefix);
	free(t->near_prefix);
	*t = (struct bound_tables){0};
}

/* time, capacity, total: the prices of the step. */
static struct bound_charge charge(const struct bound_model *m, const double *time, double capacity,
				  double total)
{
	const struct bound_rates *r = &m->rates, *near = &m->near_rates;
	double link_in = time[BOUND_LINK_IN], link_out = time[BOUND_LINK_OUT];
	struct bound_charge c = {
		.in = link_in * r->in_ns + link_out * r->out_of_in_ns,
		.out = link_out * r->out_ns + link_in * r->in_of_out_ns,
		.hold = capacity / m->budget_bytes,
	};

	if (m->near_bytes > 0) {
		link_in = time[BOUND_NEAR_LINK_IN] * (BOUND_MUTANT == 7 ? 2 : 1);
		link_out = time[BOUND_NEAR_LINK_OUT];
		c.near_in = link_in * near->in_ns + link_out * near->out_of_in_ns;
		c.near_out = link_out * near->out_ns + link_in * near->in_of_out_ns;
		c.near_hold = total / (m->near_bytes + (BOUND_MUTANT == 2 ? 0 : m->budget_bytes));
		c.hold += c.near_hold;
	}
	return c;
}

static double way_price(const struct bound_charge *c, enum bound_way way)
{
	switch (way) {
	case BOUND_WAY_IN:
		return c->in;
	case BOUND_WAY_OUT:
		return c->out;
	case BOUND_WAY_NEAR_IN:
		return c->near_in;
	default:
		return c->near_out;
	}
}

static void move_fill(struct bound_tables *t, int move)
{
	const struct bound_move *m = &bound_moves[move];
	struct bound_range *r = &t->move[move];

	for (uint32_t i = 0; i < t->model->nr_steps; i++) {
		r->key[i] = way_price(&t->charge[i], m->way) +
			    bound_hold(m->drops, t->prefix[i], t->near_prefix[i]) -
			    bound_hold(m->adds, t->prefix[i], t->near_prefix[i]);
	}
	range_fill(r);
}

void bound_tables_fill(struct bound_tables *t, const struct bound_prices *p)
{
	const struct bound_model *m = t->model;

	t->prefix[0] = t->near_prefix[0] = 0;
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		struct bound_charge c = charge(m, p->time[i], p->capacity[i], p->total[i]);

		t->charge[i] = c;
		t->copy_in.key[i] = c.in - t->prefix[i];
		t->copy_out.key[i] = c.out + t->prefix[i];
		t->write_back.key[i] = c.out;
		t->prefix[i + 1] = t->prefix[i] + c.hold;
		t->near_prefix[i + 1] = t->near_prefix[i] + c.near_hold;
	}
	if (m->near_bytes > 0) {
		for (int i = 0; i < BOUND_MOVE_NR; i++)
			move_fill(t, i);
		return;
	}
	range_fill(&t->copy_in);
	range_fill(&t->copy_out);
	range_fill(&t->write_back);
}

double bound_price_away(const struct bound_event *e, const double *time,
			const struct bound_charge *c)
{
	double price = e->in_bytes * c->in + e->out_bytes * c->out;

	for (int i = 0; i < 4; i++)
		price += e->ns[i] * time[BOUND_IN_WITHIN + i];
	return price;
}

double bound_price_near(const struct bound_event *e, const double *time,
			const struct bound_charge *c)
{
	return e->in_bytes * c->near_in + e->out_bytes * c->near_out +
	       e->near_ns[0] * time[BOUND_NEAR_IN] + e->near_ns[1] * time[BOUND_NEAR_OUT];
}
