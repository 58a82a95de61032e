/* SPDX-License-Identifier: Apache-2.0 */
/* Recording and recognition: see record.h. */
#include "src/residency/record.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"

/* Events that are compared before a repetition is believed. */
#define CONTEXT 24
/* Where a comparison of two candidates ends. */
#define MATCH_MAX 4096
/* Candidates looked at for one event; most differ in their first event. */
#define CANDIDATES_MAX 1024
/* So few are cheap enough to be looked at for every event. */
#define CANDIDATES_CHEAP 64
/* Of events whose uses are guesses some may be odd: they launch what they should and use something
 * else. Each counts ODD_PRICE, and one less for each event that agrees; more than ODD_MAX are too
 * many. So one in 32 may be odd, or four of a few. */
#define ODD_PRICE 32u
#define ODD_MAX (4 * ODD_PRICE)
/* Events from one look to the next, at most. */
#define PAUSE_MAX 16u
/* The record is cut down to half when it is this long, beyond what is followed: 30 MiB of events,
 * as much of uses. */
#define EVENTS_MAX (1u << 18)
#define USES_MAX (3u << 17)
#define NR_BUCKETS (1u << 12)
/* Lives whose newest event is known: those that share an entry with another one lose it to that. */
#define NR_NAMED (1u << 16)

/* The newest event that uses a life. */
struct named {
	life_t life;
	uint64_t event;
};

int record_init(struct record *record)
{
	*record = (struct record){
		.first_event = 1, .next_event = 1, .first_use = 1, .next_use = 1, .next_place = 1};
	record->bucket = calloc(NR_BUCKETS, sizeof(uint64_t));
	record->named = calloc(NR_NAMED, sizeof(*record->named));
	if (record->bucket && record->named)
		return 0;
	record_fini(record);
	*record = (struct record){0};
	return -1;
}

void record_fini(struct record *record)
{
	free(record->event);
	free(record->use);
	free(record->bucket);
	free(record->named);
	record_forget(record);
}

static void record_clear(struct record *record)
{
	record->first_event = record->next_event;
	record->first_use = record->next_use;
	record_drop(record);
	record->broken = false;
	memset(record->bucket, 0, NR_BUCKETS * sizeof(uint64_t));
}

/* Forget the oldest events, but keep `keep` of them, one at least. */
static void record_cut(struct record *record, uint64_t keep)
{
	uint64_t first = record->next_event - keep;
	uint64_t first_use = record_event(record, first)->first_use;

	memmove(record->event, record_event(record, first), keep * sizeof(struct event));
	if (record->next_use > first_use)
		memmove(record->use, &record->use[first_use - record->first_use],
			(record->next_use - first_use) * sizeof(struct record_use));
	record->first_event = first;
	record->first_use = first_use;
}

/* How many events are worth keeping: two periods of what is followed, else as many of the newest as
 * have half of the events and uses that there may be. */
static uint64_t record_keep(const struct record *record)
{
	uint64_t nr = record->next_event - record->first_event, keep = 1;

	if (record->suspended.period)
		return MIN(nr, record->next_event - record->suspended.reference + CONTEXT);
	if (record->period)
		return MIN(nr, 2 * record->period + CONTEXT);
	while (keep < MIN(nr, EVENTS_MAX / 2) &&
	       record->next_use - record_event(record, record->next_event - keep - 1)->first_use <=
		       USES_MAX / 2)
		keep++;
	return keep;
}

/* Cut the record, if that frees a quarter of its events or of its uses, as is asked for: less is
 * not worth moving the rest. @return whether it did. */
static bool record_trim(struct record *record, bool uses)
{
	uint64_t nr = record->next_event - record->first_event, keep;
	uint64_t nr_uses = record->next_use - record->first_use, freed_uses;

	if (!nr)
		return false;
	if (record->next_event - record->suspended.reference > 6 * record->suspended.period &&
	    record->suspended.period)
		record_drop(record);
	keep = record_keep(record);
	freed_uses = record_event(record, record->next_event - keep)->first_use - record->first_use;
	if (uses ? freed_uses < nr_uses / 4 : nr - keep < nr / 4)
		return false;
	/* A repetition that is longer than what is kept will not be seen. */
	record->nr_given_up += !record->period && !record->suspended.period;
	record_cut(record, keep);
	return true;
}

/* Make room for one more event. */
static int record_grow(struct record *record)
{
	uint64_t nr = record->next_event - record->first_event;
	struct event *event;
	uint64_t max;

	if (nr < record->max_events || (nr >= EVENTS_MAX && record_trim(record, false)))
		return 0;
	max = MAX(1024u, record->max_events * 2);
	event = realloc(record->event, max * sizeof(*event));
	if (!event)
		return -1;
	record->event = event;
	record->max_events = max;
	return 0;
}

