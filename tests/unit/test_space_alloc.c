/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces and allocation through the public interface: what a configuration may be, budgets, the
 * pool of freed addresses and who may reuse them when, allocations below one block.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/support/space.h"

#define BLOCK KIB(16)

static void open_default(struct test_space *t)
{
	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 8);
}

static char last_error[256];

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR)
		(void)snprintf(last_error, sizeof(last_error), "%s", message);
}

static void expect_config(struct test_space *t, const struct weir_space_config *config, int err,
			  const char *part)
{
	last_error[0] = '\0';
	assert_int_equal(weir_space_create(t->machine, config, &t->space), err);
	if (!strstr(last_error, part))
		fail_msg("no '%s' in: %s", part, last_error);
	if (!err)
		weir_space_destroy(t->space);
}

/* Devices and memories beyond one GPU and the host, and what is wrong with them. */
static void test_space_config_of_other_devices(void **state)
{
	struct weir_space_config config = {.devices = WEIR_MEM_DEVICE(1), .block_bytes = BLOCK};
	struct test_space t;

	(void)state;
	test_machine_open(&t, WEIR_DATA_PHANTOM);
	weir_log_set(on_log, NULL);
	expect_config(&t, &config, 0, "");
	config.devices = WEIR_MEM_DEVICE(0) | WEIR_MEM_DEVICE(2);
	expect_config(&t, &config, -EINVAL, "devices 0x5");
	config.devices = WEIR_MEM_CPU;
	expect_config(&t, &config, -EINVAL, "devices 0x8000000000000000");
	config.devices = WEIR_MEM_DEVICE(0) | WEIR_MEM_DEVICE(1);
	expect_config(&t, &config, 0, "");
	config.budget_bytes[GPU1] = 2 * BLOCK - 1;
	expect_config(&t, &config, -EINVAL, "the budget of gpu1 is below two blocks");
	config.budget_bytes[GPU1] = 0;
	config.devices = 0;
	config.budget_bytes[GPU0] = 2 * BLOCK - 1;
	expect_config(&t, &config, -EINVAL, "the budget of gpu0 is below two blocks");
	config.budget_bytes[GPU0] = 0;
	config.budget_bytes[HOST] = 2 * BLOCK - 1;
	expect_config(&t, &config, -EINVAL, "the budget of host is below two blocks");
	config.budget_bytes[HOST] = 0;
	config.budget_bytes[GPU1] = 2 * BLOCK;
	expect_config(&t, &config, 0, "");
	config.budget_bytes[GPU1] = 2 * BLOCK - 1;
	expect_config(&t, &config, -EINVAL, "the budget of gpu1 is below two blocks");
	config.budget_bytes[GPU1] = MIB(16) + 1;
	expect_config(&t, &config, -EINVAL, "is beyond memory 'gpu1'");
	config.budget_bytes[GPU1] = 0;
	config.budget_bytes[GPU1 + 1] = 2 * BLOCK;
	expect_config(&t, &config, -EINVAL, "memory 3");
	weir_log_set(NULL, NULL);
	test_machine_close(&t);
}

/* A space of the second device counts in that one's memory and on its link, and nowhere else. */
static void test_space_counts_by_memory_and_link(void **state)
{
	const struct weir_space_config config = {.devices = WEIR_MEM_DEVICE(1),
						 .budget_bytes = {[GPU1] = 4 * BLOCK},
						 .block_bytes = BLOCK,
						 .mode = WEIR_PLANNED};
	struct weir_space_stats stats;
	struct test_space t;
	uint8_t *a, *b;

	(void)state;
	test_machine_open(&t, WEIR_DATA_PHANTOM); /* simulated: with a second device */
	assert_int_equal(weir_space_create(t.machine, &config, &t.space), 0);
	t.block_bytes = BLOCK;
	a = do_alloc(&t, 4 * BLOCK, 2);
	b = do_alloc(&t, 4 * BLOCK, 2);
	do_fill(&t, TEST_OTHER, a, 4 * BLOCK, 1);
	do_fill(&t, TEST_OTHER, b, 4 * BLOCK, 2);
	do_expect(&t, TEST_OTHER, a, 4 * BLOCK, 1);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(stats.memory[GPU1].bytes, 4 * BLOCK);
	assert_int_equal(stats.memory[GPU1].peak_bytes, 4 * BLOCK);
	assert_int_equal(stats.memory[GPU0].peak_bytes, 0);
	assert_true(stats.memory[HOST].bytes >= 4 * BLOCK);
	for (uint32_t l = 0; l < t.desc.nr_links; l++) {
		bool own = t.desc.link[l].a == HOST && t.desc.link[l].b == GPU1;

		assert_int_equal(stats.link_bytes[l][WEIR_A_TO_B][WEIR_CAUSE_DEMAND],
				 own ? 4 * BLOCK : 0);
		assert_int_equal(stats.link_bytes[l][WEIR_B_TO_A][WEIR_CAUSE_EVICTION],
				 own ? 8 * BLOCK : 0);
	}
	test_space_close(&t);
}

