/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan for a program that repeats itself: how much of each range is resident while it is used,
 * and which blocks move when. A pure function of the recorded period and the machine's rates: it
 * knows no space, and takes no clock.
 *
 * Input    the period as steps (brackets) with uses of lives, cyclic.
 * Stages   loops of alike steps are folded, so that a period of thousands of steps becomes some
 *          dozens of stages (plan_stages.c). Where it pays that the steps of a loop's body have
 *          levels of their own, each step of the period is a stage after all (plan_loops.c).
 * Levels   for each stage and each life used in it: the blocks that are resident there. The rest is
 *          used in place. These are what is searched for (plan_search.c).
 * Streams  a loop that uses another part of a life in each iteration, one after the other, may have
 *          these parts come and go in turn, each ahead of its use, in room for two of them. Whether
 *          it does is searched for as well.
 * Below    where the rest is: of a life's blocks, in the order in which they are chosen, the last
 *          ones are far (on the host), those before them near (in neighbours' memory), and the
 *          first ones resident. How many are far is the same in all stages, begins with
 *          plan_far.c, and is searched for. What nobody writes is near as well while there is room.
 * Model    given the levels, one pass over the stages decides all else: evict what is used
 *          farthest ahead, early enough to be out of the way, fetch ahead of use when there is room
 *          until then; and gives the time (plan_model.c). A stage takes about the larger of its
 *          steps' computation and link time; copies fill what its link time leaves.
 */
#ifndef WEIR_RESIDENCY_PLAN_H
#define WEIR_RESIDENCY_PLAN_H

#include <stdatomic.h>

#include "src/core/types.h"
#include "src/residency/explain.h"

/* Places below the device's own memory that a plan tells apart, nearest first: the host's; or
 * neighbours' and the host's. */
#define PLAN_BELOW_MAX 2

/*
 * What a kernel takes to move a part that is all in place at one of them, when all accesses miss
 * the translation cache. That holds reach_blocks: with F blocks in place it takes max(hit, 1 -
 * reach_blocks / F) times as long. serial_ns: of the sum of both, what does not overlap with
 * computation where that takes as long.
 */
struct plan_rate {
	double in_ns, out_ns, serial_ns;
	double hit, reach_blocks;
};

/* What a step does with one life. in and out: the part's touched bytes, all in place, in blocks.
 * hbm_ns: the time of these in own memory; only ratios between a step's uses count. */
struct plan_use {
	uint32_t life;
	enum weir_use_kind kind;
	bool whole;	    /* the part is all of the life */
	bool fresh;	    /* nothing used the life before, so it has no contents */
	uint32_t first, nr; /* blocks of the part */
	double in, out, hbm_ns;
	struct plan_rate at[PLAN_BELOW_MAX];
};

struct plan_step {
	double compute_ns; /* with everything resident */
	uint64_t shape;	   /* equal for steps that may belong to one loop */
	uint32_t first_use, nr_uses;
};

/*
 * A range from its allocation to its free. Alive at steps birth..death-1, cyclically when death <=
 * birth; a permanent one is always alive.
 */
struct plan_life {
	uint32_t nr_blocks;
	uint32_t birth, death;
	bool permanent;
	bool below; /* advised not to be resident; and */
	bool far;   /* to be at the last place below */
};

/* A place below. Link time of a block's copy to the device's own memory and from there; duplex:
 * each way, both busy; inplace_duplex: the same when a kernel reads in place one way; inplace_both:
 * when one reads and writes. The host's time for a block there that is used in place. */
struct plan_below {
	double in_ns, out_ns, duplex_ns, inplace_duplex_ns, inplace_both_ns;
	double map_ns, unmap_ns;
};

/* Everything the plan depends on. Arrays are the caller's. */
struct plan_input {
	const struct plan_step *step;
	const struct plan_use *use;
	const struct plan_life *life;
	uint32_t nr_steps, nr_uses, nr_lives;
	uint32_t budget_blocks,
		near_blocks; /* of own memory; with two places below: of the first */
	uint32_t nr_below;   /* places; the last is large enough */
	/* With two places below: the time that a period takes at least for each block that is moved
	 * to or from the first, by copies or in place; 0: none. */
	double near_block_ns;
	struct plan_below below[PLAN_BELOW_MAX];
	double map_ns, unmap_ns; /* the host's time for a block of the device's own memory */
	/* More for each block that is mapped beside copies from the host; beside copies to the host
	 * or kernels that read there; and for each that is unmapped beside copies between the
	 * device's own memory and the near place. */
	double map_busy_ns, map_busy_host_ns, unmap_busy_ns;
	uint32_t haste;		 /* what the search may cost at most is halved so many times */
	bool unfolded;		 /* each step is a stage: loops are not looked for */
	bool guessed;		 /* uses are guesses: only plans that fold loops are looked for */
	const atomic_bool *stop; /* NULL, or set when the plan is not wanted any more */
};

/* Levels that somebody else chose for an input: of the blocks of each life those that are resident
 * in each step, used there or not. */
struct plan_given {
	uint64_t fingerprint; /* plan_fingerprint() of the input that they are for */
	uint32_t nr_steps, nr_lives;
	const uint32_t *level; /* [life * nr_steps + step] */
};

enum plan_move {
	PLAN_EVICT, /* until at most so many blocks are resident */
	PLAN_FETCH, /* until at least so many are */
};

/* Some moves of one life's blocks, from stage `from` on, to be under way by `due`. Stages are
 * counted from the period's begin; due < from means in the next period. */
struct plan_action {
	enum plan_move move;
	uint32_t life, nr_blocks;
	uint32_t from, due;
};

/* A life that is not tracked, since no step uses it. */
#define PLAN_UNTRACKED UINT32_MAX

/* What a loop does with the parts of a life that its iterations use one after the other. */
enum plan_flow {
	FLOW_NONE,    /* nothing: the level holds throughout */
	FLOW_THROUGH, /* each comes ahead of its use, and leaves behind it */
	FLOW_IN,      /* each comes ahead of its use, unless it is there, and stays */
	FLOW_OUT,     /* all are there, and each leaves behind its use */
};

/* A stage that uses a life, and the blocks that are resident there, or have their room there. */
struct plan_visit {
	uint32_t stage, level;
	enum plan_flow flow;
};

/* Consecutive stages, cyclically; nr is at most the number of all. */
struct plan_span {
	uint32_t first, nr;
};

/* Chunks of the device's own memory by what they are for, at some begins of a stage, in all. */
struct room_seen {
	uint64_t nr; /* of these begins */
	uint64_t nr_chunks[EXPLAIN_ROOM_NR], filled_bytes;
};

/* What was seen of a stage while its plan was followed, in all of those brackets: see explain.c. */
struct stage_seen {
	double ns, kernels_ns; /* of brackets that were timed: in all; of that, their own */
	uint64_t nr_timed;     /* these brackets */
	uint64_t nr_late;      /* blocks on their way ahead of use when these could have begun */
	uint64_t nr_missed;    /* blocks that were to come ahead, and did not */
	uint64_t nr_begun; /* brackets, from the begin of which to that of the next there were: */
	struct happened {
		uint64_t nr_brought, nr_ahead; /* blocks that brackets brought; that came before */
		uint64_t nr_out, nr_calls;     /* that left; and mapping calls, */
		uint64_t calls_ns;	       /* and the host's time in these */
	} all;
	struct room_seen room;
};

/* Its size follows steps and uses, never stages times lives. */
struct plan {
	uint32_t nr_stages, nr_steps, nr_tracked;
	uint32_t first_step; /* stage 0 begins here, so that no loop is cut in two */
	uint32_t *stage_of_step;
	uint32_t *tracked;	  /* by life: its number t among the tracked; PLAN_UNTRACKED */
	uint32_t *first_visit;	  /* [nr_tracked + 1]: t's visits begin here */
	struct plan_visit *visit; /* by t, then by stage */
	bool confines;		  /* some visit has fewer blocks resident than its life has */
	struct plan_span *alive;  /* by t: the stages that begin while it is alive */
	uint32_t *far;		  /* by t: its last blocks that are far, when not resident */
	bool *kept;		  /* by t: nobody writes it, and it is there always */
	uint64_t nr_kept_blocks;  /* of all these lives */
	uint64_t *levels;	  /* by stage: of its visits, but for lives whose parts flow out */
	double *end_ns;		  /* by stage: when it ends, under this plan */
	bool *link_busy;	  /* by stage: kernels keep the host's link busy most of the time */
	bool *streams;		  /* by stage: parts of lives come and go in it */
	double lift_ns;		  /* a block's way from the host to a neighbour; 0: there is none */
	struct plan_action *action; /* by from, evictions first */
	uint32_t nr_actions;
	/* By stage, and brackets that were to be timed: whoever follows the plan counts. */
	struct stage_seen *seen;
	uint64_t nr_watched;
	double compute_ns, modelled_ns; /* a period: all resident; under this plan */
	uint64_t work;			/* lives looked at while it was made */
};

/*
 * Make a plan. It takes time about linear in steps and uses, and for the search a limited amount
 * more, whatever their number (plan.c).
 *
 * @return 0, -EINVAL (no steps) or -ENOMEM.
 */
int plan_create(const struct plan_input *input, struct plan **out);

/*
 * Make the plan that has these levels, without a search. What a level asks for moves while the step
 * before it runs.
 *
 * @return 0; -EINVAL: they are for another input, logged; -ENOTSUP: the input has two places below,
 * logged; -ENOMEM.
 */
int plan_create_given(const struct plan_input *input, const struct plan_given *given,
		      struct plan **out);

/* Who makes plans in place of plan_create(), which make() may call. It returns what that returns,
 * and is called with a space's lock held. */
struct plan_maker {
	int (*make)(void *arg, const struct plan_input *input, struct plan **out);
	void *arg;
};

/* A number for what a plan is made for: steps, their uses, lives and the budget; not the times. */
uint64_t plan_fingerprint(const struct plan_input *input);

void plan_destroy(struct plan *plan);

/* Blocks of tracked life t that are resident in a stage; 0 where it is not used. */
uint32_t plan_level(const struct plan *plan, uint32_t stage, uint32_t t);

/* Whether the stage uses it. */
bool plan_uses(const struct plan *plan, uint32_t stage, uint32_t t);

/* What the stage does with parts of it; FLOW_NONE where it is not used. */
enum plan_flow plan_flow(const struct plan *plan, uint32_t stage, uint32_t t);

/* The most blocks that any stage has of it, but for those through which it streams. */
uint32_t plan_level_max(const struct plan *plan, uint32_t t);

/* Stages until its next use after this stage; UINT32_MAX: none before it dies. */
uint32_t plan_next_use(const struct plan *plan, uint32_t stage, uint32_t t);

/* How long the stages take that are between one and the one so many stages later. */
double plan_between_ns(const struct plan *plan, uint32_t stage, uint32_t distance);

#endif
