/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that change hands while launches still use them, on real bytes. In most programs here HBM
 * is full, something dies or is evicted while a launch that reads it is queued behind a long one,
 * and something else is born: the reading launch finds what it should though its chunks have gone,
 * and the device does not wait.
 */
#include "tests/unit/test_space_late.h"

/* ------------------------------------------------------------------ what dies */

static void take_while_it_is_read(enum death death)
{
	struct hand_over h;

	open_hand_over(&h, 1, death);
	for (uint32_t i = WARM_UP; i < WARM_UP + 8; i++) {
		uint64_t waits = get_stats(&h.t).nr_waits, dead = get_stats(&h.t).nr_dead_dropped;
		uint64_t crossed = get_crossed(&h.t);
		fence_t filled;

		do_begin_birth(&h, 1000 + i);
		/* All of y's chunks were x's, and x's launch has not even begun. */
		assert_false(is_reached(&h.t, h.read));
		assert_int_equal(get_stale(&h.t, h.x), 5);
		assert_int_equal(h.t.space->nr_stale, 5);
		assert_true(get_stats(&h.t).nr_dead_dropped >= dead + 5);
		do_launch(&h.t, 0, h.y, h.y_bytes, WEIR_OVERWRITE, 0, 2000 + i);
		filled = get_fence(&h.t, 0);
		do_end_birth(&h, 2000 + i);
		do_die(&h, 2000 + i);
		do_sync(&h.t);
		assert_int_equal(h.t.space->nr_stale, 0);
		assert_int_equal(get_stats(&h.t).nr_waits, waits);
		assert_int_equal(get_crossed(&h.t), crossed);
		/* Nothing between the two launches; mapping alone takes 100 us. */
		assert_in_range(h.t.backend->observe->fence_time_ns(h.t.backend, filled) -
					h.t.backend->observe->fence_time_ns(h.t.backend, h.read),
				500, 2000);
	}
	assert_int_equal(get_stats(&h.t).nr_divergences, 0);
	test_space_close(&h.t);
}

static void test_space_take_while_it_is_read(void **state)
{
	(void)state;
	take_while_it_is_read(FREED);
	take_while_it_is_read(DISCARDED);
}

/* A range with a copy on the host. */
static uint8_t *do_alloc_clean(struct test_space *t, uint64_t bytes, uint32_t seed)
{
	uint8_t *addr = do_alloc(t, bytes, 0);

	do_write(t, addr, bytes, seed);
	assert_int_equal(weir_prefetch(t->space, addr, bytes, HOST, NULL), 0);
	do_sync(t);
	assert_int_equal(weir_prefetch(t->space, addr, bytes, GPU0, NULL), 0);
	do_sync(t);
	assert_int_equal(range_find(t->space, addr)->nr_clean, bytes / BLOCK);
	return addr;
}

/* A range that is written, read late, and freed at once. */
static uint8_t *do_live_and_die(struct test_space *t, uint64_t bytes, uint32_t seed)
{
	uint8_t *x = do_alloc(t, bytes, 0);

	do_fill(t, 0, x, bytes, seed);
	do_expect_late(t, 0, x, bytes, seed);
	do_free(t, x, 0);
	return x;
}

/* What the bracket reads, or the next one, keeps its chunks though it is clean. */
static void test_space_take_nothing_that_is_needed(void **state)
{
	struct test_space t;
	uint8_t *now, *next;

	(void)state;
	open_scaled(&t, 1);
	now = do_alloc_clean(&t, BLOCK, 3);
	next = do_alloc_clean(&t, BLOCK, 4);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		uint8_t *x = do_live_and_die(&t, 4 * BLOCK, 1000 + i);
		uint8_t *y = do_alloc(&t, 3 * BLOCK, 0);
		struct weir_use uses[2] = {use_of(y, 3 * BLOCK, WEIR_OVERWRITE),
					   use_of(now, BLOCK, WEIR_READ)};

		do_begin_uses(&t, 0, uses, 2);
		if (i >= WARM_UP) {
			assert_int_equal(get_stale(&t, x), 3);
			assert_int_equal(t.space->nr_stale, 3);
		}
		do_launch(&t, 0, now, BLOCK, WEIR_READ, 3, 0);
		do_fill_and_end(&t, y, 3 * BLOCK, 2000 + i);
		do_expect(&t, 0, next, BLOCK, 4);
		do_expect_late(&t, 0, y, 3 * BLOCK, 2000 + i);
		do_free(&t, y, 0);
		do_sync(&t);
	}
	assert_true(has_plan(&t));
	test_space_close(&t);
}

