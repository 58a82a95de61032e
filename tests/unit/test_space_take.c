/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that change hands while launches still use them, and discards that count from the begin,
 * on real bytes. In most programs here HBM is full, something dies or is evicted while a launch
 * that reads it is queued behind a long one, and something else is born: the reading launch finds
 * what it should though its chunks have gone, and the device does not wait.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)

/* Of HBM. What dies has all of it, what is born a block less, so that it is another range. */
#define HBM_BLOCKS 6u
#define X_BYTES (6 * BLOCK)
#define Y_BYTES (5 * BLOCK)

/* Iterations after which any repetition of a few events is known, and its plans are settled. */
#define WARM_UP 12u

/* Device time of a launch that others queue behind: more than all mapping calls of an iteration. */
#define SPIN_NS 2000000u

/* How much larger things are where more is stale than progress drops at once. */
#define LARGE 8u

/* Times that long brackets say they read: what is read so often is not used in place. */
#define MUCH 1000u

/* ------------------------------------------------------------------ brackets */

static void spin_cpu(const void *args)
{
	(void)args;
}

static const struct weir_kernel spin_kernel = {.name = "spin", .cpu = spin_cpu};

/* A long launch that may read the range at any time, which is trapped if its mappings change. */
static int do_spin_try(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);
	struct weir_launch launch = {.kernel = &spin_kernel, .uses = &use, .nr_uses = 1};

	use.read_bytes = 0;
	launch.ops = (double)SPIN_NS * t->desc.device[0].ops_per_s / 1e9;
	return weir_launch(t->stream[stream], &launch);
}

/* A launch that only takes time. */
static void do_spin(struct test_space *t, uint32_t stream, uint64_t ns)
{
	struct weir_launch launch = {.kernel = &spin_kernel};

	launch.ops = (double)ns * t->desc.device[0].ops_per_s / 1e9;
	assert_int_equal(weir_launch(t->stream[stream], &launch), 0);
}

static void do_begin_uses(struct test_space *t, uint32_t stream, const struct weir_use *uses,
			  uint32_t nr)
{
	assert_int_equal(weir_begin(t->space, t->stream[stream], uses, nr), 0);
	do_check(t);
}

/* A bracket that reads, long after it has ended for the program. */
static void do_expect_late(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes,
			   uint32_t seed)
{
	struct weir_use use = use_of(addr, bytes, WEIR_READ);

	use.read_bytes *= MUCH;
	do_begin_uses(t, stream, &use, 1);
	assert_int_equal(do_spin_try(t, stream, addr, bytes), 0);
	do_launch(t, stream, addr, bytes, WEIR_READ, seed, 0);
	do_end(t, stream);
}

/* Begin a bracket that overwrites all of y and discards a part of something else. */
static void do_begin_discarding(struct test_space *t, void *y, uint64_t bytes, void *part,
				uint64_t part_bytes)
{
	struct weir_use uses[2] = {use_of(y, bytes, WEIR_OVERWRITE),
				   use_of(part, part_bytes, WEIR_DISCARD)};

	do_begin_uses(t, 0, uses, 2);
}

/* The rest of a bracket that overwrites y. */
static void do_fill_and_end(struct test_space *t, void *y, uint64_t bytes, uint32_t seed)
{
	do_launch(t, 0, y, bytes, WEIR_OVERWRITE, 0, seed);
	do_end(t, 0);
}

/* ------------------------------------------------------------------ looking */

static fence_t get_fence(struct test_space *t, uint32_t stream)
{
	fence_t fence = 0;

	assert_int_equal(
		t->backend->ops->fence_record(t->backend, stream_id(t->stream[stream]), &fence), 0);
	return fence;
}

static bool is_reached(struct test_space *t, fence_t fence)
{
	int done = t->backend->ops->fence_done(t->backend, fence);

	assert_true(done >= 0);
	return done != 0;
}

static uint32_t get_stale(struct test_space *t, const void *addr)
{
	const struct range *range = range_find(t->space, addr);

	assert_non_null(range);
	return range->nr_stale;
}

static bool has_plan(const struct test_space *t)
{
	return t->space->residency->plan != NULL;
}

/* Blocks that were copied out so far. */
static uint64_t get_out(struct test_space *t)
{
	struct weir_stats stats = get_stats(t);

	return get_copied(&stats, WEIR_TO_HOST) / BLOCK;
}

