/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of calls on a space with real bytes and tiny budgets, against a model that holds
 * what every live range must contain: tests/property/space_random/.
 *
 * Machines have two to four GPUs, spaces one to three of them as their devices. In half of the
 * sequences memories of other GPUs are places, too, between the own and the host's. In a quarter of
 * all, what comes in, what goes and where to is drawn at random. At any time a policy may be set
 * that answers anything.
 *
 * Each sequence has a seed, and its own machine: WEIR_SEED=n runs sequence n alone and says what it
 * does. Part of the sequences repeat a short script, so that plans are made, followed and dropped.
 *
 * On a real GPU (see tests/support/driver.h) blocks are 2 to 14 MiB, and part of the sequences have
 * ranges and budgets of gigabytes; WEIR_SEQUENCES says how many run.
 *
 * Takes 4 s of a processor: each sequence has a machine of its own.
 *
 * Timeout: 300
 * Long: yes
 * Links: space-random
 */
#include "tests/property/space_random/model.h"
#include "tests/support/driver.h"
#include "tests/support/seeds.h"

#define MANY 100u /* sequences, to say what goes on in them */

static void run_sequence(uint64_t seed)
{
	static struct model m;
	uint32_t nr_steps;

	memset(&m, 0, sizeof(m));
	m.random.state = seed * 0x9e3779b97f4a7c15u;
	open_space(&m, seed);
	/* To leave and come back and leave takes longer. */
	nr_steps = 8 + below(&m, m.compares ? 120 : 24);
	for (test_step = 0; test_step < nr_steps; test_step++) {
		uint32_t what = below(&m, 16);

		if (what < 3)
			op_alloc(&m);
		else if (what < 9 || (m.compares && one_in(&m, 2)))
			op_bracket(&m);
		else if (what == 10)
			op_launch_alone(&m);
		else if (what == 11 && one_in(&m, 4))
			op_whole_space(&m);
		else if (what == 9)
			op_open(&m);
		else
			some_op(&m);
	}
	if (one_in(&m, 2))
		op_phase(&m);
	close_space(&m);
}

static void test_space_random_sequences(void **state)
{
	static const struct test_amount sequences = {300, 60, 10000};
	uint32_t nr = test_seeds_run(sequences, &model_tracing, run_sequence);
	enum test_machine kind = test_machine_kind();
	const struct model_total *total = &model_total;
	const struct weir_space_stats *stats = &total->stats;

	(void)state;
	if (!nr)
		return;
	printf("%llu brackets, %llu waits, %llu plans, %llu divergences, %llu compared, "
	       "%llu unchanged\n",
	       (unsigned long long)stats->nr_brackets, (unsigned long long)stats->nr_waits,
	       (unsigned long long)stats->nr_plans, (unsigned long long)stats->nr_divergences,
	       (unsigned long long)stats->nr_compared, (unsigned long long)stats->nr_unchanged);
	if (nr < MANY)
		return;
	/* Each of them was met often. */
	assert_true(stats->nr_plans > nr / 20);
	assert_true(stats->nr_divergences > nr / 50);
	assert_true(stats->nr_waits > nr / 10);
	assert_true(stats->nr_pool_hits > nr / 10);
	assert_true(stats->nr_dead_dropped > nr / 10);
	assert_true(stats->nr_clean_dropped > nr / 10);
	assert_true(stats->nr_compared > nr / 10 && stats->nr_unchanged > nr / 100);
	assert_true(stats->nr_overwrites_saved > (kind == TEST_GPU ? 0 : nr / 40));
	for (int d = 0; d < BACKEND_DIRECTION_NR; d++) {
		assert_true(total->bytes[d][WEIR_CAUSE_DEMAND] > nr * KIB(1));
		/* Where time is real and other programs run, many a plan is late. */
		assert_true(total->bytes[d][WEIR_CAUSE_PREFETCH] >
			    nr * (kind == TEST_SIMULATED ? 256u : 64u));
		assert_true(total->bytes[d][WEIR_CAUSE_INPLACE] > nr * KIB(1));
	}
	assert_true(total->bytes[BACKEND_TO_HOST][WEIR_CAUSE_EVICTION] > nr * KIB(1));
	for (int k = 0; k < LINK_KIND_NR && kind != TEST_GPU; k++)
		assert_true(total->copied[k] > (k == LINK_NEAR_NEAR ? nr * 64 : nr * KIB(1)));
	for (uint32_t places = 2; places <= MEMORIES_MAX && kind != TEST_GPU; places++)
		assert_true(total->nr_places[places] > nr / 50);
	for (uint32_t devices = 1; devices <= 3 && kind != TEST_GPU; devices++)
		assert_true(total->nr_devices[devices] > nr / 20);
	assert_true(total->nr_open > nr / 4 && total->nr_beside > nr / 100);
	assert_true(total->nr_policies > nr / 4 && total->nr_decisions > nr / 2);
	assert_true(total->nr_budgets[0] > nr / 10 && total->nr_budgets[1] > nr / 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_space_random_sequences, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