/* The program does not wait for anything; its chunks go from hand to hand. */
static void test_space_take_far_ahead_of_the_device(void **state)
{
	struct test_space t;
	uint64_t most = 0;

	(void)state;
	open_scaled(&t, 1);
	for (uint32_t i = 0; i < 3 * WARM_UP; i++) {
		for (uint32_t n = 1; n <= 3; n++) {
			(void)do_live_and_die(&t, (7 - n) * BLOCK, 1000 * n + i);
			most = MAX(most, t.space->nr_stale);
		}
	}
	assert_true(has_plan(&t));
	assert_true(most >= 4);
	do_sync(&t);
	assert_int_equal(t.space->nr_stale, 0);
	test_space_close(&t);
}

/* No one range that died is as large as the one that is born. */
static void test_space_take_from_several(void **state)
{
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, HBM_BLOCKS, 16);
	for (uint32_t i = 1; i < WARM_UP; i++) {
		uint8_t *x[3], *y;
		struct weir_use use;

		for (uint32_t k = 0; k < 3; k++) {
			x[k] = do_alloc(&t, 2 * BLOCK, 0);
			do_fill(&t, 0, x[k], 2 * BLOCK, 1000 + 3 * i + k);
		}
		for (uint32_t k = 0; k < 3; k++)
			do_expect_late(&t, 0, x[k], 2 * BLOCK, 1000 + 3 * i + k);
		for (uint32_t k = 0; k < 3; k++)
			do_free(&t, x[k], 0);
		y = do_alloc(&t, Y_BYTES, 0);
		use = use_of(y, Y_BYTES, WEIR_OVERWRITE);
		do_begin_uses(&t, 0, &use, 1);
		if (i == WARM_UP - 1) {
			assert_true(has_plan(&t));
			assert_int_equal(t.space->nr_stale, Y_BYTES / BLOCK);
		}
		do_fill_and_end(&t, y, Y_BYTES, 2000 + i);
		do_expect(&t, 0, y, Y_BYTES, 2000 + i);
		do_free(&t, y, 0);
		do_sync(&t);
	}
	test_space_close(&t);
}

/* ------------------------------------------------------------------ what is evicted */

#define R_BYTES (6 * BLOCK)
#define BORN_BYTES (4 * BLOCK)
#define R_SEED 7u

/* A range that is only read, and has to make room for another one time and again. */
static uint8_t *open_clean(struct test_space *t)
{
	uint8_t *r;

	open_scaled(t, 1);
	r = do_alloc(t, R_BYTES, 0);
	do_write(t, r, R_BYTES, R_SEED);
	return r;
}

/* An iteration up to what is born, whose bracket has ended. @return it. */
static uint8_t *do_evict(struct test_space *t, uint8_t *r, uint32_t seed)
{
	uint8_t *x;

	do_expect_late(t, 0, r, R_BYTES, R_SEED);
	x = do_alloc(t, BORN_BYTES, 0);
	do_fill(t, 0, x, BORN_BYTES, seed);
	return x;
}

static void do_evict_end(struct test_space *t, uint8_t *x, uint32_t seed)
{
	do_expect_late(t, 0, x, BORN_BYTES, seed);
	do_free(t, x, 0);
}

