/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a space gives others that have no room, and what it keeps; a space that asks others. Others
 * are pools of plain memory and a client of the tests' own.
 */
#include <errno.h>

#include "src/backend/flaky/flaky.h"
#include "src/backend/machine.h"
#include "src/residency/residency.h"
#include "tests/support/space.h"

#define BLOCK KIB(256)

/* Ask for so much more than there is room for. @return what was given */
static uint64_t ask(struct test_space *t, uint32_t memory, uint64_t bytes)
{
	struct phys_memory *account = phys_of(t->machine, memory);
	struct phys_client client;
	uint64_t given;

	phys_client_add(&client, account, "the test", PHYS_NO_LIMIT);
	given = phys_reclaim(&client, phys_room(account) + bytes);
	phys_client_del(&client);
	assert_int_equal(phys_check(account), 0);
	do_check(t);
	return given;
}

static uint64_t held(struct test_space *t, place_t place)
{
	return t->space->pmm[place].client.held_bytes;
}

/* ------------------------------------------------------------------ giving */

/* 56 MiB that a space has freed do not keep plain memory from 16 MiB. */
static void test_freed_memory_is_had_by_plain_memory(void **state)
{
	const struct weir_pool_config plain = {.guard = WEIR_GUARD_OFF}; /* which needs memory */
	const struct weir_mem_params params = {.bytes = MIB(16), .memory = GPU0};
	struct weir_space_config config = {.budget_bytes = {[HOST] = MIB(8), [GPU0] = MIB(56)},
					   .block_bytes = MIB(4)};
	struct weir_machine_desc desc;
	struct weir_machine *machine;
	struct weir_space *space;
	struct weir_pool *pool;
	struct weir_mem *mem;
	void *addr;

	(void)state;
	test_machine(&desc);
	desc.memory[GPU0].bytes = MIB(64);
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	assert_int_equal(weir_alloc(space, MIB(56), NULL, &addr), 0);
	assert_int_equal(weir_free(space, addr, NULL), 0);
	assert_int_equal(weir_pool_create(machine, &plain, &pool), 0);
	assert_int_equal(weir_mem_alloc(pool, &params, &mem), 0);
	/* 10 MiB were missing, with 2 for the source of zeros: no more was given. */
	assert_int_equal(space->pmm[PLACE_OWN].client.held_bytes, MIB(44));
	assert_int_equal(weir_space_check(space), 0);
	weir_mem_free(mem, NULL);
	weir_pool_destroy(pool);
	/* And the other way round. */
	assert_int_equal(weir_alloc(space, MIB(56), NULL, &addr), 0);
	assert_int_equal(weir_free(space, addr, NULL), 0);
	weir_space_destroy(space);
	weir_machine_close(machine);
}

/* Free chunks, then freed ranges, then dead blocks; never what is valid. */
static void test_dead_blocks_are_given(void **state)
{
	struct test_space t;
	void *keep, *dead;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 16);
	keep = do_alloc(&t, 4 * BLOCK, 0);
	dead = do_alloc(&t, 4 * BLOCK, 0);
	do_fill(&t, 0, keep, 4 * BLOCK, 1);
	do_fill(&t, 0, dead, 4 * BLOCK, 2);
	do_sync(&t);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	do_discard(&t, 0, dead, 2 * BLOCK);
	do_sync(&t);
	assert_int_equal(ask(&t, GPU0, BLOCK + 1), 2 * BLOCK);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	assert_int_equal(held(&t, PLACE_OWN), 6 * BLOCK);
	do_expect(&t, 0, keep, 4 * BLOCK, 1);
	do_expect(&t, 0, (char *)dead + 2 * BLOCK, 2 * BLOCK, 2);
	do_fill(&t, 0, dead, 2 * BLOCK, 3);
	do_sync(&t);
	do_free(&t, dead, 0);
	assert_int_equal(ask(&t, GPU0, 100 * BLOCK), 4 * BLOCK);
	/* The range stays, and gets chunks again. */
	assert_ptr_equal(do_alloc(&t, 4 * BLOCK, 0), dead);
	do_fill(&t, 0, dead, 4 * BLOCK, 4);
	do_expect(&t, 0, dead, 4 * BLOCK, 4);
	do_expect(&t, 0, keep, 4 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* What a bracket that is open or not done names stays, dead or not. */
static void test_what_is_in_use_stays(void **state)
{
	struct test_space t;
	void *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 16);
	addr = do_alloc(&t, 4 * BLOCK, 0);
	do_begin(&t, 0, addr, 4 * BLOCK, WEIR_OVERWRITE);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	do_launch(&t, 0, addr, 4 * BLOCK, WEIR_OVERWRITE, 0, 1);
	do_end(&t, 0);
	do_free(&t, addr, 0);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	do_sync(&t);
	assert_int_equal(ask(&t, GPU0, BLOCK), BLOCK);
	test_space_close(&t);
}

