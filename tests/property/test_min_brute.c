/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIN against brute force, on random sequences small enough to try everything: a few blocks, a few
 * steps, every set of blocks that may be resident at every step. The brute force knows no next
 * uses and no intervals: its state is what is resident, a step goes from each state to each other
 * one that has what the step needs and fits, and every block that comes up with contents costs one,
 * used or not.
 *
 * Compared are the fewest copies in of the first periods, one, two, three ..., each with what is
 * best for it alone; and the mean of a period in the long run, which brute force finds as the
 * least mean cycle of the graph of states between periods.
 *
 * WEIR_TEST_SEED and WEIR_TEST_CASES change the seed of the first case and how many there are.
 *
 * Long: WEIR_TEST_CASES=400000
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/min.h"

#define MAX_BLOCKS 5u
#define MAX_STEPS 7u
#define NR_STATES 32u /* 2 ^ MAX_BLOCKS */
#define NR_PERIODS 6u
#define FIRST_SEED 71000u
#define NR_CASES 40000u
/* One of so many cases must copy in; write back; repeat only after several periods. */
#define LEAST_COPYING 2u
#define LEAST_WRITING 10u
#define LEAST_LONG 50u
#define NOWHERE UINT32_MAX

struct random {
	uint64_t state;
};

static uint32_t random_below(struct random *r, uint32_t n)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ (z >> 31)) % n);
}

struct test_case {
	struct min_trace trace;
	uint64_t first[MAX_STEPS + 1];
	struct min_access access[MAX_STEPS * MAX_BLOCKS];
	uint32_t capacity;
};

/* Most steps name few blocks, so that what stays between them matters; in one case out of three
 * they are scans, where no period need be like the one before. */
static void random_case(uint64_t seed, struct test_case *c)
{
	struct random r = {.state = seed};
	bool scan = random_below(&r, 3) == 0;
	uint32_t nr_blocks = 1 + random_below(&r, MAX_BLOCKS);
	uint32_t nr_steps = scan ? nr_blocks : 1 + random_below(&r, MAX_STEPS);
	uint32_t birth = 2 + random_below(&r, 6), away = 2 + random_below(&r, 6), step, nr = 0;

	*c = (struct test_case){.trace = {.nr_blocks = nr_blocks, .nr_steps = nr_steps}};
	for (uint32_t s = 0; s < nr_steps; s++) {
		uint32_t sparse = 2 + random_below(&r, 3);

		for (uint32_t b = 0; b < nr_blocks; b++) {
			if (scan ? b != s : random_below(&r, sparse) != 0)
				continue;
			c->access[nr++] = (struct min_access){
				.block = b & (MIN_BLOCKS_MAX - 1),
				.in_place = !scan && random_below(&r, away) == 0,
				.birth = !scan && random_below(&r, birth) == 0,
				.write = random_below(&r, 2) != 0,
			};
		}
		c->first[s + 1] = nr;
	}
	c->trace.first = c->first;
	c->trace.access = c->access;
	c->capacity = min_largest_set(&c->trace, &step);
	c->capacity += random_below(&r, nr_blocks + 1 - c->capacity);
}

/* ------------------------------------------------------------------ brute force */

/* The least cost of a step from every state to every other, added to what it cost so far. */
static void brute_step(const struct test_case *c, uint32_t s, const uint32_t *from, uint32_t *to)
{
	uint32_t nr_states = 1u << c->trace.nr_blocks, needed = 0, born = 0;

	for (uint64_t a = c->first[s]; a < c->first[s + 1]; a++) {
		needed |= (uint32_t)!c->access[a].in_place << c->access[a].block;
		born |= (uint32_t)c->access[a].birth << c->access[a].block;
	}
	for (uint32_t state = 0; state < nr_states; state++) {
		to[state] = NOWHERE;
		if ((state & needed) != needed || (uint32_t)__builtin_popcount(state) > c->capacity)
			continue;
		for (uint32_t old = 0; old < nr_states; old++) {
			uint32_t in = (uint32_t)__builtin_popcount(state & ~old & ~born);

			if (from[old] != NOWHERE && from[old] + in < to[state])
				to[state] = from[old] + in;
		}
	}
}

static void brute_period(const struct test_case *c, uint32_t *cost)
{
	uint32_t other[NR_STATES];

	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		brute_step(c, s, cost, other);
		memcpy(cost, other, sizeof(other));
	}
}

static uint32_t least(const uint32_t *cost, uint32_t nr)
{
	uint32_t best = NOWHERE;

	for (uint32_t i = 0; i < nr; i++)
		best = cost[i] < best ? cost[i] : best;
	return best;
}

