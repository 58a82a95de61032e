/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding a period's steps into stages. A loop is a run of steps whose shapes repeat with a short
 * period; its stage has one body, and what its iterations do is summed up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan.h"

#define BODY_MAX 16
#define ITERATIONS_MIN 3

/* Steps from `at` that repeat with period `body`, in whole iterations. */
static uint32_t loop_length(const struct plan_input *input, uint32_t at, uint32_t body)
{
	uint32_t n = at + body;

	while (n < input->nr_steps && input->step[n].shape == input->step[n - body].shape)
		n++;
	return (n - at) / body * body;
}

/* The stage that begins at a step: the longest loop, or the step alone. */
static void pick_stage(const struct plan_input *input, uint32_t at, struct stage *stage)
{
	uint32_t best = 0;

	*stage = (struct stage){.first_step = at, .nr_body = 1, .nr_iterations = 1};
	for (uint32_t body = 1; body <= BODY_MAX; body++) {
		uint32_t length = loop_length(input, at, body);

		if (length < body * ITERATIONS_MIN || length <= best)
			continue;
		best = length;
		stage->nr_body = body;
		stage->nr_iterations = length / body;
	}
}

uint32_t stages_pick_first(const struct plan_input *input)
{
	uint32_t nr = input->nr_steps, first = 0, longest = 1, body = 1;

	for (uint32_t at = 0; at < input->nr_steps;) {
		struct stage stage;
		uint32_t length;

		pick_stage(input, at, &stage);
		length = stage.nr_body * stage.nr_iterations;
		at += length;
		if (length > longest) {
			longest = length;
			body = stage.nr_body;
			first = at % nr;
		}
	}
	/* The loop may go on beyond the period's end. */
	for (uint32_t n = 0; n < nr && longest > 1; n++) {
		if (input->step[first].shape != input->step[(first + nr - body) % nr].shape)
			break;
		first = (first + 1) % nr;
	}
	return first;
}

static int alloc_arrays(const struct plan_input *input, struct stages *s)
{
	uint64_t nr_steps = input->nr_steps, nr_lives = input->nr_lives;

	s->stage = calloc(nr_steps + 1, sizeof(*s->stage));
	s->use = calloc(input->nr_uses + 1u, sizeof(*s->use));
	s->life = calloc(input->nr_uses + 1u, sizeof(*s->life));
	s->compute_ns = calloc(nr_steps + 1, sizeof(double));
	s->stage_of_step = calloc(nr_steps + 1, sizeof(uint32_t));
	s->tracked = calloc(nr_lives + 1, sizeof(uint32_t));
	s->life_of = calloc(nr_lives + 1, sizeof(uint32_t));
	s->blocks = calloc(nr_lives + 1, sizeof(double));
	return s->stage && s->use && s->life && s->compute_ns && s->stage_of_step && s->tracked &&
			       s->life_of && s->blocks
		       ? 0
		       : -ENOMEM;
}

/* Whether a life lives inside one iteration of a loop; its stage. */
static bool is_temporary(const struct plan_input *input, const struct stages *s, uint32_t l,
			 uint32_t *stage)
{
	const struct plan_life *life = &input->life[l];

	if (life->permanent || life->birth >= life->death)
		return false;
	*stage = s->stage_of_step[life->birth];
	return s->stage[*stage].nr_iterations > 1 && s->stage_of_step[life->death - 1] == *stage;
}

/* An earlier iteration's life that is born at the same place of the body, and is as large. */
static uint32_t find_twin(const struct plan_input *input, const struct stages *s, uint32_t l,
			  uint32_t g, const uint32_t *stage_of, const uint32_t *nth)
{
	const struct stage *stage = &s->stage[g];
	uint32_t body = (input->life[l].birth - stage->first_step) % stage->nr_body;

	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		uint32_t other = s->life_of[t];

		if (stage_of[other] == g && nth[other] == nth[l] &&
		    input->life[other].nr_blocks == input->life[l].nr_blocks &&
		    (input->life[other].birth - stage->first_step) % stage->nr_body == body)
			return t;
	}
	return UINT32_MAX;
}

