/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunk pools: sizes, split and merge, tails, class pools, what is kept unused, memory that is
 * full, wrong calls. Contents and zeroing have tests of their own.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "src/mem/chunk.h"
#include "tests/support/account.h"
#include "tests/support/driver.h"
#include "tests/unit/test_sim_machine.h"

#define ROOT MIB(1)
#define LEAST KIB(4)

static struct backend *backend;
static struct test_account account;
static struct chunk_pool *pool;
static struct chunk_pool_stats stats;

static void config_default(struct chunk_pool_config *config)
{
	*config = (struct chunk_pool_config){.client = &account.client,
					     .root_bytes = ROOT,
					     .least_bytes = LEAST,
					     .idle_bytes = ROOT};
}

static void open_backend(void)
{
	struct weir_machine_desc desc;

	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &backend), 0);
	test_account_open(&account, backend, GPU0, PHYS_NO_LIMIT);
}

static void close_backend(void)
{
	test_account_close(&account);
	assert_int_equal(backend->ops->memory_used(backend, GPU0), 0);
	assert_int_equal(sim_leaks(backend), 0);
	backend->ops->destroy(backend);
}

static void open_pool(const struct chunk_pool_config *config)
{
	struct chunk_pool_config own;

	if (!config) {
		open_backend();
		config_default(&own);
		config = &own;
	}
	assert_int_equal(chunk_pool_create(config, &pool), 0);
}

static void look(void)
{
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_pool_stats(pool, &stats);
	assert_int_equal(stats.held_bytes,
			 stats.allocated_bytes + stats.free_bytes + stats.pending_bytes);
	assert_int_equal(stats.held_bytes, account.client.held_bytes);
	assert_int_equal(stats.held_bytes, backend->ops->memory_used(backend, GPU0));
}

static void close_pool(void)
{
	look();
	assert_int_equal(stats.nr_chunks, 0);
	assert_int_equal(stats.rounding_bytes, 0);
	chunk_pool_destroy(pool);
	close_backend();
}

static struct mem_chunk *get(uint64_t bytes)
{
	struct mem_chunk *chunk;

	assert_int_equal(chunk_alloc(pool, bytes, NULL, &chunk), 0);
	return chunk;
}

static uint64_t offset_of(const struct mem_chunk *chunk)
{
	uint64_t offset;

	(void)chunk_root_of(chunk, &offset);
	return offset;
}

/* ------------------------------------------------------------------ split and merge */

static void test_chunk_pool_holds_nothing_at_first(void **state)
{
	(void)state;
	open_pool(NULL);
	look();
	assert_int_equal(stats.held_bytes, 0);
	close_pool();
}

static void test_chunk_pool_splits_lazily(void **state)
{
	struct mem_chunk *a, *b;

	(void)state;
	open_pool(NULL);
	a = get(ROOT);
	look();
	assert_int_equal(stats.nr_splits, 0);
	chunk_free(pool, a, 0);
	a = get(LEAST);
	look();
	assert_int_equal(stats.nr_splits, 1);
	assert_int_equal(stats.nr_roots, 1);
	assert_int_equal(stats.largest_free_bytes, ROOT / 2);
	b = get(ROOT / 2);
	look();
	assert_int_equal(stats.nr_splits, 1);
	assert_int_equal(offset_of(a), 0);
	assert_int_equal(offset_of(b), ROOT / 2);
	assert_int_equal(chunk_bytes(a), LEAST);
	assert_ptr_equal((char *)chunk_addr(b) - (char *)chunk_addr(a), ROOT / 2);
	chunk_free(pool, a, 0);
	chunk_free(pool, b, 0);
	close_pool();
}

/* In whatever order its parts come back, a root is whole again. */
static void test_chunk_pool_merges_eagerly(void **state)
{
	struct mem_chunk *chunk[16];

	(void)state;
	open_pool(NULL);
	for (uint32_t order = 0; order < 4; order++) {
		for (uint32_t i = 0; i < 16; i++)
			chunk[i] = get(ROOT / 16);
		look();
		assert_int_equal(stats.nr_roots, 1);
		assert_int_equal(stats.free_bytes, 0);
		for (uint32_t i = 0; i < 16; i++) {
			const uint32_t at[] = {i, 15 - i, i * 7 % 16, i * 2 % 16 + i / 8};

			chunk_free(pool, chunk[at[order]], 0);
			look();
		}
		assert_int_equal(stats.largest_free_bytes, ROOT);
		assert_int_equal(stats.idle_bytes, ROOT);
	}
	close_pool();
}

