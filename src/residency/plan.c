/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a plan from its parts: see plan.h.
 *
 * It is made with the space's lock held, so what it costs is limited, whatever the program does. Of
 * S stages with E uses of lives by stages, all tables are of S + E entries, and the walks that make
 * them are linear or sort: a life's cost in place is summed up in one walk over the uses, its next
 * uses are a list, and places in the order of eviction are numbered ahead of time. One run of the
 * model looks at each stage's lives and at those of the 32 stages after it, E times 33, and finds
 * whom to evict in a set of bits (plan_victims.c). The search makes as many runs as its limit of
 * work allows, with all that was done before it counted in; no fewer than one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/residency/plan_parts.h"

/* Note the visits, with the blocks that are resident in them. */
static void keep_visits(struct plan *plan, const struct stages *stages, struct plan_model *model,
			const double *reached)
{
	for (uint32_t v = 0; v < stages->nr_lives; v++) {
		uint32_t i = stages->visit[v];
		const struct stage_life *life = &stages->life[i];

		plan->visit[v] = (struct plan_visit){.stage = life->stage,
						     .level = (uint32_t)(reached[i] + 1e-6),
						     .streams = model_streams(model)[i]};
		plan->confines |= plan->visit[v].level < (uint32_t)stages->blocks[life->life];
	}
}

/* The levels that are reached, and moves: of the search, or of levels that were given. */
static int find_moves(struct plan *plan, const struct plan_input *input, struct stages *stages,
		      struct plan_model *model, const struct plan_given *given, double *level,
		      double *reached, uint64_t *work)
{
	if (!given) {
		plan->modelled_ns = plan_search(input, stages, model, level, work);
		*work -= model_work(model);
		return model_actions(model, level, reached, &plan->action, &plan->nr_actions);
	}
	given_levels(given, stages, reached);
	plan->modelled_ns = model_run(model, reached, INFINITY);
	return given_actions(given, stages, &plan->action, &plan->nr_actions);
}

static int plan_fill(struct plan *plan, const struct plan_input *input, struct stages *stages,
		     struct plan_model *model, const struct plan_given *given)
{
	double *level = calloc(stages->nr_lives + 1u, sizeof(double));
	double *reached = calloc(stages->nr_lives + 1u, sizeof(double));
	uint64_t work = stages->work;
	int err;

	plan->visit = malloc((stages->nr_lives + 1u) * sizeof(*plan->visit));
	if (!level || !reached || !plan->visit) {
		err = -ENOMEM;
		goto err_free;
	}
	for (uint32_t i = 0; i < input->nr_steps; i++)
		plan->compute_ns += input->step[i].compute_ns;
	err = find_moves(plan, input, stages, model, given, level, reached, &work);
	if (err)
		goto err_free;
	plan->work = work + model_work(model);
	keep_visits(plan, stages, model, reached);
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
static int plan_keep(struct plan *plan, const struct plan_input *input, struct stages *stages,
		     const struct plan_model *model)
{
	uint32_t nr = plan->nr_steps;

	plan->stage_of_step = malloc((nr + 1u) * sizeof(uint32_t));
	plan->far = malloc((stages->nr_tracked + 1u) * sizeof(*plan->far));
	plan->kept = malloc((stages->nr_tracked + 1u) * sizeof(*plan->kept));
	plan->end_ns = malloc((stages->nr_stages + 1u) * sizeof(*plan->end_ns));
	plan->link_busy = malloc((stages->nr_stages + 1u) * sizeof(*plan->link_busy));
	plan->seen = calloc(stages->nr_stages + 1u, sizeof(*plan->seen));
	if (!plan->stage_of_step || !plan->far || !plan->kept || !plan->end_ns ||
	    !plan->link_busy || !plan->seen)
		return -ENOMEM;
	memcpy(plan->end_ns, model_end_ns(model), stages->nr_stages * sizeof(*plan->end_ns));
	memcpy(plan->link_busy, model_link_busy(model),
	       stages->nr_stages * sizeof(*plan->link_busy));
	plan->lift_ns = input->nr_below > 1 ? input->below[1].in_ns : 0;
	for (uint32_t t = 0; t < stages->nr_tracked; t++) {
		plan->far[t] = model_far(model, t);
		plan->kept[t] = model_is_kept(model, t);
		if (plan->kept[t])
			plan->nr_kept_blocks += (uint64_t)stages->blocks[t];
	}
	for (uint32_t i = 0; i < nr; i++)
		plan->stage_of_step[(plan->first_step + i) % nr] = stages->stage_of_step[i];
	plan->nr_stages = stages->nr_stages;
	plan->nr_tracked = stages->nr_tracked;
	plan->tracked = stages->tracked;
	plan->first_visit = stages->first_visit;
	plan->alive = stages->alive;
	stages->tracked = NULL;
	stages->first_visit = NULL;
	stages->alive = NULL;
	return 0;
}

/* levels: NULL: they are searched for. */
static int make(const struct plan_input *given, const struct plan_given *levels, struct plan **out)
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
	err = plan_fill(plan, &input, &stages, model, levels);
	if (!err)
		err = plan_keep(plan, &input, &stages, model);
	model_destroy(model);
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

int plan_create(const struct plan_input *input, struct plan **out)
{
	return make(input, NULL, out);
}

int plan_create_given(const struct plan_input *input, const struct plan_given *given,
		      struct plan **out)
{
	struct plan_input unfolded = *input;
	int err = given_check(input, given);

