/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space that compares what leaves its device with the copy that is below (src/core/compare.c),
 * for programs of which nobody knows what they write: what is written in name only leaves without a
 * copy, what was changed is never lost, and nobody waits for a digest who must not.
 */
#include <errno.h>

#include "tests/unit/test_space_late.h"

enum { GPU_BLOCKS = 4, HOST_BLOCKS = 16 };
#define BYTES (4 * BLOCK)
#define LONG_NS (16 * SPIN_NS) /* more than mapping calls and patience */
#define PATIENCE_NS SPIN_NS

static int (*sim_take)(struct backend *b, uint32_t ticket, struct digest *out);

static void open_data(struct test_space *t, enum weir_data data)
{
	test_space_open(t, data, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	assert_int_equal(compare_init(t->space), 0);
}

static uint64_t get_out_bytes(struct test_space *t)
{
	struct weir_space_stats stats = get_stats(t);

	return get_copied(t, &stats, BACKEND_TO_HOST);
}

/* A bracket that says that it writes much, so that its range comes in, and writes `put` or, 0,
 * nothing. */
static void do_name(struct test_space *t, uint32_t stream, uint8_t *addr, uint64_t bytes,
		    uint32_t expect, uint32_t put)
{
	struct weir_use use = use_of(addr, bytes, WEIR_WRITE);

	use.read_bytes *= MUCH;
	do_begin_uses(t, stream, &use, 1);
	do_launch(t, stream, addr, bytes, put ? WEIR_WRITE : WEIR_READ, expect, put);
	do_end(t, stream);
	do_sync(t);
}

/* x is on the device and then away, for y, and both are known to comparisons. */
static void warm_up(struct test_space *t, uint8_t **x, uint8_t **y)
{
	*x = do_alloc(t, BYTES, 0);
	*y = do_alloc(t, BYTES, 0);
	do_fill(t, 0, *x, BYTES, 1);
	do_fill(t, 0, *y, BYTES, 2);
	do_sync(t);
	for (int i = 0; i < 2; i++) {
		do_name(t, 0, *x, BYTES, 1, 0);
		do_name(t, 0, *y, BYTES, 2, 0);
	}
}

/* ------------------------------------------------------------------ what is found */

/* What is only said to be written goes and comes without a copy out. */
static void test_unchanged(void **state)
{
	struct test_space t;
	struct weir_space_stats before, after;
	uint8_t *x, *y;
	uint64_t out;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	out = get_out_bytes(&t);
	before = get_stats(&t);
	for (int i = 0; i < 4; i++) {
		do_name(&t, 0, x, BYTES, 1, 0);
		do_name(&t, 0, y, BYTES, 2, 0);
	}
	after = get_stats(&t);
	assert_true(after.nr_unchanged >= before.nr_unchanged + 8);
	assert_int_equal(after.nr_unchanged - before.nr_unchanged,
			 after.nr_compared - before.nr_compared);
	assert_int_equal(get_out_bytes(&t), out);
	do_read(&t, x, BYTES, 1);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* What is written is copied, every time, and a single block of a range as well. */
static void test_changed(void **state)
{
	struct test_space t;
	uint32_t seed = 1;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	for (int i = 0; i < 8; i++) {
		uint64_t out = get_out_bytes(&t);

		do_name(&t, 0, x, BYTES, seed, seed + 2);
		seed += 2;
		do_name(&t, 0, y, BYTES, 2, 0);
		assert_true(get_out_bytes(&t) > out);
	}
	do_read(&t, x, BYTES, seed);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* The digest that is kept is of what the copy below has by now: when contents of before come back,
 * that is a change, too. */
static void test_changed_back(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, 3);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, x, BYTES, 3, 1);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_read(&t, x, BYTES, 1);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

static int digest_take_fails(struct backend *b, uint32_t ticket, struct digest *out)
{
	(void)sim_take(b, ticket, out);
	return -EIO;
}

/* Where the backend has no digest in the end, the block is copied, whatever it may be equal to. */
static void test_no_digest(void **state)
{
	struct backend_ops failing;
	struct weir_space_stats before, after;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	failing = *t.backend->ops;
	sim_take = failing.digest_take;
	failing.digest_take = digest_take_fails;
	t.backend->ops = &failing;
	before = get_stats(&t);
	do_name(&t, 0, x, BYTES, 1, 3);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, x, BYTES, 3, 5);
	do_name(&t, 0, y, BYTES, 2, 0);
	after = get_stats(&t);
	assert_true(after.nr_compared > before.nr_compared);
	assert_int_equal(after.nr_unchanged, before.nr_unchanged);
	do_read(&t, x, BYTES, 5);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* What was found changed twice is not looked at but now and then; and is again when it is found
 * unchanged. */
static void test_left_out(void **state)
{
	struct weir_space_stats first, last;
	struct test_space t;
	uint32_t seed = 1;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	for (int i = 0; i < 4; i++, seed += 2) {
		do_name(&t, 0, x, BYTES, seed, seed + 2);
		do_name(&t, 0, y, BYTES, seed + 1, seed + 3);
	}
	first = get_stats(&t);
	for (int i = 0; i < 32; i++, seed += 2) {
		do_name(&t, 0, x, BYTES, seed, seed + 2);
		do_name(&t, 0, y, BYTES, seed + 1, seed + 3);
	}
	last = get_stats(&t);
	assert_true(last.nr_compared - first.nr_compared <
		    (last.nr_moves[WEIR_CAUSE_EVICTION] - first.nr_moves[WEIR_CAUSE_EVICTION]) / 4);
	assert_true(last.nr_compared > first.nr_compared);
	assert_int_equal(last.nr_unchanged, first.nr_unchanged);
	for (int i = 0; i < 48; i++) {
		do_name(&t, 0, x, BYTES, seed, 0);
		do_name(&t, 0, y, BYTES, seed + 1, 0);
	}
	assert_true(get_stats(&t).nr_unchanged > last.nr_unchanged + 32);
	do_read(&t, x, BYTES, seed);
	test_space_close(&t);
}

/* x, which is away, is written where it is: in place by the device, and by the CPU. */
static void write_below(struct test_space *t, uint8_t *x)
{
	assert_int_equal(get_block_state(t, x), BLOCK_HOST);
	assert_int_equal(weir_advise(t->space, x, WEIR_ADVISE_PREFER_MEMORY, HOST), 0);
	do_begin(t, 0, x, 64, WEIR_WRITE);
	do_launch(t, 0, x, 64, WEIR_WRITE, 1, 7);
	do_end(t, 0);
	do_sync(t);
	assert_int_equal(get_block_state(t, x), BLOCK_HOST);
	do_write(t, x + BLOCK, 64, 8);
	assert_int_equal(weir_advise(t->space, x, WEIR_ADVISE_DEFAULT, 0), 0);
}

/* Put the words of before in their place again. */
static void write_back(struct test_space *t, uint8_t *x)
{
	struct weir_use use = use_of(x, BYTES, WEIR_WRITE);

	use.read_bytes *= MUCH;
	do_begin_uses(t, 0, &use, 1);
	do_launch(t, 0, x, 64, WEIR_WRITE, 7, 1);
	do_launch(t, 0, x + BLOCK, 64, WEIR_WRITE, 8, 1);
	do_end(t, 0);
	do_sync(t);
	assert_int_equal(get_block_state(t, x), BLOCK_HBM);
}

/* A copy below that is written where it is is not what its digest was of: in place by the device,
 * and by the CPU. */
static void test_written_below(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	write_below(&t, x);
	/* It is equal to the digest then, and not to the copy. */
	write_back(&t, x);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_read(&t, x, BYTES, 1);
	test_space_close(&t);
}

/* x comes up, to be read. */
static void do_bring(struct test_space *t, uint8_t *x)
{
	struct weir_use use = use_of(x, BYTES, WEIR_READ);

	use.read_bytes *= MUCH;
	do_begin_uses(t, 0, &use, 1);
	do_end(t, 0);
	do_sync(t);
	assert_int_equal(get_block_state(t, x), BLOCK_HBM);
	assert_false(range_find(t->space, x)->block->at.digested);
}

/* Nor when it was fetched and left clean in between, without a comparison. */
static void test_clean_between(void **state)
{
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	write_below(&t, x);
	do_bring(&t, x);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	write_back(&t, x);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_read(&t, x, BYTES, 1);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* What leaves for a memory in between without being compared has no copy below that: what lies on
 * the host may be of before. */
static void test_memory_between(void **state)
{
	struct range *range;
	struct test_space t;
	uint8_t *x, *y;
	place_t between;
	bool freed;

	(void)state;
	test_space_open_places(&t, BLOCK, GPU_BLOCKS, GPU_BLOCKS, HOST_BLOCKS);
	assert_int_equal(compare_init(t.space), 0);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, 0), 0);
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, 3);
	range = range_find(t.space, x);
	assert_true(range->block->at.unproved);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, GPU_BLOCKS * BLOCK), 0);
	pthread_mutex_lock(&t.space->lock);
	between = place_ranked(PLACE_OWN, 1);
	assert_int_not_equal(between, space_host(t.space));
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		assert_int_equal(room_send(t.space, range, i, between, WEIR_CAUSE_PREFETCH, &freed),
				 0);
	assert_int_equal(migrate_flush(t.space), 0);
	pthread_mutex_unlock(&t.space->lock);
	do_sync(&t);
	do_check(&t);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, 0), 0);
	do_read(&t, x, BYTES, 3);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* The device's memory is all the same without bytes. */
