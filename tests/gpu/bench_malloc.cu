/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's own allocators take for what bench_chunks measures of weir's: cudaMalloc() and
 * cudaFree(), and cudaMallocAsync() and cudaFreeAsync() with a pool that keeps everything.
 *
 * Pairs of an allocation and a free of each size, beside 8 live ones. One JSON object a line, times
 * in nanoseconds of the host.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda_runtime.h>

#define PAIRS 16u
#define SAMPLES 2000u
#define SAMPLES_PLAIN 20u /* of cudaMalloc(): tenths of a millisecond a pair */
#define WARM_UP 10u

static void check(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	fprintf(stderr, "bench_malloc: %s: %s\n", what, cudaGetErrorString(result));
	exit(1);
}

static uint64_t host_ns()
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *get(bool async, uint64_t bytes)
{
	void *p;

	if (async)
		check(cudaMallocAsync(&p, bytes, NULL), "cudaMallocAsync");
	else
		check(cudaMalloc(&p, bytes), "cudaMalloc");
	return p;
}

static void put(bool async, void *p)
{
	if (async)
		check(cudaFreeAsync(p, NULL), "cudaFreeAsync");
	else
		check(cudaFree(p), "cudaFree");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static const char *name_of(bool async)
{
	return async ? "cudaMallocAsync" : "cudaMalloc";
}

static void measure_hit(bool async, uint64_t bytes)
{
	static double sample[SAMPLES];
	unsigned nr = async ? SAMPLES : SAMPLES_PLAIN;
	void *others[8];

	for (int i = 0; i < 8; i++)
		others[i] = get(async, bytes);
	for (unsigned i = 0; i < WARM_UP + nr; i++) {
		uint64_t start = host_ns();

		for (unsigned p = 0; p < PAIRS; p++)
			put(async, get(async, bytes));
		if (i >= WARM_UP)
			sample[i - WARM_UP] = (double)(host_ns() - start) / PAIRS;
	}
	for (int i = 0; i < 8; i++)
		put(async, others[i]);
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	qsort(sample, nr, sizeof(sample[0]), by_value);
	printf("{\"test\":\"hit\",\"allocator\":\"%s\",\"bytes\":%llu,\"samples\":%u,"
	       "\"pair_ns\":{\"min\":%.1f,\"median\":%.1f,\"p99\":%.1f}}\n",
	       name_of(async), (unsigned long long)bytes, nr, sample[0], sample[nr / 2],
	       sample[nr - 1 - nr / 100]);
	fflush(stdout);
}

int main()
{
	static const uint64_t hit[] = {4096, 65536, 98304, 2 << 20};
	uint64_t keep = UINT64_MAX;
	cudaMemPool_t pool;

	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
	check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "threshold");
	for (int async = 0; async < 2; async++)
		for (uint64_t bytes : hit)
			measure_hit(async, bytes);
	return 0;
}
