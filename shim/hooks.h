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

#include "shim/copies.h"
#include "shim/textures.h"
#include "src/backend/cuda/driver.h"

/* More of cuda.h than weir itself calls: results, streams, what a look-up is given. */
enum { CU_INVALID_CONTEXT = 201, CU_INVALID_HANDLE = 400, CU_NOT_FOUND = 500 };
enum { CU_PROC_PER_THREAD = 2 }; /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */

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
#define LAUNCH_ONE (cu_function function)
#define LAUNCH_GRID (cu_function function, int width, int height)
#define LAUNCH_GRID_ASYNC (cu_function function, int width, int height, cu_stream stream)
#define LAUNCH_EX                                                                        \
	(const struct cu_launch_config *config, cu_function function, void **parameters, \
	 void **extra)

#define MODULE_FILE (cu_module * module, const char *path)
#define MODULE_IMAGE (cu_module * module, const void *image)
#define MODULE_IMAGE_EX \
	(cu_module * module, const void *image, unsigned int nr, int *options, void **values)
#define LIBRARY_OPTIONS                                                                            \
	int *options, void **values, unsigned int nr, int *library_options, void **library_values, \
		unsigned int nr_library
#define LIBRARY_IMAGE (cu_library * library, const void *image, LIBRARY_OPTIONS)
#define LIBRARY_FILE (cu_library * library, const char *path, LIBRARY_OPTIONS)

typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_graph_exec;
typedef struct CUgraphNode_st *cu_node;

#define FROM_HOST (cu_ptr dst, const void *src, size_t bytes)
#define FROM_HOST_ASYNC (cu_ptr dst, const void *src, size_t bytes, cu_stream stream)
#define TO_HOST (void *dst, cu_ptr src, size_t bytes)
#define TO_HOST_ASYNC (void *dst, cu_ptr src, size_t bytes, cu_stream stream)
#define COPY (cu_ptr dst, cu_ptr src, size_t bytes)
#define COPY_ASYNC (cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream)
#define COPY_PEER (cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes)
#define COPY_PEER_ASYNC \
	(cu_ptr dst, cu_context to, cu_ptr src, cu_context from, size_t bytes, cu_stream stream)
#define TO_ARRAY (void *array, size_t offset, cu_ptr src, size_t bytes)
#define FROM_ARRAY (cu_ptr dst, void *array, size_t offset, size_t bytes)
#define COPY_2D (const struct cu_copy2d *copy)
#define COPY_2D_ASYNC (const struct cu_copy2d *copy, cu_stream stream)
#define COPY_3D (const struct cu_copy3d *copy)
#define COPY_3D_ASYNC (const struct cu_copy3d *copy, cu_stream stream)
#define BATCH_12                                                                                   \
	(cu_ptr * dst, cu_ptr * src, size_t * bytes, size_t nr, void *attributes, size_t *indices, \
	 size_t nr_attributes, size_t *failed, cu_stream stream)
#define BATCH_13                                                                                   \
	(cu_ptr * dst, cu_ptr * src, size_t * bytes, size_t nr, void *attributes, size_t *indices, \
	 size_t nr_attributes, cu_stream stream)
#define BATCH_3D_12 \
	(size_t nr, void *list, size_t *failed, unsigned long long flags, cu_stream stream)
#define BATCH_3D_13 (size_t nr, void *list, unsigned long long flags, cu_stream stream)
#define DECOMPRESS (void *list, size_t nr, unsigned int flags, size_t *failed, cu_stream stream)
#define FILL(word) (cu_ptr dst, word value, size_t nr)
#define FILL_ASYNC(word) (cu_ptr dst, word value, size_t nr, cu_stream stream)
#define FILL_2D(word) (cu_ptr dst, size_t pitch, word value, size_t width, size_t height)
#define FILL_2D_ASYNC(word) \
	(cu_ptr dst, size_t pitch, word value, size_t width, size_t height, cu_stream stream)
