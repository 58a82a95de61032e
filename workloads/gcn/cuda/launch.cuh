/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels' files share: packs of floats, the two loops that most kernels are, and errors.
 *
 * Both loops go in tiles: all loads of a tile are issued before the first of them is used, and a
 * block takes every gridDim-th tile. Counts and offsets into matrices are 64 bits wide.
 */
#ifndef WEIR_GCN_CUDA_LAUNCH_CUH
#define WEIR_GCN_CUDA_LAUNCH_CUH

#include <errno.h>
#include <stdint.h>

#include "workloads/gcn/cuda/plugin.h"

/*
 * Threads of a block, and the fewest blocks that a multiprocessor must be able to hold: by Little's
 * law, 1,024 threads with 64 bytes each in flight are about twice what keeps an H200's memory busy.
 */
#define BLOCK 256u
#define BLOCKS_MIN 4u

/*
 * Blocks of a launch, at most. Several times what any GPU holds, so that multiprocessors that are
 * slower than others take fewer; and few enough that starting one costs nothing beside its work.
 */
#define GRID_MAX 16384u

/* ---- host side (plugin.cu) */

/* Set gcn_cuda_error()'s text (printf) and return status. */
__attribute__((format(printf, 2, 3))) int gcn_cuda_fail(int status, const char *format, ...);

/* The outcome of the launches just made by this thread, as 0 or a negative errno. */
int gcn_cuda_launched(const char *kernel);

/* The outcome of a call of the CUDA runtime. */
int gcn_cuda_checked(cudaError_t result, const char *what);

/* Partial results of a kernel made of several launches. Launches of a stream share it in turn. */
#define SCRATCH_WORDS 1024u

#define WORKSPACE_BYTES (UINT64_C(32) << 20) /* what cuBLAS asks for on Hopper */

/* What a stream has for its kernels. */
struct gcn_cuda_stream {
	void *stream;
	int device;
	void *blas;	   /* cublasHandle_t; NULL until somebody asks for it */
	void *workspace;   /* of cuBLAS, WORKSPACE_BYTES */
	uint64_t *scratch; /* SCRATCH_WORDS, behind the workspace */
};

/* Of the current device. Makes what is not there; blas: the handle too. */
int gcn_cuda_stream_get(void *stream, bool blas, struct gcn_cuda_stream *out);

static inline uint64_t div_round_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static inline unsigned int grid_of(uint64_t nr_tiles)
{
	return nr_tiles < GRID_MAX ? (unsigned int)nr_tiles : GRID_MAX;
}

/* Floats that one access may take where all addresses and strides that are or'ed together allow. */
static inline uint32_t pack_width(uintptr_t bits)
{
	return bits % 16 == 0 ? 4 : bits % 8 == 0 ? 2 : 1;
}

static inline uintptr_t address(const void *p)
{
	return (uintptr_t)p;
}

/* ---- packs: 1, 2 or 4 floats, moved in one access */

template <int V> struct alignas(4 * V) pack {
	float f[V];
};

/*
 * Loads are volatile, since a compiler that may move them puts each where its value is used, behind
 * the condition of a store: one load in flight, then, and not a tile of them.
 *
 * load(): of what nobody writes meanwhile and others may read too. load_once(): of what is touched
 * once, it leaves the caches first.
 */
#define LOAD1(how, x, p) \
	asm volatile("ld.global." how " %0, [%1];" : "=f"(x) : "l"(__cvta_generic_to_global(p)))
#define LOAD2(how, x, p)                                        \
	asm volatile("ld.global." how ".v2.f32 {%0, %1}, [%2];" \
		     : "=f"((x)[0]), "=f"((x)[1])               \
		     : "l"(__cvta_generic_to_global(p)))
#define LOAD4(how, x, p)                                                      \
	asm volatile("ld.global." how ".v4.f32 {%0, %1, %2, %3}, [%4];"       \
		     : "=f"((x)[0]), "=f"((x)[1]), "=f"((x)[2]), "=f"((x)[3]) \
		     : "l"(__cvta_generic_to_global(p)))

template <int V> __device__ __forceinline__ pack<V> load(const float *p)
{
	pack<V> x;

	if constexpr (V == 4)
		LOAD4("nc", x.f, p);
	else if constexpr (V == 2)
		LOAD2("nc", x.f, p);
	else
		LOAD1("nc.f32", x.f[0], p);
	return x;
}

