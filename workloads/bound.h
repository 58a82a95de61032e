/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lower bound on the time that a trace's launches can take on a machine with a given budget of
 * GPU memory, its own and that of neighbours, whatever the manager does and whatever it knows of
 * the future. docs/bound.md states it exactly, proves it and says what is loose.
 */
#ifndef WEIR_BOUND_H
#define WEIR_BOUND_H

#include "workloads/trace.h"

/* The argument that gave the bound. */
enum bound_part {
	BOUND_BY_COMPUTE,  /* the kernels one after another, as if everything were in HBM */
	BOUND_BY_BRACKETS, /* the same, with what a launch uses beyond the budget used in place */
	BOUND_BY_PRICES,   /* the relaxation: kernels, link, budget and contents together */
};

/* Seconds. Each is a bound; bound_s is the largest of them. */
struct bound_result {
	double bound_s;
	enum bound_part part;
	double compute_s, brackets_s, prices_s;
};

/*
 * Compute the bound. Takes memory in proportion to the trace, and time in proportion up to a
 * fixed amount of search. The same trace gives the same result.
 *
 * desc:	     as weir_machine_check() accepts it.
 * device:	     that runs the trace.
 * gpu_budget_bytes: of the device's memory, at any time; 0, or more than there is: all of it.
 * near_bytes:	     by memory, how much of it may hold contents, for memories of other GPUs; the
 *		     same form as weir_space_config.budget_bytes. The entries of the device's own
 *		     memory and of hosts are not read; more than there is counts as all of it. NULL:
 *		     no other GPU's memory is used.
 * out:		     written on success only.
 *
 * 0, or -EINVAL: a malformed trace (see trace_check()), no such device, or near_bytes has a memory
 * that no link joins to the device's own; -WEIR_EMACHINE; -ENOMEM; -E2BIG: too many overlapping
 * parts.
 */
int bound_compute(const struct trace *trace, const struct weir_machine_desc *desc, uint32_t device,
		  uint64_t gpu_budget_bytes, const uint64_t near_bytes[WEIR_MEMORIES_MAX],
		  struct bound_result *out);

/* "compute", "brackets", "prices". */
const char *bound_part_name(enum bound_part part);

#endif
