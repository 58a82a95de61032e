/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows nothing of weir: a stack of layers, each a square matrix, goes forth and
 * back in every step, as training does. Forth, each layer is read; back, in the reverse order, it
 * is read and written. With more layers than the GPU has memory for it ends with "out of memory",
 * and gets through as
 *
 *     nvcc -std=c++17 -arch=native examples/unmodified.cu -o unmodified
 *     weir run --gpu-budget 8GB -- ./unmodified --layers 256
 *
 * Beside it, --memory pinned holds the layers in host memory that the kernels use in place, which
 * is what a program can do by itself; --memory managed in the driver's managed memory, of at most
 * an eighth of the GPU's, since beyond that this is not what is to be measured here. --gemm has
 * cuBLAS multiply instead of a kernel of this file: launches that come from a library, with
 * parameters which nobody here knows. cuBLAS is opened when it is asked for, so that everything
 * else needs the driver alone; where its folder is not known to the dynamic linker, LD_LIBRARY_PATH
 * names it.
 */
#include <cublas_v2.h>
#include <dlfcn.h>

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

/* y = tanh(y), behind a product of cuBLAS's. */
__global__ void bend(float *y)
{
	uint32_t i = blockIdx.x * THREADS + threadIdx.x;

	y[i] = tanhf(y[i]);
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

/* What is used of cuBLAS, with the types of its header. */
static struct {
	decltype(&cublasCreate_v2) create;
	decltype(&cublasSgemm_v2) sgemm;
	decltype(&cublasDestroy_v2) destroy;
	cublasHandle_t handle; /* its work goes to the default stream, as ours */
} blas;

static void must_blas(cublasStatus_t status, const char *what)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return;
	fprintf(stderr, "unmodified: %s: status %d\n", what, (int)status);
	exit(1);
}

/* Any version that has these functions. Toolkits are often not where the dynamic linker looks. */
static void blas_open(void)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
					    "/usr/local/cuda/lib64/libcublas.so.13",
					    "/usr/local/cuda/lib64/libcublas.so.12"};
	void *library = NULL;

	for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (library) {
		*(void **)&blas.create = dlsym(library, "cublasCreate_v2");
		*(void **)&blas.sgemm = dlsym(library, "cublasSgemm_v2");
		*(void **)&blas.destroy = dlsym(library, "cublasDestroy_v2");
	}
	if (!blas.create || !blas.sgemm || !blas.destroy) {
		fprintf(stderr,
			"unmodified: --gemm needs cuBLAS, and libcublas.so.13 or .12 is not "
			"found: name its folder in LD_LIBRARY_PATH\n");
		exit(1);
	}
	must_blas(blas.create(&blas.handle), "cublasCreate");
}

/* y = tanh(w x). To cuBLAS, which has columns where C has rows, w, x and y are transposed:
 * y' = x' w'. */
static void forth_gemm(const float *w, const float *x, float *y)
{
	const float one = 1, zero = 0;

	must_blas(blas.sgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, BATCH, WIDTH, WIDTH, &one, x,
			     BATCH, w, WIDTH, &zero, y, BATCH),
		  "cublasSgemm");
	bend<<<WIDTH * BATCH / THREADS, THREADS>>>(y);
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

enum memory_kind { DEVICE, PINNED, MANAGED };

static const char *const memories[] = {"device", "pinned", "managed"};

static struct {
	unsigned long layers, steps;
	memory_kind memory;
	bool gemm;
} options = {64, 10, DEVICE, false};

static bool read_memory(const char *name)
{
	for (int m = DEVICE; m <= MANAGED; m++) {
		if (!strcmp(name, memories[m])) {
			options.memory = (memory_kind)m;
			return true;
		}
	}
	return false;
}

