/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of a pass. */
#ifndef WEIR_TOUCH_BOUND_H
#define WEIR_TOUCH_BOUND_H

#include "workloads/touch/touch.h"

/* What a pass finds in the device's memory, of the table, at most. */
struct touch_bound {
	uint64_t begin_bytes; /* as it begins: 0 if it is drained before */
	uint64_t end_bytes;   /* and as it ends */
};

/*
 * Seconds that no pass takes less than, on a machine that keeps to its description. A kernel of the
 * device reads r->read_bytes and writes r->write_bytes of the table, and touches r->distinct_bytes
 * of it.
 *
 *  - What is touched and not in the device's memory as the pass begins, distinct - begin bytes of
 *    it at least, is read across the link at least once, if it is read; and what is written and not
 *    there as the pass ends, distinct - end bytes, is written across it. A link carries no more
 *    each way than its copy engine does alone: copies and accesses in place go over the same wires.
 *  - Each byte that the kernel asks for comes from or goes to the device's own memory, or over the
 *    link. So all of them take the time that both together need, at their full rates.
 *
 * Caches are left out: a table that is not far larger than they are can be faster.
 */
double touch_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		     const struct touch_params *p, const struct passes_result *r,
		     const struct touch_bound *resident);

#endif