/* In a fixed space launches may use whatever is allocated; small pieces lie in arenas. */
static void test_fixed_spaces_and_arenas_keep_theirs(void **state)
{
	struct test_space t;
	void *addr, *small;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, BLOCK, 16, 16);
	addr = do_alloc(&t, 4 * BLOCK, 0);
	small = do_alloc(&t, 4096, 0);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	do_free(&t, addr, 0);
	do_sync(&t);
	assert_int_equal(ask(&t, GPU0, 100 * BLOCK), 4 * BLOCK);
	do_free(&t, small, 0);
	do_sync(&t);
	assert_int_equal(ask(&t, GPU0, 100 * BLOCK), BLOCK);
	test_space_close(&t);

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 16, 16);
	small = do_alloc(&t, 4096, 0);
	assert_int_equal(ask(&t, GPU0, BLOCK), 0);
	do_fill(&t, 0, small, 4096, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Copies on the host of what is in the device's memory, unchanged, are given last. */
static void test_lower_copies_are_given(void **state)
{
	struct test_space t;
	uint64_t before;
	void *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 8, 32);
	addr = do_alloc(&t, 8 * BLOCK, 0);
	assert_int_equal(weir_advise(t.space, addr, WEIR_ADVISE_READ_MOSTLY, 0), 0);
	do_write(&t, addr, 8 * BLOCK, 1);
	do_expect(&t, 0, addr, 8 * BLOCK, 1);
	do_sync(&t);
	do_sync(&t);
	before = held(&t, 1);
	assert_true(before >= BLOCK);
	assert_int_equal(ask(&t, HOST, BLOCK), BLOCK);
	assert_int_equal(held(&t, 1), before - BLOCK);
	(void)ask(&t, HOST, MIB(64));
	do_expect(&t, 0, addr, 8 * BLOCK, 1);
	do_sync(&t);
	test_space_close(&t);
}

/* ------------------------------------------------------------------ asking */

/* A pool that holds all of a memory but what is no multiple of 4 MiB, and uses none of it but the
 * first objects. */
static struct weir_pool *pool_fill(struct test_space *t, uint32_t memory, uint32_t nr_used,
				   struct weir_mem **mem)
{
	const struct weir_pool_config config = {.guard = WEIR_GUARD_OFF};
	const struct weir_mem_params params = {
		.bytes = MIB(4), .page_bytes = MIB(4), .memory = memory};
	struct phys_memory *account = phys_of(t->machine, memory);
	struct weir_pool *pool;
	uint32_t nr = 0;

	assert_int_equal(weir_pool_create(t->machine, &config, &pool), 0);
	do
		assert_int_equal(weir_mem_alloc(pool, &params, &mem[nr++]), 0);
	while (phys_room(account) >= MIB(4));
	for (uint32_t i = nr_used; i < nr; i++)
		weir_mem_free(mem[i], NULL);
	return pool;
}

/* What is written first, and what comes up, finds room that others do not use, before anything is
 * evicted for it. */
