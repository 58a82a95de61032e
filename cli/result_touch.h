/* SPDX-License-Identifier: Apache-2.0 */
/* What results of pagein and gups have, and others do not; see result.h. */
#ifndef WEIR_CLI_RESULT_TOUCH_H
#define WEIR_CLI_RESULT_TOUCH_H

#include "cli/result.h"
#include "workloads/touch/touch.h"

/* Borrowed, as a result is. Doubles that are NaN are not known. */
struct result_touch {
	const struct touch_params *params;
	double in, out, in_place, waits; /* pages, of one measured pass on average */
	double useful_bytes_per_s;	 /* asked for by the kernel, read and written */
	double updates_per_s;		 /* NaN: not gups */
	const char *wrong;		 /* what was found wrong; NULL or empty: nothing */
};

/* The members of "parameters", and those behind the ones that all results have. */
void result_touch_parameters(FILE *out, const struct result_touch *touch);
void result_touch_members(FILE *out, const struct result_touch *touch);

#endif
