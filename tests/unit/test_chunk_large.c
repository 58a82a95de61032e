/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large requests that share roots: how these are cut and merged, which piece is taken, how large a
 * root is made, when it goes back; and that the checker sees what is wrong with one.
 */
#include <errno.h>

#include "tests/unit/test_chunk_large.h"

/* ------------------------------------------------------------------ cut and merged */

static void test_chunk_large_share_a_root(void **state)
{
	struct mem_chunk *a, *b, *c;

	(void)state;
	open_pool(NULL);
	a = get(KIB(300) + 1);
	b = get(SHARE);
	c = get(KIB(500));
	look();
	assert_int_equal(stats.nr_roots, 1);
	assert_int_equal(stats.nr_shared, 1);
	assert_int_equal(stats.held_bytes, SHARED);
	assert_int_equal(stats.created_bytes, SHARED);
	assert_int_equal(stats.rounding_bytes, GRANULE - 1);
	assert_int_equal(chunk_bytes(a), KIB(304));
	assert_int_equal(handle_of(a), handle_of(b));
	assert_int_equal(handle_of(b), handle_of(c));
	assert_int_equal(offset_of(b), KIB(304));
	assert_int_equal(offset_of(c), KIB(304) + SHARE);
	assert_ptr_equal((char *)chunk_addr(b), (char *)chunk_addr(a) + KIB(304));
	assert_int_equal(stats.largest_free_bytes, SHARED - SHARE - KIB(804));
	put(a);
	put(b);
	put(c);
	close_pool();
}

/* Who is small, large or too large to share, to the byte. */
static void test_chunk_large_by_size(void **state)
{
	struct mem_chunk *small, *large, *most, *own;

	(void)state;
	open_pool(NULL);
	small = get(ROOT);
	look();
	assert_int_equal(stats.nr_shared, 0);
	large = get(ROOT + 1);
	most = get(SHARE);
	look();
	assert_int_equal(stats.nr_shared, 1);
	assert_int_equal(stats.nr_own, 0);
	own = get(SHARE + 1);
	look();
	assert_int_equal(stats.nr_own, 1);
	assert_int_equal(stats.nr_roots, 3);
	put(own);
	/* Nobody cuts a root that one has to itself. */
	put(most);
	most = get(SHARE);
	look();
	assert_int_equal(stats.nr_roots, 3);
	assert_int_equal(handle_of(most), handle_of(large));
	put(most);
	put(large);
	put(small);
	close_pool();
}

/* In whatever order pieces come back, a root is whole again. */
static void test_chunk_large_merge(void **state)
{
	struct mem_chunk *piece[4];

	(void)state;
	open_pool(NULL);
	for (uint32_t order = 0; order < 24; order++) {
		uint32_t left[4] = {0, 1, 2, 3}, rest = order;

		for (uint32_t i = 0; i < 4; i++)
			piece[i] = get(KIB(260) + i * KIB(200));
		look();
		assert_int_equal(stats.nr_roots, 1);
		for (uint32_t nr = 4; nr; rest /= nr, nr--) {
			uint32_t at = rest % nr;

			put(piece[left[at]]);
			left[at] = left[nr - 1];
			look();
		}
		assert_int_equal(stats.largest_free_bytes, SHARED);
		assert_int_equal(stats.idle_bytes, SHARED);
	}
	close_pool();
}

/* The smallest free piece that a request fits into, of all roots. */
static void test_chunk_large_best_fit(void **state)
{
	static const uint32_t kib[] = {700, 300, 900, 300, 500, 300, 800, 296};
	struct mem_chunk *piece[8], *again;
	uint64_t offset, handle;

	(void)state;
	open_pool(NULL);
	for (uint32_t i = 0; i < 8; i++)
		piece[i] = get(KIB(kib[i]));
	again = get(KIB(940)); /* a second root's */
	look();
	assert_int_equal(stats.nr_shared, 2);
	offset = offset_of(piece[6]);
	handle = handle_of(piece[6]);
	for (uint32_t i = 0; i < 8; i += 2)
		put(piece[i]);
	put(again);
	again = get(KIB(750));
	assert_int_equal(handle_of(again), handle);
	assert_int_equal(offset_of(again), offset);
	put(again);
	again = get(KIB(500));
	assert_ptr_equal(again, piece[4]);
	look();
	assert_int_equal(stats.nr_shared, 2);
	put(again);
	for (uint32_t i = 1; i < 8; i += 2)
		put(piece[i]);
	close_pool();
}

