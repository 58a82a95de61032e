/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule where nothing is known but what was used so far: that of policies/recency.h, which is
 * explained there. Blocks go to the nearest place with room.
 */
#include "src/residency/decide.h"

/* Touches of each byte, on average, from which a copy is worth its bytes. */
#define DENSE 1.0

struct brought_in recency_bring_in(const struct bring_in *q)
{
	const struct recency_use use = {
		.past = q->past,
		.victim = q->victim,
		.dense = q->touches >= DENSE,
		.nr_blocks = q->nr_blocks,
		.nr_resident = q->nr_resident,
		.nr_unbacked = q->nr_unbacked,
		.nr_away = q->nr_away,
		.nr_free = q->nr_free,
	};
	struct brought_in answer = {.level = q->nr_blocks};
	bool evict = use.dense;

	if (q->past.range)
		answer.level = recency_admit(&use, &evict);
	answer.evict_for_fresh = answer.evict_for_moved = evict;
	return answer;
}

uint64_t recency_give_up(const struct give_up *q)
{
	const struct past *p = &q->past;

	if (!p->range)
		return q->idle + 2;
	recency_credit(p, q->nr_resident);
	return recency_rank(p, q->idle) + 2; /* 1: what is advised to stay */
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
