/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagerank and sssp on the GPU: a block has the rows of one slice, a warp one row at a time, a lane
 * every 32nd edge. Rows with many edges are left to the whole block, at the end. Those with very
 * many are cut into pieces, which have a block each: these begin first. The vector is read four
 * bytes at a time wherever edges come from: HBM's rate for sectors is what limits it. Sums are in
 * the order of the CPU's.
 */
#ifndef WEIR_SOLVER_CUDA_GRAPH_CUH
#define WEIR_SOLVER_CUDA_GRAPH_CUH

#include <math.h>

#include "workloads/solver/cuda/stencil.cuh"

#define ROWS_OF_BLOCK 32u
#define ROWS_BLOCKS(rows) ((rows).nr_pieces + ((rows).nr + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK)

static_assert(SOLVER_ROW_LANES == LANES && SOLVER_LONG_ROW_LANES == BLOCK_THREADS,
	      "a sum has a lane");

__device__ static inline float vector_element(const struct solver_vector &v, uint32_t at)
{
	uint32_t k = 0;

	while (at >= v.part_first[k + 1])
		k++;
	return __ldg(v.part[k] + (at - v.part_first[k]));
}

/* A row's edges joined by a lane: every `lanes`-th, from the lane-th on. */
template <typename F>
__device__ static inline float lane_join(const F &f, uint64_t begin, uint64_t end, uint32_t lane,
					 uint32_t lanes)
{
	float value = f.nothing();

#pragma unroll 4
	for (uint64_t e = begin + lane; e < end; e += lanes)
		value = f.join(value, f.edge(e));
	return value;
}

/* Halves of a warp's values onto each other. */
template <typename F> __device__ static inline float warp_join(const F &f, float value)
{
	for (uint32_t half = LANES / 2; half; half /= 2)
		value = f.join(value, __shfl_sync(~0u, value, (int)(threadIdx.x % LANES ^ half)));
	return value;
}

/* The same of a block; its first warp has it. All threads take part. */
template <typename F> __device__ static inline float block_join(const F &f, float value)
{
	__shared__ float values[BLOCK_THREADS];

	__syncthreads();
	values[threadIdx.x] = value;
	for (uint32_t half = BLOCK_THREADS / 2; half >= LANES; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			values[threadIdx.x] =
				f.join(values[threadIdx.x], values[threadIdx.x + half]);
	}
	__syncthreads();
	return threadIdx.x < LANES ? warp_join(f, values[threadIdx.x]) : 0;
}

/* The values of a row's pieces, of which the calling warp has done one; true: the last one, and
 * *value becomes that of the row. One lane counts for the warp, and its fences are for all. */
template <typename F>
__device__ static inline bool pieces_join(const F &f, struct solver_piece *first, uint32_t index,
					  uint32_t nr, float *value)
{
	const uint32_t lane = threadIdx.x % LANES;
	float joined = f.nothing();
	uint32_t nr_before = 0;

	if (!lane) {
		first[index].sum = *value;
		__threadfence();
		nr_before = atomicAdd(&first->nr_done, 1u);
		__threadfence();
	}
	__syncwarp();
	if (__shfl_sync(~0u, nr_before, 0) + 1 < nr)
		return false;
	for (uint32_t i = lane; i < nr; i += LANES)
		joined = f.join(joined, __ldcg(&first[i].sum));
	*value = warp_join(f, joined);
	if (!lane)
		first->nr_done = 0;
	return true;
}

/* A piece of a row; the row's end, if it is the last one that is done. */
template <typename F>
__device__ static inline void piece_do(const F &f, const struct solver_rows &r, uint32_t at)
{
	const uint32_t i = r.piece[at].vertex - r.first, index = r.piece[at].index;
	const uint64_t begin = r.offset[i] - r.offset[0], last = r.offset[i + 1] - r.offset[0];
	const uint64_t from = begin + (uint64_t)index * SOLVER_PIECE_EDGES;
	const uint64_t to = min(from + SOLVER_PIECE_EDGES, last);
	const uint32_t nr =
		(uint32_t)((last - begin + SOLVER_PIECE_EDGES - 1) / SOLVER_PIECE_EDGES);
	float value = block_join(f, lane_join(f, from, to, threadIdx.x, BLOCK_THREADS));

	if (threadIdx.x < LANES && pieces_join(f, &r.piece[at - index], index, nr, &value) &&
	    !threadIdx.x)
		f.end(i, last - begin, value);
}

