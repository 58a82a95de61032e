/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fault brings a share of its block: the pages behind its own, or before it if the range's last
 * fault was behind it.
 */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, percent, 50, "of the block, from the fault's page on")

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	uint32_t nr = q->nr_pages * percent / 100;
	uint32_t first = q->page, end = q->page + nr;

	if (q->last_block != WEIR_POLICY_UNKNOWN &&
	    (q->last_block > q->block || (q->last_block == q->block && q->last_page > q->page))) {
		first = q->page + 1 > nr ? q->page + 1 - nr : 0;
		end = q->page + 1;
	}
	weir_policy_bring(q, first, end);
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(share, "a fault brings a share of its block, in the faults' direction",
		    .fault = weir_fault)
