/* SPDX-License-Identifier: Apache-2.0 */
/* A fault brings its whole block and the `k` blocks behind it, or before it if k is negative. */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(int32_t, k, 1, "blocks beside the fault's, -8 to 8")

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	weir_policy_bring(q, 0, q->nr_pages);
	q->more = k;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(more, "a fault brings its whole block and k more", .fault = weir_fault)