#define FLAG(word) (cu_stream stream, cu_ptr addr, word value, unsigned int flags)
#define FLAGS (cu_stream stream, unsigned int nr, struct cu_stream_op *list, unsigned int flags)
#define GRAPH (cu_graph_exec graph, cu_stream stream)
#define CAPTURE (cu_stream stream)
#define CAPTURE_MODE (cu_stream stream, int mode)
#define CAPTURE_TO                                                                     \
	(cu_stream stream, cu_graph graph, const void *dependencies, const void *data, \
	 size_t nr_dependencies, int mode)
#define CAPTURE_END (cu_stream stream, cu_graph * graph)

#define INSTANTIATE \
	(cu_graph_exec * exec, cu_graph graph, cu_node * failed, char *text, size_t bytes)
#define INSTANTIATE_FLAGS (cu_graph_exec * exec, cu_graph graph, unsigned long long flags)
#define INSTANTIATE_PARAMS (cu_graph_exec * exec, cu_graph graph, void *params)
#define EXEC_UPDATE (cu_graph_exec exec, cu_graph graph, cu_node * failed, int *why)
#define EXEC_UPDATE_INFO (cu_graph_exec exec, cu_graph graph, void *info)
#define NODE_ADD                                                                 \
	(cu_node * node, cu_graph graph, const cu_node *dependencies, size_t nr, \
	 const void *params, cu_context context)
#define NODE_ADD_OPS \
	(cu_node * node, cu_graph graph, const cu_node *dependencies, size_t nr, const void *params)
#define NODE_ADD_ANY \
	(cu_node * node, cu_graph graph, const cu_node *dependencies, size_t nr, void *params)
#define NODE_ADD_EDGES                                                                   \
	(cu_node * node, cu_graph graph, const cu_node *dependencies, const void *edges, \
	 size_t nr, void *params)
#define NODE_SET (cu_node node, const void *params)
#define EXEC_SET (cu_graph_exec exec, cu_node node, const void *params)
#define EXEC_SET_CONTEXT (cu_graph_exec exec, cu_node node, const void *params, cu_context context)

