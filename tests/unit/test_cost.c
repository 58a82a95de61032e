/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model's functions by themselves, against values worked out by hand: what the flows of a
 * kernel take, beside its own work, and pieces in place beyond reach.
 */
#include <errno.h>
#include <math.h>

#include "src/base/util.h"
#include "src/cost/cost.h"
#include "tests/unit/test_sim_machine.h"

static void expect_ns(double ns, double expected)
{
	if (!(fabs(ns - expected) <= 1e-9 * expected))
		fail_msg("%.6f instead of %.6f", ns, expected);
}

/* The cost of a kernel whose uses lie where `bytes` says. */
static struct cost_kernel cost_of(const struct weir_machine_desc *desc, const struct cost_use *uses,
				  uint32_t nr, double ops)
{
	struct cost_kernel cost;

	assert_int_equal(cost_kernel(desc, 0, NULL, uses, nr, ops, &cost), 0);
	return cost;
}

/* One way at what a kernel can move, 2 bytes a ns, both ways at 1 while both last. */
static void test_cost_flows(void **state)
{
	struct weir_use use = use_of(NULL, 1000000, WEIR_READ);
	struct cost_use part = {.use = &use, .bytes[HOST] = 1000000};
	struct weir_machine_desc desc;
	struct cost_kernel cost;

	(void)state;
	test_machine(&desc);
	cost = cost_of(&desc, &part, 1, 0);
	assert_int_equal(cost.nr_flows, 1);
	assert_true(cost.flow[0].reads && cost.flow[0].a_to_b);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 500000);
	use = use_of(NULL, 1000000, WEIR_OVERWRITE);
	cost = cost_of(&desc, &part, 1, 0);
	assert_int_equal(cost.nr_flows, 1);
	assert_true(!cost.flow[0].reads && !cost.flow[0].a_to_b);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 500000);
	use = use_of(NULL, 1000000, WEIR_WRITE);
	cost = cost_of(&desc, &part, 1, 0);
	assert_int_equal(cost.nr_flows, 2);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 1000000);
	use.write_bytes = 400000;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 400000 + 300000);
	/* Half of it is resident. */
	part.bytes[HOST] = part.bytes[GPU0] = 500000;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 200000 + 150000);
	/* Nothing is away: whatever it computes is not the links' time. */
	part.bytes[HOST] = 0;
	part.bytes[GPU0] = 1000000;
	cost = cost_of(&desc, &part, 1, 1e9);
	assert_true(cost_kernel_link_ns(&desc, &cost) == 0);
}

/* Two links do not wait for each other. */
static void test_cost_flows_of_two_links(void **state)
{
	struct weir_use use = use_of(NULL, 1000000, WEIR_READ);
	struct cost_use part = {.use = &use, .bytes = {[HOST] = 400000, [GPU1] = 600000}};
	struct weir_machine_desc desc;
	struct cost_kernel cost;

	(void)state;
	test_machine(&desc);
	cost = cost_of(&desc, &part, 1, 0);
	assert_int_equal(cost.nr_flows, 2);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 300000);
	desc.link[2].inplace_bytes_per_s = 20e9;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_link_ns(&desc, &cost), 200000);
}

/* A kernel's own work, and what it moves: the larger of the two. */
static void test_cost_alone(void **state)
{
	struct weir_use use = use_of(NULL, 1000000, WEIR_READ);
	struct cost_use part = {.use = &use, .bytes[HOST] = 1000000};
	struct weir_machine_desc desc;
	struct cost_kernel cost;

	(void)state;
	test_machine(&desc);
	/* 500,000 ns on the link, 10,000 in HBM */
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 500000);
	cost = cost_of(&desc, &part, 1, 5e8);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 500000);
	cost = cost_of(&desc, &part, 1, 1e9);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 1000000);
	/* 50 times over from HBM */
	use.read_bytes *= 50;
	part.bytes[HOST] = 20000;
	part.bytes[GPU0] = 980000;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 500000);
	/* All of it resident; and next to nothing to do. */
	part.bytes[HOST] = 0;
	part.bytes[GPU0] = 1000000;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 500000);
	use.read_bytes = 8;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 500);
}

