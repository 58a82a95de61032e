/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of tiny periods whose best answer is known, or found by trying all levels; folding of
 * loops; and what holds for any plan, on random periods.
 *
 * Long: yes
 */
#include <errno.h>

#include "src/cost/cost.h"
#include "tests/support/amount.h"
#include "tests/unit/test_plan.h"

/* ------------------------------------------------------------------ known answers */

static void test_plan_everything_fits(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a, b;

	(void)state;
	period_init(&p, 16);
	a = add_life(&p, 6);
	b = add_life(&p, 10);
	for (int i = 0; i < 3; i++) {
		add_step(&p, 1000, (uint64_t)i);
		add_use(&p, a, WEIR_READ, 1);
		add_use(&p, b, WEIR_WRITE, 1);
	}
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan->nr_actions, 0);
	assert_true(fabs(plan->modelled_ns - 3000) < 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(level(plan, i, a), 6);
		assert_int_equal(level(plan, i, b), 10);
		assert_int_equal(next_use(plan, i, a), 1);
	}
	plan_destroy(plan);
	plan_destroy(NULL);
}

/* Many ranges in turn, each read once: what does not fit is read in place, nothing goes round. */
static void test_plan_cyclic_scan(void **state)
{
	struct period p;
	struct plan *plan;

	(void)state;
	period_init(&p, 20);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t life = add_life(&p, 5);

		add_step(&p, 100, i);
		add_use(&p, life, WEIR_READ, 1);
	}
	plan = make(&p);
	check_plan(&p, plan);
	/* 40 blocks, 20 fit: at least 20 cross in a period, whatever is done. */
	assert_true(plan->modelled_ns >= 2000 - 1e-6);
	assert_true(plan->modelled_ns <= 2000 * 1.1 + 400);
	plan_destroy(plan);
}

/* The same behind enough computation: it costs nothing. */
static void test_plan_hides_the_link(void **state)
{
	struct period p;
	struct plan *plan;

	(void)state;
	period_init(&p, 20);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t life = add_life(&p, 5);

		add_step(&p, 2000, i);
		add_use(&p, life, WEIR_READ, 1);
	}
	plan = make(&p);
	check_plan(&p, plan);
	assert_true(plan->modelled_ns <= 16000 * 1.01);
	plan_destroy(plan);
}

/* Read many times over in one step: worth a copy, which is hidden behind the step before. */
static void test_plan_fetches_what_is_read_often(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a, b;

	(void)state;
	period_init(&p, 10);
	a = add_life(&p, 10);
	b = add_life(&p, 10);
	/* each long enough to hide its own bytes in place once, not twenty times */
	add_step(&p, 1500, 1);
	add_use(&p, a, WEIR_READ, 20);
	add_step(&p, 1500, 2);
	add_use(&p, b, WEIR_READ, 20);
	plan = make(&p);
	check_plan(&p, plan);
	/* All in place would be 40,000; all copied, nothing hidden, 5,000. */
	assert_true(plan->modelled_ns <= 5000 + 1);
	assert_true(has_move(plan, a, PLAN_FETCH) || has_move(plan, b, PLAN_FETCH));
	plan_destroy(plan);
}

/* Two lives in turn, with room for one: each comes in for its step, unless mapping it takes longer
 * than using it in place, where it is mapped once. */
static void test_plan_counts_mapping_calls(void **state)
{
	(void)state;
	for (int dear = 0; dear < 2; dear++) {
		struct period p;
		struct plan *plan;
		uint32_t a, b;

		period_init(&p, 8);
		p.input.map_ns = p.input.unmap_ns = dear ? 300 : 1;
		p.input.below[0].map_ns = p.input.below[0].unmap_ns = dear ? 300 : 1;
		a = add_life(&p, 8);
		b = add_life(&p, 8);
		add_step(&p, 10, 1);
		add_use(&p, a, WEIR_READ, 3);
		add_step(&p, 10, 2);
		add_use(&p, b, WEIR_READ, 3);
		plan = make(&p);
		check_plan(&p, plan);
		assert_int_equal(has_move(plan, a, PLAN_FETCH) && has_move(plan, b, PLAN_FETCH),
				 !dear);
		assert_true(plan->modelled_ns < (dear ? 4900 : 1700));
		plan_destroy(plan);
	}
}

