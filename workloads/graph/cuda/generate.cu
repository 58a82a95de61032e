/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that generate a graph, on the GPU; gen_kernels.h says what they do. Threads go around
 * over edges, keys or vertices; sorting and dropping duplicates are CUB's.
 */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "workloads/cuda_launch.cuh"
#include "workloads/graph/cuda/plugin.h"

#define BLOCK 256u /* threads */
#define LANES 32u

/* What CUDA's atomics take. */
typedef unsigned long long counter_t;

/* ---- drawing */

static __global__ void __launch_bounds__(BLOCK)
	count_kernel(const __grid_constant__ struct graph_gen_count_args a)
{
	counter_t *const count = (counter_t *)a.count;

	for (uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x; i < a.draw.nr;
	     i += gridDim.x * (uint64_t)BLOCK) {
		const struct gen_pair edge = gen_edge(&a.draw.gen, a.draw.first + i);

		if (!a.draw.raw && edge.u == edge.v)
			continue;
		atomicAdd(&count[edge.u >> a.shift], 1ull);
		if (!a.draw.raw)
			atomicAdd(&count[edge.v >> a.shift], 1ull);
	}
}

int graph_cuda_gen_count(void *stream, const void *args)
{
	return cuda_launch("gen_count", count_kernel, 0, BLOCK, stream,
			   (const struct graph_gen_count_args *)args);
}

/* Append keys of a whole warp, with one addition to what all warps share. */
static __device__ __forceinline__ void keep_pair(const struct graph_gen_keep_args &a,
						 const struct gen_pair &edge, bool out, bool back)
{
	const uint32_t lane = threadIdx.x % LANES, before = (1u << lane) - 1;
	const uint32_t outs = __ballot_sync(~0u, out), backs = __ballot_sync(~0u, back);
	const uint32_t scale = a.draw.gen.scale;
	uint64_t at = 0;

	if (!(outs | backs))
		return;
	if (lane == 0)
		at = atomicAdd((counter_t *)a.nr, (counter_t)(__popc(outs) + __popc(backs)));
	at = __shfl_sync(~0u, at, 0);
	if (out && at + __popc(outs & before) < a.nr_max)
		a.key[at + __popc(outs & before)] = (edge.u - a.first) << scale | edge.v;
	at += __popc(outs);
	if (back && at + __popc(backs & before) < a.nr_max)
		a.key[at + __popc(backs & before)] = (edge.v - a.first) << scale | edge.u;
}

static __global__ void __launch_bounds__(BLOCK)
	keep_kernel(const __grid_constant__ struct graph_gen_keep_args a)
{
	const uint64_t step = gridDim.x * (uint64_t)BLOCK, width = a.end - a.first;

	/* Whole warps go around together. */
	for (uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x;
	     i - threadIdx.x % LANES < a.draw.nr; i += step) {
		const struct gen_pair edge = gen_edge(&a.draw.gen, a.draw.first + i);
		const bool there = i < a.draw.nr && (a.draw.raw || edge.u != edge.v);

		keep_pair(a, edge, there && edge.u - a.first < width,
			  there && !a.draw.raw && edge.v - a.first < width);
	}
}

int graph_cuda_gen_keep(void *stream, const void *args)
{
	return cuda_launch("gen_keep", keep_kernel, 0, BLOCK, stream,
			   (const struct graph_gen_keep_args *)args);
}

/* ---- sorting */

/* What CUB says it needs; whether it takes so many keys, and has that. */
static int check_temp(const char *kernel, cudaError_t result, uint64_t nr, size_t bytes)
{
	if (result == cudaSuccess && (nr > GRAPH_GEN_KEYS_MAX || bytes > GRAPH_GEN_TEMP_BYTES(nr)))
		return cuda_launch_refused(kernel, "too many keys, or too little memory for them");
	return cuda_launch_outcome(kernel, result);
}

int graph_cuda_gen_sort(void *stream, const void *args)
{
	const struct graph_gen_sort_args *a = (const struct graph_gen_sort_args *)args;
	cub::DoubleBuffer<uint64_t> keys(a->key, a->other);
	const int nr = (int)a->nr, nr_bits = (int)a->nr_bits;
	cudaStream_t s = (cudaStream_t)stream;
	size_t bytes = 0;
	int err = cuda_launch_hold();

	if (err)
		return err;
	err = check_temp("gen_sort",
			 cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, nr, 0, nr_bits, s),
			 a->nr, bytes);
	if (!err)
		err = cuda_launch_outcome(
			"gen_sort",
			cub::DeviceRadixSort::SortKeys(a->temp, bytes, keys, nr, 0, nr_bits, s));
	if (!err && keys.Current() != a->key)
		err = cuda_launch_outcome("gen_sort", cudaMemcpyAsync(a->key, keys.Current(),
								      a->nr * sizeof(*a->key),
								      cudaMemcpyDeviceToDevice, s));
	return err;
}

int graph_cuda_gen_unique(void *stream, const void *args)
{
	const struct graph_gen_unique_args *a = (const struct graph_gen_unique_args *)args;
	const int nr = (int)a->nr;
	cudaStream_t s = (cudaStream_t)stream;
	size_t bytes = 0;
	int err = cuda_launch_hold();

	if (err)
		return err;
	err = check_temp(
		"gen_unique",
		cub::DeviceSelect::Unique(nullptr, bytes, a->key, a->out, a->nr_out, nr, s), a->nr,
		bytes);
	if (!err)
		err = cuda_launch_outcome("gen_unique",
					  cub::DeviceSelect::Unique(a->temp, bytes, a->key, a->out,
								    a->nr_out, nr, s));
	return err;
}

/* ---- lists */

static __global__ void __launch_bounds__(BLOCK)
	lists_kernel(const __grid_constant__ struct graph_gen_lists_args a)
{
	const uint64_t mask = (UINT64_C(1) << a.scale) - 1;

	for (uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x; i < a.nr;
	     i += gridDim.x * (uint64_t)BLOCK) {
		const uint64_t u = a.first + (a.key[i] >> a.scale), v = a.key[i] & mask;

		a.neighbour[i] = (uint32_t)v;
		if (a.weight)
			a.weight[i] = gen_weight(a.weight_key, u, v);
	}
}

int graph_cuda_gen_lists(void *stream, const void *args)
{
	return cuda_launch("gen_lists", lists_kernel, 0, BLOCK, stream,
			   (const struct graph_gen_lists_args *)args);
}

static __global__ void __launch_bounds__(BLOCK)
	offsets_kernel(const __grid_constant__ struct graph_gen_offsets_args a)
{
	for (uint64_t i = blockIdx.x * (uint64_t)BLOCK + threadIdx.x; i < a.nr_vertices;
	     i += gridDim.x * (uint64_t)BLOCK)
		a.offset[i] = a.before + graph_gen_bound(a.key, a.nr, (a.from + i) << a.scale);
}

int graph_cuda_gen_offsets(void *stream, const void *args)
{
	return cuda_launch("gen_offsets", offsets_kernel, 0, BLOCK, stream,
			   (const struct graph_gen_offsets_args *)args);
}
