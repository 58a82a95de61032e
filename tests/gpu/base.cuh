/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program of CUDA kernels in this folder begins with: errors, which end it, and where
 * the kernels' library lies.
 */
#ifndef WEIR_TEST_GPU_BASE_CUH
#define WEIR_TEST_GPU_BASE_CUH

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/weir.h"

static cudaStream_t stream;

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(2);
}

static void check(cudaError_t error, const char *what)
{
	if (error != cudaSuccess)
		die(what, cudaGetErrorString(error));
}

/*
 * Copy, or fill, and wait until that is done: a copy from memory that is not pinned may return
 * before, and stream does not wait for the default stream.
 */
static inline void copy_now(void *to, const void *from, size_t bytes, const char *what)
{
	check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), what);
	check(cudaStreamSynchronize(cudaStreamLegacy), what);
}

static inline void fill_now(void *to, int value, size_t bytes)
{
	check(cudaMemset(to, value, bytes), "cudaMemset");
	check(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
}

static inline void log_print(void *, enum weir_log_level, const char *message)
{
	fprintf(stderr, "%s\n", message);
}

/* Unless the variable names it: the programs lie in gpu/ of the build, the library above. */
static inline void name_kernels(const char *variable, const char *library)
{
	char path[4096];
	ssize_t nr = readlink("/proc/self/exe", path, sizeof(path));
	char *slash;

	if (nr <= 0 || nr == sizeof(path))
		return;
	path[nr] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, sizeof(path) - (size_t)(slash - path), "/../%s", library);
	setenv(variable, path, 0);
}

#endif
