/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that the CUDA backend makes ahead, on the driver without a GPU: who gets them, what they
 * count as, when they are given back, what their failures are.
 *
 * Labels: threads
 * Links: cuda-fake backend-cases
 */
#include <stdatomic.h>

#include "src/backend/machine.h"
#include "tests/contract/test_cuda.h"

#define NR 16u

/* Wait until so much of the host's memory is used; the thread is quick, but has no hurry. */
static void wait_used(struct backend *b, uint64_t bytes)
{
	for (int i = 0; i < 10000 && b->ops->memory_used(b, HOST) != bytes; i++)
		b->ops->host_spend(b, 1000000);
	assert_int_equal(b->ops->memory_used(b, HOST), bytes);
}

static uint64_t nr_creates(void)
{
	return fakecuda_nr_calls_of("cuMemCreate");
}

static void test_taken_from_there(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[NR + 1], other;
	struct log_watch log;
	uint64_t nr;

	log_watch(&log, WEIR_LOG_INFO);
	b->ops->chunk_expect(b, HOST, UNIT, 0, NR);
	wait_used(b, NR * UNIT);
	assert_has(log.last, "pinned host memory: 0.0 GB in ");
	assert_int_equal(fakecuda_used_bytes(-1), NR * UNIT);
	nr = nr_creates();
	/* It sleeps now. */
	b->ops->host_spend(b, 5000000);
	assert_int_equal(nr_creates(), nr);
	for (uint32_t i = 0; i < NR; i++) {
		assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 0, &chunk[i]), 0);
		memset(chunk[i].alias, (int)i, UNIT);
	}
	assert_int_equal(nr_creates(), nr);
	assert_int_equal(b->ops->memory_used(b, HOST), NR * UNIT);
	/* One more, and one of another size, are made where they are asked for. */
	assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 0, &chunk[NR]), 0);
	assert_int_equal(b->ops->chunk_create(b, HOST, 2 * UNIT, 0, &other), 0);
	assert_int_equal(nr_creates(), nr + 2);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(*(uint8_t *)chunk[i].alias, i);
	for (uint32_t i = 0; i <= NR; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	b->ops->chunk_destroy(b, &other);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	weir_log_set(NULL, NULL);
}

/* Those for one device serve nobody who names others. */
static void test_taken_by_devices(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[3];
	uint64_t nr;

	b->ops->chunk_expect(b, HOST, UNIT, 1, NR);
	wait_used(b, NR * UNIT);
	nr = nr_creates();
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, i, &chunk[i]), 0);
	assert_int_equal(nr_creates(), nr + 2);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fakecuda_access(chunk[i].alias, 0),
				 i == 2 ? CU_ACCESS_NONE : CU_ACCESS_READWRITE);
		assert_int_equal(fakecuda_access(chunk[i].alias, 1),
				 i == 1 ? CU_ACCESS_NONE : CU_ACCESS_READWRITE);
		b->ops->chunk_destroy(b, &chunk[i]);
	}
	b->ops->chunk_expect(b, HOST, UNIT, 2, -100); /* there are none of those */
	assert_int_equal(b->ops->memory_used(b, HOST), (NR - 1) * UNIT);
	b->ops->chunk_expect(b, HOST, UNIT, 1, -100);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
}

/* Whoever expected them thinks better of it; and of what is no chunk at all. */
static void test_withdrawn(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;

	b->ops->chunk_expect(b, HOST, UNIT, 0, NR);
	wait_used(b, NR * UNIT);
	b->ops->chunk_expect(b, HOST, UNIT, 0, -4);
	assert_int_equal(b->ops->memory_used(b, HOST), (NR - 4) * UNIT);
	b->ops->chunk_expect(b, HOST, UNIT, 0, -100);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	b->ops->chunk_expect(b, HOST, UNIT, 0, INT64_MIN);
	b->ops->chunk_expect(b, HOST, 0, 0, 5);
	b->ops->chunk_expect(b, HOST, KIB(4) + 1, 0, 5);
	b->ops->chunk_expect(b, 17, UNIT, 0, 5);
	b->ops->chunk_expect(b, HOST, UNIT, 0, 3);
	wait_used(b, 3 * UNIT);
}

