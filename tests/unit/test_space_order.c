/* SPDX-License-Identifier: Apache-2.0 */
/* The order of brackets on several streams, and of what comes after them: calls are the order. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_space_late.h"

/* Device time that a stream is kept busy for. */
#define LONG_NS 10000000u

#define HALF (BLOCK / 2)

static int setup(void **state)
{
	struct test_space *t = malloc(sizeof(*t));

	assert_non_null(t);
	test_space_open_devices(t, BLOCK, 8, 8, 16);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	test_space_close(*state);
	free(*state);
	return 0;
}

/* A bracket whose kernel runs long after it has ended for the program. */
static void late(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
		 enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	do_begin(t, stream, addr, bytes, kind);
	do_spin(t, stream, LONG_NS);
	do_launch(t, stream, addr, bytes, kind, expect, put);
	do_end(t, stream);
}

/* A bracket at once: whether the host waited for anything. */
static bool waits(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
		  enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	uint64_t before = get_stats(t).nr_waits;

	do_begin(t, stream, addr, bytes, kind);
	do_launch(t, stream, addr, bytes, kind, expect, put);
	do_end(t, stream);
	return get_stats(t).nr_waits != before;
}

static void test_order_read_after_write(void **state)
{
	struct test_space *t = *state;
	void *a = do_alloc(t, 2 * BLOCK, 0);

	late(t, 0, a, 2 * BLOCK, WEIR_OVERWRITE, 0, 1);
	assert_false(waits(t, 1, a, 2 * BLOCK, WEIR_READ, 1, 0));
	late(t, 1, a, 2 * BLOCK, WEIR_WRITE, 1, 2);
	/* One byte in common is enough, and another device is no exception. */
	assert_false(waits(t, TEST_OTHER, (char *)a + BLOCK, BLOCK, WEIR_READ, 2, 0));
	do_sync(t);
}

static void test_order_write_after_read_and_write(void **state)
{
	struct test_space *t = *state;
	void *a = do_alloc(t, 2 * BLOCK, 0);

	do_fill(t, 0, a, 2 * BLOCK, 1);
	late(t, 0, a, 2 * BLOCK, WEIR_READ, 1, 0);
	assert_false(waits(t, 1, a, 2 * BLOCK, WEIR_OVERWRITE, 0, 2));
	late(t, 1, a, 2 * BLOCK, WEIR_WRITE, 2, 3);
	assert_false(waits(t, 0, a, 2 * BLOCK, WEIR_WRITE, 3, 4));
	do_expect(t, 0, a, 2 * BLOCK, 4);
	do_sync(t);
}

/* Until when a stream is busy with its own work, beside a stream that is for long. */
static uint64_t beside_ns(struct test_space *t, uint32_t stream)
{
	uint64_t start = weir_machine_now_ns(t->machine);

	assert_int_equal(weir_stream_sync(t->stream[stream]), 0);
	return weir_machine_now_ns(t->machine) - start;
}

/* What does not conflict has no order: readers, and writers of other bytes of the same block. */
static void test_order_of_what_does_not_conflict(void **state)
{
	struct test_space *t = *state;
	char *a = do_alloc(t, BLOCK, 0);

	assert_int_equal(weir_advise(t->space, a, WEIR_ADVISE_ACCESSED_BY, 1), 0);
	do_fill(t, 0, a, BLOCK, 1);
	do_sync(t);
	late(t, 0, a, BLOCK, WEIR_READ, 1, 0);
	assert_false(waits(t, TEST_OTHER, a, BLOCK, WEIR_READ, 1, 0));
	assert_true(beside_ns(t, TEST_OTHER) < LONG_NS / 2);
	assert_true(beside_ns(t, 0) > LONG_NS / 4);
	late(t, 0, a, BLOCK / 2, WEIR_WRITE, 1, 2);
	assert_false(waits(t, TEST_OTHER, a + BLOCK / 2, BLOCK / 2, WEIR_WRITE, 1, 3));
	assert_true(beside_ns(t, TEST_OTHER) < LONG_NS / 2);
	do_sync(t);
	do_expect(t, 0, a, BLOCK / 2, 2);
	do_expect(t, 0, a + BLOCK / 2, BLOCK / 2, 3);
	do_sync(t);
}