static void test_chunk_pool_tails_stay_free(void **state)
{
	struct mem_chunk *five, *three;

	(void)state;
	open_pool(NULL);
	five = get(5 * LEAST - 100);
	look();
	assert_int_equal(chunk_bytes(five), 5 * LEAST);
	assert_int_equal(stats.rounding_bytes, 100);
	assert_int_equal(stats.allocated_bytes, 5 * LEAST);
	assert_int_equal(stats.free_bytes, ROOT - 5 * LEAST);
	/* The tail of 8 - 5 is 1 and 2: what comes next goes there. */
	three = get(2 * LEAST);
	assert_int_equal(offset_of(three), 6 * LEAST);
	chunk_free(pool, five, 0);
	look();
	chunk_free(pool, three, 0);
	look();
	assert_int_equal(stats.largest_free_bytes, ROOT);
	close_pool();
}

/* Every size up to a root's: within least, aligned, and nothing is lost in the end. */
static void test_chunk_pool_every_size(void **state)
{
	(void)state;
	open_pool(NULL);
	for (uint64_t nr = 1; nr <= ROOT / LEAST; nr++) {
		struct mem_chunk *chunk = get(nr * LEAST - (nr & 1)), *other = get(LEAST);
		uint64_t align = LEAST;

		while (align < nr * LEAST)
			align *= 2;
		assert_int_equal(chunk_bytes(chunk), nr * LEAST);
		assert_int_equal(offset_of(chunk) % align, 0);
		look();
		chunk_free(pool, nr & 2 ? chunk : other, 0);
		chunk_free(pool, nr & 2 ? other : chunk, 0);
	}
	look();
	assert_int_equal(stats.allocated_bytes, 0);
	close_pool();
}

/* Roots need not be powers of two. */
static void test_chunk_pool_odd_roots(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *c = NULL;

	(void)state;
	open_backend();
	config_default(&config);
	config.root_bytes = KIB(768);
	open_pool(&config);
	a = get(KIB(512));
	b = get(KIB(256));
	look();
	assert_int_equal(stats.nr_roots, 1);
	assert_int_equal(stats.free_bytes, 0);
	/* No power of two in it is large enough. */
	assert_int_equal(chunk_alloc(pool, KIB(516), NULL, &c), -EINVAL);
	assert_null(c);
	chunk_free(pool, a, 0);
	chunk_free(pool, b, 0);
	close_pool();
}

/* ------------------------------------------------------------------ class pools */

static void test_chunk_pool_pooled_ones_are_not_merged(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *all;
	uint64_t nr_merges;

	(void)state;
	open_backend();
	config_default(&config);
	config.nr_pooled = 1;
	open_pool(&config);
	a = get(LEAST);
	b = get(LEAST);
	look();
	nr_merges = stats.nr_merges;
	chunk_free(pool, a, 0);
	look();
	assert_int_equal(stats.pooled_bytes, LEAST);
	assert_int_equal(stats.nr_merges, nr_merges);
	assert_ptr_equal(get(LEAST), a);
	chunk_free(pool, a, 0);
	chunk_free(pool, b, 0); /* one too many */
	look();
	assert_int_equal(stats.pooled_bytes, LEAST);
	/* A root with pooled chunks alone is idle; who needs all of it gets all of it. */
	assert_int_equal(stats.idle_bytes, ROOT);
	all = get(ROOT);
	look();
	assert_int_equal(stats.pooled_bytes, 0);
	assert_int_equal(stats.nr_roots, 1);
	chunk_free(pool, all, 0);
	close_pool();
}

static void test_chunk_pool_trim_gives_back(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *chunk[5], *used;

	(void)state;
	open_backend();
	config_default(&config);
	config.nr_pooled = 4;
	config.idle_bytes = 8 * ROOT;
	open_pool(&config);
	for (int i = 0; i < 5; i++)
		chunk[i] = get(ROOT);
	used = get(LEAST);
	for (int i = 0; i < 5; i++)
		chunk_free(pool, chunk[i], 0);
	look();
	assert_int_equal(stats.idle_bytes, 5 * ROOT);
	/* Whole roots, as few as need be, and first what has been idle longest. */
	assert_int_equal(chunk_pool_trim(pool, ROOT + 1), 2 * ROOT);
	look();
	assert_int_equal(stats.idle_bytes, 3 * ROOT);
	assert_ptr_equal(get(ROOT), chunk[4]);
	chunk_free(pool, chunk[4], 0);
	assert_int_equal(chunk_pool_trim(pool, UINT64_MAX), 3 * ROOT);
	look();
	assert_int_equal(stats.held_bytes, ROOT);
	chunk_free(pool, used, 0);
	/* What its class pool has is unused, too. */
	assert_int_equal(chunk_pool_trim(pool, 1), ROOT);
	assert_int_equal(chunk_pool_trim(pool, 1), 0);
	close_pool();
}

/* ------------------------------------------------------------------ how much is kept */

static void test_chunk_pool_keeps_a_part_unused(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *chunk[10];

	(void)state;
	open_backend();
	config_default(&config);
	config.idle_bytes = 0;
	config.idle_per_mille = 250;
	open_pool(&config);
	for (uint32_t i = 0; i < 10; i++)
		chunk[i] = get(ROOT);
	for (uint32_t i = 0; i < 10; i++) {
		chunk_free(pool, chunk[i], 0);
		look();
		assert_true(stats.idle_bytes <= stats.allocated_bytes / 4);
		if (stats.nr_chunks >= 4 && stats.nr_chunks < 10)
			assert_true(stats.idle_bytes >= ROOT);
	}
	assert_int_equal(stats.held_bytes, 0);
	close_pool();
}

