/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch takes where launches are all there is: many short kernels on one stream, each of
 * which names two of some allocations. The program knows nothing of weir; run by itself and under
 * `weir run`, it shows what weir costs a launch.
 *
 *     launches [--launches N] [--rounds N] [--allocations N] [--mib N]
 *
 * Which two are named repeats after 1,000 launches, as in a training. Allocations have whole blocks
 * of weir's, since smaller ones never move. One JSON object on standard output: seconds a launch,
 * from an idle GPU to an idle GPU, of each round after one of warm-up (round_s), their median and
 * least (median_s, min_s); nanoseconds a launch until the last one is queued (host_ns), which in
 * long rounds is no less, since the host waits for the GPU when a thousand launches are queued; and
 * those of a kernel alone, which need not wait for the host (kernel_ns).
 */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define THREADS 256u
#define WORDS (256u * THREADS) /* that a kernel uses of each: 256 KiB, some 2 us */
#define PERIOD 1000u
#define ALONE 500u	      /* launches that wait together, fewer than a stream takes */
#define ALONE_NS 100000000ull /* what they wait for: longer than it takes to queue them */

static void must(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return;
	fprintf(stderr, "launches: %s: %s\n", what, cudaGetErrorString(err));
	exit(1);
}

__global__ void fill(float *y, float value)
{
	y[blockIdx.x * THREADS + threadIdx.x] = value + (float)threadIdx.x;
}

__global__ void add(float *y, const float *x)
{
	uint32_t i = blockIdx.x * THREADS + threadIdx.x;

	y[i] = 0.5f * y[i] + 0.25f * x[i];
}

__device__ static uint64_t now_ns()
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* Keep the stream busy for a while. It writes to what it names, but nothing that others read. */
__global__ void spin(float *y, uint64_t ns)
{
	uint64_t since = now_ns();

	while (now_ns() - since < ns)
		;
	y[WORDS] = 0;
}

static struct {
	unsigned long launches, rounds, allocations, mib;
} options = {100000, 5, 64, 32};

static void read_options(int argc, char **argv)
{
	const struct {
		const char *name;
		unsigned long *value, least;
	} known[] = {{"--launches", &options.launches, 1},
		     {"--rounds", &options.rounds, 1},
		     {"--allocations", &options.allocations, 2},
		     {"--mib", &options.mib, 1}};

	for (int a = 1; a < argc; a += 2) {
		bool good = false;

		for (auto &option : known) {
			char *end;

			if (strcmp(argv[a], option.name) || a + 1 == argc)
				continue;
			*option.value = strtoul(argv[a + 1], &end, 10);
			good = end != argv[a + 1] && !*end && *option.value >= option.least &&
			       *option.value <= 100000000;
		}
		if (!good) {
			fprintf(stderr, "usage: launches [--launches N] [--rounds N] "
					"[--allocations N, from 2 on] [--mib N]\n");
			exit(2);
		}
	}
}

static double since_ns(std::chrono::steady_clock::time_point begin)
{
	return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
		.count();
}

/* Launch i: adds one allocation to another, which are never the same. */
static void launch(const std::vector<float *> &data, cudaStream_t stream, uint64_t i)
{
	uint64_t h = (i % PERIOD + 1) * 0x9e3779b97f4a7c15ull;
	size_t to = (h >> 40) % data.size();
	size_t from = (to + 1 + ((h >> 20) & 0xfffff) % (data.size() - 1)) % data.size();

	add<<<WORDS / THREADS, THREADS, 0, stream>>>(data[to], data[from]);
}

struct round_ns {
	double host, all; /* nanoseconds a launch: until it was queued, until it was done */
};

static struct round_ns measure(const std::vector<float *> &data, cudaStream_t stream)
{
	struct round_ns ns;

	must(cudaStreamSynchronize(stream), "a kernel");
	auto begin = std::chrono::steady_clock::now();
	for (uint64_t i = 0; i < options.launches; i++)
		launch(data, stream, i);
	ns.host = since_ns(begin) / (double)options.launches;
	must(cudaGetLastError(), "a launch");
	must(cudaStreamSynchronize(stream), "a kernel");
	ns.all = since_ns(begin) / (double)options.launches;
	return ns;
}

/* Nanoseconds of a kernel alone: all are queued before the first may start. */
static double measure_kernel(const std::vector<float *> &data, cudaStream_t stream)
{
	cudaEvent_t begin, end;
	float ms;

	must(cudaEventCreate(&begin), "cudaEventCreate");
	must(cudaEventCreate(&end), "cudaEventCreate");
	spin<<<1, 1, 0, stream>>>(data[0], ALONE_NS);
	must(cudaEventRecord(begin, stream), "cudaEventRecord");
	for (uint64_t i = 0; i < ALONE; i++)
		launch(data, stream, i);
	must(cudaEventRecord(end, stream), "cudaEventRecord");
	must(cudaStreamSynchronize(stream), "a kernel");
	must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
	must(cudaEventDestroy(begin), "cudaEventDestroy");
	must(cudaEventDestroy(end), "cudaEventDestroy");
	return 1e6 * (double)ms / ALONE;
}

/* The results as one number, so that two runs can be compared to the last bit. */
static uint64_t checksum(const std::vector<float *> &data)
{
	std::vector<uint32_t> words(WORDS);
	uint64_t sum = 0;

	for (float *from : data) {
		must(cudaMemcpy(words.data(), from, WORDS * sizeof(float), cudaMemcpyDeviceToHost),
		     "cudaMemcpy");
		for (uint32_t word : words)
			sum = (sum ^ word) * 0x100000001b3ull;
	}
	return sum;
}

static void print(const std::vector<struct round_ns> &rounds, double kernel_ns, uint64_t check)
{
	std::vector<double> all, host;

	for (auto &round : rounds) {
		all.push_back(round.all);
		host.push_back(round.host);
	}
	printf("{\"schema\":\"weir-bench-launches-1\",\"launches\":%lu,\"allocations\":%lu,"
	       "\"allocation_bytes\":%lu,\"round_s\":[",
	       options.launches, options.allocations, options.mib << 20);
	for (size_t i = 0; i < all.size(); i++)
		printf("%s%.6g", i ? "," : "", all[i] / 1e9);
	std::sort(all.begin(), all.end());
	std::sort(host.begin(), host.end());
	printf("],\"median_s\":%.6g,\"min_s\":%.6g,\"host_ns\":%.1f,\"kernel_ns\":%.1f,"
	       "\"check\":\"%016llx\"}\n",
	       all[all.size() / 2] / 1e9, all[0] / 1e9, host[host.size() / 2], kernel_ns,
	       (unsigned long long)check);
}

int main(int argc, char **argv)
{
	std::vector<struct round_ns> rounds;
	std::vector<float *> data;
	cudaStream_t stream;
	double kernel_ns;

	read_options(argc, argv);
	must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	for (unsigned long a = 0; a < options.allocations; a++) {
		float *y;

		must(cudaMalloc(&y, options.mib << 20), "cudaMalloc");
		fill<<<WORDS / THREADS, THREADS, 0, stream>>>(y, (float)a);
		data.push_back(y);
	}
	for (unsigned long r = 0; r <= options.rounds; r++) {
		struct round_ns ns = measure(data, stream);

		if (r) /* the first one is warm-up */
			rounds.push_back(ns);
	}
	kernel_ns = measure_kernel(data, stream);
	print(rounds, kernel_ns, checksum(data));
	return 0;
}
