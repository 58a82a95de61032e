/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of a pool of plain memory against a shadow: for each object who may use it, its
 * address, and its bytes. Objects keep their bytes whatever happens to others, are zero where that
 * was asked for, stay at one address, and are seen alike by the CPU, by kernels and by copy
 * engines; figures are the shadow's; the checker holds after each step; in the end nothing is left.
 * Then the same from eight threads on one pool, once with calls of the backend that fail now and
 * then: what failed changed nothing.
 *
 * MEM_SEED=n in the environment: only that seed; MEM_SEEDS=n: so many. MEM_SECONDS=n: how long the
 * threads run. On the machine that WEIR_TEST_MACHINE names, see tests/support/driver.h.
 *
 * Labels: threads
 * Timeout: 300
 * Long: MEM_SEEDS=200
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "src/backend/machine.h"
#include "src/base/util.h"
#include "src/mem/mem.h"
#include "tests/support/amount.h"
#include "tests/support/driver.h"
#include "tests/support/kernels.h"
#include "tests/support/space.h"
#include "tests/support/threads.h"

#define NR_STEPS 250u
#define NR_SLOTS 16u
#define NR_THREADS 8u
#define SECONDS 0.7
#define MOST_BYTES (MIB(2) + KIB(700))
#define TRIES 1000

/* Who may use an object, as weir_mem_map() has it. */
struct masks {
	uint64_t users, engines;
};

/* One object of the shadow; mem NULL: none. */
struct slot {
	struct weir_mem *mem;
	uint8_t *bytes; /* what it holds */
	uint64_t nr;
	uint32_t memory;
	struct masks mapped;
	void *addr;
};

/* What one thread does with its objects. */
struct model {
	struct weir_machine *machine;
	struct backend *backend;
	struct weir_pool *pool;
	struct weir_stream *stream[WEIR_DEVICES_MAX];
	struct test_random random;
	uint8_t *buffer;
	struct slot slot[NR_SLOTS];
	uint64_t nr_steps, nr_failed;
	pthread_t thread;
	bool alone;
	bool fails; /* now and then a call of the backend does */
};

/* Two GPUs, where that can be chosen, with the granularity of real ones. */
static const struct fakecuda_config fake = {
	.devices = 2,
	.hbm_bytes = MIB(64),
	.host_bytes = MIB(256),
	.granularity = MIB(2),
};

static struct model model[NR_THREADS];

/* Again until it succeeds, where calls of the backend may fail. */
#define surely(m, call)                                                    \
	do {                                                               \
		int last = -EIO;                                           \
		for (int i = 0; i < ((m)->fails ? TRIES : 1) && last; i++) \
			last = (call);                                     \
		require(!last);                                            \
	} while (0)

static uint32_t below(struct model *m, uint32_t n)
{
	return random_below(&m->random, n);
}

/* An error that the call may return here. */
static bool allowed(struct model *m, int err)
{
	m->nr_failed++;
	return err == -ENOMEM || (m->fails && err == -EIO);
}

static uint32_t nr_devices(const struct model *m)
{
	return m->backend->desc.nr_devices;
}

/* ------------------------------------------------------------------ bytes */

static void bytes_put(struct model *m, uint8_t *bytes, uint64_t nr)
{
	uint32_t seed = below(m, 1u << 30);

	for (uint64_t i = 0; i < nr; i++)
		bytes[i] = (uint8_t)(seed + i * 13 + (i >> 8));
}

/* Read through a copy engine, and where it may, through the CPU's address. */
static void expect_bytes(struct model *m, struct slot *slot)
{
	uint32_t d = below(m, nr_devices(m));
	const struct masks had = slot->mapped;

	surely(m, weir_mem_map(slot->mem, 0, WEIR_MEM_DEVICE(d), NULL));
	memset(m->buffer, 0xee, slot->nr);
	surely(m, weir_mem_read(slot->mem, d, 0, m->buffer, slot->nr));
	require(!memcmp(m->buffer, slot->bytes, slot->nr));
	if (!(had.engines & WEIR_MEM_DEVICE(d)))
		weir_mem_unmap(slot->mem, 0, WEIR_MEM_DEVICE(d));
	if (had.users & WEIR_MEM_CPU)
		require(!memcmp(slot->addr, slot->bytes, slot->nr));
}

