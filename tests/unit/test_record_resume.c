/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: a repetition in which some events differ now and then is found again, at the right
 * place, with the lives that were allocated meanwhile; one that does not come back is dropped.
 */
#include <stdlib.h>

#include "src/residency/record.h"
#include "tests/unit/test_sim_machine.h"

#define PARTS 10u
/* Events of an iteration: of each part, and of what lives through all of them. */
#define PERIOD (4u * PARTS + 3u)
/* Events after the last one that differs before the repetition is followed: generous. */
#define AGREEING_MAX 8u

enum edit {
	EDIT_NONE,
	EDIT_INSERT,	/* more events in the middle */
	EDIT_DELETE,	/* two parts are left out */
	EDIT_REPLACE,	/* four parts with other sizes, as a last batch has */
	EDIT_ALL_SIZES, /* all parts with other sizes */
	EDIT_BEGIN,	/* the iteration's long life is allocated among events that differ */
	EDIT_LIFE,	/* that life is allocated twice */
};

struct fixture {
	struct record record;
	enum record_state state; /* what the newest event said */
	uint32_t nr_recognised, nr_suspended, nr_resumed, nr_diverged;
	life_t a;
	uint64_t place; /* of the first event of an iteration, with nothing suspended */
};

static uint64_t add(struct fixture *f, enum event_kind kind, life_t life, uint32_t nr_blocks)
{
	enum record_state before = f->state;
	uint64_t number = record_add(&f->record, kind, 0, life, nr_blocks);

	assert_int_equal(number + 1, f->record.next_event);
	f->state = record_follow(&f->record);
	f->nr_recognised += f->state == RECORD_RECOGNISED;
	f->nr_suspended += f->state == RECORD_SUSPENDED && before != RECORD_SUSPENDED;
	f->nr_resumed += f->state == RECORD_RESUMED;
	f->nr_diverged += f->state == RECORD_DIVERGED;
	assert_int_equal(f->record.period != 0, f->state == RECORD_RECOGNISED ||
							f->state == RECORD_FOLLOWED ||
							f->state == RECORD_RESUMED);
	return number;
}

static void bracket(struct fixture *f, life_t life, uint64_t bytes)
{
	struct record_use use = {.life = life,
				 .nr_range_blocks = 4,
				 .nr = 4,
				 .kind = WEIR_READ,
				 .bytes = bytes,
				 .read_bytes = 1.0};

	record_add_use(&f->record, &use);
	add(f, EVENT_BEGIN, 0, 0);
}

static bool part_differs(enum edit edit, uint32_t i)
{
	return edit == EDIT_ALL_SIZES || (edit == EDIT_REPLACE && i >= 3 && i < 7);
}

static void part(struct fixture *f, enum edit edit, uint32_t i)
{
	uint64_t more = part_differs(edit, i) ? 1000 : 0;
	life_t t = add(f, EVENT_ALLOC, 0, 1 + i % 3 + (more != 0));

	bracket(f, f->a, 100 + i % 4 + more);
	bracket(f, t, 200 + more);
	add(f, EVENT_FREE, t, 0);
}

static void iterate(struct fixture *f, enum edit edit)
{
	life_t through, other = 0;

	if (edit == EDIT_BEGIN)
		bracket(f, f->a, 999);
	if (edit == EDIT_LIFE)
		other = add(f, EVENT_ALLOC, 0, 9);
	through = add(f, EVENT_ALLOC, 0, 9);
	if (edit == EDIT_BEGIN)
		bracket(f, f->a, 998);
	for (uint32_t i = 0; i < PARTS; i++) {
		if (edit == EDIT_DELETE && (i == 4 || i == 5))
			continue;
		if (edit == EDIT_INSERT && i == 5) {
			life_t t = add(f, EVENT_ALLOC, 0, 2);

			bracket(f, t, 998);
			bracket(f, f->a, 999);
			add(f, EVENT_FREE, t, 0);
		}
		part(f, edit, i);
	}
	bracket(f, through, 300);
	add(f, EVENT_FREE, through, 0);
	if (other)
		add(f, EVENT_FREE, other, 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(record_init(&f->record), 0);
	f->a = add(f, EVENT_ALLOC, 0, 4);
	for (int i = 0; i < 6; i++)
		iterate(f, EDIT_NONE);
	assert_int_equal(f->record.period, PERIOD);
	assert_int_equal(f->nr_recognised, 1);
	f->place = f->record.next_place;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	record_fini(&f->record);
	free(f);
	return 0;
}

/* The next event is the first of an iteration, by its place, too. */
static void expect_at_begin(const struct fixture *f)
{
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->record.period, PERIOD);
	assert_int_equal((f->record.next_place - f->place) % PERIOD, 0);
	assert_int_equal(f->nr_recognised, 1);
	assert_int_equal(f->nr_diverged, 0);
}

