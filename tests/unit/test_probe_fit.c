/* SPDX-License-Identifier: Apache-2.0 */
/* From times to constants: fits give back what the times were made from, and what noise, or a
 * machine that behaves otherwise, makes of them is still in range. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "workloads/probe/fit.h"

#define KIB 1024.0
#define MIB (1024.0 * KIB)

static void assert_near(double got, double expected)
{
	if (!(fabs(got - expected) <= 1e-6 * fabs(expected) + 1e-6))
		fail_msg("%.9g, not %.9g", got, expected);
}

static void test_fit_series(void **state)
{
	struct fit_series s = {0};

	(void)state;
	fit_add(&s, 5);
	assert_near(fit_median(&s), 5);
	fit_add(&s, 1);
	assert_near(fit_median(&s), 3);
	fit_add(&s, 100);
	assert_near(fit_median(&s), 5);
	assert_near(fit_min(&s), 1);
	assert_near(fit_max(&s), 100);
	/* It was not sorted in place, and does not overflow. */
	assert_near(s.value[0], 5);
	for (uint32_t i = 0; i < 2 * FIT_SAMPLES_MAX; i++)
		fit_add(&s, 7);
	assert_int_equal(s.nr, FIT_SAMPLES_MAX);
	assert_near(fit_median(&s), 7);
}

static void test_fit_digits(void **state)
{
	(void)state;
	assert_true(fit_digits(55412345678.9) == 55412000000.0);
	assert_true(fit_digits(90) == 90);
	assert_true(fit_digits(2500) == 2500);
	assert_true(fit_digits(0) == 0);
	assert_near(fit_digits(0.123456), 0.12346);
	assert_true(fit_digits(999999) == 1000000);
}

static void test_fit_line(void **state)
{
	const struct fit_point exact[] = {{1, 22160}, {16, 54560}, {128, 296480}};
	/* 1 % off at one end moves the beginning by about as much of the smallest. */
	const struct fit_point noisy[] = {{1, 22160}, {16, 54560}, {128, 299444}};
	const struct fit_point falling[] = {{1, 500}, {128, 400}};
	double fixed, each;

	(void)state;
	fit_line(exact, 3, &fixed, &each);
	assert_near(fixed, 20000);
	assert_near(each, 2160);
	fit_line(noisy, 3, &fixed, &each);
	assert_true(fabs(fixed - 20000) < 300);
	assert_true(fabs(each - 2160) < 30);
	fit_line(falling, 2, &fixed, &each);
	assert_true(each == 0);
	assert_true(fixed > 400 && fixed < 510);
}

/* Time of a copy: latency and piece, and its bytes at 55.4 GB/s. */
static struct fit_point copy(double bytes, double overhead_ns)
{
	return (struct fit_point){bytes, overhead_ns + bytes / 55.4};
}

static void test_fit_rate(void **state)
{
	const struct fit_point same = {64 * MIB, 1e6}, later = {256 * MIB, 1e6};

	(void)state;
	assert_near(fit_rate(copy(64 * MIB, 9000), copy(256 * MIB, 9000)), 55.4e9);
	/* The clock says that four times as much took no longer. */
	assert_near(fit_rate(same, later), 256 * MIB / 1e6 * 1e9);
}

static void test_fit_overhead(void **state)
{
	const double latency = 2500, piece = 90;
	const struct fit_point singles[] = {copy(4 * KIB, latency + piece),
					    copy(64 * KIB, latency + piece),
					    copy(2 * MIB, latency + piece)};
	/* One of three that is far off does not count. */
	const struct fit_point one_off[] = {singles[0], copy(64 * KIB, 30000), singles[2]};
	struct fit_point batch = copy(64 * MIB, latency + 1024 * piece);
	double latency_ns, piece_ns;

	(void)state;
	fit_overhead(singles, 3, batch, 1024, 55.4e9, &latency_ns, &piece_ns);
	assert_near(latency_ns, latency);
	assert_near(piece_ns, piece);
	fit_overhead(one_off, 3, batch, 1024, 55.4e9, &latency_ns, &piece_ns);
	assert_near(latency_ns, latency);
	/* Faster than the rate says: nothing is below 0. */
	batch.ns /= 2;
	fit_overhead(singles, 3, batch, 1024, 55.4e9, &latency_ns, &piece_ns);
	assert_true(piece_ns == 0);
	assert_near(latency_ns, latency + piece);
}

