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
 * Launches of two ranges put the second one's blocks behind the first one's.
 */
#include "workloads/cuda_launch.cuh"
#include "workloads/solver/cuda/plugin.h"
#include "workloads/solver/point.h"

#define LANES 32u
#define WARPS 8u /* of a block, in two dimensions: neighbours along columns, in three: along rows */
#define STEPS_JACOBI 16u
#define STEPS_DIFFUSION 32u
#define QUAD 4u
#define GRID_MAX 65535u /* blocks, but along the first dimension */

const char *solver_cuda_error(void)
{
	return cuda_launch_error();
}

uint64_t solver_cuda_abi(void)
{
	return solver_cuda_abi_here();
}

__device__ static inline uint64_t slice_elements(const struct solver_shape &shape)
{
	return (uint64_t)shape.rows * shape.columns;
}

/* ---- four elements */

/* No launch reads what it writes, so that loads need not stay behind stores. */
__device__ static inline float4 quad_load(const float *from)
{
	return __ldg((const float4 *)from);
}

/* The element before a thread's four, and the one behind; at the field's ends nobody looks. */
__device__ static inline void quad_sides(float4 c, const float *at, bool first, bool last,
					 float *left, float *right)
{
	const uint32_t lane = threadIdx.x;

	*left = __shfl_up_sync(~0u, c.w, 1);
	*right = __shfl_down_sync(~0u, c.x, 1);
	if (lane == 0 && !first)
		*left = __ldg(at - 1);
	if (lane == LANES - 1 && !last)
		*right = __ldg(at + QUAD);
}

/* ---- jacobi */

__device__ static inline float4 jacobi_quad(float4 c, float4 n, float4 s, float left, float right,
					    bool first, bool last)
{
	float4 out;

	out.x = first ? c.x : point_jacobi(n.x, s.x, left, c.y);
	out.y = point_jacobi(n.y, s.y, c.x, c.z);
	out.z = point_jacobi(n.z, s.z, c.y, c.w);
	out.w = last ? c.w : point_jacobi(n.w, s.w, c.z, right);
	return out;
}

