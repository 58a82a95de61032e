/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_space_set_budget(): what leaves and where to, what binds at once, what is refused, and what
 * goes later; with real bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"
#include "tests/unit/test_idle.h"

#define BLOCK KIB(4)

static void set(struct test_space *t, uint32_t memory, uint64_t nr_blocks, int err)
{
	assert_int_equal(weir_space_set_budget(t->space, memory, nr_blocks * BLOCK), err);
	do_check(t);
}

static uint64_t held(struct test_space *t, uint32_t memory)
{
	return get_stats(t).memory[memory].bytes / BLOCK;
}

static void open_places(struct test_space *t, enum weir_space_mode mode, uint32_t gpu,
			uint32_t gpu1, uint32_t host)
{
	test_machine_open(t, WEIR_DATA_REAL);
	assert_int_equal(
		test_space_create_places(t, mode, BLOCK, gpu * BLOCK, gpu1 * BLOCK, host * BLOCK),
		0);
}

static void test_budget_of_dirty_blocks_moves_them_down(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 12);
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	assert_int_equal(held(&t, GPU0), 8);
	set(&t, GPU0, 3, 0);
	assert_int_equal(held(&t, GPU0), 3);
	assert_int_equal(held(&t, HOST), 5);
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	assert_true(held(&t, GPU0) <= 3);
	set(&t, GPU0, 8, 0);
	do_change(&t, 0, a, 8 * BLOCK, 1, 2);
	do_expect(&t, 0, a, 8 * BLOCK, 2);
	do_sync(&t);
	assert_int_equal(get_stats(&t).memory[GPU0].peak_bytes, 8 * BLOCK);
	test_space_close(&t);
}