static void test_brackets_ask(void **state)
{
	struct weir_space_stats stats;
	struct weir_mem *mem[16];
	struct weir_pool *pool;
	struct test_space t;
	void *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 8, 32);
	pool = pool_fill(&t, GPU0, 1, mem);
	assert_true(phys_room(phys_of(t.machine, GPU0)) < MIB(4));
	a = do_alloc(&t, MIB(4), 0);
	b = do_alloc(&t, MIB(4), 0);
	do_fill(&t, 0, a, MIB(4), 1);
	do_write(&t, b, MIB(4), 2);
	do_expect(&t, 0, b, MIB(4), 2);
	do_sync(&t);
	assert_int_equal(held(&t, PLACE_OWN), MIB(8));
	stats = get_stats(&t);
	assert_int_equal(get_copied(&t, &stats, BACKEND_TO_HOST), 0);
	do_expect(&t, 0, a, MIB(4), 1);
	do_sync(&t);
	weir_mem_free(mem[0], NULL);
	assert_int_equal(weir_pool_check(pool), 0);
	weir_pool_destroy(pool);
	test_space_close(&t);
}

/* A fixed space, which has all that it allocates at once. */
static void test_fixed_allocations_ask(void **state)
{
	struct weir_mem *mem[16];
	struct weir_pool *pool;
	struct test_space t;
	void *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, MIB(1), 8, 32);
	pool = pool_fill(&t, GPU0, 1, mem);
	addr = do_alloc(&t, MIB(8), 0);
	assert_int_equal(held(&t, PLACE_OWN), MIB(8));
	assert_int_equal(held(&t, 1), 0);
	do_free(&t, addr, 0);
	weir_mem_free(mem[0], NULL);
	weir_pool_destroy(pool);
	test_space_close(&t);
}

/* Room on the host, for the CPU and for what is evicted. */
static void test_host_memory_is_asked_for(void **state)
{
	struct weir_mem *mem[32];
	struct weir_pool *pool;
	struct weir_use use;
	struct test_space t;
	void *a, *b;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 4, 16);
	pool = pool_fill(&t, HOST, 14, mem);
	a = do_alloc(&t, MIB(4), 0);
	b = do_alloc(&t, MIB(4), 0);
	do_fill(&t, 0, a, MIB(4), 1);
	do_fill(&t, 0, b, MIB(4), 2);
	do_sync(&t);
	use = use_of(b, MIB(4), WEIR_READ);
	assert_int_equal(weir_host_begin(t.space, &use, 1), 0);
	assert_int_equal(pattern_wrong(b, b, MIB(4), 2), 0);
	assert_int_equal(weir_host_end(t.space, &use, 1), 0);
	do_expect(&t, 0, a, MIB(4), 1);
	do_sync(&t);
	for (uint32_t i = 0; i < 14; i++)
		weir_mem_free(mem[i], NULL);
	weir_pool_destroy(pool);
	test_space_close(&t);
}

static char warning[512];

static void on_log(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_WARNING && strstr(message, "cannot create a chunk"))
		(void)snprintf(warning, sizeof(warning), "%s", message);
}

/* Nobody has anything idle: what was done before without room is done, and the log says who has
 * the memory. */
static void test_asked_in_vain(void **state)
{
	struct weir_mem *mem[16];
	struct weir_pool *pool;
	struct test_space t;
	void *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 8, 32);
	pool = pool_fill(&t, GPU0, 3, mem);
	weir_log_set(on_log, NULL);
	warning[0] = '\0';
	addr = do_alloc(&t, MIB(8), 0);
	do_fill(&t, 0, addr, MIB(8), 1);
	do_expect(&t, 0, addr, MIB(8), 1);
	do_sync(&t);
	assert_non_null(strstr(warning, "gpu0: cannot create a chunk beyond 2 of 8"));
	assert_non_null(strstr(warning, "12.0 MiB in pool 'pool'"));
	assert_non_null(strstr(warning, "2.0 MiB in space 1"));
	weir_log_set(NULL, NULL);
	for (uint32_t i = 0; i < 3; i++)
		weir_mem_free(mem[i], NULL);
	weir_pool_destroy(pool);
	test_space_close(&t);
}