static void test_phantom(void **state)
{
	struct weir_space_stats stats;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_PHANTOM);
	x = do_alloc(&t, BYTES, 0);
	y = do_alloc(&t, BYTES, 0);
	for (int i = 0; i < 12; i++) {
		struct weir_use use = use_of(i % 2 ? y : x, BYTES, WEIR_WRITE);

		use.read_bytes *= MUCH;
		do_begin_uses(&t, 0, &use, 1);
		do_launch(&t, 0, use.addr, BYTES, i % 2 ? WEIR_WRITE : WEIR_READ, 0, 0);
		do_end(&t, 0);
		do_sync(&t);
	}
	stats = get_stats(&t);
	assert_true(stats.nr_unchanged >= 8);
	assert_true(stats.nr_compared >= stats.nr_unchanged + 8);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ nobody waits too long */

/* x leaves while the digests' stream is held up by a launch on the second stream; meanwhile the
 * backend has these ops. */
static void leave(struct test_space *t, uint8_t *x, const struct backend_ops *ops)
{
	const struct backend_ops *before = t->backend->ops;
	struct range *range = range_find(t->space, x);
	bool freed;

	pthread_mutex_lock(&t->space->lock);
	assert_int_equal(before->stream_wait(t->backend, compare_stream(t->space), get_fence(t, 1)),
			 0);
	t->backend->ops = ops;
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		assert_int_equal(room_evict(t->space, range, i, WEIR_CAUSE_EVICTION, &freed), 0);
	assert_int_equal(migrate_flush(t->space), 0);
	t->backend->ops = before;
	assert_int_equal(range->nr_comparing, range->nr_blocks);
	pthread_mutex_unlock(&t->space->lock);
	do_check(t);
}

