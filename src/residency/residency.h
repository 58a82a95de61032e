/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planned residency: what the mapped mode keeps of a space beyond core, and what its files call of
 * each other. Everything is guarded by the space's lock.
 *
 *   record*.c  what the program did, and whether it repeats itself
 *   plan*.c    what to do about it, as a pure function
 *   held.c     the plan that a planner holds, followed or suspended
 *   learn*.c   from the record, and the space's places, to the plan's input
 *   schedule.c where in the plan the program is, and what the plan says there
 *   follow.c   carrying a plan out, step by step
 *   pending.c  actions of a plan that are under way
 *   resume.c   a plan that is suspended, and followed again
 *   explain.c  what a plan says, and what was seen of it; explain_room.c, of memory
 *   tried.c    plans that were followed before, and the choice among them
 *   ask.c      a policy's place in decisions
 *   decide*.c  what comes in, what goes, where to, as pure functions
 *   pick.c     which block goes where others are wanted
 *   room.c     where a chunk comes from when none is free
 *   give.c     what others of the machine get that have no room
 *   surplus.c  what is at a neighbour, and should not be by the plan
 *   near.c     what should be at a neighbour, and what should not, coming and going
 *   save.c     copies on the host of what is at a neighbour
 *   budget.c   a budget that changes
 *   place.c    making a bracket's uses ready
 *   home.c     which device's memory is a range's, in a space of several
 *   past.c     what uses of ranges were so far
 *   guess.c    how much of what launches name they touch
 *   order.c    which ended brackets a new one comes after
 *   bracket.c  weir_begin and weir_end
 *   host.c     weir_host_begin and weir_host_end
 *   advice.c   advice, prefetch, fences, copies to and from the program's buffers
 *   alloc.c    allocation and freeing
 *   api.c      spaces
 */
#ifndef WEIR_RESIDENCY_RESIDENCY_H
#define WEIR_RESIDENCY_RESIDENCY_H

#include "src/core/space.h"
#include "src/residency/ask.h"
#include "src/residency/decide.h"
#include "src/residency/guess.h"
#include "src/residency/plan.h"
#include "src/residency/record.h"

/* The devices that use a range, in a space of several. */
enum home_users {
	USERS_NONE, /* not yet */
	USERS_ONE,  /* one, in whose memory it is resident */
	USERS_MANY
};

/* What the mode keeps of a range. */
struct range_residency {
	struct planner *planner; /* of the device whose plans have it; NULL: of none */
	int32_t plan_life;	 /* what the plan knows it as, or -1 */
	int prefer;		 /* place it is advised to stay at, or -1 */
	enum home_users users;	 /* in this life */
	place_t user;		 /* USERS_ONE: its memory */
	bool read_mostly;
	uint32_t top; /* no block from here on, in its order, is settled at PLACE_OWN ... */
	uint32_t top_arrivals; /* ... since the range had so many arrivals */
	uint32_t give;	      /* no block from here on, in its order, can give its chunk away ... */
	uint64_t give_epoch;  /* ... in this epoch of the space */
	uint64_t answer_mark; /* mark of the bracket that last asked what should be resident, */
	uint32_t answer_first;	  /* the first block of that use, */
	struct brought_in answer; /* and the answer */
	struct recency_range recency;
	struct asked asked;	  /* what policies see */
	uint64_t block_word[][2]; /* the policy's, by block */
};

/* An action of the plan that is under way. */
struct pending_action {
	enum plan_move move;
	uint32_t life;
	uint32_t nr_blocks; /* to be reached */
	uint64_t from, due; /* stages, counted since the plan began */
	uint32_t cursor;    /* blocks of the range looked at, in its order */
};

/* An open bracket of the CPU's. */
struct host_bracket {
	struct host_bracket *next;
	uint32_t nr;
	struct space_use *use; /* resolved */
	uint32_t traced;       /* its number in the trace; 0: none */
	struct weir_use declared[];
};

/* Periods that were measured under a plan. */
struct timed {
	double ns; /* the shortest but for the first; while there is only that one, its */
	uint32_t nr;
};

/* A bracket of the period: a bracket like it is done a period later. */
struct period_mark {
	uint64_t event, place; /* place 0: none yet */
	double ns;	       /* its end, by the device's clock */
};

/* A bracket that is not done, and blocks that it names which were on their way when it began: their
 * copies are done with the fence. */
struct awaited {
	uint64_t event;
	fence_t fence;
	uint32_t nr;
};

/* Since when something is counted for which stage: see explain.c. */
struct explained {
	struct stage_seen *stage;  /* of the newest bracket begun; NULL: none that counts */
	struct happened before;	   /* in the space, until it began */
	struct stage_seen *looked; /* whose room was looked at last */
	double end_ns;		   /* of the last bracket that was timed; 0: none was */
	struct awaited *awaited;   /* by event */
	uint32_t nr_awaited, max_awaited;
};

