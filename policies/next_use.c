/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is used again latest goes first. That takes knowing the future: in replays of a trace, where
 * it bounds what any other choice of victims could gain. Elsewhere the default chooses.
 */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	if (!q->nr_far)
		return WEIR_POLICY_DEFAULT;
	q->chosen = WEIR_POLICY_CANDIDATES;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(next_use, "what is used again latest goes first (in replays)",
		    .victim = weir_victim)
