/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that are noted, on a simulated machine: the kernel `cells`, which notes the lines of what
 * it looks at in the marks of a device's window (weir/tracked.h).
 */
#ifndef WEIR_TEST_TRACKED_H
#define WEIR_TEST_TRACKED_H

#include <stdbool.h>

#include "tests/support/kernels.h"
#include "weir/tracked.h"

struct test_tracked_args {
	struct test_cells_args cells; /* in the window, which begins at tracked.base */
	struct weir_tracked tracked;
	bool noted[TEST_CELLS_MAX]; /* by cell */
};

extern const struct weir_kernel test_kernel_tracked;

#endif
