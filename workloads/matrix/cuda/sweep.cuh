/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels on a matrix, on the GPU. One template over two ways to it, by address and paged, with
 * the same loops, width and unrolling: so what they differ by is paging.
 *
 * A warp's task is MATRIX_PIECE columns of some rows: it goes down them, MATRIX_BATCH rows at a
 * time, whose places it finds first, a lane a row. What is a column's (an element of `in`, or a
 * sum) stays in registers meanwhile, 32 a lane, what is a row's is got or added once a batch. Warps
 * that follow each other have pieces that follow each other: so whichever way sums are made, whole
 * rows are read in order, by many warps.
 */
#ifndef WEIR_MATRIX_CUDA_SWEEP_CUH
#define WEIR_MATRIX_CUDA_SWEEP_CUH

#include <stdint.h>

#include "weir/device.cuh"
#include "workloads/matrix/kernels.h"

#define LOADS (MATRIX_PIECE / 4 / 32) /* of 16 bytes, for a piece, by each lane */
#define OWN (MATRIX_PIECE / 32)	      /* columns of a lane: four together, 32 times as far apart */
#define TASKS_OF_WARP 16u	      /* at least, so that all end at about the same time */

/* ---- two ways to a matrix */

struct bare {
	const char *elements;

	__device__ void begin()
	{
	}
	/* Where a lane's row of a batch is, the first being at this offset. */
	__device__ const float4 *get(uint64_t offset, uint64_t row_bytes)
	{
		return (const float4 *)(elements + offset + threadIdx.x % 32 * row_bytes);
	}
	__device__ void put()
	{
	}
	__device__ void end()
	{
	}
};

/* Wait for all of nr_threads threads of the block that name this barrier, 1 to 15: whole warps. */
__device__ static inline void team_wait(uint32_t barrier, uint32_t nr_threads)
{
#ifdef __CUDACC__
	asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(nr_threads) : "memory");
#else
	warps_barrier(barrier, nr_threads); /* of tests without a GPU */
#endif
}

struct paged {
	const struct weir_paged_view *view;
	uint32_t range;
	struct weir_paged_warp w;
	struct weir_paged_place span; /* a lane's */

	__device__ void begin()
	{
		w = weir_paged_enter(view);
	}
	__device__ const float4 *get(uint64_t offset, uint64_t row_bytes)
	{
		const uint32_t lane = threadIdx.x % 32, nr = (1u << view->page_shift) / 4096;

		if (nr > 1)
			return get_shared(offset, row_bytes, lane, nr);
		return row_get(&span, offset + lane * row_bytes, whole());
	}
	/* All of a page is used. */
	__device__ uint32_t whole()
	{
		return PT_TOUCHES((1u << view->page_shift) / MATRIX_SECTOR_BYTES);
	}
	__device__ const float4 *row_get(struct weir_paged_place *place, uint64_t offset,
					 uint32_t op)
	{
		return (const float4 *)weir_paged_span_get(&w, range, offset, PT_READ | op, place);
	}
	/*
	 * nr warps have pieces of the same pages. Each brings in every nr-th one, and waits for the
	 * others: who came to a page on its way would read it in place. What is not there then has
	 * been left where it is. Lanes whose turn it is not get a neighbour's, too.
	 */
	__device__ const float4 *get_shared(uint64_t offset, uint64_t row_bytes, uint32_t lane,
					    uint32_t nr)
	{
		const uint32_t warp = threadIdx.x / 32, turn = lane / nr * nr + warp % nr;
		const bool mine = turn == lane;
		struct weir_paged_place first;

		row_get(&first, offset + turn * row_bytes, whole());
		if (!mine)
			weir_paged_span_put(&w, &first);
		team_wait(warp / nr + 1, nr * 32);
		row_get(&span, offset + (mine ? lane ^ 1 : lane) * row_bytes, PT_STAY);
		if (mine) {
			weir_paged_span_put(&w, &span);
			span = first;
		}
		return (const float4 *)span.addr;
	}
	__device__ void put()
	{
		weir_paged_span_put(&w, &span);
		weir_paged_quiesce(&w);
	}
	__device__ void end()
	{
		weir_paged_leave(&w);
	}
};

/* ---- loops */

__device__ static inline void out_add(int64_t *out, int64_t value)
{
	atomicAdd((unsigned long long *)out, (unsigned long long)value);
}

/* A lane's first column of the k-th load. */
__device__ static inline uint32_t own_column(uint32_t k)
{
	return (k * 32 + threadIdx.x % 32) * 4;
}