/* Write a part, by engine or CPU. */
static void step_write(struct model *m, struct slot *slot)
{
	uint64_t at = below(m, (uint32_t)slot->nr);
	uint64_t nr = 1 + below(m, (uint32_t)(slot->nr - at));
	uint32_t d = below(m, nr_devices(m));

	bytes_put(m, slot->bytes + at, nr);
	if (slot->mapped.users & WEIR_MEM_CPU && below(m, 2)) {
		memcpy((uint8_t *)slot->addr + at, slot->bytes + at, nr);
	} else if (slot->mapped.engines & WEIR_MEM_DEVICE(d)) {
		surely(m, weir_mem_write(slot->mem, d, at, slot->bytes + at, nr));
	} else {
		require(weir_mem_write(slot->mem, d, at, slot->bytes + at, nr) == -EACCES);
		surely(m, weir_mem_map(slot->mem, 0, WEIR_MEM_DEVICE(d), NULL));
		slot->mapped.engines |= WEIR_MEM_DEVICE(d);
		surely(m, weir_mem_write(slot->mem, d, at, slot->bytes + at, nr));
	}
}

/* A kernel of a device adds to a part, at the address. */
static void step_kernel(struct model *m, struct slot *slot)
{
	uint32_t d = below(m, nr_devices(m));
	uint64_t at = below(m, (uint32_t)slot->nr);
	uint64_t nr = 1 + below(m, (uint32_t)(slot->nr - at));
	uint8_t *part = slot->addr ? (uint8_t *)slot->addr + at : NULL;
	const struct test_add_args args = {part, part, nr, 3};
	const struct weir_use use = use_of(part, nr, WEIR_WRITE);
	const struct weir_launch launch = {.kernel = &test_kernel_add,
					   .args = &args,
					   .args_bytes = sizeof(args),
					   .uses = &use,
					   .nr_uses = 1};

	if (!(slot->mapped.users & WEIR_MEM_DEVICE(d)))
		return;
	surely(m, weir_stream_launch(m->stream[d], &launch));
	surely(m, weir_stream_sync(m->stream[d]));
	for (uint64_t i = at; i < at + nr; i++)
		slot->bytes[i] = (uint8_t)(slot->bytes[i] + 3);
}

/* From one object to another, in stream order. */
static void step_copy(struct model *m, struct slot *to, struct slot *from)
{
	uint32_t d = below(m, nr_devices(m));
	uint64_t bit = WEIR_MEM_DEVICE(d);
	uint64_t nr = 1 + below(m, (uint32_t)MIN(to->nr, from->nr));
	uint64_t to_at = below(m, (uint32_t)(to->nr - nr + 1));
	uint64_t from_at = below(m, (uint32_t)(from->nr - nr + 1));

	if (to == from || !from->mem)
		return;
	if (!(to->mapped.engines & from->mapped.engines & bit)) {
		require(weir_mem_copy(m->stream[d], to->mem, to_at, from->mem, from_at, nr) ==
			-EACCES);
		return;
	}
	surely(m, weir_mem_copy(m->stream[d], to->mem, to_at, from->mem, from_at, nr));
	surely(m, weir_stream_sync(m->stream[d]));
	memcpy(to->bytes + to_at, from->bytes + from_at, nr);
}

/* ------------------------------------------------------------------ steps */

static uint64_t some_bytes(struct model *m)
{
	uint64_t top = UINT64_C(1) << below(m, 22);
	uint64_t bytes = below(m, 3) ? top + below(m, (uint32_t)top) : top;

	return MIN(bytes, MOST_BYTES);
}

