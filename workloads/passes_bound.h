/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound on the time of a pass: what workloads' own bounds have in common. */
#ifndef WEIR_PASSES_BOUND_H
#define WEIR_PASSES_BOUND_H

#include "weir/weir.h"

/* What a pass finds in GPUs' memory, of what is managed, at most. */
struct passes_held {
	uint64_t begin_bytes; /* in the device's own as it begins: 0 if it is drained before */
	uint64_t end_bytes;   /* as it ends, and in between */
	const uint64_t *near_bytes; /* by memory, in other GPUs' at any time; NULL: none */
};

/* What of some bytes is not held: in the device's own memory, and there and in its neighbours'. */
struct passes_beyond {
	double own, both;
};

/* What a pass asks for, and what of it has to cross links. */
struct passes_least {
	struct passes_beyond in, out;
	/* Read and written; the rate of the HBM of all devices together. */
	double asked_bytes, hbm_bytes_per_s;
};

/* Of so many bytes, with so many of them in the device's own memory: begin_bytes or end_bytes. */
struct passes_beyond passes_beyond(uint64_t bytes, const struct passes_held *held,
				   uint64_t own_bytes);

/*
 * Seconds that no pass takes less than, on a machine that keeps to its description. nr_devices make
 * it, from `device` on. What they ask for and what crosses their host links is counted together, so
 * that it holds whatever a device has in another one's memory. Other GPUs' memory (near_bytes) is
 * counted for one device alone.
 *
 *  - A link carries no more each way than its copy engine does alone, between GPUs no more than the
 *    faster of that and of use in place: copies and accesses in place go over the same wires.
 *  - What is not in the device's own memory, and is read, comes over one of its links: the host's,
 *    and those to neighbours that hold something. What is in none of these memories comes from the
 *    host, over the device's link to it or a neighbour's. The same of what is written and does not
 *    stay, the other way.
 *  - Each byte that a kernel asks for comes from or goes to the device's own memory, or over one of
 *    its links. So all of them take the time that these together need, at their full rates.
 */
double passes_bound_s(const struct weir_machine_desc *desc, uint32_t device, uint32_t nr_devices,
		      const struct passes_held *held, const struct passes_least *least);

#endif
