/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual with each minimum over ways replaced by -s log(sum of exp(-cost / s)), s the softness
 * times the piece's bytes, and its slope, found by one walk forwards and one backwards through
 * each piece's events. The states and the ways between them are those of bound_dual.c.
 *
 * Why softened: where a large piece has two ways at about the same price, the cheapest one jumps
 * from one to the other at the least change of any price on its way, and ascent along such a
 * slope creeps. The softened piece takes a share of each, as it does in the optimum.
 *
 * Exactness is not needed here: exponentials are single precision and small shares are dropped.
 */
#include "workloads/bound_soft.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "workloads/bound_near.h"

/* Pieces below this share of the budget make each copy at its cheapest step: there are many such
 * pieces, each with a cheapest step of its own. */
#define LEAST_SPREAD (1.0 / 256)

/* Shares that the walk forwards leaves for the walk backwards. */
struct shares {
	double away[BOUND_STATE_NR];  /* of what begins the event away: by state before; of every
					 state if contents do not matter */
	double clean[BOUND_STATE_NR]; /* of what begins it clean: AWAY means copied in */
	double written_clean;	      /* of what a write leaves dirty: was clean */
	double out_key, in_key;	      /* softened minima over the steps of copies */
};

struct bound_soft {
	const struct bound_model *model;
	struct shares *shares;		/* by event of one piece */
	struct bound_near_shares *near; /* the same with near memory; else NULL */
	double *resident;		/* change of resident bytes from a step on */
	double *used;			/* resident bytes at events */
	double *near_resident, *near_used;
};

/* One piece's walk. */
struct walk {
	struct bound_soft *soft;
	const struct bound_tables *tables;
	const struct bound_prices *prices;
	struct bound_prices *usage;
	double softness;     /* of a byte */
	double per_softness; /* 1 / that of the piece */
	double bytes;
	bool spread; /* copies are spread over steps */
};

/* The softened minimum of v, one of which is finite; share: how much each takes of it. */
static double soft_least(const struct walk *w, const double v[BOUND_STATE_NR],
			 double share[BOUND_STATE_NR])
{
	double least = v[0], sum = 0;

	for (int i = 1; i < BOUND_STATE_NR; i++)
		least = v[i] < least ? v[i] : least;
	for (int i = 0; i < BOUND_STATE_NR; i++) {
		share[i] = v[i] > least ? bound_falloff((v[i] - least) * w->per_softness) : 1;
		sum += share[i];
	}
	if (sum <= 1)
		return least;
	for (int i = 0; i < BOUND_STATE_NR; i++)
		share[i] /= sum;
	return least - (double)logf((float)sum) / w->per_softness;
}

/* Softened minimum of the keys in from .. to, inclusive. */
static double soft_key(const struct walk *w, const struct bound_range *r, uint32_t from,
		       uint32_t to)
{
	double least = r->key[bound_range_least(r, from, to)], sum = 0;

	if (!w->spread)
		return least;
	for (uint32_t j = from; j <= to; j++)
		sum += bound_falloff((r->key[j] - least) / w->softness);
	return least - w->softness * (double)logf((float)sum);
}

/* ------------------------------------------------------------------ forwards */

static void cross_gap(const struct walk *w, const struct bound_event *e,
		      double cost[BOUND_STATE_NR], struct shares *s)
{
	const struct bound_tables *t = w->tables;
	double out = INFINITY, back = INFINITY, stay, fetch;
	uint32_t from = bound_gap_from(e);

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		cost[BOUND_AWAY] = cost[BOUND_CLEAN] = soft_least(w, cost, s->away);
		cost[BOUND_DIRTY] = INFINITY; /* as good as clean, which it need not be beside */
		return;
	}
	stay = w->bytes * (t->prefix[e->step] - t->prefix[from]);
	if (cost[BOUND_DIRTY] < INFINITY) {
		s->out_key = soft_key(w, &t->copy_out, from, e->step);
		out = w->bytes * (s->out_key - t->prefix[from]);
		back = w->bytes *
		       t->write_back.key[bound_range_least(&t->write_back, from, e->step)];
	}
	s->in_key = soft_key(w, &t->copy_in, from, e->step);
	fetch = w->bytes * (s->in_key + t->prefix[e->step]);
	const double away[] = {cost[BOUND_AWAY], cost[BOUND_CLEAN], cost[BOUND_DIRTY] + out};

	cost[BOUND_AWAY] = soft_least(w, away, s->away);
	const double clean[] = {cost[BOUND_AWAY] + fetch, cost[BOUND_CLEAN] + stay,
				cost[BOUND_DIRTY] + stay + back};

	cost[BOUND_CLEAN] = soft_least(w, clean, s->clean);
	cost[BOUND_DIRTY] += stay;
}

