/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open brackets, whose launches may touch any range: where what they may touch is, whom they wait
 * for and who waits for them, what of them is recorded, and what is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/policy/policy.h"
#include "tests/support/policy.h"
#include "tests/unit/test_space_late.h"
#include "weir/paged.h"
#include "weir/replica.h"
#include "weir/trace.h"
#include "workloads/trace_file.h"

#define GPU_BLOCKS 6u
#define ALL (GPU_BLOCKS * BLOCK)

static void open_space(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, 32);
}

static int begin_open_try(struct test_space *t, uint32_t stream, const struct weir_use *uses,
			  uint32_t nr)
{
	int err = weir_begin_open(t->space, t->stream[stream], uses, nr);

	do_check(t);
	return err;
}

static void begin_open(struct test_space *t, uint32_t stream)
{
	assert_int_equal(begin_open_try(t, stream, NULL, 0), 0);
}

static void begin_open_use(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
			   enum weir_use_kind kind)
{
	struct weir_use use = use_of(addr, bytes, kind);

	assert_int_equal(begin_open_try(t, stream, &use, 1), 0);
}

/* An open bracket that changes all of a range which it does not name. */
static void change_unnamed(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
			   uint32_t expect, uint32_t put)
{
	begin_open(t, stream);
	do_launch(t, stream, addr, bytes, WEIR_WRITE, expect, put);
	do_end(t, stream);
}

static void expect_places(struct test_space *t, uint8_t *addr, uint64_t bytes,
			  enum block_state state)
{
	for (uint64_t at = 0; at < bytes; at += BLOCK)
		assert_int_equal(get_block_state(t, addr + at), state);
}

/* ------------------------------------------------------------------ where things are */

/* What was evicted can be touched where it is, without being named, and is not mapped else. */
static void test_open_reaches_the_host(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, x, ALL, 1);
	y = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, y, ALL, 2);
	do_sync(&t);
	expect_places(&t, x, ALL, BLOCK_HOST);
	change_unnamed(&t, 0, x, ALL, 1, 3);
	do_sync(&t);
	expect_places(&t, x, ALL, BLOCK_HOST);
	expect_places(&t, y, ALL, BLOCK_HBM);
	begin_open(&t, 0);
	do_launch(&t, 0, x, ALL, WEIR_WRITE, 3, 4);
	do_launch(&t, 0, y, ALL, WEIR_WRITE, 2, 5);
	do_end(&t, 0);
	do_read(&t, x, ALL, 4);
	do_read(&t, y, ALL, 5);
	do_begin(&t, 0, y, ALL, WEIR_READ);
	do_launch(&t, 0, x, ALL, WEIR_READ, 4, 0);
	assert_int_equal(weir_stream_sync(t.stream[0]), -WEIR_ETRAP);
	do_end(&t, 0);
	(void)!weir_space_sync(t.space);
	test_space_close(&t);
}

/* Launches may be any, of what is named and of what is not. */
static void test_open_any_kind(void **state)
{
	static const enum weir_use_kind kinds[] = {WEIR_READ, WEIR_WRITE, WEIR_OVERWRITE,
						   WEIR_ATOMIC};
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, x, 2 * BLOCK, 1);
	for (uint32_t named = 0; named < ARRAY_LEN(kinds); named++) {
		if (kinds[named] == WEIR_OVERWRITE)
			continue; /* its contents would be gone */
		begin_open_use(&t, 0, x, BLOCK + 64, kinds[named]);
		for (uint32_t used = 0; used < ARRAY_LEN(kinds); used++)
			do_launch(&t, 0, x, 2 * BLOCK, kinds[used], 1, 0);
		do_end(&t, 0);
		do_sync(&t);
	}
	do_read(&t, x, 2 * BLOCK, 1);
	test_space_close(&t);
}