/* What the plan evicts, if it is clean, is taken too, and keeps its copy on the host. */
static void take_clean_chunks(bool synced)
{
	uint64_t nr_taken = 0, out = 0, clean = 0;
	struct test_space t;
	uint8_t *r;

	r = open_clean(&t);
	for (uint32_t i = 0; i < 3 * WARM_UP; i++) {
		uint8_t *x;

		if (i == WARM_UP) {
			do_sync(&t);
			out = get_out(&t);
			clean = get_stats(&t).nr_clean_dropped;
		}
		x = do_evict(&t, r, 1000 + i);
		nr_taken += i >= WARM_UP ? get_stale(&t, r) : 0;
		do_evict_end(&t, x, 1000 + i);
		if (synced)
			do_sync(&t);
	}
	do_sync(&t);
	assert_true(has_plan(&t));
	assert_int_equal(t.space->nr_stale, 0);
	assert_true(nr_taken >= 2 * WARM_UP);
	assert_true(get_stats(&t).nr_clean_dropped >= clean + nr_taken);
	assert_int_equal(get_out(&t), out);
	do_read(&t, r, R_BYTES, R_SEED);
	test_space_close(&t);
}

static void test_space_take_clean_while_it_is_read(void **state)
{
	(void)state;
	take_clean_chunks(false);
	take_clean_chunks(true);
}

/* The same with a neighbour, to which the copies on the host take some time. late: what is born is
 * used for long before the range is read again. */
static void take_clean_with_neighbour(bool late)
{
	uint64_t crossed = 0, nr_taken = 0;
	const struct range *range;
	struct test_space t;
	uint8_t *r, *x;

	test_space_open_places(&t, BLOCK, HBM_BLOCKS, HBM_BLOCKS, 16);
	r = do_alloc_clean(&t, R_BYTES, R_SEED);
	range = range_find(t.space, r);
	for (uint32_t i = 0; i < 3 * WARM_UP; i++) {
		if (i == WARM_UP) {
			do_sync(&t);
			crossed = get_crossed(&t);
		}
		assert_int_equal(range->nr_home[space_host(t.space)], 0);
		do_expect(&t, 0, r, R_BYTES, R_SEED);
		x = do_alloc(&t, BORN_BYTES, 0);
		do_fill(&t, 0, x, BORN_BYTES, 1000 + i);
		nr_taken += i >= WARM_UP ? range->nr_home[space_host(t.space)] : 0;
		if (late)
			do_expect_late(&t, 0, x, BORN_BYTES, 1000 + i);
		else
			do_expect(&t, 0, x, BORN_BYTES, 1000 + i);
		do_free(&t, x, 0);
		do_sync(&t);
	}
	assert_true(has_plan(&t));
	assert_true(range->nr_clean > 0);
	assert_true(late ? nr_taken >= WARM_UP : !nr_taken);
	assert_int_equal(get_crossed(&t), crossed);
	do_expect(&t, 0, r, R_BYTES, R_SEED);
	do_sync(&t);
	test_space_close(&t);
}

/* What has its copy on the host alone is not taken: it would be there then, and goes to the
 * neighbour instead. */
static void test_space_take_clean_not_to_the_host(void **state)
{
	(void)state;
	take_clean_with_neighbour(false);
}

/* But it is where there is time: then it is at the neighbour again for its next use. */
static void test_space_take_clean_that_comes_back(void **state)
{
	(void)state;
	take_clean_with_neighbour(true);
}

/* What a program may do with a range whose blocks are stale. */
enum meddling {
	READ_IT,
	READ_IT_IN_PLACE,
	OVERWRITE_IT,
	COPY_IT_OUT,
	COPY_INTO_IT,
	READ_IT_ON_THE_HOST,
	USE_IT_ON_ANOTHER_DEVICE,
	REPLACE_IT,
	MEDDLING_NR
};

