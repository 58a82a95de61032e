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
#include "workloads/bound.h"

#define BLOCK (UINT64_C(1) << 20)
#define MAX_BLOCKS 4u
#define MAX_LIVES 4u
#define MAX_STEPS 6u
#define MAX_USES 3u	   /* of a step */
#define NR_STATES 81u	   /* 3 ^ MAX_BLOCKS */
#define FIRST_SEED 101300u /* in what follows most mistakes that were tried show */
static const struct test_amount cases = {2500, 600, 10000};
#define LEAST_RAISED 10u /* in one of so many must what misses translation raise the bound */

/* Where the valid contents of a block are. */
enum place { HOST, BOTH, GPU };

struct random {
	uint64_t state;
};

static uint64_t random_u64(struct random *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)(random_u64(r) % n);
}

static double random_between(struct random *r, double lo, double hi)
{
	return lo + (hi - lo) * (double)(random_u64(r) >> 11) * 0x1p-53;
}

struct test_case {
	struct weir_machine_desc desc;
	struct trace trace;
	struct trace_step steps[MAX_STEPS];
	struct trace_use uses[MAX_STEPS * MAX_USES];
	struct trace_life lives[MAX_LIVES];
	uint32_t first_block[MAX_LIVES]; /* of a life */
	uint32_t nr_blocks;
	uint32_t budget_blocks;
};

/* ------------------------------------------------------------------ random cases */

static void random_machine(struct random *r, bool reach, struct weir_machine_desc *d)
{
	struct weir_device_desc *dev = &d->device[0];
	struct weir_link_desc *link = &d->link[0];
	double alone;

	*d = (struct weir_machine_desc){
		.name = "tiny", .nr_memories = 2, .nr_devices = 1, .nr_links = 1};
	d->memory[0] = (struct weir_memory_desc){"host", WEIR_MEMORY_HOST, UINT64_C(1) << 30};
	d->memory[1] = (struct weir_memory_desc){"gpu0", WEIR_MEMORY_HBM, UINT64_C(1) << 30};
	*dev = (struct weir_device_desc){.name = "gpu0", .memory = 1};
	dev->hbm_bytes_per_s = random_between(r, reach ? 200e9 : 20e9, 2000e9);
	dev->hbm_random_bytes_per_s = random_between(r, 0.3, 1) * dev->hbm_bytes_per_s;
	dev->ops_per_s = 1e12;
	dev->launch_ns = 100 + random_below(r, reach ? 200 : 2000);
	dev->launch_host_ns = dev->malloc_ns = dev->malloc_2mib_ns = 1000;
	*link = (struct weir_link_desc){.a = 0, .b = 1, .latency_ns = 1000, .copy_ns = 100};
	alone = random_between(r, 10e9, 60e9);
	link->a_to_b_bytes_per_s = alone;
	link->b_to_a_bytes_per_s = random_between(r, 0.7, 1.4) * alone;
	alone = fmin(alone, link->b_to_a_bytes_per_s);
	link->duplex_bytes_per_s = random_between(r, 0.6, 1) * alone;
	link->inplace_bytes_per_s = random_between(r, 0.5, 1) * alone;
	link->inplace_duplex_bytes_per_s = link->inplace_both_bytes_per_s =
		link->duplex_bytes_per_s;
	link->inplace_small_per_s = random_between(r, 100e6, 800e6);
	link->inplace_large_per_s =
		random_between(r, reach ? 0.02 : 0.1, reach ? 0.4 : 1) * link->inplace_small_per_s;
	link->inplace_update_large_per_s = random_between(r, 0.5, 1) * link->inplace_large_per_s;
	link->inplace_reach_bytes = BLOCK * (1 + random_below(r, reach ? 2 : 3)) - BLOCK / 2;
	link->inplace_request_bytes = 128;
	d->vmm = (struct weir_vmm_desc){
		.granularity_bytes = 4096,
		.map_ns = 1,
		.set_access_ns = 1,
		.set_access_device_ns = 1,
		.unmap_ns = 1,
		.create_hbm_ns = 1,
		.create_host_ns = 1,
	};
}

