/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver's interface that program.c uses, as cuda.h has it, and the ways to
 * reach its functions. It includes nothing of weir, as no program that weir finds does.
 */
#ifndef WEIR_TESTS_DROPIN_API_H
#define WEIR_TESTS_DROPIN_API_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;

struct launch_config {
	unsigned int grid[3], block[3], shared_bytes;
	CUstream stream;
	void *attributes;
	unsigned int nr_attributes;
};

/* X(name, suffix of the symbol, parameters) */
#define API(X)                                                                                   \
	X(cuInit, , (unsigned int flags))                                                        \
	X(cuGetErrorName, , (CUresult result, const char **name))                                \
	X(cuDeviceGet, , (int *device, int ordinal))                                             \
	X(cuDevicePrimaryCtxRetain, , (CUcontext * context, int device))                         \
	X(cuDevicePrimaryCtxRelease, _v2, (int device))                                          \
	X(cuCtxSetCurrent, , (CUcontext context))                                                \
	X(cuCtxSynchronize, , (void))                                                            \
	X(cuMemAlloc, _v2, (CUdeviceptr * addr, size_t bytes))                                   \
	X(cuMemFree, _v2, (CUdeviceptr addr))                                                    \
	X(cuMemAllocAsync, , (CUdeviceptr * addr, size_t bytes, CUstream stream))                \
	X(cuMemFreeAsync, , (CUdeviceptr addr, CUstream stream))                                 \
	X(cuMemHostAlloc, , (void **addr, size_t bytes, unsigned int flags))                     \
	X(cuMemFreeHost, , (void *addr))                                                         \
	X(cuMemcpyHtoD, _v2, (CUdeviceptr dst, const void *src, size_t bytes))                   \
	X(cuMemcpyHtoDAsync, _v2,                                                                \
	  (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                     \
	X(cuMemcpyDtoHAsync, _v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))   \
	X(cuMemcpyDtoDAsync, _v2,                                                                \
	  (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))                     \
	X(cuMemsetD32Async, , (CUdeviceptr addr, unsigned int word, size_t nr, CUstream stream)) \
	X(cuMemGetAddressRange, _v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr addr))     \
	X(cuPointerGetAttribute, , (void *data, int attribute, CUdeviceptr addr))                \
	X(cuStreamCreate, , (CUstream * stream, unsigned int flags))                             \
	X(cuStreamDestroy, _v2, (CUstream stream))                                               \
	X(cuStreamSynchronize, , (CUstream stream))                                              \
	X(cuStreamWaitEvent, , (CUstream stream, CUevent event, unsigned int flags))             \
	X(cuEventCreate, , (CUevent * event, unsigned int flags))                                \
	X(cuEventDestroy, _v2, (CUevent event))                                                  \
	X(cuEventRecord, , (CUevent event, CUstream stream))                                     \
	X(cuModuleLoadData, , (CUmodule * module, const void *image))                            \
	X(cuModuleUnload, , (CUmodule module))                                                   \
	X(cuModuleGetFunction, , (CUfunction * function, CUmodule module, const char *name))     \
	X(cuModuleGetGlobal, _v2,                                                                \
	  (CUdeviceptr * addr, size_t * bytes, CUmodule module, const char *name))               \
	X(cuLibraryLoadData, ,                                                                   \
	  (CUlibrary * library, const void *image, int *options, void **values,                  \
	   unsigned int nr_options, int *library_options, void **library_values,                 \
	   unsigned int nr_library_options))                                                     \
	X(cuLibraryUnload, , (CUlibrary library))                                                \
	X(cuLibraryGetKernel, , (CUkernel * kernel, CUlibrary library, const char *name))        \
	X(cuKernelGetFunction, , (CUfunction * function, CUkernel kernel))                       \
	X(cuLaunchKernel, ,                                                                      \
	  (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,   \
	   unsigned int block_x, unsigned int block_y, unsigned int block_z,                     \
	   unsigned int shared_bytes, CUstream stream, void **parameters, void **extra))         \
	X(cuLaunchKernelEx, ,                                                                    \
	  (const struct launch_config *config, CUfunction function, void **parameters,           \
	   void **extra))

/* The functions, as found. */
struct api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define API_MEMBER(name, suffix, parameters) CUresult(*name) parameters;
	API(API_MEMBER)
#undef API_MEMBER
};

/* How the program reaches the driver. */
enum reach {
	REACH_LINKED,	  /* as a library that it is linked with */
	REACH_DLSYM,	  /* opened at run time, its symbols looked up */
	REACH_PROC,	  /* by cuGetProcAddress() */
	REACH_PROC_FIRST, /* by the first version of that */
	REACH_PER_THREAD, /* by cuGetProcAddress(), with a stream 0 for each thread */
	REACH_NR,
};

/* Fills the table; NULL, or what is missing. */
const char *api_open(struct api *api, enum reach reach);

#endif
