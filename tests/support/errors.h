/* SPDX-License-Identifier: Apache-2.0 */
/* Errors that are logged, for tests of what is said: weir_log_set(errors_keep, &errors). */
#ifndef WEIR_TESTS_SUPPORT_ERRORS_H
#define WEIR_TESTS_SUPPORT_ERRORS_H

#include <stdio.h>

#include "weir/weir.h"

struct errors {
	unsigned int nr;
	char last[512];
};

static inline void errors_keep(void *arg, enum weir_log_level level, const char *message)
{
	struct errors *errors = arg;

	if (level != WEIR_LOG_ERROR)
		return;
	errors->nr++;
	snprintf(errors->last, sizeof(errors->last), "%s", message);
}

#endif
