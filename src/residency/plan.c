/* SPDX-License-Identifier: Apache-2.0 */
/* Making a plan from its parts: see plan.h. */
#include "src/residency/plan.h"

#include <errno.h>
#include <stdlib.h>

static int plan_fill(struct plan *plan, const struct plan_input *input, struct stages *stages,
		     struct plan_model *model)
{
	double *level = calloc(stages->nr_lives + 1u, sizeof(double));
	double *reached = calloc(stages->nr_lives + 1u, sizeof(double));
	int err;

	plan->level =
		calloc((uint64_t)stages->nr_stages * stages->nr_tracked + 1, sizeof(uint32_t));
	if (!level || !reached || !plan->level) {
		err = -ENOMEM;
		goto err_free;
	}
	plan->modelled_ns = plan_search(input, stages, model, level);
	for (uint32_t i = 0; i < input->nr_steps; i++)
		plan->compute_ns += input->step[i].compute_ns;
	err = model_actions(model, level, reached, &plan->action, &plan->nr_actions);
	if (err)
		goto err_free;
	for (uint32_t g = 0; g < stages->nr_stages; g++) {
		const struct stage *stage = &stages->stage[g];

		for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++)
			plan->level[g * stages->nr_tracked + stages->life[i].life] =
				(uint32_t)(reached[i] + 1e-6);
	}
err_free:
	free(level);
	free(reached);
	return err;
}

/* The same period, beginning at another step. Its arrays are the caller's to free. */
static int rotate(const struct plan_input *input, uint32_t first, struct plan_input *out)
{
	uint32_t nr = input->nr_steps;
	struct plan_step *step = malloc((nr + 1u) * sizeof(*step));
	struct plan_life *life = malloc((input->nr_lives + 1u) * sizeof(*life));

	if (!step || !life) {
		free(step);
		free(life);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < nr; i++)
		step[i] = input->step[(first + i) % nr];
	for (uint32_t l = 0; l < input->nr_lives; l++) {
		life[l] = input->life[l];
		life[l].birth = (life[l].birth + nr - first) % nr;
		life[l].death = (life[l].death + nr - first) % nr;
		life[l].death = life[l].death ? life[l].death : nr;
	}
	*out = *input;
	out->step = step;
	out->life = life;
	return 0;
}

/* Keep what the plan needs of the stages, by the caller's numbers of steps. */
static int plan_keep(struct plan *plan, struct stages *stages)
{
	uint32_t nr = plan->nr_steps;

	plan->stage_of_step = malloc((nr + 1u) * sizeof(uint32_t));
	if (!plan->stage_of_step)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++)
		plan->stage_of_step[(plan->first_step + i) % nr] = stages->stage_of_step[i];
	plan->nr_stages = stages->nr_stages;
	plan->nr_tracked = stages->nr_tracked;
	plan->next_use = stages->next_use;
	plan->tracked = stages->tracked;
	stages->next_use = NULL;
	stages->tracked = NULL;
	return 0;
}

int plan_create(const struct plan_input *given, struct plan **out)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct plan_model *model = NULL;
	struct plan_input input;
	struct stages stages;
	int err;

	if (!plan)
		return -ENOMEM;
	if (!given->nr_steps) {
		err = -EINVAL;
		goto err_free;
	}
	plan->nr_steps = given->nr_steps;
	plan->first_step = stages_pick_first(given);
	err = rotate(given, plan->first_step, &input);
	if (err)
		goto err_free;
	err = stages_create(&input, &stages);
	if (err)
		goto err_rotated;
	err = model_create(&input, &stages, &model);
	if (err)
		goto err_stages;
	err = plan_fill(plan, &input, &stages, model);
	model_destroy(model);
	if (!err)
		err = plan_keep(plan, &stages);
err_stages:
	stages_destroy(&stages);
err_rotated:
	free((void *)(uintptr_t)input.step);
	free((void *)(uintptr_t)input.life);
err_free:
	if (err)
		plan_destroy(plan);
	else
		*out = plan;
	return err;
}

void plan_destroy(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->stage_of_step);
	free(plan->level);
	free(plan->next_use);
	free(plan->tracked);
	free(plan->action);
	free(plan);
}