/* All of the host's memory is made ahead: whoever needs some gets it. */
static void test_gives_way(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;
	void *addr;

	b->ops->chunk_expect(b, HOST, MIB(1), 0, 1000);
	wait_used(b, fake.host_bytes);
	assert_int_equal(b->ops->device_alloc(b, HOST, MIB(40), &addr), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), MIB(40));
	b->ops->device_free(b, addr);
	b->ops->chunk_expect(b, HOST, MIB(1), 0, 1000);
	wait_used(b, fake.host_bytes);
	assert_int_equal(b->ops->chunk_create(b, HOST, MIB(33), 0, &chunk), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), MIB(33));
	/* Nor does it come back to take the rest. */
	b->ops->host_spend(b, 5000000);
	assert_int_equal(b->ops->memory_used(b, HOST), MIB(33));
	b->ops->chunk_destroy(b, &chunk);
	assert_int_equal(b->ops->device_alloc(b, HOST, fake.host_bytes + 1, &addr), -ENOMEM);
}

/* The errors, and how often the thread gave up. */
struct given_up {
	struct log_watch errors;
	atomic_uint nr;
};

static void given_up_take(void *arg, enum weir_log_level level, const char *message)
{
	struct given_up *g = arg;

	log_watch_take(&g->errors, level, message);
	if (strstr(message, "no more of it ahead"))
		g->nr++;
}

/* No call of the driver that fails is an error, nor leaves anything; then chunk_create() fails. */
static void test_failures_are_quiet(void **state)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap",
					    "cuMemSetAccess"};
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct given_up log = {.nr = 0};

		log_watch(&log.errors, WEIR_LOG_ERROR);
		weir_log_set(given_up_take, &log);
		assert_true(fakecuda_fail_symbol(calls[i], 2, CU_OPERATING_SYSTEM));
		b->ops->chunk_expect(b, HOST, UNIT, 0, NR);
		/* It says so under the lock: what is asked of b from then on comes after. */
		for (int n = 0; n < 10000 && !log.nr; n++)
			b->ops->host_spend(b, 1000000);
		assert_int_equal(log.nr, 1);
		wait_used(b, 2 * UNIT);
		assert_int_equal(log.errors.nr, 0);
		for (int n = 0; n < 2; n++) {
			assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 0, &chunk), 0);
			b->ops->chunk_destroy(b, &chunk);
		}
		assert_int_equal(b->ops->chunk_create(b, HOST, UNIT, 0, &chunk), -EIO);
		assert_int_equal(log.errors.nr, 1);
		assert_has(log.errors.first, calls[i]);
		fakecuda_fail_symbol(calls[i], 0, 0);
		assert_int_equal(b->ops->memory_used(b, HOST), 0);
		assert_int_equal(fakecuda_used_bytes(-1), 0);
		weir_log_set(NULL, NULL);
	}
}

/* The machine is closed while the thread works. */
static void test_closed_meanwhile(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		struct backend *b;

		fakecuda_reset(&fake);
		assert_int_equal(open_backend(&b), 0);
		b->ops->chunk_expect(b, HOST, KIB(4), 0, 5000);
		b->ops->host_spend(b, i * 100000);
		b->ops->destroy(b);
		assert_int_equal(fakecuda_leaks(stderr), 0);
	}
}

/* Threads that create, destroy, expect and withdraw at once. */
static void *churn(void *arg)
{
	struct backend *b = arg;
	intptr_t failures = 0;

	for (int i = 0; i < 200; i++) {
		struct backend_chunk chunk[3];

		b->ops->chunk_expect(b, HOST, UNIT, 0, 3 + i % 3);
		for (int n = 0; n < 3; n++) {
			failures += b->ops->chunk_create(b, HOST, UNIT, 0, &chunk[n]) != 0;
			memset(chunk[n].alias, i, 64);
		}
		for (int n = 0; n < 3; n++) {
			failures += *(uint8_t *)chunk[n].alias != (uint8_t)i;
			b->ops->chunk_destroy(b, &chunk[n]);
		}
		b->ops->chunk_expect(b, HOST, UNIT, 0, -(i % 3));
	}
	return (void *)failures;
}

