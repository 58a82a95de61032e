/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of what a program did with a space: allocations, frees and brackets, in order, and
 * the recognition that it repeats itself.
 *
 * An event is recognised by its kind and sizes and by which lives it names, never by address; a
 * bracket whose uses are guesses by what it launches and the lives: one of two like each other may
 * name more than the other one, since a guess may be too much; and a few may be *odd*, which launch
 * the same and name something else. A
 * life is known by the event that allocated it: two events name "the same" life when it is the
 * same one (allocated before the repetition), or when each was allocated equally long before and
 * the earlier one has ended.
 *
 * Recognition: when no repetition is known, the events just recorded are compared with earlier
 * ones that had the same context, and where these are too many, with those that used the same life;
 * of those the longest match wins, so that the end of an inner loop is not taken for its beginning.
 * While one is followed each event must equal the one a period before. The first that does not
 * suspends it, if it was followed for a whole period (of guesses: a part of one): the events after
 * it are compared with that period until some in a row agree with a part of it, and the repetition
 * is then resumed there (record_resume.c). Else, or when that takes too long, it has ended.
 *
 * Each event of a followed repetition has a *place*: its number if nothing had differed, so that an
 * event is a period of places behind the one like it, whatever came between.
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
	bool atomic;		  /* declared as WEIR_ATOMIC */
	uint32_t guess;		  /* of a guess: its number among the bracket's uses */
	enum weir_use_kind kind;
	enum weir_use_pattern pattern;
	uint32_t granule;
	uint64_t offset, bytes;
	double read_bytes, write_bytes;
	uint64_t previous; /* the event before that used the life; 0: none, or not known */
};

struct named;

/* What uses take in place where they lie, by the cost model. */
struct link_times {
	double ns;	   /* 0: not known */
	double missed_ns;  /* the most over one link, if none at random hits a translation cache, */
	double reached_ns; /* and over that link by the misses alone that are modelled */
	double serial;	   /* of the shorter of ns and of computation, what may not overlap */
};

struct event {
	enum event_kind kind;
	uint32_t stream; /* slot; 0 for allocations */
	uint32_t nr_uses;
	uint32_t nr_blocks;	/* ALLOC */
	life_t life;		/* ALLOC: its own number; FREE: the life that ends */
	uint64_t first_use;	/* number in the record's uses */
	uint64_t context;	/* hash of the last CONTEXT events, without lives */
	uint64_t shape;		/* hash of this one */
	uint64_t previous;	/* number of an earlier event in the same bucket; 0: none */
	double ns;		/* BEGIN: how long it ran; 0: not known yet */
	struct link_times link; /* BEGIN: of that, what its uses take in place */
	bool in_place;		/* BEGIN: ns was measured with something not resident; */
	bool beside;		/* ... copies may have crossed the device's links meanwhile */
	double slow;		/* BEGIN: times as long as link.ns that it takes so; 0: not known */
	uint64_t launched;	/* BEGIN: what, if its uses are guesses; else 0 */
	uint64_t guess;		/* BEGIN: key of these uses, see guess.h; else 0 */
	const char *kernel; /* BEGIN: the one that was launched, "": several; NULL: not known yet */
	uint64_t place;	    /* in the repetition, counted through all periods; 0: it has none */
	uint64_t freed;	    /* ALLOC: the event that freed its life; 0: none yet */
};

/*
 * A repetition in which an event differed. The period before it, the reference, says what should
 * have come; it stays in the record until two whole periods were followed again.
 */
struct suspended {
	uint64_t period;    /* events; 0: no event differed lately */
	uint64_t reference; /* the reference's first event */
	uint64_t since;	    /* the event that differed */
	uint64_t place;	    /* the place that it should have had, */
	uint64_t expected;  /* and the event of the reference that is like it. Resumed: like the
			       next event */
	uint64_t nr_astray; /* events that agreed with nothing, less those that agreed since */
	uint64_t nr_recent; /* those that were not followed, about, of the last period */
	uint32_t *head;	    /* by hash: where such a stretch begins in the reference, counted from
			       `expected`, and 1 more; 0: nowhere */
	uint32_t *next;	    /* by beginning: the next larger one of the same hash, as in head */
	uint64_t mask;	    /* entries of head less 1 */
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
	uint64_t rolling;     /* of the newest CONTEXT events' shapes */
	uint64_t next_try;    /* no repetition is looked for before this event */
	uint32_t pause;	      /* events between the last two looks */
	uint64_t followed;    /* events that agreed since it was recognised, or resumed; */
	uint32_t odd;	     /* and how many of the last ones did so but for their uses: record.c */
	uint64_t next_place; /* of the next event, if it agrees */
	struct suspended suspended;
	uint64_t launched, guess; /* of the next event */
	bool guessed;		  /* some events' uses were guesses */
	bool broken;		  /* a use was lost: no memory */
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

/* Uses of the event that comes next are guesses, see struct event. */
void record_add_guess(struct record *record, uint64_t launched, uint64_t guess);

enum record_state {
	RECORD_UNKNOWN,	   /* no repetition */
	RECORD_RECOGNISED, /* the newest event made one known: record->period */
	RECORD_FOLLOWED,   /* the newest event agrees with it */
	RECORD_SUSPENDED,  /* it does not, or one before it did not: the repetition may come back */
	RECORD_RESUMED,	   /* the newest events agree with it again: event->place says where */
	RECORD_DIVERGED,   /* it does not agree: the repetition is dropped */
};

/* What the newest event says. Call once after each record_add(). */
enum record_state record_follow(struct record *record);

/* Give up the repetition that is followed or suspended. */
void record_drop(struct record *record);

/* ---- record_alike.c, for record.c and record_resume.c */

/* Whether two lives, each named by one of two events, are the same to these. */
typedef bool (*record_same_fn)(const void *arg, life_t a, life_t b);

/* Whether the uses of two events are alike; of guesses, all of one event's have their like among
 * the other's, in the same order. */
bool record_uses_alike(const struct record *record, const struct event *a, const struct event *b,
		       record_same_fn same, const void *arg);

/* ---- record_resume.c, for record.c */

/* Suspend the repetition that is followed, if it can be found again. @return whether it can. */
bool record_suspend(struct record *record);

/* Whether the newest events agree with a part of the suspended repetition: it is then followed. */
bool record_resume(struct record *record);

/* Whether too many events agreed with nothing for the suspended repetition to be kept. */
bool record_is_lost(const struct record *record);

/* A resumed repetition: whether the newest event agrees with the reference; and to expect the next
 * one. */
bool record_agrees(const struct record *record);
void record_go_on(struct record *record);

/* Whether much of what came differed from the reference since the first event did. */
bool record_is_poor(const struct record *record);

/* Forget what is suspended. */
void record_forget(struct record *record);

static inline struct event *record_event(const struct record *record, uint64_t number)
{
	return &record->event[number - record->first_event];
}

/* The event that the next one should equal in the repetition that is followed. */
static inline uint64_t record_expected(const struct record *record)
{
	return record->suspended.period ? record->suspended.expected
					: record->next_event - record->period;
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
