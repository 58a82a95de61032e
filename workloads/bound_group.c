/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relaxation has a chord in place of each jump at translation reach. In a group each use that
 * jumps is within reach in one case, where the near line alone counts and reach is a resource with
 * a price, and beyond in the other, where the far line does. What the group owes to the steps
 * around it is settled by the costs of the rest of each piece's way at the prices for all steps
 * (bound_chain.h), so that it may have other prices than they.
 */
#include "workloads/bound_group.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/bound_dual.h"
#include "workloads/bound_soft.h"

#define MAX_MEMBERS 4096u

/* A piece on its way through the group. */
struct bound_member {
	double bytes;
	double before[BOUND_STATE_NR], after[BOUND_STATE_NR]; /* cost of the rest of its way */
	struct bound_stage stage[BOUND_GROUP_STEPS];
	bool used;
	bool clean;   /* never dirty before the group */
	double slack; /* unless used: how much less a byte must pay until it has a cheaper way */
};

/* A piece at the group's end. */
struct bound_kept {
	double cost[BOUND_STATE_NR];
	uint32_t nr_before;
};

static const struct bound_step *step_at(const struct bound_group *g, uint32_t j)
{
	return &g->chain.model->steps[g->first + j];
}

/* ------------------------------------------------------------------ the value of a case */

/* What prices come to in a case. */
struct tariff {
	const struct bound_local *prices;
	struct bound_charge charge[BOUND_GROUP_STEPS];
	double change_ns[BOUND_GROUP_STEPS][4]; /* of the jump's lines, the whole use away */
	double jump_ns[BOUND_GROUP_STEPS]; /* what the whole use pays for that, and for reach */
	double fall;			   /* so much less than before a byte pays at most */
};

/* Set the lines of a step's jump; returns what belongs to no member. */
static double jump_set(const struct bound_jump *jump, bool beyond, const double *time, double reach,
		       double change_ns[4], double *jump_ns)
{
	double value = beyond ? 0 : -reach * jump->reach;

	*jump_ns = beyond ? 0 : reach;
	for (int l = 0; l < 4; l++) {
		double far_ns = jump->ns[l | 1] - jump->slack_ns[l | 1];

		change_ns[l] = (beyond ? far_ns : jump->ns[l & ~1]) - jump->ns[l];
		*jump_ns += time[BOUND_IN_NEAR + l] * change_ns[l];
		value += time[BOUND_IN_NEAR + l] * jump->slack_ns[l];
	}
	return value;
}

/* Set a tariff; returns what belongs to no member. */
static double tariff_set(const struct bound_group *g, uint32_t beyond, const struct bound_local *p,
			 struct tariff *t)
{
	double value = 0, in = 0, out = 0;

	*t = (struct tariff){.prices = p};
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		const struct bound_charge *was = &g->charge[j], *is = &t->charge[j];

		t->charge[j] = bound_charge(g->chain.model, p->time[j], p->capacity[j]);
		t->fall += fmax(0, was->hold - is->hold);
		in = fmax(in, was->in - is->in);
		out = fmax(out, was->out - is->out);
		value += bound_step_value(step_at(g, j), p->time[j], p->capacity[j]);
		if (g->jumps >> j & 1)
			value += jump_set(&step_at(g, j)->jump, beyond >> j & 1, p->time[j],
					  p->reach[j], t->change_ns[j], &t->jump_ns[j]);
	}
	t->fall += in + out;
	return value;
}

/* The share that a piece has in the jump of a step, if it has any. */
static double jump_share(const struct bound_group *g, uint32_t j, const struct bound_member *q)
{
	const struct bound_event *e = q->stage[j].event;

	return e && e->flags & BOUND_JUMPS ? q->bytes / step_at(g, j)->jump.bytes : 0;
}

/* Add up what a member takes. share: of the states in which it enters the group. */
static void member_usage(const struct bound_group *g, const struct tariff *t,
			 const struct bound_member *q, bound_mix *mix, double share[BOUND_STATE_NR],
			 struct bound_local *usage)
{
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		const struct bound_event *e = q->stage[j].event;
		double at[BOUND_STATE_NR], moved[2], away, part;

