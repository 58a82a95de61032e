/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for levels: begin with everything resident that fits, then move levels by ever smaller
 * amounts for as long as the modelled time falls. The time is (nearly) convex in the levels, so a
 * descent along single levels, pairs within a stage, and a life's levels together, gets close.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/residency/plan_parts.h"

/* Amounts tried: the budget halved so many times. */
#define STEP_FIRST 3
#define STEP_LAST 8
#define PASSES_MAX 12
/* Lives below this share of the budget are not worth a search. */
#define SMALL_SHARE 0.002
#define GAIN_MIN 1e-5
/* What rounding may leave out of a whole block. */
#define TINY_BLOCK 1e-6
/* What parts that come and go have to gain in all: they cross the link in each loop, which others
 * may need. */
#define GAIN_FLOW 0.02
/* What has to be gained by having some on the host for which there is room near. */
#define GAIN_FAR 0.02
/* What a repeated descent has to gain for another one. */
#define GAIN_AGAIN 1e-3

struct search {
	const struct plan_input *input;
	const struct stages *stages;
	struct plan_model *model;
	const struct ties *ties; /* levels that are set together; NULL: each by itself */
	double *level;		 /* by stage_life */
	enum plan_flow *flow;	 /* by stage_life; if it is not none, the level goes with it */
	bool may_flow;
	bool whole;   /* levels are whole blocks, as those that are followed will be */
	bool may_far; /* some may be far though all has room near */
	double *far;  /* by tracked life */
	enum plan_flow *saved_flow; /* room for all; where they may */
	struct rejected *rejected;
	double best_ns;
	double step;
	uint64_t work;	   /* lives looked at, but for the model's */
	uint64_t work_max; /* nothing more is tried after so much of both */
};

/* Whether a level is set with another one. */
static bool follows(const struct search *s, uint32_t i)
{
	return s->ties && s->ties->first[i] != i;
}

/* Set a level, and those that are tied to it. */
static void set_level(struct search *s, uint32_t i, double level)
{
	s->level[i] = level;
	if (!s->ties)
		return;
	while ((i = s->ties->next[i]) != TIES_END)
		s->level[i] = level;
}

static double life_blocks(const struct search *s, uint32_t i)
{
	return s->stages->blocks[s->stages->life[i].life];
}

/* Whether a life is not searched for: it is small, or advised to stay below. */
static bool is_set(const struct search *s, uint32_t tracked)
{
	return s->stages->blocks[tracked] < s->input->budget_blocks * SMALL_SHARE ||
	       s->input->life[s->stages->life_of[tracked]].below;
}

static uint64_t all_work(const struct search *s)
{
	return s->work + model_work(s->model);
}

static bool is_done(const struct search *s)
{
	const atomic_bool *stop = s->input->stop;

	return all_work(s) > s->work_max || (stop && atomic_load(stop));
}

/* A hash of all that the model's time depends on. */
static uint64_t hash_levels(const struct search *s)
{
	uint64_t hash = 0, bits;

	for (uint32_t i = 0; i < s->stages->nr_lives; i++) {
		memcpy(&bits, &s->level[i], sizeof(bits));
		hash = hash_mix(hash, bits ^ s->flow[i]);
	}
	for (uint32_t t = 0; s->input->nr_below > 1 && t < s->stages->nr_tracked; t++) {
		memcpy(&bits, &s->far[t], sizeof(bits));
		hash = hash_mix(hash, bits);
	}
	return hash;
}

/* Keep the levels as they are now if they are better. */
static bool accept(struct search *s)
{
	const double limit_ns = s->best_ns * (1 - GAIN_MIN);
	uint64_t hash, work;
	double ns;

	if (is_done(s))
		return false;
	hash = hash_levels(s);
	if (rejected_find(s->rejected, hash, limit_ns, &work)) {
		s->work += work;
		return false;
	}
	work = model_work(s->model);
	/* With two places below the search ends at its limit of work, which is exact for whole
	 * runs. */
	ns = model_run(s->model, s->level, s->input->nr_below > 1 ? INFINITY : limit_ns);
	if (ns >= limit_ns) {
		rejected_add(s->rejected, hash, ns, model_work(s->model) - work);
		return false;
	}
	s->best_ns = ns;
	return true;
}

