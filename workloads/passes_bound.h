/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of a pass: what workloads' own bounds have in common. */
#ifndef WEIR_PASSES_BOUND_H
#define WEIR_PASSES_BOUND_H

#include "weir/weir.h"

/* What a pass finds in the device's memory, of what is managed, at most. */
struct passes_held {
	uint64_t begin_bytes; /* as it begins: 0 if it is drained before */
	uint64_t end_bytes;   /* as it ends, and in between */
};

/* What a pass asks for, and what of it has to cross the link. */
struct passes_least {
	double in_bytes, out_bytes;
	double asked_bytes, hbm_bytes_per_s; /* read and written, at this rate if it is in HBM */
};

/* What is left of some bytes without those that are held. */
static inline double passes_beyond(uint64_t bytes, uint64_t held_bytes)
{
	return bytes > held_bytes ? (double)(bytes - held_bytes) : 0;
}

/*
 * Seconds that no pass takes less than, on a machine that keeps to its description.
 *
 *  - A link carries no more each way than its copy engine does alone: copies and accesses in place
 *    go over the same wires.
 *  - Each byte that a kernel asks for comes from or goes to the device's own memory, or over the
 *    link. So all of them take the time that both together need, at their full rates.
 */
double passes_bound_s(const struct weir_machine_desc *desc, uint32_t device,
		      const struct passes_least *least);

#endif
