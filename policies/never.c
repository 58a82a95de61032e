/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing comes in that is not there: all else is used where it is. */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	q->level = 0;
	q->evict = 0;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(never, "nothing comes in", .admit = weir_admit)