/* The same for a use. */
static int record_grow_uses(struct record *record)
{
	uint64_t nr = record->next_use - record->first_use, max;
	struct record_use *use;

	if (nr < (record->period ? record->max_uses : MIN(record->max_uses, USES_MAX)) ||
	    (nr >= USES_MAX && record_trim(record, true)) || nr < record->max_uses)
		return 0;
	/* Half as much again: a long period that is followed may take most of it. */
	max = MAX(4096u, record->max_uses + record->max_uses / 2);
	if (record->max_uses < USES_MAX)
		max = MIN(max, USES_MAX);
	use = realloc(record->use, max * sizeof(*use));
	if (!use)
		return -1;
	record->use = use;
	record->max_uses = max;
	return 0;
}

void record_add_use(struct record *record, const struct record_use *use)
{
	struct named *named = &record->named[use->life % NR_NAMED];
	struct record_use *added;

	if (record_grow_uses(record)) {
		record->broken = true;
		return;
	}
	added = &record->use[record->next_use++ - record->first_use];
	*added = *use;
	/* Not this event, if it names the life twice. */
	added->previous =
		named->life == use->life && named->event < record->next_event ? named->event : 0;
	*named = (struct named){.life = use->life, .event = record->next_event};
}

void record_add_guess(struct record *record, uint64_t launched, uint64_t guess)
{
	record->guessed |= launched != 0;
	record->launched = launched;
	record->guess = guess;
}

static uint64_t shape_hash(const struct record *record, const struct event *event)
{
	const struct record_use *use = record_uses(record, event);
	uint64_t hash = hash_mix(event->kind + 1u, event->nr_blocks);

	hash = hash_mix(hash, event->stream);
	if (event->launched)
		return hash_mix(hash, event->launched);
	for (uint32_t i = 0; i < event->nr_uses; i++) {
		const uint32_t how = (uint32_t)use[i].kind * 2 + (uint32_t)use[i].pattern;
		/* Of each use by itself first, so that they need not wait for each other. Not the
		 * offset into the bytes: one often is what the other leaves of a range. */
		uint64_t shape = hash_mix(hash_mix(1, use[i].offset), use[i].bytes);

		shape = hash_mix(shape, (uint64_t)how << 32 | use[i].nr_range_blocks);
		hash = hash_mix(hash, shape);
	}
	return hash;
}

static uint64_t rotate(uint64_t x, uint32_t by)
{
	return x << by | x >> (64 - by);
}

/* Hash of the shapes of the newest CONTEXT events; 0 when there are fewer. Each is turned by its
 * age, so that the newest one comes in and the oldest one goes (a cyclic polynomial: Cohen 1997,
 * "Recursive hashing functions for n-grams"). */
static uint64_t context_hash(struct record *record)
{
	const uint64_t nr = record->next_event - record->first_event;
	const uint64_t newest = record->next_event - 1;
	uint64_t n = newest;

	if (nr < CONTEXT)
		return 0;
	if (nr == CONTEXT) {
		record->rolling = 0;
		n = record->first_event;
	} else {
		record->rolling ^= rotate(record_event(record, n - CONTEXT)->shape, CONTEXT - 1);
	}
	for (; n <= newest; n++)
		record->rolling = rotate(record->rolling, 1) ^ record_event(record, n)->shape;
	return hash_mix(1, record->rolling) | 1;
}

uint64_t record_add(struct record *record, enum event_kind kind, uint32_t stream, life_t life,
		    uint32_t nr_blocks)
{
	uint64_t number, first_use, *bucket;
	struct event *event;

	if (record->broken || record_grow(record)) {
		record_clear(record);
		return 0;
	}
	number = record->next_event++;
	event = record_event(record, number);
	/* The uses added since the last event. */
	first_use = record->first_use;
	if (number > record->first_event) {
		const struct event *last = record_event(record, number - 1);

		first_use = last->first_use + last->nr_uses;
	}
	*event = (struct event){.kind = kind,
				.stream = stream,
				.launched = record->launched,
				.guess = record->guess,
				.life = kind == EVENT_ALLOC ? number : life,
				.nr_blocks = nr_blocks,
				.place = record->next_place++,
				.first_use = first_use,
				.nr_uses = (uint32_t)(record->next_use - first_use)};
	record->launched = record->guess = 0;
	if (kind == EVENT_FREE && life >= record->first_event && life < number)
		record_event(record, life)->freed = number;
	event->shape = shape_hash(record, event);
	event->context = context_hash(record);
	bucket = &record->bucket[event->context % NR_BUCKETS];
	event->previous = *bucket;
	if (event->context)
		*bucket = number;
	return number;
}

