/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the CUDA driver that the random programs call, as cuda.h has them. All are
 * looked up by name, those of streams in one of two variants: stream 0 is one for all threads, or
 * each thread's own.
 */
#ifndef WEIR_TESTS_DROPIN_RANDOM_DRIVER_H
#define WEIR_TESTS_DROPIN_RANDOM_DRIVER_H

#include <stdbool.h>

#include "tests/dropin/shapes.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

/* CUmemcpyAttributes */
struct copy_attributes {
	int order;
	struct {
		int type, id;
	} src, dst;
	unsigned int flags;
};

#define SHAPE                                                                                     \
	CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
		unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,             \
		void **parameters
#define COPY (CUdeviceptr dst, CUdeviceptr src, size_t bytes)
#define COPY_ON (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define PEER (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
#define PEER_ON                                                                        \
	(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, \
	 CUstream stream)
#define FILL(word) (CUdeviceptr dst, word value, size_t nr)
#define FILL_ON(word) (CUdeviceptr dst, word value, size_t nr, CUstream stream)
#define FILL_2D(word) (CUdeviceptr dst, size_t pitch, word value, size_t width, size_t height)
#define FILL_2D_ON(word) \
	(CUdeviceptr dst, size_t pitch, word value, size_t width, size_t height, CUstream stream)
#define WORD(word) (CUstream stream, CUdeviceptr addr, word value, unsigned int flags)

