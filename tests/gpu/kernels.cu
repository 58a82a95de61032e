/* SPDX-License-Identifier: Apache-2.0 */
/* The test kernels for real GPUs: see kernels.h. They are for being right, not for being fast. */
#include <cstdio>
#include <cerrno>

#include "tests/gpu/kernels.h"

#define BLOCK 256u
#define GRID_MAX 1024u
#define CHURN_GRID_MAX 64u /* it takes long, and leaves most of the GPU to others */

/* ------------------------------------------------------------------ kernels */

/* This thread's elements: i, i + step, ... */
#define FOR_EACH(i, nr)                                                              \
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < (nr); \
	     i += gridDim.x * (uint64_t)blockDim.x)

/* Nanoseconds of a clock that all multiprocessors share. */
__device__ static uint64_t clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

__global__ static void cells_kernel(const __grid_constant__ struct test_cells_args a)
{
	uint32_t nr_wrong = 0;

	FOR_EACH(i, a.words * a.nr)
	{
		struct test_cell cell = a.cell[i / a.words];
		const uint64_t *as = (a.as ? a.as : a.addr) + i;
		uint64_t *at = a.addr + i;

		if (cell.expect)
			nr_wrong += *at != test_word_at(cell.expect, as);
		if (cell.put)
			*at = test_word_at(cell.put, as);
	}
	if (nr_wrong)
		atomicAdd(a.nr_wrong, nr_wrong);
}

__global__ static void fill_kernel(struct test_fill_args a)
{
	FOR_EACH(i, a.nr)
	a.out[i] = test_word(a.seed, i);
}

__global__ static void add_kernel(struct test_add_args a)
{
	FOR_EACH(i, a.bytes)
	a.out[i] = (uint8_t)(a.in[i] + a.add);
}

__global__ static void churn_kernel(struct test_churn_args a)
{
	for (uint32_t round = 0; round < a.rounds; round++)
		FOR_EACH(i, a.nr)
		{
			volatile uint64_t *at = a.data + i;

			*at = *at + a.add;
		}
}

__global__ static void checksum_kernel(struct test_checksum_args a)
{
	unsigned long long sum = 0;

	FOR_EACH(i, a.nr)
	sum += test_checksum_of(a.in[i], i);
	atomicAdd((unsigned long long *)a.sum, sum);
}

__global__ static void gather_kernel(struct test_gather_args a)
{
	FOR_EACH(i, a.nr)
	a.out[i] = a.in[test_word(a.seed, i) % a.nr_in];
}

__global__ static void gate_kernel(struct test_gate_args a)
{
	volatile uint32_t *word = a.word;
	uint64_t end = clock_ns() + a.most_ns;

	while (!word[0])
		if (clock_ns() > end) {
			word[1] = 1;
			break;
		}
}

__global__ static void spin_kernel(struct test_spin_args a)
{
	uint64_t end = clock_ns() + a.ns;

	while (clock_ns() < end)
		;
}

__global__ static void count_kernel(struct test_count_args a)
{
	FOR_EACH(i, a.nr)
	atomicAdd_system((unsigned long long *)&a.at[i], (unsigned long long)a.add);
}

__global__ static void rally_kernel(struct test_rally_args a)
{
	for (uint32_t turn = 0; turn < a.turns; turn++) {
		uint64_t end = clock_ns() + a.most_ns;

		while (atomicAdd_system(&a.ball[0], 0u) % 2 != a.player)
			if (clock_ns() > end) {
				atomicExch_system(&a.ball[1], 1u);
				return;
			}
		__threadfence_system();
		atomicAdd_system(&a.ball[0], 1u);
	}
}

__global__ static void poke_kernel(struct test_poke_args a)
{
	*(volatile uint8_t *)a.addr = a.value;
}

/* ------------------------------------------------------------------ launching */

static thread_local char error_text[256];

const char *test_cuda_error(void)
{
	return error_text;
}

uint64_t test_cuda_abi(void)
{
	return test_cuda_abi_here();
}

static int outcome(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return 0;
	cudaGetLastError(); /* a later launch is not to report it again */
	snprintf(error_text, sizeof(error_text), "%s: %s (%s)", what, cudaGetErrorString(result),
		 cudaGetErrorName(result));
	return -EIO;
}

int test_cuda_prepare(void)
{
	cudaFuncAttributes attributes;
	int err = 0;

#define LOAD(name) \
	err = err ? err : outcome(cudaFuncGetAttributes(&attributes, name##_kernel), #name);
	TEST_KERNELS(LOAD)
#undef LOAD
	return err;
}

/* Queue a kernel of one argument for so many elements, in most blocks at most. */
static int launch(void *stream, const void *kernel, const char *name, const void *args, uint64_t nr,
		  unsigned int most)
{
	uint64_t blocks = nr / BLOCK + 1;
	void *parameters[] = {(void *)args};

	return outcome(cudaLaunchKernel(kernel, dim3(blocks < most ? (unsigned int)blocks : most),
					dim3(nr > 1 ? BLOCK : 1), parameters, 0,
					(cudaStream_t)stream),
		       name);
}

#define LAUNCH(name, nr, most)                                                                \
	int test_cuda_##name(void *stream, const void *args)                                  \
	{                                                                                     \
		const struct test_##name##_args *a = (const struct test_##name##_args *)args; \
                                                                                              \
		return launch(stream, (const void *)name##_kernel, #name, a, (nr), (most));   \
	}

LAUNCH(cells, a->words * a->nr, GRID_MAX)
LAUNCH(fill, a->nr, GRID_MAX)
LAUNCH(add, a->bytes, GRID_MAX)
LAUNCH(churn, a->nr, CHURN_GRID_MAX)
LAUNCH(checksum, a->nr, GRID_MAX)
LAUNCH(gather, a->nr, GRID_MAX)
LAUNCH(gate, 1, 1)
LAUNCH(spin, 1, 1)
LAUNCH(count, a->nr, GRID_MAX)
LAUNCH(rally, 1, 1)
LAUNCH(poke, 1, 1)
