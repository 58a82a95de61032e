/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that measure, on the GPU.
 *
 * All of them are one loop over accesses of 16 bytes, neighbouring lanes at neighbouring addresses,
 * so that a whole warp, or as much of it as a piece takes, is on each piece. It goes in tiles: all
 * loads of a tile are issued before the first of them is used, and a block takes every gridDim-th
 * tile.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "workloads/probe/cuda/plugin.h"

/*
 * By Little's law, 1,024 threads a multiprocessor with 128 bytes each in flight are several times
 * what keeps an H200's memory busy, and far more than a link needs.
 */
#define BLOCK 256u
#define BLOCKS_MIN 4u
#define UNROLL 8u
#define TILE (BLOCK * UNROLL)

/* Several times what any GPU holds, so that multiprocessors that are slower take fewer. */
#define GRID_MAX 16384u

#define ACCESS_BYTES 16u

/* ---- errors */

static thread_local char error_text[256];

const char *probe_cuda_error(void)
{
	return error_text;
}

uint64_t probe_cuda_abi(void)
{
	return probe_cuda_abi_here();
}

static int refused(const char *kernel, const char *why)
{
	snprintf(error_text, sizeof(error_text), "%s: %s", kernel, why);
	return -EINVAL;
}

/* The outcome of the launch just made by this thread. */
static int launched(const char *kernel)
{
	cudaError_t result = cudaGetLastError();

	if (result == cudaSuccess)
		return 0;
	snprintf(error_text, sizeof(error_text), "%s: %s (%s)", kernel, cudaGetErrorString(result),
		 cudaGetErrorName(result));
	return -EIO;
}

/* ---- where the n-th access is */

/* One after the other. */
struct in_order {
	char *base;

	__device__ char *operator()(uint64_t n) const
	{
		return base + n * ACCESS_BYTES;
	}
};

/* In pieces at random; a piece takes 2^shift accesses. */
struct at_random {
	char *base;
	struct probe_pieces pieces;
	uint32_t shift;

	/* The n-th access, were the i-th piece the one that it is in. */
	__device__ char *in_piece(uint32_t i, uint64_t n) const
	{
		uint64_t piece = probe_piece_at(&pieces, i);
		uint32_t within = (uint32_t)n & ((1u << shift) - 1);

		return base + (piece << shift) * ACCESS_BYTES + within * ACCESS_BYTES;
	}

	__device__ char *operator()(uint64_t n) const
	{
		return in_piece((uint32_t)(n >> shift), n);
	}
};

/* In pieces at random of two buffers that take turns. */
struct in_turns {
	struct at_random far, near;

	__device__ char *operator()(uint64_t n) const
	{
		uint32_t i = (uint32_t)(n >> far.shift);
		uint32_t round = i / PROBE_MIXED, turn = i % PROBE_MIXED;

		if (turn < PROBE_MIXED_FAR)
			return far.in_piece(round * PROBE_MIXED_FAR + turn, n);
		return near.in_piece(round * PROBE_MIXED_NEAR + turn - PROBE_MIXED_FAR, n);
	}
};

/* ---- accesses; volatile, or the compiler would move each load to where its value is used */

__device__ __forceinline__ ulonglong2 load(const char *at)
{
	ulonglong2 x;

	asm volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];"
		     : "=l"(x.x), "=l"(x.y)
		     : "l"(__cvta_generic_to_global(at)));
	return x;
}

__device__ __forceinline__ void store(char *at, ulonglong2 x)
{
	asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)),
		     "l"(x.x), "l"(x.y)
		     : "memory");
}

/* Add to memory without asking for what was there, as gradients are added: an answer would have to
 * come back over the link. */
__device__ __forceinline__ void add_one(char *at)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(
			     __cvta_generic_to_global(at)),
		     "f"(1.0f)
		     : "memory");
#else
	for (uint32_t i = 0; i < ACCESS_BYTES / sizeof(float); i++)
		atomicAdd((float *)at + i, 1.0f);
#endif
}

/* ---- kernels */

__global__ void empty_kernel()
{
}

/* The tile's loads, zero beyond the end. */
template <class Where>
__device__ __forceinline__ void load_tile(ulonglong2 x[UNROLL], Where where, uint64_t tile,
					  uint64_t nr)
{
	uint64_t first = tile * TILE + threadIdx.x;

	if ((tile + 1) * TILE <= nr) {
#pragma unroll
		for (uint32_t u = 0; u < UNROLL; u++)
			x[u] = load(where(first + u * BLOCK));
		return;
	}
#pragma unroll
	for (uint32_t u = 0; u < UNROLL; u++)
		x[u] = first + u * BLOCK < nr ? load(where(first + u * BLOCK)) : ulonglong2{0, 0};
}

