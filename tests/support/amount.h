/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a test does of what it could go on with for ever: what a variable of its own in the
 * environment says, else more with WEIR_TEST_LONG, and less under a sanitizer, where all is slow.
 */
#ifndef WEIR_TEST_AMOUNT_H
#define WEIR_TEST_AMOUNT_H

#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#elif __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_SANITIZED 1
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0 /* where what one thread does alone is of no interest */
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED TEST_TSAN
#endif

struct test_amount {
	uint64_t usual, sanitized, longer;
};

/* variable: NULL: it has none. */
static inline uint64_t test_amount(const char *variable, struct test_amount amount)
{
	const char *text = variable ? getenv(variable) : NULL;

	if (text)
		return strtoull(text, NULL, 10);
	if (getenv("WEIR_TEST_LONG"))
		return amount.longer;
	return TEST_SANITIZED ? amount.sanitized : amount.usual;
}

/* Of time, of which a sanitizer needs as much. */
static inline double test_seconds(const char *variable, double usual)
{
	const char *text = getenv(variable);

	if (text)
		return strtod(text, NULL);
	return getenv("WEIR_TEST_LONG") ? 10 * usual : usual;
}

#endif
