/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that repeat themselves, through the public interface: a plan is made and followed, moves
 * nothing that need not move, and is dropped without harm when the program does something else.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/plan.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)

/* Iterations after which any repetition of a few events is known, and its plans are settled. */
#define WARM_UP 40

/* What changed between two moments. */
struct delta {
	uint64_t in, out, remaps, waits, ns;
};

static struct delta since(struct test_space *t, struct delta *before)
{
	struct weir_space_stats stats = get_stats(t);
	struct delta now = {.in = get_copied(t, &stats, BACKEND_TO_DEVICE) / BLOCK,
			    .out = get_copied(t, &stats, BACKEND_TO_HOST) / BLOCK,
			    .remaps = stats.nr_remaps,
			    .waits = stats.nr_waits,
			    .ns = weir_machine_now_ns(t->machine)};
	struct delta delta = {now.in - before->in, now.out - before->out,
			      now.remaps - before->remaps, now.waits - before->waits,
			      now.ns - before->ns};

	*before = now;
	return delta;
}

/* What fits: once it is there nothing moves, is mapped or waits any more, temporaries included. */
static void test_space_plan_that_fits_moves_nothing(void **state)
{
	struct delta before = {0}, delta;
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	for (uint32_t i = 1; i < 2 * WARM_UP; i++) {
		uint8_t *x = do_alloc(&t, 4 * BLOCK, 0), *y = do_alloc(&t, 2 * BLOCK, 0);

		if (i == WARM_UP) {
			do_sync(&t);
			assert_true(get_stats(&t).nr_plans > 0);
			(void)since(&t, &before);
		}
		do_fill(&t, 0, x, 4 * BLOCK, 1000 + i);
		do_change(&t, 0, a, 6 * BLOCK, i, i + 1);
		do_fill(&t, 0, y, 2 * BLOCK, 2000 + i);
		do_expect(&t, 0, x, 4 * BLOCK, 1000 + i);
		do_free(&t, x, 0);
		do_expect(&t, 0, y, 2 * BLOCK, 2000 + i);
		do_free(&t, y, 0);
	}
	do_sync(&t);
	delta = since(&t, &before);
	assert_int_equal(delta.in, 0);
	assert_int_equal(delta.out, 0);
	assert_int_equal(delta.remaps, 0);
	assert_int_equal(delta.waits, 0);
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	test_space_close(&t);
}

/* Beyond the budget: a range that is only read is never copied out, temporaries never at all. */
static void test_space_plan_copies_out_nothing_that_is_clean_or_dead(void **state)
{
	struct delta before = {0}, delta;
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_write(&t, a, 6 * BLOCK, 1);
	for (uint32_t i = 1; i < 2 * WARM_UP; i++) {
		uint8_t *x;

		if (i == WARM_UP) {
			do_sync(&t);
			assert_true(get_stats(&t).nr_plans > 0);
			(void)since(&t, &before);
		}
		do_expect(&t, 0, a, 6 * BLOCK, 1);
		x = do_alloc(&t, 6 * BLOCK, 0);
		do_fill(&t, 0, x, 6 * BLOCK, 1000 + i);
		do_expect(&t, 0, x, 6 * BLOCK, 1000 + i);
		do_free(&t, x, 0);
	}
	do_sync(&t);
	delta = since(&t, &before);
	assert_int_equal(delta.out, 0);
	/* At most what does not fit beside x comes in again each time. */
	assert_true(delta.in <= WARM_UP * 4);
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	test_space_close(&t);
}

/* What a plan takes for the computation of a kernel that reads more than fits, whose name has a
 * factor. */
static double planned_compute_ns(double factor)
{
	struct test_space t;
	double compute_ns;
	uint8_t *a;

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	t.backend->desc.nr_kernels = 1;
	t.backend->desc.kernel[0] = (struct weir_kernel_rate){"cells", factor};
	a = do_alloc(&t, 12 * BLOCK, 0);
	do_write(&t, a, 12 * BLOCK, 1);
	for (uint32_t i = 0; i < WARM_UP; i++)
		do_expect(&t, 0, a, 12 * BLOCK, 1);
	do_sync(&t);
	assert_non_null(t.space->residency->planner->plan);
	compute_ns = t.space->residency->planner->plan->compute_ns;
	test_space_close(&t);
	return compute_ns;
}

