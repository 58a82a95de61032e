/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagerank and sssp on the GPU: a block has the rows of one slice, a warp one row at a time, a lane
 * every 32nd edge. Rows with very many edges are left to the whole block, at the end. The vector is
 * read four bytes at a time wherever edges come from: HBM's rate for sectors is what limits it.
 * Sums are in the order of the CPU's.
 */
#ifndef WEIR_SOLVER_CUDA_GRAPH_CUH
#define WEIR_SOLVER_CUDA_GRAPH_CUH

#include "workloads/solver/cuda/stencil.cuh"

#define ROWS_OF_BLOCK 32u
#define ROWS_BLOCKS(rows) (((rows).nr + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK)

static_assert(SOLVER_ROW_LANES == LANES && SOLVER_LONG_ROW_LANES == BLOCK_THREADS,
	      "a sum has a lane");

__device__ static inline float vector_element(const struct solver_vector &v, uint32_t at)
{
	uint32_t k = 0;

	while (at >= v.part_first[k + 1])
		k++;
	return __ldg(v.part[k] + (at - v.part_first[k]));
}

/* One of `lanes` sums over a row's edges. */
__device__ static inline float lane_sum(const struct solver_vector &in, const uint32_t *neighbour,
					uint64_t nr, uint32_t lane, uint32_t lanes)
{
	float sum = 0;

#pragma unroll 4
	for (uint64_t i = lane; i < nr; i += lanes)
		sum = point_add(sum, vector_element(in, __ldg(neighbour + i)));
	return sum;
}

/* Halves of a warp's sums onto each other: lane 0 has the right one. */
__device__ static inline float warp_sum(float sum)
{
	for (uint32_t half = LANES / 2; half; half /= 2)
		sum = point_add(sum, __shfl_sync(~0u, sum, (int)(threadIdx.x % LANES ^ half)));
	return sum;
}

/* The same of a block; thread 0 has it. All threads take part. */
__device__ static inline float block_sum(float sum)
{
	__shared__ float sums[BLOCK_THREADS];

	__syncthreads();
	sums[threadIdx.x] = sum;
	for (uint32_t half = BLOCK_THREADS / 2; half >= LANES; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			sums[threadIdx.x] = point_add(sums[threadIdx.x], sums[threadIdx.x + half]);
	}
	__syncthreads();
	return threadIdx.x < LANES ? warp_sum(sums[threadIdx.x]) : 0;
}

__device__ static inline float pagerank_of(const struct solver_pagerank_args &p, float sum,
					   uint64_t nr)
{
	return nr ? point_div(point_add(p.base, point_mul(p.damping, sum)), (float)nr) : 0;
}

__global__ void __launch_bounds__(BLOCK_THREADS)
	pagerank(const __grid_constant__ struct solver_pagerank_args p)
{
	const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
	const uint32_t first = blockIdx.x * ROWS_OF_BLOCK;
	const uint32_t end = min(first + ROWS_OF_BLOCK, p.rows.nr);

	for (uint32_t i = first + warp; i < end; i += WARPS) {
		const uint64_t begin = p.rows.offset[i], nr = p.rows.offset[i + 1] - begin;
		const uint32_t *from = p.rows.neighbour + (begin - p.rows.offset[0]);
		float sum = 0;

		if (nr > SOLVER_LONG_ROW && p.in.nr_parts)
			continue;
		if (p.in.nr_parts)
			sum = warp_sum(lane_sum(p.in, from, nr, lane, LANES));
		if (!lane)
			p.out[i] = pagerank_of(p, sum, nr);
	}
	for (uint32_t i = first; i < end && p.in.nr_parts; i++) {
		const uint64_t begin = p.rows.offset[i], nr = p.rows.offset[i + 1] - begin;
		const uint32_t *from = p.rows.neighbour + (begin - p.rows.offset[0]);
		float sum;

		if (nr <= SOLVER_LONG_ROW)
			continue;
		sum = block_sum(lane_sum(p.in, from, nr, threadIdx.x, BLOCK_THREADS));
		if (!threadIdx.x)
			p.out[i] = pagerank_of(p, sum, nr);
	}
}

#endif