		bound_stage_forth(&q->stage[j], q->bytes, mix[j], share, at, moved);
		away = at[BOUND_AWAY];
		usage->capacity[j] += q->bytes * (at[BOUND_CLEAN] + at[BOUND_DIRTY]);
		if (e) {
			part = away * jump_share(g, j, q);
			moved[0] += away * e->in_bytes;
			moved[1] += away * e->out_bytes;
			for (int l = 0; l < 4; l++)
				usage->time[j][BOUND_IN_NEAR + l] +=
					away * e->ns[l] + part * t->change_ns[j][l];
			usage->reach[j] += part;
		}
		bound_link_busy(&g->chain.model->rates, moved[0], moved[1], usage->time[j]);
	}
}

/* The least cost of a member's way through the group and of the rest, less what that costs at the
 * prices for all steps. usage: NULL, or what it takes is added. */
static double member_value(const struct bound_group *g, const struct tariff *t,
			   struct bound_member *q, double softness, struct bound_local *usage)
{
	double cost[BOUND_STATE_NR], share[BOUND_STATE_NR], value;
	double per_softness = 1 / (softness * q->bytes); /* may be infinite */
	bound_mix mix[BOUND_GROUP_STEPS];

	memcpy(cost, q->after, sizeof(cost));
	for (uint32_t j = g->nr_steps; j-- > 0;) {
		struct bound_stage *s = &q->stage[j];

		if (s->event)
			s->away_ns = bound_price_away(s->event, t->prices->time[j], &t->charge[j]) +
				     jump_share(g, j, q) * t->jump_ns[j];
		bound_stage_back(s, q->bytes, &t->charge[j], per_softness, cost, mix[j]);
	}
	for (int x = 0; x < BOUND_STATE_NR; x++)
		cost[x] -= q->before[x];
	if (q->clean)
		cost[BOUND_DIRTY] = INFINITY;
	value = bound_soft_least(cost, per_softness, share);
	if (usage)
		member_usage(g, t, q, mix, share, usage);
	return value;
}

static void usage_start(const struct bound_group *g, struct bound_local *usage)
{
	memset(usage, 0, sizeof(*usage));
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		const struct bound_step *s = step_at(g, j);

		usage->time[j][BOUND_ALONE] = s->alone_ns;
		for (int l = 0; l < 4; l++)
			usage->time[j][BOUND_IN_NEAR + l] = s->jump.slack_ns[l] - s->slack_ns[l];
		usage->reach[j] = -s->jump.reach;
	}
}

double bound_group_value(struct bound_group *g, uint32_t beyond, const struct bound_local *p,
			 double softness, struct bound_local *usage)
{
	struct tariff t;
	double value = tariff_set(g, beyond, p, &t);

	if (usage)
		usage_start(g, usage);
	for (uint32_t i = 0; i < g->nr_members; i++) {
		struct bound_member *q = &g->members[i];

		if (!q->used && q->slack > t.fall)
			continue; /* its cheapest way is to be away, for nothing, as before */
		value += member_value(g, &t, q, softness, usage);
		g->nr_visits++;
	}
	for (uint32_t j = 0; usage && j < g->nr_steps; j++)
		usage->capacity[j] = usage->capacity[j] / g->chain.model->budget_bytes - 1;
	return value;
}

/* ------------------------------------------------------------------ groups */

/*
 * Find the group that ends before step end: its last step alone, or if that has a jump, from the
 * jump before on. Two jumps of one life make no group: what stays for one use serves the next, so
 * that there is little to settle between them.
 */
static void group_find(struct bound_group *g, uint32_t end)
{
	const struct bound_step *last = &g->chain.model->steps[end - 1];
	uint32_t most = end < BOUND_GROUP_STEPS ? end : BOUND_GROUP_STEPS, back = 1;

	g->first = end - 1;
	g->jumps = last->jump.bytes > 0;
	while (back < most && !(last[-(ptrdiff_t)back].jump.bytes > 0))
		back++;
	if (g->jumps && back < most && last[-(ptrdiff_t)back].jump.life != last->jump.life) {
		g->first -= back;
		g->jumps |= 1u << back;
	}
	g->nr_steps = end - g->first;
}

/* Its share of the prices for all steps, and what follows from them. */
static void group_prices(struct bound_group *g)
{
	g->prices = (struct bound_local){0};
	g->value = g->chords = 0;
	for (uint32_t j = 0; j < g->nr_steps; j++) {
		const double *time = g->all->time[g->first + j];
		const struct bound_jump *jump = &step_at(g, j)->jump;

		memcpy(g->prices.time[j], time, sizeof(g->prices.time[j]));
		g->prices.capacity[j] = g->all->capacity[g->first + j];
		g->charge[j] = g->tables->charge[g->first + j];
		g->value += bound_step_value(step_at(g, j), time, g->prices.capacity[j]);
		for (int l = 0; l < 4; l++) {
			double near_ns = jump->ns[l & ~1];

			g->chords += time[BOUND_IN_NEAR + l] * jump->slack_ns[l];
			g->prices.reach[j] += time[BOUND_IN_NEAR + l] * (jump->ns[l] - near_ns);
		}
	}
}