/* A bracket that never ran with everything resident is modelled with its kernel's factor. */
static void test_space_plan_knows_the_factor_of_a_kernel(void **state)
{
	double hbm_ns = 12.0 * BLOCK / 100, plain = planned_compute_ns(1);
	double nr = plain / (500 + hbm_ns); /* kernels in a period */

	(void)state;
	assert_true(nr > 0.999);
	assert_true(planned_compute_ns(3) - plain > 0.999 * nr * 2 * hbm_ns);
	assert_true(planned_compute_ns(3) - plain < 1.001 * nr * 2 * hbm_ns);
}

/* What was used before the repetition, and not in it, makes room for what is: touched too sparsely
 * to come in without a plan, it comes in with one. */
static void test_space_plan_evicts_what_it_does_not_know(void **state)
{
	struct delta before = {0}, delta;
	struct test_space t;
	struct weir_space_stats stats;
	struct weir_use use;
	uint8_t *old, *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 32);
	old = do_alloc(&t, 12 * BLOCK, 0);
	do_fill(&t, 0, old, 12 * BLOCK, 1);
	a = do_alloc(&t, 12 * BLOCK, 0);
	do_write(&t, a, 12 * BLOCK, 2);
	do_fill(&t, 0, old, 12 * BLOCK, 3);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(get_bytes(&t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_INPLACE), 0);
	use = use_of(a, 12 * BLOCK, WEIR_READ);
	use.read_bytes /= 2;
	for (uint32_t i = 1; i < 2 * WARM_UP; i++) {
		if (i == WARM_UP)
			(void)since(&t, &before);
		assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), 0);
		do_launch(&t, 0, a, 12 * BLOCK, WEIR_READ, 2, 0);
		do_end(&t, 0);
	}
	do_sync(&t);
	delta = since(&t, &before);
	assert_int_equal(delta.in, 0);
	assert_int_equal(range_nr_resident(range_find(t.space, a)), 12);
	assert_int_equal(range_nr_resident(range_find(t.space, old)), 4);
	do_read(&t, old, 12 * BLOCK, 3);
	test_space_close(&t);
}

static uint32_t next_use(struct test_space *t, void *addr)
{
	return schedule_next_use(range_find(t->space, addr));
}

/* What a loop uses has its next use at once for as long as the loop goes on: it is no victim before
 * what is used behind the loop, even if it dies there. */
static void test_space_plan_knows_what_a_loop_uses(void **state)
{
	enum { ITERATIONS = 8, PASSES = 16 };
	struct test_space t;
	uint8_t *behind;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 16);
	behind = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, behind, 6 * BLOCK, 1);
	for (uint32_t pass = 1; pass <= PASSES; pass++) {
		uint8_t *x = do_alloc(&t, 4 * BLOCK, 0);

		do_fill(&t, 0, x, 4 * BLOCK, pass);
		for (uint32_t i = 0; i < ITERATIONS; i++) {
			uint8_t *y = do_alloc(&t, 2 * BLOCK, 0);

			do_fill(&t, 0, y, 2 * BLOCK, i);
			do_expect(&t, 0, x, 4 * BLOCK, pass);
			do_expect(&t, 0, y, 2 * BLOCK, i);
			if (pass == PASSES) {
				assert_non_null(t.space->residency->planner->plan);
				assert_int_equal(next_use(&t, x),
						 i + 1 < ITERATIONS ? 0 : UINT32_MAX);
				assert_int_equal(next_use(&t, behind), 1);
			}
			do_free(&t, y, 0);
		}
		do_free(&t, x, 0);
		do_change(&t, 0, behind, 6 * BLOCK, pass, pass + 1);
	}
	test_space_close(&t);
}

/* Use a range so many times, behind so much computation. */
static void compute(struct test_space *t, void *range, uint32_t times, double ops)
{
	static const struct weir_kernel kernel = {.name = "compute", .cpu = NULL};
	struct weir_use use = use_of(range, 4 * BLOCK, WEIR_READ);
	struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1, .ops = ops};

	use.read_bytes *= times;
	assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), 0);
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	assert_int_equal(weir_end(t->space, t->stream[0]), 0);
}

