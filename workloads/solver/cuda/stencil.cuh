/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solvers' kernels on the GPU. HBM's rate is what limits them: each element is to come from it
 * once, and to go there once.
 *
 * A thread has four columns, 16 bytes, and goes along the slices of a field, STEPS at a time: what
 * it read as the slice behind is the slice itself next, and then the one before, in registers.
 * Elements to the left and right come from the lanes beside it, and at the ends of a warp from
 * caches, as do rows above and below.
 *
 * Blocks have one dimension: tiles of a slice one after the other, then the next STEPS slices, so
 * that blocks which run at the same time read the same slices. Those of a launch's second range
 * come behind those of its first one.
 */
#ifndef WEIR_SOLVER_CUDA_STENCIL_CUH
#define WEIR_SOLVER_CUDA_STENCIL_CUH

#include <stdint.h>

#include "workloads/solver/kernels.h"
#include "workloads/solver/point.h"

#define LANES 32u
#define WARPS 8u /* of a block: jacobi's are beside each other, diffusion's one a row */
#define BLOCK_THREADS (LANES * WARPS)
#define QUAD 4u /* elements of a thread in a slice */
#define STEPS_JACOBI 16u
#define STEPS_DIFFUSION 32u

/* How many blocks a slice has. */
struct tiles {
	uint32_t along_columns, along_rows;
};

/* For the host, too: a block's columns and rows. */
#define TILES(shape, columns_, rows_)                          \
	{                                                      \
		((shape).columns + (columns_)-1) / (columns_), \
			((shape).rows + (rows_)-1) / (rows_)   \
	}
#define TILES_JACOBI(shape) TILES(shape, QUAD *BLOCK_THREADS, 1)
#define TILES_DIFFUSION(shape) TILES(shape, QUAD *LANES, WARPS)
#define STEPS_OF(range, steps) (((range).nr + (steps)-1) / (steps))

/* What a thread does: four columns of one row, of some slices of a range. */
struct thread_part {
	uint32_t range, begin, end; /* its slices, from the range's first one on */
	uint32_t row, column;
	bool first, last; /* in its row */
	bool mine;	  /* else another thread has the same, and writes it */
};

__device__ static inline uint64_t slice_elements(const struct solver_shape &shape)
{
	return (uint64_t)shape.rows * shape.columns;
}

__device__ static inline struct thread_part part_of(const struct solver_stencil_args &p,
						    struct tiles tiles, uint32_t steps, bool flat)
{
	const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
	const uint32_t tile = blockIdx.x % tiles.along_columns;
	const uint32_t above = blockIdx.x / tiles.along_columns;
	const uint32_t tile_row = above % tiles.along_rows, nr_first = STEPS_OF(p.range[0], steps);
	uint32_t step = above / tiles.along_rows;
	struct thread_part part;
	uint32_t quad, row;

	part.range = step >= nr_first;
	step -= part.range ? nr_first : 0;
	part.begin = step * steps;
	part.end = min(part.begin + steps, p.range[part.range].nr);
	quad = flat ? tile * BLOCK_THREADS + threadIdx.x : tile * LANES + lane;
	row = flat ? 0 : tile_row * WARPS + warp;
	part.column = min(quad * QUAD, p.shape.columns - QUAD);
	part.row = min(row, p.shape.rows - 1);
	part.first = !part.column;
	part.last = part.column + QUAD == p.shape.columns;
	part.mine = quad * QUAD < p.shape.columns && row < p.shape.rows;
	return part;
}

/* ---- four elements */

/* No launch reads what it writes, so that loads need not stay behind stores. */
__device__ static inline float4 quad_load(const float *from)
{
	return __ldg((const float4 *)from);
}

/* The element before a thread's four, and the one behind; at the row's ends nobody looks. */
__device__ static inline void quad_sides(const struct thread_part &part, float4 c, const float *at,
					 float *left, float *right)
{
	const int lane = (int)(threadIdx.x % LANES);

	*left = __shfl_sync(~0u, c.w, lane - 1);
	*right = __shfl_sync(~0u, c.x, lane + 1);
	if (lane == 0 && !part.first)
		*left = __ldg(at - 1);
	if (lane == (int)LANES - 1 && !part.last)
		*right = __ldg(at + QUAD);
}

/* ---- jacobi */

__device__ static inline float4 jacobi_quad(const struct thread_part &part, float4 c, float4 n,
					    float4 s, float left, float right)
{
	float4 out;

	out.x = part.first ? c.x : point_jacobi(n.x, s.x, left, c.y);
	out.y = point_jacobi(n.y, s.y, c.x, c.z);
	out.z = point_jacobi(n.z, s.z, c.y, c.w);
	out.w = part.last ? c.w : point_jacobi(n.w, s.w, c.z, right);
	return out;
}

