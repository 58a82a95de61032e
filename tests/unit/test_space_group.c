/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets of guessed launches that share a fence, where nothing moves: how many do, who makes them
 * have one, and when each has its own.
 */
#include <errno.h>

#include "tests/unit/test_space_late.h"

enum { GPU_BLOCKS = 6, HOST_BLOCKS = 32, GROUP = 16, LAUNCHES = 3 };

struct group {
	struct test_space t;
	uint8_t *x, *y; /* two blocks each, that the launches use in turn */
	uint32_t nr;	/* launches so far */
	bool apart;	/* they must not share */
	bool barrier;	/* ... and are on the default stream */
};

/* A launch that takes long, of the range whose turn it is. */
static void begin_launch(struct group *g, uint32_t stream)
{
	struct weir_use use = use_of(g->nr % 2 ? g->y : g->x, 2 * BLOCK, WEIR_ATOMIC);
	const struct bracket_asked asked = {.uses = &use,
					    .nr = 1,
					    .nr_likely = 1,
					    .launched = 7,
					    .groups = !g->apart,
					    .barrier = g->barrier};

	const struct weir_launch launch = {.kernel = &spin_kernel,
					   .uses = &use,
					   .nr_uses = 1,
					   .ops = (double)SPIN_NS * g->t.desc.device[0].ops_per_s /
						  1e9};

	assert_int_equal(bracket_begin_guessed(g->t.space, g->t.stream[stream], &asked), 0);
	do_check(&g->t);
	assert_int_equal(weir_stream_launch(g->t.stream[stream], &launch), 0);
	g->nr++;
}

static void launch_on(struct group *g, uint32_t stream)
{
	begin_launch(g, stream);
	do_end(&g->t, stream);
}

static void launches(struct group *g, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		launch_on(g, 0);
}

/* The n-th last bracket that ended. */
static const struct ended_bracket *last(const struct group *g, uint32_t n)
{
	const struct weir_space *space = g->t.space;

	assert_true(space->last_seq - n > space->done_seq);
	return &space->ended[(space->last_seq - n) % space->max_ended];
}

/* Launch until all plans are made and no time is asked for; then nothing is under way. */
static void warm_up(struct group *g)
{
	for (uint32_t i = 0; i < 100 && !g->t.space->nr_unfenced; i++) {
		launches(g, 8);
		if (!g->t.space->nr_unfenced)
			do_sync(&g->t);
	}
	assert_true(g->t.space->nr_unfenced > 0);
	do_sync(&g->t);
	assert_int_equal(g->t.space->nr_unfenced, 0);
	assert_int_equal(g->t.space->done_seq, g->t.space->last_seq);
}