/* With the plan an iteration takes no longer than without. */
static void iterate(struct test_space *t, void **range, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		compute(t, range[i], 50, 1e9);
	do_check(t);
}

static void test_space_plan_hides_copies(void **state)
{
	struct delta before = {0}, first, last = {0};
	struct test_space t;
	void *range[4];

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 10, 32);
	for (int i = 0; i < 4; i++) {
		range[i] = do_alloc(&t, 4 * BLOCK, 0);
		assert_int_equal(weir_write(t.space, range[i], NULL, 4 * BLOCK), 0);
	}
	iterate(&t, range, 4);
	do_sync(&t);
	(void)since(&t, &before);
	iterate(&t, range, 4);
	do_sync(&t);
	first = since(&t, &before);
	for (int i = 0; i < WARM_UP; i++)
		iterate(&t, range, 4);
	assert_true(get_stats(&t).nr_plans > 0);
	do_sync(&t);
	(void)since(&t, &before);
	for (int i = 0; i < 10; i++)
		iterate(&t, range, 4);
	do_sync(&t);
	last = since(&t, &before);
	/* 1 ms of computation each, 40 us to map a block elsewhere and copy it: all is hidden. */
	assert_true(last.ns <= 10 * first.ns);
	assert_true(last.ns <= UINT64_C(44000000));
	test_space_close(&t);
}

/*
 * No repetition at all, but for stretches that agree by chance with what was long before: each is
 * planned, and nothing comes of it. What that costs does not grow with their number. A repetition
 * that comes then is planned as well as any other.
 */
static void test_space_plan_in_vain_costs_little(void **state)
{
	enum { RANGES = 48, ROUNDS = 12, EVENTS = 400, AGREE = 60 };
	uint64_t nr_plans = 0, work = 0, most = 0;
	uint32_t drawn[ROUNDS * EVENTS], seed = 1;
	void *range[RANGES];
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, RANGES, 4 * RANGES);
	for (int i = 0; i < RANGES; i++)
		range[i] = do_alloc(&t, 4 * BLOCK, 0);
	for (uint32_t n = 0; n < ROUNDS * EVENTS; n++) {
		struct planner *p = t.space->residency->planner;

		seed = seed * 1664525u + 1013904223u;
		drawn[n] = (seed >> 16) % RANGES;
		if (n >= EVENTS && n % EVENTS >= EVENTS - AGREE)
			drawn[n] = drawn[n - EVENTS / 2 - n / EVENTS];
		compute(&t, range[drawn[n]], 1, 1e3);
		if (get_stats(&t).nr_plans > nr_plans && p->plan) {
			work += p->plan->work;
			most = MAX(most, p->plan->work);
		}
		nr_plans = get_stats(&t).nr_plans;
	}
	assert_true(nr_plans >= ROUNDS - 2);
	assert_true(work < 6 * most);
	for (int n = 0; n < WARM_UP; n++)
		iterate(&t, range, 16);
	assert_non_null(t.space->residency->planner->plan);
	assert_true(t.space->residency->planner->nr_plans_made > 1);
	test_space_close(&t);
}

/* Something else in the middle: the plan goes, the contents stay, the next plan comes. */
static void test_space_plan_divergence_is_harmless(void **state)
{
	uint32_t seed[3] = {1, 2, 3}, next = 10;
	struct test_space t;
	uint64_t nr_plans;
	uint8_t *a[3];

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 16);
	for (int i = 0; i < 3; i++) {
		a[i] = do_alloc(&t, 4 * BLOCK, 0);
		do_fill(&t, 0, a[i], 4 * BLOCK, seed[i]);
	}
	for (int round = 0; round < 4; round++) {
		nr_plans = get_stats(&t).nr_plans;
		for (int n = 0; n < WARM_UP; n++)
			for (int i = 0; i < 3; i++) {
				do_change(&t, 0, a[i], 4 * BLOCK, seed[i], next);
				seed[i] = next++;
			}
		assert_true(get_stats(&t).nr_plans > nr_plans);
		assert_true(get_stats(&t).nr_divergences >= (uint64_t)round);
		switch (round) {
		case 0: /* another order */
			do_expect(&t, 0, a[2], 4 * BLOCK, seed[2]);
			break;
		case 1: /* another part */
			do_change(&t, 0, a[0] + BLOCK, BLOCK, seed[0], seed[0]);
			break;
		case 2: /* another address for the same thing */
			do_free(&t, a[1], 0);
			a[1] = do_alloc(&t, 4 * BLOCK, 0);
			do_fill(&t, 0, a[1], 4 * BLOCK, seed[1]);
			break;
		default:
			break;
		}
	}
	for (int i = 0; i < 3; i++)
		do_read(&t, a[i], 4 * BLOCK, seed[i]);
	do_sync(&t);
	test_space_close(&t);
}

