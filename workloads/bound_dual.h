/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual function of the relaxation: for any prices, a lower bound on the optimum. Internal to
 * workloads/bound*.c.
 */
#ifndef WEIR_BOUND_DUAL_H
#define WEIR_BOUND_DUAL_H

#include "workloads/bound_model.h"

/*
 * Prices, or amounts of what they are paid for, by step of a model.
 *
 * Invariants of prices: time[] >= 0 and adds up to one over the resources of a step; capacity >= 0.
 */
struct bound_prices {
	double (*time)[BOUND_RESOURCE_NR];
	double *capacity; /* ns for the whole budget during the step */
	uint32_t nr_steps;
};

/* -ENOMEM. All zero. */
int bound_prices_init(struct bound_prices *p, uint32_t nr_steps);
void bound_prices_fini(struct bound_prices *p);

/* Scratch space of evaluations of one model, which it borrows. */
struct bound_dual;

int bound_dual_create(const struct bound_model *model, struct bound_dual **out);
void bound_dual_destroy(struct bound_dual *dual);

/*
 * The bound that prices give, in ns.
 *
 * gradient: may be NULL; else set to a supergradient: time[step][r] is how long resource r is busy
 * in the step, capacity[step] by how much what is resident exceeds the budget, in budgets.
 */
double bound_dual_value(struct bound_dual *dual, const struct bound_prices *prices,
			struct bound_prices *gradient);

#endif
