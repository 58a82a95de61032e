/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that are left to show a chunk that their block has no more, until somebody has the
 * time to unmap it: what must not come of that, with calls of the driver that fail at the worst
 * time.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test_space_late.h"

static const struct backend_ops *driver;
static struct backend_ops failing;
static bool fail_copy, fail_unmap;

static int maybe_copy(struct backend *b, stream_id_t stream, const struct backend_copy *copy,
		      uint32_t nr)
{
	return fail_copy ? -EIO : driver->copy(b, stream, copy, nr);
}

static int maybe_unmap(struct backend *b, void *addr)
{
	return fail_unmap ? -EIO : driver->unmap(b, addr);
}

static void wrap_driver(struct test_space *t)
{
	driver = t->backend->ops;
	failing = *driver;
	failing.copy = maybe_copy;
	failing.unmap = maybe_unmap;
	t->backend->ops = &failing;
	fail_copy = fail_unmap = false;
}

/* Evict a block to the host. Lock held. */
static void evict(struct test_space *t, struct range *range, uint32_t i)
{
	struct chunk *chunk = pmm_chunk_get(&t->space->pmm[space_host(t->space)]);
	bool freed;

	assert_int_equal(migrate_evict(t->space, range, i, chunk, WEIR_CAUSE_EVICTION, &freed), 0);
}

/* What is queued fails. Lock held. */
static void flush_fails(struct test_space *t)
{
	fail_copy = true;
	assert_int_equal(migrate_flush(t->space), -EIO);
	fail_copy = false;
	assert_int_equal(space_check(t->space), 0);
}

/* @return six blocks of 3 that are resident. */
static uint8_t *open_filled(struct test_space *t)
{
	uint8_t *x;

	test_space_open(t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 12, 16);
	x = do_alloc(t, 6 * BLOCK, 0);
	do_fill(t, 0, x, 6 * BLOCK, 3);
	do_sync(t);
	return x;
}