/*
 * What is known of one device's brackets, and the plan being followed for it. Steps and stages are
 * counted since the plan began, through all periods: stage number = period * nr_stages + stage.
 */
struct planner {
	place_t own; /* the device's own memory; never changes */
	struct record record;
	struct plan *plan;	 /* NULL: none is followed */
	struct plan *suspended;	 /* the plan while its repetition is; `plan` is NULL then */
	uint32_t nr_lives;	 /* that it has */
	struct range **life;	 /* by the plan's life: its range now, or NULL */
	uint32_t *life_of_event; /* by event of the period, counted from plan_event: ALLOC only */
	uint32_t *step_of_event; /* by event of the period: BEGIN only */
	uint32_t *flowing;	 /* lives of which parts come or go in some stage */
	uint32_t nr_flowing;
	uint64_t windows_event;	    /* the record's next event, and the brackets done, */
	bracket_seq_t windows_done; /* when these were looked at last */
	uint64_t plan_event;	    /* the first event of the plan's first period, */
	uint64_t plan_place;	    /* and its place in the record's repetition */
	uint64_t first_stage;	    /* that the plan was made in */
	uint64_t host_stage;	    /* of the newest bracket begun, */
	uint64_t next_stage;	    /* and of the one that comes after it */
	uint64_t gpu_stage;	    /* of the first bracket that is not done */
	uint32_t nr_plans_made;	    /* for this repetition */
	bool settled;		    /* no more are made, and the best was chosen */
	bool bare; /* no plan is followed: on trial, or, settled, since a period takes less so */
	double missed; /* share of what translation caches are said to reach that they do not */
	uint64_t settle_place; /* in the record: they are kept until there, if it is not 0 */
	struct tried *tried;   /* those before, the newest first */
	struct plan_job *job;  /* the plan that is being made; NULL: none is */
	struct timed timed;    /* under this plan */
	uint64_t bare_event;   /* the first event without one */
	/* Where in the record the plan that was settled for is held against none (0: it never is),
	 * where that trial ends, or where what takes less without a plan is planned anew. */
	uint64_t bare_place;
	struct timed without;	 /* without a plan; its ns are of all but the first together */
	struct period_mark mark; /* where the period that is measured begins */
	uint64_t nr_unproven;	 /* events of periods that were planned, less those of periods that
				    were then followed; not below 0 */
	struct pending_action *pending;
	uint32_t nr_pending, max_pending;
	uint32_t next_action;	/* of the plan's list */
	uint64_t action_period; /* the period that next_action belongs to */
	int error;		/* of a move made by progress, for the next bracket */
	struct explained explained;
};

struct residency {
	struct planner *planner; /* by device of the space */
	bool recording;		 /* off in a fixed space */
	bool plans;		 /* what repeats is planned, */
	bool trials;		 /* and held against no plan: tests of plans have that off */
	bool aside;		 /* plans are made while the program goes on, where they can be */
	bool near_copy_only;	 /* no block is meant to be used in place at a neighbour */
	const struct decisions *decide;
	struct weir_policy *policy;	    /* borrowed; NULL: the built-in rules */
	struct guesses *guesses;	    /* NULL: no bracket was guessed yet */
	uint64_t step;			    /* brackets begun under a policy */
	uint32_t nr_asked;		    /* ranges that have a number for policies */
	uint32_t time[PLACES_MAX];	    /* blocks used of ranges whose own place it is */
	struct recency recency[PLACES_MAX]; /* of devices' own memories */
	uint64_t near_none[PLACES_MAX]; /* epoch in which nothing can leave a neighbour at once */
	uint32_t next_near;	     /* range whose blocks are looked at for being too far away */
	uint32_t nr_read_mostly;     /* ranges advised so */
	uint64_t dry[PLACES_MAX];    /* epoch in which no freed range has a chunk of the place */
	const struct range *keep;    /* not to be evicted from just now */
	struct host_bracket *host;   /* the newest first */
	struct weir_fence *prefetch; /* asked for by the program and not finished, oldest first */
	uint64_t dirty_max[PLACES_MAX]; /* blocks that may be without a copy on the host */
	uint32_t next_save;		/* range that is looked at next for such ones, ... */
	bracket_seq_t saved_seq;	/* ... and the brackets done when there was nothing to do */

	/* This and near_copy_only are what benchmarks ask of a space that uses neighbours'
	 * memories. Set before its first range is allocated, and never changed. */
	double near_bytes_per_s;	/* to move at each neighbour, see space_near_rate() */
	const struct plan_maker *maker; /* see space_set_plan_maker() */
};

