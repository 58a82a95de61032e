/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for good prices. Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_ASCENT_H
#define WEIR_BOUND_ASCENT_H

#include "workloads/bound_dual.h"

enum bound_ascent_mode {
	BOUND_ASCENT_ALL,  /* all prices are looked for */
	BOUND_ASCENT_LINK, /* time has a price on the link alone: bounds the time in which the link
			      carries what capacity forces across */
};

/*
 * Look for prices with a high bound, the same way every time.
 *
 * out: the best bound found, in ns; any price gives one, so more search only makes it better.
 * -ENOMEM.
 */
int bound_ascent(const struct bound_model *model, const struct trace *trace,
		 enum bound_ascent_mode mode, double *out);

/*
 * Least time of each step if capacity were free: kernels alone, with as much in place as helps.
 * Writes the time prices that prove it, which are the start of the search. Their sum over the
 * steps is a bound.
 */
double bound_step_alone(const struct bound_step *step, double hbm_ns, double relief,
			double time[BOUND_RESOURCE_NR]);

/*
 * By step: HBM time with everything resident, and how much of it a ns in place can save at most,
 * each way busy at the same time. Arrays of nr_steps.
 */
void bound_step_reliefs(const struct bound_model *model, double *hbm_ns, double *relief);

#endif
