/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower bound against brute force, on random traces small enough to try everything: a few
 * blocks, a few launches, every placement of every block at every launch, every choice of copies
 * before and during each launch, all of them overlapping as well as the machine allows.
 *
 * The brute force shares no code with the bound and nothing of its way of thinking: it walks time
 * forwards over the joint state of all blocks and knows no prices. Its schedules are a manager's
 * at its best: copies never wait for each other but for the link, and room made in a pause between
 * launches can be filled in the same pause. Any run of whole blocks takes at least as long; so
 * the bound must not exceed the best schedule.
 *
 * In two cases out of three translation reach matters: more uses are at random, most of them far
 * slower beyond reach than within, and not everything fits.
 *
 * WEIR_TEST_SEED and WEIR_TEST_CASES change the seed of the first case and how many there are.
 *
 * Takes 9 s of a processor: brute force, and rare cases that must occur.
 *
 * Long: yes
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

#include "tests/support/amount.h"
#include "tests/support/bound_case.h"
#include "workloads/bound.h"

#define NR_STATES 81u	   /* 3 ^ BOUND_BLOCKS */
#define FIRST_SEED 101300u /* in what follows most mistakes that were tried show */
static const struct test_amount cases = {1000, 150, 10000};
/* In one of so many must what misses translation raise the bound, and use in place both ways. */
#define LEAST_RAISED 10u
#define LEAST_RAISED_BOTH 10u

/* Where the valid contents of a block are. */
enum place { HOST, BOTH, GPU };

/* ------------------------------------------------------------------ brute force */

struct brute {
	const struct bound_case *c;
	double cost[NR_STATES], next[NR_STATES];
};

/* A launch with the pause before it, while a choice is made for each block. */
struct choice {
	uint32_t step;
	double base;			/* time up to here */
	enum place place[BOUND_BLOCKS]; /* when it ends */
	bool away[BOUND_BLOCKS];	/* used in place by the launch */
	double in, out;			/* bytes copied so far */
	uint32_t held;			/* blocks of HBM that are taken */
};

/* Time of a launch with copies alongside. */
static double launch_time(const struct brute *b, const struct choice *x)
{
	const struct bound_case *c = b->c;
	const struct weir_device_desc *dev = &c->desc.device[0];
	const struct weir_link_desc *link = &c->desc.link[0];
	const struct trace_step *step = &c->steps[x->step];
	struct bound_in_place in = {0, 0}, out = {0, 0};
	double hbm = 0, time;

	for (uint32_t u = step->first_use; u < step->first_use + step->nr_uses; u++) {
		const struct trace_use *use = &c->uses[u];
		double swell, away = 0, rate, hbm_rate;

		for (uint32_t i = 0; i < c->nr_blocks; i++)
			away += bound_case_covers(c, use, i) && x->away[i];
		rate = bound_case_place_rate(link, use, away * (double)BOUND_BLOCK, &swell);
		away = away * (double)BOUND_BLOCK / (double)use->bytes;
		hbm_rate = use->pattern == WEIR_STREAM ? dev->hbm_bytes_per_s
						       : dev->hbm_random_bytes_per_s;
		hbm += swell * (double)(use->read_bytes + use->write_bytes) / hbm_rate;
		in.bytes += away * swell * (double)use->read_bytes;
		out.bytes += away * swell * (double)use->write_bytes;
		in.seconds += away * swell * (double)use->read_bytes / rate;
		out.seconds += away * swell * (double)use->write_bytes / rate;
	}
	time = fmax(fmax(hbm, step->ops / dev->ops_per_s), (double)dev->launch_ns * 1e-9);
	time = fmax(time, bound_case_in_place_s(link, &in, &out));
	return fmax(time, bound_case_link_s(link, in.bytes + x->in, out.bytes + x->out));
}

static uint32_t state_of(const enum place *place, uint32_t nr)
{
	uint32_t state = 0;

	for (uint32_t i = nr; i-- > 0;)
		state = state * 3 + place[i];
	return state;
}

static void place_of(uint32_t state, enum place *place, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++, state /= 3)
		place[i] = (enum place)(state % 3);
}

/* Choose, for block i and all after it, how it is used by the launch and what is copied
 * meanwhile; then account for the launch. */
static void choose_launch(struct brute *b, struct choice *x, uint32_t i)
{
	const struct bound_touch *t;
	enum place at;

	if (x->held > b->c->budget_blocks)
		return;
	if (i == b->c->nr_blocks) {
		uint32_t state = state_of(x->place, i);

		b->next[state] = fmin(b->next[state], x->base + launch_time(b, x));
		return;
	}
	t = &b->c->touch[x->step][i];
	at = x->place[i];
	/* on the host: used in place; copied in meanwhile unless it is written */
	if (at == HOST) {
		x->away[i] = t->used;
		choose_launch(b, x, i + 1);
		if (!t->writes) {
			x->place[i] = BOTH;
			x->in += (double)BOUND_BLOCK;
			x->held++;
			choose_launch(b, x, i + 1);
			x->in -= (double)BOUND_BLOCK;
			x->held--;
		}
	}
	/* in HBM: used there; copied out meanwhile unless it is written */
	if (at != HOST) {
		x->held++;
		x->away[i] = false;
		x->place[i] = t->writes ? GPU : at;
		choose_launch(b, x, i + 1);
		if (at == GPU && !t->writes) {
			x->place[i] = BOTH;
			x->out += (double)BOUND_BLOCK;
			choose_launch(b, x, i + 1);
			x->out -= (double)BOUND_BLOCK;
		}
		/* a copy in HBM that the launch passes by */
		if (at == BOTH && t->used && !t->writes) {
			x->place[i] = BOTH;
			x->away[i] = true;
			choose_launch(b, x, i + 1);
		}
		x->held--;
	}
	x->place[i] = at;
	x->away[i] = false;
}