/* What was never used is backed, wherever there is room; and what is left in place counts. */
static void test_open_backs_what_is_new(void **state)
{
	struct weir_space_stats before, after;
	struct test_space t;
	uint8_t *x, *y, *small;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 4 * BLOCK, 0);
	y = do_alloc(&t, 5 * BLOCK, 0);
	small = do_alloc(&t, 1000, 0);
	before = get_stats(&t);
	begin_open(&t, 0);
	for (uint64_t at = 0; at < 5 * BLOCK; at += BLOCK)
		assert_int_not_equal(get_block_state(&t, y + at), BLOCK_UNBACKED);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_WRITE, 0, 1);
	do_launch(&t, 0, y, 5 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_launch(&t, 0, small, 1000, WEIR_OVERWRITE, 0, 3);
	do_end(&t, 0);
	do_sync(&t);
	after = get_stats(&t);
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		assert_int_equal(get_copied(&t, &after, (enum backend_direction)d),
				 get_copied(&t, &before, (enum backend_direction)d));
	do_read(&t, x, 4 * BLOCK, 1);
	do_read(&t, y, 5 * BLOCK, 2);
	do_read(&t, small, 1000, 3);
	test_space_close(&t);
}

/* What is named comes in as without the rest, and of the rest goes what would have gone. */
static void test_open_places_what_is_named(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, x, ALL, 1);
	y = do_alloc(&t, 4 * BLOCK, 0);
	begin_open_use(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE);
	expect_places(&t, y, 4 * BLOCK, BLOCK_HBM);
	do_launch(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_launch(&t, 0, x, ALL, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	do_read(&t, x, ALL, 1);
	do_read(&t, y, 4 * BLOCK, 2);
	test_space_close(&t);
}

static void expect_no_copies(struct test_space *t, const struct weir_space_stats *before)
{
	struct weir_space_stats after = get_stats(t);

	for (int d = 0; d < BACKEND_DIRECTION_NR; d++)
		assert_int_equal(get_copied(t, &after, (enum backend_direction)d),
				 get_copied(t, before, (enum backend_direction)d));
}

/* With room, what is named is all that moves: contents that were evicted come back for it. */
static void test_open_moves_nothing_else(void **state)
{
	struct weir_space_stats before, after;
	struct test_space t;
	uint8_t *x, *y, *z;
	struct weir_use use;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 3 * BLOCK, 0);
	do_fill(&t, 0, x, 3 * BLOCK, 1);
	y = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, y, 2 * BLOCK, 2);
	assert_int_equal(weir_prefetch(t.space, x, 3 * BLOCK, HOST, NULL), 0);
	assert_int_equal(weir_prefetch(t.space, y, 2 * BLOCK, HOST, NULL), 0);
	z = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, z, BLOCK, 3);
	do_sync(&t);
	before = get_stats(&t);
	begin_open(&t, 0);
	do_end(&t, 0);
	do_sync(&t);
	expect_no_copies(&t, &before);
	use = use_of(y, 2 * BLOCK, WEIR_READ);
	use.read_bytes *= MUCH;
	assert_int_equal(begin_open_try(&t, 0, &use, 1), 0);
	do_launch(&t, 0, y, 2 * BLOCK, WEIR_READ, 2, 0);
	do_launch(&t, 0, x, 3 * BLOCK, WEIR_WRITE, 1, 4);
	do_end(&t, 0);
	do_sync(&t);
	after = get_stats(&t);
	assert_int_equal(get_copied(&t, &after, BACKEND_TO_DEVICE) -
				 get_copied(&t, &before, BACKEND_TO_DEVICE),
			 2 * BLOCK);
	assert_int_equal(get_copied(&t, &after, BACKEND_TO_HOST),
			 get_copied(&t, &before, BACKEND_TO_HOST));
	expect_places(&t, y, 2 * BLOCK, BLOCK_HBM);
	expect_places(&t, x, 3 * BLOCK, BLOCK_HOST);
	expect_places(&t, z, BLOCK, BLOCK_HBM);
	do_read(&t, x, 3 * BLOCK, 4);
	test_space_close(&t);
}

