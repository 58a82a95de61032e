/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of which a step touches each byte once or more, on average, comes in whole, whoever has
 * to go for it; else as far as there is room.
 */
#include <weir/policy.h>

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	q->level = q->range.nr_blocks;
	q->evict = q->use_read_bytes + q->use_write_bytes >= q->use_bytes;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(dense, "what is touched densely comes in, the rest where there is room",
		    .admit = weir_admit)
