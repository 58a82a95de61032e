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
/* Events from one look to the next, at most. */
#define PAUSE_MAX 16u
/* The record is cut down when it is this long, beyond what is followed. */
#define EVENTS_MAX (1u << 18)
#define NR_BUCKETS (1u << 12)

int record_init(struct record *record)
{
	*record = (struct record){.first_event = 1, .next_event = 1, .first_use = 1, .next_use = 1};
	record->bucket = calloc(NR_BUCKETS, sizeof(uint64_t));
	return record->bucket ? 0 : -1;
}

void record_fini(struct record *record)
{
	free(record->event);
	free(record->use);
	free(record->bucket);
}

static void record_clear(struct record *record)
{
	record->first_event = record->next_event;
	record->first_use = record->next_use;
	record->period = 0;
	record->broken = false;
	memset(record->bucket, 0, NR_BUCKETS * sizeof(uint64_t));
}

/* Forget the oldest events, but keep `keep` of them. */
static void record_cut(struct record *record, uint64_t keep)
{
	uint64_t first = record->next_event - keep;
	uint64_t first_use = record_event(record, first)->first_use;

	memmove(record->event, record_event(record, first), keep * sizeof(struct event));
	memmove(record->use, &record->use[first_use - record->first_use],
		(record->next_use - first_use) * sizeof(struct record_use));
	record->first_event = first;
	record->first_use = first_use;
}

/* Make room for one more event. */
static int record_grow(struct record *record)
{
	uint64_t nr = record->next_event - record->first_event;
	uint64_t keep = record->period ? 2 * record->period + CONTEXT : EVENTS_MAX / 2;
	struct event *event;
	uint64_t max;

	if (nr < record->max_events)
		return 0;
	if (nr >= EVENTS_MAX && keep < nr / 2 + 1) {
		record_cut(record, keep);
		return 0;
	}
	max = MAX(1024u, record->max_events * 2);
	event = realloc(record->event, max * sizeof(*event));
	if (!event)
		return -1;
	record->event = event;
	record->max_events = max;
	return 0;
}

void record_add_use(struct record *record, const struct record_use *use)
{
	uint64_t nr = record->next_use - record->first_use;

	if (nr == record->max_uses) {
		uint64_t max = MAX(4096u, record->max_uses * 2);
		struct record_use *uses = realloc(record->use, max * sizeof(*uses));

		if (!uses) {
			record->broken = true;
			return;
		}
		record->use = uses;
		record->max_uses = max;
	}
	record->use[nr] = *use;
	record->next_use++;
}

static uint64_t shape_hash(const struct record *record, const struct event *event)
{
	const struct record_use *use = record_uses(record, event);
	uint64_t hash = hash_mix(event->kind + 1u, event->nr_blocks);

	hash = hash_mix(hash, event->stream);
	for (uint32_t i = 0; i < event->nr_uses; i++) {
		hash = hash_mix(hash, use[i].offset);
		hash = hash_mix(hash, use[i].bytes);
		hash = hash_mix(hash, use[i].nr_range_blocks);
		hash = hash_mix(hash, (uint64_t)use[i].kind * 2 + (uint64_t)use[i].pattern);
	}
	return hash;
}

/* Hash of the shapes of the newest CONTEXT events; 0 when there are fewer. */
static uint64_t context_hash(const struct record *record)
{
	uint64_t hash = 1;

	if (record->next_event - record->first_event < CONTEXT)
		return 0;
	for (uint64_t n = record->next_event - CONTEXT; n < record->next_event; n++)
		hash = hash_mix(hash, record_event(record, n)->shape);
	return hash | 1;
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
				.life = kind == EVENT_ALLOC ? number : life,
				.nr_blocks = nr_blocks,
				.first_use = first_use,
				.nr_uses = (uint32_t)(record->next_use - first_use)};
	if (kind == EVENT_FREE && life >= record->first_event && life < number)
		record_event(record, life)->ended = true;
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
	       (record_event(record, b)->ended || i - a <= 2 * (i - j));
}

static bool same_event(const struct record *record, uint64_t i, uint64_t j)
{
	const struct event *a = record_event(record, i), *b = record_event(record, j);
	const struct record_use *x = record_uses(record, a), *y = record_uses(record, b);

	if (a->shape != b->shape || a->kind != b->kind || a->stream != b->stream ||
	    a->nr_blocks != b->nr_blocks || a->nr_uses != b->nr_uses ||
	    !same_life(record, a->life, i, b->life, j))
		return false;
	for (uint32_t n = 0; n < a->nr_uses; n++)
		if (x[n].offset != y[n].offset || x[n].bytes != y[n].bytes ||
		    x[n].nr_range_blocks != y[n].nr_range_blocks || x[n].kind != y[n].kind ||
		    !same_life(record, x[n].life, i, y[n].life, j))
			return false;
	return true;
}

static uint64_t match_length(const struct record *record, uint64_t i, uint64_t j)
{
	uint64_t nr = 0;

	while (nr < MATCH_MAX && j - nr > record->first_event && same_event(record, i - nr, j - nr))
		nr++;
	return nr;
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

static enum record_state recognise(struct record *record)
{
	uint64_t newest = record->next_event - 1, best = 0, best_length = CONTEXT - 1;
	uint64_t context = record_event(record, newest)->context;
	uint64_t n = record_event(record, newest)->previous;
	uint32_t i = 0;

	if (!context || newest < record->next_try)
		return RECORD_UNKNOWN;
	for (; i < CANDIDATES_MAX && n > record->first_event; i++) {
		const struct event *event = record_event(record, n);

		if (event->context == context) {
			uint64_t length = match_length(record, newest, n);

			if (length > best_length) {
				best = n;
				best_length = length;
			}
			if (length == MATCH_MAX)
				break;
		}
		n = event->previous;
	}
	if (!best) {
		try_later(record, newest, i);
		return RECORD_UNKNOWN;
	}
	record->pause = 0;
	record->period = newest - best;
	record->followed = 0;
	return RECORD_RECOGNISED;
}

enum record_state record_follow(struct record *record)
{
	uint64_t newest = record->next_event - 1;

	if (newest < record->first_event)
		return RECORD_UNKNOWN;
	if (!record->period)
		return recognise(record);
	if (same_event(record, newest, newest - record->period)) {
		record->followed++;
		return RECORD_FOLLOWED;
	}
	record_drop(record);
	return RECORD_DIVERGED;
}

void record_drop(struct record *record)
{
	record->period = 0;
}