template <int V> __device__ __forceinline__ pack<V> load_once(const float *p)
{
	pack<V> x;

	if constexpr (V == 4)
		LOAD4("cs", x.f, p);
	else if constexpr (V == 2)
		LOAD2("cs", x.f, p);
	else
		LOAD1("cs.f32", x.f[0], p);
	return x;
}

/* Of an index, or what else is read with a key: other threads read it too. */
__device__ __forceinline__ uint64_t load_index(const int64_t *p)
{
	uint64_t x;

	asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(x) : "l"(__cvta_generic_to_global(p)));
	return x;
}

/*
 * Stores and additions that are done only if valid. By predicate, not by branch: behind a branch
 * the compiler would put the loads that only the branch needs.
 */
#define IF(valid) "{\n.reg .pred valid;\nsetp.ne.u32 valid, " valid ", 0;\n@valid "
#define END ";\n}"
#define PLACE(valid, p) "r"((uint32_t)(valid)), "l"(__cvta_generic_to_global(p))
#define FLOATS2(x) "f"((x)[0]), "f"((x)[1])
#define FLOATS4(x) FLOATS2(x), "f"((x)[2]), "f"((x)[3])

/* Of what is not read again soon. */
template <int V> __device__ __forceinline__ void store_once(float *p, pack<V> x, bool valid = true)
{
	if constexpr (V == 4)
		asm volatile(IF("%0") "st.global.cs.v4.f32 [%1], {%2, %3, %4, %5}" END
			     :
			     : PLACE(valid, p), FLOATS4(x.f)
			     : "memory");
	else if constexpr (V == 2)
		asm volatile(IF("%0") "st.global.cs.v2.f32 [%1], {%2, %3}" END
			     :
			     : PLACE(valid, p), FLOATS2(x.f)
			     : "memory");
	else
		asm volatile(IF("%0") "st.global.cs.f32 [%1], %2" END
			     :
			     : PLACE(valid, p), "f"(x.f[0])
			     : "memory");
}

/*
 * Add to memory, atomic for each float. Not atomicAdd(float4 *), which asks for the old values:
 * nobody wants them, and not to ask saves their way back.
 */
template <int V> __device__ __forceinline__ void add_atomic(float *p, pack<V> x, bool valid)
{
#if __CUDA_ARCH__ >= 900
	if constexpr (V == 4)
		asm volatile(IF("%0") "red.relaxed.gpu.global.add.v4.f32 [%1], {%2, %3, %4, %5}" END
			     :
			     : PLACE(valid, p), FLOATS4(x.f)
			     : "memory");
	else if constexpr (V == 2)
		asm volatile(IF("%0") "red.relaxed.gpu.global.add.v2.f32 [%1], {%2, %3}" END
			     :
			     : PLACE(valid, p), FLOATS2(x.f)
			     : "memory");
	else
#endif
#pragma unroll
		for (int k = 0; k < V; k++)
			asm volatile(IF("%0") "red.relaxed.gpu.global.add.f32 [%1], %2" END
				     :
				     : PLACE(valid, p + k), "f"(x.f[k])
				     : "memory");
}

/* ---- loop over elements
 *
 * An operation has, for V = 4 and 1,
 *
 *   unroll                                       how many packs at a time: 64 bytes a thread
 *   struct loaded<V>                             what it reads for V elements
 *   void load<V>(uint64_t i, loaded<V> &) const  of elements [i, i + V)
 *   void store<V>(uint64_t i, loaded<V>) const
 */

template <int V, class Op>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN) pointwise_kernel(const Op op, uint64_t nr)
{
	const uint64_t tile = BLOCK * Op::unroll, packs = nr / V;

	for (uint64_t first = blockIdx.x * tile; first < packs; first += gridDim.x * tile) {
		typename Op::template loaded<V> x[Op::unroll];

		if (packs - first < tile) { /* the last */
#pragma unroll 1
			for (uint64_t i = first + threadIdx.x; i < packs; i += BLOCK) {
				op.template load<V>(i * V, x[0]);
				op.template store<V>(i * V, x[0]);
			}
			break;
		}
#pragma unroll
		for (uint32_t u = 0; u < Op::unroll; u++)
			op.template load<V>((first + u * BLOCK + threadIdx.x) * V, x[u]);
#pragma unroll
		for (uint32_t u = 0; u < Op::unroll; u++)
			op.template store<V>((first + u * BLOCK + threadIdx.x) * V, x[u]);
	}
	if (V > 1 && blockIdx.x == 0 && threadIdx.x < nr % V) {
		typename Op::template loaded<1> x;

		op.template load<1>(packs * V + threadIdx.x, x);
		op.template store<1>(packs * V + threadIdx.x, x);
	}
}