/* Blocks that have crossed the link so far, copied or used in place. */
static uint64_t get_crossed(struct test_space *t)
{
	struct weir_stats stats = get_stats(t);
	uint64_t bytes = 0;

	for (int d = 0; d < WEIR_DIRECTION_NR; d++)
		for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
			bytes += stats.bytes[d][cause];
	return bytes / BLOCK;
}

/* ------------------------------------------------------------------ what dies */

/* How x ends: before y is born, in the bracket that y is born in, after it. */
enum death { FREED, DISCARDED, FREED_LATE };

/* A program in which x ends while it is being read, and y is born. */
struct hand_over {
	struct test_space t;
	enum death death;
	uint64_t x_bytes, y_bytes;
	uint8_t *x, *y;
	fence_t read; /* reached when x has been read */
};

static void open_scaled(struct test_space *t, uint32_t scale)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, HBM_BLOCKS * scale, 16 * scale);
}

/* x lives and dies, and the bracket that y is born in begins while x is being read. */
static void do_begin_birth(struct hand_over *h, uint32_t seed)
{
	struct test_space *t = &h->t;

	h->x = do_alloc(t, h->x_bytes, 0);
	do_fill(t, 0, h->x, h->x_bytes, seed);
	do_expect_late(t, 0, h->x, h->x_bytes, seed);
	h->read = get_fence(t, 0);
	if (h->death == FREED)
		do_free(t, h->x, 0);
	h->y = do_alloc(t, h->y_bytes, 0);
	if (h->death == DISCARDED)
		do_begin_discarding(t, h->y, h->y_bytes, h->x, h->x_bytes);
	else
		do_begin(t, 0, h->y, h->y_bytes, WEIR_OVERWRITE);
}

static void do_end_birth(struct hand_over *h, uint32_t seed)
{
	do_fill_and_end(&h->t, h->y, h->y_bytes, seed);
	if (h->death != FREED)
		do_free(&h->t, h->x, 0);
}

/* y is read, and freed. */
static void do_die(struct hand_over *h, uint32_t seed)
{
	do_expect_late(&h->t, 0, h->y, h->y_bytes, seed);
	do_free(&h->t, h->y, 0);
}

