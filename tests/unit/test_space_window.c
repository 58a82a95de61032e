/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that come and go: loops over the parts of a range, with room for a few of them beside what
 * all iterations use. Once the plan is known each part is there when it is used, and contents are
 * right whatever the loop does with them.
 */
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
enum { GPU_BLOCKS = 12, WHOLE = 9, PARTS = 24, HOST_BLOCKS = 64, WARM_UP = 8 };

static const struct weir_kernel work = {.name = "work"};

/* What a pass saw. */
struct seen {
	uint32_t nr, nr_away;  /* blocks that were used; and of them, that were not resident */
	uint32_t most, fewest; /* blocks of the parts that were resident at once */
	uint64_t nr_moved;     /* blocks that came in */
};

static void open_space(struct test_space *t, enum weir_data data)
{
	test_space_open(t, data, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
}

static uint32_t nr_resident(const struct test_space *t, void *addr)
{
	return range_nr_resident(range_find(t->space, addr));
}

/* One iteration: a part is used many times over, and all of the other range once. */
static void do_part(struct test_space *t, void *whole, uint8_t *part, enum weir_use_kind kind,
		    struct seen *seen)
{
	struct weir_use use[2] = {use_of(whole, WHOLE * BLOCK, WEIR_READ),
				  use_of(part, BLOCK, kind)};
	const struct weir_launch launch = {.kernel = &work, .uses = use, .nr_uses = 2, .ops = 1e5};

	use[1].read_bytes *= 64;
	assert_int_equal(weir_begin(t->space, t->stream[0], use, 2), 0);
	seen->nr++;
	seen->nr_away += get_block_memory(t, part) != GPU0;
	seen->most = MAX(seen->most, nr_resident(t, part));
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	do_end(t, 0);
}

static uint64_t nr_came(struct test_space *t)
{
	const struct weir_space_stats stats = get_stats(t);

	return stats.nr_moves[WEIR_CAUSE_DEMAND] + stats.nr_moves[WEIR_CAUSE_PREFETCH];
}

/* The first plan is made to look good: it is followed again. */
static void prefer_first(struct test_space *t, const struct plan **first)
{
	struct planner *planner = &t->space->residency->planner[0];

	if (planner->nr_plans_made == 1) {
		*first = planner->plan;
		planner->timed = (struct timed){.ns = 1, .nr = 2};
	}
}

/* The loop, again and again; @return what its last pass saw. syncs: the host waits for each. */
static struct seen run_loop(struct test_space *t, enum weir_use_kind kind, bool first_again,
			    bool syncs)
{
	uint8_t *whole = do_alloc(t, WHOLE * BLOCK, 0), *parts = do_alloc(t, PARTS * BLOCK, 0);
	const struct weir_use all = use_of(whole, WHOLE * BLOCK, WEIR_READ);
	const struct plan *first = NULL;
	struct seen seen = {0};

	do_fill(t, 0, whole, WHOLE * BLOCK, 1);
	for (uint32_t i = 0; i < PARTS; i++)
		do_fill(t, 0, parts + i * BLOCK, BLOCK, 2);
	for (uint32_t pass = 0; pass < WARM_UP; pass++) {
		seen = (struct seen){.nr_moved = nr_came(t)};
		for (uint32_t i = 0; i < PARTS; i++) {
			do_part(t, whole, parts + i * BLOCK, kind, &seen);
			if (syncs)
				do_sync(t);
		}
		/* So that this, and not a part of it, is what repeats. */
		assert_int_equal(weir_begin(t->space, t->stream[0], &all, 1), 0);
		do_end(t, 0);
		seen.nr_moved = nr_came(t) - seen.nr_moved;
		if (first_again)
			prefer_first(t, &first);
	}
	do_sync(t);
	if (first_again)
		assert_ptr_equal(t->space->residency->planner[0].plan, first);
	return seen;
}

static void test_window_parts_are_there(void **state)
{
	(void)state;
	for (int n = 0; n < 8; n++) {
		const bool written = n & 1, first_again = n & 2, syncs = n & 4;
		struct weir_space_stats stats;
		struct test_space t;
		struct seen seen;

		open_space(&t, WEIR_DATA_PHANTOM);
		seen = run_loop(&t, written ? WEIR_WRITE : WEIR_READ, first_again, syncs);
		stats = get_stats(&t);
		assert_true(stats.nr_plans >= 1);
		assert_true(!first_again || t.space->residency->planner[0].settled);
		assert_int_equal(t.space->residency->planner[0].nr_flowing, 1);
		assert_int_equal(seen.nr, PARTS);
		assert_true(seen.nr_away <= 2);
		/* No part comes twice, and however far ahead the program is, there are no more of
		 * them than the plan has room for, and one that is on its way. */
		assert_true(seen.nr_moved <= PARTS + 2);
		assert_true(seen.most <= 3);
		/* What was not written makes room without a copy: where the program is not far
		 * ahead, the next part comes before its use. */
		assert_true(written || !syncs || stats.nr_moves[WEIR_CAUSE_PREFETCH] >= 2 * PARTS);
		do_check(&t);
		test_space_close(&t);
	}
}

/* A part that would have to be copied out, and has no room below, stays. */
static void test_window_with_little_below(void **state)
{
	(void)state;
	for (uint32_t nr_host = 23; nr_host <= 26; nr_host++) {
		struct test_space t;

		test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, GPU_BLOCKS, nr_host);
		assert_int_equal(run_loop(&t, WEIR_WRITE, false, false).nr, PARTS);
		do_check(&t);
		test_space_close(&t);
	}
}

