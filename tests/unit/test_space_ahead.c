/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is a stream's length ahead of the device: before it sleeps, it maps what was
 * evicted and will be used in place.
 */
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define HBM_BLOCKS 6u
#define BYTES (HBM_BLOCKS * BLOCK)

/* Brackets in a row on the same range, more than a program gets ahead. */
#define NR_LONG 600u
#define AHEAD_MIN 150u /* it is ahead by at least so many */
#define LONG_NS 20000u

/* Periods after which plans are settled, and in all. */
#define WARM_UP 6u
#define PERIODS 9u

/* Read so often, a range is resident; so seldom, it is not. */
#define MUCH 1000
#define LITTLE (1.0 / 64)

static const struct weir_kernel kernel = {.name = "work"};

/* A bracket on all of a range, whose launch takes so long at least. */
static void do_use(struct test_space *t, void *addr, enum weir_use_kind kind, double times,
		   uint64_t ns)
{
	struct weir_use use = use_of(addr, BYTES, kind);
	struct weir_launch launch = {.kernel = &kernel, .uses = &use, .nr_uses = 1};

	use.read_bytes = (uint64_t)((double)use.read_bytes * times);
	launch.ops = (double)ns * t->desc.device[0].ops_per_s / 1e9;
	assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), 0);
	assert_int_equal(weir_stream_launch(t->stream[0], &launch), 0);
	do_end(t, 0);
}

/* Blocks of a range on the host that are mapped, or that are not. */
static uint32_t nr_away(struct test_space *t, const void *addr, bool mapped)
{
	const struct range *range = range_find(t->space, addr);
	uint32_t nr = 0;

	for (uint32_t i = 0; i < range->nr_blocks; i++)
		nr += range_block_is_settled_below(range, i) &&
		      block_is_unmapped(&range->block[i]) != mapped;
	return nr;
}

/*
 * Two ranges, either of which fills HBM. The first is needed there, evicted by the other, of which
 * many long brackets follow, and is used once more, so many times over, when the program is far
 * ahead. What is called then gets the first one, just before that use.
 */
static void run_ahead(double times, void (*look)(struct test_space *t, void *first))
{
	struct test_space t;
	void *first, *other;

	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, HBM_BLOCKS, 16);
	first = do_alloc(&t, BYTES, 0);
	other = do_alloc(&t, BYTES, 0);
	assert_int_equal(weir_write(t.space, first, NULL, BYTES), 0);
	for (uint32_t i = 0; i < PERIODS; i++) {
		do_use(&t, first, WEIR_READ, MUCH, 0);
		do_use(&t, other, WEIR_OVERWRITE, 1, 0);
		for (uint32_t n = 0; n < NR_LONG; n++)
			do_use(&t, other, WEIR_READ, 1, LONG_NS);
		if (i >= WARM_UP) {
			assert_true(t.space->last_seq - t.space->done_seq >= AHEAD_MIN);
			look(&t, first);
		}
		do_use(&t, first, WEIR_READ, times, 0);
		do_use(&t, other, WEIR_READ, 1, 0);
	}
	assert_non_null(t.space->residency->planner->plan);
	do_sync(&t);
	test_space_close(&t);
}

static void expect_mapped(struct test_space *t, void *first)
{
	assert_true(nr_away(t, first, true) > HBM_BLOCKS / 2);
	assert_int_equal(nr_away(t, first, false), 0);
}

static void expect_unmapped(struct test_space *t, void *first)
{
	/* Hidden behind its computation, one may be used in place. */
	assert_true(nr_away(t, first, true) <= 1);
	assert_true(nr_away(t, first, false) >= HBM_BLOCKS / 2);
}

static void test_space_ahead_maps_what_is_used_in_place(void **state)
{
	(void)state;
	run_ahead(LITTLE, expect_mapped);
}

/* What comes in for its next use would be mapped in vain. */
static void test_space_ahead_maps_nothing_else(void **state)
{
	(void)state;
	run_ahead(MUCH, expect_unmapped);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_ahead_maps_what_is_used_in_place),
		cmocka_unit_test(test_space_ahead_maps_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