static void random_use(struct random *r, bool reach, const struct test_case *c,
		       struct trace_use *use)
{
	static const uint32_t granules[] = {0, 8, 32, 128, 1024};
	uint32_t life = random_below(r, c->trace.nr_lives);
	uint32_t blocks = (uint32_t)(c->lives[life].bytes / BLOCK);
	uint32_t first = random_below(r, blocks), nr = 1 + random_below(r, blocks - first);

	*use = (struct trace_use){
		.life = life,
		.offset = first * BLOCK,
		.bytes = nr * BLOCK,
		.kind = (enum weir_use_kind)(random_below(r, 8) % 4),
		.pattern = random_below(r, 6) < (reach ? 5 : 2) ? WEIR_RANDOM : WEIR_STREAM,
		.granule = granules[random_below(r, 5)],
	};
	if (random_below(r, 12) == 0)
		use->kind = WEIR_DISCARD;
	else if (use->kind == WEIR_DISCARD)
		use->kind = WEIR_READ;
	if (use->kind == WEIR_READ || use->kind == WEIR_WRITE)
		use->read_bytes = (uint64_t)(random_between(r, 0, 2) * (double)use->bytes);
	if (use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE)
		use->write_bytes = (uint64_t)(random_between(r, 0, 2) * (double)use->bytes);
}

static void random_case(uint64_t seed, struct test_case *c)
{
	struct random r = {.state = seed};
	bool reach = random_below(&r, 3);
	uint32_t lives = 1 + random_below(&r, MAX_LIVES);

	memset(c, 0, sizeof(*c));
	random_machine(&r, reach, &c->desc);
	for (uint32_t i = 0; i < lives && c->nr_blocks < MAX_BLOCKS; i++) {
		uint32_t nr = 1 + random_below(&r, 3);

		if (nr > MAX_BLOCKS - c->nr_blocks)
			nr = MAX_BLOCKS - c->nr_blocks;
		c->first_block[i] = c->nr_blocks;
		c->nr_blocks += nr;
		c->lives[i] = (struct trace_life){
			.bytes = nr * BLOCK,
			.birth = random_below(&r, 2) ? TRACE_NEVER : 0,
			.death = TRACE_NEVER,
		};
		c->trace.nr_lives++;
	}
	c->budget_blocks =
		1 + random_below(&r, reach && c->nr_blocks > 1 ? c->nr_blocks - 1 : MAX_BLOCKS);
	c->trace.nr_steps = 3 + random_below(&r, MAX_STEPS - 2);
	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		struct trace_step *step = &c->steps[s];

		*step = (struct trace_step){.name = "kernel", .first_use = c->trace.nr_uses};
		step->ops = random_below(&r, 3) ? 0 : random_between(&r, 0, 1e8);
		step->nr_uses = 1 + random_below(&r, MAX_USES);
		for (uint32_t u = 0; u < step->nr_uses; u++)
			random_use(&r, reach, c, &c->uses[c->trace.nr_uses++]);
	}
	c->trace.steps = c->steps;
	c->trace.uses = c->uses;
	c->trace.lives = c->lives;
}

/* ------------------------------------------------------------------ brute force */

/* What a launch does to a block, all its uses together. */
struct touch {
	bool used, keeps, writes, discards;
};

struct brute {
	const struct test_case *c;
	struct touch touch[MAX_STEPS][MAX_BLOCKS];
	bool needed[MAX_STEPS][MAX_BLOCKS]; /* contents before a step are needed by it or later */
	double cost[NR_STATES], next[NR_STATES];
};

/* A launch with the pause before it, while a choice is made for each block. */
struct choice {
	uint32_t step;
	double base;		      /* time up to here */
	enum place place[MAX_BLOCKS]; /* when it ends */
	bool away[MAX_BLOCKS];	      /* used in place by the launch */
	double in, out;		      /* bytes copied so far */
	uint32_t held;		      /* blocks of HBM that are taken */
};

static bool use_covers(const struct test_case *c, const struct trace_use *use, uint32_t block)
{
	uint32_t from = c->first_block[use->life] + (uint32_t)(use->offset / BLOCK);

	return block >= from && block < from + use->bytes / BLOCK;
}