/* What does not overlap: a part of the shorter of the link's time and the work at home. */
static void test_cost_serial(void **state)
{
	struct weir_use use = use_of(NULL, 1000000, WEIR_READ);
	struct cost_use part = {.use = &use, .bytes = {[GPU0] = 980000, [GPU1] = 20000}};
	struct weir_machine_desc desc;
	struct weir_link_desc *link = &desc.link[2];
	struct cost_kernel cost;

	(void)state;
	test_machine(&desc);
	link->inplace_serial = 0.5;
	/* 10,000 ns with all in HBM, 9,800 of them at home, 10,000 on the link. */
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost.serial_ns, 4900);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 14900);
	/* Half as much on the link; and operations that take longer than all bytes do. */
	link->inplace_bytes_per_s *= 2;
	cost = cost_of(&desc, &part, 1, 0);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 12500);
	link->inplace_bytes_per_s /= 20;
	cost = cost_of(&desc, &part, 1, 20000e3);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 100000 + 0.5 * 0.98 * 20000);
	/* Read and written there: one link, one time, the second use none of it. */
	link->inplace_bytes_per_s = 2e9;
	use.write_bytes = use.read_bytes;
	cost = cost_of(&desc, &part, 1, 0);
	assert_int_equal(cost.nr_flows, 2);
	expect_ns(cost_kernel_alone_ns(&desc, &cost), 20000 + 0.5 * 19600);
	/* Nothing is at home, nothing at the neighbour; the host's link says nothing. */
	use.write_bytes = 0;
	part.bytes[GPU0] = 0;
	part.bytes[GPU1] = 1000000;
	assert_true(cost_of(&desc, &part, 1, 1e9).serial_ns == 0);
	part.bytes[GPU0] = 1000000;
	part.bytes[GPU1] = 0;
	assert_true(cost_of(&desc, &part, 1, 1e9).serial_ns == 0);
	part.bytes[HOST] = part.bytes[GPU0] = 500000;
	assert_true(cost_of(&desc, &part, 1, 1e9).serial_ns == 0);
}

/* By access pattern; of both, by the time of each on the link. */
static void test_cost_serial_by_pattern(void **state)
{
	struct weir_use use[2] = {use_of(NULL, 1000000, WEIR_READ),
				  use_of(NULL, 1000000, WEIR_READ)};
	struct cost_use part[2] = {{.use = &use[0], .bytes = {[GPU0] = 980000, [GPU1] = 20000}},
				   {.use = &use[1], .bytes = {[GPU0] = 980000, [GPU1] = 20000}}};
	struct weir_machine_desc desc;
	struct weir_link_desc *link = &desc.link[2];
	struct cost_kernel cost;
	double random_ns, home_ns;

	(void)state;
	test_machine(&desc);
	link->inplace_serial = 0.5;
	link->inplace_serial_random = 0.1;
	use[1].pattern = WEIR_RANDOM;
	use[1].granule = 32;
	cost = cost_of(&desc, &part[1], 1, 0);
	random_ns = cost_kernel_link_ns(&desc, &cost);
	home_ns = 0.98 * cost.hbm_ns;
	expect_ns(cost.serial_ns, 0.1 * fmin(home_ns, random_ns));
	/* Both read, which adds up; then the second one writes, the other way. */
	for (int writes = 0; writes < 2; writes++) {
		double walk_ns = 20000 / link->inplace_bytes_per_s * 1e9, share, link_ns;

		use[1].write_bytes = writes ? use[1].read_bytes : 0;
		use[1].read_bytes -= use[1].write_bytes;
		cost = cost_of(&desc, part, 2, 0);
		link_ns = cost_kernel_link_ns(&desc, &cost);
		share = (0.5 * walk_ns + 0.1 * random_ns) / (walk_ns + random_ns);
		expect_ns(cost.serial_ns, share * fmin(0.98 * cost.hbm_ns, link_ns));
	}
	/* What is at random at home says nothing of the link. */
	part[1].bytes[GPU0] = 1000000;
	part[1].bytes[GPU1] = 0;
	cost = cost_of(&desc, part, 2, 0);
	expect_ns(cost.serial_ns, 0.5 * cost_kernel_link_ns(&desc, &cost));
}

