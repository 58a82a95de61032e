/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: repetitions are recognised with the right period, by what events mean and not by
 * addresses; nested loops; lives born inside and before the period; divergence of every kind; very
 * long records.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/residency/record.h"
#include "tests/unit/test_sim_machine.h"

/* Events that must agree before a repetition may be believed: generous for any such number. */
#define CONTEXT_MAX 64u

struct fixture {
	struct record record;
	enum record_state state; /* what the newest event said */
	uint32_t nr_recognised, nr_diverged;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(record_init(&f->record), 0);
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

static uint64_t add(struct fixture *f, enum event_kind kind, uint32_t stream, life_t life,
		    uint32_t nr_blocks)
{
	uint64_t number = record_add(&f->record, kind, stream, life, nr_blocks);

	assert_int_not_equal(number, 0);
	assert_int_equal(number + 1, f->record.next_event);
	f->state = record_follow(&f->record);
	f->nr_recognised += f->state == RECORD_RECOGNISED;
	f->nr_diverged += f->state == RECORD_DIVERGED;
	assert_int_equal(f->record.period != 0,
			 f->state == RECORD_RECOGNISED || f->state == RECORD_FOLLOWED);
	return number;
}

static life_t do_alloc(struct fixture *f, uint32_t nr_blocks)
{
	return add(f, EVENT_ALLOC, 0, 0, nr_blocks);
}

static void do_free(struct fixture *f, life_t life)
{
	add(f, EVENT_FREE, 0, life, 0);
}

static void use(struct fixture *f, life_t life, uint64_t bytes, enum weir_use_kind kind)
{
	struct record_use used = {.life = life,
				  .nr_range_blocks = 4,
				  .nr = 4,
				  .kind = kind,
				  .bytes = bytes,
				  .read_bytes = 1.0};

	record_add_use(&f->record, &used);
}

/* A bracket with one use. */
static void bracket(struct fixture *f, life_t life, uint64_t bytes)
{
	use(f, life, bytes, WEIR_READ);
	add(f, EVENT_BEGIN, 0, 0, 0);
}

static void test_record_recognises_a_loop(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1), b = do_alloc(f, 2);

	for (int i = 0; i < 30; i++) {
		bracket(f, a, 1);
		bracket(f, b, 2);
		bracket(f, a, 3);
	}
	assert_int_equal(f->record.period, 3);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_recognised, 1);
	assert_int_equal(f->nr_diverged, 0);
	assert_true(f->record.followed >= 90 - 3 - CONTEXT_MAX);
}

static void test_record_same_event_over_and_over(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (uint32_t i = 0; i < CONTEXT_MAX; i++)
		bracket(f, a, 1);
	assert_int_equal(f->record.period, 1);
	assert_int_equal(f->state, RECORD_FOLLOWED);
}

static void test_record_nothing_repeats(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (uint64_t i = 1; i < 2000; i++)
		bracket(f, a, i);
	assert_int_equal(f->nr_recognised, 0);
	assert_int_equal(f->state, RECORD_UNKNOWN);
}

/* Few alike events are no repetition yet. */
static void test_record_needs_a_context(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (int i = 0; i < 8; i++)
		bracket(f, a, 1);
	assert_int_equal(f->nr_recognised, 0);
}

/* Temporaries: other lives each time, recognised by how long ago they were allocated. */
static void test_record_lives_born_inside(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (int i = 0; i < 30; i++) {
		life_t t = do_alloc(f, 3), s = do_alloc(f, 3);

		bracket(f, a, 1);
		bracket(f, t, 2);
		do_free(f, t);
		bracket(f, s, 2);
		do_free(f, s);
	}
	assert_int_equal(f->record.period, 7);
	assert_int_equal(f->nr_diverged, 0);
	assert_int_equal(f->state, RECORD_FOLLOWED);
}

/* Alive across the period's edge: each iteration uses what the one before allocated. */
static void test_record_lives_across_the_edge(void **state)
{
	struct fixture *f = *state;
	life_t old = do_alloc(f, 2);

	for (int i = 0; i < 40; i++) {
		life_t new = do_alloc(f, 2);

		use(f, old, 5, WEIR_READ);
		use(f, new, 6, WEIR_OVERWRITE);
		add(f, EVENT_BEGIN, 0, 0, 0);
		do_free(f, old);
		old = new;
	}
	assert_int_equal(f->record.period, 3);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_diverged, 0);
}

