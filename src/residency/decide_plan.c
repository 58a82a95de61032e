/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plan says: as much of a range is resident in a stage as the plan gives it, and who is
 * used farthest ahead goes first (L. A. Belady, IBM Systems Journal 5:2, 1966), of equals who goes
 * without a copy. The plan has made room for what it fetches; so nothing is evicted for that, but
 * for blocks that get their first contents, which have nowhere else to be.
 */
#include "src/residency/decide.h"

struct brought_in plan_bring_in(const struct bring_in *q)
{
	return (struct brought_in){
		.level = q->planned == DECIDE_UNKNOWN ? q->nr_blocks : q->planned,
		.evict_for_fresh = true,
	};
}

uint64_t plan_give_up(const struct give_up *q)
{
	return ((uint64_t)q->next_use << 1 | q->clean) + 1;
}

/* The last blocks of a range, as many as the plan says, are on the host; blocks are backed in the
 * range's order, and leave from its end. Neighbours get the others: the one where it should be if
 * that has room, else the first that has any, or whose freed ranges may have some. */
bool plan_evict_to(const struct evict_to *q, place_t *to)
{
	place_t last = (place_t)(q->nr_places - 1), near = (place_t)(q->from + 1);

	if (q->planned_last == DECIDE_UNKNOWN)
		return false;
	*to = last;
	if (q->nr_last < q->planned_last && q->nr_unbacked <= q->planned_last - q->nr_last)
		return true;
	if (q->near && q->room[q->near])
		near = q->near;
	while (near < last && !q->room[near])
		near++;
	*to = near < last ? near : (place_t)(q->from + 1);
	return true;
}
