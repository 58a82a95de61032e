/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs that go through the parts of ranges in loops, so that these come and go, and do
 * something else now and then: leave a pass early, use a range whole, free it and allocate another,
 * change the budget, prefetch, read it on the CPU, use two parts at once, hold a part open on
 * another stream. In half of the programs the last iteration of a loop has less to do than the
 * others, and each iteration has a temporary of its size. Contents are right throughout, and the
 * space's structures, too; loops with a smaller last iteration are one stage of the plan, there are
 * seldom more parts than it has room for, and temporaries do not get more and more ranges.
 *
 * Long: yes
 */
#include <errno.h>

#include "src/residency/residency.h"
#include "tests/support/amount.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
enum { GPU_BLOCKS = 14, HOST_BLOCKS = 160, HOST_BLOCKS_FEW = 80, RANGES = 3, PASSES = 14 };
/* Ranges that there may be in all, with freed ones of many sizes; 17 at most were seen. */
enum { RANGES_MAX = 40 };

/* A range, of which each block has a seed of its own. */
struct parts {
	uint8_t *addr;
	uint32_t nr, step;
	uint32_t seed[32];
};

/* What programs went through. */
struct seen {
	uint64_t streamed; /* passes in which parts came and went, */
	uint64_t stayed;   /* and in which some came to stay, or went without having come; */
	uint64_t folded;   /* with smaller last iterations, and each of them in its loop's stage */
	uint64_t through;  /* parts that came and went, */
	uint64_t over;	   /* and after which there were more than there is room for */
};

struct program {
	struct test_space t;
	struct test_random random;
	struct parts parts[RANGES];
	uint8_t *whole, *other; /* of so many blocks, and of one */
	uint32_t nr_whole, next_seed;
	bool writes[RANGES];
	bool twice;	     /* a pass has two loops over each range */
	bool rests;	     /* the last iterations are smaller, and all have temporaries, */
	uint32_t times;	     /* which have so many blocks for each of the part */
	bool tiny;	     /* the last ones are less than a block */
	uint8_t *temp;	     /* the one of this iteration, */
	uint64_t temp_bytes; /* and its size; NULL: none */
	struct parts *held;  /* a part of it is held open */
	uint32_t max_ranges; /* that there ever were */
	struct seen *seen;
};

static bool chance(struct program *p, uint32_t percent)
{
	return random_below(&p->random, 100) < percent;
}

static void parts_alloc(struct program *p, struct parts *parts)
{
	parts->nr = 8 + random_below(&p->random, p->rests ? 12 : 24);
	parts->step = p->rests ? 2 + random_below(&p->random, 3) : 1 + random_below(&p->random, 3);
	parts->nr += p->rests && parts->nr % parts->step == 0;
	parts->addr = do_alloc(&p->t, parts->nr * BLOCK, 0);
	for (uint32_t b = 0; b < parts->nr; b++) {
		parts->seed[b] = p->next_seed++;
		do_fill(&p->t, 0, parts->addr + b * BLOCK, BLOCK, parts->seed[b]);
	}
}

/* A bracket of a part: each of its blocks is read, or changed; and all of another range is read.
 * The iteration's temporary is filled. */
static void parts_use(struct program *p, struct parts *parts, uint32_t first, uint32_t nr,
		      bool writes, uint8_t *all)
{
	const enum weir_use_kind kind = writes ? WEIR_WRITE : WEIR_READ;
	const uint32_t nr_all = all == p->whole ? p->nr_whole : 1;
	struct weir_use use[3] = {use_of(parts->addr + first * BLOCK, nr * BLOCK, kind),
				  use_of(all, nr_all * BLOCK, WEIR_READ),
				  use_of(p->temp, p->temp_bytes, WEIR_OVERWRITE)};

	use[0].read_bytes *= 32;
	assert_int_equal(weir_begin(p->t.space, p->t.stream[0], use, p->temp ? 3 : 2), 0);
	for (uint32_t b = first; b < first + nr; b++) {
		const uint32_t put = writes ? p->next_seed++ : 0;

		do_launch(&p->t, 0, parts->addr + b * BLOCK, BLOCK, kind, parts->seed[b], put);
		parts->seed[b] = writes ? put : parts->seed[b];
	}
	do_launch(&p->t, 0, all, nr_all * BLOCK, WEIR_READ, 1, 0);
	if (p->temp)
		do_launch(&p->t, 0, p->temp, p->temp_bytes, WEIR_OVERWRITE, 0, 2);
	do_end(&p->t, 0);
}

/* A bracket of two parts of a range, the later or the earlier one first. */
static void parts_use_two(struct program *p, const struct parts *parts, uint32_t at)
{
	const uint32_t behind = random_below(&p->random, at + 1);
	const bool later = chance(p, 50);
	const uint32_t b[2] = {later ? at : behind, later ? behind : at};
	struct weir_use use[2] = {use_of(parts->addr + b[0] * BLOCK, BLOCK, WEIR_READ),
				  use_of(parts->addr + b[1] * BLOCK, BLOCK, WEIR_READ)};

	assert_int_equal(weir_begin(p->t.space, p->t.stream[0], use, at == behind ? 1 : 2), 0);
	for (uint32_t n = 0; n < 2; n++)
		do_launch(&p->t, 0, parts->addr + b[n] * BLOCK, BLOCK, WEIR_READ, parts->seed[b[n]],
			  0);
	do_end(&p->t, 0);
}

