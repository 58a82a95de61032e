/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weir does itself until it has a plan: the rule of recency.h, of which this is what comes
 * between it and the hooks. A range's two words are what the rule keeps of it.
 *
 * Five things a hook is not shown as the rule has them, so that results may differ:
 * - The rule's time is blocks used. Here a step is as long as uses that were asked about had
 *   blocks, on average.
 * - The rule credits uses of what is resident before each use that finds blocks away. Here that is
 *   done as a victim is asked for: one decision later.
 * - The rule looks at all ranges. Here the first 32 are: a choice is from the window shown last.
 * - The rule knows which blocks have no contents yet. Here the first use of a range that is asked
 *   about is taken for that.
 * - The rule has a duel for each device. Here a space has one.
 */
#include <weir/policy.h>

#include "recency.h"

/* Whether what is resident stays, as results show it: 1 or 0. */
WEIR_POLICY_GLOBAL(uint32_t, keep)
/* Uses that were asked about, each range's first one left out; and the blocks of these uses. */
WEIR_POLICY_GLOBAL(uint64_t, asked_uses)
WEIR_POLICY_GLOBAL(uint64_t, asked_blocks)
/* The time in blocks, and the step that it was counted up to. */
WEIR_POLICY_GLOBAL(uint64_t, now_blocks)
WEIR_POLICY_GLOBAL(uint64_t, now_steps)
/* The budget in blocks. */
WEIR_POLICY_GLOBAL(uint64_t, nr_chunks)
/* What the rule keeps of the memory. */
WEIR_POLICY_ARRAY(struct recency, memory, 1)

/* Blocks that so many steps use, on average. */
static uint64_t blocks_of(uint64_t steps)
{
	return asked_uses ? steps * (asked_blocks / asked_uses) : 0;
}

static void pass_time(uint64_t now)
{
	now_blocks += blocks_of(now - now_steps);
	now_steps = now;
}

/* What was used by the step before this one is not idle: nothing else was used since. */
static struct past past_of(struct recency_range *range, uint64_t uses, uint64_t used_age)
{
	return (struct past){
		.range = range,
		.memory = &memory[0],
		.now = (uint32_t)now_blocks + 1,
		.idle = (uint32_t)blocks_of(used_age ? used_age - 1 : 0),
		.uses = (uint32_t)uses,
		.nr_chunks = (uint32_t)nr_chunks,
	};
}

static void get(struct recency_range *to, const uint64_t word[2])
{
	__builtin_memcpy(to, word, sizeof(*to));
}

static void put(uint64_t word[2], const struct recency_range *from)
{
	__builtin_memcpy(word, from, sizeof(*from));
}

WEIR_POLICY_HOOK int weir_admit(struct weir_policy_admit *q)
{
	const uint64_t use_blocks = (q->use_bytes + q->block_bytes - 1) / q->block_bytes;
	const uint32_t away = q->range.nr_blocks - q->range.nr_resident;
	struct recency_range range, victim;
	struct recency_use use;
	bool first, evict;

	get(&range, q->range.word);
	get(&victim, q->victim.word);
	first = !range.since;
	nr_chunks = q->all_blocks;
	asked_uses += !first;
	asked_blocks += first ? 0 : use_blocks;
	pass_time(q->now);
	use = (struct recency_use){
		.past = past_of(&range, q->range.uses, q->range.used_age),
		.dense = q->use_read_bytes + q->use_write_bytes >= q->use_bytes,
		.nr_blocks = q->range.nr_blocks,
		.nr_resident = q->range.nr_resident,
		.nr_unbacked = first ? away : 0,
		.nr_away = first	       ? 0
			   : use_blocks < away ? (uint32_t)use_blocks
					       : away,
		.nr_free = (uint32_t)q->free_blocks,
	};
	if (q->has_victim && use.nr_free < use.nr_away)
		use.victim = past_of(&victim, q->victim.uses, q->victim.used_age);
	q->level = recency_admit(&use, &evict);
	q->evict = evict;
	keep = memory[0].keep;
	put(q->range.word, &range);
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_HOOK int weir_victim(struct weir_policy_victim *q)
{
	uint64_t highest = 0;

	pass_time(q->now);
	q->chosen = 0;
	for (uint32_t i = 0; i < q->nr && i < WEIR_POLICY_CANDIDATES; i++) {
		struct weir_policy_candidate *c = &q->candidate[i];
		struct recency_range range;
		struct past past;
		uint64_t rank;

		get(&range, c->range_word);
		past = past_of(&range, c->uses, c->used_age);
		recency_credit(&past, c->nr_resident);
		rank = recency_rank(&past, c->used_age);
		put(c->range_word, &range);
		if (rank > highest) {
			highest = rank;
			q->chosen = i;
		}
	}
	return WEIR_POLICY_ANSWER;
}

WEIR_POLICY_HOOK int weir_moved(struct weir_policy_moved *q)
{
	struct recency_range range;
	struct past past;

	get(&range, q->range_word);
	range.uses += (uint32_t)q->uses; /* which count from 0 from here on */
	past = past_of(&range, 0, 0);
	recency_moved(&past, q->came);
	put(q->range_word, &range);
	return WEIR_POLICY_DEFAULT;
}

WEIR_POLICY_PROGRAM(recency, "weir's own rule: a duel of replacing what is resident and keeping it",
		    .admit = weir_admit, .victim = weir_victim, .moved = weir_moved)
