/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What noting reads (weir/tracked.h) adds to kernels that read by an index: the same kernel with
 * plain loads, with noted ones, and with noted ones whose indexes are loaded as what the marks
 * might overwrite, which no load is moved past. Elements are at random in 256 MiB, as a graph's
 * are; rise, as in a band; follow each other; or are all in 1 KiB.
 *
 * One JSON object a line: medians, milliseconds of the GPU, and times of the plain one.
 */
#include <algorithm>
#include <vector>

#include "tests/gpu/base.cuh"
#include "weir/device.cuh"

#define ELEMENTS (1u << 26) /* floats */
#define READS (1u << 28)
#define LINES ((uint64_t)ELEMENTS * sizeof(float) / WEIR_TRACKED_LINE_BYTES)
#define SAMPLES 9
#define BLOCK 256u

enum how { PLAIN, NOTED, ORDERED, HOW_NR };
enum order { RANDOM, RISING, NEXT, FEW, ORDER_NR };

static const char *const hows[HOW_NR] = {"plain", "noted", "noted, indexes in order"};
static const char *const orders[ORDER_NR] = {"random", "rising", "next", "few"};

__global__ void indexes_fill(uint32_t *index, enum order order)
{
	uint64_t n = blockIdx.x * (uint64_t)BLOCK + threadIdx.x;
	uint32_t random = (uint32_t)((n * UINT64_C(0x9e3779b97f4a7c15)) >> 38);

	if (order == RANDOM)
		index[n] = random;
	else if (order == RISING) /* each element four times, in a neighbourhood */
		index[n] = (uint32_t)((n / 4 + n % 4 * 61) % ELEMENTS);
	else
		index[n] = order == NEXT ? n % ELEMENTS : random % 256;
}

/* Each thread adds 16 elements; a warp's reads of the indexes are coalesced. */
template <enum how how>
__global__ void gather(struct weir_tracked tracked, const uint32_t *index, float *out)
{
	const uint64_t first = blockIdx.x * (uint64_t)(16 * BLOCK) + threadIdx.x;
	float sum = 0;

#pragma unroll 4
	for (uint32_t i = 0; i < 16; i++) {
		const uint32_t *next = index + first + i * BLOCK;
		uint32_t at = how == ORDERED ? __ldcs(next) : __ldg(next);

		if (how == PLAIN)
			sum += __ldg((const float *)tracked.base + at);
		else
			sum += weir_tracked_load<float>(tracked, at);
	}
	out[blockIdx.x * BLOCK + threadIdx.x] = sum;
}

static float run(struct weir_tracked tracked, const uint32_t *index, float *out, enum how how)
{
	cudaEvent_t begin, end;
	float ms;

	check(cudaEventCreate(&begin), "cudaEventCreate");
	check(cudaEventCreate(&end), "cudaEventCreate");
	check(cudaMemsetAsync(tracked.mark, 0, LINES, stream), "cudaMemset");
	check(cudaEventRecord(begin, stream), "cudaEventRecord");
	if (how == PLAIN)
		gather<PLAIN><<<READS / 16 / BLOCK, BLOCK, 0, stream>>>(tracked, index, out);
	else if (how == NOTED)
		gather<NOTED><<<READS / 16 / BLOCK, BLOCK, 0, stream>>>(tracked, index, out);
	else
		gather<ORDERED><<<READS / 16 / BLOCK, BLOCK, 0, stream>>>(tracked, index, out);
	check(cudaGetLastError(), "gather");
	check(cudaEventRecord(end, stream), "cudaEventRecord");
	check(cudaEventSynchronize(end), "gather");
	check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
	check(cudaEventDestroy(begin), "cudaEventDestroy");
	check(cudaEventDestroy(end), "cudaEventDestroy");
	return ms;
}

int main()
{
	struct weir_tracked tracked;
	uint32_t *index;
	float *base, *out;

	check(cudaStreamCreate(&stream), "cudaStreamCreate");
	check(cudaMalloc((void **)&base, ELEMENTS * sizeof(float)), "cudaMalloc");
	check(cudaMalloc((void **)&tracked.mark, LINES), "cudaMalloc");
	check(cudaMalloc((void **)&index, READS * sizeof(*index)), "cudaMalloc");
	check(cudaMalloc((void **)&out, READS / 16 * sizeof(float)), "cudaMalloc");
	check(cudaMemset(base, 0, ELEMENTS * sizeof(float)), "cudaMemset");
	tracked.base = base;
	for (int order = 0; order < ORDER_NR; order++) {
		std::vector<float> ms[HOW_NR];

		indexes_fill<<<READS / BLOCK, BLOCK, 0, stream>>>(index, (enum order)order);
		/* In turn; the first round is for warming up. */
		for (int i = 0; i <= SAMPLES; i++)
			for (int how = 0; how < HOW_NR; how++) {
				float sample = run(tracked, index, out, (enum how)how);

				if (i)
					ms[how].push_back(sample);
			}
		for (int how = 0; how < HOW_NR; how++) {
			std::sort(ms[how].begin(), ms[how].end());
			printf("{\"indexes\":\"%s\",\"loads\":\"%s\",\"ms\":%.4f,\"times_plain\":"
			       "%.3f}\n",
			       orders[order], hows[how], ms[how][SAMPLES / 2],
			       ms[how][SAMPLES / 2] / ms[PLAIN][SAMPLES / 2]);
		}
	}
	check(cudaFree(base), "cudaFree");
	check(cudaFree(tracked.mark), "cudaFree");
	check(cudaFree(index), "cudaFree");
	check(cudaFree(out), "cudaFree");
	check(cudaStreamDestroy(stream), "cudaStreamDestroy");
	return 0;
}
