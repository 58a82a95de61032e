/* SPDX-License-Identifier: Apache-2.0 */
/* When a launch is taken to use a part of an allocation: shim/windows.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shim/windows.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define RANGE MIB(840)
#define SLICE MIB(16)

enum { PLACE = 16, SERIAL = 7 };

static struct windows *windows;

static int setup(void **state)
{
	(void)state;
	windows = windows_create();
	return windows ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	windows_destroy(windows);
	return 0;
}

static uint64_t note_at(uint64_t at)
{
	return windows_note(windows, PLACE, SERIAL, at, RANGE);
}

/* Slices first to last of a loop; @return what the last one was taken for */
static uint64_t note_loop(uint32_t first, uint32_t last)
{
	uint64_t bytes = 0;

	for (uint32_t n = first; n <= last; n++)
		bytes = note_at(n * SLICE);
	return bytes;
}

/* After three steps of one distance, and then from the first slice of the next loop on. */
static void test_three_steps(void **state)
{
	(void)state;
	assert_int_equal(note_loop(0, 2), 0);
	assert_int_equal(note_at(3 * SLICE), SLICE);
	assert_int_equal(note_loop(4, 20), SLICE);
	assert_int_equal(note_at(0), SLICE);
	assert_int_equal(note_at(0), SLICE); /* another kernel of the loop's body uses it again */
	assert_int_equal(note_at(SLICE), SLICE);
	assert_int_equal(note_at(30 * SLICE), SLICE); /* the other half's loop */
	assert_int_equal(note_at(31 * SLICE), SLICE);
	assert_int_equal(note_at(RANGE - MIB(3)), MIB(3));
}

/* One other step is a loop's last slice, or the way to the next one; two say something else. */
static void test_contradicted(void **state)
{
	(void)state;
	assert_int_equal(note_loop(0, 5), SLICE);
	assert_int_equal(note_at(5 * SLICE + MIB(2)), SLICE);
	assert_int_equal(note_at(5 * SLICE + MIB(9)), 0);
	assert_int_equal(note_at(5 * SLICE + MIB(16)), 0);
	assert_int_equal(note_at(5 * SLICE + MIB(23)), MIB(7));
}

/* Distances that never agree, the same address for ever, and those that are no windows. */
static void test_none(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 30; n++)
		assert_int_equal(note_at(n * n * MIB(1) / 4), 0);
	for (uint64_t n = 0; n < 8; n++)
		assert_int_equal(note_at(0), 0);
	for (uint64_t n = 0; n < 8; n++) /* so small that they are looked at */
		assert_int_equal(windows_note(windows, 0, SERIAL, n * 4096, RANGE), 0);
	for (uint64_t n = 0; n < 5; n++) /* most of it */
		assert_int_equal(windows_note(windows, 8, SERIAL, n * MIB(100), MIB(250)), 0);
}

/* What is known of one place and allocation says nothing of others, until there are too many. */
static void test_apart(void **state)
{
	(void)state;
	assert_int_equal(note_loop(0, 5), SLICE);
	assert_int_equal(windows_note(windows, PLACE + 8, SERIAL, 6 * SLICE, RANGE), 0);
	assert_int_equal(windows_note(windows, PLACE, SERIAL + 1, 6 * SLICE, RANGE), 0);
	assert_int_equal(note_at(6 * SLICE), SLICE);
	for (uint32_t n = 0; n < WINDOWS_MAX - 1; n++)
		assert_int_equal(windows_note(windows, PLACE, SERIAL + 1 + n, 0, RANGE), 0);
	assert_int_equal(note_at(7 * SLICE), SLICE);
	/* Temporaries come and go; what moves on stays, */
	for (uint32_t n = 0; n < 4 * WINDOWS_MAX; n++)
		assert_int_equal(windows_note(windows, PLACE, SERIAL + 1 + n, 0, RANGE), 0);
	assert_int_equal(note_at(8 * SLICE), SLICE);
	/* until there are too many of these. */
	for (uint32_t n = 0; n < WINDOWS_MAX; n++)
		for (uint32_t i = 0; i < 4; i++)
			(void)windows_note(windows, PLACE, SERIAL + 100 + n, i * SLICE, RANGE);
	assert_int_equal(note_at(9 * SLICE), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_three_steps),
		TEST(test_contradicted),
		TEST(test_none),
		TEST(test_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
