/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relaxation step by step: what the rest of each piece's way costs, by the state in which a
 * step leaves it. Summed up over all steps it is what bound_dual_value() finds event by event; cut
 * between two steps it says what the steps before owe to those after. Internal to
 * workloads/bound*.c.
 */
#ifndef WEIR_BOUND_CHAIN_H
#define WEIR_BOUND_CHAIN_H

#include "workloads/bound_tables.h"

/* One piece in one step. */
struct bound_stage {
	const struct bound_event *event; /* NULL: it is not used */
	bool live;			 /* what is there at the kernel's start is needed */
	double away_ns;			 /* price of the event in place */
};

/* Of what is in a state before the step, the share that the kernel finds in each. */
typedef double bound_mix[BOUND_STATE_NR][BOUND_STATE_NR];

/*
 * Turn the costs of the rest of the way after a step into those before it. mix: which states the
 * cheapest ways take; per_softness: see bound_soft_least().
 */
void bound_stage_back(const struct bound_stage *s, double bytes, const struct bound_charge *c,
		      double per_softness, double cost[BOUND_STATE_NR], bound_mix mix);

/*
 * Turn shares before a step into those after it. moved: bytes that are copied in and out; at:
 * the shares at the kernel.
 */
void bound_stage_forth(const struct bound_stage *s, double bytes, bound_mix mix,
		       double share[BOUND_STATE_NR], double at[BOUND_STATE_NR], double moved[2]);

/* All pieces, from the last step backwards. */
struct bound_chain {
	const struct bound_model *model;
	double (*cost)[BOUND_STATE_NR]; /* by piece */
	uint32_t *nr_before;		/* by piece: its events before the step */
	uint32_t *nr_clean;		/* by piece: its events before the first that writes */
	uint32_t *by_last, nr_left;	/* pieces by their last event; how many are still before */
	uint32_t *active, nr_active;	/* pieces whose way the step may be on */
};

/* At the end of the last step. The model is borrowed. -ENOMEM. */
int bound_chain_init(struct bound_chain *c, const struct bound_model *model);
void bound_chain_fini(struct bound_chain *c);

/* How many pieces are active, summed up over all steps. */
double bound_chain_visits(const struct bound_model *m);

/* Bring active[] up to date for the steps from there to where the chain is. */
void bound_chain_join(struct bound_chain *c, uint32_t from);

/* A piece in a step; before: its events before the end of the step. */
struct bound_stage bound_chain_stage(const struct bound_model *m, uint32_t piece, uint32_t step,
				     uint32_t before);

/* Go back over a step, for which active[] is up to date. tables: filled with the prices. */
void bound_chain_back(struct bound_chain *c, const struct bound_tables *tables,
		      const struct bound_prices *prices, uint32_t step);

#endif