/* Two spaces, of which one has freed everything. */
static void test_spaces_give_each_other(void **state)
{
	struct weir_space *second;
	struct test_space t;
	void *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 16, 16);
	second = t.space;
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, MIB(1), MIB(16), MIB(16)), 0);
	for (uint32_t i = 0; i < 4; i++) {
		struct weir_space *space = t.space;

		addr = do_alloc(&t, MIB(16), 0);
		do_fill(&t, 0, addr, MIB(16), i + 1);
		do_expect(&t, 0, addr, MIB(16), i + 1);
		do_sync(&t);
		assert_int_equal(held(&t, PLACE_OWN), MIB(16));
		do_free(&t, addr, 0);
		t.space = second;
		second = space;
	}
	weir_space_destroy(second);
	test_space_close(&t);
}

static uint64_t room_left(struct backend *b, uint32_t memory)
{
	return b->desc.memory[memory].bytes - b->ops->memory_used(b, memory);
}

/* Where the machine knows how much is free, a budget has to be within that. */
static void test_a_new_budget_asks(void **state)
{
	struct backend_ops ops;
	struct weir_mem *mem[16];
	struct weir_pool *pool;
	struct test_space t;

	(void)state;
	test_machine_open(&t, WEIR_DATA_REAL);
	ops = *t.backend->ops;
	ops.memory_room = room_left;
	t.backend->ops = &ops;
	pool = pool_fill(&t, GPU0, 1, mem);
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, MIB(1), MIB(8), MIB(8)), 0);
	weir_mem_free(mem[0], NULL);
	weir_pool_destroy(pool);
	test_space_close(&t);
}

/* Holds chunks that it gives one at a time; before that it takes what the space gives, as if
 * another one asked in the same moment. */
static struct {
	struct phys_client client;
	struct weir_space *space;
	struct backend_chunk chunk[12];
	uint32_t nr;
	uint64_t taken_bytes;
} nosy;

static uint64_t nosy_give(struct phys_client *client, uint64_t bytes)
{
	(void)bytes;
	nosy.taken_bytes += give_unused(&nosy.space->pmm[PLACE_OWN].client, UINT64_MAX);
	if (!nosy.nr)
		return 0;
	phys_put(client, &nosy.chunk[--nosy.nr]);
	return MIB(1);
}

static void nosy_open(struct test_space *t)
{
	memset(&nosy, 0, sizeof(nosy));
	nosy.space = t->space;
	phys_client_add(&nosy.client, phys_of(t->machine, GPU0), "nosy", PHYS_NO_LIMIT);
	while (nosy.nr < ARRAY_LEN(nosy.chunk))
		assert_int_equal(phys_take(&nosy.client, MIB(1), &nosy.chunk[nosy.nr++]), 0);
	phys_client_start(&nosy.client, nosy_give, NULL);
}

static void nosy_close(void)
{
	assert_int_equal(nosy.nr, 8); /* four were missing, and given one after the other */
	assert_int_equal(nosy.taken_bytes, 0);
	phys_client_stop(&nosy.client);
	while (nosy.nr)
		phys_put(&nosy.client, &nosy.chunk[--nosy.nr]);
	phys_client_del(&nosy.client);
}

