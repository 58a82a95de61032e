/* SPDX-License-Identifier: Apache-2.0 */
/* A fault brings the whole block. */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	weir_policy_bring(q, 0, q->nr_pages);
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(whole, "a fault brings its whole block", .fault = weir_fault)
