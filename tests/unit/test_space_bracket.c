/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets on streams, on real bytes: the contract of weir_begin() and weir_end(), kinds and how
 * they combine, brackets beyond the budget, several streams, what the simulator traps.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)

static void open_default(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
}

/* Use everything else, so that what is idle leaves HBM. */
static void push_out(struct test_space *t)
{
	void *other = do_alloc(t, 4 * BLOCK, 0);

	do_fill(t, 0, other, 4 * BLOCK, 900);
	do_sync(t);
	do_free(t, other, 0);
}

static void test_space_bracket_contract(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a, *gone;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK - 100, 0);
	gone = do_alloc(&t, BLOCK, 0);
	do_free(&t, gone, 0);
	assert_int_equal(weir_end(t.space, t.stream[0]), -WEIR_ECONTRACT);
	use = use_of(a, 0, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(a, 2 * BLOCK - 99, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(a + 8, UINT64_MAX, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(a - 1, 8, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(gone, 8, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(&t, 8, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(a, 8, (enum weir_use_kind)(WEIR_ATOMIC + 1));
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	use = use_of(a, 8, WEIR_READ);
	use.pattern = (enum weir_use_pattern)2;
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EINVAL);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 1), -EINVAL);
	do_check(&t);
	/* Nothing is open after these errors. */
	assert_int_equal(weir_end(t.space, t.stream[0]), -WEIR_ECONTRACT);
	do_begin(&t, 0, a, 2 * BLOCK - 100, WEIR_WRITE);
	use = use_of(a, 8, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -WEIR_ECONTRACT);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), -WEIR_ECONTRACT);
	assert_int_equal(weir_end(t.space, t.stream[1]), -WEIR_ECONTRACT);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	do_end(&t, 0);
	assert_int_equal(weir_end(t.space, t.stream[0]), -WEIR_ECONTRACT);
	assert_int_equal(get_stats(&t).nr_brackets, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Contents outside an overwritten or discarded part stay, whatever the part's alignment. */
static void test_space_bracket_partial_overwrite_is_a_write(void **state)
{
	static const struct {
		uint64_t offset, bytes;
	} row[] = {{0, 256},
		   {256, BLOCK - 256},
		   {256, BLOCK - 512},
		   {BLOCK - 256, 512},
		   {BLOCK, BLOCK},
		   {BLOCK - 256, BLOCK + 512},
		   {256, 3 * BLOCK - 256},
		   {0, 3 * BLOCK - 256}};
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 3 * BLOCK, 0);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint8_t *part = a + row[i].offset, *end = part + row[i].bytes;

		do_fill(&t, 0, a, 3 * BLOCK, 1);
		push_out(&t);
		do_fill(&t, 0, part, row[i].bytes, 2);
		push_out(&t);
		if (row[i].offset)
			do_read(&t, a, row[i].offset, 1);
		do_expect(&t, 0, part, row[i].bytes, 2);
		if (end < a + 3 * BLOCK)
			do_read(&t, end, (uint64_t)(a + 3 * BLOCK - end), 1);
		do_fill(&t, 0, a, 3 * BLOCK, 1);
		do_discard(&t, 0, part, row[i].bytes);
		push_out(&t);
		if (row[i].offset)
			do_expect(&t, 0, a, row[i].offset, 1);
		if (end < a + 3 * BLOCK)
			do_read(&t, end, (uint64_t)(a + 3 * BLOCK - end), 1);
	}
	do_sync(&t);
	test_space_close(&t);
}

/* The last block of a range that does not fill it is covered when all of the range is. */
static void test_space_bracket_overwrite_to_the_ragged_end(void **state)
{
	struct test_space t;
	struct weir_space_stats stats;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK - 256, 0);
	do_fill(&t, 0, a, 2 * BLOCK - 256, 1);
	push_out(&t);
	do_fill(&t, 0, a, 2 * BLOCK - 256, 2);
	do_expect(&t, 0, a, 2 * BLOCK - 256, 2);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_DEVICE), 0);
	assert_int_equal(stats.nr_overwrites_saved, 2);
	test_space_close(&t);
}

/* Two uses of the same bytes: what one of them needs, the other one does not drop. */
static void test_space_bracket_overlapping_uses(void **state)
{
	static const enum weir_use_kind weak[] = {WEIR_OVERWRITE, WEIR_DISCARD};
	static const enum weir_use_kind strong[] = {WEIR_READ, WEIR_WRITE};
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	for (int i = 0; i < 8; i++) {
		struct weir_use uses[2];

		do_fill(&t, 0, a, 2 * BLOCK, 1);
		push_out(&t);
		uses[i & 1] = use_of(a, 2 * BLOCK, weak[i >> 1 & 1]);
		uses[~i & 1] = use_of(a + BLOCK, BLOCK, strong[i >> 2 & 1]);
		assert_int_equal(weir_begin(t.space, t.stream[0], uses, 2), 0);
		do_launch(&t, 0, a + BLOCK, BLOCK, strong[i >> 2 & 1], 1, 0);
		do_end(&t, 0);
		push_out(&t);
		do_expect(&t, 0, a + BLOCK, BLOCK, 1);
		do_sync(&t);
	}
	test_space_close(&t);
}