/* Do it, at once. @return the range, or what took its place; *seed: what is in it afterwards. */
static uint8_t *meddle(struct test_space *t, enum meddling what, uint8_t *r, uint32_t *seed)
{
	struct weir_use use = use_of(r, R_BYTES, WEIR_READ);
	uint8_t *old = r;

	switch (what) {
	case READ_IT:
		do_expect(t, 0, r, R_BYTES, *seed);
		break;
	case READ_IT_IN_PLACE:
		use.read_bytes = 8; /* not worth a copy */
		do_begin_uses(t, 0, &use, 1);
		do_launch(t, 0, r, R_BYTES, WEIR_READ, *seed, 0);
		do_end(t, 0);
		break;
	case OVERWRITE_IT:
		do_fill(t, 0, r, R_BYTES, ++*seed);
		break;
	case COPY_IT_OUT:
		do_read(t, r, R_BYTES, *seed);
		break;
	case COPY_INTO_IT:
		do_write(t, r, R_BYTES, ++*seed);
		break;
	case READ_IT_ON_THE_HOST:
		assert_int_equal(weir_host_begin(t->space, &use, 1), 0);
		do_check(t);
		assert_int_equal(pattern_wrong(r, r, R_BYTES, *seed), 0);
		assert_int_equal(weir_host_end(t->space, &use, 1), 0);
		break;
	case USE_IT_ON_ANOTHER_DEVICE:
		assert_int_equal(weir_advise(t->space, r, WEIR_ADVISE_ACCESSED_BY, 1), 0);
		do_check(t);
		do_expect(t, 2, r, R_BYTES, *seed);
		break;
	default: /* REPLACE_IT */
		do_free(t, r, 0);
		r = do_alloc(t, R_BYTES, 0);
		/* The old one waits for its launch. */
		assert_ptr_not_equal(r, old);
		do_fill(t, 0, r, R_BYTES, ++*seed);
	}
	do_check(t);
	return r;
}

/* A space in which *x has just taken chunks of the range, which is still being read. */
static uint8_t *open_evicted(struct test_space *t, uint8_t **x)
{
	uint8_t *r = open_clean(t);

	for (uint32_t i = 0; i < WARM_UP; i++) {
		do_evict_end(t, do_evict(t, r, 1000 + i), 1000 + i);
		do_sync(t);
	}
	*x = do_evict(t, r, 2000);
	assert_true(get_stale(t, r) > 0);
	assert_true(t->space->done_seq < range_find(t->space, r)->last_use);
	return r;
}

static void test_space_take_then_use_the_giver_at_once(void **state)
{
	(void)state;
	for (enum meddling what = 0; what < MEDDLING_NR; what++) {
		uint32_t seed = R_SEED;
		struct test_space t;
		uint8_t *r, *x;

		r = open_evicted(&t, &x);
		r = meddle(&t, what, r, &seed);
		do_evict_end(&t, x, 2000);
		do_expect(&t, 0, r, R_BYTES, seed);
		do_sync(&t);
		assert_int_equal(t.space->nr_stale, 0);
		do_read(&t, r, R_BYTES, seed);
		test_space_close(&t);
	}
}

/* ------------------------------------------------------------------ held ranges */

static void test_space_take_held_range_is_not_reused(void **state)
{
	struct hand_over h;
	uint8_t *next, *again[2];
	uint64_t misses;

	(void)state;
	open_hand_over(&h, 1, FREED);
	do_begin_birth(&h, 1);
	do_end_birth(&h, 2);
	assert_int_equal(get_stale(&h.t, h.x), 5);
	misses = get_stats(&h.t).nr_pool_misses;
	next = do_alloc(&h.t, X_BYTES, 0);
	assert_int_equal(get_stats(&h.t).nr_pool_misses, misses + 1);
	assert_ptr_not_equal(next, h.x);
	do_fill(&h.t, 0, next, X_BYTES, 3);
	do_die(&h, 2);
	do_expect_late(&h.t, 0, next, X_BYTES, 3);
	do_free(&h.t, next, 0);
	do_sync(&h.t);
	assert_int_equal(h.t.space->nr_stale, 0);
	/* Then it is. */
	for (int i = 0; i < 2; i++) {
		again[i] = do_alloc(&h.t, X_BYTES, 0);
		do_fill(&h.t, 0, again[i], X_BYTES, 4);
	}
	assert_true((again[0] == h.x && again[1] == next) || (again[0] == next && again[1] == h.x));
	for (int i = 0; i < 2; i++)
		do_expect(&h.t, 0, again[i], X_BYTES, 4);
	assert_int_equal(get_stats(&h.t).nr_pool_misses, misses + 1);
	do_sync(&h.t);
	test_space_close(&h.t);
}