static double clip(double value, double max)
{
	return value < 0 ? 0 : value > max ? max : value;
}

/* Try level i higher or lower by the step. */
static bool try_one(struct search *s, uint32_t i, double by)
{
	double old = s->level[i];

	set_level(s, i, clip(old + by, life_blocks(s, i)));
	if (s->level[i] != old && accept(s))
		return true;
	set_level(s, i, old);
	return false;
}

/* Try to shift the step from level i to level j. */
static bool try_pair(struct search *s, uint32_t i, uint32_t j)
{
	double old_i = s->level[i], old_j = s->level[j];
	double by = MIN(s->step, MIN(old_i, life_blocks(s, j) - old_j));

	if (by <= 0 || s->flow[j])
		return false;
	set_level(s, i, old_i - by);
	set_level(s, j, old_j + by);
	if (accept(s))
		return true;
	set_level(s, i, old_i);
	set_level(s, j, old_j);
	return false;
}

/* Blocks that may be in place on the host in stage g before the slow rate sets in; 0: no such
 * limit. */
static double near_blocks(const struct search *s, uint32_t g, uint32_t i)
{
	const struct stage *stage = &s->stages->stage[g];

	for (uint32_t u = 0; u < stage->nr_uses; u++) {
		const struct stage_use *use = &s->stages->use[stage->first_use + u];

		const struct plan_rate *rate = &use->at[s->input->nr_below - 1];

		if (use->life == s->stages->life[i].life && rate->hit < 1)
			return rate->reach_blocks / (1 - rate->hit);
	}
	return 0;
}

/* Try to have just so much of i in place as is fast, near, and the difference in j. */
static bool try_near(struct search *s, double near, uint32_t i, uint32_t j)
{
	double old_i = s->level[i], old_j = s->level[j];

	if (near <= 0 || near >= life_blocks(s, i) || s->flow[j])
		return false;
	set_level(s, i, life_blocks(s, i) - near);
	set_level(s, j, clip(old_j + old_i - s->level[i], life_blocks(s, j)));
	if (s->level[i] != old_i && accept(s))
		return true;
	set_level(s, i, old_i);
	set_level(s, j, old_j);
	return false;
}

/* Add to all levels of a life. */
static void shift_levels(struct search *s, uint32_t life, double by)
{
	const struct stages *stages = s->stages;

	for (uint32_t v = stages->first_visit[life]; v < stages->first_visit[life + 1]; v++) {
		const uint32_t i = stages->visit[v];

		if (!s->flow[i] && !follows(s, i))
			set_level(s, i, clip(s->level[i] + by, stages->blocks[life]));
	}
}

/* Try all levels of one life, by the step, at once. saved: room for all levels. */
static bool try_life(struct search *s, uint32_t life, double by, double *saved)
{
	const struct stages *stages = s->stages;
	uint32_t first = stages->first_visit[life], end = stages->first_visit[life + 1];

	s->work += end - first;
	for (uint32_t v = first; v < end; v++)
		saved[v] = s->level[stages->visit[v]];
	shift_levels(s, life, by);
	if (accept(s))
		return true;
	for (uint32_t v = first; v < end; v++)
		if (!follows(s, stages->visit[v]))
			set_level(s, stages->visit[v], saved[v]);
	return false;
}

/* Whether two lives are used in a stage together, and in none before this one. */
static bool meet_first(const struct search *s, uint32_t t, uint32_t u, uint32_t g)
{
	const struct stages *stages = s->stages;
	uint32_t v = stages->first_visit[t], w = stages->first_visit[u];

	while (v < stages->first_visit[t + 1] && w < stages->first_visit[u + 1]) {
		uint32_t at = stages->life[stages->visit[v]].stage;
		uint32_t other = stages->life[stages->visit[w]].stage;

		if (at == other)
			return at == g;
		v += at < other;
		w += other < at;
	}
	return false;
}

