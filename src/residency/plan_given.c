/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan whose levels somebody else chose, step by step: no loops are folded, so that each step is
 * a stage, and a life's blocks move while a step runs until its level in the next step is reached.
 * What the model is asked for is when stages end under such levels, and that alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/residency/plan_parts.h"

uint64_t plan_fingerprint(const struct plan_input *input)
{
	uint64_t hash = hash_mix(input->nr_steps, input->budget_blocks);

	for (uint32_t l = 0; l < input->nr_lives; l++) {
		const struct plan_life *life = &input->life[l];

		hash = hash_mix(hash, life->nr_blocks * 2ull + life->permanent);
		if (!life->permanent)
			hash = hash_mix(hash_mix(hash, life->birth), life->death);
	}
	for (uint32_t i = 0; i < input->nr_steps; i++)
		for (uint32_t u = 0; u < input->step[i].nr_uses; u++) {
			const struct plan_use *use = &input->use[input->step[i].first_use + u];

			hash = hash_mix(hash_mix(hash, i), use->life * 16ull + (uint64_t)use->kind);
			hash = hash_mix(hash_mix(hash, use->first), use->nr);
		}
	return hash;
}

int given_check(const struct plan_input *input, const struct plan_given *given)
{
	if (input->nr_below > 1) {
		log_error("plan: a given one is for a space without neighbours' memory");
		return -ENOTSUP;
	}
	if (given->nr_steps != input->nr_steps || given->nr_lives != input->nr_lives) {
		log_error(
			"plan: the given one has %u brackets and %u lives, the program repeats %u "
			"with %u",
			given->nr_steps, given->nr_lives, input->nr_steps, input->nr_lives);
		return -EINVAL;
	}
	if (given->fingerprint != plan_fingerprint(input)) {
		log_error("plan: the given one is of other uses, sizes or another budget");
		return -EINVAL;
	}
	return 0;
}

void given_levels(const struct plan_given *given, const struct stages *stages, double *level)
{
	for (uint32_t i = 0; i < stages->nr_lives; i++) {
		const uint32_t t = stages->life[i].life;
		const uint32_t blocks =
			given->level[(uint64_t)stages->life_of[t] * given->nr_steps +
				     stages->life[i].stage];

		level[i] = MIN(blocks, stages->blocks[t]);
	}
}

/* The stage_life of a tracked life in a stage; NULL: it is not used there. */
static const struct stage_life *find_life(const struct stages *stages, uint32_t t, uint32_t stage)
{
	const struct stage *s = &stages->stage[stage];

	for (uint32_t i = s->first_life; i < s->first_life + s->nr_lives; i++)
		if (stages->life[i].life == t)
			return &stages->life[i];
	return NULL;
}

/*
 * The moves of one kind that bring levels to those of a stage. They begin when the program comes to
 * that stage, which is while the device is still at the one before, with all that it uses in place:
 * earlier they would take room that it has yet to get. @return how many were added.
 */
static uint32_t add_moves(const struct plan_given *given, const struct stages *stages,
			  uint32_t stage, enum plan_move move, struct plan_action *action)
{
	const uint32_t before = (stage + stages->nr_stages - 1) % stages->nr_stages;
	uint32_t nr = 0;

	for (uint32_t t = 0; t < stages->nr_tracked; t++) {
		const uint32_t l = stages->life_of[t];
		const uint32_t *level = &given->level[(uint64_t)l * given->nr_steps];
		const struct stage_life *use;

		if (level[before] == level[stage] ||
		    (move == PLAN_FETCH) != (level[stage] > level[before]))
			continue;
		if (!span_has(&stages->alive[t], stages->nr_stages, before) ||
		    !span_has(&stages->alive[t], stages->nr_stages, stage))
			continue;
		use = find_life(stages, t, stage);
		if (move == PLAN_FETCH && use && use->overwritten)
			continue;
		if (action)
			action[nr] = (struct plan_action){.move = move,
							  .life = l,
							  .nr_blocks = level[stage],
							  .from = stage,
							  .due = stage};
		nr++;
	}
	return nr;
}

int given_actions(const struct plan_given *given, const struct stages *stages,
		  struct plan_action **out, uint32_t *nr)
{
	struct plan_action *action;
	uint32_t nr_all = 0, at = 0;

	for (uint32_t g = 0; g < stages->nr_stages; g++)
		nr_all += add_moves(given, stages, g, PLAN_EVICT, NULL) +
			  add_moves(given, stages, g, PLAN_FETCH, NULL);
	action = malloc((nr_all + 1u) * sizeof(*action));
	if (!action)
		return -ENOMEM;
	for (uint32_t g = 0; g < stages->nr_stages; g++) {
		at += add_moves(given, stages, g, PLAN_EVICT, action + at);
		at += add_moves(given, stages, g, PLAN_FETCH, action + at);
	}
	*out = action;
	*nr = nr_all;
	return 0;
}