/* Recognised by what it is, not by where: the same program at other addresses. */
static void test_space_plan_knows_no_addresses(void **state)
{
	struct test_space t;
	uint8_t *keep[2];

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	keep[0] = do_alloc(&t, 4 * BLOCK, 0);
	keep[1] = NULL;
	do_fill(&t, 0, keep[0], 4 * BLOCK, 1);
	for (uint32_t i = 1; i < 2 * WARM_UP; i++) {
		uint8_t *x = do_alloc(&t, 3 * BLOCK, 0), *y = do_alloc(&t, 3 * BLOCK, 0);

		do_fill(&t, 0, x, 3 * BLOCK, 1000 + i);
		do_fill(&t, 0, y, 3 * BLOCK, 2000 + i);
		do_expect(&t, 0, keep[0], 4 * BLOCK, 1);
		do_expect(&t, 0, x, 3 * BLOCK, 1000 + i);
		/* Freed in the order in which they change places next time. */
		do_free(&t, x, 0);
		do_free(&t, y, 0);
		keep[1] = x;
	}
	do_sync(&t);
	assert_non_null(keep[1]);
	assert_true(get_stats(&t).nr_plans > 0);
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	test_space_close(&t);
}

/* Host brackets, copies, hints, advice and changes of mode do no harm to a plan's contents. */
static void test_space_plan_with_everything_else(void **state)
{
	uint32_t seed[3] = {1, 2, 3}, next = 10;
	struct test_space t;
	uint8_t *a[3];

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 16);
	for (int i = 0; i < 3; i++) {
		a[i] = do_alloc(&t, 4 * BLOCK, 0);
		do_fill(&t, 0, a[i], 4 * BLOCK, seed[i]);
	}
	for (int n = 0; n < 3 * WARM_UP; n++) {
		for (int i = 0; i < 3; i++) {
			do_change(&t, 0, a[i], 4 * BLOCK, seed[i], next);
			seed[i] = next++;
		}
		if (n % 3 == 0)
			assert_int_equal(weir_prefetch(t.space, a[n / 3 % 3], 4 * BLOCK,
						       (uint32_t)n & 1 ? HOST : GPU0, NULL),
					 0);
		if (n % 7 == 0)
			do_read(&t, a[n % 3], 4 * BLOCK, seed[n % 3]);
		if (n % 11 == 0)
			assert_int_equal(weir_advise(t.space, a[n % 3],
						     (enum weir_advice)(n / 11 % 4), HOST),
					 0);
		if (n % 40 == 39) {
			assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), 0);
			do_launch(&t, 0, a[0], 4 * BLOCK, WEIR_WRITE, seed[0], next);
			seed[0] = next++;
			do_sync(&t);
			assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
		}
		do_check(&t);
	}
	do_sync(&t);
	assert_true(get_stats(&t).nr_plans > 0);
	test_space_close(&t);
}

/* A host bracket is part of what repeats. */
static void test_space_plan_with_host_brackets(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 16);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	for (uint32_t i = 3; i < 3 + 2 * WARM_UP; i++) {
		struct weir_use use = use_of(a, BLOCK, WEIR_WRITE);

		assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
		pattern_put(a, a, BLOCK, i);
		assert_int_equal(weir_host_end(t.space, &use, 1), 0);
		do_expect(&t, 0, a, BLOCK, i);
		do_expect(&t, 0, b, 4 * BLOCK, 2);
		do_expect(&t, 0, a + BLOCK, 3 * BLOCK, 1);
	}
	do_sync(&t);
	assert_true(get_stats(&t).nr_plans > 0);
	test_space_close(&t);
}