/* What it may have written counts as written: the copy that a range had below is none any more. */
static void test_open_writes_back(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 4 * BLOCK, 0);
	do_write(&t, x, 4 * BLOCK, 1);
	assert_int_equal(weir_advise(t.space, x, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	do_expect_late(&t, 0, x, 4 * BLOCK, 1);
	do_sync(&t);
	expect_places(&t, x, 4 * BLOCK, BLOCK_HBM);
	begin_open(&t, 0);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_WRITE, 1, 2);
	do_end(&t, 0);
	y = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, y, ALL, 3);
	do_sync(&t);
	expect_places(&t, x, 4 * BLOCK, BLOCK_HOST);
	do_read(&t, x, 4 * BLOCK, 2);
	/* And again, when it has come back, by one that was told of nothing. */
	do_expect_late(&t, 0, x, 4 * BLOCK, 2);
	do_sync(&t);
	change_unnamed(&t, 0, x, 4 * BLOCK, 2, 4);
	do_fill(&t, 0, y, ALL, 5);
	do_sync(&t);
	expect_places(&t, x, 4 * BLOCK, BLOCK_HOST);
	do_read(&t, x, 4 * BLOCK, 4);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ while it runs */

/* An eviction that another stream's bracket wants waits until the open one is done. */
static void test_open_keeps_what_it_may_touch(void **state)
{
	struct test_space t;
	uint8_t *x, *y;
	fence_t done;

	(void)state;
	open_space(&t);
	y = do_alloc(&t, ALL, 1);
	x = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, x, ALL, 1);
	do_sync(&t);
	begin_open(&t, 0);
	assert_int_equal(do_spin_try(&t, 0, x, ALL), 0);
	do_launch(&t, 0, x, ALL, WEIR_WRITE, 1, 2);
	do_launch(&t, 0, y, ALL, WEIR_WRITE, 0, 3);
	do_end(&t, 0);
	done = get_fence(&t, 0);
	assert_false(is_reached(&t, done));
	do_begin(&t, 1, y, ALL, WEIR_OVERWRITE);
	assert_true(is_reached(&t, done));
	do_launch(&t, 1, y, ALL, WEIR_OVERWRITE, 0, 4);
	do_end(&t, 1);
	do_sync(&t);
	do_read(&t, x, ALL, 2);
	do_read(&t, y, ALL, 4);
	test_space_close(&t);
}

/* Nor does anything else move it: prefetches, advice, budgets, the CPU. */
static void test_open_forbids(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *x, byte;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, x, 4 * BLOCK, 1);
	use = use_of(x, BLOCK, WEIR_READ);
	begin_open(&t, 0);
	assert_int_equal(weir_prefetch(t.space, x, 4 * BLOCK, HOST, NULL), 0);
	assert_int_equal(weir_space_set_budget(t.space, GPU0, 2 * BLOCK), -EBUSY);
	do_check(&t);
	assert_int_equal(weir_host_begin(t.space, &use, 1), -EBUSY);
	assert_int_equal(weir_read(t.space, &byte, x, 1), -EBUSY);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	assert_int_equal(begin_open_try(&t, 0, NULL, 0), -WEIR_ECONTRACT);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -WEIR_ECONTRACT);
	assert_int_equal(weir_replicate(t.space, x, NULL), -EBUSY);
	expect_places(&t, x, 4 * BLOCK, BLOCK_HBM);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_WRITE, 1, 2);
	do_end(&t, 0);
	do_sync(&t);
	assert_int_equal(weir_space_set_budget(t.space, GPU0, ALL), 0);
	do_read(&t, x, 4 * BLOCK, 2);
	test_space_close(&t);
}

/* A range that is freed while it may be touched stays until the end; what is allocated meanwhile is
 * another one. */
static void test_open_frees_and_allocations(void **state)
{
	struct test_space t;
	uint8_t *x, *y, *small, *other;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 2 * BLOCK, 0);
	small = do_alloc(&t, 1024, 0);
	do_fill(&t, 0, x, 2 * BLOCK, 1);
	do_fill(&t, 0, small, 1024, 2);
	begin_open(&t, 0);
	do_free(&t, x, 0);
	do_free(&t, small, 0);
	y = do_alloc(&t, 2 * BLOCK, 0);
	other = do_alloc(&t, 1024, 0);
	assert_ptr_not_equal(y, x);
	assert_ptr_not_equal(other, small);
	do_launch(&t, 0, x, 2 * BLOCK, WEIR_WRITE, 1, 3);
	do_launch(&t, 0, small, 1024, WEIR_WRITE, 2, 4);
	do_fill(&t, 1, y, 2 * BLOCK, 5);
	do_end(&t, 0);
	do_expect(&t, 1, y, 2 * BLOCK, 5);
	do_free(&t, other, 0);
	do_sync(&t);
	assert_ptr_equal(do_alloc(&t, 2 * BLOCK, 0), x);
	assert_ptr_equal(do_alloc(&t, 1024, 0), small);
	test_space_close(&t);
}

