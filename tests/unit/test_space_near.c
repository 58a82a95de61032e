/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that repeats itself in a space with a neighbour's memory, on real bytes: it is planned,
 * and what crosses which link then, in numbers of blocks.
 */
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define NR_BLOCKS 8u
#define ALL (NR_BLOCKS * BLOCK)
#define NR_RANGES 3u
#define ROUNDS 12u
#define NR_LINKS 3u
#define HOST_PLACE 2u

struct fixture {
	struct test_space t;
	uint8_t *range[NR_RANGES], value[NR_RANGES];
};

static void fixture_fill(struct fixture *f)
{
	for (uint32_t r = 0; r < NR_RANGES; r++) {
		f->range[r] = do_alloc(&f->t, ALL, 0);
		do_fill(&f->t, 0, f->range[r], ALL, f->value[r]);
	}
}

/* Use in place on the host is so slow that plans have nothing there but what has no other room. */
static void fixture_places(struct fixture *f, uint32_t own, uint32_t near)
{
	struct weir_link_desc *link;

	memset(f, 0, sizeof(*f));
	test_space_open_places(&f->t, BLOCK, own, near, 64);
	link = &f->t.backend->desc.link[0];
	link->inplace_bytes_per_s /= 1000;
	link->inplace_both_bytes_per_s /= 1000;
}

static void fixture_open(struct fixture *f, uint32_t own, uint32_t near)
{
	fixture_places(f, own, near);
	fixture_fill(f);
}

static void fixture_close(struct fixture *f)
{
	for (uint32_t r = 0; r < NR_RANGES; r++)
		do_expect(&f->t, 0, f->range[r], ALL, f->value[r]);
	do_sync(&f->t);
	test_space_close(&f->t);
}

/* Each range is written, and then read. */
static void do_rounds(struct fixture *f, uint32_t nr)
{
	while (nr-- > 0)
		for (uint32_t r = 0; r < NR_RANGES; r++) {
			uint8_t old = f->value[r]++;

			do_change(&f->t, 0, f->range[r], ALL, old, f->value[r]);
			do_expect(&f->t, 0, f->range[r], ALL, f->value[r]);
			do_check(&f->t);
		}
	do_sync(&f->t);
}

/* Copies over a link of the machine so far, in blocks. */
static uint64_t nr_copies(struct fixture *f, uint32_t link)
{
	struct weir_space_stats stats = get_stats(&f->t);
	uint64_t bytes = 0;

	for (int d = 0; d < 2; d++)
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			if (cause != WEIR_CAUSE_INPLACE)
				bytes += stats.link_bytes[link][d][cause];
	return bytes / BLOCK;
}

/* What crossed a link of the machine so far, use in place as well, bytes. */
static uint64_t nr_bytes(struct fixture *f, uint32_t link)
{
	struct weir_space_stats stats = get_stats(&f->t);
	uint64_t bytes = 0;

	for (int d = 0; d < 2; d++)
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			bytes += stats.link_bytes[link][d][cause];
	return bytes;
}

static void test_near_is_planned(void **state)
{
	uint64_t before[NR_LINKS];
	struct fixture f;

	(void)state;
	fixture_open(&f, 10, 24);
	do_rounds(&f, ROUNDS);
	assert_true(get_stats(&f.t).nr_plans >= 1);
	assert_non_null(f.t.space->residency->planner->plan);
	for (uint32_t l = 0; l < NR_LINKS; l++)
		before[l] = nr_copies(&f, l);
	do_rounds(&f, ROUNDS);
	/* All of it has room in the two GPUs' memories. */
	assert_int_equal(nr_copies(&f, 0), before[0]);
	assert_int_equal(nr_copies(&f, 1), before[1]);
	assert_int_equal(get_stats(&f.t).memory[HOST].bytes, 0);
	fixture_close(&f);
}

/* The neighbour has room for some: what is far stays on the host, and nothing goes between the
 * neighbour and the host. */
