/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in, what goes, where to: each part of decide_default as a table of questions and
 * answers, and that decide_default asks them in turn.
 */
#include "src/residency/decide.h"
#include "tests/unit/test_sim_machine.h"

#define NR_BLOCKS 8u
#define NEIGHBOUR 1 /* places of a space that has three */
#define LAST 2

/* ------------------------------------------------------------------ what comes in */

/* A question about a range of 8 blocks: what the plan says of it (UNPLANNED: none is followed), how
 * often each byte is touched, and where it is advised to stay. */
#define UNPLANNED (-2)
#define UNKNOWN (-1)

struct bring_in_row {
	int planned;
	double touches;
	int prefer;
	bool stays;
	struct brought_in answer;
};

static struct bring_in bring_in_question(const struct bring_in_row *row)
{
	return (struct bring_in){
		.nr_blocks = NR_BLOCKS,
		.planned = row->planned < 0 ? DECIDE_UNKNOWN : (uint32_t)row->planned,
		.follows_plan = row->planned != UNPLANNED,
		.touches = row->touches,
		.kind = WEIR_READ,
		.prefer = row->prefer,
		.stays = row->stays,
	};
}

static void expect_brought_in(const struct brought_in *answer, const struct brought_in *expected)
{
	assert_int_equal(answer->level, expected->level);
	assert_int_equal(answer->evict_for_fresh, expected->evict_for_fresh);
	assert_int_equal(answer->evict_for_moved, expected->evict_for_moved);
}

