/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program asked for (weir_advise()): a range that is to stay in the device's own memory
 * comes there whole, and is the last to go; one that is to stay elsewhere does not come, goes
 * first, and goes there.
 */
#include "src/residency/decide.h"

void advice_bring_in(const struct bring_in *q, struct brought_in *answer)
{
	if (q->prefer == PLACE_OWN)
		answer->level = q->nr_blocks;
	else if (q->prefer != DECIDE_NOWHERE)
		answer->level = 0;
}

bool advice_give_up(const struct give_up *q, uint64_t *rank)
{
	if (q->prefer == DECIDE_NOWHERE)
		return false;
	*rank = q->prefer == PLACE_OWN ? 1 : UINT64_MAX / 2 + q->idle;
	return true;
}

bool advice_evict_to(const struct evict_to *q, place_t *to)
{
	if (q->prefer <= (int)q->from)
		return false;
	*to = (place_t)q->prefer;
	return true;
}
