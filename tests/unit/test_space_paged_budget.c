/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One budget for blocks and frames: what a space gives its pools of paged memory, what they give
 * back, and when; and several threads that want more than there is.
 *
 * Labels: threads
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/test_space_paged.h"

/* Frames are chunks of the space's, and what live ranges need is not to be had. */
static void test_budget_is_shared(void **unused)
{
	struct weir_paged_config config;
	struct weir_paged *second = NULL;
	void *live;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 17);
	assert_int_equal(nr_chunks(&b), BUDGET - 5); /* rounded up */
	assert_int_equal(weir_paged_set_budget(b.p.pool, (uint64_t)16 * 4096), 0);
	assert_int_equal(nr_chunks(&b), BUDGET - 4);
	check(&b);
	/* A space keeps two blocks of its own. */
	assert_int_equal(weir_paged_set_budget(b.p.pool, (BUDGET - 2) * BLOCK), 0);
	assert_int_equal(nr_chunks(&b), 2);
	assert_int_equal(weir_paged_set_budget(b.p.pool, (BUDGET - 2) * BLOCK + 4096), -ENOMEM);
	paged_log_has(&b.log, "or not within the budget of the pool's space");
	assert_int_equal(nr_frames(&b), (BUDGET - 2) * 4);
	assert_int_equal(nr_chunks(&b), 2);
	config = pool_config(&b, 1);
	assert_int_equal(weir_paged_set_budget(b.p.pool, 4096), 0);
	assert_int_equal(nr_chunks(&b), BUDGET - 1);
	/* All that there is, but for the two that copies need. */
	assert_int_equal(weir_alloc(b.space, (5 * BUDGET - 3) * BLOCK, b.p.stream, &live), 0);
	assert_int_equal(weir_paged_create(b.p.machine, &config, &second), -ENOMEM);
	assert_int_equal(weir_paged_set_budget(b.p.pool, 2 * BLOCK), -ENOMEM);
	assert_int_equal(weir_paged_set_budget(b.p.pool, BLOCK), 0);
	check(&b);
	assert_int_equal(weir_free(b.space, live, NULL), 0);
	assert_int_equal(weir_paged_create(b.p.machine, &config, &second), 0);
	check(&b);
	weir_paged_destroy(second);
	both_close(&b);
}

/* Blocks are evicted for frames, in a planned space; in a fixed one they stay. */
static void test_blocks_make_room(void **unused)
{
	const uint64_t nr_pages = BUDGET * 4;
	struct weir_paged_config config;
	uint64_t *mapped, *words;
	struct both b;

	(void)unused;
	for (int mode = WEIR_FIXED; mode <= WEIR_PLANNED; mode++) {
		int expected = mode == WEIR_FIXED ? -ENOMEM : 0;

		space_open(&b, (enum weir_space_mode)mode);
		mapped = mapped_range(&b, nr_pages);
		assert_int_equal(range_nr_resident(b.space->range[0]), BUDGET);
		config = pool_config(&b, 24);
		assert_int_equal(weir_paged_create(b.p.machine, &config, &b.p.pool), expected);
		assert_int_equal(nr_chunks(&b), expected ? BUDGET : BUDGET - 6);
		assert_int_equal(weir_space_check(b.space), 0);
		for (uint64_t i = 0; i < nr_pages; i++) {
			uint64_t word;

			assert_int_equal(weir_read(b.space, &word, mapped + i * PAGE, 8), 0);
			assert_int_equal(word, i + 1);
		}
		if (!expected) {
			uint32_t range = paged_range(&b.p, nr_pages * 4096, 0, &words);

			sum_run(&b, b.p.stream, range, words, mapped, nr_pages);
			expect_words(&b, words, nr_pages, 1);
		}
		assert_int_equal(weir_free(b.space, mapped, NULL), 0);
		if (expected) {
			assert_int_equal(weir_paged_create(b.p.machine, &config, &b.p.pool), 0);
		}
		both_close(&b);
	}
}

/* A space that can't go on otherwise takes frames of a pool that is not online; the pool has them
 * again when the space has room. */
static void test_frames_make_room(void **unused)
{
	const uint64_t nr_pages = 32;
	struct weir_paged_view view;
	uint64_t *words;
	void *live, *more = NULL;
	struct both b;
	uint32_t range;

	(void)unused;
	both_open(&b, WEIR_FIXED, 4 * 8);
	range = paged_range(&b.p, nr_pages * 4096, 0, &words);
	for (uint32_t i = 0; i < nr_pages; i++)
		assert_int_equal(
			PAGED_RUN(&b.p, false, {PAGED_WRITE, range, i * PAGE, UINT64_C(1) + i}), 0);
	assert_int_equal(weir_alloc(b.space, 70 * BLOCK, b.p.stream, &live), 0);
	assert_int_equal(nr_chunks(&b), 8); /* there was room */
	/* Not while it is online. */
	assert_int_equal(weir_paged_begin(b.p.pool, b.p.stream, &view), 0);
	assert_int_equal(weir_alloc(b.space, 3 * BLOCK, b.p.stream, &more), -ENOMEM);
	assert_int_equal(weir_paged_end(b.p.pool, b.p.stream), 0);
	assert_int_equal(weir_paged_sync(b.p.pool), 0);
	assert_int_equal(weir_alloc(b.space, 3 * BLOCK, b.p.stream, &more), 0);
	assert_int_equal(nr_chunks(&b), 11);
	assert_int_equal(nr_frames(&b), 4 * 5);
	check(&b);
	expect_words(&b, words, nr_pages, 1);
	/* It cannot have them back yet. */
	assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_READ, range, 0, 1}), 0);
	assert_int_equal(nr_frames(&b), 4 * 5);
	check(&b);
	assert_int_equal(weir_free(b.space, more, NULL), 0);
	assert_int_equal(PAGED_RUN(&b.p, false, {PAGED_READ, range, 0, 1}), 0);
	assert_int_equal(nr_frames(&b), 4 * 8);
	assert_int_equal(weir_free(b.space, live, NULL), 0);
	both_close(&b);
}

