/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding a period's steps into stages. A loop is a run of steps whose shapes repeat with a short
 * period; its stage has one body, and what its iterations do is summed up.
 *
 * All of it takes time linear in steps, uses and lives: what is looked for is found by its number.
 * A table of places need not be cleared between stages: an entry counts if the place that it names
 * lies within the stage and names the life.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/residency/plan_parts.h"

#define BODY_MAX 16
#define ITERATIONS_MIN 3

/* Whether a use may be what is left for a loop's last iteration of what a use of the iteration
 * before it is: a part behind that, or another temporary life, and no more of it. */
static bool is_rest_of_use(const struct plan_input *input, const struct plan_use *use,
			   const struct plan_use *before)
{
	const struct plan_life *life = &input->life[use->life];
	const struct plan_life *other = &input->life[before->life];

	if (use->kind != before->kind || use->in > before->in || use->out > before->out)
		return false;
	return life == other ? use->first >= before->first
			     : !life->permanent && !other->permanent &&
				       life->nr_blocks <= other->nr_blocks;
}

/* The same of steps. What a small rest uses may be so small that it has no life. Sets less where it
 * is less. */
static bool is_rest_of_step(const struct plan_input *input, const struct plan_step *step,
			    const struct plan_step *before, bool *less)
{
	const struct plan_use *use = &input->use[step->first_use];
	uint32_t u = 0;

	if (!step->nr_uses && before->nr_uses)
		return false;
	for (uint32_t v = 0; u < step->nr_uses && v < before->nr_uses; v++) {
		const struct plan_use *other = &input->use[before->first_use + v];

		if (!is_rest_of_use(input, &use[u], other))
			continue;
		*less |= use[u].in < other->in || use[u].out < other->out;
		u++;
	}
	return u == step->nr_uses;
}

/* Whether the steps from `at`, cyclically, are a last iteration of the loop before them that has
 * less to do: where slices do not divide what a loop goes through, the last one is smaller. */
static bool is_rest(const struct plan_input *input, uint32_t at, uint32_t body)
{
	const uint32_t nr = input->nr_steps;
	bool less = false;

	for (uint32_t i = 0; i < body; i++)
		if (!is_rest_of_step(input, &input->step[(at + i) % nr],
				     &input->step[(at + i + nr - body) % nr], &less))
			return false;
	return less;
}

/* Steps from `at` that repeat with period `body`, in whole iterations, of which the last one may be
 * smaller. */
static uint32_t loop_length(const struct plan_input *input, uint32_t at, uint32_t body)
{
	uint32_t n = at + body, end;

	while (n < input->nr_steps && input->step[n].shape == input->step[n - body].shape)
		n++;
	end = at + (n - at) / body * body;
	if (end > at + body && end + body <= input->nr_steps && is_rest(input, end, body))
		end += body;
	return end - at;
}

