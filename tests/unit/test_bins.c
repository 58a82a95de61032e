/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are kept for the streams that freed them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "shim/bins.h"
#include "src/base/hash.h"

static void *stream_of(uintptr_t number)
{
	return (void *)(16 * number);
}

static void test_last_in_first_out(void **state)
{
	struct bins bins = {0};

	(void)state;
	assert_true(bins_take(&bins, stream_of(1), 256) == 0);
	assert_true(bins_put(&bins, &(struct kept){stream_of(1), 4096, 256}));
	assert_true(bins_put(&bins, &(struct kept){stream_of(1), 8192, 256}));
	assert_true(bins.bytes == 512);
	assert_true(bins_take(&bins, stream_of(2), 256) == 0);
	assert_true(bins_take(&bins, stream_of(1), 512) == 0);
	assert_true(bins_take(&bins, stream_of(1), 256) == 8192);
	assert_true(bins_take(&bins, stream_of(1), 256) == 4096);
	assert_true(bins_take(&bins, stream_of(1), 256) == 0);
	assert_true(bins.bytes == 0);
	bins_fini(&bins);
}

/* A stream that ends leaves nothing behind. */
static void test_drained_by_stream(void **state)
{
	struct bins bins = {0};
	struct kept kept;

	(void)state;
	for (uint64_t n = 1; n <= 300; n++)
		assert_true(bins_put(&bins, &(struct kept){stream_of(n % 3), 4096 * n, 256 * n}));
	for (uint32_t n = 0; n < 100; n++) {
		assert_true(bins_drain(&bins, stream_of(1), false, 0, &kept));
		assert_ptr_equal(kept.stream, stream_of(1));
		assert_true(kept.addr == 16 * kept.bytes);
	}
	assert_false(bins_drain(&bins, stream_of(1), false, 0, &kept));
	assert_int_equal(bins.nr, 200);
	for (uint32_t n = 0; n < 200; n++)
		assert_true(bins_drain(&bins, NULL, true, 0, &kept));
	assert_false(bins_drain(&bins, NULL, true, 0, &kept));
	assert_int_equal(bins.nr, 0);
	assert_true(bins.bytes == 0);
	bins_fini(&bins);
}

/* Any sequence, against lists. */
static void test_against_a_model(void **state)
{
	enum { STREAMS = 5, SIZES = 40, DEEP = 64 };
	static uint64_t model[STREAMS][SIZES][DEEP];
	static uint32_t depth[STREAMS][SIZES];
	struct bins bins = {0};
	uint64_t random = 42, bytes = 0;

	(void)state;
	memset(depth, 0, sizeof(depth));
	for (uint64_t n = 1; n <= 100000; n++) {
		uint64_t drawn = random = hash_mix(random, n);
		uint32_t s = (uint32_t)(drawn % STREAMS), z = (uint32_t)(drawn / 8 % SIZES);
		struct kept range = {stream_of(s), 4096 * n, 256 * (z + 1)};

		if ((drawn >> 40) % 2 && depth[s][z] < DEEP) {
			assert_true(bins_put(&bins, &range));
			model[s][z][depth[s][z]++] = range.addr;
			bytes += range.bytes;
		} else {
			uint64_t expected = depth[s][z] ? model[s][z][--depth[s][z]] : 0;

			assert_true(bins_take(&bins, range.stream, range.bytes) == expected);
			bytes -= expected ? range.bytes : 0;
		}
		assert_true(bins.bytes == bytes);
	}
	bins_fini(&bins);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_in_first_out),
		cmocka_unit_test(test_drained_by_stream),
		cmocka_unit_test(test_against_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
