/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for good prices. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_ASCENT_H
#define WEIR_BOUND_ASCENT_H

#include "workloads/bound_model.h"

/*
 * Look for prices with a high bound, the same way every time.
 *
 * out: the best bound found, in ns; any prices give one, so more search only makes it better.
 * -ENOMEM.
 */
int bound_ascent(const struct bound_model *model, double *out);

#endif
