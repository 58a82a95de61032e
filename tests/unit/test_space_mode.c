/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed and planned spaces: what may run in which, what moves, the change between them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)

static void set_mode(struct test_space *t, enum weir_space_mode mode)
{
	assert_int_equal(weir_space_set_mode(t->space, mode), 0);
	do_check(t);
}

/* Everything is mapped from its allocation on, partly on the host, and stays there. */
static void test_space_fixed_nothing_moves(void **state)
{
	struct test_space t;
	struct weir_space_stats stats;
	uint8_t *a, *b;
	uint64_t remaps;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 4, 12);
	a = do_alloc(&t, 6 * BLOCK, 0);
	b = do_alloc(&t, 3 * BLOCK, 0);
	stats = get_stats(&t);
	assert_int_equal(stats.memory[GPU0].bytes, 4 * BLOCK);
	assert_int_equal(stats.memory[HOST].bytes, 5 * BLOCK);
	remaps = stats.nr_remaps;
	/* No bracket is needed. */
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_launch(&t, 0, b, 3 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_WRITE, 1, 3);
	do_sync(&t);
	/* One is allowed, and so are hints: they move nothing. */
	do_expect(&t, 0, b, 3 * BLOCK, 2);
	do_discard(&t, 0, b, 3 * BLOCK);
	assert_int_equal(weir_prefetch(t.space, b, 3 * BLOCK, GPU0, NULL), 0);
	do_fill(&t, 0, b, 3 * BLOCK, 4);
	do_sync(&t);
	do_read(&t, a, 6 * BLOCK, 3);
	do_write(&t, a, BLOCK, 5);
	do_launch(&t, 0, a, BLOCK, WEIR_READ, 5, 0);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(stats.nr_remaps, remaps);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_DEVICE), 0);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_HOST), 0);
	test_space_close(&t);
}

static void test_space_fixed_out_of_memory(void **state)
{
	struct test_space t;
	void *addr = NULL, *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 4, 4);
	a = do_alloc(&t, 5 * BLOCK, 0);
	assert_int_equal(weir_alloc(t.space, 4 * BLOCK, t.stream[0], &addr), -ENOMEM);
	assert_null(addr);
	do_check(&t);
	do_free(&t, a, 0);
	a = do_alloc(&t, 6 * BLOCK, 0);
	do_launch(&t, 0, a, 6 * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Planned, then fixed: launches without brackets run, on contents as they were. */
static void test_space_mode_planned_to_fixed(void **state)
{
	struct test_space t;
	uint8_t *a, *b, *unused;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	unused = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_expect(&t, 0, a, 4 * BLOCK, 1);
	set_mode(&t, WEIR_FIXED);
	set_mode(&t, WEIR_FIXED);
	do_launch(&t, 0, a, 4 * BLOCK, WEIR_READ, 1, 0);
	do_launch(&t, 1, b, 4 * BLOCK, WEIR_WRITE, 2, 3);
	do_launch(&t, 0, unused, 2 * BLOCK, WEIR_OVERWRITE, 0, 4);
	do_sync(&t);
	test_space_close(&t);
}

/* What launches without brackets wrote is still there when blocks move again. */
static void test_space_mode_fixed_to_planned_keeps_contents(void **state)
{
	uint8_t *a, *b, *later, *other;
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 16);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, 2 * BLOCK, 0);
	other = do_alloc(&t, 4 * BLOCK, 0);
	/* a is clean in HBM, b has no contents */
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_fill(&t, 0, other, 4 * BLOCK, 2);
	do_expect(&t, 0, a, 2 * BLOCK, 1);
	do_discard(&t, 0, other, 4 * BLOCK);
	do_sync(&t);
	set_mode(&t, WEIR_FIXED);
	later = do_alloc(&t, 2 * BLOCK, 0);
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_WRITE, 1, 3);
	do_launch(&t, 0, b, 2 * BLOCK, WEIR_OVERWRITE, 0, 4);
	do_launch(&t, 0, later, 2 * BLOCK, WEIR_OVERWRITE, 0, 5);
	do_sync(&t);
	set_mode(&t, WEIR_PLANNED);
	for (int i = 0; i < 2; i++) {
		do_fill(&t, 0, other, 4 * BLOCK, 6);
		do_sync(&t);
		do_expect(&t, 0, a, 2 * BLOCK, 3);
		do_expect(&t, 0, b, 2 * BLOCK, 4);
		do_sync(&t);
		do_expect(&t, 0, later, 2 * BLOCK, 5);
		do_expect(&t, 0, other, 4 * BLOCK, 6);
		do_sync(&t);
	}
	/* Guarded again. */
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_READ, 0, 0);
	assert_int_equal(weir_stream_sync(t.stream[0]), -WEIR_ETRAP);
	(void)!weir_space_sync(t.space);
	test_space_close(&t);
}