/* The space goes while launches use chunks at the addresses of those that gave them away. */
static void test_space_take_then_destroy(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		uint32_t scale = i & 1 ? LARGE : 1;
		struct hand_over h;
		uint64_t stale;

		open_hand_over(&h, scale, (i >> 1 ^ i) & 1 ? DISCARDED : FREED);
		do_begin_birth(&h, 1);
		stale = h.t.space->nr_stale;
		assert_true(get_stale(&h.t, h.x) == stale && stale > 4 * scale);
		if (i >> 1 == 1)
			do_launch(&h.t, 0, h.y, h.y_bytes, WEIR_OVERWRITE, 0, 2);
		if (i >> 1 > 1)
			do_end_birth(&h, 2);
		if (i >> 1 > 2)
			do_free(&h.t, h.y, 0);
		assert_int_equal(h.t.space->nr_stale, stale);
		test_space_close(&h.t);
	}
}

static void test_space_take_clean_then_destroy(void **state)
{
	struct test_space t;
	uint8_t *x, *r = open_evicted(&t, &x);

	(void)state;
	do_free(&t, r, 0);
	assert_true(t.space->nr_stale > 0);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ two streams */

/* What another stream still reads keeps its chunks: they are waited for, and nothing else has to
 * go instead. */
static void test_space_take_not_from_another_stream(void **state)
{
	struct test_space t;
	uint8_t *keep;

	(void)state;
	open_scaled(&t, 1);
	keep = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, keep, BLOCK, 1);
	for (uint32_t i = 1; i < 2 * WARM_UP; i++) {
		uint8_t *x = do_alloc(&t, 5 * BLOCK, 0), *y;
		uint64_t waits, out;
		fence_t read;

		do_fill(&t, 0, x, 5 * BLOCK, 1000 + i);
		do_change(&t, 0, keep, BLOCK, i, i + 1);
		do_sync(&t);
		do_expect_late(&t, 1, x, 5 * BLOCK, 1000 + i);
		read = get_fence(&t, 1);
		do_free(&t, x, 1);
		y = do_alloc(&t, 4 * BLOCK, 0);
		waits = get_stats(&t).nr_waits;
		out = get_out(&t);
		do_begin(&t, 0, y, 4 * BLOCK, WEIR_OVERWRITE);
		if (i > WARM_UP) {
			assert_true(is_reached(&t, read));
			assert_int_equal(get_stats(&t).nr_waits, waits + 1);
			assert_int_equal(get_out(&t), out);
		}
		do_fill_and_end(&t, y, 4 * BLOCK, 2000 + i);
		do_expect(&t, 0, y, 4 * BLOCK, 2000 + i);
		do_free(&t, y, 0);
		do_sync(&t);
	}
	assert_true(has_plan(&t));
	test_space_close(&t);
}

/*
 * Nor does what an open bracket holds, though the plan wants it gone. part: the open bracket names
 * half of r; of the other half goes what a smaller range needs.
 */
static void take_beside_an_open_bracket(bool part)
{
	uint64_t bytes = part ? R_BYTES / 2 : R_BYTES;
	const uint64_t born_bytes = part ? BORN_BYTES / 2 : BORN_BYTES;
	uint32_t nr_taken = 0;
	struct test_space t;
	uint8_t *r;

	r = open_clean(&t);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		struct weir_use use = use_of(r, bytes, WEIR_READ);
		uint8_t *x;

		use.read_bytes *= MUCH;
		do_expect_late(&t, 0, r, R_BYTES, R_SEED);
		do_begin_uses(&t, 1, &use, 1);
		x = do_alloc(&t, born_bytes, 0);
		do_fill(&t, 0, x, born_bytes, 1000 + i);
		nr_taken += get_stale(&t, r);
		/* x has been written by now. */
		assert_int_equal(weir_stream_sync(t.stream[0]), 0);
		do_launch(&t, 1, r, bytes, WEIR_READ, R_SEED, 0);
		do_end(&t, 1);
		do_expect_late(&t, 0, x, born_bytes, 1000 + i);
		do_free(&t, x, 0);
		do_sync(&t);
	}
	assert_true(has_plan(&t));
	assert_true((nr_taken > 0) == part);
	test_space_close(&t);
}

static void test_space_take_not_from_an_open_bracket(void **state)
{
	(void)state;
	take_beside_an_open_bracket(false);
	take_beside_an_open_bracket(true);
}

/* ------------------------------------------------------------------ who gives first */