/* Of each stream the newest bracket that conflicts counts, however many others come after it. */
static void test_order_behind_several_streams(void **state)
{
	struct test_space *t = *state;
	void *a = do_alloc(t, BLOCK, 0), *b = do_alloc(t, BLOCK, 1), *other = do_alloc(t, BLOCK, 0);
	struct weir_use uses[2];

	late(t, 0, a, BLOCK, WEIR_OVERWRITE, 0, 1);
	late(t, 1, b, BLOCK, WEIR_OVERWRITE, 0, 2);
	late(t, 0, a, BLOCK, WEIR_WRITE, 1, 3);
	for (uint32_t i = 0; i < 20; i++)
		do_fill(t, i % 2, other, BLOCK, 10 + i);
	uses[0] = use_of(a, BLOCK, WEIR_READ);
	uses[1] = use_of(b, BLOCK, WEIR_READ);
	do_begin_uses(t, TEST_OTHER, uses, 2);
	do_launch(t, TEST_OTHER, a, BLOCK, WEIR_READ, 3, 0);
	do_launch(t, TEST_OTHER, b, BLOCK, WEIR_READ, 2, 0);
	do_end(t, TEST_OTHER);
	do_expect(t, TEST_OTHER, other, BLOCK, 29);
	do_sync(t);
}

/* The bracket that names the whole space comes after all others, and before. */
static void test_order_whole_space(void **state)
{
	struct test_space *t = *state;
	void *a = do_alloc(t, BLOCK, 0);

	late(t, 0, a, BLOCK, WEIR_OVERWRITE, 0, 1);
	assert_int_equal(weir_begin(t->space, t->stream[1], NULL, 0), 0);
	do_spin(t, 1, LONG_NS);
	do_launch(t, 1, a, BLOCK, WEIR_WRITE, 1, 2);
	do_end(t, 1);
	assert_false(waits(t, TEST_OTHER, a, BLOCK, WEIR_READ, 2, 0));
	do_sync(t);
}

/* More pairs of uses than are compared: in order all the same. */
static void test_order_of_many_uses(void **state)
{
	enum { NR = 128 };
	struct test_space *t = *state;
	char *a = do_alloc(t, BLOCK, 0);
	struct weir_use uses[NR];

	do_fill(t, 0, a, BLOCK, 1);
	for (uint32_t i = 0; i < NR; i++)
		uses[i] = use_of(a + i * (BLOCK / NR), BLOCK / NR / 2, WEIR_WRITE);
	for (uint32_t n = 0; n < 8; n++) {
		do_begin_uses(t, 0, uses, NR);
		do_spin(t, 0, LONG_NS / 8);
		do_launch(t, 0, a, BLOCK / NR / 2, WEIR_WRITE, 1 + n, 2 + n);
		do_end(t, 0);
	}
	for (uint32_t i = 1; i < NR; i++)
		uses[i].addr = (char *)uses[i].addr + BLOCK / NR / 2;
	do_begin_uses(t, 1, uses, NR);
	do_launch(t, 1, a, BLOCK / NR / 2, WEIR_READ, 9, 0);
	do_end(t, 1);
	do_sync(t);
}

/* ------------------------------------------------------------------ addresses that are used
 * again */

