/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the mapping calls of a stage take the host, when some of them wait for copies that run
 * beside them. How many that are goes by the share of the time for which such copies run; and the
 * longer the calls take, the smaller that share is.
 */
#include <math.h>

#include "src/residency/plan_parts.h"

/* What the calls that would wait take more if all did, times for how long there is something to
 * wait for: ns squared. */
static double held_up(const struct plan_input *input, const struct calls *calls)
{
	return calls->nr_unmaps * input->unmap_busy_ns * calls->near_ns +
	       calls->nr_maps * (input->map_busy_ns * calls->in_ns +
				 input->map_busy_host_ns * calls->host_ns);
}

double calls_and_ns(const struct plan_input *input, const struct calls *calls, double other_ns)
{
	double held = held_up(input, calls), all = calls->ns + other_ns;

	if (!(held > 0))
		return calls->ns;
	/* x = ns + held / (x + other_ns) */
	return (calls->ns - other_ns + sqrt(all * all + 4 * held)) / 2;
}

double calls_beside_ns(const struct plan_input *input, const struct calls *calls, double run_ns)
{
	double held = held_up(input, calls);

	if (!(held > 0))
		return calls->ns;
	if (calls->ns + held / run_ns <= run_ns)
		return calls->ns + held / run_ns;
	return calls_and_ns(input, calls, 0);
}
