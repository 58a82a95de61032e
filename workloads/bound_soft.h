/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pieces use at given prices when they take not only their cheapest way but nearly as cheap
 * ones too. Guides the search for prices; no bound rests on it. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_SOFT_H
#define WEIR_BOUND_SOFT_H

#include "workloads/bound_tables.h"

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