/* A space in which this has gone on for a while, one at a time. */
static void open_hand_over(struct hand_over *h, uint32_t scale, enum death death)
{
	*h = (struct hand_over){
		.death = death, .x_bytes = X_BYTES * scale, .y_bytes = Y_BYTES * scale};
	open_scaled(&h->t, scale);
	for (uint32_t i = 0; i < WARM_UP; i++) {
		do_begin_birth(h, 1000 + i);
		do_end_birth(h, 2000 + i);
		do_die(h, 2000 + i);
		do_sync(&h->t);
	}
	assert_true(has_plan(&h->t));
}

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
		assert_in_range(h.t.backend->ops->fence_time_ns(h.t.backend, filled) -
					h.t.backend->ops->fence_time_ns(h.t.backend, h.read),
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
 * half of r; the other half goes.
 */
static void take_beside_an_open_bracket(bool part)
{
	uint64_t bytes = part ? R_BYTES / 2 : R_BYTES;
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
		x = do_alloc(&t, BORN_BYTES, 0);
		do_fill(&t, 0, x, BORN_BYTES, 1000 + i);
		nr_taken += get_stale(&t, r);
		/* x has been written by now. */
		assert_int_equal(weir_stream_sync(t.stream[0]), 0);
		do_launch(&t, 1, r, bytes, WEIR_READ, R_SEED, 0);
		do_end(&t, 1);
		do_expect_late(&t, 0, x, BORN_BYTES, 1000 + i);
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

/* ------------------------------------------------------------------ failing calls */

#define TRIES 5
#define FAULT_WARM_UP 6u
#define KEEP_BYTES (2 * BLOCK)
#define KEEP_SEED 77u

/* A program that goes on when calls fail. */
struct faulty {
	struct test_space t;
	struct backend *flaky;
	uint8_t *keep;	   /* read in each iteration, so that copies go both ways */
	uint32_t nr_tries; /* to begin a bracket; 1: what fails is given up */
	int err;	   /* what the failing call returns */
};

/* Whether a call worked; the space is whole if it did not. */
static bool has_worked(struct faulty *f, int err)
{
	do_check(&f->t);
	assert_true(!err || err == f->err || err == -ENOMEM);
	return !err;
}

/* Try a call so often at most. */
#define TRY(worked, f, nr, call)                                              \
	do {                                                                  \
		uint32_t tries_left = (nr);                                   \
                                                                              \
		while (!((worked) = has_worked(f, call)) && --tries_left > 0) \
			;                                                     \
	} while (0)
#define MUST(f, call)                             \
	do {                                      \
		bool must_worked;                 \
                                                  \
		TRY(must_worked, f, TRIES, call); \
		assert_true(must_worked);         \
	} while (0)

/* One bracket with one launch on its first use, late if that reads. @return whether it began. */
static bool fault_run(struct faulty *f, const struct weir_use *uses, uint32_t nr, uint32_t seed)
{
	bool reads = uses[0].kind == WEIR_READ, worked;
	struct test_cell cell = {reads ? seed : 0, reads ? 0 : seed};
	struct test_space *t = &f->t;

	TRY(worked, f, f->nr_tries, weir_begin(t->space, t->stream[0], uses, nr));
	if (!worked) {
		/* A program that gives up ends what is under way. */
		MUST(f, weir_space_sync(t->space));
		return false;
	}
	if (reads)
		MUST(f, do_spin_try(t, 0, uses[0].addr, uses[0].bytes));
	MUST(f, do_launch_cells_try(t, 0, uses[0].addr, uses[0].bytes, &cell, 1, uses[0].kind));
	MUST(f, weir_end(t->space, t->stream[0]));
	return true;
}

/* x dies by a discard, y by a free. */
static void fault_iterate(struct faulty *f, uint32_t seed)
{
	struct weir_use use = use_of(f->keep, KEEP_BYTES, WEIR_READ), overwrite[2];
	struct weir_stream *stream = f->t.stream[0];
	struct weir_space *space = f->t.space;
	void *x = NULL, *y = NULL;

	(void)fault_run(f, &use, 1, KEEP_SEED);
	MUST(f, weir_alloc(space, X_BYTES, stream, &x));
	overwrite[0] = use_of(x, X_BYTES, WEIR_OVERWRITE);
	use = use_of(x, X_BYTES, WEIR_READ);
	use.read_bytes *= MUCH;
	if (fault_run(f, overwrite, 1, seed))
		(void)fault_run(f, &use, 1, seed);
	MUST(f, weir_alloc(space, Y_BYTES, stream, &y));
	overwrite[0] = use_of(y, Y_BYTES, WEIR_OVERWRITE);
	overwrite[1] = use_of(x, X_BYTES, WEIR_DISCARD);
	use = use_of(y, Y_BYTES, WEIR_READ);
	use.read_bytes *= MUCH;
	if (fault_run(f, overwrite, 2, seed + 1000))
		(void)fault_run(f, &use, 1, seed + 1000);
	MUST(f, weir_free(space, x, stream));
	MUST(f, weir_free(space, y, stream));
}

/* As open_scaled(), on a backend that can be told to fail. */
static void fault_open(struct faulty *f, uint32_t nr_tries, int err)
{
	struct test_space *t = &f->t;

	memset(f, 0, sizeof(*f));
	f->nr_tries = nr_tries;
	f->err = err;
	test_machine(&t->desc);
	assert_int_equal(sim_create(&t->desc, WEIR_DATA_REAL, &t->backend), 0);
	assert_int_equal(flaky_create(t->backend, &f->flaky), 0);
	assert_int_equal(machine_wrap(f->flaky, &t->machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t->machine, i == 2, &t->stream[i]), 0);
	assert_int_equal(
		test_space_create_try(t, WEIR_PLANNED, BLOCK, HBM_BLOCKS * BLOCK, 16 * BLOCK), 0);
	f->keep = do_alloc(t, KEEP_BYTES, 0);
	do_write(t, f->keep, KEEP_BYTES, KEEP_SEED);
}

/* Fail the n-th call of two iterations. @return whether they make so many. */
static bool fault_at(uint64_t n, uint32_t nr_tries, int err)
{
	struct faulty f;
	bool reached;

	fault_open(&f, nr_tries, err);
	for (uint32_t i = 0; i < FAULT_WARM_UP; i++) {
		fault_iterate(&f, 1 + i);
		do_sync(&f.t);
	}
	assert_true(has_plan(&f.t));
	flaky_arm(f.flaky, n += flaky_nr_calls(f.flaky), err);
	fault_iterate(&f, 100);
	fault_iterate(&f, 200);
	reached = flaky_nr_calls(f.flaky) >= n;
	flaky_arm(f.flaky, 0, 0);
	/* An error of what was done in between is told once. */
	(void)has_worked(&f, weir_space_sync(f.t.space));
	do_sync(&f.t);
	assert_int_equal(f.t.space->nr_stale, 0);
	fault_iterate(&f, 300);
	do_read(&f.t, f.keep, KEEP_BYTES, KEEP_SEED);
	test_space_close(&f.t);
	return reached;
}

static void test_space_take_each_call_fails(void **state)
{
	static const struct {
		uint32_t nr_tries;
		int err;
	} round[] = {{TRIES, -EIO}, {1, -ENOMEM}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(round); i++) {
		uint64_t n = 1;

		while (fault_at(n, round[i].nr_tries, round[i].err))
			n++;
		/* Two iterations map a block some twenty times, and unmap as many. */
		assert_true(n > 40);
	}
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

/* ------------------------------------------------------------------ taken, and lost again */

/* A begin fails after it took chunks that launches still use, and the program gives up what it was
 * to overwrite, or begins elsewhere: nobody writes the chunks before those launches are done. */
static void failed_begin(bool elsewhere)
{
	struct faulty f;
	struct test_space *t = &f.t;
	uint64_t nr_calls = 0;

	fault_open(&f, 1, -EIO);
	do_free(t, f.keep, 0);
	for (uint32_t i = 1; i < WARM_UP; i++) {
		uint8_t *x = do_alloc(t, X_BYTES, 0), *y, *z;
		struct weir_use use;

		do_fill(t, 0, x, X_BYTES, 1000 + i);
		do_expect_late(t, 0, x, X_BYTES, 1000 + i);
		do_free(t, x, 0);
		y = do_alloc(t, Y_BYTES, 0);
		use = use_of(y, Y_BYTES, WEIR_OVERWRITE);
		if (i == WARM_UP - 1) {
			/* The last call of begin: its fence, once and again. */
			flaky_arm(f.flaky, flaky_nr_calls(f.flaky) + nr_calls, -EIO);
			assert_int_equal(weir_begin(t->space, t->stream[0], &use, 1), -EIO);
			do_check(t);
			if (elsewhere) {
				do_fill(t, 1, y, Y_BYTES, 3000);
			} else {
				do_free(t, y, 0);
				z = do_alloc(t, X_BYTES, 1);
				do_fill(t, 1, z, X_BYTES, 3000);
			}
			break;
		}
		nr_calls = flaky_nr_calls(f.flaky);
		do_begin_uses(t, 0, &use, 1);
		nr_calls = flaky_nr_calls(f.flaky) - nr_calls - 1;
		do_fill_and_end(t, y, Y_BYTES, 2000 + i);
		do_expect_late(t, 0, y, Y_BYTES, 2000 + i);
		do_free(t, y, 0);
		do_sync(t);
	}
	do_sync(t);
	test_space_close(t);
}

static void test_space_take_then_begin_fails(void **state)
{
	(void)state;
	failed_begin(false);
	failed_begin(true);
}

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_take_while_it_is_read),
		cmocka_unit_test(test_space_take_nothing_that_is_needed),
		cmocka_unit_test(test_space_take_far_ahead_of_the_device),
		cmocka_unit_test(test_space_take_clean_while_it_is_read),
		cmocka_unit_test(test_space_take_then_use_the_giver_at_once),
		cmocka_unit_test(test_space_take_held_range_is_not_reused),
		cmocka_unit_test(test_space_take_then_destroy),
		cmocka_unit_test(test_space_take_clean_then_destroy),
		cmocka_unit_test(test_space_discard_of_a_part_keeps_the_rest),
		cmocka_unit_test(test_space_discard_then_use_at_once),
		cmocka_unit_test(test_space_discard_in_turn),
		cmocka_unit_test(test_space_take_not_from_another_stream),
		cmocka_unit_test(test_space_take_not_from_an_open_bracket),
		cmocka_unit_test(test_space_take_each_call_fails),
		cmocka_unit_test(test_space_take_from_several),
		cmocka_unit_test(test_space_take_then_begin_fails),
		cmocka_unit_test(test_space_take_beside_a_prefetch),
		cmocka_unit_test(test_space_discard_leaves_room_in_the_plan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
