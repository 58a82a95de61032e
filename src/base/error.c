/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's version and the texts of its return values.
 */
#include <limits.h>
#include <string.h>

#include "weir/weir.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *weir_version(void)
{
	return TEXT(WEIR_VERSION_MAJOR) "." TEXT(WEIR_VERSION_MINOR) "." TEXT(WEIR_VERSION_PATCH);
}

const char *weir_strerror(int err)
{
	const char *text;

	if (err == INT_MIN) /* has no positive counterpart */
		return "Unknown error";
	if (err < 0)
		err = -err;

	switch (err) {
	case WEIR_ETRAP:
		return "A kernel touched memory that its bracket did not declare, or that moved";
	case WEIR_ECONTRACT:
		return "Calls out of order";
	case WEIR_EMACHINE:
		return "The machine description contradicts itself";
	default:
		/* Constant and thread-safe, unlike strerror(). */
		text = strerrordesc_np(err);
		return text ? text : "Unknown error";
	}
}