/* What is freed, dead or has a copy below costs no copy. */
static void test_budget_gives_up_first_what_costs_nothing(void **state)
{
	struct test_space t;
	uint64_t evicted;
	void *a, *b, *c;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 12, 12);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	c = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_fill(&t, 0, c, 4 * BLOCK, 3);
	do_sync(&t);
	do_free(&t, a, 0);
	do_discard(&t, 0, b, 4 * BLOCK);
	do_sync(&t);
	evicted = get_stats(&t).nr_moves[WEIR_CAUSE_EVICTION];
	set(&t, GPU0, 4, 0);
	assert_int_equal(get_stats(&t).nr_moves[WEIR_CAUSE_EVICTION], evicted);
	assert_int_equal(held(&t, GPU0), 4);
	do_expect(&t, 0, c, 4 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

static void test_budget_of_a_neighbour_is_given_back(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	open_places(&t, WEIR_PLANNED, 2, 6, 12);
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	assert_true(held(&t, GPU1) >= 4);
	set(&t, GPU1, 0, 0);
	assert_int_equal(held(&t, GPU1), 0);
	assert_int_equal(t.backend->ops->memory_used(t.backend, GPU1), 0);
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	set(&t, GPU1, 1, -EINVAL);
	set(&t, GPU1, 6, 0);
	do_change(&t, 0, a, 8 * BLOCK, 1, 2);
	do_expect(&t, 0, a, 8 * BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* The host's: blocks go up, where there is room. */
static void test_budget_of_the_host_moves_up(void **state)
{
	struct test_space t;
	struct weir_fence *fence;
	void *a;

	(void)state;
	open_places(&t, WEIR_PLANNED, 3, 6, 10);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(weir_prefetch(t.space, a, 6 * BLOCK, HOST, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(held(&t, HOST), 6);
	set(&t, HOST, 2, 0);
	assert_int_equal(held(&t, HOST), 2);
	do_expect(&t, 0, a, 6 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

static void test_budget_refused(void **state)
{
	struct test_space t;
	void *a, *small;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 8);
	a = do_alloc(&t, 8 * BLOCK, 0);
	small = do_alloc(&t, 256, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	set(&t, GPU0, 1, -EINVAL);
	set(&t, HOST, 1, -EINVAL);
	set(&t, GPU0, MIB(17) / BLOCK, -EINVAL); /* more than there is */
	set(&t, GPU1, 4, -EINVAL);		 /* not a memory of this space */
	assert_int_equal(weir_space_set_budget(t.space, 99, 4 * BLOCK), -EINVAL);
	/* Nine blocks are live, and copies need two more. */
	set(&t, GPU0, 2, -ENOMEM);
	set(&t, HOST, 4, -ENOMEM);
	set(&t, GPU0, 3, 0);
	set(&t, GPU0, 6, 0);
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	do_free(&t, small, 0);
	test_space_close(&t);
}

/* Growing: what another space of the machine holds and does not use is asked for. */
static void test_budget_grows_as_far_as_there_is_room(void **state)
{
	struct test_space t, other;
	uint64_t all = MIB(16) / BLOCK;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 8);
	other = t;
	assert_int_equal(test_space_create_try(&other, WEIR_PLANNED, BLOCK, MIB(8), MIB(8)), 0);
	a = do_alloc(&other, MIB(8) - 16 * BLOCK, 0);
	do_fill(&other, 0, a, MIB(8) - 16 * BLOCK, 1);
	do_sync(&other);
	set(&t, GPU0, all, -ENOMEM);
	set(&t, GPU0, all / 2, 0);
	do_free(&other, a, 0);
	assert_int_equal(weir_space_sync(other.space), 0);
	set(&t, GPU0, all, 0);
	assert_int_equal(held(&other, GPU0), 0);
	set(&t, GPU0, 0, 0); /* all that there is */
	set(&t, GPU0, 2, 0);
	weir_space_destroy(other.space);
	test_space_close(&t);
}

/* What an open bracket names stays, the budget binds all the same, and the rest goes with it. */
static void test_budget_beside_an_open_bracket(void **state)
{
	struct test_space t;
	void *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	b = do_alloc(&t, 2 * BLOCK, 1);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	do_fill(&t, 1, b, 2 * BLOCK, 2);
	do_sync(&t);
	do_begin(&t, 0, a, 6 * BLOCK, WEIR_READ);
	set(&t, GPU0, 2, -EBUSY);
	assert_int_equal(held(&t, GPU0), 6);
	assert_int_equal(held(&t, HOST), 2);
	do_expect(&t, 1, b, 2 * BLOCK, 2); /* in place: there is nothing to be had */
	assert_int_equal(held(&t, GPU0), 6);
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	assert_true(held(&t, GPU0) <= 2);
	do_expect(&t, 0, a, 6 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

static void test_budget_of_a_fixed_space_waits_for_its_end(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 8, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_WRITE, 0, 1);
	do_sync(&t);
	set(&t, GPU0, 3, -EBUSY);
	assert_int_equal(held(&t, GPU0), 6);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
	do_sync(&t);
	assert_true(held(&t, GPU0) <= 3);
	do_expect(&t, 0, a, 6 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ others of the machine */

/* What has to leave finds the room that others hold idle: below, and above. */
static void test_budget_asks_others_for_room(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	idle_open(&t, HOST);
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	set(&t, GPU0, 2, 0);
	assert_int_equal(held(&t, HOST), 6);
	idle_close();
	idle_open(&t, GPU0);
	set(&t, GPU0, 8, 0);
	set(&t, HOST, 2, 0);
	assert_int_equal(held(&t, HOST), 2);
	idle_close();
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* The same for what an open bracket held: weir_space_sync() asks. */
static void test_budget_asks_others_later(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	idle_open(&t, HOST);
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	do_begin(&t, 0, a, 8 * BLOCK, WEIR_READ);
	set(&t, GPU0, 2, -EBUSY);
	do_end(&t, 0);
	do_sync(&t);
	assert_int_equal(held(&t, GPU0), 2);
	idle_close();
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ plans */

/* An iteration over two ranges, of which one fits. */
static void iterate(struct test_space *t, void *a, void *b)
{
	do_expect(t, 0, a, 6 * BLOCK, 1);
	do_expect(t, 0, b, 6 * BLOCK, 2);
}

/* A plan is followed; after a change of the budget it is made anew, while the program goes on
 * repeating itself, and the new one knows the budget. */
static void test_budget_makes_the_plan_anew(void **state)
{
	struct test_space t;
	uint64_t nr_plans;
	void *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	b = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	do_fill(&t, 0, b, 6 * BLOCK, 2);
	for (uint32_t i = 0; i < 40; i++)
		iterate(&t, a, b);
	nr_plans = get_stats(&t).nr_plans;
	assert_non_null(t.space->residency->planner->plan);
	set(&t, GPU0, 4, 0);
	assert_null(t.space->residency->planner->plan);
	for (uint32_t i = 0; i < 40; i++)
		iterate(&t, a, b);
	assert_non_null(t.space->residency->planner->plan);
	assert_true(get_stats(&t).nr_plans > nr_plans);
	set(&t, GPU0, 4, 0); /* the same: nothing changes */
	assert_non_null(t.space->residency->planner->plan);
	do_sync(&t);
	test_space_close(&t);
}

/* Blocks with a valid copy below go before others, of the same range too. */
static void test_budget_gives_up_clean_blocks_first(void **state)
{
	struct weir_fence *fence;
	struct test_space t;
	uint64_t moves;
	char *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 16);
	a = do_alloc(&t, 8 * BLOCK, 0);
	do_fill(&t, 0, a, 8 * BLOCK, 1);
	for (uint32_t to = 0; to < 2; to++) { /* a copy of the first half stays on the host */
		assert_int_equal(weir_prefetch(t.space, a, 4 * BLOCK, to ? GPU0 : HOST, &fence), 0);
		assert_int_equal(weir_fence_wait(fence), 0);
		weir_fence_put(fence);
	}
	assert_int_equal(held(&t, GPU0), 8);
	moves = get_stats(&t).nr_moves[WEIR_CAUSE_EVICTION];
	set(&t, GPU0, 4, 0);
	assert_int_equal(get_stats(&t).nr_moves[WEIR_CAUSE_EVICTION], moves);
	assert_int_equal(held(&t, GPU0), 4);
	do_expect(&t, 0, a, 8 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ many blocks */

#define MANY 2000u

static uint64_t cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* While open brackets hold many ranges, calls on others take microseconds, not the square of their
 * number; and what leaves later does so some at a time, not all of it in the call that ends the
 * bracket. */
static void test_budget_holds_up_nobody(void **state)
{
	struct weir_use *uses = calloc(MANY, sizeof(*uses));
	uint64_t begin;
	struct test_space t;
	void *other;

	(void)state;
	assert_non_null(uses);
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, MANY + 10, MANY + 10);
	for (uint32_t i = 0; i < MANY; i++) {
		void *addr;

		assert_int_equal(weir_alloc(t.space, BLOCK, t.stream[0], &addr), 0);
		uses[i] = use_of(addr, BLOCK, WEIR_OVERWRITE);
	}
	other = do_alloc(&t, BLOCK, 1);
	assert_int_equal(weir_begin(t.space, t.stream[0], uses, MANY), 0);
	begin = cpu_ms();
	assert_int_equal(weir_space_set_budget(t.space, GPU0, 100 * BLOCK), -EBUSY);
	for (uint32_t i = 0; i < 20; i++) {
		do_begin(&t, 1, other, BLOCK, WEIR_OVERWRITE);
		do_end(&t, 1);
	}
	assert_true(cpu_ms() - begin < 1000);
	assert_int_equal(weir_end(t.space, t.stream[0]), 0);
	assert_in_range(space_nr_to_leave(t.space, PLACE_OWN), 1, 3 * SPACE_BATCH_MAX);
	do_sync(&t);
	assert_int_equal(held(&t, GPU0), 100);
	test_space_close(&t);
	free(uses);
}

/* ------------------------------------------------------------------ failing calls, messages */

/* Lower a budget to so many blocks, while the n-th call of it fails; 0: none. @return the number of
 * calls */
static uint64_t fail_at(uint64_t n, int err, uint32_t memory, uint64_t nr_blocks)
{
	struct backend *flaky;
	struct test_space t;
	uint64_t nr_calls, old;
	place_t place;
	char *a, *b;
	int ret;

	memset(&t, 0, sizeof(t));
	test_machine(&t.desc);
	assert_int_equal(sim_create(&t.desc, WEIR_DATA_REAL, &t.backend), 0);
	assert_int_equal(flaky_create(t.backend, &flaky), 0);
	assert_int_equal(machine_wrap(flaky, &t.machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t.machine, i == TEST_OTHER, &t.stream[i]), 0);
	assert_int_equal(
		test_space_create_places(&t, WEIR_PLANNED, BLOCK, 6 * BLOCK, 6 * BLOCK, 14 * BLOCK),
		0);
	a = do_alloc(&t, 10 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, a, 10 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_expect(&t, 0, b, 4 * BLOCK, 2);
	do_discard(&t, 0, b, BLOCK);
	do_sync(&t);
	place = (place_t)space_place(t.space, memory);
	old = t.space->pmm[place].max_chunks;
	nr_calls = flaky_nr_calls(flaky);
	flaky_arm(flaky, n ? nr_calls + n : 0, err);
	ret = weir_space_set_budget(t.space, memory, nr_blocks * BLOCK);
	nr_calls = flaky_nr_calls(flaky) - nr_calls;
	flaky_arm(flaky, 0, 0);
	do_check(&t);
	/* Nothing is open that could hold anything: done, or refused and as before. */
	assert_true(!ret || (n && ret == err));
	assert_int_equal(t.space->pmm[place].max_chunks, ret ? old : nr_blocks);
	if (!ret)
		assert_true(held(&t, memory) <= nr_blocks);
	ret = weir_space_sync(t.space);
	assert_true(!ret || ret == err);
	do_expect(&t, 0, a, 10 * BLOCK, 1);
	do_expect(&t, 0, b + BLOCK, 3 * BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
	return nr_calls;
}

static void test_budget_each_call_fails(void **state)
{
	static const struct {
		uint32_t memory;
		uint64_t nr_blocks;
	} lower[] = {{GPU0, 2}, {GPU1, 0}, {GPU1, 2}, {HOST, 4}};
	static const int errs[] = {-EIO, -ENOMEM};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(lower) * ARRAY_LEN(errs); i++) {
		uint32_t memory = lower[i / 2].memory;
		uint64_t nr_blocks = lower[i / 2].nr_blocks;
		uint64_t nr = fail_at(0, 0, memory, nr_blocks);

		for (uint64_t n = 1; n <= nr; n++)
			(void)fail_at(n, errs[i % 2], memory, nr_blocks);
	}
}

static char no_room[512];

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && strstr(message, "alloc: no room"))
		(void)snprintf(no_room, sizeof(no_room), "%s", message);
}

/* More is held than the budget is: nothing is left of it. */
static void test_budget_left_is_not_below_nothing(void **state)
{
	struct test_space t;
	void *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 8, 16);
	a = do_alloc(&t, 6 * BLOCK, 0);
	set(&t, GPU0, 3, -EBUSY);
	weir_log_set(on_log, NULL);
	assert_int_equal(weir_alloc(t.space, 20 * BLOCK, t.stream[0], &b), -ENOMEM);
	weir_log_set(NULL, NULL);
	assert_non_null(strstr(no_room, "left 0.000 MB of gpu0, 0.066 MB of host"));
	do_free(&t, a, 0);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_of_dirty_blocks_moves_them_down),
		cmocka_unit_test(test_budget_gives_up_first_what_costs_nothing),
		cmocka_unit_test(test_budget_of_a_neighbour_is_given_back),
		cmocka_unit_test(test_budget_of_the_host_moves_up),
		cmocka_unit_test(test_budget_refused),
		cmocka_unit_test(test_budget_grows_as_far_as_there_is_room),
		cmocka_unit_test(test_budget_beside_an_open_bracket),
		cmocka_unit_test(test_budget_of_a_fixed_space_waits_for_its_end),
		cmocka_unit_test(test_budget_makes_the_plan_anew),
		cmocka_unit_test(test_budget_gives_up_clean_blocks_first),
		cmocka_unit_test(test_budget_asks_others_for_room),
		cmocka_unit_test(test_budget_asks_others_later),
		cmocka_unit_test(test_budget_holds_up_nobody),
		cmocka_unit_test(test_budget_each_call_fails),
		cmocka_unit_test(test_budget_left_is_not_below_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