/* Choose what is copied or dropped in the pause before the launch. */
static void choose_pause(struct brute *b, struct choice *x, uint32_t i)
{
	static const bool copies_in[3][3] = {[HOST] = {[BOTH] = true}};
	static const bool copies_out[3][3] = {[GPU] = {[HOST] = true, [BOTH] = true}};
	static const bool possible[3][3] = {
		[HOST] = {true, true, false},
		[BOTH] = {true, true, false},
		[GPU] = {true, true, true},
	};
	enum place at;

	if (i == b->c->nr_blocks) {
		struct choice y = *x;

		y.base += bound_case_link_s(&b->c->desc.link[0], x->in, x->out);
		y.in = y.out = 0;
		choose_launch(b, &y, 0);
		return;
	}
	at = x->place[i];
	for (int to = HOST; to <= GPU; to++) {
		bool needed = b->c->needed[x->step][i];
		double in = needed && copies_in[at][to] ? (double)BOUND_BLOCK : 0;
		double out = needed && copies_out[at][to] ? (double)BOUND_BLOCK : 0;

		if (needed && !possible[at][to])
			continue;
		x->place[i] = (enum place)to;
		x->in += in;
		x->out += out;
		choose_pause(b, x, i + 1);
		x->in -= in;
		x->out -= out;
	}
	x->place[i] = at;
}

/* The time of the best schedule. */
static double brute_force(const struct bound_case *c)
{
	struct brute b = {.c = c};
	double best = INFINITY;
	uint32_t nr_states = 1;

	for (uint32_t i = 0; i < c->nr_blocks; i++)
		nr_states *= 3;
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		for (uint32_t i = 0; i < nr_states; i++)
			b.next[i] = INFINITY;
		for (uint32_t i = 0; i < nr_states; i++) {
			struct choice x = {.step = s, .base = b.cost[i]};

			if (b.cost[i] == INFINITY)
				continue;
			place_of(i, x.place, c->nr_blocks);
			choose_pause(&b, &x, 0);
		}
		memcpy(b.cost, b.next, sizeof(b.cost));
	}
	for (uint32_t i = 0; i < nr_states; i++)
		best = fmin(best, b.cost[i]);
	return best;
}

/* ------------------------------------------------------------------ tests */

static uint64_t env_u64(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/* How many cases something raises the bound of, and by how much of their best schedules. */
struct raised {
	uint32_t nr;
	double sum;
};

/* without: the machine that lacks it. */
static void raised_by(struct raised *raised, const struct bound_case *c,
		      const struct weir_machine_desc *without, double bound_s, double best)
{
	struct bound_result r;

	assert_int_equal(
		bound_compute(&c->trace, without, 0, c->budget_blocks * BOUND_BLOCK, NULL, &r), 0);
	if (bound_s > r.bound_s) {
		raised->nr++;
		raised->sum += (bound_s - r.bound_s) / best;
	}
}

/* Must be one of so many cases. */
static void raised_check(const struct raised *raised, uint64_t nr, const char *what, uint64_t of)
{
	print_message("raised by %s: %u, by %.4f of the best schedule\n", what, raised->nr,
		      raised->nr ? raised->sum / raised->nr : 0);
	assert_true(nr < 100 || raised->nr > nr / of);
}

static void test_bound_below_brute_force(void **state)
{
	uint64_t seed = env_u64("WEIR_TEST_SEED", FIRST_SEED),
		 nr = test_amount("WEIR_TEST_CASES", cases);
	uint32_t by_part[3] = {0};
	struct raised misses = {0}, both = {0};
	uint64_t loosest = seed;
	double sum = 0, least = 1;

	(void)state;
	print_message("seeds %llu to %llu\n", (unsigned long long)seed,
		      (unsigned long long)(seed + nr - 1));
	for (uint64_t i = seed; i < seed + nr; i++) {
		struct weir_machine_desc both_ways, reached;
		struct bound_result r;
		struct bound_case c;
		double best;

		bound_case_random(i, BOUND_BLOCKS, &c);
		assert_int_equal(bound_compute(&c.trace, &c.desc, 0, c.budget_blocks * BOUND_BLOCK,
					       NULL, &r),
				 0);
		best = brute_force(&c);
		if (!(r.bound_s <= best))
			fail_msg("seed %llu: bound %.17g s exceeds a schedule of %.17g s",
				 (unsigned long long)i, r.bound_s, best);
		assert_true(r.bound_s > 0);
		by_part[r.part]++;
		both_ways = c.desc;
		both_ways.link[0].inplace_both_bytes_per_s = 1e12;
		raised_by(&both, &c, &both_ways, r.bound_s, best);
		reached = c.desc;
		reached.link[0].inplace_reach_bytes = UINT64_C(1) << 30;
		raised_by(&misses, &c, &reached, r.bound_s, best);
		sum += r.bound_s / best;
		if (r.bound_s / best < least) {
			least = r.bound_s / best;
			loosest = i;
		}
	}
	print_message("bound / best schedule: mean %.4f, least %.4f (seed %llu); by compute %u, "
		      "brackets %u, prices %u\n",
		      sum / (double)nr, least, (unsigned long long)loosest, by_part[0], by_part[1],
		      by_part[2]);
	raised_check(&misses, nr, "what misses translation", LEAST_RAISED);
	raised_check(&both, nr, "use in place both ways", LEAST_RAISED_BOTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound_below_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