/* Three ranges of two blocks each have all of HBM; all are read late. */
enum giver { EVICTED, POOLED, IN_BRACKET, GIVERS };
#define GIVER_BYTES (2 * BLOCK)

struct givers {
	struct test_space t;
	uint8_t *giver[GIVERS];
	const struct chunk *had[GIVERS][2]; /* as the newest range is born */
};

/* One is read only, one is freed and one will be discarded. */
static void do_live(struct givers *g, uint32_t seed)
{
	struct test_space *t = &g->t;

	for (uint32_t i = POOLED; i < GIVERS; i++) {
		g->giver[i] = do_alloc(t, GIVER_BYTES, 0);
		do_fill(t, 0, g->giver[i], GIVER_BYTES, seed + i);
		do_expect_late(t, 0, g->giver[i], GIVER_BYTES, seed + i);
	}
	do_expect_late(t, 0, g->giver[EVICTED], GIVER_BYTES, R_SEED);
	for (uint32_t i = 0; i < GIVERS; i++)
		for (uint32_t n = 0; n < 2; n++)
			g->had[i][n] = range_find(t->space, g->giver[i])->block[n].at.home;
	do_free(t, g->giver[POOLED], 0);
}

/* Whose a chunk was; GIVERS: nobody's. */
static uint32_t find_giver(const struct givers *g, const struct chunk *chunk)
{
	for (uint32_t i = 0; i < GIVERS; i++)
		if (chunk == g->had[i][0] || chunk == g->had[i][1])
			return i;
	return GIVERS;
}

/* The chunks of a range that was just born, in its order: the evicted one's, the freed one's and
 * last the discarded one's. */
static void expect_order(const struct givers *g, const uint8_t *y)
{
	const struct range *range = range_find(g->t.space, y);
	uint32_t last = EVICTED;

	for (uint32_t n = 0; n < range->nr_blocks; n++) {
		const struct block *block = &range->block[range_nth_block(range, n)];
		uint32_t from = find_giver(g, block->at.home);

		assert_true(from < GIVERS);
		assert_true(n ? from == last || from == last + 1 : from == EVICTED);
		last = from;
	}
	assert_int_equal(last, IN_BRACKET);
}

static void test_space_take_in_order(void **state)
{
	struct givers g;
	struct test_space *t = &g.t;

	(void)state;
	open_scaled(t, 1);
	g.giver[EVICTED] = do_alloc(t, GIVER_BYTES, 0);
	do_write(t, g.giver[EVICTED], GIVER_BYTES, R_SEED);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		uint8_t *y;

		do_live(&g, 1000 + i);
		y = do_alloc(t, Y_BYTES, 0);
		do_begin_discarding(t, y, Y_BYTES, g.giver[IN_BRACKET], GIVER_BYTES);
		if (i >= WARM_UP)
			expect_order(&g, y);
		do_fill_and_end(t, y, Y_BYTES, 3000 + i);
		do_free(t, g.giver[IN_BRACKET], 0);
		do_expect_late(t, 0, y, Y_BYTES, 3000 + i);
		do_free(t, y, 0);
		do_sync(t);
	}
	assert_true(has_plan(t));
	do_read(t, g.giver[EVICTED], GIVER_BYTES, R_SEED);
	test_space_close(t);
}

/* What the plan evicts gives even before that is due: the freed range keeps its chunks for the next
 * one of its size. */
