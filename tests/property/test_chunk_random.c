/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of a chunk pool against a model: a list of what is handed out, with the bytes that
 * each chunk should hold. Chunks do not overlap, keep their bytes until they are given back, are
 * zero where that was asked for; figures are those of the model; the checker holds after each step;
 * in the end nothing is left. Then the same from eight threads on one pool, where the model of each
 * is its own; once with calls of the backend that fail now and then.
 *
 * CHUNK_SEED=n in the environment: only that seed; CHUNK_SEEDS=n: so many. CHUNK_SECONDS=n: how
 * long the threads run. On the machine that WEIR_TEST_MACHINE names, see tests/support/driver.h.
 *
 * Labels: threads
 * Timeout: 300
 * Long: CHUNK_SEEDS=200
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/mem/chunk.h"
#include "tests/support/account.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"
#include "tests/unit/test_sim_machine.h"

#define NR_STEPS 600u
#define NR_SLOTS 48u
#define NR_THREADS 8u
#define SECONDS 1.0
#define BUFFER MIB(4)

/* One chunk of the model. id: what the pool knows its owner by; 0: the slot is empty. */
struct slot {
	struct mem_chunk *chunk;
	uint64_t id;
	uint64_t asked_bytes, bytes;
};

/* A model: what one thread has been given, and is its alone. */
struct model {
	struct backend *backend;
	struct chunk_pool *pool;
	struct test_random random;
	uint64_t last_id, number;
	uint64_t most_bytes, nr_steps;
	void *scratch;	  /* for queued copies to, as large as the largest chunk */
	uint64_t *buffer; /* a chunk's bytes, where the CPU does not reach them */
	pthread_t thread;
	struct slot slot[NR_SLOTS];
	stream_id_t stream;
	bool zero;
	bool fails; /* now and then a call of the backend does */
};

static struct model model[NR_THREADS];
static struct test_account account;

static uint32_t below(struct model *m, uint32_t n)
{
	return random_below(&m->random, n);
}

/* ------------------------------------------------------------------ bytes */

static uint64_t word_at(uint64_t id, uint64_t i)
{
	return id * UINT64_C(0x9e3779b97f4a7c15) + i;
}

/* Words in which chunks are looked at: the ends, where neighbours would be met, and between. */
static uint64_t step_of(uint64_t nr)
{
	return nr > 64 ? nr / 64 : 1;
}

static void move(struct model *m, void *dst, const void *src, uint64_t bytes)
{
	struct backend_copy copy = {dst, src, bytes};
	struct backend *b = m->backend;
	fence_t fence = 0;

	require(!b->ops->copy(b, m->stream, &copy, 1));
	require(!b->ops->fence_record(b, m->stream, &fence));
	require(!b->ops->fence_wait(b, fence));
}

/* What a chunk holds: where it is, or in a buffer. */
static uint64_t *words_get(struct model *m, const struct slot *slot)
{
	if (test_machine_kind() == TEST_SIMULATED)
		return chunk_addr(slot->chunk);
	move(m, m->buffer, chunk_addr(slot->chunk), slot->bytes);
	return m->buffer;
}

static void words_put(struct model *m, const struct slot *slot)
{
	uint64_t nr = slot->bytes / 8, *word = words_get(m, slot);

	for (uint64_t i = 0; i < nr; i += step_of(nr))
		word[i] = word_at(slot->id, i);
	word[nr - 1] = word_at(slot->id, nr - 1);
	if (word == m->buffer)
		move(m, chunk_addr(slot->chunk), m->buffer, slot->bytes);
}

static bool words_are_right(struct model *m, const struct slot *slot)
{
	uint64_t nr = slot->bytes / 8, *word = words_get(m, slot);

	for (uint64_t i = 0; i < nr; i += step_of(nr))
		if (word[i] != word_at(slot->id, i))
			return false;
	return word[nr - 1] == word_at(slot->id, nr - 1);
}

static bool is_zero(struct model *m, const struct slot *slot)
{
	const uint64_t *word = words_get(m, slot);

	for (uint64_t i = 0; i < slot->bytes / 8; i++)
		if (word[i])
			return false;
	return true;
}

