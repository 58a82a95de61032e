/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan for a program that repeats itself: how much of each range is resident while it is used,
 * and which blocks move when. A pure function of the recorded period and the machine's rates: it
 * knows no space, and takes no clock.
 *
 * Input    the period as steps (brackets) with uses of lives, cyclic.
 * Stages   loops of alike steps are folded, so that a period of thousands of steps becomes some
 *          dozens of stages (plan_stages.c).
 * Levels   for each stage and each life used in it: the blocks that are resident there. The rest is
 *          used in place. These are what is searched for (plan_search.c).
 * Model    given the levels, one pass over the stages decides all else: evict what is used
 *          farthest ahead, early enough to be out of the way, fetch ahead of use when there is room
 *          until then; and gives the time (plan_model.c). A stage takes about the larger of its
 *          steps' computation and link time; copies fill what its link time leaves.
 */
#ifndef WEIR_RESIDENCY_PLAN_H
#define WEIR_RESIDENCY_PLAN_H

#include "src/core/types.h"

/*
 * What a step does with one life. in and out: the part's touched bytes, all in place, in blocks,
 * and the time a kernel takes to move them when all accesses miss the translation cache. That holds
 * reach_blocks: with F blocks in place it takes max(near, 1 - reach_blocks / F) times as long.
 */
struct plan_use {
	uint32_t life;
	enum weir_use_kind kind;
	bool whole; /* the part is all of the life */
	double in, out;
	double in_ns, out_ns;
	double near, reach_blocks;
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
	bool host; /* advised to stay on the host */
};

/* Everything the plan depends on. Arrays are the caller's. */
struct plan_input {
	const struct plan_step *step;
	const struct plan_use *use;
	const struct plan_life *life;
	uint32_t nr_steps, nr_uses, nr_lives;
	uint32_t budget_blocks;
	/* Link time of a block's copy; duplex: each way, both busy; inplace_duplex: the same when a
	 * kernel reads in place one way; inplace_both: when one reads and writes. */
	double in_ns, out_ns, duplex_ns, inplace_duplex_ns, inplace_both_ns;
	/* The host's time: a block of HBM, and one of host memory that is used in place. */
	double map_ns, unmap_ns, host_map_ns, host_unmap_ns;
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

struct plan {
	uint32_t nr_stages, nr_steps, nr_tracked;
	uint32_t first_step; /* stage 0 begins here, so that no loop is cut in two */
	uint32_t *stage_of_step;
	uint32_t *tracked;  /* by life: its number t among the tracked; PLAN_UNTRACKED */
	uint32_t *level;    /* [stage * nr_tracked + t], where the life is used */
	uint32_t *next_use; /* [stage * nr_tracked + t]: stages until its next use after this
				     * stage; UINT32_MAX: none before it dies */
	struct plan_action *action; /* by from, evictions first */
	uint32_t nr_actions;
	double compute_ns, modelled_ns; /* a period: all resident; under this plan */
};

/* Make a plan. @return 0, -EINVAL (no steps) or -ENOMEM. */
int plan_create(const struct plan_input *input, struct plan **out);
void plan_destroy(struct plan *plan);

/* ---- between the plan's own files */

/* Lives below are numbers among the tracked ones. */

/* A life in a stage. */
struct stage_life {
	uint32_t life;
	bool overwritten; /* its first use in the stage overwrites all of it */
	bool written;	  /* dirty afterwards */
};

/* What a life's use in place adds to one step of a stage's body, over all iterations. */
struct stage_use {
	uint32_t step; /* of the body */
	uint32_t life;
	double in, out, in_ns, out_ns;
	double near, reach_blocks;
	bool window; /* of another part in each iteration: there or not, not a share of it */
};

struct stage {
	uint32_t first_step, nr_body, nr_iterations;
	uint32_t first_compute;		 /* body steps' computation, in stages->compute_ns */
	uint32_t first_use, nr_uses;	 /* stage_use */
	uint32_t first_life, nr_lives;	 /* stage_life */
	uint32_t first_death, nr_deaths; /* lives alive in the stage before and not in this one */
};

struct stages {
	struct stage *stage;
	struct stage_use *use;
	struct stage_life *life;
	double *compute_ns;
	uint32_t *stage_of_step;
	uint32_t *tracked; /* by life, as in struct plan */
	uint32_t *death;   /* tracked lives, by stage */
	uint32_t *life_of; /* by tracked life: the input's */
	double *blocks;	   /* by tracked life: its size */
	uint32_t nr_stages, nr_uses, nr_lives, nr_tracked;
	/* For each tracked life, [stage * nr_tracked + t]: */
	uint8_t *alive;
	uint32_t *next_use; /* as in struct plan */
};

int stages_create(const struct plan_input *input, struct stages *out);

/* The step after the longest loop. */
uint32_t stages_pick_first(const struct plan_input *input);

void stages_destroy(struct stages *stages);

/*
 * The model of one period in its steady state. level: [index of stage_life], blocks that should be
 * resident. model_run: the time, ns. model_actions: the moves (owned by the caller), and what is
 * resident at each stage in fact, since levels may add up to more than there is room for.
 */
struct plan_model;
/* What a run costs, about: lives looked at. */
uint64_t model_work(const struct stages *stages);
int model_create(const struct plan_input *input, const struct stages *stages,
		 struct plan_model **out);
void model_destroy(struct plan_model *model);
double model_run(struct plan_model *model, const double *level);
int model_actions(struct plan_model *model, const double *level, double *reached,
		  struct plan_action **out, uint32_t *nr);

/* Find levels. level: [index of stage_life], out. @return modelled time. */
double plan_search(const struct plan_input *input, const struct stages *stages,
		   struct plan_model *model, double *level);

#endif