static bool is_free(struct test_space *t, void *addr)
{
	return range_find(t->space, addr)->pooled;
}

/* What is freed is kept by the open ones that began before, not by those that began since. */
static void test_open_frees_between(void **state)
{
	struct test_space t;
	uint8_t *x, *y, *z;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, BLOCK, 0);
	y = do_alloc(&t, BLOCK, 0);
	z = do_alloc(&t, BLOCK, 0);
	begin_open(&t, 0);
	do_free(&t, x, 0);
	begin_open(&t, 1);
	do_free(&t, y, 0);
	do_end(&t, 0);
	assert_true(is_free(&t, x));
	assert_false(is_free(&t, y));
	do_free(&t, z, 0);
	begin_open(&t, 0);
	do_end(&t, 1);
	assert_true(is_free(&t, y) && is_free(&t, z));
	do_end(&t, 0);
	do_sync(&t);
	test_space_close(&t);
}

static bracket_seq_t used_at(struct test_space *t, void *addr)
{
	return range_newest_use(t->space, range_find(t->space, addr));
}

/* What is allocated while one is open is none of its business: nobody waits for it for that. What
 * lived at its begin is, in whatever order they end, and freed as well. */
static void test_open_and_what_is_new(void **state)
{
	struct test_space t;
	uint8_t *x, *y, *z;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, BLOCK, 0);
	begin_open(&t, 0);
	y = do_alloc(&t, BLOCK, 0);
	begin_open(&t, 1);
	z = do_alloc(&t, BLOCK, 0);
	do_spin(&t, 0, SPIN_NS);
	do_spin(&t, 1, SPIN_NS);
	do_end(&t, 1);
	do_end(&t, 0);
	assert_int_equal(t.space->last_seq - t.space->done_seq, 2);
	assert_int_equal(used_at(&t, x), t.space->last_seq);
	assert_int_equal(used_at(&t, y), t.space->last_seq - 1);
	assert_int_equal(used_at(&t, z), 0);
	do_free(&t, x, 0);
	do_free(&t, y, 0);
	do_free(&t, z, 0);
	assert_int_equal(used_at(&t, x), t.space->last_seq);
	assert_int_equal(used_at(&t, y), t.space->last_seq - 1);
	assert_int_equal(used_at(&t, z), 0);
	do_sync(&t);
	test_space_close(&t);
}

