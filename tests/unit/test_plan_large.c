/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What making a plan costs: periods of thousands of steps that fold into no loop. Held to bounds is
 * the work that a plan counts, in lives looked at, since wall time says more of the machine.
 */
#include <stdlib.h>

#include "src/residency/plan.h"
#include "tests/unit/test_sim_machine.h"

/* The search's limit, and a few runs of the model beyond it. */
#define WORK_MAX 150000000u

/* A period, and the lives that each of its steps uses. */
struct large {
	uint32_t nr_steps, nr_uses, nr_lives;
	uint32_t nr_shapes; /* step i has shape i % nr_shapes */
	double near;	    /* of each use */
	uint32_t budget;    /* blocks for each life, of 4 */
};

static struct plan *make(struct large large, uint32_t haste, bool stopped)
{
	uint32_t nr_uses = large.nr_steps * large.nr_uses;
	struct plan_step *step = calloc(large.nr_steps, sizeof(*step));
	struct plan_use *use = calloc(nr_uses, sizeof(*use));
	struct plan_life *life = calloc(large.nr_lives, sizeof(*life));
	struct plan_input input = {.step = step,
				   .use = use,
				   .life = life,
				   .nr_steps = large.nr_steps,
				   .nr_uses = nr_uses,
				   .nr_lives = large.nr_lives,
				   .budget_blocks = large.budget * large.nr_lives,
				   .nr_below = 1,
				   .haste = haste,
				   .below[0] = {.in_ns = 100,
						.out_ns = 100,
						.duplex_ns = 100,
						.inplace_duplex_ns = 100,
						.inplace_both_ns = 100}};
	const atomic_bool stop = stopped;
	struct plan *plan = NULL;

	input.stop = &stop;
	assert_true(step && use && life);
	for (uint32_t i = 0; i < large.nr_lives; i++)
		life[i] = (struct plan_life){.nr_blocks = 4, .permanent = true};
	for (uint32_t i = 0; i < large.nr_steps; i++) {
		step[i] = (struct plan_step){.compute_ns = 100,
					     .shape = 1000 + i % large.nr_shapes,
					     .first_use = i * large.nr_uses,
					     .nr_uses = large.nr_uses};
		for (uint32_t n = 0; n < large.nr_uses; n++)
			use[i * large.nr_uses + n] = (struct plan_use){
				.life = (i + n * (large.nr_lives / large.nr_uses)) % large.nr_lives,
				.kind = n ? WEIR_READ : WEIR_WRITE,
				.whole = true,
				.in = 4,
				.out = n ? 0 : 4,
				.at[0] = {.in_ns = 400,
					  .out_ns = n ? 0 : 400,
					  .hit = large.near,
					  .reach_blocks = 1}};
	}
	assert_int_equal(plan_create(&input, &plan), 0);
	/* Its tables follow the uses, not stages times lives. */
	assert_true(plan->first_visit[plan->nr_tracked] <= nr_uses);
	free(step);
	free(use);
	free(life);
	return plan;
}

static void expect_work_at_most(struct large large, uint64_t work_max)
{
	struct plan *plan = make(large, 0, false);

	if (plan->work > work_max)
		fail_msg("%u steps of %u uses: work %llu", large.nr_steps, large.nr_uses,
			 (unsigned long long)plan->work);
	plan_destroy(plan);
}

/* Each step is a stage, and uses lives that no step near it does. */
static void test_plan_large_without_loops(void **state)
{
	(void)state;
	expect_work_at_most((struct large){1500, 3, 1500, 1500, 1, 2}, WORK_MAX);
	expect_work_at_most((struct large){6000, 3, 6000, 6000, 1, 2}, WORK_MAX);
}

/* Pairs of lives in a stage are many, and each is asked what of it may be in place. */
static void test_plan_large_brackets(void **state)
{
	(void)state;
	expect_work_at_most((struct large){300, 128, 2000, 300, 0.5, 2}, WORK_MAX);
}

/* One loop: its uses are looked up by life and step of the body. */
static void test_plan_large_loop(void **state)
{
	(void)state;
	expect_work_at_most((struct large){4000, 16, 4000, 8, 1, 2}, WORK_MAX);
}

/* Everything fits: no search, and what is left grows with the period alone. */
static void test_plan_large_that_fits(void **state)
{
	uint64_t work[2];

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t nr = 3000u << i;
		struct plan *plan = make((struct large){nr, 3, nr / 2, nr, 1, 4}, 0, false);

		assert_int_equal(plan->nr_stages, nr);
		work[i] = plan->work;
		plan_destroy(plan);
	}
	assert_true(work[1] < WORK_MAX / 10);
	assert_true((double)work[1] <= 2.2 * (double)work[0]);
}

/* In haste it costs less, down to what a plan without a search does. */
static void test_plan_large_in_haste(void **state)
{
	const struct large large = {1500, 3, 1500, 1500, 1, 2};
	static const uint32_t haste[] = {0, 4, 6};
	uint64_t work[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct plan *plan = make(large, haste[i], false);

		work[i] = plan->work;
		plan_destroy(plan);
	}
	assert_true(work[1] < work[0] / 2);
	assert_true(work[2] < work[1] / 2);
}

/* When nobody wants it any more the search ends. */
static void test_plan_large_that_is_stopped(void **state)
{
	const struct large large = {1500, 3, 1500, 1500, 1, 2};
	uint64_t work[2];

	(void)state;
	for (uint32_t stopped = 0; stopped < 2; stopped++) {
		struct plan *plan = make(large, 0, stopped);

		work[stopped] = plan->work;
		plan_destroy(plan);
	}
	assert_true(work[1] < work[0] / 5);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_large_without_loops),
		cmocka_unit_test(test_plan_large_brackets),
		cmocka_unit_test(test_plan_large_loop),
		cmocka_unit_test(test_plan_large_that_fits),
		cmocka_unit_test(test_plan_large_in_haste),
		cmocka_unit_test(test_plan_large_that_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
