/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the CUDA kernels of the GCN workload are on a real GPU, at the sizes of a training.
 *
 *   bench_gcn_kernels [NODES]
 *
 * One line of JSON a kernel: bytes is what the launch's uses declare, share its rate beside that
 * of the baseline, the last line before it that has a share of 1: a plain copy, and for what is
 * used in place in the host's memory bare warps that read it in the same pattern. All samples are
 * listed.
 * 5 million nodes unless told, or as many as the GPU has room for; 2 million in place. Data that a
 * cache holds (few rows) shows the cache's rate.
 */
#include <stdint.h>

#define inline __host__ __device__ inline /* for the device too */
#include "workloads/gcn/rng.h"
#undef inline

#include "tests/gpu/gpu.cuh"

#define WARM_UPS 3
#define SAMPLES 15

static double baseline_gb_s; /* 0: what is measured next is it */

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Time a launch; one line of JSON. bytes: what its uses declare. */
static double measure(const char *name, run_fn run, const void *args, uint64_t rows, uint32_t width,
		      double bytes, double ops)
{
	cudaEvent_t begin, end;
	float ms[SAMPLES];
	double gb_s;

	check(cudaEventCreate(&begin), "cudaEventCreate");
	check(cudaEventCreate(&end), "cudaEventCreate");
	for (int i = 0; i < WARM_UPS + SAMPLES; i++) {
		check(cudaEventRecord(begin, stream), name);
		if (run(stream, args))
			die(name, "does not run");
		check(cudaEventRecord(end, stream), name);
		check(cudaEventSynchronize(end), name);
		if (i >= WARM_UPS)
			check(cudaEventElapsedTime(&ms[i - WARM_UPS], begin, end), name);
	}
	check(cudaEventDestroy(begin), "cudaEventDestroy");
	check(cudaEventDestroy(end), "cudaEventDestroy");
	printf("{\"kernel\": \"%s\", \"rows\": %llu, \"width\": %u, \"bytes\": %.0f, \"s\": [",
	       name, (unsigned long long)rows, width, bytes);
	for (int i = 0; i < SAMPLES; i++)
		printf("%s%.4e", i ? ", " : "", ms[i] / 1e3);
	qsort(ms, SAMPLES, sizeof(ms[0]), by_value);
	gb_s = bytes / ms[SAMPLES / 2] / 1e6;
	printf("], \"s_min\": %.4e, \"s_median\": %.4e, \"s_p99\": %.4e, \"gb_s\": %.1f, "
	       "\"share\": %.3f, \"tflop_s\": %.2f, \"device\": \"%s\", \"version\": "
	       "\"%s\"}\n",
	       ms[0] / 1e3, ms[SAMPLES / 2] / 1e3, ms[SAMPLES - 1] / 1e3, gb_s,
	       baseline_gb_s > 0 ? gb_s / baseline_gb_s : 1, ops / ms[SAMPLES / 2] / 1e9,
	       device_name, weir_version());
	return gb_s;
}

struct copy_args {
	void *out;
	const void *in;
	size_t bytes;
};

static int run_copy(void *s, const void *args)
{
	const struct copy_args *a = (const struct copy_args *)args;

	return cudaMemcpyAsync(a->out, a->in, a->bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)s);
}

/* Matrices of a training of nodes, for all measurements; index entries point to nodes. */
struct bench {
	uint64_t nodes, slice;
	float *h1, *h2, *h3;	 /* nodes x 256 */
	float *rows, *scaled;	 /* slice x 256 */
	float *weight, *partial; /* small matrices */
	int64_t *index, *label;	 /* slice, nodes */
	uint8_t *mask;		 /* nodes x 256 */
	double *loss;
};

static void bench_aggregation(const struct bench *b, uint32_t width)
{
	double row = 4.0 * width, nr = (double)b->slice;
	struct gcn_gather_args gather = {NULL, b->index, b->h1, b->rows, b->slice, width};
	struct gcn_scale_args scale = {NULL, b->rows, b->weight, b->scaled, b->slice, width};
	struct gcn_scatter_add_args scatter = {NULL,	 b->index, b->scaled, b->h2,
					       b->slice, b->nodes, width};

	measure("gather", gcn_cuda_run_gather, &gather, b->slice, width, nr * (8 + 2 * row), 0);
	measure("scale", gcn_cuda_run_scale, &scale, b->slice, width, nr * (4 + 2 * row), 0);
	measure("scatter_add", gcn_cuda_run_scatter_add, &scatter, b->slice, width,
		nr * (8 + 3 * row), 0);
}

