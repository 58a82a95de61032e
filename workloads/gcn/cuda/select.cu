/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows that a mask selects, in order: the same list as the CPU's.
 *
 * Each block has a run of the mask. One launch counts what is selected in each run; another begins
 * to write where the counts of all runs before end. The mask is read twice, but for runs where
 * nothing is selected. The counts lie in the stream's scratch: one a block, whatever the mask.
 */
#include "workloads/gcn/cuda/launch.cuh"

#define WARPS (BLOCK / 32)
#define LANE_BYTES 16u /* of the mask, that a thread looks at together */
#define STEP_BYTES (BLOCK * LANE_BYTES)

/* Bit k: byte i + k of the mask is not 0, k < 16; bytes from end on count as 0. */
__device__ static uint32_t selected(const uint8_t *mask, uint64_t i, uint64_t end)
{
	uint32_t bits = 0;

	if (i < end && end - i >= LANE_BYTES && (uintptr_t)(mask + i) % LANE_BYTES == 0) {
		uint4 bytes = __ldcs((const uint4 *)(mask + i));
		uint32_t words[] = {bytes.x, bytes.y, bytes.z, bytes.w};

		/* The product moves the lowest bits of four bytes to the top, side by side. */
#pragma unroll
		for (uint32_t w = 0; w < 4; w++)
			bits |= ((__vcmpne4(words[w], 0) & 0x01010101u) * 0x10204080u >> 28)
				<< 4 * w;
		return bits;
	}
#pragma unroll 1
	for (uint32_t k = 0; k < LANE_BYTES && i + k < end; k++)
		bits |= (uint32_t)(mask[i + k] != 0) << k;
	return bits;
}

/* Of all threads, to all threads. shared: WARPS, free to use again after the next barrier. */
__device__ static uint64_t block_sum(uint64_t mine, uint64_t *shared)
{
	uint64_t sum = 0;

	for (uint32_t offset = 16; offset > 0; offset /= 2)
		mine += __shfl_xor_sync(~0u, mine, offset);
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = mine;
	__syncthreads();
	for (uint32_t warp = 0; warp < WARPS; warp++)
		sum += shared[warp];
	return sum;
}

/* The sum of the threads before this one; total gets that of all. shared as above. */
__device__ static uint32_t block_scan(uint32_t mine, uint32_t *shared, uint32_t *total)
{
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	uint32_t sum = mine, before = 0;

	for (uint32_t offset = 1; offset < 32; offset *= 2) {
		uint32_t other = __shfl_up_sync(~0u, sum, offset);

		sum += lane >= offset ? other : 0;
	}
	if (lane == 31)
		shared[warp] = sum;
	__syncthreads();
	*total = 0;
	for (uint32_t w = 0; w < WARPS; w++) {
		before += w < warp ? shared[w] : 0;
		*total += shared[w];
	}
	return before + sum - mine;
}

struct select_run {
	uint64_t first, end;
};

__device__ static struct select_run run_of_block(uint64_t run_bytes, uint64_t nr)
{
	const uint64_t first = blockIdx.x * run_bytes;
	struct select_run run = {first, min(first + run_bytes, nr)};

	return run;
}

__global__ void __launch_bounds__(BLOCK)
	select_count_kernel(const uint8_t *mask, uint64_t nr, uint64_t run_bytes, uint64_t *count)
{
	__shared__ uint64_t shared[WARPS];
	const struct select_run run = run_of_block(run_bytes, nr);
	uint64_t mine = 0, sum;

#pragma unroll 1
	for (uint64_t i = run.first + threadIdx.x * LANE_BYTES; i < run.end; i += STEP_BYTES)
		mine += __popc(selected(mask, i, run.end));
	sum = block_sum(mine, shared);
	if (threadIdx.x == 0)
		count[blockIdx.x] = sum;
}

/* Positions go through shared memory, so that neighbours write side by side. */
__global__ void __launch_bounds__(BLOCK)
	select_write_kernel(const uint8_t *mask, uint64_t nr, uint64_t run_bytes,
			    const uint64_t *count, int64_t *index, uint64_t nr_index)
{
	__shared__ uint64_t shared_sum[WARPS];
	__shared__ uint32_t shared_scan[WARPS];
	__shared__ uint16_t position[STEP_BYTES];
	const struct select_run run = run_of_block(run_bytes, nr);
	uint64_t to = 0;

	for (uint32_t i = threadIdx.x; i < blockIdx.x; i += BLOCK)
		to += count[i];
	to = block_sum(to, shared_sum);
	if (count[blockIdx.x] == 0)
		return;
	for (uint64_t first = run.first; first < run.end && to < nr_index; first += STEP_BYTES) {
		const uint32_t in_step = threadIdx.x * LANE_BYTES;
		uint32_t bits = selected(mask, first + in_step, run.end), total;
		uint32_t place = block_scan(__popc(bits), shared_scan, &total);

		for (; bits; bits &= bits - 1)
			position[place++] = (uint16_t)(in_step + __ffs(bits) - 1);
		__syncthreads();
		for (uint32_t i = threadIdx.x; i < total && to + i < nr_index; i += BLOCK)
			__stcs((long long *)index + to + i, (long long)(first + position[i]));
		to += total;
		__syncthreads();
	}
}

int gcn_cuda_select(void *stream, const void *args)
{
	const struct gcn_select_args *a = (const struct gcn_select_args *)args;
	uint64_t run_bytes =
		div_round_up(div_round_up(a->nr, SCRATCH_WORDS), STEP_BYTES) * STEP_BYTES;
	struct gcn_cuda_stream s;
	unsigned int grid;
	int ret;

	if (a->nr == 0)
		return 0;
	ret = gcn_cuda_stream_get(stream, false, &s);
	if (ret)
		return ret;
	grid = (unsigned int)div_round_up(a->nr, run_bytes);
	select_count_kernel<<<grid, BLOCK, 0, (cudaStream_t)stream>>>(a->mask, a->nr, run_bytes,
								      s.scratch);
	select_write_kernel<<<grid, BLOCK, 0, (cudaStream_t)stream>>>(
		a->mask, a->nr, run_bytes, s.scratch, a->index, a->nr_index);
	return gcn_cuda_launched("select");
}
