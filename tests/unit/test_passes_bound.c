/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of a pass by hand, without and with a neighbour's memory. That no pass is faster is
 * looked at in test_touch.c, test_matrix.c and tests/integration/near.sh.
 */
#include "tests/unit/test_sim_machine.h"
#include "workloads/passes_bound.h"

#define GB UINT64_C(1000000000)

/* The test machine's links: 4 GB/s from the host and 2 to it, 20 between GPUs each way; what a
 * kernel asks for of its own memory comes at 100. */
static double bound_of(const struct weir_machine_desc *desc, const struct passes_held *held,
		       const struct passes_least *least)
{
	return passes_bound_s(desc, 0, 1, held, least);
}

/* Seconds, nearly. */
static void expect(double s, double expected)
{
	if (s < expected * (1 - 1e-12) || s > expected * (1 + 1e-12))
		fail_msg("%.17g s, not %.17g", s, expected);
}

static void test_passes_without_neighbours(void **state)
{
	const struct passes_held held = {.begin_bytes = 20 * GB, .end_bytes = 60 * GB};
	struct passes_least least = {.hbm_bytes_per_s = 100e9};
	struct weir_machine_desc desc;

	(void)state;
	test_machine(&desc);
	least.in = passes_beyond(100 * GB, &held, held.begin_bytes);
	assert_true(least.in.own == 80e9 && least.in.both == 80e9);
	expect(bound_of(&desc, &held, &least), 80. / 4);
	least.out = passes_beyond(100 * GB, &held, held.end_bytes);
	expect(bound_of(&desc, &held, &least), 80. / 4);
	least.out.own = least.out.both = 50e9;
	expect(bound_of(&desc, &held, &least), 50. / 2);
	least.asked_bytes = 10000e9;
	expect(bound_of(&desc, &held, &least), 10000. / 106);
	desc.nr_links = 0;
	expect(bound_of(&desc, &held, &least), 100);
}

static void test_passes_with_a_neighbour(void **state)
{
	const uint64_t near[WEIR_MEMORIES_MAX] = {[GPU1] = 30 * GB};
	const struct passes_held held = {
		.begin_bytes = 20 * GB, .end_bytes = 20 * GB, .near_bytes = near};
	struct passes_least least = {.hbm_bytes_per_s = 100e9};
	struct weir_machine_desc desc;

	(void)state;
	test_machine_gpus(&desc, 3); /* the third has nothing, and its links do not count */
	least.in = passes_beyond(100 * GB, &held, held.begin_bytes);
	assert_true(least.in.own == 80e9 && least.in.both == 50e9);
	/* What is in neither comes over two links of the host's. */
	expect(bound_of(&desc, &held, &least), 50. / 8);
	/* What is at the neighbour comes over its link, or the host's. */
	least.in = passes_beyond(40 * GB, &held, held.begin_bytes);
	assert_true(least.in.own == 20e9 && least.in.both == 0);
	expect(bound_of(&desc, &held, &least), 20. / 24);
	least.in.own = 0;
	least.out = passes_beyond(100 * GB, &held, held.end_bytes);
	expect(bound_of(&desc, &held, &least), 50. / 4);
	least.out = passes_beyond(50 * GB, &held, held.end_bytes);
	expect(bound_of(&desc, &held, &least), 30. / 22);
	least.asked_bytes = 10000e9;
	expect(bound_of(&desc, &held, &least), 10000. / 146);
	/* Kernels may use a link between GPUs faster than its copy engine. */
	desc.link[3].inplace_bytes_per_s = 30e9;
	assert_int_equal(desc.link[3].b, GPU1);
	expect(bound_of(&desc, &held, &least), 10000. / 166);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_without_neighbours),
		cmocka_unit_test(test_passes_with_a_neighbour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