/* A function for the default stream of all threads, and the same one for that of each. */
#define TWO_HOOKS(X, symbol, suffix, name, since, since_suffix, parameters) \
	X(symbol, name, since, LEGACY, parameters)                          \
	X(symbol##suffix, name, since_suffix, PER_THREAD, parameters)

/* Copies, fills and what else uses memory in the order of a stream; arguments as for HOOKS. */
#define COPY_HOOKS(X)                                                                              \
	TWO_HOOKS(X, cuMemcpy, _ptds, "cuMemcpy", 4000, 7000, COPY)                                \
	TWO_HOOKS(X, cuMemcpyAsync, _ptsz, "cuMemcpyAsync", 4000, 7000, COPY_ASYNC)                \
	TWO_HOOKS(X, cuMemcpyPeer, _ptds, "cuMemcpyPeer", 4000, 7000, COPY_PEER)                   \
	TWO_HOOKS(X, cuMemcpyPeerAsync, _ptsz, "cuMemcpyPeerAsync", 4000, 7000, COPY_PEER_ASYNC)   \
	TWO_HOOKS(X, cuMemcpyHtoD_v2, _ptds, "cuMemcpyHtoD", 3020, 7000, FROM_HOST)                \
	TWO_HOOKS(X, cuMemcpyHtoDAsync_v2, _ptsz, "cuMemcpyHtoDAsync", 3020, 7000,                 \
		  FROM_HOST_ASYNC)                                                                 \
	TWO_HOOKS(X, cuMemcpyDtoH_v2, _ptds, "cuMemcpyDtoH", 3020, 7000, TO_HOST)                  \
	TWO_HOOKS(X, cuMemcpyDtoHAsync_v2, _ptsz, "cuMemcpyDtoHAsync", 3020, 7000, TO_HOST_ASYNC)  \
	TWO_HOOKS(X, cuMemcpyDtoD_v2, _ptds, "cuMemcpyDtoD", 3020, 7000, COPY)                     \
	TWO_HOOKS(X, cuMemcpyDtoDAsync_v2, _ptsz, "cuMemcpyDtoDAsync", 3020, 7000, COPY_ASYNC)     \
	TWO_HOOKS(X, cuMemcpyDtoA_v2, _ptds, "cuMemcpyDtoA", 3020, 7000, TO_ARRAY)                 \
	TWO_HOOKS(X, cuMemcpyAtoD_v2, _ptds, "cuMemcpyAtoD", 3020, 7000, FROM_ARRAY)               \
	TWO_HOOKS(X, cuMemcpy2D_v2, _ptds, "cuMemcpy2D", 3020, 7000, COPY_2D)                      \
	TWO_HOOKS(X, cuMemcpy2DUnaligned_v2, _ptds, "cuMemcpy2DUnaligned", 3020, 7000, COPY_2D)    \
	TWO_HOOKS(X, cuMemcpy2DAsync_v2, _ptsz, "cuMemcpy2DAsync", 3020, 7000, COPY_2D_ASYNC)      \
	TWO_HOOKS(X, cuMemcpy3D_v2, _ptds, "cuMemcpy3D", 3020, 7000, COPY_3D)                      \
	TWO_HOOKS(X, cuMemcpy3DAsync_v2, _ptsz, "cuMemcpy3DAsync", 3020, 7000, COPY_3D_ASYNC)      \
	TWO_HOOKS(X, cuMemcpy3DPeer, _ptds, "cuMemcpy3DPeer", 4000, 7000, COPY_3D)                 \
	TWO_HOOKS(X, cuMemcpy3DPeerAsync, _ptsz, "cuMemcpy3DPeerAsync", 4000, 7000, COPY_3D_ASYNC) \
	TWO_HOOKS(X, cuMemcpyBatchAsync, _ptsz, "cuMemcpyBatchAsync", 12080, 12080, BATCH_12)      \
	TWO_HOOKS(X, cuMemcpyBatchAsync_v2, _ptsz, "cuMemcpyBatchAsync", 13000, 13000, BATCH_13)   \
	TWO_HOOKS(X, cuMemcpy3DBatchAsync, _ptsz, "cuMemcpy3DBatchAsync", 12080, 12080,            \
		  BATCH_3D_12)                                                                     \
	TWO_HOOKS(X, cuMemcpy3DBatchAsync_v2, _ptsz, "cuMemcpy3DBatchAsync", 13000, 13000,         \
		  BATCH_3D_13)                                                                     \
	TWO_HOOKS(X, cuMemBatchDecompressAsync, _ptsz, "cuMemBatchDecompressAsync", 12060, 12060,  \
		  DECOMPRESS)                                                                      \
	TWO_HOOKS(X, cuMemsetD8_v2, _ptds, "cuMemsetD8", 3020, 7000, FILL(unsigned char))          \
	TWO_HOOKS(X, cuMemsetD16_v2, _ptds, "cuMemsetD16", 3020, 7000, FILL(unsigned short))       \
	TWO_HOOKS(X, cuMemsetD32_v2, _ptds, "cuMemsetD32", 3020, 7000, FILL(unsigned int))         \
	TWO_HOOKS(X, cuMemsetD8Async, _ptsz, "cuMemsetD8Async", 3020, 7000,                        \
		  FILL_ASYNC(unsigned char))                                                       \
	TWO_HOOKS(X, cuMemsetD16Async, _ptsz, "cuMemsetD16Async", 3020, 7000,                      \
		  FILL_ASYNC(unsigned short))                                                      \
	TWO_HOOKS(X, cuMemsetD32Async, _ptsz, "cuMemsetD32Async", 3020, 7000,                      \
		  FILL_ASYNC(unsigned int))                                                        \
	TWO_HOOKS(X, cuMemsetD2D8_v2, _ptds, "cuMemsetD2D8", 3020, 7000, FILL_2D(unsigned char))   \
	TWO_HOOKS(X, cuMemsetD2D16_v2, _ptds, "cuMemsetD2D16", 3020, 7000,                         \
		  FILL_2D(unsigned short))                                                         \
	TWO_HOOKS(X, cuMemsetD2D32_v2, _ptds, "cuMemsetD2D32", 3020, 7000, FILL_2D(unsigned int))  \
	TWO_HOOKS(X, cuMemsetD2D8Async, _ptsz, "cuMemsetD2D8Async", 3020, 7000,                    \
		  FILL_2D_ASYNC(unsigned char))                                                    \
	TWO_HOOKS(X, cuMemsetD2D16Async, _ptsz, "cuMemsetD2D16Async", 3020, 7000,                  \
		  FILL_2D_ASYNC(unsigned short))                                                   \
	TWO_HOOKS(X, cuMemsetD2D32Async, _ptsz, "cuMemsetD2D32Async", 3020, 7000,                  \
		  FILL_2D_ASYNC(unsigned int))                                                     \
	TWO_HOOKS(X, cuStreamWaitValue32, _ptsz, "cuStreamWaitValue32", 8000, 8000,                \
		  FLAG(uint32_t))                                                                  \
	TWO_HOOKS(X, cuStreamWaitValue32_v2, _ptsz, "cuStreamWaitValue32", 11070, 11070,           \
		  FLAG(uint32_t))                                                                  \
	TWO_HOOKS(X, cuStreamWaitValue64, _ptsz, "cuStreamWaitValue64", 9000, 9000,                \
		  FLAG(uint64_t))                                                                  \
	TWO_HOOKS(X, cuStreamWaitValue64_v2, _ptsz, "cuStreamWaitValue64", 11070, 11070,           \
		  FLAG(uint64_t))                                                                  \
	TWO_HOOKS(X, cuStreamWriteValue32, _ptsz, "cuStreamWriteValue32", 8000, 8000,              \
		  FLAG(uint32_t))                                                                  \
	TWO_HOOKS(X, cuStreamWriteValue32_v2, _ptsz, "cuStreamWriteValue32", 11070, 11070,         \
		  FLAG(uint32_t))                                                                  \
	TWO_HOOKS(X, cuStreamWriteValue64, _ptsz, "cuStreamWriteValue64", 9000, 9000,              \
		  FLAG(uint64_t))                                                                  \
	TWO_HOOKS(X, cuStreamWriteValue64_v2, _ptsz, "cuStreamWriteValue64", 11070, 11070,         \
		  FLAG(uint64_t))                                                                  \
	TWO_HOOKS(X, cuStreamBatchMemOp, _ptsz, "cuStreamBatchMemOp", 8000, 8000, FLAGS)           \
	TWO_HOOKS(X, cuStreamBatchMemOp_v2, _ptsz, "cuStreamBatchMemOp", 11070, 11070, FLAGS)      \
	TWO_HOOKS(X, cuGraphLaunch, _ptsz, "cuGraphLaunch", 10000, 10000, GRAPH)

/* What begins and ends captures of streams; arguments as for HOOKS. */
#define CAPTURE_HOOKS(X)                                                                         \
	TWO_HOOKS(X, cuStreamBeginCapture, _ptsz, "cuStreamBeginCapture", 10000, 10000, CAPTURE) \
	TWO_HOOKS(X, cuStreamBeginCapture_v2, _ptsz, "cuStreamBeginCapture", 10010, 10010,       \
		  CAPTURE_MODE)                                                                  \
	TWO_HOOKS(X, cuStreamBeginCaptureToGraph, _ptsz, "cuStreamBeginCaptureToGraph", 12030,   \
		  12030, CAPTURE_TO)                                                             \
	TWO_HOOKS(X, cuStreamEndCapture, _ptsz, "cuStreamEndCapture", 10000, 10000, CAPTURE_END)

/* What looks at the memory that copies and fills of a graph use; arguments as for HOOKS. */
#define GRAPH_HOOKS(X)                                                                             \
	X(cuGraphInstantiate, "cuGraphInstantiate", 10000, BOTH, INSTANTIATE)                      \
	X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, BOTH, INSTANTIATE)                   \
	X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, BOTH,                 \
	  INSTANTIATE_FLAGS)                                                                       \
	TWO_HOOKS(X, cuGraphInstantiateWithParams, _ptsz, "cuGraphInstantiateWithParams", 12000,   \
		  12000, INSTANTIATE_PARAMS)                                                       \
	TWO_HOOKS(X, cuGraphUpload, _ptsz, "cuGraphUpload", 11010, 11010, GRAPH)                   \
	X(cuGraphExecUpdate, "cuGraphExecUpdate", 10020, BOTH, EXEC_UPDATE)                        \
	X(cuGraphExecUpdate_v2, "cuGraphExecUpdate", 12000, BOTH, EXEC_UPDATE_INFO)                \
	X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", 10000, BOTH, NODE_ADD)                     \
	X(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000, BOTH, NODE_ADD)                     \
	X(cuGraphAddNode, "cuGraphAddNode", 12020, BOTH, NODE_ADD_ANY)                             \
	X(cuGraphAddNode_v2, "cuGraphAddNode", 12030, BOTH, NODE_ADD_EDGES)                        \
	X(cuGraphAddBatchMemOpNode, "cuGraphAddBatchMemOpNode", 11070, BOTH, NODE_ADD_OPS)         \
	X(cuGraphBatchMemOpNodeSetParams, "cuGraphBatchMemOpNodeSetParams", 11070, BOTH, NODE_SET) \
	X(cuGraphExecBatchMemOpNodeSetParams, "cuGraphExecBatchMemOpNodeSetParams", 11070, BOTH,   \
	  EXEC_SET)                                                                                \
	X(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams", 10000, BOTH, NODE_SET)         \
	X(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams", 10000, BOTH, NODE_SET)         \
	X(cuGraphNodeSetParams, "cuGraphNodeSetParams", 12020, BOTH, NODE_SET)                     \
	X(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", 10020, BOTH,           \
	  EXEC_SET_CONTEXT)                                                                        \
	X(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", 10020, BOTH,           \
	  EXEC_SET_CONTEXT)                                                                        \
	X(cuGraphExecNodeSetParams, "cuGraphExecNodeSetParams", 12020, BOTH, EXEC_SET)             \
	X(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", 11010, BOTH,   \
	  (cu_graph_exec exec, cu_node node, cu_graph graph))

