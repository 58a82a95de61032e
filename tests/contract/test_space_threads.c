/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four threads on one space, each with a stream and ranges of its own and one range that all of
 * them read: random work for a bounded time. Contents are right, checkers hold in the middle of it,
 * no call blocks for ever, and the thread sanitizer is silent. SPACE_SECONDS=n: for so long.
 *
 * Labels: threads
 * Timeout: 120
 * Long: yes
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"

#define NR_THREADS 4u
#define NR_RANGES 4u
#define BLOCKS_MAX 3u
#define SHARED_BLOCKS 3u
#define SHARED_SEED 4242u
#define SECONDS 1.0

struct owned {
	uint8_t *addr;
	uint64_t bytes;
	uint32_t seed; /* 0: undefined */
};

struct worker {
	struct test_space t; /* the same machine and space; its stream is stream[0] */
	pthread_t thread;
	uint32_t number, last_seed;
	struct test_random random;
	struct owned range[NR_RANGES];
	uint8_t *shared;
	void *buffer; /* BLOCKS_MAX blocks */
	bool change_mode;
	uint64_t nr_steps;
};

static uint32_t below(struct worker *w, uint32_t n)
{
	return random_below(&w->random, n);
}

static uint32_t fresh_seed(struct worker *w)
{
	return (w->number + 1) << 24 | ++w->last_seed;
}

/* One bracket with one kernel on whole cells of half a block. */
static void run(struct worker *w, uint8_t *addr, uint64_t bytes, enum weir_use_kind kind,
		uint32_t expect, uint32_t put)
{
	struct weir_use use = use_of(addr, bytes, kind);
	struct test_cell cell = {expect, put};
	int err = weir_begin(w->t.space, w->t.stream[0], &use, 1);

	require(!err);
	if (err)
		return;
	if (kind != WEIR_DISCARD)
		require(!do_launch_cells_try(&w->t, 0, addr, bytes, &cell, 1, kind));
	if (!below(w, 8))
		require(!weir_space_check(w->t.space));
	require(!weir_end(w->t.space, w->t.stream[0]));
}

static void step_bracket(struct worker *w, struct owned *range)
{
	uint32_t seed = fresh_seed(w);

	switch (below(w, 5)) {
	case 0:
		run(w, range->addr, range->bytes, WEIR_READ, range->seed, 0);
		break;
	case 1:
		run(w, range->addr, range->bytes, WEIR_WRITE, range->seed, seed);
		range->seed = seed;
		break;
	case 2:
		run(w, range->addr, range->bytes, WEIR_OVERWRITE, 0, seed);
		range->seed = seed;
		break;
	case 3:
		run(w, range->addr, range->bytes, WEIR_DISCARD, 0, 0);
		range->seed = 0;
		break;
	default:
		run(w, w->shared, SHARED_BLOCKS * w->t.block_bytes, WEIR_READ, SHARED_SEED, 0);
	}
}

static void step_host(struct worker *w, struct owned *range)
{
	enum weir_use_kind kind = (enum weir_use_kind)below(w, 3);
	struct weir_use use = use_of(range->addr, range->bytes, kind);
	int err = weir_host_begin(w->t.space, &use, 1);

	/* Small ranges share a block with other threads'; a fixed space moves nothing. */
	require(!err || err == -ENOMEM || err == -EBUSY);
	if (err)
		return;
	if (range->seed && kind != WEIR_OVERWRITE)
		require(!pattern_wrong(range->addr, range->addr, range->bytes, range->seed));
	if (kind != WEIR_READ) {
		range->seed = fresh_seed(w);
		pattern_put(range->addr, range->addr, range->bytes, range->seed);
	}
	require(!weir_host_end(w->t.space, &use, 1));
}

static void step_copy(struct worker *w, struct owned *range)
{
	void *buffer = w->buffer;
	uint32_t seed = fresh_seed(w);
	int err;

	if (below(w, 2)) {
		pattern_put(buffer, range->addr, range->bytes, seed);
		err = weir_write(w->t.space, range->addr, buffer, range->bytes);
		require(!err || err == -ENOMEM ||
			(err == -EBUSY && range->bytes < w->t.block_bytes));
		range->seed = err ? range->seed : seed;
		return;
	}
	err = weir_read(w->t.space, buffer, range->addr, range->bytes);
	require(!err || err == -ENOMEM || (err == -EBUSY && range->bytes < w->t.block_bytes));
	if (!err && range->seed)
		require(!pattern_wrong(buffer, range->addr, range->bytes, range->seed));
}

static void step_hints(struct worker *w, struct owned *range)
{
	struct weir_fence *fence;
	struct weir_space_stats stats;
	enum weir_advice advice;
	uint32_t where;
	int err;

	switch (below(w, 4)) {
	case 0:
		advice = (enum weir_advice)below(w, 4);
		where = below(w, 2);
		if (advice == WEIR_ADVISE_ACCESSED_BY && where >= w->t.desc.nr_devices)
			where = 0;
		require(!weir_advise(w->t.space, range->addr, advice, where));
		break;
	case 1:
		weir_space_query(w->t.space, &stats);
		require(stats.memory[GPU0].bytes <= stats.memory[GPU0].peak_bytes);
		break;
	default:
		err = weir_prefetch(w->t.space, range->addr, range->bytes, below(w, 2), &fence);
		require(!err || err == -ENOMEM);
		if (err)
			break;
		if (below(w, 2)) {
			err = weir_fence_wait(fence);
			require(!err || err == -ENOMEM);
		}
		weir_fence_put(fence);
	}
}

