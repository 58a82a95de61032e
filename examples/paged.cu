/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Add up a table that is four times as large as the GPU memory that it may use, at places known
 * only when the kernel runs. Its warps find what is missing, make room and fetch it; no part of the
 * table is copied beforehand, and the host does nothing meanwhile but wait.
 *
 *     nvcc -std=c++17 -arch=native -I<prefix>/include examples/paged.cu -lweir
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/device.cuh>
#include <weir/paged.h>
#include <weir/paged_home.cuh>

#define NR_VALUES (64u << 20) /* 256 MiB of floats */
#define GPU_BYTES (64u << 20)

/* Each thread adds up every stride-th value. */
__global__ void sum_table(const __grid_constant__ struct weir_paged_view view, uint32_t table,
			  uint64_t nr, double *sum)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
	weir_paged_scope scope(view); /* all lanes together; it leaves on every way out */
	weir_paged_array<float> values(scope, table);
	double mine = 0;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < nr; i += stride) {
		mine += values[i];
		scope.quiesce(); /* addresses from before are not used again */
	}
	atomicAdd(sum, mine);
}

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, weir_strerror(err));
	exit(1);
}

static void print(void *, enum weir_log_level, const char *message)
{
	fprintf(stderr, "%s\n", message);
}

/* One bracket around one kernel. */
static double sum_of(struct weir_paged *pool, struct weir_stream *stream, uint32_t table)
{
	cudaStream_t native = (cudaStream_t)weir_stream_native(stream);
	struct weir_paged_view view;
	double *sum, result;

	must(cudaMallocManaged(&sum, sizeof(*sum)) != cudaSuccess, "cudaMallocManaged");
	*sum = 0;
	must(weir_paged_begin(pool, stream, &view), "weir_paged_begin");
	sum_table<<<1024, 256, 0, native>>>(view, table, NR_VALUES, sum);
	must(cudaGetLastError() != cudaSuccess, "sum_table");
	must(weir_paged_end(pool, stream), "weir_paged_end");
	must(weir_paged_sync(pool), "weir_paged_sync"); /* and what the kernel did wrong */
	result = *sum;
	cudaFree(sum);
	return result;
}

int main(void)
{
	struct weir_paged_config config = {};
	struct weir_paged_range_config range = {};
	struct weir_paged_stats stats;
	struct weir_machine *machine;
	struct weir_stream *stream;
	struct weir_paged *pool;
	uint32_t table;
	void *host;

	weir_log_set(print, NULL);
	must(weir_machine_cuda(NULL, &machine), "weir_machine_cuda");
	must(weir_stream_create(machine, 0, &stream), "weir_stream_create");
	config.gpu_bytes = GPU_BYTES;
	config.kernels = &weir_paged_kernels_cuda;
	must(weir_paged_create(machine, &config, &pool), "weir_paged_create");
	range.bytes = NR_VALUES * sizeof(float);
	range.read_only = 1;
	range.name = "table";
	must(weir_paged_range_add(pool, &range, &table, &host), "weir_paged_range_add");
	for (uint32_t i = 0; i < NR_VALUES; i++)
		((float *)host)[i] = (float)(i % 3);
	printf("sum: %.0f, and %.0f it should be\n", sum_of(pool, stream, table),
	       (double)(NR_VALUES / 3) * 3 + (NR_VALUES % 3 == 2));
	must(weir_paged_query(pool, &stats), "weir_paged_query");
	printf("pages that came in: %llu; accesses to the host's memory: %llu\n",
	       (unsigned long long)stats.range[table].nr[WEIR_PAGED_IN],
	       (unsigned long long)stats.range[table].nr[WEIR_PAGED_IN_PLACE]);
	weir_paged_destroy(pool);
	weir_stream_destroy(stream);
	weir_machine_close(machine);
	return 0;
}
