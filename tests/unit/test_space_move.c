/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves and what does not, in exact numbers of blocks: nothing clean, dead or overwritten is
 * copied; prefetch and its fences; advice.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)
#define GPU_BLOCKS 4u

struct fixture {
	struct test_space t;
	uint8_t *a, *b; /* each as large as the GPU's budget */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	test_space_open(&f->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, 16);
	f->a = do_alloc(&f->t, GPU_BLOCKS * BLOCK, 0);
	f->b = do_alloc(&f->t, GPU_BLOCKS * BLOCK, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	test_space_close(&f->t);
	free(f);
	return 0;
}

/* Blocks copied since the last call, each way. */
struct copied {
	uint64_t in, out;
};

static void expect_copied(struct fixture *f, struct copied *before, uint64_t in, uint64_t out)
{
	struct weir_space_stats stats;
	struct copied now;

	do_sync(&f->t);
	stats = get_stats(&f->t);
	now.in = get_copied(&f->t, &stats, BACKEND_TO_DEVICE) / BLOCK;
	now.out = get_copied(&f->t, &stats, BACKEND_TO_HOST) / BLOCK;
	assert_int_equal(now.in - before->in, in);
	assert_int_equal(now.out - before->out, out);
	*before = now;
}

#define ALL (GPU_BLOCKS * BLOCK)

static void test_space_move_only_what_is_needed(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};
	struct weir_space_stats stats;

	/* First use: no contents, no copy. */
	do_fill(&f->t, 0, f->a, ALL, 1);
	expect_copied(f, &c, 0, 0);
	/* a is dirty: out; b has no contents yet. */
	do_fill(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, 0, GPU_BLOCKS);
	/* b is dirty: out; a in. */
	do_expect(&f->t, 0, f->a, ALL, 1);
	expect_copied(f, &c, GPU_BLOCKS, GPU_BLOCKS);
	/* a is clean: dropped; b in. */
	do_expect(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, GPU_BLOCKS, 0);
	assert_int_equal(get_stats(&f->t).nr_clean_dropped, GPU_BLOCKS);
	/* b is clean: dropped; a is overwritten: not in. */
	do_fill(&f->t, 0, f->a, ALL, 3);
	expect_copied(f, &c, 0, 0);
	assert_int_equal(get_stats(&f->t).nr_overwrites_saved, GPU_BLOCKS);
	/* a is discarded: dropped; b in. */
	do_discard(&f->t, 0, f->a, ALL);
	do_change(&f->t, 0, f->b, ALL, 2, 4);
	expect_copied(f, &c, GPU_BLOCKS, 0);
	stats = get_stats(&f->t);
	assert_int_equal(stats.nr_dead_dropped, GPU_BLOCKS);
	/* b was read, then written: out as it is now. */
	do_fill(&f->t, 0, f->a, ALL, 5);
	expect_copied(f, &c, 0, GPU_BLOCKS);
	do_expect(&f->t, 0, f->b, ALL, 4);
	do_expect(&f->t, 0, f->a, ALL, 5);
	do_sync(&f->t);
}

/* A freed range is dead: it goes without a copy. */
static void test_space_move_nothing_of_the_freed(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_free(&f->t, f->a, 0);
	do_fill(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, 0, 0);
	f->a = do_alloc(&f->t, ALL, 0);
	do_fill(&f->t, 0, f->a, ALL, 3);
	expect_copied(f, &c, 0, GPU_BLOCKS);
	do_free(&f->t, f->b, 0);
	do_free(&f->t, f->a, 0);
	expect_copied(f, &c, 0, 0);
}

/* One written block of a range is the only one that goes out. */
static void test_space_move_only_dirty_blocks(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	do_expect(&f->t, 0, f->a, ALL, 1);
	expect_copied(f, &c, GPU_BLOCKS, 2 * GPU_BLOCKS);
	do_change(&f->t, 0, f->a + BLOCK + 256, 256, 1, 3);
	do_expect(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, GPU_BLOCKS, 1);
	do_read(&f->t, f->a + BLOCK + 256, 256, 3);
	do_read(&f->t, f->a, BLOCK + 256, 1);
	do_expect(&f->t, 0, f->a + BLOCK + 512, ALL - BLOCK - 512, 1);
	do_sync(&f->t);
}