static void step_alloc(struct model *m, struct slot *slot)
{
	struct weir_mem_params params = {.bytes = some_bytes(m),
					 .memory = below(m, m->backend->desc.nr_memories),
					 .zero = !below(m, 3),
					 .owner = "random"};
	struct weir_mem_info info;
	struct weir_mem *mem = NULL;
	int err;

	if (!below(m, 3))
		params.page_bytes = MEM_PAGE_MIN << below(m, 11);
	if (!below(m, 6)) {
		params.memory = WEIR_MEMORY_ANY;
		params.use.devices = below(m, 1u << nr_devices(m));
		params.use.times = below(m, 3);
	}
	err = weir_mem_alloc(m->pool, &params, &mem);
	if (err) {
		require(allowed(m, err) && !mem);
		return;
	}
	weir_mem_query(mem, &info);
	require(info.bytes == params.bytes && info.physical_bytes >= info.bytes);
	require(!info.users && !info.engines && !info.addr);
	require(!params.page_bytes || info.page_bytes == params.page_bytes);
	*slot = (struct slot){.mem = mem,
			      .bytes = calloc(1, params.bytes),
			      .nr = params.bytes,
			      .memory = info.memory};
	require(slot->bytes);
	if (params.zero) {
		expect_bytes(m, slot);
	} else {
		bytes_put(m, slot->bytes, slot->nr);
		surely(m, weir_mem_map(mem, 0, WEIR_MEM_DEVICE(0), NULL));
		slot->mapped.engines = WEIR_MEM_DEVICE(0);
		surely(m, weir_mem_write(mem, 0, 0, slot->bytes, slot->nr));
	}
}

static void step_free(struct model *m, struct slot *slot)
{
	uint32_t d = below(m, nr_devices(m));

	expect_bytes(m, slot);
	weir_mem_free(slot->mem, below(m, 2) ? m->stream[d] : NULL);
	free(slot->bytes);
	slot->mem = NULL;
}

static struct masks some_users(struct model *m)
{
	uint32_t nr_masks = 1u << nr_devices(m);
	struct masks who = {.users = below(m, nr_masks), .engines = below(m, nr_masks)};

	who.users |= below(m, 2) ? WEIR_MEM_CPU : 0;
	return below(m, 8) ? who : (struct masks){.users = WEIR_MEM_ALL};
}

/* What the shadow expects of a mapping call. */
static struct masks implied(struct model *m, const struct slot *slot, struct masks who)
{
	uint64_t devices = WEIR_MEM_DEVICE(nr_devices(m)) - 1;

	if (who.users & WEIR_MEM_ALL)
		who.users = devices | (mem_is_host(m->pool, slot->memory) ? WEIR_MEM_CPU : 0);
	who.engines |= who.users & devices;
	return who;
}

static bool masks_same(const struct weir_mem_info *info, const struct slot *slot)
{
	return info->users == slot->mapped.users && info->engines == slot->mapped.engines;
}

static void step_map(struct model *m, struct slot *slot)
{
	struct masks who = some_users(m), all = implied(m, slot, who);
	struct weir_mem_info info;
	void *addr = slot;
	int err = weir_mem_map(slot->mem, who.users, who.engines, &addr);

	weir_mem_query(slot->mem, &info);
	if (!who.users && !who.engines) {
		require(err == -EINVAL);
	} else if (all.users & WEIR_MEM_CPU && !mem_is_host(m->pool, slot->memory)) {
		require(err == -ENOTSUP);
	} else if (err) {
		require(allowed(m, err) && addr == slot);
	} else {
		slot->mapped.users |= all.users;
		slot->mapped.engines |= all.engines;
		if (all.users) {
			require(!slot->addr || slot->addr == addr);
			slot->addr = addr;
		} else {
			require(addr == slot);
		}
	}
	require(masks_same(&info, slot));
	/* What failed may have reserved the address. */
	if (!slot->addr && info.addr)
		slot->addr = info.addr;
	require(info.addr == slot->addr);
}