/* It has a use of what it names alone, however many there are. */
static void test_open_has_few_uses(void **state)
{
	const struct ended_bracket *ended;
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	for (uint32_t i = 0; i < 5; i++)
		x = do_alloc(&t, BLOCK, 0);
	begin_open_use(&t, 0, x, BLOCK, WEIR_READ);
	assert_int_equal(t.space->wide.nr_astray, 0);
	do_spin(&t, 0, SPIN_NS);
	do_end(&t, 0);
	ended = &t.space->ended[t.space->last_seq % t.space->max_ended];
	assert_true(t.space->last_seq > t.space->done_seq);
	assert_int_equal(ended->uses.nr, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* A discard and an overwriting within it. */
static void test_open_discards(void **state)
{
	struct weir_use uses[2];
	struct test_space t;
	uint8_t *x, *y, *z;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, ALL, 0);
	do_fill(&t, 0, x, ALL, 1);
	z = do_alloc(&t, BLOCK, 0);
	do_write(&t, z, BLOCK, 7);
	y = do_alloc(&t, 4 * BLOCK, 0);
	uses[0] = use_of(x, 4 * BLOCK, WEIR_DISCARD);
	uses[1] = use_of(y, 4 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(begin_open_try(&t, 0, uses, 2), 0);
	do_launch(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_launch(&t, 0, z, BLOCK, WEIR_READ, 7, 0);
	do_launch(&t, 0, x + 4 * BLOCK, 2 * BLOCK, WEIR_READ, 0, 0);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_WRITE, 0, 3);
	do_end(&t, 0);
	do_sync(&t);
	do_read(&t, y, 4 * BLOCK, 2);
	do_read(&t, x, 4 * BLOCK, 3);
	/* Beside an open one nothing dies. */
	begin_open(&t, 0);
	begin_open_use(&t, 1, x, ALL, WEIR_DISCARD);
	do_end(&t, 1);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_WRITE, 3, 0);
	do_end(&t, 0);
	do_read(&t, x, 4 * BLOCK, 3);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ order */

/* A stream's open bracket that takes long. */
static void spin_open(struct test_space *t, uint32_t stream)
{
	begin_open(t, stream);
	do_spin(t, stream, SPIN_NS);
	do_end(t, stream);
}

/* Whether what a stream has queued takes as long as that one, which another has queued. */
static bool is_behind(struct test_space *t, uint32_t stream)
{
	uint64_t start = weir_machine_now_ns(t->machine);

	assert_int_equal(weir_stream_sync(t->stream[stream]), 0);
	return weir_machine_now_ns(t->machine) - start > SPIN_NS / 2;
}

static void test_open_beside_open(void **state)
{
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, x, 2 * BLOCK, 1);
	do_sync(&t);
	spin_open(&t, 0);
	begin_open(&t, 1); /* of no launch: a device runs one kernel at a time */
	do_end(&t, 1);
	assert_false(is_behind(&t, 1));
	/* With uses by atomics as well, which have no order with it. */
	do_begin(&t, 2, x, BLOCK, WEIR_ATOMIC);
	do_end(&t, 2);
	begin_open_use(&t, 1, x, BLOCK, WEIR_ATOMIC);
	do_end(&t, 1);
	assert_false(is_behind(&t, 1));
	assert_false(is_behind(&t, 2));
	/* Open together. */
	do_sync(&t);
	begin_open(&t, 0);
	begin_open(&t, 1);
	do_launch(&t, 0, x, BLOCK, WEIR_WRITE, 1, 3);
	do_launch(&t, 1, x + BLOCK, BLOCK, WEIR_WRITE, 1, 4);
	do_launch(&t, 0, x, BLOCK, WEIR_WRITE, 3, 5);
	do_end(&t, 0);
	do_end(&t, 1);
	do_sync(&t);
	do_read(&t, x, BLOCK, 5);
	do_read(&t, x + BLOCK, BLOCK, 4);
	test_space_close(&t);
}

/* A bracket of another kind is ordered with an open one, both ways: so is a named use. */
static void test_open_and_others(void **state)
{
	static const enum weir_use_kind kinds[] = {WEIR_WRITE, WEIR_READ, WEIR_OVERWRITE,
						   WEIR_DISCARD};
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 2 * BLOCK, 0);
	for (uint32_t k = 0; k < ARRAY_LEN(kinds); k++) {
		do_fill(&t, 0, x, 2 * BLOCK, 1);
		do_sync(&t);
		spin_open(&t, 0);
		do_begin(&t, 1, x, BLOCK, kinds[k]);
		do_end(&t, 1);
		assert_true(is_behind(&t, 1));
		do_begin(&t, 1, x, BLOCK, kinds[k]);
		do_spin(&t, 1, SPIN_NS);
		do_end(&t, 1);
		begin_open(&t, 0);
		do_end(&t, 0);
		assert_true(is_behind(&t, 0));
		spin_open(&t, 0);
		begin_open_use(&t, 1, x, BLOCK, kinds[k]);
		do_end(&t, 1);
		assert_true(is_behind(&t, 1));
		begin_open_use(&t, 1, x, BLOCK, kinds[k]);
		do_spin(&t, 1, SPIN_NS);
		do_end(&t, 1);
		begin_open(&t, 0);
		do_end(&t, 0);
		assert_true(is_behind(&t, 0));
	}
	/* The whole space, too. */
	spin_open(&t, 0);
	assert_int_equal(weir_begin(t.space, t.stream[1], NULL, 0), 0);
	do_end(&t, 1);
	assert_true(is_behind(&t, 1));
	test_space_close(&t);
}

