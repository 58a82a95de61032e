/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that are noted (weir/tracked.h), on a real GPU: elements of several sizes, at random or one
 * after the other, by many threads at once, are what they are, and the marks are those that the
 * same reads leave on the CPU.
 *
 * One line a case; the exit status is 1 when one differs, 2 when it cannot run.
 */
#include <vector>

#include "tests/gpu/base.cuh"
#include "weir/device.cuh"

#define BYTES (UINT64_C(64) << 20)
#define LINES (BYTES / WEIR_TRACKED_LINE_BYTES)
#define READS (1u << 20)

static uint32_t nr_failed;

/* An element of several loads. */
struct wide {
	uint64_t part[4];

	wide() = default;
	__host__ __device__ wide(uint64_t n) : part{n, ~n, n + 1, n * 3}
	{
	}
	__host__ __device__ bool operator!=(const struct wide &other) const
	{
		for (int i = 0; i < 4; i++)
			if (part[i] != other.part[i])
				return true;
		return false;
	}
};

/* The n-th element that is read: spread > 0: at random, among one of each spread elements. */
__host__ __device__ static uint64_t element_at(uint64_t n, uint64_t nr, uint32_t spread)
{
	if (!spread)
		return n % nr;
	n = (n * UINT64_C(0x9e3779b97f4a7c15) >> 20) % nr;
	return n - n % spread;
}

/* Elements are their own numbers, as far as there is room. *wrong: how many are not. */
template <typename T>
__global__ void kernel_read(struct weir_tracked tracked, uint64_t nr, uint32_t spread,
			    uint32_t *wrong)
{
	uint64_t n = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
	uint64_t index = element_at(n, nr, spread);

	if (n < READS && weir_tracked_load<T>(tracked, index) != (T)index)
		atomicAdd(wrong, 1u);
}

template <typename T> static void run(uint32_t spread)
{
	const uint64_t nr = BYTES / sizeof(T);
	std::vector<uint8_t> marks(LINES), got(LINES);
	std::vector<T> element(nr);
	uint32_t *device_wrong, wrong;
	uint8_t *device_marks;
	bool good;
	T *device;

	for (uint64_t i = 0; i < nr; i++)
		element[i] = (T)i;
	check(cudaMalloc((void **)&device, BYTES), "cudaMalloc");
	check(cudaMalloc((void **)&device_marks, LINES), "cudaMalloc");
	check(cudaMalloc((void **)&device_wrong, sizeof(wrong)), "cudaMalloc");
	copy_now(device, element.data(), BYTES, "upload");
	fill_now(device_marks, 0, LINES);
	fill_now(device_wrong, 0, sizeof(wrong));
	/* Twice: what is noted stays. */
	for (int i = 0; i < 2; i++)
		kernel_read<T><<<READS / 256, 256, 0, stream>>>({device, device_marks}, nr, spread,
								device_wrong);
	check(cudaGetLastError(), "launch");
	check(cudaStreamSynchronize(stream), "kernel");
	copy_now(got.data(), device_marks, LINES, "download");
	copy_now(&wrong, device_wrong, sizeof(wrong), "download");
	for (uint64_t n = 0; n < READS; n++) {
		const struct weir_tracked tracked = {element.data(), marks.data()};

		weir_tracked_note(&tracked, element_at(n, nr, spread) * sizeof(T));
	}
	good = !wrong && got == marks;
	nr_failed += !good;
	printf("%-4s tracked  %u bytes, spread %u: %u wrong\n", good ? "ok" : "FAIL",
	       (unsigned int)sizeof(T), spread, wrong);
	check(cudaFree(device), "cudaFree");
	check(cudaFree(device_marks), "cudaFree");
	check(cudaFree(device_wrong), "cudaFree");
}

template <typename T> static void run_all()
{
	run<T>(0);
	run<T>(1);
	run<T>(1000);
}

int main(void)
{
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	run_all<uint8_t>();
	run_all<uint16_t>();
	run_all<float>();
	run_all<double>();
	run_all<struct wide>();
	printf("%u failed\n", nr_failed);
	return nr_failed ? 1 : 0;
}
