/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks (C. Fidge and F. Mattern, 1988): what precedes whatever is queued on a stream from
 * here on, by the waits that it made. A wait for what is known to precede already is left out:
 * where devices exchange messages step after step, most of those for readers and for messages of
 * earlier steps are.
 *
 * Entities are the streams of brackets, with the numbers of these, and the lanes' own streams, with
 * the numbers of their messages; both grow in the order of the stream. What has no place in a clock
 * is waited for.
 */
#include "src/replica/replica.h"

struct clock *clock_of_slot(struct replicas *rs, const struct stream_slot *slot)
{
	struct slot_clock *c =
		slot && slot->number < CLOCK_SLOTS ? &rs->slot_clock[slot->number] : NULL;

	if (!c)
		return NULL;
	if (c->stream_number != slot->stream_number) /* it is another stream's now */
		*c = (struct slot_clock){.stream_number = slot->stream_number};
	return &c->clock;
}

bool clock_knows(const struct clock *clock, uint32_t entity, uint64_t number)
{
	return clock && entity < CLOCK_ENTITIES && number && clock->known[entity] >= number;
}

void clock_learn(struct clock *clock, uint32_t entity, uint64_t number, const struct clock *then)
{
	if (!clock || entity >= CLOCK_ENTITIES)
		return;
	clock->known[entity] = MAX(clock->known[entity], number);
	for (uint32_t e = 0; then && e < CLOCK_ENTITIES; e++)
		clock->known[e] = MAX(clock->known[e], then->known[e]);
}

bracket_seq_t clock_last_bracket(const struct clock *clock)
{
	bracket_seq_t last = 0;

	for (uint32_t e = 0; e < CLOCK_SLOTS; e++)
		last = MAX(last, clock->known[e]);
	return last;
}

void clock_bracket_ended(struct replicas *rs, const struct stream_slot *slot, bracket_seq_t seq)
{
	struct clock *clock = clock_of_slot(rs, slot);
	struct ended_clock *ended = &rs->ended_clock[seq % CLOCK_ENDED];

	if (!clock)
		return;
	clock_learn(clock, slot->number, seq, NULL);
	ended->seq = seq;
	ended->clock = *clock;
}

const struct clock *clock_of_bracket(const struct replicas *rs, bracket_seq_t seq)
{
	const struct ended_clock *ended = &rs->ended_clock[seq % CLOCK_ENDED];

	return ended->seq == seq ? &ended->clock : NULL;
}