static void test_space_move_program_copies_dirty(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	do_expect(&f->t, 0, f->a, ALL, 1);
	expect_copied(f, &c, GPU_BLOCKS, 2 * GPU_BLOCKS);
	do_write(&f->t, f->a, 256, 3);
	do_read(&f->t, f->a + BLOCK, 256, 1);
	do_expect(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, GPU_BLOCKS, 1);
	do_expect(&f->t, 0, f->a, 256, 3);
	do_expect(&f->t, 0, f->a + 256, ALL - 256, 1);
	do_sync(&f->t);
}

/* Without a plan, what is touched sparsely is left where it is when HBM is full. */
static void test_space_move_sparse_use_stays_in_place(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};
	struct weir_space_stats stats;
	struct weir_use use;
	uint64_t inplace;

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	expect_copied(f, &c, 0, GPU_BLOCKS);
	stats = get_stats(&f->t);
	inplace = get_bytes(&f->t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_INPLACE);
	use = use_of(f->a, ALL, WEIR_READ);
	use.pattern = WEIR_RANDOM;
	use.granule = 64;
	use.read_bytes = 640;
	assert_int_equal(weir_begin(f->t.space, f->t.stream[0], &use, 1), 0);
	do_launch(&f->t, 0, f->a, BLOCK, WEIR_READ, 1, 0);
	do_end(&f->t, 0);
	expect_copied(f, &c, 0, 0);
	stats = get_stats(&f->t);
	assert_int_equal(get_bytes(&f->t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_INPLACE) - inplace,
			 BLOCK);
}

/* ------------------------------------------------------------------ prefetch */

static void test_space_prefetch_both_ways(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;
	struct copied c = {0};
	struct weir_space_stats stats;

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_sync(&f->t);
	assert_int_equal(weir_prefetch(f->t.space, f->a + BLOCK + 5, BLOCK, HOST, &fence), 0);
	do_check(&f->t);
	assert_int_equal(weir_fence_wait(fence), 0);
	assert_int_equal(weir_fence_query(fence), 1);
	weir_fence_put(fence);
	/* widened to whole blocks: two */
	expect_copied(f, &c, 0, 2);
	assert_int_equal(get_block_state(&f->t, f->a), BLOCK_HBM);
	assert_int_equal(get_block_state(&f->t, f->a + BLOCK), BLOCK_HOST);
	assert_int_equal(get_block_state(&f->t, f->a + 2 * BLOCK), BLOCK_HOST);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, &fence), 0);
	assert_int_equal(weir_fence_query(fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	assert_int_equal(weir_fence_query(fence), 1);
	weir_fence_put(fence);
	expect_copied(f, &c, 2, 0);
	stats = get_stats(&f->t);
	assert_int_equal(get_bytes(&f->t, &stats, BACKEND_TO_DEVICE, WEIR_CAUSE_PREFETCH),
			 2 * BLOCK);
	assert_int_equal(get_bytes(&f->t, &stats, BACKEND_TO_HOST, WEIR_CAUSE_PREFETCH), 2 * BLOCK);
	/* There already: nothing moves. Clean: down without a copy. */
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, NULL), 0);
	assert_int_equal(weir_prefetch(f->t.space, f->a + BLOCK, 2 * BLOCK, HOST, NULL), 0);
	expect_copied(f, &c, 0, 0);
	assert_int_equal(get_block_state(&f->t, f->a + BLOCK), BLOCK_HOST);
	do_expect(&f->t, 0, f->a, ALL, 1);
	do_sync(&f->t);
	weir_fence_put(NULL);
}

static void test_space_prefetch_errors(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence = NULL;

	assert_int_equal(weir_prefetch(f->t.space, f->a, 0, GPU0, &fence), -EINVAL);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL + 1, GPU0, &fence), -EINVAL);
	assert_int_equal(weir_prefetch(f->t.space, &f->t, 1, GPU0, &fence), -EINVAL);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU1, &fence), -EINVAL);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, 99, &fence), -EINVAL);
	assert_null(fence);
	do_fill(&f->t, 0, f->a, ALL, 1);
	do_begin(&f->t, 0, f->a, ALL, WEIR_READ);
	assert_int_equal(weir_prefetch(f->t.space, f->b, ALL, GPU0, &fence), -ENOMEM);
	assert_null(fence);
	do_end(&f->t, 0);
	do_sync(&f->t);
}