static void test_space_config_is_checked(void **state)
{
	struct weir_space_config config = {.devices = WEIR_MEM_DEVICE(2)};
	struct test_space t;

	(void)state;
	test_machine_open(&t, WEIR_DATA_PHANTOM);
	assert_int_equal(weir_space_create(t.machine, &config, &t.space), -EINVAL);
	config = (struct weir_space_config){.mode = (enum weir_space_mode)2};
	assert_int_equal(weir_space_create(t.machine, &config, &t.space), -EINVAL);
	/* block size: multiple of the granularity */
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, KIB(12), 0, 0), 0);
	weir_space_destroy(t.space);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, KIB(2), 0, 0), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, 3, 0, 0), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, UINT64_C(1) << 63, 0, 0), -EINVAL);
	/* budgets: within the memories, two blocks at least */
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, BLOCK, MIB(16) + 1, 0), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, BLOCK, 0, MIB(64) + 1), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, BLOCK, 2 * BLOCK - 1, 0), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, BLOCK, 0, 2 * BLOCK - 1), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, 0, 4095, 0), -EINVAL);
	assert_int_equal(test_space_create_try(&t, WEIR_FIXED, BLOCK, 2 * BLOCK, 2 * BLOCK), 0);
	weir_space_destroy(t.space);
	test_machine_close(&t);
}

static void test_space_default_block_shrinks_with_the_budget(void **state)
{
	static const struct {
		uint64_t gpu_bytes, block_bytes;
	} row[] = {{0, KIB(256)},	  {MIB(16), KIB(256)}, {MIB(8), KIB(128)},
		   {KIB(256), KIB(4)},	  {KIB(16), KIB(4)},   {MIB(8) - 1, KIB(64)},
		   {KIB(512) - 1, KIB(4)}};
	struct test_space t;

	(void)state;
	test_machine_open(&t, WEIR_DATA_PHANTOM);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, 0, row[i].gpu_bytes, 0),
				 0);
		assert_int_equal(get_stats(&t).block_bytes, row[i].block_bytes);
		weir_space_destroy(t.space);
	}
	weir_space_destroy(NULL);
	test_machine_close(&t);
}

/* A phantom machine with large memories. */
/* What a copy takes over the link, and calls that take longer than any. */
#define LINK_NS(bytes) ((bytes) / 4)
#define LONG LINK_NS(MIB(1024))

static void open_large(struct test_space *t, uint64_t granularity_bytes, uint64_t set_access_ns)
{
	struct weir_machine_desc desc;

	memset(t, 0, sizeof(*t));
	test_machine(&desc);
	desc.vmm.granularity_bytes = granularity_bytes;
	desc.vmm.set_access_ns = set_access_ns;
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = MIB(1024) * 128;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &t->machine), 0);
}

/* Where calls take long, the largest of 56, 28, 16 and 8 MiB of which there are 200, and in small
 * budgets less, as far as the granularity goes; where they do not, smaller ones. */