/* Two buffers that change places: the period is two iterations. */
static void test_record_alternating_lives(void **state)
{
	struct fixture *f = *state;
	life_t buffer[2] = {do_alloc(f, 4), do_alloc(f, 4)};

	for (int i = 0; i < 60; i++) {
		bracket(f, buffer[i & 1], 1);
		bracket(f, buffer[~i & 1], 2);
	}
	assert_int_equal(f->record.period, 4);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_diverged, 0);
}

/* An inner loop inside an outer one: found at first, left, and then the outer one is followed. */
static void test_record_nested_loops(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1), b = do_alloc(f, 2);
	uint32_t nr_diverged = 0;

	for (int outer = 0; outer < 8; outer++) {
		bracket(f, b, 10);
		for (int inner = 0; inner < 50; inner++) {
			life_t t = do_alloc(f, 1);

			bracket(f, a, 1);
			bracket(f, t, 2);
			do_free(f, t);
		}
		bracket(f, b, 11);
		bracket(f, a, 12);
		if (outer == 3)
			nr_diverged = f->nr_diverged;
	}
	assert_int_equal(f->record.period, 203);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	/* After a few outer iterations it is never left again. */
	assert_int_equal(f->nr_diverged, nr_diverged);
	assert_true(f->record.followed >= 203 * 3);
}

/* Two inner loops with the same body but other lengths. */
static void test_record_loops_of_two_lengths(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1), b = do_alloc(f, 2);
	uint32_t nr_diverged = 0;

	for (int outer = 0; outer < 10; outer++) {
		for (int part = 0; part < 2; part++) {
			bracket(f, b, 10);
			for (int inner = 0; inner < (part ? 30 : 70); inner++)
				bracket(f, a, 1);
		}
		if (outer == 4)
			nr_diverged = f->nr_diverged;
	}
	assert_int_equal(f->record.period, 102);
	assert_int_equal(f->nr_diverged, nr_diverged);
}

/* The same event over and over, and once more after something else, less often than before: what
 * followed the end of the first run is not expected time and again in the second. */
static void test_record_shorter_run(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1), b = do_alloc(f, 2);

	for (uint32_t i = 0; i < 4 * CONTEXT_MAX; i++)
		bracket(f, a, 1);
	bracket(f, b, 2);
	for (uint32_t i = 0; i < 2 * CONTEXT_MAX; i++)
		bracket(f, a, 1);
	assert_int_equal(f->record.period, 1);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	/* Once at the end of the first run, and once where the second one looks like it. */
	assert_true(f->nr_diverged <= 2);
}

/* ------------------------------------------------------------------ divergence */

static life_t follow_loop(struct fixture *f, life_t *b)
{
	life_t a = do_alloc(f, 1);

	*b = do_alloc(f, 1);
	for (int i = 0; i < 30; i++) {
		bracket(f, a, 1);
		bracket(f, *b, 2);
	}
	assert_int_equal(f->state, RECORD_FOLLOWED);
	return a;
}

static void expect_divergence(struct fixture *f)
{
	assert_int_equal(f->state, RECORD_DIVERGED);
	assert_int_equal(f->nr_diverged, 1);
	assert_int_equal(f->record.period, 0);
}

static void test_record_diverges_on_size(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	bracket(f, a, 2);
	expect_divergence(f);
}

static void test_record_diverges_on_life(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	(void)a;
	bracket(f, b, 1);
	expect_divergence(f);
}

static void test_record_diverges_on_kind(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	use(f, a, 1, WEIR_WRITE);
	add(f, EVENT_BEGIN, 0, 0, 0);
	expect_divergence(f);
}

/* Each bracket names what the one before left of a range, as solving by substitution does: more of
 * them than may be looked at if they were all alike. */
static void test_record_tells_suffixes_apart(void **state)
{
	enum { NR = 2047 };
	struct fixture *f = *state;
	life_t a = do_alloc(f, NR);

	for (uint32_t i = 0; i < 2 * NR; i++) {
		const uint32_t first = i % NR;
		struct record_use used = {.life = a,
					  .nr_range_blocks = NR,
					  .first = first,
					  .nr = NR - first,
					  .offset = first * 4096,
					  .bytes = (NR - first) * 4096};

		record_add_use(&f->record, &used);
		add(f, EVENT_BEGIN, 0, 0, 0);
	}
	assert_int_equal(f->record.period, NR);
}

static void test_record_diverges_on_offset(void **state)
{
	struct fixture *f = *state;
	struct record_use used = {.nr_range_blocks = 4, .nr = 4, .bytes = 1, .offset = 4096};
	life_t b, a = follow_loop(f, &b);

	used.life = a;
	record_add_use(&f->record, &used);
	add(f, EVENT_BEGIN, 0, 0, 0);
	expect_divergence(f);
}

