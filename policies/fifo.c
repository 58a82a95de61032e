/* SPDX-License-Identifier: Apache-2.0 */
/* What came first goes first, however much it is used. */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	q->chosen = 0;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(fifo, "what came first goes first", .victim = weir_victim)