/* The least mean of a cycle of periods: Karp's theorem. */
static double brute_mean(const struct test_case *c)
{
	uint32_t nr_states = 1u << c->trace.nr_blocks;
	uint32_t walk[NR_STATES + 1]
		     [NR_STATES]; /* least cost of so many periods, by the last state */
	double best = INFINITY;

	memset(walk, 0xff, sizeof(walk));
	walk[0][0] = 0;
	for (uint32_t n = 0; n < nr_states; n++) {
		memcpy(walk[n + 1], walk[n], sizeof(walk[n]));
		brute_period(c, walk[n + 1]);
	}
	for (uint32_t state = 0; state < nr_states; state++) {
		double worst = -INFINITY;

		if (walk[nr_states][state] == NOWHERE)
			continue;
		for (uint32_t n = 0; n < nr_states; n++) {
			if (walk[n][state] != NOWHERE)
				worst = fmax(worst, ((double)walk[nr_states][state] -
						     (double)walk[n][state]) /
							    (nr_states - n));
		}
		best = fmin(best, worst);
	}
	return best;
}

/* ------------------------------------------------------------------ the comparison */

static void print_case(const struct test_case *c, uint64_t seed)
{
	print_error("seed %llu: %u blocks, room for %u\n", (unsigned long long)seed,
		    c->trace.nr_blocks, c->capacity);
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		print_error("  step %u:", s);
		for (uint64_t a = c->first[s]; a < c->first[s + 1]; a++)
			print_error(" %u%s%s%s", (unsigned int)c->access[a].block,
				    c->access[a].in_place ? " in place" : "",
				    c->access[a].birth ? " born" : "",
				    c->access[a].write ? " written" : "");
		print_error("\n");
	}
}

/* The first periods, and what a larger capacity may not make worse. @return copies in. */
static uint64_t compare_first(const struct test_case *c, uint64_t seed)
{
	uint32_t cost[NR_STATES];
	uint64_t sum = 0;
	struct min *min;

	memset(cost, 0xff, sizeof(cost));
	cost[0] = 0;
	assert_int_equal(min_create(&c->trace, c->capacity, &min), 0);
	for (uint32_t n = 0; n < NR_PERIODS; n++) {
		uint32_t brute;
		struct min_count count;

		min_period(min, &count);
		sum += count.copy_ins;
		brute_period(c, cost);
		brute = least(cost, 1u << c->trace.nr_blocks);
		if (sum != brute) {
			print_case(c, seed);
			fail_msg("%u periods: MIN copies in %u, brute force %u", n + 1,
				 (unsigned int)sum, brute);
		}
	}
	min_destroy(min);
	return sum;
}

static void test_min_is_brute_force(void **state)
{
	const char *text = getenv("WEIR_TEST_SEED"), *cases = getenv("WEIR_TEST_CASES");
	uint64_t seed = text ? strtoull(text, NULL, 10) : FIRST_SEED;
	uint64_t nr = cases ? strtoull(cases, NULL, 10) : NR_CASES;
	uint64_t nr_copying = 0, nr_long = 0, nr_write_backs = 0;

	(void)state;
	for (uint64_t i = 0; i < nr; i++) {
		struct min_steady steady;
		struct test_case c;
		double mean;

		random_case(seed + i, &c);
		nr_copying += compare_first(&c, seed + i) != 0;
		mean = brute_mean(&c);
		assert_int_equal(min_steady(&c.trace, c.capacity, &steady), 0);
		if (!steady.exact || fabs(steady.copy_ins - mean) > 1e-9) {
			print_case(&c, seed + i);
			fail_msg("a period: MIN copies in %.9g%s, brute force %.9g",
				 steady.copy_ins, steady.exact ? "" : " about", mean);
		}
		nr_long += steady.nr_periods > 1;
		nr_write_backs += steady.write_backs > 0;
	}
	print_message("seeds %llu to %llu: %llu cases copy in, %llu repeat only after several "
		      "periods, %llu write back\n",
		      (unsigned long long)seed, (unsigned long long)(seed + nr - 1),
		      (unsigned long long)nr_copying, (unsigned long long)nr_long,
		      (unsigned long long)nr_write_backs);
	/* The cases are of the kind that they should be. */
	if (!text && !cases) {
		assert_true(nr_copying * LEAST_COPYING > nr);
		assert_true(nr_write_backs * LEAST_WRITING > nr);
		assert_true(nr_long * LEAST_LONG > nr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_min_is_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