	unfolded.unfolded = true;
	return err ? err : make(&unfolded, given, out);
}

void plan_destroy(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->stage_of_step);
	free(plan->tracked);
	free(plan->first_visit);
	free(plan->visit);
	free(plan->alive);
	free(plan->far);
	free(plan->kept);
	free(plan->end_ns);
	free(plan->link_busy);
	free(plan->seen);
	free(plan->action);
	free(plan);
}

/* The first visit of a life after a stage; the end of its visits: none. */
static uint32_t visit_after(const struct plan *plan, uint32_t stage, uint32_t t)
{
	uint32_t at;

	SEARCH_SORTED(at, plan->first_visit[t], plan->first_visit[t + 1],
		      plan->visit[at].stage <= stage);
	return at;
}

/* The visit of a life in a stage; NULL: it is not used there. */
static const struct plan_visit *visit_in(const struct plan *plan, uint32_t stage, uint32_t t)
{
	uint32_t after = visit_after(plan, stage, t);

	if (after == plan->first_visit[t] || plan->visit[after - 1].stage != stage)
		return NULL;
	return &plan->visit[after - 1];
}

uint32_t plan_level(const struct plan *plan, uint32_t stage, uint32_t t)
{
	const struct plan_visit *visit = visit_in(plan, stage, t);

	return visit ? visit->level : 0;
}

bool plan_streams(const struct plan *plan, uint32_t stage, uint32_t t)
{
	const struct plan_visit *visit = visit_in(plan, stage, t);

	return visit && visit->streams;
}

uint32_t plan_level_max(const struct plan *plan, uint32_t t)
{
	uint32_t level = 0;

	for (uint32_t v = plan->first_visit[t]; v < plan->first_visit[t + 1]; v++)
		if (!plan->visit[v].streams)
			level = MAX(level, plan->visit[v].level);
	return level;
}

double plan_between_ns(const struct plan *plan, uint32_t stage, uint32_t distance)
{
	const double period_ns = plan->end_ns[plan->nr_stages - 1];
	uint64_t last = (uint64_t)stage + distance - 1, nr_periods = last / plan->nr_stages;

	if (distance < 2)
		return 0;
	return (double)nr_periods * period_ns + plan->end_ns[last % plan->nr_stages] -
	       plan->end_ns[stage];
}

uint32_t plan_next_use(const struct plan *plan, uint32_t stage, uint32_t t)
{
	uint32_t after = visit_after(plan, stage, t);

	if (after == plan->first_visit[t + 1])
		after = plan->first_visit[t];
	return span_distance(&plan->alive[t], plan->nr_stages, stage, plan->visit[after].stage);
}
