/* SPDX-License-Identifier: Apache-2.0 */
/* Many samples of one time; see samples.h. */
#include "bench/shared/samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void samples_sort(uint64_t *ns, uint32_t nr)
{
	qsort(ns, nr, sizeof(*ns), compare);
}

void samples_print(const char *name, uint64_t *ns, uint32_t nr)
{
	if (!nr) {
		printf(",\"%s\":null", name);
		return;
	}
	samples_sort(ns, nr);
	printf(",\"%s\":{\"median\":%" PRIu64 ",\"p95\":%" PRIu64 ",\"max\":%" PRIu64 "}", name,
	       ns[nr / 2], ns[nr - 1 - nr / 20], ns[nr - 1]);
}
