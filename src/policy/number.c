/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a policy's tunables, as text. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/policy/policy.h"

/* A number that so many bits hold. @return whether the text is one. */
static bool parse(const char *text, uint32_t bits, bool is_signed, uint64_t *out)
{
	const bool minus = *text == '-';
	const char *digits = text + minus;
	uint64_t most = UINT64_MAX >> (64 - bits);
	char *end;

	if (*digits < '0' || *digits > '9' || (minus && !is_signed))
		return false;
	if (is_signed)
		most = (most >> 1) + minus;
	errno = 0;
	*out = strtoull(digits, &end, digits[1] == 'x' ? 16 : 10);
	if (errno || *end || *out > most)
		return false;
	*out = minus ? 0 - *out : *out;
	return true;
}

int policy_number_set(const char *text, uint32_t bytes, bool is_signed, void *out, char *err,
		      size_t err_bytes)
{
	uint64_t value;

	if (!parse(text, bytes * 8, is_signed, &value)) {
		snprintf(err, err_bytes, "'%s' is no %s integer of %u bytes", text,
			 is_signed ? "signed" : "unsigned", bytes);
		return -EINVAL;
	}
	memcpy(out, &value, bytes); /* little-endian */
	return 0;
}

uint64_t policy_number_get(const volatile void *at, uint32_t bytes, bool is_signed)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= (uint64_t)((const volatile uint8_t *)at)[i] << 8 * i;
	if (!is_signed)
		return value;
	switch (bytes) {
	case 1:
		return (uint64_t)(int8_t)value;
	case 2:
		return (uint64_t)(int16_t)value;
	case 4:
		return (uint64_t)(int32_t)value;
	default:
		return value;
	}
}