template <class Where>
__device__ __forceinline__ void store_tile(const ulonglong2 x[UNROLL], Where where, uint64_t tile,
					   uint64_t nr)
{
	uint64_t first = tile * TILE + threadIdx.x;

#pragma unroll
	for (uint32_t u = 0; u < UNROLL; u++)
		if (first + u * BLOCK < nr)
			store(where(first + u * BLOCK), x[u]);
}

/* Warps add their sums up; whole warps come here. */
__device__ __forceinline__ void sum_add(uint64_t *sum, uint64_t own)
{
	unsigned long long x = own;

	for (int distance = 16; distance; distance /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, distance);
	if (threadIdx.x % 32 == 0)
		atomicAdd((unsigned long long *)sum, x);
}

template <class Where>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN)
	read_kernel(Where where, uint64_t nr, uint64_t passes, uint64_t *sum)
{
	uint64_t own = 0;

	for (uint64_t pass = 0; pass < passes; pass++)
		for (uint64_t tile = blockIdx.x; tile * TILE < nr; tile += gridDim.x) {
			ulonglong2 x[UNROLL];

			load_tile(x, where, tile, nr);
#pragma unroll
			for (uint32_t u = 0; u < UNROLL; u++)
				own += x[u].x + x[u].y;
		}
	sum_add(sum, own);
}

template <class Where>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN) update_kernel(Where where, uint64_t nr)
{
	for (uint64_t tile = blockIdx.x; tile * TILE < nr; tile += gridDim.x) {
		ulonglong2 x[UNROLL];

		load_tile(x, where, tile, nr);
#pragma unroll
		for (uint32_t u = 0; u < UNROLL; u++) {
			x[u].x++;
			x[u].y++;
		}
		store_tile(x, where, tile, nr);
	}
}

__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN) add_kernel(at_random where, uint64_t nr)
{
	for (uint64_t tile = blockIdx.x; tile * TILE < nr; tile += gridDim.x) {
		uint64_t first = tile * TILE + threadIdx.x;

#pragma unroll
		for (uint32_t u = 0; u < UNROLL; u++)
			if (first + u * BLOCK < nr)
				add_one(where(first + u * BLOCK));
	}
}

template <class Where>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN)
	copy_kernel(Where from, in_order to, uint64_t nr)
{
	for (uint64_t tile = blockIdx.x; tile * TILE < nr; tile += gridDim.x) {
		ulonglong2 x[UNROLL];

		load_tile(x, from, tile, nr);
		store_tile(x, to, tile, nr);
	}
}

__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN)
	write_kernel(in_order to, uint64_t nr, uint64_t value)
{
	ulonglong2 x[UNROLL];

#pragma unroll
	for (uint32_t u = 0; u < UNROLL; u++)
		x[u] = ulonglong2{value, value};
	for (uint64_t tile = blockIdx.x; tile * TILE < nr; tile += gridDim.x)
		store_tile(x, to, tile, nr);
}

__global__ void __launch_bounds__(BLOCK) list_kernel(uint32_t *list, uint32_t nr, uint32_t step)
{
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < nr;
	     i += (uint64_t)gridDim.x * BLOCK)
		list[i] = probe_list_at((uint32_t)i, step);
}

/* ---- launching */

static unsigned int grid_of(uint64_t nr)
{
	uint64_t tiles = nr / TILE + (nr % TILE != 0);

	return tiles < GRID_MAX ? (unsigned int)tiles : GRID_MAX;
}

static bool is_aligned(const void *addr, uint64_t bytes)
{
	return addr && bytes && ((uintptr_t)addr | bytes) % ACCESS_BYTES == 0;
}

/* Accesses of all pieces, or 0: they are none. */
static uint64_t pieces_init(const struct probe_pieces *pieces, const void *base,
			    struct at_random *out)
{
	uint32_t piece = pieces->piece;