/* What its next use overwrites is neither copied out nor in. */
static void test_plan_overwritten_is_never_copied(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a, b, x;

	(void)state;
	period_init(&p, 10);
	a = add_life(&p, 8);
	b = add_life(&p, 8);
	x = add_life(&p, 2);
	add_step(&p, 1000, 1);
	add_use(&p, a, WEIR_OVERWRITE, 1);
	add_use(&p, x, WEIR_READ, 1);
	add_step(&p, 1000, 2);
	add_use(&p, b, WEIR_OVERWRITE, 1);
	add_use(&p, x, WEIR_READ, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_false(has_move(plan, a, PLAN_FETCH));
	assert_false(has_move(plan, b, PLAN_FETCH));
	/* At most steps with 4 blocks in place, 400 ns of them beside their 1,000. */
	assert_true(plan->modelled_ns <= 2000 + 1);
	plan_destroy(plan);
}

/* Nor is what comes from nowhere: the first use of a life finds no contents, whatever kind it is.
 */
static void test_plan_fresh_is_never_copied(void **state)
{
	(void)state;
	for (int fresh = 0; fresh < 2; fresh++) {
		struct period p;
		struct plan *plan;
		uint32_t x;

		period_init(&p, 10);
		x = add_life(&p, 2);
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t t = add_temporary(&p, 8, i, i + 1);

			add_step(&p, 1000, i);
			add_use(&p, t, WEIR_WRITE, 4);
			p.use[p.input.nr_uses - 1].fresh = fresh;
			add_use(&p, x, WEIR_READ, 1);
		}
		plan = make(&p);
		check_plan(&p, plan);
		for (uint32_t life = x + 1; life <= x + 2; life++)
			assert_int_equal(has_move(plan, life, PLAN_FETCH), !fresh);
		assert_true(plan->modelled_ns <= 2000 + 1 || !fresh);
		plan_destroy(plan);
	}
}

/*
 * Two lives that are overwritten in turn, with room for one, and between them a step that reads a
 * third one in place for 1,000 ns, all the time or beside computation. What left dirty must be out
 * before the next comes. The time of such a period.
 */
struct beside {
	double inplace_duplex_ns, compute_ns;
	uint32_t nr_blocks;
	bool writes; /* the third one is written instead */
};

static double evict_beside_ns(struct beside b)
{
	struct plan *plan;
	struct period p;
	uint32_t a[2], host;
	double ns;

	period_init(&p, b.nr_blocks);
	p.input.below[0].inplace_duplex_ns = b.inplace_duplex_ns;
	a[0] = add_life(&p, b.nr_blocks);
	a[1] = add_life(&p, b.nr_blocks);
	host = add_life(&p, 10);
	p.life[host].below = true;
	for (uint32_t i = 0; i < 2; i++) {
		add_step(&p, 100, 2 * i);
		add_use(&p, a[i], WEIR_OVERWRITE, 40); /* not in place */
		add_step(&p, b.compute_ns, 2 * i + 1);
		add_use(&p, host, b.writes ? WEIR_OVERWRITE : WEIR_READ, 1);
	}
	plan = make(&p);
	check_plan(&p, plan);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(level(plan, 2 * i, a[i]), b.nr_blocks);
		assert_int_equal(level(plan, 2 * i + 1, host), 0);
		assert_true(has_move(plan, a[i], PLAN_EVICT));
	}
	ns = plan->modelled_ns;
	plan_destroy(plan);
	return ns;
}

/* Copies out have what reading in place leaves of both ways: nothing at twice the time a block, a
 * third at one and a half times; the rest is waited for. */
