/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of the dual: at given prices pieces do not interact, and the cheapest way for each
 * through its events is a shortest path over three states. The path is exact; that is what makes
 * the result a bound. How the prices were found plays no part in it.
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
 * and each to itself. Where contents do not matter all changes are free.
 *
 * With near memory there are seven states: see bound_near.h.
 */
#include "workloads/bound_dual.h"

#include <math.h>

#include "src/base/util.h"
#include "workloads/bound_near.h"

/* From the costs of the states after the event before to those in which an event begins. */
static void cross_gap(const struct bound_tables *t, const struct bound_event *e, double bytes,
		      double cost[BOUND_STATE_NR])
{
	double away = min_double(cost[BOUND_AWAY], cost[BOUND_CLEAN]), clean, stay;
	uint32_t from = bound_gap_from(e), j;

	if (!(e->flags & BOUND_LIVE_BEFORE)) {
		away = min_double(away, cost[BOUND_DIRTY]);
		cost[BOUND_AWAY] = cost[BOUND_CLEAN] = cost[BOUND_DIRTY] = away;
		return;
	}
	stay = bytes * (t->prefix[e->step] - t->prefix[from]);
	clean = cost[BOUND_CLEAN];
	if (cost[BOUND_DIRTY] < INFINITY) {
		j = bound_range_least(&t->copy_out, from, e->step);
		away = min_double(away, cost[BOUND_DIRTY] +
						bytes * (t->copy_out.key[j] - t->prefix[from]));
		j = bound_range_least(&t->write_back, from, e->step);
		clean = min_double(clean, cost[BOUND_DIRTY] + bytes * t->write_back.key[j]);
	}
	j = bound_range_least(&t->copy_in, from, e->step);
	cost[BOUND_AWAY] = away;
	cost[BOUND_CLEAN] =
		min_double(clean + stay, away + bytes * (t->copy_in.key[j] + t->prefix[e->step]));
	cost[BOUND_DIRTY] += stay;
}

static void use_event(const struct bound_tables *t, const struct bound_event *e, double bytes,
		      const struct bound_prices *p, double cost[BOUND_STATE_NR])
{
	const struct bound_charge *c = &t->charge[e->step];
	double hold = bytes * c->hold;

	cost[BOUND_AWAY] += bound_price_away(e, p->time[e->step], c);
	cost[BOUND_CLEAN] += hold;
	cost[BOUND_DIRTY] += hold;
	if (e->flags & BOUND_WRITES) {
		cost[BOUND_DIRTY] = min_double(cost[BOUND_CLEAN], cost[BOUND_DIRTY]);
		cost[BOUND_CLEAN] = INFINITY;
	}
}

/* The least cost of one piece. */
static double piece_value(const struct bound_tables *t, const struct bound_piece *piece,
			  const struct bound_prices *p)
{
	const struct bound_event *events = &t->model->events[piece->first_event];
	double cost[BOUND_STATE_NR] = {0, 0, INFINITY};

	for (uint32_t i = 0; i < piece->nr_events; i++) {
		cross_gap(t, &events[i], piece->bytes, cost);
		use_event(t, &events[i], piece->bytes, p, cost);
	}
	return min_double(min_double(cost[BOUND_AWAY], cost[BOUND_CLEAN]), cost[BOUND_DIRTY]);
}

/* What belongs to a step and to no piece. */
static double step_value(const struct bound_step *s, const double *time, double capacity)
{
	double value = time[BOUND_ALONE] * s->alone_ns - capacity;

	for (int l = 0; l < 4; l++)
		value -= time[BOUND_IN_WITHIN + l] * s->slack_ns[l];
	return value;
}

double bound_dual_value(const struct bound_tables *tables, const struct bound_prices *prices)
{
	const struct bound_model *m = tables->model;
	double value = 0;

	for (uint32_t i = 0; i < m->nr_steps; i++)
		value += step_value(&m->steps[i], prices->time[i],
				    prices->capacity[i] + prices->total[i]);
	for (uint32_t i = 0; i < m->nr_pieces; i++)
		value += m->near_bytes > 0 ? bound_near_value(tables, &m->pieces[i], prices)
					   : piece_value(tables, &m->pieces[i], prices);
	return value;
}