/* An address is left as its block leaves, and unmapped before the memory goes elsewhere. */
static void test_left_then_given(void **state)
{
	struct test_space t;
	struct pmm *pmm;
	uint64_t given;
	uint8_t *x;

	(void)state;
	x = open_filled(&t);
	pmm = &t.space->pmm[PLACE_OWN];
	pthread_mutex_lock(&t.space->lock);
	for (uint32_t i = 0; i < 6; i++)
		evict(&t, range_find(t.space, x), i);
	assert_int_equal(migrate_flush(t.space), 0);
	assert_int_equal(get_stale(&t, x), 6);
	pthread_mutex_unlock(&t.space->lock);
	t.backend->ops->host_spend(t.backend, 100000000);
	given = give_unused(&pmm->client, 6 * pmm->chunk_bytes);
	assert_int_equal(given, 6 * pmm->chunk_bytes);
	assert_int_equal(get_stale(&t, x), 0);
	do_expect(&t, 0, x, 6 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

/* A discard names a range and maps nothing of it: what was left is not waited for for that. */
static void discard_what_is_left(bool freed)
{
	struct test_space t;
	struct weir_use use;
	uint64_t waits, hits;
	uint8_t *x;

	x = open_filled(&t);
	assert_int_equal(weir_prefetch(t.space, x, 3 * BLOCK, HOST, NULL), 0);
	use = use_of(x, 6 * BLOCK, WEIR_DISCARD);
	do_begin_uses(&t, 0, &use, 1);
	do_spin(&t, 0, SPIN_NS);
	do_end(&t, 0);
	waits = get_stats(&t).nr_waits;
	hits = get_stats(&t).nr_pool_hits;
	if (freed) {
		do_free(&t, x, 0);
		x = do_alloc(&t, 6 * BLOCK, 0);
		assert_int_equal(get_stats(&t).nr_pool_hits, hits + 1);
	}
	use = use_of(x, 6 * BLOCK, WEIR_OVERWRITE);
	do_begin_uses(&t, 0, &use, 1);
	assert_int_equal(get_stats(&t).nr_waits, waits);
	do_launch(&t, 0, x, 6 * BLOCK, WEIR_OVERWRITE, 0, 5);
	do_end(&t, 0);
	do_expect(&t, 0, x, 6 * BLOCK, 5);
	do_sync(&t);
	test_space_close(&t);
}

static void test_left_and_discarded(void **state)
{
	(void)state;
	discard_what_is_left(false);
	discard_what_is_left(true);
}

/* What comes back to where it is still mapped is mapped for who was to reach it meanwhile. */
static void test_left_and_undone_for_two(void **state)
{
	struct test_space t;
	struct range *range;
	uint8_t *x;

	(void)state;
	test_space_open_devices(&t, BLOCK, 12, 12, 16);
	wrap_driver(&t);
	x = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, x, 4 * BLOCK, 3);
	do_sync(&t);
	range = range_find(t.space, x);
	pthread_mutex_lock(&t.space->lock);
	for (uint32_t i = 0; i < 4; i++)
		evict(&t, range, i);
	pthread_mutex_unlock(&t.space->lock);
	assert_int_equal(weir_advise(t.space, x, WEIR_ADVISE_ACCESSED_BY, 1), 0);
	pthread_mutex_lock(&t.space->lock);
	flush_fails(&t);
	pthread_mutex_unlock(&t.space->lock);
	do_expect(&t, TEST_OTHER, x, 4 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

/* Blocks that an undone eviction has left unmapped are not given to who is born. */
static void test_left_unmapped_gives_nothing(void **state)
{
	struct test_space t;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, HBM_BLOCKS, 16);
	wrap_driver(&t);
	for (uint32_t i = 1; i < WARM_UP; i++) {
		uint8_t *x = do_alloc(&t, X_BYTES, 0), *y;
		struct weir_use use;

		do_fill(&t, 0, x, X_BYTES, 1000 + i);
		do_expect_late(&t, 0, x, X_BYTES, 1000 + i);
		if (i == WARM_UP - 1) {
			assert_true(has_plan(&t));
			do_sync(&t);
			pthread_mutex_lock(&t.space->lock);
			for (uint32_t n = 0; n < 6; n++)
				evict(&t, range_find(t.space, x), n);
			while (migrate_drop_stale(t.space))
				;
			flush_fails(&t);
			assert_int_equal(range_find(t.space, x)->nr_unmapped, 6);
			pthread_mutex_unlock(&t.space->lock);
		}
		do_free(&t, x, 0);
		y = do_alloc(&t, Y_BYTES, 0);
		use = use_of(y, Y_BYTES, WEIR_OVERWRITE);
		do_begin_uses(&t, 0, &use, 1);
		do_fill_and_end(&t, y, Y_BYTES, 2000 + i);
		do_expect_late(&t, 0, y, Y_BYTES, 2000 + i);
		do_free(&t, y, 0);
		do_sync(&t);
	}
	test_space_close(&t);
}

/* Two addresses may show one chunk, where neither can be unmapped: it is kept until none does. */
static void test_left_by_two(void **state)
{
	struct test_space t;
	struct range *range, *other;
	struct chunk *chunk;
	uint8_t *x, *y;
	bool freed;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 12, 16);
	wrap_driver(&t);
	x = do_alloc(&t, BLOCK, 0);
	y = do_alloc(&t, BLOCK, 0);
	do_write(&t, x, BLOCK, 3);
	do_write(&t, y, BLOCK, 4);
	assert_int_equal(weir_prefetch(t.space, x, BLOCK, HOST, NULL), 0);
	assert_int_equal(weir_prefetch(t.space, y, BLOCK, HOST, NULL), 0);
	do_sync(&t);
	assert_int_equal(weir_prefetch(t.space, x, BLOCK, GPU0, NULL), 0);
	do_sync(&t);
	range = range_find(t.space, x);
	other = range_find(t.space, y);
	pthread_mutex_lock(&t.space->lock);
	assert_int_equal(migrate_evict(t.space, range, 0, NULL, WEIR_CAUSE_EVICTION, &freed), 0);
	chunk = pmm_chunk_get(&t.space->pmm[PLACE_OWN]);
	assert_int_equal(chunk->stale, 1);
	assert_int_equal(migrate_fetch(t.space, other, 0, chunk, WEIR_CAUSE_PREFETCH), 0);
	fail_unmap = true;
	flush_fails(&t);
	fail_unmap = false;
	assert_int_equal(chunk->stale, 2);
	(void)pmm_give(&t.space->pmm[PLACE_OWN], UINT64_MAX);
	assert_int_equal(migrate_unstale(t.space, range, 0), 0);
	assert_int_equal(space_check(t.space), 0);
	assert_int_equal(pmm_give(&t.space->pmm[PLACE_OWN], UINT64_MAX), 0);
	assert_int_equal(migrate_unstale(t.space, other, 0), 0);
	assert_int_equal(pmm_give(&t.space->pmm[PLACE_OWN], UINT64_MAX), BLOCK);
	pthread_mutex_unlock(&t.space->lock);
	do_expect(&t, 0, x, BLOCK, 3);
	do_expect(&t, 0, y, BLOCK, 4);
	do_sync(&t);
	test_space_close(&t);
}

/* Memory that a lower budget wants back is unmapped at once. */
static void test_left_not_below_a_budget(void **state)
{
	struct test_space t;
	struct pmm *pmm;
	uint8_t *x;

	(void)state;
	x = open_filled(&t);
	pmm = &t.space->pmm[PLACE_OWN];
	pthread_mutex_lock(&t.space->lock);
	pmm_set_budget(pmm, 2);
	evict(&t, range_find(t.space, x), 0);
	assert_int_equal(get_stale(&t, x), 0);
	pmm_set_budget(pmm, 12);
	evict(&t, range_find(t.space, x), 1);
	assert_int_equal(get_stale(&t, x), 1);
	assert_int_equal(migrate_flush(t.space), 0);
	pthread_mutex_unlock(&t.space->lock);
	do_expect(&t, 0, x, 6 * BLOCK, 3);
	do_sync(&t);
	test_space_close(&t);
}

/* A block that cannot even be queued, since the batch before it fails, is where it was. */
static void test_left_and_not_queued(void **state)
{
	struct test_space t;
	struct range *range;
	struct chunk *chunk;
	uint8_t *x, *y;
	bool freed;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 40, 60);
	wrap_driver(&t);
	x = do_alloc(&t, SPACE_BATCH_MAX * BLOCK, 0);
	y = do_alloc(&t, 2 * BLOCK, 0);
	do_fill(&t, 0, x, SPACE_BATCH_MAX * BLOCK, 3);
	do_fill(&t, 0, y, 2 * BLOCK, 4);
	do_sync(&t);
	range = range_find(t.space, y);
	pthread_mutex_lock(&t.space->lock);
	for (uint32_t i = 0; i < SPACE_BATCH_MAX; i++)
		evict(&t, range_find(t.space, x), i);
	chunk = pmm_chunk_get(&t.space->pmm[space_host(t.space)]);
	fail_copy = true;
	assert_int_equal(migrate_evict(t.space, range, 1, chunk, WEIR_CAUSE_EVICTION, &freed),
			 -EIO);
	fail_copy = false;
	pmm_chunk_put(&t.space->pmm[space_host(t.space)], chunk);
	assert_int_equal(range->block[1].at.home->stale, 0);
	assert_int_equal(t.space->nr_stale, 0);
	assert_int_equal(space_check(t.space), 0);
	pthread_mutex_unlock(&t.space->lock);
	do_expect(&t, 0, x, SPACE_BATCH_MAX * BLOCK, 3);
	do_expect(&t, 0, y, 2 * BLOCK, 4);
	do_sync(&t);
	test_space_close(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_left_then_given),
		cmocka_unit_test(test_left_and_discarded),
		cmocka_unit_test(test_left_and_undone_for_two),
		cmocka_unit_test(test_left_unmapped_gives_nothing),
		cmocka_unit_test(test_left_by_two),
		cmocka_unit_test(test_left_not_below_a_budget),
		cmocka_unit_test(test_left_and_not_queued),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