static double rate(const struct weir_link_desc *link, enum weir_use_pattern pattern,
		   uint32_t granule, uint64_t footprint)
{
	const struct weir_use use = {.pattern = pattern, .granule = granule, .read_bytes = 1};

	return cost_inplace_bytes_per_s(link, &use, footprint);
}

/* Pieces beyond reach: each misses with the probability 1 - reach / footprint. */
static void test_cost_pieces_in_place(void **state)
{
	struct weir_machine_desc desc;
	const struct weir_link_desc *link;

	(void)state;
	test_machine(&desc);
	link = &desc.link[0];
	expect_ns(rate(link, WEIR_STREAM, 0, MIB(16)), 2e9);
	expect_ns(rate(link, WEIR_RANDOM, 64, 1), 64 * 10e6);
	expect_ns(rate(link, WEIR_RANDOM, 64, KIB(64)), 64 * 10e6);
	/* 1 in 9 misses: 9 million pieces a second; below 1 in 10 requests are what counts. */
	expect_ns(rate(link, WEIR_RANDOM, 64, KIB(72)), 64 * 9e6);
	expect_ns(rate(link, WEIR_RANDOM, 64, KIB(70)), 64 * 10e6);
	expect_ns(rate(link, WEIR_RANDOM, 64, KIB(128)), 64 * 2e6);
	expect_ns(rate(link, WEIR_RANDOM, 64, KIB(256)), 64 * 4e6 / 3);
	expect_ns(rate(link, WEIR_RANDOM, 64, UINT64_MAX), 64 * 1e6);
	/* A request is 128 bytes at most, a translation serves all of a piece, the link is 2e9. */
	expect_ns(rate(link, WEIR_RANDOM, 1024, KIB(64)), 128 * 10e6);
	expect_ns(rate(link, WEIR_RANDOM, 1024, UINT64_MAX), 1024 * 1e6);
	expect_ns(rate(link, WEIR_RANDOM, 65536, UINT64_MAX), 128 * 10e6);
	/* A word moves a sector. */
	expect_ns(rate(link, WEIR_RANDOM, 0, KIB(64)), 32 * 10e6);
	expect_ns(rate(link, WEIR_RANDOM, 0, KIB(128)), 32 * 2e6);
}

/* Those that are read and written are translated twice: half the reach, and a rate of their own. */
static void test_cost_updates_in_place(void **state)
{
	struct weir_use use = {
		.pattern = WEIR_RANDOM, .granule = 64, .read_bytes = 64, .write_bytes = 64};
	struct weir_machine_desc desc;
	struct weir_link_desc *link = &desc.link[0];

	(void)state;
	test_machine(&desc);
	link->inplace_update_large_per_s = 8e5;
	expect_ns(cost_reach_bytes(link, &use), KIB(32));
	expect_ns(cost_inplace_bytes_per_s(link, &use, KIB(32)), 64 * 10e6);
	expect_ns(cost_inplace_bytes_per_s(link, &use, KIB(64)), 64 * 16e5);
	expect_ns(cost_inplace_bytes_per_s(link, &use, UINT64_MAX), 64 * 8e5);
	/* Written only: a write may be a miss, but it is one. */
	use.read_bytes = 0;
	expect_ns(cost_reach_bytes(link, &use), KIB(64));
	expect_ns(cost_inplace_bytes_per_s(link, &use, KIB(128)), 64 * 2e6);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cost_flows),
		cmocka_unit_test(test_cost_flows_of_two_links),
		cmocka_unit_test(test_cost_alone),
		cmocka_unit_test(test_cost_serial),
		cmocka_unit_test(test_cost_serial_by_pattern),
		cmocka_unit_test(test_cost_pieces_in_place),
		cmocka_unit_test(test_cost_updates_in_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
