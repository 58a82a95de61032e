/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three states step by step. In a step the copies come first, then the kernel:
 *
 *   A -> C  copied in        C -> A  free        D -> A, D -> C  copied out
 *
 * all at the step's prices; what is resident at the kernel pays for its room, what is used in
 * place pays for the use, and a write leaves what is resident dirty. Where contents do not matter
 * all changes are free, and nothing is paid before the event.
 */
#include "workloads/bound_chain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/bound_soft.h"

void bound_stage_back(const struct bound_stage *s, double bytes, const struct bound_charge *c,
		      double per_softness, double cost[BOUND_STATE_NR], bound_mix mix)
{
	double in = bytes * c->in, out = bytes * c->out, hold = bytes * c->hold;
	bool written = s->event && s->event->flags & BOUND_WRITES;
	double away = cost[BOUND_AWAY] + s->away_ns, dirty = cost[BOUND_DIRTY] + hold;
	double clean = written ? dirty : cost[BOUND_CLEAN] + hold;

	if (!s->live) {
		const double any[] = {away, clean, dirty};

		if (!s->event)
			return; /* all alike */
		cost[BOUND_AWAY] = bound_soft_least(any, per_softness, mix[BOUND_AWAY]);
		cost[BOUND_CLEAN] = cost[BOUND_DIRTY] = cost[BOUND_AWAY];
		memcpy(mix[BOUND_CLEAN], mix[BOUND_AWAY], sizeof(mix[BOUND_CLEAN]));
		memcpy(mix[BOUND_DIRTY], mix[BOUND_AWAY], sizeof(mix[BOUND_DIRTY]));
		return;
	}
	const double from_away[] = {away, clean + in, INFINITY};
	const double from_clean[] = {away, clean, INFINITY};
	const double from_dirty[] = {away + out, clean + out, dirty};

	cost[BOUND_AWAY] = bound_soft_least(from_away, per_softness, mix[BOUND_AWAY]);
	cost[BOUND_CLEAN] = bound_soft_least(from_clean, per_softness, mix[BOUND_CLEAN]);
	cost[BOUND_DIRTY] = bound_soft_least(from_dirty, per_softness, mix[BOUND_DIRTY]);
}

void bound_stage_forth(const struct bound_stage *s, double bytes, bound_mix mix,
		       double share[BOUND_STATE_NR], double at[BOUND_STATE_NR], double moved[2])
{
	moved[0] = moved[1] = 0;
	if (!s->live && !s->event) {
		memset(at, 0, BOUND_STATE_NR * sizeof(*at)); /* pays for no room */
		return;
	}
	for (int y = 0; y < BOUND_STATE_NR; y++) {
		at[y] = 0;
		for (int x = 0; x < BOUND_STATE_NR; x++)
			at[y] += share[x] * mix[x][y];
	}
	if (s->live) {
		moved[0] = bytes * share[BOUND_AWAY] * mix[BOUND_AWAY][BOUND_CLEAN];
		moved[1] = bytes * share[BOUND_DIRTY] * (1 - mix[BOUND_DIRTY][BOUND_DIRTY]);
	}
	memcpy(share, at, BOUND_STATE_NR * sizeof(*share));
	if (s->event && s->event->flags & BOUND_WRITES) {
		share[BOUND_DIRTY] += share[BOUND_CLEAN];
		share[BOUND_CLEAN] = 0;
	}
}

/* ------------------------------------------------------------------ all pieces */

static uint32_t last_step(const struct bound_model *m, uint32_t piece)
{
	const struct bound_piece *p = &m->pieces[piece];

	return m->events[p->first_event + p->nr_events - 1].step;
}

/* The first step that a piece's way is on. */
static uint32_t first_step(const struct bound_model *m, uint32_t piece)
{
	const struct bound_event *first = &m->events[m->pieces[piece].first_event];

	return first->flags & BOUND_LIVE_BEFORE ? 0 : first->step;
}

