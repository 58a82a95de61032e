/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lower bounds on the time of a pass of a solver, whatever manager runs it and even if it knows the
 * future. They know no budget: each device's memory holds all that its kernels name.
 *
 * docs/solver.md says exactly what is assumed, and proves them.
 */
#ifndef WEIR_SOLVER_BOUND_H
#define WEIR_SOLVER_BOUND_H

#include "workloads/solver/solver.h"

struct solver_bound {
	double kernels_s;  /* the busiest device's kernels, with all their data in its memory */
	double hbm_s;	   /* the same by their bytes alone, as if launches had no least time */
	double ports_s;	   /* the busiest link's or port's bytes, at its rate */
	double memories_s; /* the busiest device's HBM: its kernels' bytes, and messages' */
	double chain_s;	   /* the longest chain of kernels, each of which reads what the one before
			      wrote, and of messages between them */
};

/* Where a device's kernels have what its neighbours wrote. */
enum solver_sharing {
	SOLVER_COPIED,	 /* in the device's own memory: it is sent */
	SOLVER_IN_PLACE, /* also in the neighbours' memory, over a link */
};

/* p: checked. desc: has as many devices, and links between neighbours. result: of a run that got
 * through, for sssp, whose rounds depend on the data; else it may be NULL. */
struct solver_bound solver_bound_of(const struct weir_machine_desc *desc,
				    const struct solver_params *p,
				    const struct solver_result *result,
				    enum solver_sharing sharing);

/*
 * The bound on a real GPU, by its kernels as measured: a pass under `single`, on one device of the
 * same kind, took single_s; `single` is that pass's bound by the model, and `model` this one's. The
 * busiest device's kernels take the share of single_s that it has of single's bytes. What a kernel
 * takes alone was not measured: memories and chains keep the model's times, or where single was
 * faster than the model, are shorter in the same proportion. single_s > 0.
 */
struct solver_bound solver_bound_measured(const struct solver_bound *model,
					  const struct solver_bound *single, double single_s);

/* The largest of the four times, in seconds a pass. */
double solver_bound_s(const struct solver_bound *bound);

/*
 * Whether a pass is shorter where copies by hand take the elements of lists and not all of a part.
 * A device's kernels take K an iteration, and what it receives W, or L of lists, which take P of
 * the kernels' time to pack and unpack: lists, if max(K + P, L) is less than max(K, W).
 */
bool solver_lists_pay(const struct weir_machine_desc *desc, const struct solver_params *p);

/* Of als: the least time of the messages of a side's rows, at the rate of the ports, over that of
 * its launches beside them; of the devices that have the most of each. */
double solver_als_messages(const struct weir_machine_desc *desc, const struct solver_params *p,
			   uint32_t side);

#endif
