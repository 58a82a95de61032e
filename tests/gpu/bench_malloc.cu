/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's own allocators take for what bench_chunks measures of weir's: cudaMalloc() and
 * cudaFree(), and cudaMallocAsync() and cudaFreeAsync() with a pool that keeps everything.
 *
 *   bench_malloc [SEQUENCE...]
 *
 * SEQUENCE is a file of bench_chunks --write. Pairs of an allocation and a free of each size,
 * beside 8 live ones; then the sequences: all of each asynchronously, and its first operations with
 * cudaMalloc(). One JSON object a line, times in nanoseconds of the host.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

#define PAIRS 16u
#define SAMPLES 2000u
#define SAMPLES_PLAIN 20u /* of cudaMalloc(): tenths of a millisecond a pair */
#define WARM_UP 10u
#define PLAIN_OPERATIONS 20000u

struct operation {
	uint64_t bytes; /* 0: free it */
	uint32_t id;
};

struct sequence {
	struct operation *op;
	uint64_t nr, max, nr_ids;
};

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

static void sequence_read(struct sequence *s, const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long long bytes;
	unsigned id;
	char what;

	*s = sequence{};
	if (!file) {
		fprintf(stderr, "bench_malloc: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	while (fscanf(file, " %c %u", &what, &id) == 2) {
		bytes = 0;
		if (what == '+' && fscanf(file, "%llu", &bytes) != 1)
			bytes = 0;
		if ((what == '+') != (bytes > 0) || (what == '-' && id >= s->nr_ids)) {
			fprintf(stderr, "bench_malloc: %s: operation %llu is none\n", path,
				(unsigned long long)s->nr);
			exit(2);
		}
		if (s->nr == s->max) {
			s->max = s->max ? 2 * s->max : 4096;
			s->op = (struct operation *)realloc(s->op, s->max * sizeof(*s->op));
			if (!s->op)
				exit(1);
		}
		s->op[s->nr++] = operation{bytes, id};
		if (what == '+' && id >= s->nr_ids)
			s->nr_ids = id + 1u;
	}
	fclose(file);
}

static void measure_sequence(bool async, const struct sequence *s, const char *path)
{
	uint64_t nr = async || s->nr < PLAIN_OPERATIONS ? s->nr : PLAIN_OPERATIONS, start, ns;
	void **at = (void **)calloc(s->nr_ids, sizeof(void *));

	if (!at)
		exit(1);
	start = host_ns();
	for (uint64_t i = 0; i < nr; i++) {
		const struct operation *op = &s->op[i];

		if (op->bytes) {
			at[op->id] = get(async, op->bytes);
		} else {
			put(async, at[op->id]);
			at[op->id] = NULL;
		}
	}
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	ns = host_ns() - start;
	for (uint64_t i = 0; i < s->nr_ids; i++)
		if (at[i])
			put(async, at[i]);
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	printf("{\"test\":\"%s\",\"allocator\":\"%s\",\"operations\":%llu,\"mean_ns\":%.1f", path,
	       name_of(async), (unsigned long long)nr, (double)ns / (double)nr);
	if (async) {
		cudaMemPool_t pool;
		uint64_t held = 0, used = 0;

		check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
		check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &held), "high");
		check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used), "high");
		printf(",\"peak_held_bytes\":%llu,\"peak_allocated_bytes\":%llu",
		       (unsigned long long)held, (unsigned long long)used);
		held = used = 0;
		check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &held), "high");
		check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used), "high");
		check(cudaMemPoolTrimTo(pool, 0), "trim");
	}
	printf("}\n");
	fflush(stdout);
	free(at);
}

int main(int argc, char **argv)
{
	static const uint64_t hit[] = {4096, 65536, 98304, 2 << 20, 48 << 20, UINT64_C(1) << 30};
	uint64_t keep = UINT64_MAX;
	cudaMemPool_t pool;

	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
	check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "threshold");
	for (int async = 0; async < 2; async++)
		for (uint64_t bytes : hit)
			measure_hit(async, bytes);
	for (int i = 1; i < argc; i++) {
		struct sequence s;

		sequence_read(&s, argv[i]);
		measure_sequence(true, &s, argv[i]);
		measure_sequence(false, &s, argv[i]);
		free(s.op);
	}
	return 0;
}
