/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of recency on a model of a memory: whole ranges, one use after another. What it finds
 * resident is compared with what replacing the range not used for longest does, and with the share
 * that fits.
 */
#include "src/residency/decide.h"
#include "tests/unit/test_sim_machine.h"
#include "workloads/layers/order.h"

#define NR_RANGES 60u
#define RANGE_BLOCKS 16u
#define SEED 7u

struct model_range {
	struct recency_range state;
	bool resident, used;
	uint32_t last, uses; /* as struct past has them */
	uint32_t last_step;
};

struct model {
	struct model_range range[NR_RANGES];
	struct recency memory;
	uint32_t room; /* ranges that fit */
	uint32_t nr_resident, time, step;
};

static struct past past_of(struct model *m, struct model_range *range)
{
	return (struct past){
		.range = &range->state,
		.memory = &m->memory,
		.now = m->time + 1,
		.idle = m->time + 1 - range->last,
		.uses = range->uses,
		.nr_chunks = m->room * RANGE_BLOCKS,
	};
}

static uint64_t rank(struct model *m, struct model_range *range)
{
	const struct give_up q = {.next_use = DECIDE_UNKNOWN,
				  .idle = m->step - range->last_step,
				  .prefer = DECIDE_NOWHERE,
				  .nr_resident = RANGE_BLOCKS,
				  .past = past_of(m, range)};

	return recency_give_up(&q);
}

static struct model_range *victim(struct model *m)
{
	struct model_range *best = NULL;
	uint64_t best_rank = 0;

	for (uint32_t i = 0; i < NR_RANGES; i++) {
		uint64_t is = m->range[i].resident ? rank(m, &m->range[i]) : 0;

		if (is > best_rank) {
			best = &m->range[i];
			best_rank = is;
		}
	}
	return best;
}

static void move(struct model *m, struct model_range *range, bool come)
{
	struct past past = past_of(m, range);

	for (uint32_t i = 0; i < RANGE_BLOCKS; i++)
		recency_moved(&past, come);
	range->resident = come;
	m->nr_resident += come ? 1 : (uint32_t)-1;
}

static bool is_wanted(struct model *m, struct model_range *range)
{
	bool room = m->nr_resident < m->room;
	struct bring_in q = {.nr_blocks = RANGE_BLOCKS,
			     .planned = DECIDE_UNKNOWN,
			     .touches = 1,
			     .kind = WEIR_READ,
			     .prefer = DECIDE_NOWHERE,
			     .nr_unbacked = range->used ? 0 : RANGE_BLOCKS,
			     .nr_away = range->used ? RANGE_BLOCKS : 0,
			     .nr_free = (m->room - m->nr_resident) * RANGE_BLOCKS,
			     .past = past_of(m, range)};

	if (!room)
		q.victim = past_of(m, victim(m));
	return recency_bring_in(&q).level == RANGE_BLOCKS;
}

/* @return whether it was resident. */
static bool use(struct model *m, uint32_t i)
{
	struct model_range *range = &m->range[i];
	bool hit = range->resident;

	if (!hit && is_wanted(m, range)) {
		if (m->nr_resident == m->room)
			move(m, victim(m), false);
		move(m, range, true);
	}
	if (range->used)
		m->time += RANGE_BLOCKS;
	range->used = true;
	range->last = m->time + 1;
	range->last_step = ++m->step;
	range->uses++;
	return hit;
}

/* The same under replacement of what was not used for longest. */
static bool use_replacing(struct model *m, uint32_t i)
{
	struct model_range *oldest = NULL;
	bool hit = m->range[i].resident;

	for (uint32_t r = 0; r < NR_RANGES; r++)
		if (m->range[r].resident && (!oldest || m->range[r].last_step < oldest->last_step))
			oldest = &m->range[r];
	if (!hit && m->nr_resident == m->room)
		oldest->resident = false;
	else if (!hit)
		m->nr_resident++;
	m->range[i].resident = true;
	m->range[i].last_step = ++m->step;
	return hit;
}

/* Uses that find their range resident, of 40 passes after 10 others, by either. */
static void count(enum layers_order order, uint32_t room, double *rule, double *replacing)
{
	static struct model a, b;
	static struct layers_walk walk;
	uint32_t nr = 0, hits = 0, hits_replacing = 0;

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	a.room = b.room = room;
	layers_walk_init(&walk, order, NR_RANGES, SEED);
	for (uint32_t i = 0; i < NR_RANGES; i++) {
		use(&a, i);
		use_replacing(&b, i);
	}
	for (uint32_t pass = 0; pass < 50; pass++) {
		for (uint32_t n = 0; n < NR_RANGES; n++) {
			uint32_t i = layers_walk_next(&walk);
			bool hit = use(&a, i), hit_replacing = use_replacing(&b, i);

			nr += pass >= 10;
			hits += pass >= 10 && hit;
			hits_replacing += pass >= 10 && hit_replacing;
		}
	}
	*rule = (double)hits / nr;
	*replacing = (double)hits_replacing / nr;
	print_message("%s, room for %u: %.3f, replacing %.3f\n", layers_order_name(order), room,
		      *rule, *replacing);
}