/* Freed and allocated elsewhere: no call waits, and the device does. */
static void test_order_of_lives(void **state)
{
	struct test_space *t = *state;
	char *a = do_alloc(t, 2 * BLOCK, 0), *small = do_alloc(t, 512, 0),
	     *keep = do_alloc(t, 256, 0);
	bracket_seq_t done;

	do_fill(t, 0, a, 2 * BLOCK, 1);
	do_fill(t, 0, small, 512, 2);
	do_fill(t, 0, keep, 256, 3);
	do_expect(t, 1, a, 2 * BLOCK, 1);
	do_sync(t);
	/* Begun before, on another stream than the one that frees. */
	do_begin(t, 0, a, 2 * BLOCK, WEIR_READ);
	do_spin(t, 0, LONG_NS);
	do_launch(t, 0, a, 2 * BLOCK, WEIR_READ, 1, 0);
	do_free(t, a, 1);
	do_end(t, 0);
	late(t, 0, small, 512, WEIR_READ, 2, 0);
	do_free(t, small, 1);
	done = t->space->done_seq;
	assert_ptr_equal(do_alloc(t, 2 * BLOCK, 1), a);
	assert_ptr_equal(do_alloc(t, 512, 1), small);
	assert_false(waits(t, 1, a, 2 * BLOCK, WEIR_OVERWRITE, 0, 4));
	assert_false(waits(t, 1, small, 512, WEIR_OVERWRITE, 0, 5));
	/* A piece beside it was not freed, and waits for nobody. */
	assert_false(waits(t, 1, keep, 256, WEIR_READ, 3, 0));
	assert_int_equal(t->space->done_seq, done);
	do_expect(t, 0, a, 2 * BLOCK, 4);
	do_expect(t, 0, small, 512, 5);
	do_sync(t);
}

/* A free while another call sleeps counts for who allocates next. */
static void test_order_of_a_piece_freed_twice(void **state)
{
	struct test_space *t = *state;
	char *a = do_alloc(t, 256, 0), *b = do_alloc(t, 256, 1);

	do_fill(t, 0, a, 256, 1);
	do_fill(t, 1, b, 256, 2);
	late(t, 0, a, 256, WEIR_READ, 1, 0);
	do_free(t, a, 0);
	late(t, 1, b, 256, WEIR_READ, 2, 0);
	do_free(t, b, 1);
	/* They lie together now; who gets both comes after both. */
	assert_ptr_equal(do_alloc(t, 512, 2), a);
	assert_false(waits(t, TEST_OTHER, a, 512, WEIR_OVERWRITE, 0, 3));
	do_sync(t);
}

/* In a fixed space launches have no brackets: the stream that is named at the allocation comes
 * after the one that was named at the free. */
static void test_order_fixed(void **state)
{
	static const uint64_t bytes[] = {2 * BLOCK, 512};
	struct test_space *t = *state;
	bracket_seq_t done;
	void *again;
	char *a;

	assert_int_equal(weir_space_set_mode(t->space, WEIR_FIXED), 0);
	(void)do_alloc(t, 4096, 0); /* so that the other piece lies beyond its own size */
	for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
		a = do_alloc(t, bytes[i], 0);
		do_launch(t, 0, a, bytes[i], WEIR_OVERWRITE, 0, 1);
		do_spin(t, 0, LONG_NS);
		do_launch(t, 0, a, bytes[i], WEIR_READ, 1, 0);
		do_free(t, a, 0);
		done = t->space->done_seq;
		assert_ptr_equal(do_alloc(t, bytes[i], 1), a);
		assert_int_equal(t->space->done_seq, done);
		do_launch(t, 1, a, bytes[i], WEIR_OVERWRITE, 0, 2);
		do_spin(t, 1, LONG_NS);
		do_launch(t, 1, a, bytes[i], WEIR_READ, 2, 0);
		do_free(t, a, 1);
		/* Nobody says where it is used: everywhere. */
		assert_int_equal(weir_alloc(t->space, bytes[i], NULL, &again), 0);
		assert_ptr_equal(again, a);
		do_launch(t, 0, a, bytes[i], WEIR_OVERWRITE, 0, 3);
		do_sync(t);
		/* Nobody says that it is in use: it is not. */
		do_launch(t, 1, a, bytes[i], WEIR_READ, 3, 0);
		assert_int_equal(weir_free(t->space, a, NULL), 0);
		do_sync(t);
	}
}