/* Try to shift the step from all levels of one life to all of another: where only those of a stage
 * change, blocks have to move before and after it. saved: room for all levels. */
static bool try_lives(struct search *s, uint32_t from, uint32_t to, double *saved)
{
	memcpy(saved, s->level, s->stages->nr_lives * sizeof(*saved));
	s->work += s->stages->nr_lives;
	shift_levels(s, from, -s->step);
	shift_levels(s, to, s->step);
	if (accept(s))
		return true;
	memcpy(s->level, saved, s->stages->nr_lives * sizeof(*saved));
	return false;
}

/* Give the room that a life leaves in a stage to others there, in their order. */
static void give_room(struct search *s, const struct stage *stage, double room)
{
	for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
		const double more = MIN(room, life_blocks(s, i) - s->level[i]);

		if (more <= 0 || s->flow[i] || is_set(s, s->stages->life[i].life))
			continue;
		s->level[i] += more;
		room -= more;
	}
}

/* Keep levels and flows as they are, and take them back. */
static void keep(const struct search *s, double *saved)
{
	memcpy(saved, s->level, s->stages->nr_lives * sizeof(*saved));
	memcpy(s->saved_flow, s->flow, s->stages->nr_lives * sizeof(*s->flow));
}

static bool accept_or_restore(struct search *s, const double *saved)
{
	s->work += s->stages->nr_lives;
	if (accept(s))
		return true;
	memcpy(s->level, saved, s->stages->nr_lives * sizeof(*saved));
	memcpy(s->flow, s->saved_flow, s->stages->nr_lives * sizeof(*s->flow));
	return false;
}

/* Whether parts can do that. To come only, or to go, they are to be all of the life; to go, they
 * are not to be written. */
static bool can_flow(const struct search *s, uint32_t i, enum plan_flow flow)
{
	const struct stage_life *life = &s->stages->life[i];

	if (flow == FLOW_NONE || (flow == FLOW_THROUGH && life->room))
		return true;
	return life->room && life->span == s->stages->blocks[life->life] &&
	       !(flow == FLOW_OUT && life->written);
}

/* Set what parts do in a stage; others there get the room that this leaves. */
static void set_flow(struct search *s, uint32_t i, enum plan_flow flow)
{
	const struct stage_life *life = &s->stages->life[i];
	const double old = s->level[i];

	s->flow[i] = flow;
	s->level[i] = flow == FLOW_THROUGH ? life->room : life_blocks(s, i);
	if (flow == FLOW_THROUGH)
		give_room(s, &s->stages->stage[life->stage], old - life->room);
}

/* Try to have the parts of a life come and go in all loops where they can, or in none, as they are
 * now. saved: room for all levels. */
static bool try_stream(struct search *s, uint32_t life, double *saved)
{
	const struct stages *stages = s->stages;
	bool any = false;

	keep(s, saved);
	for (uint32_t v = stages->first_visit[life]; v < stages->first_visit[life + 1]; v++) {
		const uint32_t i = stages->visit[v];

		if (!stages->life[i].room)
			continue;
		any = true;
		if (!s->flow[i]) {
			set_flow(s, i, FLOW_THROUGH);
		} else {
			s->flow[i] = FLOW_NONE;
			s->level[i] = 0;
		}
	}
	return any && accept_or_restore(s, saved);
}

/* Try to have the parts of a life do something else in one loop. saved: room for all levels. */
static bool try_flow(struct search *s, uint32_t i, double *saved)
{
	for (enum plan_flow flow = FLOW_NONE; flow <= FLOW_OUT; flow++) {
		if (flow == s->flow[i] || !can_flow(s, i, flow))
			continue;
		keep(s, saved);
		set_flow(s, i, flow);
		if (accept_or_restore(s, saved))
			return true;
	}
	return false;
}

/* Try to have a life come in one loop, stay in the uses after it, and go in another one. saved:
 * room for all levels. */