/*
 * Number the lives to be tracked. Those of one loop that are alike in each iteration are tracked
 * as one; one that no step uses holds nothing, and is not.
 */
static int number_lives(const struct plan_input *input, struct stages *s)
{
	uint32_t nr = input->nr_lives, last_birth = UINT32_MAX, last_nth = 0;
	uint32_t *stage_of = malloc((nr + 1u) * sizeof(*stage_of));
	uint32_t *nth = calloc(nr + 1u, sizeof(*nth)); /* among those born at the same step */

	if (!stage_of || !nth) {
		free(stage_of);
		free(nth);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < input->nr_uses; i++)
		s->tracked[input->use[i].life] = 1;
	for (uint32_t l = 0; l < nr; l++) {
		bool used = s->tracked[l] != 0;

		stage_of[l] = UINT32_MAX;
		s->tracked[l] = PLAN_UNTRACKED;
		if (!used)
			continue;
		if (is_temporary(input, s, l, &stage_of[l])) {
			last_nth = input->life[l].birth == last_birth ? last_nth + 1 : 0;
			last_birth = input->life[l].birth;
			nth[l] = last_nth;
			s->tracked[l] = find_twin(input, s, l, stage_of[l], stage_of, nth);
		}
		if (s->tracked[l] != PLAN_UNTRACKED)
			continue;
		s->tracked[l] = s->nr_tracked;
		s->life_of[s->nr_tracked] = l;
		s->blocks[s->nr_tracked++] = input->life[l].nr_blocks;
	}
	free(stage_of);
	free(nth);
	return 0;
}

/* Find the entry of a life in the stage being gathered, or add it. */
static struct stage_life *stage_life_get(struct stages *s, struct stage *stage, uint32_t life)
{
	for (uint32_t i = 0; i < stage->nr_lives; i++)
		if (s->life[stage->first_life + i].life == life)
			return &s->life[stage->first_life + i];
	s->nr_lives++;
	s->life[stage->first_life + stage->nr_lives] = (struct stage_life){.life = life};
	return &s->life[stage->first_life + stage->nr_lives++];
}

static void gather_use(struct stages *s, struct stage *stage, uint32_t body,
		       const struct plan_use *use)
{
	uint32_t nr_lives = stage->nr_lives;
	uint32_t tracked = s->tracked[use->life];
	struct stage_life *life = stage_life_get(s, stage, tracked);
	struct stage_use *sum = NULL;

	if (stage->nr_lives > nr_lives)
		life->overwritten = use->kind == WEIR_OVERWRITE && use->whole;
	life->written |= use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
	for (uint32_t i = 0; i < stage->nr_uses && !sum; i++) {
		struct stage_use *candidate = &s->use[stage->first_use + i];

		if (candidate->step == body && candidate->life == tracked)
			sum = candidate;
	}
	if (!sum) {
		sum = &s->use[stage->first_use + stage->nr_uses++];
		*sum = (struct stage_use){.step = body,
					  .life = tracked,
					  .near = use->near,
					  .reach_blocks = use->reach_blocks};
		s->nr_uses++;
	}
	sum->window |= !use->whole && stage->nr_iterations > 1;
	sum->in += use->in;
	sum->out += use->out;
	sum->in_ns += use->in_ns;
	sum->out_ns += use->out_ns;
}

static void gather_stage(const struct plan_input *input, struct stages *s, struct stage *stage)
{
	uint32_t nr_steps = stage->nr_body * stage->nr_iterations;

	stage->first_use = s->nr_uses;
	stage->first_life = s->nr_lives;
	stage->first_compute = stage->first_step;
	for (uint32_t i = 0; i < nr_steps; i++) {
		const struct plan_step *step = &input->step[stage->first_step + i];
		uint32_t body = i % stage->nr_body;

		s->compute_ns[stage->first_compute + body] += step->compute_ns;
		for (uint32_t n = 0; n < step->nr_uses; n++) {
			const struct plan_use *use = &input->use[step->first_use + n];

			gather_use(s, stage, body, use);
		}
	}
}