static void leave_slowly(struct test_space *t, uint8_t *x)
{
	do_spin(t, 1, LONG_NS);
	leave(t, x, t->backend->ops);
}

static int fence_record_fails(struct backend *b, stream_id_t stream, fence_t *out)
{
	(void)b;
	(void)stream;
	(void)out;
	return -EIO;
}

/* Digests whose fence could not be recorded are done no sooner than others: one fence is all's,
 * later. */
static void test_fence_late(void **state)
{
	struct backend_ops failing;
	const struct range *range;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, 3);
	range = range_find(t.space, x);
	failing = *t.backend->ops;
	failing.fence_record = fence_record_fails;
	do_spin(&t, 1, LONG_NS);
	leave(&t, x, &failing);
	pthread_mutex_lock(&t.space->lock);
	space_progress(t.space);
	assert_int_equal(range->nr_comparing, range->nr_blocks);
	pthread_mutex_unlock(&t.space->lock);
	do_sync(&t);
	do_read(&t, x, BYTES, 3);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ digests of what came up */

/* From here on digests wait for a launch on the second stream. @return its fence */
static fence_t hold_digests(struct test_space *t)
{
	fence_t spun;

	do_spin(t, 1, LONG_NS);
	spun = get_fence(t, 1);
	assert_int_equal(t->backend->ops->stream_wait(t->backend, compare_stream(t->space), spun),
			 0);
	return spun;
}

