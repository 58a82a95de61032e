/* SPDX-License-Identifier: Apache-2.0 */
/* Chunk pools: order of reuse, the budget, memory that others hold, the checker. */
#include <errno.h>
#include <stdlib.h>

#include "src/core/pmm.h"
#include "tests/unit/test_sim_machine.h"

#define CHUNK KIB(64)

static struct phys_memory account;

static struct backend *open_backend(void)
{
	struct weir_machine_desc desc;
	struct backend *b;

	test_machine(&desc);
	desc.memory[GPU0].bytes = 8 * CHUNK;
	assert_int_equal(sim_create(&desc, WEIR_DATA_PHANTOM, &b), 0);
	assert_int_equal(phys_memory_init(&account, b, GPU0), 0);
	return b;
}

static void close_backend(struct backend *b)
{
	assert_int_equal(phys_check(&account), 0);
	assert_int_equal(account.held_bytes, 0);
	phys_memory_fini(&account);
	assert_int_equal(sim_leaks(b), 0);
	b->ops->destroy(b);
}

static void test_pmm_reuses_what_came_back_last(void **state)
{
	struct backend *b = open_backend();
	struct chunk *chunk[3];
	struct pmm pmm;

	(void)state;
	pmm_init(&pmm, &account, "test", PLACE_OWN, CHUNK, 4 * CHUNK);
	for (int i = 0; i < 3; i++) {
		chunk[i] = pmm_chunk_get(&pmm);
		assert_non_null(chunk[i]);
		assert_int_equal(chunk[i]->backend.bytes, CHUNK);
		assert_int_equal(chunk[i]->backend.memory, GPU0);
	}
	assert_int_equal(pmm_nr_out(&pmm), 3);
	pmm_chunk_put(&pmm, NULL);
	pmm_chunk_put(&pmm, chunk[0]);
	pmm_chunk_put(&pmm, chunk[2]);
	assert_int_equal(pmm_check(&pmm, 1), 0);
	assert_ptr_equal(pmm_chunk_get(&pmm), chunk[2]);
	assert_ptr_equal(pmm_chunk_get(&pmm), chunk[0]);
	assert_int_equal(pmm.nr_created, 3);
	assert_int_equal(pmm.nr_peak, 3);
	for (int i = 0; i < 3; i++)
		pmm_chunk_put(&pmm, chunk[i]);
	assert_int_equal(pmm_nr_out(&pmm), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), 3 * CHUNK);
	pmm_fini(&pmm);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
	close_backend(b);
}

static void test_pmm_keeps_the_budget(void **state)
{
	struct backend *b = open_backend();
	struct chunk *chunk[2];
	struct pmm pmm;

	(void)state;
	pmm_init(&pmm, &account, "test", PLACE_OWN, CHUNK, 3 * CHUNK - 1); /* whole chunks only */
	assert_int_equal(pmm_nr_available(&pmm), 2);
	chunk[0] = pmm_chunk_get(&pmm);
	chunk[1] = pmm_chunk_get(&pmm);
	assert_non_null(chunk[1]);
	assert_int_equal(pmm_nr_available(&pmm), 0);
	assert_null(pmm_chunk_get(&pmm));
	assert_int_equal(pmm_check(&pmm, 2), 0);
	pmm_chunk_put(&pmm, chunk[1]);
	assert_int_equal(pmm_nr_available(&pmm), 1);
	assert_ptr_equal(pmm_chunk_get(&pmm), chunk[1]);
	pmm_chunk_put(&pmm, chunk[0]);
	pmm_chunk_put(&pmm, chunk[1]);
	pmm_fini(&pmm);
	close_backend(b);
}

/* Another program holds part of the memory: make do, and take more when it lets go. */
static void test_pmm_memory_full_below_the_budget(void **state)
{
	struct backend *b = open_backend();
	struct chunk *chunk[8];
	struct pmm pmm;
	void *other;

	(void)state;
	assert_int_equal(b->ops->device_alloc(b, GPU0, 6 * CHUNK, &other), 0);
	pmm_init(&pmm, &account, "test", PLACE_OWN, CHUNK, 8 * CHUNK);
	chunk[0] = pmm_chunk_get(&pmm);
	chunk[1] = pmm_chunk_get(&pmm);
	assert_non_null(chunk[1]);
	assert_null(pmm_chunk_get(&pmm));
	assert_null(pmm_chunk_get(&pmm));
	assert_int_equal(pmm_check(&pmm, 2), 0);
	b->ops->device_free(b, other);
	chunk[2] = pmm_chunk_get(&pmm);
	assert_non_null(chunk[2]);
	for (int i = 0; i < 3; i++)
		pmm_chunk_put(&pmm, chunk[i]);
	assert_int_equal(pmm_check(&pmm, 0), 0);
	pmm_fini(&pmm);
	close_backend(b);
}

