/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/base/variables.h"

#define EXIT_BAD 2
#define HOLD_NS UINT64_C(10000000)
#define LEARN_HOLD_NS UINT64_C(60000000000)

static struct settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void settings_fail(const char *format, ...)
{
	char line[1024];
	va_list args;
	int nr;

	va_start(args, format);
	nr = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	(void)fflush(NULL);
	if (nr >= 0)
		(void)dprintf(STDERR_FILENO, "weir: %s\n", line);
	_exit(EXIT_BAD);
}

static uint64_t number(const char *name, uint64_t preset)
{
	const char *text = variable_text(name);
	char *end = NULL;
	uint64_t n;

	if (!text)
		return preset;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		settings_fail("%s is '%s': weir run sets it, and nobody else does", name, text);
	return n;
}

static void settings_read(void)
{
	settings.driver = variable_text(SETTINGS_DRIVER);
	if (!settings.driver)
		settings_fail("%s is not set: a program is started under weir by weir run",
			      SETTINGS_DRIVER);
	settings.gpu = (int)number(SETTINGS_GPU, UINT64_MAX);
	settings.gpu_budget = number(SETTINGS_GPU_BUDGET, 0);
	settings.host_budget = number(SETTINGS_HOST_BUDGET, 0);
	settings.block = number(SETTINGS_BLOCK, 0);
	settings.mode = (enum settings_mode)number(SETTINGS_MODE, SETTINGS_SAFE);
	settings.hold_ns =
		number(SETTINGS_HOLD, settings.mode == SETTINGS_LEARN ? LEARN_HOLD_NS : HOLD_NS);
	settings.kernels = variable_text(SETTINGS_KERNELS);
	settings.learn_shared = variable_text(SETTINGS_LEARN_SHARED);
	settings.learn_launches = number(SETTINGS_LEARN_LAUNCHES, UINT64_MAX);
	settings.late = settings.mode != SETTINGS_FIXED && number(SETTINGS_WHEN, 0) != 0;
	settings.stats = variable_text(SETTINGS_STATS);
	settings.trace = variable_text(SETTINGS_TRACE);
	settings.mark = variable_text(SETTINGS_MARK);
	settings.mark_every = number(SETTINGS_MARK_EVERY, 1);
	settings.explain = number(SETTINGS_EXPLAIN, 0) != 0;
	settings.quiet = number(SETTINGS_QUIET, 0) != 0;
}

const struct settings *settings_get(void)
{
	(void)pthread_once(&once, settings_read);
	return &settings;
}