static void use_event(const struct walk *w, const struct bound_event *e,
		      double cost[BOUND_STATE_NR], struct shares *s)
{
	const struct bound_charge *c = &w->tables->charge[e->step];
	double hold = w->bytes * c->hold, share[BOUND_STATE_NR];

	cost[BOUND_AWAY] += bound_price_away(e, w->prices->time[e->step], c);
	cost[BOUND_CLEAN] += hold;
	cost[BOUND_DIRTY] += hold;
	if (e->flags & BOUND_WRITES) {
		const double dirty[] = {cost[BOUND_CLEAN], cost[BOUND_DIRTY], INFINITY};

		cost[BOUND_DIRTY] = soft_least(w, dirty, share);
		cost[BOUND_CLEAN] = INFINITY;
		s->written_clean = share[0];
	}
}

/* ------------------------------------------------------------------ backwards */

/* Bytes that cross the link, and for how long they keep it busy. */
static void add_link(const struct walk *w, uint32_t step, double in_bytes, double out_bytes)
{
	const struct bound_rates *r = &w->soft->model->rates;
	double *time = w->usage->time[step];

	time[BOUND_LINK_IN] += in_bytes * r->in_ns + out_bytes * r->in_of_out_ns;
	time[BOUND_LINK_OUT] += out_bytes * r->out_ns + in_bytes * r->out_of_in_ns;
}

/* Resident during steps from .. to - 1. */
static void add_resident(const struct walk *w, uint32_t from, uint32_t to, double bytes)
{
	w->soft->resident[from] += bytes;
	w->soft->resident[to] -= bytes;
}

static void add_copy_in(const struct walk *w, const struct bound_event *e, double in_key,
			double share)
{
	const struct bound_range *r = &w->tables->copy_in;
	uint32_t from = bound_gap_from(e);

	if (share < BOUND_LEAST_SHARE)
		return;
	if (!w->spread)
		from = bound_range_least(r, from, e->step);
	for (uint32_t j = from; j <= (w->spread ? e->step : from); j++) {
		double bytes = share * w->bytes * bound_falloff((r->key[j] - in_key) / w->softness);

		if (bytes > 0) {
			add_link(w, j, bytes, 0);
			add_resident(w, j, e->step, bytes);
		}
	}
}

/* That leave: copied out and resident no longer. */
static void add_copy_out(const struct walk *w, const struct bound_event *e, double out_key,
			 double share)
{
	const struct bound_range *r = &w->tables->copy_out;
	uint32_t since = bound_gap_from(e), from = since;

	if (share < BOUND_LEAST_SHARE)
		return;
	if (!w->spread)
		from = bound_range_least(r, from, e->step);
	for (uint32_t j = from; j <= (w->spread ? e->step : from); j++) {
		double bytes =
			share * w->bytes * bound_falloff((r->key[j] - out_key) / w->softness);

		if (bytes > 0) {
			add_link(w, j, 0, bytes);
			add_resident(w, since, j, bytes);
		}
	}
}

/* Account for an event; share: of the states in which the piece leaves it, and on return, in which
 * it begins. */
static void back_event(const struct walk *w, const struct bound_event *e, const struct shares *s,
		       double share[BOUND_STATE_NR])
{
	double *time = w->usage->time[e->step];

	if (e->flags & BOUND_WRITES) {
		share[BOUND_CLEAN] = share[BOUND_DIRTY] * s->written_clean;
		share[BOUND_DIRTY] -= share[BOUND_CLEAN];
	}
	w->soft->used[e->step] += w->bytes * (share[BOUND_CLEAN] + share[BOUND_DIRTY]);
	if (share[BOUND_AWAY] < BOUND_LEAST_SHARE)
		return;
	add_link(w, e->step, share[BOUND_AWAY] * e->in_bytes, share[BOUND_AWAY] * e->out_bytes);
	for (int i = 0; i < 4; i++)
		time[BOUND_IN_WITHIN + i] += share[BOUND_AWAY] * e->ns[i];
}

/* The same for the gap before it. */
static void back_gap(const struct walk *w, const struct bound_event *e, const struct shares *s,
		     double share[BOUND_STATE_NR])
{
	double fetched, away, clean, dirty, left, back;

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		double sum = share[BOUND_AWAY] + share[BOUND_CLEAN] + share[BOUND_DIRTY];

		for (int i = 0; i < BOUND_STATE_NR; i++)
			share[i] = sum * s->away[i];
		return;
	}
	fetched = share[BOUND_CLEAN] * s->clean[BOUND_AWAY];
	clean = share[BOUND_CLEAN] * s->clean[BOUND_CLEAN];
	back = share[BOUND_CLEAN] * s->clean[BOUND_DIRTY];
	dirty = share[BOUND_DIRTY] + back;
	away = share[BOUND_AWAY] + fetched;
	left = away * s->away[BOUND_DIRTY];

	add_resident(w, bound_gap_from(e), e->step, w->bytes * (clean + dirty));
	add_copy_in(w, e, s->in_key, fetched);
	add_copy_out(w, e, s->out_key, left);
	if (back >= BOUND_LEAST_SHARE)
		add_link(w, bound_range_least(&w->tables->write_back, bound_gap_from(e), e->step),
			 0, back * w->bytes);
	share[BOUND_AWAY] = away * s->away[BOUND_AWAY];
	share[BOUND_CLEAN] = clean + away * s->away[BOUND_CLEAN];
	share[BOUND_DIRTY] = dirty + left;
}

