/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that measure, on a real GPU, in its own memory and in pinned host memory: each held
 * against its CPU kernel, on sizes around those of a tile, and beyond 4 GiB where there is room.
 * What they write is compared whole, what they read by its sum.
 *
 * One line a case; the exit status is 1 when one differs, 2 when it cannot run.
 */
#include "tests/gpu/base.cuh"

extern "C" {
#include "workloads/probe/cuda.h"
}

#define WORD UINT64_C(0x9e3779b97f4a7c15)

static uint32_t nr_failed;

static void report(bool good, const char *name, const char *where, uint64_t bytes)
{
	nr_failed += !good;
	printf("%-4s %-8s %-5s %llu bytes\n", good ? "ok" : "FAIL", name, where,
	       (unsigned long long)bytes);
}

static void wait_for(int queued, const char *name)
{
	if (queued)
		die(name, "not queued");
	check(cudaStreamSynchronize(stream), name);
}

/* Two buffers that the GPU works on and two that the CPU does, with the same words; a sum each. */
struct arena {
	const char *where;
	uint64_t bytes;
	char *gpu, *cpu;
	uint64_t *gpu_sum, cpu_sum;
};

static void arena_fill(struct arena *a)
{
	uint64_t *word = (uint64_t *)a->cpu;

	for (uint64_t i = 0; i < 2 * a->bytes / sizeof(*word); i++)
		word[i] = (i + 1) * WORD;
	copy_now(a->gpu, a->cpu, 2 * a->bytes, "upload");
	fill_now(a->gpu_sum, 0, sizeof(*a->gpu_sum));
	a->cpu_sum = 0;
}

/* Whether memory and sum are those of the CPU. */
static bool arena_same(struct arena *a, char *got)
{
	uint64_t sum;

	copy_now(got, a->gpu, 2 * a->bytes, "download");
	copy_now(&sum, a->gpu_sum, sizeof(sum), "download");
	return memcmp(got, a->cpu, 2 * a->bytes) == 0 && sum == a->cpu_sum;
}

static void run_stream(struct arena *a, char *got, uint64_t bytes)
{
	struct probe_read_args read_gpu = {a->gpu, a->gpu_sum, bytes, 3};
	struct probe_read_args read_cpu = {a->cpu, &a->cpu_sum, bytes, 3};
	struct probe_write_args write_gpu = {a->gpu, bytes, 77};
	struct probe_write_args write_cpu = {a->cpu, bytes, 77};
	struct probe_copy_args copy_gpu = {a->gpu, a->gpu + a->bytes, bytes};
	struct probe_copy_args copy_cpu = {a->cpu, a->cpu + a->bytes, bytes};

	arena_fill(a);
	wait_for(probe_cuda_run_read(stream, &read_gpu), "read");
	probe_kernel_read.cpu(&read_cpu);
	report(arena_same(a, got), "read", a->where, bytes);
	wait_for(probe_cuda_run_copy(stream, &copy_gpu), "copy");
	probe_kernel_copy.cpu(&copy_cpu);
	report(arena_same(a, got), "copy", a->where, bytes);
	wait_for(probe_cuda_run_write(stream, &write_gpu), "write");
	probe_kernel_write.cpu(&write_cpu);
	report(arena_same(a, got), "write", a->where, bytes);
}

static void run_pieces(struct arena *a, char *got, uint32_t piece, uint32_t nr_all, uint32_t nr)
{
	struct probe_pieces pieces = probe_pieces_of(piece, nr_all, nr, nr_all / 3 + piece);
	struct probe_gather_args gather_gpu = {a->gpu, a->gpu_sum, pieces};
	struct probe_gather_args gather_cpu = {a->cpu, &a->cpu_sum, pieces};
	struct probe_update_args update_gpu = {a->gpu, pieces};
	struct probe_update_args update_cpu = {a->cpu, pieces};
	uint64_t bytes = (uint64_t)piece * nr;

	arena_fill(a);
	wait_for(probe_cuda_run_gather(stream, &gather_gpu), "gather");
	probe_kernel_gather.cpu(&gather_cpu);
	report(arena_same(a, got), "gather", a->where, bytes);
	wait_for(probe_cuda_run_update(stream, &update_gpu), "update");
	probe_kernel_update.cpu(&update_cpu);
	report(arena_same(a, got), "update", a->where, bytes);
}

/* Floats that are small whole numbers, so that sums are exact. */
static void run_add(struct arena *a, char *got, uint32_t piece, uint32_t nr_all, uint32_t nr)
{
	struct probe_pieces pieces = probe_pieces_of(piece, nr_all, nr, nr_all / 3 + piece);
	struct probe_add_args add_gpu = {a->gpu, pieces}, add_cpu = {a->cpu, pieces};
	float *x = (float *)a->cpu;

	for (uint64_t i = 0; i < 2 * a->bytes / sizeof(*x); i++)
		x[i] = (float)(i % 1000);
	copy_now(a->gpu, a->cpu, 2 * a->bytes, "upload");
	fill_now(a->gpu_sum, 0, sizeof(*a->gpu_sum));
	a->cpu_sum = 0;
	wait_for(probe_cuda_run_add(stream, &add_gpu), "add");
	probe_kernel_add.cpu(&add_cpu);
	report(arena_same(a, got), "add", a->where, (uint64_t)piece * nr);
}

/* Far pieces from the first half of the memory that is read, near ones from the second: as many as
 * what is written holds. */