/* Of the device that a stream is of. */
static inline struct planner *slot_planner(const struct weir_space *space,
					   const struct stream_slot *slot)
{
	return &space->residency->planner[slot->own];
}

/* The place where it is advised to stay as decide.h has it: its rank; or DECIDE_NOWHERE. */
static inline int prefer_rank(const struct range *range)
{
	int prefer = range->residency->prefer;

	return prefer < 0 ? DECIDE_NOWHERE : place_rank(range->own, (place_t)prefer);
}

/* Whether the bracket being placed names the block, or may use it and has what it names. */
static inline bool range_is_marked(const struct weir_space *space, const struct range *range,
				   uint32_t i)
{
	if (space->wide.staying && range_is_in_wide(range, space->wide.placing))
		return true;
	return space->keep_marked && range->mark == space->mark && i >= range->mark_first &&
	       i <= range->mark_last;
}

/* Whether the block may be moved now: not pinned, not moving, its brackets done. */
static inline bool room_is_idle(const struct weir_space *space, const struct range *range,
				uint32_t i)
{
	return !range_block_is_pinned(space, range, i) && !block_is_moving(&range->block[i]) &&
	       !block_is_cleaning(&range->block[i]) && !range_is_marked(space, range, i) &&
	       range_block_last_use(space, range, i) <= space->done_seq;
}

/* Whether a plan is followed that may know the range. */
static inline bool range_follows_plan(const struct range *range)
{
	return range->residency->planner && range->residency->planner->plan;
}

/* ---- for benchmarks, between weir_space_create() and the first allocation */

/* Neighbours' memories are for copies alone. */
static inline void space_near_copy_only(struct weir_space *space)
{
	space->residency->near_copy_only = true;
}

/* The most that plans read and write in each neighbour's memory: bytes a second, of copies and of
 * use in place together, on average over a period. 0: no limit. */
static inline void space_near_rate(struct weir_space *space, double bytes_per_s)
{
	space->residency->near_bytes_per_s = bytes_per_s;
}

/* Plans are made by somebody else, who lives as long as the space; NULL: by plan_create(). */
static inline void space_set_plan_maker(struct weir_space *space, const struct plan_maker *maker)
{
	space->residency->maker = maker;
}

/* ---- held.c */

/* Free the plan, followed or suspended, and what ties it to the record: for another one. */
void held_release(struct planner *p);

/* Note in the trace that the plan is followed from now on. */
void held_trace(struct weir_space *space, const struct planner *p);

/* ---- learn.c */

/* Have the plan made for the record's period, and followed: see aside.c. haste: as in struct
 * plan_input. @return 0; -ENOENT: it has no brackets; -ENOMEM. */
int learn_plan(struct weir_space *space, struct planner *p, uint32_t haste);

/* Forget the plan, followed, suspended, or being made. */
void learn_forget(struct weir_space *space, struct planner *p);

/* ---- aside.c */

/*
 * A job that makes a plan of the input, whose arrays become the job's with both of the others;
 * range: by life, the one that it is now. NULL: no memory, and nothing changed hands.
 * aside_make: have it done, at once or by a thread of the backend's: then p->job is not NULL.
 * aside_follow: the newest event is one of the repetition that the plan is for: if it is there,
 * follow it. aside_cancel: no plan is wanted any more.
 */
struct plan_job *aside_new(const struct planner *p, const struct plan_input *input,
			   struct range *const *range, uint32_t *life_of_event,
			   uint32_t *step_of_event);
int aside_make(struct weir_space *space, struct planner *p, struct plan_job *job);
int aside_follow(struct weir_space *space, struct planner *p);
void aside_cancel(struct planner *p);

/* ---- learn_places.c */

/* What a recorded use of the device takes in place at each place below that a plan tells apart.
 * missed: as in struct planner. */
void learn_place_rates(const struct weir_space *space, place_t own, double missed,
		       const struct record_use *recorded, struct plan_rate at[PLAN_BELOW_MAX]);

/* The part of a plan's input that is about places. */
void learn_places(const struct weir_space *space, place_t own, struct plan_input *input);

/* What uses of the device take where they lie now, and each in its link_ns. */
struct link_times learn_link_times(const struct weir_space *space, place_t own,
				   struct space_use *uses, uint32_t nr_uses);

/* What the device's own memory takes for a use that is resident, ns, by the cost model. */
double learn_hbm_ns(const struct weir_space *space, place_t own, const struct space_use *use);

/* ---- schedule.c */

/* Where in the plan's period an event with that place is; *period: in which one. */
uint64_t schedule_position(const struct planner *p, uint64_t place, uint64_t *period);

