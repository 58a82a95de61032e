/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of plans share: small periods, and what holds for any plan. Functions assert. */
#ifndef WEIR_TESTS_UNIT_TEST_PLAN_H
#define WEIR_TESTS_UNIT_TEST_PLAN_H

#include <math.h>
#include <stdlib.h>

#include "src/residency/plan_parts.h"
#include "tests/support/space.h"

#define STEPS_MAX 64u
#define USES_MAX 256u
#define LIVES_MAX 32u

/* A period under construction. */
struct period {
	struct plan_step step[STEPS_MAX];
	struct plan_use use[USES_MAX];
	struct plan_life life[LIVES_MAX];
	struct plan_input input;
};

/* A block's copy takes 100 ns each way, alone or not. */
static inline void period_init(struct period *p, uint32_t budget_blocks)
{
	memset(p, 0, sizeof(*p));
	p->input = (struct plan_input){.step = p->step,
				       .use = p->use,
				       .life = p->life,
				       .budget_blocks = budget_blocks,
				       .nr_below = 1,
				       .below[0] = {.in_ns = 100,
						    .out_ns = 100,
						    .duplex_ns = 100,
						    .inplace_duplex_ns = 100,
						    .inplace_both_ns = 100}};
}

static inline uint32_t add_life(struct period *p, uint32_t nr_blocks)
{
	p->life[p->input.nr_lives] = (struct plan_life){.nr_blocks = nr_blocks, .permanent = true};
	return p->input.nr_lives++;
}

static inline uint32_t add_temporary(struct period *p, uint32_t nr_blocks, uint32_t birth,
				     uint32_t death)
{
	uint32_t life = add_life(p, nr_blocks);

	p->life[life].permanent = false;
	p->life[life].birth = birth;
	p->life[life].death = death;
	return life;
}

static inline void add_step(struct period *p, double compute_ns, uint64_t shape)
{
	p->step[p->input.nr_steps++] = (struct plan_step){
		.compute_ns = compute_ns, .shape = shape, .first_use = p->input.nr_uses};
}

/* All of the life, so many times over. In place it costs what a copy of as many bytes does. */
static inline void add_use(struct period *p, uint32_t life, enum weir_use_kind kind, double times)
{
	double blocks = times * p->life[life].nr_blocks;
	bool read = kind == WEIR_READ || kind == WEIR_WRITE;
	bool write = kind == WEIR_WRITE || kind == WEIR_OVERWRITE;

	p->use[p->input.nr_uses++] = (struct plan_use){.life = life,
						       .kind = kind,
						       .whole = true,
						       .in = read ? blocks : 0,
						       .out = write ? blocks : 0,
						       .at[0] = {.in_ns = read ? 100 * blocks : 0,
								 .out_ns = write ? 100 * blocks : 0,
								 .hit = 1}};
	p->step[p->input.nr_steps - 1].nr_uses++;
}

/* A part of the life, so many times over. */
static inline void add_part(struct period *p, uint32_t life, enum weir_use_kind kind,
			    uint32_t first, uint32_t nr, double times)
{
	struct plan_use *use = &p->use[p->input.nr_uses];

	add_use(p, life, kind, times * nr / p->life[life].nr_blocks);
	use->whole = false;
	use->first = first;
	use->nr = nr;
}

static inline struct plan *make(struct period *p)
{
	struct plan *plan = NULL;

	assert_int_equal(plan_create(&p->input, &plan), 0);
	assert_non_null(plan);
	return plan;
}

/* Level of a life in the stage of a step. */
static inline uint32_t level(const struct plan *plan, uint32_t step, uint32_t life)
{
	assert_int_not_equal(plan->tracked[life], PLAN_UNTRACKED);
	return plan_level(plan, plan->stage_of_step[step], plan->tracked[life]);
}

static inline uint32_t next_use(const struct plan *plan, uint32_t step, uint32_t life)
{
	return plan_next_use(plan, plan->stage_of_step[step], plan->tracked[life]);
}

static inline bool has_move(const struct plan *plan, uint32_t life, enum plan_move move)
{
	for (uint32_t i = 0; i < plan->nr_actions; i++)
		if (plan->action[i].life == life && plan->action[i].move == move)
			return true;
	return false;
}

static inline void raise_to_levels(const struct plan *plan, uint32_t g, double resident[])
{
	for (uint32_t t = 0; t < plan->nr_tracked; t++)
		resident[t] = fmax(resident[t], plan_level(plan, g, t));
}

/* Stage g of a plan that is followed: what dies, the actions due at once, the levels, what goes
 * meanwhile, and the actions for later stages, which are carried out while it runs. */