static bool try_carry(struct search *s, uint32_t life, uint32_t from, uint32_t to, double *saved)
{
	const struct stages *stages = s->stages;
	const uint32_t first = stages->first_visit[life], end = stages->first_visit[life + 1];
	uint32_t v = from;

	if (!can_flow(s, stages->visit[from], FLOW_IN) || !can_flow(s, stages->visit[to], FLOW_OUT))
		return false;
	keep(s, saved);
	set_flow(s, stages->visit[from], FLOW_IN);
	while ((v = v + 1 < end ? v + 1 : first) != to)
		set_flow(s, stages->visit[v], FLOW_NONE);
	set_flow(s, stages->visit[to], FLOW_OUT);
	return accept_or_restore(s, saved);
}

/* Try what a life's parts can do in several loops. */
static bool pass_flows(struct search *s, uint32_t life, double *saved)
{
	const uint32_t first = s->stages->first_visit[life], end = s->stages->first_visit[life + 1];
	bool better = try_stream(s, life, saved);

	for (uint32_t from = first; from < end; from++)
		for (uint32_t to = first; to < end && !is_done(s); to++)
			better |= from != to && try_carry(s, life, from, to, saved);
	return better;
}

/* Try what level i of stage g can give others, or take. */
static bool pass_level(struct search *s, uint32_t g, uint32_t i, double *saved)
{
	const struct stage_life *life = s->stages->life;
	uint32_t first = s->stages->stage[g].first_life;
	uint32_t end = first + s->stages->stage[g].nr_lives;
	bool better = try_one(s, i, -s->step) || try_one(s, i, s->step);
	double near = near_blocks(s, g, i);

	s->work += s->stages->stage[g].nr_uses;
	for (uint32_t j = first; j < end && !is_done(s); j++) {
		s->work++;
		if (j == i || is_set(s, life[j].life))
			continue;
		better |= try_pair(s, i, j) || try_near(s, near, i, j) ||
			  (meet_first(s, life[i].life, life[j].life, g) &&
			   try_lives(s, life[i].life, life[j].life, saved));
	}
	return better;
}

/* Try to have more of life t far, or with a second one, less of that in return. */
static bool try_far(struct search *s, uint32_t t, uint32_t in_return)
{
	double old = s->far[t], other = s->far[in_return];
	double by = MIN(s->step, s->stages->blocks[t] - old);

	if (in_return != t)
		by = MIN(by, other);
	if (by <= 0)
		return false;
	s->far[t] += by;
	if (in_return != t)
		s->far[in_return] -= by;
	if (accept(s))
		return true;
	s->far[t] = old;
	s->far[in_return] = other;
	return false;
}

/* Try to have less of life t far. */
static bool try_near_again(struct search *s, uint32_t t)
{
	double old = s->far[t];

	s->far[t] = clip(old - s->step, s->stages->blocks[t]);
	if (s->far[t] != old && accept(s))
		return true;
	s->far[t] = old;
	return false;
}

/* Whether all has room near, so that nothing is far. */
static bool is_all_near(const struct search *s)
{
	double far = 0;

	for (uint32_t t = 0; t < s->stages->nr_tracked; t++)
		far += s->far[t];
	return far <= 0 && !model_near_is_full(s->model);
}

static bool pass_far(struct search *s)
{
	uint32_t nr = s->stages->nr_tracked;
	bool better = false;

	if (s->input->nr_below == 1 || (!s->may_far && is_all_near(s)))
		return false;
	for (uint32_t t = 0; t < nr && !is_done(s); t++) {
		if (is_set(s, t))
			continue;
		better |= try_near_again(s, t) || try_far(s, t, t);
		for (uint32_t u = 0; u < nr && !is_done(s); u++)
			if (u != t && !is_set(s, u))
				better |= try_far(s, t, u);
	}
	s->work += nr;
	return better;
}

static bool pass(struct search *s, double *saved)
{
	bool better = pass_far(s);

	for (uint32_t t = 0; t < s->stages->nr_tracked && !is_done(s); t++)
		if (!is_set(s, t) && !follows(s, s->stages->visit[s->stages->first_visit[t]]))
			better |= (s->may_flow && pass_flows(s, t, saved)) ||
				  try_life(s, t, -s->step, saved) || try_life(s, t, s->step, saved);
	for (uint32_t i = 0; i < s->stages->nr_lives && !is_done(s); i++) {
		if (is_set(s, s->stages->life[i].life))
			continue;
		better |= s->may_flow && s->stages->life[i].room && try_flow(s, i, saved);
		if (!s->flow[i] && !follows(s, i))
			better |= pass_level(s, s->stages->life[i].stage, i, saved);
	}
	s->work += s->stages->nr_tracked + s->stages->nr_lives;
	return better;
}

