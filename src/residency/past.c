/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What uses of ranges were, for rules that know nothing else. Time passes with the blocks that
 * brackets use. A life's first use does not count, since a temporary that is used once takes chunks
 * that another one gave back.
 */
#include "src/residency/residency.h"

uint32_t past_nr_free(const struct weir_space *space, place_t own)
{
	uint64_t nr = pmm_nr_available(&space->pmm[own]);

	for (const struct range *range = space->pooled; range; range = range->next_pooled)
		if (range_is_idle(space, range))
			nr += range_nr_settled(range, own);
	return (uint32_t)nr;
}

struct past past_get(const struct weir_space *space, const struct range *range)
{
	struct residency *s = space->residency;
	struct range_residency *r = range->residency;
	uint32_t now = s->time[range->own] + 1;

	return (struct past){
		.range = &r->recency,
		.memory = &s->recency[range->own],
		.now = now,
		.idle = now - range->used_at,
		.uses = range->nr_uses,
		.nr_chunks = (uint32_t)space->pmm[range->own].max_chunks,
	};
}

void past_moved(struct weir_space *space, struct range *range, bool came)
{
	struct past past;

	if (range_follows_plan(range))
		return;
	past = past_get(space, range);
	recency_moved(&past, came);
}

void past_reset(struct range *range)
{
	struct range_residency *r = range->residency;

	range->nr_uses = range->used_at = 0;
	r->answer_mark = 0;
	r->recency = (struct recency_range){0};
}