static void test_near_some_is_far(void **state)
{
	uint64_t before;
	struct fixture f;

	(void)state;
	fixture_open(&f, 10, 8);
	do_rounds(&f, ROUNDS);
	assert_true(get_stats(&f.t).nr_plans >= 1);
	before = nr_copies(&f, 1);
	do_rounds(&f, ROUNDS);
	assert_int_equal(nr_copies(&f, 1), before);
	assert_true(get_stats(&f.t).memory[HOST].bytes > 0);
	assert_true(get_stats(&f.t).memory[GPU1].bytes <= 8 * BLOCK);
	fixture_close(&f);
}

/* What nobody uses any more came first, and filled the neighbour's memory: it goes to the host, and
 * what the program uses has the room. */
static void test_near_unused_makes_room(void **state)
{
	const struct range *range;
	uint64_t before;
	struct fixture f;
	void *unused;

	(void)state;
	fixture_places(&f, 10, 22);
	unused = do_alloc(&f.t, ALL, 0);
	do_fill(&f.t, 0, unused, ALL, 9);
	fixture_fill(&f);
	do_rounds(&f, 3 * ROUNDS);
	before = nr_bytes(&f, 0);
	do_rounds(&f, ROUNDS);
	range = range_find(f.t.space, unused);
	for (uint32_t b = 0; b < range->nr_blocks; b++)
		assert_int_equal(range->block[b].at.home->place, space_host(f.t.space));
	/* A plan may have one block of what is used go there and back. */
	assert_true(nr_bytes(&f, 0) - before <= 2 * ROUNDS * BLOCK);
	do_expect(&f.t, 0, unused, ALL, 9);
	fixture_close(&f);
}

/* A temporary's range comes again with chunks of the host's memory, from when the neighbour had no
 * room: it gets better ones without a copy, unlike what has contents. */
static void test_near_fresh_comes_near(void **state)
{
	uint64_t before = 0, kept = 0;
	struct fixture f;

	(void)state;
	fixture_open(&f, 7, 2);
	for (uint32_t i = 0; i < 3 * ROUNDS; i++) {
		void *temporary = do_alloc(&f.t, ALL, 0);

		do_fill(&f.t, 0, temporary, ALL, i);
		do_rounds(&f, 1);
		do_expect(&f.t, 0, temporary, ALL, i);
		do_free(&f.t, temporary, 0);
		if (i != ROUNDS)
			continue;
		for (uint32_t r = 0; r < f.t.space->nr_ranges; r++)
			if (!f.t.space->range[r]->pooled)
				kept += f.t.space->range[r]->nr_home[HOST_PLACE];
		before = nr_copies(&f, 0) + nr_copies(&f, 1);
		assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 32 * BLOCK), 0);
	}
	assert_true(nr_copies(&f, 0) + nr_copies(&f, 1) <= before + kept);
	assert_int_equal(get_stats(&f.t).memory[HOST].bytes, 0);
	fixture_close(&f);
}

/* Rounds in which a temporary is overwritten, updated so many times, and freed. @return its
 * range. */
static const struct range *do_updates(struct fixture *f, uint32_t nr_rounds, uint32_t times)
{
	const struct range *range = NULL;

	for (uint32_t i = 0; i < nr_rounds; i++) {
		uint8_t *temporary = do_alloc(&f->t, ALL, 0);

		do_fill(&f->t, 0, temporary, ALL, 0);
		for (uint32_t n = 0; n < times; n++)
			do_change(&f->t, 0, temporary, ALL, (uint8_t)n, n + 1);
		do_expect(&f->t, 0, temporary, ALL, (uint8_t)times);
		range = range_find(f->t.space, temporary);
		do_check(&f->t);
		do_free(&f->t, temporary, 0);
		do_sync(&f->t);
	}
	return range;
}

/* The neighbour's link is as slow as the host's. A temporary's range comes again with chunks at the
 * neighbour alone, from when there was no plan: some are exchanged for the host's, over whose link
 * it is used at the same time; and nothing is copied. */