/*
 * X(symbol, name, since, streams, parameters): the function's name in the library; the one that
 * cuGetProcAddress is asked for, and the first version of CUDA to mean this function by it; which
 * kinds of the default stream it is for (BOTH, LEGACY, PER_THREAD); its parameters.
 */
#define HOOKS(X)                                                                                  \
	X(cuInit, "cuInit", 2000, BOTH, (unsigned int flags))                                     \
	X(cuGetProcAddress, "cuGetProcAddress", 11030, BOTH,                                      \
	  (const char *name, void **fn, int version, uint64_t flags))                             \
	X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, BOTH,                                   \
	  (const char *name, void **fn, int version, uint64_t flags, int *status))                \
	X(cuMemAlloc_v2, "cuMemAlloc", 3020, BOTH, (cu_ptr * addr, size_t bytes))                 \
	X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, BOTH,                                      \
	  (cu_ptr * addr, size_t * pitch, size_t width, size_t height, unsigned int element))     \
	X(cuMemAllocAsync, "cuMemAllocAsync", 11020, LEGACY,                                      \
	  (cu_ptr * addr, size_t bytes, cu_stream stream))                                        \
	X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, PER_THREAD,                             \
	  (cu_ptr * addr, size_t bytes, cu_stream stream))                                        \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, LEGACY,                      \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream))                          \
	X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, PER_THREAD,             \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream))                          \
	X(cuMemFree_v2, "cuMemFree", 3020, BOTH, (cu_ptr addr))                                   \
	X(cuMemFreeAsync, "cuMemFreeAsync", 11020, LEGACY, (cu_ptr addr, cu_stream stream))       \
	X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, PER_THREAD,                               \
	  (cu_ptr addr, cu_stream stream))                                                        \
	X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, BOTH, (size_t * free, size_t * total))           \
	X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, BOTH,                            \
	  (cu_ptr * base, size_t * bytes, cu_ptr addr))                                           \
	X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, BOTH,                             \
	  (void *data, int attribute, cu_ptr addr))                                               \
	X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, BOTH,                           \
	  (unsigned int nr, int *attributes, void **data, cu_ptr addr))                           \
	X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, BOTH, (void *handle, cu_ptr addr))        \
	X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, BOTH,            \
	  (void *handle, cu_ptr addr, size_t bytes, int type, unsigned long long flags))          \
	X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, BOTH,                \
	  (cu_handle * handle, void *addr))                                                       \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, BOTH,                            \
	  (cu_pool pool, int attribute, void *value))                                             \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, BOTH,                            \
	  (cu_pool pool, int attribute, void *value))                                             \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, BOTH, (cu_pool pool, size_t bytes))          \
	X(cuLaunch, "cuLaunch", 2000, BOTH, LAUNCH_ONE)                                           \
	X(cuLaunchGrid, "cuLaunchGrid", 2000, BOTH, LAUNCH_GRID)                                  \
	X(cuLaunchGridAsync, "cuLaunchGridAsync", 2000, BOTH, LAUNCH_GRID_ASYNC)                  \
	X(cuLaunchKernel, "cuLaunchKernel", 4000, LEGACY, LAUNCH_PARAMETERS)                      \
	X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, PER_THREAD, LAUNCH_PARAMETERS)             \
	X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, LEGACY, COOPERATIVE)      \
	X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, PER_THREAD,          \
	  COOPERATIVE)                                                                            \
	X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, LEGACY, LAUNCH_EX)                         \
	X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, PER_THREAD, LAUNCH_EX)                \
	X(cuTexObjectCreate, "cuTexObjectCreate", 5000, BOTH, TEXTURE)                            \
	X(cuTexRefSetAddress_v2, "cuTexRefSetAddress", 3020, BOTH, TEXTURE_REF)                   \
	X(cuTexRefSetAddress2D_v2, "cuTexRefSetAddress2D", 3020, BOTH, TEXTURE_REF_2D)            \
	X(cuTexRefSetAddress2D_v3, "cuTexRefSetAddress2D", 4010, BOTH, TEXTURE_REF_2D)            \
	X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", 12000, BOTH, MAP_TILED)               \
	X(cuTensorMapEncodeIm2col, "cuTensorMapEncodeIm2col", 12000, BOTH, MAP_IM2COL)            \
	X(cuTensorMapEncodeIm2colWide, "cuTensorMapEncodeIm2colWide", 12080, BOTH,                \
	  MAP_IM2COL_WIDE)                                                                        \
	X(cuTensorMapReplaceAddress, "cuTensorMapReplaceAddress", 12000, BOTH, MAP_ADDRESS)       \
	X(cuCtxSynchronize, "cuCtxSynchronize", 2000, BOTH, (void))                               \
	X(cuStreamSynchronize, "cuStreamSynchronize", 2000, LEGACY, (cu_stream stream))           \
	X(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, PER_THREAD, (cu_stream stream))  \
	X(cuEventSynchronize, "cuEventSynchronize", 2000, BOTH, (cu_event event))                 \
	X(cuModuleLoad, "cuModuleLoad", 2000, BOTH, MODULE_FILE)                                  \
	X(cuModuleLoadData, "cuModuleLoadData", 2000, BOTH, MODULE_IMAGE)                         \
	X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, BOTH, MODULE_IMAGE_EX)                  \
	X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, BOTH, MODULE_IMAGE)               \
	X(cuModuleUnload, "cuModuleUnload", 2000, BOTH, (cu_module module))                       \
	X(cuLibraryLoadData, "cuLibraryLoadData", 12000, BOTH, LIBRARY_IMAGE)                     \
	X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, BOTH, LIBRARY_FILE)              \
	X(cuLibraryUnload, "cuLibraryUnload", 12000, BOTH, (cu_library library))                  \
	X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, BOTH, (cu_stream stream))                  \
	X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, BOTH, (cu_device device))     \
	X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, BOTH, (cu_device device)) \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, BOTH, (cu_device device)) \
	X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, BOTH,                 \
	  (cu_device device))                                                                     \
	X(cuCtxDestroy, "cuCtxDestroy", 2000, BOTH, (cu_context context))                         \
	X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, BOTH, (cu_context context))                      \
	COPY_HOOKS(X)                                                                             \
	CAPTURE_HOOKS(X)                                                                          \
	GRAPH_HOOKS(X)

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define HOOK_DECLARE(symbol, name, since, streams, parameters) cu_result hook_##symbol parameters;
HOOKS(HOOK_DECLARE)
#undef HOOK_DECLARE

