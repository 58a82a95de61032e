/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a program whose uses are guesses: launches differ at some places of each epoch, as
 * guesses do, and the repetition that was recognised first is as good as any later one; or it was
 * recognised while guesses were bad, and a later one is better.
 */
#include "src/residency/record.h"
#include "tests/support/space.h"

#define LIVES 20u
#define LAUNCHES 700u /* of an epoch */
#define EPOCHS 60u
#define INSERTED 8u

struct fixture {
	struct record record;
	struct test_random random;
	life_t life[LIVES];
	uint32_t nr_recognised, nr_followed, nr_events;
};

static void add(struct fixture *f, enum event_kind kind, uint32_t nr_blocks)
{
	enum record_state state;

	assert_int_not_equal(record_add(&f->record, kind, 0, 0, nr_blocks), 0);
	state = record_follow(&f->record);
	f->nr_recognised += state == RECORD_RECOGNISED;
	f->nr_followed += state == RECORD_FOLLOWED || state == RECORD_RESUMED;
	f->nr_events++;
}

static void launch(struct fixture *f, uint64_t kernel, uint32_t x, uint32_t y)
{
	const uint32_t named[] = {x, y};

	for (uint32_t i = 0; i < 2; i++) {
		const struct record_use use = {.life = f->life[named[i] % LIVES],
					       .nr_range_blocks = 4,
					       .nr = 4,
					       .guess = i,
					       .kind = WEIR_WRITE,
					       .bytes = 4096,
					       .read_bytes = 1.0};

		record_add_use(&f->record, &use);
	}
	record_add_guess(&f->record, kernel, kernel);
	add(f, EVENT_BEGIN, 0);
}

static void start(struct fixture *f, uint32_t seed)
{
	*f = (struct fixture){.random = {.state = seed}};
	assert_int_equal(record_init(&f->record), 0);
	for (uint32_t i = 0; i < LIVES; i++) {
		f->life[i] = f->record.next_event;
		add(f, EVENT_ALLOC, 4);
	}
}

/* An epoch. At one of `apart` places (0: none) the launch may name another life. bad: at one of
 * nine it names a life more than later. inserts: more launches may come, at three places. */
static void epoch(struct fixture *f, uint32_t apart, bool bad, bool inserts)
{
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		const bool other = apart && i % apart == apart / 2 && random_below(&f->random, 2);

		if (inserts && i % 200 == 77 && random_below(&f->random, 4) == 0)
			for (uint32_t k = 0; k < INSERTED; k++)
				launch(f, 50 + k, 3, 4);

		launch(f, 1 + i % 37, i * 7 + i / 37 + other, i * 3 + (bad && i % 9 == 0));
	}
}

/* Some epochs, counted by themselves. */
static void run(struct fixture *f, uint32_t nr, uint32_t apart, bool bad, bool inserts)
{
	f->nr_recognised = f->nr_followed = f->nr_events = 0;
	while (nr-- > 0)
		epoch(f, apart, bad, inserts);
}

/* A launch in 40 to one in 320 may be another one: from the third epoch on the first repetition is
 * followed, for good. */
static void test_record_guessed_differs(void **state)
{
	struct fixture f;

	(void)state;
	for (uint32_t apart = 40; apart <= 320; apart *= 2) {
		start(&f, apart);
		run(&f, 2, apart, false, false);
		assert_int_equal(f.nr_recognised, 1);
		assert_int_equal(f.record.period, LAUNCHES);
		run(&f, EPOCHS, apart, false, false);
		assert_int_equal(f.nr_recognised, 0);
		assert_int_equal(f.nr_followed, f.nr_events);
		record_fini(&f.record);
	}
}

/* The same, and launches are inserted at some places: nothing is dropped for these, nor recognised
 * anew with a period of many epochs. */
static void test_record_guessed_inserts(void **state)
{
	struct fixture f;

	(void)state;
	for (uint32_t apart = 40; apart <= 320; apart *= 2) {
		start(&f, apart);
		run(&f, 4, apart, false, true);
		run(&f, EPOCHS, apart, false, true);
		assert_true(f.nr_recognised <= 1);
		assert_in_range(f.record.period ? f.record.period : f.record.suspended.period,
				LAUNCHES, LAUNCHES + 3 * INSERTED);
		assert_true(f.nr_followed > f.nr_events - f.nr_events / 33);
		record_fini(&f.record);
	}
}

/* What was recognised while a launch in nine named something else than all later ones do. */
static void test_record_guessed_gets_better(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, 1);
	run(&f, 4, 0, true, false);
	assert_int_equal(f.nr_recognised, 1);
	run(&f, 4, 0, false, false);
	assert_int_equal(f.nr_recognised, 1);
	assert_true(f.nr_followed < f.nr_events);
	run(&f, 4, 0, false, false);
	assert_int_equal(f.nr_recognised, 0);
	assert_int_equal(f.nr_followed, f.nr_events);
	record_fini(&f.record);
}

/* Layers in turn, by the same launches, of which one in twelve names something of the layer: all
 * layers are the period, not one. */
static void test_record_guessed_layers(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, 1);
	for (uint32_t n = 0; n < 3 * LIVES * 12; n++)
		launch(&f, 1 + n % 12, n % 12 ? 0 : n / 12, 1);
	assert_int_equal(f.record.period, LIVES * 12);
	record_fini(&f.record);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_guessed_differs),
		cmocka_unit_test(test_record_guessed_inserts),
		cmocka_unit_test(test_record_guessed_gets_better),
		cmocka_unit_test(test_record_guessed_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
