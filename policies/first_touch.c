/* SPDX-License-Identifier: Apache-2.0 */
/* What is used first stays: what comes later comes where there is room, and nobody has to go. */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	q->level = q->range.nr_blocks;
	q->evict = 0;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(first_touch, "what is used first comes in and stays", .admit = weir_admit)
