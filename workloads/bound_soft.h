/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pieces use at given prices when they take not only their cheapest way but nearly as cheap
 * ones too. Guides the search for prices; no bound rests on it. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_SOFT_H
#define WEIR_BOUND_SOFT_H

#include <math.h>

#include "workloads/bound_tables.h"

#define BOUND_FARTHEST 16.0    /* exp(-this) counts as none */
#define BOUND_LEAST_SHARE 1e-7 /* smaller shares of a piece are not followed */

/* Share of a way, relative to the cheapest one's, by its cost above that in units of softness. */
static inline double bound_falloff(double above)
{
	return above < BOUND_FARTHEST ? (double)expf(-(float)above) : 0;
}

struct bound_soft;

/* The model is borrowed. -ENOMEM. */
int bound_soft_create(const struct bound_model *model, struct bound_soft **out);

/* NULL is allowed. */
void bound_soft_destroy(struct bound_soft *soft);

/*
 * Find the slope of the softened dual: time[step][r] is how long resource r is busy in the step,
 * capacity[step] by how much what is resident exceeds the budget, in budgets.
 *
 * softness: > 0; ns a byte by which a way may be dearer than the cheapest and still have e^-1
 *           times its share.
 */
void bound_soft_usage(struct bound_soft *soft, const struct bound_tables *tables,
		      const struct bound_prices *prices, double softness,
		      struct bound_prices *usage);

#endif
