/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of one repetition are compared by what a period takes under them, and the best is followed.
 *
 * Labels: optimised
 */
#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "weir/machine_file.h"

#define BLOCK KIB(16)
#define NR 4
/* Brackets of a period, and of what a longer one has beside them. */
enum { PERIOD = 30, MORE = 8 };

static struct planner *planner(const struct test_space *t)
{
	return &t->space->residency->planner[0];
}

/* A layer's weights, which a step changes, and what it writes on the way. */
static void walk_step(struct weir_space *space, struct weir_stream *stream, void *weights,
		      double ops)
{
	static const struct weir_kernel kernel = {.name = "layer"};
	struct weir_use use[] = {
		{.bytes = MIB(1024),
		 .kind = WEIR_WRITE,
		 .read_bytes = MIB(1024),
		 .write_bytes = MIB(1024)},
		{.bytes = MIB(64), .kind = WEIR_OVERWRITE, .write_bytes = MIB(64)}};
	const struct weir_launch launch = {
		.kernel = &kernel, .uses = use, .nr_uses = 2, .ops = ops};

	use[0].addr = weights;
	assert_int_equal(weir_alloc(space, use[1].bytes, stream, &use[1].addr), 0);
	assert_int_equal(weir_begin(space, stream, use, 2), 0);
	assert_int_equal(weir_stream_launch(stream, &launch), 0);
	assert_int_equal(weir_end(space, stream), 0);
	weir_free(space, use[1].addr, stream);
}

/*
 * A walk over 60 layers on an H200 of which half fits, each with 2 ms of computation: the second
 * plan is the worse one of two, and was followed for good when plans were not compared.
 */
static void test_space_tried_keeps_the_best(void **state)
{
	struct weir_space_config config = {.devices = 1, .mode = WEIR_PLANNED};
	uint64_t begin, took = 0, least = UINT64_MAX;
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	char error[256];
	void *weights[60];

	(void)state;
	assert_int_equal(weir_machine_file_read("h200", &desc, error, sizeof(error)), 0);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	config.budget_bytes[0] = 110000000000;
	config.budget_bytes[1] = 33670000000;
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	for (uint32_t i = 0; i < 60; i++)
		assert_int_equal(weir_alloc(space, MIB(1024), stream, &weights[i]), 0);
	for (uint32_t pass = 0; pass < 12; pass++) {
		begin = weir_machine_now_ns(machine);
		for (uint32_t i = 0; i < 60; i++)
			walk_step(space, stream, weights[i],
				  2e-3 * (double)desc.device[0].ops_per_s);
		assert_int_equal(weir_space_sync(space), 0);
		took = weir_machine_now_ns(machine) - begin;
		least = took < least ? took : least;
	}
	assert_true(space->residency->planner[0].settled);
	assert_true((double)took <= 1.03 * (double)least);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
}

/* Ranges that stay and one that does not fit beside them all; temporaries; and some ranges that
 * outlive an iteration. */
struct program {
	struct test_space t;
	uint8_t *range[NR];
	uint32_t seed[NR];
	uint8_t *late[2];
	uint32_t late_seed[2], next;
	bool settled; /* the best plan was chosen in an iteration before this one */
};

/* The plan that was chosen knows ranges that were allocated after it was made. */
static void expect_tied(struct program *p)
{
	for (uint32_t i = 0; i < 2 && p->late[i]; i++)
		assert_true(range_find(p->t.space, p->late[i])->residency->plan_life >= 0);
	p->settled = true;
}

static void do_iteration(struct program *p)
{
	for (uint32_t i = 0; i < 3 * NR; i++) {
		const uint32_t r = i % NR;
		const uint64_t bytes = 2 * BLOCK - 64 * i;
		uint8_t *temporary = do_alloc(&p->t, bytes, 0);

		if (planner(&p->t)->settled && !p->settled)
			expect_tied(p);
		do_fill(&p->t, 0, temporary, bytes, p->next + 1);
		do_change(&p->t, 0, p->range[r], 4 * BLOCK, p->seed[r], p->next);
		p->seed[r] = p->next;
		do_expect(&p->t, 0, temporary, bytes, p->next + 1);
		do_free(&p->t, temporary, 0);
		p->next += 2;
	}
	/* Freed in the next iteration, and allocated anew. */
	for (uint32_t i = 0; i < 2; i++) {
		if (p->late[i]) {
			do_expect(&p->t, 0, p->late[i], 3 * BLOCK, p->late_seed[i]);
			do_free(&p->t, p->late[i], 0);
		}
		p->late[i] = do_alloc(&p->t, 3 * BLOCK, 0);
		p->late_seed[i] = p->next++;
		do_fill(&p->t, 0, p->late[i], 3 * BLOCK, p->late_seed[i]);
	}
}

static void open_program(struct program *p)
{
	*p = (struct program){.next = 10};
	test_space_open(&p->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 9, 40);
	for (uint32_t r = 0; r < NR; r++) {
		p->seed[r] = 1 + r;
		p->range[r] = do_alloc(&p->t, 4 * BLOCK, 0);
		do_fill(&p->t, 0, p->range[r], 4 * BLOCK, p->seed[r]);
	}
}

