/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver does itself: a fault brings the largest subtree around its page of which more
 * than `threshold` percent are there by then. 51 is the driver's number; with 0 the whole block
 * comes, with 100 the page alone.
 */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, threshold, 51, "percent of a subtree above which all of it comes")

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	uint32_t n = WEIR_POLICY_LEVELS - 1, first, end;

	for (; n > 0; n--) {
		first = q->page >> n << n;
		end = first + (1u << n) < q->nr_pages ? first + (1u << n) : q->nr_pages;
		if (q->level[n] * 100 > (end - first) * threshold)
			break;
	}
	first = q->page >> n << n;
	weir_policy_bring(q, first, first + (1u << n));
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(tree, "the driver's tree: a subtree comes when enough of it is there",
		    .fault = weir_fault)