static void test_plan_reading_in_place_holds_up_copies_out(void **state)
{
	const double alone = 2 * (100 + 1000), beside = 2000;
	const struct {
		struct beside beside;
		double ns;
	} row[] = {
		{{100, 0, 10, false}, alone},
		{{150, 0, 10, false}, alone + 2 * 2000 / 3.0},
		{{200, 0, 10, false}, alone + 2 * 1000},
		{{400, 0, 10, false}, alone + 2 * 1000},
		/* It is never more than what two copies have. */
		{{100, 0, 20, false}, alone + 2 * 1000},
		{{50, 0, 20, false}, alone + 2 * 1000},
		/* Nor less than what is left when reading is over. */
		{{200, 2000, 20, false}, 2 * (100 + beside + 2000 - (beside - 1000))},
		{{400, 2000, 20, false}, 2 * (100 + beside + 2000 - (beside - 1000))},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_true(fabs(evict_beside_ns(row[i].beside) - row[i].ns) < 2);
	/* A kernel that writes in place goes the same way as the copies, which wait anyway. */
	assert_true(fabs(evict_beside_ns((struct beside){100, 0, 10, true}) -
			 evict_beside_ns((struct beside){200, 0, 10, true})) < 1);
}

/* A range that dies leaves nothing to be copied out. */
static void test_plan_dead_costs_nothing(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a, b;

	(void)state;
	period_init(&p, 10);
	a = add_temporary(&p, 10, 0, 2);
	b = add_temporary(&p, 10, 2, 4);
	for (uint32_t i = 0; i < 4; i++) {
		add_step(&p, 1000, i);
		add_use(&p, i < 2 ? a : b, i & 1 ? WEIR_READ : WEIR_OVERWRITE, 10);
	}
	plan = make(&p);
	check_plan(&p, plan);
	assert_true(fabs(plan->modelled_ns - 4000) < 1);
	assert_false(has_move(plan, a, PLAN_FETCH));
	assert_false(has_move(plan, b, PLAN_FETCH));
	assert_int_equal(next_use(plan, 0, a), 1);
	assert_int_equal(next_use(plan, 1, a), UINT32_MAX);
	plan_destroy(plan);
}

static void test_plan_advised_to_the_host(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a;

	(void)state;
	period_init(&p, 10);
	a = add_life(&p, 4);
	p.life[a].below = true;
	add_step(&p, 1000, 1);
	add_use(&p, a, WEIR_READ, 1);
	add_step(&p, 1000, 2);
	add_use(&p, a, WEIR_READ, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(level(plan, 0, a), 0);
	assert_int_equal(level(plan, 1, a), 0);
	assert_false(has_move(plan, a, PLAN_FETCH));
	plan_destroy(plan);
}

static void test_plan_next_use_goes_round(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a, unused;

	(void)state;
	period_init(&p, 10);
	a = add_life(&p, 4);
	unused = add_life(&p, 4);
	for (uint32_t i = 0; i < 5; i++) {
		add_step(&p, 1000, i);
		if (i == 1)
			add_use(&p, a, WEIR_READ, 1);
	}
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan->tracked[unused], PLAN_UNTRACKED);
	assert_int_equal(next_use(plan, 0, a), 1);
	assert_int_equal(next_use(plan, 1, a), 5);
	assert_int_equal(next_use(plan, 2, a), 4);
	assert_int_equal(next_use(plan, 4, a), 2);
	plan_destroy(plan);
}

static void test_plan_of_one_step(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a;

	(void)state;
	period_init(&p, 4);
	a = add_life(&p, 10);
	add_step(&p, 100, 1);
	add_use(&p, a, WEIR_READ, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan->nr_stages, 1);
	/* six blocks in place */
	assert_true(fabs(plan->modelled_ns - 600) <= 6);
	plan_destroy(plan);
}

/* ------------------------------------------------------------------ streams */

enum { PARTS = 16 };

/* A loop that uses a life of 18 blocks whole, and of another one a part in each iteration, so many
 * times over, in that order; with room for 20 blocks. */
static struct plan *plan_loop(struct period *p, const uint32_t *first, uint32_t nr, double times,
			      enum weir_use_kind kind)
{
	uint32_t whole, parts;
	struct plan *plan;

	period_init(p, 20);
	whole = add_life(p, 18);
	parts = add_life(p, PARTS);
	for (uint32_t i = 0; i < PARTS; i++) {
		add_step(p, 200, 1);
		add_use(p, whole, WEIR_READ, 1);
		add_part(p, parts, kind, first[i], nr, times);
	}
	plan = make(p);
	check_plan(p, plan);
	return plan;
}

static bool streams(const struct plan *plan, uint32_t life)
{
	return plan_flow(plan, plan->stage_of_step[0], plan->tracked[life]) == FLOW_THROUGH;
}

/* Parts come and go where they are used one after the other, and use in place costs more. */
static void test_plan_streams(void **state)
{
	static const uint32_t forth[PARTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	static const uint32_t halves[PARTS] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
	static const uint32_t back[PARTS] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
	static const uint32_t same[PARTS] = {0};
	struct period p;
	struct plan *plan;

	(void)state;
	for (int written = 0; written < 2; written++) {
		plan = plan_loop(&p, forth, 1, 8, written ? WEIR_WRITE : WEIR_READ);
		assert_true(streams(plan, 1));
		assert_false(streams(plan, 0));
		assert_int_equal(level(plan, 0, 0), 18);
		assert_int_equal(level(plan, 0, 1), 2);
		assert_int_equal(plan_level_max(plan, plan->tracked[1]), 0);
		assert_false(has_move(plan, 1, PLAN_FETCH));
		/* Each block comes, and goes if it was written, while a step computes for longer.
		 */
		assert_true(plan->modelled_ns <= PARTS * 200 * 1.1);
		plan_destroy(plan);
	}
	plan = plan_loop(&p, halves, 1, 8, WEIR_READ);
	assert_true(streams(plan, 1));
	plan_destroy(plan);
	/* In place a part costs no more than to bring it. */
	plan = plan_loop(&p, forth, 1, 0.25, WEIR_READ);
	assert_false(streams(plan, 1));
	plan_destroy(plan);
	/* Room for two parts is room for all; they go back; there is one. */
	plan = plan_loop(&p, halves, 8, 8, WEIR_READ);
	assert_false(streams(plan, 1));
	plan_destroy(plan);
	plan = plan_loop(&p, back, 1, 8, WEIR_READ);
	assert_false(streams(plan, 1));
	plan_destroy(plan);
	plan = plan_loop(&p, same, 1, 8, WEIR_READ);
	assert_false(streams(plan, 1));
	plan_destroy(plan);
}

/* Whether a life is brought down to so many blocks as a stage begins. */
static bool is_evicted_to(const struct plan *plan, uint32_t life, uint32_t blocks, uint32_t stage)
{
	for (uint32_t a = 0; a < plan->nr_actions; a++)
		if (plan->action[a].life == life && plan->action[a].move == PLAN_EVICT &&
		    plan->action[a].nr_blocks == blocks && plan->action[a].due == stage)
			return true;
	return false;
}

/* Parts come and go in the one loop that has no room for all of them, and are there in the two
 * after it: these are too short for the link. What is there beyond the room for what comes and goes
 * leaves as the first loop begins, whether others need it or not, since the parts come in their
 * order. */
static void test_plan_streams_in_one_loop(void **state)
{
	(void)state;
	for (uint32_t nr_whole = 8; nr_whole <= 18; nr_whole += 10) {
		uint32_t whole, parts;
		struct plan *plan;
		struct period p;

		period_init(&p, 20);
		whole = add_life(&p, nr_whole);
		parts = add_life(&p, PARTS);
		/* This needs the room already, if anything does. */
		add_step(&p, 10, 1);
		add_use(&p, whole, WEIR_OVERWRITE, 1);
		for (uint32_t i = 0; i < 3 * PARTS; i++) {
			add_step(&p, i < PARTS ? 200 : 20, 2 + i / PARTS);
			if (i < PARTS)
				add_use(&p, whole, WEIR_READ, 1);
			add_part(&p, parts, WEIR_READ, i % PARTS, 1, 8);
		}
		plan = make(&p);
		check_plan(&p, plan);
		for (uint32_t loop = 0; loop < 3; loop++) {
			const uint32_t step = 1 + loop * PARTS, stage = plan->stage_of_step[step];

			assert_int_equal(plan_flow(plan, stage, plan->tracked[parts]),
					 loop ? FLOW_NONE : FLOW_THROUGH);
			assert_int_equal(level(plan, step, parts), loop ? PARTS : 2);
		}
		assert_true(has_move(plan, parts, PLAN_FETCH));
		assert_true(
			is_evicted_to(plan, parts, 2, plan->stage_of_step[nr_whole + 2 < PARTS]));
		assert_true(plan->modelled_ns <= 10 + PARTS * (200 + 100 + 2 * 20) * 1.05);
		plan_destroy(plan);
	}
}

/* Three loops over a life, in parts of two blocks; the last part has `rest` blocks less, and is
 * used by a step of another shape. Then another life is used, twice. */
static void come_and_stay_and_go(uint32_t rest)
{
	enum { LATER = 40, BLOCKS = 2 * PARTS };
	const double compute = PARTS * (400 + 40 + 400) + 2 * 40;
	uint32_t parts, later;
	struct plan *plan;
	struct period p;

	period_init(&p, LATER + 4);
	parts = add_life(&p, BLOCKS - rest);
	later = add_life(&p, LATER);
	for (uint32_t i = 0; i < 3 * PARTS; i++) {
		const bool last = rest && i % PARTS == PARTS - 1;

		add_step(&p, i / PARTS == 1 ? 40 : 400, 1 + i / PARTS + 10 * last);
		add_part(&p, parts, WEIR_READ, 2 * (i % PARTS), last ? 2 - rest : 2, 8);
	}
	for (uint32_t i = 0; i < 2; i++) {
		add_step(&p, 40, 4 + i);
		add_use(&p, later, WEIR_READ, 4);
	}
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan_flow(plan, plan->stage_of_step[0], plan->tracked[parts]), FLOW_IN);
	assert_int_equal(plan_flow(plan, plan->stage_of_step[PARTS], plan->tracked[parts]),
			 FLOW_NONE);
	assert_int_equal(plan_flow(plan, plan->stage_of_step[2 * PARTS], plan->tracked[parts]),
			 FLOW_OUT);
	for (uint32_t loop = 0; loop < 3; loop++)
		assert_int_equal(level(plan, loop * PARTS, parts), BLOCKS - rest);
	assert_int_equal(level(plan, 3 * PARTS, later), LATER);
	assert_true(plan->modelled_ns <= compute * 1.02);
	plan_destroy(plan);
}

/*
 * Parts that come in the first of three loops, each ahead of its use, stay in the second one, which
 * is too short for the link, and go in the third one, where what is used behind it takes their room
 * while the loop goes on. Each block comes once, and nothing of that is waited for. So it is where
 * the last part is smaller.
 */
static void test_plan_parts_come_and_stay_and_go(void **state)
{
	(void)state;
	come_and_stay_and_go(0);
	come_and_stay_and_go(1);
}

/* What is written does not go so: it would have to be copied out. Nor does what is used in part. */
static void test_plan_what_cannot_go(void **state)
{
	enum { LATER = 20 };

	(void)state;
	for (uint32_t n = 0; n < 2; n++) {
		uint32_t parts, later;
		struct plan *plan;
		struct period p;

		period_init(&p, LATER + 2);
		parts = add_life(&p, PARTS + n);
		later = add_life(&p, LATER);
		for (uint32_t i = 0; i < 3 * PARTS; i++) {
			add_step(&p, i / PARTS == 1 ? 20 : 200, 1 + i / PARTS);
			add_part(&p, parts, n ? WEIR_READ : WEIR_WRITE, i % PARTS, 1, 8);
		}
		add_step(&p, 20, 4);
		add_use(&p, later, WEIR_READ, 4);
		plan = make(&p);
		check_plan(&p, plan);
		for (uint32_t loop = 0; loop < 3; loop++)
			assert_int_not_equal(plan_flow(plan, plan->stage_of_step[loop * PARTS],
						       plan->tracked[parts]),
					     FLOW_OUT);
		plan_destroy(plan);
	}
}

/* While parts come and go, what is needed after the loop comes into the room that they leave. */
static void test_plan_streams_beside_fetches(void **state)
{
	uint32_t whole, parts, later;
	struct plan *plan;
	struct period p;

	(void)state;
	period_init(&p, 20);
	whole = add_life(&p, 12);
	parts = add_life(&p, PARTS);
	later = add_life(&p, 12);
	for (uint32_t i = 0; i < PARTS; i++) {
		add_step(&p, 200, 1);
		add_use(&p, whole, WEIR_READ, 1);
		add_part(&p, parts, WEIR_READ, i, 1, 8);
	}
	add_step(&p, 20, 2);
	add_use(&p, later, WEIR_READ, 4);
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan->nr_stages, 2);
	assert_true(streams(plan, parts));
	assert_int_equal(level(plan, PARTS, later), 12);
	for (uint32_t a = 0; a < plan->nr_actions; a++)
		if (plan->action[a].life == later && plan->action[a].due != plan->action[a].from)
			assert_int_equal(plan->action[a].nr_blocks, 6);
	plan_destroy(plan);
}