/* Of pieces of about one size, too, whichever came back last. */
static void test_chunk_large_best_of_a_class(void **state)
{
	static const uint32_t kib[] = {752, 300, 732, 300, 708, 300, 740, 264};
	struct mem_chunk *piece[8], *again;

	(void)state;
	open_pool(NULL);
	for (uint32_t i = 0; i < 8; i++)
		piece[i] = get(KIB(kib[i]));
	look();
	assert_int_equal(stats.nr_shared, 1);
	put(piece[0]);
	put(piece[2]);
	put(piece[4]);
	put(piece[6]);
	again = get(KIB(720));
	assert_ptr_equal(again, piece[2]);
	put(again);
	again = get(KIB(735));
	assert_ptr_equal(again, piece[6]);
	put(again);
	for (uint32_t i = 1; i < 8; i += 2)
		put(piece[i]);
	close_pool();
}

/* A root of its own again, if a fifth of the request is left over at most. */
static void test_chunk_large_own_again(void **state)
{
	struct mem_chunk *own;
	uint64_t handle;

	(void)state;
	open_pool(NULL);
	own = get(MIB(6));
	handle = handle_of(own);
	put(own);
	own = get(MIB(5));
	assert_int_equal(handle_of(own), handle);
	look();
	assert_int_equal(stats.tail_bytes, MIB(1));
	put(own);
	own = get(MIB(5) - GRANULE);
	assert_int_not_equal(handle_of(own), handle);
	look();
	assert_int_equal(stats.tail_bytes, 0);
	put(own);
	close_pool();
}

/* ------------------------------------------------------------------ how large a root is made */

/* It goes no further beyond what may be held than the request needs. */
static void test_chunk_large_root_within_the_limit(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *c;

	(void)state;
	config_init(&config);
	config.idle_bytes = 0;
	config.idle_per_mille = 500;
	open_pool(&config);
	a = get(KIB(800));
	look();
	assert_int_equal(stats.held_bytes, KIB(1200));
	b = get(KIB(600)); /* 2,100 KiB may be held then */
	look();
	assert_int_equal(stats.held_bytes, KIB(2100));
	c = get(KIB(400));
	look();
	assert_int_equal(stats.nr_roots, 2);
	put(a);
	put(b);
	put(c);
	look();
	assert_int_equal(stats.held_bytes, 0);
	close_pool();
}

static void test_chunk_large_most_bytes(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b, *c, *more[3], *none;

	(void)state;
	config_init(&config);
	config.max_bytes = SHARED + KIB(600);
	open_pool(&config);
	a = get(SHARE);
	for (uint32_t i = 0; i < 3; i++)
		more[i] = get(SHARE);
	b = get(KIB(300)); /* all that is left becomes its root */
	look();
	assert_int_equal(stats.held_bytes, config.max_bytes);
	c = get(KIB(300));
	assert_int_equal(chunk_alloc(pool, KIB(300), 0, NULL, &none), -ENOMEM);
	look();
	assert_int_equal(stats.nr_roots, 2);
	put(a);
	put(b);
	put(c);
	for (uint32_t i = 0; i < 3; i++)
		put(more[i]);
	close_pool();
}

/* The backend has no room for a large root: one for the request alone; then nothing, and later the
 * large one again. */
static void test_chunk_large_backend_refuses(void **state)
{
	struct backend_chunk others;
	struct mem_chunk *a, *b, *none;

	(void)state;
	open_pool(NULL);
	assert_int_equal(backend->ops->chunk_create(backend, GPU0, MIB(15), &others), 0);
	a = get(KIB(900));
	look();
	assert_int_equal(stats.held_bytes, KIB(900));
	assert_int_equal(stats.nr_refused, 1);
	assert_int_equal(chunk_alloc(pool, KIB(300), 0, NULL, &none), -ENOMEM);
	look();
	assert_int_equal(stats.held_bytes, KIB(900));
	backend->ops->chunk_destroy(backend, &others);
	b = get(KIB(300));
	look();
	assert_int_equal(stats.held_bytes, KIB(900) + SHARED);
	put(a);
	put(b);
	close_pool();
}