static void read_options(int argc, char **argv)
{
	for (int a = 1; a < argc; a++) {
		const char *value = a + 1 < argc ? argv[a + 1] : NULL;

		if (!strcmp(argv[a], "--gemm")) {
			options.gemm = true;
		} else if (!strcmp(argv[a], "--layers")) {
			options.layers = number(argv[a++], value);
		} else if (!strcmp(argv[a], "--steps")) {
			options.steps = number(argv[a++], value);
		} else if (!strcmp(argv[a], "--memory") && value && read_memory(value)) {
			a++;
		} else {
			fprintf(stderr, "usage: unmodified [--layers N] [--steps N] "
					"[--memory device|pinned|managed] [--gemm]\n");
			exit(2);
		}
	}
}

/* Managed memory is a baseline for what fits, and no more than that. */
static void check_managed(size_t bytes)
{
	cudaDeviceProp properties;

	if (options.memory != MANAGED)
		return;
	must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
	if (bytes <= properties.totalGlobalMem / 8)
		return;
	fprintf(stderr,
		"unmodified: --memory managed: %.2f GB are more than an eighth of the GPU's; "
		"ask for fewer --layers\n",
		(double)bytes / 1e9);
	exit(2);
}

static float *alloc(size_t bytes, memory_kind kind)
{
	float *data;

	if (kind == PINNED)
		must(cudaMallocHost(&data, bytes), "cudaMallocHost");
	else if (kind == MANAGED)
		must(cudaMallocManaged(&data, bytes), "cudaMallocManaged");
	else
		must(cudaMalloc(&data, bytes), "cudaMalloc");
	return data;
}

/* Forth and back once. */
static void step(const std::vector<float *> &w, const std::vector<float *> &x)
{
	for (size_t l = 0; l < w.size(); l++) {
		if (options.gemm)
			forth_gemm(w[l], x[l], x[l + 1]);
		else
			forth<<<WIDTH, THREADS>>>(w[l], x[l], x[l + 1]);
	}
	for (size_t l = w.size(); l--;)
		back<<<WIDTH, THREADS>>>(w[l], x[l], x[l + 1]);
	must(cudaDeviceSynchronize(), "a kernel");
}

/* Of what came out last, and of a row of each layer. */
static uint64_t sum_up(const std::vector<float *> &w, const float *y)
{
	std::vector<float> last(WIDTH * BATCH), row(WIDTH);
	uint64_t sum;

	must(cudaMemcpy(last.data(), y, last.size() * sizeof(float), cudaMemcpyDeviceToHost),
	     "cudaMemcpy");
	sum = checksum(last);
	for (size_t l = 0; l < w.size(); l++) {
		must(cudaMemcpy(row.data(), w[l] + (l % WIDTH) * WIDTH, WIDTH * sizeof(float),
				cudaMemcpyDefault),
		     "cudaMemcpy");
		sum = sum * 31 + checksum(row);
	}
	return sum;
}

int main(int argc, char **argv)
{
	const size_t bytes = (size_t)WIDTH * WIDTH * sizeof(float);
	std::vector<float> first(WIDTH * BATCH);
	std::vector<float *> w, x;

	read_options(argc, argv);
	check_managed(options.layers * bytes);
	if (options.gemm)
		blas_open();
	for (unsigned long l = 0; l < options.layers; l++) {
		w.push_back(alloc(bytes, options.memory));
		fill<<<1024, THREADS>>>(w[l], l);
	}
	for (unsigned long l = 0; l <= options.layers; l++)
		x.push_back(alloc(first.size() * sizeof(float), DEVICE));
	for (uint32_t i = 0; i < WIDTH * BATCH; i++)
		first[i] = weight(options.layers, i);
	must(cudaMemcpy(x[0], first.data(), first.size() * sizeof(float), cudaMemcpyHostToDevice),
	     "cudaMemcpy");
	for (unsigned long s = 0; s < options.steps; s++) {
		auto since = std::chrono::steady_clock::now();

		step(w, x);
		printf("step %lu: %.6f s\n", s + 1,
		       std::chrono::duration<double>(std::chrono::steady_clock::now() - since)
			       .count());
	}
	printf("%lu layers, %.2f GB, checksum %016llx\n", options.layers,
	       (double)options.layers * (double)bytes / 1e9,
	       (unsigned long long)sum_up(w, x[options.layers]));
	if (options.gemm)
		blas.destroy(blas.handle);
	return 0;
}
