/* SPDX-License-Identifier: Apache-2.0 */
/* Launching the kernels on a matrix, which are in sweep.cuh. */
#include "workloads/cuda_pool.cuh"
#include "workloads/matrix/cuda/plugin.h"
#include "workloads/matrix/cuda/sweep.cuh"

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
