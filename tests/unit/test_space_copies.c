/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space with a neighbour GPU's memory between its own and the host's: copies of a block at two of
 * them, and memory that others of the machine hold and do not use.
 */
#include <errno.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"
#include "tests/unit/test_idle.h"

#define BLOCK KIB(64)
#define NR 4u /* blocks of the range */

struct places {
	struct test_space t;
	struct backend *flaky;
	char *range; /* NR blocks, seed 1 */
};

static void places_open(struct places *p, uint32_t gpu, uint32_t gpu1, uint32_t host)
{
	struct test_space *t = &p->t;

	memset(p, 0, sizeof(*p));
	test_machine(&t->desc);
	assert_int_equal(sim_create(&t->desc, WEIR_DATA_REAL, &t->backend), 0);
	assert_int_equal(flaky_create(t->backend, &p->flaky), 0);
	assert_int_equal(machine_wrap(p->flaky, &t->machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t->machine, i == TEST_OTHER, &t->stream[i]), 0);
	assert_int_equal(test_space_create_places(t, WEIR_PLANNED, BLOCK, gpu * BLOCK, gpu1 * BLOCK,
						  host * BLOCK),
			 0);
	p->range = do_alloc(t, NR * BLOCK, 0);
}

/* Everything is there as it was. */
static void places_close(struct places *p)
{
	do_read(&p->t, p->range, NR * BLOCK, 1);
	do_sync(&p->t);
	test_space_close(&p->t);
}

static int move_to_try(struct places *p, uint32_t memory)
{
	struct weir_fence *fence;
	int err = weir_prefetch(p->t.space, p->range, NR * BLOCK, memory, &fence);

	do_check(&p->t);
	if (err)
		return err;
	err = weir_fence_wait(fence);
	weir_fence_put(fence);
	do_check(&p->t);
	return err;
}

static void move_to(struct places *p, uint32_t memory)
{
	assert_int_equal(move_to_try(p, memory), 0);
}

static uint64_t held(struct places *p, uint32_t memory)
{
	return get_stats(&p->t).memory[memory].bytes / BLOCK;
}

/* In the neighbour's memory, with a valid copy on the host. */
static void put_between(struct places *p)
{
	do_fill(&p->t, 0, p->range, NR * BLOCK, 1);
	move_to(p, HOST);
	move_to(p, GPU0);
	move_to(p, GPU1);
	assert_int_equal(held(p, GPU0), 0);
	assert_int_equal(held(p, GPU1), NR);
	assert_int_equal(held(p, HOST), NR);
}

/* A copy on the host stays valid while the block moves above it, and the one between goes. */
static void test_places_lower_copy_stays(void **state)
{
	struct places p;
	uint64_t moves;

	(void)state;
	places_open(&p, 8, 8, 16);
	put_between(&p);
	move_to(&p, GPU0);
	assert_int_equal(held(&p, GPU0), NR);
	assert_int_equal(held(&p, GPU1), 0);
	assert_int_equal(held(&p, HOST), NR);
	moves = get_stats(&p.t).nr_moves[WEIR_CAUSE_PREFETCH];
	move_to(&p, HOST);
	assert_int_equal(get_stats(&p.t).nr_moves[WEIR_CAUSE_PREFETCH], moves);
	places_close(&p);
}

/* Move up while the n-th call fails; 0: none. @return the number of calls */
static uint64_t fail_at(uint64_t n)
{
	struct places p;
	uint64_t nr;
	int err;

	places_open(&p, 8, 8, 16);
	put_between(&p);
	nr = flaky_nr_calls(p.flaky);
	flaky_arm(p.flaky, n ? nr + n : 0, -EIO);
	err = move_to_try(&p, GPU0);
	nr = flaky_nr_calls(p.flaky) - nr;
	flaky_arm(p.flaky, 0, 0);
	assert_true(!err || (n && err == -EIO) || err == -ENOMEM);
	err = weir_space_sync(p.t.space);
	assert_true(!err || err == -EIO);
	do_check(&p.t);
	do_change(&p.t, 0, p.range, NR * BLOCK, 1, 2);
	do_change(&p.t, 0, p.range, NR * BLOCK, 2, 1);
	places_close(&p);
	return nr;
}