/* The stage of a step of the plan, or of the end of a period (step is then the plan's number of
 * them). */
uint64_t schedule_stage(const struct planner *p, uint64_t period, uint32_t step);

/* Whether the newest event made the plan, which begins with the next. */
bool schedule_is_new(const struct planner *p);

/* Whether an eviction that may begin, due or not, wants blocks of the range gone. */
bool schedule_evicts(const struct range *range);

/* The stage that a plan made now begins in. */
uint64_t schedule_first_stage(const struct planner *p);

/* Where the plan wants the blocks of the allocation that it expects next, if that is of this size;
 * else all of them resident. */
struct range_wanted schedule_expected(const struct weir_space *space, const struct planner *p,
				      uint32_t nr_blocks);

/* The stage of the newest bracket, in its period. There is a plan. */
uint32_t schedule_stage_now(const struct planner *p);

/* Periods to be followed under a plan before it is judged, or another one made. */
uint32_t schedule_periods(const struct planner *p);

/* Whether plans are still to be made for the repetition that is followed. */
bool schedule_wants_plans(const struct planner *p);

/* Whether the times of brackets are of use: plans are still to be made, or to be compared. */
bool schedule_wants_times(const struct planner *p);

/* Blocks of the range that the plan wants resident in the bracket being placed; DECIDE_UNKNOWN when
 * it has no opinion. */
uint32_t schedule_level(const struct range *range);

/* The same in its next use after that bracket; nr_blocks when it has none. */
uint32_t schedule_next_level(const struct range *range);

/* What the loop of the bracket being placed does with parts of the range. */
enum plan_flow schedule_flow(const struct range *range);

/* Blocks of the range that the plan wants on the host when they are not resident; DECIDE_UNKNOWN
 * when it has no opinion. */
uint32_t schedule_far(const struct weir_space *space, const struct range *range);

/* Whether nobody writes the range, by the plan: it has its copy on the host always, and comes to
 * neighbours from there, while there is room. */
bool schedule_is_kept(const struct range *range);

/* Whether that copy is all that its blocks need when they leave: they can be at neighbours again
 * before the next use, over the neighbours' own links. */
bool schedule_needs_no_copy(const struct range *range);

/* Whether ranges are spread over neighbours, as none may be used for more than so much. */
bool schedule_is_spread(const struct weir_space *space);

/* Of neighbours with room the one for a range's next block: where most of the others are, or least
 * of them if ranges are spread; 0: any. */
place_t schedule_near(const struct weir_space *space, const struct range *range);

/* Whether the plan knows a use of the range before so many stages, at most a quarter of all. */
bool schedule_is_used_soon(const struct range *range, uint32_t nr_stages);

/* Stages until the range's next use after the bracket being placed; 0: the loop that uses it goes
 * on, or the plan does not track the range; UINT32_MAX: none known. */
uint32_t schedule_next_use(const struct range *range);

/* Whether chunks are free, or of freed ranges, beyond those that what the program's stage uses is
 * still going to want: for what comes for later stages. There is a plan. */
bool schedule_has_room_ahead(const struct weir_space *space, const struct planner *p);

/* ---- tried.c */

/* A plan that is yet to be made of what was recorded so far: tried_begin() follows it, if the
 * repetition is still followed then, and consumes both. It has from here on the two arrays, by
 * event; range: as aside_new() has it. NULL: no memory. @return of tried_begin(): 0 or -ENOMEM. */
struct tried *tried_new(const struct planner *p, struct range *const *range, uint32_t nr_lives,
			uint32_t *life_of_event, uint32_t *step_of_event);
int tried_begin(struct weir_space *space, struct planner *p, struct tried *t, struct plan *plan);
void tried_free(struct tried *t);

/* A recorded bracket is done: its end, by the device's clock. */
void tried_note(struct planner *p, uint64_t event, double ns);

/* An event agrees with the last plan that is made for the repetition: once a period of it was
 * measured, choose between it, those before, and none. */
void tried_settle(struct weir_space *space, struct planner *p);

/* An event agrees with a repetition that is followed without a plan, to see what it takes so or
 * since it takes less: choose when it is known. @return whether it is time to plan it anew. */
bool tried_bare(struct weir_space *space, struct planner *p);

/* Forget the plans that were set aside, and how many there were. */
void tried_forget(struct planner *p);

/* ---- explain.c */

/* A bracket at a place of the plan that is followed begins: what happens from here on is its. */
void explain_begun(const struct weir_space *space, struct planner *p, uint64_t place);

/* The slot's bracket, which is to be timed, is placed: what comes ahead of it is awaited. */
void explain_placed(const struct weir_space *space, struct planner *p,
		    const struct stream_slot *slot);