/*
 * Whether life a is to event number i what life b is to event number j. The same one is; and so is
 * one allocated as long before, provided that b has ended or is young: else a program that walks
 * over equal ranges, allocated one after the other and kept, would seem to stand still.
 */
static bool same_life(const struct record *record, life_t a, uint64_t i, life_t b, uint64_t j)
{
	if (a == b)
		return true;
	return a && b && i - a == j - b && b >= record->first_event &&
	       (record_event(record, b)->freed || i - a <= 2 * (i - j));
}

/* Numbers of two events. */
struct two {
	const struct record *record;
	uint64_t i, j;
};

static bool same_life_of(const void *arg, life_t a, life_t b)
{
	const struct two *two = arg;

	return same_life(two->record, a, two->i, b, two->j);
}

static bool same_event(const struct record *record, uint64_t i, uint64_t j)
{
	const struct event *a = record_event(record, i), *b = record_event(record, j);

	return a->shape == b->shape && a->kind == b->kind && a->stream == b->stream &&
	       a->nr_blocks == b->nr_blocks && same_life(record, a->life, i, b->life, j) &&
	       record_uses_alike(record, a, b, same_life_of, &(struct two){record, i, j});
}

/* Whether two events launch the same, whatever the guesses say that it uses. */
static bool same_launch(const struct record *record, uint64_t i, uint64_t j)
{
	const struct event *a = record_event(record, i), *b = record_event(record, j);

	return a->launched && a->launched == b->launched && a->stream == b->stream;
}

/* Count an event that agrees, or does not but for what it launches. @return whether those that do
 * not are still few. */
static bool count_odd(uint32_t *odd, bool agrees)
{
	if (agrees) {
		*odd -= *odd > 0;
		return true;
	}
	*odd += ODD_PRICE;
	return *odd <= ODD_MAX;
}

/* Over how many events the newest agrees with an earlier one, less ODD_PRICE for each in between
 * that is odd; at most MATCH_MAX. */
static uint64_t match_length(const struct record *record, uint64_t i, uint64_t j)
{
	uint64_t agreed = 0, price = 0;
	uint32_t odd = 0;

	for (uint64_t nr = 0; nr < MATCH_MAX && j - nr > record->first_event; nr++) {
		const bool agrees = same_event(record, i - nr, j - nr);

		if (!agrees && (!nr || !same_launch(record, i - nr, j - nr)))
			break;
		if (!count_odd(&odd, agrees))
			break;
		agreed += agrees;
		price += agrees ? 0 : ODD_PRICE;
	}
	return agreed - MIN(price, agreed);
}

/* The next event at which it is worth looking for a repetition. Looking is dear where all events
 * have one shape, so the longer there was none, the rarer it is done. */
static void try_later(struct record *record, uint64_t newest, uint32_t nr_candidates)
{
	if (nr_candidates < CANDIDATES_CHEAP)
		return;
	record->pause = MIN(record->pause * 2 + 1, PAUSE_MAX);
	record->next_try = newest + record->pause;
}

/* The event that agrees with the newest over the longest stretch, of those after one. */
struct match {
	uint64_t after;
	uint64_t event, length; /* event 0: none */
};

/*
 * By how many events more than the candidate that was found another one has to agree, which is
 * farther away. What repeats itself with period p over n events agrees over n - p of them only, and
 * over all n with an older, longer repetition of the same kind: that says no more, and is wrong
 * where the older one ended.
 */
static uint64_t match_least(const struct record *record, const struct match *match)
{
	const uint64_t period = record->next_event - 1 - match->event;
	uint64_t least = 0;

	if (!match->event)
		return 0;
	if (match->length >= period)
		least = period;
	/* Where some are odd in any case, one that is nearer is as good. */
	return record->guessed ? MAX(least, match->length / 4) : least;
}

/* Compare an event with the newest. @return false: it is useless to look at more. */
static bool match_try(const struct record *record, struct match *match, uint64_t n)
{
	uint64_t length = match_length(record, record->next_event - 1, n);

	if (length > match->length + match_least(record, match)) {
		match->event = n;
		match->length = length;
	}
	return length < (record->guessed ? MATCH_MAX / 2 : MATCH_MAX);
}

/* Candidates by the shapes of what came before. @return how many there were; CANDIDATES_MAX: there
 * may be more. */
