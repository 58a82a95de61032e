/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discards that count from the begin of their bracket, on real bytes: what it overwrites takes the
 * chunks of what it discards, though launches still read that, and the plan counts on it.
 */
#include <stdlib.h>

#include "tests/unit/test_space_late.h"

/* ------------------------------------------------------------------ discards */

/* Blocks that a discard covers only partly are as alive as others, whatever takes the rest. */
static void test_space_discard_of_a_part_keeps_the_rest(void **state)
{
	static const struct {
		uint64_t offset, bytes;
	} row[] = {{256, X_BYTES - 256},
		   {0, X_BYTES - 256},
		   {BLOCK - 256, 3 * BLOCK + 512},
		   {BLOCK + 256, 3 * BLOCK},
		   {BLOCK, 4 * BLOCK}};

	(void)state;
	for (size_t n = 0; n < ARRAY_LEN(row); n++) {
		struct test_space t;

		open_scaled(&t, 1);
		for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
			uint8_t *x = do_alloc(&t, X_BYTES, 0), *y;
			uint64_t dead;
			uint8_t *part = x + row[n].offset, *end = part + row[n].bytes;

			do_fill(&t, 0, x, X_BYTES, 1000 + i);
			do_expect_late(&t, 0, x, X_BYTES, 1000 + i);
			y = do_alloc(&t, Y_BYTES, 0);
			dead = get_stats(&t).nr_dead_dropped;
			do_begin_discarding(&t, y, Y_BYTES, part, row[n].bytes);
			assert_true(i < WARM_UP || get_stats(&t).nr_dead_dropped > dead);
			do_fill_and_end(&t, y, Y_BYTES, 2000 + i);
			do_expect_late(&t, 0, y, Y_BYTES, 2000 + i);
			if (part > x)
				do_expect(&t, 0, x, row[n].offset, 1000 + i);
			if (end < x + X_BYTES)
				do_expect(&t, 0, end, (uint64_t)(x + X_BYTES - end), 1000 + i);
			do_free(&t, x, 0);
			do_free(&t, y, 0);
			do_sync(&t);
		}
		assert_true(has_plan(&t));
		test_space_close(&t);
	}
}

/* Contents that were discarded are anything; what holds them is as whole as ever. in_place: the
 * first use is not worth room in HBM, so that nothing but the held blocks is waited for. */
static void discard_then_use(uint32_t scale, bool poison, bool in_place)
{
	uint64_t x_bytes = X_BYTES * scale, y_bytes = Y_BYTES * scale;
	void *buffer = malloc(x_bytes);
	struct test_space *t;
	struct hand_over h;
	struct weir_use use;

	assert_non_null(buffer);
	open_hand_over(&h, scale, DISCARDED);
	t = &h.t;
	t->space->poison = poison;
	do_begin_birth(&h, 1);
	do_fill_and_end(t, h.y, y_bytes, 2);
	assert_true(get_stale(t, h.x) > 4 * scale);
	use = use_of(h.x, x_bytes, WEIR_READ);
	if (in_place)
		use.read_bytes = 8;
	do_begin_uses(t, 0, &use, 1);
	do_launch(t, 0, h.x, x_bytes, WEIR_READ, 0, 0);
	do_end(t, 0);
	do_change(t, 0, h.x, x_bytes, 0, 3);
	do_expect(t, 0, h.x, x_bytes, 3);
	do_expect(t, 0, h.y, y_bytes, 2);
	do_discard(t, 0, h.x, x_bytes);
	assert_int_equal(weir_read(t->space, buffer, h.x, x_bytes), 0);
	do_check(t);
	do_fill(t, 0, h.x, x_bytes, 4);
	do_begin_discarding(t, h.y, y_bytes, h.x, 2 * BLOCK);
	do_fill_and_end(t, h.y, y_bytes, 5);
	do_expect(t, 0, h.x + 2 * BLOCK, x_bytes - 2 * BLOCK, 4);
	do_expect(t, 0, h.y, y_bytes, 5);
	do_sync(t);
	do_read(t, h.y, y_bytes, 5);
	test_space_close(t);
	free(buffer);
}

static void test_space_discard_then_use_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		discard_then_use(i & 1 ? LARGE : 1, i & 2, i & 4);
}

/* Three ranges overwrite one another in turn, with two of them alive at a time: what was just
 * discarded, and is held, is overwritten next. */