/* Everything resident; where a stage is too large, each life in proportion. */
static void start_levels(struct search *s)
{
	for (uint32_t g = 0; g < s->stages->nr_stages; g++) {
		const struct stage *stage = &s->stages->stage[g];
		double sum = 0, room = s->input->budget_blocks;

		for (uint32_t i = 0; i < stage->nr_lives; i++)
			sum += life_blocks(s, stage->first_life + i);
		for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++) {
			s->level[i] = life_blocks(s, i) * (sum > room ? room / sum : 1);
			if (s->input->life[s->stages->life_of[s->stages->life[i].life]].below)
				s->level[i] = 0;
		}
	}
}

/* Of levels that are tied, what any of them reaches. */
static void join_reached(const struct search *s, double *reached)
{
	for (uint32_t i = 0; s->ties && i < s->stages->nr_lives; i++)
		if (follows(s, i))
			reached[s->ties->first[i]] = MAX(reached[s->ties->first[i]], reached[i]);
	for (uint32_t i = 0; s->ties && i < s->stages->nr_lives; i++)
		reached[i] = reached[s->ties->first[i]];
}

/* Lower levels that are never reached to what is: they would only draw on room that others make. */
static void normalise(struct search *s, double *reached)
{
	struct plan_action *action = NULL;
	uint32_t nr;

	if (model_actions(s->model, s->level, reached, &action, &nr))
		return;
	free(action);
	join_reached(s, reached);
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		s->level[i] =
			MIN(s->level[i], s->whole ? floor(reached[i] + TINY_BLOCK) : reached[i]);
	s->best_ns = model_run(s->model, s->level, INFINITY);
	if (s->input->nr_below > 1)
		model_trim_far(s->model);
}

/* A life and what one block of it costs when it is never resident, ns. */
struct ranked {
	double in_place_ns;
	uint32_t life;
};

/* Those that cost most come first; of two alike the lower number. */
static int ranked_compare(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->in_place_ns != y->in_place_ns
		       ? (x->in_place_ns < y->in_place_ns) - (x->in_place_ns > y->in_place_ns)
		       : (x->life > y->life) - (x->life < y->life);
}

/* Another start: the lives that cost most in place are resident always, the others never. rank:
 * room for all lives. */
static void start_static(struct search *s, struct ranked *rank)
{
	const struct stages *stages = s->stages;
	double left = s->input->budget_blocks;
	uint32_t last = s->input->nr_below - 1;

	for (uint32_t t = 0; t < stages->nr_tracked; t++)
		rank[t] = (struct ranked){.life = t};
	for (uint32_t u = 0; u < stages->nr_uses; u++)
		rank[stages->use[u].life].in_place_ns +=
			MAX(stages->use[u].at[last].in_ns, stages->use[u].at[last].out_ns);
	for (uint32_t t = 0; t < stages->nr_tracked; t++)
		rank[t].in_place_ns /= stages->blocks[t];
	qsort(rank, stages->nr_tracked, sizeof(*rank), ranked_compare);
	for (uint32_t n = 0; n < stages->nr_tracked; n++) {
		uint32_t t = rank[n].life;
		bool below = s->input->life[stages->life_of[t]].below;
		double level = below ? 0 : MIN(left, stages->blocks[t]);

		left -= level;
		for (uint32_t v = stages->first_visit[t]; v < stages->first_visit[t + 1]; v++)
			s->level[stages->visit[v]] = level;
	}
	s->work += stages->nr_uses + stages->nr_lives + 2ull * stages->nr_tracked;
}

/* Passes by the step for as long as they help. @return false: nothing is left to gain, or no work
 * may be done. */
