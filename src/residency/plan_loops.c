/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels that differ between the steps of a loop's body, and are the same in all iterations. In a
 * folded stage a life has one level for the whole loop; with one for each step, what is only read
 * can leave while the iteration's temporaries are largest, and come again beside the steps after.
 *
 * From a folded plan's levels a search does not get there: what is read has to have more room in
 * one step and temporaries more in others at the same time, and each of these alone loses. So each
 * loop is first searched by itself: what its iterations do over and over is a program that repeats
 * itself, with a period of one iteration, and a small one. What is found counts if it is better in
 * the period as a whole, where no loop is folded: so all that moves is counted in each iteration,
 * and the mapping calls for it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan_parts.h"

/* A search of one loop by itself may cost so much of what the search of a plan may: it is halved so
 * many times. */
#define HASTE_ALONE 4

/* One run of the model over stages without loops may cost so much of that, at most; one look at a
 * use in each of some stages before it, in two periods. */
#define RUN_SHARE 64
#define RUN_LOOKS 200

/* What loops are searched with. level: by stage_life of the unfolded stages, the best so far. */
struct loops {
	const struct plan_input *input;
	const struct stages *folded, *unfolded;
	const double *folded_level;
	const struct ties *ties;
	struct plan_model *model;
	double *level, *tried, *alone; /* alone: of one iteration */
	double best_ns;
	uint64_t work;
};

/* The first step of an iteration in the middle of a loop. */
static uint32_t middle(const struct stage *loop)
{
	return loop->first_step + loop->nr_iterations / 2 * loop->nr_body;
}

/* An iteration as a period of its own: what it did not allocate, or does not free, is always there.
 * life: room for all. */
static struct plan_input cut_out(const struct plan_input *input, const struct stage *loop,
				 struct plan_life *life)
{
	const uint32_t first = middle(loop), end = first + loop->nr_body;
	struct plan_input out = *input;

	for (uint32_t l = 0; l < input->nr_lives; l++) {
		const struct plan_life *from = &input->life[l];
		const bool inside = !from->permanent && from->birth < from->death &&
				    from->birth >= first && from->death <= end;

		life[l] = *from;
		life[l].permanent = !inside;
		life[l].birth = inside ? from->birth - first : 0;
		life[l].death = inside ? from->death - first : 0;
	}
	out.step = &input->step[first];
	out.nr_steps = loop->nr_body;
	out.life = life;
	out.unfolded = true;
	out.haste += HASTE_ALONE;
	return out;
}

/* Set the levels of an iteration in all of them. */
static void set_iterations(const struct loops *s, const struct stage *loop, double *level)
{
	const struct stages *u = s->unfolded;
	const uint32_t first = u->stage[middle(loop)].first_life;
	const struct stage *last = &u->stage[middle(loop) + loop->nr_body - 1];

	for (uint32_t n = first; n < last->first_life + last->nr_lives; n++)
		for (uint32_t i = s->ties->first[n]; i != TIES_END; i = s->ties->next[i])
			level[i] = s->alone[n - first];
}

/* The use of a life before one of its uses, cyclically: both are stage_lives. */
static uint32_t use_before(const struct stages *u, uint32_t i)
{
	const uint32_t t = u->life[i].life, first = u->first_visit[t];
	uint32_t at;

	SEARCH_SORTED(at, first, u->first_visit[t + 1], u->visit[at] < i);
	return u->visit[at > first ? at - 1 : u->first_visit[t + 1] - 1];
}

/* What comes into a loop with more than its level there would take room that others are to have:
 * it has no more when it is used before the loop. */
static void cap_before(const struct loops *s, const struct stage *loop, double *level)
{
	const struct stages *u = s->unfolded;
	const struct stage *last = &u->stage[loop->first_step + loop->nr_body - 1];

	for (uint32_t i = u->stage[loop->first_step].first_life;
	     i < last->first_life + last->nr_lives; i++) {
		const uint32_t before = use_before(u, i);

		if (u->life[before].stage < loop->first_step ||
		    u->life[before].stage >= loop->first_step + loop->nr_body * loop->nr_iterations)
			level[before] = MIN(level[before], level[i]);
	}
}

/* Keep the levels that were tried, if they are better. */
static void accept_tried(struct loops *s)
{
	const double ns = model_run(s->model, s->tried, s->best_ns);

	if (ns >= s->best_ns)
		return;
	s->best_ns = ns;
	memcpy(s->level, s->tried, s->unfolded->nr_lives * sizeof(*s->level));
}

