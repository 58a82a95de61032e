/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plan's own files (plan*.c) call of each other. Lives are numbers among the tracked ones
 * here. All tables are lists by stage or by life of what is there: none has an entry for each pair
 * of the two, since a period of thousands of stages and lives would make that gigabytes.
 *
 * Work is counted in lives looked at, by every walk whose length grows with the period.
 */
#ifndef WEIR_RESIDENCY_PLAN_PARTS_H
#define WEIR_RESIDENCY_PLAN_PARTS_H

#include "src/residency/plan.h"

/* A life in a stage that uses it. */
struct stage_life {
	uint32_t life, stage;
	uint32_t next;	  /* the stage_life of its next use, cyclically */
	uint32_t rank;	  /* among all: the last stage first, in a stage by life */
	bool overwritten; /* its first use overwrites it all, or finds nothing */
	bool written;	  /* dirty afterwards */
	/* Where iterations use one part after the other: blocks that all of them cover together,
	 * and room for the parts of two; else 0. */
	uint32_t span, room;
};

/* What a life's use in place adds to one step of a stage's body, over all iterations. */
struct stage_use {
	uint32_t step; /* of the body */
	uint32_t life;
	double in, out, hbm_ns;
	struct plan_rate at[PLAN_BELOW_MAX];
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
	struct stage_life *life; /* by stage, in it by first use */
	double *compute_ns;
	uint32_t *stage_of_step;
	uint32_t *tracked;     /* by life, as in struct plan */
	uint32_t *death;       /* tracked lives, by stage */
	uint32_t *life_of;     /* by tracked life: the input's */
	double *blocks;	       /* by tracked life: its size */
	uint32_t *first_visit; /* [nr_tracked + 1]: of a tracked life, in visit */
	uint32_t *visit;       /* its stage_lives, by stage */
	uint32_t *by_rank;     /* stage_lives */
	/* By tracked life: the stages in which it is alive, used or not. */
	struct plan_span *alive;
	uint32_t nr_stages, nr_uses, nr_lives, nr_tracked;
	uint64_t work; /* of making these tables */
};

int stages_create(const struct plan_input *input, struct stages *out);

/* The step after the longest loop. */
uint32_t stages_pick_first(const struct plan_input *input);

void stages_destroy(struct stages *stages);

static inline bool span_has(const struct plan_span *span, uint32_t nr_stages, uint32_t stage)
{
	const uint32_t after = stage + nr_stages - span->first;

	return (after < nr_stages ? after : after - nr_stages) < span->nr;
}

/* Stages from one stage to a life's next use; UINT32_MAX: it dies in between. */
static inline uint32_t span_distance(const struct plan_span *alive, uint32_t nr_stages,
				     uint32_t from, uint32_t use)
{
	uint32_t distance = (use + nr_stages - from - 1) % nr_stages + 1;
	uint32_t age = (from + 1 + nr_stages - alive->first) % nr_stages;
	uint32_t left = alive->nr > age ? alive->nr - age : 0;

	return distance <= left + 1 || alive->nr == nr_stages ? distance : UINT32_MAX;
}

/* ---- plan_victims.c: which life to evict from */

/*
 * The lives of which something is resident, in the order in which they go after some stage: first
 * those that nobody is going to read, of these first those without a next use; and the farthest
 * next use first. Of two alike, the lower number.
 */
struct victims;

/* A place in that order; valid until a life is put or taken out. */
struct victim {
	uint32_t life;
	uint32_t group; /* equal for lives that are alike */
	bool unread;
	/* The walk's own: */
	uint32_t part, place;
	uint32_t start; /* the rank that it begins with */
	bool wrapped;	/* it goes on with the first rank */
};

int victims_create(const struct stages *stages, struct victims **out);
void victims_destroy(struct victims *victims);
void victims_clear(struct victims *victims);

/* Put a life in its place after stage g, from the one that it had; or take it out. use: its next
 * stage_life. */
void victims_put(struct victims *victims, uint32_t life, uint32_t g, uint32_t use);
void victims_drop(struct victims *victims, uint32_t life);

/* Walk: false after the last one. */
bool victims_first(const struct victims *victims, uint32_t g, struct victim *victim);
bool victims_next(const struct victims *victims, struct victim *victim);

/* ---- plan_traffic.c */

/* In-place traffic over a link: blocks, the time that moving them takes kernels, of that what does
 * not overlap (struct plan_rate), and what it would be in own memory. */
struct traffic {
	double in, out, in_ns, out_ns, serial_ns, hbm_ns;
};

/* Blocks of a life that are not resident, by place below. */
struct away {
	double blocks[PLAN_BELOW_MAX];
};

/* The time of a stage's steps. away: by tracked life. Adds what they move to total, by place. */
double traffic_run(const struct plan_input *input, const struct stages *stages,
		   const struct stage *stage, const struct away away[], struct traffic total[]);

/* ---- plan_calls.c */

/* Mapping calls of a while: what they take beside nothing, how many of each kind there are, and for
 * how long something runs that makes them wait: copies over the link of the place that is near, for
 * those that unmap; copies from the host, and copies to it or kernels that read there, for those
 * that map. */
struct calls {
	double ns, nr_maps, nr_unmaps;
	double near_ns, in_ns, host_ns;
};

/* The calls' time, where so much time passes besides them; the copies run in all of it. */
double calls_and_ns(const struct plan_input *input, const struct calls *calls, double other_ns);

/* The same, where they are made during a stage of so much time. */
double calls_beside_ns(const struct plan_input *input, const struct calls *calls, double run_ns);

