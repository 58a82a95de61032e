/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fault brings its whole block, and the next one in the direction in which the faults of the
 * range go: towards lower addresses if the last one was in a block above.
 */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	weir_policy_bring(q, 0, q->nr_pages);
	q->more = q->last_block != WEIR_POLICY_UNKNOWN && q->last_block > q->block ? -1 : 1;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(onward, "a fault brings its whole block and the next one in its direction",
		    .fault = weir_fault)