__global__ void __launch_bounds__(LANES *WARPS)
	jacobi(const __grid_constant__ struct solver_stencil_args p, uint32_t blocks_of_first)
{
	const bool second = blockIdx.y >= blocks_of_first;
	const struct solver_range &r = p.range[second];
	const uint32_t begin = (blockIdx.y - (second ? blocks_of_first : 0)) * STEPS_JACOBI;
	const uint32_t end = min(begin + STEPS_JACOBI, r.nr), columns = p.shape.columns;
	const uint32_t quad = (blockIdx.x * WARPS + threadIdx.y) * LANES + threadIdx.x;
	const uint32_t x = min(quad * QUAD, columns - QUAD); /* lanes beyond do as the last one */
	const bool mine = quad * QUAD < columns, first = x == 0, last = x + QUAD == columns;
	const float *in = r.in + x + (uint64_t)begin * columns;
	float *out = r.out + x + (uint64_t)begin * columns;
	const bool top = r.first + begin == 0;
	float4 north, centre = quad_load(in);

	north = top ? centre : quad_load(begin ? in - columns : r.before + x);
#pragma unroll 4
	for (uint32_t i = begin; i < end; i++, in += columns, out += columns) {
		const bool border = r.first + i == 0 || r.first + i + 1 == p.shape.slices;
		const bool bottom = r.first + i + 1 == p.shape.slices;
		const float4 south =
			bottom ? centre : quad_load(i + 1 < r.nr ? in + columns : r.behind + x);
		float left, right;
		float4 value;

		quad_sides(centre, in, first, last, &left, &right);
		value = jacobi_quad(centre, north, south, left, right, first, last);
		if (mine)
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

__device__ static inline float4 diffusion_quad(float4 c, const struct quad_neighbours &n,
					       bool first, bool last)
{
	float4 out;

	out.x = point_diffusion(c.x, {n.left, c.y, n.above.x, n.below.x, n.before.x, n.behind.x});
	out.y = point_diffusion(c.y, {c.x, c.z, n.above.y, n.below.y, n.before.y, n.behind.y});
	out.z = point_diffusion(c.z, {c.y, c.w, n.above.z, n.below.z, n.before.z, n.behind.z});
	out.w = point_diffusion(c.w, {c.z, n.right, n.above.w, n.below.w, n.before.w, n.behind.w});
	out.x = first ? c.x : out.x;
	out.w = last ? c.w : out.w;
	return out;
}

__global__ void __launch_bounds__(LANES *WARPS)
	diffusion(const __grid_constant__ struct solver_stencil_args p, uint32_t blocks_of_first)
{
	const bool second = blockIdx.z >= blocks_of_first;
	const struct solver_range &r = p.range[second];
	const uint32_t begin = (blockIdx.z - (second ? blocks_of_first : 0)) * STEPS_DIFFUSION;
	const uint32_t end = min(begin + STEPS_DIFFUSION, r.nr);
	const uint32_t columns = p.shape.columns, rows = p.shape.rows;
	const uint32_t quad = blockIdx.x * LANES + threadIdx.x;
	const uint32_t row = blockIdx.y * WARPS + threadIdx.y, y = min(row, rows - 1);
	const uint32_t x = min(quad * QUAD, columns - QUAD);
	const bool mine = quad * QUAD < columns && row < rows;
	const bool first = x == 0, last = x + QUAD == columns, edge = y == 0 || y + 1 == rows;
	const uint64_t plane = slice_elements(p.shape), at = (uint64_t)y * columns + x;
	const float *in = r.in + at + begin * plane;
	float *out = r.out + at + begin * plane;
	struct quad_neighbours n;
	float4 centre = quad_load(in);

	n.before = r.first + begin == 0 ? centre : quad_load(begin ? in - plane : r.before + at);
#pragma unroll 2
	for (uint32_t i = begin; i < end; i++, in += plane, out += plane) {
		const bool bottom = r.first + i + 1 == p.shape.slices;
		const bool border = edge || r.first + i == 0 || bottom;
		float4 value;

		n.behind = bottom ? centre : quad_load(i + 1 < r.nr ? in + plane : r.behind + at);
		n.above = edge ? centre : quad_load(in - columns);
		n.below = edge ? centre : quad_load(in + columns);
		quad_sides(centre, in, first, last, &n.left, &n.right);
		value = diffusion_quad(centre, n, first, last);
		if (mine)
			*(float4 *)out = border ? centre : value;
		n.before = centre;
		centre = n.behind;
	}
}

/* ---- launching the two */

/* Blocks of a range of so many slices. */
static uint32_t blocks_of(const struct solver_range *range, uint32_t steps)
{
	return (range->nr + steps - 1) / steps;
}

typedef void (*stencil_fn)(const struct solver_stencil_args p, uint32_t blocks_of_first);

static int stencil_launch(const char *name, stencil_fn kernel, void *stream,
			  const struct solver_stencil_args *p, dim3 grid, uint32_t blocks_of_first)
{
	int err = cuda_launch_hold();

	if (err)
		return err;
	kernel<<<grid, dim3(LANES, WARPS), 0, (cudaStream_t)stream>>>(*p, blocks_of_first);
	return cuda_launch_outcome(name, cudaGetLastError());
}

int solver_cuda_jacobi(void *stream, const void *args)
{
	const struct solver_stencil_args *p = (const struct solver_stencil_args *)args;
	const uint32_t tile = LANES * WARPS * QUAD;
	uint32_t first, all;

	if (!solver_cuda_stencil_valid(p) || p->shape.rows != 1)
		return cuda_launch_refused("jacobi", "no such field");
	first = blocks_of(&p->range[0], STEPS_JACOBI);
	all = first + (p->nr_ranges > 1 ? blocks_of(&p->range[1], STEPS_JACOBI) : 0);
	return stencil_launch("jacobi", jacobi, stream, p,
			      dim3((p->shape.columns + tile - 1) / tile, all), first);
}

int solver_cuda_diffusion(void *stream, const void *args)
{
	const struct solver_stencil_args *p = (const struct solver_stencil_args *)args;
	const uint32_t tile = LANES * QUAD;
	uint32_t first, all;

	if (!solver_cuda_stencil_valid(p) || p->shape.rows > WARPS * GRID_MAX)
		return cuda_launch_refused("diffusion", "no such field");
	first = blocks_of(&p->range[0], STEPS_DIFFUSION);
	all = first + (p->nr_ranges > 1 ? blocks_of(&p->range[1], STEPS_DIFFUSION) : 0);
	return stencil_launch("diffusion", diffusion, stream, p,
			      dim3((p->shape.columns + tile - 1) / tile,
				   (p->shape.rows + WARPS - 1) / WARPS, all),
			      first);
}

/* ---- the beginning and the end */

#define ENDS_THREADS 256u

__global__ void fill(const __grid_constant__ struct solver_fill_args p)
{
	const uint64_t slice = slice_elements(p.shape), nr = p.range.nr * slice;
	const uint64_t first = p.range.first * slice;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < nr;
	     i += (uint64_t)gridDim.x * blockDim.x)
		p.range.out[i] = point_begin(first + i);
}

__global__ void hash(const __grid_constant__ struct solver_hash_args p)
{
	const uint64_t slice = slice_elements(p.shape), nr = p.range.nr * slice;
	const uint64_t first = p.range.first * slice;
	uint64_t sum = 0;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < nr;
	     i += (uint64_t)gridDim.x * blockDim.x)
		sum += point_hash(first + i, p.range.in[i]);
	for (int lanes = 16; lanes; lanes /= 2)
		sum += __shfl_down_sync(~0u, sum, lanes);
	if (threadIdx.x % 32 == 0)
		atomicAdd((unsigned long long *)p.sum, (unsigned long long)sum);
}

int solver_cuda_fill(void *stream, const void *args)
{
	const struct solver_fill_args *p = (const struct solver_fill_args *)args;

	if (!solver_cuda_shape_valid(&p->shape) || !solver_cuda_range_valid(&p->shape, &p->range))
		return cuda_launch_refused("fill", "no such field");
	return cuda_launch("fill", fill, 0, ENDS_THREADS, stream, p);
}

int solver_cuda_hash(void *stream, const void *args)
{
	const struct solver_hash_args *p = (const struct solver_hash_args *)args;

	if (!solver_cuda_shape_valid(&p->shape) || !solver_cuda_range_valid(&p->shape, &p->range))
		return cuda_launch_refused("hash", "no such field");
	return cuda_launch("hash", hash, 0, ENDS_THREADS, stream, p);
}