__device__ static inline void own_load(float (&own)[OWN], const int64_t *in)
{
#pragma unroll
	for (uint32_t i = 0; i < OWN; i += 2) {
		longlong2 two = *(const longlong2 *)(in + own_column(i / 4) + i % 4);

		own[i] = (float)two.x;
		own[i + 1] = (float)two.y;
	}
}

__device__ static inline void own_add(const float (&own)[OWN], int64_t *out)
{
#pragma unroll
	for (uint32_t i = 0; i < OWN; i++)
		out_add(out + own_column(i / 4) + i % 4, (int64_t)own[i]);
}

/* Products of a piece and what a lane has of `in`, added up over the warp. */
__device__ static inline int32_t piece_dot(const float4 (&x)[LOADS], const float (&own)[OWN])
{
	float sum = 0;

#pragma unroll
	for (uint32_t k = 0; k < LOADS; k++)
		sum += x[k].x * own[4 * k] + x[k].y * own[4 * k + 1] + x[k].z * own[4 * k + 2] +
		       x[k].w * own[4 * k + 3];
	return __reduce_add_sync(~0u, (int32_t)sum);
}

__device__ static inline void piece_add(float (&own)[OWN], const float4 (&x)[LOADS], float times)
{
#pragma unroll
	for (uint32_t k = 0; k < LOADS; k++) {
		own[4 * k] += x[k].x * times;
		own[4 * k + 1] += x[k].y * times;
		own[4 * k + 2] += x[k].z * times;
		own[4 * k + 3] += x[k].w * times;
	}
}

template <bool columns, typename A>
__device__ static inline void batch_sweep(A &a, const struct matrix_args &p, uint32_t row,
					  uint32_t column, float (&own)[OWN])
{
	const uint32_t lane = threadIdx.x % 32;
	const float4 *at = a.get(((uint64_t)row * p.columns + column) * sizeof(float),
				 p.columns * sizeof(float));
	const float times = columns ? (float)p.in[row + lane] : 0;
	int32_t sum = 0; /* of a lane's row */

#pragma unroll 1
	for (uint32_t r = 0; r < MATRIX_BATCH; r++) {
		const float4 *from =
			(const float4 *)__shfl_sync(~0u, (unsigned long long)at, (int)r) + lane;
		float4 x[LOADS];

#pragma unroll
		for (uint32_t k = 0; k < LOADS; k++)
			x[k] = __ldcs(from + k * 32);
		if (columns) {
			piece_add(own, x, __shfl_sync(~0u, times, (int)r));
		} else {
			int32_t dot = piece_dot(x, own);

			sum = r == lane ? dot : sum;
		}
	}
	a.put();
	if (!columns)
		out_add(p.out + row + lane, sum);
}

/* Rows of a task: few, so that each warp has several tasks, and not more than can be added up. */
__device__ static inline uint32_t task_rows(const struct matrix_args &p)
{
	uint64_t nr_tasks = (uint64_t)gridDim.x * (blockDim.x / 32) * TASKS_OF_WARP;
	uint64_t rows = (uint64_t)p.rows * (p.columns / MATRIX_PIECE) / nr_tasks;

	return (uint32_t)min(rows / MATRIX_BATCH + 1, (uint64_t)p.exact / MATRIX_BATCH) *
	       MATRIX_BATCH;
}

template <bool columns, typename A>
__device__ static inline void sweep(A a, const struct matrix_args &p)
{
	const uint32_t nr_pieces = p.columns / MATRIX_PIECE, rows = task_rows(p);
	const uint32_t nr_tasks = (p.rows + rows - 1) / rows * nr_pieces;
	const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;

	a.begin();
	for (uint32_t task = warp; task < nr_tasks; task += gridDim.x * blockDim.x / 32) {
		const uint32_t column = task % nr_pieces * MATRIX_PIECE;
		uint32_t row = task / nr_pieces * rows;
		const uint32_t end = min(row + rows, p.rows);
		float own[OWN] = {};

		if (!columns)
			own_load(own, p.in + column);
		for (; row < end; row += MATRIX_BATCH)
			batch_sweep<columns>(a, p, row, column, own);
		if (columns)
			own_add(own, p.out + column);
	}
	a.end();
}

template <bool columns>
__global__ void __launch_bounds__(MATRIX_THREADS_MAX, 1)
	sweep_bare(const __grid_constant__ struct matrix_args p)
{
	struct bare a = {(const char *)p.elements};

	sweep<columns>(a, p);
}

template <bool columns>
__global__ void __launch_bounds__(MATRIX_THREADS_MAX, 1)
	sweep_paged(const __grid_constant__ struct matrix_paged_args p)
{
	struct paged a = {&p.view, p.range, {}, {}};

	sweep<columns>(a, p.matrix);
}

#endif
