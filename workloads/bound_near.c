/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest paths over sets of memories; see bound_near.h. One walk forwards serves both the exact
 * value and the softened one, so that the two cannot differ in what they count.
 */
#include "workloads/bound_near.h"

#include <math.h>

#include "src/base/util.h"
#include "workloads/bound_soft.h"

static const unsigned int dropped[2] = {BOUND_AT_OWN, BOUND_AT_NEAR};

/* ------------------------------------------------------------------ minima */

/* The lesser of two costs, softened; share: how much b takes of it. NULL: the exact one. */
static double merge(const struct bound_near_walk *w, double a, double b, float *share)
{
	float above, e;

	if (!share)
		return min_double(a, b);
	*share = a < INFINITY ? 0 : 1;
	if (!(a < INFINITY) || !(b < INFINITY))
		return min_double(a, b);
	above = (float)(fabs(b - a) * w->per_softness);
	e = above < (float)BOUND_FARTHEST ? expf(-above) : 0;
	*share = (b < a ? 1 : e) / (1 + e);
	if (!(e > 0))
		return min_double(a, b);
	return min_double(a, b) - (double)log1pf(e) / w->per_softness;
}

/* The least cost of the sets that have a member (0: of all), softened likewise; share: by set. */
static double least_of(const struct bound_near_walk *w, const double cost[BOUND_SET_NR],
		       unsigned int member, float share[BOUND_SET_NR])
{
	double least = INFINITY;
	float sum = 0;

	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		if ((set & member) == member)
			least = min_double(least, cost[set]);
	if (!share)
		return least;
	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		share[set] = 0;
		if ((set & member) == member && cost[set] < INFINITY)
			share[set] = (float)bound_falloff((cost[set] - least) * w->per_softness);
		sum += share[set];
	}
	if (!(sum > 0))
		return least;
	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		share[set] /= sum;
	return least - (double)logf(sum) / w->per_softness;
}

/* Minimum of the keys in from .. to, inclusive, softened where copies are spread. */
static double least_key(const struct bound_near_walk *w, const struct bound_range *r, uint32_t from,
			uint32_t to)
{
	double least = r->key[bound_range_least(r, from, to)], sum = 0;

	if (!w->shares || !w->spread)
		return least;
	for (uint32_t j = from; j <= to; j++)
		sum += bound_falloff((r->key[j] - least) / w->softness);
	return least - w->softness * (double)logf((float)sum);
}

static bool can_move(const struct bound_move *m, unsigned int set)
{
	bool leaves = m->drops == BOUND_AT_OWN && m->adds == BOUND_AT_NEAR;
	bool fills = m->source == BOUND_AT_HOST && m->adds == BOUND_AT_NEAR;

	if ((BOUND_MUTANT == 3 && leaves) || (BOUND_MUTANT == 6 && fills))
		return false;
	return (set & m->source) && !(set & m->lacks);
}

static unsigned int moved(const struct bound_move *m, unsigned int set)
{
	return (set | m->adds) & ~m->drops;
}

/* ------------------------------------------------------------------ forwards */

static void make_move(const struct bound_near_walk *w, int move, const struct bound_event *e,
		      double cost[BOUND_SET_NR], struct bound_near_shares *s)
{
	const struct bound_tables *t = w->tables;
	const struct bound_move *m = &bound_moves[move];
	uint32_t from = bound_gap_from(e), to = e->step;
	double key = NAN, price = 0;

	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		if (!can_move(m, set) || !(cost[set] < INFINITY))
			continue;
		if (isnan(key)) {
			key = least_key(w, &t->move[move], from, to);
			price = key + bound_hold(m->adds, t->prefix[to], t->near_prefix[to]) -
				bound_hold(m->drops, t->prefix[to], t->near_prefix[to]);
		}
		cost[moved(m, set)] = merge(w, cost[moved(m, set)], cost[set] + w->bytes * price,
					    s ? &s->moved[move][set] : NULL);
	}
	if (s)
		s->key[move] = key;
}

/* From the costs of the sets after the event before to those in which an event begins. */
static void cross_gap(const struct bound_near_walk *w, const struct bound_event *e,
		      double cost[BOUND_SET_NR], struct bound_near_shares *s)
{
	const struct bound_tables *t = w->tables;
	uint32_t from = bound_gap_from(e), to = e->step;
	const double stay[2] = {w->bytes * (t->prefix[to] - t->prefix[from]),
				w->bytes * (t->near_prefix[to] - t->near_prefix[from])};

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		double least = least_of(w, cost, 0, s ? s->start : NULL);

		/* more copies than one of what nobody needs are of no use */
		for (unsigned int set = 1; set < BOUND_SET_NR; set++)
			cost[set] = set & (set - 1) ? INFINITY : least;
		return;
	}
	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		cost[set] += bound_hold(set, stay[0], stay[1]);
	for (int i = 0; i < 2; i++) {
		for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
			unsigned int less = set & ~dropped[i];

			if (less && less != set && cost[set] < INFINITY)
				cost[less] = merge(w, cost[less], cost[set] - stay[i],
						   s ? &s->dropped[i][set] : NULL);
		}
	}
	for (int m = 0; m < BOUND_MOVE_NR; m++)
		make_move(w, m, e, cost, s);
}