/* One iteration that differs is followed to its end; those after it are as if it had not. */
static void expect_resumed(struct fixture *f, enum edit edit)
{
	iterate(f, edit);
	expect_at_begin(f);
	assert_true(f->nr_suspended == 1 && f->nr_resumed == 1);
	for (int i = 0; i < 4; i++) {
		iterate(f, EDIT_NONE);
		expect_at_begin(f);
	}
	assert_true(f->nr_suspended == 1 && f->nr_resumed == 1);
	assert_int_equal(f->record.suspended.period, 0);
}

static void test_record_resume_after_inserted_events(void **state)
{
	expect_resumed(*state, EDIT_INSERT);
}

static void test_record_resume_after_missing_events(void **state)
{
	expect_resumed(*state, EDIT_DELETE);
}

static void test_record_resume_after_replaced_events(void **state)
{
	expect_resumed(*state, EDIT_REPLACE);
}

/* What was allocated among events that differ is the life that is used later. */
static void test_record_resume_knows_lives(void **state)
{
	expect_resumed(*state, EDIT_BEGIN);
}

/* Of two allocations of a size the first is taken: the plan is not followed where the other one is
 * used, and at once after it. */
static void test_record_resume_of_a_wrong_life(void **state)
{
	struct fixture *f = *state;

	iterate(f, EDIT_LIFE);
	iterate(f, EDIT_NONE);
	iterate(f, EDIT_NONE);
	expect_at_begin(f);
}

/* An iteration of which no part agrees: the next one is recognised by its begin. */
static void test_record_resume_after_a_whole_iteration(void **state)
{
	struct fixture *f = *state;
	uint64_t first;

	iterate(f, EDIT_ALL_SIZES);
	assert_int_equal(f->state, RECORD_SUSPENDED);
	first = f->record.next_event;
	iterate(f, EDIT_NONE);
	expect_at_begin(f);
	assert_int_equal(f->nr_resumed, 1);
	assert_true(f->record.followed + AGREEING_MAX >= f->record.next_event - first);
}

/* Every iteration differs, each at another place. */
static void test_record_resume_again_and_again(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 1; i <= 200; i++) {
		iterate(f, i % 3 ? EDIT_INSERT : EDIT_DELETE);
		expect_at_begin(f);
		assert_int_equal(f->nr_resumed, i);
	}
}

/* The record is cut while that goes on: the repetition is dropped when it would grow for it. */
static void test_record_resume_while_cut(void **state)
{
	struct fixture *f = *state;
	uint64_t nr = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		iterate(f, EDIT_INSERT);
		nr = MAX(nr, f->record.next_event - f->record.first_event);
	}
	assert_true(f->record.first_event > 1);
	assert_true(nr <= 1u << 18);
	for (int i = 0; i < 10; i++)
		iterate(f, EDIT_NONE);
	assert_int_equal(f->state, RECORD_FOLLOWED);
}

/* Something else for good: dropped once, after two iterations at the latest, and recognised. */
static void test_record_resume_gives_up(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 2 * PERIOD; i++)
		bracket(f, f->a, 5000 + i);
	assert_int_equal(f->nr_diverged, 1);
	assert_int_equal(f->nr_resumed, 0);
	assert_int_equal(f->state, RECORD_UNKNOWN);
	assert_int_equal(f->record.suspended.period, 0);
	for (uint32_t i = 0; i < 3 * PERIOD; i++)
		bracket(f, f->a, 7000 + i % PERIOD);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_recognised, 2);
}

/* A repetition that was not followed for a period yet may have been no repetition. */
static void test_record_resume_needs_a_whole_period(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 2 * PERIOD; i++)
		bracket(f, f->a, 5000 + i);
	for (uint32_t i = 0; i < 2 * PERIOD; i++)
		bracket(f, f->a, 7000 + i % PERIOD);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_true(f->record.followed < PERIOD);
	bracket(f, f->a, 1);
	assert_int_equal(f->state, RECORD_DIVERGED);
	assert_int_equal(f->record.suspended.period, 0);
}

#define resume_test(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		resume_test(test_record_resume_after_inserted_events),
		resume_test(test_record_resume_after_missing_events),
		resume_test(test_record_resume_after_replaced_events),
		resume_test(test_record_resume_knows_lives),
		resume_test(test_record_resume_of_a_wrong_life),
		resume_test(test_record_resume_after_a_whole_iteration),
		resume_test(test_record_resume_again_and_again),
		resume_test(test_record_resume_while_cut),
		resume_test(test_record_resume_gives_up),
		resume_test(test_record_resume_needs_a_whole_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