static void bench_elements(const struct bench *b)
{
	uint64_t nr = b->nodes * 256;
	double n = (double)nr;
	struct gcn_zero_args zero = {NULL, b->h3, nr * 4};
	struct gcn_relu_args relu = {NULL, b->h1, b->h2, nr};
	struct gcn_relu_grad_args relu_grad = {NULL, b->h2, b->h1, b->h3, nr};
	struct gcn_dropout_args dropout = {NULL, b->h1, b->h2, b->mask, nr, 12345};
	struct gcn_dropout_grad_args dropout_grad = {NULL, b->h1, b->mask, b->h2, nr};
	struct gcn_adam_args adam = {NULL,	     b->h1, b->h2, b->h3, b->rows,
				     b->slice * 256, 1e-9,  1e-9f, 1e-9f};

	measure("zero", gcn_cuda_run_zero, &zero, b->nodes, 256, n * 4, 0);
	measure("relu", gcn_cuda_run_relu, &relu, b->nodes, 256, n * 8, 0);
	measure("relu_grad", gcn_cuda_run_relu_grad, &relu_grad, b->nodes, 256, n * 12, 0);
	measure("dropout", gcn_cuda_run_dropout, &dropout, b->nodes, 256, n * 9, 0);
	measure("dropout_grad", gcn_cuda_run_dropout_grad, &dropout_grad, b->nodes, 256, n * 9, 0);
	measure("adam", gcn_cuda_run_adam, &adam, b->slice, 256, (double)adam.nr * 28, 0);
}

static void bench_layer(const struct bench *b, uint32_t width_in, uint32_t width_out)
{
	double n = (double)b->nodes, ops = 2 * n * width_in * width_out;
	double in = 4 * n * width_in, out = 4 * n * width_out;
	struct gcn_linear_args linear = {NULL,	b->h1,	  b->weight, b->partial,
					 b->h2, b->nodes, width_in,  width_out};
	struct gcn_linear_grad_in_args grad_in = {NULL,	    b->h1,    b->weight, b->h2,
						  b->nodes, width_in, width_out};
	struct gcn_linear_grad_weight_args grad_weight = {};

	grad_weight.in = b->h1;
	grad_weight.grad_out = b->h2;
	grad_weight.partial = b->partial;
	grad_weight.grad_weight = b->scaled;
	grad_weight.grad_bias = b->scaled + (uint64_t)width_in * width_out;
	grad_weight.nr = b->nodes;
	grad_weight.width_in = width_in;
	grad_weight.width_out = width_out;
	cut_parts(&grad_weight);
	measure("linear", gcn_cuda_run_linear, &linear, b->nodes, width_out, in + out, ops);
	measure("linear_grad_in", gcn_cuda_run_linear_grad_in, &grad_in, b->nodes, width_out,
		in + out, ops);
	measure("linear_grad_weight", gcn_cuda_run_linear_grad_weight, &grad_weight, b->nodes,
		width_out, in + out, ops);
}

/* A tenth of the nodes trains. Labels are 0: they lie at random all the same. */
static void bench_loss(const struct bench *b)
{
	uint64_t nr = b->nodes / 10 < b->slice ? b->nodes / 10 : b->slice;
	double n = (double)nr;
	struct gcn_select_args select = {NULL, b->mask, b->index, b->nodes, nr};
	struct gcn_loss_args loss = {NULL, b->rows, b->index, b->label, b->scaled, b->loss, nr, 10};
	struct gcn_loss_grad_args loss_grad = {NULL,	b->scaled, b->index, b->label,
					       b->rows, nr,	   10};
	struct gcn_accuracy_args accuracy = {NULL, b->rows, b->index, b->label, (uint64_t *)b->loss,
					     nr,   10};

	measure("loss", gcn_cuda_run_loss, &loss, nr, 10, n * (16 + 80), 0);
	measure("loss_grad", gcn_cuda_run_loss_grad, &loss_grad, nr, 10, n * (16 + 80), 0);
	measure("accuracy", gcn_cuda_run_accuracy, &accuracy, nr, 10, n * (16 + 40), 0);
	fill_now(b->mask, 0, b->nodes);
	fill_now(b->mask, 1, nr);
	measure("select", gcn_cuda_run_select, &select, b->nodes, 1, (double)b->nodes + 8 * n, 0);
}