/* packed: all addresses allow packs of four. */
template <class Op>
static int pointwise_launch(const char *name, void *stream, const Op &op, uint64_t nr, bool packed)
{
	uint64_t tile = BLOCK * Op::unroll * (packed ? 4 : 1);
	unsigned int grid = grid_of(div_round_up(nr, tile));

	if (nr == 0)
		return 0;
	if (packed)
		pointwise_kernel<4><<<grid, BLOCK, 0, (cudaStream_t)stream>>>(op, nr);
	else
		pointwise_kernel<1><<<grid, BLOCK, 0, (cudaStream_t)stream>>>(op, nr);
	return gcn_cuda_launched(name);
}

/* ---- loop over the elements of rows
 *
 * A tile is a run of whole rows, about as many as the block has loads in flight: which row an
 * element is in is then a division of small numbers, by a multiplication, and short rows leave no
 * lane idle. An operation has, for V = 4, 2 and 1,
 *
 *   key                                         what it must know of a row before it loads
 *   key key_of(uint64_t row) const
 *   pack<V> load<V>(key, uint64_t at, uint32_t column) const
 *   void store<V>(key, uint64_t at, uint32_t column, pack<V>, bool valid) const
 *
 * where at is the place of the pack's first element in a matrix of all rows, column that in its
 * row. load() may be called for a pack twice; store() does nothing unless valid.
 */

struct rows {
	uint64_t nr, nr_tiles;
	uint32_t width;
	uint32_t packs;	    /* of a row */
	uint32_t tile_rows; /* of a tile; if more than 1, its packs are at most the block's loads */
	uint32_t inverse;   /* 2^31 / packs, rounded up beyond it; 0: all packs are of one row */
};

template <int V> constexpr uint32_t rows_unroll = V == 1 ? 6 : 4;

/* e / packs, exact: e * packs < 2^31 */
__device__ __forceinline__ uint32_t rows_of(uint32_t e, uint32_t inverse)
{
	return __umulhi(2 * e, inverse);
}

static inline uint32_t rows_inverse(uint32_t packs)
{
	return (UINT32_C(1) << 31) / packs + 1;
}

template <int V, class Op>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN) rows_kernel(const Op op, const struct rows r)
{
	constexpr uint32_t unroll = rows_unroll<V>;

	for (uint64_t tile = blockIdx.x; tile < r.nr_tiles; tile += gridDim.x) {
		const uint64_t row = tile * r.tile_rows, at = row * r.width;
		const uint64_t left = r.nr - row;
		const uint32_t packs =
			(left < r.tile_rows ? (uint32_t)left : r.tile_rows) * r.packs;

		for (uint32_t first = threadIdx.x; first < packs; first += BLOCK * unroll) {
			typename Op::key key[unroll];
			uint32_t column[unroll];
			pack<V> x[unroll];

			/* Beyond the end the last pack is loaded again: nothing branches. */
#pragma unroll
			for (uint32_t u = 0; u < unroll; u++) {
				uint32_t e = min(first + u * BLOCK, packs - 1);
				uint32_t in_tile = rows_of(e, r.inverse);

				column[u] = (e - in_tile * r.packs) * V;
				key[u] = op.key_of(row + in_tile);
			}
#pragma unroll
			for (uint32_t u = 0; u < unroll; u++) {
				uint32_t e = min(first + u * BLOCK, packs - 1);

				x[u] = op.template load<V>(key[u], at + e * V, column[u]);
			}
#pragma unroll
			for (uint32_t u = 0; u < unroll; u++) {
				uint32_t e = first + u * BLOCK;

				op.template store<V>(key[u], at + e * V, column[u], x[u],
						     u == 0 || e < packs);
			}
		}
	}
}

