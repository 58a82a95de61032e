/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows nothing of weir: a stack of layers, each a square matrix, goes forth and
 * back in every step, as training does. Forth, each layer is read; back, in the reverse order, it is
 * read and written. With more layers than the GPU has memory for it ends with "out of memory", and
 * gets through as
 *
 *     nvcc -std=c++17 -arch=native examples/unmodified.cu -o unmodified
 *     weir run --gpu-budget 8GB -- ./unmodified --layers 256
 *
 * Beside it, --memory pinned holds the layers in host memory that the kernels use in place, which is
 * what a program can do by itself.
 */
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define WIDTH 4096u /* of a layer: 64 MiB of floats */
#define BATCH 8u    /* columns of what goes through */
#define THREADS 256u

static void must(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return;
	fprintf(stderr, "unmodified: %s: %s\n", what, cudaGetErrorString(err));
	exit(1);
}

/* Element i of layer l at first: small, of both signs. */
__host__ __device__ static float weight(uint64_t l, uint64_t i)
{
	uint64_t h = (l * 0x9e3779b97f4a7c15ull + i) * 0xbf58476d1ce4e5b9ull;

	return ((float)(h >> 40) / (float)(1u << 24) - 0.5f) / 64;
}

__global__ void fill(float *w, uint64_t l)
{
	uint64_t stride = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < WIDTH * WIDTH;
	     i += stride)
		w[i] = weight(l, i);
}

/* y = tanh(w x): a block for each row. */
__global__ void forth(const float *w, const float *x, float *y)
{
	__shared__ float part[THREADS][BATCH];
	float sum[BATCH] = {0};

	for (uint32_t k = threadIdx.x; k < WIDTH; k += THREADS) {
		float value = w[(uint64_t)blockIdx.x * WIDTH + k];

		for (uint32_t b = 0; b < BATCH; b++)
			sum[b] += value * x[k * BATCH + b];
	}
	for (uint32_t b = 0; b < BATCH; b++)
		part[threadIdx.x][b] = sum[b];
	for (uint32_t half = THREADS / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			for (uint32_t b = 0; b < BATCH; b++)
				part[threadIdx.x][b] += part[threadIdx.x + half][b];
	}
	if (threadIdx.x < BATCH)
		y[blockIdx.x * BATCH + threadIdx.x] = tanhf(part[0][threadIdx.x]);
}

/* w -= rate y x', a block for each row. */
__global__ void back(float *w, const float *x, const float *y)
{
	for (uint32_t k = threadIdx.x; k < WIDTH; k += THREADS) {
		float sum = 0;

		for (uint32_t b = 0; b < BATCH; b++)
			sum += y[blockIdx.x * BATCH + b] * x[k * BATCH + b];
		w[(uint64_t)blockIdx.x * WIDTH + k] -= 1e-4f * sum;
	}
}

/* Bytes as words, so that two runs can be compared to the last bit. */
static uint64_t checksum(const std::vector<float> &data)
{
	uint64_t sum = 0;

	for (float f : data) {
		uint32_t word;

		memcpy(&word, &f, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ull;
	}
	return sum;
}

static unsigned long number(const char *option, const char *text)
{
	char *end;
	unsigned long n = text ? strtoul(text, &end, 10) : 0;

	if (!text || end == text || *end || !n || n > 100000) {
		fprintf(stderr, "unmodified: %s takes a number from 1 on\n", option);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	unsigned long layers = 64, steps = 10;
	bool pinned = false;

	for (int a = 1; a < argc; a += 2) {
		const char *value = a + 1 < argc ? argv[a + 1] : NULL;

		if (!strcmp(argv[a], "--layers")) {
			layers = number(argv[a], value);
		} else if (!strcmp(argv[a], "--steps")) {
			steps = number(argv[a], value);
		} else if (!strcmp(argv[a], "--memory") && value &&
			   (!strcmp(value, "device") || !strcmp(value, "pinned"))) {
			pinned = !strcmp(value, "pinned");
		} else {
			fprintf(stderr, "usage: unmodified [--layers N] [--steps N] "
					"[--memory device|pinned]\n");
			return 2;
		}
	}

	const size_t bytes = (size_t)WIDTH * WIDTH * sizeof(float);
	const size_t vector_bytes = (size_t)WIDTH * BATCH * sizeof(float);
	std::vector<float *> w(layers), x(layers + 1);
	std::vector<float> last(WIDTH * BATCH), row(WIDTH);

	for (unsigned long l = 0; l < layers; l++) {
		if (pinned)
			must(cudaMallocHost(&w[l], bytes), "cudaMallocHost");
		else
			must(cudaMalloc(&w[l], bytes), "cudaMalloc");
		fill<<<1024, THREADS>>>(w[l], l);
	}
	for (unsigned long l = 0; l <= layers; l++)
		must(cudaMalloc(&x[l], vector_bytes), "cudaMalloc");
	for (uint32_t i = 0; i < WIDTH * BATCH; i++)
		last[i] = weight(layers, i);
	must(cudaMemcpy(x[0], last.data(), vector_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");

	for (unsigned long s = 0; s < steps; s++) {
		auto since = std::chrono::steady_clock::now();

		for (unsigned long l = 0; l < layers; l++)
			forth<<<WIDTH, THREADS>>>(w[l], x[l], x[l + 1]);
		for (unsigned long l = layers; l--;)
			back<<<WIDTH, THREADS>>>(w[l], x[l], x[l + 1]);
		must(cudaDeviceSynchronize(), "a kernel");
		printf("step %lu: %.6f s\n", s + 1,
		       std::chrono::duration<double>(std::chrono::steady_clock::now() - since)
			       .count());
	}

	must(cudaMemcpy(last.data(), x[layers], vector_bytes, cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	uint64_t sum = checksum(last);

	/* A row of each layer, too. */
	for (unsigned long l = 0; l < layers; l++) {
		must(cudaMemcpy(row.data(), w[l] + (l % WIDTH) * WIDTH, WIDTH * sizeof(float),
				cudaMemcpyDefault),
		     "cudaMemcpy");
		sum = sum * 31 + checksum(row);
	}
	printf("%lu layers, %.2f GB, checksum %016llx\n", layers,
	       (double)layers * (double)bytes / 1e9, (unsigned long long)sum);
	return 0;
}
