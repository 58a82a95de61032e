/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans with two places below, near and far: which blocks are far, what moves over which link, and
 * what holds for any such plan.
 */
#include "tests/unit/test_plan.h"

/* Near: ten times the rate of the host. */
static void near_init(struct period *p, uint32_t budget_blocks, uint32_t near_blocks)
{
	struct plan_below *near;

	period_init(p, budget_blocks);
	near = p->input.below;
	p->input.nr_below = 2;
	p->input.near_blocks = near_blocks;
	near[1] = near[0];
	near->in_ns = near->out_ns = near->duplex_ns = 10;
	near->inplace_duplex_ns = near->inplace_both_ns = 10;
}

/* The last use is the same at the host, and takes a tenth of the time near. */
static void use_near(struct period *p)
{
	struct plan_use *use = &p->use[p->input.nr_uses - 1];

	use->at[1] = use->at[0];
	use->at[0].in_ns /= 10;
	use->at[0].out_ns /= 10;
}

static void add_near_use(struct period *p, uint32_t life, enum weir_use_kind kind, double times)
{
	add_use(p, life, kind, times);
	use_near(p);
}

static uint32_t far_of(const struct plan *plan, uint32_t life)
{
	return plan->far[plan->tracked[life]];
}

/* With room for all near and a host that is slow nothing is far. The search may find more than with
 * one place below, as it begins once more, or a little less: it does not end with whole blocks. */
static void test_near_room_for_all(void **state)
{
	struct test_random random = {.state = 11};

	(void)state;
	for (int n = 0; n < 60; n++) {
		struct period near, one = {.input = {0}};
		struct plan *plan, *plain;

		random_period(&one, &random, 1 + random_below(&random, 5),
			      1 + random_below(&random, 4), 8);
		near = one;
		near.input.step = near.step;
		near.input.use = near.use;
		near.input.life = near.life;
		near.input.nr_below = 2;
		near.input.near_blocks = 1000;
		near.input.below[1] = near.input.below[0];
		near.input.below[1].in_ns = near.input.below[1].out_ns = 1e6;
		near.input.below[1].map_ns = 1e6;
		for (uint32_t u = 0; u < near.input.nr_uses; u++) {
			near.use[u].at[1] = near.use[u].at[0];
			near.use[u].at[1].in_ns *= 1000;
			near.use[u].at[1].out_ns *= 1000;
		}
		plan = make(&near);
		plain = make(&one);
		check_plan(&near, plan);
		assert_true(plan->modelled_ns <= 1.05 * plain->modelled_ns);
		for (uint32_t t = 0; t < plan->nr_tracked; t++)
			assert_int_equal(plan->far[t], 0);
		plan_destroy(plan);
		plan_destroy(plain);
	}
}

/* What is used least per block is far: as many blocks as there is no room for, and no more. */
static void test_near_least_used_is_far(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t often, seldom;

	(void)state;
	near_init(&p, 4, 10);
	often = add_life(&p, 12);
	seldom = add_life(&p, 8);
	for (uint64_t i = 0; i < 4; i++) {
		add_step(&p, 10, i);
		add_near_use(&p, often, WEIR_READ, 4);
	}
	add_step(&p, 10, 9);
	add_near_use(&p, seldom, WEIR_READ, 0.25);
	plan = make(&p);
	check_plan(&p, plan);
	/* Both links carry: a block of the other may be far. */
	assert_true(far_of(plan, often) <= 1);
	assert_true(far_of(plan, seldom) >= 5);
	assert_in_range(far_of(plan, often) + far_of(plan, seldom), 6, 7);
	plan_destroy(plan);
}

/* What is used most is far where that hides behind computation, and not what would hold up another
 * step. */
