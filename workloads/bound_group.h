/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few launches in a row, told apart by which of their uses are beyond translation reach, with
 * prices of their own. Internal to workloads/bound*.c; docs/bound.md has the proof.
 */
#ifndef WEIR_BOUND_GROUP_H
#define WEIR_BOUND_GROUP_H

#include "workloads/bound_chain.h"

#define BOUND_GROUP_STEPS 4u
#define BOUND_GROUP_CASES (1u << BOUND_GROUP_STEPS)

/* Prices of a group's steps in one case, or amounts of what they are paid for. */
struct bound_local {
	double time[BOUND_GROUP_STEPS][BOUND_RESOURCE_NR];
	double capacity[BOUND_GROUP_STEPS];
	double reach[BOUND_GROUP_STEPS]; /* >= 0: for all of a part that is within it being away */
};

struct bound_member;
struct bound_kept;

/*
 * A group, as a place on the way from the last step to the first. Steps without a jump between
 * groups count as groups with no jump.
 */
struct bound_group {
	uint32_t first, nr_steps;
	uint32_t jumps;		   /* bit j: a use at step first + j jumps at reach */
	struct bound_local prices; /* of all steps' prices; reach: that of the chord's slope */
	double value;	  /* what of bound_dual_value() belongs to these steps and to no piece */
	double chords;	  /* by how much the chords lower it */
	double nr_visits; /* of members, by bound_group_value() */

	/* private */
	const struct bound_tables *tables;
	const struct bound_prices *all;
	struct bound_chain chain;
	struct bound_kept *kept; /* by place in the chain's active[] */
	struct bound_charge charge[BOUND_GROUP_STEPS];
	struct bound_member *members;
	uint32_t nr_members;
};

/*
 * Behind the last step, at prices for all steps. They are borrowed, and so are the tables, filled
 * for them. -ENOMEM.
 */
int bound_group_init(struct bound_group *g, const struct bound_tables *tables,
		     const struct bound_prices *prices);
void bound_group_fini(struct bound_group *g);

/* Go to the group before; false: there is none. */
bool bound_group_back(struct bound_group *g);

/* Find the pieces that matter to the group, before bound_group_value(); false: too many do. */
bool bound_group_enter(struct bound_group *g);

/*
 * What can stand for value if the uses of the steps in beyond, a subset of jumps, are beyond
 * reach, and the group's other jumps' are within: at any prices p a lower bound. At the group's
 * own it is no less than value.
 *
 * softness, usage: 0 and NULL; or else it is softened, and usage is its slope, see
 *                  bound_soft_usage(); reach: by how much the share that is away exceeds reach.
 */
double bound_group_value(struct bound_group *g, uint32_t beyond, const struct bound_local *p,
			 double softness, struct bound_local *usage);

#endif