/* Contents, where parts are read and written, in passes that go on after the loop, stop in the
 * middle of it, or use all of the range at once. */
static void test_window_contents(void **state)
{
	struct test_space t;
	uint8_t *whole, *parts;

	(void)state;
	open_space(&t, WEIR_DATA_REAL);
	whole = do_alloc(&t, WHOLE * BLOCK, 0);
	parts = do_alloc(&t, PARTS * BLOCK, 0);
	do_fill(&t, 0, whole, WHOLE * BLOCK, 1);
	for (uint32_t i = 0; i < PARTS; i++)
		do_fill(&t, 0, parts + i * BLOCK, BLOCK, 100);
	for (uint32_t pass = 0; pass < 4 * WARM_UP; pass++) {
		const uint32_t nr = pass == 3 * WARM_UP ? PARTS / 2 : PARTS;

		for (uint32_t i = 0; i < nr; i++) {
			do_expect(&t, 0, whole, WHOLE * BLOCK, 1);
			do_change(&t, 0, parts + i * BLOCK, BLOCK, 100 + pass, 101 + pass);
		}
		for (uint32_t i = nr; i < PARTS; i++)
			do_change(&t, 0, parts + i * BLOCK, BLOCK, 100 + pass, 101 + pass);
		if (pass % WARM_UP == WARM_UP - 1)
			do_expect(&t, 0, parts, PARTS * BLOCK, 101 + pass);
		if (pass == 2 * WARM_UP) { /* the plan's range goes, and another one comes */
			do_free(&t, parts, 0);
			parts = do_alloc(&t, PARTS * BLOCK, 0);
			do_fill(&t, 0, parts, PARTS * BLOCK, 101 + pass);
		}
		do_check(&t);
	}
	do_sync(&t);
	do_read(&t, parts, PARTS * BLOCK, 100 + 4 * WARM_UP);
	test_space_close(&t);
}

enum { LOOPS = 3, LATER = 24, OWN = 2, LOOPS_GPU_BLOCKS = LATER + LOOPS + OWN + 2, PASSES = 4 };

/* What loops over parts use: each a range of its own, too, by which they differ. has_rest: the last
 * part of each is half as large, and its temporary, too. */
struct loops {
	uint8_t *parts, *later, *own[LOOPS];
	bool has_rest;
};

/* One iteration of one of the loops, with a temporary. */
static void do_loop_part(struct test_space *t, const struct loops *loops, uint32_t i,
			 struct seen *seen)
{
	const uint32_t share = loops->has_rest && i % PARTS == PARTS - 1 ? 2 : 1;
	uint8_t *part = loops->parts + i % PARTS * BLOCK;
	uint8_t *temporary = do_alloc(t, OWN * BLOCK / share, 0);
	struct weir_use use[3] = {use_of(part, BLOCK / share, WEIR_READ),
				  use_of(loops->own[i / PARTS], BLOCK, WEIR_READ),
				  use_of(temporary, OWN * BLOCK / share, WEIR_OVERWRITE)};
	const struct weir_launch launch = {
		.kernel = &work,
		.uses = use,
		.nr_uses = 3,
		.ops = i / PARTS == 1 ? 1e3 : 2e5,
	};

	use[0].read_bytes *= 64;
	assert_int_equal(weir_begin(t->space, t->stream[0], use, 3), 0);
	seen->nr_away += get_block_memory(t, part) != GPU0;
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	do_end(t, 0);
	do_free(t, temporary, 0);
}

/* A pass of three loops over the parts, the second one of short launches, and then twice all of
 * another range. Each iteration has a temporary, too. syncs: the host waits for each. @return what
 * was seen; fewest: in the last loop */