static void test_space_default_block_of_large_budgets(void **state)
{
	static const struct {
		uint64_t granularity_bytes, gpu_bytes, block_bytes, set_access_ns;
	} row[] = {
		{MIB(2), MIB(1024) * 128, MIB(56), LONG},
		{MIB(2), 200 * MIB(56), MIB(56), LONG},
		{MIB(2), 200 * MIB(56) - 1, MIB(28), LONG},
		{MIB(2), 200 * MIB(28), MIB(28), LONG},
		{MIB(2), 200 * MIB(28) - 1, MIB(16), LONG},
		{MIB(2), 200 * MIB(16), MIB(16), LONG},
		{MIB(2), 200 * MIB(16) - 1, MIB(8), LONG},
		{MIB(2), 64 * MIB(8), MIB(8), LONG},
		{MIB(2), 64 * MIB(8) - 1, MIB(4), LONG},
		{MIB(2), 64 * MIB(4), MIB(4), LONG},
		{MIB(2), 64 * MIB(4) - 1, MIB(2), LONG},
		{MIB(2), 2 * MIB(2), MIB(2), LONG},
		/* A granularity that a size is no multiple of: the next one that is. */
		{MIB(32), 200 * MIB(56), MIB(64), LONG},
		{MIB(32), 200 * MIB(28), MIB(32), LONG},
		{MIB(32), MIB(128), MIB(32), LONG},
		{MIB(16), 200 * MIB(28), MIB(32), LONG},
		/* 0.13 of what a copy of 8, 16 and 28 MiB takes. */
		{MIB(2), MIB(1024) * 128, MIB(8), LINK_NS(MIB(8)) * 12 / 100},
		{MIB(2), MIB(1024) * 128, MIB(16), LINK_NS(MIB(8)) * 14 / 100},
		{MIB(2), MIB(1024) * 128, MIB(28), LINK_NS(MIB(16)) * 14 / 100},
		{MIB(2), 200 * MIB(16), MIB(16), LINK_NS(MIB(16)) * 14 / 100},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct test_space t;

		open_large(&t, row[i].granularity_bytes, row[i].set_access_ns);
		assert_int_equal(
			test_space_create_try(&t, WEIR_PLANNED, 0, row[i].gpu_bytes, MIB(1024)), 0);
		assert_int_equal(get_stats(&t).block_bytes, row[i].block_bytes);
		weir_space_destroy(t.space);
		weir_machine_close(t.machine);
	}
}

static void test_space_alloc_sizes(void **state)
{
	struct test_space t;
	void *addr = NULL, *a;

	(void)state;
	open_default(&t);
	assert_int_equal(weir_alloc(t.space, 0, NULL, &addr), -EINVAL);
	assert_int_equal(weir_alloc(t.space, UINT64_MAX, NULL, &addr), -EINVAL);
	assert_int_equal(weir_alloc(t.space, UINT64_MAX - BLOCK, NULL, &addr), -EINVAL);
	assert_int_equal(weir_alloc(t.space, UINT64_C(1) << 40, NULL, &addr), -ENOMEM);
	assert_null(addr);
	a = do_alloc(&t, BLOCK + 1, 0);
	assert_int_equal((uintptr_t)a % BLOCK, 0);
	assert_int_equal(get_stats(&t).live_bytes, 2 * BLOCK);
	do_free(&t, a, 0);
	assert_int_equal(get_stats(&t).live_bytes, 0);
	assert_int_equal(get_stats(&t).live_peak_bytes, 2 * BLOCK);
	test_space_close(&t);
}

static void test_space_free_errors(void **state)
{
	struct test_space t;
	uint8_t *a, *small;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	small = do_alloc(&t, 300, 0);
	assert_int_equal(weir_free(t.space, NULL, NULL), 0);
	assert_int_equal(weir_free(t.space, &t, NULL), -EINVAL);
	assert_int_equal(weir_free(t.space, a + BLOCK, NULL), -EINVAL);
	assert_int_equal(weir_free(t.space, a + 1, NULL), -EINVAL);
	assert_int_equal(weir_free(t.space, small + 256, NULL), -EINVAL);
	assert_int_equal(weir_free(t.space, small + 512, NULL), -EINVAL);
	do_free(&t, a, 0);
	assert_int_equal(weir_free(t.space, a, NULL), -EINVAL);
	do_free(&t, small, 0);
	assert_int_equal(weir_free(t.space, small, NULL), -EINVAL);
	test_space_close(&t);
}

static void test_space_out_of_memory_when_both_are_full(void **state)
{
	void *range[16], *addr;
	struct test_space t;
	uint32_t nr = 0;

	(void)state;
	open_default(&t);
	while (nr < 16 && !weir_alloc(t.space, BLOCK, t.stream[0], &range[nr])) {
		do_fill(&t, 0, range[nr], BLOCK, 1 + nr);
		nr++;
	}
	/* Copies on their way may hold a chunk or two back, not more. */
	assert_in_range(nr, 4 + 8 - 2, 4 + 8);
	assert_int_equal(weir_alloc(t.space, BLOCK, t.stream[0], &addr), -ENOMEM);
	assert_int_equal(weir_alloc(t.space, 64 * BLOCK, t.stream[0], &addr), -ENOMEM);
	for (uint32_t i = 0; i < nr; i++)
		do_expect(&t, 0, range[i], BLOCK, 1 + i);
	do_sync(&t);
	do_free(&t, range[3], 0);
	range[3] = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, range[3], BLOCK, 99);
	for (uint32_t i = 0; i < nr; i++)
		do_read(&t, range[i], BLOCK, i == 3 ? 99 : 1 + i);
	assert_true(get_stats(&t).memory[GPU0].peak_bytes <= 4 * BLOCK);
	assert_true(get_stats(&t).memory[HOST].peak_bytes <= 8 * BLOCK);
	test_space_close(&t);
}