/* A launch is queued that may write x by atomics. */
static void name_atomically(struct test_space *t, uint32_t stream, uint8_t *x, uint32_t put)
{
	struct weir_use use = use_of(x, BYTES, WEIR_ATOMIC);

	use.read_bytes *= MUCH;
	do_begin_uses(t, stream, &use, 1);
	do_launch(t, stream, x, BYTES, WEIR_ATOMIC, put ? 1 : 0, put);
	do_end(t, stream);
}

/* A launch that may write what came up is behind its digest, and the host does not wait. Until that
 * is taken there is nothing to compare the block with. */
static void test_digest_comes_first(void **state)
{
	const struct block *block;
	struct test_space t;
	fence_t spun, named;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_bring(&t, x);
	spun = hold_digests(&t);
	name_atomically(&t, 0, x, 3);
	named = get_fence(&t, 0);
	assert_false(is_reached(&t, spun));
	block = range_find(t.space, x)->block;
	assert_true(block->at.unproved);
	assert_false(compare_is_wanted(t.space, block, WEIR_CAUSE_EVICTION));
	assert_int_equal(t.backend->ops->fence_wait(t.backend, named), 0);
	assert_true(is_reached(&t, spun));
	do_sync(&t);
	assert_true(compare_is_wanted(t.space, block, WEIR_CAUSE_EVICTION));
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	do_read(&t, x, BYTES, 3);
	test_space_close(&t);
}

/* A launch of another stream, which has no order with the first, begins when the digest is done;
 * or, if it does not wait, the digest is of no interest. */
static void check_other_stream(uint64_t patience_ns)
{
	const struct block *block;
	struct test_space t;
	fence_t spun;
	uint8_t *x, *y;

	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	t.space->patience_ns = patience_ns;
	do_bring(&t, x);
	spun = hold_digests(&t);
	name_atomically(&t, 0, x, 0);
	name_atomically(&t, 2, x, 3);
	block = range_find(t.space, x)->block;
	assert_int_equal(is_reached(&t, spun), !patience_ns);
	assert_int_equal(block->at.digested, !patience_ns);
	do_check(&t);
	do_sync(&t);
	t.space->patience_ns = 0;
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	do_read(&t, x, BYTES, 3);
	test_space_close(&t);
}

static void test_other_stream(void **state)
{
	(void)state;
	check_other_stream(0);
	check_other_stream(PATIENCE_NS);
}

/* While another stream has a launch that is not done, which may write anything by the rules of
 * atomics, no digest is taken: what leaves is copied. */
static void test_not_alone(void **state)
{
	struct weir_space_stats before;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_bring(&t, x);
	do_begin(&t, 2, y, 64, WEIR_ATOMIC);
	do_spin(&t, 2, LONG_NS);
	do_end(&t, 2);
	name_atomically(&t, 0, x, 0);
	assert_false(range_find(t.space, x)->block->at.digested);
	do_sync(&t);
	before = get_stats(&t);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	assert_int_equal(get_stats(&t).nr_compared, before.nr_compared);
	do_read(&t, x, BYTES, 1);
	test_space_close(&t);
}

static int access_begin_fails(struct backend *b, stream_id_t stream, const void *owner,
			      const struct weir_use *uses, uint32_t nr)
{
	(void)b;
	(void)stream;
	(void)owner;
	(void)uses;
	(void)nr;
	return -EIO;
}