static void close_program(struct program *p)
{
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p->t, p->range[r], 4 * BLOCK, p->seed[r]);
	for (uint32_t i = 0; i < 2; i++)
		do_read(&p->t, p->late[i], 3 * BLOCK, p->late_seed[i]);
	do_check(&p->t);
	test_space_close(&p->t);
}

/* The last plan is made to look bad: the first is followed again, in the middle of an iteration or
 * at its end, and is a plan like any other. */
static void take_up(bool replace, bool at_once)
{
	const struct plan *first = NULL;
	struct program p;

	open_program(&p);
	for (uint32_t i = 0; i < 14; i++) {
		struct planner *planned = planner(&p.t);

		do_iteration(&p);
		if (!at_once)
			do_sync(&p.t);
		if (planned->nr_plans_made == 1 && planned->plan)
			first = planned->plan;
		if (planned->nr_plans_made == 2 && !planned->settled) {
			assert_non_null(planned->tried);
			planned->period_ns = 1e18;
			/* What both plans know may be gone by then. */
			if (replace) {
				do_free(&p.t, p.range[NR - 1], 0);
				p.range[NR - 1] = do_alloc(&p.t, 4 * BLOCK, 0);
				p.seed[NR - 1] = p.next++;
				do_fill(&p.t, 0, p.range[NR - 1], 4 * BLOCK, p.seed[NR - 1]);
			}
		}
		do_check(&p.t);
	}
	assert_non_null(first);
	if (!replace) {
		assert_true(planner(&p.t)->settled);
		assert_null(planner(&p.t)->tried);
		assert_ptr_equal(planner(&p.t)->plan, first);
		assert_int_equal(planner(&p.t)->nr_plans_made, 2);
	}
	close_program(&p);
}

static void test_space_tried_takes_one_up(void **state)
{
	(void)state;
	take_up(false, false);
	if (!TEST_SANITIZED)
		take_up(false, true);
}

static void test_space_tried_of_other_ranges(void **state)
{
	(void)state;
	if (!TEST_SANITIZED)
		take_up(true, false);
	take_up(true, true);
}

/* The space goes, and a repetition ends, while plans are set aside: nothing leaks. */
static void test_space_tried_forgotten(void **state)
{
	(void)state;
	for (int diverges = 0; diverges < 2; diverges++) {
		struct program p;

		open_program(&p);
		for (uint32_t i = 0; i < 14 && !planner(&p.t)->tried; i++)
			do_iteration(&p);
		assert_non_null(planner(&p.t)->tried);
		if (diverges) {
			assert_int_equal(weir_space_set_budget(p.t.space, GPU0, 8 * BLOCK), 0);
			assert_null(planner(&p.t)->tried);
			assert_int_equal(planner(&p.t)->nr_plans_made, 0);
			do_iteration(&p);
		}
		close_program(&p);
	}
}

/* A bracket of guessed uses: a launch of that number, of all of a range. */
static void do_guess(struct program *p, uint64_t launched, uint32_t r)
{
	const struct weir_use use = use_of(p->range[r], 4 * BLOCK, WEIR_WRITE);
	const struct bracket_asked asked = {
		.uses = &use, .nr = 1, .nr_likely = 1, .launched = launched};

	assert_int_equal(bracket_begin_guessed(p->t.space, p->t.stream[0], &asked), 0);
	do_launch(&p->t, 0, p->range[r], 4 * BLOCK, WEIR_WRITE, p->seed[r], p->next);
	p->seed[r] = p->next++;
	do_end(&p->t, 0);
}

/*
 * Of guesses a longer repetition is recognised while a shorter one is followed: plans of that are
 * none of the new one's, though its periods took less time.
 */
static void test_space_tried_of_another_period(void **state)
{
	struct program p;

	(void)state;
	open_program(&p);
	p.t.space->guessed = true;
	for (uint32_t i = 0; i < 12; i++) {
		for (uint32_t n = 0; n < PERIOD; n++)
			do_guess(&p, 1 + n, n % NR);
		for (uint32_t n = 0; n < MORE && i >= 4; n++)
			do_guess(&p, 1 + PERIOD + n, n % NR);
		do_sync(&p.t);
		if (i == 3)
			assert_non_null(planner(&p.t)->tried);
	}
	assert_int_equal(planner(&p.t)->record.period, PERIOD + MORE);
	assert_true(planner(&p.t)->settled);
	for (uint32_t r = 0; r < NR; r++)
		do_read(&p.t, p.range[r], 4 * BLOCK, p.seed[r]);
	test_space_close(&p.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_tried_keeps_the_best),
		cmocka_unit_test(test_space_tried_takes_one_up),
		cmocka_unit_test(test_space_tried_of_other_ranges),
		cmocka_unit_test(test_space_tried_forgotten),
		cmocka_unit_test(test_space_tried_of_another_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