/* ------------------------------------------------------------------ steps */

/* Queue work that names a chunk, sometimes: 0, or its fence. */
static fence_t some_work(struct model *m, const struct slot *slot)
{
	struct backend_copy copy = {m->scratch, chunk_addr(slot->chunk), slot->bytes};
	struct backend *b = m->backend;
	fence_t fence = 0;

	if (below(m, 3))
		return 0;
	require(!b->ops->copy(b, m->stream, &copy, 1));
	require(!b->ops->fence_record(b, m->stream, &fence));
	return fence;
}

/* Give back what is in a slot, which is the caller's alone. */
static void give_back(struct model *m, struct slot *slot)
{
	require(words_are_right(m, slot));
	chunk_free(m->pool, slot->chunk, some_work(m, slot));
	slot->id = 0;
}

static uint32_t log2_of(uint64_t n)
{
	return 63 - (uint32_t)__builtin_clzll(n);
}

static uint64_t some_bytes(struct model *m)
{
	uint64_t top = UINT64_C(1) << (3 + below(m, log2_of(m->most_bytes) - 2)), bytes;

	bytes = top + below(m, (uint32_t)top);
	if (!below(m, 3))
		bytes = top;
	return MIN(bytes, m->most_bytes);
}

static void step_alloc(struct model *m, struct slot *slot)
{
	bool zeroed = m->zero && !below(m, 3);
	uint64_t bytes = some_bytes(m);
	struct mem_chunk *chunk;
	fence_t fence = 0;
	int err = chunk_alloc(m->pool, bytes, zeroed ? &fence : NULL, &chunk);

	require(!err || err == -ENOMEM || (err == -EIO && m->fails));
	if (err)
		return;
	if (fence && !below(m, 4)) {
		/* Given back unused: the pool knows the fence itself. */
		chunk_free(m->pool, chunk, below(m, 2) ? fence : 0);
		return;
	}
	if (fence)
		require(!m->backend->ops->fence_wait(m->backend, fence));
	require(chunk_bytes(chunk) >= bytes);
	*slot = (struct slot){.chunk = chunk,
			      .id = ++m->last_id * NR_THREADS + m->number,
			      .asked_bytes = bytes,
			      .bytes = chunk_bytes(chunk)};
	if (zeroed)
		require(is_zero(m, slot));
	words_put(m, slot);
}

static void step(struct model *m)
{
	struct slot *slot = &m->slot[below(m, NR_SLOTS)];

	m->nr_steps++;
	switch (below(m, 16)) {
	case 0:
		(void)chunk_pool_trim(m->pool, 0); /* looks at fences */
		return;
	case 1:
		if (!below(m, 8))
			(void)chunk_pool_trim(m->pool, below(m, 40) * KIB(64));
		return;
	case 2: /* time passes */
		m->backend->ops->host_spend(m->backend, below(m, 20000));
		return;
	}
	if (!slot->id)
		step_alloc(m, slot);
	else if (below(m, 2))
		give_back(m, slot);
	else
		require(words_are_right(m, slot));
}

/* ------------------------------------------------------------------ one thread */

/* The largest power of two that a root has room for. */
static uint64_t most_bytes(const struct chunk_pool_config *config)
{
	uint64_t most = config->least_bytes;

	while (2 * most <= config->root_bytes)
		most *= 2;
	return most;
}

static void model_init(struct model *m, struct backend *b, struct chunk_pool *pool, uint64_t number,
		       const struct chunk_pool_config *config)
{
	uint32_t host = cost_host_memory(&b->desc);

	*m = (struct model){.backend = b,
			    .pool = pool,
			    .number = number,
			    .zero = config->zero,
			    .most_bytes = most_bytes(config)};
	assert_int_equal(b->ops->stream_create(b, 0, BACKEND_COPY_OUT, &m->stream), 0);
	assert_int_equal(b->ops->device_alloc(b, host, BUFFER, &m->scratch), 0);
	assert_int_equal(b->ops->device_alloc(b, host, BUFFER, (void **)&m->buffer), 0);
}