static void test_space_discard_in_turn(void **state)
{
	uint64_t bytes = X_BYTES / 2;
	uint32_t nr_held = 0;
	struct test_space t;
	uint8_t *a[3];

	(void)state;
	open_scaled(&t, 1);
	for (int n = 0; n < 3; n++)
		a[n] = do_alloc(&t, bytes, 0);
	do_fill(&t, 0, a[0], bytes, 1);
	do_fill(&t, 0, a[1], bytes, 2);
	for (uint32_t i = 1; i < 4 * WARM_UP; i++) {
		uint8_t *oldest = a[(i + 2) % 3], *newest = a[(i + 1) % 3];

		do_expect_late(&t, 0, oldest, bytes, i);
		do_begin_discarding(&t, newest, bytes, oldest, bytes);
		do_fill_and_end(&t, newest, bytes, i + 2);
		nr_held += get_stale(&t, oldest);
		if (i % 3 == 0)
			do_sync(&t);
	}
	assert_true(has_plan(&t));
	assert_true(nr_held > WARM_UP / 2);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ the plan */

/*
 * Blocks that cross the link in so many iterations, once they are known; *out: copied out. The more
 * events there are in one, the farther on in it does the plan's period begin.
 */
static uint64_t run_loop(enum death death, uint32_t nr_more_events, uint64_t *out)
{
	struct hand_over h = {.death = death, .x_bytes = 5 * BLOCK, .y_bytes = 4 * BLOCK};
	uint64_t crossed = 0;
	uint8_t *small;

	open_scaled(&h.t, 1);
	small = do_alloc(&h.t, 256, 0); /* a block that does not move */
	do_fill(&h.t, 0, small, 256, 1);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		if (i == WARM_UP) {
			crossed = get_crossed(&h.t);
			*out = get_out(&h.t);
		}
		do_begin_birth(&h, 1000 + i);
		do_end_birth(&h, 2000 + i);
		do_die(&h, 2000 + i);
		for (uint32_t n = 0; n < nr_more_events; n++)
			do_expect(&h.t, 0, small, 256, 1);
		do_sync(&h.t);
	}
	crossed = get_crossed(&h.t) - crossed;
	*out = get_out(&h.t) - *out;
	assert_true(has_plan(&h.t));
	assert_int_equal(get_stats(&h.t).nr_divergences, 0);
	test_space_close(&h.t);
	return crossed;
}

/* The plan knows that a life ends with its discard, wherever in the life its period begins. */
static void test_space_discard_leaves_room_in_the_plan(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 10; n++) {
		uint64_t out;

		assert_int_equal(run_loop(DISCARDED, n, &out), 0);
		(void)run_loop(FREED_LATE, n, &out);
		assert_true(out >= WARM_UP);
	}
}

/* What another open bracket names, and still writes, keeps its contents. */
static void test_space_discard_beside_an_open_bracket(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a, *other;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, 3 * BLOCK, 0);
	other = do_alloc(&t, 4 * BLOCK, 0);
	use = use_of(a, BLOCK, WEIR_WRITE);
	do_begin(&t, 0, a + BLOCK, 2 * BLOCK, WEIR_WRITE);
	do_discard(&t, 1, a, 3 * BLOCK);
	do_launch(&t, 0, a + BLOCK, 2 * BLOCK, WEIR_WRITE, 0, 1);
	do_end(&t, 0);
	do_sync(&t);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	do_discard(&t, 0, a, BLOCK);
	pattern_put(a, a, BLOCK, 2);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	do_fill(&t, 0, other, 4 * BLOCK, 3);
	do_sync(&t);
	do_expect(&t, 0, a + BLOCK, 2 * BLOCK, 1);
	do_expect(&t, 0, a, BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

/*
 * What dies is overwritten, and the plan wants less of it than it has: a chunk that a copy for a
 * read-mostly range still reads is not given back before the copy is done.
 */
static void test_space_death_while_it_is_cleaned(void **state)
{
	(void)state;
	for (uint32_t discards = 0; discards < 2; discards++) {
		uint64_t bytes = 3 * BLOCK;
		struct test_space t;

		test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6, 40);
		for (uint32_t i = 0; i < 3 * WARM_UP; i++) {
			uint8_t *x = do_alloc(&t, bytes, 0), *z;

			assert_int_equal(weir_advise(t.space, x, WEIR_ADVISE_READ_MOSTLY, 0), 0);
			do_fill(&t, 0, x, bytes, 100 + i);
			do_expect(&t, 0, x, bytes, 100 + i);
			assert_int_equal(weir_stream_sync(t.stream[0]), 0);
			if (discards) {
				do_discard(&t, 0, x, bytes);
			} else {
				do_free(&t, x, 0);
				x = do_alloc(&t, bytes, 0);
			}
			do_fill(&t, 0, x, bytes, 200 + i);
			z = do_alloc(&t, 4 * BLOCK, 0);
			do_fill(&t, 0, z, 4 * BLOCK, 300 + i);
			for (int k = 0; k < 3; k++)
				do_change(&t, 0, z, 4 * BLOCK, 300 + i, 300 + i);
			do_expect(&t, 0, x, bytes, 200 + i);
			do_free(&t, z, 0);
			do_free(&t, x, 0);
		}
		do_sync(&t);
		test_space_close(&t);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_discard_beside_an_open_bracket),
		cmocka_unit_test(test_space_death_while_it_is_cleaned),
		cmocka_unit_test(test_space_discard_of_a_part_keeps_the_rest),
		cmocka_unit_test(test_space_discard_then_use_at_once),
		cmocka_unit_test(test_space_discard_in_turn),
		cmocka_unit_test(test_space_discard_leaves_room_in_the_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