/* Both ways at 49.3 each until the first is done, then the other at its own rate. */
static void test_fit_duplex(void **state)
{
	const double alone[2] = {55.4e9, 53e9}, bytes = 192 * MIB;
	const double slow = 45.0, fast = 49.0;
	struct fit_point less[2] = {{64 * MIB, 64 * MIB / 49.3 + 2500},
				    {64 * MIB, 64 * MIB / 49.3 + 2500}};
	struct fit_point more[2] = {{256 * MIB, 256 * MIB / 49.3 + 2500},
				    {256 * MIB, 256 * MIB / 49.3 + 2500}};
	double first_ns = bytes / fast, moved = first_ns * slow;

	(void)state;
	assert_near(fit_duplex(less, more, alone), 49.3e9);
	for (int back = 0; back < 2; back++) {
		/* One way is faster while both are busy: the mean is what one number can say. */
		more[back].ns = less[back].ns + first_ns;
		more[!back].ns = less[!back].ns + first_ns + (bytes - moved) / (alone[!back] / 1e9);
		assert_near(fit_duplex(less, more, alone), 47e9);
	}
}

static void test_fit_reach(void **state)
{
	const uint64_t footprint[] = {64, 128, 256, 512, 1024, 2048};
	const double sharp[] = {700, 690, 710, 60, 45, 45};
	/* A cache that holds a part of what is asked for: the rate falls slowly. */
	const double soft[] = {700, 700, 600, 200, 100, 60};
	const double flat[] = {700, 690, 640, 600, 590, 580};
	const double at_once[] = {700, 100, 100, 100, 100, 100};
	uint64_t reach;

	(void)state;
	assert_true(fit_find_reach(footprint, sharp, 6, &reach));
	assert_int_equal(reach, 256);
	assert_true(fit_find_reach(footprint, soft, 6, &reach));
	assert_int_equal(reach, 256);
	assert_true(fit_find_reach(footprint, at_once, 6, &reach));
	assert_int_equal(reach, 64);
	assert_false(fit_find_reach(footprint, flat, 6, &reach));
	assert_int_equal(reach, 2048);
	assert_false(fit_find_reach(footprint, flat, 1, &reach));
	assert_int_equal(reach, 64);
}

static void test_fit_beyond_reach(void **state)
{
	/* As on an H200: rows of 1 KiB are slower beyond, too. */
	const struct fit_pieces h200[] = {
		{32, 700e6, 43e6}, {128, 400e6, 45e6}, {1024, 50e6, 39e6}};
	/* Long pieces come at the link's rate wherever they lie. */
	const struct fit_pieces bound[] = {
		{32, 700e6, 43e6}, {128, 400e6, 45e6}, {1024, 50e6, 49e6}};
	const struct fit_pieces none[] = {{32, 700e6, 690e6}};

	(void)state;
	assert_int_equal(fit_beyond_reach(h200, 3), 2);
	assert_int_equal(fit_beyond_reach(bound, 3), 1);
	assert_int_equal(fit_beyond_reach(none, 1), -1);
}

static void test_fit_request(void **state)
{
	struct fit_series pieces = {0}, request;

	(void)state;
	fit_add(&pieces, 20e6);
	fit_add(&pieces, 22e6);
	/* 1 KiB at 21 million a second, 21.5 GB/s, where the link carries 51 and there are 336
	 * million accesses a second. */
	fit_request(&pieces, 1024, 336e6, 51e9, &request);
	assert_int_equal(request.nr, 2);
	assert_near(fit_median(&request), 64);
	fit_request(&pieces, 1024, 336e6, 22e9, &request);
	assert_int_equal(request.nr, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fit_series),   cmocka_unit_test(test_fit_digits),
		cmocka_unit_test(test_fit_line),     cmocka_unit_test(test_fit_rate),
		cmocka_unit_test(test_fit_overhead), cmocka_unit_test(test_fit_duplex),
		cmocka_unit_test(test_fit_reach),    cmocka_unit_test(test_fit_beyond_reach),
		cmocka_unit_test(test_fit_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