/* Pieces by their last step: counted, summed up, laid out. */
static int sort_by_last(struct bound_chain *c)
{
	const struct bound_model *m = c->model;
	uint32_t *place = calloc((size_t)m->nr_steps + 1, sizeof(*place));

	if (!place)
		return -ENOMEM;
	for (uint32_t k = 0; k < m->nr_pieces; k++)
		place[last_step(m, k) + 1]++;
	for (uint32_t i = 0; i < m->nr_steps; i++)
		place[i + 1] += place[i];
	for (uint32_t k = 0; k < m->nr_pieces; k++)
		c->by_last[place[last_step(m, k)]++] = k;
	free(place);
	return 0;
}

int bound_chain_init(struct bound_chain *c, const struct bound_model *model)
{
	size_t nr = (size_t)model->nr_pieces + 1;
	int err = -ENOMEM;

	*c = (struct bound_chain){.model = model, .nr_left = model->nr_pieces};
	c->cost = calloc(nr, sizeof(*c->cost));
	c->nr_before = calloc(nr, sizeof(*c->nr_before));
	c->nr_clean = calloc(nr, sizeof(*c->nr_clean));
	c->by_last = calloc(nr, sizeof(*c->by_last));
	c->active = calloc(nr, sizeof(*c->active));
	if (c->cost && c->nr_before && c->nr_clean && c->by_last && c->active)
		err = sort_by_last(c);
	if (err) {
		bound_chain_fini(c);
		return err;
	}
	for (uint32_t k = 0; k < model->nr_pieces; k++) {
		const struct bound_piece *p = &model->pieces[k];
		uint32_t *n = &c->nr_clean[k];

		c->nr_before[k] = p->nr_events;
		while (*n < p->nr_events &&
		       !(model->events[p->first_event + *n].flags & BOUND_WRITES))
			++*n;
	}
	return 0;
}

void bound_chain_fini(struct bound_chain *c)
{
	free(c->cost);
	free(c->nr_before);
	free(c->nr_clean);
	free(c->by_last);
	free(c->active);
	*c = (struct bound_chain){0};
}

double bound_chain_visits(const struct bound_model *m)
{
	double sum = 0;

	for (uint32_t k = 0; k < m->nr_pieces; k++)
		sum += 1.0 + last_step(m, k) - first_step(m, k);
	return sum;
}

void bound_chain_join(struct bound_chain *c, uint32_t from)
{
	const struct bound_model *m = c->model;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < c->nr_active; i++) {
		uint32_t k = c->active[i];

		if (c->nr_before[k] ||
		    m->events[m->pieces[k].first_event].flags & BOUND_LIVE_BEFORE)
			c->active[nr++] = k;
	}
	while (c->nr_left && last_step(m, c->by_last[c->nr_left - 1]) >= from)
		c->active[nr++] = c->by_last[--c->nr_left];
	c->nr_active = nr;
}

struct bound_stage bound_chain_stage(const struct bound_model *m, uint32_t piece, uint32_t step,
				     uint32_t before)
{
	const struct bound_piece *p = &m->pieces[piece];
	const struct bound_event *events = &m->events[p->first_event];
	struct bound_stage s = {0};

	if (before && events[before - 1].step == step)
		s.event = &events[before - 1];
	if (s.event || before < p->nr_events)
		s.live = (s.event ? s.event : &events[before])->flags & BOUND_LIVE_BEFORE;
	return s;
}

void bound_chain_back(struct bound_chain *c, const struct bound_tables *tables,
		      const struct bound_prices *prices, uint32_t step)
{
	const struct bound_charge *charge = &tables->charge[step];
	bound_mix mix;

	for (uint32_t i = 0; i < c->nr_active; i++) {
		uint32_t k = c->active[i];
		struct bound_stage s = bound_chain_stage(c->model, k, step, c->nr_before[k]);

		if (s.event) {
			s.away_ns = bound_price_away(s.event, prices->time[step], charge);
			c->nr_before[k]--;
		}
		bound_stage_back(&s, c->model->pieces[k].bytes, charge, INFINITY, c->cost[k], mix);
	}
}