static void find_touches(struct brute *b)
{
	const struct test_case *c = b->c;

	for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
		for (uint32_t u = 0; u < c->steps[s].nr_uses; u++) {
			const struct trace_use *use = &c->uses[c->steps[s].first_use + u];

			for (uint32_t i = 0; i < c->nr_blocks; i++) {
				struct touch *t = &b->touch[s][i];

				if (!use_covers(c, use, i))
					continue;
				t->used = true;
				t->keeps |= use->kind == WEIR_READ || use->kind == WEIR_WRITE;
				t->writes |= use->kind == WEIR_WRITE || use->kind == WEIR_OVERWRITE;
				t->discards |= use->kind == WEIR_DISCARD;
			}
		}
	}
}

/* Contents are needed before a step when they exist and the next launch that uses the block keeps
 * them. */
static void find_needs(struct brute *b)
{
	const struct test_case *c = b->c;

	for (uint32_t l = 0; l < c->trace.nr_lives; l++) {
		uint32_t nr = (uint32_t)(c->lives[l].bytes / BLOCK);

		for (uint32_t i = c->first_block[l]; i < c->first_block[l] + nr; i++) {
			bool exists = c->lives[l].birth == TRACE_NEVER;

			for (uint32_t s = 0; s < c->trace.nr_steps; s++) {
				uint32_t t = s;

				while (t < c->trace.nr_steps && !b->touch[t][i].used)
					t++;
				b->needed[s][i] =
					exists && t < c->trace.nr_steps && b->touch[t][i].keeps;
				exists |= b->touch[s][i].writes;
				exists &= !b->touch[s][i].discards;
			}
		}
	}
}

/* Time to move bytes both ways over the link: at once and then the rest, or one after the other. */
static double link_time(const struct weir_link_desc *link, double in, double out)
{
	double in_alone = in / link->a_to_b_bytes_per_s, out_alone = out / link->b_to_a_bytes_per_s;
	double both = fmin(in, out);
	double rest =
		(in - both) / link->a_to_b_bytes_per_s + (out - both) / link->b_to_a_bytes_per_s;

	return fmin(both / link->duplex_bytes_per_s + rest, in_alone + out_alone);
}

/* Rate of a use in place, and by how much whole sectors swell its bytes. */
static double place_rate(const struct weir_link_desc *link, const struct trace_use *use,
			 double away_bytes, double *swell)
{
	double granule = use->granule ? use->granule : 4, moved, rate;
	double reach = (double)link->inplace_reach_bytes, misses_per_s = link->inplace_large_per_s;

	*swell = 1;
	if (use->pattern == WEIR_STREAM)
		return link->inplace_bytes_per_s;
	/* granules are powers of two here: below a sector they move as many bytes as they have, or
	 * up to a sector more when they lie across two */
	moved = granule < 32 ? granule + 32 - granule : granule;
	*swell = moved / granule;
	rate = fmin(link->inplace_bytes_per_s, link->inplace_small_per_s * fmin(moved, 128));
	if (use->read_bytes && use->write_bytes) {
		reach /= 2;
		misses_per_s = link->inplace_update_large_per_s;
	}
	if (away_bytes > reach)
		rate = fmin(rate, misses_per_s * moved * away_bytes / (away_bytes - reach));
	return rate;
}

