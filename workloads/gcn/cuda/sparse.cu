/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the aggregation: rows are gathered by index, scaled, and added to rows by index. All
 * are bound by memory. Gather and scale give the bits of kernels_sparse.c; scatter_add adds with
 * atomics, in an order that changes from run to run, and so do the last bits of its sums.
 */
#include "workloads/gcn/cuda/launch.cuh"

/* ---- gather */

struct gather_op {
	const int64_t *index;
	const float *src;
	float *out;
	uint32_t width;

	typedef uint64_t key;

	__device__ key key_of(uint64_t row) const
	{
		return load_index(index + row) * width;
	}

	template <int V> __device__ pack<V> load(key from, uint64_t, uint32_t column) const
	{
		return ::load<V>(src + from + column);
	}

	template <int V>
	__device__ void store(key, uint64_t at, uint32_t, pack<V> x, bool valid) const
	{
		store_once<V>(out + at, x, valid);
	}
};

/*
 * Rows of 128 * P floats, the usual hidden widths: a warp takes 8 / P rows at a time, P packs of
 * each a lane, with their indexes loaded one round ahead. No division, no address computed twice.
 * Rows leave the caches first, though others may read them: no cache holds a matrix of such rows,
 * and rows in the host's memory come by a third faster when the page tables stay in the cache
 * instead (an H200, 8 GiB in place).
 */
template <int P>
__global__ void __launch_bounds__(BLOCK, BLOCKS_MIN)
	gather_warp_kernel(const int64_t *index, const float *src, float *out, uint64_t nr)
{
	constexpr uint32_t at_once = 8 / P, width = 128 * P;
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t step = gridDim.x * (uint64_t)(BLOCK / 32) * at_once;
	uint64_t row = (blockIdx.x * (BLOCK / 32) + threadIdx.x / 32) * (uint64_t)at_once;
	uint64_t ahead = 0;

	/* Beyond the end the last row is loaded again, so that nothing branches. */
	if (lane < at_once)
		ahead = load_index(index + min(row + lane, nr - 1));
	for (; row < nr; row += step) {
		const uint64_t mine = ahead;
		pack<4> x[at_once][P];

		if (lane < at_once)
			ahead = load_index(index + min(row + step + lane, nr - 1));
#pragma unroll
		for (uint32_t r = 0; r < at_once; r++) {
			const uint64_t from = __shfl_sync(~0u, mine, r) * width;

#pragma unroll
			for (uint32_t p = 0; p < P; p++)
				x[r][p] = load_once<4>(src + from + (p * 32 + lane) * 4);
		}
#pragma unroll
		for (uint32_t r = 0; r < at_once; r++) {
			float *to = out + (row + r) * width + lane * 4;

#pragma unroll
			for (uint32_t p = 0; p < P; p++)
				store_once<4>(to + p * 128, x[r][p], row + r < nr);
		}
	}
}

template <int P> static int gather_warp_launch(void *stream, const struct gcn_gather_args *a)
{
	uint64_t tile = (BLOCK / 32) * (8 / P);

	gather_warp_kernel<P>
		<<<grid_of(div_round_up(a->nr, tile)), BLOCK, 0, (cudaStream_t)stream>>>(
			a->index, a->src, a->out, a->nr);
	return gcn_cuda_launched("gather");
}

int gcn_cuda_gather(void *stream, const void *args)
{
	const struct gcn_gather_args *a = (const struct gcn_gather_args *)args;
	uintptr_t bits = address(a->src) | address(a->out);
	struct gather_op op = {a->index, a->src, a->out, a->width};

	if (a->nr > 0 && bits % 16 == 0) {
		switch (a->width) {
		case 128:
			return gather_warp_launch<1>(stream, a);
		case 256:
			return gather_warp_launch<2>(stream, a);
		case 512:
			return gather_warp_launch<4>(stream, a);
		}
	}
	return rows_launch("gather", stream, op, a->nr, a->width, bits);
}

/* ---- scale */

struct scale_op {
	const float *in, *weight;
	float *out;

	typedef float key;

	__device__ key key_of(uint64_t row) const
	{
		return ::load<1>(weight + row).f[0];
	}

	template <int V> __device__ pack<V> load(key, uint64_t at, uint32_t) const
	{
		return load_once<V>(in + at);
	}

	template <int V>
	__device__ void store(key factor, uint64_t at, uint32_t, pack<V> x, bool valid) const
	{
#pragma unroll
		for (int k = 0; k < V; k++)
			x.f[k] *= factor;
		store_once<V>(out + at, x, valid);
	}
};

int gcn_cuda_scale(void *stream, const void *args)
{
	const struct gcn_scale_args *a = (const struct gcn_scale_args *)args;
	struct scale_op op = {a->in, a->weight, a->out};

	return rows_launch("scale", stream, op, a->nr, a->width, address(a->in) | address(a->out));
}

/* ---- scatter_add: its target may lie in several memories, but no other device adds to it */

struct scatter_add_op {
	const int64_t *index;
	const float *in;
	float *out;
	uint32_t width;

	typedef uint64_t key;

	__device__ key key_of(uint64_t row) const
	{
		return load_index(index + row) * width;
	}

	template <int V> __device__ pack<V> load(key, uint64_t at, uint32_t) const
	{
		return load_once<V>(in + at);
	}

	template <int V>
	__device__ void store(key to, uint64_t, uint32_t column, pack<V> x, bool valid) const
	{
		add_atomic<V>(out + to + column, x, valid);
	}
};

int gcn_cuda_scatter_add(void *stream, const void *args)
{
	const struct gcn_scatter_add_args *a = (const struct gcn_scatter_add_args *)args;
	struct scatter_add_op op = {a->index, a->in, a->out, a->width};

	return rows_launch("scatter_add", stream, op, a->nr, a->width,
			   address(a->in) | address(a->out));
}