/* The simulator traps an open one beside another that names something. */
static void test_open_traps(void **state)
{
	struct test_space t;
	uint8_t *x;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, x, 2 * BLOCK, 1);
	do_sync(&t);
	begin_open(&t, 0);
	do_launch(&t, 0, x, BLOCK, WEIR_READ, 1, 0);
	begin_open_use(&t, 1, x + BLOCK, BLOCK, WEIR_READ);
	do_launch(&t, 1, x + BLOCK, BLOCK, WEIR_READ, 1, 0);
	assert_int_equal(weir_stream_sync(t.stream[1]), -WEIR_ETRAP);
	do_end(&t, 1);
	do_end(&t, 0);
	(void)!weir_space_sync(t.space);
	test_space_close(&t);
}

/* What is at an address comes after what was there before: old is the old one's bracket, new the
 * new one's; either may be open or, by atomics, name the bytes. */
static void order_of_lives(struct test_space *t, uint64_t bytes, bool old_open, bool new_open)
{
	uint8_t *a = do_alloc(t, bytes, 0);

	do_fill(t, 0, a, bytes, 1);
	do_sync(t);
	if (old_open)
		begin_open(t, 0);
	else
		do_begin(t, 0, a, bytes, WEIR_ATOMIC);
	do_spin(t, 0, SPIN_NS);
	do_end(t, 0);
	do_free(t, a, 0);
	assert_ptr_equal(do_alloc(t, bytes, 1), a);
	for (uint32_t round = 0; round < 2; round++) {
		if (new_open)
			begin_open(t, 1);
		else
			do_begin(t, 1, a, bytes, WEIR_ATOMIC);
		do_end(t, 1);
		assert_int_equal(is_behind(t, 1), !round);
		if (!round) /* in the new life they are beside each other */
			spin_open(t, 0);
	}
	do_sync(t);
	do_free(t, a, 0);
	do_sync(t);
}