/* Work that still uses a block: it moves when that is done. A pinned one stays. */
static void test_space_prefetch_behind_work(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_begin(&f->t, 0, f->a, 2 * BLOCK, WEIR_WRITE);
	for (uint32_t i = 1; i < 10; i++)
		do_launch(&f->t, 0, f->a, 2 * BLOCK, WEIR_WRITE, i, i + 1);
	do_end(&f->t, 0);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, HOST, &fence), 0);
	do_check(&f->t);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(get_block_state(&f->t, f->a), BLOCK_HOST);
	do_begin(&f->t, 0, f->a, BLOCK, WEIR_READ);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	do_launch(&f->t, 0, f->a, BLOCK, WEIR_READ, 10, 0);
	do_end(&f->t, 0);
	do_expect(&f->t, 0, f->a, 2 * BLOCK, 10);
	do_expect(&f->t, 0, f->a + 2 * BLOCK, 2 * BLOCK, 1);
	do_sync(&f->t);
}

/* One after the other, the second waits for the first one's copies. */
static void test_space_prefetch_up_then_down(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;

	do_fill(&f->t, 0, f->a, ALL, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	do_discard(&f->t, 0, f->b, ALL);
	do_sync(&f->t);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, NULL), 0);
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, HOST, &fence), 0);
	do_check(&f->t);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	do_sync(&f->t);
	assert_int_equal(get_block_state(&f->t, f->a), BLOCK_HOST);
	do_expect(&f->t, 0, f->a, ALL, 1);
	do_sync(&f->t);
}

static void test_space_prefetch_of_the_unused_and_the_freed(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;
	struct copied c = {0};

	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(get_block_state(&f->t, f->a), BLOCK_HBM);
	expect_copied(f, &c, 0, 0);
	do_fill(&f->t, 0, f->b, ALL, 1);
	do_fill(&f->t, 0, f->a, ALL, 2);
	expect_copied(f, &c, 0, GPU_BLOCKS);
	assert_int_equal(weir_prefetch(f->t.space, f->b, ALL, GPU0, &fence), 0);
	do_free(&f->t, f->b, 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	do_expect(&f->t, 0, f->a, ALL, 2);
	do_sync(&f->t);
}

/* More than HBM holds: as much as there is room for, soundly. */
static void test_space_prefetch_beyond_the_budget(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;
	uint8_t *c = do_alloc(&f->t, 2 * ALL, 0);
	int err;

	do_fill(&f->t, 0, c, 2 * ALL, 1);
	do_sync(&f->t);
	assert_int_equal(weir_prefetch(f->t.space, c, 2 * ALL, GPU0, &fence), 0);
	do_check(&f->t);
	err = weir_fence_wait(fence);
	assert_true(!err || err == -ENOMEM);
	weir_fence_put(fence);
	do_expect(&f->t, 0, c, 2 * ALL, 1);
	do_sync(&f->t);
	assert_true(get_stats(&f->t).memory[GPU0].peak_bytes <= ALL);
	/* Given back before it is done, with the space destroyed behind it. */
	assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, GPU0, &fence), 0);
	weir_fence_put(fence);
	assert_int_equal(weir_prefetch(f->t.space, c, 2 * ALL, GPU0, NULL), 0);
}

/* ------------------------------------------------------------------ advice */

/* ------------------------------------------------------------------ what fails */

/* A driver that fails as it is told, around the machine's own. */
static struct {
	const struct backend_ops *inner;
	struct backend_ops ops;
	uint32_t nr_refused; /* fences that are refused from now on */
	stream_id_t refused; /* of this stream */
	fence_t failed;	     /* a fence whose work failed; 0: none */
	bool told;	     /* ... which is told once */
} driver;

static int failing_record(struct backend *b, stream_id_t stream, fence_t *out)
{
	if (stream == driver.refused && driver.nr_refused && driver.nr_refused--)
		return -EIO;
	return driver.inner->fence_record(b, stream, out);
}

static int failing_done(struct backend *b, fence_t fence)
{
	int done = driver.inner->fence_done(b, fence);

	if (done != 1 || fence != driver.failed || driver.told)
		return done;
	driver.told = true;
	return -EIO;
}

static int failing_wait(struct backend *b, fence_t fence)
{
	int err = driver.inner->fence_wait(b, fence);

	if (err || fence != driver.failed || driver.told)
		return err;
	driver.told = true;
	return -EIO;
}

