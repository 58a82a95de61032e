/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_begin_open(): brackets whose launches may touch any range. What they name is placed, all
 * else is mapped, and stays.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_space_late.h"

#define RANGES 4u
#define RANGE_BYTES (2 * BLOCK)

static int setup(void **state)
{
	struct test_space *t = malloc(sizeof(*t));

	assert_non_null(t);
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 16);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	test_space_close(*state);
	free(*state);
	return 0;
}

static void begin_open(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes)
{
	const struct weir_use use = use_of(addr, bytes, WEIR_ATOMIC);

	assert_int_equal(
		weir_begin_open(t->space, t->stream[stream], addr ? &use : NULL, addr != NULL), 0);
}

/* Ranges of twice the memory, filled in order: the first ones are on the host. */
static void fill_all(struct test_space *t, void **range)
{
	for (uint32_t r = 0; r < RANGES; r++)
		range[r] = do_alloc(t, RANGE_BYTES, 0);
	for (uint32_t r = 0; r < RANGES; r++)
		do_fill(t, 0, range[r], RANGE_BYTES, r + 1);
	do_sync(t);
}

static uint32_t nr_resident(struct test_space *t, const void *addr)
{
	return range_nr_resident(range_find(t->space, addr));
}

/* All ranges are read and written in one bracket that names none; nothing moves for that. */
static void test_open_reaches_all(void **state)
{
	struct test_space *t = *state;
	uint32_t before[RANGES];
	void *range[RANGES];

	fill_all(t, range);
	for (uint32_t r = 0; r < RANGES; r++)
		before[r] = nr_resident(t, range[r]);
	begin_open(t, 0, NULL, 0);
	for (uint32_t r = 0; r < RANGES; r++) {
		assert_int_equal(nr_resident(t, range[r]), before[r]);
		do_launch(t, 0, range[r], RANGE_BYTES, WEIR_ATOMIC, r + 1, r + 11);
	}
	do_end(t, 0);
	do_sync(t);
	assert_int_equal(get_nr_wrong(t), 0);
	/* What it wrote outlives the ranges' next moves. */
	for (uint32_t turn = 0; turn < 2; turn++)
		for (uint32_t r = 0; r < RANGES; r++)
			do_expect(t, 0, range[r], RANGE_BYTES, r + 11);
	do_sync(t);
	assert_int_equal(get_nr_wrong(t), 0);
	do_check(t);
}

/* An ordinary bracket does not reach what it does not name. */
static void test_ordinary_does_not(void **state)
{
	struct test_space *t = *state;
	void *range[RANGES];

	fill_all(t, range);
	do_begin(t, 0, range[0], RANGE_BYTES, WEIR_ATOMIC);
	do_launch(t, 0, range[1], RANGE_BYTES, WEIR_ATOMIC, 2, 12);
	assert_int_equal(weir_stream_sync(t->stream[0]), -WEIR_ETRAP);
	do_end(t, 0);
	(void)!weir_space_sync(t->space);
}

/* What it names comes in; what was never used is backed. */
static void test_open_places_what_it_names(void **state)
{
	struct test_space *t = *state;
	void *range[RANGES], *fresh, *small;

	fill_all(t, range);
	for (uint32_t r = 0; r < RANGES; r++) {
		begin_open(t, 0, range[r], RANGE_BYTES);
		do_launch(t, 0, range[r], RANGE_BYTES, WEIR_ATOMIC, r + 1, r + 1);
		do_end(t, 0);
	}
	assert_int_equal(nr_resident(t, range[RANGES - 1]), 2);
	fresh = do_alloc(t, RANGE_BYTES, 0);
	small = do_alloc(t, 512, 0);
	begin_open(t, 0, NULL, 0);
	do_launch(t, 0, fresh, RANGE_BYTES, WEIR_ATOMIC, 0, 21);
	do_launch(t, 0, small, 512, WEIR_ATOMIC, 0, 22);
	do_end(t, 0);
	do_expect(t, 0, fresh, RANGE_BYTES, 21);
	do_expect(t, 0, small, 512, 22);
	do_sync(t);
	assert_int_equal(get_nr_wrong(t), 0);
	do_check(t);
}

/* Who wants the place of what an open bracket may touch waits for its launches. */
static void test_open_holds_all(void **state)
{
	struct test_space *t = *state;
	void *range[RANGES];

	fill_all(t, range);
	begin_open(t, 0, NULL, 0);
	do_spin(t, 0, SPIN_NS);
	for (uint32_t r = 0; r < RANGES; r++)
		do_launch(t, 0, range[r], RANGE_BYTES, WEIR_ATOMIC, r + 1, r + 31);
	do_end(t, 0);
	for (uint32_t r = 0; r < RANGES; r++)
		do_expect(t, 1, range[r], RANGE_BYTES, r + 31);
	do_sync(t);
	assert_int_equal(get_nr_wrong(t), 0);
}

