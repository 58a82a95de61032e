/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a repetition again after events that differ a little: see record.h.
 *
 * The last whole period before the first such event is the reference. As soon as some events in a
 * row agree with a stretch of it, the program is taken to be there: at the event that was expected,
 * when events were inserted; further on, when some are missing or were replaced. Of several
 * stretches the first after the expected event counts. A wrong choice costs speed only: the next
 * event that differs corrects it.
 *
 * Lives are compared by places, which count as if nothing had differed. A life that was allocated
 * while nothing agreed has the place of the first allocation of its size that the reference has in
 * the stretch that was passed over, and that is alive at the end of it. Others of them have no
 * place, and no plan knows them.
 */
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/residency/record.h"

/* Events in a row that must agree. */
#define AGREEING 6
/* A shorter period is recognised anew as soon. */
#define PERIOD_MIN 24u
/* The part of a period that has to be followed before it is worth looking for, where uses are
 * guesses, which are seldom right for a whole one. */
#define FOLLOWED_PART 4
/* Where uses are guesses: more than this part of a period that was not followed is too much. */
#define POOR_PART 16
/* Stretches of the reference that are looked at for one event. */
#define STRETCHES_MAX 64

void record_forget(struct record *record)
{
	free(record->suspended.head);
	free(record->suspended.next);
	record->suspended = (struct suspended){0};
}

/* The event of the reference that comes so many after the expected one. */
static uint64_t reference_event(const struct suspended *s, uint64_t distance)
{
	return s->reference + (s->expected - s->reference + distance) % s->period;
}

/* Where the stretches of AGREEING events are in the reference, by the hash of their shapes. false:
 * no memory. */
static bool index_reference(const struct record *record, struct suspended *s)
{
	s->mask = 1;
	while (s->mask < s->period)
		s->mask = 2 * s->mask + 1;
	s->head = calloc(s->mask + 1, sizeof(*s->head));
	s->next = calloc(s->period, sizeof(*s->next));
	if (!s->head || !s->next)
		return false;
	for (uint64_t d = s->period; d-- > 0;) {
		uint64_t hash = 1;
		uint32_t *head;

		for (uint64_t i = 0; i < AGREEING; i++)
			hash = hash_mix(hash,
					record_event(record, reference_event(s, d + i))->shape);
		head = &s->head[hash & s->mask];
		s->next[d] = *head;
		*head = (uint32_t)d + 1;
	}
	return true;
}

bool record_suspend(struct record *record)
{
	struct suspended *s = &record->suspended;
	uint64_t newest = record->next_event - 1;

	if (record->period < PERIOD_MIN || record->period >= UINT32_MAX)
		return false;
	if (!s->period) {
		const uint64_t least =
			record->guessed ? record->period / FOLLOWED_PART : record->period;

		if (record->followed < least || newest < record->first_event + record->period)
			return false;
		*s = (struct suspended){.period = record->period,
					.reference = newest - record->period,
					.expected = newest - record->period};
	}
	s->since = newest;
	s->place = record_event(record, newest)->place;
	s->nr_recent -= s->nr_recent * MIN(record->followed, s->period) / s->period;
	s->nr_astray -= MIN(s->nr_astray, record->followed);
	record->period = 0;
	return index_reference(record, s);
}

bool record_is_lost(const struct record *record)
{
	const struct suspended *s = &record->suspended;

	return s->nr_astray + record->next_event - s->since > s->period + s->period / 2;
}

bool record_is_poor(const struct record *record)
{
	return record->suspended.nr_recent > record->suspended.period / POOR_PART;
}

/* The newest events are at a stretch of the reference: a hypothesis. */
struct stretch {
	uint64_t first;	   /* of these events */
	uint64_t distance; /* from the expected event */
};

/*
 * Whether life a is to the event at a place what life b is to an event of the reference. The same
 * one is; and so is one allocated as many places before.
 */
static bool same_placed_life(const struct record *record, const struct stretch *stretch, life_t a,
			     uint64_t place, life_t b, uint64_t reference)
{
	const struct suspended *s = &record->suspended;
	const struct event *x, *y;
	uint64_t born;

	if (a == b)
		return true;
	if (!a || !b || a < record->first_event || b < record->first_event)
		return false;
	x = record_event(record, a);
	y = record_event(record, b);
	/* The place that it should have. */
	born = place - (record_event(record, reference)->place - y->place);
	if (!stretch || a < s->since)
		return x->place && x->place == born;
	if (a >= stretch->first)
		return s->place + stretch->distance + (a - stretch->first) == born;
	return x->nr_blocks == y->nr_blocks && born >= s->place &&
	       born < s->place + stretch->distance;
}

/* What tells whether lives are the same to an event at a place and one of the reference. */
struct placed {
	const struct record *record;
	const struct stretch *stretch;
	uint64_t place, reference;
};

