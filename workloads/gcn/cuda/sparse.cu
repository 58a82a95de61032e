/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the aggregation: rows are gathered by index, scaled, and added to rows by index. All
 * are bound by memory. Gather and scale give the bits of kernels_sparse.c; scatter_add adds with
 * atomics, in an order that changes from run to run, and so do the last bits of its sums.
 */
#include "workloads/gcn/cuda/launch.cuh"

/*
 * ---- gather
 *
 * Rows leave the caches first, though others may read them: no cache holds a matrix of such rows,
 * and rows in the host's memory come by a third faster when the page tables stay in the cache
 * instead (an H200, 8 GiB in place).
 */

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
		return load_once<V>(src + from + column);
	}

	template <int V>
	__device__ void store(key, uint64_t at, uint32_t, pack<V> x, bool valid) const
	{
		store_once<V>(out + at, x, valid);
	}
};

int gcn_cuda_gather(void *stream, const void *args)
{
	const struct gcn_gather_args *a = (const struct gcn_gather_args *)args;
	struct gather_op op = {a->index, a->src, a->out, a->width};

	return rows_launch("gather", stream, op, a->nr, a->width,
			   address(a->src) | address(a->out));
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
