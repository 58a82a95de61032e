/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of paged memory that others ask for: how many are given, what becomes of their pages, when
 * they come back; and paged memory that asks others.
 *
 * Labels: threads
 */
#include <pthread.h>

#include "src/mem/mem.h"
#include "tests/unit/test_paged.h"

#define PAGE 512u /* words */
#define FRAMES 16u

/* Ask for so many frames more than there is room for. */
static uint64_t ask(struct paged_test *t, uint64_t nr_frames)
{
	struct phys_memory *memory = phys_of(t->machine, GPU0);
	struct phys_client client;
	uint64_t given;

	phys_client_add(&client, memory, "the test", PHYS_NO_LIMIT);
	given = phys_reclaim(&client, phys_room(memory) + nr_frames * 4096);
	phys_client_del(&client);
	assert_int_equal(given % 4096, 0);
	return given / 4096;
}

/* All pages of a range of as many as there are frames get a word. */
static void write_all(struct paged_test *t, uint32_t range, uint64_t value)
{
	for (uint32_t i = 0; i < FRAMES; i++)
		assert_int_equal(PAGED_RUN(t, false, {PAGED_WRITE, range, i * PAGE, value + i}), 0);
}

static void expect_all(struct paged_test *t, uint32_t range, uint64_t value)
{
	uint64_t word;

	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_int_equal(weir_paged_read(t->pool, range, i * 4096, &word, 8), 0);
		assert_int_equal(word, value + i);
	}
}

static uint64_t held_frames(struct paged_test *t)
{
	return t->pool->client.held_bytes / 4096;
}

static void test_frames_are_given(void **unused)
{
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, FRAMES, 2 * FRAMES);
	range = paged_range(&t, FRAMES * 4096, 0, &words);
	write_all(&t, range, 100);
	assert_int_equal(held_frames(&t), FRAMES);
	/* As many as are missing, with what is dirty in them. */
	assert_int_equal(ask(&t, 5), 5);
	assert_int_equal(paged_stats(&t).nr_frames, FRAMES - 5);
	assert_int_equal(held_frames(&t), FRAMES - 5);
	assert_int_equal(weir_paged_check(t.pool), 0);
	expect_all(&t, range, 100);
	/* The next bracket has them again. */
	write_all(&t, range, 200);
	assert_int_equal(paged_stats(&t).nr_frames, FRAMES);
	/* All but the last one: a pool has one frame at least. */
	assert_int_equal(ask(&t, 1000), FRAMES - 1);
	assert_int_equal(ask(&t, 1), 0);
	expect_all(&t, range, 200);
	/* A budget that is set meanwhile is the one that counts. */
	assert_int_equal(weir_paged_set_budget(t.pool, 3 * 4096), 0);
	assert_int_equal(paged_stats(&t).nr_frames, 3);
	write_all(&t, range, 300);
	assert_int_equal(paged_stats(&t).nr_frames, 3);
	expect_all(&t, range, 300);
	paged_close(&t);
}

/* Between weir_paged_begin() and the end of the kernels all frames stay. */
static void test_none_while_online(void **unused)
{
	struct paged_test t;
	struct weir_paged_view view;

	(void)unused;
	paged_open(&t, FRAMES, FRAMES);
	assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
	assert_int_equal(ask(&t, 4), 0);
	assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
	assert_int_equal(weir_paged_sync(t.pool), 0);
	assert_int_equal(ask(&t, 4), 4);
	paged_close(&t);
}

/* There is no room for all of them: kernels have those that there is room for. */
static void test_begin_with_what_there_is(void **unused)
{
	struct backend_chunk rest;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, FRAMES, FRAMES);
	range = paged_range(&t, FRAMES * 4096, 0, &words);
	assert_int_equal(ask(&t, 10), 10);
	assert_int_equal(t.flaky->ops->chunk_create(t.flaky, GPU0,
						    phys_room(t.pool->client.memory) / 4096 * 4096 -
							    3 * 4096,
						    0, &rest),
			 0);
	write_all(&t, range, 100);
	assert_int_equal(paged_stats(&t).nr_frames, FRAMES - 7);
	assert_int_equal(held_frames(&t), FRAMES - 7);
	assert_int_equal(weir_paged_check(t.pool), 0);
	expect_all(&t, range, 100);
	t.flaky->ops->chunk_destroy(t.flaky, &rest);
	write_all(&t, range, 200);
	assert_int_equal(paged_stats(&t).nr_frames, FRAMES);
	expect_all(&t, range, 200);
	paged_close(&t);
}

/* A plain pool that holds 8 MiB unused, and all else in use but so many bytes and what is no whole
 * root. */
static struct weir_pool *fill_memory(struct paged_test *t, uint64_t left, struct weir_mem **used)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_OFF}; /* which needs memory */
	struct weir_mem_params params = {.memory = GPU0, .page_bytes = MIB(4), .bytes = MIB(4)};
	struct weir_mem *mem[2];
	struct weir_pool *pool;

	assert_int_equal(weir_pool_create(t->machine, &config, &pool), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_mem_alloc(pool, &params, &mem[i]), 0);
	params.page_bytes = 4096;
	/* Pages of each size need a source of zeros as well. */
	params.bytes = (phys_room(phys_of(t->machine, GPU0)) - left) / MIB(2) * MIB(2) - MIB(2);
	assert_int_equal(weir_mem_alloc(pool, &params, used), 0);
	for (int i = 0; i < 2; i++)
		weir_mem_free(mem[i], NULL);
	return pool;
}

