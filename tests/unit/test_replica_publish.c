/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_publish(): what a bracket wrote is read by other devices while it is open.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/test_space_late.h"
#include "weir/replica.h"

#define PART KIB(3) /* parts share granules */
#define NR 5	    /* parts of the range */
#define BYTES (NR * PART)
#define ONE TEST_OTHER /* a stream of device 1; 0 is one of device 0 */

struct fixture {
	struct test_space t;
	uint8_t *a, *window[2];
};

static void open_fixture(struct fixture *f, const struct weir_replica_params *params)
{
	void *window;

	test_space_open_devices(&f->t, BLOCK, 32, 32, 32);
	f->a = do_alloc(&f->t, BYTES, 0);
	do_write(&f->t, f->a, BYTES, 1);
	assert_int_equal(weir_replicate(f->t.space, f->a, params), 0);
	for (uint32_t device = 0; device < 2; device++) {
		assert_int_equal(weir_replica(f->t.space, f->a, device, &window), 0);
		f->window[device] = window;
	}
}

/* Parts from `first` on in a device's window, in its open bracket. */
static void launch(struct fixture *f, uint32_t device, uint32_t first, uint32_t nr,
		   enum weir_use_kind kind, uint32_t expect, uint32_t put)
{
	do_launch_as(&f->t, device ? ONE : 0, f->window[device] + first * PART, nr * PART, kind,
		     expect, put, f->a + first * PART);
}

static void do_publish(struct fixture *f, uint32_t device, uint32_t first, uint32_t nr)
{
	assert_int_equal(weir_publish(f->t.space, f->t.stream[device ? ONE : 0],
				      f->window[device] + first * PART, nr * PART),
			 0);
	do_check(&f->t);
}

/* A bracket that reads parts. */
static void expect(struct fixture *f, uint32_t device, uint32_t first, uint32_t nr, uint32_t seed)
{
	do_begin(&f->t, device ? ONE : 0, f->window[device] + first * PART, nr * PART, WEIR_READ);
	launch(f, device, first, nr, WEIR_READ, seed, 0);
	do_end(&f->t, device ? ONE : 0);
}

/* Messages so far of a kind. */
static uint64_t get_messages(struct fixture *f, enum weir_message_kind kind)
{
	struct weir_replica_stats stats;

	weir_replica_query(f->t.space, &stats);
	return stats.nr_messages[kind];
}

/* One bracket: its boundary, which is published, and its interior, which takes long. The boundary
 * is read before the interior is done, and by the bracket itself. */
static void test_publish_is_read_before_the_end(void **state)
{
	struct fixture f;
	fence_t read, written;

	(void)state;
	open_fixture(&f, NULL);
	do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
	launch(&f, 0, 0, 1, WEIR_OVERWRITE, 0, 2);
	do_publish(&f, 0, 0, 1);
	do_spin(&f.t, 0, SPIN_NS);
	launch(&f, 0, 1, NR - 1, WEIR_OVERWRITE, 0, 3);
	written = get_fence(&f.t, 0);
	expect(&f, 1, 0, 1, 2);
	read = get_fence(&f.t, ONE);
	assert_int_equal(f.t.backend->ops->fence_wait(f.t.backend, read), 0);
	assert_false(is_reached(&f.t, written));
	launch(&f, 0, 0, 1, WEIR_READ, 2, 0);
	do_end(&f.t, 0);
	expect(&f, 1, 0, 1, 2);
	expect(&f, 1, 1, NR - 1, 3);
	do_sync(&f.t);
	do_read(&f.t, f.a, PART, 2);
	test_space_close(&f.t);
}