static bool passes(struct search *s, double compute_ns, double *saved)
{
	for (int i = 0; i < PASSES_MAX; i++) {
		if (s->best_ns <= compute_ns * 1.001 || is_done(s))
			return false;
		normalise(s, saved);
		if (!pass(s, saved))
			break;
	}
	return true;
}

static void descend(struct search *s, double compute_ns, double *saved, uint64_t work_max)
{
	s->work_max = work_max;
	s->best_ns = model_run(s->model, s->level, INFINITY);
	for (int n = STEP_FIRST; n <= STEP_LAST; n++) {
		s->step = (double)s->input->budget_blocks / (double)(1 << n);
		if (!passes(s, compute_ns, saved))
			return;
	}
}

/* Levels, what comes and goes, and what is far, kept aside. */
struct found {
	double *level, *far;
	enum plan_flow *flow;
	double ns;
};

static int found_init(const struct search *s, struct found *found)
{
	found->level = malloc((s->stages->nr_lives + 1u) * sizeof(double));
	found->far = malloc((s->stages->nr_tracked + 1u) * sizeof(double));
	found->flow = malloc((s->stages->nr_lives + 1u) * sizeof(*found->flow));
	return found->level && found->far && found->flow ? 0 : -ENOMEM;
}

static void found_fini(struct found *found)
{
	free(found->level);
	free(found->far);
	free(found->flow);
}

static void found_keep(const struct search *s, struct found *found)
{
	memcpy(found->level, s->level, s->stages->nr_lives * sizeof(double));
	memcpy(found->far, s->far, s->stages->nr_tracked * sizeof(double));
	memcpy(found->flow, s->flow, s->stages->nr_lives * sizeof(*s->flow));
	found->ns = s->best_ns;
}

static void found_restore(struct search *s, const struct found *found)
{
	memcpy(s->level, found->level, s->stages->nr_lives * sizeof(double));
	memcpy(s->far, found->far, s->stages->nr_tracked * sizeof(double));
	memcpy(s->flow, found->flow, s->stages->nr_lives * sizeof(*s->flow));
	s->best_ns = found->ns;
}

static double all_compute_ns(const struct plan_input *input)
{
	double ns = 0;

	for (uint32_t i = 0; i < input->nr_steps; i++)
		ns += input->step[i].compute_ns;
	return ns;
}

/* Search from one beginning, and then from another. saved, rank: room for all lives. */
static void search(struct search *s, double *saved, struct ranked *rank, struct found *start,
		   struct found *first)
{
	const uint64_t work_max = search_limit(s->input);
	const double compute_ns = all_compute_ns(s->input);

	found_keep(s, start);
	descend(s, compute_ns, saved, work_max / 2);
	if (s->best_ns <= compute_ns * 1.001 || all_work(s) > work_max)
		return;
	found_keep(s, first);
	found_restore(s, start);
	start_static(s, rank);
	descend(s, compute_ns, saved, work_max);
	if (s->best_ns > first->ns)
		found_restore(s, first);
	/* Two kinds of levels have more local optima than one: go on from the best, with larger
	 * steps again, for as long as that helps. */
	do {
		found_keep(s, first);
		if (s->input->nr_below > 1)
			descend(s, compute_ns, saved, work_max);
	} while (s->best_ns < first->ns * (1 - GAIN_AGAIN));
}

/* Search once more, from the best and from a beginning, with both kinds of levels at once: where
 * neighbours' link holds kernels up, or may not be used so much, some may be far though all has
 * room near, and the host's link carries that. For as much work again; the plan counts if it gains
 * enough. */
static void search_far(struct search *s, double *saved, struct ranked *rank,
		       const struct found *start, struct found *first, struct found *far)
{
	const uint64_t work_max = search_limit(s->input);

	if (s->input->nr_below == 1)
		return;
	model_run(s->model, s->level, INFINITY);
	if (!is_all_near(s))
		return;
	s->may_far = true;
	found_keep(s, first);
	descend(s, 0, saved, work_max + work_max / 2);
	found_keep(s, far);
	found_restore(s, start);
	start_static(s, rank);
	descend(s, 0, saved, 2 * work_max);
	if (s->best_ns > far->ns)
		found_restore(s, far);
	if (s->best_ns > first->ns * (1 - GAIN_FAR))
		found_restore(s, first);
	s->may_far = false;
}