/* The stage that begins at a step: the longest loop, or the step alone. */
static void pick_stage(const struct plan_input *input, uint32_t at, struct stage *stage)
{
	uint32_t best = 0;

	*stage = (struct stage){.first_step = at, .nr_body = 1, .nr_iterations = 1};
	for (uint32_t body = 1; body <= BODY_MAX && !input->unfolded; body++) {
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
	if (longest > 1 && longest + body <= nr && is_rest(input, first, body))
		first = (first + body) % nr;
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

/* Where in its stage's body a loop's temporary is born: at a step of the first iteration, and as
 * which of those that are born there. */
struct birthplace {
	uint32_t step, nth;
};

/* What number_lives() works with. */
struct numbering {
	struct birthplace *place; /* by life */
	uint32_t *bucket;	  /* tracked temporaries of loops, by place */
	uint32_t *previous;	  /* by tracked life: another one in its bucket */
	uint32_t last_birth, last_nth;
};

/* An earlier iteration's life that is born at the same place, and is as large, or larger than one
 * of the last iteration. If there is none, this is one: the next that is tracked. */
static uint32_t find_twin(const struct plan_input *input, const struct stages *s, uint32_t l,
			  uint32_t g, struct numbering *n)
{
	const struct stage *stage = &s->stage[g];
	uint32_t birth = input->life[l].birth, blocks = input->life[l].nr_blocks, *bucket;
	const bool last = birth - stage->first_step >= stage->nr_body * (stage->nr_iterations - 1);
	struct birthplace *place = &n->place[l];

	n->last_nth = birth == n->last_birth ? n->last_nth + 1 : 0;
	n->last_birth = birth;
	place->nth = n->last_nth;
	place->step = stage->first_step + (birth - stage->first_step) % stage->nr_body;
	bucket = &n->bucket[hash_mix(place->step, place->nth) % input->nr_lives];
	for (uint32_t t = *bucket; t != PLAN_UNTRACKED; t = n->previous[t]) {
		const struct birthplace *other = &n->place[s->life_of[t]];

		if (other->step == place->step && other->nth == place->nth &&
		    (s->blocks[t] == blocks || (last && s->blocks[t] > blocks)))
			return t;
	}
	n->previous[s->nr_tracked] = *bucket;
	*bucket = s->nr_tracked;
	return PLAN_UNTRACKED;
}

static void number_each(const struct plan_input *input, struct stages *s, struct numbering *n)
{
	for (uint32_t l = 0; l < input->nr_lives; l++)
		n->bucket[l] = PLAN_UNTRACKED;
	for (uint32_t i = 0; i < input->nr_uses; i++)
		s->tracked[input->use[i].life] = 1;
	for (uint32_t l = 0; l < input->nr_lives; l++) {
		bool used = s->tracked[l] != 0;
		uint32_t stage;

		s->tracked[l] = PLAN_UNTRACKED;
		if (!used)
			continue;
		if (is_temporary(input, s, l, &stage))
			s->tracked[l] = find_twin(input, s, l, stage, n);
		if (s->tracked[l] != PLAN_UNTRACKED)
			continue;
		s->tracked[l] = s->nr_tracked;
		s->life_of[s->nr_tracked] = l;
		s->blocks[s->nr_tracked++] = input->life[l].nr_blocks;
	}
	s->work += input->nr_uses + 2ull * input->nr_lives;
}

/*
 * Number the lives to be tracked. Those of one loop that are alike in each iteration are tracked
 * as one; one that no step uses holds nothing, and is not.
 */
static int number_lives(const struct plan_input *input, struct stages *s)
{
	uint64_t nr = input->nr_lives + 1u;
	struct numbering n = {.place = malloc(nr * sizeof(*n.place)),
			      .bucket = malloc(nr * sizeof(*n.bucket)),
			      .previous = malloc(nr * sizeof(*n.previous)),
			      .last_birth = UINT32_MAX};
	int err = n.place && n.bucket && n.previous ? 0 : -ENOMEM;

	if (!err)
		number_each(input, s, &n);
	free(n.place);
	free(n.bucket);
	free(n.previous);
	return err;
}

/* The parts of a life that the stage being gathered uses, one after the other. */
struct parts {
	uint32_t first, last,
		end;   /* blocks: where all of them begin; the last one; where they end */
	uint32_t most; /* the largest part */
	bool other;    /* there are other uses as well */
};

/* Where the stage being gathered has a life, and a life in a step of its body. */
struct gathering {
	uint32_t *life;	     /* by tracked life: stage_life */
	uint32_t *use;	     /* [step * nr_tracked + life]: stage_use */
	struct parts *parts; /* by tracked life */
};

/* Find the entry of a life in the stage being gathered, or add it. */
static struct stage_life *stage_life_get(struct stages *s, struct stage *stage, uint32_t *place,
					 const struct plan_use *use)
{
	uint32_t life = s->tracked[use->life];

	if (*place < stage->first_life || *place >= s->nr_lives || s->life[*place].life != life) {
		*place = s->nr_lives++;
		s->life[*place] = (struct stage_life){
			.life = life,
			.stage = s->stage_of_step[stage->first_step],
			.overwritten = use->fresh || (use->kind == WEIR_OVERWRITE && use->whole),
		};
		stage->nr_lives++;
	}
	return &s->life[*place];
}

static struct stage_use *stage_use_get(struct stages *s, struct stage *stage, uint32_t *place,
				       uint32_t body, const struct plan_use *use)
{
	uint32_t life = s->tracked[use->life];

	if (*place < stage->first_use || *place >= s->nr_uses || s->use[*place].step != body ||
	    s->use[*place].life != life) {
		*place = s->nr_uses++;
		s->use[*place] = (struct stage_use){.step = body, .life = life};
		for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
			s->use[*place].at[k].hit = use->at[k].hit;
			s->use[*place].at[k].reach_blocks = use->at[k].reach_blocks;
		}
		stage->nr_uses++;
	}
	return &s->use[*place];
}

static void gather_part(struct parts *parts, const struct plan_use *use, bool is_first)
{
	if (is_first)
		*parts = (struct parts){.first = use->first, .last = use->first};
	parts->other |= use->whole || use->first < parts->last;
	parts->last = use->first;
	parts->end = MAX(parts->end, use->first + use->nr);
	parts->most = MAX(parts->most, use->nr);
}

/* Note for which lives of the stage parts can come and go. */
static void gather_windows(struct stages *s, const struct stage *stage,
			   const struct gathering *places)
{
	for (uint32_t i = stage->first_life; i < s->nr_lives; i++) {
		struct stage_life *life = &s->life[i];
		const struct parts *parts = &places->parts[life->life];
		const uint32_t span = parts->end - parts->first;

		if (stage->nr_iterations == 1 || parts->other || span <= 2 * parts->most)
			continue;
		life->span = span;
		life->room = 2 * parts->most;
	}
}

static void gather_use(struct stages *s, struct stage *stage, struct gathering *places,
		       uint32_t body, const struct plan_use *use)
{
	uint32_t tracked = s->tracked[use->life];
	const uint32_t nr_lives = s->nr_lives;
	struct stage_life *life = stage_life_get(s, stage, &places->life[tracked], use);
	uint64_t at = (uint64_t)body * s->nr_tracked + tracked;
	struct stage_use *sum = stage_use_get(s, stage, &places->use[at], body, use);

	gather_part(&places->parts[tracked], use, s->nr_lives > nr_lives);
	life->written |= use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
	sum->window |= !use->whole && stage->nr_iterations > 1;
	sum->in += use->in;
	sum->out += use->out;
	sum->hbm_ns += use->hbm_ns;
	for (uint32_t k = 0; k < PLAN_BELOW_MAX; k++) {
		sum->at[k].in_ns += use->at[k].in_ns;
		sum->at[k].out_ns += use->at[k].out_ns;
		sum->at[k].serial_ns += use->at[k].serial_ns;
	}
}

static void gather_stage(const struct plan_input *input, struct stages *s, struct stage *stage,
			 struct gathering *places)
{
	uint32_t nr_steps = stage->nr_body * stage->nr_iterations;

	stage->first_use = s->nr_uses;
	stage->first_life = s->nr_lives;
	stage->first_compute = stage->first_step;
	for (uint32_t i = 0; i < nr_steps; i++) {
		const struct plan_step *step = &input->step[stage->first_step + i];
		uint32_t body = i % stage->nr_body;

		s->compute_ns[stage->first_compute + body] += step->compute_ns;
		for (uint32_t n = 0; n < step->nr_uses; n++)
			gather_use(s, stage, places, body, &input->use[step->first_use + n]);
	}
	gather_windows(s, stage, places);
}

static int gather_stages(const struct plan_input *input, struct stages *s)
{
	struct gathering places = {
		.life = calloc(s->nr_tracked + 1u, sizeof(*places.life)),
		.use = calloc((uint64_t)BODY_MAX * s->nr_tracked + 1, sizeof(*places.use)),
		.parts = calloc(s->nr_tracked + 1u, sizeof(*places.parts)),
	};
	int err = places.life && places.use && places.parts ? 0 : -ENOMEM;

	for (uint32_t g = 0; !err && g < s->nr_stages; g++)
		gather_stage(input, s, &s->stage[g], &places);
	s->work += input->nr_uses;
	free(places.life);
	free(places.use);
	free(places.parts);
	return err;
}

/* The first stage that begins at a step or after it; nr_stages: none. */
static uint32_t stage_from(const struct plan_input *input, const struct stages *s, uint32_t step)
{
	uint32_t g;

	if (step >= input->nr_steps)
		return s->nr_stages;
	g = s->stage_of_step[step];
	return s->stage[g].first_step == step ? g : g + 1;
}

/* The stages that begin while a life is alive; none for one that lives inside an iteration. */
static struct plan_span find_span(const struct plan_input *input, const struct stages *s,
				  uint32_t l)
{
	const struct plan_life *life = &input->life[l];
	uint32_t first, end, own;

	if (life->permanent)
		return (struct plan_span){0, s->nr_stages};
	if (is_temporary(input, s, l, &own))
		return (struct plan_span){0, 0};
	first = stage_from(input, s, life->birth);
	end = stage_from(input, s, life->death) + (life->death <= life->birth ? s->nr_stages : 0);
	return (struct plan_span){first % s->nr_stages, end - first};
}

/* List the stages that use each life, and rank all these pairs. */
static int index_visits(struct stages *s)
{
	uint32_t *seen = calloc(MAX(s->nr_stages, s->nr_tracked) + 1u, sizeof(*seen));

	s->first_visit = calloc(s->nr_tracked + 2u, sizeof(*s->first_visit));
	s->visit = malloc((s->nr_lives + 1u) * sizeof(*s->visit));
	s->by_rank = malloc((s->nr_lives + 1u) * sizeof(*s->by_rank));
	if (!seen || !s->first_visit || !s->visit || !s->by_rank) {
		free(seen);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < s->nr_lives; i++)
		s->first_visit[s->life[i].life + 1]++;
	for (uint32_t t = 0; t < s->nr_tracked; t++)
		s->first_visit[t + 1] += s->first_visit[t];
	for (uint32_t i = 0; i < s->nr_lives; i++) {
		uint32_t t = s->life[i].life;

		s->visit[s->first_visit[t] + seen[t]++] = i;
	}
	memset(seen, 0, s->nr_stages * sizeof(*seen));
	for (uint32_t t = 0; t < s->nr_tracked; t++) {
		uint32_t first = s->first_visit[t], end = s->first_visit[t + 1];

		for (uint32_t v = first; v < end; v++) {
			struct stage_life *life = &s->life[s->visit[v]];
			const struct stage *stage = &s->stage[life->stage];

			life->next = s->visit[v + 1 < end ? v + 1 : first];
			life->rank = s->nr_lives - stage->first_life - stage->nr_lives;
			life->rank += seen[life->stage]++;
			s->by_rank[life->rank] = s->visit[v];
		}
	}
	s->work += 3ull * s->nr_lives;
	free(seen);
	return 0;
}

/* The stages in whose beginning a life is dead, and in the one before was not. @return how many;
 * one more than its visits at most. */
static uint32_t list_deaths(const struct stages *s, uint32_t t, uint32_t *death)
{
	const struct plan_span *alive = &s->alive[t];
	uint32_t nr = 0, end = (alive->first + alive->nr) % s->nr_stages;
	bool ends = alive->nr && alive->nr < s->nr_stages;

	for (uint32_t v = s->first_visit[t]; v < s->first_visit[t + 1]; v++) {
		const struct stage_life *life = &s->life[s->visit[v]];
		uint32_t after = (life->stage + 1) % s->nr_stages;

		if (!span_has(alive, s->nr_stages, after) && s->life[life->next].stage != after)
			death[nr++] = after;
		/* The end of its span is no death, or is this one. */
		ends &= life->stage != end && after != end;
	}
	if (ends)
		death[nr++] = end;
	return nr;
}

static int index_deaths(struct stages *s)
{
	uint64_t nr_max = (uint64_t)s->nr_lives + s->nr_tracked + 1;
	uint32_t *list = malloc((s->nr_stages + 1u) * sizeof(*list));
	uint32_t first = 0;

	s->death = malloc(nr_max * sizeof(*s->death));
	if (!list || !s->death) {
		free(list);
		return -ENOMEM;
	}
	for (uint32_t t = 0; t < s->nr_tracked; t++)
		for (uint32_t i = list_deaths(s, t, list); i-- > 0;)
			s->stage[list[i]].nr_deaths++;
	for (uint32_t g = 0; g < s->nr_stages; g++) {
		s->stage[g].first_death = first;
		first += s->stage[g].nr_deaths;
		s->stage[g].nr_deaths = 0;
	}
	for (uint32_t t = 0; t < s->nr_tracked; t++)
		for (uint32_t i = list_deaths(s, t, list); i-- > 0;) {
			struct stage *stage = &s->stage[list[i]];

			s->death[stage->first_death + stage->nr_deaths++] = t;
		}
	s->work += 2ull * s->nr_lives;
	free(list);
	return 0;
}

static int index_lives(const struct plan_input *input, struct stages *s)
{
	int err = index_visits(s);

	if (err)
		return err;
	s->alive = malloc((s->nr_tracked + 1u) * sizeof(*s->alive));
	if (!s->alive)
		return -ENOMEM;
	for (uint32_t t = 0; t < s->nr_tracked; t++)
		s->alive[t] = find_span(input, s, s->life_of[t]);
	return index_deaths(s);
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
	s->work = input->nr_steps;
	err = number_lives(input, s);
	if (err)
		goto err_destroy;
	err = gather_stages(input, s);
	if (!err)
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
	free(s->death);
	free(s->first_visit);
	free(s->visit);
	free(s->by_rank);
	free(s->alive);
}
