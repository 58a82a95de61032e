/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published chunks under pressure: whose owner is asked, in which order, what an owner may answer
 * and do meanwhile, and who gets the memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "src/mem/chunk.h"
#include "tests/support/driver.h"
#include "tests/unit/test_sim_machine.h"

#define ROOT MIB(1)
#define LEAST KIB(4)
#define NR_OWNED 256u

static struct backend *backend;
static struct chunk_pool *pool;
static struct chunk_pool_stats stats;
static stream_id_t stream;
static void *host;

/* What the owners hold, by number, and what the test wants of them. */
static struct {
	struct mem_chunk *chunk[NR_OWNED];
	uint64_t asked[4 * NR_OWNED]; /* in order */
	uint32_t nr_asked;
	uint64_t refuse; /* this one always */
	bool copy_first; /* what it holds is copied out: queued, not waited for */
	bool late;	 /* another thread gave it back in the same moment */
	bool pin;	 /* somebody tries to pin it meanwhile */
} owners;

static fence_t copy_out(const struct mem_chunk *chunk)
{
	struct backend_copy copy = {host, chunk_addr(chunk), chunk_bytes(chunk)};
	fence_t fence;

	assert_int_equal(backend->ops->copy(backend, stream, &copy, 1), 0);
	assert_int_equal(backend->ops->fence_record(backend, stream, &fence), 0);
	return fence;
}

static int on_evict(void *arg, struct mem_chunk *chunk, uint64_t owner)
{
	assert_ptr_equal(arg, &owners);
	assert_true(owner < NR_OWNED);
	assert_ptr_equal(owners.chunk[owner], chunk);
	assert_int_equal(chunk_pool_check(pool), 0);
	owners.asked[owners.nr_asked++] = owner;
	if (owner == owners.refuse)
		return -EBUSY;
	if (owners.pin) {
		assert_int_equal(chunk_pin(pool, chunk), -EBUSY);
		assert_int_equal(chunk_publish(pool, chunk, owner), -EINVAL);
	}
	owners.chunk[owner] = NULL;
	chunk_free(pool, chunk, owners.copy_first ? copy_out(chunk) : 0);
	return owners.late ? -ENOENT : 0;
}

/* A pool of so many roots at the most. */
static void open_pool(uint32_t nr_roots)
{
	struct chunk_pool_config config;
	struct weir_machine_desc desc;

	memset(&owners, 0, sizeof(owners));
	owners.refuse = UINT64_MAX;
	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &backend), 0);
	chunk_pool_config_init(&config, backend, GPU0);
	config.root_bytes = ROOT;
	config.max_bytes = nr_roots * ROOT;
	config.evict = on_evict;
	config.evict_arg = &owners;
	assert_int_equal(chunk_pool_create(&config, &pool), 0);
	assert_int_equal(backend->ops->stream_create(backend, 0, BACKEND_COPY_OUT, &stream), 0);
	assert_int_equal(backend->ops->device_alloc(backend, HOST, MIB(4), &host), 0);
}

static void look(void)
{
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_pool_stats(pool, &stats);
}

static void close_pool(void)
{
	for (uint32_t i = 0; i < NR_OWNED; i++)
		chunk_free(pool, owners.chunk[i], 0);
	look();
	assert_int_equal(stats.nr_chunks, 0);
	assert_int_equal(stats.evictable_bytes, 0);
	chunk_pool_destroy(pool);
	backend->ops->device_free(backend, host);
	backend->ops->stream_destroy(backend, stream);
	assert_int_equal(sim_leaks(backend), 0);
	backend->ops->destroy(backend);
}

static struct mem_chunk *get(uint64_t bytes, uint32_t flags)
{
	struct mem_chunk *chunk;

	assert_int_equal(chunk_alloc(pool, bytes, flags, NULL, &chunk), 0);
	return chunk;
}

/* Owners from .. to - 1 publish a chunk each. */
static void own(uint32_t from, uint32_t to, uint64_t bytes)
{
	for (uint32_t i = from; i < to; i++) {
		owners.chunk[i] = get(bytes, 0);
		assert_int_equal(chunk_publish(pool, owners.chunk[i], i), 0);
	}
}

