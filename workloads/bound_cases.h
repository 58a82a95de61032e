/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be added to the dual by telling apart, a few launches at a time, whether uses are
 * within translation reach or beyond. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_CASES_H
#define WEIR_BOUND_CASES_H

#include "workloads/bound_tables.h"

/*
 * Find by how much the bound is higher than bound_dual_value() at these prices says, the same way
 * every time.
 *
 * tables: filled for the prices.
 * gain:   >= 0, in ns. A trace that is too long is left as it is, or what of it is.
 * -ENOMEM.
 */
int bound_cases(const struct bound_tables *tables, const struct bound_prices *prices, double *gain);

#endif
