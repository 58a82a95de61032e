/* SPDX-License-Identifier: Apache-2.0 */
/* Launching the kernels on a matrix, which are in sweep.cuh. */
#include "workloads/cuda_pool.cuh"
#include "workloads/matrix/cuda/plugin.h"
#include "workloads/matrix/cuda/sweep.cuh"

#define ADD_THREADS 256u

const char *matrix_cuda_error(void)
{
	return cuda_launch_error();
}

uint64_t matrix_cuda_abi(void)
{
	return matrix_cuda_abi_here();
}

template <bool columns> static int launch_bare(const char *name, void *stream, const void *args)
{
	const struct matrix_args *p = (const struct matrix_args *)args;

	if (!matrix_cuda_bare_valid(p))
		return cuda_launch_refused(name, "no such matrix");
	return cuda_launch(name, sweep_bare<columns>, p->blocks, p->threads, stream, p);
}

template <bool columns> static int launch_paged(const char *name, void *stream, const void *args)
{
	const struct matrix_paged_args *p = (const struct matrix_paged_args *)args;

	if (!matrix_cuda_paged_valid(p))
		return cuda_launch_refused(name, "no such matrix");
	return cuda_launch(name, sweep_paged<columns>, p->matrix.blocks, p->matrix.threads, stream,
			   p);
}

int matrix_cuda_rows(void *stream, const void *args)
{
	return launch_bare<false>("rows", stream, args);
}

int matrix_cuda_columns(void *stream, const void *args)
{
	return launch_bare<true>("columns", stream, args);
}

int matrix_cuda_paged_rows(void *stream, const void *args)
{
	return launch_paged<false>("paged_rows", stream, args);
}

int matrix_cuda_paged_columns(void *stream, const void *args)
{
	return launch_paged<true>("paged_columns", stream, args);
}

/* A thread an element, and neighbours' elements at a time. */
__global__ void add(const __grid_constant__ struct matrix_add_args p)
{
	const uint64_t j = blockIdx.x * blockDim.x + threadIdx.x;
	int64_t sum;

	if (j >= p.size)
		return;
	sum = p.keep ? p.out[j] : 0;
	for (uint32_t i = 0; i < p.nr; i++)
		sum += p.in[i * (uint64_t)p.size + j];
	p.out[j] = sum;
}

int matrix_cuda_add(void *stream, const void *args)
{
	const struct matrix_add_args *p = (const struct matrix_add_args *)args;

	if (!matrix_cuda_add_valid(p))
		return cuda_launch_refused("add", "no such vectors");
	return cuda_launch("add", add, (p->size + ADD_THREADS - 1) / ADD_THREADS, ADD_THREADS,
			   stream, p);
}

/* ---- of pools */

int matrix_cuda_home(void *stream, const struct weir_paged_view *view, int evict)
{
	return cuda_pool_home(stream, view, evict);
}

int matrix_cuda_settle(void *stream, const struct weir_paged_view *view,
		       struct weir_paged_left *left)
{
	return cuda_pool_settle(stream, view, left);
}
