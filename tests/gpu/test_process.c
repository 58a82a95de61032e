/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More than one process on a card: two that work at the same time, each with more than its budget,
 * and some that are killed in the middle of their work, whose memory must come back. This program
 * is also the children's.
 *
 * Timeout: 300
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/child.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"

#define LIMIT_SECONDS 100u
#define NR_WORKERS 2u
#define NR_ROUNDS 30u
#define NR_RANGES 3u
#define WORKER_BLOCKS 8u /* budgets; the ranges take half as many each */
#define VICTIM_BLOCKS 64u
#define NR_KILLS 4u
#define LONG_NS 20000000u

/* ------------------------------------------------------------------ children */

/* A kernel that takes long, beside everything else; no more than one at a time. */
static void launch_long(struct test_space *t)
{
	const struct test_spin_args args = {.ns = LONG_NS};
	const struct weir_launch launch = {
		.kernel = &test_kernel_spin, .args = &args, .args_bytes = sizeof(args)};

	assert_int_equal(weir_stream_sync(t->stream[1]), 0);
	assert_int_equal(weir_stream_launch(t->stream[1], &launch), 0);
}

/* Work on ranges that do not fit, for rounds or until it is killed; contents are checked. */
static void work(uint32_t nr_rounds, uint32_t gpu_blocks)
{
	void *range[NR_RANGES];
	struct test_space t;
	uint64_t bytes;

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, 0, gpu_blocks, 2 * gpu_blocks);
	bytes = gpu_blocks / 2 * t.block_bytes;
	for (uint32_t r = 0; r < NR_RANGES; r++) {
		range[r] = do_alloc(&t, bytes, 0);
		do_fill(&t, 0, range[r], bytes, 1 + r);
	}
	do_sync(&t);
	printf("ready\n");
	(void)fflush(stdout);
	for (uint32_t i = 0; i < nr_rounds; i++) {
		launch_long(&t);
		for (uint32_t r = 0; r < NR_RANGES; r++)
			do_change(&t, 0, range[r], bytes, i * NR_RANGES + r + 1,
				  (i + 1) * NR_RANGES + r + 1);
	}
	do_sync(&t);
	test_space_close(&t);
}

/* A kernel always runs, blocks move, and it does not end by itself. */
static void be_victim(void)
{
	work(UINT32_MAX / NR_RANGES - 1, VICTIM_BLOCKS);
}

static int child_main(const char *task)
{
	child_begin(LIMIT_SECONDS);
	test_gpu_not_alone();
	if (strcmp(task, "worker") == 0)
		work(NR_ROUNDS, WORKER_BLOCKS);
	else if (strcmp(task, "victim") == 0)
		be_victim();
	else
		return 2;
	return 0;
}

/* ------------------------------------------------------------------ tests */

static void test_process_two_share_a_card(void **state)
{
	struct test_child child[NR_WORKERS];

	(void)state;
	for (uint32_t i = 0; i < NR_WORKERS; i++)
		child_start(&child[i], "worker", NULL);
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		int status = child_wait(&child[i], LIMIT_SECONDS);

		if (status)
			fail_msg("worker %u ends with %d: %s", i, status, child[i].text);
		assert_int_equal(child_count(&child[i], "ready"), 1);
	}
}

/* What a process held is free again soon after it was killed, whatever it was doing. */
static void test_process_killed_leaves_nothing(void **state)
{
	struct test_child child;
	struct backend *b;
	uint64_t before, bytes;

	(void)state;
	assert_int_equal(test_cuda_open(&test_fake_config, &b), 0);
	bytes = VICTIM_BLOCKS * b->desc.vmm.granularity_bytes;
	b->ops->destroy(b);
	before = test_gpu_free_bytes();
	for (uint32_t i = 0; i < NR_KILLS; i++) {
		child_start(&child, "victim", NULL);
		child_expect(&child, "ready", LIMIT_SECONDS);
		/* It would be seen if it stayed behind. */
		if (test_gpu_is_shared())
			assert_true(test_gpu_free_bytes() <= before - bytes);
		nanosleep(&(struct timespec){.tv_nsec = 1000000 + 13000000 * (long)i}, NULL);
		child_kill(&child);
		if (!test_gpu_free_soon(before - test_gpu_slack(), 10))
			fail_msg("10 seconds after a process was killed %llu bytes are free, %llu "
				 "were before",
				 (unsigned long long)test_gpu_free_bytes(),
				 (unsigned long long)before);
	}
	/* And there is nothing wrong with the card. */
	child_start(&child, "worker", NULL);
	assert_int_equal(child_wait(&child, LIMIT_SECONDS), 0);
	test_cuda_nothing_left(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process_two_share_a_card),
		cmocka_unit_test(test_process_killed_leaves_nothing),
	};

	if (argc == 2)
		return child_main(argv[1]);
	return cmocka_run_group_tests(tests, test_cuda_required, NULL);
}
