/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroed chunks and chunks that queued work still names: who gets them, when, and with which fence.
 * Bytes are real: what should be zero is looked at.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/flaky/flaky.h"
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
static struct chunk_pool_config config;
static struct chunk_pool_stats stats;
static stream_id_t stream;
static void *host;

static void open_pool(void)
{
	struct weir_machine_desc desc;

	test_machine(&desc);
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &backend), 0);
	test_account_open(&account, backend, GPU0, PHYS_NO_LIMIT);
	config = (struct chunk_pool_config){.client = &account.client,
					    .root_bytes = ROOT,
					    .least_bytes = LEAST,
					    .idle_bytes = 8 * ROOT,
					    .zero = true};
	assert_int_equal(chunk_pool_create(&config, &pool), 0);
	assert_int_equal(backend->ops->stream_create(backend, 0, BACKEND_COPY_OUT, &stream), 0);
	assert_int_equal(backend->ops->device_alloc(backend, HOST, MIB(2), &host), 0);
}

static void look(void)
{
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_pool_stats(pool, &stats);
}

static void close_backend(void)
{
	test_account_close(&account);
	assert_int_equal(backend->ops->memory_used(backend, GPU0), 0);
	backend->ops->device_free(backend, host);
	backend->ops->stream_destroy(backend, stream);
	assert_int_equal(sim_leaks(backend), 0);
	backend->ops->destroy(backend);
}

static void close_pool(void)
{
	look();
	assert_int_equal(stats.nr_chunks, 0);
	assert_int_equal(stats.nr_wrong, 0);
	chunk_pool_destroy(pool);
	close_backend();
}

/* zeroed NULL is passed on. */
static struct mem_chunk *get(uint64_t bytes, fence_t *zeroed)
{
	struct mem_chunk *chunk;

	assert_int_equal(chunk_alloc(pool, bytes, zeroed, &chunk), 0);
	return chunk;
}

/* What is ready by now the pool finds when it looks, which it does when it gives back. */
static void look_at_fences(void)
{
	(void)chunk_pool_trim(pool, 0);
}

static void wait_for(fence_t fence)
{
	assert_int_equal(backend->ops->fence_wait(backend, fence), 0);
}

static void pass_time(void)
{
	backend->ops->host_spend(backend, 10000000);
}

/* Queue a copy out of a chunk. */
static fence_t copy_out(const struct mem_chunk *chunk)
{
	struct backend_copy copy = {host, chunk_addr(chunk), chunk_bytes(chunk)};
	fence_t fence;

	assert_int_equal(backend->ops->copy(backend, stream, &copy, 1), 0);
	assert_int_equal(backend->ops->fence_record(backend, stream, &fence), 0);
	return fence;
}

static bool is_zero(const struct mem_chunk *chunk)
{
	const char *byte = chunk_addr(chunk);

	for (uint64_t i = 0; i < chunk_bytes(chunk); i++)
		if (byte[i])
			return false;
	return true;
}

/* Leave so many roots with contents. */
static void dirty(uint32_t nr, uint64_t bytes)
{
	struct mem_chunk *chunk[8];

	for (uint32_t i = 0; i < nr; i++) {
		chunk[i] = get(bytes, NULL);
		memset(chunk_addr(chunk[i]), 0x5a, bytes);
	}
	for (uint32_t i = 0; i < nr; i++)
		chunk_free(pool, chunk[i], 0);
}

/* ------------------------------------------------------------------ zeroed */

static void test_chunk_zero_on_request(void **state)
{
	static const uint64_t sizes[] = {1, LEAST, 5 * LEAST, ROOT};

	(void)state;
	open_pool();
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct mem_chunk *chunk;
		fence_t fence;

		dirty(1, sizes[i]);
		chunk = get(sizes[i], &fence);
		assert_true(fence != 0);
		wait_for(fence);
		assert_true(is_zero(chunk));
		look();
		chunk_free(pool, chunk, 0);
		look();
		/* The pool knew the fence, and finds that it is reached when it looks. */
		assert_true(stats.pending_bytes > 0);
		look_at_fences();
		look();
		assert_int_equal(stats.pending_bytes, 0);
	}
	close_pool();
}

/* Given back at once, it is not handed out before its zeroing is over. */
static void test_chunk_zero_given_back_unused(void **state)
{
	struct mem_chunk *chunk;
	fence_t fence;

	(void)state;
	open_pool();
	dirty(1, ROOT);
	chunk = get(ROOT, &fence);
	chunk_free(pool, chunk, 0);
	look();
	assert_int_equal(stats.pending_bytes, ROOT);
	/* A second root, with a tail of zeros nowhere. */
	chunk = get(ROOT, NULL);
	look();
	assert_int_equal(stats.nr_roots, 2);
	memset(chunk_addr(chunk), 1, ROOT);
	pass_time();
	assert_int_equal(*(char *)chunk_addr(chunk), 1);
	chunk_free(pool, chunk, 0);
	close_pool();
}

