/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of roots that large requests share: evicted, zeroed, pending. Bytes are real. */
#include <errno.h>

#include "tests/unit/test_chunk_large.h"

static struct mem_chunk *owned[8];
static uint32_t nr_asked;

static bool is_filled(const struct mem_chunk *chunk, int value)
{
	const unsigned char *byte = chunk_addr(chunk);

	for (uint64_t i = 0; i < chunk_bytes(chunk); i++)
		if (byte[i] != value)
			return false;
	return true;
}

/* ------------------------------------------------------------------ evicted */

static int on_evict(void *arg, struct mem_chunk *chunk, uint64_t owner)
{
	(void)arg;
	assert_ptr_equal(owned[owner], chunk);
	assert_int_equal(chunk_pool_check(pool), 0);
	owned[owner] = NULL;
	nr_asked++;
	put(chunk);
	return 0;
}

/* nr published pieces fill the pool, which is one root. */
static void fill(uint32_t nr, uint64_t bytes)
{
	struct chunk_pool_config config;

	config_init(&config);
	config.max_bytes = SHARED;
	config.evict = on_evict;
	open_pool(&config);
	nr_asked = 0;
	for (uint32_t i = 0; i < nr; i++) {
		owned[i] = get(bytes);
		assert_int_equal(chunk_publish(pool, owned[i], i), 0);
	}
	look();
	assert_int_equal(stats.free_bytes, 0);
}

static void test_chunk_pieces_evict_a_piece(void **state)
{
	struct mem_chunk *first, *chunk;

	(void)state;
	fill(4, SHARE);
	first = owned[0];
	chunk_touch(pool, owned[1]);
	assert_int_equal(chunk_alloc(pool, KIB(700), 0, NULL, &chunk), -ENOMEM);
	assert_int_equal(chunk_alloc(pool, KIB(700), CHUNK_EVICT, NULL, &chunk), 0);
	look();
	assert_int_equal(nr_asked, 1);
	assert_ptr_equal(chunk, first);
	assert_int_equal(stats.free_bytes, SHARE - KIB(700));
	/* What is pinned stays, and the rest of the root goes one by one. */
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(chunk_alloc(pool, SHARE, CHUNK_EVICT, NULL, &owned[4 + i]), 0);
	assert_int_equal(nr_asked, 4);
	assert_int_equal(chunk_alloc(pool, SHARE, CHUNK_EVICT, NULL, &first), -ENOMEM);
	put(chunk);
	for (uint32_t i = 1; i < 4; i++)
		put(owned[4 + i]);
	close_pool();
}

/* No piece is large enough: all of the root, and only then. */
static void test_chunk_pieces_evict_a_root(void **state)
{
	struct mem_chunk *chunk, *small;

	(void)state;
	fill(8, SHARED / 8);
	assert_int_equal(chunk_alloc(pool, SHARE, CHUNK_EVICT, NULL, &chunk), 0);
	look();
	assert_int_equal(nr_asked, 8);
	assert_int_equal(stats.free_bytes, SHARED - SHARE);
	assert_int_equal(stats.largest_free_bytes, SHARED - SHARE);
	put(chunk);
	/* For small ones, too, if there is nothing else. */
	owned[0] = get(KIB(300));
	assert_int_equal(chunk_publish(pool, owned[0], 0), 0);
	assert_int_equal(chunk_alloc(pool, KIB(4), CHUNK_EVICT, NULL, &small), 0);
	look();
	assert_int_equal(nr_asked, 9);
	assert_int_equal(stats.nr_shared, 0);
	put(small);
	close_pool();
}

/* ------------------------------------------------------------------ zeroed, pending */