/* ------------------------------------------------------------------ all */

static void walk_piece(const struct walk *w, const struct bound_piece *piece)
{
	const struct bound_event *events = &w->soft->model->events[piece->first_event];
	double cost[BOUND_STATE_NR] = {0, 0, INFINITY}, share[BOUND_STATE_NR];
	struct shares *shares = w->soft->shares;

	for (uint32_t i = 0; i < piece->nr_events; i++) {
		cross_gap(w, &events[i], cost, &shares[i]);
		use_event(w, &events[i], cost, &shares[i]);
	}
	soft_least(w, cost, share);
	for (uint32_t i = piece->nr_events; i-- > 0;) {
		back_event(w, &events[i], &shares[i], share);
		back_gap(w, &events[i], &shares[i], share);
	}
}

static void usage_start(struct bound_soft *soft, struct bound_prices *usage)
{
	const struct bound_model *m = soft->model;
	double *const counts[] = {soft->resident, soft->used, soft->near_resident, soft->near_used};

	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		memset(counts[i], 0, ((size_t)m->nr_steps + 1) * sizeof(*counts[i]));
	for (uint32_t i = 0; i < m->nr_steps; i++) {
		const struct bound_step *s = &m->steps[i];

		memset(usage->time[i], 0, sizeof(usage->time[i]));
		usage->time[i][BOUND_ALONE] = s->alone_ns;
		for (int l = 0; l < 4; l++)
			usage->time[i][BOUND_IN_WITHIN + l] = -s->slack_ns[l];
	}
}

/* How much what is resident exceeds the budget, and with near memory that of both. */
static void usage_finish(const struct bound_soft *soft, struct bound_prices *usage)
{
	const struct bound_model *m = soft->model;
	double resident = 0, near_resident = 0;

	for (uint32_t i = 0; i < m->nr_steps; i++) {
		double held;

		resident += soft->resident[i];
		held = resident + soft->used[i];
		usage->capacity[i] = held / m->budget_bytes - 1;
		near_resident += soft->near_resident[i];
		held += near_resident + soft->near_used[i];
		usage->total[i] = held / (m->budget_bytes + m->near_bytes) - 1;
	}
}

void bound_soft_usage(struct bound_soft *soft, const struct bound_tables *tables,
		      const struct bound_prices *prices, double softness,
		      struct bound_prices *usage)
{
	const struct bound_model *m = soft->model;
	struct walk w = {soft, tables, prices, usage, softness, 0, 0, false};
	const struct bound_near_usage near_usage = {usage, soft->resident, soft->near_resident,
						    soft->used, soft->near_used};

	usage_start(soft, usage);
	for (uint32_t i = 0; i < m->nr_pieces; i++) {
		w.bytes = m->pieces[i].bytes;
		w.per_softness = 1 / (softness * w.bytes);
		w.spread = w.bytes >= LEAST_SPREAD * m->budget_bytes;
		if (soft->near) {
			const struct bound_near_walk near = {
				.tables = tables,
				.prices = prices,
				.shares = soft->near,
				.softness = w.softness,
				.per_softness = w.per_softness,
				.bytes = w.bytes,
				.spread = w.spread,
			};

			bound_near_account(&near, &m->pieces[i], &near_usage);
		} else {
			walk_piece(&w, &m->pieces[i]);
		}
	}
	usage_finish(soft, usage);
}

static uint32_t most_events(const struct bound_model *m)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < m->nr_pieces; i++)
		most = m->pieces[i].nr_events > most ? m->pieces[i].nr_events : most;
	return most;
}

int bound_soft_create(const struct bound_model *model, struct bound_soft **out)
{
	struct bound_soft *soft = calloc(1, sizeof(*soft));
	size_t n = (size_t)model->nr_steps + 1;

	if (!soft)
		return -ENOMEM;
	soft->model = model;
	soft->shares = calloc(most_events(model), sizeof(*soft->shares));
	if (model->near_bytes > 0)
		soft->near = calloc(most_events(model), sizeof(*soft->near));
	soft->resident = calloc(n, sizeof(*soft->resident));
	soft->used = calloc(n, sizeof(*soft->used));
	soft->near_resident = calloc(n, sizeof(*soft->near_resident));
	soft->near_used = calloc(n, sizeof(*soft->near_used));
	if (!soft->shares || (model->near_bytes > 0 && !soft->near) || !soft->resident ||
	    !soft->used || !soft->near_resident || !soft->near_used) {
		bound_soft_destroy(soft);
		return -ENOMEM;
	}
	*out = soft;
	return 0;
}

void bound_soft_destroy(struct bound_soft *soft)
{
	if (!soft)
		return;
	free(soft->shares);
	free(soft->resident);
	free(soft->used);
	free(soft->near);
	free(soft->near_resident);
	free(soft->near_used);
	free(soft);
}