/* ------------------------------------------------------------------ pending */

static void test_chunk_pending_until_its_fence(void **state)
{
	struct mem_chunk *first, *second;
	fence_t after;

	(void)state;
	open_pool();
	first = get(ROOT, NULL);
	after = copy_out(first);
	chunk_free(pool, first, after);
	look();
	assert_int_equal(stats.pending_bytes, ROOT);
	assert_int_equal(stats.idle_bytes, 0);
	second = get(ROOT, NULL);
	assert_ptr_not_equal(second, first);
	/* It is not unused, and not given back. */
	assert_int_equal(chunk_pool_trim(pool, UINT64_MAX), 0);
	wait_for(after);
	look_at_fences();
	look();
	assert_int_equal(stats.pending_bytes, 0);
	assert_ptr_equal(get(ROOT, NULL), first);
	chunk_free(pool, first, 0);
	chunk_free(pool, second, 0);
	close_pool();
}

/* What is ready by now is found before more is taken from the backend. */
static void test_chunk_pending_is_asked_about(void **state)
{
	struct mem_chunk *chunk[40];

	(void)state;
	open_pool();
	for (uint32_t i = 0; i < 40; i++)
		chunk[i] = get(ROOT / 40, NULL);
	for (uint32_t i = 0; i < 40; i++)
		chunk_free(pool, chunk[i], copy_out(chunk[i]));
	pass_time();
	chunk[0] = get(ROOT, NULL);
	look();
	assert_int_equal(stats.pending_bytes, 0);
	assert_int_equal(stats.nr_creates, 2);
	chunk_free(pool, chunk[0], 0);
	close_pool();
}

/* Destroying waits; the simulator would complain of a chunk that a copy names. */
static void test_chunk_pending_when_destroyed(void **state)
{
	struct mem_chunk *chunk, *zeroed;
	fence_t fence;

	(void)state;
	open_pool();
	dirty(2, ROOT);
	zeroed = get(ROOT, &fence);
	chunk_free(pool, zeroed, 0);
	chunk = get(ROOT, NULL);
	chunk_free(pool, chunk, copy_out(chunk));
	look();
	assert_int_equal(stats.pending_bytes, 2 * ROOT);
	chunk_pool_destroy(pool);
	close_backend();
}

/* A question that fails is no answer: it is asked again. */
static void test_chunk_pending_questions_fail(void **state)
{
	struct mem_chunk *chunk;
	struct backend *flaky;
	fence_t fence;

	(void)state;
	open_pool();
	chunk_pool_destroy(pool);
	assert_int_equal(flaky_create(backend, &flaky), 0);
	account.memory.backend = flaky;
	assert_int_equal(chunk_pool_create(&config, &pool), 0);
	dirty(1, ROOT);
	chunk = get(ROOT, &fence);
	chunk_free(pool, chunk, 0);
	pass_time();
	flaky_arm(flaky, flaky_nr_calls(flaky) + 1, -EIO);
	look_at_fences();
	look();
	assert_int_equal(stats.nr_fence_errors, 1);
	assert_int_equal(stats.pending_bytes, ROOT);
	look_at_fences();
	look();
	assert_int_equal(stats.pending_bytes, 0);
	/* The fence of a zeroing that was queued is not had: a later one stands for it. */
	flaky_arm(flaky, flaky_nr_calls(flaky) + 2, -EIO);
	assert_int_equal(chunk_alloc(pool, ROOT, &fence, &chunk), -EIO);
	look();
	assert_int_equal(stats.nr_chunks, 0);
	assert_int_equal(stats.pending_bytes, ROOT);
	look_at_fences();
	look();
	assert_int_equal(stats.pending_bytes, ROOT);
	pass_time();
	look_at_fences();
	look();
	assert_int_equal(stats.pending_bytes, 0);
	/* Of one that was not queued nothing is left. */
	flaky_arm(flaky, flaky_nr_calls(flaky) + 1, -EIO);
	assert_int_equal(chunk_alloc(pool, ROOT, &fence, &chunk), -EIO);
	look();
	assert_int_equal(stats.free_bytes, ROOT);
	assert_int_equal(stats.nr_chunks, 0);
	chunk_pool_destroy(pool);
	test_account_close(&account);
	flaky->ops->device_free(flaky, host);
	flaky->ops->stream_destroy(flaky, stream);
	assert_int_equal(sim_leaks(backend), 0);
	flaky->ops->destroy(flaky);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_zero_on_request),
		cmocka_unit_test(test_chunk_zero_given_back_unused),
		cmocka_unit_test(test_chunk_pending_until_its_fence),
		cmocka_unit_test(test_chunk_pending_is_asked_about),
		cmocka_unit_test(test_chunk_pending_when_destroyed),
		cmocka_unit_test(test_chunk_pending_questions_fail),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
