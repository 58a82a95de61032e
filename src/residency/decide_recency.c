/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for programs of which nothing is known but what they used so far. What a bracket touches
 * densely comes in, whoever has to go for it: a copy of it costs no more than its use in place.
 * What is touched sparsely comes in where there is room anyway. Who was not used for longest goes
 * first, to the nearest place with room.
 */
#include "src/residency/decide.h"

/* Touches of each byte, on average, from which a copy is worth its bytes. */
#define DENSE 1.0

struct brought_in recency_bring_in(const struct bring_in *q)
{
	bool dense = q->touches >= DENSE;

	return (struct brought_in){
		.level = q->nr_blocks, .evict_for_fresh = dense, .evict_for_moved = dense};
}

uint64_t recency_give_up(const struct give_up *q)
{
	return q->idle + 2; /* 1: what is advised to stay */
}

place_t recency_evict_to(const struct evict_to *q)
{
	place_t last = (place_t)(q->nr_places - 1);

	/* What is nowhere yet and gets no room above is going to be used where it comes. */
	if (q->copies_only && q->nr_unbacked)
		return last;
	for (place_t to = (place_t)(q->from + 1); to < last; to++)
		if (q->room[to])
			return to;
	return last;
}