static void use_event(const struct bound_near_walk *w, const struct bound_event *e,
		      double cost[BOUND_SET_NR], struct bound_near_shares *s)
{
	const struct bound_charge *c = &w->tables->charge[e->step];
	const double *time = w->prices->time[e->step];
	double serve[BOUND_SET_NR] = {[BOUND_AT_HOST] = bound_price_away(e, time, c),
				      [BOUND_AT_NEAR] = BOUND_MUTANT == 4
								? bound_price_away(e, time, c)
								: bound_price_near(e, time, c)};
	double before[BOUND_SET_NR];

	serve[BOUND_AT_HOST | BOUND_AT_NEAR] =
		merge(w, serve[BOUND_AT_HOST], serve[BOUND_AT_NEAR], s ? &s->near : NULL);
	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		cost[set] += w->bytes * bound_hold(set, c->hold, c->near_hold);
		before[set] = cost[set];
		cost[set] += serve[set];
	}
	if (!(e->flags & BOUND_WRITES))
		return;
	/* what is not written is no longer valid */
	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		if (set & (set - 1))
			cost[set] = INFINITY;
		else
			cost[set] =
				serve[set] + least_of(w, before, set, s ? s->written[set] : NULL);
	}
}

static void forward(const struct bound_near_walk *w, const struct bound_piece *piece,
		    double cost[BOUND_SET_NR])
{
	const struct bound_event *events = &w->tables->model->events[piece->first_event];

	/* the more copies the better; they can be dropped */
	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		cost[set] = set & BOUND_AT_HOST ? 0 : INFINITY;
	for (unsigned int set = 2; BOUND_MUTANT == 5 && set < BOUND_SET_NR; set++)
		cost[set] = INFINITY;
	for (uint32_t i = 0; i < piece->nr_events; i++) {
		struct bound_near_shares *s = w->shares ? &w->shares[i] : NULL;

		if (s)
			*s = (struct bound_near_shares){0};
		cross_gap(w, &events[i], cost, s);
		use_event(w, &events[i], cost, s);
	}
}

double bound_near_value(const struct bound_tables *tables, const struct bound_piece *piece,
			const struct bound_prices *prices)
{
	const struct bound_near_walk w = {
		.tables = tables, .prices = prices, .bytes = piece->bytes};
	double cost[BOUND_SET_NR];

	forward(&w, piece, cost);
	return least_of(&w, cost, 0, NULL);
}

/* ------------------------------------------------------------------ backwards */

/* Bytes that cross links between own or near memory and the host. */
static void add_link(const struct bound_near_walk *w, const struct bound_near_usage *u,
		     uint32_t step, double in_bytes, double out_bytes)
{
	const struct bound_rates *r = &w->tables->model->rates;
	double *time = u->usage->time[step];

	time[BOUND_LINK_IN] += in_bytes * r->in_ns + out_bytes * r->in_of_out_ns;
	time[BOUND_LINK_OUT] += out_bytes * r->out_ns + in_bytes * r->out_of_in_ns;
}

/* The same between own and near memory. */
static void add_near_link(const struct bound_near_walk *w, const struct bound_near_usage *u,
			  uint32_t step, double in_bytes, double out_bytes)
{
	const struct bound_rates *r = &w->tables->model->near_rates;
	double *time = u->usage->time[step];

	time[BOUND_NEAR_LINK_IN] += in_bytes * r->in_ns + out_bytes * r->in_of_out_ns;
	time[BOUND_NEAR_LINK_OUT] += out_bytes * r->out_ns + in_bytes * r->out_of_in_ns;
}

/* Copies of a set are there during steps from .. to - 1. */
static void add_resident(const struct bound_near_usage *u, unsigned int set, uint32_t from,
			 uint32_t to, double bytes)
{
	if (set & BOUND_AT_OWN) {
		u->resident[from] += bytes;
		u->resident[to] -= bytes;
	}
	if (set & BOUND_AT_NEAR) {
		u->near_resident[from] += bytes;
		u->near_resident[to] -= bytes;
	}
}

static void add_move(const struct bound_near_walk *w, const struct bound_near_usage *u,
		     const struct bound_move *m, uint32_t step, uint32_t to, double bytes)
{
	if (m->way == BOUND_WAY_IN || m->way == BOUND_WAY_OUT)
		add_link(w, u, step, m->way == BOUND_WAY_IN ? bytes : 0,
			 m->way == BOUND_WAY_OUT ? bytes : 0);
	else
		add_near_link(w, u, step, m->way == BOUND_WAY_NEAR_IN ? bytes : 0,
			      m->way == BOUND_WAY_NEAR_OUT ? bytes : 0);
	add_resident(u, m->adds, step, to, bytes);
	add_resident(u, m->drops, step, to, -bytes);
}

