/* SPDX-License-Identifier: Apache-2.0 */
/* The pooling allocator, over a source that hands out numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "managers/pool.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

/* A source with a limit; addresses are never reused, so that a stale one shows. */
struct source {
	uintptr_t next;
	uint64_t taken, limit;
	unsigned int nr_gets, nr_puts;
};

static int source_get(void *arg, uint64_t bytes, void **addr)
{
	struct source *source = arg;

	if (bytes > source->limit - source->taken)
		return -ENOMEM;
	source->taken += bytes;
	source->nr_gets++;
	*addr = (void *)source->next;
	source->next += bytes + 2 * MIB;
	return 0;
}

static void source_put(void *arg, void *addr, uint64_t bytes)
{
	struct source *source = arg;

	(void)addr;
	assert_true(bytes <= source->taken);
	source->taken -= bytes;
	source->nr_puts++;
}

static struct pool *create(struct source *source, uint64_t limit)
{
	struct pool_source ops = {.get = source_get, .put = source_put};
	struct pool *pool;

	*source = (struct source){.next = (uintptr_t)1 << 40, .limit = limit};
	ops.arg = source;
	assert_int_equal(pool_create(&ops, &pool), 0);
	return pool;
}

static void destroy(struct pool *pool, struct source *source)
{
	assert_int_equal(pool_check(pool), 0);
	pool_destroy(pool);
	assert_int_equal(source->taken, 0);
	assert_int_equal(source->nr_gets, source->nr_puts);
}

static void *get(struct pool *pool, uint64_t bytes)
{
	void *addr;

	assert_int_equal(pool_alloc(pool, bytes, &addr), 0);
	assert_int_equal(pool_check(pool), 0);
	return addr;
}

static void put(struct pool *pool, void *addr)
{
	assert_int_equal(pool_free(pool, addr), 0);
	assert_int_equal(pool_check(pool), 0);
}

static struct pool_stats stats_of(const struct pool *pool)
{
	struct pool_stats stats;

	pool_stats(pool, &stats);
	return stats;
}

static void test_pool_reuses_exactly(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	void *a = get(pool, 10 * MIB), *b = get(pool, 10 * MIB);

	(void)state;
	put(pool, b);
	put(pool, a);
	assert_ptr_equal(get(pool, 10 * MIB), a);
	assert_ptr_equal(get(pool, 10 * MIB), b);
	assert_int_equal(source.nr_gets, 2);
	destroy(pool, &source);
}

static void test_pool_takes_the_smallest_that_fits(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	void *large = get(pool, 64 * MIB), *small = get(pool, 16 * MIB);

	(void)state;
	put(pool, large);
	put(pool, small);
	assert_ptr_equal(get(pool, 12 * MIB), small);
	destroy(pool, &source);
}

static void test_pool_splits_and_coalesces(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	char *whole = get(pool, 12 * MIB), *a, *b, *c;

	(void)state;
	put(pool, whole);
	a = get(pool, 4 * MIB);
	b = get(pool, 3 * MIB); /* 4 MiB when rounded */
	c = get(pool, 4 * MIB);
	assert_ptr_equal(a, whole);
	assert_ptr_equal(b, whole + 4 * MIB);
	assert_ptr_equal(c, whole + 8 * MIB);
	put(pool, a);
	put(pool, c);
	put(pool, b); /* joins both */
	assert_ptr_equal(get(pool, 12 * MIB), whole);
	assert_int_equal(source.nr_gets, 1);
	destroy(pool, &source);
}

static void test_pool_shares_segments_of_small_requests(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	char *first = get(pool, 1), *second = get(pool, 513);
	struct pool_stats stats = stats_of(pool);

	(void)state;
	assert_ptr_equal(second, first + 512);
	assert_int_equal(stats.live_bytes, 512 + 1024);
	assert_int_equal(stats.reserved_bytes, 2 * MIB);
	get(pool, MIB - 1);
	assert_int_equal(stats_of(pool).nr_segments, 1);
	get(pool, MIB); /* no longer small */
	assert_int_equal(stats_of(pool).nr_segments, 2);
	destroy(pool, &source);
}

static void test_pool_counts_live_and_reserved(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	void *a = get(pool, 3 * MIB), *b = get(pool, 5 * MIB);
	struct pool_stats stats;

	(void)state;
	put(pool, a);
	put(pool, b);
	stats = stats_of(pool);
	assert_int_equal(stats.live_bytes, 0);
	assert_int_equal(stats.reserved_bytes, 10 * MIB);
	assert_int_equal(pool_trim(pool), 10 * MIB);
	assert_int_equal(stats_of(pool).reserved_bytes, 0);
	destroy(pool, &source);
}

