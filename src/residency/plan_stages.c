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

	*stage = (struct stage){ .first_step = at, .nr_body = 1, .nr_iterations = 1 };
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
	uint32_t first = 0, longest = 1;

	for (uint32_t at = 0; at < input->nr_steps;) {
		struct stage stage;
		uint32_t length;

		pick_stage(input, at, &stage);
		length = stage.nr_body * stage.nr_iterations;
		at += length;
		if (length > longest) {
			longest = length;
			first = at % input->nr_steps;
		}
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

/* Number the lives to be tracked. One that lives inside one loop's stage is not: it is a temporary,
 * resident while it lives; one that no step uses holds nothing. */
static void number_lives(const struct plan_input *input, struct stages *s)
{
	for (uint32_t i = 0; i < input->nr_uses; i++)
		s->tracked[input->use[i].life] = 1;
	for (uint32_t l = 0; l < input->nr_lives; l++) {
		const struct plan_life *life = &input->life[l];
		bool used = s->tracked[l] != 0;

		s->tracked[l] = PLAN_TEMPORARY;
		if (!used)
			continue;
		if (!life->permanent && life->birth < life->death) {
			uint32_t g = s->stage_of_step[life->birth];

			if (s->stage[g].nr_iterations > 1 && s->stage_of_step[life->death - 1] == g)
				continue;
		}
		s->tracked[l] = s->nr_tracked;
		s->life_of[s->nr_tracked] = l;
		s->blocks[s->nr_tracked++] = life->nr_blocks;
	}
}

/* The most blocks of temporaries alive at one step of the stage. */
static void count_temporaries(const struct plan_input *input, struct stages *s)
{
	double *delta = calloc(input->nr_steps + 1u, sizeof(double)), blocks = 0;

	if (!delta)
		return; /* the plan is then a little too hopeful */
	for (uint32_t l = 0; l < input->nr_lives; l++) {
		if (s->tracked[l] != PLAN_TEMPORARY || input->life[l].birth >= input->life[l].death)
			continue;
		delta[input->life[l].birth] += input->life[l].nr_blocks;
		delta[input->life[l].death] -= input->life[l].nr_blocks;
	}
	for (uint32_t i = 0; i < input->nr_steps; i++) {
		struct stage *stage = &s->stage[s->stage_of_step[i]];

		blocks += delta[i];
		stage->temporary_blocks = MAX(stage->temporary_blocks, blocks);
	}
	free(delta);
}

/* Find the entry of a life in the stage being gathered, or add it. */
static struct stage_life *stage_life_get(struct stages *s, struct stage *stage, uint32_t life)
{
	for (uint32_t i = 0; i < stage->nr_lives; i++)
		if (s->life[stage->first_life + i].life == life)
			return &s->life[stage->first_life + i];
	s->nr_lives++;
	s->life[stage->first_life + stage->nr_lives] = (struct stage_life){ .life = life };
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
		*sum = (struct stage_use){ .step = body, .life = tracked };
		s->nr_uses++;
	}
	sum->window |= !use->whole && stage->nr_iterations > 1;
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

			if (s->tracked[use->life] != PLAN_TEMPORARY)
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

		for (uint32_t t = 0; t < s->nr_tracked; t++)
			s->alive[g * s->nr_tracked + t] =
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

int stages_create(const struct plan_input *input, struct stages *s)
{
	int err;

	*s = (struct stages){ 0 };
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
	number_lives(input, s);
	count_temporaries(input, s);
	for (uint32_t g = 0; g < s->nr_stages; g++)
		gather_stage(input, s, &s->stage[g]);
	err = index_lives(input, s);
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
	free(s->alive);
	free(s->next_use);
}
