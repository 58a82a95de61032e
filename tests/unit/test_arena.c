/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations below one block: first fit, merging, frees that wait for a bracket, the checker. */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)
#define PIECES (BLOCK / SPACE_SMALL_ALIGN)

static int setup(void **state)
{
	struct test_space *t = malloc(sizeof(*t));

	assert_non_null(t);
	test_space_open(t, WEIR_DATA_PHANTOM, WEIR_PLANNED, BLOCK, 4, 8);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	test_space_close(*state);
	free(*state);
	return 0;
}

static uint8_t *cut(struct test_space *t, uint64_t bytes)
{
	void *addr = NULL;

	assert_int_equal(weir_alloc(t->space, bytes, t->stream[0], &addr), 0);
	assert_int_equal((uintptr_t)addr % SPACE_SMALL_ALIGN, 0);
	do_check(t);
	return addr;
}

static int give_try(struct test_space *t, void *addr)
{
	int err = weir_free(t->space, addr, t->stream[0]);

	do_check(t);
	return err;
}

static void give(struct test_space *t, void *addr)
{
	assert_int_equal(give_try(t, addr), 0);
}

static void test_arena_first_fit(void **state)
{
	struct test_space *t = *state;
	uint8_t *a = cut(t, 1), *b = cut(t, 256), *c = cut(t, 257), *d = cut(t, 1024);

	assert_ptr_equal(b, a + 256);
	assert_ptr_equal(c, b + 256);
	assert_ptr_equal(d, c + 512);
	give(t, a);
	give(t, c);
	assert_ptr_equal(cut(t, 512), c);
	assert_ptr_equal(cut(t, 200), a);
	assert_ptr_equal(cut(t, 200), d + 1024);
}

static void test_arena_merges_neighbours(void **state)
{
	struct test_space *t = *state;
	uint8_t *piece[4], *rest;

	for (int i = 0; i < 4; i++)
		piece[i] = cut(t, 256);
	rest = cut(t, BLOCK - 1024);
	/* in an order that merges on the left, on the right, and on both sides */
	give(t, piece[1]);
	give(t, piece[0]);
	give(t, piece[3]);
	give(t, piece[2]);
	assert_ptr_equal(cut(t, 1024), piece[0]);
	give(t, piece[0]);
	give(t, rest);
	/* Empty, it is a freed range, which can be the next arena. */
	assert_true(range_find(t->space, rest)->pooled);
	assert_int_equal(get_stats(t).live_bytes, 0);
	assert_ptr_equal(cut(t, BLOCK - 1), piece[0]);
	assert_int_equal(t->space->nr_ranges, 1);
}

static void test_arena_full_makes_another(void **state)
{
	struct test_space *t = *state;
	uint8_t *first[PIECES], *other;

	for (uint32_t i = 0; i < PIECES; i++) {
		first[i] = cut(t, 256);
		assert_ptr_equal(first[i], first[0] + 256 * i);
	}
	other = cut(t, 256);
	assert_ptr_not_equal(range_find(t->space, other), range_find(t->space, first[0]));
	/* What is too large for any hole goes to the other one. */
	for (uint32_t i = 0; i < PIECES; i += 2)
		give(t, first[i]);
	assert_ptr_equal(cut(t, 257), other + 256);
}

static void test_arena_find(void **state)
{
	struct test_space *t = *state;
	uint8_t *a = cut(t, 256), *b = cut(t, 700);
	struct range *range = range_find(t->space, a);
	uint64_t offset = 77;

	assert_true(arena_find(range, b, &offset) >= 700);
	assert_int_equal(offset, 256);
	assert_true(arena_find(range, b + 699, &offset) >= 700);
	assert_int_equal(offset, 256);
	assert_int_equal(arena_find(range, b + 768, &offset), 0);
	give(t, a);
	assert_int_equal(arena_find(range, a, &offset), 0);
	assert_int_equal(offset, 256);
}

static void test_arena_free_errors(void **state)
{
	struct test_space *t = *state;
	uint8_t *a = cut(t, 600);

	assert_int_equal(give_try(t, a + 256), -EINVAL);
	assert_int_equal(give_try(t, a + 1), -EINVAL);
	assert_int_equal(give_try(t, a + 768), -EINVAL);
	give(t, a);
	assert_int_equal(give_try(t, a), -EINVAL);
}

