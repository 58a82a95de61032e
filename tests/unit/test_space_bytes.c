/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a space's own structures take of the host's memory: 90 GB in blocks of 2 MiB, the smallest
 * that GPUs map, all backed and planned, take less than 40 MB; what the simulator keeps of its
 * chunks is in that.
 */
#include <malloc.h>

#include "tests/support/amount.h"
#include "tests/support/space.h"

#define RANGE (UINT64_C(1) << 30)
#define NR_RANGES 84u
#define LIMIT 40e6

static double get_bytes_taken(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)info.uordblks + (double)info.hblkhd;
}

static void test_space_structures_are_small(void **state)
{
	struct weir_space_config config = {.mode = WEIR_PLANNED, .block_bytes = MIB(2)};
	struct weir_machine_desc desc;
	struct weir_space_stats stats;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_space *space;
	double before, taken;
	void *addr[NR_RANGES];

	(void)state;
	if (TEST_SANITIZED)
		skip(); /* the sanitizer's allocator does not count */
	test_machine(&desc);
	desc.vmm.granularity_bytes = MIB(2);
	for (uint32_t m = 0; m < desc.nr_memories; m++)
		desc.memory[m].bytes = UINT64_C(128) << 30;
	config.budget_bytes[GPU0] = 32 * RANGE;
	assert_int_equal(weir_machine_simulate(&desc, WEIR_DATA_PHANTOM, &machine), 0);
	assert_int_equal(weir_stream_create(machine, 0, &stream), 0);
	before = get_bytes_taken();
	assert_int_equal(weir_space_create(machine, &config, &space), 0);
	for (uint32_t i = 0; i < NR_RANGES; i++)
		assert_int_equal(weir_alloc(space, RANGE, stream, &addr[i]), 0);
	for (uint32_t n = 0; n < 6 * NR_RANGES; n++) {
		struct weir_use use = {.addr = addr[n % NR_RANGES],
				       .bytes = RANGE,
				       .kind = n < NR_RANGES ? WEIR_OVERWRITE : WEIR_READ,
				       .read_bytes = RANGE};

		assert_int_equal(weir_begin(space, stream, &use, 1), 0);
		assert_int_equal(weir_end(space, stream), 0);
	}
	assert_int_equal(weir_space_sync(space), 0);
	taken = get_bytes_taken() - before;
	weir_space_query(space, &stats);
	assert_true(stats.nr_plans > 0);
	assert_int_equal(stats.live_bytes, NR_RANGES * RANGE);
	printf("%.1f MB for %.1f GB\n", taken / 1e6, (double)stats.live_bytes / 1e9);
	assert_true(taken > 0 && taken < LIMIT);
	weir_space_destroy(space);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_structures_are_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
