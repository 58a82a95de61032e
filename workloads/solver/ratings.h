/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who rates what, for als: a formula, so that a user's ratings and an item's are both known without
 * any memory, for CPU and CUDA alike, exactly.
 *
 * There are 2^log2 ratings. Each end of them, users and items, has its rows in an order of how many
 * they have: the row whose *rank* is k of n has those numbered from (k / n)^(3/4) to ((k + 1) /
 * n)^(3/4) of all. So there is one row with very many, as a power law has it. Ranks go through the
 * rows in steps, so that any n consecutive rows have about n times the mean. Rating e of the users
 * is number e * RATINGS_STEP + RATINGS_FIRST, modulo 2^log2, of the items.
 */
#ifndef WEIR_SOLVER_RATINGS_H
#define WEIR_SOLVER_RATINGS_H

#ifndef __CUDACC__
#include <math.h>
#endif

#include "workloads/solver/point.h"

/* The rows of the first ranks are added in parts, so that a GPU can share one out. With a million
 * rows of 134 ratings in the mean the first has 4,244, and the last of these 563. */
#ifndef RATINGS_LONG /* a test has fewer rows */
#define RATINGS_LONG 1024u
#endif
#define RATINGS_PARTS 8u

#define RATINGS_STEP 0x9e3779b97f4a7c15u
#define RATINGS_BACK 0xf1de83e19937733du /* the other's inverse modulo 2^64 */
#define RATINGS_FIRST 0x2545f4914f6cdd1du

/* Users, or items. step * back is 1 modulo nr. */
struct ratings_side {
	uint32_t nr, step, back;
};

enum { RATINGS_USERS, RATINGS_ITEMS };

struct ratings {
	uint32_t log2;
	struct ratings_side side[2];
};

POINT_INLINE uint32_t ratings_rank(const struct ratings_side *side, uint32_t row)
{
	return (uint32_t)((uint64_t)row * side->step % side->nr);
}

/* The row with this rank. */
POINT_INLINE uint32_t ratings_ranked(const struct ratings_side *side, uint32_t rank)
{
	return (uint32_t)((uint64_t)rank * side->back % side->nr);
}

/* The first rating of the row with this rank; of rank nr: how many there are. Each operation is
 * rounded as IEEE 754 says, and rises with its operand. */
POINT_INLINE uint64_t ratings_begin(const struct ratings *r, uint32_t side, uint32_t rank)
{
	const double root = sqrt((double)rank / (double)r->side[side].nr);

	return (uint64_t)(root * sqrt(root) * (double)(UINT64_C(1) << r->log2));
}

/* Where part k begins of a row's ratings from first to before behind; part RATINGS_PARTS: where
 * they end. */
POINT_INLINE uint64_t ratings_part(uint64_t first, uint64_t behind, uint32_t k)
{
	return first + (behind - first) * k / RATINGS_PARTS;
}

/* Whose rating this is. */
POINT_INLINE uint32_t ratings_row(const struct ratings *r, uint32_t side, uint64_t rating)
{
	const struct ratings_side *s = &r->side[side];
	const double part = (double)rating / (double)(UINT64_C(1) << r->log2);
	const double guess = part * cbrt(part) * (double)s->nr;
	uint32_t rank = guess < (double)(s->nr - 1) ? (uint32_t)guess : s->nr - 1;

	while (ratings_begin(r, side, rank) > rating)
		rank--;
	while (ratings_begin(r, side, rank + 1) <= rating)
		rank++;
	return ratings_ranked(s, rank);
}

/* A rating of one side: the row at the other one, and its value. */
POINT_INLINE uint32_t ratings_other(const struct ratings *r, uint32_t side, uint64_t rating,
				    float *value)
{
	const uint64_t mask = (UINT64_C(1) << r->log2) - 1;
	const uint64_t other = side == RATINGS_USERS
				       ? (rating * RATINGS_STEP + RATINGS_FIRST) & mask
				       : ((rating - RATINGS_FIRST) * RATINGS_BACK) & mask;

	*value = point_begin(side == RATINGS_USERS ? rating : other);
	return ratings_row(r, !side, other);
}

#endif