static void test_space_take_what_is_due_later(void **state)
{
	struct test_space t;
	uint8_t *r;

	(void)state;
	open_scaled(&t, 1);
	r = do_alloc(&t, GIVER_BYTES, 0);
	do_write(&t, r, GIVER_BYTES, R_SEED);
	for (uint32_t i = 0; i < 2 * WARM_UP; i++) {
		uint8_t *x;

		do_expect_late(&t, 0, r, GIVER_BYTES, R_SEED);
		/* What had to come in for that has arrived. From here on the plan has no use for
		 * all of r, and y is what needs the room. */
		t.backend->ops->host_spend(t.backend, SPIN_NS / 2);
		x = do_alloc(&t, BORN_BYTES, 0);
		do_begin(&t, 0, x, BORN_BYTES, WEIR_OVERWRITE);
		if (i >= WARM_UP)
			assert_int_equal(get_stale(&t, r), 1);
		do_fill_and_end(&t, x, BORN_BYTES, 1000 + i);
		do_expect_late(&t, 0, x, BORN_BYTES, 1000 + i);
		do_free(&t, x, 0);
		(void)do_live_and_die(&t, Y_BYTES, 2000 + i); /* y */
		do_sync(&t);
	}
	assert_true(has_plan(&t));
	do_read(&t, r, GIVER_BYTES, R_SEED);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ beside other moves */

/* A prefetch to the host, asked for while its range was in use, goes on between the taking and the
 * opening of the bracket: it leaves alone what was just taken. */
static void test_space_take_beside_a_prefetch(void **state)
{
	enum { Y = 40, X = 44 };
	struct test_space t;
	uint8_t *y;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 48, 100);
	y = do_alloc(&t, Y * BLOCK, 0);
	for (uint32_t i = 1; i < WARM_UP + 2; i++) {
		struct weir_use late;
		uint8_t *x;

		do_fill(&t, 0, y, Y * BLOCK, 1000 + i);
		do_expect(&t, 0, y, Y * BLOCK, 1000 + i);
		x = do_alloc(&t, X * BLOCK, 0);
		do_begin_discarding(&t, x, X * BLOCK, y, Y * BLOCK);
		do_spin(&t, 0, 100000); /* done when the next bracket but one begins, ... */
		do_fill_and_end(&t, x, X * BLOCK, 2000 + i);
		late = use_of(x, X * BLOCK, WEIR_READ);
		late.read_bytes *= 100;
		do_begin_uses(&t, 0, &late, 1);
		do_spin(&t, 0, 3000000); /* ... while this is not */
		do_launch(&t, 0, x, X * BLOCK, WEIR_READ, 2000 + i, 0);
		do_end(&t, 0);
		do_free(&t, x, 0);
		if (i == WARM_UP)
			assert_int_equal(weir_prefetch(t.space, y, Y * BLOCK, HOST, NULL), 0);
		if (i < WARM_UP)
			do_sync(&t);
	}
	do_sync(&t);
	test_space_close(&t);
}

/* Who took a chunk does not move before those are done that still use it where it was. */
static void test_space_take_counts_as_used(void **state)
{
	struct hand_over h;
	uint32_t nr_taken = 0;
	struct range *y;

	(void)state;
	open_hand_over(&h, 1, FREED);
	do_begin_birth(&h, 3000);
	assert_false(is_reached(&h.t, h.read));
	y = range_find(h.t.space, h.y);
	for (uint32_t i = 0; i < y->nr_blocks; i++)
		if (range_block_is_resident(y, i) && get_stale(&h.t, h.x)) {
			assert_true(range_block_last_use(h.t.space, y, i) > h.t.space->done_seq);
			nr_taken++;
		}
	assert_true(nr_taken > 0);
	do_end_birth(&h, 4000);
	do_die(&h, 4000);
	do_sync(&h.t);
	test_space_close(&h.t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_take_counts_as_used),
		cmocka_unit_test(test_space_take_while_it_is_read),
		cmocka_unit_test(test_space_take_nothing_that_is_needed),
		cmocka_unit_test(test_space_take_far_ahead_of_the_device),
		cmocka_unit_test(test_space_take_clean_while_it_is_read),
		cmocka_unit_test(test_space_take_clean_not_to_the_host),
		cmocka_unit_test(test_space_take_clean_that_comes_back),
		cmocka_unit_test(test_space_take_then_use_the_giver_at_once),
		cmocka_unit_test(test_space_take_held_range_is_not_reused),
		cmocka_unit_test(test_space_take_then_destroy),
		cmocka_unit_test(test_space_take_clean_then_destroy),
		cmocka_unit_test(test_space_take_not_from_another_stream),
		cmocka_unit_test(test_space_take_not_from_an_open_bracket),
		cmocka_unit_test(test_space_take_from_several),
		cmocka_unit_test(test_space_take_in_order),
		cmocka_unit_test(test_space_take_what_is_due_later),
		cmocka_unit_test(test_space_take_beside_a_prefetch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
