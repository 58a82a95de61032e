/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second chance: what was used again since it was last spared, or since it came, is spared once
 * more. The first one that was not goes; if all of the 32 were, the first of all.
 */
#include <weir/policy.h>

/* Of a block: its uses when it was spared. */
#define SPARED(c) ((c)->block_word[0])

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	for (uint32_t i = 0; i < q->nr && i < WEIR_POLICY_CANDIDATES; i++) {
		struct weir_policy_candidate *c = &q->candidate[i];

		/* The use that it came for is none; what came back starts again. */
		if (c->uses <= 1 || c->uses == SPARED(c)) {
			SPARED(c) = 0;
			q->chosen = i;
			return WEIR_POLICY_ANSWER;
		}
		SPARED(c) = c->uses;
	}
	q->chosen = 0;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(second_touch, "what was used again is spared once", .victim = weir_victim)