static uint64_t done_ns(struct test_space *t, uint32_t stream)
{
	uint64_t start = weir_machine_now_ns(t->machine);

	assert_int_equal(weir_stream_sync(t->stream[stream]), 0);
	return weir_machine_now_ns(t->machine) - start;
}

/* A long open bracket on stream 0, and one of the given range on stream 1, open or not: whether
 * that one comes behind it. */
static bool comes_behind(struct test_space *t, void *addr, uint64_t bytes, bool open)
{
	begin_open(t, 0, NULL, 0);
	do_spin(t, 0, SPIN_NS);
	do_end(t, 0);
	if (open)
		begin_open(t, 1, addr, bytes);
	else
		do_begin(t, 1, addr, bytes, WEIR_WRITE);
	do_end(t, 1);
	return done_ns(t, 1) > SPIN_NS / 2;
}

/* Open brackets have no order with each other, others have with them. */
static void test_open_order(void **state)
{
	struct test_space *t = *state;
	void *range = do_alloc(t, RANGE_BYTES, 0);

	do_fill(t, 0, range, RANGE_BYTES, 1);
	do_sync(t);
	assert_false(comes_behind(t, range, RANGE_BYTES, true));
	do_sync(t);
	assert_true(comes_behind(t, range, RANGE_BYTES, false));
	do_sync(t);
}

/* A new life of the same bytes comes after all that may have used the old one. */
static void order_of_lives(struct test_space *t, uint64_t bytes)
{
	void *old = do_alloc(t, bytes, 0), *again;

	do_fill(t, 0, old, bytes, 1);
	do_sync(t);
	begin_open(t, 0, NULL, 0);
	do_spin(t, 0, SPIN_NS);
	do_end(t, 0);
	do_free(t, old, 0);
	again = do_alloc(t, bytes, 0);
	assert_ptr_equal(again, old);
	begin_open(t, 1, NULL, 0);
	do_end(t, 1);
	assert_true(done_ns(t, 1) > SPIN_NS / 2);
	/* In this life nobody waits. */
	begin_open(t, 0, NULL, 0);
	do_spin(t, 0, SPIN_NS);
	do_end(t, 0);
	begin_open(t, 1, again, bytes);
	do_end(t, 1);
	assert_true(done_ns(t, 1) < SPIN_NS / 2);
	do_sync(t);
	do_free(t, again, 0);
}

static void test_open_order_of_lives(void **state)
{
	struct test_space *t = *state;
	void *kept;

	order_of_lives(t, RANGE_BYTES);
	kept = do_alloc(t, 512, 0); /* the arena stays */
	order_of_lives(t, 1024);
	do_free(t, kept, 0);
}

/* Freed while it is open, and allocated. */
static void test_open_and_lives(void **state)
{
	struct test_space *t = *state;
	void *range = do_alloc(t, RANGE_BYTES, 0), *other;

	do_fill(t, 0, range, RANGE_BYTES, 1);
	begin_open(t, 0, NULL, 0);
	do_launch(t, 0, range, RANGE_BYTES, WEIR_ATOMIC, 1, 2);
	do_free(t, range, 0);
	other = do_alloc(t, RANGE_BYTES, 0);
	do_fill(t, 1, other, RANGE_BYTES, 3);
	do_end(t, 0);
	do_expect(t, 1, other, RANGE_BYTES, 3);
	do_sync(t);
	assert_int_equal(get_nr_wrong(t), 0);
	do_check(t);
}

static void test_open_wrong_use(void **state)
{
	struct test_space *t = *state;
	void *range = do_alloc(t, RANGE_BYTES, 0);
	struct weir_use use = use_of(range, RANGE_BYTES + 1, WEIR_ATOMIC);

	assert_int_equal(weir_begin_open(t->space, t->stream[0], &use, 1), -EINVAL);
	assert_int_equal(weir_begin_open(t->space, t->stream[0], NULL, 1), -EINVAL);
	assert_int_equal(weir_begin_open(t->space, t->stream[0], &use, 0), -EINVAL);
	begin_open(t, 0, range, RANGE_BYTES);
	use.bytes = RANGE_BYTES;
	assert_int_equal(weir_begin_open(t->space, t->stream[0], &use, 1), -WEIR_ECONTRACT);
	do_end(t, 0);
}

static void test_open_of_several_devices(void **state)
{
	struct test_space t;

	(void)state;
	test_space_open_devices(&t, BLOCK, 4, 4, 8);
	assert_int_equal(weir_begin_open(t.space, t.stream[0], NULL, 0), -ENOTSUP);
	test_space_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open_reaches_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ordinary_does_not, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_places_what_it_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_holds_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_order_of_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_and_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_wrong_use, setup, teardown),
		cmocka_unit_test(test_open_of_several_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
