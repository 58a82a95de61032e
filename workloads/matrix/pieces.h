/* SPDX-License-Identifier: Apache-2.0 */
/* What the CPU's kernels do with MATRIX_PIECE elements of a row. */
#ifndef WEIR_MATRIX_PIECES_H
#define WEIR_MATRIX_PIECES_H

#include "workloads/matrix/kernels.h"

static inline int64_t piece_dot(const float *piece, const int64_t *in)
{
	int64_t sum = 0;

	for (uint32_t j = 0; j < MATRIX_PIECE; j++)
		sum += (int64_t)piece[j] * in[j];
	return sum;
}

static inline void piece_add(int64_t *sums, const float *piece, int64_t times)
{
	for (uint32_t j = 0; j < MATRIX_PIECE; j++)
		sums[j] += (int64_t)piece[j] * times;
}

#endif