static uint32_t match_by_context(const struct record *record, struct match *match)
{
	const struct event *newest = record_event(record, record->next_event - 1);
	uint64_t n = newest->previous;
	uint32_t i = 0;

	for (; i < CANDIDATES_MAX && n > match->after; i++) {
		const struct event *event = record_event(record, n);

		if (event->context == newest->context && !match_try(record, match, n))
			break;
		n = event->previous;
	}
	return i;
}

/* The use of an event that names a life (or any: 0) not named for longest. */
static const struct record_use *rarest_use(const struct record *record, const struct event *event,
					   life_t life)
{
	const struct record_use *use = record_uses(record, event), *rarest = NULL;

	for (uint32_t i = 0; i < event->nr_uses; i++)
		if (use[i].previous && (!life || use[i].life == life) &&
		    (!rarest || use[i].previous < rarest->previous))
			rarest = &use[i];
	return rarest;
}

/*
 * Candidates by a life: events that use the one which the newest event uses, and which was not used
 * for longest. Where more brackets are alike than can be looked at, as in a walk over many ranges,
 * this tells them apart.
 */
static void match_by_life(const struct record *record, struct match *match)
{
	const struct event *newest = record_event(record, record->next_event - 1);
	const struct record_use *use = rarest_use(record, newest, 0);

	for (uint32_t i = 0; use && i < CANDIDATES_MAX; i++) {
		uint64_t n = use->previous;

		if (n <= match->after || !match_try(record, match, n))
			break;
		use = rarest_use(record, record_event(record, n), use->life);
	}
}

/* Look for a repetition in which more than so many events agree, with a period of at most
 * so many. */
static enum record_state recognise(struct record *record, uint64_t length, uint64_t period_max)
{
	uint64_t newest = record->next_event - 1;
	struct match match = {.after = record->first_event, .length = length};
	uint32_t nr_candidates;

	if (!record_event(record, newest)->context || newest < record->next_try)
		return RECORD_UNKNOWN;
	if (period_max < newest - record->first_event)
		match.after = newest - period_max;
	nr_candidates = match_by_context(record, &match);
	if (!match.event && nr_candidates == CANDIDATES_MAX) {
		/* An event without uses says nothing of lives: look again at the next. */
		if (!record_event(record, newest)->nr_uses)
			return RECORD_UNKNOWN;
		match_by_life(record, &match);
		record->nr_given_up += !match.event;
	}
	if (!match.event) {
		try_later(record, newest, nr_candidates);
		return RECORD_UNKNOWN;
	}
	record->pause = 0;
	record->odd = 0;
	record_forget(record);
	record->period = newest - match.event;
	record->followed = 0;
	return RECORD_RECOGNISED;
}

/* While a repetition is suspended no other is looked for: what differed now and then, at any
 * times, would be one with a period of many iterations. */
static enum record_state follow_suspended(struct record *record)
{
	if (record_resume(record))
		return RECORD_RESUMED;
	if (!record_is_lost(record))
		return RECORD_SUSPENDED;
	record_drop(record);
	return RECORD_DIVERGED;
}

/* Whether the newest event is what is expected, or one of few that only launch the same. */
static bool agrees_but_for_few(struct record *record)
{
	const uint64_t newest = record->next_event - 1;
	const uint64_t expected =
		record->suspended.period ? record->suspended.expected : newest - record->period;
	const bool agrees = record->suspended.period ? record_agrees(record)
						     : same_event(record, newest, expected);

	if ((!agrees && !same_launch(record, newest, expected)) || !count_odd(&record->odd, agrees))
		return false;
	if (record->suspended.period)
		record_go_on(record);
	return true;
}

enum record_state record_follow(struct record *record)
{
	uint64_t newest = record->next_event - 1;

	if (newest < record->first_event)
		return RECORD_UNKNOWN;
	if (!record->period)
		return record->suspended.period ? follow_suspended(record)
						: recognise(record, CONTEXT - 1, UINT64_MAX);
	if (agrees_but_for_few(record)) {
		record->followed++;
		return RECORD_FOLLOWED;
	}
	/* Guesses get better: where much differs, a later period is a better reference. */
	if (record->guessed && record_is_poor(record) &&
	    recognise(record, MAX(record->followed, CONTEXT),
		      record->suspended.period + record->suspended.period / 2) == RECORD_RECOGNISED)
		return RECORD_RECOGNISED;
	if (record_suspend(record))
		return RECORD_SUSPENDED;
	record_drop(record);
	return RECORD_DIVERGED;
}

void record_drop(struct record *record)
{
	record->period = 0;
	record_forget(record);
}