static void driver_open(struct test_space *t)
{
	memset(&driver, 0, sizeof(driver));
	driver.inner = t->backend->ops;
	driver.ops = *driver.inner;
	driver.ops.fence_record = failing_record;
	driver.ops.fence_done = failing_done;
	driver.ops.fence_seen = failing_done;
	driver.ops.fence_wait = failing_wait;
	t->backend->ops = &driver.ops;
}

static void driver_close(struct test_space *t)
{
	t->backend->ops = driver.inner;
}

/* The fence of a prefetch says that its copies failed, however that comes to light. */
static void test_space_prefetch_that_fails(void **state)
{
	struct fixture *f = *state;
	struct weir_fence *fence;
	int err;

	driver_open(&f->t);
	for (int how = 0; how < 3; how++) {
		do_fill(&f->t, 0, f->a, ALL, 1);
		if (how % 2)
			assert_int_equal(weir_prefetch(f->t.space, f->a, ALL, HOST, NULL), 0);
		do_sync(&f->t);
		assert_int_equal(
			weir_prefetch(f->t.space, f->a, ALL, how % 2 ? GPU0 : HOST, &fence), 0);
		driver.failed = range_find(f->t.space, f->a)->path[how % 2 ? 0 : 1].ready;
		assert_true(driver.failed);
		driver.told = false;
		if (how == 0) {
			err = weir_fence_wait(fence);
		} else if (how == 1) {
			while (!(err = weir_fence_query(fence)))
				f->t.backend->ops->host_spend(f->t.backend, 1000);
		} else {
			/* Somebody else was told before. */
			assert_int_equal(weir_space_sync(f->t.space), -EIO);
			err = weir_fence_query(fence);
		}
		assert_int_equal(err, -EIO);
		assert_int_equal(weir_fence_wait(fence), -EIO);
		weir_fence_put(fence);
		assert_int_equal(weir_space_sync(f->t.space), how == 2 ? 0 : -EIO);
		/* The next one does not. */
		assert_int_equal(
			weir_prefetch(f->t.space, f->a, ALL, how % 2 ? HOST : GPU0, &fence), 0);
		assert_int_equal(weir_fence_wait(fence), 0);
		weir_fence_put(fence);
	}
	driver_close(&f->t);
	do_expect(&f->t, 0, f->a, ALL, 1);
	do_sync(&f->t);
}

/* Copies that no fence could be recorded for are not taken for done: what needs them fails, or
 * waits until there is one. */
static void test_space_copies_without_a_fence(void **state)
{
	static const uint32_t nr[] = {SPACE_TRIES, 3 * SPACE_TRIES, 1000};
	struct fixture *f = *state;
	struct weir_use use = use_of(f->a, ALL, WEIR_READ);

	driver_open(&f->t);
	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
		int err;

		do_fill(&f->t, 0, f->a, ALL, 1);
		do_sync(&f->t);
		driver.refused = space_path(f->t.space, PLACE_OWN, space_host(f->t.space))->stream;
		driver.nr_refused = nr[i];
		err = weir_host_begin(f->t.space, &use, 1);
		do_check(&f->t);
		assert_int_equal(err, -EIO);
		assert_true(get_block_state(&f->t, f->a) == BLOCK_TO_HOST ||
			    get_block_state(&f->t, f->a) == BLOCK_HOST);
		/* Once the driver gives in, all goes on. */
		driver.nr_refused = 0;
		assert_int_equal(weir_host_begin(f->t.space, &use, 1), 0);
		assert_int_equal(pattern_wrong(f->a, f->a, ALL, 1), 0);
		assert_int_equal(weir_host_end(f->t.space, &use, 1), 0);
		(void)!weir_space_sync(f->t.space);
		/* The same upwards: a bracket does not open on copies that it cannot wait for. */
		driver.refused = space_path(f->t.space, space_host(f->t.space), PLACE_OWN)->stream;
		driver.nr_refused = nr[i];
		use.read_bytes = 100 * ALL;
		assert_int_equal(weir_begin(f->t.space, f->t.stream[0], &use, 1), -EIO);
		do_check(&f->t);
		driver.nr_refused = 0;
		do_expect(&f->t, 0, f->a, ALL, 1);
		(void)!weir_space_sync(f->t.space);
		do_sync(&f->t);
	}
	/* And where it never does, nothing hangs. */
	driver.nr_refused = UINT32_MAX;
	do_discard(&f->t, 0, f->b, ALL);
	(void)!weir_prefetch(f->t.space, f->a, ALL, HOST, NULL);
	(void)!weir_prefetch(f->t.space, f->a, ALL, GPU0, NULL);
	(void)!weir_space_sync(f->t.space);
	driver_close(&f->t);
	(void)!weir_space_sync(f->t.space);
	do_expect(&f->t, 0, f->a, ALL, 1);
	do_sync(&f->t);
}

