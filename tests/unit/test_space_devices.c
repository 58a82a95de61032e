/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces of several devices: whose memory blocks are resident in, and a plan for each device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define NR 6 /* blocks of a range */
#define BYTES (NR * BLOCK)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */

static void expect_at(struct test_space *t, const uint8_t *addr, uint32_t nr, int memory)
{
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(get_block_memory(t, addr + i * BLOCK), memory);
}

/* In-place bytes over the link between the two GPUs, both ways. */
static uint64_t get_near(struct test_space *t)
{
	struct weir_space_stats stats = get_stats(t);

	return stats.link_bytes[2][WEIR_A_TO_B][WEIR_CAUSE_INPLACE] +
	       stats.link_bytes[2][WEIR_B_TO_A][WEIR_CAUSE_INPLACE];
}

/* What one device uses comes to its memory, whoever it was allocated for. */
static void test_devices_home_of_what_one_uses(void **state)
{
	struct test_space t;
	uint8_t *a, *b;
	void *c;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	b = do_alloc(&t, BYTES, 0);
	assert_int_equal(weir_alloc(t.space, BYTES, NULL, &c), 0);
	do_fill(&t, 0, a, BYTES, 1);
	do_fill(&t, ONE, b, BYTES, 2);
	do_fill(&t, ONE, c, BYTES, 3);
	expect_at(&t, a, NR, GPU0);
	expect_at(&t, b, NR, GPU1);
	expect_at(&t, c, NR, GPU1);
	do_expect(&t, 0, a, BYTES, 1);
	do_expect(&t, ONE, b, BYTES, 2);
	do_expect(&t, ONE, c, BYTES, 3);
	do_sync(&t);
	assert_int_equal(get_near(&t), 0);
	test_space_close(&t);
}

/* Blocks go to the device that made the last two uses; one use in between moves nothing. */
static void test_devices_home_of_what_both_use(void **state)
{
	const uint8_t *half;
	struct test_space t;
	uint64_t near;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	half = a + BYTES / 2;
	do_fill(&t, 0, a, BYTES, 1);
	do_expect(&t, ONE, (void *)(uintptr_t)half, BYTES / 2, 1);
	expect_at(&t, a, NR, GPU0);
	do_sync(&t);
	near = get_near(&t);
	assert_int_equal(near, BYTES / 2); /* in place */
	do_expect(&t, 0, a, BYTES, 1);
	do_expect(&t, ONE, (void *)(uintptr_t)half, BYTES / 2, 1);
	do_expect(&t, 0, a, BYTES, 1);
	expect_at(&t, a, NR, GPU0);
	/* Twice. */
	do_expect(&t, ONE, (void *)(uintptr_t)half, BYTES / 2, 1);
	do_change(&t, ONE, (void *)(uintptr_t)half, BYTES / 2, 1, 2);
	expect_at(&t, a, NR / 2, GPU0);
	expect_at(&t, half, NR / 2, GPU1);
	do_sync(&t);
	near = get_near(&t);
	for (int i = 0; i < 3; i++) {
		do_expect(&t, 0, a, BYTES / 2, 1);
		do_expect(&t, ONE, (void *)(uintptr_t)half, BYTES / 2, 2);
	}
	do_sync(&t);
	assert_int_equal(get_near(&t), near); /* each in its own memory */
	do_expect(&t, 0, (void *)(uintptr_t)half, BYTES / 2, 2);
	do_sync(&t);
	assert_int_equal(get_near(&t), near + BYTES / 2);
	test_space_close(&t);
}

/* What both use does not come twice, and a freed range begins anew. */
static void test_devices_home_in_the_next_life(void **state)
{
	struct test_space t;
	const struct range *range;
	uint8_t *a;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	range = range_find(t.space, a);
	do_fill(&t, 0, a, BYTES, 1);
	assert_null(range->homes);
	do_expect(&t, ONE, a, BYTES, 1);
	assert_non_null(range->homes);
	do_sync(&t);
	/* Taken to be used so again; it is not, and is one device's alone in the life after. */
	for (int life = 0; life < 3; life++) {
		do_free(&t, a, 0);
		assert_ptr_equal(do_alloc(&t, BYTES, ONE), a);
		assert_int_equal(range->homes != NULL, !life);
		do_fill(&t, ONE, a, BYTES, 2);
		do_expect(&t, ONE, a, BYTES, 2);
		expect_at(&t, a, NR, GPU1);
		assert_int_equal(range->residency->planner == &t.space->residency->planner[1],
				 life > 0);
		do_sync(&t);
	}
	test_space_close(&t);
}