/* Search for a loop's levels by itself, with so much room: from its levels now, or from the
 * beginning. life: room for all. @return 0, -ENOMEM. */
static int try_alone(struct loops *s, const struct stage *loop, uint32_t room, bool from_now,
		     struct plan_life *life)
{
	struct plan_input input = cut_out(s->input, loop, life);
	struct plan_model *model;
	struct stages stages;
	uint64_t work;
	int err;

	input.budget_blocks = room;
	err = stages_create(&input, &stages);
	if (err)
		return err;
	err = model_create(&input, &stages, &model);
	if (err)
		goto err_stages;
	work = stages.work;
	memcpy(s->alone, &s->level[s->unfolded->stage[middle(loop)].first_life],
	       stages.nr_lives * sizeof(*s->alone));
	if (from_now)
		plan_search_from(&input, &stages, model, NULL, s->alone, &work);
	else
		plan_search(&input, &stages, model, s->alone, &work);
	s->work += work;
	model_destroy(model);

	memcpy(s->tried, s->level, s->unfolded->nr_lives * sizeof(*s->tried));
	set_iterations(s, loop, s->tried);
	accept_tried(s);
	cap_before(s, loop, s->tried);
	accept_tried(s);
err_stages:
	stages_destroy(&stages);
	return err;
}

/* Whether a loop has something in place under the folded plan; and the room that it takes there. */
static bool lacks_room(const struct loops *s, const struct stage *loop, double *room)
{
	bool lacks = false;

	*room = 0;
	for (uint32_t i = loop->first_life; i < loop->first_life + loop->nr_lives; i++) {
		*room += s->folded_level[i];
		lacks |= s->folded_level[i] < s->folded->blocks[s->folded->life[i].life];
	}
	return lacks && loop->nr_iterations > 1 && loop->nr_body > 1;
}

static uint64_t all_work(const struct loops *s)
{
	return s->work + model_work(s->model);
}

static int search_loops(struct loops *s, struct plan_life *life)
{
	const uint64_t work_max = all_work(s) + search_limit(s->input) / 4;
	const uint32_t budget = s->input->budget_blocks;

	for (uint32_t g = 0; g < s->folded->nr_stages && all_work(s) <= work_max; g++) {
		const struct stage *loop = &s->folded->stage[g];
		double room;
		int err;

		if (!lacks_room(s, loop, &room))
			continue;
		err = try_alone(s, loop, budget, false, life);
		if (!err)
			err = try_alone(s, loop, budget, true, life);
		if (!err && room >= 1 && room < budget - 1)
			err = try_alone(s, loop, (uint32_t)room, false, life);
		if (err)
			return err;
	}
	return 0;
}

bool loops_may_differ(const struct plan_input *input, const struct stages *folded)
{
	if (input->guessed ||
	    RUN_LOOKS * (uint64_t)input->nr_uses > search_limit(input) / RUN_SHARE)
		return false;
	for (uint32_t g = 0; g < folded->nr_stages; g++)
		if (folded->stage[g].nr_iterations > 1 && folded->stage[g].nr_body > 1)
			return true;
	return false;
}

int loops_search(const struct plan_input *input, const struct stages *folded,
		 const double *folded_level, const struct stages *unfolded,
		 struct plan_model *model, double *level, struct loops_found *found, uint64_t *work)
{
	const uint64_t nr = unfolded->nr_lives + 1u;
	struct plan_life *life = malloc((input->nr_lives + 1u) * sizeof(*life));
	struct ties ties = {0};
	struct loops s = {.input = input,
			  .folded = folded,
			  .unfolded = unfolded,
			  .folded_level = folded_level,
			  .ties = &ties,
			  .model = model,
			  .level = level,
			  .tried = malloc(nr * sizeof(double)),
			  .alone = malloc(nr * sizeof(double))};
	int err = life && s.tried && s.alone ? ties_create(folded, unfolded, &ties) : -ENOMEM;

	if (err)
		goto err_free;
	ties_levels(folded, unfolded, &ties, folded_level, level);
	s.best_ns = model_run(model, level, INFINITY);
	found->begin_ns = s.best_ns;
	err = search_loops(&s, life);
	*work += s.work;
	if (!err)
		found->ns = plan_search_from(input, unfolded, model, &ties, level, work);
	ties_destroy(&ties);
err_free:
	free(life);
	free(s.tried);
	free(s.alone);
	return err;
}
