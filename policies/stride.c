/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When three faults of a range are equally far apart, the 64 KiB around each of the next pages at
 * that distance come, as far as they are in the block; else what the driver brings.
 */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, ahead, 16, "pages of the stride that come")

#define GROUP 16u /* pages of 64 KiB */

/* Of a range: pages from its fault before the last one to the last one. */
#define STRIDE(q) ((q)->range_word[0])

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	uint64_t at = (uint64_t)q->block * WEIR_POLICY_PAGES + q->page, stride;
	uint64_t page = q->page;

	if (q->last_block == WEIR_POLICY_UNKNOWN)
		return WEIR_POLICY_DEFAULT;
	/* Backwards it wraps around, as page does below: then that is beyond the block. */
	stride = at - ((uint64_t)q->last_block * WEIR_POLICY_PAGES + q->last_page);
	if (stride != STRIDE(q)) {
		STRIDE(q) = stride;
		return WEIR_POLICY_DEFAULT;
	}
	for (uint32_t i = 0; i <= ahead && page < q->nr_pages; i++) {
		uint32_t first = (uint32_t)page / GROUP * GROUP;

		weir_policy_bring(q, first, first + GROUP);
		page += stride;
	}
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(stride, "faults at equal distances bring the pages at the next ones",
		    .fault = weir_fault)
