/* SPDX-License-Identifier: Apache-2.0 */
/* One line on what is wrong; see fail.h. */
#include "workloads/graph/fail.h"

#include <stdarg.h>
#include <stdio.h>

int graph_fail(char *err, size_t err_bytes, int error, const char *format, ...)
{
	va_list ap;

	if (!err || !err_bytes)
		return error;
	va_start(ap, format);
	vsnprintf(err, err_bytes, format, ap);
	va_end(ap);
	for (char *c = err; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return error;
}
