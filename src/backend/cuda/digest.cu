/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel that takes digests, of a few blocks so that others have the rest of the GPU. What the
 * library carries is digest.ptx, which tools/kernel-ptx makes of this: after a change, run it.
 * digest.h defines what is computed.
 */
#include <stddef.h>

#include "src/backend/cuda/digest_args.h"

#define WARP 32u
#define BATCH_ROWS 8u /* rows that a thread loads together */

/* The launcher's, of whatever compiler it is. */
static_assert(sizeof(struct digest_args) == 1368 && offsetof(struct digest_args, key) == 24 &&
		      offsetof(struct digest_args, power) == 1208,
	      "struct digest_args is another one: run tools/kernel-ptx");
static_assert(DIGEST_THREADS == DIGEST_WARPS * WARP && DIGEST_THREADS == 1u << DIGEST_LEVELS &&
		      DIGEST_LANES == WARP,
	      "the tree is one of other threads");

/* x mod the prime, but for a few bits more: of x = high * 2^64 + low < 2^124 below 2^63. */
__device__ __forceinline__ uint64_t fold_product(uint64_t a, uint64_t b)
{
	uint64_t low = a * b, high = __umul64hi(a, b);

	return (low & DIGEST_PRIME) + (low >> 61 | high << 3);
}

/* Below 2^61 + 8. */
__device__ __forceinline__ uint64_t fold(uint64_t x)
{
	return (x & DIGEST_PRIME) + (x >> 61);
}

/* One more row of a lane in the sums. */
__device__ __forceinline__ void row_add(const struct digest_key &key, uint32_t row, uint4 w,
					uint64_t sum[DIGEST_HALVES][DIGEST_PASSES])
{
#pragma unroll
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
#pragma unroll
		for (uint32_t p = 0; p < DIGEST_PASSES; p++) {
			const uint32_t *k = &key.nh[h][p][4 * row];

			sum[h][p] += (uint64_t)(w.x + k[0]) * (w.y + k[1]);
			sum[h][p] += (uint64_t)(w.z + k[2]) * (w.w + k[3]);
		}
}

/* The next two coefficients, which are those of a lane of a tile. */
__device__ __forceinline__ void lane_add(const struct digest_args &a, const uint4 *lane,
					 uint64_t x[DIGEST_HALVES])
{
	uint64_t sum[DIGEST_HALVES][DIGEST_PASSES] = {};

#pragma unroll
	for (uint32_t first = 0; first < DIGEST_ROWS; first += BATCH_ROWS) {
		uint4 w[BATCH_ROWS];

#pragma unroll
		for (uint32_t i = 0; i < BATCH_ROWS; i++)
			w[i] = __ldcs(lane + (first + i) * WARP);
#pragma unroll
		for (uint32_t i = 0; i < BATCH_ROWS; i++)
			row_add(a.key, first + i, w[i], sum);
	}
#pragma unroll
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		x[h] = fold(fold_product(x[h], a.power[DIGEST_LEVELS][h]) +
			    fold_product(sum[h][0] & DIGEST_PRIME, a.key.point[h]) +
			    (sum[h][1] & DIGEST_PRIME));
}

/* Join the parts of neighbours in pairs, then of pairs, and so on; the first lane has the whole. */
template <uint32_t from, uint32_t to>
__device__ __forceinline__ void join(const struct digest_args &a, uint64_t x[DIGEST_HALVES])
{
#pragma unroll
	for (uint32_t level = from; level < to; level++)
#pragma unroll
		for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
			uint64_t next = __shfl_down_sync(~0u, x[h], 1u << (level - from));

			x[h] = fold(fold_product(x[h], a.power[level][h]) + next);
		}
}

__device__ __forceinline__ void part_write(const struct digest_args &a,
					   const uint64_t x[DIGEST_HALVES])
{
	for (uint32_t h = 0; h < DIGEST_HALVES; h++) {
		uint64_t value = fold(fold_product(x[h], a.weight[blockIdx.x][h]) +
				      (blockIdx.x ? 0 : a.start[h]));

		a.part[blockIdx.x][h] = value >= DIGEST_PRIME ? value - DIGEST_PRIME : value;
	}
}

extern "C" __global__ void __launch_bounds__(DIGEST_THREADS, 2)
	weir_digest(const __grid_constant__ struct digest_args a)
{
	__shared__ uint64_t joined[DIGEST_WARPS][DIGEST_HALVES];
	uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
	uint64_t first = digest_first_tile(a.nr_tiles, blockIdx.x);
	uint64_t end = digest_first_tile(a.nr_tiles, blockIdx.x + 1);
	uint64_t x[DIGEST_HALVES] = {};

	/* In the first turn the first warps may have none: a part of nothing is 0. */
	for (uint64_t left = (end - first + DIGEST_WARPS - 1) / DIGEST_WARPS * DIGEST_WARPS; left;
	     left -= DIGEST_WARPS)
		if (end + warp >= first + left)
			lane_add(a,
				 (const uint4 *)a.data +
					 (end + warp - left) * (DIGEST_TILE_BYTES / 16) + lane,
				 x);
	join<0, 5>(a, x);
	if (lane == 0)
		for (uint32_t h = 0; h < DIGEST_HALVES; h++)
			joined[warp][h] = x[h];
	__syncthreads();
	if (warp)
		return;
	for (uint32_t h = 0; h < DIGEST_HALVES; h++)
		x[h] = joined[lane % DIGEST_WARPS][h];
	join<5, DIGEST_LEVELS>(a, x);
	if (lane == 0)
		part_write(a, x);
}