/* While a call asks, what it has taken so far is not idle, though there are no contents yet. */
static void test_what_a_call_takes_stays(void **state)
{
	struct test_space t;
	char *addr;

	(void)state;
	test_space_open(&t, WEIR_DATA_REAL, WEIR_FIXED, MIB(1), 8, 16);
	nosy_open(&t);
	addr = do_alloc(&t, MIB(8), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(get_block_state(&t, addr + i * MIB(1)), BLOCK_HBM);
	nosy_close();
	do_free(&t, addr, 0);
	test_space_close(&t);

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 8, 16);
	nosy_open(&t);
	addr = do_alloc(&t, MIB(8), 0);
	do_write(&t, addr, MIB(8), 1);
	nosy_close();
	do_expect(&t, 0, addr, MIB(8), 1);
	do_sync(&t);
	test_space_close(&t);

	test_space_open(&t, WEIR_DATA_REAL, WEIR_PLANNED, MIB(1), 8, 16);
	nosy_open(&t);
	addr = do_alloc(&t, MIB(8), 0);
	do_fill(&t, 0, addr, MIB(8), 1);
	nosy_close();
	do_expect(&t, 0, addr, MIB(8), 1);
	do_sync(&t);
	test_space_close(&t);
}

/* Each call of the machine that giving makes fails in turn: accounts and blocks are right, and what
 * could not be given is given when it is asked for again. */
static void test_giving_fails_anywhere(void **state)
{
	struct backend *flaky;
	struct test_space t;
	uint64_t nr_calls = 0;

	(void)state;
	memset(&t, 0, sizeof(t));
	test_machine(&t.desc);
	assert_int_equal(sim_create(&t.desc, WEIR_DATA_REAL, &t.backend), 0);
	assert_int_equal(flaky_create(t.backend, &flaky), 0);
	assert_int_equal(machine_wrap(flaky, &t.machine), 0);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		assert_int_equal(weir_stream_create(t.machine, 0, &t.stream[i]), 0);
	assert_int_equal(test_space_create_try(&t, WEIR_PLANNED, BLOCK, 16 * BLOCK, 16 * BLOCK), 0);
	for (uint64_t at = 0; at <= nr_calls; at++) { /* the first time none does */
		void *keep = do_alloc(&t, 2 * BLOCK, 0), *freed = do_alloc(&t, 4 * BLOCK, 0);
		uint64_t before;

		do_fill(&t, 0, keep, 2 * BLOCK, 1);
		do_fill(&t, 0, freed, 4 * BLOCK, 2);
		do_discard(&t, 0, keep, BLOCK);
		do_free(&t, freed, 0);
		do_sync(&t);
		before = flaky_nr_calls(flaky);
		flaky_arm(flaky, at ? before + at : 0, -EIO);
		(void)ask(&t, GPU0, 100 * BLOCK);
		nr_calls = at ? nr_calls : flaky_nr_calls(flaky) - before;
		flaky_arm(flaky, 0, 0);
		do_check(&t);
		(void)!weir_space_sync(t.space);
		(void)ask(&t, GPU0, 100 * BLOCK);
		assert_int_equal(held(&t, PLACE_OWN), BLOCK);
		do_expect(&t, 0, (char *)keep + BLOCK, BLOCK, 1);
		do_sync(&t);
		do_free(&t, keep, 0);
		do_sync(&t);
	}
	assert_true(nr_calls >= 5);
	weir_space_destroy(t.space);
	for (uint32_t i = 0; i < TEST_STREAMS; i++)
		weir_stream_destroy(t.stream[i]);
	assert_int_equal(get_nr_wrong(&t), 0);
	assert_int_equal(sim_leaks(t.backend), 0);
	weir_machine_close(t.machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_freed_memory_is_had_by_plain_memory),
		cmocka_unit_test(test_dead_blocks_are_given),
		cmocka_unit_test(test_what_is_in_use_stays),
		cmocka_unit_test(test_fixed_spaces_and_arenas_keep_theirs),
		cmocka_unit_test(test_lower_copies_are_given),
		cmocka_unit_test(test_brackets_ask),
		cmocka_unit_test(test_fixed_allocations_ask),
		cmocka_unit_test(test_host_memory_is_asked_for),
		cmocka_unit_test(test_asked_in_vain),
		cmocka_unit_test(test_spaces_give_each_other),
		cmocka_unit_test(test_a_new_budget_asks),
		cmocka_unit_test(test_what_a_call_takes_stays),
		cmocka_unit_test(test_giving_fails_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