static bool same_life_of(const void *arg, life_t a, life_t b)
{
	const struct placed *p = arg;

	return same_placed_life(p->record, p->stretch, a, p->place, b, p->reference);
}

/* The same for an event. stretch: NULL in a repetition that was resumed. */
static bool same_placed_event(const struct record *record, const struct stretch *stretch,
			      uint64_t number, uint64_t place, uint64_t reference)
{
	const struct event *a = record_event(record, number), *b = record_event(record, reference);
	const struct placed placed = {record, stretch, place, reference};

	/* An allocation's life is itself. */
	return a->shape == b->shape && a->kind == b->kind &&
	       (a->kind != EVENT_FREE || same_life_of(&placed, a->life, b->life)) &&
	       record_uses_alike(record, a, b, same_life_of, &placed);
}

static bool stretch_agrees(const struct record *record, const struct stretch *stretch)
{
	const struct suspended *s = &record->suspended;

	for (uint64_t i = 0; i < AGREEING; i++)
		if (!same_placed_event(record, stretch, stretch->first + i,
				       s->place + stretch->distance + i,
				       reference_event(s, stretch->distance + i)))
			return false;
	return true;
}

/* Whether an allocation of the reference, so far from the expected event, is alive at a later one.
 */
static bool is_alive(const struct record *record, uint64_t distance, uint64_t later)
{
	const struct suspended *s = &record->suspended;
	const struct event *born = record_event(record, reference_event(s, distance));

	return !born->freed || born->freed >= s->since ||
	       distance + record_event(record, born->freed)->place - born->place >= later;
}

/* Give places to the lives that were allocated while nothing agreed, or only count them. @return
 * how many have one. */
static uint32_t place_births(const struct record *record, const struct stretch *stretch, bool set)
{
	const struct suspended *s = &record->suspended;
	uint64_t distance = 0;
	uint32_t nr = 0;

	for (uint64_t n = s->since; n < stretch->first; n++) {
		struct event *event = record_event(record, n);
		uint64_t d = distance;

		if (set)
			event->place = 0;
		if (event->kind != EVENT_ALLOC || event->freed)
			continue;
		while (d < stretch->distance &&
		       (record_event(record, reference_event(s, d))->shape != event->shape ||
			!is_alive(record, d, stretch->distance)))
			d++;
		if (d == stretch->distance)
			continue;
		if (set)
			event->place = s->place + d;
		distance = d + 1;
		nr++;
	}
	return nr;
}

/*
 * Whether what agreed with nothing was in place of a whole period, rather than more than it: then
 * lives that were allocated meanwhile are the period's.
 */
static bool is_period_later(const struct record *record, const struct stretch *stretch)
{
	struct stretch later = *stretch;

	later.distance += record->suspended.period;
	return stretch_agrees(record, &later) &&
	       place_births(record, &later, false) > place_births(record, stretch, false);
}

/* The repetition is followed from that stretch on. */
static void resume_at(struct record *record, const struct stretch *stretch)
{
	struct suspended *s = &record->suspended;

	(void)place_births(record, stretch, true);
	for (uint64_t i = 0; i < AGREEING; i++)
		record_event(record, stretch->first + i)->place = s->place + stretch->distance + i;
	record->next_place = s->place + stretch->distance + AGREEING;
	s->nr_astray += stretch->first - s->since;
	s->nr_recent += stretch->first + AGREEING - s->since;
	s->expected = reference_event(s, stretch->distance + AGREEING);
	free(s->head);
	free(s->next);
	s->head = s->next = NULL;
	record->period = s->period;
	record->followed = 0;
	record->odd = 0;
}

bool record_resume(struct record *record)
{
	const struct suspended *s = &record->suspended;
	struct stretch stretch = {.first = record->next_event - AGREEING};
	uint64_t hash = 1;
	uint32_t d;

	if (stretch.first < s->since)
		return false;
	for (uint64_t n = stretch.first; n < record->next_event; n++)
		hash = hash_mix(hash, record_event(record, n)->shape);
	d = s->head[hash & s->mask];
	for (uint32_t i = 0; d && i < STRETCHES_MAX; i++, d = s->next[d - 1]) {
		stretch.distance = d - 1;
		/* In one that ends behind the expected event only its end is believed. */
		if (stretch.distance + AGREEING <= s->period && stretch_agrees(record, &stretch)) {
			if (is_period_later(record, &stretch))
				stretch.distance += s->period;
			resume_at(record, &stretch);
			return true;
		}
	}
	return false;
}

bool record_agrees(const struct record *record)
{
	uint64_t newest = record->next_event - 1;

	return same_placed_event(record, NULL, newest, record_event(record, newest)->place,
				 record->suspended.expected);
}

void record_go_on(struct record *record)
{
	struct suspended *s = &record->suspended;

	s->expected = reference_event(s, 1);
	/* From here on the events a period before are as good, and so are their ages. */
	if (record->followed + 1 >= 2 * s->period)
		record_forget(record);
}
