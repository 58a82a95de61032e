/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that a thread makes while the program goes on: what is followed meanwhile, what is followed
 * once a plan is there, and what becomes of one that nobody wants any more. Here the test is that
 * thread, or gives what it has to do to one; or it is the simulator's, and takes virtual time.
 *
 * Labels: threads
 */
#include <errno.h>
#include <pthread.h>

#include "src/residency/residency.h"
#include "tests/support/driver.h"
#include "tests/support/space.h"
#include "weir/explain.h"

#define BLOCK KIB(16)
#define NR 8
/* Of ranges of three blocks each, of a temporary of two, and the budgets. */
enum { BLOCKS = 3, TEMPORARY = 2, OWN_BLOCKS = 14, HOST_BLOCKS = 40 };

/* What was given to the backend to be done aside. */
static struct {
	struct backend_ops ops;
	uint64_t (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
	uint32_t nr;  /* times that something was, */
	bool refuses; /* or would have been */
	pthread_t thread;
	bool threads, runs; /* a thread does it at once; it has not been joined */
} given;

/* Do what was given last, unless that was done. */
static void do_given(void)
{
	uint64_t (*run)(void *arg) = given.run;

	given.run = NULL;
	if (!run)
		return;
	(void)run(given.arg);
	given.done(given.arg);
}

static void *call_given(void *unused)
{
	(void)unused;
	do_given();
	return NULL;
}

static void join_given(void)
{
	if (given.runs)
		assert_int_equal(pthread_join(given.thread, NULL), 0);
	given.runs = false;
}

static int give(struct backend *b, uint64_t (*run)(void *arg), void (*done)(void *arg), void *arg)
{
	(void)b;
	if (given.refuses)
		return -EAGAIN;
	join_given();
	do_given(); /* in order */
	given.run = run;
	given.done = done;
	given.arg = arg;
	given.nr++;
	if (!given.threads)
		return 0;
	given.runs = true;
	return pthread_create(&given.thread, NULL, call_given, NULL);
}

static const struct planner *planner(const struct test_space *t)
{
	return &t->space->residency->planner[0];
}

struct program {
	struct test_space t;
	void *range[NR];
	uint32_t seed[NR]; /* of their contents */
	uint32_t nr;	   /* iterations */
};

static void program_begin(struct program *p)
{
	*p = (struct program){.nr = 0};
	test_space_open(&p->t, WEIR_DATA_REAL, WEIR_PLANNED, BLOCK, OWN_BLOCKS, HOST_BLOCKS);
	for (uint32_t i = 0; i < NR; i++) {
		p->range[i] = do_alloc(&p->t, BLOCKS * BLOCK, 0);
		p->seed[i] = 1 + i;
		do_fill(&p->t, 0, p->range[i], BLOCKS * BLOCK, p->seed[i]);
	}
}

static void program_open(struct program *p, bool threads)
{
	program_begin(p);
	given.ops = *p->t.space->backend->ops;
	given.ops.aside = give;
	given.nr = 0;
	given.refuses = false;
	given.threads = threads;
	p->t.space->backend->ops = &given.ops;
}

/* On a simulated machine whose plans take so long for each unit of work. */
static void program_open_timed(struct program *p, uint64_t plan_work_ns)
{
	test_plan_work_ns = plan_work_ns;
	program_begin(p);
	test_plan_work_ns = 0;
	given.run = NULL;
}

static void program_close(struct program *p)
{
	test_space_close(&p->t);
	join_given();
	do_given(); /* the space is gone */
}

/* One range is changed, with a temporary that lives meanwhile. */
static void change(struct program *p, uint32_t i)
{
	void *temporary = do_alloc(&p->t, TEMPORARY * BLOCK, 0);
	uint32_t put = 10 + NR * p->nr + i;

	do_fill(&p->t, 0, temporary, TEMPORARY * BLOCK, put);
	do_change(&p->t, 0, p->range[i], BLOCKS * BLOCK, p->seed[i], put);
	p->seed[i] = put;
	do_expect(&p->t, 0, temporary, TEMPORARY * BLOCK, put);
	do_free(&p->t, temporary, 0);
	do_check(&p->t);
}

/* The n-th change of many iterations. */
static void change_nth(struct program *p, uint32_t n)
{
	change(p, n % NR);
	p->nr += n % NR == NR - 1;
}

static void iterate(struct program *p)
{
	for (uint32_t i = 0; i < NR; i++)
		change(p, i);
	p->nr++;
}

/* Until a plan is being made. */
static void iterate_until_given(struct program *p)
{
	const uint32_t before = given.nr;

	for (uint32_t n = 0; given.nr == before; n++) {
		assert_true(n < 20);
		iterate(p);
	}
}

/* Blocks that an iteration copies either way, as it settles. */
static uint64_t settled_copies(struct program *p)
{
	uint64_t before = 0, after = 0;

	for (uint32_t n = 0; n < 12; n++) {
		struct weir_space_stats stats;

		iterate(p);
		do_sync(&p->t);
		stats = get_stats(&p->t);
		before = after;
		after = get_copied(&p->t, &stats, BACKEND_TO_DEVICE) +
			get_copied(&p->t, &stats, BACKEND_TO_HOST);
	}
	return (after - before) / BLOCK;
}

/* A plan is followed when it is there, from the middle of an iteration on, and the next one is
 * asked for when a whole period went by under it. In the end as much is copied as if the program
 * had waited for both. */
static void test_space_aside_is_followed_once_it_is_there(void **state)
{
	struct program waits, p;
	uint64_t copies;

	(void)state;
	program_open(&waits, false);
	given.refuses = true;
	copies = settled_copies(&waits);
	assert_true(get_stats(&waits.t).nr_plans >= 2);
	program_close(&waits);

	program_open(&p, false);
	iterate_until_given(&p);
	for (uint32_t n = 0; n < 5; n++)
		iterate(&p);
	assert_int_equal(given.nr, 1);
	assert_int_equal(get_stats(&p.t).nr_plans, 0);
	assert_null(planner(&p.t)->plan);
	change(&p, 0);
	do_given();
	assert_int_equal(get_stats(&p.t).nr_plans, 0);
	change(&p, 1);
	assert_int_equal(get_stats(&p.t).nr_plans, 1);
	assert_non_null(planner(&p.t)->plan);
	change(&p, 2);
	p.nr++;
	assert_int_equal(given.nr, 1); /* no whole period went by */
	iterate_until_given(&p);
	iterate(&p);
	assert_int_equal(get_stats(&p.t).nr_plans, 1);
	do_given();
	iterate(&p);
	assert_int_equal(get_stats(&p.t).nr_plans, 2);
	assert_int_equal(settled_copies(&p), copies);
	assert_true(given.nr >= 2);
	assert_int_equal(get_stats(&p.t).nr_divergences, 0);
	program_close(&p);
}

/* What was allocated while the plan was made is a life of it all the same. */
static void test_space_aside_knows_what_was_allocated_meanwhile(void **state)
{
	const struct range *range;
	struct program p;
	void *temporary;

	(void)state;
	program_open(&p, false);
	iterate_until_given(&p);
	iterate(&p);
	temporary = do_alloc(&p.t, TEMPORARY * BLOCK, 0);
	do_given();
	do_fill(&p.t, 0, temporary, TEMPORARY * BLOCK, 7);
	assert_non_null(planner(&p.t)->plan);
	range = range_find(p.t.space, temporary);
	assert_true(range->residency->plan_life >= 0);
	assert_ptr_equal(planner(&p.t)->life[range->residency->plan_life], range);
	for (uint32_t i = 0; i < NR; i++)
		assert_true(range_find(p.t.space, p.range[i])->residency->plan_life >= 0);
	program_close(&p);
}

/* The program does something else: nobody follows the plan, whenever it is there. */
static void test_space_aside_is_forgotten_when_the_program_does_something_else(void **state)
{
	struct program p;

	(void)state;
	for (uint32_t done = 0; done < 2; done++) {
		program_open(&p, false);
		iterate_until_given(&p);
		if (done)
			do_given();
		for (uint32_t n = 0; n < 30 && planner(&p.t)->job; n++)
			do_expect(&p.t, 0, p.range[n * n % NR], (1 + n % BLOCKS) * BLOCK,
				  p.seed[n * n % NR]);
		assert_null(planner(&p.t)->job);
		if (!done)
			do_given();
		assert_null(planner(&p.t)->plan);
		assert_int_equal(get_stats(&p.t).nr_plans, 0);
		program_close(&p);
	}
}

/* It does so once, and goes on: the plan is followed, if it is there by then or comes later. */
static void test_space_aside_outlives_an_odd_bracket(void **state)
{
	struct program p;

	(void)state;
	for (uint32_t later = 0; later < 2; later++) {
		program_open(&p, false);
		iterate_until_given(&p);
		iterate(&p);
		iterate(&p);
		do_expect(&p.t, 0, p.range[1], BLOCK, p.seed[1]);
		if (!later)
			do_given();
		iterate(&p);
		iterate(&p);
		if (later) {
			assert_null(planner(&p.t)->plan);
			do_given();
			iterate(&p);
		}
		assert_non_null(planner(&p.t)->plan);
		assert_int_equal(get_stats(&p.t).nr_plans, 1);
		assert_int_equal(get_stats(&p.t).nr_divergences, 0);
		iterate(&p);
		program_close(&p);
	}
}

/* A budget changes, or the space goes: the plan was for another one. */
static void test_space_aside_is_no_plan_for_another_budget(void **state)
{
	struct program p;

	(void)state;
	program_open(&p, false);
	iterate_until_given(&p);
	assert_int_equal(weir_space_set_budget(p.t.space, p.t.desc.device[0].memory,
					       (OWN_BLOCKS + 2) * BLOCK),
			 0);
	assert_null(planner(&p.t)->job);
	do_given();
	iterate_until_given(&p);
	program_close(&p);
}

/* What is freed while an open bracket names it is no life of a plan that begins then. */
static void test_space_aside_does_not_know_what_was_freed_within_a_bracket(void **state)
{
	struct program p;
	bool begun = false;

	(void)state;
	program_open(&p, false);
	for (uint32_t n = 0; n < 20 * NR; n++) {
		void *temporary = do_alloc(&p.t, TEMPORARY * BLOCK, 0);
		const struct range *range = range_find(p.t.space, temporary);

		do_begin(&p.t, 1, temporary, TEMPORARY * BLOCK, WEIR_WRITE);
		do_free(&p.t, temporary, 0);
		if (given.run) {
			do_given();
			begun = true;
		}
		do_expect(&p.t, 0, p.range[n % NR], BLOCKS * BLOCK, p.seed[n % NR]);
		assert_true(range->free_pending);
		assert_int_equal(range->residency->plan_life, -1);
		do_end(&p.t, 1);
		for (uint32_t l = 0; planner(&p.t)->plan && l < planner(&p.t)->nr_lives; l++)
			assert_true(!planner(&p.t)->life[l] || !planner(&p.t)->life[l]->pooled);
		do_check(&p.t);
	}
	assert_true(begun);
	program_close(&p);
}

/* The plan has allocations, and brackets, where the last period has them. */
static void plan_is_of_the_period(const struct planner *p)
{
	const struct record *record = &p->record;

	for (uint64_t n = record->next_event - record->period; n < record->next_event; n++) {
		const struct event *event = record_event(record, n);
		uint64_t period, k = schedule_position(p, event->place, &period);

		assert_int_equal(p->life_of_event[k] != UINT32_MAX, event->kind == EVENT_ALLOC);
		if (event->kind == EVENT_BEGIN)
			assert_true(p->step_of_event[k] < p->plan->nr_steps);
	}
}

/* The first plan begins behind so many changes of an iteration, and so many changes later there is
 * a bracket that differs; 0: there is none. */
static void begin_and_differ(uint32_t first, uint32_t at)
{
	struct program p;
	uint32_t i = 0, begun;

	program_open(&p, false);
	iterate_until_given(&p);
	iterate(&p); /* a repetition is suspended if a period of it was followed */
	while (i < first)
		change(&p, i++);
	do_given();
	begun = i;
	while (given.nr == 1) {
		assert_true(i < 5 * NR);
		if (at && i == begun + at)
			do_expect(&p.t, 0, p.range[1], BLOCK, p.seed[1]);
		change_nth(&p, i++);
	}
	if (!at)
		assert_int_equal(i, begun + 2 * NR + 1); /* it began within that change */
	do_given();
	for (uint32_t n = 0; n < 2 * NR; n++)
		change_nth(&p, i++);
	assert_int_equal(planner(&p.t)->nr_plans_made, 2);
	assert_int_equal(planner(&p.t)->plan->nr_steps, 3 * NR);
	plan_is_of_the_period(planner(&p.t));
	assert_int_equal(get_stats(&p.t).nr_divergences, 0);
	program_close(&p);
}

static void test_space_aside_makes_no_plan_of_an_odd_bracket(void **state)
{
	(void)state;
	for (uint32_t first = 0; first < NR; first++)
		for (uint32_t at = 0; at < NR; at++)
			begin_and_differ(first, at);
}

/* Periods whose plan is being made, or was for another budget, are not held against the repetition:
 * later plans are made without haste. */
static void test_space_aside_is_not_in_vain(void **state)
{
	struct program p;

	(void)state;
	program_open(&p, false);
	for (uint32_t n = 0; n < 4; n++) {
		iterate_until_given(&p);
		assert_int_equal(weir_space_set_budget(p.t.space, p.t.desc.device[0].memory,
						       (OWN_BLOCKS + 1 - n % 2) * BLOCK),
				 0);
		assert_int_equal(planner(&p.t)->nr_unproven, 0);
	}
	iterate_until_given(&p);
	iterate(&p);
	iterate(&p);
	assert_int_equal(planner(&p.t)->nr_unproven, 0);
	program_close(&p);
}

/* Nothing is given away where that is not asked for, nor plans of guesses. */
static void test_space_aside_is_not_for_all(void **state)
{
	struct program p;

	(void)state;
	for (uint32_t guesses = 0; guesses < 2; guesses++) {
		program_open(&p, false);
		p.t.space->residency->aside = guesses;
		p.t.space->residency->planner[0].record.guessed = guesses;
		for (uint32_t n = 0; n < 10; n++)
			iterate(&p);
		assert_int_equal(given.nr, 0);
		assert_true(get_stats(&p.t).nr_plans > 0);
		program_close(&p);
	}
}

static void expect_explained(struct program *p, const char *text)
{
	char got[4096] = "";
	FILE *file = tmpfile();

	assert_non_null(file);
	assert_int_equal(weir_space_explain(p->t.space, file), 0);
	rewind(file);
	(void)fread(got, 1, sizeof(got) - 1, file);
	assert_int_equal(fclose(file), 0);
	assert_non_null(strstr(got, text));
}

/* The text says that a plan is being made. */
static void test_space_aside_is_explained(void **state)
{
	struct program p;

	(void)state;
	program_open(&p, false);
	iterate_until_given(&p);
	expect_explained(&p, "no plan yet: it is being made");
	do_given();
	iterate(&p);
	expect_explained(&p, "a plan of");
	program_close(&p);
}

/* A thread makes them, and the program changes its ways again and again. */
static void test_space_aside_by_a_thread(void **state)
{
	struct program p;

	(void)state;
	program_open(&p, true);
	for (uint32_t n = 0; n < 12; n++) {
		for (uint32_t i = 0; i < 3 + n; i++)
			iterate(&p);
		if (n % 3 == 0)
			do_expect(&p.t, 0, p.range[n % NR], BLOCK, p.seed[n % NR]);
		if (n % 4 == 1)
			assert_int_equal(weir_space_set_budget(p.t.space, p.t.desc.device[0].memory,
							       (OWN_BLOCKS + n % 2) * BLOCK),
					 0);
	}
	assert_true(given.nr > 0);
	program_close(&p);
}

/* ------------------------------------------------------------------ in virtual time */

static uint64_t now_ns(const struct program *p)
{
	return p->t.backend->ops->now_ns(p->t.backend);
}

/* Until a plan is being made: the change within which that began. @return the time before it. */
static uint64_t change_until_asked(struct program *p, uint32_t *n)
{
	uint64_t before;

	do {
		assert_true(*n < 40 * NR);
		before = now_ns(p);
		change_nth(p, (*n)++);
	} while (!planner(&p->t)->job);
	return before;
}

/* A plan is followed from the first event on that comes when its time is over: not before, and no
 * more than a change later. */
static void test_space_aside_takes_virtual_time(void **state)
{
	uint32_t waited = 0;

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	for (uint64_t unit_ns = 1; unit_ns <= 4; unit_ns *= 2) {
		uint64_t first, last, before, took;
		struct program p;
		uint32_t n = 0;

		program_open_timed(&p, unit_ns);
		first = change_until_asked(&p, &n);
		last = before = now_ns(&p);
		while (planner(&p.t)->job) {
			assert_int_equal(get_stats(&p.t).nr_plans, 0);
			before = now_ns(&p);
			change_nth(&p, n++);
			waited++;
		}
		assert_int_equal(get_stats(&p.t).nr_plans, 1);
		took = planner(&p.t)->plan->work * unit_ns;
		assert_true(now_ns(&p) >= first + took);
		assert_true(before <= last + took);
		program_close(&p);
	}
	assert_true(waited > 4 * NR);
}

/* Where the description says nothing of it, a plan is there at once. */
static void test_space_aside_takes_no_time_unless_described(void **state)
{
	struct program p;

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	program_open_timed(&p, 0);
	for (uint32_t n = 0; !get_stats(&p.t).nr_plans; n++) {
		assert_true(n < 40 * NR);
		change_nth(&p, n);
		assert_null(planner(&p.t)->job);
	}
	program_close(&p);
}

/* The clock behind each change of a program that changes its ways. */
static uint64_t run_timed(uint64_t unit_ns, uint64_t *ns, uint32_t nr)
{
	struct program p;
	uint64_t nr_plans;

	program_open_timed(&p, unit_ns);
	for (uint32_t n = 0; n < nr; n++) {
		change_nth(&p, n);
		if (n % 100 == 99)
			do_expect(&p.t, 0, p.range[1], BLOCK, p.seed[1]);
		ns[n] = now_ns(&p);
	}
	nr_plans = get_stats(&p.t).nr_plans;
	program_close(&p);
	return nr_plans;
}

static void test_space_aside_repeats(void **state)
{
	enum { CHANGES = 90 * NR };
	static uint64_t at_once[CHANGES], once[CHANGES], again[CHANGES];

	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	run_timed(0, at_once, CHANGES);
	assert_true(run_timed(1, once, CHANGES) >= 2);
	run_timed(1, again, CHANGES);
	assert_memory_equal(once, again, sizeof(once));
	assert_memory_not_equal(once, at_once, sizeof(once));
}

/* Nobody wants the plan any more when its time is over, or the machine goes before: nothing is
 * followed, and nothing leaks. */
static void test_space_aside_is_given_up_in_virtual_time(void **state)
{
	(void)state;
	if (test_machine_kind() != TEST_SIMULATED)
		skip();
	for (uint32_t i = 0; i < 3; i++) {
		struct program p;
		uint32_t n = 0;

		program_open_timed(&p, 64);
		(void)change_until_asked(&p, &n);
		if (i == 1)
			assert_int_equal(weir_space_set_budget(p.t.space, p.t.desc.device[0].memory,
							       (OWN_BLOCKS + 2) * BLOCK),
					 0);
		for (uint32_t k = 0; i == 2 && planner(&p.t)->job; k++) {
			assert_true(k < 30);
			do_expect(&p.t, 0, p.range[k * k % NR], (1 + k % BLOCKS) * BLOCK,
				  p.seed[k * k % NR]);
		}
		assert_true(!planner(&p.t)->job == (i > 0));
		if (i)
			p.t.backend->ops->host_spend(p.t.backend, UINT64_C(1000000000));
		assert_int_equal(get_stats(&p.t).nr_plans, 0);
		program_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_aside_is_followed_once_it_is_there),
		cmocka_unit_test(test_space_aside_knows_what_was_allocated_meanwhile),
		cmocka_unit_test(
			test_space_aside_is_forgotten_when_the_program_does_something_else),
		cmocka_unit_test(test_space_aside_outlives_an_odd_bracket),
		cmocka_unit_test(test_space_aside_is_no_plan_for_another_budget),
		cmocka_unit_test(test_space_aside_does_not_know_what_was_freed_within_a_bracket),
		cmocka_unit_test(test_space_aside_makes_no_plan_of_an_odd_bracket),
		cmocka_unit_test(test_space_aside_is_not_in_vain),
		cmocka_unit_test(test_space_aside_is_not_for_all),
		cmocka_unit_test(test_space_aside_is_explained),
		cmocka_unit_test(test_space_aside_by_a_thread),
		cmocka_unit_test(test_space_aside_takes_virtual_time),
		cmocka_unit_test(test_space_aside_takes_no_time_unless_described),
		cmocka_unit_test(test_space_aside_repeats),
		cmocka_unit_test(test_space_aside_is_given_up_in_virtual_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
