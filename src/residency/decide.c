/* SPDX-License-Identifier: Apache-2.0 */
/* Who is asked, in which order: see decide.h. */
#include "src/residency/decide.h"

static struct brought_in bring_in(const struct bring_in *q)
{
	struct brought_in answer = q->follows_plan ? plan_bring_in(q) : recency_bring_in(q);

	if (q->stays)
		answer.level = q->nr_blocks;
	advice_bring_in(q, &answer);
	return answer;
}

/* A plan was made with the advice, and knows better when its ranges are used. */
static uint64_t give_up(const struct give_up *q)
{
	uint64_t rank;

	if (q->guest)
		return UINT64_MAX / 2 + q->idle;
	if (q->follows_plan)
		return plan_give_up(q);
	return advice_give_up(q, &rank) ? rank : recency_give_up(q);
}

static place_t evict_to(const struct evict_to *q)
{
	place_t to;

	return advice_evict_to(q, &to) || plan_evict_to(q, &to) ? to : recency_evict_to(q);
}

const struct decisions decide_default = {
	.name = "advice, plan, recency",
	.bring_in = bring_in,
	.give_up = give_up,
	.evict_to = evict_to,
};