static void test_chunk_pieces_zeroed(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *c;
	fence_t fence;

	(void)state;
	config_init(&config);
	config.zero = true;
	open_pool(&config);
	a = get(KIB(400));
	b = get(KIB(300));
	c = get(KIB(400));
	memset(chunk_addr(a), 0xa5, chunk_bytes(a));
	memset(chunk_addr(b), 0xb5, chunk_bytes(b));
	memset(chunk_addr(c), 0xc5, chunk_bytes(c));
	put(b);
	assert_int_equal(chunk_alloc(pool, KIB(300), CHUNK_ZEROED, &fence, &b), 0);
	assert_int_equal(backend->ops->fence_wait(backend, fence), 0);
	assert_true(is_filled(b, 0));
	assert_true(is_filled(a, 0xa5));
	assert_true(is_filled(c, 0xc5));
	put(c);
	put(a);
	put(b);
	/* Zeroed without a fence: it is being zeroed first, then there. */
	assert_int_equal(chunk_alloc(pool, SHARE, CHUNK_ZEROED, NULL, &a), -EAGAIN);
	look();
	assert_true(stats.pending_bytes >= SHARE);
	backend->ops->host_spend(backend, 1000000000);
	(void)chunk_pool_progress(pool);
	look();
	/* It has merged with what is not. */
	assert_int_equal(stats.zeroed_bytes, 0);
	assert_int_equal(stats.unzeroed_bytes, SHARE);
	close_pool();
}

/* Zeros are kept by cutting, and lost by merging with what has none. */
static void test_chunk_pieces_zeros_in_pieces(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *c;

	(void)state;
	config_init(&config);
	config.zero = true;
	config.max_bytes = SHARE; /* one root, which is zeroed as a whole */
	open_pool(&config);
	assert_int_equal(chunk_alloc(pool, SHARE, CHUNK_ZEROED, NULL, &a), -EAGAIN);
	backend->ops->host_spend(backend, 1000000000);
	(void)chunk_pool_progress(pool);
	look();
	assert_int_equal(stats.zeroed_bytes, SHARE);
	assert_int_equal(chunk_alloc(pool, KIB(300), CHUNK_ZEROED, NULL, &a), 0);
	assert_int_equal(chunk_alloc(pool, KIB(300), CHUNK_ZEROED, NULL, &b), 0);
	look();
	assert_int_equal(stats.zeroed_bytes, SHARE - KIB(600));
	assert_int_equal(stats.nr_zeroings, 1);
	assert_true(is_filled(a, 0) && is_filled(b, 0));
	put(b);
	look();
	assert_int_equal(stats.zeroed_bytes, 0);
	assert_int_equal(stats.unzeroed_bytes, SHARE - KIB(600));
	c = get(KIB(500));
	put(a);
	put(c);
	close_pool();
}

/* A piece that queued work names is no part of what is free, and goes to whoever can wait. */
static void test_chunk_pieces_pending(void **state)
{
	struct mem_chunk *a, *b, *c;
	struct backend_copy copy;
	stream_id_t stream;
	fence_t fence, got = 0;

	(void)state;
	fill(4, SHARE);
	assert_int_equal(backend->ops->stream_create(backend, 0, BACKEND_COPY_IN, &stream), 0);
	a = owned[0];
	b = owned[1];
	copy = (struct backend_copy){chunk_addr(a), chunk_addr(b), SHARE};
	assert_int_equal(backend->ops->copy(backend, stream, &copy, 1), 0);
	assert_int_equal(backend->ops->fence_record(backend, stream, &fence), 0);
	chunk_free(pool, a, fence);
	chunk_free(pool, b, 0);
	look();
	assert_int_equal(stats.pending_bytes, SHARE);
	assert_int_equal(stats.largest_free_bytes, SHARE);
	b = get(SHARE);
	assert_int_equal(chunk_alloc(pool, SHARE, 0, NULL, &c), -ENOMEM);
	/* As a whole, or not at all. */
	assert_int_equal(chunk_alloc(pool, SHARE / 2, 0, &got, &c), -ENOMEM);
	assert_int_equal(chunk_alloc(pool, SHARE, 0, &got, &c), 0);
	assert_ptr_equal(c, a);
	assert_int_equal(got, fence);
	chunk_free(pool, c, got);
	put(b);
	assert_int_equal(backend->ops->fence_wait(backend, fence), 0);
	(void)chunk_pool_progress(pool);
	look();
	assert_int_equal(stats.largest_free_bytes, 2 * SHARE);
	put(owned[2]);
	put(owned[3]);
	backend->ops->stream_destroy(backend, stream);
	close_pool();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_pieces_evict_a_piece),
		cmocka_unit_test(test_chunk_pieces_evict_a_root),
		cmocka_unit_test(test_chunk_pieces_zeroed),
		cmocka_unit_test(test_chunk_pieces_zeros_in_pieces),
		cmocka_unit_test(test_chunk_pieces_pending),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
