/* SPDX-License-Identifier: Apache-2.0 */
/* What results of pagein and gups have, and others do not; see result.h. */
#ifndef WEIR_CLI_RESULT_TOUCH_H
#define WEIR_CLI_RESULT_TOUCH_H

#include "cli/result.h"
#include "workloads/touch/touch.h"

/* Borrowed, as a result is. */
struct result_touch {
	const struct touch_params *params;
	double updates_per_s; /* NaN: not known, or not gups */
};

/* For struct result_pass; of: struct result_touch. */
void result_touch_parameters(FILE *out, const void *of);
void result_touch_members(FILE *out, const void *of);

#endif
