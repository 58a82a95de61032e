/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs that go through the parts of ranges in loops, so that these come and go, and do
 * something else now and then: leave a pass early, use a range whole, free it and allocate another,
 * change the budget, prefetch, read it on the CPU. Contents are right throughout, and the space's
 * structures, too.
 *
 * Long: yes
 */
#include <errno.h>

#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
enum { GPU_BLOCKS = 14, HOST_BLOCKS = 160, RANGES = 3, PASSES = 14 };

/* A range, of which each block has a seed of its own. */
struct parts {
	uint8_t *addr;
	uint32_t nr, step;
	uint32_t seed[32];
};

struct program {
	struct test_space t;
	struct test_random random;
	struct parts parts[RANGES];
	uint8_t *whole, *other; /* of so many blocks, and of one */
	uint32_t nr_whole, next_seed;
	bool writes[RANGES];
	bool twice;	      /* a pass has two loops over each range */
	uint32_t nr_streamed; /* passes in which parts came and went, */
	uint32_t nr_stayed;   /* and in which some came to stay, or went without having come */
};

static bool chance(struct program *p, uint32_t percent)
{
	return random_below(&p->random, 100) < percent;
}

static void parts_alloc(struct program *p, struct parts *parts)
{
	parts->nr = 8 + random_below(&p->random, 24);
	parts->step = 1 + random_below(&p->random, 3);
	parts->addr = do_alloc(&p->t, parts->nr * BLOCK, 0);
	for (uint32_t b = 0; b < parts->nr; b++) {
		parts->seed[b] = p->next_seed++;
		do_fill(&p->t, 0, parts->addr + b * BLOCK, BLOCK, parts->seed[b]);
	}
}

/* A bracket of a part: each of its blocks is read, or changed; and all of another range is read. */
static void parts_use(struct program *p, struct parts *parts, uint32_t first, uint32_t nr,
		      bool writes, uint8_t *all)
{
	const enum weir_use_kind kind = writes ? WEIR_WRITE : WEIR_READ;
	const uint32_t nr_all = all == p->whole ? p->nr_whole : 1;
	struct weir_use use[2] = {use_of(parts->addr + first * BLOCK, nr * BLOCK, kind),
				  use_of(all, nr_all * BLOCK, WEIR_READ)};

	use[0].read_bytes *= 32;
	assert_int_equal(weir_begin(p->t.space, p->t.stream[0], use, 2), 0);
	for (uint32_t b = first; b < first + nr; b++) {
		const uint32_t put = writes ? p->next_seed++ : 0;

		do_launch(&p->t, 0, parts->addr + b * BLOCK, BLOCK, kind, parts->seed[b], put);
		parts->seed[b] = writes ? put : parts->seed[b];
	}
	do_launch(&p->t, 0, all, nr_all * BLOCK, WEIR_READ, 1, 0);
	do_end(&p->t, 0);
}

static void parts_read(struct program *p, const struct parts *parts)
{
	for (uint32_t b = 0; b < parts->nr; b++)
		do_read(&p->t, parts->addr + b * BLOCK, BLOCK, parts->seed[b]);
}

/* Something that the loops of other passes do not do. */
static void disturb(struct program *p)
{
	struct parts *parts = &p->parts[random_below(&p->random, RANGES)];
	const uint32_t at = random_below(&p->random, parts->nr);
	int err;

	switch (random_below(&p->random, 6)) {
	case 0:
		do_free(&p->t, parts->addr, 0);
		parts_alloc(p, parts);
		break;
	case 1:
		parts_use(p, parts, 0, parts->nr, chance(p, 50), p->whole);
		break;
	case 2: /* -EBUSY: what is open holds the rest */
		err = weir_space_set_budget(p->t.space, GPU0,
					    (GPU_BLOCKS - random_below(&p->random, 4)) * BLOCK);
		assert_true(!err || err == -EBUSY);
		break;
	case 3:
		err = weir_prefetch(p->t.space, parts->addr + at * BLOCK, (parts->nr - at) * BLOCK,
				    chance(p, 50) ? GPU0 : HOST, NULL);
		assert_true(!err || err == -ENOMEM);
		break;
	case 4:
		parts_read(p, parts);
		break;
	default:
		parts_use(p, parts, at, 1, true, p->other);
	}
}

static void loop(struct program *p, uint32_t r, bool odd, bool writes, uint8_t *all)
{
	struct parts *parts = &p->parts[r];

	for (uint32_t b = 0; b + parts->step <= parts->nr; b += parts->step) {
		parts_use(p, parts, b, parts->step, writes, all);
		if (odd && chance(p, 4))
			disturb(p);
		if (odd && chance(p, 2))
			break;
	}
}

/* Whether the plan has parts that come to stay, or go without having come. */
static bool has_stays(const struct plan *plan)
{
	for (uint32_t v = 0; plan && v < plan->first_visit[plan->nr_tracked]; v++)
		if (plan->visit[v].flow == FLOW_IN || plan->visit[v].flow == FLOW_OUT)
			return true;
	return false;
}

static void pass(struct program *p)
{
	const bool odd = chance(p, 30);

	for (uint32_t r = 0; r < RANGES; r++)
		loop(p, r, odd, p->writes[r], p->whole);
	for (uint32_t r = 0; p->twice && r < RANGES; r++)
		loop(p, r, odd, false, p->other);
	do_check(&p->t);
	p->nr_streamed += p->t.space->residency->planner[0].nr_flowing > 0;
	p->nr_stayed += has_stays(p->t.space->residency->planner[0].plan);
}

/* @return passes in which parts came and went; stayed: those in which some did only one of that */
static uint32_t run(uint32_t seed, uint64_t *stayed)
{
	struct program p = {.random = {seed}, .next_seed = 2};

	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS, HOST_BLOCKS);
	p.nr_whole = 1 + random_below(&p.random, GPU_BLOCKS - 4);
	p.whole = do_alloc(&p.t, p.nr_whole * BLOCK, 0);
	do_fill(&p.t, 0, p.whole, p.nr_whole * BLOCK, 1);
	p.other = do_alloc(&p.t, BLOCK, 0);
	do_fill(&p.t, 0, p.other, BLOCK, 1);
	p.twice = chance(&p, 50);
	for (uint32_t r = 0; r < RANGES; r++) {
		parts_alloc(&p, &p.parts[r]);
		p.writes[r] = chance(&p, 50);
	}
	for (uint32_t n = 0; n < PASSES; n++)
		pass(&p);
	do_sync(&p.t);
	for (uint32_t r = 0; r < RANGES; r++)
		parts_read(&p, &p.parts[r]);
	test_space_close(&p.t);
	*stayed += p.nr_stayed;
	return p.nr_streamed;
}

static void test_window_random(void **state)
{
	static const struct test_amount programs = {8, 3, 2000};
	const uint64_t nr = test_amount(NULL, programs);
	uint64_t nr_streamed = 0, nr_stayed = 0;

	(void)state;
	for (uint32_t n = 0; n < nr; n++)
		nr_streamed += run(1 + n, &nr_stayed);
	assert_true(nr_streamed > nr);
	assert_true(nr_stayed >= nr / 4); /* of three under sanitizers perhaps none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
