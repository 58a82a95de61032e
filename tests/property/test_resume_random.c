/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs that repeat a script in which operations are left out, inserted and changed now
 * and then, with real bytes and tiny budgets: contents are right, the space is whole, and plans are
 * followed again.
 *
 * Takes 2 s of a processor.
 *
 * Timeout: 300
 * Long: yes
 */
#include "tests/support/seeds.h"
#include "tests/support/space.h"

#define BLOCK KIB(16)
#define KEPT 3u	 /* ranges that live for the whole program */
#define SLOTS 7u /* and temporaries */
#define SCRIPT_MAX 64u
#define MANY 10u /* sequences, to say what happened in them */

/* An operation on a slot. On one without a range all but OP_ALLOC do nothing. */
enum op { OP_ALLOC, OP_FREE, OP_FILL, OP_CHANGE, OP_EXPECT, OP_PART, OP_DISCARD, OP_NR };

struct step {
	enum op op;
	uint32_t slot, nr_blocks;
};

struct program {
	struct test_space t;
	struct test_random random;
	uint8_t *range[SLOTS];
	uint32_t nr_blocks[SLOTS];
	uint32_t seed[SLOTS]; /* of its contents; 0: they are not known */
	uint32_t next_seed, nr_steps;
	struct step step[SCRIPT_MAX];
};

static bool tracing;
static uint64_t nr_resumed, nr_plans, nr_divergences;

static uint32_t below(struct program *p, uint32_t n)
{
	return random_below(&p->random, n);
}

static void do_step(struct program *p, const struct step *step)
{
	uint32_t i = step->slot, new = p->next_seed++;
	uint64_t bytes = p->nr_blocks[i] * BLOCK;
	struct test_space *t = &p->t;

	if (step->op == OP_ALLOC ? p->range[i] || i < KEPT : !p->range[i])
		return;
	switch (step->op) {
	case OP_ALLOC:
		p->range[i] = do_alloc(t, step->nr_blocks * BLOCK, 0);
		p->nr_blocks[i] = step->nr_blocks;
		p->seed[i] = 0;
		break;
	case OP_FREE:
		if (i >= KEPT) {
			do_free(t, p->range[i], 0);
			p->range[i] = NULL;
		}
		break;
	case OP_FILL:
		do_fill(t, 0, p->range[i], bytes, p->seed[i] = new);
		break;
	case OP_CHANGE:
		do_change(t, 0, p->range[i], bytes, p->seed[i], new);
		p->seed[i] = new;
		break;
	case OP_EXPECT:
		do_expect(t, 0, p->range[i], bytes, p->seed[i]);
		break;
	case OP_PART:
		do_change(t, 0, p->range[i], BLOCK, p->seed[i], p->seed[i]);
		break;
	case OP_DISCARD:
		if (i >= KEPT) {
			do_discard(t, 0, p->range[i], bytes);
			p->seed[i] = 0;
		}
		break;
	default:
		break;
	}
}

/* live: by slot, whether it has a range; set to what it is then. */
static struct step draw_step(struct program *p, bool live[SLOTS])
{
	struct step step = {.op = (enum op)below(p, OP_NR),
			    .slot = below(p, SLOTS),
			    .nr_blocks = 2 + below(p, 3)};

	if (!live[step.slot])
		step.op = OP_ALLOC;
	else if (step.op == OP_ALLOC || step.slot < KEPT)
		step.op = OP_CHANGE;
	live[step.slot] = step.op != OP_FREE;
	return step;
}

static void insert_steps(struct program *p)
{
	bool live[SLOTS];

	for (uint32_t i = 0; i < SLOTS; i++)
		live[i] = p->range[i];
	for (uint32_t n = 1 + below(p, 6); n; n--) {
		struct step more = draw_step(p, live);

		do_step(p, &more);
	}
}

/* A script that changes at the odds of one in so many steps; 0: it never does. */
static void do_iteration(struct program *p, uint32_t odds)
{
	for (uint32_t i = 0; i < p->nr_steps; i++) {
		struct step step = p->step[i];
		uint32_t what = odds && !below(p, odds) ? below(p, 3) : 3;

		if (what == 0)
			continue;
		if (what == 1)
			step.nr_blocks = 2 + below(p, 3);
		if (what == 2)
			insert_steps(p);
		do_step(p, &step);
	}
	/* What is left over from a free that was left out does not last. */
	for (uint32_t i = KEPT; i < SLOTS; i++)
		do_step(p, &(struct step){.op = OP_FREE, .slot = i});
}

static void run_sequence(uint64_t seed)
{
	struct program p = {.random.state = seed * 0x9e3779b97f4a7c15u, .next_seed = 100};
	bool live[SLOTS] = {true, true, true};
	struct weir_space_stats stats;
	uint32_t odds;

	test_space_open(&p.t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, 6 + below(&p, 8), 40);
	p.nr_steps = SCRIPT_MAX / 2 + below(&p, SCRIPT_MAX / 2);
	for (uint32_t i = 0; i < p.nr_steps; i++)
		p.step[i] = draw_step(&p, live);
	for (uint32_t i = 0; i < KEPT; i++) {
		p.nr_blocks[i] = 2 + below(&p, 3);
		p.range[i] = do_alloc(&p.t, p.nr_blocks[i] * BLOCK, 0);
		do_fill(&p.t, 0, p.range[i], p.nr_blocks[i] * BLOCK, p.seed[i] = 1 + i);
	}
	odds = 8 + below(&p, 200);
	for (test_step = 0; test_step < 14; test_step++) {
		do_iteration(&p, test_step > 4 && test_step % 2 ? odds : 0);
		do_check(&p.t);
	}
	for (uint32_t i = 0; i < KEPT; i++)
		if (p.seed[i])
			do_read(&p.t, p.range[i], p.nr_blocks[i] * BLOCK, p.seed[i]);
	do_sync(&p.t);
	stats = get_stats(&p.t);
	nr_resumed += stats.nr_resumed;
	nr_plans += stats.nr_plans;
	nr_divergences += stats.nr_divergences;
	if (tracing)
		printf("%llu plans, %llu resumed\n", (unsigned long long)stats.nr_plans,
		       (unsigned long long)stats.nr_resumed);
	test_space_close(&p.t);
}

static void test_resume_random_sequences(void **state)
{
	static const struct test_amount sequences = {10, 4, 3000};
	uint32_t nr = test_seeds_run(sequences, &tracing, run_sequence);

	(void)state;
	if (!nr)
		return;
	printf("%llu plans, %llu resumed, %llu dropped\n", (unsigned long long)nr_plans,
	       (unsigned long long)nr_resumed, (unsigned long long)nr_divergences);
	if (nr < MANY)
		return;
	assert_true(nr_resumed > nr);
	assert_true(nr_divergences < nr_resumed);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_resume_random_sequences, test_seeds_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
