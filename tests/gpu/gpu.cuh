/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs in this folder share: errors, the kernels' library, and data made on the GPU.
 */
#ifndef WEIR_TEST_GPU_CUH
#define WEIR_TEST_GPU_CUH

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/weir.h"

extern "C" {
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/shape.h"
}

typedef int (*run_fn)(void *stream, const void *args);

static cudaStream_t stream;
static char device_name[256];

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(2);
}

static void check(cudaError_t error, const char *what)
{
	if (error != cudaSuccess)
		die(what, cudaGetErrorString(error));
}

static void log_print(void *, enum weir_log_level, const char *message)
{
	fprintf(stderr, "%s\n", message);
}

/* Unless WEIR_CUDA_KERNELS names them: the programs lie in gpu/ of the build, the kernels above. */
static void name_kernels(void)
{
	char path[4096];
	ssize_t nr = readlink("/proc/self/exe", path, sizeof(path) - 64);

	if (nr <= 0)
		return;
	path[nr] = '\0';
	strcpy(strrchr(path, '/'), "/../libweir-gcn-cuda.so");
	setenv("WEIR_CUDA_KERNELS", path, 0);
}

/* Open the first GPU, load the kernels, prepare stream. */
static void gpu_begin(void)
{
	cudaDeviceProp properties;

	weir_log_set(log_print, NULL);
	name_kernels();
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
	check(cudaMemset(p, 0x7f, bytes), "cudaMemset");
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