/* ---- plan_far.c */

/* Choose which blocks are far. far: by tracked life, out. @return 0, -ENOMEM. */
int far_choose(const struct plan_input *input, const struct stages *stages, double *far);

/* ---- plan_model.c */

/*
 * The model of one period in its steady state. level: [index of stage_life], blocks that should be
 * resident. model_run: the time, ns; where that is beyond the limit, any time beyond it: the run
 * may have ended early. model_actions: the moves (owned by the caller), and what is resident at
 * each stage in fact, since levels may add up to more than there is room for.
 */
struct plan_model;
int model_create(const struct plan_input *input, const struct stages *stages,
		 struct plan_model **out);
void model_destroy(struct plan_model *model);
double model_run(struct plan_model *model, const double *level, double limit_ns);
int model_actions(struct plan_model *model, const double *level, double *reached,
		  struct plan_action **out, uint32_t *nr);

/* By stage_life, for a search to change: what its parts do, for which level has the room. Other
 * than none only where stage_life has room for them, and in or out only where they are all of the
 * life; out only where nothing is written. */
enum plan_flow *model_flows(struct plan_model *model);

/* The blocks of each tracked life that are far when they are not resident, for a search to change;
 * and whether the last run, which had no limit, needed all of the room near. With two places
 * below. */
double *model_far_levels(struct plan_model *model);
/* Of what is far, no more than is away at some time of the last run: this changes nothing else. */
void model_trim_far(struct plan_model *model);
bool model_near_is_full(const struct plan_model *model);

/* Blocks of a tracked life that are far when they are not resident, given what model_actions()
 * found. */
uint32_t model_far(const struct plan_model *model, uint32_t life);

/* By stage: when it ended in the last run. */
const double *model_end_ns(const struct plan_model *model);

/* By stage: whether its kernels keep the link of the last place busy most of the time, in the last
 * run. */
const bool *model_link_busy(const struct plan_model *model);

/* Whether nobody writes it, and it is there always: it has a copy on the host. */
bool model_is_kept(const struct plan_model *model, uint32_t life);

/* Work of all its runs so far. */
uint64_t model_work(const struct plan_model *model);

/* ---- plan_rejected.c */

/* What a search has tried and found no better: by a hash of what was tried, the time, and the work
 * of finding it. It remembers some thousands. */
struct rejected;
struct rejected *rejected_create(void); /* NULL: no memory */
void rejected_destroy(struct rejected *rejected);
void rejected_add(struct rejected *rejected, uint64_t hash, double ns, uint64_t work);

/* Whether it is known to take so long, or longer; and what finding that took. */
bool rejected_find(const struct rejected *rejected, uint64_t hash, double ns, uint64_t *work);

/* ---- plan_given.c */

/* Whether the levels are for the input. @return 0, -EINVAL or -ENOTSUP, logged. */
int given_check(const struct plan_input *input, const struct plan_given *given);

/* level: [index of stage_life], out. */
void given_levels(const struct plan_given *given, const struct stages *stages, double *level);

/* The moves (owned by the caller) between levels. @return 0, -ENOMEM. */
int given_actions(const struct plan_given *given, const struct stages *stages,
		  struct plan_action **out, uint32_t *nr);

/* ---- plan_ties.c */

/* Levels that are equal in all iterations of a loop, by stage_life of stages without folded loops:
 * the first of those that are tied together, and the next; TIES_END: none. */
struct ties {
	uint32_t *first, *next;
};
#define TIES_END UINT32_MAX

/* Both stages are those of one input, folded and not. @return 0, -ENOMEM. */
int ties_create(const struct stages *folded, const struct stages *unfolded, struct ties *ties);
void ties_destroy(struct ties *ties);

/* The levels of folded stages, by stage_life of those that are not. */
void ties_levels(const struct stages *folded, const struct stages *unfolded,
		 const struct ties *ties, const double *level, double *out);

/* ---- plan_loops.c */

/* Whether there are loops in which steps of the body may have levels of their own, and a search for
 * these is not too long. */
bool loops_may_differ(const struct plan_input *input, const struct stages *folded);

/* Modelled times without folded loops: with the levels that were found; with those of the folded
 * stages, from which the search began. */
struct loops_found {
	double ns, begin_ns;
};

/* Search for such levels, from those of the folded stages. unfolded: without loops, model: of
 * these; level: by stage_life of these, out; work: as for plan_search(). @return 0, -ENOMEM. */
int loops_search(const struct plan_input *input, const struct stages *folded,
		 const double *folded_level, const struct stages *unfolded,
		 struct plan_model *model, double *level, struct loops_found *found,
		 uint64_t *work);

/* ---- plan_search.c */

/* What a search may cost without haste, in lives looked at; its first descent half of it. */
#define WORK_MAX UINT64_C(120000000)

static inline uint64_t search_limit(const struct plan_input *input)
{
	return WORK_MAX >> MIN(input->haste, 32u);
}

/* Find levels. level: [index of stage_life], out. work: done so far, in; with the search's and the
 * model's, out. @return modelled time. */
double plan_search(const struct plan_input *input, const struct stages *stages,
		   struct plan_model *model, double *level, uint64_t *work);

/* The same from the levels that there are, with half of the work, and without streams. ties: levels
 * that stay equal; NULL: none. */
double plan_search_from(const struct plan_input *input, const struct stages *stages,
			struct plan_model *model, const struct ties *ties, double *level,
			uint64_t *work);

#endif
