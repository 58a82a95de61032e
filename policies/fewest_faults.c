/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of the 32 that came first, the block goes that had the fewest faults since it came: all that a
 * driver sees of use. Blocks that came whole have one.
 */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < q->nr && i < WEIR_POLICY_CANDIDATES; i++)
		if (q->candidate[i].nr_faults < q->candidate[best].nr_faults)
			best = i;
	q->chosen = best;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(fewest_faults, "what had the fewest faults goes first", .victim = weir_victim)
