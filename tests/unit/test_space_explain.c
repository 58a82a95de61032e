/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a space says of its plans: nothing without one; with one, stage by stage, times that add up
 * to what the program took, and the blocks and calls of the space's statistics.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/variables.h"
#include "src/residency/explain.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"
#include "weir/explain.h"

#define BLOCK KIB(16)
#define NR_RANGES 8u
#define PASSES 16u

static char *explain(struct test_space *t)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	assert_non_null(file);
	assert_int_equal(weir_space_explain(t->space, file), 0);
	assert_int_equal(fclose(file), 0);
	return text;
}

static void expect_text(struct test_space *t, const char *what)
{
	char *text = explain(t);

	if (!strstr(text, what))
		fail_msg("not '%s' in: %s", what, text);
	free(text);
}

/* Walk over ranges of which half fit, each with a temporary. */
static void pass(struct test_space *t, uint8_t *const range[])
{
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		uint8_t *temporary = do_alloc(t, BLOCK, 0);

		do_fill(t, 0, temporary, BLOCK, 7);
		do_change(t, 0, range[i], 2 * BLOCK, 1, 1);
		do_free(t, temporary, 0);
	}
}

static void open_walk(struct test_space *t, uint8_t *range[])
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, NR_RANGES, 40);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		range[i] = do_alloc(t, 2 * BLOCK, 0);
		do_fill(t, 0, range[i], 2 * BLOCK, 1);
	}
}

/* The figures of the line that sums up. */
struct all {
	uint32_t nr_brackets;
	double planned, measured, kernels, waited, brought, ahead, late, out, calls, calls_ms;
};

static struct all read_all(struct test_space *t)
{
	char *text = explain(t), *at = strstr(text, "    all ");
	double column[11];

	assert_non_null(at);
	at += strlen("    all ");
	for (size_t i = 0; i < ARRAY_LEN(column); i++) {
		char *end;

		column[i] = strtod(at, &end);
		assert_ptr_not_equal(end, at);
		at = end;
	}
	assert_int_equal(*at, '\n');
	free(text);
	return (struct all){(uint32_t)column[0], column[1], column[2], column[3],
			    column[4],		 column[5], column[6], column[7],
			    column[8],		 column[9], column[10]};
}

static uint64_t nr_in(const struct weir_space_stats *stats)
{
	return stats->nr_moves[WEIR_CAUSE_DEMAND] + stats->nr_moves[WEIR_CAUSE_PREFETCH];
}

static void test_space_explain_adds_up(void **state)
{
	const uint32_t nr = 4;
	struct weir_space_stats before, after;
	uint8_t *range[NR_RANGES];
	struct test_space t;
	struct all all;
	uint64_t begin;
	double ms;

	(void)state;
	open_walk(&t, range);
	expect_text(&t, "gpu0: no plan: no repetition is known");
	for (uint32_t i = 0; i < PASSES; i++)
		pass(&t, range);
	do_sync(&t);
	assert_non_null(t.space->residency->planner[0].plan);
	/* What follows is measured by the test, in the steady state. */
	weir_space_query(t.space, &before);
	begin = weir_machine_now_ns(t.machine);
	for (uint32_t i = 0; i < nr; i++)
		pass(&t, range);
	do_sync(&t);
	ms = (double)(weir_machine_now_ns(t.machine) - begin) / 1e6 / nr;
	weir_space_query(t.space, &after);
	all = read_all(&t);
	assert_int_equal(all.nr_brackets, 2 * NR_RANGES);
	assert_true(all.measured > 0.8 * ms && all.measured < 1.25 * ms);
	assert_true(all.planned > 0 && all.kernels > 0);
	assert_true(fabs(all.measured - all.kernels - all.waited) < 0.01);
	assert_true(all.out > 0 && all.calls > 0 && all.calls_ms > 0 && all.calls_ms < ms);
	assert_true(all.late <= all.ahead);
	assert_true(fabs(all.ahead + all.brought - (double)(nr_in(&after) - nr_in(&before)) / nr) <
		    2);
	test_space_close(&t);
}

/* Each chunk of the budget is accounted for; the arena's, of which a small range fills half. */
static void expect_room(const struct explain_stage *stage)
{
	double sum = 0;

	for (int room = 0; room < EXPLAIN_ROOM_NR; room++) {
		assert_true(stage->room[room] >= 0);
		sum += stage->room[room];
	}
	assert_true(fabs(sum - NR_RANGES) < 1e-9);
	assert_true(stage->room[EXPLAIN_LIVE] > 0);
	assert_true(stage->room[EXPLAIN_ARENAS] == 1);
	assert_true(fabs(stage->filled - 0.5) < 0.01);
	assert_true(stage->room[EXPLAIN_OTHERS] == 0);
}