/* Find a member's slack. Of its ways, those that leave the group clean or dirty, and those that
 * enter it dirty, cost less when prices fall; all others cost nothing and lead to no less. */
static void member_slack(const struct bound_group *g, struct bound_member *q)
{
	double held[] = {INFINITY, q->after[BOUND_CLEAN], q->after[BOUND_DIRTY]};
	double left[] = {q->after[BOUND_AWAY], INFINITY, INFINITY}, slack;
	bound_mix mix;

	for (uint32_t j = g->nr_steps; j-- > 0;) {
		bound_stage_back(&q->stage[j], q->bytes, &g->charge[j], INFINITY, held, mix);
		bound_stage_back(&q->stage[j], q->bytes, &g->charge[j], INFINITY, left, mix);
	}
	slack = fmin(held[BOUND_AWAY] - q->before[BOUND_AWAY],
		     held[BOUND_CLEAN] - q->before[BOUND_CLEAN]);
	if (!q->clean)
		slack = fmin(slack,
			     fmin(held[BOUND_DIRTY], left[BOUND_DIRTY]) - q->before[BOUND_DIRTY]);
	q->slack = slack / q->bytes;
}

/* Set a member from what the chain kept and has now; whether it matters to the group. */
static bool member_set(const struct bound_group *g, uint32_t piece, const struct bound_kept *kept,
		       struct bound_member *q)
{
	uint32_t nr_before = kept->nr_before;
	bool live = false;

	*q = (struct bound_member){.bytes = g->chain.model->pieces[piece].bytes};
	memcpy(q->after, kept->cost, sizeof(q->after));
	memcpy(q->before, g->chain.cost[piece], sizeof(q->before));
	for (uint32_t j = g->nr_steps; j-- > 0;) {
		q->stage[j] = bound_chain_stage(g->chain.model, piece, g->first + j, nr_before);
		nr_before -= q->stage[j].event ? 1 : 0;
		q->used |= q->stage[j].event != NULL;
		live |= q->stage[j].live;
	}
	q->clean = nr_before <= g->chain.nr_clean[piece];
	if (live && !q->used)
		member_slack(g, q);
	return live || q->used;
}

bool bound_group_enter(struct bound_group *g)
{
	const struct bound_chain *c = &g->chain;

	g->nr_members = 0;
	for (uint32_t i = 0; i < c->nr_active; i++) {
		if (g->nr_members == MAX_MEMBERS)
			return false;
		if (member_set(g, c->active[i], &g->kept[i], &g->members[g->nr_members]))
			g->nr_members++;
	}
	return true;
}

bool bound_group_back(struct bound_group *g)
{
	struct bound_chain *c = &g->chain;

	if (!g->first)
		return false;
	group_find(g, g->first);
	group_prices(g);
	bound_chain_join(c, g->first);
	for (uint32_t i = 0; i < c->nr_active; i++) {
		memcpy(g->kept[i].cost, c->cost[c->active[i]], sizeof(g->kept[i].cost));
		g->kept[i].nr_before = c->nr_before[c->active[i]];
	}
	for (uint32_t j = g->nr_steps; j-- > 0;)
		bound_chain_back(c, g->tables, g->all, g->first + j);
	return true;
}

int bound_group_init(struct bound_group *g, const struct bound_tables *tables,
		     const struct bound_prices *prices)
{
	const struct bound_model *m = tables->model;
	int err;

	*g = (struct bound_group){.first = m->nr_steps, .tables = tables, .all = prices};
	err = bound_chain_init(&g->chain, m);
	if (err)
		return err;
	g->kept = calloc((size_t)m->nr_pieces + 1, sizeof(*g->kept));
	g->members = calloc(MAX_MEMBERS, sizeof(*g->members));
	if (g->kept && g->members)
		return 0;
	bound_group_fini(g);
	return -ENOMEM;
}

void bound_group_fini(struct bound_group *g)
{
	bound_chain_fini(&g->chain);
	free(g->kept);
	free(g->members);
	g->kept = NULL;
	g->members = NULL;
}
