/* SPDX-License-Identifier: Apache-2.0 */
/* A range is copied in when it is used for the second time since something of it last moved. */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, least, 1, "earlier uses from which a range is copied in")

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	q->level = q->range.uses >= least ? q->range.nr_blocks : q->range.nr_resident;
	q->evict = 1;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(second_use, "a range comes in when it is used again", .admit = weir_admit)