static void run_mixed(struct arena *a, char *got, uint32_t piece, uint32_t rounds)
{
	uint64_t half = a->bytes / 2;
	uint32_t nr_all = (uint32_t)(half / piece);
	struct probe_pieces far =
		probe_pieces_of(piece, nr_all - 1, PROBE_MIXED_FAR * rounds, rounds);
	struct probe_pieces near = probe_pieces_of(piece, nr_all, PROBE_MIXED_NEAR * rounds, piece);
	struct probe_mixed_args gpu = {a->gpu, a->gpu + half, a->gpu + a->bytes, far, near};
	struct probe_mixed_args cpu = {a->cpu, a->cpu + half, a->cpu + a->bytes, far, near};

	arena_fill(a);
	wait_for(probe_cuda_run_mixed(stream, &gpu), "mixed");
	probe_kernel_mixed.cpu(&cpu);
	report(arena_same(a, got), "mixed", a->where, (uint64_t)piece * PROBE_MIXED * rounds);
}

static void run_list(struct arena *a, char *got, uint32_t step, uint32_t nr)
{
	struct probe_list_args gpu = {(uint32_t *)a->gpu, nr, step};
	struct probe_list_args cpu = {(uint32_t *)a->cpu, nr, step};

	arena_fill(a);
	wait_for(probe_cuda_run_list(stream, &gpu), "list");
	probe_kernel_list.cpu(&cpu);
	report(arena_same(a, got), "list", a->where, nr * sizeof(uint32_t));
}

static void run_all(struct arena *a)
{
	static const uint64_t sizes[] = {32, 4096, 32736, 32768, 32800, 1u << 20, (16u << 20) - 32};
	char *got = (char *)malloc(2 * a->bytes);

	a->cpu = (char *)malloc(2 * a->bytes);
	if (!got || !a->cpu)
		die("buffers", "no memory");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		run_stream(a, got, sizes[i]);
	for (uint32_t piece = 32; piece <= 4096; piece *= 2)
		for (uint32_t nr = 1; (uint64_t)piece * nr <= a->bytes; nr *= 8) {
			run_pieces(a, got, piece, nr, nr);
			run_pieces(a, got, piece, nr, nr / 3 + 1);
			run_pieces(a, got, piece, nr / 8 * 7 + 1, nr / 8 * 7 + 1);
			run_add(a, got, piece, nr, nr / 3 + 1);
			run_add(a, got, piece, nr / 8 * 7 + 1, nr / 8 * 7 + 1);
		}
	for (uint32_t piece = 32; piece <= 4096; piece *= 2)
		for (uint32_t most = (uint32_t)(a->bytes / piece / 6), n = 1; n <= most; n *= 7)
			run_mixed(a, got, piece, n);
	for (uint32_t step = 1; step <= 64; step *= 2) {
		run_list(a, got, step, 1);
		run_list(a, got, step, 4099);
		run_list(a, got, step, (uint32_t)(a->bytes / sizeof(uint32_t)));
	}
	free(got);
	free(a->cpu);
}

/* Addresses beyond 32 bits: what one kernel wrote the other sums up. */
static void run_large(struct arena *a)
{
	const uint64_t bytes = UINT64_C(5) << 30, pieces_bytes = UINT64_C(4) << 30;
	struct probe_write_args write = {NULL, bytes, WORD};
	struct probe_read_args read = {NULL, a->gpu_sum, bytes, 1};
	struct probe_gather_args gather = {NULL, a->gpu_sum,
					   probe_pieces_of(32, 1u << 27, 1u << 27, 9)};
	uint64_t sum, expected = bytes / 8 * WORD + pieces_bytes / 8 * WORD;
	size_t free_bytes, total;
	char *data;

	check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
	if (free_bytes < bytes + (UINT64_C(1) << 30)) {
		printf("no room for what is beyond 4 GiB: left out\n");
		return;
	}
	check(cudaMalloc((void **)&data, bytes), "cudaMalloc");
	fill_now(a->gpu_sum, 0, sizeof(sum));
	write.out = data;
	read.in = gather.in = data;
	wait_for(probe_cuda_run_write(stream, &write), "write");
	wait_for(probe_cuda_run_read(stream, &read), "read");
	wait_for(probe_cuda_run_gather(stream, &gather), "gather");
	copy_now(&sum, a->gpu_sum, sizeof(sum), "download");
	report(sum == expected, "large", a->where, bytes);
	check(cudaFree(data), "cudaFree");
}

int main(void)
{
	struct arena own = {"own", 16u << 20, NULL, NULL, NULL, 0}, host = own;
	struct probe_empty_args empty = {0};

	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	weir_log_set(log_print, NULL);
	name_kernels("WEIR_PROBE_KERNELS", "libweir-probe-cuda.so");
	if (probe_cuda_load())
		die("kernels", "not to be had");
	check(cudaMalloc((void **)&own.gpu, 2 * own.bytes), "cudaMalloc");
	check(cudaMalloc((void **)&own.gpu_sum, sizeof(uint64_t)), "cudaMalloc");
	check(cudaMallocHost((void **)&host.gpu, 2 * host.bytes), "cudaMallocHost");
	host.gpu_sum = own.gpu_sum;
	host.where = "host";
	wait_for(probe_cuda_run_empty(stream, &empty), "empty");
	run_all(&own);
	run_all(&host);
	run_large(&own);
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
