/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on the host of what is at a neighbour: how much is without one, what crosses which link,
 * what giving the memory back costs then, and that nothing is lost. On real bytes.
 */
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define NR_BLOCKS 8u
#define ALL (NR_BLOCKS * BLOCK)
#define OWN 10u
#define NEAR 16u
#define NEAR_LINK 1u /* of the neighbour's to the host */

struct fixture {
	struct test_space t;
	uint8_t *a, *b;
};

/* Two ranges: the first is at the neighbour then, dirty. */
static void fixture_open(struct fixture *f, uint32_t host_blocks, uint64_t dirty_max_blocks)
{
	struct weir_space_config config = {.block_bytes = BLOCK, .mode = WEIR_PLANNED};

	memset(f, 0, sizeof(*f));
	config.budget_bytes[GPU0] = OWN * BLOCK;
	config.budget_bytes[GPU1] = NEAR * BLOCK;
	config.budget_bytes[HOST] = host_blocks * BLOCK;
	config.dirty_max_bytes[GPU1] = dirty_max_blocks * BLOCK;
	test_machine_open(&f->t, WEIR_DATA_REAL);
	assert_int_equal(weir_space_create(f->t.machine, &config, &f->t.space), 0);
	f->a = do_alloc(&f->t, ALL, 0);
	f->b = do_alloc(&f->t, ALL, 0);
	do_fill(&f->t, 0, f->a, ALL, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	do_sync(&f->t);
}

/* Let what goes on in the background go on. */
static void do_wait(struct fixture *f)
{
	for (int i = 0; i < 20; i++) {
		do_expect(&f->t, 0, f->b, BLOCK, 2);
		do_sync(&f->t);
		do_check(&f->t);
	}
}

static uint64_t nr_dirty(struct fixture *f)
{
	return get_stats(&f->t).memory[GPU1].dirty_bytes / BLOCK;
}

static uint64_t nr_saved(struct fixture *f)
{
	struct weir_space_stats stats = get_stats(&f->t);

	return stats.link_bytes[NEAR_LINK][WEIR_B_TO_A][WEIR_CAUSE_WRITEBACK] / BLOCK;
}

/* Without a limit of the program's a gigabyte may be there alone. */
static void test_save_nothing_below_the_limit(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 64, 0);
	assert_true(nr_dirty(&f) >= 6);
	do_wait(&f);
	assert_int_equal(nr_saved(&f), 0);
	test_space_close(&f.t);
}

/* No more than the limit stays; what was copied costs no copy when the memory is given back. */
static void test_save_down_to_the_limit(void **state)
{
	struct fixture f;
	uint64_t dirty, before;

	(void)state;
	fixture_open(&f, 64, 2);
	dirty = nr_dirty(&f) + nr_saved(&f);
	do_wait(&f);
	assert_int_equal(nr_dirty(&f), 2);
	assert_int_equal(nr_saved(&f), dirty - 2);
	before = get_stats(&f.t).link_bytes[NEAR_LINK][WEIR_B_TO_A][WEIR_CAUSE_EVICTION] / BLOCK;
	assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 0), 0);
	do_check(&f.t);
	assert_int_equal(get_stats(&f.t).link_bytes[NEAR_LINK][WEIR_B_TO_A][WEIR_CAUSE_EVICTION] /
				 BLOCK,
			 before + 2);
	do_expect(&f.t, 0, f.a, ALL, 1);
	do_expect(&f.t, 0, f.b, ALL, 2);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* What is written in place there is copied anew; contents are those of the last write. */
static void test_save_what_is_written_again(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 64, 1);
	assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_PREFER_MEMORY, GPU1), 0);
	do_wait(&f);
	for (uint8_t i = 1; i < 6; i++) {
		uint64_t before = nr_saved(&f);

		do_change(&f.t, 0, f.a, ALL, i, i + 1u);
		do_sync(&f.t);
		assert_true(nr_dirty(&f) + nr_saved(&f) > before);
		do_wait(&f);
		assert_true(nr_dirty(&f) <= 1);
		assert_true(nr_saved(&f) > before);
	}
	assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 0), 0);
	do_expect(&f.t, 0, f.a, ALL, 6);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* What is written while its copy is under way has none when that is done. */
static void test_save_what_is_written_meanwhile(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f, 64, 0);
	assert_int_equal(weir_advise(f.t.space, f.a, WEIR_ADVISE_PREFER_MEMORY, GPU1), 0);
	f.t.space->residency->dirty_max[1] = 0;
	do_fill(&f.t, 0, f.b, BLOCK, 2);
	assert_int_equal(weir_stream_sync(f.t.stream[0]), 0);
	do_begin(&f.t, 0, f.a, ALL, WEIR_WRITE);
	assert_int_equal(nr_saved(&f), 2);
	assert_int_equal(range_find(f.t.space, f.a)->nr_cleaning, 2);
	do_launch(&f.t, 0, f.a, ALL, WEIR_WRITE, 1, 3);
	do_end(&f.t, 0);
	assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 0), 0);
	do_expect(&f.t, 0, f.a, ALL, 3);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Where the host has no room, as much as there is room for is copied; and allocations, which may
 * take that room, succeed. */
static void test_save_as_far_as_the_host_has_room(void **state)
{
	struct fixture f;
	uint8_t *more;

	(void)state;
	fixture_open(&f, 4, 1);
	do_wait(&f);
	assert_true(nr_dirty(&f) >= 2);
	more = do_alloc(&f.t, 10 * BLOCK, 0);
	do_fill(&f.t, 0, more, 10 * BLOCK, 3);
	do_expect(&f.t, 0, f.a, ALL, 1);
	do_expect(&f.t, 0, f.b, ALL, 2);
	do_expect(&f.t, 0, more, 10 * BLOCK, 3);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Others do not get copies that keep the limit; those that it does not need they do. */
static void test_save_is_kept_from_others(void **state)
{
	struct fixture f;
	uint64_t bytes;

	(void)state;
	fixture_open(&f, 64, 2);
	do_wait(&f);
	assert_int_equal(nr_dirty(&f), 2);
	bytes = get_stats(&f.t).memory[HOST].bytes;
	assert_true(bytes > 0);
	assert_int_equal(give_unused(&f.t.space->pmm[2].client, UINT64_MAX), 0);
	assert_int_equal(get_stats(&f.t).memory[HOST].bytes, bytes);
	do_check(&f.t);
	test_space_close(&f.t);
}

/* In a fixed space launches may write at any time: nothing is copied. */
static void test_save_not_in_a_fixed_space(void **state)
{
	struct fixture f;
	uint64_t before;

	(void)state;
	fixture_open(&f, 64, 100);
	assert_int_equal(weir_space_set_mode(f.t.space, WEIR_FIXED), 0);
	f.t.space->residency->dirty_max[1] = 0;
	before = nr_saved(&f);
	do_wait(&f);
	assert_int_equal(nr_saved(&f), before);
	assert_int_equal(weir_space_set_mode(f.t.space, WEIR_PLANNED), 0);
	do_wait(&f);
	assert_int_equal(nr_dirty(&f), 0);
	test_space_close(&f.t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_save_nothing_below_the_limit),
		cmocka_unit_test(test_save_down_to_the_limit),
		cmocka_unit_test(test_save_what_is_written_again),
		cmocka_unit_test(test_save_what_is_written_meanwhile),
		cmocka_unit_test(test_save_as_far_as_the_host_has_room),
		cmocka_unit_test(test_save_is_kept_from_others),
		cmocka_unit_test(test_save_not_in_a_fixed_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
