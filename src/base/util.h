/* SPDX-License-Identifier: Apache-2.0 */
/* Small arithmetic and searching that files share. MIN and MAX evaluate an argument twice. */
#ifndef WEIR_BASE_UTIL_H
#define WEIR_BASE_UTIL_H

#include <stdbool.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/*
 * Binary search: sets the variable `at` to the first index from `from` on for which `before`, an
 * expression of at, is false; to `end` if it is true for all below end. Where it is false, it is
 * false for all that follow.
 */
#define SEARCH_SORTED(at, from, end, before)                 \
	do {                                                 \
		__typeof__(at) low_ = (from), high_ = (end); \
		while (low_ < high_) {                       \
			(at) = low_ + (high_ - low_) / 2;    \
			if (before)                          \
				low_ = (at) + 1;             \
			else                                 \
				high_ = (at);                \
		}                                            \
		(at) = low_;                                 \
	} while (0)

/* For arguments that take time to compute; of a NaN: b. */
static inline double min_double(double a, double b)
{
	return a < b ? a : b;
}

static inline double max_double(double a, double b)
{
	return a > b ? a : b;
}

/* The quotient, rounded up. by > 0. */
static inline uint64_t div_round_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

/* The least multiple of to that is no less than n; to > 0, and n + to - 1 does not overflow. */
static inline uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Whether n is 1, 2, 4, ...; 0 is not. */
static inline bool is_power_of_2(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* The largest power of two that divides n, which is its lowest bit; of 0: 0. */
static inline uint64_t lowest_bit(uint64_t n)
{
	return n & (0 - n);
}

/* The number of n's highest bit. n > 0. */
static inline uint32_t log2_floor(uint64_t n)
{
	return 63 - (uint32_t)__builtin_clzll(n);
}

#endif
