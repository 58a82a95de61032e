/* SPDX-License-Identifier: Apache-2.0 */
/* Making a plan from its parts: see plan.h. */
#include "src/residency/plan.h"

#include <errno.h>
#include <stdlib.h>

static int plan_fill(struct plan *plan, const struct plan_input *input, struct stages *stages,
		     struct plan_model *model)
{
	double *level = calloc(stages->nr_lives + 1u, sizeof(double));
	int err;

	plan->level = calloc((uint64_t)stages->nr_stages * input->nr_lives + 1, sizeof(uint32_t));
	if (!level || !plan->level) {
		err = -ENOMEM;
		goto err_free;
	}
	plan->modelled_ns = plan_search(input, stages, model, level);
	for (uint32_t i = 0; i < input->nr_steps; i++)
		plan->compute_ns += input->step[i].compute_ns;
	for (uint32_t g = 0; g < stages->nr_stages; g++) {
		const struct stage *stage = &stages->stage[g];

		for (uint32_t i = stage->first_life; i < stage->first_life + stage->nr_lives; i++)
			plan->level[g * input->nr_lives + stages->life[i].life] =
				(uint32_t)(level[i] + 0.5);
	}
	err = model_actions(model, level, &plan->action, &plan->nr_actions);
err_free:
	free(level);
	return err;
}

int plan_create(const struct plan_input *input, struct plan **out)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct plan_model *model = NULL;
	struct stages stages;
	int err;

	if (!plan)
		return -ENOMEM;
	err = stages_create(input, &stages);
	if (err)
		goto err_free;
	err = model_create(input, &stages, &model);
	if (err)
		goto err_stages;
	plan->nr_stages = stages.nr_stages;
	plan->nr_steps = input->nr_steps;
	plan->nr_lives = input->nr_lives;
	err = plan_fill(plan, input, &stages, model);
	model_destroy(model);
	if (err)
		goto err_stages;
	/* These outlive the folding. */
	plan->stage_of_step = stages.stage_of_step;
	plan->next_use = stages.next_use;
	stages.stage_of_step = NULL;
	stages.next_use = NULL;
	plan->temporary = stages.temporary;
	stages.temporary = NULL;
	stages_destroy(&stages);
	*out = plan;
	return 0;

err_stages:
	stages_destroy(&stages);
err_free:
	plan_destroy(plan);
	return err;
}

void plan_destroy(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->stage_of_step);
	free(plan->level);
	free(plan->next_use);
	free(plan->temporary);
	free(plan->action);
	free(plan);
}