/* What an action that is given up would have brought ahead. */
void explain_missed(struct planner *p, const struct pending_action *action);

/* One is done, the event at a place of the plan: its begin and end, by the device's clock. */
void explain_done(const struct weir_space *space, struct planner *p, uint64_t event,
		  double begin_ns, double end_ns);

/* Whether too little of the plan was watched to say what happened under it: some periods, without
 * the first, which does not count. Looking at the room takes a step for each range, so it ends for
 * brackets that take no time as well. */
static inline bool explain_wants_times(const struct plan *plan)
{
	return plan->nr_watched < UINT64_C(3) * plan->nr_steps;
}

/* The plan is not followed from here on, or another one is. */
void explain_forget(struct planner *p);

/* ---- explain_room.c */

/* Add what the chunks of a device's own memory are for now. */
void explain_room_add(const struct weir_space *space, place_t own, struct room_seen *room);

/* ---- pending.c */

/* Add an action to those that are under way. @return false: no memory. What is pending costs speed
 * only: it comes later, or never. */
bool pending_add(struct planner *p, const struct pending_action *action);

/* ---- window.c */

/* List the lives that stream in the plan, which was just made. @return 0, or -1: no memory. */
int window_list(struct planner *p);

/* Bring the parts that the next brackets use of these, and have those behind leave. Never waits.
 * @return 0, or an error of the machine. */
int window_advance(struct weir_space *space, struct planner *p);

/* ---- follow.c */

/* The newest event was recorded: recognise, follow, suspend, resume, or drop the plan.
 * range: what it allocated or frees, or NULL. */
void follow_event(struct weir_space *space, struct planner *p, struct range *range);

/* Record that a range was allocated, or is freed, if plans may have it; and see what that means for
 * the plan. */
void follow_life(struct weir_space *space, enum event_kind kind, struct range *range);

/* Carry out the plan's actions that can be carried out now. Never waits. */
void follow_advance(struct weir_space *space);

/* A part of a pass: carry out what is due by the bracket just recorded, which waits for copies and
 * for brackets up to `last`. While it waits, what the bracket overwrites is backed from chunks that
 * come free. */
int follow_due(struct weir_space *space, struct stream_slot *slot, bracket_seq_t last,
	       struct settle *settle);

/* A range is freed: the plan does not move it any more. */
void follow_freed(struct range *range);

/* The kernel launched in a bracket that ends, as stream_kernel_take() has it; event may be 0. */
void follow_launched(struct planner *p, uint64_t event, const char *kernel);

/* A bracket is done. */
void follow_done(struct weir_space *space, const struct ended_bracket *bracket);

/* The slot's bracket, which ends, uses something in place: note what that should take. */
void follow_in_place(const struct weir_space *space, struct planner *p, struct stream_slot *slot);

/* ---- resume.c */

/* An event differed from the plan's: until the plan is resumed nothing is moved by it. */
void resume_suspend(struct weir_space *space, struct planner *p);

/* Follow the plan from where the record is. What is to be tied to it was allocated at the event
 * `since` or later; all else is tied already. */
void resume_from(struct weir_space *space, struct planner *p, uint64_t since);

/* The newest event has a place in the plan again: follow it from there. */
void resume_plan(struct weir_space *space, struct planner *p);

/* ---- pick.c */

/* Which blocks may be picked: that no open bracket names, nor the one being placed, ... */
enum pick {
	PICK_LATER, /* and that can go when what is queued is done */
	PICK_IDLE,  /* and that can go now */
	PICK_CLEAN, /* and that can go now, without a copy, even if the rule would keep it */
	PICK_ANY,   /* and that can go now, even so */
};

/* The last block in a range's order that is settled at a place, below n; nr_blocks: none. */
uint32_t pick_last_settled(struct range *range, place_t place, uint32_t n);

/* The highest ranked range that has a block to evict from a place, and the block; of equals, the
 * first. NULL: none. */
struct range *pick_range(const struct weir_space *space, place_t place, enum pick pick,
			 uint32_t *block);

/* Whether the rule would have a range give an idle block of its own memory now: *i. */
bool pick_idle(const struct weir_space *space, struct range *range, place_t own, uint32_t *i);

/* The range that would be evicted from first for a chunk of a device's own memory, now or when what
 * is queued is done. NULL: none. */
struct range *pick_victim(const struct weir_space *space, place_t own);

/* ---- room.c */

/* A free chunk of a place without moving live blocks: from the pool, from an idle freed range, or
 * a clean block's lower copy. NULL: none. */
struct chunk *room_try(struct weir_space *space, place_t place);

/* The same at a place below that one, for a block of a range: where that should be, or else the
 * next place that has any. */
struct chunk *room_below(struct weir_space *space, const struct range *range, uint32_t i,
			 place_t place);