static void model_fini(struct model *m)
{
	struct backend *b = m->backend;
	fence_t fence;

	for (uint32_t i = 0; i < NR_SLOTS; i++)
		if (m->slot[i].id)
			give_back(m, &m->slot[i]);
	assert_int_equal(b->ops->fence_record(b, m->stream, &fence), 0);
	assert_int_equal(b->ops->fence_wait(b, fence), 0);
}

static void model_free(struct model *m)
{
	m->backend->ops->device_free(m->backend, m->scratch);
	m->backend->ops->device_free(m->backend, m->buffer);
	m->backend->ops->stream_destroy(m->backend, m->stream);
}

static void expect_figures(struct model *m)
{
	struct chunk_pool_stats stats;
	uint64_t asked = 0, bytes = 0, nr = 0;

	for (uint32_t i = 0; i < NR_SLOTS; i++) {
		const struct slot *slot = &m->slot[i];

		if (!slot->id)
			continue;
		nr++;
		bytes += slot->bytes;
		asked += slot->asked_bytes;
	}
	chunk_pool_stats(m->pool, &stats);
	require(stats.nr_chunks == nr && stats.allocated_bytes == bytes);
	require(stats.rounding_bytes == bytes - asked);
	require(stats.held_bytes == stats.allocated_bytes + stats.free_bytes + stats.pending_bytes);
	require(stats.held_bytes == account.client.held_bytes);
	require(!stats.nr_wrong);
	require(!chunk_pool_check(m->pool));
}

/* Roots of several sizes, with and without zeroing. */
static void some_config(struct chunk_pool_config *config, struct backend *b,
			struct test_random *random)
{
	static const uint64_t root[] = {KIB(64), KIB(384), MIB(1), KIB(8), MIB(2)};

	uint64_t some_root = root[random_below(random, ARRAY_LEN(root))];
	uint64_t granularity = b->desc.vmm.granularity_bytes;

	*config = (struct chunk_pool_config){.client = &account.client};
	config->root_bytes = (some_root + granularity - 1) / granularity * granularity;
	config->least_bytes = random_below(random, 2) ? 4096 : 512;
	config->idle_bytes = random_below(random, 3) * config->root_bytes;
	config->nr_pooled = random_below(random, 4) * 3;
	config->zero = random_below(random, 4);
}

static void account_open(struct backend *b, uint64_t budget_bytes)
{
	test_account_open(&account, b, b->desc.device[0].memory, budget_bytes);
}

static void expect_empty(struct backend *b, struct chunk_pool *pool)
{
	struct chunk_pool_stats stats;

	for (uint32_t i = 0; i < 1000; i++) {
		(void)chunk_pool_trim(pool, UINT64_MAX);
		chunk_pool_stats(pool, &stats);
		if (!stats.pending_bytes)
			break;
		b->ops->host_spend(b, 1000000);
	}
	assert_int_equal(stats.nr_chunks, 0);
	assert_int_equal(stats.held_bytes, 0);
	assert_int_equal(chunk_pool_check(pool), 0);
	chunk_pool_destroy(pool);
	test_account_close(&account);
	assert_int_equal(b->ops->memory_used(b, b->desc.device[0].memory), 0);
}

static struct backend *open_backend(uint64_t granularity)
{
	struct weir_machine_desc desc;
	struct backend *b;

	if (test_machine_kind() != TEST_SIMULATED) {
		assert_int_equal(test_cuda_open(&test_fake_config, &b), 0);
		return b;
	}
	test_machine(&desc);
	desc.vmm.granularity_bytes = granularity;
	assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, &b), 0);
	return b;
}

/* inner: b, or what it wraps. */
static void close_backend(struct backend *b, struct backend *inner)
{
	if (test_machine_kind() == TEST_SIMULATED)
		assert_int_equal(sim_leaks(inner), 0);
	b->ops->destroy(b);
	if (test_machine_kind() != TEST_SIMULATED)
		test_cuda_nothing_left(NULL);
}