static void refused(uint64_t bytes, uint32_t flags)
{
	struct mem_chunk *chunk;

	assert_int_equal(chunk_alloc(pool, bytes, flags, NULL, &chunk), -ENOMEM);
	look();
}

/* ------------------------------------------------------------------ who is asked */

static void test_chunk_evict_never_the_pinned(void **state)
{
	(void)state;
	open_pool(2);
	own(0, 2, ROOT);
	assert_int_equal(chunk_pin(pool, owners.chunk[0]), 0);
	assert_int_equal(chunk_pin(pool, owners.chunk[1]), 0);
	assert_int_equal(chunk_pin(pool, owners.chunk[1]), 0);
	refused(LEAST, CHUNK_EVICT);
	assert_int_equal(owners.nr_asked, 0);
	assert_int_equal(stats.nr_chunks, 2);
	close_pool();
}

static void test_chunk_evict_only_when_told(void **state)
{
	(void)state;
	open_pool(2);
	own(0, 2, ROOT);
	refused(ROOT, 0);
	assert_int_equal(owners.nr_asked, 0);
	close_pool();
}

static void test_chunk_evict_the_oldest_first(void **state)
{
	struct mem_chunk *chunk[2];

	(void)state;
	open_pool(4);
	own(0, 4, ROOT);
	chunk_touch(pool, owners.chunk[0]);
	assert_int_equal(chunk_pin(pool, owners.chunk[1]), 0);
	assert_int_equal(chunk_publish(pool, owners.chunk[1], 1), 0);
	for (int i = 0; i < 2; i++)
		chunk[i] = get(ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 2);
	assert_int_equal(owners.asked[0], 2);
	assert_int_equal(owners.asked[1], 3);
	assert_int_equal(stats.nr_evicted, 2);
	for (int i = 0; i < 2; i++)
		chunk_free(pool, chunk[i], 0);
	close_pool();
}