/* The text is made from the numbers, whose sum is that of the stages. */
static void test_space_explain_numbers(void **state)
{
	struct explain_stage sum = {0};
	const struct explain_device *device;
	struct explain *explain;
	uint8_t *range[NR_RANGES];
	struct test_space t;
	struct all all;

	(void)state;
	open_walk(&t, range);
	do_fill(&t, 0, do_alloc(&t, BLOCK / 2, 0), BLOCK / 2, 3);
	assert_int_equal(explain_get(t.space, &explain), 0);
	assert_int_equal(explain->nr_devices, 1);
	assert_non_null(explain->device[0].why);
	assert_int_equal(explain->device[0].nr_stages, 0);
	explain_free(explain);
	for (uint32_t i = 0; i < PASSES; i++)
		pass(&t, range);
	do_sync(&t);
	all = read_all(&t);
	assert_int_equal(explain_get(t.space, &explain), 0);
	device = &explain->device[0];
	assert_null(device->why);
	assert_string_equal(device->name, "gpu0");
	for (uint32_t g = 0; g < device->nr_stages; g++) {
		const struct explain_stage *stage = &device->stage[g];

		assert_true(stage->kernels_ns >= 0 && stage->kernels_ns <= stage->measured_ns);
		expect_room(stage);
		sum.nr_brackets += stage->nr_brackets;
		sum.planned_ns += stage->planned_ns;
		sum.measured_ns += stage->measured_ns;
		sum.ahead += stage->ahead;
		sum.late += stage->late;
		sum.calls_ns += stage->calls_ns;
	}
	assert_int_equal(device->chunk_bytes, BLOCK);
	assert_int_equal(sum.nr_brackets, 2 * NR_RANGES);
	assert_true(sum.planned_ns > 0 && sum.planned_ns <= 1.01 * device->modelled_ns);
	assert_true(fabs(sum.planned_ns / 1e6 - all.planned) < 0.001);
	assert_true(fabs(sum.measured_ns / 1e6 - all.measured) < 0.001);
	assert_true(fabs(sum.ahead - all.ahead) < 0.1 && fabs(sum.late - all.late) < 0.1);
	assert_true(fabs(sum.calls_ns / 1e6 - all.calls_ms) < 0.001);
	explain_free(explain);
	test_space_close(&t);
}

/* What differs from the repetition suspends the plan, which is still explained. */
static void test_space_explain_suspended(void **state)
{
	uint8_t *range[NR_RANGES];
	struct test_space t;

	(void)state;
	open_walk(&t, range);
	for (uint32_t i = 0; i < PASSES; i++)
		pass(&t, range);
	do_change(&t, 0, range[5], BLOCK, 1, 1);
	expect_text(&t, "gpu0: suspended, since what the program does now differs: a plan of ");
	(void)read_all(&t);
	test_space_close(&t);
}

static void test_space_explain_fixed(void **state)
{
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 4, 4);
	expect_text(&t, "gpu0: no plan: the space is fixed");
	test_space_close(&t);
}

/* With WEIR_PLANS=0 nothing is planned, and a value that is neither is refused. */
static void test_space_explain_without_plans(void **state)
{
	uint8_t *range[NR_RANGES];
	struct test_space t;

	(void)state;
	assert_int_equal(setenv(VARIABLE_PLANS, "0", 1), 0);
	open_walk(&t, range);
	for (uint32_t i = 0; i < PASSES; i++)
		pass(&t, range);
	assert_int_equal(get_stats(&t).nr_plans, 0);
	expect_text(&t, "gpu0: no plan: WEIR_PLANS is 0");
	weir_space_destroy(t.space);
	assert_int_equal(setenv(VARIABLE_PLANS, "yes", 1), 0);
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, BLOCK, MIB(1), MIB(1)), -EINVAL);
	assert_int_equal(unsetenv(VARIABLE_PLANS), 0);
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, BLOCK, MIB(1), MIB(1)), 0);
	test_space_close(&t);
}

/* Brackets that launch nothing take no time: they are watched for some periods all the same, and
 * not for good. */
static void test_space_explain_ends(void **state)
{
	struct test_space t;
	uint8_t *range[3];

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, NR_RANGES, 40);
	for (uint32_t i = 0; i < 3; i++)
		range[i] = do_alloc(&t, BLOCK, 0);
	for (uint32_t i = 0; i < 3 * 4 * PASSES; i++) {
		const struct weir_use use = use_of(range[i % 3], BLOCK, WEIR_WRITE);

		assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), 0);
		do_end(&t, 0);
		do_sync(&t);
	}
	assert_non_null(t.space->residency->planner->plan);
	assert_true(t.space->residency->planner->settled);
	assert_false(schedule_wants_times(t.space->residency->planner));
	test_space_close(&t);
}

static void test_space_explain_cannot_write(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct test_space t;

	(void)state;
	assert_non_null(full);
	setbuf(full, NULL);
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 4);
	assert_int_equal(weir_space_explain(t.space, full), -EIO);
	fclose(full);
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_explain_adds_up),
		cmocka_unit_test(test_space_explain_numbers),
		cmocka_unit_test(test_space_explain_suspended),
		cmocka_unit_test(test_space_explain_fixed),
		cmocka_unit_test(test_space_explain_without_plans),
		cmocka_unit_test(test_space_explain_ends),
		cmocka_unit_test(test_space_explain_cannot_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