__global__ void fill_random_index(int64_t *x, uint64_t nr, uint64_t below)
{
	for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < nr; i += gridDim.x * 256ull)
		x[i] = (int64_t)(__umul64hi(gcn_rng_bits(2025, i), below));
}

/* ---- in place */

#define IN_PLACE_NODES UINT64_C(2000000)

/* Rows of 256 floats, read by a warp each, four at a time; index: NULL: in order. */
__global__ void __launch_bounds__(256)
	bare_read(const int64_t *index, const float4 *src, float *out, uint64_t nr)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t warps = gridDim.x * 8ull;
	float sum = 0;

	for (uint64_t row = blockIdx.x * 8 + threadIdx.x / 32; row < nr; row += 4 * warps) {
		float4 x[4][2];

#pragma unroll
		for (uint32_t r = 0; r < 4; r++) {
			const uint64_t at = min(row + r * warps, nr - 1);
			const float4 *from = src + (index ? (uint64_t)index[at] : at) * 64 + lane;

			x[r][0] = from[0];
			x[r][1] = from[32];
		}
#pragma unroll
		for (uint32_t r = 0; r < 4; r++)
			sum += x[r][0].x + x[r][0].w + x[r][1].y + x[r][1].z;
	}
	if (sum == 0.12345f) /* never: that the loads are not left out */
		*out = sum;
}

static int run_bare_read(void *s, const void *args)
{
	const struct gcn_gather_args *a = (const struct gcn_gather_args *)args;

	bare_read<<<2048, 256, 0, (cudaStream_t)s>>>(a->index, (const float4 *)a->src, a->out,
						     a->nr);
	return cudaGetLastError() != cudaSuccess;
}

static float *host_alloc(size_t bytes)
{
	void *p;

	check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "cudaHostAlloc");
	return (float *)p;
}

/* The zerocopy manager's kernels, on matrices in the host's memory. */
static void bench_in_place(const struct bench *of)
{
	struct bench b = *of;
	uint64_t nr;
	double row = 1024;

	if (b.nodes > IN_PLACE_NODES)
		b.nodes = IN_PLACE_NODES;
	if (b.slice > b.nodes)
		b.slice = b.nodes;
	nr = b.nodes * 256;
	b.h1 = host_alloc(nr * 4);
	b.h2 = host_alloc(nr * 4);
	fill_values<<<grid(nr), 256>>>(b.h1, nr);
	fill_values<<<grid(nr), 256>>>(b.h2, nr);
	fill_random_index<<<grid(b.slice), 256>>>(b.index, b.slice, b.nodes);
	check(cudaDeviceSynchronize(), "fill");
	{
		struct gcn_gather_args bare = {NULL, NULL, b.h1, (float *)b.loss, b.nodes, 256};
		struct gcn_relu_args relu = {NULL, b.h1, b.h3, nr};
		struct gcn_scale_args scale = {NULL, b.h1, b.weight, b.scaled, b.slice, 256};
		struct gcn_zero_args zero = {NULL, b.h2, nr * 4};

		baseline_gb_s = 0;
		baseline_gb_s = measure("in place, in order: bare warps", run_bare_read, &bare,
					b.nodes, 256, (double)b.nodes * row, 0);
		measure("in place: relu, reads", gcn_cuda_run_relu, &relu, b.nodes, 256,
			(double)b.nodes * row, 0);
		measure("in place: scale, reads", gcn_cuda_run_scale, &scale, b.slice, 256,
			(double)b.slice * row, 0);
		measure("in place: zero, writes", gcn_cuda_run_zero, &zero, b.nodes, 256,
			(double)b.nodes * row, 0);
	}
	{
		struct gcn_gather_args gather = {NULL, b.index, b.h1, b.rows, b.slice, 256};
		struct gcn_gather_args bare = {NULL, b.index, b.h1, (float *)b.loss, b.slice, 256};
		struct gcn_scatter_add_args scatter = {NULL,	b.index, b.scaled, b.h2,
						       b.slice, b.nodes, 256};
		double bytes = (double)b.slice * row;

		baseline_gb_s = 0;
		baseline_gb_s = measure("in place, at random: bare warps", run_bare_read, &bare,
					b.slice, 256, bytes, 0);
		measure("in place: gather, reads", gcn_cuda_run_gather, &gather, b.slice, 256,
			bytes, 0);
		/* Read and written: each way is counted once. */
		measure("in place: scatter_add, updates", gcn_cuda_run_scatter_add, &scatter,
			b.slice, 256, bytes, 0);
	}
	check(cudaFreeHost(b.h1), "cudaFreeHost");
	check(cudaFreeHost(b.h2), "cudaFreeHost");
}

