/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices, and what copies cost at them by when they are made: shared by the exact evaluation
 * (bound_dual.c) and the softened one (bound_soft.c). Internal to workloads/bound*.c.
 */
#ifndef WEIR_BOUND_TABLES_H
#define WEIR_BOUND_TABLES_H

#include "workloads/bound_model.h"

/* Where the valid contents of a byte are: the host alone, both, HBM alone. */
enum bound_state { BOUND_AWAY, BOUND_CLEAN, BOUND_DIRTY, BOUND_STATE_NR };

/* Where valid copies of a byte are, as a set of these; only where there is near memory. */
enum { BOUND_AT_HOST = 1, BOUND_AT_NEAR = 2, BOUND_AT_OWN = 4, BOUND_SET_NR = 8 };

/*
 * Prices, or amounts of what they are paid for, by step of a model.
 *
 * Invariants of prices: time[] >= 0 and adds up to one over the resources of a step; capacity and
 * total >= 0, total 0 without near memory.
 */
struct bound_prices {
	double (*time)[BOUND_RESOURCE_NR];
	double *capacity; /* ns for the whole budget during the step */
	double *total;	  /* ns for the budget and all near memory together */
};

/* What a byte pays in a step: to come from the host, to go there, to be in own memory; to come from
 * near memory, to go there, to be there. */
struct bound_charge {
	double in, out, hold;
	double near_in, near_out, near_hold;
};

/* Between which memories a copy goes: what it is paid by. */
enum bound_way { BOUND_WAY_IN, BOUND_WAY_OUT, BOUND_WAY_NEAR_IN, BOUND_WAY_NEAR_OUT };

/*
 * What a copy between two memories does to the set of a byte's valid copies. Where a copy is
 * dropped it is the source, and it takes room up to the step of the copy.
 */
struct bound_move {
	unsigned int source; /* a set: one of them must be valid */
	unsigned int lacks;  /* a set: none of them may be valid */
	unsigned int adds;   /* to the set */
	unsigned int drops;  /* from the set */
	enum bound_way way;
};

/* The moves, in the order in which the walk through a gap takes them. */
#define BOUND_MOVE_NR 10
extern const struct bound_move bound_moves[BOUND_MOVE_NR];

/* -ENOMEM. All zero. */
int bound_prices_init(struct bound_prices *p, uint32_t nr_steps);
void bound_prices_fini(struct bound_prices *p);

/*
 * Minima over ranges of steps. Level l of the table holds the index of the least of 2^l chunks of
 * keys from a chunk on; what a range has beyond whole chunks is looked through.
 */
struct bound_range {
	double *key;
	uint32_t **level;
	uint32_t nr_keys, nr_levels;
};

/* The step in from .. to, inclusive, with the least key; the earliest of equals. */
uint32_t bound_range_least(const struct bound_range *r, uint32_t from, uint32_t to);

/*
 * What follows from a set of prices, for a byte:
 *
 *   a copy in at step j, kept until step s     copy_in.key[j]    + prefix[s]
 *   a copy out at step j, kept since step s    copy_out.key[j]   - prefix[s]
 *   a copy out at step j, kept all the same    write_back.key[j]
 *   kept during steps a .. b - 1               prefix[b] - prefix[a]
 *
 * and with near memory, in place of these, for each of bound_moves[]
 *
 *   the move at step j, in a gap that     move.key[j] + the prefixes of what it adds at s
 *   ends at step s			   - the prefixes of what it drops at s
 */
struct bound_tables {
	const struct bound_model *model;
	struct bound_range copy_in, copy_out, write_back;
	struct bound_range move[BOUND_MOVE_NR];
	struct bound_charge *charge; /* by step */
	double *prefix;		     /* what it costs to be resident in all steps before */
	double *near_prefix;	     /* the same in near memory */
};

/* The model is borrowed. -ENOMEM. */
int bound_tables_init(struct bound_tables *t, const struct bound_model *model);
void bound_tables_fini(struct bound_tables *t);

/* Set the tables for a set of prices. */
void bound_tables_fill(struct bound_tables *t, const struct bound_prices *p);

/* Price of an event in place at the host, and at near memory. time and c: of its step. */
double bound_price_away(const struct bound_event *e, const double *time,
			const struct bound_charge *c);
double bound_price_near(const struct bound_event *e, const double *time,
			const struct bound_charge *c);

/* What members of a set that take room pay, of their prefixes own and near. */
static inline double bound_hold(unsigned int set, double own, double near)
{
	return (set & BOUND_AT_OWN ? own : 0) + (set & BOUND_AT_NEAR ? near : 0);
}

/* The first step between the event before and this one: that in which copies may begin. A copy in
 * during an event before that only reads costs no less than the same copy before that event, which
 * then need not read in place. */
static inline uint32_t bound_gap_from(const struct bound_event *e)
{
	return e->flags & BOUND_FIRST ? 0 : e[-1].step + 1;
}

#endif