/* What is freed while a bracket holds the arena is cut again when none does. */
static void test_arena_free_waits_for_the_bracket(void **state)
{
	struct test_space *t = *state;
	uint8_t *a = cut(t, 256), *b = cut(t, 256), *c;
	struct weir_use use = use_of(b, 256, WEIR_OVERWRITE);
	struct range *range = range_find(t->space, a);
	uint64_t offset;

	do_begin(t, 0, a, 256, WEIR_OVERWRITE);
	give(t, a);
	assert_int_equal(give_try(t, a), -EINVAL);
	assert_int_equal(arena_find(range, a, &offset), 0);
	assert_ptr_equal(cut(t, 256), b + 256);
	do_end(t, 0);
	assert_ptr_equal(cut(t, 256), a);
	/* The CPU's, too, whose own piece can be freed and the bracket ended. */
	assert_int_equal(weir_host_begin(t->space, &use, 1), 0);
	give(t, b);
	c = cut(t, 256);
	assert_ptr_equal(c, b + 512);
	assert_int_equal(weir_host_end(t->space, &use, 1), 0);
	assert_ptr_equal(cut(t, 256), b);
	assert_int_equal(weir_space_set_mode(t->space, WEIR_FIXED), 0);
}

/* The last piece freed inside a bracket: the arena goes with the bracket. */
static void test_arena_emptied_in_a_bracket(void **state)
{
	struct test_space *t = *state;
	uint8_t *a = cut(t, 256);
	struct weir_use use = use_of(a, 256, WEIR_OVERWRITE);

	do_begin(t, 0, a, 256, WEIR_OVERWRITE);
	give(t, a);
	assert_int_equal(get_stats(t).live_bytes, BLOCK);
	do_end(t, 0);
	assert_int_equal(get_stats(t).live_bytes, 0);
	assert_ptr_equal(cut(t, 256), a);
	assert_int_equal(weir_host_begin(t->space, &use, 1), 0);
	give(t, a);
	assert_int_equal(weir_host_end(t->space, &use, 1), 0);
	assert_int_equal(get_stats(t).live_bytes, 0);
}

/* Allocating and freeing for ever takes no more ranges than are there at a time. */
static void test_arena_churn_keeps_no_ranges(void **state)
{
	struct test_space *t = *state;

	for (int i = 0; i < 2000; i++)
		give(t, cut(t, 256));
	assert_int_equal(t->space->nr_ranges, 1);
}

/* Against a map of the pieces: nothing overlaps, nothing is lost. */
static void test_arena_random(void **state)
{
	struct test_space *t = *state;
	struct test_random random = {2025};
	uint8_t *addr[40] = {NULL};
	uint64_t bytes[40] = {0};

	for (int step = 0; step < 5000; step++) {
		uint32_t i = random_below(&random, 40);

		if (addr[i]) {
			give(t, addr[i]);
			addr[i] = NULL;
			continue;
		}
		bytes[i] = 1 + random_below(&random, step % 3 ? 600 : 6000);
		if (weir_alloc(t->space, bytes[i], t->stream[0], (void **)&addr[i])) {
			addr[i] = NULL;
			continue;
		}
		for (uint32_t n = 0; n < 40; n++)
			if (n != i && addr[n])
				assert_true(addr[i] + bytes[i] <= addr[n] ||
					    addr[n] + bytes[n] <= addr[i]);
		do_check(t);
	}
	for (uint32_t i = 0; i < 40; i++)
		if (addr[i])
			give(t, addr[i]);
	assert_int_equal(get_stats(t).live_bytes, 0);
}

#define arena_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		arena_test(test_arena_first_fit),
		arena_test(test_arena_merges_neighbours),
		arena_test(test_arena_full_makes_another),
		arena_test(test_arena_find),
		arena_test(test_arena_free_errors),
		arena_test(test_arena_free_waits_for_the_bracket),
		arena_test(test_arena_emptied_in_a_bracket),
		arena_test(test_arena_churn_keeps_no_ranges),
		arena_test(test_arena_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