/* ------------------------------------------------------------------ stages */

static void test_plan_folds_a_loop(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a;

	(void)state;
	period_init(&p, 10);
	a = add_life(&p, 4);
	add_step(&p, 100, 1);
	add_use(&p, a, WEIR_READ, 1);
	for (uint32_t i = 0; i < 40; i++) {
		add_step(&p, 100, 7 + (i & 1));
		add_use(&p, a, WEIR_READ, 1);
	}
	add_step(&p, 100, 2);
	add_use(&p, a, WEIR_READ, 1);
	plan = make(&p);
	check_plan(&p, plan);
	assert_int_equal(plan->nr_stages, 3);
	for (uint32_t i = 1; i < 41; i++)
		assert_int_equal(plan->stage_of_step[i], plan->stage_of_step[1]);
	assert_int_not_equal(plan->stage_of_step[0], plan->stage_of_step[1]);
	assert_int_not_equal(plan->stage_of_step[41], plan->stage_of_step[1]);
	assert_true(fabs(plan->modelled_ns - 4200) < 1);
	plan_destroy(plan);
}

/* What follows a loop over parts of 4 blocks: a part, a temporary, or none, and a kind of use. */
struct rest {
	uint32_t first, nr, temporary;
	enum weir_use_kind kind;
	bool is_one; /* it belongs to the loop */
};