/* A small allocation needs no block of its own when an arena has room for it. */
static void test_space_small_alloc_in_a_full_space(void **state)
{
	struct test_space t;
	void *small, *addr;

	(void)state;
	open_default(&t);
	small = do_alloc(&t, 256, 0);
	while (!weir_alloc(t.space, BLOCK, t.stream[0], &addr))
		do_fill(&t, 0, addr, BLOCK, 1);
	assert_int_equal(weir_alloc(t.space, 256, t.stream[0], &addr), 0);
	assert_ptr_equal(addr, (uint8_t *)small + 256);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ pool */

static void test_space_pool_is_last_in_first_out_by_size(void **state)
{
	struct test_space t;
	void *a, *b, *c;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, BLOCK, 0);
	b = do_alloc(&t, BLOCK, 0);
	c = do_alloc(&t, 2 * BLOCK, 0);
	do_free(&t, a, 0);
	do_free(&t, b, 0);
	do_free(&t, c, 0);
	assert_ptr_equal(do_alloc(&t, BLOCK, 0), b);
	assert_ptr_equal(do_alloc(&t, 2 * BLOCK - 8, 0), c);
	assert_ptr_equal(do_alloc(&t, BLOCK, 0), a);
	assert_int_equal(get_stats(&t).nr_pool_hits, 3);
	assert_int_equal(get_stats(&t).nr_pool_misses, 3);
	test_space_close(&t);
}

/* Queue a bracket whose kernels are not done when the call returns. */
static void queue_work(struct test_space *t, uint32_t stream, void *addr, uint64_t bytes)
{
	do_begin(t, stream, addr, bytes, WEIR_WRITE);
	for (int i = 0; i < 8; i++)
		do_launch(t, stream, addr, bytes, WEIR_WRITE, 0, 7);
	do_end(t, stream);
	assert_true(t->space->done_seq < t->space->last_seq);
}

static void test_space_pool_same_stream_does_not_wait(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 0, a, BLOCK, 1);
	do_sync(&t);
	queue_work(&t, 0, a, BLOCK);
	do_free(&t, a, 0);
	assert_ptr_equal(do_alloc(&t, BLOCK, 0), a);
	assert_true(t.space->done_seq < t.space->last_seq);
	do_fill(&t, 0, a, BLOCK, 2);
	do_expect(&t, 0, a, BLOCK, 2);
	do_sync(&t);
	test_space_close(&t);
}

/* An address freed in an open bracket that names it is used until the bracket's end. */
static void test_space_free_inside_its_bracket(void **state)
{
	struct test_space t;
	void *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, a, 2 * BLOCK, 1);
	do_begin(&t, 0, a, 2 * BLOCK, WEIR_READ);
	do_free(&t, a, 0);
	assert_int_equal(weir_free(t.space, a, t.stream[0]), -EINVAL);
	b = do_alloc(&t, 2 * BLOCK, 0);
	assert_ptr_not_equal(a, b);
	do_launch(&t, 0, a, 2 * BLOCK, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_fill(&t, 0, b, 2 * BLOCK, 2);
	assert_ptr_equal(do_alloc(&t, 2 * BLOCK, 0), a);
	do_sync(&t);
	test_space_close(&t);
}

/* The chunk of a freed range serves another size at once when it is idle. */
static void test_space_freed_range_gives_its_chunks(void **state)
{
	struct test_space t;
	struct weir_space_stats stats;
	void *a, *b;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, a, 4 * BLOCK, 1);
	do_sync(&t);
	do_free(&t, a, 0);
	b = do_alloc(&t, 3 * BLOCK, 0);
	do_fill(&t, 0, b, 3 * BLOCK, 2);
	do_expect(&t, 0, b, 3 * BLOCK, 2);
	do_sync(&t);
	stats = get_stats(&t);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_HOST), 0);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_DEVICE), 0);
	assert_int_equal(get_bytes(&t, &stats, BACKEND_TO_HOST, WEIR_CAUSE_INPLACE), 0);
	assert_int_equal(get_block_state(&t, b), BLOCK_HBM);
	test_space_close(&t);
}