/* The same where the launches that are published take long: the reader waits for these. */
static void test_publish_waits_for_what_was_launched(void **state)
{
	struct fixture f;
	fence_t spun;

	(void)state;
	open_fixture(&f, NULL);
	do_begin(&f.t, 0, f.window[0], BYTES, WEIR_WRITE);
	do_spin(&f.t, 0, SPIN_NS);
	launch(&f, 0, 0, 2, WEIR_WRITE, 1, 2);
	spun = get_fence(&f.t, 0);
	do_publish(&f, 0, 0, 2);
	expect(&f, 1, 0, 2, 2);
	assert_int_equal(weir_stream_sync(f.t.stream[ONE]), 0);
	assert_true(is_reached(&f.t, spun));
	do_end(&f.t, 0);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Slices of one bracket in any order, from uses that meet; what lies between is written until the
 * end. */
static void test_publish_many_slices(void **state)
{
	struct weir_use uses[2];
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	uses[0] = use_of(f.window[0], 3 * PART, WEIR_OVERWRITE);
	uses[1] = use_of(f.window[0] + 2 * PART, 3 * PART, WEIR_WRITE);
	do_begin_uses(&f.t, 0, uses, 2);
	launch(&f, 0, 0, NR, WEIR_OVERWRITE, 0, 2);
	do_publish(&f, 0, 3, 1);
	do_publish(&f, 0, 1, 2);
	expect(&f, 1, 1, 3, 2);
	launch(&f, 0, 0, 1, WEIR_WRITE, 2, 3);
	launch(&f, 0, 1, 3, WEIR_READ, 2, 0);
	launch(&f, 0, 4, 1, WEIR_WRITE, 2, 4);
	do_publish(&f, 0, 0, 1);
	expect(&f, 1, 0, 1, 3);
	do_end(&f.t, 0);
	expect(&f, 1, 0, 1, 3);
	expect(&f, 1, 1, 3, 2);
	expect(&f, 1, 4, 1, 4);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Another device may write what was published while the bracket is open that wrote it. */
static void test_publish_and_another_writes(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
	launch(&f, 0, 0, NR, WEIR_OVERWRITE, 0, 2);
	do_publish(&f, 0, 1, 1);
	do_begin(&f.t, ONE, f.window[1] + PART, PART, WEIR_WRITE);
	launch(&f, 1, 1, 1, WEIR_WRITE, 2, 3);
	do_end(&f.t, ONE);
	do_end(&f.t, 0);
	expect(&f, 0, 0, 1, 2);
	expect(&f, 0, 1, 1, 3);
	expect(&f, 1, 2, NR - 2, 2);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* It is learnt who reads a slice, whatever the end of its bracket is read by: both slices of a
 * bracket, and what it writes to its end, are sent ahead, each as it is finished. */
static void test_publish_is_learnt(void **state)
{
	uint64_t fetched = 0;
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	for (uint32_t step = 1; step < 12; step++) {
		if (step == 6)
			fetched = get_messages(&f, WEIR_FETCHED);
		do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
		for (uint32_t slice = 0; slice < 2; slice++) {
			uint64_t before = get_messages(&f, WEIR_PUBLISHED);

			launch(&f, 0, 3 * slice, 1, WEIR_OVERWRITE, 0, step + slice);
			do_publish(&f, 0, 3 * slice, 1);
			assert_true(step < 6 || get_messages(&f, WEIR_PUBLISHED) == before + 1);
		}
		launch(&f, 0, 1, 1, WEIR_OVERWRITE, 0, step);
		do_end(&f.t, 0);
		expect(&f, 1, 0, 2, step);
		expect(&f, 1, 3, 1, step + 1);
	}
	assert_int_equal(get_messages(&f, WEIR_FETCHED), fetched);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* What was read of one step alone is not sent ahead at the next ones. */
static void test_publish_nothing_that_was_read_once(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	for (uint32_t step = 1; step < 16; step++) {
		do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
		launch(&f, 0, 0, NR, WEIR_OVERWRITE, 0, step);
		do_end(&f.t, 0);
		if (step == 8)
			expect(&f, 1, 0, NR, step);
	}
	assert_int_equal(get_messages(&f, WEIR_PUBLISHED), 0);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Nor is what is learnt sent where only those that are named are to have it, or nobody. */
static void test_publish_nothing_that_is_learnt(void **state)
{
	const enum weir_subscription kinds[] = {WEIR_SUBSCRIBE_MANUAL, WEIR_SUBSCRIBE_NONE};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		const struct weir_replica_params params = {.subscription = kinds[k]};
		struct fixture f;

		open_fixture(&f, &params);
		/* Of nobody that holds whatever is said besides. */
		if (kinds[k] == WEIR_SUBSCRIBE_NONE)
			assert_int_equal(weir_subscribe(f.t.space, f.a, BYTES, 1), 0);
		for (uint32_t step = 1; step < 12; step++) {
			do_begin(&f.t, 0, f.window[0], BYTES, WEIR_OVERWRITE);
			launch(&f, 0, 0, NR, WEIR_OVERWRITE, 0, step);
			do_publish(&f, 0, 0, 1);
			do_end(&f.t, 0);
			expect(&f, 1, 0, NR, step);
		}
		assert_int_equal(get_messages(&f, WEIR_PUBLISHED), 0);
		do_sync(&f.t);
		test_space_close(&f.t);
	}
}

/* A bracket that names the whole space writes all windows of its device. */
static void test_publish_in_the_whole_space(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	assert_int_equal(weir_begin(f.t.space, f.t.stream[0], NULL, 0), 0);
	launch(&f, 0, 1, 2, WEIR_WRITE, 1, 2);
	do_publish(&f, 0, 1, 2);
	expect(&f, 1, 1, 2, 2);
	launch(&f, 0, 3, 2, WEIR_WRITE, 1, 3);
	do_end(&f.t, 0);
	expect(&f, 1, 0, 1, 1);
	expect(&f, 1, 3, 2, 3);
	do_sync(&f.t);
	test_space_close(&f.t);
}

/* Where devices have no room for copies, and look at each other's. */
static void test_publish_in_the_hosts_memory(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	for (uint32_t memory = GPU0; memory <= GPU1; memory++)
		assert_int_equal(weir_space_set_budget(f.t.space, memory, 2 * BLOCK), 0);
	for (uint32_t step = 1; step < 4; step++) {
		do_begin(&f.t, 0, f.window[0], BYTES, WEIR_WRITE);
		launch(&f, 0, 0, 3, WEIR_WRITE, step, step + 1);
		do_publish(&f, 0, 1, 1);
		expect(&f, 1, 1, 1, step + 1);
		launch(&f, 0, 3, 2, WEIR_WRITE, step, step + 1);
		do_end(&f.t, 0);
		expect(&f, 1, 0, NR, step + 1);
	}
	do_sync(&f.t);
	test_space_close(&f.t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_publish_is_read_before_the_end),
		cmocka_unit_test(test_publish_waits_for_what_was_launched),
		cmocka_unit_test(test_publish_many_slices),
		cmocka_unit_test(test_publish_and_another_writes),
		cmocka_unit_test(test_publish_is_learnt),
		cmocka_unit_test(test_publish_nothing_that_was_read_once),
		cmocka_unit_test(test_publish_nothing_that_is_learnt),
		cmocka_unit_test(test_publish_in_the_whole_space),
		cmocka_unit_test(test_publish_in_the_hosts_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
