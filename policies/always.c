/* SPDX-License-Identifier: Apache-2.0 */
/* What is used comes in whole, whoever has to go for it. */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	q->level = q->range.nr_blocks;
	q->evict = 1;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(always, "what is used comes in, whoever has to go", .admit = weir_admit)