static inline void follow_stage(const struct plan *plan, uint32_t g, double resident[])
{
	for (uint32_t t = 0; t < plan->nr_tracked; t++)
		if (plan->alive[t].nr < plan->nr_stages &&
		    (g + plan->nr_stages - plan->alive[t].first) % plan->nr_stages >=
			    plan->alive[t].nr)
			resident[t] = 0;
	for (int ahead = 0; ahead < 2; ahead++) {
		for (uint32_t i = 0; i < plan->nr_actions; i++) {
			const struct plan_action *a = &plan->action[i];
			double *blocks = &resident[plan->tracked[a->life]];

			if (a->from != g || (a->due != g) != ahead)
				continue;
			*blocks = a->move == PLAN_EVICT ? fmin(*blocks, a->nr_blocks)
							: fmax(*blocks, a->nr_blocks);
		}
		if (ahead)
			continue;
		raise_to_levels(plan, g, resident);
		for (uint32_t t = 0; t < plan->nr_tracked; t++)
			if (plan_flow(plan, g, t) == FLOW_OUT)
				resident[t] = 0;
	}
}

/* What comes ahead of use has its room beside what a stage has in which parts come or go. Actions
 * are for whole blocks, of what the model moves in parts of one. (Elsewhere a period may end in
 * another state than the one before, from which the next one lacks an eviction.) */
static inline void check_room(const struct plan *plan, double budget)
{
	double resident[LIVES_MAX] = {0};

	for (uint32_t n = 0; n < 2 * plan->nr_stages; n++) {
		const uint32_t g = n % plan->nr_stages;
		bool flows = false;
		double sum = 0;

		follow_stage(plan, g, resident);
		for (uint32_t t = 0; t < plan->nr_tracked; t++) {
			sum += resident[t];
			flows |= plan_flow(plan, g, t) != FLOW_NONE;
			if (plan_flow(plan, g, t) == FLOW_THROUGH)
				resident[t] = 0;
		}
		assert_true(!flows || sum <= budget + 0.5 * plan->nr_tracked);
	}
}

/* The most blocks that a life has of those that are tracked as one. */
static inline uint32_t most_blocks(const struct period *p, const struct plan *plan, uint32_t t)
{
	uint32_t most = 0;

	for (uint32_t l = 0; l < p->input.nr_lives; l++)
		if (plan->tracked[l] == t && p->life[l].nr_blocks > most)
			most = p->life[l].nr_blocks;
	return most;
}

/* What holds for any plan. */
static inline void check_plan(const struct period *p, const struct plan *plan)
{
	const struct plan_input *in = &p->input;
	double compute = 0;

	assert_int_equal(plan->nr_steps, in->nr_steps);
	assert_true(plan->nr_stages <= in->nr_steps && plan->first_step < in->nr_steps);
	for (uint32_t i = 0; i < in->nr_steps; i++) {
		assert_true(plan->stage_of_step[i] < plan->nr_stages);
		compute += p->step[i].compute_ns;
	}
	assert_true(fabs(plan->compute_ns - compute) <= compute * 1e-9);
	assert_true(plan->modelled_ns >= compute * (1 - 1e-9));
	for (uint32_t l = 0; l < in->nr_lives; l++)
		assert_true(plan->tracked[l] == PLAN_UNTRACKED ||
			    plan->tracked[l] < plan->nr_tracked);
	for (uint32_t g = 0; g < plan->nr_stages; g++) {
		uint64_t sum = 0;

		/* Temporaries of a loop that take turns in it are tracked as one. */
		for (uint32_t t = 0; t < plan->nr_tracked; t++) {
			assert_true(plan_level(plan, g, t) <= most_blocks(p, plan, t));
			sum += plan_level(plan, g, t);
		}
		assert_true(sum <= in->budget_blocks);
	}
	for (uint32_t i = 0; i < plan->nr_actions; i++) {
		const struct plan_action *a = &plan->action[i];

		assert_true(a->life < in->nr_lives);
		assert_true(a->nr_blocks <= p->life[a->life].nr_blocks);
		assert_true(a->from < plan->nr_stages && a->due < plan->nr_stages);
		if (i)
			assert_true(plan->action[i - 1].from <= a->from);
	}
	check_room(plan, in->budget_blocks);
}

/* No loops, so that stages are steps, and few enough levels. */
static inline void random_period(struct period *p, struct test_random *r, uint32_t nr_steps,
				 uint32_t nr_lives, uint32_t blocks_max)
{
	static const double times[] = {0.25, 1, 1, 4};

	period_init(p, 2 + random_below(r, nr_lives * blocks_max));
	p->input.below[0].duplex_ns = 100 + random_below(r, 100);
	p->input.below[0].inplace_duplex_ns = 100 + random_below(r, 100);
	p->input.map_ns = random_below(r, 30);
	p->input.unmap_ns = random_below(r, 30);
	p->input.below[0].map_ns = p->input.map_ns + random_below(r, 100);
	p->input.below[0].unmap_ns = p->input.unmap_ns + random_below(r, 100);
	for (uint32_t l = 0; l < nr_lives; l++)
		add_life(p, 1 + random_below(r, blocks_max));
	for (uint32_t i = 0; i < nr_steps; i++) {
		uint32_t first = random_below(r, nr_lives);
		uint32_t nr = 1 + random_below(r, 2);

		add_step(p, random_below(r, 800), 1000 + i);
		for (uint32_t n = 0; n < nr && n < nr_lives; n++)
			add_use(p, (first + n) % nr_lives, (enum weir_use_kind)random_below(r, 3),
				times[random_below(r, 4)]);
	}
}

#endif
