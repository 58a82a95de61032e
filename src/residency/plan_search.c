/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for levels: begin with everything resident that fits, then move levels by ever smaller
 * amounts for as long as the modelled time falls. The time is (nearly) convex in the levels, so a
 * descent along single levels, pairs within a stage, and a life's levels together, gets close.
 */
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan.h"

/* Amounts tried: the budget halved so many times. */
#define STEP_FIRST 3
#define STEP_LAST 8
#define PASSES_MAX 12
/* Lives below this share of the budget are not worth a search. */
#define SMALL_SHARE 0.002
#define GAIN_MIN 1e-5
/* What a search may cost, in lives looked at: a quarter of a second. */
#define WORK_MAX 500000000u

struct search {
	const struct plan_input *input;
	const struct stages *stages;
	struct plan_model *model;
	double *level;
	double best_ns;
	double step;
	uint64_t work; /* done so far, in lives looked at by the model */
};

static double life_blocks(const struct search *s, uint32_t i)
{
	return s->stages->blocks[s->stages->life[i].life];
}

/* Whether a life is not searched for: it is small, or advised to stay on the host. */
static bool is_set(const struct search *s, uint32_t tracked)
{
	return s->stages->blocks[tracked] < s->input->budget_blocks * SMALL_SHARE ||
	       s->input->life[s->stages->life_of[tracked]].host;
}

static bool is_done(const struct search *s)
{
	return s->work > WORK_MAX;
}

/* Keep the levels as they are now if they are better. */
static bool accept(struct search *s)
{
	double ns;

	if (is_done(s))
		return false;
	s->work += model_work(s->stages);
	ns = model_run(s->model, s->level);
	if (ns >= s->best_ns * (1 - GAIN_MIN))
		return false;
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

	s->level[i] = clip(old + by, life_blocks(s, i));
	if (s->level[i] != old && accept(s))
		return true;
	s->level[i] = old;
	return false;
}

/* Try to shift the step from level i to level j. */
static bool try_pair(struct search *s, uint32_t i, uint32_t j)
{
	double old_i = s->level[i], old_j = s->level[j];
	double by = MIN(s->step, MIN(old_i, life_blocks(s, j) - old_j));

	if (by <= 0)
		return false;
	s->level[i] -= by;
	s->level[j] += by;
	if (accept(s))
		return true;
	s->level[i] = old_i;
	s->level[j] = old_j;
	return false;
}

/* Blocks that may be in place in stage g before the slow rate sets in; 0: no such limit. */
static double near_blocks(const struct search *s, uint32_t g, uint32_t i)
{
	const struct stage *stage = &s->stages->stage[g];

	for (uint32_t u = 0; u < stage->nr_uses; u++) {
		const struct stage_use *use = &s->stages->use[stage->first_use + u];

		if (use->life == s->stages->life[i].life && use->near < 1)
			return use->reach_blocks / (1 - use->near);
	}
	return 0;
}

/* Try to have just so much of i in place as is fast, and the difference in j. */
static bool try_near(struct search *s, uint32_t g, uint32_t i, uint32_t j)
{
	double old_i = s->level[i], old_j = s->level[j], near = near_blocks(s, g, i);

	if (near <= 0 || near >= life_blocks(s, i))
		return false;
	s->level[i] = life_blocks(s, i) - near;
	s->level[j] = clip(old_j + old_i - s->level[i], life_blocks(s, j));
	if (s->level[i] != old_i && accept(s))
		return true;
	s->level[i] = old_i;
	s->level[j] = old_j;
	return false;
}

/* Try all levels of one life, by the step, at once. saved: room for all levels. */
static bool try_life(struct search *s, uint32_t life, double by, double *saved)
{
	memcpy(saved, s->level, s->stages->nr_lives * sizeof(double));
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		if (s->stages->life[i].life == life)
			s->level[i] = clip(s->level[i] + by, life_blocks(s, i));
	if (accept(s))
		return true;
	memcpy(s->level, saved, s->stages->nr_lives * sizeof(double));
	return false;
}

