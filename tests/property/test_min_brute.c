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
 * A second test has a neighbour's memory besides: a block is on the host, at the neighbour or in
 * own memory, and every way to place all of them at every step is tried. Compared are the fewest
 * copies from the host; and where no access is in place at the neighbour, the fewest into own
 * memory, and of both together, which one way then reaches. Where some accesses are, the copies
 * into own memory must not be fewer than MIN says.
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
#define NEAR_BLOCKS 4u
#define NEAR_STATES 81u /* 3 ^ NEAR_BLOCKS */
#define NEAR_PERIODS 3u
#define NEAR_SHARE 10u /* of so many cases one is tried with a neighbour's memory, too */

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
	uint32_t capacity, near_capacity;
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
	c->capacity = min_largest_set(&c->trace, MIN_OWN, &step);
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

/* ------------------------------------------------------------------ with a neighbour's memory */

enum place { HOST, NEAR, OWN };

/* What a copy costs. */
struct weights {
	uint32_t own, host;
};

/* Fewer blocks, and of what is in place some is at the neighbour; none if plain. */
static void random_near_case(uint64_t seed, bool plain, struct test_case *c)
{
	struct random r = {.state = ~seed};
	uint32_t step, both;

	do {
		random_case(seed, c);
		seed += UINT64_C(1) << 32;
	} while (c->trace.nr_blocks > NEAR_BLOCKS);
	for (uint64_t a = 0; a < c->first[c->trace.nr_steps]; a++)
		c->access[a].near = c->access[a].in_place && !plain && random_below(&r, 3) != 0;
	both = min_largest_set(&c->trace, MIN_BOTH, &step);
	c->near_capacity = random_below(&r, c->trace.nr_blocks - c->capacity + 1);
	if (c->capacity + c->near_capacity < both)
		c->near_capacity = both - c->capacity;
}

static enum place place_of(uint32_t state, uint32_t block)
{
	while (block--)
		state /= 3;
	return (enum place)(state % 3);
}

/* Whether the blocks fit, and are where the step needs them. */
static bool serves(const struct test_case *c, uint32_t s, uint32_t state)
{
	uint32_t nr[3] = {0};

	for (uint32_t b = 0; b < c->trace.nr_blocks; b++)
		nr[place_of(state, b)]++;
	for (uint64_t a = c->first[s]; a < c->first[s + 1]; a++) {
		enum place place = place_of(state, c->access[a].block);

		if (c->access[a].near ? place == HOST : !c->access[a].in_place && place != OWN)
			return false;
	}
	return nr[OWN] <= c->capacity && nr[NEAR] <= c->near_capacity;
}

/* Cost of the copies between two states; born: what the step makes anew. */
static uint32_t near_copies(const struct test_case *c, uint32_t from, uint32_t to, uint32_t born,
			    const struct weights *w)
{
	uint32_t cost = 0;

	for (uint32_t b = 0; b < c->trace.nr_blocks; b++, from /= 3, to /= 3) {
		if (from % 3 == to % 3 || (born >> b & 1))
			continue;
		cost += to % 3 == OWN ? w->own : 0;
		cost += from % 3 == HOST ? w->host : 0;
	}
	return cost;
}

static void near_step(const struct test_case *c, uint32_t s, const struct weights *w,
		      uint32_t nr_states, uint32_t *cost)
{
	uint32_t to[NEAR_STATES] = {0}, born = 0;

	for (uint64_t a = c->first[s]; a < c->first[s + 1]; a++)
		born |= (uint32_t)c->access[a].birth << c->access[a].block;
	for (uint32_t state = 0; state < nr_states; state++) {
		to[state] = NOWHERE;
		for (uint32_t old = 0; serves(c, s, state) && old < nr_states; old++) {
			uint32_t more;

			if (cost[old] == NOWHERE)
				continue;
			more = near_copies(c, old, state, born, w);
			to[state] = cost[old] + more < to[state] ? cost[old] + more : to[state];
		}
	}
	memcpy(cost, to, nr_states * sizeof(*cost));
}

/* The least cost of the first periods. */
static uint32_t near_least(const struct test_case *c, struct weights w)
{
	uint32_t cost[NEAR_STATES], nr_states = 1;

	for (uint32_t b = 0; b < c->trace.nr_blocks; b++)
		nr_states *= 3;
	memset(cost, 0xff, sizeof(cost));
	cost[0] = 0;
	for (uint32_t p = 0; p < NEAR_PERIODS; p++)
		for (uint32_t s = 0; s < c->trace.nr_steps; s++)
			near_step(c, s, &w, nr_states, cost);
	return least(cost, nr_states);
}

static uint32_t near_min(const struct test_case *c, uint32_t capacity, enum min_level level)
{
	uint64_t sum = 0;
	struct min *min;

	assert_int_equal(min_create(&c->trace, capacity, level, &min), 0);
	for (uint32_t p = 0; p < NEAR_PERIODS; p++) {
		struct min_count count;

		min_period(min, &count);
		sum += count.copy_ins;
	}
	min_destroy(min);
	return (uint32_t)sum;
}

/* ------------------------------------------------------------------ the comparison */

static void print_case(const struct test_case *c, uint64_t seed)
{
	print_error("seed %llu: %u blocks, room for %u\n", (unsigned long long)seed,
		    c->trace.nr_blocks, c->capacity);
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		print_error("  step %u:", s);
		for (uint64_t a = c->first[s]; a < c->first[s + 1]; a++)
			print_error(" %u%s%s%s%s", (unsigned int)c->access[a].block,
				    c->access[a].in_place ? " in place" : "",
				    c->access[a].near ? " at the neighbour" : "",
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
	assert_int_equal(min_create(&c->trace, c->capacity, MIN_OWN, &min), 0);
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
		assert_int_equal(min_steady(&c.trace, c.capacity, MIN_OWN, &steady), 0);
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

static void test_min_near_is_brute_force(void **state)
{
	const char *text = getenv("WEIR_TEST_SEED"), *cases = getenv("WEIR_TEST_CASES");
	uint64_t seed = text ? strtoull(text, NULL, 10) : FIRST_SEED;
	uint64_t nr = (cases ? strtoull(cases, NULL, 10) : NR_CASES) / NEAR_SHARE;
	uint64_t nr_spared = 0;

	(void)state;
	for (uint64_t i = seed; i < seed + nr; i++) {
		uint32_t own, host, brute_own, brute_host, together;
		struct test_case c;
		bool plain = i % 2;

		random_near_case(i, plain, &c);
		own = near_min(&c, c.capacity, MIN_OWN);
		host = near_min(&c, c.capacity + c.near_capacity, MIN_BOTH);
		brute_own = near_least(&c, (struct weights){.own = 1});
		brute_host = near_least(&c, (struct weights){.host = 1});
		together = near_least(&c, (struct weights){1, 1});
		if (host != brute_host ||
		    (plain ? own != brute_own || together != own + host : own > brute_own)) {
			print_case(&c, i);
			fail_msg("room for %u at the neighbour: MIN copies %u into own memory, %u "
				 "from the host, brute force %u and %u, %u together",
				 c.near_capacity, own, host, brute_own, brute_host, together);
		}
		nr_spared += host < own;
	}
	print_message("of %llu cases with a neighbour %llu copy less from the host\n",
		      (unsigned long long)nr, (unsigned long long)nr_spared);
	assert_true(text || cases || nr_spared * LEAST_WRITING > nr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_min_is_brute_force),
		cmocka_unit_test(test_min_near_is_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
