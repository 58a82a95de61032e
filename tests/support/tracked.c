/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that tracked.h describes. */
#include "tests/support/tracked.h"

static void tracked_cpu(const void *args)
{
	const struct test_tracked_args *a = args;
	uint64_t at = (uint64_t)((const char *)a->cells.addr - (const char *)a->tracked.base);
	uint64_t bytes = a->cells.words * sizeof(uint64_t);

	for (uint64_t i = 0; i < a->cells.nr; i++)
		for (uint64_t b = 0; a->noted[i] && b < bytes; b += sizeof(uint64_t))
			weir_tracked_note(&a->tracked, at + i * bytes + b);
	test_cpu_cells(&a->cells);
}

const struct weir_kernel test_kernel_tracked = {.name = "tracked", .cpu = tracked_cpu};