static void test_threads(void **state)
{
	struct contract *c = *state;
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, c->b), 0);
	for (int i = 0; i < 3; i++) {
		void *failures;

		pthread_join(thread[i], &failures);
		assert_null(failures);
	}
	c->b->ops->chunk_expect(c->b, HOST, UNIT, 0, -1000);
	wait_used(c->b, 0);
}

/* A space expects what its GPU budget has no room for, within its host budget, and no more. */
static void test_space_expects(void **state)
{
	const struct weir_space_config config = {
		.budget_bytes = {[GPU0] = 20 * UNIT, [HOST] = 30 * UNIT},
		.block_bytes = UNIT,
		.mode = WEIR_PLANNED};
	struct weir_machine *machine;
	struct weir_space *space;
	void *range[3], *more;
	struct backend *b;

	(void)state;
	fakecuda_reset(&fake);
	assert_int_equal(open_backend(&b), 0);
	assert_int_equal(machine_wrap(b, &machine), 0);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	assert_int_equal(weir_alloc(space, 16 * UNIT, NULL, &range[0]), 0);
	b->ops->host_spend(b, 3000000);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	assert_int_equal(weir_alloc(space, 16 * UNIT, NULL, &range[1]), 0);
	wait_used(b, (2 * 16 + 2 - 20) * UNIT);
	/* Again and again: no more than at the same time. */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(weir_free(space, range[1], NULL), 0);
		assert_int_equal(weir_alloc(space, 16 * UNIT, NULL, &range[1]), 0);
	}
	b->ops->host_spend(b, 3000000);
	assert_int_equal(b->ops->memory_used(b, HOST), 14 * UNIT);
	assert_int_equal(weir_alloc(space, 16 * UNIT, NULL, &range[2]), 0);
	assert_int_equal(weir_alloc(space, UNIT, NULL, &more), -ENOMEM);
	wait_used(b, 30 * UNIT);
	assert_int_equal(weir_space_check(space), 0);
	weir_space_destroy(space);
	assert_int_equal(b->ops->memory_used(b, HOST), 0);
	weir_machine_close(machine);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* A chunk that is being made ahead has the last room: whoever asks then gets it, whichever of the
 * two is quicker. */
static void test_gives_way_in_the_making(void **state)
{
	struct fakecuda_config small = fake;
	struct backend_chunk chunk;
	struct backend *b;
	void *plain;

	(void)state;
	small.host_bytes = 2 * UNIT;
	fakecuda_reset(&small);
	assert_int_equal(open_backend(&b), 0);
	for (int i = 0; i < 1000; i++) {
		b->ops->chunk_expect(b, HOST, UNIT, 0, 2);
		for (volatile int n = 0; n < i % 50 * 100; n++)
			;
		if (i % 2) {
			assert_int_equal(b->ops->device_alloc(b, HOST, 2 * UNIT, &plain), 0);
			b->ops->device_free(b, plain);
		} else {
			assert_int_equal(b->ops->chunk_create(b, HOST, 2 * UNIT, 0, &chunk), 0);
			b->ops->chunk_destroy(b, &chunk);
		}
	}
	b->ops->destroy(b);
	assert_int_equal(fakecuda_leaks(stderr), 0);
}

/* ------------------------------------------------------------------ */

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_taken_from_there),
		CASE(test_taken_by_devices),
		CASE(test_withdrawn),
		CASE(test_gives_way),
		cmocka_unit_test(test_gives_way_in_the_making),
		CASE(test_failures_are_quiet),
		cmocka_unit_test(test_closed_meanwhile),
		CASE(test_threads),
		cmocka_unit_test(test_space_expects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
