/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not a kernel: errors, and what each stream has for its kernels.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "workloads/gcn/cuda/blas.cuh"
#include "workloads/gcn/cuda/launch.cuh"

#define STREAMS_MAX 64u

/*
 * Protects streams, nr_streams and the opening of cuBLAS. Held while a stream's things are made and
 * freed, so that nobody makes them twice: CUDA is called under it. No other lock is taken.
 */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gcn_cuda_stream streams[STREAMS_MAX];
static uint32_t nr_streams;

/* ---- errors */

static thread_local char error_text[512];

const char *gcn_cuda_error(void)
{
	return error_text;
}

int gcn_cuda_fail(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return status;
}

int gcn_cuda_checked(cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return 0;
	cudaGetLastError(); /* a later launch is not to report it again */
	gcn_cuda_fail(0, "%s: %s (%s)", what, cudaGetErrorString(result), cudaGetErrorName(result));
	return result == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

int gcn_cuda_launched(const char *kernel)
{
	return gcn_cuda_checked(cudaGetLastError(), kernel);
}

uint64_t gcn_cuda_abi(void)
{
	return gcn_cuda_abi_here();
}

/* ---- streams */

/* A stream is known by its device too: NULL names one on each. NULL: not found. */
static struct gcn_cuda_stream *stream_find_locked(void *stream, int device)
{
	for (uint32_t i = 0; i < nr_streams; i++) {
		if (streams[i].stream == stream && streams[i].device == device)
			return &streams[i];
	}
	return NULL;
}

static int stream_create_locked(void *stream, int device, struct gcn_cuda_stream **out)
{
	struct gcn_cuda_stream *s = &streams[nr_streams];
	void *memory;
	int ret;

	if (nr_streams == STREAMS_MAX)
		return gcn_cuda_fail(-ENOSPC, "more than %u streams run kernels", STREAMS_MAX);
	/* From here on the runtime holds the device's primary context itself: what it has loaded
	 * there, cuBLAS too, outlives a machine that is closed and opened again. */
	ret = gcn_cuda_checked(cudaSetDevice(device), "cudaSetDevice");
	if (!ret)
		ret = gcn_cuda_checked(cudaMalloc(&memory, WORKSPACE_BYTES + SCRATCH_WORDS * 8),
				       "the workspace of a stream");
	if (ret)
		return ret;
	s->stream = stream;
	s->device = device;
	s->blas = NULL;
	s->workspace = memory;
	s->scratch = (uint64_t *)((char *)memory + WORKSPACE_BYTES);
	nr_streams++;
	*out = s;
	return 0;
}

int gcn_cuda_stream_get(void *stream, bool blas, struct gcn_cuda_stream *out)
{
	struct gcn_cuda_stream *s;
	int device, ret;

	ret = gcn_cuda_checked(cudaGetDevice(&device), "cudaGetDevice");
	if (ret)
		return ret;
	pthread_mutex_lock(&streams_lock);
	s = stream_find_locked(stream, device);
	if (!s)
		ret = stream_create_locked(stream, device, &s);
	if (!ret && blas && !s->blas)
		ret = gcn_cuda_blas_open(stream, s->workspace, &s->blas);
	if (!ret)
		*out = *s;
	pthread_mutex_unlock(&streams_lock);
	return ret;
}

int gcn_cuda_stream_add(void *stream)
{
	struct gcn_cuda_stream s;

	return gcn_cuda_stream_get(stream, true, &s);
}

void gcn_cuda_stream_del(void *stream)
{
	struct gcn_cuda_stream *s;
	int device;

	if (cudaGetDevice(&device) != cudaSuccess)
		return;
	pthread_mutex_lock(&streams_lock);
	s = stream_find_locked(stream, device);
	if (s) {
		cudaDeviceSynchronize();
		gcn_cuda_blas_close(s->blas);
		cudaFree(s->workspace);
		*s = streams[--nr_streams];
	}
	pthread_mutex_unlock(&streams_lock);
}