/* Each device's brackets repeat in their order, and are planned; how they mix never repeats. */
static void test_devices_plan_each(void **state)
{
	struct test_random random = {.state = 7};
	uint32_t seed[2][3] = {{0}}, at[2] = {0};
	struct test_space t;
	uint8_t *a[2][3];

	(void)state;
	test_space_open_devices(&t, BLOCK, 10, 10, 48);
	for (uint32_t d = 0; d < 2; d++)
		for (uint32_t i = 0; i < 3; i++) {
			a[d][i] = do_alloc(&t, BYTES, d ? ONE : 0);
			seed[d][i] = 10 * d + i + 1;
			do_fill(&t, d ? ONE : 0, a[d][i], BYTES, seed[d][i]);
		}
	for (uint32_t n = 0; n < 400; n++) {
		uint32_t d = random_below(&random, 2), i = at[d]++ % 3;

		do_change(&t, d ? ONE : 0, a[d][i], BYTES, seed[d][i], seed[d][i] + 100);
		seed[d][i] += 100;
	}
	for (uint32_t d = 0; d < 2; d++)
		assert_non_null(t.space->residency->planner[d].plan);
	assert_true(get_stats(&t).nr_plans >= 2);
	for (uint32_t d = 0; d < 2; d++)
		for (uint32_t i = 0; i < 3; i++)
			do_read(&t, a[d][i], BYTES, seed[d][i]);
	do_sync(&t);
	test_space_close(&t);
}

/* A temporary of each device in each iteration, allocated for nobody: planned, too. */
static void test_devices_plan_temporaries(void **state)
{
	struct test_space t;
	uint8_t *kept[2];

	(void)state;
	test_space_open_devices(&t, BLOCK, 10, 10, 48);
	for (uint32_t d = 0; d < 2; d++) {
		kept[d] = do_alloc(&t, BYTES, d ? ONE : 0);
		do_fill(&t, d ? ONE : 0, kept[d], BYTES, 1);
	}
	for (uint32_t n = 0; n < 60; n++)
		for (uint32_t d = 0; d < 2; d++) {
			uint32_t stream = d ? ONE : 0;
			void *temporary;

			assert_int_equal(weir_alloc(t.space, BYTES, NULL, &temporary), 0);
			do_fill(&t, stream, temporary, BYTES, n + 1);
			do_change(&t, stream, kept[d], BYTES, n + 1, n + 2);
			do_expect(&t, stream, temporary, BYTES, n + 1);
			do_free(&t, temporary, stream);
		}
	for (uint32_t d = 0; d < 2; d++)
		assert_non_null(t.space->residency->planner[d].plan);
	do_sync(&t);
	test_space_close(&t);
}

/* What has no room in its device's memory may be in the other one's, and leaves that first. */
static void test_devices_guests_go_first(void **state)
{
	struct test_space t;
	uint8_t *a[2], *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, NR, 2 * NR, 32);
	a[0] = do_alloc(&t, BYTES, 0);
	a[1] = do_alloc(&t, BYTES, 0);
	do_fill(&t, 0, a[0], BYTES, 1);
	do_fill(&t, 0, a[1], BYTES, 2);
	do_sync(&t);
	expect_at(&t, a[0], NR, GPU1);
	expect_at(&t, a[1], NR, GPU0);
	b = do_alloc(&t, 2 * BYTES, ONE);
	do_fill(&t, ONE, b, 2 * BYTES, 3);
	do_sync(&t);
	expect_at(&t, b, 2 * NR, GPU1);
	expect_at(&t, a[0], NR, HOST);
	do_read(&t, a[0], BYTES, 1);
	do_expect(&t, 0, a[0], BYTES, 1);
	do_expect(&t, 0, a[1], BYTES, 2);
	do_expect(&t, ONE, b, 2 * BYTES, 3);
	do_sync(&t);
	test_space_close(&t);
}