/* A lower copy is not kept where kernels write without saying so. */
static void test_space_fixed_read_mostly(void **state)
{
	struct test_space t;
	uint8_t *a, *other;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 16);
	a = do_alloc(&t, 4 * BLOCK, 0);
	other = do_alloc(&t, 4 * BLOCK, 0);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	set_mode(&t, WEIR_FIXED);
	do_change(&t, 0, a, 4 * BLOCK, 1, 2);
	do_launch(&t, 0, a, 4 * BLOCK, WEIR_WRITE, 2, 3);
	do_sync(&t);
	do_expect(&t, 0, a, 4 * BLOCK, 3);
	do_launch(&t, 1, a, BLOCK, WEIR_WRITE, 3, 4);
	do_sync(&t);
	set_mode(&t, WEIR_PLANNED);
	do_expect(&t, 0, a, BLOCK, 4);
	do_fill(&t, 0, other, 4 * BLOCK, 5);
	do_sync(&t);
	do_expect(&t, 0, a + BLOCK, 3 * BLOCK, 3);
	do_expect(&t, 0, a, BLOCK, 4);
	do_sync(&t);
	test_space_close(&t);
}

/* An arena's worth goes with the mode, too: dead or clean, it is neither once launches write as
 * they like. */
static void test_space_mode_arenas(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *p;

	(void)state;
	for (int clean = 0; clean < 2; clean++) {
		test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
		p = do_alloc(&t, 1024, 0);
		use = use_of(p, 1024, WEIR_READ);
		if (clean) {
			do_fill(&t, 0, p, 1024, 1);
			assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
			assert_int_equal(weir_host_end(t.space, &use, 1), 0);
			do_expect(&t, 0, p, 1024, 1);
			do_sync(&t);
		}
		set_mode(&t, WEIR_FIXED);
		do_launch(&t, 0, p, 1024, WEIR_WRITE, 0, 2);
		do_sync(&t);
		set_mode(&t, WEIR_PLANNED);
		assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
		assert_int_equal(pattern_wrong(p, p, 1024, 2), 0);
		assert_int_equal(weir_host_end(t.space, &use, 1), 0);
		test_space_close(&t);
	}
}

/* In a fixed space nothing dies, since launches may write without saying so: not by a discard, and
 * not for a host bracket that overwrites and fails. */
static void test_space_fixed_nothing_dies(void **state)
{
	struct weir_use uses[2];
	struct test_space t;
	uint8_t *a, *b, *other;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 4, 12);
	a = do_alloc(&t, 2 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	do_discard(&t, 0, a, 2 * BLOCK);
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_launch(&t, 0, b, 4 * BLOCK, WEIR_OVERWRITE, 0, 2);
	do_sync(&t);
	/* The last blocks of b are on the host, those of a are not. */
	uses[0] = use_of(b + 3 * BLOCK, BLOCK, WEIR_OVERWRITE);
	uses[1] = use_of(a, BLOCK, WEIR_READ);
	assert_int_equal(get_block_state(&t, uses[0].addr), BLOCK_HOST);
	assert_int_equal(weir_host_begin(t.space, uses, 2), -EBUSY);
	set_mode(&t, WEIR_PLANNED);
	other = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, other, 4 * BLOCK, 3);
	do_sync(&t);
	do_expect(&t, 0, a, 2 * BLOCK, 1);
	do_expect(&t, 0, b, 4 * BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* A prefetch that cannot go on ends with the mode: nothing moves from then on. */
static void test_space_mode_ends_prefetches(void **state)
{
	struct weir_fence *fence;
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 16);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 4 * BLOCK, 2);
	do_sync(&t);
	do_begin(&t, 0, b, 4 * BLOCK, WEIR_READ);
	do_launch(&t, 0, b, 4 * BLOCK, WEIR_READ, 2, 0);
	do_end(&t, 0);
	/* No room until that is done. */
	assert_int_equal(weir_prefetch(t.space, a, 4 * BLOCK, GPU0, &fence), 0);
	assert_int_equal(weir_fence_query(fence), 0);
	set_mode(&t, WEIR_FIXED);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	/* Now there would be room, and somebody looks. */
	assert_int_equal(weir_free(t.space, b, NULL), 0);
	(void)do_alloc(&t, 256, 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(get_block_state(&t, a + i * BLOCK), BLOCK_HOST);
	do_launch(&t, 0, a, 4 * BLOCK, WEIR_READ, 1, 0);
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_mode_errors(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, BLOCK, 0);
	assert_int_equal(weir_space_set_mode(t.space, (enum weir_space_mode)2), -EINVAL);
	do_begin(&t, 0, a, BLOCK, WEIR_OVERWRITE);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), -WEIR_ECONTRACT);
	do_end(&t, 0);
	use = use_of(a, BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), -WEIR_ECONTRACT);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	set_mode(&t, WEIR_FIXED);
	test_space_close(&t);
}