/* A discard of what was never used touches nothing; the structures stay sound meanwhile. */
static void test_space_bracket_discard_of_the_unused(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 3 * BLOCK, 0);
	do_discard(&t, 0, a, BLOCK);
	do_discard(&t, 0, a, 3 * BLOCK);
	do_fill(&t, 0, a, 3 * BLOCK, 1);
	do_expect(&t, 0, a, 3 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Freed inside the bracket that discards it: what comes to its address next keeps its contents. */
static void test_space_bracket_discard_of_the_freed(void **state)
{
	struct weir_use uses[2];
	struct test_space t;
	uint8_t *a, *b, *next;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_fill(&t, 0, b, BLOCK, 2);
	uses[0] = use_of(a, 2 * BLOCK, WEIR_DISCARD);
	uses[1] = use_of(b, BLOCK, WEIR_READ);
	assert_int_equal(weir_begin(t.space, t.stream[0], uses, 2), 0);
	do_check(&t);
	do_free(&t, a, 0);
	next = do_alloc(&t, 2 * BLOCK, 0);
	do_write(&t, next, 2 * BLOCK, 3);
	do_launch(&t, 0, b, BLOCK, WEIR_READ, 2, 0);
	do_end(&t, 0);
	push_out(&t);
	do_read(&t, next, 2 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_bracket_whole_space(void **state)
{
	uint8_t *a, *small, *range[3];
	struct test_space t;

	(void)state;
	open_default(&t);
	/* Nothing in it yet. */
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_end(&t, 0);
	small = do_alloc(&t, 512, 0);
	a = do_alloc(&t, BLOCK, 0);
	do_free(&t, a, 0);
	for (uint32_t i = 0; i < 3; i++) {
		range[i] = do_alloc(&t, (3 - i) * BLOCK, 0);
		do_fill(&t, 0, range[i], (3 - i) * BLOCK, 1 + i);
	}
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_check(&t);
	do_launch(&t, 0, small, 512, WEIR_OVERWRITE, 0, 9);
	for (uint32_t i = 0; i < 3; i++)
		do_launch(&t, 0, range[i], (3 - i) * BLOCK, WEIR_WRITE, 1 + i, 11 + i);
	do_end(&t, 0);
	do_sync(&t);
	do_read(&t, small, 512, 9);
	for (uint32_t i = 0; i < 3; i++)
		do_read(&t, range[i], (3 - i) * BLOCK, 11 + i);
	test_space_close(&t);
}

static void test_space_bracket_larger_than_the_budget(void **state)
{
	struct test_space t;
	struct weir_space_stats stats;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 10 * BLOCK, 0);
	do_fill(&t, 0, a, 10 * BLOCK, 1);
	for (uint32_t i = 1; i < 5; i++)
		do_change(&t, 0, a, 10 * BLOCK, i, i + 1);
	do_sync(&t);
	do_read(&t, a, 10 * BLOCK, 5);
	stats = get_stats(&t);
	assert_int_equal(stats.memory[GPU0].bytes, 4 * BLOCK);
	assert_true(get_bytes(&t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_INPLACE) >= 4 * 6 * BLOCK);
	/* What stays, stays: no block went round. */
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_DEVICE), 0);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ streams */

/* The host does not get so far ahead of the device that a stream is full. */
static void test_space_bracket_limits_the_host(void **state)
{
	uint64_t most = 0;
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 4 * BLOCK, 0);
	for (uint32_t i = 0; i < 1500; i++) {
		do_fill(&t, 0, a, 4 * BLOCK, i);
		most = MAX(most, t.space->last_seq - t.space->done_seq);
	}
	assert_true(most > 100 && most <= 480);
	do_read(&t, a, 4 * BLOCK, 1499);
	test_space_close(&t);
}

