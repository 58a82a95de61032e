/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching the kernels of a library that programs open at run time (cuda_plugin.h): what its
 * functions return and say. Each thread has a text of its own; a library has its own copy of all.
 */
#ifndef WEIR_CUDA_LAUNCH_CUH
#define WEIR_CUDA_LAUNCH_CUH

#include <atomic>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#define CUDA_LAUNCH_THREADS_MAX 1024u
#define CUDA_LAUNCH_ERROR_BYTES 256

/* What went wrong in the calling thread's last call that failed. */
inline char *cuda_launch_error()
{
	static thread_local char text[CUDA_LAUNCH_ERROR_BYTES];

	return text;
}

inline int cuda_launch_refused(const char *kernel, const char *why)
{
	snprintf(cuda_launch_error(), CUDA_LAUNCH_ERROR_BYTES, "%s: %s", kernel, why);
	return -EINVAL;
}

/* The outcome of a call of CUDA; a failure is not left for the next one. */
inline int cuda_launch_outcome(const char *what, cudaError_t result)
{
	if (result == cudaSuccess)
		return 0;
	cudaGetLastError();
	snprintf(cuda_launch_error(), CUDA_LAUNCH_ERROR_BYTES, "%s: %s (%s)", what,
		 cudaGetErrorString(result), cudaGetErrorName(result));
	return -EIO;
}

/*
 * Have the runtime hold the device's primary context itself, so that what it has loaded there
 * outlives a machine that is closed and opened again. Once for each device that is used.
 */
inline int cuda_launch_hold()
{
	static std::atomic<uint64_t> held; /* relaxed: doing it twice does no harm */
	int device;
	cudaError_t result = cudaGetDevice(&device);

	if (result == cudaSuccess && !(held.load(std::memory_order_relaxed) >> device % 64 & 1)) {
		result = cudaSetDevice(device);
		held.fetch_or(UINT64_C(1) << device % 64, std::memory_order_relaxed);
	}
	return cuda_launch_outcome("cudaSetDevice", result);
}

/* As many blocks as the device runs at a time. */
template <typename K> int cuda_launch_resident(K kernel, uint32_t threads, uint32_t *blocks)
{
	int device, nr_sms = 0, resident = 0;
	cudaError_t result = cudaGetDevice(&device);

	if (result == cudaSuccess)
		result = cudaDeviceGetAttribute(&nr_sms, cudaDevAttrMultiProcessorCount, device);
	if (result == cudaSuccess)
		result = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel,
								       (int)threads, 0);
	if (result == cudaSuccess && !resident)
		result = cudaErrorLaunchOutOfResources;
	*blocks = (uint32_t)(nr_sms * resident);
	return cuda_launch_outcome("blocks", result);
}

/* Queue a kernel that takes one struct. blocks 0: as many as are resident. */
template <typename K, typename A>
int cuda_launch(const char *name, K kernel, uint32_t blocks, uint32_t threads, void *stream,
		const A *args)
{
	int err = 0;

	if (!threads || threads > CUDA_LAUNCH_THREADS_MAX)
		return cuda_launch_refused(name, "no such number of threads");
	err = cuda_launch_hold();
	if (!err && !blocks)
		err = cuda_launch_resident(kernel, threads, &blocks);
	if (err)
		return err;
	kernel<<<blocks, threads, 0, (cudaStream_t)stream>>>(*args);
	return cuda_launch_outcome(name, cudaGetLastError());
}

#endif
