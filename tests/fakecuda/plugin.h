/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a library of kernels for the fake driver begins with, each a single file: the text of its
 * last error, and how the CPU's kernels are queued with what they touch.
 */
#ifndef WEIR_FAKECUDA_PLUGIN_H
#define WEIR_FAKECUDA_PLUGIN_H

#include <errno.h>
#include <stdio.h>

#include "tests/fakecuda/fakecuda.h"

static _Thread_local char error_text[128];

/* nr elements that are only read; and that are written, or both. */
#define READS(array, nr)                                \
	{                                               \
		(array), (nr) * sizeof(*(array)), false \
	}
#define WRITES(array, nr)                              \
	{                                              \
		(array), (nr) * sizeof(*(array)), true \
	}

/* Queue a function with a copy of its arguments. 0, or -EIO and error_text. */
static inline int queue(void *stream, const char *kernel, void (*fn)(const void *args),
			const void *args, size_t bytes, const struct fakecuda_touch *touch,
			unsigned nr)
{
	int result = fakecuda_launch(stream, fn, args, bytes, touch, nr);

	if (!result)
		return 0;
	snprintf(error_text, sizeof(error_text), "%s: the fake driver said %d", kernel, result);
	return -EIO;
}

#endif