static void test_record_diverges_on_number_of_uses(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	use(f, a, 1, WEIR_READ);
	use(f, b, 1, WEIR_READ);
	add(f, EVENT_BEGIN, 0, 0, 0);
	expect_divergence(f);
}

static void test_record_diverges_on_stream(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	use(f, a, 1, WEIR_READ);
	add(f, EVENT_BEGIN, 1, 0, 0);
	expect_divergence(f);
}

static void test_record_diverges_on_another_event(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b);

	use(f, a, 1, WEIR_READ);
	add(f, EVENT_HOST, 0, 0, 0);
	expect_divergence(f);
}

/* After a divergence the same loop is found again, at the latest when it has gone on for longer
 * than before; and a new one too. */
static void test_record_recovers(void **state)
{
	struct fixture *f = *state;
	life_t b, a = follow_loop(f, &b), c;

	c = do_alloc(f, 9);
	expect_divergence(f);
	for (int i = 0; i < 200; i++) {
		bracket(f, a, 1);
		bracket(f, b, 2);
	}
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->record.period, 2);
	for (int i = 0; i < 40; i++) {
		bracket(f, c, 1);
		bracket(f, b, 2);
		bracket(f, a, 3);
	}
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->record.period, 3);
	record_drop(&f->record);
	assert_int_equal(f->record.period, 0);
	bracket(f, c, 1);
	assert_int_equal(f->state, RECORD_RECOGNISED);
	assert_int_equal(f->record.period, 3);
}

/* ------------------------------------------------------------------ length */

static uint64_t record_bytes(const struct fixture *f)
{
	return f->record.max_events * sizeof(struct event) +
	       f->record.max_uses * sizeof(struct record_use);
}

/* Events and uses of a long record that follows nothing are forgotten; what is kept is whole. */
static void test_record_is_cut(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);
	uint64_t bytes = 0;

	for (uint64_t i = 1; i < 1500000; i++) {
		bracket(f, a, i);
		if (i == 600000)
			bytes = record_bytes(f);
	}
	assert_int_equal(record_bytes(f), bytes);
	assert_true(f->record.first_event > 1);
	for (uint64_t n = f->record.first_event; n < f->record.next_event; n += 1000) {
		const struct event *event = record_event(&f->record, n);

		assert_int_equal(event->nr_uses, 1);
		assert_int_equal(record_uses(&f->record, event)->bytes, n - 1);
		assert_int_equal(record_uses(&f->record, event)->life, a);
	}
	for (uint32_t i = 0; i < 2 * CONTEXT_MAX; i++)
		bracket(f, a, i & 1);
	assert_int_equal(f->record.period, 2);
}

/* A repetition is followed through cuts, for as long as it lasts. */
static void test_record_is_cut_while_followed(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (uint64_t i = 0; i < 800000; i++) {
		life_t t = do_alloc(f, 1);

		bracket(f, a, i % 5);
		do_free(f, t);
		i += 2;
	}
	assert_int_equal(f->nr_diverged, 0);
	assert_int_equal(f->nr_recognised, 1);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_true(f->record.first_event > 1);
	assert_true(f->record.next_event - f->record.first_event > f->record.period);
}

/* Brackets of many uses: what is kept of them is bounded, too. */
static void test_record_is_cut_by_uses(void **state)
{
	const uint64_t bytes_max = 80u << 20;
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (uint64_t i = 1; i <= 6000; i++) {
		for (uint32_t n = 0; n < 256; n++)
			use(f, a, i, WEIR_READ);
		add(f, EVENT_BEGIN, 0, 0, 0);
		assert_true(record_bytes(f) < bytes_max);
	}
	assert_int_equal(f->nr_recognised, 0);
	assert_true(f->record.nr_given_up > 0);
	for (uint64_t n = f->record.first_event; n < f->record.next_event; n++) {
		const struct event *event = record_event(&f->record, n);

		assert_int_equal(event->nr_uses, 256);
		assert_int_equal(record_uses(&f->record, event)[255].bytes, n - 1);
	}
}