/* The rows of a block, but for those that are cut into pieces. */
template <typename F>
__device__ static inline void rows_do(const F &f, const struct solver_rows &r, uint32_t block)
{
	const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
	const uint32_t first = block * ROWS_OF_BLOCK, end = min(first + ROWS_OF_BLOCK, r.nr);
	const uint64_t before = r.offset[0];

	for (uint32_t i = first + warp; i < end; i += WARPS) {
		const uint64_t begin = r.offset[i] - before, last = r.offset[i + 1] - before;
		float value;

		if (last - begin > SOLVER_LONG_ROW)
			continue;
		value = warp_join(f, lane_join(f, begin, last, lane, LANES));
		if (!lane)
			f.end(i, last - begin, value);
	}
	for (uint32_t i = first; i < end; i++) {
		const uint64_t begin = r.offset[i] - before, last = r.offset[i + 1] - before;
		float value;

		if (last - begin <= SOLVER_LONG_ROW || last - begin > SOLVER_PIECE_EDGES)
			continue;
		value = block_join(f, lane_join(f, begin, last, threadIdx.x, BLOCK_THREADS));
		if (!threadIdx.x)
			f.end(i, last - begin, value);
	}
}

/* What a block of a launch does. What f.edge() is asked for are numbers of the launch's edges. */
template <typename F>
__device__ static inline void block_do(const F &f, const struct solver_rows &r)
{
	if (blockIdx.x < r.nr_pieces)
		piece_do(f, r, blockIdx.x);
	else
		rows_do(f, r, blockIdx.x - r.nr_pieces);
}

/* ---- pagerank */

struct rank_rows {
	const struct solver_pagerank_args &p;

	__device__ float nothing() const
	{
		return 0;
	}

	__device__ float join(float a, float b) const
	{
		return point_add(a, b);
	}

	__device__ float edge(uint64_t e) const
	{
		return p.in.nr_parts ? vector_element(p.in, __ldg(p.rows.neighbour + e)) : 0;
	}

	__device__ void end(uint32_t i, uint64_t nr, float sum) const
	{
		p.out[i] =
			nr ? point_div(point_add(p.base, point_mul(p.damping, sum)), (float)nr) : 0;
	}
};

__global__ void __launch_bounds__(BLOCK_THREADS)
	pagerank(const __grid_constant__ struct solver_pagerank_args p)
{
	const struct rank_rows f = {p};

	block_do(f, p.rows);
}

/* ---- sssp */

struct relax_rows {
	const struct solver_relax_args &p;

	__device__ float nothing() const
	{
		return HUGE_VALF;
	}

	__device__ float join(float a, float b) const
	{
		return point_least(a, b);
	}

	__device__ float edge(uint64_t e) const
	{
		return point_add(vector_element(p.in, __ldg(p.rows.neighbour + e)),
				 (float)__ldg(p.rows.weight + e));
	}

	__device__ void end(uint32_t i, uint64_t nr, float least) const
	{
		const float own = vector_element(p.in, p.rows.first + i);

		(void)nr;
		p.next[i] = point_least(own, least);
		if (least < own)
			p.changed[i >> p.block_log2] = p.round;
	}
};

__global__ void __launch_bounds__(BLOCK_THREADS)
	relax(const __grid_constant__ struct solver_relax_args p)
{
	const struct relax_rows f = {p};

	block_do(f, p.rows);
}

__global__ void commit(const __grid_constant__ struct solver_commit_args p)
{
	for (uint32_t r = 0; r < p.nr_ranges; r++) {
		const struct solver_commit_range &range = p.range[r];

		for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < range.nr;
		     i += (uint64_t)gridDim.x * blockDim.x)
			range.to[i] = range.from		    ? range.from[i]
				      : range.first + i == p.source ? 0
								    : HUGE_VALF;
	}
}

#endif