/* Another program takes the card: what is free is enough for less, and comes back. */
static void test_chunk_pool_others_take_the_memory(void **state)
{
	struct mem_chunk *a, *b, *none;
	struct backend_chunk others, chunk;
	struct phys_client other;

	(void)state;
	open_pool(NULL);
	a = get(ROOT);
	assert_int_equal(backend->ops->chunk_create(backend, GPU0, MIB(15) - KIB(256), 0, &others),
			 0);
	b = get(LEAST); /* from a root of the least size */
	chunk_pool_stats(pool, &stats);
	assert_int_equal(stats.held_bytes, ROOT + LEAST);
	assert_int_equal(chunk_alloc(pool, ROOT, NULL, &none), -ENOMEM);
	/* It is told whether somebody else could give some back. */
	phys_client_add(&other, &account.memory, "other", PHYS_NO_LIMIT);
	assert_int_equal(phys_take(&other, LEAST, &chunk), 0);
	assert_int_equal(chunk_alloc(pool, ROOT, NULL, &none), -EAGAIN);
	phys_put(&other, &chunk);
	phys_client_del(&other);
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_free(pool, a, 0);
	backend->ops->chunk_destroy(backend, &others);
	chunk_free(pool, b, 0);
	b = get(ROOT);
	chunk_free(pool, b, 0);
	close_pool();
}

/* ------------------------------------------------------------------ wrong calls */

static void test_chunk_pool_wrong_calls(void **state)
{
	struct mem_chunk *chunk, *none = NULL;
	fence_t fence;

	(void)state;
	open_pool(NULL);
	assert_int_equal(chunk_alloc(pool, 0, NULL, &none), -EINVAL);
	assert_int_equal(chunk_alloc(pool, 1, &fence, &none), -ENOTSUP);
	assert_int_equal(chunk_alloc(pool, ROOT + 1, NULL, &none), -EINVAL);
	assert_int_equal(chunk_alloc(pool, UINT64_MAX, NULL, &none), -EINVAL);
	assert_null(none);
	chunk_free(pool, NULL, 0);
	chunk = get(LEAST);
	chunk_free(pool, chunk, 0);
	look();
	assert_int_equal(stats.nr_wrong, 0);
	chunk_free(pool, chunk, 0);
	look();
	assert_int_equal(stats.nr_wrong, 1);
	close_pool();
}

static void test_chunk_pool_wrong_configuration(void **state)
{
	struct chunk_pool_config good, config;

	(void)state;
	open_backend();
	config_default(&good);
	open_pool(&good);
#define WRONG(field, value)                                                   \
	do {                                                                  \
		config = good;                                                \
		config.field = (value);                                       \
		assert_int_equal(chunk_pool_create(&config, &pool), -EINVAL); \
	} while (0)
	WRONG(root_bytes, 0);
	WRONG(root_bytes, ROOT + 512);
	WRONG(root_bytes, UINT64_C(1) << 40);
	WRONG(least_bytes, 0);
	WRONG(least_bytes, 3 * 4096);
	WRONG(least_bytes, 256);
	WRONG(least_bytes, 2 * ROOT);
	WRONG(idle_per_mille, 1001);
	WRONG(nr_pooled, 256);
	config = good;
	config.zero = true;
	config.zero_device = 2;
	assert_int_equal(chunk_pool_create(&config, &pool), -EINVAL);
	close_pool();
}

/* What was not given back is told, and gone. */
static void test_chunk_pool_destroy_with_chunks(void **state)
{
	(void)state;
	open_pool(NULL);
	(void)get(LEAST);
	chunk_pool_destroy(pool);
	chunk_pool_destroy(NULL);
	close_backend();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_pool_holds_nothing_at_first),
		cmocka_unit_test(test_chunk_pool_splits_lazily),
		cmocka_unit_test(test_chunk_pool_merges_eagerly),
		cmocka_unit_test(test_chunk_pool_tails_stay_free),
		cmocka_unit_test(test_chunk_pool_every_size),
		cmocka_unit_test(test_chunk_pool_odd_roots),
		cmocka_unit_test(test_chunk_pool_pooled_ones_are_not_merged),
		cmocka_unit_test(test_chunk_pool_trim_gives_back),
		cmocka_unit_test(test_chunk_pool_keeps_a_part_unused),
		cmocka_unit_test(test_chunk_pool_others_take_the_memory),
		cmocka_unit_test(test_chunk_pool_wrong_calls),
		cmocka_unit_test(test_chunk_pool_wrong_configuration),
		cmocka_unit_test(test_chunk_pool_destroy_with_chunks),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