/* Work in flight is done before the mode changes; its error is reported. */
static void test_space_mode_change_quiesces(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 1);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_begin(&t, 0, a, 4 * BLOCK, WEIR_WRITE);
	for (uint32_t i = 1; i < 10; i++)
		do_launch(&t, 0, a, 4 * BLOCK, WEIR_WRITE, i, i + 1);
	do_end(&t, 0);
	do_fill(&t, 1, b, BLOCK, 2);
	set_mode(&t, WEIR_FIXED);
	assert_true(t.space->done_seq == t.space->last_seq);
	do_launch(&t, 1, a, 4 * BLOCK, WEIR_READ, 10, 0);
	do_launch(&t, 1, b, BLOCK, WEIR_READ, 2, 0);
	do_sync(&t);
	test_space_close(&t);
}

/* In a child process a space is as it was left, its lock perhaps with a thread that is not there:
 * destroying it does nothing. */
static void test_space_destroy_in_a_child(void **state)
{
	struct test_space t;
	uint8_t *a;
	int status;
	pid_t pid;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, BLOCK, 1);
	pthread_mutex_lock(&t.space->lock);
	pid = fork();
	if (!pid) {
		alarm(10);
		weir_space_destroy(t.space);
		_exit(0);
	}
	pthread_mutex_unlock(&t.space->lock);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	do_expect(&t, 0, a, BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* A space destroyed with everything open and queued leaves nothing behind. */
static void test_space_destroy_in_the_middle(void **state)
{
	struct test_space t;
	struct weir_use use;
	uint8_t *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 12);
	a = do_alloc(&t, 4 * BLOCK, 0);
	b = do_alloc(&t, 4 * BLOCK, 1);
	(void)do_alloc(&t, 100, 1);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_fill(&t, 0, b, 2 * BLOCK, 2);
	assert_int_equal(weir_prefetch(t.space, a, 4 * BLOCK, GPU0, NULL), 0);
	do_begin(&t, 1, b, BLOCK, WEIR_WRITE);
	do_launch(&t, 1, b, BLOCK, WEIR_WRITE, 2, 3);
	do_begin(&t, 0, a, BLOCK, WEIR_READ);
	do_launch(&t, 0, a, BLOCK, WEIR_READ, 1, 0);
	use = use_of(b + 2 * BLOCK, BLOCK, WEIR_OVERWRITE);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	do_free(&t, b, 1);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_fixed_nothing_moves),
		cmocka_unit_test(test_space_fixed_out_of_memory),
		cmocka_unit_test(test_space_mode_planned_to_fixed),
		cmocka_unit_test(test_space_mode_fixed_to_planned_keeps_contents),
		cmocka_unit_test(test_space_fixed_read_mostly),
		cmocka_unit_test(test_space_mode_arenas),
		cmocka_unit_test(test_space_fixed_nothing_dies),
		cmocka_unit_test(test_space_mode_ends_prefetches),
		cmocka_unit_test(test_space_mode_errors),
		cmocka_unit_test(test_space_mode_change_quiesces),
		cmocka_unit_test(test_space_destroy_in_a_child),
		cmocka_unit_test(test_space_destroy_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