enum { WHOLE_PARTS = 8, PART = 4, BODY = 2 };

/* An iteration: a part is read into a temporary, unless that has no blocks; then it is used up. */
static void add_iteration(struct period *p, uint32_t parts, uint64_t shape, const struct rest *rest)
{
	const uint32_t at = p->input.nr_steps, temporary = rest->temporary;
	const uint32_t t = temporary ? add_temporary(p, temporary, at, at + BODY) : 0;

	add_step(p, 100, shape);
	if (temporary)
		add_use(p, t, WEIR_OVERWRITE, 1);
	add_part(p, parts, rest->kind, rest->first, rest->nr, 1);
	add_step(p, 100, shape + 1);
	if (temporary)
		add_use(p, t, WEIR_READ, 1);
	add_part(p, parts, WEIR_READ, rest->first, rest->nr, 1);
}

/* A last iteration that has less to do is one of the loop's, with its temporaries, whether the
 * period ends with it or not. What does more, or as much, or something else, is not. */
static void test_plan_folds_a_smaller_rest(void **state)
{
	static const struct rest rests[] = {
		{32, 1, 1, WEIR_READ, true},	 {32, 3, PART, WEIR_READ, true},
		{32, 4, 2, WEIR_READ, true},	 {32, 1, 0, WEIR_READ, true},
		{32, 4, PART, WEIR_READ, false}, {32, 3, PART + 1, WEIR_READ, false},
		{32, 5, 1, WEIR_READ, false},	 {0, 1, 1, WEIR_READ, false},
		{32, 1, 1, WEIR_WRITE, false},
	};

	(void)state;
	for (uint32_t n = 0; n < 2 * ARRAY_LEN(rests); n++) {
		const struct rest *rest = &rests[n / 2];
		const uint32_t end = BODY * WHOLE_PARTS;
		uint32_t parts, stage;
		struct plan *plan;
		struct period p;

		period_init(&p, 64);
		parts = add_life(&p, 40);
		for (uint32_t i = 0; i < WHOLE_PARTS; i++)
			add_iteration(&p, parts, 1,
				      &(struct rest){PART * i, PART, PART, WEIR_READ, false});
		add_iteration(&p, parts, 3, rest);
		if (n % 2) { /* behind another step; else the period ends with it */
			add_step(&p, 100, 5);
			add_use(&p, parts, WEIR_READ, 1);
		}
		plan = make(&p);
		check_plan(&p, plan);
		stage = plan->stage_of_step[end];
		assert_int_equal(plan->stage_of_step[0] == stage, rest->is_one);
		assert_int_equal(plan->stage_of_step[end + 1] == stage, rest->is_one);
		assert_int_equal(plan->nr_stages, 1 + n % 2 + (rest->is_one ? 0 : BODY));
		if (rest->temporary)
			assert_int_equal(plan->tracked[1] == plan->tracked[1 + WHOLE_PARTS],
					 rest->is_one);
		plan_destroy(plan);
	}
}

