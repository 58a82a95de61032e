/* SPDX-License-Identifier: Apache-2.0 */
/* Plans in which steps of a loop's body have levels of their own, the same in all iterations. */
#include "tests/support/amount.h"
#include "tests/unit/test_plan.h"

enum { ITERATIONS = 8, BODY = 3, STEPS = ITERATIONS * BODY + 1 };

/* A loop, and a step outside of it. Each iteration reads a life many times over, makes one
 * temporary of that and a second one of the first, and adds the second to another life. */
struct aggregation {
	struct period p;
	uint32_t from, to, temporary[2 * ITERATIONS];
};

static void aggregation_init(struct aggregation *a, uint32_t budget_blocks)
{
	struct period *p = &a->p;

	period_init(p, budget_blocks);
	a->from = add_life(p, 10);
	a->to = add_life(p, 10);
	for (uint32_t i = 0; i < ITERATIONS; i++) {
		uint32_t *t = &a->temporary[2 * i];

		t[0] = add_temporary(p, 20, BODY * i, BODY * i + BODY);
		t[1] = add_temporary(p, 20, BODY * i + 1, BODY * i + BODY);
		add_step(p, 400, 1);
		add_use(p, a->from, WEIR_READ, 8);
		add_use(p, t[0], WEIR_OVERWRITE, 1);
		p->use[p->input.nr_uses - 1].fresh = true;
		add_step(p, 400, 2);
		add_use(p, t[0], WEIR_READ, 1);
		add_use(p, t[1], WEIR_OVERWRITE, 1);
		p->use[p->input.nr_uses - 1].fresh = true;
		add_step(p, 400, 3);
		add_use(p, t[1], WEIR_READ, 1);
		add_use(p, a->to, WEIR_WRITE, 8);
	}
	add_step(p, 100, 4);
	add_use(p, a->to, WEIR_READ, 1);
}

/* The time that a search finds with folded loops alone. */
static double folded_ns(const struct period *p)
{
	struct plan_model *model;
	struct stages stages;
	double *levels, ns;
	uint64_t work = 0;

	assert_int_equal(stages_create(&p->input, &stages), 0);
	assert_int_equal(model_create(&p->input, &stages, &model), 0);
	levels = calloc(stages.nr_lives + 1u, sizeof(*levels));
	assert_non_null(levels);
	ns = plan_search(&p->input, &stages, model, levels, &work);
	free(levels);
	model_destroy(model);
	stages_destroy(&stages);
	return ns;
}

/* A plan for it. Where loops are folded, lives that are alike have the same levels and room: what
 * holds for plans is not checked there. */
static struct plan *make_checked(const struct aggregation *a)
{
	struct plan *plan = NULL;

	assert_int_equal(plan_create(&a->p.input, &plan), 0);
	if (plan->nr_stages == STEPS)
		check_plan(&a->p, plan);
	return plan;
}

/* What is only read leaves in each iteration, where both temporaries are there, and comes again. */
static void test_plan_loop_makes_room_for_its_temporaries(void **state)
{
	struct aggregation a;
	struct plan *plan;
	uint32_t nr = 0;

	(void)state;
	aggregation_init(&a, 50);
	plan = make_checked(&a);
	assert_int_equal(plan->nr_stages, STEPS);
	assert_true(plan->modelled_ns < 0.95 * folded_ns(&a.p));
	for (uint32_t i = 1; i < ITERATIONS; i++) {
		assert_int_equal(level(plan, BODY * i, a.from), 10);
		/* Use of 4 blocks in place hides behind computation. */
		assert_true(level(plan, BODY * i + 1, a.temporary[2 * i]) >= 16);
		assert_true(level(plan, BODY * i + 1, a.temporary[2 * i + 1]) >= 16);
		assert_int_equal(level(plan, BODY * i + 2, a.to), 10);
	}
	for (uint32_t i = 0; i < plan->nr_actions; i++)
		nr += plan->action[i].life == a.from && plan->action[i].move == PLAN_FETCH;
	assert_true(nr >= ITERATIONS - 1);
	plan_destroy(plan);
}

/* What moves in each iteration is counted in each: where mapping calls take longer than use in
 * place does, nothing moves. */
static void test_plan_loop_counts_calls_of_each_iteration(void **state)
{
	struct aggregation a;
	struct plan *plan;

	(void)state;
	aggregation_init(&a, 50);
	a.p.input.map_ns = a.p.input.unmap_ns = 2000;
	plan = make_checked(&a);
	assert_true(plan->nr_stages < STEPS);
	assert_true(fabs(plan->modelled_ns - folded_ns(&a.p)) < 1e-6);
	assert_false(has_move(plan, a.from, PLAN_FETCH));
	plan_destroy(plan);
}

