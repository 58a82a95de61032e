/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest way of a piece where other GPUs' memory may hold contents: a shortest path over the
 * seven non-empty sets of memories that have a valid copy (BOUND_AT_*), exact or softened as
 * bound_soft.h has it. Internal to workloads/bound*.c.
 *
 * Between two events whose contents matter, copies are dropped, and bound_moves[] made, each once
 * at most and in their order; each is made at its own cheapest step. Where contents do not matter
 * all changes are free.
 */
#ifndef WEIR_BOUND_NEAR_H
#define WEIR_BOUND_NEAR_H

#include "workloads/bound_tables.h"

/* Shares that the softened walk forwards leaves for the walk backwards, by event. Those of a pair
 * belong to the later one: the other has the rest. */
struct bound_near_shares {
	float start[BOUND_SET_NR];	/* of the sets before, if contents do not matter */
	float dropped[2][BOUND_SET_NR]; /* own, near; by the set before */
	float moved[BOUND_MOVE_NR][BOUND_SET_NR]; /* by the set before */
	float written[BOUND_SET_NR]
		     [BOUND_SET_NR]; /* by the memory that is written, the set before */
	float near;		     /* of what both host and near memory could serve */
	double key[BOUND_MOVE_NR];   /* softened minima over steps */
};

/* One piece's walk. */
struct bound_near_walk {
	const struct bound_tables *tables;
	const struct bound_prices *prices;
	struct bound_near_shares *shares; /* by event; NULL: the walk is exact */
	double softness;		  /* of a byte */
	double per_softness;		  /* 1 / that of the piece */
	double bytes;
	bool spread; /* copies are spread over steps */
};

/* Where a softened walk accounts for what it uses. */
struct bound_near_usage {
	struct bound_prices *usage;
	double *resident, *near_resident; /* change of bytes from a step on */
	double *used, *near_used;	  /* bytes at events */
};

/* The least cost of a piece, exactly. */
double bound_near_value(const struct bound_tables *tables, const struct bound_piece *piece,
			const struct bound_prices *prices);

/* Walk forwards, and backwards accounting for what all ways of the piece use. */
void bound_near_account(const struct bound_near_walk *w, const struct bound_piece *piece,
			const struct bound_near_usage *u);

#endif
