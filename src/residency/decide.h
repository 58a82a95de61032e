/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points of decision: what comes in, what goes, and where to. Each is asked with all that it may
 * depend on, changes nothing but what a rule keeps for itself, and can be answered by anybody: a
 * table of functions. Mechanism (place.c, pick.c, room.c) builds the question, and does what the
 * answer says as far as it can.
 *
 * The table that spaces are made with (decide.c) asks advice (decide_advice.c), the plan while one
 * is followed (decide_plan.c), and else a rule that knows recent use alone (decide_recency.c).
 *
 * Units: blocks of the space; stages of the plan; brackets that ended.
 */
#ifndef WEIR_RESIDENCY_DECIDE_H
#define WEIR_RESIDENCY_DECIDE_H

#include "policies/recency.h"
#include "src/core/types.h"

/* Nobody knows, or nobody said. */
#define DECIDE_UNKNOWN UINT32_MAX
#define DECIDE_NOWHERE (-1)

/* A bracket uses a range: how much of it should be in the device's own memory? */
struct bring_in {
	uint32_t nr_blocks;   /* of the range */
	uint32_t nr_resident; /* of them now */
	uint32_t planned;     /* of them, by the plan, in this bracket; or DECIDE_UNKNOWN */
	bool follows_plan;    /* one is followed, which may not know the range */
	double touches;	      /* of each byte of the part, on average */
	enum weir_use_kind kind;
	int prefer;	      /* place it is advised to stay at, or DECIDE_NOWHERE */
	bool stays;	      /* it is never moved: an arena */
	uint32_t nr_unbacked; /* blocks of the range that have no contents yet */
	uint32_t nr_away;     /* blocks of the use that have, and are not resident */
	uint32_t nr_free;     /* chunks of the device's own memory that are, or could be at once */
	struct past past;
	struct past victim; /* of the range that would be evicted from first, for want of chunks */
};

struct brought_in {
	uint32_t level;	      /* blocks that should be resident */
	bool evict_for_fresh; /* others may go for blocks whose contents are not needed, */
	bool evict_for_moved; /* and for those that have to be copied */
};

/* A chunk of the device's own memory is wanted: should this range give one? */
struct give_up {
	uint32_t next_use; /* stages until it is used again; 0: now; DECIDE_UNKNOWN */
	bool follows_plan;
	uint64_t idle; /* brackets that ended since one that used it */
	bool clean;    /* some of its blocks go without a copy */
	int prefer;
	bool guest;	      /* it is in the own memory of a device that does not use it */
	uint32_t nr_resident; /* blocks in its own memory */
	struct past past;
};

/* Blocks that leave a place: which one below should they go to? */
struct evict_to {
	place_t from;
	uint32_t nr_places;	   /* the last is the host's memory */
	int prefer;		   /* place below `from` that the range is advised to stay at */
	uint64_t room[PLACES_MAX]; /* by place: free chunks; freed ranges may have others */
	place_t near;		   /* the neighbour where the plan wants it; 0: any */
	uint32_t planned_last;	   /* blocks of the range that the plan wants at the last place when
				    * all are below; or DECIDE_UNKNOWN */
	uint32_t nr_last;	   /* of them that are there */
	uint32_t nr_unbacked;	   /* blocks of it that are nowhere yet, this one among them */
	bool copies_only;	   /* neighbours' memory is not for use in place */
};

struct decisions {
	const char *name;
	struct brought_in (*bring_in)(const struct bring_in *q);
	/* 0: not this one; of all ranges the highest goes first, of equals the newest. */
	uint64_t (*give_up)(const struct give_up *q);
	/* Below q->from. Where it has no room, the next one below `from` that has any. */
	place_t (*evict_to)(const struct evict_to *q);
};

/* Advice, the plan, recency. */
extern const struct decisions decide_default;

/* ---- The parts of decide_default */

/* Change what others answered, where advice says something else. */
void advice_bring_in(const struct bring_in *q, struct brought_in *answer);
/* @return whether advice says something. */
bool advice_give_up(const struct give_up *q, uint64_t *rank);
bool advice_evict_to(const struct evict_to *q, place_t *to);

/* While a plan is followed. */
struct brought_in plan_bring_in(const struct bring_in *q);
uint64_t plan_give_up(const struct give_up *q);
/* @return whether the plan says something. */
bool plan_evict_to(const struct evict_to *q, place_t *to);

/* While nothing is known of the program. */
struct brought_in recency_bring_in(const struct bring_in *q);
uint64_t recency_give_up(const struct give_up *q);
place_t recency_evict_to(const struct evict_to *q);

#endif