__global__ void __launch_bounds__(BLOCK_THREADS)
	jacobi(const __grid_constant__ struct solver_stencil_args p)
{
	const struct tiles tiles = TILES_JACOBI(p.shape);
	const struct thread_part part = part_of(p, tiles, STEPS_JACOBI, true);
	const struct solver_range &r = p.range[part.range];
	const uint32_t columns = p.shape.columns, x = part.column;
	const float *in = r.in + x + (uint64_t)part.begin * columns;
	float *out = r.out + x + (uint64_t)part.begin * columns;
	float4 north, centre = quad_load(in);

	north = r.first + part.begin == 0 ? centre
					  : quad_load(part.begin ? in - columns : r.before + x);
#pragma unroll 4
	for (uint32_t i = part.begin; i < part.end; i++, in += columns, out += columns) {
		const bool bottom = r.first + i + 1 == p.shape.slices;
		const bool border = r.first + i == 0 || bottom;
		const float4 south =
			bottom ? centre : quad_load(i + 1 < r.nr ? in + columns : r.behind + x);
		float left, right;
		float4 value;

		quad_sides(part, centre, in, &left, &right);
		value = jacobi_quad(part, centre, north, south, left, right);
		if (part.mine)
			*(float4 *)out = border ? centre : value;
		north = centre;
		centre = south;
	}
}

/* ---- diffusion */

struct quad_neighbours {
	float4 above, below, before, behind;
	float left, right;
};

__device__ static inline float4 diffusion_quad(const struct thread_part &part, float4 c,
					       const struct quad_neighbours &n)
{
	const struct point_neighbours x = {n.left,    c.y,	  n.above.x,
					   n.below.x, n.before.x, n.behind.x};
	const struct point_neighbours y = {c.x, c.z, n.above.y, n.below.y, n.before.y, n.behind.y};
	const struct point_neighbours z = {c.y, c.w, n.above.z, n.below.z, n.before.z, n.behind.z};
	const struct point_neighbours w = {c.z,	      n.right,	  n.above.w,
					   n.below.w, n.before.w, n.behind.w};
	float4 out;

	out.x = part.first ? c.x : point_diffusion(c.x, x);
	out.y = point_diffusion(c.y, y);
	out.z = point_diffusion(c.z, z);
	out.w = part.last ? c.w : point_diffusion(c.w, w);
	return out;
}

__global__ void __launch_bounds__(BLOCK_THREADS)
	diffusion(const __grid_constant__ struct solver_stencil_args p)
{
	const struct tiles tiles = TILES_DIFFUSION(p.shape);
	const struct thread_part part = part_of(p, tiles, STEPS_DIFFUSION, false);
	const struct solver_range &r = p.range[part.range];
	const uint32_t columns = p.shape.columns;
	const uint64_t plane = slice_elements(p.shape);
	const uint64_t at = (uint64_t)part.row * columns + part.column;
	const bool edge = part.row == 0 || part.row + 1 == p.shape.rows;
	const float *in = r.in + at + part.begin * plane;
	float *out = r.out + at + part.begin * plane;
	struct quad_neighbours n;
	float4 centre = quad_load(in);

	n.before = r.first + part.begin == 0 ? centre
					     : quad_load(part.begin ? in - plane : r.before + at);
#pragma unroll 2
	for (uint32_t i = part.begin; i < part.end; i++, in += plane, out += plane) {
		const bool bottom = r.first + i + 1 == p.shape.slices;
		const bool border = edge || r.first + i == 0 || bottom;
		float4 value;

		n.behind = bottom ? centre : quad_load(i + 1 < r.nr ? in + plane : r.behind + at);
		n.above = edge ? centre : quad_load(in - columns);
		n.below = edge ? centre : quad_load(in + columns);
		quad_sides(part, centre, in, &n.left, &n.right);
		value = diffusion_quad(part, centre, n);
		if (part.mine)
			*(float4 *)out = border ? centre : value;
		n.before = centre;
		centre = n.behind;
	}
}

/* ---- the beginning and the end */

__global__ void fill(const __grid_constant__ struct solver_fill_args p)
{
	const uint64_t slice = slice_elements(p.shape), nr = p.range.nr * slice;
	const uint64_t first = p.range.first * slice;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < nr;
	     i += (uint64_t)gridDim.x * blockDim.x)
		p.range.out[i] = point_begin(first + i);
}

__global__ void hash(const __grid_constant__ struct solver_hash_args p)
{
	const uint64_t slice = slice_elements(p.shape), nr = p.range.nr * slice;
	const uint64_t first = p.range.first * slice;
	unsigned long long sum = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < nr;
	     i += (uint64_t)gridDim.x * blockDim.x)
		sum += point_hash(first + i, p.range.in[i]);
	for (uint32_t lanes = LANES / 2; lanes; lanes /= 2)
		sum += __shfl_sync(~0u, sum, (int)(threadIdx.x % LANES ^ lanes));
	if (threadIdx.x % LANES == 0)
		atomicAdd((unsigned long long *)p.sum, sum);
}

#endif