static void test_near_hidden_is_far(void **state)
{
	uint32_t hidden, other;
	struct period p;
	struct plan *plan;

	(void)state;
	near_init(&p, 4, 10);
	hidden = add_life(&p, 12);
	other = add_life(&p, 8);
	add_step(&p, 10000, 1);
	add_near_use(&p, hidden, WEIR_READ, 3);
	add_step(&p, 10, 2);
	add_near_use(&p, other, WEIR_WRITE, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_true(far_of(plan, hidden) >= 6);
	assert_true(far_of(plan, other) <= 1);
	plan_destroy(plan);
}

/* A table that is read in the last step, temporaries that want the room near in the first two, and
 * a long step between these. */
static struct plan *make_with_lifts(struct period *p, double near_block_ns, uint32_t *table,
				    uint32_t *temporary)
{
	uint32_t small;

	near_init(p, 2, 10);
	p->input.near_block_ns = near_block_ns;
	*table = add_life(p, 10);
	*temporary = add_temporary(p, 11, 0, 2);
	small = add_life(p, 1);
	for (uint64_t i = 0; i < 2; i++) {
		add_step(p, 10, i);
		add_near_use(p, *temporary, i ? WEIR_READ : WEIR_OVERWRITE, 4);
	}
	add_step(p, 5000, 2);
	add_near_use(p, small, WEIR_WRITE, 1);
	add_step(p, 10, 3);
	add_near_use(p, *table, WEIR_READ, 8);
	return make(p);
}

/* What nobody writes is on the host while others need the room near, and near when it is used. */
static void test_near_read_only_is_lifted(void **state)
{
	uint32_t table, temporary;
	struct period p;
	struct plan *plan = make_with_lifts(&p, 0, &table, &temporary);

	(void)state;
	check_plan(&p, plan);
	assert_true(far_of(plan, table) >= 8);
	assert_true(plan->kept[plan->tracked[table]]);
	assert_false(plan->kept[plan->tracked[temporary]]);
	/* On the host the last step would take 6,400 ns. */
	assert_true(plan->modelled_ns < 5000 + 2 * 450 + 850);
	plan_destroy(plan);
}

/* What is lifted burdens the near place, though it is dropped again: some 67 blocks in all, 65
 * without. */
static void test_near_lifts_count_as_use(void **state)
{
	uint32_t table, temporary;
	struct period p;
	struct plan *plan = make_with_lifts(&p, 200, &table, &temporary);

	(void)state;
	check_plan(&p, plan);
	assert_true(plan->modelled_ns > 66 * 200);
	plan_destroy(plan);
}

/* Lives that are never there together share the room. */
static void test_near_room_at_each_time(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t life[2];

	(void)state;
	near_init(&p, 4, 8);
	for (uint32_t i = 0; i < 2; i++) {
		life[i] = add_temporary(&p, 12, 2 * i, 2 * i + 2);
		for (uint64_t n = 0; n < 2; n++) {
			add_step(&p, 10, 2 * i + n);
			add_near_use(&p, life[i], n ? WEIR_READ : WEIR_OVERWRITE, 1);
		}
	}
	plan = make(&p);
	check_plan(&p, plan);
	/* With half of them on the host these would take six times as long. */
	assert_true(far_of(plan, life[0]) <= 1);
	assert_true(far_of(plan, life[1]) <= 1);
	plan_destroy(plan);
}

/* Advice: below stays below, near if there is room, unless it is to be far. */
static void test_near_advice(void **state)
{
	for (int far = 0; far < 2; far++) {
		struct period p;
		struct plan *plan;
		uint32_t life;

		(void)state;
		near_init(&p, 8, 8);
		life = add_life(&p, 4);
		p.life[life].below = true;
		p.life[life].far = far;
		add_step(&p, 100, 1);
		add_near_use(&p, life, WEIR_READ, 1);
		plan = make(&p);
		assert_int_equal(level(plan, 0, life), 0);
		assert_int_equal(far_of(plan, life), far ? 4 : 0);
		/* In place: beside the computation, or for four times as long. */
		assert_true(fabs(plan->modelled_ns - (far ? 400 : 100)) < 2);
		plan_destroy(plan);
	}
}

/* Where near uses hold kernels up, some is far though there is room near, and the other link
 * carries that. */
static void test_near_helped_by_far(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t life;

	(void)state;
	near_init(&p, 4, 100);
	life = add_life(&p, 40);
	add_step(&p, 10, 1);
	add_near_use(&p, life, WEIR_READ, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_in_range(far_of(plan, life), 1, 8);
	plan_destroy(plan);
}

/* Near may be used for a fifth of the time: so much is far that the host's link takes as long as
 * that. */
static void test_near_used_no_more_than_allowed(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t life, near;

	(void)state;
	near_init(&p, 4, 100);
	p.input.near_block_ns = 50;
	life = add_life(&p, 40);
	add_step(&p, 10, 1);
	add_near_use(&p, life, WEIR_READ, 1); /* a block takes 10 ns near and 100 far */
	plan = make(&p);
	check_plan(&p, plan);
	near = 40 - level(plan, 0, life) - far_of(plan, life);
	assert_in_range(near, 22, 25);
	assert_true(plan->modelled_ns >= 50 * near && plan->modelled_ns < 1300);
	plan_destroy(plan);
}

/* Both links carry at the same time; what does not overlap with computation is added. */
static void test_near_links_carry_together(void **state)
{
	static const double serial[] = {0, 0.5};

	(void)state;
	for (int n = 0; n < 2; n++) {
		struct period p;
		struct plan *plan;
		uint32_t near, far;

		near_init(&p, 4, 40);
		near = add_life(&p, 30);
		far = add_life(&p, 2);
		p.life[near].below = p.life[far].below = p.life[far].far = true;
		add_step(&p, 100, 1);
		add_near_use(&p, near, WEIR_READ, 1); /* 300 ns */
		p.use[0].at[0].serial_ns = serial[n] * 300;
		add_near_use(&p, far, WEIR_READ, 1); /* 200 ns */
		plan = make(&p);
		assert_true(fabs(plan->modelled_ns - (300 + serial[n] * 100)) < 2);
		plan_destroy(plan);
	}
}

/* Only what is computed with what is resident can fail to overlap: with three quarters of the own
 * memory's time in place that is a quarter of the computation. The host's link may take longest. */
static void test_near_serial_is_of_what_is_resident(void **state)
{
	static const double far_times[] = {0, 1};

	(void)state;
	for (int n = 0; n < 2; n++) {
		struct period p;
		struct plan *plan;
		uint32_t near, own, far;

		near_init(&p, 12, 40);
		near = add_life(&p, 10);
		own = add_life(&p, 10);
		far = add_life(&p, 2);
		p.life[near].below = p.life[far].below = p.life[far].far = true;
		add_step(&p, 80, 1);
		add_near_use(&p, near, WEIR_READ, 1); /* 100 ns */
		p.use[0].hbm_ns = 3;
		p.use[0].at[0].serial_ns = 50;
		add_near_use(&p, own, WEIR_READ, 10000); /* resident */
		p.use[1].hbm_ns = 1;
		add_near_use(&p, far, WEIR_READ, far_times[n]); /* 200 ns */
		plan = make(&p);
		assert_int_equal(level(plan, 0, own), 10);
		assert_true(fabs(plan->modelled_ns - (n ? 200 : 100) - 0.5 * 20) < 2);
		plan_destroy(plan);
	}
}

/* What does not overlap is by the uses that the link's traffic is of, each by its time there. */
static void test_near_serial_is_by_use(void **state)
{
	struct period p;
	struct plan *plan;

	(void)state;
	near_init(&p, 4, 60);
	add_step(&p, 300, 1);
	for (uint32_t i = 0; i < 2; i++) {
		p.life[add_life(&p, i ? 15 : 5)].below = true;
		add_near_use(&p, i, WEIR_READ, 1); /* 50 and 150 ns */
		p.use[i].hbm_ns = 1;
	}
	p.use[0].at[0].serial_ns = 0.8 * 50;
	add_near_use(&p, add_life(&p, 4), WEIR_READ, 10000); /* resident */
	p.use[2].hbm_ns = 6;
	p.use[2].at[0].serial_ns = p.use[2].at[0].in_ns;
	plan = make(&p);
	assert_true(fabs(plan->modelled_ns - 300 - 0.2 * 200) < 2);
	plan_destroy(plan);
}

/* Two lives that take turns in four blocks, near when not resident (the host is too slow), or on
 * the host. All is modelled time of stalls, but 2 ns. */
static double turns_ns(double map_busy_ns, double unmap_busy_ns, bool near)
{
	struct period p;
	struct plan *plan;
	double ns;

	period_init(&p, 4);
	if (near) {
		near_init(&p, 4, 40);
		p.input.below[1].in_ns = p.input.below[1].out_ns = 1e6;
	}
	p.input.map_busy_ns = map_busy_ns;
	p.input.unmap_busy_ns = unmap_busy_ns;
	for (uint64_t i = 0; i < 2; i++) {
		uint32_t life = add_life(&p, 4);

		add_step(&p, 1, i);
		add_use(&p, life, WEIR_READ, 1000);
		if (near) {
			use_near(&p);
			p.use[p.input.nr_uses - 1].at[1].in_ns = 1e6;
		}
	}
	plan = make(&p);
	check_plan(&p, plan);
	ns = plan->modelled_ns;
	plan_destroy(plan);
	return ns;
}

/* Calls that wait for copies beside them: for the share of the time for which these run. */
static void test_near_calls_wait(void **state)
{
	/* x = 4 * 1000 * 40 / (40 + x), in each of the two stages */
	const double near = (sqrt(40 * 40 + 4 * 160000.0) - 40) / 2;
	const double far = (sqrt(400 * 400 + 4 * 1600000.0) - 400) / 2;

	(void)state;
	assert_true(fabs(turns_ns(0, 0, true) - 82) < 1);
	assert_true(fabs(turns_ns(0, 1000, true) - (82 + 2 * near)) < 1);
	assert_true(fabs(turns_ns(1000, 0, true) - 82) < 1);
	assert_true(fabs(turns_ns(0, 1000, false) - 802) < 1);
	assert_true(fabs(turns_ns(1000, 0, false) - (802 + 2 * far)) < 1);
}

/* Beside a stage they are hidden, as far as it lasts. */
static void test_near_calls_beside_a_stage(void **state)
{
	const struct plan_input input = {.map_busy_ns = 100, .unmap_busy_ns = 1000};
	struct calls calls = {.ns = 50, .nr_maps = 2, .nr_unmaps = 3, .near_ns = 40};

	(void)state;
	assert_true(fabs(calls_beside_ns(&input, &calls, 1200) - (50 + 3 * 1000 / 30.0)) < 1e-6);
	calls.in_ns = 600;
	assert_true(fabs(calls_beside_ns(&input, &calls, 1200) - (150 + 2 * 100 / 2.0)) < 1e-6);
	/* Longer than the stage: copies run for the smaller part of it. */
	calls.in_ns = 0;
	assert_true(fabs(calls_beside_ns(&input, &calls, 100) - (25 + sqrt(25 * 25 + 120000))) <
		    1e-6);
	calls.near_ns = 0;
	assert_true(calls_beside_ns(&input, &calls, 100) == 50);
	assert_true(calls_and_ns(&input, &calls, 100) == 50);
}

/* Where use in place near costs what it costs on the host, as where the neighbour is for copies
 * alone: what fits comes in before it is used. */
static void test_near_copies_only(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t life[2];

	(void)state;
	near_init(&p, 10, 40);
	for (uint32_t i = 0; i < 2; i++) {
		life[i] = add_life(&p, 10);
		add_step(&p, 2000, i);
		add_use(&p, life[i], WEIR_WRITE, 20);
		p.use[i].at[1] = p.use[i].at[0];
	}
	plan = make(&p);
	check_plan(&p, plan);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(level(plan, i, life[i]) >= 9); /* one block is hidden */
		assert_int_equal(far_of(plan, life[i]), 0);
		assert_true(has_move(plan, life[i], PLAN_FETCH));
	}
	plan_destroy(plan);
}

/* What is needed near at any time, with the levels as they are, fits; more room never hurts. */
static void test_near_random_periods(void **state)
{
	struct test_random random = {.state = 23};

	(void)state;
	for (int n = 0; n < 200; n++) {
		uint32_t nr_lives = 1 + random_below(&random, 6), nr_steps;
		struct period p;
		struct plan *plan;
		double host_ns;

		nr_steps = 1 + random_below(&random, 12);
		random_period(&p, &random, nr_steps, nr_lives, 20);
		p.input.below[1] = p.input.below[0];
		p.input.below[0].in_ns = p.input.below[0].out_ns = 12;
		p.input.below[0].duplex_ns = p.input.below[0].inplace_duplex_ns = 14;
		p.input.below[0].inplace_both_ns = 14;
		for (uint32_t u = 0; u < p.input.nr_uses; u++) {
			p.use[u].at[1] = p.use[u].at[0];
			p.use[u].at[0].in_ns /= 8;
			p.use[u].at[0].out_ns /= 8;
		}
		p.input.nr_below = 2;
		p.input.near_blocks = 0;
		plan = make(&p);
		check_plan(&p, plan);
		host_ns = plan->modelled_ns;
		plan_destroy(plan);
		p.input.near_blocks = random_below(&random, 60);
		plan = make(&p);
		check_plan(&p, plan);
		/* A search, so not exactly. */
		assert_true(plan->modelled_ns <= 1.02 * host_ns + 1);
		for (uint32_t l = 0; l < nr_lives; l++)
			if (plan->tracked[l] != PLAN_UNTRACKED)
				assert_true(far_of(plan, l) <= p.life[l].nr_blocks);
		plan_destroy(plan);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near_room_for_all),
		cmocka_unit_test(test_near_least_used_is_far),
		cmocka_unit_test(test_near_hidden_is_far),
		cmocka_unit_test(test_near_read_only_is_lifted),
		cmocka_unit_test(test_near_lifts_count_as_use),
		cmocka_unit_test(test_near_room_at_each_time),
		cmocka_unit_test(test_near_advice),
		cmocka_unit_test(test_near_helped_by_far),
		cmocka_unit_test(test_near_used_no_more_than_allowed),
		cmocka_unit_test(test_near_links_carry_together),
		cmocka_unit_test(test_near_serial_is_of_what_is_resident),
		cmocka_unit_test(test_near_serial_is_by_use),
		cmocka_unit_test(test_near_calls_wait),
		cmocka_unit_test(test_near_calls_beside_a_stage),
		cmocka_unit_test(test_near_copies_only),
		cmocka_unit_test(test_near_random_periods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