/* A bracket that cannot begin leaves no digest behind. */
static void test_begin_fails(void **state)
{
	const struct backend_ops *before;
	struct backend_ops failing;
	struct weir_use use;
	struct test_space t;
	uint8_t *x, *y;

	(void)state;
	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	before = t.backend->ops;
	do_bring(&t, x);
	failing = *t.backend->ops;
	failing.access_begin = access_begin_fails;
	use = use_of(x, BYTES, WEIR_WRITE);
	t.backend->ops = &failing;
	assert_int_equal(weir_begin(t.space, t.stream[0], &use, 1), -EIO);
	assert_false(range_find(t.space, x)->block->at.digested);
	do_check(&t);
	t.backend->ops = before;
	do_name(&t, 0, x, BYTES, 1, 3);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_read(&t, x, BYTES, 3);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ nobody waits too long */

/* Whoever names a block that is being compared waits for it, if it is patient. */
static void check_named(uint64_t patience_ns)
{
	struct test_space t;
	fence_t spun;
	uint8_t *x, *y;

	open_data(&t, WEIR_DATA_REAL);
	t.space->patience_ns = patience_ns;
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, 0);
	leave_slowly(&t, x);
	spun = get_fence(&t, 1);
	do_begin(&t, 0, x, BYTES, WEIR_WRITE);
	assert_int_equal(is_reached(&t, spun), !patience_ns);
	do_launch(&t, 0, x, BYTES, WEIR_WRITE, 1, 3);
	do_end(&t, 0);
	do_check(&t);
	do_sync(&t);
	/* Its digests say nothing, and it can leave again. */
	do_name(&t, 0, x, BYTES, 3, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HBM);
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	do_read(&t, x, BYTES, 3);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

static void test_named_while_compared(void **state)
{
	(void)state;
	check_named(0);
	check_named(PATIENCE_NS);
}

/* Whoever only reads a block that is being compared leaves it as it is: changed or not, it is not
 * what is below that counts. It does not move again before its digest is done. */
static void check_read(uint32_t put)
{
	const struct block *block;
	const uint32_t seed = put ? put : 1;
	struct test_space t;
	uint8_t *x, *y;

	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, put);
	t.space->patience_ns = PATIENCE_NS;
	leave_slowly(&t, x);
	do_begin(&t, 0, x, BYTES, WEIR_READ);
	block = range_find(t.space, x)->block;
	assert_false(is_reached(&t, get_fence(&t, 1)));
	assert_int_equal(block->at.cleaning, CLEANING_CANCELLED);
	do_launch(&t, 0, x, BYTES, WEIR_READ, seed, 0);
	do_end(&t, 0);
	do_check(&t);
	do_sync(&t);
	t.space->patience_ns = 0;
	do_name(&t, 0, y, BYTES, 2, 0);
	do_name(&t, 0, y, BYTES, 2, 0);
	assert_int_equal(get_block_state(&t, x), BLOCK_HOST);
	do_read(&t, x, BYTES, seed);
	do_read(&t, y, BYTES, 2);
	test_space_close(&t);
}

static void test_read_while_compared(void **state)
{
	(void)state;
	check_read(0);
	check_read(3);
}

/* What is freed or discarded meanwhile is not copied. */
static void check_dies(bool freed)
{
	struct test_space t;
	uint64_t out;
	uint8_t *x, *y;

	open_data(&t, WEIR_DATA_REAL);
	warm_up(&t, &x, &y);
	do_name(&t, 0, x, BYTES, 1, 0);
	leave_slowly(&t, x);
	out = get_out_bytes(&t);
	if (freed)
		do_free(&t, x, 0);
	else
		do_discard(&t, 0, x, BYTES);
	do_check(&t);
	do_sync(&t);
	assert_int_equal(get_out_bytes(&t), out);
	do_fill(&t, 0, y, BYTES, 4);
	do_sync(&t);
	assert_int_equal(get_out_bytes(&t), out);
	do_read(&t, y, BYTES, 4);
	test_space_close(&t);
}

static void test_dies_while_compared(void **state)
{
	(void)state;
	check_dies(true);
	check_dies(false);
}

/* ------------------------------------------------------------------ which spaces can */

static void test_which(void **state)
{
	struct test_space t;

	(void)state;
	test_space_open_devices(&t, BLOCK, 4, 4, 8);
	assert_int_equal(compare_init(t.space), -ENOTSUP);
	test_space_close(&t);
	open_data(&t, WEIR_DATA_REAL);
	assert_int_equal(compare_init(t.space), -ENOTSUP); /* it does */
	test_space_close(&t);
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	(void)do_alloc(&t, BLOCK, 0);
	assert_int_equal(compare_init(t.space), -ENOTSUP);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unchanged),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_changed_back),
		cmocka_unit_test(test_no_digest),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_written_below),
		cmocka_unit_test(test_clean_between),
		cmocka_unit_test(test_memory_between),
		cmocka_unit_test(test_phantom),
		cmocka_unit_test(test_digest_comes_first),
		cmocka_unit_test(test_other_stream),
		cmocka_unit_test(test_not_alone),
		cmocka_unit_test(test_begin_fails),
		cmocka_unit_test(test_fence_late),
		cmocka_unit_test(test_named_while_compared),
		cmocka_unit_test(test_read_while_compared),
		cmocka_unit_test(test_dies_while_compared),
		cmocka_unit_test(test_which),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