static bool pass(struct search *s, double *saved)
{
	bool better = false;

	for (uint32_t t = 0; t < s->stages->nr_tracked; t++) {
		if (is_set(s, t))
			continue;
		better |= try_life(s, t, -s->step, saved) || try_life(s, t, s->step, saved);
	}
	for (uint32_t g = 0; g < s->stages->nr_stages; g++) {
		uint32_t first = s->stages->stage[g].first_life;
		uint32_t end = first + s->stages->stage[g].nr_lives;

		for (uint32_t i = first; i < end; i++) {
			if (is_set(s, s->stages->life[i].life))
				continue;
			better |= try_one(s, i, -s->step) || try_one(s, i, s->step);
			for (uint32_t j = first; j < end; j++)
				if (j != i && !is_set(s, s->stages->life[j].life))
					better |= try_pair(s, i, j) || try_near(s, g, i, j);
		}
	}
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
			if (s->input->life[s->stages->life_of[s->stages->life[i].life]].host)
				s->level[i] = 0;
		}
	}
}

/* Lower levels that are never reached to what is: they would only draw on room that others make. */
static void normalise(struct search *s, double *reached)
{
	struct plan_action *action = NULL;
	uint32_t nr;

	if (model_actions(s->model, s->level, reached, &action, &nr))
		return;
	free(action);
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		s->level[i] = MIN(s->level[i], reached[i]);
	s->best_ns = model_run(s->model, s->level);
}

/* What one block of a life costs when it is never resident, ns: by tracked life. */
static double in_place_ns(const struct search *s, uint32_t tracked)
{
	double ns = 0;

	for (uint32_t u = 0; u < s->stages->nr_uses; u++)
		if (s->stages->use[u].life == tracked)
			ns += MAX(s->stages->use[u].in_ns, s->stages->use[u].out_ns);
	return ns / s->stages->blocks[tracked];
}

/* Another start: the lives that cost most in place are resident always, the others never. room:
 * room for a value of each tracked life. */
static void start_static(struct search *s, double *room)
{
	double left = s->input->budget_blocks;

	for (uint32_t t = 0; t < s->stages->nr_tracked; t++)
		room[t] = -1;
	for (;;) {
		uint32_t best = UINT32_MAX;

		for (uint32_t t = 0; t < s->stages->nr_tracked; t++)
			if (room[t] < 0 &&
			    (best == UINT32_MAX || in_place_ns(s, t) > in_place_ns(s, best)))
				best = t;
		if (best == UINT32_MAX)
			break;
		room[best] = MIN(left, s->stages->blocks[best]);
		if (s->input->life[s->stages->life_of[best]].host)
			room[best] = 0;
		left -= room[best];
	}
	for (uint32_t i = 0; i < s->stages->nr_lives; i++)
		s->level[i] = room[s->stages->life[i].life];
}

static void descend(struct search *s, double compute_ns, double *saved)
{
	s->work = 0;
	s->best_ns = model_run(s->model, s->level);
	for (int n = STEP_FIRST; n <= STEP_LAST; n++) {
		s->step = (double)s->input->budget_blocks / (double)(1 << n);
		for (int i = 0; i < PASSES_MAX; i++) {
			if (s->best_ns <= compute_ns * 1.001 || is_done(s))
				return;
			normalise(s, saved);
			if (!pass(s, saved))
				break;
		}
	}
}

double plan_search(const struct plan_input *input, const struct stages *stages,
		   struct plan_model *model, double *level)
{
	struct search s = {.input = input, .stages = stages, .model = model, .level = level};
	uint64_t nr = stages->nr_lives + 1u, nr_saved = MAX(nr, stages->nr_tracked + 1u);
	double *saved = malloc(nr_saved * sizeof(double)), *first = malloc(nr * sizeof(double));
	double compute_ns = 0, first_ns;

	for (uint32_t i = 0; i < input->nr_steps; i++)
		compute_ns += input->step[i].compute_ns;
	start_levels(&s);
	s.best_ns = model_run(model, level);
	if (!saved || !first)
		goto out; /* a worse plan */
	descend(&s, compute_ns, saved);
	if (s.best_ns <= compute_ns * 1.001)
		goto out;
	memcpy(first, level, stages->nr_lives * sizeof(double));
	first_ns = s.best_ns;
	start_static(&s, saved);
	descend(&s, compute_ns, saved);
	if (s.best_ns > first_ns) {
		memcpy(level, first, stages->nr_lives * sizeof(double));
		s.best_ns = first_ns;
	}
out:
	free(first);
	free(saved);
	return s.best_ns;
}