/* Undo a move: share returns to the sets before it, and what moved is accounted for. */
static void back_move(const struct bound_near_walk *w, const struct bound_near_usage *u, int move,
		      const struct bound_event *e, const struct bound_near_shares *s,
		      double share[BOUND_SET_NR])
{
	const struct bound_move *m = &bound_moves[move];
	const struct bound_range *r = &w->tables->move[move];
	uint32_t from = bound_gap_from(e), to = e->step;
	double all = 0;

	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		double part;

		if (!can_move(m, set))
			continue;
		part = share[moved(m, set)] * (double)s->moved[move][set];
		share[moved(m, set)] -= part;
		share[set] += part;
		all += part;
	}
	if (all < BOUND_LEAST_SHARE)
		return;
	if (!w->spread) {
		add_move(w, u, m, bound_range_least(r, from, to), to, all * w->bytes);
		return;
	}
	for (uint32_t j = from; j <= to; j++) {
		double part = all * bound_falloff((r->key[j] - s->key[move]) / w->softness);

		if (part > 0)
			add_move(w, u, m, j, to, part * w->bytes);
	}
}

static void back_gap(const struct bound_near_walk *w, const struct bound_near_usage *u,
		     const struct bound_event *e, const struct bound_near_shares *s,
		     double share[BOUND_SET_NR])
{
	uint32_t from = bound_gap_from(e);

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		double all = 0;

		for (unsigned int set = 1; set < BOUND_SET_NR; set++)
			all += share[set];
		for (unsigned int set = 1; set < BOUND_SET_NR; set++)
			share[set] = all * (double)s->start[set];
		return;
	}
	for (int m = BOUND_MOVE_NR; m-- > 0;)
		back_move(w, u, m, e, s, share);
	for (int i = 2; i-- > 0;) {
		for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
			unsigned int less = set & ~dropped[i];
			double part = share[less] * (double)s->dropped[i][set];

			if (!less || less == set)
				continue;
			share[less] -= part;
			share[set] += part;
			add_resident(u, dropped[i], from, e->step, -part * w->bytes);
		}
	}
	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		add_resident(u, set, from, e->step, share[set] * w->bytes);
}

/* Account for an event; share: of the sets that the piece leaves it with, and on return, with which
 * it begins it. */
static void back_event(const struct bound_near_walk *w, const struct bound_near_usage *u,
		       const struct bound_event *e, const struct bound_near_shares *s,
		       double share[BOUND_SET_NR])
{
	double both = share[BOUND_AT_HOST | BOUND_AT_NEAR];
	double near = share[BOUND_AT_NEAR] + both * (double)s->near;
	double host = share[BOUND_AT_HOST] + both * (double)(1 - s->near);
	double *time = u->usage->time[e->step];

	add_link(w, u, e->step, host * e->in_bytes, host * e->out_bytes);
	add_near_link(w, u, e->step, near * e->in_bytes, near * e->out_bytes);
	for (int i = 0; i < 4; i++)
		time[BOUND_IN_WITHIN + i] += host * e->ns[i];
	for (int i = 0; i < 2; i++)
		time[BOUND_NEAR_IN + i] += near * e->near_ns[i];
	if (e->flags & BOUND_WRITES) {
		double before[BOUND_SET_NR] = {0};

		for (unsigned int at = 1; at < BOUND_SET_NR; at <<= 1)
			for (unsigned int set = 1; set < BOUND_SET_NR; set++)
				before[set] += share[at] * (double)s->written[at][set];
		for (unsigned int set = 1; set < BOUND_SET_NR; set++)
			share[set] = before[set];
	}
	for (unsigned int set = 1; set < BOUND_SET_NR; set++) {
		u->used[e->step] += set & BOUND_AT_OWN ? share[set] * w->bytes : 0;
		u->near_used[e->step] += set & BOUND_AT_NEAR ? share[set] * w->bytes : 0;
	}
}

void bound_near_account(const struct bound_near_walk *w, const struct bound_piece *piece,
			const struct bound_near_usage *u)
{
	const struct bound_event *events = &w->tables->model->events[piece->first_event];
	double cost[BOUND_SET_NR], share[BOUND_SET_NR] = {0};
	float end[BOUND_SET_NR];

	forward(w, piece, cost);
	(void)least_of(w, cost, 0, end);
	for (unsigned int set = 1; set < BOUND_SET_NR; set++)
		share[set] = (double)end[set];
	for (uint32_t i = piece->nr_events; i-- > 0;) {
		back_event(w, u, &events[i], &w->shares[i], share);
		back_gap(w, u, &events[i], &w->shares[i], share);
	}
}