/* The same below the device's own memory; what the plan has made room for at a neighbour waits for
 * that. @return 0, *out NULL: there is none; or SETTLE_WAIT. */
int room_below_settled(struct weir_space *space, const struct range *range, uint32_t i,
		       struct settle *settle, struct chunk **out);

/* A device's plan has made room at a neighbour: wait for what has it still, freed ranges in use and
 * copies to the device's own memory. @return SETTLE_WAIT; or 0: there is none. */
int room_settle_near(struct weir_space *space, place_t own, place_t place, struct settle *settle);

/* Free a chunk of a place that an idle freed range has. @return whether there was one. */
bool room_free_pooled(struct weir_space *space, place_t place);

/* The first bracket that must be done for a freed range to give chunks of a place; 0: none holds
 * any. */
bracket_seq_t room_first_pooled_use(const struct weir_space *space, place_t place);

/* Free a chunk of a place that an idle freed range has, or a dead block, or that is a block's lower
 * copy. For the space itself (`own`), or for others, who do not get copies that a limit needs.
 * @return whether there was one */
bool room_free(struct weir_space *space, place_t place, bool own);

/*
 * A chunk of a device's own memory: what others of the machine do not use, else evicting what is
 * used farthest ahead (or was used longest ago) outside the bracket being placed; a part of a pass,
 * which waits for brackets that ended and for copies. wanted: how many the caller is going to ask
 * for, so that evictions come in batches.
 * @return 0, *out NULL: every candidate is pinned; or SETTLE_WAIT.
 */
int room_make(struct weir_space *space, place_t own, uint32_t wanted, struct settle *settle,
	      struct chunk **out);

/* The same without waiting: starts an eviction when no chunk is free, and then may return NULL. */
struct chunk *room_or_evict(struct weir_space *space, place_t own);

/*
 * A resident block without contents of its own to lose, which is going to lose its chunk anyway,
 * and whose launches come before those of the slot's next bracket, if they are not done: for
 * migrate_take(). Of a range that the plan evicts from now, else of the range freed longest ago,
 * else of one that the bracket discards. NULL: none.
 */
struct range *room_giver(struct weir_space *space, const struct stream_slot *slot, uint32_t *i);

/* Evict one idle block of a range that the device's plan does not know, since its period does not
 * use it. @return whether there was one. */
bool room_evict_unplanned(struct weir_space *space, place_t own);

/* A chunk of a device's own memory for one of so many blocks, if there is one without waiting. The
 * plan has made room, but for what it does not know of. */
struct chunk *room_planned(struct weir_space *space, place_t own, uint32_t wanted);

/* Whether a device's own memory has a free chunk, one on its way, or an unpinned block that could
 * go. */
bool room_exists(const struct weir_space *space, place_t own);

/* Have one idle block leave a place, without a copy if that is possible: to the next place with
 * room, or to one above. @return 0: it left, or is on its way; -EAGAIN: none is idle now; -ENOSPC:
 * no other place has room; or an error. */
int room_leave(struct weir_space *space, place_t place);

/* Start copying one block to the host, if it is at that place, dirty, and nobody writes it. @return
 * 0 whether or not it needed any; -EAGAIN: not now; -ENOSPC: the host is full; or an error. */
int room_clean(struct weir_space *space, struct range *range, uint32_t i, place_t place);

/* Evict one idle block, to its lower copy or the next place with room. -ENOSPC: there is none. */
int room_evict(struct weir_space *space, struct range *range, uint32_t i, enum weir_cause cause,
	       bool *freed);

/* The same to a place below the block's. -ENOSPC: it is full. */
int room_send(struct weir_space *space, struct range *range, uint32_t i, place_t to,
	      enum weir_cause cause, bool *freed);

/* ---- past.c */

/* Free chunks, and those of freed ranges that nobody uses any more. */
uint32_t past_nr_free(const struct weir_space *space, place_t own);

/* What uses of a range were so far. */
struct past past_get(const struct weir_space *space, const struct range *range);

/* An open bracket uses a range. Inline, and in fields of the range itself, since every use of every
 * bracket comes by. */
static inline void past_used(struct weir_space *space, const struct space_use *use)
{
	struct range *range = use->range;
	uint32_t *time = &space->residency->time[range->own];

	if (range->used_at)
		*time += use->nr;
	range->used_at = *time + 1;
	range->nr_uses++;
}

/* A block came to the range's own memory, or is leaving it. */
void past_moved(struct weir_space *space, struct range *range, bool came);

/* A range is new, or free. */
void past_reset(struct range *range);

/* ---- give.c */

/* What others ask a space for, see phys_give_fn. Takes the lock. */
uint64_t give_unused(struct phys_client *client, uint64_t bytes);