/* Two streams take turns; each bracket waits for the other stream through its own program. */
static void test_space_plan_on_two_streams(void **state)
{
	struct test_space t;
	uint8_t *a[2];

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 16);
	for (uint32_t s = 0; s < 2; s++) {
		a[s] = do_alloc(&t, 5 * BLOCK, s);
		do_fill(&t, s, a[s], 5 * BLOCK, 1);
	}
	for (uint32_t i = 1; i < 2 * WARM_UP; i++)
		for (uint32_t s = 0; s < 2; s++) {
			uint8_t *x = do_alloc(&t, 2 * BLOCK, s);

			do_fill(&t, s, x, 2 * BLOCK, 1000 + i);
			do_change(&t, s, a[s], 5 * BLOCK, i, i + 1);
			do_expect(&t, s, x, 2 * BLOCK, 1000 + i);
			do_free(&t, x, s);
		}
	do_sync(&t);
	assert_true(get_stats(&t).nr_plans > 0);
	test_space_close(&t);
}

/* A walk over more ranges than candidates are looked at, not in the order of their allocation; each
 * bracket is like the others. */
static void test_space_plan_of_many_alike_brackets(void **state)
{
	static const struct weir_kernel kernel = {.name = "walk"};
	enum { NR = 1100 };
	struct test_space t;
	void *range[NR];

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, NR / 2, 2 * NR);
	for (int i = 0; i < NR; i++)
		range[i] = do_alloc(&t, BLOCK, 0);
	for (int i = 0; i < 3 * NR; i++) {
		struct weir_use use = use_of(range[7 * i % NR], BLOCK, WEIR_WRITE);
		struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1};

		assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), 0);
		assert_int_equal(weir_stream_launch(t.stream[0], &launch), 0);
		assert_int_equal(weir_end(t.space, t.stream[0]), 0);
		/* In the first round nothing is known yet, and not all was looked at. */
		if (i == NR - 1)
			assert_true(get_stats(&t).nr_given_up > 0);
	}
	assert_int_equal(t.space->residency->planner->record.period, NR);
	assert_non_null(t.space->residency->planner->plan);
	do_sync(&t);
	test_space_close(&t);
}

/* Everything is freed, and the space destroyed, while a plan is in the middle of its moves. */
static void test_space_plan_ends_in_the_middle(void **state)
{
	(void)state;
	for (int cut = 0; cut < 6; cut++) {
		struct test_space t;
		uint8_t *a[3];

		test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 16);
		for (int i = 0; i < 3; i++) {
			a[i] = do_alloc(&t, 4 * BLOCK, 0);
			do_fill(&t, 0, a[i], 4 * BLOCK, 1);
		}
		for (int n = 0; n < 3 * WARM_UP + cut; n++)
			do_change(&t, 0, a[n % 3], 4 * BLOCK, 1, 1);
		for (int i = 0; cut & 1 && i < 3; i++)
			do_free(&t, a[i], 0);
		test_space_close(&t);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_plan_that_fits_moves_nothing),
		cmocka_unit_test(test_space_plan_knows_the_factor_of_a_kernel),
		cmocka_unit_test(test_space_plan_evicts_what_it_does_not_know),
		cmocka_unit_test(test_space_plan_copies_out_nothing_that_is_clean_or_dead),
		cmocka_unit_test(test_space_plan_knows_what_a_loop_uses),
		cmocka_unit_test(test_space_plan_hides_copies),
		cmocka_unit_test(test_space_plan_in_vain_costs_little),
		cmocka_unit_test(test_space_plan_divergence_is_harmless),
		cmocka_unit_test(test_space_plan_knows_no_addresses),
		cmocka_unit_test(test_space_plan_with_everything_else),
		cmocka_unit_test(test_space_plan_with_host_brackets),
		cmocka_unit_test(test_space_plan_on_two_streams),
		cmocka_unit_test(test_space_plan_of_many_alike_brackets),
		cmocka_unit_test(test_space_plan_ends_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
