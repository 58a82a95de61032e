/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a size and as a count: refused, or accepted, and then what is written from the value
 * reads back to within its four digits.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int truth)
{
	if (!truth)
		abort();
}

/* Half a unit of the fourth digit is at most 1 in 2000; the double in between adds a little. */
static void check_near(uint64_t value, uint64_t back)
{
	check((back > value ? back - value : value - back) <= value / 1998);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1);
	char written[SIZE_TEXT_BYTES];
	uint64_t value = 0, back = 0;
	int err;

	check(text != NULL);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	err = size_parse(text, &value);
	check(!err || err == -EINVAL || err == -ERANGE);
	/* The largest values round up beyond what 64 bits hold. */
	if (!err && value < UINT64_MAX / 1000 * 999) {
		check(!size_parse(size_format(value, written, sizeof(written)), &back));
		check_near(value, back);
	}
	err = count_parse(text, &value);
	check(!err || err == -EINVAL || err == -ERANGE);
	/* Without a unit, beyond the largest, are digits: these are exact enough. */
	if (!err && value < UINT64_MAX / 1000 * 999) {
		check(!count_parse(count_format(value, written, sizeof(written)), &back));
		check_near(value, back);
	}
	free(text);
	return 0;
}