static void test_space_advice_errors(void **state)
{
	struct fixture *f = *state;
	struct weir_space *space = f->t.space;

	assert_int_equal(weir_advise(space, &f->t, WEIR_ADVISE_DEFAULT, 0), -EINVAL);
	assert_int_equal(weir_advise(space, f->a + ALL, (enum weir_advice)4, 0), -EINVAL);
	assert_int_equal(weir_advise(space, f->a, (enum weir_advice)4, 0), -EINVAL);
	assert_int_equal(weir_advise(space, f->a, WEIR_ADVISE_PREFER_MEMORY, GPU1), -EINVAL);
	assert_int_equal(weir_advise(space, f->a, WEIR_ADVISE_PREFER_MEMORY, 77), -EINVAL);
	assert_int_equal(weir_advise(space, f->a, WEIR_ADVISE_ACCESSED_BY, 2), -EINVAL);
	assert_int_equal(weir_advise(space, f->a, WEIR_ADVISE_ACCESSED_BY, UINT32_MAX), -EINVAL);
	assert_int_equal(weir_advise(space, f->a + BLOCK + 3, WEIR_ADVISE_DEFAULT, 0), 0);
}

static void test_space_advice_prefer_host(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};

	assert_int_equal(weir_advise(f->t.space, f->a, WEIR_ADVISE_PREFER_MEMORY, HOST), 0);
	do_fill(&f->t, 0, f->a, ALL, 1);
	do_change(&f->t, 0, f->a, ALL, 1, 2);
	expect_copied(f, &c, 0, 0);
	assert_int_equal(get_block_state(&f->t, f->a), BLOCK_HOST);
	assert_int_equal(get_stats(&f->t).memory[GPU0].bytes, 0);
	assert_int_equal(weir_advise(f->t.space, f->a, WEIR_ADVISE_DEFAULT, 0), 0);
	do_expect(&f->t, 0, f->a, ALL, 2);
	expect_copied(f, &c, GPU_BLOCKS, 0);
}

static void test_space_advice_prefer_hbm(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(weir_advise(f->t.space, f->a, WEIR_ADVISE_PREFER_MEMORY, GPU0), 0);
	do_fill(&f->t, 0, f->a, 2 * BLOCK, 1);
	do_fill(&f->t, 0, f->b, ALL, 2);
	for (int i = 0; i < 3; i++) {
		do_expect(&f->t, 0, f->b, BLOCK, 2);
		do_expect(&f->t, 0, f->b + BLOCK, BLOCK, 2);
		do_expect(&f->t, 0, f->b + 2 * BLOCK, BLOCK, 2);
	}
	do_expect(&f->t, 0, f->a, 2 * BLOCK, 1);
	do_sync(&f->t);
}