static bool is_alive(const struct plan_life *life, uint32_t step)
{
	if (life->permanent)
		return true;
	if (life->birth < life->death)
		return step >= life->birth && step < life->death;
	return step >= life->birth || step < life->death;
}

static int index_lives(const struct plan_input *input, struct stages *s)
{
	uint64_t nr = (uint64_t)s->nr_stages * s->nr_tracked;

	s->alive = calloc(nr + 1, 1);
	s->next_use = malloc((nr + 1) * sizeof(uint32_t));
	if (!s->alive || !s->next_use)
		return -ENOMEM;
	for (uint32_t g = 0; g < s->nr_stages; g++) {
		const struct stage *stage = &s->stage[g];
		uint32_t own;

		for (uint32_t t = 0; t < s->nr_tracked; t++)
			s->alive[g * s->nr_tracked + t] =
				!is_temporary(input, s, s->life_of[t], &own) &&
				is_alive(&input->life[s->life_of[t]], stage->first_step);
		for (uint32_t i = 0; i < stage->nr_lives; i++)
			s->alive[g * s->nr_tracked + s->life[stage->first_life + i].life] = 1;
	}
	/* Twice round, backwards: the second time knows what comes after the period's end. */
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		uint32_t distance = UINT32_MAX;

		for (uint32_t n = 2 * s->nr_stages; n-- > 0;) {
			uint32_t g = n % s->nr_stages;
			const struct stage *stage = &s->stage[g];

			s->next_use[g * s->nr_tracked + t] = distance;
			if (distance != UINT32_MAX)
				distance++;
			if (!s->alive[g * s->nr_tracked + t])
				distance = UINT32_MAX;
			for (uint32_t i = 0; i < stage->nr_lives; i++)
				if (s->life[stage->first_life + i].life == t)
					distance = 1;
		}
	}
	return 0;
}

static int index_deaths(struct stages *s)
{
	uint32_t nr = 0, nr_tracked = s->nr_tracked;

	s->death = malloc(((uint64_t)s->nr_stages * nr_tracked + 1) * sizeof(uint32_t));
	if (!s->death)
		return -ENOMEM;
	for (uint32_t g = 0; g < s->nr_stages; g++) {
		uint32_t before = g ? g - 1 : s->nr_stages - 1;

		s->stage[g].first_death = nr;
		for (uint32_t t = 0; t < nr_tracked; t++)
			if (s->alive[before * nr_tracked + t] && !s->alive[g * nr_tracked + t])
				s->death[nr++] = t;
		s->stage[g].nr_deaths = nr - s->stage[g].first_death;
	}
	return 0;
}

int stages_create(const struct plan_input *input, struct stages *s)
{
	int err;

	*s = (struct stages){0};
	err = alloc_arrays(input, s);
	if (err)
		goto err_destroy;
	for (uint32_t at = 0; at < input->nr_steps;) {
		struct stage *stage = &s->stage[s->nr_stages];
		uint32_t end;

		pick_stage(input, at, stage);
		end = at + stage->nr_body * stage->nr_iterations;
		while (at < end)
			s->stage_of_step[at++] = s->nr_stages;
		s->nr_stages++;
	}
	err = number_lives(input, s);
	if (err)
		goto err_destroy;
	for (uint32_t g = 0; g < s->nr_stages; g++)
		gather_stage(input, s, &s->stage[g]);
	err = index_lives(input, s);
	if (!err)
		err = index_deaths(s);
	if (err)
		goto err_destroy;
	return 0;

err_destroy:
	stages_destroy(s);
	return err;
}

void stages_destroy(struct stages *s)
{
	free(s->stage);
	free(s->use);
	free(s->life);
	free(s->compute_ns);
	free(s->stage_of_step);
	free(s->tracked);
	free(s->life_of);
	free(s->blocks);
	free(s->death);
	free(s->alive);
	free(s->next_use);
}