/* Advice and prefetches name the memories of either device. */
static void test_devices_advice(void **state)
{
	struct weir_fence *fence;
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	do_fill(&t, 0, a, BYTES, 1);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_PREFER_MEMORY, GPU1), 0);
	do_check(&t);
	/* It comes where it is to stay when it is used, and stays there whoever uses it. */
	do_expect(&t, ONE, a, BYTES, 1);
	do_expect(&t, 0, a, BYTES, 1);
	do_expect(&t, 0, a, BYTES, 1);
	expect_at(&t, a, NR, GPU1);
	do_sync(&t);
	assert_int_equal(weir_advise(t.space, a, WEIR_ADVISE_DEFAULT, 0), 0);
	do_expect(&t, 0, a, BYTES, 1);
	expect_at(&t, a, NR, GPU0);
	/* A prefetch of what nobody used yet says where it will be used. */
	b = do_alloc(&t, BYTES, 0);
	assert_int_equal(weir_prefetch(t.space, b, BYTES, GPU1, &fence), 0);
	assert_int_equal(weir_fence_wait(fence), 0);
	weir_fence_put(fence);
	do_write(&t, b, BYTES, 5);
	do_expect(&t, ONE, b, BYTES, 5);
	expect_at(&t, b, NR, GPU1);
	do_sync(&t);
	test_space_close(&t);
}

/* In a fixed space each device's launches may use everything, small pieces too. */
static void test_devices_fixed(void **state)
{
	uint8_t *a, *b, *small[2];
	struct test_space t;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	do_fill(&t, ONE, a, BYTES, 1);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_FIXED), 0);
	do_check(&t);
	b = do_alloc(&t, BYTES, ONE);
	small[0] = do_alloc(&t, 512, 0);
	small[1] = do_alloc(&t, 512, ONE);
	expect_at(&t, b, NR, GPU1);
	assert_int_equal(get_block_memory(&t, small[0]), GPU0);
	assert_int_equal(get_block_memory(&t, small[1]), GPU1);
	do_launch(&t, ONE, b, BYTES, WEIR_OVERWRITE, 0, 2);
	do_launch(&t, ONE, small[0], 512, WEIR_OVERWRITE, 0, 3);
	do_launch(&t, 0, small[1], 512, WEIR_OVERWRITE, 0, 4);
	do_sync(&t);
	do_launch(&t, 0, a, BYTES, WEIR_READ, 1, 0);
	do_launch(&t, 0, b, BYTES, WEIR_READ, 2, 0);
	do_launch(&t, 0, small[0], 512, WEIR_READ, 3, 0);
	do_launch(&t, ONE, small[1], 512, WEIR_READ, 4, 0);
	do_sync(&t);
	assert_int_equal(weir_space_set_mode(t.space, WEIR_PLANNED), 0);
	do_expect(&t, 0, b, BYTES, 2);
	do_expect(&t, ONE, b, BYTES, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* The memory of either device is given back as any other. */
static void test_devices_set_budget(void **state)
{
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_space_open_devices(&t, BLOCK, 16, 16, 32);
	a = do_alloc(&t, BYTES, 0);
	b = do_alloc(&t, BYTES, ONE);
	do_fill(&t, 0, a, BYTES, 1);
	do_fill(&t, ONE, b, BYTES, 2);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, BLOCK), -EINVAL);
	assert_int_equal(weir_space_set_budget(t.space, GPU1, 2 * BLOCK), 0);
	do_check(&t);
	assert_true(get_stats(&t).memory[GPU1].bytes <= 2 * BLOCK);
	do_expect(&t, ONE, b, BYTES, 2);
	do_expect(&t, 0, a, BYTES, 1);
	assert_int_equal(weir_space_set_budget(t.space, GPU0, 2 * BLOCK), 0);
	do_check(&t);
	assert_true(get_stats(&t).memory[GPU0].bytes <= 2 * BLOCK);
	do_change(&t, ONE, a, BYTES, 1, 3);
	do_change(&t, 0, b, BYTES, 2, 4);
	do_read(&t, a, BYTES, 3);
	do_read(&t, b, BYTES, 4);
	do_sync(&t);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_home_of_what_one_uses),
		cmocka_unit_test(test_devices_home_of_what_both_use),
		cmocka_unit_test(test_devices_home_in_the_next_life),
		cmocka_unit_test(test_devices_plan_each),
		cmocka_unit_test(test_devices_plan_temporaries),
		cmocka_unit_test(test_devices_guests_go_first),
		cmocka_unit_test(test_devices_advice),
		cmocka_unit_test(test_devices_fixed),
		cmocka_unit_test(test_devices_set_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