/* Read over and over with something else in between: one copy out in all. */
static void test_space_advice_read_mostly(void **state)
{
	struct fixture *f = *state;
	struct copied c = {0};

	assert_int_equal(weir_advise(f->t.space, f->a, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	do_fill(&f->t, 0, f->a, ALL, 1);
	for (int i = 0; i < 3; i++) {
		do_fill(&f->t, 0, f->b, ALL, 2);
		do_discard(&f->t, 0, f->b, ALL);
		do_sync(&f->t); /* what is on its way is used in place, and is no victim */
		do_expect(&f->t, 0, f->a, ALL, 1);
		do_sync(&f->t);
	}
	expect_copied(f, &c, 3 * GPU_BLOCKS, GPU_BLOCKS);
	do_change(&f->t, 0, f->a, ALL, 1, 3);
	do_fill(&f->t, 0, f->b, ALL, 2);
	do_expect(&f->t, 0, f->a, ALL, 3);
	do_sync(&f->t);
}

/* Lower copies, and those still being made, give way where the host has no room for more. */
static void test_space_advice_read_mostly_in_a_full_space(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 3, 11);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_fill(&t, 0, a, 6 * BLOCK, 1);
	do_sync(&t);
	b = do_alloc(&t, 6 * BLOCK, 0);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	assert_int_equal(weir_begin(t.space, t.stream[0], NULL, 0), 0);
	do_check(&t);
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_READ, 1, 0);
	do_launch(&t, 0, b, 6 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_end(&t, 0);
	do_expect(&t, 0, a, 6 * BLOCK, 1);
	do_expect(&t, 0, b, 6 * BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* As many lower copies as the host has room for; all of them are queued, and end with the space. */
static void test_space_advice_read_mostly_with_little_room(void **state)
{
	struct test_space t;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 2);
	a = do_alloc(&t, 4 * BLOCK, 0);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_sync(&t);
	do_expect(&t, 0, a, 4 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(space_path(t.space, PLACE_OWN, space_host(t.space))->batch.nr, 0);
	assert_true(get_stats(&t).memory[HOST].bytes <= 2 * BLOCK);
	do_change(&t, 0, a, 4 * BLOCK, 1, 2);
	do_expect(&t, 0, a, 4 * BLOCK, 2);
	test_space_close(&t);
}

/* Mapped ahead: the other device's first bracket makes no mapping call. */
static void test_space_advice_accessed_by(void **state)
{
	uint64_t with, without;
	struct test_space t;
	void *a, *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, 4, 4, 8);
	a = do_alloc(&t, BLOCK, 0);
	b = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, BLOCK, 1);
	do_fill(&t, 0, b, BLOCK, 2);
	do_sync(&t);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_ACCESSED_BY, 1), 0);
	do_check(&t);
	with = weir_machine_now_ns(t.machine);
	do_begin(&t, TEST_OTHER, a, BLOCK, WEIR_READ);
	with = weir_machine_now_ns(t.machine) - with;
	do_launch(&t, TEST_OTHER, a, BLOCK, WEIR_READ, 1, 0);
	do_end(&t, TEST_OTHER);
	without = weir_machine_now_ns(t.machine);
	do_begin(&t, TEST_OTHER, b, BLOCK, WEIR_READ);
	without = weir_machine_now_ns(t.machine) - without;
	do_launch(&t, TEST_OTHER, b, BLOCK, WEIR_READ, 2, 0);
	do_end(&t, TEST_OTHER);
	assert_true(without >= with + t.desc.vmm.set_access_ns);
	do_sync(&t);
	test_space_close(&t);
}

/* Undone while the other device still works on it: that work goes on. */
static void test_space_advice_undone_in_use(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 4, 4, 8);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_sync(&t);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_ACCESSED_BY, 1), 0);
	do_begin(&t, TEST_OTHER, a, 2 * BLOCK, WEIR_WRITE);
	do_launch(&t, TEST_OTHER, a, 2 * BLOCK, WEIR_WRITE, 1, 2);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_DEFAULT, 0), 0);
	do_launch(&t, TEST_OTHER, a, 2 * BLOCK, WEIR_WRITE, 2, 3);
	do_end(&t, TEST_OTHER);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_DEFAULT, 0), 0);
	do_expect(&t, TEST_OTHER, a, 2 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

#define move_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		move_test(test_space_move_only_what_is_needed),
		move_test(test_space_move_nothing_of_the_freed),
		move_test(test_space_move_only_dirty_blocks),
		move_test(test_space_move_program_copies_dirty),
		move_test(test_space_move_sparse_use_stays_in_place),
		move_test(test_space_prefetch_both_ways),
		move_test(test_space_prefetch_errors),
		move_test(test_space_prefetch_behind_work),
		move_test(test_space_prefetch_up_then_down),
		move_test(test_space_prefetch_of_the_unused_and_the_freed),
		move_test(test_space_prefetch_beyond_the_budget),
		move_test(test_space_prefetch_that_fails),
		move_test(test_space_copies_without_a_fence),
		move_test(test_space_advice_errors),
		move_test(test_space_advice_prefer_host),
		move_test(test_space_advice_prefer_hbm),
		move_test(test_space_advice_read_mostly),
		cmocka_unit_test(test_space_advice_read_mostly_in_a_full_space),
		cmocka_unit_test(test_space_advice_read_mostly_with_little_room),
		move_test(test_space_advice_accessed_by),
		move_test(test_space_advice_undone_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