static void open_group(struct group *g)
{
	*g = (struct group){0};
	test_space_open(&g->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	g->t.space->guessed = true;
	g->x = do_alloc(&g->t, 2 * BLOCK, 0);
	g->y = do_alloc(&g->t, 2 * BLOCK, 0);
	do_fill(&g->t, 0, g->x, 2 * BLOCK, 1);
	do_fill(&g->t, 0, g->y, 2 * BLOCK, 2);
	warm_up(g);
}

static void close_group(struct group *g)
{
	do_sync(&g->t);
	test_space_close(&g->t);
}

/* They have no fence, and none is known to be done, until so many are together. */
static void test_group_shares(void **state)
{
	struct group g;

	(void)state;
	open_group(&g);
	launches(&g, GROUP - 1);
	assert_int_equal(g.t.space->nr_unfenced, GROUP - 1);
	for (uint32_t n = 0; n < GROUP - 1; n++)
		assert_int_equal(last(&g, n)->end, 0);
	launches(&g, 1);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	assert_int_not_equal(last(&g, 0)->end, 0);
	for (uint32_t n = 1; n < GROUP; n++)
		assert_int_equal(last(&g, n)->end, last(&g, 0)->end);
	assert_false(is_reached(&g.t, last(&g, 0)->end));
	close_group(&g);
}

/* Who waits for all that was queued waits for them. */
static void test_group_sync(void **state)
{
	struct group g;
	fence_t done;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	done = get_fence(&g.t, 0);
	do_sync(&g.t);
	assert_true(is_reached(&g.t, done));
	assert_int_equal(g.t.space->done_seq, g.t.space->last_seq);
	close_group(&g);
}

/* Nothing moves that one of them may be using: who wants it waits for the shared fence. */
static void test_group_and_movers(void **state)
{
	struct group g;
	uint8_t *z;
	fence_t done;

	(void)state;
	open_group(&g);
	z = do_alloc(&g.t, GPU_BLOCKS * BLOCK, 1);
	warm_up(&g);
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	done = get_fence(&g.t, 0);
	do_begin(&g.t, 1, z, GPU_BLOCKS * BLOCK, WEIR_OVERWRITE);
	assert_true(is_reached(&g.t, done));
	do_launch(&g.t, 1, z, GPU_BLOCKS * BLOCK, WEIR_OVERWRITE, 0, 3);
	do_end(&g.t, 1);
	do_sync(&g.t);
	do_read(&g.t, g.x, 2 * BLOCK, 1);
	do_read(&g.t, g.y, 2 * BLOCK, 2);
	close_group(&g);
}

/* Whoever cares what is done makes them have fences, where the stream stands then. */
static void test_group_who_asks(void **state)
{
	struct group g;
	uint8_t *z;

	(void)state;
	open_group(&g);
	z = do_alloc(&g.t, BLOCK, 1);
	warm_up(&g);
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	do_free(&g.t, z, 1);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	warm_up(&g);
	launches(&g, LAUNCHES);
	z = do_alloc(&g.t, BLOCK, 1);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	warm_up(&g);
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	bracket_fence_all(g.t.space);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	launches(&g, LAUNCHES);
	bracket_stream_ends(g.t.space, g.t.stream[0]);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	/* Another bracket that has its own. */
	launches(&g, LAUNCHES);
	do_begin(&g.t, 0, g.x, BLOCK, WEIR_READ);
	do_end(&g.t, 0);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	close_group(&g);
}

static bool may_group;

static bool say_may_group(void)
{
	return may_group;
}

/* Each has its own where the caller asks for that, or does for a while; and where it is timed. */
static void test_group_apart(void **state)
{
	struct group g;

	(void)state;
	open_group(&g);
	g.apart = true;
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	assert_int_not_equal(last(&g, 0)->end, last(&g, 1)->end);
	g.apart = false;
	g.t.space->may_group = say_may_group;
	may_group = false;
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	may_group = true;
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	/* It is asked as the bracket ends. */
	begin_launch(&g, 0);
	may_group = false;
	do_end(&g.t, 0);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	may_group = true;
	learn_forget(g.t.space, g.t.space->residency->planner);
	launches(&g, LAUNCHES);
	assert_int_not_equal(last(&g, 0)->begin, 0);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	close_group(&g);
}

/* Each has its own while something moves, or is to. */
static void test_group_not_while_moving(void **state)
{
	struct weir_fence *fence;
	struct group g;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	g.nr |= 1; /* of the other range */
	begin_launch(&g, 0);
	assert_int_equal(weir_prefetch(g.t.space, g.x, 2 * BLOCK, HOST, &fence), 0);
	do_end(&g.t, 0);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	g.nr |= 1;
	launch_on(&g, 0);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	do_sync(&g.t);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(get_block_state(&g.t, g.x), BLOCK_HOST);
	close_group(&g);
}

/* Prefetches and the like get on though nobody calls: the backend's thread makes fences. */
static void test_group_in_the_background(void **state)
{
	struct weir_fence *fence;
	struct group g;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	assert_int_equal(weir_prefetch(g.t.space, g.x, 2 * BLOCK, HOST, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	assert_int_equal(get_block_state(&g.t, g.x), BLOCK_HOST);
	close_group(&g);
}

/* An address is not taken over from launches that would have to be waited for by a shared fence, by
 * another stream: that could be behind a launch which waits for what takes it. */
static void test_group_and_new_lives(void **state)
{
	struct group g;
	uint8_t *z;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	do_free(&g.t, g.x, 1);
	z = do_alloc(&g.t, 2 * BLOCK, 1);
	assert_ptr_not_equal(z, g.x);
	do_free(&g.t, z, 1);
	do_sync(&g.t);
	z = do_alloc(&g.t, 2 * BLOCK, 1);
	g.x = z;
	launches(&g, 1);
	close_group(&g);
}

/* What is queued on the default stream holds up what others queue behind it: its fence does not
 * come behind that, whoever is first. */
static void test_group_barrier(void **state)
{
	struct group g;

	(void)state;
	open_group(&g);
	g.barrier = true;
	launches(&g, LAUNCHES);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	g.barrier = false;
	begin_launch(&g, 1);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	do_end(&g.t, 1);
	/* By a stream whose bracket is open, and may have queued its launch. */
	g.barrier = true;
	warm_up(&g);
	g.apart = true;
	g.nr++;
	begin_launch(&g, 1);
	g.apart = false;
	for (uint32_t i = 0; i < 100; i++) {
		launches(&g, LAUNCHES);
		assert_int_equal(g.t.space->nr_unfenced, 0);
		assert_int_equal(weir_stream_sync(g.t.stream[0]), 0);
	}
	do_end(&g.t, 1);
	close_group(&g);
	/* Streams without that do not care. */
	open_group(&g);
	launches(&g, LAUNCHES);
	begin_launch(&g, 1);
	assert_int_equal(g.t.space->nr_unfenced, LAUNCHES);
	do_end(&g.t, 1);
	close_group(&g);
}

/* ------------------------------------------------------------------ fences that are refused */

static const struct backend_ops *real_ops;
static uint32_t nr_refused, nr_to_refuse;
static int refused_with;

static int refuse(struct backend *b, stream_id_t stream, fence_t *out)
{
	if (nr_refused >= nr_to_refuse)
		return real_ops->fence_untimed(b, stream, out);
	nr_refused++;
	return refused_with;
}

/* For a while, or for good. */
static void refuse_some(struct group *g, struct backend_ops *ops, uint32_t nr, int err)
{
	real_ops = g->t.backend->ops;
	*ops = *real_ops;
	ops->fence_untimed = refuse;
	g->t.backend->ops = ops;
	nr_refused = 0;
	nr_to_refuse = nr;
	refused_with = err;
}

/* Who waits tries again, for as long as a capture lasts, say. */
static void test_group_refused(void **state)
{
	struct backend_ops ops;
	struct group g;
	fence_t done;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	done = get_fence(&g.t, 0);
	refuse_some(&g, &ops, 100, -WEIR_ECONTRACT);
	assert_int_equal(weir_space_sync(g.t.space), 0);
	assert_int_equal(nr_refused, 100);
	assert_true(is_reached(&g.t, done));
	assert_int_equal(g.t.space->done_seq, g.t.space->last_seq);
	g.t.backend->ops = real_ops;
	close_group(&g);
}

/* A context that is dead has no fences any more: nobody waits for ever, and it is told. */
static void test_group_lost(void **state)
{
	struct backend_ops ops;
	struct group g;

	(void)state;
	open_group(&g);
	launches(&g, LAUNCHES);
	assert_int_equal(weir_stream_sync(g.t.stream[0]), 0);
	refuse_some(&g, &ops, UINT32_MAX, -EIO);
	assert_int_equal(weir_space_sync(g.t.space), -EIO);
	assert_int_equal(g.t.space->done_seq, g.t.space->last_seq);
	g.t.backend->ops = real_ops;
	launches(&g, LAUNCHES);
	assert_int_equal(weir_stream_sync(g.t.stream[0]), 0);
	refuse_some(&g, &ops, UINT32_MAX, -WEIR_ECONTRACT);
	bracket_stream_ends(g.t.space, g.t.stream[0]);
	assert_int_equal(g.t.space->nr_unfenced, 0);
	g.t.backend->ops = real_ops;
	(void)!weir_space_sync(g.t.space);
	close_group(&g);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_group_shares),
		cmocka_unit_test(test_group_sync),
		cmocka_unit_test(test_group_and_movers),
		cmocka_unit_test(test_group_who_asks),
		cmocka_unit_test(test_group_apart),
		cmocka_unit_test(test_group_not_while_moving),
		cmocka_unit_test(test_group_in_the_background),
		cmocka_unit_test(test_group_and_new_lives),
		cmocka_unit_test(test_group_barrier),
		cmocka_unit_test(test_group_refused),
		cmocka_unit_test(test_group_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