/* Hold a part open on another stream, which does nothing with it; or no longer. */
static void parts_hold(struct program *p, struct parts *parts, uint32_t at)
{
	if (p->held)
		do_end(&p->t, 1);
	else
		do_begin(&p->t, 1, parts->addr + at * BLOCK, BLOCK, WEIR_READ);
	p->held = p->held ? NULL : parts;
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

	switch (random_below(&p->random, 8)) {
	case 0:
		if (parts == p->held)
			break;
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
		if (parts != p->held)
			parts_read(p, parts);
		break;
	case 5:
		parts_use_two(p, parts, at);
		break;
	case 6:
		parts_hold(p, parts, at);
		break;
	default:
		parts_use(p, parts, at, 1, true, p->other);
	}
}

/* Where parts come and go, more of them than the plan has room for take that of others. */
static void note_room(struct program *p, const struct parts *parts)
{
	const struct range *range = range_find(p->t.space, parts->addr);

	if (schedule_flow(range) != FLOW_THROUGH)
		return;
	p->seen->through++;
	p->seen->over += range_nr_resident(range) > schedule_level(range);
}

/* An iteration: a bracket of a part; and with a temporary another one, which reads that. */
static void iterate(struct program *p, struct parts *parts, uint32_t first, uint32_t nr,
		    bool writes, uint8_t *all)
{
	struct weir_use use[2] = {use_of(p->other, BLOCK, WEIR_READ)};

	if (p->rests) {
		p->temp_bytes = nr < parts->step && p->tiny ? BLOCK / 4 : nr * p->times * BLOCK;
		p->temp = do_alloc(&p->t, p->temp_bytes, 0);
	}
	parts_use(p, parts, first, nr, writes, all);
	note_room(p, parts);
	if (!p->rests)
		return;
	use[1] = use_of(p->temp, p->temp_bytes, WEIR_READ);
	assert_int_equal(weir_begin(p->t.space, p->t.stream[0], use, 2), 0);
	do_launch(&p->t, 0, p->other, BLOCK, WEIR_READ, 1, 0);
	do_launch(&p->t, 0, p->temp, p->temp_bytes, WEIR_READ, 2, 0);
	do_end(&p->t, 0);
	do_free(&p->t, p->temp, 0);
	p->temp = NULL;
	p->max_ranges = MAX(p->max_ranges, p->t.space->nr_ranges);
}

static void loop(struct program *p, uint32_t r, bool odd, bool writes, uint8_t *all)
{
	struct parts *parts = &p->parts[r];

	for (uint32_t b = 0; b + (p->rests ? 1 : parts->step) <= parts->nr; b += parts->step) {
		iterate(p, parts, b, MIN(parts->step, parts->nr - b), writes, all);
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

/* Whether each loop is one stage, and has one temporary. */
static bool is_folded(const struct program *p, const struct plan *plan)
{
	const uint32_t nr_loops = p->twice ? 2 * RANGES : RANGES;

	return plan && plan->nr_stages == nr_loops && plan->nr_tracked == 2 + RANGES + nr_loops;
}

static void pass(struct program *p)
{
	const bool odd = chance(p, 30);

	for (uint32_t r = 0; r < RANGES; r++)
		loop(p, r, odd, p->writes[r], p->whole);
	for (uint32_t r = 0; p->twice && r < RANGES; r++)
		loop(p, r, odd, false, p->other);
	if (p->held)
		parts_hold(p, p->held, 0);
	do_check(&p->t);
	p->seen->streamed += p->t.space->residency->planner[0].nr_flowing > 0;
	p->seen->stayed += has_stays(p->t.space->residency->planner[0].plan);
	p->seen->folded += p->rests && is_folded(p, p->t.space->residency->planner[0].plan);
}

static void run(uint32_t seed, struct seen *seen)
{
	struct program p = {.random = {seed}, .next_seed = 2, .rests = seed % 2 != 0, .seen = seen};

	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, GPU_BLOCKS,
			p.rests && chance(&p, 50) ? HOST_BLOCKS_FEW : HOST_BLOCKS);
	p.nr_whole = 1 + random_below(&p.random, GPU_BLOCKS - 4);
	p.whole = do_alloc(&p.t, p.nr_whole * BLOCK, 0);
	do_fill(&p.t, 0, p.whole, p.nr_whole * BLOCK, 1);
	p.other = do_alloc(&p.t, BLOCK, 0);
	do_fill(&p.t, 0, p.other, BLOCK, 1);
	p.twice = chance(&p, 50);
	p.times = 1 + random_below(&p.random, 2);
	p.tiny = chance(&p, 25);
	for (uint32_t r = 0; r < RANGES; r++) {
		parts_alloc(&p, &p.parts[r]);
		p.writes[r] = chance(&p, 50);
	}
	for (uint32_t n = 0; n < PASSES; n++)
		pass(&p);
	do_sync(&p.t);
	for (uint32_t r = 0; r < RANGES; r++)
		parts_read(&p, &p.parts[r]);
	assert_true(p.max_ranges <= RANGES_MAX);
	test_space_close(&p.t);
}

static void test_window_random(void **state)
{
	static const struct test_amount programs = {8, 3, 2000};
	const uint64_t nr = test_amount(NULL, programs);
	struct seen seen = {0};

	(void)state;
	for (uint32_t n = 0; n < nr; n++)
		run(1 + (uint32_t)n, &seen);
	assert_true(seen.streamed > nr);
	assert_true(seen.stayed >= nr / 4); /* of three under sanitizers perhaps none */
	assert_true(seen.folded > nr);
	assert_true(seen.through > 20 * nr && seen.over <= seen.through / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