/* Two periods are kept while one is followed, and not many more, however long they are. */
static void test_record_is_cut_by_uses_while_followed(void **state)
{
	const uint64_t nr_period = 700ull * 256;
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (uint64_t i = 0; i < 10 * 700; i++) {
		for (uint32_t n = 0; n < 256; n++)
			use(f, a, i % 700, WEIR_READ);
		add(f, EVENT_BEGIN, 0, 0, 0);
	}
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_diverged, 0);
	assert_int_equal(f->record.period, 700);
	assert_true(f->record.next_use - f->record.first_use >= 2 * nr_period);
	assert_true(f->record.max_uses <= 4 * nr_period);
}

/* ------------------------------------------------------------------ alike brackets */

/* A walk over many equal ranges: each bracket is like any other but for its life. */
static void walk(struct fixture *f, uint32_t nr_lives)
{
	life_t first = do_alloc(f, 1);

	for (uint32_t i = 1; i < nr_lives; i++)
		do_alloc(f, 1);
	record_drop(&f->record); /* of allocations that are alike */
	for (uint32_t i = 0; i < 2 * nr_lives; i++)
		bracket(f, first + i % nr_lives, 1);
}

static void test_record_many_alike_brackets(void **state)
{
	static const uint32_t nr[] = {1000, 1100, 5000, 30000};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(nr); i++) {
		record_fini(&f->record);
		assert_int_equal(record_init(&f->record), 0);
		walk(f, nr[i]);
		assert_int_equal(f->record.period, nr[i]);
		assert_int_equal(f->state, RECORD_FOLLOWED);
	}
}

/* The same, with a life that every bracket names, and one that it names twice. */
static void test_record_many_alike_brackets_with_others(void **state)
{
	struct fixture *f = *state;
	life_t common = do_alloc(f, 9), first = do_alloc(f, 1);

	for (uint32_t i = 1; i < 2000; i++)
		do_alloc(f, 1);
	record_drop(&f->record);
	for (uint32_t i = 0; i < 4000; i++) {
		use(f, common, 1, WEIR_READ);
		use(f, first + i % 2000, 1, WEIR_READ);
		use(f, first + i % 2000, 1, WEIR_WRITE);
		add(f, EVENT_BEGIN, 0, 0, 0);
	}
	assert_int_equal(f->record.period, 2000);
	assert_int_equal(f->state, RECORD_FOLLOWED);
}

/* Alike brackets in no order: that not all candidates were looked at shows. */
static void test_record_counts_what_is_given_up(void **state)
{
	struct fixture *f = *state;
	life_t first = do_alloc(f, 1);

	for (uint32_t i = 1; i < 500; i++)
		do_alloc(f, 1);
	record_drop(&f->record);
	assert_int_equal(f->record.nr_given_up, 0);
	for (uint32_t i = 0; i < 3000; i++)
		bracket(f, first + hash_mix(i, 0) % 500, 1);
	assert_true(f->record.nr_given_up > 0);
	assert_int_equal(f->record.period, 0);
}

/* ------------------------------------------------------------------ */

/* A period that is itself longer than what is compared for it. */
static void test_record_long_period(void **state)
{
	struct fixture *f = *state;
	life_t a = do_alloc(f, 1);

	for (int round = 0; round < 4; round++)
		for (uint64_t i = 0; i < 20000; i++)
			bracket(f, a, i);
	assert_int_equal(f->record.period, 20000);
	assert_int_equal(f->state, RECORD_FOLLOWED);
	assert_int_equal(f->nr_diverged, 0);
}

#define record_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		record_test(test_record_recognises_a_loop),
		record_test(test_record_same_event_over_and_over),
		record_test(test_record_nothing_repeats),
		record_test(test_record_needs_a_context),
		record_test(test_record_lives_born_inside),
		record_test(test_record_lives_across_the_edge),
		record_test(test_record_alternating_lives),
		record_test(test_record_nested_loops),
		record_test(test_record_loops_of_two_lengths),
		record_test(test_record_shorter_run),
		record_test(test_record_diverges_on_size),
		record_test(test_record_diverges_on_life),
		record_test(test_record_diverges_on_kind),
		record_test(test_record_tells_suffixes_apart),
		record_test(test_record_diverges_on_offset),
		record_test(test_record_diverges_on_number_of_uses),
		record_test(test_record_diverges_on_stream),
		record_test(test_record_diverges_on_another_event),
		record_test(test_record_recovers),
		record_test(test_record_is_cut),
		record_test(test_record_is_cut_while_followed),
		record_test(test_record_is_cut_by_uses),
		record_test(test_record_is_cut_by_uses_while_followed),
		record_test(test_record_many_alike_brackets),
		record_test(test_record_many_alike_brackets_with_others),
		record_test(test_record_counts_what_is_given_up),
		record_test(test_record_long_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