/* More freed sizes than the pool keeps: the oldest go, nothing else does. */
static void test_space_pool_is_trimmed(void **state)
{
	struct test_space t;
	void *keep;

	(void)state;
	test_machine_open(&t, WEIR_DATA_PHANTOM);
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, KIB(4), MIB(8), MIB(16)), 0);
	keep = do_alloc(&t, KIB(8), 0);
	for (uint32_t i = 1; i < 1200; i++) {
		void *addr;

		assert_int_equal(weir_alloc(t.space, KIB(4) * (2 + i), t.stream[0], &addr), 0);
		assert_int_equal(weir_free(t.space, addr, t.stream[0]), 0);
	}
	assert_true(t.space->nr_ranges < 1100);
	do_fill(&t, 0, keep, KIB(8), 1);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ small allocations */

static void test_space_small_share_a_block(void **state)
{
	uint8_t *small[64];
	struct test_space t;

	(void)state;
	open_default(&t);
	for (uint32_t i = 0; i < 64; i++)
		small[i] = do_alloc(&t, 8 + 3 * i, 0);
	assert_int_equal(get_stats(&t).live_bytes, BLOCK);
	for (uint32_t i = 0; i < 64; i++) {
		assert_int_equal((uintptr_t)small[i] % 256, 0);
		do_fill(&t, 0, small[i], 8, 1 + i);
	}
	for (uint32_t i = 0; i < 64; i++)
		do_read(&t, small[i], 8, 1 + i);
	for (uint32_t i = 0; i < 64; i += 2)
		do_free(&t, small[i], 0);
	for (uint32_t i = 1; i < 64; i += 2)
		do_expect(&t, 0, small[i], 8, 1 + i);
	do_sync(&t);
	assert_ptr_equal(do_alloc(&t, 100, 0), small[0]);
	test_space_close(&t);
}

/* What a stream still reads is not handed to another one, whatever was freed in between. */
static void test_space_small_other_stream_waits(void **state)
{
	void *a, *b, *c, *busy, *again;
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 4, 8);
	a = do_alloc(&t, 256, 0);
	b = do_alloc(&t, 256, 0);
	c = do_alloc(&t, 256, 0);
	busy = do_alloc(&t, BLOCK, 0);
	do_fill(&t, 1, a, 256, 1);
	do_fill(&t, 1, busy, BLOCK, 2);
	do_sync(&t);
	queue_work(&t, 1, busy, BLOCK);
	do_expect(&t, 1, a, 256, 1);
	do_free(&t, a, 1);
	do_free(&t, b, 0);
	do_free(&t, c, 0);
	again = do_alloc(&t, 256, 0);
	do_fill(&t, 0, again, 256, 3);
	do_sync(&t);
	test_space_close(&t);
}

static void test_space_small_freed_inside_its_bracket(void **state)
{
	struct test_space t;
	void *a;

	(void)state;
	open_default(&t);
	a = do_alloc(&t, 256, 0);
	do_fill(&t, 0, a, 256, 1);
	do_begin(&t, 0, a, 256, WEIR_READ);
	do_free(&t, a, 0);
	assert_int_equal(weir_free(t.space, a, t.stream[0]), -EINVAL);
	assert_ptr_not_equal(do_alloc(&t, 256, 0), a);
	do_launch(&t, 0, a, 256, WEIR_READ, 1, 0);
	do_end(&t, 0);
	do_sync(&t);
	assert_ptr_equal(do_alloc(&t, 256, 0), a);
	test_space_close(&t);
}

/* Addresses that were used are remembered with their ranges. When so many are free that the oldest
 * are given up, they are forgotten: the address sanitizer sees it if not. */