static struct seen run_loops(struct test_space *t, const struct loops *loops, bool syncs)
{
	struct seen seen = {.nr_moved = nr_came(t), .fewest = PARTS};

	for (uint32_t i = 0; i < LOOPS * PARTS; i++) {
		do_loop_part(t, loops, i, &seen);
		if (syncs)
			do_sync(t);
		if (i / PARTS == LOOPS - 1)
			seen.fewest = MIN(seen.fewest, nr_resident(t, loops->parts));
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct weir_use use = use_of(loops->later, LATER * BLOCK, WEIR_READ);
		const struct weir_launch launch = {
			.kernel = &work, .uses = &use, .nr_uses = 1, .ops = 1e3};

		use.read_bytes *= 8;
		assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), 0);
		assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
		do_end(t, 0);
	}
	seen.nr_moved = nr_came(t) - seen.nr_moved;
	return seen;
}

static enum plan_flow flow_of(const struct test_space *t, uint8_t *parts, uint32_t stage)
{
	const struct range *range = range_find(t->space, parts);
	const struct plan *plan = t->space->residency->planner[0].plan;

	return plan_flow(plan, stage, plan->tracked[range->residency->plan_life]);
}

/* Whether the parts do that in some stage. */
static bool has_flow(const struct test_space *t, uint8_t *parts, enum plan_flow flow)
{
	bool has = false;

	assert_non_null(t->space->residency->planner[0].plan);
	for (uint32_t g = 0; g < t->space->residency->planner[0].plan->nr_stages; g++)
		has |= flow_of(t, parts, g) == flow;
	return has;
}

static void open_loops(struct test_space *t, struct loops *loops)
{
	const uint64_t bytes = PARTS * BLOCK - (loops->has_rest ? BLOCK / 2 : 0);

	test_space_open(t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, LOOPS_GPU_BLOCKS, HOST_BLOCKS);
	loops->parts = do_alloc(t, bytes, 0);
	loops->later = do_alloc(t, LATER * BLOCK, 0);
	do_fill(t, 0, loops->parts, bytes, 1);
	do_fill(t, 0, loops->later, LATER * BLOCK, 2);
	for (uint32_t loop = 0; loop < LOOPS; loop++) {
		loops->own[loop] = do_alloc(t, BLOCK, 0);
		do_fill(t, 0, loops->own[loop], BLOCK, 3);
	}
}

/* Virtual nanoseconds of a pass, once all is known. seen: of the last pass before. */
static uint64_t time_loops(const struct loops *of, bool syncs, struct seen *seen)
{
	struct loops loops = *of;
	struct test_space t;
	uint64_t ns;

	open_loops(&t, &loops);
	for (uint32_t pass = 0; pass < WARM_UP; pass++)
		*seen = run_loops(&t, &loops, syncs);
	assert_true(has_flow(&t, loops.parts, FLOW_IN));
	assert_true(has_flow(&t, loops.parts, FLOW_OUT));
	do_sync(&t);
	ns = weir_machine_now_ns(t.machine);
	for (uint32_t pass = 0; pass < PASSES; pass++)
		(void)run_loops(&t, &loops, syncs);
	do_sync(&t);
	ns = (weir_machine_now_ns(t.machine) - ns) / PASSES;
	do_check(&t);
	test_space_close(&t);
	return ns;
}

/*
 * Parts that come in one loop stay through the next, and go in the one after that, where the other
 * range takes their room: nothing comes twice in a pass, and parts are there when they are used.
 * Where the host is ahead by whole loops they do so as the device comes to it; the temporaries of
 * two sizes take one block more there, and parts make room for each other.
 */
static void test_window_parts_come_stay_and_go(void **state)
{
	(void)state;
	for (int has_rest = 0; has_rest < 2; has_rest++) {
		const struct loops loops = {.has_rest = has_rest};
		uint64_t synced_ns, ns;
		struct seen seen;

		synced_ns = time_loops(&loops, true, &seen);
		assert_int_equal(seen.nr_away, 0);
		assert_true(seen.nr_moved <= PARTS + LATER + 2);
		/* Those behind have left, for what comes. */
		assert_true(seen.fewest <= 2);
		ns = time_loops(&loops, false, &seen);
		assert_int_equal(seen.nr_away, 0);
		assert_true(seen.nr_moved <= PARTS + LATER + 2 + (has_rest ? PARTS : 0));
		assert_true(100 * ns <= 97 * synced_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_parts_are_there),
		cmocka_unit_test(test_window_with_little_below),
		cmocka_unit_test(test_window_contents),
		cmocka_unit_test(test_window_parts_come_stay_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