static void step_unmap(struct model *m, struct slot *slot)
{
	struct masks who = some_users(m);
	struct weir_mem_info info;

	weir_mem_unmap(slot->mem, who.users, who.engines);
	if (who.users & WEIR_MEM_ALL)
		who.users = who.engines = UINT64_MAX;
	slot->mapped.users &= ~(who.users | who.engines);
	slot->mapped.engines &= ~who.engines;
	weir_mem_query(slot->mem, &info);
	require(masks_same(&info, slot) && info.addr == slot->addr);
}

static void step(struct model *m)
{
	struct slot *slot = &m->slot[below(m, NR_SLOTS)];

	m->nr_steps++;
	if (!slot->mem) {
		step_alloc(m, slot);
		return;
	}
	switch (below(m, 12)) {
	case 0:
		if (!below(m, 8))
			(void)weir_pool_trim(m->pool);
		break;
	case 1:
	case 2:
		step_unmap(m, slot);
		break;
	case 3:
		step_write(m, slot);
		break;
	case 4:
	case 5:
		step_kernel(m, slot);
		break;
	case 6:
		step_copy(m, slot, &m->slot[below(m, NR_SLOTS)]);
		break;
	case 7:
		expect_bytes(m, slot);
		break;
	case 8:
	case 9:
		step_free(m, slot);
		break;
	default:
		step_map(m, slot);
	}
}

/* ------------------------------------------------------------------ one thread */

static void model_init(struct model *m, struct weir_machine *machine, struct weir_pool *pool,
		       uint64_t seed, bool fails)
{
	*m = (struct model){.machine = machine,
			    .backend = machine_backend(machine),
			    .pool = pool,
			    .random = {seed},
			    .fails = fails};
	m->buffer = malloc(MOST_BYTES);
	assert_non_null(m->buffer);
	for (uint32_t d = 0; d < nr_devices(m); d++)
		assert_int_equal(weir_stream_create(machine, d, &m->stream[d]), 0);
}

static void model_fini(struct model *m)
{
	for (uint32_t i = 0; i < NR_SLOTS; i++)
		if (m->slot[i].mem)
			step_free(m, &m->slot[i]);
	for (uint32_t d = 0; d < nr_devices(m); d++) {
		assert_int_equal(weir_stream_sync(m->stream[d]), 0);
		weir_stream_destroy(m->stream[d]);
	}
	free(m->buffer);
}

static void expect_figures(struct model *m)
{
	uint64_t nr[WEIR_MEMORIES_MAX] = {0}, dma[WEIR_DEVICES_MAX] = {0};
	bool rest = m->nr_steps % 16 == 0;
	struct weir_pool_stats stats;

	if (rest) {
		for (uint32_t d = 0; d < nr_devices(m); d++)
			require(!weir_stream_sync(m->stream[d]));
		(void)weir_pool_trim(m->pool);
	}
	for (uint32_t i = 0; i < NR_SLOTS; i++) {
		const struct slot *slot = &m->slot[i];
		struct weir_mem_info info;

		if (!slot->mem)
			continue;
		weir_mem_query(slot->mem, &info);
		nr[slot->memory]++;
		for (uint32_t d = 0; d < nr_devices(m); d++)
			if (slot->mapped.engines & WEIR_MEM_DEVICE(d) &&
			    m->backend->desc.device[d].memory != slot->memory)
				dma[d] += info.physical_bytes;
	}
	weir_pool_query(m->pool, &stats);
	require(!memcmp(stats.nr_objects, nr, sizeof(nr)));
	/* What was freed behind a stream may still wait for it, where time is real. */
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		require(stats.dma_bytes[d] == dma[d] ||
			(!rest && test_machine_kind() != TEST_SIMULATED &&
			 stats.dma_bytes[d] > dma[d]));
	require(!weir_pool_check(m->pool));
}

static struct weir_machine *open_machine(bool flaky, struct backend **inner)
{
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct backend *b;