/* Making a pool, a larger budget and a bracket have what others do not use. */
static void test_others_are_asked(void **unused)
{
	struct weir_paged_config config = {.page_bytes = 4096, .gpu_bytes = MIB(6), .name = "new"};
	struct weir_pool *plain;
	struct weir_mem *used;
	struct paged_log log;
	struct paged_test t;

	(void)unused;
	paged_machine_open(&t, WEIR_DATA_REAL);
	plain = fill_memory(&t, MIB(2), &used);
	config.gpu_max_bytes = MIB(12);
	assert_int_equal(weir_paged_create(t.machine, &config, &t.pool), 0);
	assert_int_equal(held_frames(&t), MIB(6) / 4096);
	assert_int_equal(weir_paged_set_budget(t.pool, MIB(8)), 0);
	assert_int_equal(held_frames(&t), MIB(8) / 4096);
	paged_log_begin(&log);
	assert_int_equal(weir_paged_set_budget(t.pool, MIB(12)), -ENOMEM);
	paged_log_has(&log, "8.0 MiB in paged pool 'new', 2.0 MiB in pool 'pool'");
	weir_log_set(NULL, NULL);
	assert_int_equal(held_frames(&t), MIB(8) / 4096);
	weir_mem_free(used, NULL);
	weir_pool_destroy(plain);
	paged_close(&t);
}

static void test_begin_asks_others(void **unused)
{
	struct backend_chunk rest;
	struct weir_pool *plain;
	struct weir_mem *used;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, FRAMES, FRAMES);
	range = paged_range(&t, FRAMES * 4096, 0, &words);
	assert_int_equal(ask(&t, 10), 10);
	plain = fill_memory(&t, 0, &used);
	assert_int_equal(t.flaky->ops->chunk_create(t.flaky, GPU0,
						    phys_room(t.pool->client.memory) / 4096 * 4096,
						    0, &rest),
			 0);
	write_all(&t, range, 100);
	expect_all(&t, range, 100);
	assert_int_equal(held_frames(&t), FRAMES);
	t.flaky->ops->chunk_destroy(t.flaky, &rest);
	weir_mem_free(used, NULL);
	weir_pool_destroy(plain);
	paged_close(&t);
}

/* Each call of the machine in giving and taking again fails in turn: no word is lost, the account
 * is right, and frames are those that have memory. */
static void test_giving_fails_anywhere(void **unused)
{
	uint64_t nr_calls = 0, range_value = 0;
	struct weir_paged_view view;
	struct paged_test t;
	uint64_t *words;
	uint32_t range;

	(void)unused;
	paged_open(&t, FRAMES, FRAMES);
	range = paged_range(&t, FRAMES * 4096, 0, &words);
	for (uint64_t at = 0; at <= nr_calls; at++) { /* the first time none does */
		uint64_t before;

		write_all(&t, range, ++range_value * 1000);
		before = flaky_nr_calls(t.flaky);
		flaky_arm(t.flaky, at ? before + at : 0, -EIO);
		(void)ask(&t, 9);
		nr_calls = at ? nr_calls : flaky_nr_calls(t.flaky) - before;
		flaky_arm(t.flaky, 0, 0);
		assert_int_equal(phys_check(t.pool->client.memory), 0);
		assert_true(held_frames(&t) >= paged_stats(&t).nr_frames);
		assert_int_equal(weir_paged_check(t.pool), 0);
		expect_all(&t, range, range_value * 1000);
		/* And of what the next bracket does. */
		flaky_arm(t.flaky, at ? flaky_nr_calls(t.flaky) + at : 0, -EIO);
		if (!weir_paged_begin(t.pool, t.stream, &view))
			(void)!weir_paged_end(t.pool, t.stream);
		flaky_arm(t.flaky, 0, 0);
		assert_int_equal(weir_paged_sync(t.pool), 0);
		assert_int_equal(phys_check(t.pool->client.memory), 0);
		assert_int_equal(weir_paged_check(t.pool), 0);
		expect_all(&t, range, range_value * 1000);
	}
	assert_true(nr_calls > 10);
	paged_close(&t);
}

/* ------------------------------------------------------------------ destroyed while it is asked */

static void *asker_main(void *arg)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < 200; i++)
		nr += ask(arg, 1 + i % 4);
	return (void *)(uintptr_t)nr;
}

static void test_destroyed_while_asked(void **unused)
{
	struct weir_paged_config config = {.page_bytes = 4096, .gpu_bytes = FRAMES * 4096};
	struct paged_test t;
	pthread_t thread;

	(void)unused;
	paged_machine_open(&t, WEIR_DATA_REAL);
	assert_int_equal(pthread_create(&thread, NULL, asker_main, &t), 0);
	for (uint32_t i = 0; i < 100; i++) {
		struct weir_paged_view view;

		assert_int_equal(weir_paged_create(t.machine, &config, &t.pool), 0);
		assert_int_equal(weir_paged_begin(t.pool, t.stream, &view), 0);
		assert_true(view.table.nr_frames >= 1);
		assert_int_equal(weir_paged_end(t.pool, t.stream), 0);
		assert_int_equal(weir_paged_sync(t.pool), 0);
		weir_paged_destroy(t.pool);
	}
	pthread_join(thread, NULL);
	assert_int_equal(phys_of(t.machine, GPU0)->held_bytes, 0);
	paged_machine_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_are_given),
		cmocka_unit_test(test_none_while_online),
		cmocka_unit_test(test_begin_with_what_there_is),
		cmocka_unit_test(test_others_are_asked),
		cmocka_unit_test(test_begin_asks_others),
		cmocka_unit_test(test_giving_fails_anywhere),
		cmocka_unit_test(test_destroyed_while_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