static void bench_fill(const struct bench *b)
{
	fill_values<<<grid(b->nodes * 256), 256>>>(b->h1, b->nodes * 256);
	fill_values<<<grid(b->nodes * 256), 256>>>(b->h2, b->nodes * 256);
	fill_values<<<grid(b->nodes * 256), 256>>>(b->h3, b->nodes * 256);
	fill_values<<<grid(b->slice * 256), 256>>>(b->rows, b->slice * 256);
	fill_values<<<grid(b->slice * 256), 256>>>(b->scaled, b->slice * 256);
	fill_values<<<grid(b->slice), 256>>>(b->weight, b->slice);
	fill_random_index<<<grid(b->slice), 256>>>(b->index, b->slice, b->nodes);
	fill_now(b->label, 0, b->nodes * 8);
	check(cudaDeviceSynchronize(), "fill");
}

static void bench_run(uint64_t nodes)
{
	struct bench b = {};
	struct copy_args copy;
	size_t free_bytes, total_bytes;

	check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
	while (nodes > 1000 && nodes * (3 * 1024 + 256 + 8) + ((size_t)6 << 30) > free_bytes)
		nodes /= 2;
	b.nodes = nodes;
	b.slice = nodes < 2000000 ? nodes : 2000000;
	b.h1 = (float *)gpu_alloc(nodes * 1024);
	b.h2 = (float *)gpu_alloc(nodes * 1024);
	b.h3 = (float *)gpu_alloc(nodes * 1024);
	b.rows = (float *)gpu_alloc(b.slice * 1024);
	b.scaled = (float *)gpu_alloc(b.slice * 1024);
	b.weight = (float *)gpu_alloc((b.slice > 65536 ? b.slice : 65536) * 4);
	b.partial = (float *)gpu_alloc(GCN_GRAD_PARTS_MAX * (size_t)129 * 256 * 4);
	b.index = (int64_t *)gpu_alloc(b.slice * 8);
	b.label = (int64_t *)gpu_alloc(nodes * 8);
	b.mask = (uint8_t *)gpu_alloc(nodes * 256);
	b.loss = (double *)gpu_alloc(8 * (1 + GCN_LOSS_PARTS));
	bench_fill(&b);

	copy.out = b.h2;
	copy.in = b.h1;
	copy.bytes = nodes * 1024;
	baseline_gb_s = measure("copy", run_copy, &copy, nodes, 256, 2 * (double)copy.bytes, 0);
	bench_aggregation(&b, 256);
	bench_aggregation(&b, 10);
	bench_elements(&b);
	bench_fill(&b); /* what Adam and ReLU left is not what others should compute with */
	bench_layer(&b, 128, 256);
	bench_layer(&b, 256, 10);
	bench_fill(&b);
	bench_loss(&b);
	bench_fill(&b);
	bench_in_place(&b);
}

int main(int argc, char **argv)
{
	uint64_t nodes = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;

	if (nodes < 1000)
		die("bench_gcn_kernels", "takes a number of nodes, 1000 or more");
	gpu_begin();
	bench_run(nodes);
	gcn_cuda_forget(stream);
	return EXIT_SUCCESS;
}