template <int V, class Op>
static void rows_launch_packed(void *stream, const Op &op, uint64_t nr, uint32_t width)
{
	struct rows r;

	r.nr = nr;
	r.width = width;
	r.packs = width / V;
	r.tile_rows = BLOCK * rows_unroll<V> / r.packs;
	r.inverse = rows_inverse(r.packs);
	if (r.tile_rows <= 1) {
		r.tile_rows = 1;
		r.inverse = 0;
	}
	r.nr_tiles = div_round_up(nr, r.tile_rows);
	rows_kernel<V><<<grid_of(r.nr_tiles), BLOCK, 0, (cudaStream_t)stream>>>(op, r);
}

/*
 * Rows of 128 * P floats, the usual hidden widths: a warp takes as many rows as it has lanes, a few
 * at a time, P packs of each a lane. Their keys are loaded together, a round ahead: from the host's
 * memory, whole lines of them then cross the link, and nobody waits for them (an H200: 7 % more
 * than with keys loaded by the row). No division, no address computed twice.
 */
#define WARPS (BLOCK / 32)

/* Blocks of a launch, at most: several for each multiprocessor, several rounds for each warp. */
#define WARP_GRID_MAX 2048u

template <int P, class Op>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN) rows_warp_kernel(const Op op, uint64_t nr)
{
	constexpr uint32_t at_once = P == 4 ? 2 : 4, width = 128 * P;
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t step = gridDim.x * (uint64_t)BLOCK;
	uint64_t first = (blockIdx.x * WARPS + threadIdx.x / 32) * 32ull;
	typename Op::key ahead = op.key_of(min(first + lane, nr - 1));

	for (; first < nr; first += step) {
		const typename Op::key mine = ahead;

		ahead = op.key_of(min(first + step + lane, nr - 1));
#pragma unroll 1
		for (uint32_t done = 0; done < 32; done += at_once) {
			pack<4> x[at_once][P];

			/* Beyond the end the last row is loaded again: nothing branches. */
#pragma unroll
			for (uint32_t r = 0; r < at_once; r++) {
				const uint64_t at = min(first + done + r, nr - 1) * width;
				const typename Op::key key = __shfl_sync(~0u, mine, done + r);

#pragma unroll
				for (uint32_t p = 0; p < P; p++) {
					const uint32_t column = (p * 32 + lane) * 4;

					x[r][p] = op.template load<4>(key, at + column, column);
				}
			}
#pragma unroll
			for (uint32_t r = 0; r < at_once; r++) {
				const uint64_t row = first + done + r;
				const typename Op::key key = __shfl_sync(~0u, mine, done + r);

#pragma unroll
				for (uint32_t p = 0; p < P; p++) {
					const uint32_t column = (p * 32 + lane) * 4;

					op.template store<4>(key, row * width + column, column,
							     x[r][p], row < nr);
				}
			}
		}
	}
}

template <int P, class Op> static void rows_launch_warp(void *stream, const Op &op, uint64_t nr)
{
	uint64_t nr_blocks = div_round_up(nr, BLOCK); /* 32 rows a warp */
	unsigned int grid = nr_blocks < WARP_GRID_MAX ? (unsigned int)nr_blocks : WARP_GRID_MAX;

	rows_warp_kernel<P><<<grid, BLOCK, 0, (cudaStream_t)stream>>>(op, nr);
}

/* bits: the addresses of all matrices, or'ed together. */
template <class Op>
static int rows_launch(const char *name, void *stream, const Op &op, uint64_t nr, uint32_t width,
		       uintptr_t bits)
{
	if (nr == 0 || width == 0)
		return 0;
	if (width > INT32_MAX)
		return gcn_cuda_fail(-EINVAL, "%s: rows of %u floats are too wide", name, width);
	switch (pack_width(bits | 4 * (uintptr_t)width) == 4 ? width : 0) {
	case 128:
		rows_launch_warp<1>(stream, op, nr);
		return gcn_cuda_launched(name);
	case 256:
		rows_launch_warp<2>(stream, op, nr);
		return gcn_cuda_launched(name);
	case 512:
		rows_launch_warp<4>(stream, op, nr);
		return gcn_cuda_launched(name);
	}
	switch (pack_width(bits | 4 * (uintptr_t)width)) {
	case 4:
		rows_launch_packed<4>(stream, op, nr, width);
		break;
	case 2:
		rows_launch_packed<2>(stream, op, nr, width);
		break;
	default:
		rows_launch_packed<1>(stream, op, nr, width);
	}
	return gcn_cuda_launched(name);
}

#endif
