/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of programs that differ a little now and then: they are followed again after that, with
 * the contents right, and with the time of an iteration as it was.
 */
#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define NR 3
#define PARTS 12u

enum edit { EDIT_NONE, EDIT_LOG, EDIT_PARTIAL, EDIT_SKIP };

struct program {
	struct test_space t;
	uint8_t *range[NR];
	uint32_t seed[NR], next;
};

/* Each part goes over one range, with a temporary; all ranges together do not fit. */
static void do_part(struct program *p, uint32_t i, enum edit edit)
{
	uint32_t r = i % NR;
	uint64_t bytes = 2 * BLOCK - 64 * i - (edit == EDIT_PARTIAL ? BLOCK / 2 : 0);
	uint8_t *t = do_alloc(&p->t, bytes, 0);

	do_fill(&p->t, 0, t, bytes, p->next + 1);
	do_change(&p->t, 0, p->range[r], 4 * BLOCK, p->seed[r], p->next);
	p->seed[r] = p->next;
	do_expect(&p->t, 0, t, bytes, p->next + 1);
	do_free(&p->t, t, 0);
	p->next += 2;
}

static void do_log(struct program *p)
{
	const uint64_t bytes = BLOCK + 64;
	uint8_t *log = do_alloc(&p->t, bytes, 0);

	do_fill(&p->t, 0, log, bytes, p->next);
	do_read(&p->t, log, bytes, p->next++);
	do_free(&p->t, log, 0);
}

/* @return what the iteration took, ns. */
static uint64_t do_iteration(struct program *p, enum edit edit)
{
	uint64_t begin = weir_machine_now_ns(p->t.machine);

	for (uint32_t i = 0; i < PARTS; i++) {
		if (edit == EDIT_LOG && i == PARTS / 2)
			do_log(p);
		if (edit != EDIT_SKIP || i < PARTS - NR)
			do_part(p, i, i >= PARTS - NR ? edit : EDIT_NONE);
	}
	do_sync(&p->t);
	return weir_machine_now_ns(p->t.machine) - begin;
}

static void do_program(enum edit edit)
{
	struct weir_space_stats before, after;
	struct program p = {.next = 10};
	uint64_t usual = 0;

	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	p.t.space->residency->trials = false;
	for (uint32_t r = 0; r < NR; r++) {
		p.seed[r] = 1 + r;
		p.range[r] = do_alloc(&p.t, 4 * BLOCK, 0);
		do_fill(&p.t, 0, p.range[r], 4 * BLOCK, p.seed[r]);
	}
	for (int i = 0; i < 12; i++)
		usual = do_iteration(&p, EDIT_NONE);
	before = get_stats(&p.t);
	assert_true(before.nr_plans > 0);
	assert_int_equal(before.nr_resumed, 0);
	for (uint32_t round = 1; round <= 5; round++) {
		assert_true(do_iteration(&p, edit) <= usual + usual / 8);
		assert_true(do_iteration(&p, EDIT_NONE) <= usual + usual / 8);
		assert_int_equal(do_iteration(&p, EDIT_NONE), usual);
		after = get_stats(&p.t);
		assert_int_equal(after.nr_resumed, round);
	}
	assert_int_equal(after.nr_plans, before.nr_plans);
	assert_int_equal(after.nr_divergences, before.nr_divergences);
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p.t, p.range[r], 4 * BLOCK, p.seed[r]);
	test_space_close(&p.t);
}

static void test_space_resume_after_a_log_step(void **state)
{
	(void)state;
	do_program(EDIT_LOG);
}

static void test_space_resume_after_a_partial_batch(void **state)
{
	(void)state;
	do_program(EDIT_PARTIAL);
}

static void test_space_resume_after_missing_parts(void **state)
{
	(void)state;
	do_program(EDIT_SKIP);
}

/* A plan that is suspended when the budget changes, or the space goes, is forgotten. */
static void test_space_resume_not_after_a_new_budget(void **state)
{
	struct program p = {.next = 10};
	uint64_t nr_plans;

	(void)state;
	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	for (uint32_t r = 0; r < NR; r++) {
		p.seed[r] = 1 + r;
		p.range[r] = do_alloc(&p.t, 4 * BLOCK, 0);
		do_fill(&p.t, 0, p.range[r], 4 * BLOCK, p.seed[r]);
	}
	for (int i = 0; i < 8; i++)
		(void)do_iteration(&p, EDIT_NONE);
	nr_plans = get_stats(&p.t).nr_plans;
	do_log(&p);
	assert_int_equal(weir_space_set_budget(p.t.space, GPU0, 7 * BLOCK), 0);
	for (int i = 0; i < (TEST_SANITIZED ? 2 : 4); i++) /* each makes a plan, which takes long */
		(void)do_iteration(&p, EDIT_NONE);
	assert_int_equal(get_stats(&p.t).nr_resumed, 0);
	assert_true(get_stats(&p.t).nr_plans > nr_plans);
	do_log(&p);
	test_space_close(&p.t);
}

/* Plans that a new budget ends before a period of them was followed do not make the next ones
 * hasty. */
static void test_space_resume_budgets_are_no_haste(void **state)
{
	const struct planner *planner;
	struct program p = {.next = 10};
	uint64_t nr_plans = 0;

	(void)state;
	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	planner = p.t.space->residency->planner;
	for (uint32_t r = 0; r < NR; r++) {
		p.seed[r] = 1 + r;
		p.range[r] = do_alloc(&p.t, 4 * BLOCK, 0);
		do_fill(&p.t, 0, p.range[r], 4 * BLOCK, p.seed[r]);
	}
	for (uint32_t i = 0; i < 12; i++) {
		(void)do_iteration(&p, EDIT_NONE);
		if (!planner->plan || !get_stats(&p.t).nr_plans)
			continue;
		nr_plans++;
		assert_int_equal(weir_space_set_budget(p.t.space, GPU0, (8 - nr_plans % 2) * BLOCK),
				 0);
		assert_null(planner->plan);
		assert_int_equal(planner->nr_unproven, 0);
	}
	assert_true(nr_plans > 3);
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p.t, p.range[r], 4 * BLOCK, p.seed[r]);
	test_space_close(&p.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_resume_after_a_log_step),
		cmocka_unit_test(test_space_resume_after_a_partial_batch),
		cmocka_unit_test(test_space_resume_after_missing_parts),
		cmocka_unit_test(test_space_resume_not_after_a_new_budget),
		cmocka_unit_test(test_space_resume_budgets_are_no_haste),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
