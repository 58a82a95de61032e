/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on replicated ranges, with real bytes, on 2 to 16 devices, against a shadow of
 * what every word must be: tests/property/replica_random/. Budgets of devices are 100, 60 and 30 %
 * of what brackets may name, so that copies are evicted, borrowed and on the host.
 *
 * Each sequence has a seed, and its own machine: WEIR_SEED=n runs sequence n alone and says what it
 * does. WEIR_SEQUENCES says how many run.
 *
 * Timeout: 300
 * Long: yes
 * Links: replica-random
 */
#include "tests/property/replica_random/model.h"
#include "tests/support/driver.h"
#include "tests/support/seeds.h"

#define MANY 250u /* sequences, to say what goes on in them */

static void run_sequence(uint64_t seed)
{
	static struct model m;
	uint32_t nr_steps;

	memset(&m, 0, sizeof(m));
	m.random.state = seed * 0x9e3779b97f4a7c15u;
	open_space(&m);
	nr_steps = 10 + below(&m, 50);
	for (test_step = 0; test_step < nr_steps; test_step++) {
		uint32_t what = below(&m, 16);

		if (what < 2 || test_step < 2)
			op_alloc(&m);
		else if (what < 11)
			op_stream(&m);
		else if (what == 11 && one_in(&m, 3))
			op_phase(&m);
		else
			some_call(&m);
	}
	close_space(&m);
}

static void test_replica_random_sequences(void **state)
{
	static const struct test_amount sequences = {250, 50, 10000};
	uint32_t nr = test_seeds_run(sequences, &model_tracing, run_sequence);
	const struct model_total *total = &model_total;
	uint64_t often;

	(void)state;
	if (!nr)
		return;
	printf("%llu brackets, %llu beside open ones, %llu writes unordered with others, "
	       "%llu words checked, %llu messages, %llu published, "
	       "%llu parts published while open, %llu views borrowed in the end, "
	       "%llu host copies, %llu turned back, %llu freed while open, "
	       "%llu begins without memory, %llu words of lists, %llu messages of runs, "
	       "%llu of packets, %llu lists of what was read, %llu copies exchanged\n",
	       (unsigned long long)total->nr_begins, (unsigned long long)total->nr_nested,
	       (unsigned long long)total->nr_unordered, (unsigned long long)total->nr_checked,
	       (unsigned long long)total->nr_messages, (unsigned long long)total->nr_published,
	       (unsigned long long)total->nr_slices, (unsigned long long)total->nr_borrowed,
	       (unsigned long long)total->nr_host_copies, (unsigned long long)total->nr_back,
	       (unsigned long long)total->nr_frees_open, (unsigned long long)total->nr_full,
	       (unsigned long long)total->nr_elements,
	       (unsigned long long)total->nr_sent[WEIR_SENT_RUNS],
	       (unsigned long long)total->nr_sent[WEIR_SENT_PACKETS],
	       (unsigned long long)total->nr_tracked, (unsigned long long)total->nr_exchanged);
	if (nr < MANY)
		return;
	/* Decisions that hang on times are others on real GPUs, and from run to run. */
	often = nr / (model_ordered ? 25 : 10);
	/* Each of them was met often. */
	assert_true(total->nr_begins > nr * 4);
	assert_true(total->nr_nested > nr);
	assert_true(model_ordered || total->nr_unordered > nr / 4);
	assert_true(total->nr_messages > nr);
	assert_true(total->nr_exchanged > often);
	assert_true(total->nr_slices > nr / 2);
	assert_true(total->nr_back > nr / 20);
	assert_true(total->nr_frees_open > nr / 20);
	assert_true(total->nr_elements > nr);
	assert_true(model_ordered || total->nr_tracked > nr / 40);
	for (int how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		assert_true(total->nr_sent[how] > often);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_replica_random_sequences, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