/* A loop that the period's edge cuts in two is one stage all the same. */
static void test_plan_rotates_to_keep_a_loop_whole(void **state)
{
	for (uint32_t cut = 0; cut < 24; cut += 3) {
		struct period p;
		struct plan *plan;
		uint32_t a;

		(void)state;
		period_init(&p, 10);
		a = add_life(&p, 4);
		/* 20 steps of a loop, begun `cut` steps before the edge, and 4 others */
		for (uint32_t i = 0; i < 24; i++) {
			uint32_t at = (i + cut) % 24;

			add_step(&p, 100, at < 20 ? 1000 : at);
			add_use(&p, a, WEIR_READ, 1);
		}
		plan = make(&p);
		check_plan(&p, plan);
		assert_int_equal(plan->nr_stages, 5);
		plan_destroy(plan);
	}
}

/* A temporary of a loop's iterations takes room for one of them, not for all. */
static void test_plan_temporaries_of_a_loop(void **state)
{
	struct period p;
	struct plan *plan;
	uint32_t a;

	(void)state;
	period_init(&p, 12);
	a = add_life(&p, 8);
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t t = add_temporary(&p, 4, 2 * i, 2 * i + 2);

		add_step(&p, 100, 1);
		add_use(&p, t, WEIR_OVERWRITE, 1);
		add_use(&p, a, WEIR_READ, 1);
		add_step(&p, 100, 2);
		add_use(&p, t, WEIR_READ, 1);
		add_use(&p, a, WEIR_WRITE, 1);
	}
	plan = make(&p);
	assert_int_equal(plan->nr_stages, 1);
	assert_int_equal(level(plan, 0, a), 8);
	assert_true(fabs(plan->modelled_ns - 2000) < 20);
	plan_destroy(plan);
}