/* It does not while it can evict. */
static void test_frames_are_asked_for_last(void **unused)
{
	uint64_t *words, *mapped;
	struct weir_use one;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 32);
	(void)paged_range(&b.p, 4096, 0, &words);
	mapped = mapped_range(&b, 70 * 4);
	for (uint32_t i = 0; i < 20; i++) {
		one = use(mapped + i % 3 * 20 * 4 * PAGE, 20 * BLOCK, WEIR_WRITE);
		assert_int_equal(weir_begin(b.space, b.p.stream, &one, 1), 0);
		assert_int_equal(weir_end(b.space, b.p.stream), 0);
		assert_int_equal(nr_frames(&b), 32);
	}
	/* Nor for the host's sake, which it would not help. */
	one = use(mapped, 70 * BLOCK, WEIR_READ);
	assert_int_equal(weir_host_begin(b.space, &one, 1), -ENOMEM);
	assert_int_equal(nr_frames(&b), 32);
	assert_int_equal(weir_free(b.space, mapped, NULL), 0);
	both_close(&b);
}

/* Others of the machine are given frames, too; those chunks are the space's again. */
static void test_others_get_frames(void **unused)
{
	struct phys_memory *memory;
	struct phys_client client;
	struct both b;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 32);
	memory = phys_of(b.p.machine, GPU0);
	phys_client_add(&client, memory, "the test", PHYS_NO_LIMIT);
	assert_int_equal(phys_reclaim(&client, phys_room(memory) + 5 * 4096), 5 * 4096);
	assert_int_equal(nr_frames(&b), 27);
	assert_int_equal(nr_chunks(&b), BUDGET - 7);
	phys_client_del(&client);
	both_close(&b);
}

/* ------------------------------------------------------------------ threads */

#define ROUNDS 60u

struct worker {
	pthread_t thread;
	struct both *b;
	struct weir_stream *stream;
	uint32_t nr_brackets;
	atomic_bool stop; /* one round more: the pool is not online */
};

/* Allocate, use and free mapped ranges that need what the pool has. */
static void *mapped_main(void *arg)
{
	struct worker *w = arg;
	bool last;

	do {
		struct weir_use one;
		void *addr;

		last = atomic_load(&w->stop);
		if (weir_alloc(w->b->space, 72 * BLOCK, w->stream, &addr))
			continue;
		one = use(addr, 20 * BLOCK, WEIR_OVERWRITE);
		if (!weir_begin(w->b->space, w->stream, &one, 1)) {
			w->nr_brackets++;
			assert_int_equal(weir_end(w->b->space, w->stream), 0);
		}
		assert_int_equal(weir_free(w->b->space, addr, w->stream), 0);
		if (weir_space_check(w->b->space))
			return (void *)1;
	} while (!last);
	return NULL;
}

static void test_threads(void **unused)
{
	struct worker w = {.nr_brackets = 0};
	uint64_t *words, *mapped;
	struct both b;
	uint32_t range;
	void *failed;

	(void)unused;
	both_open(&b, WEIR_PLANNED, 32);
	w.b = &b;
	w.stream = b.p.other;
	range = paged_range(&b.p, (uint64_t)16 * 4096, 0, &words);
	mapped = mapped_range(&b, 16);
	assert_int_equal(pthread_create(&w.thread, NULL, mapped_main, &w), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		sum_run(&b, b.p.stream, range, words, mapped, 16);
		if (i % 8 == 0) {
			assert_int_equal(weir_paged_sync(b.p.pool), 0);
			assert_int_equal(weir_paged_drain(b.p.pool), 0);
			(void)!weir_paged_set_budget(b.p.pool, (i % 3 + 1) * 2 * BLOCK);
		}
	}
	assert_int_equal(weir_paged_sync(b.p.pool), 0);
	atomic_store(&w.stop, true);
	pthread_join(w.thread, &failed);
	assert_null(failed);
	assert_true(w.nr_brackets > 0);
	expect_words(&b, words, 16, ROUNDS);
	assert_int_equal(weir_free(b.space, mapped, NULL), 0);
	assert_int_equal(weir_space_sync(b.space), 0);
	both_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_is_shared),
		cmocka_unit_test(test_blocks_make_room),
		cmocka_unit_test(test_frames_make_room),
		cmocka_unit_test(test_frames_are_asked_for_last),
		cmocka_unit_test(test_others_get_frames),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