	if (!is_aligned(base, piece) || piece < 2 * ACCESS_BYTES || (piece & (piece - 1)) ||
	    pieces->nr_bits > 31 || pieces->nr_all > UINT32_C(1) << pieces->nr_bits ||
	    pieces->nr > pieces->nr_all || pieces->salt >= pieces->nr_all)
		return 0;
	out->base = (char *)base;
	out->pieces = *pieces;
	out->shift = 0;
	while (ACCESS_BYTES << out->shift < piece)
		out->shift++;
	return (uint64_t)pieces->nr << out->shift;
}

int probe_cuda_empty(void *stream, const void *)
{
	empty_kernel<<<1, 32, 0, (cudaStream_t)stream>>>();
	return launched("empty");
}

int probe_cuda_read(void *stream, const void *args)
{
	const struct probe_read_args *a = (const struct probe_read_args *)args;
	uint64_t nr = a->bytes / ACCESS_BYTES;

	if (!is_aligned(a->in, a->bytes))
		return refused("read", "no whole accesses of 16 bytes");
	read_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(in_order{(char *)a->in}, nr,
								     a->passes, a->sum);
	return launched("read");
}

int probe_cuda_write(void *stream, const void *args)
{
	const struct probe_write_args *a = (const struct probe_write_args *)args;
	uint64_t nr = a->bytes / ACCESS_BYTES;

	if (!is_aligned(a->out, a->bytes))
		return refused("write", "no whole accesses of 16 bytes");
	write_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(in_order{(char *)a->out}, nr,
								      a->value);
	return launched("write");
}

int probe_cuda_copy(void *stream, const void *args)
{
	const struct probe_copy_args *a = (const struct probe_copy_args *)args;
	uint64_t nr = a->bytes / ACCESS_BYTES;

	if (!is_aligned(a->in, a->bytes) || !is_aligned(a->out, a->bytes))
		return refused("copy", "no whole accesses of 16 bytes");
	copy_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(in_order{(char *)a->in},
								     in_order{(char *)a->out}, nr);
	return launched("copy");
}

int probe_cuda_gather(void *stream, const void *args)
{
	const struct probe_gather_args *a = (const struct probe_gather_args *)args;
	struct at_random where;
	uint64_t nr = pieces_init(&a->pieces, a->in, &where);

	if (!nr)
		return refused("gather", "no such pieces");
	read_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(where, nr, 1, a->sum);
	return launched("gather");
}

int probe_cuda_update(void *stream, const void *args)
{
	const struct probe_update_args *a = (const struct probe_update_args *)args;
	struct at_random where;
	uint64_t nr = pieces_init(&a->pieces, a->data, &where);

	if (!nr)
		return refused("update", "no such pieces");
	update_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(where, nr);
	return launched("update");
}

int probe_cuda_add(void *stream, const void *args)
{
	const struct probe_add_args *a = (const struct probe_add_args *)args;
	struct at_random where;
	uint64_t nr = pieces_init(&a->pieces, a->data, &where);

	if (!nr)
		return refused("add", "no such pieces");
	add_kernel<<<grid_of(nr), BLOCK, 0, (cudaStream_t)stream>>>(where, nr);
	return launched("add");
}

int probe_cuda_mixed(void *stream, const void *args)
{
	const struct probe_mixed_args *a = (const struct probe_mixed_args *)args;
	struct in_turns where;
	uint64_t far = pieces_init(&a->far_pieces, a->far, &where.far);
	uint64_t near = pieces_init(&a->near_pieces, a->near, &where.near);
	uint32_t rounds = a->far_pieces.nr / PROBE_MIXED_FAR;

	if (!far || !near || a->far_pieces.piece != a->near_pieces.piece ||
	    a->far_pieces.nr != rounds * PROBE_MIXED_FAR ||
	    a->near_pieces.nr != rounds * PROBE_MIXED_NEAR)
		return refused("mixed", "no such pieces");
	if (!is_aligned(a->out, a->far_pieces.piece))
		return refused("mixed", "no whole accesses of 16 bytes");
	copy_kernel<<<grid_of(far + near), BLOCK, 0, (cudaStream_t)stream>>>(
		where, in_order{(char *)a->out}, far + near);
	return launched("mixed");
}

int probe_cuda_list(void *stream, const void *args)
{
	const struct probe_list_args *a = (const struct probe_list_args *)args;

	if (!a->nr || !a->step || (uint64_t)a->nr * a->step > UINT64_C(1) << 32)
		return refused("list", "no such list");
	list_kernel<<<grid_of(a->nr), BLOCK, 0, (cudaStream_t)stream>>>(a->list, a->nr, a->step);
	return launched("list");
}