/* ------------------------------------------------------------------ against all levels */

/* The best modelled time over all whole levels. */
static double brute_force(const struct period *p)
{
	struct plan_model *model;
	struct stages stages;
	double best = INFINITY, *levels;
	uint32_t nr;

	assert_int_equal(stages_create(&p->input, &stages), 0);
	assert_int_equal(model_create(&p->input, &stages, &model), 0);
	nr = stages.nr_lives;
	levels = calloc(nr + 1u, sizeof(*levels));
	assert_non_null(levels);
	for (;;) {
		uint32_t i = 0;

		best = fmin(best, model_run(model, levels, INFINITY));
		while (i < nr && levels[i] >= stages.blocks[stages.life[i].life])
			levels[i++] = 0;
		if (i == nr)
			break;
		levels[i]++;
	}
	free(levels);
	model_destroy(model);
	stages_destroy(&stages);
	return best;
}

static void test_plan_is_close_to_the_best(void **state)
{
	struct test_random random = {7};
	double worst = 1, sum = 0;

	(void)state;
	for (int n = 0; n < 60; n++) {
		struct period p;
		struct plan *plan;
		double best;

		random_period(&p, &random, 2 + random_below(&random, 2), 3, 4);
		best = brute_force(&p);
		plan = make(&p);
		check_plan(&p, plan);
		worst = fmax(worst, plan->modelled_ns / fmax(best, 1));
		sum += plan->modelled_ns / fmax(best, 1);
		plan_destroy(plan);
	}
	print_message("mean %.3f, worst %.3f of the best\n", sum / 60, worst);
	assert_true(sum / 60 <= 1.05);
	assert_true(worst <= 1.35);
}

