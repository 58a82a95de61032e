/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As files are read ahead: a fault brings some pages from its own on. If it comes just behind what
 * the range's last fault brought, it brings twice as many as that one; else it begins anew.
 */
#include <weir/policy.h>

WEIR_POLICY_TUNABLE(uint32_t, least, 16, "pages that come if a fault continues no other")
WEIR_POLICY_TUNABLE(uint32_t, most, 512, "pages that come at most")

/* Of a range: the pages that the last fault brought, and the one behind them; 0: none yet. */
#define PAGES(q) ((q)->range_word[0])
#define EXPECTED(q) ((q)->range_word[1])

WEIR_POLICY_HOOK int weir_fault(struct weir_policy_fault *q)
{
	uint64_t at = (uint64_t)q->block * WEIR_POLICY_PAGES + q->page;
	uint64_t end = (uint64_t)q->block * WEIR_POLICY_PAGES + q->nr_pages;

	if (at && at == EXPECTED(q))
		PAGES(q) = 2 * PAGES(q) < most ? 2 * PAGES(q) : most;
	else
		PAGES(q) = least;
	weir_policy_bring(q, q->page, q->page + (uint32_t)PAGES(q));
	EXPECTED(q) = at + PAGES(q) < end ? at + PAGES(q) : end;
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_PROGRAM(readahead, "faults in a row bring more and more pages", .fault = weir_fault)