static void step_life(struct worker *w, struct owned *range)
{
	void *addr;
	int err;

	if (range->addr) {
		require(!weir_free(w->t.space, range->addr, below(w, 3) ? w->t.stream[0] : NULL));
		range->addr = NULL;
		return;
	}
	range->bytes = below(w, 4) ? w->t.block_bytes * (1 + below(w, BLOCKS_MAX))
				   : 256 * (1 + below(w, 8));
	range->seed = 0;
	err = weir_alloc(w->t.space, range->bytes, below(w, 3) ? w->t.stream[0] : NULL, &addr);
	require(!err || err == -ENOMEM);
	range->addr = err ? NULL : addr;
}

static void step(struct worker *w)
{
	struct owned *range = &w->range[below(w, NR_RANGES)];
	uint32_t what = below(w, 32);
	int err;

	if (!range->addr || what < 3) {
		step_life(w, range);
	} else if (what < 20) {
		step_bracket(w, range);
	} else if (what < 23) {
		step_host(w, range);
	} else if (what < 26) {
		step_copy(w, range);
	} else if (what < 29) {
		step_hints(w, range);
	} else if (what == 29) {
		require(!weir_space_check(w->t.space));
	} else if (what == 30) {
		require(!weir_stream_sync(w->t.stream[0]));
	} else if (w->change_mode && !below(w, 4)) {
		err = weir_space_set_mode(w->t.space, (enum weir_space_mode)below(w, 2));
		require(!err || err == -WEIR_ECONTRACT || err == -ENOMEM);
	} else {
		require(!weir_space_sync(w->t.space));
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop)) {
		step(w);
		w->nr_steps++;
	}
	return NULL;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void finish_worker(struct worker *w)
{
	for (uint32_t i = 0; i < NR_RANGES; i++)
		if (w->range[i].addr && w->range[i].seed)
			do_read(&w->t, w->range[i].addr, w->range[i].bytes, w->range[i].seed);
	assert_int_equal(weir_stream_sync(w->t.stream[0]), 0);
	assert_int_equal(get_nr_wrong(&w->t), 0);
	assert_true(w->nr_steps > 0);
}

/* gpu_blocks: the threads' ranges are about 25 of them. gpu1_blocks: of a second device, which the
 * last thread's stream is of; 0: there is none. */
static void run_threads(uint32_t gpu_blocks, uint32_t gpu1_blocks, bool change_mode)
{
	struct worker *worker = calloc(NR_THREADS, sizeof(*worker));
	double end = now_s() + test_seconds("SPACE_SECONDS", SECONDS);
	struct test_space t;
	uint8_t *shared;

	assert_non_null(worker);
	atomic_store(&stop, false);
	atomic_store(&failed_line, 0);
	if (gpu1_blocks)
		test_space_open_devices(&t, 0, gpu_blocks, gpu1_blocks, 64);
	else
		test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, 0, gpu_blocks, 64);
	shared = do_alloc(&t, SHARED_BLOCKS * t.block_bytes, 0);
	do_fill(&t, 0, shared, SHARED_BLOCKS * t.block_bytes, SHARED_SEED);
	do_sync(&t);
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		worker[i].t = t;
		worker[i].number = i;
		worker[i].random.state = 2025 + i;
		worker[i].shared = shared;
		worker[i].change_mode = change_mode && !i;
		worker[i].buffer = malloc(BLOCKS_MAX * t.block_bytes);
		assert_non_null(worker[i].buffer);
		assert_int_equal(weir_stream_create(t.machine, i == NR_THREADS - 1 && gpu1_blocks,
						    &worker[i].t.stream[0]),
				 0);
	}
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
	while (!atomic_load(&stop) && now_s() < end)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(worker[i].thread, NULL), 0);
	if (atomic_load(&failed_line))
		fail_msg("line %d", atomic_load(&failed_line));
	for (uint32_t i = 0; i < NR_THREADS; i++)
		finish_worker(&worker[i]);
	do_sync(&t);
	do_check(&t);
	weir_space_destroy(t.space);
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		weir_stream_destroy(worker[i].t.stream[0]);
		free(worker[i].buffer);
	}
	test_machine_close(&t);
	free(worker);
}

static void test_space_threads_over_budget(void **state)
{
	(void)state;
	run_threads(8, 0, false);
}

static void test_space_threads_that_fit(void **state)
{
	(void)state;
	run_threads(60, 0, false);
}

static void test_space_threads_with_mode_changes(void **state)
{
	(void)state;
	run_threads(8, 0, true);
}

static void test_space_threads_of_two_devices(void **state)
{
	struct test_space t;
	uint32_t nr_devices;

	(void)state;
	test_machine_open(&t, WEIR_DATA_REAL);
	nr_devices = t.desc.nr_devices;
	test_machine_close(&t);
	if (nr_devices < 2)
		skip();
	run_threads(6, 4, false);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_threads_over_budget),
		cmocka_unit_test(test_space_threads_that_fit),
		cmocka_unit_test(test_space_threads_with_mode_changes),
		cmocka_unit_test(test_space_threads_of_two_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