static void test_space_addresses_given_up(void **state)
{
	enum { NR = 1200, KEPT = 3 };
	struct test_space t;
	uint64_t block;
	void *a[NR];

	(void)state;
	test_space_open(&t, WEIR_DATA_PHANTOM, WEIR_PLANNED, 0, 2 * NR, 2 * NR);
	block = t.block_bytes;
	for (int i = 0; i < NR; i++) {
		a[i] = do_alloc(&t, block, 0);
		do_begin(&t, 0, a[i], block, WEIR_OVERWRITE);
		do_end(&t, 0);
	}
	do_sync(&t);
	for (int i = KEPT; i < NR; i++)
		do_free(&t, a[i], 0);
	/* Of another size: new ones, each of which has the oldest free one given up. */
	for (int i = 0; i < NR / 4; i++)
		(void)do_alloc(&t, 2 * block, 0);
	for (int i = 0; i < NR; i++) {
		const struct weir_use use = {.addr = a[i], .bytes = block, .kind = WEIR_READ};
		int err = weir_begin(t.space, t.stream[0], &use, 1);

		/* Or one of the new ranges is there now. */
		assert_true(!err || (i >= KEPT && err == -EINVAL));
		if (!err)
			do_end(&t, 0);
	}
	test_space_close(&t);
}

/* ------------------------------------------------------------------ where ranges lie */

#define NR_PLACES 5

/* Reserved ahead; handed out from the lowest on, or from the highest. */
static struct {
	const struct backend_ops *ops;
	void *place[NR_PLACES];
	uint32_t next;
	bool downwards;
} places;

static int reserve_next(struct backend *b, uint64_t bytes, uint64_t unit, void **addr)
{
	uint32_t i = places.next++;

	(void)b, (void)bytes, (void)unit;
	assert_true(i < NR_PLACES);
	*addr = places.place[places.downwards ? NR_PLACES - 1 - i : i];
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* Which of three ranges of one bracket has to make room, as a set of bits. */
static uint32_t evicted_of_three(bool downwards)
{
	struct weir_use uses[3];
	struct backend_ops ops;
	void *addr[NR_PLACES];
	struct test_space t;
	uint32_t gone = 0;

	open_default(&t);
	for (uint32_t i = 0; i < NR_PLACES; i++)
		assert_int_equal(
			t.backend->ops->va_reserve(t.backend, BLOCK, BLOCK, &places.place[i]), 0);
	qsort(places.place, NR_PLACES, sizeof(places.place[0]), compare_places);
	places.ops = t.backend->ops;
	places.next = 0;
	places.downwards = downwards;
	ops = *places.ops;
	ops.va_reserve = reserve_next;
	t.backend->ops = &ops;
	for (uint32_t i = 0; i < NR_PLACES; i++)
		addr[i] = do_alloc(&t, BLOCK, 0);
	t.backend->ops = places.ops;

	for (uint32_t i = 0; i < 3; i++)
		uses[i] =
			(struct weir_use){addr[i], BLOCK, WEIR_OVERWRITE, WEIR_STREAM, 0, BLOCK, 0};
	assert_int_equal(weir_begin(t.space, t.stream[0], uses, 3), 0);
	do_end(&t, 0);
	do_fill(&t, 0, addr[3], BLOCK, 4);
	do_fill(&t, 0, addr[4], BLOCK, 5);
	for (uint32_t i = 0; i < 3; i++)
		gone |= (uint32_t)(get_block_state(&t, addr[i]) != BLOCK_HBM) << i;
	test_space_close(&t);
	return gone;
}

static void test_space_victims_do_not_depend_on_addresses(void **state)
{
	uint32_t gone = evicted_of_three(false);

	(void)state;
	assert_int_equal(__builtin_popcount(gone), 1);
	assert_int_equal(evicted_of_three(true), gone);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_config_is_checked),
		cmocka_unit_test(test_space_config_of_other_devices),
		cmocka_unit_test(test_space_counts_by_memory_and_link),
		cmocka_unit_test(test_space_default_block_shrinks_with_the_budget),
		cmocka_unit_test(test_space_default_block_of_large_budgets),
		cmocka_unit_test(test_space_alloc_sizes),
		cmocka_unit_test(test_space_free_errors),
		cmocka_unit_test(test_space_out_of_memory_when_both_are_full),
		cmocka_unit_test(test_space_small_alloc_in_a_full_space),
		cmocka_unit_test(test_space_pool_is_last_in_first_out_by_size),
		cmocka_unit_test(test_space_pool_same_stream_does_not_wait),
		cmocka_unit_test(test_space_free_inside_its_bracket),
		cmocka_unit_test(test_space_freed_range_gives_its_chunks),
		cmocka_unit_test(test_space_pool_is_trimmed),
		cmocka_unit_test(test_space_small_share_a_block),
		cmocka_unit_test(test_space_small_other_stream_waits),
		cmocka_unit_test(test_space_small_freed_inside_its_bracket),
		cmocka_unit_test(test_space_addresses_given_up),
		cmocka_unit_test(test_space_victims_do_not_depend_on_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