static void test_near_fresh_goes_far(void **state)
{
	const struct range *range;
	struct weir_link_desc *link;
	uint64_t before;
	struct fixture f;

	(void)state;
	memset(&f, 0, sizeof(f));
	test_space_open_places(&f.t, BLOCK, 2, 32, 64);
	link = f.t.backend->desc.link;
	link[2].inplace_bytes_per_s = link[0].inplace_bytes_per_s;
	link[2].inplace_both_bytes_per_s = link[0].inplace_both_bytes_per_s;
	do_updates(&f, 1, 4);
	assert_int_equal(get_stats(&f.t).memory[HOST].bytes, 0);
	do_updates(&f, 2 * ROUNDS, 4);
	before = nr_copies(&f, 0) + nr_copies(&f, 1);
	range = do_updates(&f, ROUNDS, 4);
	assert_int_equal(nr_copies(&f, 0) + nr_copies(&f, 1), before);
	assert_in_range(range->nr_home[HOST_PLACE], 1, NR_BLOCKS - 1);
	test_space_close(&f.t);
}

/* Of two neighbours, the first of which has had all, a temporary is at both where neither may be
 * used for more than so much, and else at one. */
static void check_spread(double bytes_per_s)
{
	static const uint32_t devices[TEST_STREAMS] = {0};
	const struct weir_space_config config = {.budget_bytes = {[HOST] = 64 * BLOCK,
								  [GPU0] = 2 * BLOCK,
								  [GPU1] = 32 * BLOCK,
								  [GPU1 + 1] = 32 * BLOCK},
						 .block_bytes = BLOCK,
						 .mode = WEIR_PLANNED};
	const struct range *range;
	struct fixture f;
	uint8_t *kept;

	memset(&f, 0, sizeof(f));
	test_machine_open_gpus(&f.t, WEIR_DATA_REAL, 3, devices);
	for (uint32_t l = 0; l < f.t.backend->desc.nr_links; l++)
		if (f.t.backend->desc.link[l].a == HOST)
			f.t.backend->desc.link[l].inplace_bytes_per_s /= 1000;
	assert_int_equal(test_space_create_config(&f.t, &config), 0);
	space_near_rate(f.t.space, bytes_per_s);
	kept = do_alloc(&f.t, ALL, 0);
	do_fill(&f.t, 0, kept, ALL, 7);
	do_updates(&f, 1, 4);
	for (uint32_t i = 0; i < 2 * ROUNDS; i++) {
		range = do_updates(&f, 1, 4);
		do_expect(&f.t, 0, kept, ALL, 7);
	}
	assert_non_null(f.t.space->residency->planner->plan);
	assert_int_equal(range->nr_home[1] >= 2 && range->nr_home[2] >= 2, bytes_per_s > 0);
	assert_int_equal(!range->nr_home[1] || !range->nr_home[2], bytes_per_s <= 0);
	do_expect(&f.t, 0, kept, ALL, 7);
	test_space_close(&f.t);
}

static void test_near_is_spread(void **state)
{
	(void)state;
	check_spread(0);
	check_spread(1e15);
}

/* What is on the host when the neighbour gets room is near in the end, and stays; and goes to the
 * host when the neighbour's memory is taken back. */
static void test_near_comes_and_goes(void **state)
{
	struct fixture f;
	uint64_t before;

	(void)state;
	fixture_open(&f, 10, 2);
	do_rounds(&f, ROUNDS);
	assert_true(get_stats(&f.t).memory[HOST].bytes >= 12 * BLOCK);
	assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 24 * BLOCK), 0);
	do_rounds(&f, ROUNDS);
	before = nr_copies(&f, 0) + nr_copies(&f, 1);
	do_rounds(&f, ROUNDS);
	assert_int_equal(nr_copies(&f, 0) + nr_copies(&f, 1), before);
	assert_int_equal(weir_space_set_budget(f.t.space, GPU1, 0), 0);
	assert_int_equal(get_stats(&f.t).memory[GPU1].bytes, 0);
	do_rounds(&f, ROUNDS);
	fixture_close(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near_is_planned),
		cmocka_unit_test(test_near_some_is_far),
		cmocka_unit_test(test_near_unused_makes_room),
		cmocka_unit_test(test_near_fresh_comes_near),
		cmocka_unit_test(test_near_fresh_goes_far),
		cmocka_unit_test(test_near_is_spread),
		cmocka_unit_test(test_near_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
