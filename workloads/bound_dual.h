/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual function of the relaxation: for any prices, a lower bound on the optimum. Internal to
 * workloads/bound*.c.
 */
#ifndef WEIR_BOUND_DUAL_H
#define WEIR_BOUND_DUAL_H

#include "workloads/bound_tables.h"

/* The bound that prices give, in ns. tables: filled for them. */
double bound_dual_value(const struct bound_tables *tables, const struct bound_prices *prices);

#endif
