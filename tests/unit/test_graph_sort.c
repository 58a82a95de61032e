/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted words against the C library's: every length around the small ones, every kind of words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "workloads/graph/gen.h"
#include "workloads/graph/sort.h"

#define NR_MAX 3000

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t word(unsigned int kind, uint64_t i, uint64_t nr)
{
	const uint64_t random = gen_bits(kind, i * NR_MAX + nr);

	switch (kind) {
	case 0:
		return random;
	case 1:
		return random % 7; /* many are equal */
	case 2:
		return i; /* sorted */
	case 3:
		return nr - i; /* the other way around */
	case 4:
		return random & UINT64_C(0xff000000000000ff); /* the ends of the word */
	case 5:
		return UINT64_MAX;
	default:
		return (random >> 42) << 32; /* a neighbour without a weight */
	}
}

static void test_graph_sort_words(void **state)
{
	static uint64_t got[NR_MAX], expected[NR_MAX];

	(void)state;
	for (unsigned int kind = 0; kind < 7; kind++) {
		for (uint64_t nr = 0; nr <= NR_MAX; nr += nr < 60 ? 1 : 735) {
			for (uint64_t i = 0; i < nr; i++)
				got[i] = word(kind, i, nr);
			memcpy(expected, got, sizeof(got));
			qsort(expected, nr, sizeof(*expected), compare);
			sort_words(got, nr);
			assert_memory_equal(got, expected, sizeof(got));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph_sort_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
