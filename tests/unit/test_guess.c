/* SPDX-License-Identifier: Apache-2.0 */
/* How much of what is named is touched, as it is learnt from times: see src/residency/guess.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/base/hash.h"
#include "src/base/util.h"
#include "src/residency/guess.h"

#define KEY 17u
#define COMPUTE_NS 1000.0

static struct guesses *guesses;

static int setup(void **state)
{
	(void)state;
	guesses = guesses_create();
	return !guesses;
}

static int teardown(void **state)
{
	(void)state;
	guesses_destroy(guesses);
	return 0;
}

static void note(uint32_t nr, const double *cost_ns, double ns, bool in_place)
{
	guess_note(guesses, &(struct guess_seen){.key = KEY,
						 .nr_uses = nr,
						 .cost_ns = cost_ns,
						 .ns = ns,
						 .in_place = in_place});
}

static void assert_share(uint32_t n, double least, double most)
{
	const double share = guess_share(guesses, KEY, n);

	if (share < least || share > most)
		fail_msg("use %u has share %g, not %g to %g", n, share, least, most);
}

static void test_nothing_is_known(void **state)
{
	const double none = 0;

	(void)state;
	assert_true(guess_share(NULL, KEY, 0) == 1);
	assert_true(guess_share(guesses, 0, 0) == 1);
	assert_true(guess_share(guesses, KEY, 0) == 1);
	assert_true(guess_shortest_ns(guesses, KEY) == 0);
	note(1, &none, 100, true); /* which tells nothing of it */
	note(0, &none, 100, true);
	assert_true(guess_share(guesses, KEY, 0) == 1);
	assert_true(guess_shortest_ns(guesses, KEY) == 100);
	assert_true(guess_resident_ns(guesses, KEY) == 0);
	note(1, &none, 120, false);
	assert_true(guess_resident_ns(guesses, KEY) == 120);
	assert_true(guess_shortest_ns(guesses, KEY) == 100);
	assert_true(guess_share_planned(NULL, KEY, 0) == 1);
	assert_true(guess_share_planned(guesses, 0, 0) == 1);
	assert_true(guess_share_planned(guesses, KEY, 0) == 0.5);
	assert_true(guess_share_planned(guesses, KEY + 1, 0) == 0.5);
	note(1, &none, 0, true); /* which cannot be */
	assert_true(guess_shortest_ns(guesses, KEY) == 100);
}

/* What was resident is a bound from above alone; what the link carried, from both sides. */
static void test_bounds(void **state)
{
	const double cost = 4000;

	(void)state;
	note(1, &cost, 8000, false);
	assert_share(0, 1, 1);
	note(1, &cost, 1000, false);
	assert_share(0, 0.249, 0.251);
	note(1, &cost, 2000, false); /* another reason made it slow */
	assert_share(0, 0.249, 0.251);
	assert_true(guess_share_planned(guesses, KEY, 0) < 0.251);
	note(1, &cost, 1200, true); /* as long as without the link */
	assert_share(0, 0.249, 0.251);
	note(1, &cost, 2000, true); /* it waited for the link */
	assert_share(0, 0.499, 0.501);
	note(1, &cost, 2600, true);
	assert_true(guess_share_planned(guesses, KEY, 0) > 0.64);
	note(1, &cost, 4000000, true);
	assert_share(0, GUESS_SHARE_MAX, GUESS_SHARE_MAX);
	note(1, &cost, 0.001, true);
	assert_share(0, 0, 1.01 * GUESS_SHARE_MIN);
}

/* Launches whose uses are in place to different parts tell the uses apart, whatever these are. */
static void test_uses_are_told_apart(void **state)
{
	static const double cases[][3] = {
		{0.41, 0.02, 1.0}, {0.002, 0.9, 0.05}, {1.0, 1.0, 0.01}, {2.5, 0.1, 0.1}};

	for (uint32_t c = 0; c < ARRAY_LEN(cases); c++) {
		uint64_t seed = c + 1;

		for (uint32_t n = 0; n < 400; n++) {
			double cost[3], ns = 0;

			for (uint32_t u = 0; u < 3; u++) {
				seed = hash_mix(seed, u);
				cost[u] = (double)(seed % 5) / 4 * 50000; /* 0: it is resident */
				ns += cases[c][u] * cost[u];
			}
			note(3, cost, MAX(ns, COMPUTE_NS), true);
		}
		for (uint32_t u = 0; u < 3; u++)
			assert_share(u, cases[c][u] * 0.8, MAX(cases[c][u] * 1.25, 0.02));
		teardown(state);
		assert_int_equal(setup(state), 0);
	}
}

/* Other launches are others, and more uses than are kept do no harm. */
static void test_keys(void **state)
{
	double cost[GUESS_USES_MAX + 1];

	(void)state;
	for (uint32_t u = 0; u <= GUESS_USES_MAX; u++)
		cost[u] = 1000;
	note(GUESS_USES_MAX + 1, cost, 1000, false);
	assert_share(0, 0.06, 0.07);
	assert_share(GUESS_USES_MAX - 1, 0.06, 0.07);
	assert_share(GUESS_USES_MAX, 1, 1);
	assert_true(guess_share(guesses, KEY + 1, 0) == 1);
	assert_true(guess_shortest_ns(guesses, KEY + 1) == 0);
	/* More of them than there is room for: later ones are known, none is taken for another. */
	for (uint64_t key = 1; key < 100000; key++)
		guess_note(guesses, &(struct guess_seen){.key = hash_mix(0, key),
							 .nr_uses = 1,
							 .cost_ns = cost,
							 .ns = 10});
	for (uint64_t key = 99999; key > 99000; key--) {
		const double share = guess_share(guesses, hash_mix(0, key), 0);

		assert_true(share == 1 || (share > 0.009 && share < 0.011));
	}
	assert_true(guess_share(guesses, hash_mix(0, 99999), 0) < 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_is_known),
		TEST(test_bounds),
		TEST(test_uses_are_told_apart),
		TEST(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