/* There is room for the ends of brackets that are open, whatever is freed meanwhile. */
static void test_order_has_room_for_open_brackets(void **state)
{
	enum { NR = 256 }; /* entries for brackets that ended, at first */
	struct test_space *t = *state;
	void *a = do_alloc(t, BLOCK, 0), *piece[NR];

	assert_int_equal(weir_space_set_mode(t->space, WEIR_FIXED), 0);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(weir_alloc(t->space, 256, t->stream[0], &piece[i]), 0);
	for (uint32_t s = 0; s < TEST_STREAMS; s++)
		do_begin(t, s, a, BLOCK, WEIR_READ);
	do_spin(t, 0, LONG_NS);
	for (uint32_t i = 0; i < NR; i++)
		do_free(t, piece[i], 0);
	assert_true(t->space->last_seq - t->space->done_seq >= NR);
	for (uint32_t s = 0; s < TEST_STREAMS; s++)
		do_end(t, s);
	do_sync(t);
}

/* The oldest of many freed ranges is not let go while a bracket that named a part of it runs. */
static void test_order_keeps_ranges_in_use(void **state)
{
	enum { NR = 1026 };
	uint64_t block = KIB(4);
	void *range[NR], *other;
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, block, 1100, 1100);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(weir_alloc(t.space, 2 * block, t.stream[0], &range[i]), 0);
	late(&t, 0, range[0], block, WEIR_OVERWRITE, 0, 1);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(weir_free(t.space, range[i], t.stream[0]), 0);
	assert_int_equal(weir_alloc(t.space, 3 * block, t.stream[1], &other), 0);
	/* Its address may be another's by now, but that is not pooled. */
	assert_non_null(range_find(t.space, range[0]));
	assert_true(range_find(t.space, range[0])->pooled);
	assert_int_equal(t.space->nr_ranges, NR);
	do_fill(&t, 1, other, 3 * block, 2);
	test_space_close(&t);
}

static void test_order_by_the_program(void **state)
{
	struct test_space *t = *state, other;
	void *a;

	assert_int_equal(weir_space_set_mode(t->space, WEIR_FIXED), 0);
	a = do_alloc(t, BLOCK, 0);
	assert_int_equal(weir_advise(t->space, a, WEIR_ADVISE_ACCESSED_BY, 1), 0);
	do_spin(t, 0, LONG_NS);
	do_launch(t, 0, a, BLOCK, WEIR_OVERWRITE, 0, 1);
	assert_int_equal(weir_stream_wait(t->stream[TEST_OTHER], t->stream[0]), 0);
	assert_int_equal(weir_stream_wait(t->stream[TEST_OTHER], t->stream[TEST_OTHER]), 0);
	do_launch(t, TEST_OTHER, a, BLOCK, WEIR_READ, 1, 0);
	do_sync(t);
	test_machine_open(&other, WEIR_DATA_PHANTOM);
	assert_int_equal(weir_stream_wait(t->stream[0], other.stream[0]), -EINVAL);
	test_machine_close(&other);
}

/* ------------------------------------------------------------------ open together */

