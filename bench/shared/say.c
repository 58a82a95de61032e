/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/shared/say.h"

#include <stdarg.h>
#include <stdio.h>

#include "weir/weir.h"

static const char *name;

static void show(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level <= WEIR_LOG_WARNING)
		fprintf(stderr, "%s: weir: %s\n", name, message);
}

void say_begin(const char *program)
{
	name = program;
	weir_log_set(show, NULL);
}

int say_error(int err, const char *what, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", name);
	va_start(args, what);
	vfprintf(stderr, what, args);
	va_end(args);
	fprintf(stderr, ": %s\n", weir_strerror(err));
	return err;
}