/* With room for all, or where the search for it would take too long, loops stay folded. */
static void test_plan_loop_stays_folded(void **state)
{
	struct aggregation a;
	struct plan *plan;

	(void)state;
	aggregation_init(&a, 60);
	plan = make_checked(&a);
	assert_int_equal(plan->nr_stages, 2);
	plan_destroy(plan);

	aggregation_init(&a, 50);
	a.p.input.haste = 20;
	plan = make_checked(&a);
	assert_int_equal(plan->nr_stages, 2);
	plan_destroy(plan);
}

/* Levels of one step of the body are tied over all iterations, and no others. */
static void test_ties_of_a_loop(void **state)
{
	struct stages folded, unfolded;
	struct plan_input input;
	struct aggregation a;
	struct ties ties;
	double levels[6], out[USES_MAX];

	(void)state;
	aggregation_init(&a, 50);
	input = a.p.input;
	input.unfolded = true;
	assert_int_equal(stages_create(&a.p.input, &folded), 0);
	assert_int_equal(stages_create(&input, &unfolded), 0);
	assert_int_equal(ties_create(&folded, &unfolded, &ties), 0);
	assert_int_equal(folded.nr_lives, 5);
	assert_int_equal(unfolded.nr_lives, a.p.input.nr_uses);
	for (uint32_t i = 0; i < unfolded.nr_lives; i++) {
		const uint32_t stage = unfolded.life[i].stage,
			       first = unfolded.life[ties.first[i]].stage;

		assert_int_equal(first, stage < STEPS - 1 ? stage % BODY : stage);
		assert_int_equal(i - unfolded.stage[stage].first_life,
				 ties.first[i] - unfolded.stage[first].first_life);
	}
	for (uint32_t i = 0; i < unfolded.stage[BODY].first_life; i++) {
		uint32_t nr = 0;

		for (uint32_t n = i; n != TIES_END; n = ties.next[n])
			nr += ties.first[n] == i;
		assert_int_equal(nr, ITERATIONS);
	}
	for (uint32_t i = 0; i < folded.nr_lives; i++)
		levels[i] = folded.life[i].life;
	ties_levels(&folded, &unfolded, &ties, levels, out);
	for (uint32_t i = 0; i < unfolded.nr_lives; i++)
		assert_true(out[i] == folded.tracked[unfolded.life_of[unfolded.life[i].life]]);
	ties_destroy(&ties);
	stages_destroy(&unfolded);
	stages_destroy(&folded);
}

/* Whatever the loop, a plan is no worse by its model than the folded one. */
static void test_plan_random_loops(void **state)
{
	static const struct test_amount periods = {60, 20, 2000};
	const uint64_t nr = test_amount(NULL, periods);
	struct test_random random = {13};
	uint64_t nr_unfolded = 0;

	(void)state;
	for (uint64_t n = 0; n < nr; n++) {
		struct aggregation a;
		struct plan *plan;
		double ns;

		aggregation_init(&a, 12 + random_below(&random, 50));
		a.p.input.map_ns = random_below(&random, 60);
		a.p.input.unmap_ns = random_below(&random, 60);
		a.p.input.below[0].duplex_ns = 100 + random_below(&random, 100);
		a.p.input.below[0].map_ns = random_below(&random, 200);
		for (uint32_t i = 0; i < STEPS; i++)
			a.p.step[i].compute_ns = a.p.step[i % BODY].compute_ns *
						 (i < BODY ? 1 + random_below(&random, 4) : 1);
		/* A part of it may be used, or not at all in some iterations. */
		for (uint32_t u = 0; u < a.p.input.nr_uses; u++)
			if (!random_below(&random, 6)) {
				a.p.use[u].whole = false;
				a.p.use[u].nr = 1 + random_below(&random, 10);
			}
		ns = folded_ns(&a.p);
		plan = make_checked(&a);
		assert_true(plan->modelled_ns <= ns * (1 + 1e-9));
		nr_unfolded += plan->nr_stages == STEPS;
		plan_destroy(plan);
	}
	print_message("%llu of %llu unfolded\n", (unsigned long long)nr_unfolded,
		      (unsigned long long)nr);
	assert_true(nr_unfolded > 0 && nr_unfolded < nr);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_loop_makes_room_for_its_temporaries),
		cmocka_unit_test(test_plan_loop_counts_calls_of_each_iteration),
		cmocka_unit_test(test_plan_loop_stays_folded),
		cmocka_unit_test(test_ties_of_a_loop),
		cmocka_unit_test(test_plan_random_loops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