/* ------------------------------------------------------------------ giving back */

static void test_chunk_large_trim(void **state)
{
	struct mem_chunk *piece[5];

	(void)state;
	open_pool(NULL);
	for (uint32_t i = 0; i < 5; i++)
		piece[i] = get(SHARE);
	for (uint32_t i = 0; i < 4; i++)
		put(piece[i]);
	look();
	assert_int_equal(stats.held_bytes, 2 * SHARED);
	assert_int_equal(stats.idle_bytes, SHARED);
	/* One piece keeps its root. */
	assert_int_equal(chunk_pool_trim(pool, 0), SHARED);
	look();
	assert_int_equal(stats.held_bytes, SHARED);
	assert_int_equal(stats.nr_shared, 1);
	put(piece[4]);
	assert_int_equal(chunk_pool_trim(pool, 0), SHARED);
	look();
	assert_int_equal(stats.held_bytes, 0);
	close_pool();
}

/* A shared root that nobody uses makes room for requests of other kinds. */
static void test_chunk_large_gives_way(void **state)
{
	struct chunk_pool_config config;
	struct mem_chunk *a, *b;

	(void)state;
	config_init(&config);
	config.max_bytes = SHARED + ROOT;
	open_pool(&config);
	put(get(SHARE));
	a = get(KIB(4));
	b = get(SHARED - ROOT);
	look();
	assert_int_equal(stats.nr_shared, 0);
	assert_int_equal(stats.nr_own, 1);
	assert_int_equal(stats.nr_destroys, 1);
	put(b);
	b = get(SHARE);
	look();
	assert_int_equal(stats.nr_shared, 1);
	put(a);
	put(b);
	close_pool();
}

/* ------------------------------------------------------------------ the checker */

/* What it says of structures that are broken by hand. */
static void test_chunk_large_checker(void **state)
{
	struct mem_chunk *a, *b, *hole;
	struct chunk_root *root;
	uint32_t class;

	(void)state;
	open_pool(NULL);
	a = get(KIB(300));
	hole = get(KIB(400));
	b = get(KIB(300));
	put(hole);
	look();
	root = a->root;
	class = chunk_size_class(KIB(400));
#define BROKEN(place, value)                                        \
	do {                                                        \
		__typeof__(place) was = (place);                    \
		(place) = (value);                                  \
		assert_int_equal(chunk_pool_check(pool), -EUCLEAN); \
		(place) = was;                                      \
		assert_int_equal(chunk_pool_check(pool), 0);        \
	} while (0)
	BROKEN(hole[hole->nr - 1].nr, 1);
	BROKEN(hole->nr, hole->nr - 1);
	BROKEN(a->nr, a->nr + hole->nr);
	BROKEN(root->used, root->used - 1);
	BROKEN(root->unit_bytes, 2 * GRANULE);
	BROKEN(root->kind, CHUNK_OWN);
	BROKEN(pool->shared.nonempty[class / 64], 0);
	BROKEN(pool->shared.list[class].next, &pool->shared.list[class]);
	BROKEN(pool->stats.nr_shared, 0);
	put(a);
	put(a); /* is given back already */
	look();
	assert_int_equal(stats.nr_wrong, 1);
	put(b);
	close_pool();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_large_share_a_root),
		cmocka_unit_test(test_chunk_large_by_size),
		cmocka_unit_test(test_chunk_large_merge),
		cmocka_unit_test(test_chunk_large_best_fit),
		cmocka_unit_test(test_chunk_large_best_of_a_class),
		cmocka_unit_test(test_chunk_large_own_again),
		cmocka_unit_test(test_chunk_large_root_within_the_limit),
		cmocka_unit_test(test_chunk_large_most_bytes),
		cmocka_unit_test(test_chunk_large_backend_refuses),
		cmocka_unit_test(test_chunk_large_trim),
		cmocka_unit_test(test_chunk_large_gives_way),
		cmocka_unit_test(test_chunk_large_checker),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