static void test_open_order_of_lives(void **state)
{
	struct test_space t;
	uint8_t *first, *last;

	(void)state;
	open_space(&t);
	for (uint32_t i = 0; i < 4; i++)
		order_of_lives(&t, 2 * BLOCK, i & 1, i & 2);
	/* A piece in the middle of an arena. */
	first = do_alloc(&t, 512, 0);
	last = do_alloc(&t, 1024, 0);
	do_free(&t, first, 0);
	first = do_alloc(&t, 256, 0);
	for (uint32_t i = 1; i < 4; i++)
		order_of_lives(&t, 256, i & 1, i & 2);
	do_free(&t, first, 0);
	do_free(&t, last, 0);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ what is seen of it */

static int count_asked(struct test_policy *p, struct weir_policy_admit *q)
{
	uint32_t *nr_asked = p->arg;

	(void)q;
	++*nr_asked;
	return WEIR_POLICY_DEFAULT;
}

/* A policy is asked about what is named, and its uses are what it sees. */
static void test_open_policy(void **state)
{
	struct test_policy policy = {.admit = count_asked};
	const struct asked *x_asked, *y_asked;
	uint32_t nr_asked = 0;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_space(&t);
	policy.arg = &nr_asked;
	test_policy_open(&policy);
	assert_int_equal(weir_space_set_policy(t.space, &policy.base), 0);
	x = do_alloc(&t, 2 * BLOCK, 0);
	y = do_alloc(&t, 2 * BLOCK, 0);
	x_asked = &range_find(t.space, x)->residency->asked;
	y_asked = &range_find(t.space, y)->residency->asked;
	begin_open(&t, 0);
	do_end(&t, 0);
	assert_int_equal(nr_asked, 0);
	assert_int_equal(x_asked->used_step, 0);
	assert_int_equal(range_find(t.space, x)->nr_uses, 0);
	do_sync(&t);
	assert_int_equal(weir_prefetch(t.space, x, 2 * BLOCK, HOST, NULL), 0);
	do_sync(&t);
	begin_open_use(&t, 0, x, 2 * BLOCK, WEIR_READ);
	do_end(&t, 0);
	assert_int_equal(nr_asked, 1);
	assert_true(x_asked->used_step > 0 && x_asked->touched_bytes == 2 * BLOCK);
	assert_int_equal(y_asked->used_step, 0);
	assert_int_equal(range_find(t.space, x)->nr_uses, 1);
	assert_int_equal(range_find(t.space, y)->nr_uses, 0);
	do_sync(&t);
	assert_int_equal(weir_space_set_policy(t.space, NULL), 0);
	test_space_close(&t);
	test_policy_close(&policy);
}

/* A repetition is found in what is named, and its plan is followed, whatever else is touched. */
static void test_open_plans(void **state)
{
	struct test_space t;
	uint8_t *x, *y, *z;
	uint32_t seed = 10;

	(void)state;
	open_space(&t);
	x = do_alloc(&t, 4 * BLOCK, 0);
	y = do_alloc(&t, 4 * BLOCK, 0);
	z = do_alloc(&t, 3 * BLOCK, 0);
	do_fill(&t, 0, x, 4 * BLOCK, 1);
	do_fill(&t, 0, z, 3 * BLOCK, seed);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++, seed++) {
		begin_open_use(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE);
		do_launch(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE, 0, 2 + i);
		do_launch(&t, 0, z, 3 * BLOCK, WEIR_WRITE, seed, seed + 1);
		do_end(&t, 0);
		begin_open_use(&t, 0, x, 4 * BLOCK, WEIR_READ);
		do_launch(&t, 0, x, 4 * BLOCK, WEIR_READ, 1, 0);
		do_launch(&t, 0, y, 4 * BLOCK, WEIR_WRITE, 2 + i, 0);
		do_end(&t, 0);
	}
	assert_true(has_plan(&t));
	assert_int_equal(get_stats(&t).nr_divergences, 0);
	do_sync(&t);
	do_read(&t, z, 3 * BLOCK, seed);
	test_space_close(&t);
}

/* A trace has the uses that are named. */
static void test_open_trace(void **state)
{
	char path[] = "/tmp/weir-open-XXXXXX", err[256], command[256];
	const struct trace_event *event;
	uint32_t nr_brackets = 0;
	struct trace_cursor cursor;
	struct trace_file file;
	struct test_space t;
	uint8_t *x;
	int fd;

	(void)state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	open_space(&t);
	assert_int_equal(weir_space_trace(t.space, path), 0);
	x = do_alloc(&t, 2 * BLOCK, 0);
	(void)do_alloc(&t, 2 * BLOCK, 0);
	change_unnamed(&t, 0, x, 2 * BLOCK, 0, 1);
	begin_open_use(&t, 0, x, 2 * BLOCK, WEIR_READ);
	do_launch(&t, 0, x, 2 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	assert_int_equal(weir_space_trace(t.space, NULL), 0);
	test_space_close(&t);
	assert_int_equal(trace_file_open(path, &file, err, sizeof(err)), 0);
	cursor = trace_cursor(&file);
	while ((event = trace_next(&cursor)))
		if (event->kind == TRACE_BEGIN)
			assert_int_equal(((const struct trace_begin *)(const void *)event)->nr_uses,
					 nr_brackets++);
	assert_int_equal(nr_brackets, 2);
	trace_file_close(&file);
	if (getenv("WEIR")) {
		(void)snprintf(command, sizeof(command), "\"$WEIR\" trace info %s >/dev/null",
			       path);
		assert_int_equal(system(command), 0); /* NOLINT(*-env33-c,concurrency-*) */
	}
	(void)unlink(path);
}

/* ------------------------------------------------------------------ what is refused, or fails */

static void test_open_wrong_uses(void **state)
{
	struct weir_use use, host;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_space(&t);
	begin_open(&t, 0); /* of nothing */
	do_end(&t, 0);
	x = do_alloc(&t, BLOCK, 0);
	y = do_alloc(&t, BLOCK, 0);
	use = use_of(x, BLOCK, WEIR_READ);
	assert_int_equal(begin_open_try(&t, 0, &use, 0), -EINVAL);
	assert_int_equal(begin_open_try(&t, 0, NULL, 1), -EINVAL);
	use.bytes = 2 * BLOCK;
	assert_int_equal(begin_open_try(&t, 0, &use, 1), -EINVAL);
	use.bytes = 0;
	assert_int_equal(begin_open_try(&t, 0, &use, 1), -EINVAL);
	use.bytes = BLOCK;
	use.kind = (enum weir_use_kind)(WEIR_ATOMIC + 1);
	assert_int_equal(begin_open_try(&t, 0, &use, 1), -EINVAL);
	assert_int_equal(begin_open_try(&t, TEST_OTHER, NULL, 0), -EINVAL);
	/* The CPU has something. */
	host = use_of(y, BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, &host, 1), 0);
	assert_int_equal(begin_open_try(&t, 0, NULL, 0), -EBUSY);
	use.kind = WEIR_READ;
	assert_int_equal(begin_open_try(&t, 0, &use, 1), -EBUSY);
	assert_int_equal(weir_host_end(t.space, &host, 1), 0);
	begin_open(&t, 0);
	do_end(&t, 0);
	test_space_close(&t);
}