/* Walks over more than fits find what fits resident, whatever their order. */
static void test_recency_keeps_what_fits(void **state)
{
	static const enum layers_order orders[] = {LAYERS_CYCLIC, LAYERS_PERMUTED};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		for (uint32_t room = 18; room < NR_RANGES; room += 8) {
			double fits = (double)room / NR_RANGES, rule, replacing;

			count(orders[i], room, &rule, &replacing);
			assert_true(rule > 0.95 * fits);
			assert_true(replacing < rule);
		}
	}
}

/* Where recency tells what comes, or nothing does, it is not lost. */
static void test_recency_replaces(void **state)
{
	static const enum layers_order orders[] = {LAYERS_RANDOM, LAYERS_SKEWED, LAYERS_MOVING};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
		for (uint32_t room = 26; room < NR_RANGES; room += 8) {
			double rule, replacing;

			count(orders[i], room, &rule, &replacing);
			assert_true(rule > replacing - 0.02);
		}
	}
}

/* A part that stays popular is kept from the rest, where it is a good part of the room. */
static void test_recency_keeps_the_popular(void **state)
{
	double rule, replacing;

	(void)state;
	count(LAYERS_SKEWED, 18, &rule, &replacing);
	assert_true(rule > replacing + 0.03);
}

/* ------------------------------------------------------------------ single answers */

/* A range that was used so many times since time 1, last so long ago, in a memory of 100 chunks. */
static struct past past_with(struct recency *memory, struct recency_range *range, uint32_t uses,
			     uint32_t now, uint32_t idle)
{
	range->since = 1;
	return (struct past){.range = range,
			     .memory = memory,
			     .now = now,
			     .idle = idle,
			     .uses = uses,
			     .nr_chunks = 100};
}

static bool is_admitted(struct past past, struct past victim)
{
	struct bring_in q = {.nr_blocks = 10,
			     .touches = 1,
			     .nr_away = 10,
			     .planned = DECIDE_UNKNOWN,
			     .prefer = DECIDE_NOWHERE,
			     .past = past,
			     .victim = victim};

	return recency_bring_in(&q).evict_for_moved;
}

/* Keep: a range comes in for one that is used much less often, or that is out of use. */
static void test_recency_keep_admits(void **state)
{
	struct recency memory = {.trial = 1, .keep = true, .began = 401};
	struct recency_range a = {0}, b = {0};

	(void)state;
	/* Three times as often, with one use to spare on either side, is not enough. */
	assert_false(is_admitted(past_with(&memory, &a, 10, 401, 40),
				 past_with(&memory, &b, 2, 401, 40)));
	assert_true(is_admitted(past_with(&memory, &a, 11, 401, 40),
				past_with(&memory, &b, 2, 401, 40)));
	/* Its next use is late by 8 of the other's intervals. */
	assert_false(is_admitted(past_with(&memory, &a, 11, 401, 40),
				 past_with(&memory, &b, 9, 401, 320)));
	assert_true(is_admitted(past_with(&memory, &a, 11, 401, 40),
				past_with(&memory, &b, 9, 401, 321)));
}

/* Replace: a range comes in, but for one that is used much more often and is not late. */
static void test_recency_replace_admits(void **state)
{
	struct recency memory = {.trial = 1, .began = 401};
	struct recency_range a = {0}, b = {0};

	(void)state;
	assert_true(is_admitted(past_with(&memory, &a, 2, 401, 40),
				past_with(&memory, &b, 10, 401, 40)));
	assert_false(is_admitted(past_with(&memory, &a, 2, 401, 40),
				 past_with(&memory, &b, 11, 401, 40)));
	/* Four of its own intervals. */
	assert_false(is_admitted(past_with(&memory, &a, 2, 401, 40),
				 past_with(&memory, &b, 11, 401, 145)));
	assert_true(is_admitted(past_with(&memory, &a, 2, 401, 40),
				past_with(&memory, &b, 11, 401, 146)));
}

