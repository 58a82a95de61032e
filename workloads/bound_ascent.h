/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for good prices. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_ASCENT_H
#define WEIR_BOUND_ASCENT_H

#include "workloads/bound_tables.h"

/*
 * Look for prices with a high bound, the same way every time.
 *
 * prices: initialized for the model; the best found.
 * value:  the bound that they give, in ns; any give one, so more search only makes it better.
 * -ENOMEM.
 */
int bound_ascent(const struct bound_model *model, struct bound_prices *prices, double *value);

#endif