/* ---- surplus.c */

/* Blocks of a range that are at neighbours, and should be on the host by the plan: what its period
 * does not use has no business near, where others need the room. */
uint32_t surplus_nr(const struct weir_space *space, const struct range *range);

/* The last block of a range, in its order, that can leave a place now: one that has to be copied,
 * or one that has not. nr_blocks: none. */
uint32_t surplus_block(const struct weir_space *space, const struct range *range, place_t place,
		       bool copied);

/* Have a block leave a neighbour at once, without a copy, that the plan wants on the host. @return
 * whether there was one. */
bool surplus_leave(struct weir_space *space, place_t place);

/* ---- near.c */

/* Bring what the plan wants at neighbours there from the host, over their own links, while there is
 * room; and where there is not, send what it wants on the host there. Some blocks a call. Never
 * waits. */
void near_advance(struct weir_space *space);

/* Blocks beyond the level of a range that the use overwrites whole get chunks at neighbours in
 * place of the host's, or the other way round, or other neighbours', as far as the plan wants them
 * there: nothing is copied. settle: where launches that used them are to be waited for; else NULL.
 * @return 0, SETTLE_WAIT or an error. */
int near_place_fresh(struct weir_space *space, const struct space_use *use, uint32_t level,
		     struct settle *settle);

/* ---- save.c */

void save_init(struct weir_space *space, const struct weir_space_config *config);

/* In a space that has neighbours: copy what they have beyond their limits to the host. Never
 * waits. */
void save_advance(struct weir_space *space);

/* ---- budget.c */

/* Go on giving back what is beyond a budget that was lowered. Never waits. */
void budget_advance(struct weir_space *space);

/* The part of a pass that does the same and waits for it: until nothing more can leave. */
int budget_settle(struct weir_space *space, struct settle *settle);

/* Say that so many bytes are beyond what can be had of a memory, and who has the rest: what this
 * process holds, and other processes as far as the system names them. */
void budget_log_full(struct weir_machine *machine, uint32_t memory, uint64_t bytes, uint64_t room);

/* ---- place.c */

/* Mark what a bracket names, as soon as that is known: it is then not pooled while it is placed.
 * Nor is what its launches may touch; but until all that is declared is placed, that may be
 * evicted. */
void place_mark(struct weir_space *space, const struct space_use *uses, uint32_t nr_uses);

/* How far the uses of a bracket are ready. */
struct place_pass {
	place_t own; /* the memory of the bracket's device */
	const struct space_use *uses;
	uint32_t nr_uses;
	uint32_t use; /* that is being placed; nr_uses: all are, and are mapped */
	uint32_t nth; /* its blocks that are */
	bool no_room; /* what is left of it stays where it is */
	bool staying; /* nothing that launches may touch is evicted any more */
};

/* Whether all is there that the uses name, so that there is nothing to place. */
bool place_is_all_ready(const struct space_use *uses, uint32_t nr_uses);

/* A part of a pass: make the uses ready: back, fetch, or leave in place; nothing is pinned yet. */
int place_uses(struct weir_space *space, struct place_pass *p, struct settle *settle);

/* PLACE_WAITS: blocks are left for which there is no chunk yet. PLACE_MORE: others are left. */
enum { PLACE_DONE, PLACE_WAITS, PLACE_MORE };

/*
 * Map ahead of place_uses(), without waiting: mapping calls made while the device is still busy
 * cost no time. Backs what the uses overwrite, as far as the plan wants it resident, and maps what
 * they will find in place. @return one of the above, or an error.
 */
int place_ahead(struct weir_space *space, struct stream_slot *slot);

/* Map one block of the host's that its next use will find in place, by the plan. For when there is
 * nothing else to do. @return 1; 0: there is none; or an error. */
int place_map_ahead(struct weir_space *space);

/* A pass: back the blocks of a part that have no chunk, each at the first place with room. arg: a
 * struct back_pass. */
int place_back(struct weir_space *space, void *arg, struct settle *settle);

/* The same of a whole range, with the waits. */
int place_back_all(struct weir_space *space, struct range *range);

/* ---- home.c */

/* A range is new, or free: nobody uses it. */
void home_reset(struct weir_space *space, struct range *range);

/* A range was allocated. own: the memory of the device that uses it first; -1: nobody said. */
void home_allocated(struct weir_space *space, struct range *range, int own);

/* The device whose own memory that is uses ranges, in a bracket about to be recorded. @return 0, or
 * why they could not be mapped for it. */
int home_used(struct weir_space *space, place_t own, const struct use_list *uses);

/* Map a range for the device, too. */
int home_allow(struct weir_space *space, struct range *range, place_t own);