/* What stays takes what is free, but for what first contents took before, twice. */
static void test_recency_leaves_a_reserve(void **state)
{
	struct recency memory = {.trial = 1, .keep = true, .began = 401};
	struct recency_range a = {0}, b = {0};
	struct bring_in q = {.nr_blocks = 40,
			     .nr_resident = 5,
			     .touches = 1,
			     .nr_away = 35,
			     .nr_free = 30,
			     .planned = DECIDE_UNKNOWN,
			     .prefer = DECIDE_NOWHERE,
			     .past = past_with(&memory, &a, 2, 401, 40),
			     .victim = past_with(&memory, &b, 2, 401, 40)};

	(void)state;
	assert_int_equal(recency_bring_in(&q).level, 35);
	q.touches = 0.5;
	assert_int_equal(recency_bring_in(&q).level, 35);
	q.nr_unbacked = 11;
	assert_int_equal(recency_bring_in(&q).level, 40);
	q.nr_unbacked = 0;
	assert_int_equal(recency_bring_in(&q).level, 5 + 30 - 22);
	q.nr_free = 20;
	assert_int_equal(recency_bring_in(&q).level, 5);
	memory.keep = false; /* sparse: where there is room anyway */
	assert_int_equal(recency_bring_in(&q).level, 40);
	assert_false(recency_bring_in(&q).evict_for_moved);
}

/* Keep gives up whom it uses least often, or who is out of use. */
static void test_recency_keep_gives_up(void **state)
{
	struct recency memory = {.trial = 1, .keep = true};
	struct recency_range a = {0}, b = {0};
	struct give_up often = {.past = past_with(&memory, &a, 9, 401, 40)};
	struct give_up seldom = {.past = past_with(&memory, &b, 4, 401, 40)};

	(void)state;
	assert_true(recency_give_up(&often) < recency_give_up(&seldom));
	often.past.idle = 400; /* of 8 times the interval of 40 it is overdue; 80 is the other's */
	assert_true(recency_give_up(&often) < recency_give_up(&seldom));
	often.past.idle = 641;
	assert_true(recency_give_up(&often) > recency_give_up(&seldom));
}

/* A range that came in this trial, and leaves, is no gain for Keep when it is used again. */
static void test_recency_counts_the_trial(void **state)
{
	struct recency memory = {.trial = 3, .began = 401};
	struct recency_range a = {.came = 3, .since = 1}, b = {.came = 2, .since = 1};
	struct past came = past_with(&memory, &a, 2, 401, 40);
	struct past was_there = past_with(&memory, &b, 2, 401, 40);

	(void)state;
	recency_moved(&came, false);
	recency_moved(&was_there, false);
	assert_int_equal(a.left, 0);
	assert_int_equal(b.left, 3);
	(void)is_admitted(came, (struct past){.range = NULL});
	assert_true(memory.balance <= 0);
	(void)is_admitted(was_there, (struct past){.range = NULL});
	assert_int_equal(memory.balance, 10);
	/* Equals: Replace is better by a block of 16 that are used. */
	memory.balance = 0;
	came.now = 401 + 40;
	(void)is_admitted(came, (struct past){.range = NULL});
	assert_int_equal(memory.balance, -2);
	assert_int_equal(memory.began, 401 + 32);
	/* When it has lost by half of the memory, another trial begins. */
	memory.balance = -50;
	(void)is_admitted(came, (struct past){.range = NULL});
	assert_int_equal(memory.trial, 3);
	memory.balance = -51;
	(void)is_admitted(came, (struct past){.range = NULL});
	assert_int_equal(memory.trial, 4);
	assert_int_equal(memory.balance, 0);
}

/* Keep ends where Replace would have found more, and not for the sake of a few blocks. */
static void test_recency_keep_ends(void **state)
{
	struct recency memory = {.trial = 1, .keep = true, .began = 1, .nr_away = 90, .nr_soon = 2};
	struct recency_range a = {0};
	struct past past = past_with(&memory, &a, 2, 101, 100);

	(void)state;
	/* Nothing was resident, and Replace would have had 2 of 100. */
	(void)is_admitted(past, (struct past){.range = NULL});
	assert_true(memory.keep);
	assert_int_equal(memory.nr_soon, 2);
	memory.nr_away = 90;
	memory.nr_soon = 13;
	(void)is_admitted(past, (struct past){.range = NULL});
	assert_false(memory.keep);
	assert_int_equal(memory.trial, 2);
	/* What was long ago counts half. */
	memory = (struct recency){.trial = 1, .keep = true, .began = 1, .nr_away = 195};
	past.now = 1001;
	(void)is_admitted(past, (struct past){.range = NULL});
	assert_true(memory.keep);
	assert_int_equal(memory.nr_away, 102);
	assert_int_equal(memory.began, 501);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recency_keeps_what_fits),
		cmocka_unit_test(test_recency_replaces),
		cmocka_unit_test(test_recency_keeps_the_popular),
		cmocka_unit_test(test_recency_keep_admits),
		cmocka_unit_test(test_recency_replace_admits),
		cmocka_unit_test(test_recency_leaves_a_reserve),
		cmocka_unit_test(test_recency_keep_gives_up),
		cmocka_unit_test(test_recency_counts_the_trial),
		cmocka_unit_test(test_recency_keep_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
