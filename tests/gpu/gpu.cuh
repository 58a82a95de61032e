/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of the GCN's kernels share: opening the GPU, and data made on it. */
#ifndef WEIR_TEST_GPU_CUH
#define WEIR_TEST_GPU_CUH

#include "tests/gpu/base.cuh"

extern "C" {
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/shape.h"
}

typedef int (*run_fn)(void *stream, const void *args);

static char device_name[256];

/* Open the first GPU, load the kernels, prepare stream. */
static void gpu_begin(void)
{
	cudaDeviceProp properties;

	weir_log_set(log_print, NULL);
	name_kernels("WEIR_CUDA_KERNELS", "libweir-gcn-cuda.so");
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaFree(NULL), "the device's context");
	check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
	snprintf(device_name, sizeof(device_name), "%s", properties.name);
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	if (gcn_cuda_load() || gcn_cuda_prepare(stream))
		die("kernels", "not to be had");
}

/* Memory full of a number that shows where it is not overwritten. */
static void *gpu_alloc(size_t bytes)
{
	void *p;

	check(cudaMalloc(&p, bytes), "cudaMalloc");
	fill_now(p, 0x7f, bytes);
	return p;
}

static unsigned int grid(uint64_t nr)
{
	return nr / 256 < 65535 ? (unsigned int)(nr / 256) + 1 : 65535;
}

/* A value that depends on where it stands; whole, so that it can be added. */
__device__ static float value_at(uint64_t i)
{
	return (float)(int64_t)((i * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 1001) - 500;
}

__global__ void fill_values(float *x, uint64_t nr)
{
	for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < nr; i += gridDim.x * 256ull)
		x[i] = value_at(i);
}

/* As shape.c cuts a layer's rows. */
static inline void cut_parts(struct gcn_linear_grad_weight_args *a)
{
	a->part_rows = (a->nr + GCN_GRAD_PARTS_MAX - 1) / GCN_GRAD_PARTS_MAX;
	if (a->part_rows < GCN_GRAD_PART_ROWS_MIN)
		a->part_rows = GCN_GRAD_PART_ROWS_MIN;
	a->nr_parts = (uint32_t)((a->nr + a->part_rows - 1) / a->part_rows);
}

#endif
