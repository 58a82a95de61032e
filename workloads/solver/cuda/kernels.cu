/* SPDX-License-Identifier: Apache-2.0 */
/* Launching the solvers' kernels, which are in stencil.cuh, als.cuh and graph.cuh. */
#include "workloads/cuda_launch.cuh"
#include "workloads/solver/cuda/als.cuh"
#include "workloads/solver/cuda/graph.cuh"
#include "workloads/solver/cuda/plugin.h"
#include "workloads/solver/cuda/stencil.cuh"

#define BLOCKS_MAX 0x7fffffffu

const char *solver_cuda_error(void)
{
	return cuda_launch_error();
}

uint64_t solver_cuda_abi(void)
{
	return solver_cuda_abi_here();
}

typedef void (*stencil_fn)(const struct solver_stencil_args p);

static int stencil_launch(const char *name, stencil_fn kernel, void *stream,
			  const struct solver_stencil_args *p, struct tiles tiles, uint32_t steps)
{
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < p->nr_ranges; i++)
		blocks += STEPS_OF(p->range[i], steps);
	blocks *= (uint64_t)tiles.along_columns * tiles.along_rows;
	if (blocks > BLOCKS_MAX)
		return cuda_launch_refused(name, "the field is too large for one launch");
	return cuda_launch(name, kernel, (uint32_t)blocks, BLOCK_THREADS, stream, p);
}

int solver_cuda_jacobi(void *stream, const void *args)
{
	const struct solver_stencil_args *p = (const struct solver_stencil_args *)args;

	if (!solver_cuda_stencil_valid(p) || p->shape.rows != 1)
		return cuda_launch_refused("jacobi", "no such field");
	return stencil_launch("jacobi", jacobi, stream, p, TILES_JACOBI(p->shape), STEPS_JACOBI);
}

int solver_cuda_diffusion(void *stream, const void *args)
{
	const struct solver_stencil_args *p = (const struct solver_stencil_args *)args;

	if (!solver_cuda_stencil_valid(p))
		return cuda_launch_refused("diffusion", "no such field");
	return stencil_launch("diffusion", diffusion, stream, p, TILES_DIFFUSION(p->shape),
			      STEPS_DIFFUSION);
}

int solver_cuda_als(void *stream, const void *args)
{
	const struct solver_als_args *p = (const struct solver_als_args *)args;

	if (!solver_cuda_als_valid(p))
		return cuda_launch_refused("als", "no such rows");
	return cuda_launch("als", als, ALS_BLOCKS(*p), BLOCK_THREADS, stream, p);
}

int solver_cuda_pagerank(void *stream, const void *args)
{
	const struct solver_pagerank_args *p = (const struct solver_pagerank_args *)args;

	if (!solver_cuda_rows_valid(&p->rows, &p->in))
		return cuda_launch_refused("pagerank", "no such rows");
	return cuda_launch("pagerank", pagerank, ROWS_BLOCKS(p->rows), BLOCK_THREADS, stream, p);
}

int solver_cuda_relax(void *stream, const void *args)
{
	const struct solver_relax_args *p = (const struct solver_relax_args *)args;

	if (!solver_cuda_rows_valid(&p->rows, &p->in) || p->block_log2 > 31)
		return cuda_launch_refused("relax", "no such rows");
	return cuda_launch("relax", relax, ROWS_BLOCKS(p->rows), BLOCK_THREADS, stream, p);
}

int solver_cuda_commit(void *stream, const void *args)
{
	const struct solver_commit_args *p = (const struct solver_commit_args *)args;

	if (!solver_cuda_commit_valid(p))
		return cuda_launch_refused("commit", "no such ranges");
	return cuda_launch("commit", commit, 0, BLOCK_THREADS, stream, p);
}

int solver_cuda_fill(void *stream, const void *args)
{
	const struct solver_fill_args *p = (const struct solver_fill_args *)args;

	if (!solver_cuda_shape_valid(&p->shape) || !solver_cuda_range_valid(&p->shape, &p->range))
		return cuda_launch_refused("fill", "no such field");
	return cuda_launch("fill", fill, 0, BLOCK_THREADS, stream, p);
}

int solver_cuda_hash(void *stream, const void *args)
{
	const struct solver_hash_args *p = (const struct solver_hash_args *)args;

	if (!solver_cuda_shape_valid(&p->shape) || !solver_cuda_range_valid(&p->shape, &p->range))
		return cuda_launch_refused("hash", "no such field");
	return cuda_launch("hash", hash, 0, BLOCK_THREADS, stream, p);
}
