/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of a pass. */
#ifndef WEIR_TOUCH_BOUND_H
#define WEIR_TOUCH_BOUND_H

#include "workloads/passes_bound.h"
#include "workloads/touch/touch.h"

/*
 * Seconds that no pass takes less than; passes_bound.h has the argument. A kernel of the device
 * reads r->read_bytes and writes r->write_bytes of the table, and touches r->distinct_bytes of it.
 * What is touched and not in the device's memory as the pass begins, distinct - begin bytes of it
 * at least, is read across a link at least once, if it is read; and what is written and not there
 * as the pass ends, distinct - end bytes, is written across one.
 *
 * Caches are left out: a table that is not far larger than they are can be faster.
 */
double touch_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct touch_params *p, const struct passes_result *r,
		     const struct passes_held *held);

#endif