static void test_places_each_call_fails(void **state)
{
	uint64_t nr = fail_at(0);

	(void)state;
	assert_true(nr > NR);
	for (uint64_t n = 1; n <= nr; n++)
		(void)fail_at(n);
}

/* The CPU needs a chunk of the host's memory for a block that has a lower copy elsewhere. */
static void test_places_host_bracket_asks(void **state)
{
	struct weir_use use;
	struct places p;

	(void)state;
	places_open(&p, 8, 8, 16);
	do_fill(&p.t, 0, p.range, NR * BLOCK, 1);
	move_to(&p, GPU1);
	move_to(&p, GPU0);
	assert_int_equal(held(&p, GPU1), NR);
	idle_open(&p.t, HOST);
	use = use_of(p.range, NR * BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(p.t.space, &use, 1), 0);
	assert_int_equal(pattern_wrong(p.range, p.range, NR * BLOCK, 1), 0);
	assert_int_equal(weir_host_end(p.t.space, &use, 1), 0);
	idle_close();
	places_close(&p);
}

/* What is written for the first time, with room neither in the GPU's memory nor the neighbour's. */
static void test_places_write_asks(void **state)
{
	struct places p;
	char *own;

	(void)state;
	places_open(&p, 4, 2, 16);
	own = do_alloc(&p.t, 4 * BLOCK, 0);
	do_fill(&p.t, 0, own, 4 * BLOCK, 2);
	do_sync(&p.t);
	idle_open(&p.t, HOST);
	do_write(&p.t, p.range, NR * BLOCK, 1);
	assert_true(held(&p, HOST) >= 2);
	do_read(&p.t, own, 4 * BLOCK, 2);
	idle_close();
	places_close(&p);
}

/* The same where the neighbour's memory is what others hold. */
static void test_places_write_asks_in_the_middle(void **state)
{
	struct places p;
	char *own;

	(void)state;
	places_open(&p, 4, 6, 2);
	own = do_alloc(&p.t, 4 * BLOCK, 0);
	do_fill(&p.t, 0, own, 4 * BLOCK, 2);
	do_sync(&p.t);
	idle_open(&p.t, GPU1);
	do_write(&p.t, p.range, NR * BLOCK, 1);
	assert_true(held(&p, GPU1) >= 2);
	do_read(&p.t, own, 4 * BLOCK, 2);
	idle_close();
	places_close(&p);
}

/* Lower copies go for room where they are, and nowhere else. */
static void test_places_lower_copies_elsewhere_stay(void **state)
{
	struct places p;
	struct weir_fence *fence;
	char *other;

	(void)state;
	places_open(&p, 4, 8, 16);
	do_fill(&p.t, 0, p.range, NR * BLOCK, 1);
	move_to(&p, HOST);
	move_to(&p, GPU0);
	assert_int_equal(held(&p, HOST), NR);
	other = do_alloc(&p.t, 4 * BLOCK, 0);
	do_write(&p.t, other, 4 * BLOCK, 2);
	assert_int_equal(weir_prefetch(p.t.space, other, 4 * BLOCK, GPU1, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(held(&p, GPU1), 4);
	assert_int_equal(weir_space_set_budget(p.t.space, GPU1, 2 * BLOCK), 0);
	assert_int_equal(held(&p, GPU1), 2);
	assert_int_equal(held(&p, HOST), NR + 2);
	do_read(&p.t, other, 4 * BLOCK, 2);
	places_close(&p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places_lower_copy_stays),
		cmocka_unit_test(test_places_each_call_fails),
		cmocka_unit_test(test_places_host_bracket_asks),
		cmocka_unit_test(test_places_write_asks),
		cmocka_unit_test(test_places_write_asks_in_the_middle),
		cmocka_unit_test(test_places_lower_copies_elsewhere_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
