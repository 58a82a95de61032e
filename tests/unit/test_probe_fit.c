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

/* Half of each round, in order. */
static void test_fit_events(void **state)
{
	const struct fit_series rounds = {.value = {11400, 13000, 1}, .nr = 3};
	struct fit_series event = {.nr = 7};

	(void)state;
	fit_events(&rounds, &event);
	assert_int_equal(event.nr, 3);
	assert_true(event.value[0] == 5700 && event.value[1] == 6500 && event.value[2] == 0.5);
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

static void test_fit_first_miss(void **state)
{
	const double sharp[] = {700, 690, 710, 60, 45, 45};
	const double soft[] = {50, 50, 49, 44, 39, 32};
	/* What is slower for a while is noise. */
	const double noise[] = {50, 40, 50, 51, 49, 32};
	const double flat[] = {700, 690, 680, 670, 690, 680};

	(void)state;
	assert_int_equal(fit_first_miss(sharp, 6), 3);
	assert_int_equal(fit_first_miss(soft, 6), 3);
	assert_int_equal(fit_first_miss(noise, 6), 5);
	assert_int_equal(fit_first_miss(flat, 6), 6);
	assert_int_equal(fit_first_miss(flat, 1), 1);
}

static void test_fit_misses(void **state)
{
	const uint64_t footprint[] = {1024, 2048, 4096, 8192, 16384};
	/* An H200, footprints in MiB: a gather that reads 2 of 5 rows in place, and writes all. */
	const double h200[] = {49.9e6, 39.2e6, 32.2e6, 29.2e6, 27.9e6};
	const double rising[] = {30e6, 31e6, 32e6};
	double exact[5], misses, reach;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		exact[i] = 26.8e6 / (1 - 650 / (double)footprint[i]);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(fit_misses(&footprint[i], &exact[i], 5 - i, &misses, &reach));
		assert_near(misses, 26.8e6);
		assert_near(reach, 650);
	}
	assert_int_equal(fit_first_miss(h200, 5), 1);
	assert_true(fit_misses(&footprint[1], &h200[1], 4, &misses, &reach));
	assert_in_range((uintmax_t)(misses / 1e4), 2640, 2720);
	assert_in_range((uintmax_t)reach, 610, 680);
	for (uint32_t i = 1; i < 5; i++) {
		double off = misses / (1 - reach / (double)footprint[i]) / h200[i] - 1;

		assert_true(fabs(off) < 0.01);
	}
	/* The link at 50 million holds the smallest back, not translation. */
	assert_true(misses / (1 - reach / 1024) > 49.9e6);
	assert_false(fit_misses(footprint, rising, 3, &misses, &reach));
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
		cmocka_unit_test(test_fit_events),   cmocka_unit_test(test_fit_first_miss),
		cmocka_unit_test(test_fit_misses),   cmocka_unit_test(test_fit_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