	if (test_machine_kind() == TEST_SIMULATED) {
		test_machine(&desc);
		assert_int_equal(sim_create(&desc, WEIR_DATA_REAL, inner), 0);
	} else {
		assert_int_equal(test_cuda_open(&fake, inner), 0);
	}
	b = *inner;
	if (flaky)
		assert_int_equal(flaky_create(*inner, &b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	return machine;
}

static void close_machine(struct weir_machine *machine, struct backend *inner)
{
	for (uint32_t i = 0; i < inner->desc.nr_memories; i++)
		assert_int_equal(inner->ops->memory_used(inner, i), 0);
	if (test_machine_kind() == TEST_SIMULATED)
		assert_int_equal(sim_leaks(inner), 0);
	weir_machine_close(machine);
	if (test_machine_kind() != TEST_SIMULATED)
		test_cuda_nothing_left(NULL);
}

static void run_seed(uint64_t seed)
{
	const struct weir_pool_config config = {
		.limit_bytes = {seed % 3 ? 0 : MIB(6)},
		.guard = seed % 2 ? WEIR_GUARD_ON : WEIR_GUARD_OFF,
	};
	struct backend *inner;
	struct weir_machine *machine = open_machine(false, &inner);
	struct weir_pool *pool;

	assert_int_equal(weir_pool_create(machine, &config, &pool), 0);
	model_init(&model[0], machine, pool, seed * 7919 + 1, false);
	model[0].alone = true;
	for (uint32_t i = 0; i < NR_STEPS && !atomic_load(&failed_line); i++) {
		step(&model[0]);
		expect_figures(&model[0]);
	}
	if (failed_line)
		fail_msg("seed %llu, step %llu: line %d", (unsigned long long)seed,
			 (unsigned long long)model[0].nr_steps, failed_line);
	model_fini(&model[0]);
	assert_int_equal(weir_pool_check(pool), 0);
	weir_pool_destroy(pool);
	close_machine(machine, inner);
}

static void test_mem_random(void **state)
{
	static const struct test_amount seeds = {6, 2, 200};
	const char *only = getenv("MEM_SEED");
	uint64_t nr = test_amount("MEM_SEEDS", seeds);

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

	while (!atomic_load(&stop))
		step(m);
	return NULL;
}

static void run_threads(bool flaky)
{
	double seconds = test_seconds("MEM_SECONDS", SECONDS);
	/* Guards are read while they are looked at: from one thread. */
	const struct weir_pool_config config = {.limit_bytes = {MIB(40)}, .guard = WEIR_GUARD_OFF};
	uint64_t nr_steps = 0, nr_failed = 0;
	struct backend *inner;
	struct weir_machine *machine = open_machine(flaky, &inner);
	struct weir_pool *pool;

	assert_int_equal(weir_pool_create(machine, &config, &pool), 0);
	atomic_store(&stop, false);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		model_init(&model[i], machine, pool, 1000 + i, flaky);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&model[i].thread, NULL, thread_main, &model[i]), 0);
	sleep_seconds(seconds, flaky ? machine_backend(machine) : NULL);
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < NR_THREADS; i++) {
		pthread_join(model[i].thread, NULL);
		nr_steps += model[i].nr_steps;
		nr_failed += model[i].nr_failed;
	}
	if (failed_line)
		fail_msg("line %d", failed_line);
	print_message("%llu steps, %llu calls failed\n", (unsigned long long)nr_steps,
		      (unsigned long long)nr_failed);
	assert_int_equal(weir_pool_check(pool), 0);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		model_fini(&model[i]);
	assert_int_equal(weir_pool_check(pool), 0);
	weir_pool_destroy(pool);
	close_machine(machine, inner);
}

static void test_mem_threads(void **state)
{
	(void)state;
	run_threads(false);
}

static void test_mem_threads_flaky(void **state)
{
	(void)state;
	run_threads(true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mem_random),
		cmocka_unit_test(test_mem_threads),
		cmocka_unit_test(test_mem_threads_flaky),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	test_log_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