/* Time of a launch with copies alongside. */
static double launch_time(const struct brute *b, const struct choice *x)
{
	const struct test_case *c = b->c;
	const struct weir_device_desc *dev = &c->desc.device[0];
	const struct weir_link_desc *link = &c->desc.link[0];
	const struct trace_step *step = &c->steps[x->step];
	double hbm = 0, in = 0, out = 0, in_time = 0, out_time = 0, time;

	for (uint32_t u = step->first_use; u < step->first_use + step->nr_uses; u++) {
		const struct trace_use *use = &c->uses[u];
		double swell, away = 0, rate, hbm_rate;

		for (uint32_t i = 0; i < c->nr_blocks; i++)
			away += use_covers(c, use, i) && x->away[i];
		rate = place_rate(link, use, away * (double)BLOCK, &swell);
		away = away * (double)BLOCK / (double)use->bytes;
		hbm_rate = use->pattern == WEIR_STREAM ? dev->hbm_bytes_per_s
						       : dev->hbm_random_bytes_per_s;
		hbm += swell * (double)(use->read_bytes + use->write_bytes) / hbm_rate;
		in += away * swell * (double)use->read_bytes;
		out += away * swell * (double)use->write_bytes;
		in_time += away * swell * (double)use->read_bytes / rate;
		out_time += away * swell * (double)use->write_bytes / rate;
	}
	time = fmax(fmax(hbm, step->ops / dev->ops_per_s), (double)dev->launch_ns * 1e-9);
	time = fmax(time, fmax(in_time, out_time));
	return fmax(time, link_time(link, in + x->in, out + x->out));
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
	const struct touch *t;
	enum place at;

	if (x->held > b->c->budget_blocks)
		return;
	if (i == b->c->nr_blocks) {
		uint32_t state = state_of(x->place, i);

		b->next[state] = fmin(b->next[state], x->base + launch_time(b, x));
		return;
	}
	t = &b->touch[x->step][i];
	at = x->place[i];
	/* on the host: used in place; copied in meanwhile unless it is written */
	if (at == HOST) {
		x->away[i] = t->used;
		choose_launch(b, x, i + 1);
		if (!t->writes) {
			x->place[i] = BOTH;
			x->in += (double)BLOCK;
			x->held++;
			choose_launch(b, x, i + 1);
			x->in -= (double)BLOCK;
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
			x->out += (double)BLOCK;
			choose_launch(b, x, i + 1);
			x->out -= (double)BLOCK;
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

		y.base += link_time(&b->c->desc.link[0], x->in, x->out);
		y.in = y.out = 0;
		choose_launch(b, &y, 0);
		return;
	}
	at = x->place[i];
	for (int to = HOST; to <= GPU; to++) {
		bool needed = b->needed[x->step][i];
		double in = needed && copies_in[at][to] ? (double)BLOCK : 0;
		double out = needed && copies_out[at][to] ? (double)BLOCK : 0;

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
static double brute_force(const struct test_case *c)
{
	struct brute b = {.c = c};
	double best = INFINITY;
	uint32_t nr_states = 1;

	for (uint32_t i = 0; i < c->nr_blocks; i++)
		nr_states *= 3;
	find_touches(&b);
	find_needs(&b);
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

static void test_bound_below_brute_force(void **state)
{
	uint64_t seed = env_u64("WEIR_TEST_SEED", FIRST_SEED),
		 nr = test_amount("WEIR_TEST_CASES", cases);
	uint32_t by_part[3] = {0}, nr_raised = 0;
	uint64_t loosest = seed;
	double sum = 0, raised = 0, least = 1;

	(void)state;
	print_message("seeds %llu to %llu\n", (unsigned long long)seed,
		      (unsigned long long)(seed + nr - 1));
	for (uint64_t i = seed; i < seed + nr; i++) {
		struct bound_result r, reached;
		struct test_case c;
		double best;

		random_case(i, &c);
		assert_int_equal(
			bound_compute(&c.trace, &c.desc, 0, c.budget_blocks * BLOCK, NULL, &r), 0);
		best = brute_force(&c);
		if (!(r.bound_s <= best))
			fail_msg("seed %llu: bound %.17g s exceeds a schedule of %.17g s",
				 (unsigned long long)i, r.bound_s, best);
		assert_true(r.bound_s > 0);
		by_part[r.part]++;
		c.desc.link[0].inplace_reach_bytes = UINT64_C(1) << 30;
		assert_int_equal(bound_compute(&c.trace, &c.desc, 0, c.budget_blocks * BLOCK, NULL,
					       &reached),
				 0);
		if (r.bound_s > reached.bound_s) {
			nr_raised++;
			raised += (r.bound_s - reached.bound_s) / best;
		}
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
	print_message("raised by what misses translation: %u, by %.4f of the best schedule\n",
		      nr_raised, nr_raised ? raised / nr_raised : 0);
	assert_true(nr < 100 || nr_raised > nr / LEAST_RAISED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound_below_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