/* Any period at all: the invariants hold, with loops, temporaries and windows in it. */
static void test_plan_random_periods(void **state)
{
	static const struct test_amount periods = {300, 100, 10000};
	const uint64_t nr = test_amount(NULL, periods);
	struct test_random random = {11};

	(void)state;
	for (uint64_t n = 0; n < nr; n++) {
		uint32_t nr_steps = 1 + random_below(&random, 20);
		uint32_t nr_lives = 1 + random_below(&random, 8);
		struct period p;
		struct plan *plan;

		random_period(&p, &random, nr_steps, nr_lives, 30);
		for (uint32_t i = 0; i < nr_steps; i++)
			p.step[i].shape =
				random_below(&random, 3) ? 1 + random_below(&random, 2) : i;
		for (uint32_t l = 0; l < nr_lives; l++) {
			p.life[l].permanent = random_below(&random, 2);
			p.life[l].birth = random_below(&random, nr_steps);
			p.life[l].death = 1 + random_below(&random, nr_steps);
			p.life[l].below = !random_below(&random, 8);
		}
		for (uint32_t u = 0; u < p.input.nr_uses; u++) {
			p.use[u].whole = random_below(&random, 4);
			p.use[u].nr = 1 + random_below(&random, p.life[p.use[u].life].nr_blocks);
			p.use[u].first = u % (p.life[p.use[u].life].nr_blocks - p.use[u].nr + 1);
			p.use[u].at[0].hit = random_below(&random, 4) ? 1 : 0.1;
			p.use[u].at[0].reach_blocks = random_below(&random, 10);
		}
		plan = make(&p);
		check_plan(&p, plan);
		plan_destroy(plan);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_everything_fits),
		cmocka_unit_test(test_plan_cyclic_scan),
		cmocka_unit_test(test_plan_hides_the_link),
		cmocka_unit_test(test_plan_fetches_what_is_read_often),
		cmocka_unit_test(test_plan_counts_mapping_calls),
		cmocka_unit_test(test_plan_overwritten_is_never_copied),
		cmocka_unit_test(test_plan_fresh_is_never_copied),
		cmocka_unit_test(test_plan_reading_in_place_holds_up_copies_out),
		cmocka_unit_test(test_plan_dead_costs_nothing),
		cmocka_unit_test(test_plan_advised_to_the_host),
		cmocka_unit_test(test_plan_next_use_goes_round),
		cmocka_unit_test(test_plan_of_one_step),
		cmocka_unit_test(test_plan_streams),
		cmocka_unit_test(test_plan_streams_in_one_loop),
		cmocka_unit_test(test_plan_parts_come_and_stay_and_go),
		cmocka_unit_test(test_plan_what_cannot_go),
		cmocka_unit_test(test_plan_streams_beside_fetches),
		cmocka_unit_test(test_plan_folds_a_loop),
		cmocka_unit_test(test_plan_folds_a_smaller_rest),
		cmocka_unit_test(test_plan_rotates_to_keep_a_loop_whole),
		cmocka_unit_test(test_plan_temporaries_of_a_loop),
		cmocka_unit_test(test_plan_is_close_to_the_best),
		cmocka_unit_test(test_plan_random_periods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