static void test_space_streams_share_a_range_they_read(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	do_begin(&t, 0, a, 2 * BLOCK, WEIR_READ);
	do_begin(&t, 1, a, 2 * BLOCK, WEIR_READ);
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_READ, 1, 0);
	do_launch(&t, 1, a, 2 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_end(&t, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* What an open bracket holds stays; another stream's bracket runs beside it, in place at need. */
static void test_space_streams_open_bracket_is_not_waited_for(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 6 * BLOCK, 1);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_begin(&t, 0, a, 4 * BLOCK, WEIR_WRITE);
	do_fill(&t, 1, b, 6 * BLOCK, 2);
	do_change(&t, 1, b, 6 * BLOCK, 2, 3);
	assert_int_equal(get_block_state(&t, b), BLOCK_HOST);
	do_launch(&t, 0, a, 4 * BLOCK, WEIR_WRITE, 1, 4);
	do_end(&t, 0);
	/* Now there is room, and b comes in. */
	do_change(&t, 1, b, 4 * BLOCK, 3, 5);
	do_sync(&t);
	assert_int_equal(get_block_state(&t, b), BLOCK_HBM);
	do_read(&t, a, 4 * BLOCK, 4);
	do_read(&t, b, 4 * BLOCK, 5);
	do_read(&t, b + 4 * BLOCK, 2 * BLOCK, 3);
	test_space_close(&t);
}

/* A block on the host that an open bracket holds is used there by other streams too. */
static void test_space_streams_block_held_in_place(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 1);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_sync(&t);
	/* b is resident now; a is in place while b is held. */
	do_begin(&t, 1, b, 4 * BLOCK, WEIR_READ);
	do_begin(&t, 0, a, 4 * BLOCK, WEIR_READ);
	do_launch(&t, 1, b, 4 * BLOCK, WEIR_READ, 2, 0);
	do_end(&t, 1);
	/* b could go now, but a is held where it is. */
	do_expect(&t, 1, a, 4 * BLOCK, 1);
	assert_int_equal(get_block_state(&t, a), BLOCK_HOST);
	do_launch(&t, 0, a, 4 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	test_space_close(&t);
}

/* Ends come in another order than the work is done. */
static void test_space_streams_short_work_behind_long(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, BLOCK, 0);
	b = do_alloc(&t, BLOCK, 1);
	do_fill(&t, 0, a, BLOCK, 1);
	do_fill(&t, 1, b, BLOCK, 2);
	do_begin(&t, 0, a, BLOCK, WEIR_WRITE);
	for (uint32_t i = 1; i < 20; i++)
		do_launch(&t, 0, a, BLOCK, WEIR_WRITE, i, i + 1);
	do_end(&t, 0);
	do_expect(&t, 1, b, BLOCK, 2);
	assert_int_equal(weir_stream_sync(t.stream[1]), 0);
	do_read(&t, b, BLOCK, 2);
	push_out(&t);
	do_read(&t, a, BLOCK, 20);
	do_sync(&t);
	test_space_close(&t);
}

/* A stream of a device that the space was made without: refused, and nothing is changed. */
static void test_space_streams_of_another_device(void **state)
{
	struct test_space t;
	struct weir_use use = {.bytes = 6 * BLOCK, .kind = WEIR_READ};

	(void)state;
	open_default(&t);
	use.addr = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, use.addr, 6 * BLOCK, 1);
	assert_int_equal(weir_begin(t.space, t.stream[TEST_OTHER], &use, 1), -EINVAL);
	assert_int_equal(weir_end(t.space, t.stream[TEST_OTHER]), -WEIR_ECONTRACT);
	do_check(&t);
	do_read(&t, use.addr, 6 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ traps */

static void expect_trap_once(struct test_space *t)
{
	assert_int_equal(weir_stream_sync(t->stream[0]), -WEIR_ETRAP);
	assert_int_equal(weir_stream_sync(t->stream[0]), 0);
	(void)!weir_space_sync(t->space);
	do_check(t);
}

static void test_space_trap_of_the_undeclared(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_fill(&t, 0, b, BLOCK, 2);
	do_sync(&t);
	/* outside any bracket */
	do_launch(&t, 0, a, BLOCK, WEIR_READ, 0, 0);
	expect_trap_once(&t);
	/* another range, another part, a stronger kind than declared */
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	do_launch(&t, 0, b, BLOCK, WEIR_READ, 0, 0);
	do_end(&t, 0);
	expect_trap_once(&t);
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_READ, 0, 0);
	do_end(&t, 0);
	expect_trap_once(&t);
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	do_launch(&t, 0, a, BLOCK, WEIR_WRITE, 0, 3);
	do_end(&t, 0);
	expect_trap_once(&t);
	do_begin(&t, 0, a, BLOCK, WEIR_DISCARD);
	do_launch(&t, 0, a, BLOCK, WEIR_READ, 0, 0);
	do_end(&t, 0);
	expect_trap_once(&t);
	/* What is right still works. */
	do_expect(&t, 0, a + BLOCK, BLOCK, 1);
	do_expect(&t, 0, b, BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_bracket_contract),
		cmocka_unit_test(test_space_bracket_partial_overwrite_is_a_write),
		cmocka_unit_test(test_space_bracket_overwrite_to_the_ragged_end),
		cmocka_unit_test(test_space_bracket_overlapping_uses),
		cmocka_unit_test(test_space_bracket_discard_of_the_unused),
		cmocka_unit_test(test_space_bracket_discard_of_the_freed),
		cmocka_unit_test(test_space_bracket_whole_space),
		cmocka_unit_test(test_space_bracket_larger_than_the_budget),
		cmocka_unit_test(test_space_bracket_limits_the_host),
		cmocka_unit_test(test_space_streams_share_a_range_they_read),
		cmocka_unit_test(test_space_streams_open_bracket_is_not_waited_for),
		cmocka_unit_test(test_space_streams_block_held_in_place),
		cmocka_unit_test(test_space_streams_short_work_behind_long),
		cmocka_unit_test(test_space_streams_of_another_device),
		cmocka_unit_test(test_space_trap_of_the_undeclared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