static void test_order_beside_the_cpu(void **state)
{
	struct test_space *t = *state;
	char *a = do_alloc(t, 2 * BLOCK, 0);
	struct weir_use read = use_of(a, BLOCK + 8, WEIR_READ), use = read, write;

	do_fill(t, 0, a, 2 * BLOCK, 1);
	assert_int_equal(weir_host_begin(t->space, &read, 1), 0);
	/* Who reads, reads; who writes other bytes, does; a discard beside it loses nothing. */
	do_expect(t, 0, a, 2 * BLOCK, 1);
	do_change(t, 0, a + BLOCK + 8, BLOCK - 8, 1, 2);
	do_discard(t, 0, a, 2 * BLOCK);
	for (use.kind = WEIR_WRITE; use.kind <= WEIR_OVERWRITE; use.kind++)
		assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), -EBUSY);
	assert_int_equal(weir_begin(t->space, t->stream[0], NULL, 0), -EBUSY);
	do_check(t);
	assert_int_equal(pattern_wrong(a, a, BLOCK + 8, 1), 0);
	assert_int_equal(weir_host_end(t->space, &read, 1), 0);
	write = use_of(a, 8, WEIR_WRITE);
	assert_int_equal(weir_host_begin(t->space, &write, 1), 0);
	assert_int_equal(weir_begin(t->space, t->stream[0], &read, 1), -EBUSY);
	use = use_of(a + 8, BLOCK, WEIR_READ);
	do_begin_uses(t, 0, &use, 1);
	do_end(t, 0);
	/* As it was begun, and once. */
	assert_int_equal(weir_host_end(t->space, &read, 1), -WEIR_ECONTRACT);
	write.kind = WEIR_READ;
	assert_int_equal(weir_host_end(t->space, &write, 1), -WEIR_ECONTRACT);
	write.kind = WEIR_WRITE;
	assert_int_equal(weir_host_end(t->space, &write, 1), 0);
	assert_int_equal(weir_host_end(t->space, &write, 1), -WEIR_ECONTRACT);
	do_sync(t);
}

/* On two streams at a time: trapped where bytes meet, whichever launches first, and only there. */
static void test_order_open_together(void **state)
{
	static const struct {
		uint64_t offset;
		enum weir_use_kind first, second;
		bool trapped;
	} cases[] = {
		{0, WEIR_READ, WEIR_READ, false},
		{0, WEIR_WRITE, WEIR_READ, true},
		{0, WEIR_READ, WEIR_OVERWRITE, true},
		{0, WEIR_WRITE, WEIR_DISCARD, false},
		{HALF - 256, WEIR_WRITE, WEIR_WRITE, true},
		{HALF, WEIR_WRITE, WEIR_WRITE, false}, /* they share the block alone */
	};
	struct test_space *t = *state;
	char *a = do_alloc(t, BLOCK, 0);

	do_fill(t, 0, a, BLOCK, 1);
	do_sync(t);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool touches = cases[i].second != WEIR_DISCARD;

		do_begin(t, 0, a, HALF, cases[i].first);
		do_begin(t, 1, a + cases[i].offset, HALF, cases[i].second);
		do_launch(t, 0, a, HALF, cases[i].first, 0, 0);
		if (touches)
			do_launch(t, 1, a + cases[i].offset, HALF, cases[i].second, 0, 0);
		do_end(t, 0);
		do_end(t, 1);
		assert_int_equal(weir_stream_sync(t->stream[1]),
				 cases[i].trapped ? -WEIR_ETRAP : 0);
		assert_int_equal(weir_stream_sync(t->stream[0]), 0);
		assert_int_equal(weir_space_sync(t->space), 0);
		/* One after the other they may. */
		if (touches) {
			late(t, 0, a, HALF, cases[i].first, 0, 0);
			late(t, 1, a + cases[i].offset, HALF, cases[i].second, 0, 0);
		}
		do_sync(t);
	}
}

#define order_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		order_test(test_order_read_after_write),
		order_test(test_order_write_after_read_and_write),
		order_test(test_order_of_what_does_not_conflict),
		order_test(test_order_behind_several_streams),
		order_test(test_order_whole_space),
		order_test(test_order_of_many_uses),
		order_test(test_order_of_lives),
		order_test(test_order_of_a_piece_freed_twice),
		order_test(test_order_fixed),
		order_test(test_order_has_room_for_open_brackets),
		cmocka_unit_test(test_order_keeps_ranges_in_use),
		order_test(test_order_by_the_program),
		order_test(test_order_beside_the_cpu),
		order_test(test_order_open_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
