/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of what a program did with a space: allocations, frees and brackets, in order, and
 * the recognition that it repeats itself.
 *
 * An event is recognised by its kind and sizes and by which lives it names, never by address. A
 * life is known by the event that allocated it: two events name "the same" life when it is the
 * same one (allocated before the repetition), or when each was allocated equally long before and
 * the earlier one has ended.
 *
 * Recognition: when no repetition is known, the events just recorded are compared with earlier
 * ones that had the same context, and where these are too many, with those that used the same life;
 * of those the longest match wins, so that the end of an inner loop is not taken for its beginning.
 * While one is followed each event must equal the one a period before; the first that does not ends
 * it.
 *
 * Length: so many events and so many uses, of which half is kept when there are more; while a
 * repetition is followed, two periods of it and what comes until a quarter can be forgotten.
 */
#ifndef WEIR_RESIDENCY_RECORD_H
#define WEIR_RESIDENCY_RECORD_H

#include "src/core/types.h"

enum event_kind { EVENT_ALLOC, EVENT_FREE, EVENT_BEGIN, EVENT_HOST };

/* A part of a range that a bracket named. */
struct record_use {
	life_t life;
	uint32_t nr_range_blocks; /* of the whole range */
	uint32_t first, nr;	  /* blocks */
	enum weir_use_kind kind;
	enum weir_use_pattern pattern;
	uint32_t granule;
	uint64_t offset, bytes;
	double read_bytes, write_bytes;
	uint64_t previous; /* the event before that used the life; 0: none, or not known */
};

struct named;

struct event {
	enum event_kind kind;
	uint32_t stream; /* slot; 0 for allocations */
	uint32_t nr_uses;
	life_t life;	    /* ALLOC: its own number; FREE: the life that ends */
	uint32_t nr_blocks; /* ALLOC */
	uint64_t first_use; /* number in the record's uses */
	uint64_t context;   /* hash of the last CONTEXT events, without lives */
	uint64_t shape;	    /* hash of this one */
	uint64_t previous;  /* number of an earlier event in the same bucket; 0: none */
	double ns;	    /* BEGIN: how long it ran; 0: not known yet */
	bool in_place;	    /* BEGIN: ns was measured with something not resident */
	double link_ns;	    /* BEGIN: what that takes by the cost model; 0: not known */
	double slow;	    /* BEGIN: ... and times as long as it takes so; 0: not known */
	const char *kernel; /* BEGIN: the one that was launched, "": several; NULL: not known yet */
	bool ended;	    /* ALLOC: its life was freed */
};

/* Opaque but for its readers in residency/: numbers are 1 and up, and only grow. */
struct record {
	struct event *event; /* number n is at event[n - first_event] */
	uint64_t first_event, next_event;
	uint64_t max_events;
	struct record_use *use;
	uint64_t first_use, next_use, max_uses;
	uint64_t *bucket;     /* by context: the newest event */
	struct named *named;  /* by life: its newest use */
	uint64_t nr_given_up; /* times that a repetition may have been missed */
	uint64_t period;      /* events; 0: no repetition is followed */
	uint64_t next_try;    /* no repetition is looked for before this event */
	uint32_t pause;	      /* events between the last two looks */
	uint64_t followed;    /* events that agreed since it was recognised */
	bool broken;	      /* a use was lost: no memory */
};

int record_init(struct record *record);
void record_fini(struct record *record);

/*
 * Add an event. On BEGIN and HOST its uses were added by record_add_use() just before.
 * @return its number, or 0: no memory; the record is then empty and starts anew.
 */
uint64_t record_add(struct record *record, enum event_kind kind, uint32_t stream, life_t life,
		    uint32_t nr_blocks);

/* Add a use of the event that comes next; `previous` is filled in. Failing shows in that event. */
void record_add_use(struct record *record, const struct record_use *use);

enum record_state {
	RECORD_UNKNOWN,	   /* no repetition */
	RECORD_RECOGNISED, /* the newest event made one known: record->period */
	RECORD_FOLLOWED,   /* the newest event agrees with it */
	RECORD_DIVERGED,   /* it did not: the repetition is dropped */
};

/* What the newest event says. Call once after each record_add(). */
enum record_state record_follow(struct record *record);

/* Give up the repetition that is followed. */
void record_drop(struct record *record);

static inline struct event *record_event(const struct record *record, uint64_t number)
{
	return &record->event[number - record->first_event];
}

static inline const struct record_use *record_uses(const struct record *record,
						   const struct event *event)
{
	return event->nr_uses ? &record->use[event->first_use - record->first_use] : NULL;
}

/* A recorded use as the cost model takes it. */
static inline struct weir_use record_use_declared(const struct record_use *use)
{
	return (struct weir_use){.bytes = use->bytes,
				 .kind = use->kind,
				 .pattern = use->pattern,
				 .read_bytes = (uint64_t)use->read_bytes,
				 .write_bytes = (uint64_t)use->write_bytes,
				 .granule = use->granule};
}

#endif
