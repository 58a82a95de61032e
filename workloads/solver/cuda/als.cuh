/* SPDX-License-Identifier: Apache-2.0 */
/*
 * als on the GPU: a warp has a row, a lane two of its elements, 32 apart. The rows with most
 * ratings have a block each, a warp a part of their ratings, and these blocks begin first, so that
 * no launch ends with one of them. The other side's rows are read 256 bytes at a time, wherever
 * they are: HBM's rate is what limits it. Which they are, the lanes work out for 32 ratings at a
 * time. Sums over the warp are in the order of the CPU's.
 */
#ifndef WEIR_SOLVER_CUDA_ALS_CUH
#define WEIR_SOLVER_CUDA_ALS_CUH

#include "workloads/solver/cuda/stencil.cuh"

/* The blocks of rows that are added in parts; then those of the others, as they are numbered, where
 * the former's warps have nothing to do. */
#define ALS_BLOCKS(p) (RATINGS_LONG + ((p).nr + WARPS - 1) / WARPS)

/* Blocks of a multiprocessor at the same time, for which a thread has 40 registers. With the 62
 * that it would take there are four, and a launch takes 1.15 times as long on an H200; with 48,
 * 1.006. */
#define ALS_BLOCKS_RESIDENT 6

static_assert(RATINGS_PARTS == WARPS, "a part for each warp");

/* Whether the block has one row, of which each warp adds a part. */
__device__ static inline bool als_in_parts()
{
	return blockIdx.x < RATINGS_LONG;
}

/* Which of the launch's rows a warp has; p.nr or more: none. */
__device__ static inline uint32_t als_row_of(const struct solver_als_args &p)
{
	const struct ratings_side &side = p.ratings.side[p.side];
	uint32_t i;

	if (als_in_parts())
		return blockIdx.x < side.nr ? ratings_ranked(&side, blockIdx.x) - p.first : p.nr;
	i = (blockIdx.x - RATINGS_LONG) * WARPS + threadIdx.x / LANES;
	return i < p.nr && ratings_rank(&side, p.first + i) < RATINGS_LONG ? p.nr : i;
}

/* Two elements of a row. */
struct pair {
	float low, high;
};

__device__ static inline float als_dot(struct pair a, struct pair b)
{
	float sum = point_add(point_mul(a.low, b.low), point_mul(a.high, b.high));

	for (uint32_t half = LANES / 2; half; half /= 2)
		sum = point_add(sum, __shfl_sync(~0u, sum, (int)(threadIdx.x % LANES ^ half)));
	return sum;
}

/* x + factor * y */
__device__ static inline struct pair add_scaled(struct pair x, float factor, struct pair y)
{
	return {point_add(x.low, point_mul(factor, y.low)),
		point_add(x.high, point_mul(factor, y.high))};
}

__device__ static inline const float *als_other(const struct solver_als_args &p, uint32_t row)
{
	uint32_t k = 0;

	while (row >= p.part_first[k + 1])
		k++;
	return p.part[k] + (uint64_t)(row - p.part_first[k]) * SOLVER_WIDTH;
}

/* Ratings from one to before another. */
struct rating_span {
	uint64_t first, behind;
};

/* Those of a row that a warp adds. */
__device__ static inline struct rating_span als_ratings_of(const struct solver_als_args &p,
							   uint32_t row)
{
	const uint32_t warp = threadIdx.x / LANES;
	const uint32_t rank = ratings_rank(&p.ratings.side[p.side], row);
	const uint64_t first = ratings_begin(&p.ratings, p.side, rank);
	const uint64_t behind = ratings_begin(&p.ratings, p.side, rank + 1);

	if (!als_in_parts())
		return {first, behind};
	return {ratings_part(first, behind, warp), ratings_part(first, behind, warp + 1)};
}

/* Sums of the block's warps, one after the other. */
__device__ static inline struct pair parts_add(struct pair sum, struct pair mine)
{
	__shared__ struct pair part[RATINGS_PARTS][LANES];
	const uint32_t lane = threadIdx.x % LANES;

	part[threadIdx.x / LANES][lane] = mine;
	__syncthreads();
	for (uint32_t k = 0; k < RATINGS_PARTS; k++)
		sum = {point_add(sum.low, part[k][lane].low),
		       point_add(sum.high, part[k][lane].high)};
	__syncthreads();
	return sum;
}

/* What the CPU's rows_add() does; whether `by` is used is the same for all lanes. */
__device__ static inline struct pair rows_add(const struct solver_als_args &p, uint32_t row,
					      bool products, struct pair by, struct pair before)
{
	const uint32_t lane = threadIdx.x % LANES;
	const struct rating_span span = als_ratings_of(p, row);
	struct pair sum = als_in_parts() ? pair{0, 0} : before;

	for (uint64_t e = span.first; e < span.behind; e += LANES) {
		const uint32_t nr = (uint32_t)min(span.behind - e, (uint64_t)LANES);
		const float *mine = nullptr;
		float rating = 0;

		if (lane < nr)
			mine = als_other(p, ratings_other(&p.ratings, p.side, e + lane, &rating));
#pragma unroll 4
		for (uint32_t i = 0; i < nr; i++) {
			const uint64_t at = __shfl_sync(~0u, (unsigned long long)mine, (int)i);
			const float *y = (const float *)at + lane;
			const struct pair other = {__ldg(y), __ldg(y + LANES)};
			float weight = __shfl_sync(~0u, rating, (int)i);

			if (products)
				weight = als_dot(other, by);
			sum = add_scaled(sum, weight, other);
		}
	}
	return als_in_parts() ? parts_add(before, sum) : sum;
}

__device__ static inline float als_quotient(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fdiv_rn(a, b);
#else
	return a / b;
#endif
}

__global__ void __launch_bounds__(BLOCK_THREADS, ALS_BLOCKS_RESIDENT)
	als(const __grid_constant__ struct solver_als_args p)
{
	const uint32_t lane = threadIdx.x % LANES;
	const uint32_t i = als_row_of(p);
	float *out = p.out + (uint64_t)i * SOLVER_WIDTH + lane;
	struct pair x = {0, 0}, left, way;
	float square;

	if (i >= p.nr)
		return;
	left = way = rows_add(p, p.first + i, false, x, x);
	square = als_dot(left, left);
	for (uint32_t step = 0; step < SOLVER_ALS_STEPS && square > 0; step++) {
		const float before = square;
		struct pair image = {point_mul(POINT_RIDGE, way.low),
				     point_mul(POINT_RIDGE, way.high)};
		float length;

		image = rows_add(p, p.first + i, true, way, image);
		length = als_quotient(square, als_dot(way, image));
		x = add_scaled(x, length, way);
		left = add_scaled(left, -length, image);
		square = als_dot(left, left);
		way = add_scaled(left, als_quotient(square, before), way);
	}
	if (!als_in_parts() || threadIdx.x < LANES) {
		out[0] = x.low;
		out[LANES] = x.high;
	}
}

#endif
