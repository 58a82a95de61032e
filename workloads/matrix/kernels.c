/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on the CPU, for a matrix at an address; kernels.h says what they do. */
#include "workloads/matrix/kernels.h"

#include "workloads/matrix/cuda.h"
#include "workloads/matrix/pieces.h"

static void rows_cpu(const void *p)
{
	const struct matrix_args *a = p;

	for (uint64_t i = 0; i < a->rows; i++)
		for (uint64_t j = 0; j < a->columns; j += MATRIX_PIECE)
			a->out[i] += piece_dot(a->elements + i * a->columns + j, a->in + j);
}

static void columns_cpu(const void *p)
{
	const struct matrix_args *a = p;

	for (uint64_t i = 0; i < a->rows; i++)
		for (uint64_t j = 0; j < a->columns; j += MATRIX_PIECE)
			piece_add(a->out + j, a->elements + i * a->columns + j, a->in[i]);
}

static void add_cpu(const void *p)
{
	const struct matrix_add_args *a = p;

	for (uint64_t j = 0; j < a->size; j++) {
		int64_t sum = a->keep ? a->out[j] : 0;

		for (uint64_t i = 0; i < a->nr; i++)
			sum += a->in[i * a->size + j];
		a->out[j] = sum;
	}
}

const struct weir_kernel matrix_kernel_rows = {
	.name = "matrix_rows", .cpu = rows_cpu, .cuda = matrix_cuda_run_rows};
const struct weir_kernel matrix_kernel_columns = {
	.name = "matrix_columns", .cpu = columns_cpu, .cuda = matrix_cuda_run_columns};
const struct weir_kernel matrix_kernel_add = {
	.name = "matrix_add", .cpu = add_cpu, .cuda = matrix_cuda_run_add};