/* A part is asked for in a device's own memory: so it is resident there, if that is not known to be
 * elsewhere. And: a range is advised to stay there. */
void home_set(struct weir_space *space, const struct space_use *part, place_t own);
void home_prefer(struct weir_space *space, struct range *range, place_t own);

/* A range is in no plan any more: its life ends in the record. */
void home_forget(struct weir_space *space, struct range *range);

/* ---- order.c */

/* Make the slot's stream wait for every bracket that ended, is not done, and conflicts with the
 * uses, which are marked. Does not block. */
int order_behind(struct weir_space *space, const struct stream_slot *slot,
		 const struct use_list *uses);

/* The newest of these brackets, of all streams; one that is done: there is none. */
bracket_seq_t order_newest(const struct weir_space *space, const struct use_list *uses);

/* The first of the uses that conflicts with an open bracket of the CPU's; NULL: none. A discard
 * does not: what others name keeps its contents. */
const struct space_use *order_host_conflict(const struct weir_space *space,
					    const struct use_list *uses);

/* Whether a bracket is open on a stream that names the same bytes of a replicated range through a
 * window. */
bool order_is_open(const struct weir_space *space, const struct space_use *use);

/* ---- alloc.c */

/* Set whether launches may touch a range only inside brackets. */
int alloc_guard(struct weir_space *space, const struct range *range, bool guarded);

/* A bracket that named the range ended, or could not begin: if no other does, what was freed
 * meanwhile becomes free. */
void alloc_settle(struct weir_space *space, struct range *range);

/* The same of all ranges, where a bracket ended, or could not begin, whose launches may use any. */
void alloc_settle_all(struct weir_space *space);

/* Kernels outside brackets may write any block at any time: none counts as dead or clean. */
void alloc_expect_anything(struct weir_space *space, struct range *range);

/* ---- bracket.c */

/* A bracket that is asked for: as weir_begin() is, or weir_begin_open(). */
struct bracket_asked {
	const struct weir_use *uses;
	uint32_t nr;
	uint32_t nr_likely; /* the first of them; what the others name is not moved for them, nor
			     * recorded: it is mapped, and stays where it is */
	bool open;
	uint64_t launched; /* not 0: a number of what is launched, which touches less than what the
			    * first uses name; how much is learnt from times (guess.h) */
	bool groups;  /* it may share a fence with others of the stream: these are the caller's to
		      * end with bracket_stream_ends(), and to capture after bracket_fence_all() */
	bool barrier; /* the driver has later work of other streams wait for what is queued on its
		       * stream, and that for earlier work of theirs, as on the default stream */
};

/* Open a bracket whose uses are guesses. @return as weir_begin() and weir_begin_open(). Takes the
 * lock. */
int bracket_begin_guessed(struct weir_space *space, struct weir_stream *stream,
			  const struct bracket_asked *asked);

/* A stream is about to be destroyed: its brackets have fences. Blocks where that fails at first.
 * Takes the lock. */
void bracket_stream_ends(struct weir_space *space, struct weir_stream *stream);

/* All brackets that ended have fences, as far as the driver has any. Takes the lock. */
void bracket_fence_all(struct weir_space *space);

/* Whether nothing moves, nor is to: see struct space_ops. */
bool bracket_is_quiet(const struct weir_space *space);

/* Turn uses as declared into blocks. out: room for nr of them. */
int bracket_resolve(struct weir_space *space, const struct weir_use *uses, uint32_t nr,
		    struct space_use *out);

/* Record a bracket in a device's record, with those uses that its plans may have. slot: it is on
 * that; NULL: it is the CPU's. @return its event's number; 0: it is not recorded. */
uint64_t bracket_record(struct weir_space *space, struct planner *p, enum event_kind kind,
			const struct stream_slot *slot, const struct space_use *uses,
			uint32_t nr_uses);

/* What is about to be written is neither dead nor the same as its lower copy. */
void bracket_expect_writes(struct weir_space *space, const struct space_use *use);

/* ---- host.c */

/* Forget the host brackets that are open: the space goes. */
void host_cancel(struct weir_space *space);

/* ---- advice.c */

/* Forget what was said of a range. */
void advice_reset(struct weir_space *space, struct range *range);

/* Go on with the prefetches that the program asked for. Never waits. */
void advice_advance(struct weir_space *space);

/* Queue no more of them: nothing is to move any more. What is under way is finished. */
void advice_cancel(struct weir_space *space);

/* Let go of them: the space goes, and nothing is under way. */
void advice_fini(struct weir_space *space);

/* A copy failed: the prefetch that it was for says so. */
void advice_move_failed(struct weir_space *space, const struct path *path, const struct move *move,
			int err);

#endif
