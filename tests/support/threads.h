/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests with several threads share. Asserting is for the main thread: the others note what
 * fails, and stop. Each program has these for itself.
 */
#ifndef WEIR_TEST_THREADS_H
#define WEIR_TEST_THREADS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "src/backend/flaky/flaky.h"

static atomic_bool stop;
static atomic_int failed_line; /* the first that failed; 0: none */

/* From any thread. */
#define require(what)                                                                  \
	do {                                                                           \
		int none = 0;                                                          \
		if (!(what)) {                                                         \
			atomic_compare_exchange_strong(&failed_line, &none, __LINE__); \
			atomic_store(&stop, true);                                     \
		}                                                                      \
	} while (0)

/* For so long, or until stop. flaky: meanwhile a call of it fails each millisecond; NULL: none. */
static inline void sleep_seconds(double seconds, struct backend *flaky)
{
	struct timespec part = {0, 1000000};

	for (uint32_t ms = 0; ms < seconds * 1000 && !atomic_load(&stop); ms++) {
		nanosleep(&part, NULL);
		if (flaky)
			flaky_arm(flaky, flaky_nr_calls(flaky) + 5, -EIO);
	}
	if (flaky)
		flaky_arm(flaky, 0, 0);
}

#endif
