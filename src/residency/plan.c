/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a plan from its parts: see plan.h.
 *
 * A program may wait for it, so what it costs is limited, whatever the program does. Of S stages
 * with E uses of lives by stages, all tables are of S + E entries, and the walks that make
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

/* What levels of their own for the steps of loops' bodies have to gain. */
#define GAIN_UNFOLDED 0.01

/* Note the visits, with the blocks that are resident in them. */
static void keep_visits(struct plan *plan, const struct stages *stages, struct plan_model *model,
			const double *reached)
{
	for (uint32_t v = 0; v < stages->nr_lives; v++) {
		uint32_t i = stages->visit[v];
		const struct stage_life *life = &stages->life[i];

		plan->visit[v] = (struct plan_visit){.stage = life->stage,
						     .level = (uint32_t)(reached[i] + 1e-6),
						     .flow = model_flows(model)[i]};
		plan->confines |= plan->visit[v].level < (uint32_t)stages->blocks[life->life];
		plan->streams[life->stage] |= plan->visit[v].flow == FLOW_THROUGH;
		if (plan->visit[v].flow != FLOW_OUT)
			plan->levels[life->stage] += plan->visit[v].level;
	}
}

/* Stages of an input with levels for them, not yet a plan. */
struct draft {
	struct plan_input input;
	struct stages stages;
	struct plan_model *model;
	double *level; /* by stage_life */
	double ns;
	uint64_t work; /* but for the model's */
};

static void draft_fini(struct draft *draft)
{
	free(draft->level);
	model_destroy(draft->model);
	stages_destroy(&draft->stages);
}

/* Its arrays are the input's. */
static int draft_init(struct draft *draft, const struct plan_input *input)
{
	int err;

	draft->input = *input;
	draft->model = NULL;
	err = stages_create(&draft->input, &draft->stages);
	if (err)
		return err;
	draft->work = draft->stages.work;
	draft->level = calloc(draft->stages.nr_lives + 1u, sizeof(double));
	err = draft->level ? model_create(&draft->input, &draft->stages, &draft->model) : -ENOMEM;
	if (err)
		draft_fini(draft);
	return err;
}

/* The levels that are reached, and moves: of the search, or of levels that were given. */
static int find_moves(struct plan *plan, struct draft *draft, const struct plan_given *given,
		      double *reached)
{
	if (!given) {
		plan->modelled_ns = draft->ns;
		return model_actions(draft->model, draft->level, reached, &plan->action,
				     &plan->nr_actions);
	}
	given_levels(given, &draft->stages, reached);
	plan->modelled_ns = model_run(draft->model, reached, INFINITY);
	return given_actions(given, &draft->stages, &plan->action, &plan->nr_actions);
}

static int plan_fill(struct plan *plan, struct draft *draft, const struct plan_given *given)
{
	double *reached = calloc(draft->stages.nr_lives + 1u, sizeof(double));
	int err;

	plan->visit = malloc((draft->stages.nr_lives + 1u) * sizeof(*plan->visit));
	plan->levels = calloc(draft->stages.nr_stages + 1u, sizeof(*plan->levels));
	plan->streams = calloc(draft->stages.nr_stages + 1u, sizeof(*plan->streams));
	if (!reached || !plan->visit || !plan->levels || !plan->streams) {
		err = -ENOMEM;
		goto err_free;
	}
	for (uint32_t i = 0; i < draft->input.nr_steps; i++)
		plan->compute_ns += draft->input.step[i].compute_ns;
	err = find_moves(plan, draft, given, reached);
	if (err)
		goto err_free;
	keep_visits(plan, &draft->stages, draft->model, reached);
err_free:
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

/* Drafts of an input, of which one becomes the plan. */
struct drafts {
	struct draft folded, unfolded, *best;
	bool both;
};

static void drafts_fini(struct drafts *d)
{
	draft_fini(&d->folded);
	if (d->both)
		draft_fini(&d->unfolded);
}

/* Search once more without folded loops. That draft is the better one if it gains enough, over the
 * folded one and over the same levels: the two models differ by more than that in some cases. */
static int search_unfolded(struct drafts *d, const struct plan_input *folded)
{
	struct plan_input input = *folded;
	struct loops_found found;
	int err;

	input.unfolded = true;
	err = draft_init(&d->unfolded, &input);
	if (err)
		return err;
	d->both = true;
	err = loops_search(&d->unfolded.input, &d->folded.stages, d->folded.level,
			   &d->unfolded.stages, d->unfolded.model, d->unfolded.level, &found,
			   &d->unfolded.work);
	if (err)
		return err;
	d->unfolded.work -= model_work(d->unfolded.model);
	d->unfolded.ns = found.ns;
	if (found.ns < MIN(d->folded.ns, found.begin_ns) * (1 - GAIN_UNFOLDED))
		d->best = &d->unfolded;
	return 0;
}

static int drafts_init(struct drafts *d, const struct plan_input *input, bool searched)
{
	int err = draft_init(&d->folded, input);

	d->both = false;
	d->best = &d->folded;
	if (err || !searched)
		return err;
	d->folded.ns = plan_search(&d->folded.input, &d->folded.stages, d->folded.model,
				   d->folded.level, &d->folded.work);
	d->folded.work -= model_work(d->folded.model);
	if (input->nr_below == 1 && loops_may_differ(input, &d->folded.stages))
		err = search_unfolded(d, input);
	if (err)
		drafts_fini(d);
	return err;
}

static uint64_t drafts_work(const struct drafts *d)
{
	uint64_t work = d->folded.work + model_work(d->folded.model);

	return d->both ? work + d->unfolded.work + model_work(d->unfolded.model) : work;
}

/* levels: NULL: they are searched for. */
static int make(const struct plan_input *given, const struct plan_given *levels, struct plan **out)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct plan_input input;
	struct drafts drafts;
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
	err = drafts_init(&drafts, &input, !levels);
	if (err)
		goto err_rotated;
	err = plan_fill(plan, drafts.best, levels);
	if (!err) {
		plan->work = drafts_work(&drafts);
		err = plan_keep(plan, &drafts.best->input, &drafts.best->stages,
				drafts.best->model);
	}
	drafts_fini(&drafts);
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
	free(plan->levels);
	free(plan->end_ns);
	free(plan->link_busy);
	free(plan->streams);
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

bool plan_uses(const struct plan *plan, uint32_t stage, uint32_t t)
{
	return visit_in(plan, stage, t) != NULL;
}

enum plan_flow plan_flow(const struct plan *plan, uint32_t stage, uint32_t t)
{
	const struct plan_visit *visit = visit_in(plan, stage, t);

	return visit ? visit->flow : FLOW_NONE;
}

uint32_t plan_level_max(const struct plan *plan, uint32_t t)
{
	uint32_t level = 0;

	for (uint32_t v = plan->first_visit[t]; v < plan->first_visit[t + 1]; v++)
		if (plan->visit[v].flow != FLOW_THROUGH)
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
