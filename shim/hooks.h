/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that weir has its own version of. A program comes to them by name, through
 * the stub, or by asking the driver for an address (cuGetProcAddress), which is one of them.
 *
 * Each is written hook_<name>() and calls the driver's own by real.<name>(). A call from within the
 * driver, or from within one of these, passes straight to the driver: see hook_enter().
 */
#ifndef WEIR_SHIM_HOOKS_H
#define WEIR_SHIM_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/backend/cuda/driver.h"

/* More of cuda.h than weir itself calls: results, streams, what a look-up is given. */
enum { CU_INVALID_HANDLE = 400, CU_NOT_FOUND = 500 };
enum { CU_PROC_PER_THREAD = 2 }; /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define CU_STREAM_LEGACY ((cu_stream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((cu_stream)(uintptr_t)2)

typedef struct CUmemPoolHandle_st *cu_pool;
typedef struct CUlib_st *cu_library;

/* CUlaunchConfig */
struct cu_launch_config {
	unsigned int grid[3], block[3], shared_bytes;
	cu_stream stream;
	void *attributes;
	unsigned int nr_attributes;
};

#define LAUNCH_SHAPE                                                                         \
	cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
		unsigned int block_x, unsigned int block_y, unsigned int block_z,            \
		unsigned int shared_bytes, cu_stream stream, void **parameters
#define LAUNCH_PARAMETERS (LAUNCH_SHAPE, void **extra)
#define COOPERATIVE (LAUNCH_SHAPE)
#define LAUNCH_EX                                                                        \
	(const struct cu_launch_config *config, cu_function function, void **parameters, \
	 void **extra)

/*
 * X(symbol, name, since, streams, parameters): the function's name in the library; the one that
 * cuGetProcAddress is asked for, and the first version of CUDA to mean this function by it; which
 * kinds of the default stream it is for (BOTH, LEGACY, PER_THREAD); its parameters.
 */
#define HOOKS(X)                                                                              \
	X(cuInit, "cuInit", 2000, BOTH, (unsigned int flags))                                 \
	X(cuGetProcAddress, "cuGetProcAddress", 11030, BOTH,                                  \
	  (const char *name, void **fn, int version, uint64_t flags))                         \
	X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, BOTH,                               \
	  (const char *name, void **fn, int version, uint64_t flags, int *status))            \
	X(cuMemAlloc_v2, "cuMemAlloc", 3020, BOTH, (cu_ptr * addr, size_t bytes))             \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, BOTH,                                  \
	  (cu_ptr * addr, size_t * pitch, size_t width, size_t height, unsigned int element)) \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020, LEGACY,                                  \
	  (cu_ptr * addr, size_t bytes, cu_stream stream))                                    \
	X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, PER_THREAD,                         \
	  (cu_ptr * addr, size_t bytes, cu_stream stream))                                    \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, LEGACY,                  \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream))                      \
	X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, PER_THREAD,         \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream))                      \
	X(cuMemFree_v2, "cuMemFree", 3020, BOTH, (cu_ptr addr))                               \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, LEGACY, (cu_ptr addr, cu_stream stream))   \
	X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, PER_THREAD,                           \
	  (cu_ptr addr, cu_stream stream))                                                    \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, BOTH, (size_t * free, size_t * total))       \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, BOTH,                        \
	  (cu_ptr * base, size_t * bytes, cu_ptr addr))                                       \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, BOTH,                         \
	  (void *data, int attribute, cu_ptr addr))                                           \
	X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, BOTH,                       \
	  (unsigned int nr, int *attributes, void **data, cu_ptr addr))                       \
	X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, BOTH, (void *handle, cu_ptr addr))    \
	X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, BOTH,        \
	  (void *handle, cu_ptr addr, size_t bytes, int type, unsigned long long flags))      \
	X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, BOTH,            \
	  (cu_handle * handle, void *addr))                                                   \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, BOTH,                        \
	  (cu_pool pool, int attribute, void *value))                                         \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, BOTH,                        \
	  (cu_pool pool, int attribute, void *value))                                         \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, BOTH, (cu_pool pool, size_t bytes))      \
	X(cuLaunchKernel, "cuLaunchKernel", 4000, LEGACY, LAUNCH_PARAMETERS)                  \
	X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, PER_THREAD, LAUNCH_PARAMETERS)         \
	X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, LEGACY, COOPERATIVE)  \
	X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, PER_THREAD,      \
	  COOPERATIVE)                                                                        \
	X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, LEGACY, LAUNCH_EX)                     \
	X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, PER_THREAD, LAUNCH_EX)            \
	X(cuModuleUnload, "cuModuleUnload", 2000, BOTH, (cu_module module))                   \
	X(cuLibraryUnload, "cuLibraryUnload", 12000, BOTH, (cu_library library))              \
	X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, BOTH, (cu_stream stream))              \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, BOTH, (cu_device device))

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define HOOK_DECLARE(symbol, name, since, streams, parameters) cu_result hook_##symbol parameters;
HOOKS(HOOK_DECLARE)
#undef HOOK_DECLARE

