/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was used last goes first, of those alike what came last: of a pass over more than fits, the
 * part that is there stays for the next one. Looks at the first `windows` windows of 32.
 */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, windows, 1, "of 32 candidates each, to 64")

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	uint32_t best = 0;

	if (q->window + 1 < windows && q->nr == WEIR_POLICY_CANDIDATES)
		return WEIR_POLICY_NEXT;
	for (uint32_t i = 1; i < q->nr && i < WEIR_POLICY_CANDIDATES; i++)
		if (q->candidate[i].used_age <= q->candidate[best].used_age)
			best = i;
	q->chosen = best;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(mru, "what was used last goes first", .victim = weir_victim)
