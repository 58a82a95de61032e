/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two spaces whose budgets change all the time, between three memories, while other threads use
 * them: brackets, host brackets, reads and writes, prefetches, frees, changes of mode. Plain memory
 * wants the same memories. Contents are right, every checker holds, nobody waits for ever; in the
 * end the budgets hold.
 *
 * BUDGET_SECONDS=n in the environment: for so long.
 *
 * Labels: threads
 * Timeout: 300
 * Long: yes
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "src/phys/phys.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"

#define NR_SPACES 2u
#define NR_USERS 3u /* threads of each space */
#define NR_RANGES 4u
#define BLOCK KIB(64)
#define RANGE_MAX 10u /* blocks */
#define SECONDS 0.5

enum job { JOB_USER, JOB_BUDGET, JOB_PLAIN };

struct worker {
	pthread_t thread;
	struct test_random random;
	enum job job;
	uint32_t number;
	uint64_t nr_steps, nr_refused;
	struct test_space t; /* with a stream of its own */
	uint8_t *buffer;
	struct {
		uint8_t *addr;
		uint64_t bytes;
		uint32_t seed; /* 0: undefined */
	} range[NR_RANGES];
	struct weir_pool *pool;
};

static struct test_space all[NR_SPACES];
static struct worker worker[NR_SPACES * (NR_USERS + 1) + 1];
static _Atomic uint64_t nr_errs[3]; /* of set_budget: 0, -ENOMEM, -EBUSY */

static uint32_t below(struct worker *w, uint32_t n)
{
	return random_below(&w->random, n);
}

static uint32_t fresh_seed(struct worker *w)
{
	return (w->number + 1) << 24 | (uint32_t)(w->nr_steps & 0xffffff) | 1;
}

/* Whether a call succeeded. It may find no room, or a block in use: small allocations of several
 * threads share one. */
static bool done(struct worker *w, int err)
{
	require(!err || err == -ENOMEM || err == -EBUSY);
	w->nr_refused += err != 0;
	return !err;
}

static void do_bracket(struct worker *w, uint32_t i)
{
	static const enum weir_use_kind kinds[] = {WEIR_READ, WEIR_WRITE, WEIR_OVERWRITE,
						   WEIR_DISCARD};
	enum weir_use_kind kind = kinds[below(w, 4)];
	struct weir_use use = use_of(w->range[i].addr, w->range[i].bytes, kind);
	bool reads = kind == WEIR_READ || kind == WEIR_WRITE;
	struct test_cell cell = {reads ? w->range[i].seed : 0,
				 kind == WEIR_READ ? 0 : fresh_seed(w)};

	if (below(w, 2))
		use.read_bytes *= 16;
	if (!done(w, weir_begin(w->t.space, w->t.stream[0], &use, 1))) {
		if (kind == WEIR_OVERWRITE || kind == WEIR_DISCARD)
			w->range[i].seed = 0;
		return;
	}
	if (kind != WEIR_DISCARD)
		require(!do_launch_cells_try(&w->t, 0, w->range[i].addr, w->range[i].bytes, &cell,
					     1, kind));
	if (!below(w, 4))
		sched_yield();
	require(!weir_end(w->t.space, w->t.stream[0]));
	if (kind != WEIR_READ)
		w->range[i].seed = kind == WEIR_DISCARD ? 0 : cell.put;
}

static void do_copy(struct worker *w, uint32_t i)
{
	uint64_t bytes = w->range[i].bytes;
	uint8_t *addr = w->range[i].addr;
	uint32_t seed = fresh_seed(w);

	if (below(w, 2)) {
		pattern_put(w->buffer, addr, bytes, seed);
		if (done(w, weir_write(w->t.space, addr, w->buffer, bytes)))
			w->range[i].seed = seed;
	} else if (done(w, weir_read(w->t.space, w->buffer, addr, bytes)) && w->range[i].seed) {
		require(!pattern_wrong(w->buffer, addr, bytes, w->range[i].seed));
	}
}

static void do_host(struct worker *w, uint32_t i)
{
	bool write = below(w, 2);
	struct weir_use use =
		use_of(w->range[i].addr, w->range[i].bytes, write ? WEIR_OVERWRITE : WEIR_READ);

	if (!done(w, weir_host_begin(w->t.space, &use, 1))) {
		if (write)
			w->range[i].seed = 0;
		return;
	}
	if (!write && w->range[i].seed)
		require(!pattern_wrong(w->range[i].addr, w->range[i].addr, w->range[i].bytes,
				       w->range[i].seed));
	if (write) {
		w->range[i].seed = fresh_seed(w);
		pattern_put(w->range[i].addr, w->range[i].addr, w->range[i].bytes,
			    w->range[i].seed);
	}
	if (!below(w, 4))
		sched_yield();
	require(!weir_host_end(w->t.space, &use, 1));
}

static void do_prefetch(struct worker *w, uint32_t i)
{
	struct weir_fence *fence;

	if (!done(w, weir_prefetch(w->t.space, w->range[i].addr, w->range[i].bytes, below(w, 3),
				   &fence)))
		return;
	if (below(w, 2))
		(void)done(w, weir_fence_wait(fence));
	weir_fence_put(fence);
}

static void user_free(struct worker *w, uint32_t i)
{
	if (w->range[i].addr)
		require(!weir_free(w->t.space, w->range[i].addr, w->t.stream[0]));
	w->range[i].addr = NULL;
}