static void test_pool_gives_back_before_it_fails(void **state)
{
	struct source source;
	struct pool *pool = create(&source, 32 * MIB);
	void *a = get(pool, 16 * MIB), *b = get(pool, 16 * MIB), *whole;

	(void)state;
	assert_int_equal(pool_alloc(pool, 2 * MIB, &whole), -ENOMEM);
	put(pool, a);
	put(pool, b);
	whole = get(pool, 32 * MIB); /* needs both segments back */
	assert_int_equal(source.taken, 32 * MIB);
	assert_int_equal(pool_alloc(pool, 1, &a), -ENOMEM);
	put(pool, whole);
	destroy(pool, &source);
}

static void test_pool_keeps_split_segments_when_it_trims(void **state)
{
	struct source source;
	struct pool *pool = create(&source, 32 * MIB);
	void *a = get(pool, 16 * MIB), *b;

	(void)state;
	put(pool, a);
	b = get(pool, 2 * MIB);
	assert_ptr_equal(b, a);
	assert_int_equal(pool_trim(pool), 0);
	assert_int_equal(pool_alloc(pool, 24 * MIB, &a), -ENOMEM);
	assert_int_equal(pool_check(pool), 0);
	destroy(pool, &source);
}

static void test_pool_refuses(void **state)
{
	struct source source;
	struct pool *pool = create(&source, GIB);
	void *addr = get(pool, 4 * MIB), *other;

	(void)state;
	assert_int_equal(pool_alloc(pool, 0, &other), -EINVAL);
	assert_int_equal(pool_alloc(pool, UINT64_MAX, &other), -ENOMEM);
	assert_int_equal(pool_alloc(pool, UINT64_MAX - 4096, &other), -ENOMEM);
	assert_int_equal(pool_free(pool, (char *)addr + 512), -EINVAL);
	assert_int_equal(pool_free(pool, NULL), 0);
	put(pool, addr);
	assert_int_equal(pool_free(pool, addr), -EINVAL);
	destroy(pool, &source);
}

/* Random calls against the plainest model there is: live pieces never overlap. */
static void test_pool_random_calls(void **state)
{
	enum { SLOTS = 64, STEPS = 20000 };
	struct {
		char *addr;
		uint64_t bytes;
	} live[SLOTS] = {0};
	struct source source;
	struct pool *pool = create(&source, 24 * MIB);
	uint64_t seed = 2025, sum = 0;
	unsigned int nr_full = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned int step = 0; step < STEPS; step++) {
		unsigned int slot;
		uint64_t bytes;
		void *addr;
		int err;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		slot = (unsigned int)(seed >> 33) % SLOTS;
		bytes = ((seed >> 40) & 0xffffff) >> ((seed >> 8) % 20);
		if (live[slot].addr) {
			sum -= (live[slot].bytes + 511) / 512 * 512;
			assert_int_equal(pool_free(pool, live[slot].addr), 0);
			live[slot].addr = NULL;
			continue;
		}
		err = pool_alloc(pool, bytes + 1, &addr);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			nr_full++;
			continue;
		}
		for (unsigned int i = 0; i < SLOTS; i++)
			if (live[i].addr)
				assert_true((char *)addr >= live[i].addr + live[i].bytes ||
					    (char *)addr + bytes + 1 <= live[i].addr);
		live[slot].addr = addr;
		live[slot].bytes = bytes + 1;
		sum += (bytes + 1 + 511) / 512 * 512;
		assert_int_equal(stats_of(pool).live_bytes, sum);
		if (step % 64 == 0)
			assert_int_equal(pool_check(pool), 0);
	}
	assert_true(nr_full > 0);
	print_message("%u of %u were out of memory\n", nr_full, STEPS);
	destroy(pool, &source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool_reuses_exactly),
		cmocka_unit_test(test_pool_takes_the_smallest_that_fits),
		cmocka_unit_test(test_pool_splits_and_coalesces),
		cmocka_unit_test(test_pool_shares_segments_of_small_requests),
		cmocka_unit_test(test_pool_counts_live_and_reserved),
		cmocka_unit_test(test_pool_gives_back_before_it_fails),
		cmocka_unit_test(test_pool_keeps_split_segments_when_it_trims),
		cmocka_unit_test(test_pool_refuses),
		cmocka_unit_test(test_pool_random_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