/* One that is large enough goes alone. */
static void test_chunk_evict_one_of_the_size(void **state)
{
	struct mem_chunk *chunk;

	(void)state;
	open_pool(1);
	own(0, 1, KIB(64));
	own(1, 2, KIB(256));
	own(2, 13, KIB(64));
	look();
	assert_int_equal(stats.free_bytes, 0);
	chunk = get(KIB(200), CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 1);
	assert_int_equal(owners.asked[0], 1);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* Else a root is emptied, and goes to whoever asked. */
static void test_chunk_evict_a_whole_root(void **state)
{
	struct mem_chunk *chunk, *pinned;

	(void)state;
	open_pool(2);
	own(0, 15, ROOT / 16);
	pinned = get(ROOT / 16, 0); /* keeps the first root */
	own(15, 31, ROOT / 16);
	chunk = get(ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 16);
	for (uint32_t i = 0; i < 16; i++)
		assert_true(owners.asked[i] >= 15);
	assert_int_equal(stats.nr_roots, 2);
	chunk_free(pool, chunk, 0);
	chunk_free(pool, pinned, 0);
	close_pool();
}

/* A large request: roots go back until the backend has room for one of its size. */
static void test_chunk_evict_for_a_large_one(void **state)
{
	struct mem_chunk *chunk;

	(void)state;
	open_pool(4);
	own(0, 4, ROOT);
	chunk = get(3 * ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 3);
	assert_int_equal(stats.nr_own, 1);
	assert_int_equal(stats.held_bytes, 4 * ROOT);
	chunk_free(pool, chunk, 0);
	/* And back: its own root is evicted for small ones. */
	own(10, 11, 3 * ROOT);
	assert_int_equal(chunk_pin(pool, owners.chunk[3]), 0);
	chunk = get(LEAST, CHUNK_EVICT);
	look();
	assert_int_equal(owners.asked[3], 10);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* ------------------------------------------------------------------ what owners answer */

static void test_chunk_evict_refused(void **state)
{
	struct mem_chunk *chunk;

	(void)state;
	open_pool(2);
	own(0, 2, ROOT);
	owners.refuse = 0;
	chunk = get(ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 2);
	assert_int_equal(stats.nr_evict_refused, 1);
	assert_int_equal(stats.evictable_bytes, ROOT);
	/* Only it is left: asked a bounded number of times. */
	refused(ROOT, CHUNK_EVICT);
	assert_true(owners.nr_asked < 12);
	assert_int_equal(stats.nr_chunks, 2);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* A root of which one chunk stays cannot be emptied; what is free in it can be had again. */
static void test_chunk_evict_refused_in_a_root(void **state)
{
	struct mem_chunk *chunk;

	(void)state;
	open_pool(1);
	own(0, 16, ROOT / 16);
	owners.refuse = 3;
	refused(ROOT, CHUNK_EVICT);
	assert_true(stats.nr_evicted >= 3);
	assert_non_null(owners.chunk[3]);
	chunk = get(ROOT / 16, 0);
	chunk_free(pool, chunk, 0);
	close_pool();
}

static void test_chunk_evict_copies_out_first(void **state)
{
	struct mem_chunk *chunk;
	fence_t fence;

	(void)state;
	open_pool(1);
	owners.copy_first = true;
	own(0, 1, ROOT);
	memset(chunk_addr(owners.chunk[0]), 3, ROOT);
	/* Who has no fence waits. */
	chunk = get(ROOT, CHUNK_EVICT);
	memset(chunk_addr(chunk), 4, ROOT);
	assert_int_equal(*(char *)host, 3);
	chunk_free(pool, chunk, 0);
	/* Who has one need not. */
	own(1, 2, ROOT);
	memset(chunk_addr(owners.chunk[1]), 5, ROOT);
	assert_int_equal(chunk_alloc(pool, ROOT, CHUNK_EVICT, &fence, &chunk), 0);
	assert_true(fence != 0);
	assert_int_equal(*(char *)host, 3);
	assert_int_equal(backend->ops->fence_wait(backend, fence), 0);
	assert_int_equal(*(char *)host, 5);
	chunk_free(pool, chunk, 0);
	/* A root in parts. */
	own(2, 18, ROOT / 16);
	chunk = get(ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(stats.pending_bytes, 0);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* The owner answers that it has no such chunk: it was given back meanwhile. */
static void test_chunk_evict_asked_too_late(void **state)
{
	struct mem_chunk *chunk;

	(void)state;
	open_pool(1);
	owners.late = true;
	owners.pin = true;
	own(0, 1, ROOT);
	chunk = get(ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(stats.nr_chunks, 1);
	assert_int_equal(stats.nr_evicted, 1);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* Other programs fill the card: what is published makes way. */
static void test_chunk_evict_when_others_take_the_memory(void **state)
{
	struct backend_chunk others;
	struct mem_chunk *chunk;

	(void)state;
	open_pool(0);
	own(0, 2, ROOT);
	assert_int_equal(backend->ops->chunk_create(backend, GPU0, MIB(14), &others), 0);
	refused(2 * ROOT, 0);
	chunk = get(2 * ROOT, CHUNK_EVICT);
	look();
	assert_int_equal(owners.nr_asked, 2);
	assert_int_equal(stats.held_bytes, 2 * ROOT);
	backend->ops->chunk_destroy(backend, &others);
	chunk_free(pool, chunk, 0);
	close_pool();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_evict_never_the_pinned),
		cmocka_unit_test(test_chunk_evict_only_when_told),
		cmocka_unit_test(test_chunk_evict_the_oldest_first),
		cmocka_unit_test(test_chunk_evict_one_of_the_size),
		cmocka_unit_test(test_chunk_evict_a_whole_root),
		cmocka_unit_test(test_chunk_evict_for_a_large_one),
		cmocka_unit_test(test_chunk_evict_refused),
		cmocka_unit_test(test_chunk_evict_refused_in_a_root),
		cmocka_unit_test(test_chunk_evict_copies_out_first),
		cmocka_unit_test(test_chunk_evict_asked_too_late),
		cmocka_unit_test(test_chunk_evict_when_others_take_the_memory),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
