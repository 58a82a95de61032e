/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of tests/fakecuda/fakecuda.h for a real GPU, so that the random programs run there:
 *
 *   nvcc -ptx -arch=sm_90 tests/dropin/random/kernels.cu -o kernels.ptx
 *   CUDA_MODULE_LOADING=EAGER weir run --mode fast --gpu-budget 16MiB -- \
 *       build/tests/dropin/random --kernels kernels.ptx --bytes 50331648 --seeds 20
 *
 * Kernels are all loaded at first, since one that waits for another must not keep that from being
 * loaded.
 */
#include <cstdint>

#define FOR_EACH(i, nr)                                                              \
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < (nr); \
	     i += gridDim.x * (uint64_t)blockDim.x)
#define ALONE (!blockIdx.x && !threadIdx.x)

extern "C" {

__device__ const uint32_t *table;

__global__ void fill(uint32_t *dst, uint64_t nr, uint32_t value)
{
	FOR_EACH(i, nr)
	{
		dst[i] = value;
	}
}

__global__ void copy(uint32_t *dst, const uint32_t *src, uint64_t nr)
{
	FOR_EACH(i, nr)
	{
		dst[i] = src[i];
	}
}

__global__ void add(uint32_t *dst, const uint32_t *a, const uint32_t *b, uint64_t nr)
{
	FOR_EACH(i, nr)
	{
		dst[i] = a[i] + b[i];
	}
}

/* One thread adds them up: this is for being right, not for being fast. */
__global__ void sum(uint32_t *out, const uint32_t *src, uint64_t nr)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; ALONE && i < nr; i++)
		sum += src[i];
	if (ALONE)
		*out = sum;
}

__global__ void gather(uint32_t *dst, const uint32_t *const *from, uint64_t nr)
{
	FOR_EACH(i, nr)
	{
		dst[i] = *from[i];
	}
}

struct node {
	const struct node *next;
	uint64_t value;
};

__global__ void list_sum(uint32_t *out, const struct node *node, uint64_t nr)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; ALONE && node && i < nr; i++, node = node->next)
		sum += (uint32_t)node->value;
	if (ALONE)
		*out = sum;
}

__global__ void load_table(uint32_t *dst, uint64_t nr)
{
	FOR_EACH(i, nr)
	{
		dst[i] = table[i];
	}
}

__global__ void addresses(uint64_t *dst, uint64_t base, uint64_t stride, uint64_t nr)
{
	FOR_EACH(i, nr)
	{
		dst[i] = base + i * stride;
	}
}

__global__ void wait_flag(const uint32_t *flag, uint32_t value)
{
	while (ALONE && *(const volatile uint32_t *)flag != value)
		;
}

__global__ void store_flag(uint32_t *flag, uint32_t value)
{
	if (ALONE)
		*(volatile uint32_t *)flag = value;
}

} /* extern "C" */