static void test_open_not_supported(void **state)
{
	struct test_space t;
	uint8_t *x;

	(void)state;
	test_space_open_devices(&t, BLOCK, 8, 8, 16);
	x = do_alloc(&t, BLOCK, 0);
	assert_int_equal(begin_open_try(&t, 0, NULL, 0), -ENOTSUP);
	test_space_close(&t);
	open_space(&t);
	x = do_alloc(&t, BLOCK, 0);
	assert_int_equal(weir_replicate(t.space, x, NULL), 0);
	assert_int_equal(begin_open_try(&t, 0, NULL, 0), -ENOTSUP);
	do_fill(&t, 0, x, BLOCK, 1);
	test_space_close(&t);
}

/* In a fixed space, where launches need no bracket, it is one as any other. */
static void test_open_fixed(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, GPU_BLOCKS, 32);
	x = do_alloc(&t, 4 * BLOCK, 0);
	y = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, x, 4 * BLOCK, 1);
	do_fill(&t, 0, y, 4 * BLOCK, 2);
	change_unnamed(&t, 1, x, 4 * BLOCK, 1, 3);
	begin_open_use(&t, 0, y, 4 * BLOCK, WEIR_WRITE);
	do_launch(&t, 0, x, 4 * BLOCK, WEIR_READ, 3, 0);
	do_launch(&t, 0, y, 4 * BLOCK, WEIR_WRITE, 2, 4);
	do_end(&t, 0);
	do_sync(&t);
	do_read(&t, x, 4 * BLOCK, 3);
	do_read(&t, y, 4 * BLOCK, 4);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_reaches_the_host),
		cmocka_unit_test(test_open_any_kind),
		cmocka_unit_test(test_open_backs_what_is_new),
		cmocka_unit_test(test_open_places_what_is_named),
		cmocka_unit_test(test_open_moves_nothing_else),
		cmocka_unit_test(test_open_writes_back),
		cmocka_unit_test(test_open_keeps_what_it_may_touch),
		cmocka_unit_test(test_open_forbids),
		cmocka_unit_test(test_open_frees_and_allocations),
		cmocka_unit_test(test_open_frees_between),
		cmocka_unit_test(test_open_and_what_is_new),
		cmocka_unit_test(test_open_has_few_uses),
		cmocka_unit_test(test_open_discards),
		cmocka_unit_test(test_open_beside_open),
		cmocka_unit_test(test_open_and_others),
		cmocka_unit_test(test_open_traps),
		cmocka_unit_test(test_open_order_of_lives),
		cmocka_unit_test(test_open_policy),
		cmocka_unit_test(test_open_plans),
		cmocka_unit_test(test_open_trace),
		cmocka_unit_test(test_open_wrong_uses),
		cmocka_unit_test(test_open_not_supported),
		cmocka_unit_test(test_open_fixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