static void test_decide_recency_bring_in(void **state)
{
	/* Dense is what is touched at least once a byte, on average: others go for it. */
	static const struct bring_in_row rows[] = {
		{UNPLANNED, 1, DECIDE_NOWHERE, false, {NR_BLOCKS, true, true}},
		{UNPLANNED, 20, DECIDE_NOWHERE, false, {NR_BLOCKS, true, true}},
		{UNPLANNED, 0.99, DECIDE_NOWHERE, false, {NR_BLOCKS, false, false}},
		{UNPLANNED, 0, DECIDE_NOWHERE, false, {NR_BLOCKS, false, false}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bring_in q = bring_in_question(&rows[i]);
		struct brought_in answer = recency_bring_in(&q);

		expect_brought_in(&answer, &rows[i].answer);
	}
}

static void test_decide_plan_bring_in(void **state)
{
	/* The plan's level, however dense the use is; others go for first contents alone. */
	static const struct bring_in_row rows[] = {
		{3, 0, DECIDE_NOWHERE, false, {3, true, false}},
		{3, 20, DECIDE_NOWHERE, false, {3, true, false}},
		{0, 20, DECIDE_NOWHERE, false, {0, true, false}},
		{UNKNOWN, 0, DECIDE_NOWHERE, false, {NR_BLOCKS, true, false}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bring_in q = bring_in_question(&rows[i]);
		struct brought_in answer = plan_bring_in(&q);

		expect_brought_in(&answer, &rows[i].answer);
	}
}

static void test_decide_bring_in(void **state)
{
	static const struct bring_in_row rows[] = {
		/* Without advice: the plan while one is followed, else recency. */
		{UNPLANNED, 1, DECIDE_NOWHERE, false, {NR_BLOCKS, true, true}},
		{UNPLANNED, 0.5, DECIDE_NOWHERE, false, {NR_BLOCKS, false, false}},
		{3, 0.5, DECIDE_NOWHERE, false, {3, true, false}},
		{UNKNOWN, 0.5, DECIDE_NOWHERE, false, {NR_BLOCKS, true, false}},
		/* Advice says how much, over both, and leaves who may go for it. */
		{UNPLANNED, 0.5, PLACE_OWN, false, {NR_BLOCKS, false, false}},
		{UNPLANNED, 1, NEIGHBOUR, false, {0, true, true}},
		{UNPLANNED, 1, LAST, false, {0, true, true}},
		{3, 0.5, PLACE_OWN, false, {NR_BLOCKS, true, false}},
		{3, 20, NEIGHBOUR, false, {0, true, false}},
		{3, 20, LAST, false, {0, true, false}},
		/* An arena is in no plan: all of it, unless advice says something else. */
		{3, 0.5, DECIDE_NOWHERE, true, {NR_BLOCKS, true, false}},
		{0, 0.5, PLACE_OWN, true, {NR_BLOCKS, true, false}},
		{UNPLANNED, 1, LAST, true, {0, true, true}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bring_in q = bring_in_question(&rows[i]);
		struct brought_in answer = decide_default.bring_in(&q);

		expect_brought_in(&answer, &rows[i].answer);
	}
}

static void test_decide_advice_bring_in(void **state)
{
	/* No advice changes nothing of what others answered. */
	struct bring_in_row row = {.planned = 3, .prefer = DECIDE_NOWHERE};
	struct brought_in before = {5, false, true}, answer = before;
	struct bring_in q = bring_in_question(&row);

	(void)state;
	advice_bring_in(&q, &answer);
	expect_brought_in(&answer, &before);
	q.prefer = PLACE_OWN;
	advice_bring_in(&q, &answer);
	expect_brought_in(&answer, &(struct brought_in){NR_BLOCKS, false, true});
	q.prefer = LAST;
	advice_bring_in(&q, &answer);
	expect_brought_in(&answer, &(struct brought_in){0, false, true});
}

/* ------------------------------------------------------------------ what goes */

#define NOBODY DECIDE_NOWHERE

/* Two ranges of which the first gives its chunk. */
/* A question about a range of which nothing is known of the past. */
#define ASKED(stages, followed, brackets, goes_clean, stay_at, is_guest)              \
	{                                                                             \
		.next_use = (stages), .follows_plan = (followed), .idle = (brackets), \
		.clean = (goes_clean), .prefer = (stay_at), .guest = (is_guest)       \
	}

struct give_up_row {
	struct give_up first, second;
};

static void expect_order(uint64_t (*give_up)(const struct give_up *q),
			 const struct give_up_row *rows, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		uint64_t first = give_up(&rows[i].first), second = give_up(&rows[i].second);

		if (first <= second)
			fail_msg("row %zu: ranks %llu and %llu", i, (unsigned long long)first,
				 (unsigned long long)second);
		assert_true(second > 0); /* 0: not at all */
	}
}

static void test_decide_recency_give_up(void **state)
{
	/* Who was not used for longest; nothing else counts. */
	static const struct give_up_row rows[] = {
		{ASKED(DECIDE_UNKNOWN, false, 2, false, NOBODY, false),
		 ASKED(DECIDE_UNKNOWN, false, 1, true, NOBODY, false)},
		{ASKED(0, false, 1, false, NOBODY, false),
		 ASKED(9, false, 0, false, NOBODY, false)},
	};

	(void)state;
	expect_order(recency_give_up, rows, ARRAY_LEN(rows));
	expect_order(decide_default.give_up, rows, ARRAY_LEN(rows));
}

static void test_decide_plan_give_up(void **state)
{
	static const struct give_up_row rows[] = {
		/* Who is used farthest ahead, whoever was used last. */
		{ASKED(3, true, 0, false, NOBODY, false), ASKED(2, true, 9, true, NOBODY, false)},
		{ASKED(1, true, 0, false, NOBODY, false), ASKED(0, true, 9, true, NOBODY, false)},
		{ASKED(DECIDE_UNKNOWN, true, 0, false, NOBODY, false),
		 ASKED(DECIDE_UNKNOWN - 1, true, 9, true, NOBODY, false)},
		/* Of equals, who goes without a copy. */
		{ASKED(3, true, 0, true, NOBODY, false), ASKED(3, true, 9, false, NOBODY, false)},
	};

	(void)state;
	expect_order(plan_give_up, rows, ARRAY_LEN(rows));
	expect_order(decide_default.give_up, rows, ARRAY_LEN(rows));
}

static void test_decide_advice_give_up(void **state)
{
	static const struct give_up_row rows[] = {
		/* What is to be elsewhere goes first, of these the one not used for longest. */
		{ASKED(0, false, 0, false, LAST, false),
		 ASKED(0, false, 1u << 30, false, NOBODY, false)},
		{ASKED(0, false, 0, false, NEIGHBOUR, false),
		 ASKED(0, false, 1u << 30, false, NOBODY, false)},
		{ASKED(0, false, 2, false, NEIGHBOUR, false),
		 ASKED(0, false, 1, false, LAST, false)},
		/* What is to stay goes last. */
		{ASKED(0, false, 0, false, NOBODY, false),
		 ASKED(0, false, 1u << 30, true, PLACE_OWN, false)},
	};
	/* A plan was made with the advice: it says who goes. */
	static const struct give_up_row planned[] = {
		{ASKED(2, true, 0, false, PLACE_OWN, false), ASKED(1, true, 9, false, LAST, false)},
		/* But who is where no device uses it goes before all that. */
		{ASKED(0, true, 0, false, NOBODY, true), ASKED(9, true, 9, true, NOBODY, false)},
		{ASKED(0, false, 0, false, NOBODY, true),
		 ASKED(9, false, 1u << 30, true, NOBODY, false)},
	};
	uint64_t rank = 77;

	(void)state;
	expect_order(decide_default.give_up, rows, ARRAY_LEN(rows));
	expect_order(decide_default.give_up, planned, ARRAY_LEN(planned));
	assert_false(advice_give_up(&rows[0].second, &rank));
	assert_int_equal(rank, 77);
	assert_true(advice_give_up(&rows[0].first, &rank));
	assert_int_not_equal(rank, 77);
}

/* ------------------------------------------------------------------ where to */

struct evict_to_row {
	place_t from;
	uint32_t nr_places;
	int prefer;
	uint64_t room[4];
	place_t to;
};

static struct evict_to evict_to_question(const struct evict_to_row *row)
{
	struct evict_to q = {.from = row->from,
			     .nr_places = row->nr_places,
			     .prefer = row->prefer,
			     .planned_last = DECIDE_UNKNOWN};

	memcpy(q.room, row->room, sizeof(row->room));
	return q;
}

static void test_decide_recency_evict_to(void **state)
{
	/* The nearest place with room; the last one whether it has any or not. */
	static const struct evict_to_row rows[] = {
		{0, 2, NOBODY, {9, 5}, 1},	 {0, 2, NOBODY, {9, 0}, 1},
		{0, 3, NOBODY, {0, 1, 9}, 1},	 {0, 3, NOBODY, {9, 0, 9}, 2},
		{0, 3, NOBODY, {0, 0, 0}, 2},	 {1, 3, NOBODY, {9, 9, 9}, 2},
		{0, 4, NOBODY, {0, 0, 1, 9}, 2}, {1, 4, NOBODY, {0, 9, 0, 9}, 3},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct evict_to q = evict_to_question(&rows[i]);

		assert_int_equal(recency_evict_to(&q), rows[i].to);
		assert_int_equal(decide_default.evict_to(&q), rows[i].to);
	}
}

/* Blocks that the plan wants at the last place, of them there, of the range nowhere yet; and where
 * to. Neighbours get the others even if they have no free chunk: who asks looks for others. */
static void test_decide_plan_evict_to(void **state)
{
	static const struct {
		struct evict_to_row row;
		uint32_t planned_last, nr_last, nr_unbacked;
	} rows[] = {
		{{0, 3, NOBODY, {0, 9, 9}, 2}, 4, 3, 0},
		{{0, 3, NOBODY, {0, 9, 9}, 1}, 4, 4, 0},
		{{0, 3, NOBODY, {0, 0, 9}, 1}, 4, 4, 0},
		{{0, 3, NOBODY, {0, 0, 0}, 1}, 0, 0, 0},
		{{0, 3, NOBODY, {0, 9, 9}, 1}, 4, 3, 2},
		{{0, 3, NOBODY, {0, 0, 9}, 1}, 4, 3, 2},
		{{0, 3, NOBODY, {0, 9, 9}, 2}, 4, 3, 1},
		{{0, 4, NOBODY, {0, 0, 3, 9}, 2}, 0, 9, 0},
		{{0, 4, NOBODY, {0, 0, 0, 9}, 1}, 0, 9, 0},
		{{1, 3, NOBODY, {9, 9, 0}, 2}, 0, 9, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct evict_to q = evict_to_question(&rows[i].row);
		place_t to = 77;

		assert_false(plan_evict_to(&q, &to));
		assert_int_equal(to, 77);
		q.planned_last = rows[i].planned_last;
		q.nr_last = rows[i].nr_last;
		q.nr_unbacked = rows[i].nr_unbacked;
		assert_int_equal(decide_default.evict_to(&q), rows[i].row.to);
	}
}

/* Of neighbours the one that the plan wants it at, if that has room; the host's blocks go there. */
static void test_decide_plan_evict_to_a_neighbour(void **state)
{
	struct evict_to q = {.nr_places = 4, .prefer = NOBODY, .near = 2, .room = {0, 9, 1, 9}};

	(void)state;
	assert_int_equal(decide_default.evict_to(&q), 2);
	q.room[2] = 0;
	assert_int_equal(decide_default.evict_to(&q), 1);
	q.room[2] = 9;
	q.planned_last = 1;
	assert_int_equal(decide_default.evict_to(&q), 3);
}

static void test_decide_advice_evict_to(void **state)
{
	static const struct evict_to_row rows[] = {
		/* Where it is to stay, whatever room there is: who asks looks further. */
		{0, 3, 1, {0, 0, 9}, 1},
		{0, 3, 2, {0, 9, 0}, 2},
		{0, 4, 2, {0, 9, 9, 9}, 2},
		{1, 4, 3, {0, 0, 9, 9}, 3},
		/* Not where it would not leave, or would go up: the nearest one below. */
		{0, 3, PLACE_OWN, {9, 9, 9}, 1},
		{1, 4, 1, {9, 9, 9, 9}, 2},
		{1, 4, PLACE_OWN, {9, 9, 0, 9}, 3},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct evict_to q = evict_to_question(&rows[i]);
		place_t to = 77;

		assert_int_equal(advice_evict_to(&q, &to), rows[i].prefer > rows[i].from);
		assert_int_equal(to, rows[i].prefer > rows[i].from ? rows[i].to : 77);
		assert_int_equal(decide_default.evict_to(&q), rows[i].to);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decide_recency_bring_in),
		cmocka_unit_test(test_decide_plan_bring_in),
		cmocka_unit_test(test_decide_advice_bring_in),
		cmocka_unit_test(test_decide_bring_in),
		cmocka_unit_test(test_decide_recency_give_up),
		cmocka_unit_test(test_decide_plan_give_up),
		cmocka_unit_test(test_decide_advice_give_up),
		cmocka_unit_test(test_decide_recency_evict_to),
		cmocka_unit_test(test_decide_plan_evict_to),
		cmocka_unit_test(test_decide_plan_evict_to_a_neighbour),
		cmocka_unit_test(test_decide_advice_evict_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