static void user_step(struct worker *w)
{
	uint32_t i = below(w, NR_RANGES), what = below(w, 64);
	void *addr;
	int err;

	if (!w->range[i].addr) {
		w->range[i].bytes = below(w, 8) ? BLOCK * (1 + below(w, RANGE_MAX)) : 4096;
		w->range[i].seed = 0;
		if (done(w, weir_alloc(w->t.space, w->range[i].bytes, w->t.stream[0], &addr)))
			w->range[i].addr = addr;
	} else if (what < 34) {
		do_bracket(w, i);
	} else if (what < 42) {
		do_copy(w, i);
	} else if (what < 48) {
		do_host(w, i);
	} else if (what < 54) {
		do_prefetch(w, i);
	} else if (what < 60) {
		user_free(w, i);
	} else if (what == 60) {
		require(!weir_space_check(w->t.space));
	} else if (what == 61) {
		require(!weir_advise(w->t.space, w->range[i].addr, (enum weir_advice)below(w, 3),
				     below(w, 3)));
	} else if (what == 62) {
		err = weir_space_set_mode(w->t.space, below(w, 4) ? WEIR_PLANNED : WEIR_FIXED);
		require(!err || err == -WEIR_ECONTRACT || err == -ENOMEM);
	} else {
		require(!weir_space_sync(w->t.space));
	}
}

static void budget_step(struct worker *w)
{
	uint32_t memory = below(w, 3);
	uint64_t nr = memory == HOST ? 40 + below(w, 100) : 2 + below(w, 40);
	int err;

	if (memory == GPU1 && !below(w, 4))
		nr = 0;
	err = weir_space_set_budget(w->t.space, memory, nr * BLOCK);
	require(!err || err == -ENOMEM || err == -EBUSY || err == -EINVAL);
	nr_errs[err == -ENOMEM ? 1 : err == -EBUSY ? 2 : 0]++;
	require(!weir_space_check(w->t.space));
	require(!phys_check(phys_of(w->t.machine, memory)));
	if (!below(w, 4))
		usleep(below(w, 300));
}

static void plain_step(struct worker *w)
{
	struct weir_mem_params params = {.memory = below(w, 3),
					 .bytes = 4096 * (1 + below(w, 1500))};
	struct weir_mem *mem;

	if (done(w, weir_mem_alloc(w->pool, &params, &mem))) {
		usleep(below(w, 300));
		weir_mem_free(mem, NULL);
	}
	if (!below(w, 4))
		(void)weir_pool_trim(w->pool);
}

static void *worker_main(void *arg)
{
	static void (*const steps[])(struct worker *) = {user_step, budget_step, plain_step};
	struct worker *w = arg;

	for (; !atomic_load(&stop); w->nr_steps++)
		steps[w->job](w);
	for (uint32_t i = 0; i < NR_RANGES; i++)
		user_free(w, i);
	return NULL;
}

static void worker_open(struct worker *w, enum job job, const struct test_space *t)
{
	memset(w, 0, sizeof(*w));
	w->job = job;
	w->number = (uint32_t)(w - worker);
	w->random.state = 177 + w->number;
	w->t = *t;
	w->buffer = malloc(RANGE_MAX * BLOCK);
	assert_non_null(w->buffer);
	assert_int_equal(weir_stream_create(t->machine, 0, &w->t.stream[0]), 0);
	if (job == JOB_PLAIN)
		assert_int_equal(weir_pool_create(t->machine, NULL, &w->pool), 0);
}

static void test_budget_threads(void **state)
{
	uint32_t nr = 0;

	(void)state;
	test_machine_open(&all[0], WEIR_DATA_REAL);
	all[1] = all[0];
	for (uint32_t s = 0; s < NR_SPACES; s++) {
		assert_int_equal(test_space_create_places(&all[s], WEIR_PLANNED, BLOCK, 40 * BLOCK,
							  20 * BLOCK, 100 * BLOCK),
				 0);
		for (uint32_t u = 0; u <= NR_USERS; u++)
			worker_open(&worker[nr++], u == NR_USERS ? JOB_BUDGET : JOB_USER, &all[s]);
	}
	worker_open(&worker[nr++], JOB_PLAIN, &all[0]);
	for (uint32_t i = 0; i < nr; i++)
		assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]),
				 0);
	sleep_seconds(test_seconds("BUDGET_SECONDS", SECONDS), NULL);
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < nr; i++)
		pthread_join(worker[i].thread, NULL);
	if (failed_line)
		fail_msg("line %d", failed_line);
	for (uint32_t i = 0; i < nr; i++) {
		print_message("%u: %llu steps, %llu refused\n", worker[i].job,
			      (unsigned long long)worker[i].nr_steps,
			      (unsigned long long)worker[i].nr_refused);
		assert_int_equal(get_nr_wrong(&worker[i].t), 0);
		weir_pool_destroy(worker[i].pool);
		free(worker[i].buffer);
	}
	print_message("budgets: %llu set, %llu no memory, %llu busy\n",
		      (unsigned long long)nr_errs[0], (unsigned long long)nr_errs[1],
		      (unsigned long long)nr_errs[2]);
	for (uint32_t s = 0; s < NR_SPACES; s++) {
		assert_int_equal(weir_space_sync(all[s].space), 0);
		assert_int_equal(weir_space_set_mode(all[s].space, WEIR_PLANNED), 0);
		for (uint32_t m = 0; m < 3; m++)
			assert_int_equal(weir_space_set_budget(all[s].space, m, 4 * BLOCK), 0);
		for (uint32_t m = 0; m < 3; m++)
			assert_true(get_stats(&all[s]).memory[m].bytes <= 4 * BLOCK);
		do_check(&all[s]);
		weir_space_destroy(all[s].space);
	}
	for (uint32_t i = 0; i < nr; i++)
		weir_stream_destroy(worker[i].t.stream[0]);
	test_machine_close(&all[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
