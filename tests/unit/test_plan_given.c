/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans whose levels are given: that they are followed as they are, with loops left as they stand,
 * and that levels for something else are refused.
 */
#include <errno.h>

#include "tests/unit/test_plan.h"

/* Two iterations that would fold with a third: each makes a temporary of 4 blocks, and reads a. */
static void loop(struct period *p, uint32_t *a, uint32_t temporary[3])
{
	period_init(p, 12);
	*a = add_life(p, 10);
	for (uint32_t i = 0; i < 3; i++) {
		temporary[i] = add_temporary(p, 4, 2 * i, 2 * i + 2);
		add_step(p, 1000, 1);
		add_use(p, temporary[i], WEIR_OVERWRITE, 1);
		p->use[p->input.nr_uses - 1].fresh = true;
		add_step(p, 1000, 2);
		add_use(p, temporary[i], WEIR_READ, 1);
		add_use(p, *a, WEIR_READ, 1);
	}
}

static void set(uint32_t *level, uint32_t life, const uint32_t of[6])
{
	memcpy(level + life * 6, of, 6 * sizeof(*level));
}

static bool has_action(const struct plan *plan, uint32_t life, enum plan_move move, uint32_t nr,
		       uint32_t due)
{
	for (uint32_t i = 0; i < plan->nr_actions; i++) {
		const struct plan_action *a = &plan->action[i];

		if (a->life == life && a->move == move && a->nr_blocks == nr && a->due == due)
			return true;
	}
	return false;
}

static void test_plan_given_is_followed(void **state)
{
	static const uint32_t of_a[6] = {8, 8, 8, 7, 9, 9};
	static const uint32_t of_temporary[3][6] = {{4, 4}, {0, 0, 4, 4}, {0, 0, 0, 0, 3, 3}};
	uint32_t levels[4 * 6] = {0}, a, temporary[3];
	struct period p;
	struct plan_given given = {.nr_steps = 6, .nr_lives = 4, .level = levels};
	struct plan *plan;

	(void)state;
	loop(&p, &a, temporary);
	plan = make(&p);
	assert_int_equal(plan->nr_stages, 1);
	plan_destroy(plan);

	set(levels, a, of_a);
	for (uint32_t i = 0; i < 3; i++)
		set(levels, temporary[i], of_temporary[i]);
	given.fingerprint = plan_fingerprint(&p.input);
	assert_int_equal(plan_create_given(&p.input, &given, &plan), 0);
	check_plan(&p, plan);
	assert_int_equal(plan->nr_stages, 6);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(level(plan, 2 * i, temporary[i]), of_temporary[i][2 * i]);
		assert_int_equal(level(plan, 2 * i + 1, a), of_a[2 * i + 1]);
	}
	/* What comes and goes is a alone: temporaries are born where they are used. */
	assert_int_equal(plan->nr_actions, 3);
	assert_true(has_action(plan, a, PLAN_EVICT, 7, 3));
	assert_true(has_action(plan, a, PLAN_FETCH, 9, 4));
	assert_true(has_action(plan, a, PLAN_EVICT, 8, 0));
	plan_destroy(plan);
}

static void test_plan_given_for_something_else(void **state)
{
	uint32_t levels[4 * 6] = {0}, a, temporary[3];
	struct period p;
	struct plan_given given = {.nr_steps = 6, .nr_lives = 4, .level = levels};
	struct plan *plan = NULL;

	(void)state;
	loop(&p, &a, temporary);
	given.fingerprint = plan_fingerprint(&p.input);
	given.nr_steps = 5;
	assert_int_equal(plan_create_given(&p.input, &given, &plan), -EINVAL);
	given.nr_steps = 6;
	given.nr_lives = 5;
	assert_int_equal(plan_create_given(&p.input, &given, &plan), -EINVAL);
	given.nr_lives = 4;
	p.input.budget_blocks = 13;
	assert_int_equal(plan_create_given(&p.input, &given, &plan), -EINVAL);
	p.input.budget_blocks = 12;
	p.input.nr_below = 2;
	assert_int_equal(plan_create_given(&p.input, &given, &plan), -ENOTSUP);
	p.input.nr_below = 1;
	assert_null(plan);
	/* Times may be others. */
	p.step[0].compute_ns = 1;
	assert_int_equal(plan_create_given(&p.input, &given, &plan), 0);
	plan_destroy(plan);
}

static void test_plan_fingerprint_tells_inputs_apart(void **state)
{
	uint32_t a, temporary[3];
	struct period p;
	uint64_t before;

	(void)state;
	loop(&p, &a, temporary);
	before = plan_fingerprint(&p.input);
	p.use[0].kind = WEIR_WRITE;
	assert_true(plan_fingerprint(&p.input) != before);
	p.use[0].kind = WEIR_OVERWRITE;
	p.life[a].nr_blocks++;
	assert_true(plan_fingerprint(&p.input) != before);
	p.life[a].nr_blocks--;
	p.life[temporary[0]].death++;
	assert_true(plan_fingerprint(&p.input) != before);
	p.life[temporary[0]].death--;
	assert_true(plan_fingerprint(&p.input) == before);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_given_is_followed),
		cmocka_unit_test(test_plan_given_for_something_else),
		cmocka_unit_test(test_plan_fingerprint_tells_inputs_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