/* A lower budget binds at once; what is beyond it is given back by the owner. */
static void test_pmm_budget_is_lowered(void **state)
{
	struct backend *b = open_backend();
	struct chunk *chunk[4];
	struct pmm pmm;

	(void)state;
	pmm_init(&pmm, &account, "test", PLACE_OWN, CHUNK, 4 * CHUNK);
	for (int i = 0; i < 4; i++)
		chunk[i] = pmm_chunk_get(&pmm);
	pmm_chunk_put(&pmm, chunk[3]);
	pmm_set_budget(&pmm, 2);
	assert_int_equal(pmm_check(&pmm, 3), 0);
	assert_int_equal(pmm_nr_beyond(&pmm), 2);
	assert_int_equal(pmm_nr_available(&pmm), 0);
	assert_null(pmm_chunk_get(&pmm));
	assert_int_equal(pmm_give(&pmm, 2 * CHUNK), CHUNK);
	pmm_chunk_put(&pmm, chunk[2]);
	assert_int_equal(pmm_give(&pmm, CHUNK), CHUNK);
	assert_int_equal(pmm_nr_beyond(&pmm), 0);
	assert_null(pmm_chunk_get(&pmm));
	pmm_set_budget(&pmm, 3);
	chunk[2] = pmm_chunk_get(&pmm);
	assert_non_null(chunk[2]);
	assert_int_equal(pmm_check(&pmm, 3), 0);
	for (int i = 0; i < 3; i++)
		pmm_chunk_put(&pmm, chunk[i]);
	/* One that a block is still mapped to is not given. */
	chunk[1]->stale = true;
	assert_int_equal(pmm_give(&pmm, UINT64_MAX), 2 * CHUNK);
	assert_int_equal(pmm_check(&pmm, 0), 0);
	chunk[1]->stale = false;
	/* Nor are more expected than the budget is. */
	pmm_expect(&pmm, 3);
	assert_int_equal(pmm.nr_expected, 2);
	pmm_set_budget(&pmm, 2);
	assert_int_equal(pmm.nr_expected, 1);
	pmm_fini(&pmm);
	close_backend(b);
}

static void test_pmm_check_finds(void **state)
{
	struct backend *b = open_backend();
	struct chunk *chunk;
	struct pmm pmm;

	(void)state;
	pmm_init(&pmm, &account, "test", PLACE_OWN, CHUNK, 4 * CHUNK);
	chunk = pmm_chunk_get(&pmm);
	assert_int_equal(pmm_check(&pmm, 1), 0);
	assert_int_equal(pmm_check(&pmm, 0), -EUCLEAN);
	assert_int_equal(pmm_check(&pmm, 2), -EUCLEAN);
	pmm_chunk_put(&pmm, chunk);
	pmm.nr_free = 2;
	assert_int_equal(pmm_check(&pmm, 0), -EUCLEAN);
	pmm.nr_free = 1;
	chunk->backend.memory = HOST;
	assert_int_equal(pmm_check(&pmm, 0), -EUCLEAN);
	chunk->backend.memory = GPU0;
	chunk->backend.bytes = 2 * CHUNK;
	assert_int_equal(pmm_check(&pmm, 0), -EUCLEAN);
	chunk->backend.bytes = CHUNK;
	pmm.most_chunks = 0;
	assert_int_equal(pmm_check(&pmm, 0), -EUCLEAN);
	pmm.most_chunks = 4;
	assert_int_equal(pmm_check(&pmm, 0), 0);
	pmm_fini(&pmm);
	close_backend(b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pmm_reuses_what_came_back_last),
		cmocka_unit_test(test_pmm_keeps_the_budget),
		cmocka_unit_test(test_pmm_memory_full_below_the_budget),
		cmocka_unit_test(test_pmm_budget_is_lowered),
		cmocka_unit_test(test_pmm_check_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
