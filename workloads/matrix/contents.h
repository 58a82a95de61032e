/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a matrix and its vectors contain, and what its sums have to be.
 *
 * Element (i, j) is the sum over k < MATRIX_RANK of f(i, k) g(j, k), where f of a row and g of a
 * column are -3, -1, 1 or 3, and those of no two rows, and of no two columns, are all the same. So
 *
 *  - sum over j of A(i, j) x(j) = sum over k of f(i, k) S(k), with S(k) = sum over j of g(j, k)
 *    x(j), and the same along columns: all sums of a pass take as many steps as there are rows and
 *    columns;
 *  - every element is odd, and so is what it is multiplied with: one that is left out, or counted
 *    twice, changes a sum;
 *  - elements are at most 81, so that sums are exact in 64 bits, and products of many of them in a
 *    float.
 */
#ifndef WEIR_MATRIX_CONTENTS_H
#define WEIR_MATRIX_CONTENTS_H

#include "workloads/matrix/matrix.h"

#define MATRIX_RANK 9u

/* Four in a row, in one array. */
struct matrix_vectors {
	int64_t *all;
	int64_t *row_in, *row_out;	 /* out += A in: an element a column, and one a row */
	int64_t *column_in, *column_out; /* out += A^T in; of atax column_in is row_out */
};

static inline uint64_t matrix_vectors_bytes(const struct matrix_params *p)
{
	return 2 * ((uint64_t)p->rows + p->columns) * sizeof(int64_t);
}

/* Over an array of so many bytes. NULL: none of its members is set. */
struct matrix_vectors matrix_vectors_at(const struct matrix_params *p, void *all);

/* Constant once it is made. */
struct matrix_contents {
	uint32_t rows, columns;
	float *row;			  /* [rows][MATRIX_RANK] */
	float *column;			  /* [MATRIX_RANK][columns] */
	struct matrix_vectors begin, end; /* before a pass, and what they have to be behind it */
	uint32_t exact;			  /* of struct matrix_args */
};

/* -EAGAIN: this computer has no memory for it. */
int matrix_contents_init(struct matrix_contents *c, const struct matrix_params *p);
void matrix_contents_fini(struct matrix_contents *c);

/* MATRIX_PIECE elements of a row, from this column on. */
void matrix_contents_piece(const struct matrix_contents *c, uint32_t row, uint32_t column,
			   float *piece);

#endif