/* What is followed has whole blocks: make levels such, and go on from there by few blocks at a
 * time. What comes and goes in loops stays as it was chosen: that had to gain more. With neighbours
 * little is gained. */
static void search_whole(struct search *s, double compute_ns, double *saved)
{
	const uint64_t work_max = all_work(s) + search_limit(s->input) / 16;

	if (s->input->nr_below > 1)
		return;
	s->whole = true;
	s->work_max = work_max;
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		s->level[i] = round(s->level[i]);
	s->best_ns = model_run(s->model, s->level, INFINITY);
	for (uint32_t step = 2; step; step--) {
		s->step = step;
		if (!passes(s, compute_ns, saved))
			return;
	}
}

static bool any_can_flow(const struct search *s)
{
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		if (s->stages->life[i].room)
			return true;
	return false;
}

/* Search once more, with parts that come and go, from the beginning: what is best without has its
 * rooms elsewhere. For half as much work again; the plan counts if it gains enough. */
static void search_flows(struct search *s, double *saved, const struct found *start,
			 struct found *first)
{
	const uint64_t work_max = search_limit(s->input);

	s->saved_flow = any_can_flow(s) ? malloc(s->stages->nr_lives * sizeof(*s->flow)) : NULL;
	if (!s->saved_flow)
		return;
	s->may_flow = true;
	found_keep(s, first);
	found_restore(s, start);
	descend(s, 0, saved, work_max + work_max / 2);
	s->may_flow = false;
	if (s->best_ns > first->ns * (1 - GAIN_FLOW))
		found_restore(s, first);
	free(s->saved_flow);
}

double plan_search(const struct plan_input *input, const struct stages *stages,
		   struct plan_model *model, double *level, uint64_t *work)
{
	struct search s = {.input = input,
			   .stages = stages,
			   .model = model,
			   .level = level,
			   .flow = model_flows(model),
			   .far = model_far_levels(model),
			   .rejected = rejected_create(),
			   .work = *work};
	double *saved = malloc((stages->nr_lives + 1u) * sizeof(*saved));
	struct ranked *rank = calloc(stages->nr_tracked + 1u, sizeof(*rank));
	struct found start = {0}, first = {0}, far = {0};

	start_levels(&s);
	if (!saved || !rank || !s.rejected || found_init(&s, &start) || found_init(&s, &first) ||
	    found_init(&s, &far))
		s.best_ns = model_run(model, level, INFINITY); /* a worse plan */
	else {
		search(&s, saved, rank, &start, &first);
		search_far(&s, saved, rank, &start, &first, &far);
		search_flows(&s, saved, &start, &first);
		search_whole(&s, all_compute_ns(input), saved);
	}
	*work = all_work(&s);
	found_fini(&start);
	found_fini(&first);
	found_fini(&far);
	rejected_destroy(s.rejected);
	free(saved);
	free(rank);
	return s.best_ns;
}

double plan_search_from(const struct plan_input *input, const struct stages *stages,
			struct plan_model *model, const struct ties *ties, double *level,
			uint64_t *work)
{
	struct search s = {.input = input,
			   .stages = stages,
			   .model = model,
			   .ties = ties,
			   .level = level,
			   .flow = model_flows(model),
			   .far = model_far_levels(model),
			   .rejected = rejected_create(),
			   .work = *work};
	const uint64_t work_max = search_limit(input);
	const double compute_ns = all_compute_ns(input);
	double *saved = malloc((stages->nr_lives + 1u) * sizeof(*saved));

	if (!saved || !s.rejected)
		s.best_ns = model_run(model, level, INFINITY);
	else {
		descend(&s, compute_ns, saved, all_work(&s) + work_max / 2);
		search_whole(&s, compute_ns, saved);
	}
	*work = all_work(&s);
	rejected_destroy(s.rejected);
	free(saved);
	return s.best_ns;
}