/* The driver's own, and others of it that hooks call. Set before any hook runs; NULL: it has no
 * such function. */
struct real {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define HOOK_MEMBER(symbol, name, since, streams, parameters) cu_result(*symbol) parameters;
	HOOKS(HOOK_MEMBER)
#undef HOOK_MEMBER
	cu_result (*cuFuncGetName)(const char **name, cu_function function);
	cu_result (*cuFuncGetParamInfo)(cu_function function, size_t n, size_t *offset,
					size_t *bytes);
	cu_result (*cuKernelGetName)(const char **name, cu_function kernel);
	cu_result (*cuKernelGetParamInfo)(cu_function kernel, size_t n, size_t *offset,
					  size_t *bytes);
	cu_result (*cuCtxGetDevice)(cu_device *device);
	cu_result (*cuCtxGetCurrent)(cu_context *context);
	cu_result (*cuCtxSynchronize)(void);
	cu_result (*cuDevicePrimaryCtxRetain)(cu_context *context, cu_device device);
	cu_result (*cuDevicePrimaryCtxRelease_v2)(cu_device device);
	cu_result (*cuDeviceGetDefaultMemPool)(cu_pool *pool, cu_device device);
	cu_result (*cuDeviceTotalMem_v2)(size_t *bytes, cu_device device);
	cu_result (*cuDriverGetVersion)(int *version);
	cu_result (*cuCtxPushCurrent_v2)(cu_context context);
	cu_result (*cuCtxPopCurrent_v2)(cu_context *context);
	cu_result (*cuStreamQuery)(cu_stream stream);
	cu_result (*cuStreamGetCtx)(cu_stream stream, cu_context *context);
	cu_result (*cuStreamIsCapturing)(cu_stream stream, int *status);
	cu_result (*cuStreamSynchronize)(cu_stream stream);
	cu_result (*cuThreadExchangeStreamCaptureMode)(int *mode);
};
extern struct real real;

/* Our function of a name that the library exports; NULL: it is the driver's alone. Finds all of
 * `real` first, once. */
void *hooks_find(const char *symbol);

/*
 * Begin a hook. false: the call goes to the driver as it is, since it comes from within another
 * one, CUDA is not started, or this is a process that fork() made.
 */
bool hook_enter(void);
void hook_leave(void);

/* What cuInit() has done: from here on calls are looked at. */
void hooks_start(void);

/* A stream by a name that is not NULL: of the default streams, NULL is the one of all threads in
 * most calls, and the calling thread's own in those whose symbols end in _ptsz. */
static inline cu_stream hook_stream_all(cu_stream stream)
{
	return stream ? stream : CU_STREAM_LEGACY;
}

static inline cu_stream hook_stream_thread(cu_stream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

#endif