/* The driver's own, and others of it that hooks call. Set before any hook runs, or where the driver
 * does not export it, before the program has the hook's address; NULL: it has no such function. */
struct real {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define HOOK_MEMBER(symbol, name, since, streams, parameters) cu_result(*symbol) parameters;
	HOOKS(HOOK_MEMBER)
#undef HOOK_MEMBER
	cu_result (*cuFuncGetAttribute)(int *value, int attribute, cu_function function);
	cu_result (*cuFuncGetModule)(cu_module *module, cu_function function);
	cu_result (*cuFuncGetName)(const char **name, cu_function function);
	cu_result (*cuFuncGetParamInfo)(cu_function function, size_t n, size_t *offset,
					size_t *bytes);
	cu_result (*cuKernelGetAttribute)(int *value, int attribute, cu_function kernel,
					  cu_device device);
	cu_result (*cuKernelGetLibrary)(cu_library *library, cu_function kernel);
	cu_result (*cuKernelGetName)(const char **name, cu_function kernel);
	cu_result (*cuKernelGetParamInfo)(cu_function kernel, size_t n, size_t *offset,
					  size_t *bytes);
	cu_result (*cuCtxGetDevice)(cu_device *device);
	cu_result (*cuCtxGetCurrent)(cu_context *context);
	cu_result (*cuDevicePrimaryCtxRetain)(cu_context *context, cu_device device);
	cu_result (*cuDevicePrimaryCtxGetState)(cu_device device, unsigned int *flags, int *active);
	cu_result (*cuDeviceGetDefaultMemPool)(cu_pool *pool, cu_device device);
	cu_result (*cuDeviceTotalMem_v2)(size_t *bytes, cu_device device);
	cu_result (*cuDriverGetVersion)(int *version);
	cu_result (*cuCtxPushCurrent_v2)(cu_context context);
	cu_result (*cuCtxPopCurrent_v2)(cu_context *context);
	cu_result (*cuStreamQuery)(cu_stream stream);
	cu_result (*cuStreamGetCtx)(cu_stream stream, cu_context *context);
	cu_result (*cuStreamIsCapturing)(cu_stream stream, int *status);
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

/* Whether the thread is within a hook, as a signal's handler may be: locks may be its own. */
bool hook_is_within(void);

/*
 * Around calls that weir makes of itself and that would spoil a capture of another thread's, as
 * questions and allocations do. On CU_SUCCESS hook_unrelax() is to follow, with the mode as it was
 * written. CU_NOT_SUPPORTED: the driver has no function for that; other results may be faults of
 * earlier work.
 */
cu_result hook_relax(int *mode);
void hook_unrelax(int mode);

/* Modules go: handles of their kernels may be given to others. */
void hook_forget_kernels(void);

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
