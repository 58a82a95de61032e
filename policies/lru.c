/* SPDX-License-Identifier: Apache-2.0 */
/* What was used longest ago goes; of those alike, what came first. */
#include <weir/policy.h>

/* Only the window that is shown can be chosen from, so this is the least recently used of the 32
 * that came first. What came and was not used yet is as young as if it had been. */
static uint64_t age(const struct weir_policy_candidate *c)
{
	return c->used_age < c->arrived_age ? c->used_age : c->arrived_age;
}

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < q->nr && i < WEIR_POLICY_CANDIDATES; i++)
		if (age(&q->candidate[i]) > age(&q->candidate[best]))
			best = i;
	q->chosen = best;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(lru, "what was used longest ago goes first", .victim = weir_victim)