/* X(name, suffix of the symbol, suffix where stream 0 is the thread's own, parameters) */
#define DRIVER(X)                                                                                  \
	X(cuInit, "", "", (unsigned int flags))                                                    \
	X(cuGetErrorName, "", "", (CUresult result, const char **name))                            \
	X(cuDeviceGet, "", "", (int *device, int ordinal))                                         \
	X(cuDevicePrimaryCtxRetain, "", "", (CUcontext * context, int device))                     \
	X(cuDevicePrimaryCtxRelease, "_v2", "", (int device))                                      \
	X(cuCtxSetCurrent, "", "", (CUcontext context))                                            \
	X(cuCtxSynchronize, "", "", (void))                                                        \
	X(cuMemAlloc, "_v2", "", (CUdeviceptr * addr, size_t bytes))                               \
	X(cuMemFree, "_v2", "", (CUdeviceptr addr))                                                \
	X(cuMemAllocAsync, "", "_ptsz", (CUdeviceptr * addr, size_t bytes, CUstream stream))       \
	X(cuMemFreeAsync, "", "_ptsz", (CUdeviceptr addr, CUstream stream))                        \
	X(cuMemHostAlloc, "", "", (void **addr, size_t bytes, unsigned int flags))                 \
	X(cuMemFreeHost, "", "", (void *addr))                                                     \
	X(cuMemcpy, "", "_ptds", COPY)                                                             \
	X(cuMemcpyAsync, "", "_ptsz", COPY_ON)                                                     \
	X(cuMemcpyPeer, "", "_ptds", PEER)                                                         \
	X(cuMemcpyPeerAsync, "", "_ptsz", PEER_ON)                                                 \
	X(cuMemcpyHtoD, "_v2", "_ptds", (CUdeviceptr dst, const void *src, size_t bytes))          \
	X(cuMemcpyHtoDAsync, "_v2", "_ptsz",                                                       \
	  (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                       \
	X(cuMemcpyDtoH, "_v2", "_ptds", (void *dst, CUdeviceptr src, size_t bytes))                \
	X(cuMemcpyDtoHAsync, "_v2", "_ptsz",                                                       \
	  (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))                             \
	X(cuMemcpyDtoD, "_v2", "_ptds", COPY)                                                      \
	X(cuMemcpyDtoDAsync, "_v2", "_ptsz", COPY_ON)                                              \
	X(cuMemcpy2D, "_v2", "_ptds", (const struct copy2d *copy))                                 \
	X(cuMemcpy2DUnaligned, "_v2", "_ptds", (const struct copy2d *copy))                        \
	X(cuMemcpy2DAsync, "_v2", "_ptsz", (const struct copy2d *copy, CUstream stream))           \
	X(cuMemcpy3D, "_v2", "_ptds", (const struct copy3d *copy))                                 \
	X(cuMemcpy3DAsync, "_v2", "_ptsz", (const struct copy3d *copy, CUstream stream))           \
	X(cuMemcpy3DPeer, "", "_ptds", (const struct copy3d *copy))                                \
	X(cuMemcpy3DPeerAsync, "", "_ptsz", (const struct copy3d *copy, CUstream stream))          \
	X(cuMemcpyBatchAsync, "_v2", "_ptsz",                                                      \
	  (CUdeviceptr * dst, CUdeviceptr * src, size_t * bytes, size_t nr,                        \
	   struct copy_attributes * attributes, size_t * first, size_t nr_attributes,              \
	   CUstream stream))                                                                       \
	X(cuMemsetD8, "_v2", "_ptds", FILL(unsigned char))                                         \
	X(cuMemsetD16, "_v2", "_ptds", FILL(unsigned short))                                       \
	X(cuMemsetD32, "_v2", "_ptds", FILL(unsigned int))                                         \
	X(cuMemsetD8Async, "", "_ptsz", FILL_ON(unsigned char))                                    \
	X(cuMemsetD16Async, "", "_ptsz", FILL_ON(unsigned short))                                  \
	X(cuMemsetD32Async, "", "_ptsz", FILL_ON(unsigned int))                                    \
	X(cuMemsetD2D8, "_v2", "_ptds", FILL_2D(unsigned char))                                    \
	X(cuMemsetD2D16, "_v2", "_ptds", FILL_2D(unsigned short))                                  \
	X(cuMemsetD2D32, "_v2", "_ptds", FILL_2D(unsigned int))                                    \
	X(cuMemsetD2D8Async, "", "_ptsz", FILL_2D_ON(unsigned char))                               \
	X(cuMemsetD2D16Async, "", "_ptsz", FILL_2D_ON(unsigned short))                             \
	X(cuMemsetD2D32Async, "", "_ptsz", FILL_2D_ON(unsigned int))                               \
	X(cuStreamCreate, "", "", (CUstream * stream, unsigned int flags))                         \
	X(cuStreamDestroy, "_v2", "", (CUstream stream))                                           \
	X(cuStreamSynchronize, "", "_ptsz", (CUstream stream))                                     \
	X(cuStreamWaitEvent, "", "_ptsz", (CUstream stream, CUevent event, unsigned int flags))    \
	X(cuStreamWaitValue32, "_v2", "_ptsz", WORD(uint32_t))                                     \
	X(cuStreamWaitValue64, "_v2", "_ptsz", WORD(uint64_t))                                     \
	X(cuStreamWriteValue32, "_v2", "_ptsz", WORD(uint32_t))                                    \
	X(cuStreamWriteValue64, "_v2", "_ptsz", WORD(uint64_t))                                    \
	X(cuStreamBatchMemOp, "_v2", "_ptsz",                                                      \
	  (CUstream stream, unsigned int nr, struct stream_op *list, unsigned int flags))          \
	X(cuEventCreate, "", "", (CUevent * event, unsigned int flags))                            \
	X(cuEventDestroy, "_v2", "", (CUevent event))                                              \
	X(cuEventRecord, "", "_ptsz", (CUevent event, CUstream stream))                            \
	X(cuEventSynchronize, "", "", (CUevent event))                                             \
	X(cuModuleLoadData, "", "", (CUmodule * module, const void *image))                        \
	X(cuModuleUnload, "", "", (CUmodule module))                                               \
	X(cuModuleGetFunction, "", "", (CUfunction * function, CUmodule module, const char *name)) \
	X(cuModuleGetGlobal, "_v2", "",                                                            \
	  (CUdeviceptr * addr, size_t * bytes, CUmodule module, const char *name))                 \
	X(cuLibraryLoadData, "", "",                                                               \
	  (CUlibrary * library, const void *image, int *options, void **values, unsigned int nr,   \
	   int *library_options, void **library_values, unsigned int nr_library))                  \
	X(cuLibraryUnload, "", "", (CUlibrary library))                                            \
	X(cuLibraryGetKernel, "", "", (CUkernel * kernel, CUlibrary library, const char *name))    \
	X(cuKernelGetFunction, "", "", (CUfunction * function, CUkernel kernel))                   \
	X(cuLaunchKernel, "", "_ptsz", (SHAPE, void **extra))                                      \
	X(cuLaunchCooperativeKernel, "", "_ptsz", (SHAPE))                                         \
	X(cuLaunchKernelEx, "", "_ptsz",                                                           \
	  (const struct launch_config *config, CUfunction function, void **parameters,             \
	   void **extra))                                                                          \
	X(cuStreamBeginCapture, "_v2", "_ptsz", (CUstream stream, int mode))                       \
	X(cuStreamEndCapture, "", "_ptsz", (CUstream stream, CUgraph * graph))                     \
	X(cuGraphInstantiateWithFlags, "", "",                                                     \
	  (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                           \
	X(cuGraphLaunch, "", "_ptsz", (CUgraphExec exec, CUstream stream))                         \
	X(cuGraphDestroy, "", "", (CUgraph graph))                                                 \
	X(cuGraphExecDestroy, "", "", (CUgraphExec exec))

extern struct driver {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define DRIVER_MEMBER(name, suffix, own, parameters) CUresult(*name) parameters;
	DRIVER(DRIVER_MEMBER)
#undef DRIVER_MEMBER
} cu;

/* Fill the table. @return NULL, or what is missing */
const char *driver_open(bool per_thread);

/* Call, and end the process with a line where that fails. */
void driver_check(CUresult result, const char *call, int line);
#define CU(function, ...) driver_check(cu.function(__VA_ARGS__), #function, __LINE__)

#endif