static void run_seed(uint64_t seed)
{
	struct test_random random = {seed * 7919 + 1};
	struct backend *b = open_backend(random_below(&random, 2) ? 4096 : 512 * 16);
	struct chunk_pool_config config;
	struct chunk_pool *pool;

	account_open(b, random_below(&random, 2) ? MAX(MIB(6), 6 * b->desc.vmm.granularity_bytes)
						 : PHYS_NO_LIMIT);
	some_config(&config, b, &random);
	assert_int_equal(chunk_pool_create(&config, &pool), 0);
	model_init(&model[0], b, pool, 0, &config);
	model[0].random = random;
	for (uint32_t i = 0; i < NR_STEPS && !atomic_load(&failed_line); i++) {
		step(&model[0]);
		expect_figures(&model[0]);
	}
	if (failed_line)
		fail_msg("seed %llu, step %llu: line %d", (unsigned long long)seed,
			 (unsigned long long)model[0].nr_steps, failed_line);
	model_fini(&model[0]);
	expect_empty(b, pool);
	model_free(&model[0]);
	close_backend(b, b);
}

static void test_chunk_random(void **state)
{
	static const struct test_amount seeds = {40, TEST_TSAN ? 4 : 12, 200};
	const char *only = getenv("CHUNK_SEED");
	uint64_t nr = test_amount("CHUNK_SEEDS", seeds);

	(void)state;
	if (only) {
		run_seed(strtoull(only, NULL, 10));
		return;
	}
	print_message("seeds 0 to %llu\n", (unsigned long long)nr - 1);
	for (uint64_t seed = 0; seed < nr; seed++)
		run_seed(seed);
}

/* ------------------------------------------------------------------ threads */

static void *thread_main(void *arg)
{
	struct model *m = arg;

	while (!atomic_load(&stop)) {
		step(m);
		if (!below(m, 64))
			require(!chunk_pool_check(m->pool));
	}
	return NULL;
}

static void run_threads(bool flaky)
{
	double seconds = test_seconds("CHUNK_SECONDS", SECONDS);
	struct chunk_pool_config config;
	struct chunk_pool_stats stats;
	uint64_t nr_steps = 0;
	struct backend *inner = open_backend(4096), *b = inner;
	struct chunk_pool *pool;

	if (flaky)
		assert_int_equal(flaky_create(inner, &b), 0);
	account_open(b, MIB(16));
	config = (struct chunk_pool_config){
		.client = &account.client,
		.root_bytes = MAX(KIB(256), b->desc.vmm.granularity_bytes),
		.least_bytes = 4096,
		.idle_per_mille = 100,
		.nr_pooled = 8,
		.zero = true,
	};
	config.idle_bytes = 2 * config.root_bytes;
	assert_int_equal(chunk_pool_create(&config, &pool), 0);
	atomic_store(&stop, false);
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		/* Of the model's own calls none fails. */
		model_init(&model[i], inner, pool, i, &config);
		model[i].random.state = 1000 + i;
		model[i].fails = flaky;
	}
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&model[i].thread, NULL, thread_main, &model[i]), 0);
	sleep_seconds(seconds, flaky ? b : NULL);
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		pthread_join(model[i].thread, NULL);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		nr_steps += model[i].nr_steps;
	if (failed_line)
		fail_msg("line %d", failed_line);
	chunk_pool_stats(pool, &stats);
	print_message("%llu steps, %llu questions failed\n", (unsigned long long)nr_steps,
		      (unsigned long long)stats.nr_fence_errors);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		model_fini(&model[i]);
	expect_empty(b, pool);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		model_free(&model[i]);
	close_backend(b, inner);
}

static void test_chunk_threads(void **state)
{
	(void)state;
	run_threads(false);
}

static void test_chunk_threads_flaky(void **state)
{
	(void)state;
	run_threads(true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunk_random),
		cmocka_unit_test(test_chunk_threads),
		cmocka_unit_test(test_chunk_threads_flaky),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
