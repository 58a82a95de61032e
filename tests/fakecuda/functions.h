/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the driver which weir's backend has no use for and unmodified programs call, with
 * their types as in cuda.h; CUDA_FUNCTIONS of driver.h has the others. Then the variants of both
 * whose stream 0 is the calling thread's own.
 */
#ifndef WEIR_TESTS_FAKE_FUNCTIONS_H
#define WEIR_TESTS_FAKE_FUNCTIONS_H

#include "shim/textures.h"
#include "src/backend/cuda/driver.h"
#include "tests/fakecuda/copies.h"

typedef struct CUlib_st *cu_library;
typedef struct CUkern_st *cu_kernel;
typedef struct CUmemPoolHandle_st *cu_pool;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_graph_exec;

struct cu_uuid {
	unsigned char bytes[16];
};

struct cu_ipc_handle {
	char reserved[64];
};

struct cu_launch_config {
	unsigned int grid[3], block[3], shared_bytes;
	cu_stream stream;
	void *attributes;
	unsigned int nr_attributes;
};

/* cuGetProcAddress() */
enum { CU_PROC_DEFAULT = 0, CU_PROC_LEGACY = 1, CU_PROC_PER_THREAD = 2 };
enum { CU_PROC_FOUND = 0, CU_PROC_NOT_FOUND = 1, CU_PROC_TOO_OLD = 2 };

/* What the list of extra launch options consists of. */
#define CU_LAUNCH_END ((void *)0x00)
#define CU_LAUNCH_BUFFER ((void *)0x01)
#define CU_LAUNCH_BUFFER_BYTES ((void *)0x02)

/* cuPointerGetAttribute(), cuMemPoolGetAttribute() */
enum {
	CU_POINTER_CONTEXT = 1,
	CU_POINTER_MEMORY_TYPE = 2,
	CU_POINTER_DEVICE_POINTER = 3,
	CU_POINTER_HOST_POINTER = 4,
	CU_POINTER_SYNC_MEMOPS = 6,
	CU_POINTER_BUFFER_ID = 7,
	CU_POINTER_IS_MANAGED = 8,
	CU_POINTER_DEVICE = 9,
	CU_POINTER_IPC_CAPABLE = 10,
	CU_POINTER_RANGE_START = 11,
	CU_POINTER_RANGE_BYTES = 12,
	CU_POINTER_MAPPED = 13,
	CU_POINTER_HANDLE_TYPES = 14,
	CU_POINTER_ACCESS = 16,
	CU_POINTER_POOL = 17,
	CU_POINTER_MAPPING_BYTES = 18,
	CU_POINTER_MAPPING_START = 19,
};
enum {
	CU_POOL_REUSE_EVENTS = 1,
	CU_POOL_REUSE_OPPORTUNISTIC,
	CU_POOL_REUSE_INTERNAL,
	CU_POOL_RELEASE_THRESHOLD,
	CU_POOL_RESERVED,
	CU_POOL_RESERVED_HIGH,
	CU_POOL_USED,
	CU_POOL_USED_HIGH,
};

#define LAUNCH_PARAMETERS                                                                    \
	cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
		unsigned int block_x, unsigned int block_y, unsigned int block_z,            \
		unsigned int shared_bytes, cu_stream stream, void **parameters
#define LAUNCH_ARGUMENTS                                                                   \
	function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, \
		parameters

/* X(member, symbol, parameters), as in driver.h. */
#define FAKE_FUNCTIONS(X)                                                                        \
	X(proc, "cuGetProcAddress",                                                              \
	  (const char *name, void **function, int version, uint64_t flags))                      \
	X(proc_v2, "cuGetProcAddress_v2",                                                        \
	  (const char *name, void **function, int version, uint64_t flags, int *status))         \
	X(device_uuid, "cuDeviceGetUuid", (struct cu_uuid * uuid, cu_device device))             \
	X(device_uuid_v2, "cuDeviceGetUuid_v2", (struct cu_uuid * uuid, cu_device device))       \
	X(context_reset, "cuDevicePrimaryCtxReset_v2", (cu_device device))                       \
	X(context_state, "cuDevicePrimaryCtxGetState",                                           \
	  (cu_device device, unsigned int *flags, int *active))                                  \
	X(context_get, "cuCtxGetCurrent", (cu_context * context))                                \
	X(context_set, "cuCtxSetCurrent", (cu_context context))                                  \
	X(context_device, "cuCtxGetDevice", (cu_device * device))                                \
	X(context_device_v2, "cuCtxGetDevice_v2", (cu_device * device, cu_context context))      \
	X(context_sync_v2, "cuCtxSynchronize_v2", (cu_context context))                          \
	X(context_create, "cuCtxCreate_v2",                                                      \
	  (cu_context * context, unsigned int flags, cu_device device))                          \
	X(context_create_v3, "cuCtxCreate_v3",                                                   \
	  (cu_context * context, void *parameters, int nr_parameters, unsigned int flags,        \
	   cu_device device))                                                                    \
	X(context_create_v4, "cuCtxCreate_v4",                                                   \
	  (cu_context * context, void *parameters, unsigned int flags, cu_device device))        \
	X(context_destroy, "cuCtxDestroy_v2", (cu_context context))                              \
	X(stream_context_v2, "cuStreamGetCtx_v2",                                                \
	  (cu_stream stream, cu_context * context, void **green))                                \
	X(event_elapsed_v2, "cuEventElapsedTime_v2", (float *ms, cu_event begin, cu_event end))  \
	X(stream_query, "cuStreamQuery", (cu_stream stream))                                     \
	X(stream_flags, "cuStreamGetFlags", (cu_stream stream, unsigned int *flags))             \
	X(stream_priority, "cuStreamGetPriority", (cu_stream stream, int *priority))             \
	X(copy_sync, "cuMemcpy", (cu_ptr dst, cu_ptr src, size_t bytes))                         \
	X(copy_htod, "cuMemcpyHtoD_v2", (cu_ptr dst, const void *src, size_t bytes))             \
	X(copy_dtoh, "cuMemcpyDtoH_v2", (void *dst, cu_ptr src, size_t bytes))                   \
	X(copy_dtod, "cuMemcpyDtoD_v2", (cu_ptr dst, cu_ptr src, size_t bytes))                  \
	X(copy_htod_async, "cuMemcpyHtoDAsync_v2",                                               \
	  (cu_ptr dst, const void *src, size_t bytes, cu_stream stream))                         \
	X(copy_dtoh_async, "cuMemcpyDtoHAsync_v2",                                               \
	  (void *dst, cu_ptr src, size_t bytes, cu_stream stream))                               \
	X(copy_dtod_async, "cuMemcpyDtoDAsync_v2",                                               \
	  (cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream))                              \
	X(fill8, "cuMemsetD8_v2", (cu_ptr addr, unsigned char byte, size_t nr))                  \
	X(fill16, "cuMemsetD16_v2", (cu_ptr addr, unsigned short word, size_t nr))               \
	X(fill32, "cuMemsetD32_v2", (cu_ptr addr, unsigned int word, size_t nr))                 \
	X(fill8_async, "cuMemsetD8Async",                                                        \
	  (cu_ptr addr, unsigned char byte, size_t nr, cu_stream stream))                        \
	X(fill16_async, "cuMemsetD16Async",                                                      \
	  (cu_ptr addr, unsigned short word, size_t nr, cu_stream stream))                       \
	X(mem_alloc_pitch, "cuMemAllocPitch_v2",                                                 \
	  (cu_ptr * addr, size_t * pitch, size_t width, size_t height, unsigned int element))    \
	X(mem_range, "cuMemGetAddressRange_v2", (cu_ptr * base, size_t * bytes, cu_ptr addr))    \
	X(pointer_attribute, "cuPointerGetAttribute", (void *data, int attribute, cu_ptr addr))  \
	X(pointer_attributes, "cuPointerGetAttributes",                                          \
	  (unsigned int nr, int *attributes, void **data, cu_ptr addr))                          \
	X(pool_default, "cuDeviceGetDefaultMemPool", (cu_pool * pool, cu_device device))         \
	X(pool_get, "cuDeviceGetMemPool", (cu_pool * pool, cu_device device))                    \
	X(pool_alloc, "cuMemAllocAsync", (cu_ptr * addr, size_t bytes, cu_stream stream))        \
	X(pool_alloc_from, "cuMemAllocFromPoolAsync",                                            \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream))                         \
	X(pool_free, "cuMemFreeAsync", (cu_ptr addr, cu_stream stream))                          \
	X(pool_trim, "cuMemPoolTrimTo", (cu_pool pool, size_t bytes))                            \
	X(pool_attribute, "cuMemPoolGetAttribute", (cu_pool pool, int attribute, void *value))   \
	X(pool_set, "cuMemPoolSetAttribute", (cu_pool pool, int attribute, void *value))         \
	X(ipc_handle, "cuIpcGetMemHandle", (struct cu_ipc_handle * handle, cu_ptr addr))         \
	X(host_alloc_plain, "cuMemAllocHost_v2", (void **addr, size_t bytes))                    \
	X(host_register, "cuMemHostRegister_v2", (void *addr, size_t bytes, unsigned int flags)) \
	X(host_unregister, "cuMemHostUnregister", (void *addr))                                  \
	X(host_pointer, "cuMemHostGetDevicePointer_v2",                                          \
	  (cu_ptr * addr, void *host, unsigned int flags))                                       \
	X(module_load_data, "cuModuleLoadData", (cu_module * module, const void *image))         \
	X(module_global, "cuModuleGetGlobal_v2",                                                 \
	  (cu_ptr * addr, size_t * bytes, cu_module module, const char *name))                   \
	X(function_parameter, "cuFuncGetParamInfo",                                              \
	  (cu_function function, size_t index, size_t * offset, size_t * bytes))                 \
	X(function_name, "cuFuncGetName", (const char **name, cu_function function))             \
	X(function_attribute, "cuFuncGetAttribute",                                              \
	  (int *value, int attribute, cu_function function))                                     \
	X(function_module, "cuFuncGetModule", (cu_module * module, cu_function function))        \
	X(kernel_attribute, "cuKernelGetAttribute",                                              \
	  (int *value, int attribute, cu_kernel kernel, cu_device device))                       \
	X(kernel_library, "cuKernelGetLibrary", (cu_library * library, cu_kernel kernel))        \
	X(library_load, "cuLibraryLoadData",                                                     \
	  (cu_library * library, const void *image, int *options, void **values,                 \
	   unsigned int nr_options, int *library_options, void **library_values,                 \
	   unsigned int nr_library_options))                                                     \
	X(library_unload, "cuLibraryUnload", (cu_library library))                               \
	X(library_kernel, "cuLibraryGetKernel",                                                  \
	  (cu_kernel * kernel, cu_library library, const char *name))                            \
	X(library_global, "cuLibraryGetGlobal",                                                  \
	  (cu_ptr * addr, size_t * bytes, cu_library library, const char *name))                 \
	X(kernel_function, "cuKernelGetFunction", (cu_function * function, cu_kernel kernel))    \
	X(kernel_name, "cuKernelGetName", (const char **name, cu_kernel kernel))                 \
	X(kernel_parameter, "cuKernelGetParamInfo",                                              \
	  (cu_kernel kernel, size_t index, size_t * offset, size_t * bytes))                     \
	X(launch_config, "cuLaunchKernelEx",                                                     \
	  (const struct cu_launch_config *config, cu_function function, void **parameters,       \
	   void **extra))                                                                        \
	X(launch_cooperative, "cuLaunchCooperativeKernel", (LAUNCH_PARAMETERS))                  \
	X(function_block, "cuFuncSetBlockShape", (cu_function function, int x, int y, int z))    \
	X(parameter_size, "cuParamSetSize", (cu_function function, unsigned int bytes))          \
	X(parameter_set, "cuParamSetv",                                                          \
	  (cu_function function, int offset, void *from, unsigned int bytes))                    \
	X(launch_one, "cuLaunch", (cu_function function))                                        \
	X(launch_grid, "cuLaunchGrid", (cu_function function, int width, int height))            \
	X(launch_grid_async, "cuLaunchGridAsync",                                                \
	  (cu_function function, int width, int height, cu_stream stream))                       \
	X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int mode))                \
	X(capture_end, "cuStreamEndCapture", (cu_stream stream, cu_graph * graph))               \
	X(graph_instantiate, "cuGraphInstantiateWithFlags",                                      \
	  (cu_graph_exec * exec, cu_graph graph, unsigned long long flags))                      \
	X(graph_launch, "cuGraphLaunch", (cu_graph_exec exec, cu_stream stream))                 \
	X(graph_destroy, "cuGraphDestroy", (cu_graph graph))                                     \
	X(graph_exec_destroy, "cuGraphExecDestroy", (cu_graph_exec exec))                        \
	X(texture_create, "cuTexObjectCreate", TEXTURE)                                          \
	X(texture_destroy, "cuTexObjectDestroy", (uint64_t texture))                             \
	X(reference_create, "cuTexRefCreate", (void **texture))                                  \
	X(reference_destroy, "cuTexRefDestroy", (void *texture))                                 \
	X(reference_linear, "cuTexRefSetAddress_v2", TEXTURE_REF)                                \
	X(reference_rows_v2, "cuTexRefSetAddress2D_v2", TEXTURE_REF_2D)                          \
	X(reference_rows_v3, "cuTexRefSetAddress2D_v3", TEXTURE_REF_2D)                          \
	X(map_tiled, "cuTensorMapEncodeTiled", MAP_TILED)                                        \
	X(map_im2col, "cuTensorMapEncodeIm2col", MAP_IM2COL)                                     \
	X(map_im2col_wide, "cuTensorMapEncodeIm2colWide", MAP_IM2COL_WIDE)                       \
	X(map_address, "cuTensorMapReplaceAddress", MAP_ADDRESS)                                 \
	FAKE_COPIES(X)

/* X(member, symbol, parameters, arguments). */
#define FAKE_PER_THREAD(X)                                                                         \
	X(stream_sync, "cuStreamSynchronize_ptsz", (cu_stream stream), (stream))                   \
	X(stream_wait, "cuStreamWaitEvent_ptsz",                                                   \
	  (cu_stream stream, cu_event event, unsigned int flags), (stream, event, flags))          \
	X(stream_context, "cuStreamGetCtx_ptsz", (cu_stream stream, cu_context * context),         \
	  (stream, context))                                                                       \
	X(stream_context_v2, "cuStreamGetCtx_v2_ptsz",                                             \
	  (cu_stream stream, cu_context * context, void **green), (stream, context, green))        \
	X(stream_capturing, "cuStreamIsCapturing_ptsz", (cu_stream stream, int *status),           \
	  (stream, status))                                                                        \
	X(stream_query, "cuStreamQuery_ptsz", (cu_stream stream), (stream))                        \
	X(stream_flags, "cuStreamGetFlags_ptsz", (cu_stream stream, unsigned int *flags),          \
	  (stream, flags))                                                                         \
	X(stream_priority, "cuStreamGetPriority_ptsz", (cu_stream stream, int *priority),          \
	  (stream, priority))                                                                      \
	X(event_record, "cuEventRecord_ptsz", (cu_event event, cu_stream stream), (event, stream)) \
	X(copy, "cuMemcpyAsync_ptsz", (cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream),    \
	  (dst, src, bytes, stream))                                                               \
	X(copy_batch, "cuMemcpyBatchAsync_v2_ptsz",                                                \
	  (cu_ptr * dst, cu_ptr * src, size_t * bytes, size_t nr,                                  \
	   struct cu_copy_attributes * attributes, size_t * first, size_t nr_attributes,           \
	   cu_stream stream),                                                                      \
	  (dst, src, bytes, nr, attributes, first, nr_attributes, stream))                         \
	X(copy_sync, "cuMemcpy_ptds", (cu_ptr dst, cu_ptr src, size_t bytes), (dst, src, bytes))   \
	X(copy_htod, "cuMemcpyHtoD_v2_ptds", (cu_ptr dst, const void *src, size_t bytes),          \
	  (dst, src, bytes))                                                                       \
	X(copy_dtoh, "cuMemcpyDtoH_v2_ptds", (void *dst, cu_ptr src, size_t bytes),                \
	  (dst, src, bytes))                                                                       \
	X(copy_dtod, "cuMemcpyDtoD_v2_ptds", (cu_ptr dst, cu_ptr src, size_t bytes),               \
	  (dst, src, bytes))                                                                       \
	X(copy_htod_async, "cuMemcpyHtoDAsync_v2_ptsz",                                            \
	  (cu_ptr dst, const void *src, size_t bytes, cu_stream stream),                           \
	  (dst, src, bytes, stream))                                                               \
	X(copy_dtoh_async, "cuMemcpyDtoHAsync_v2_ptsz",                                            \
	  (void *dst, cu_ptr src, size_t bytes, cu_stream stream), (dst, src, bytes, stream))      \
	X(copy_dtod_async, "cuMemcpyDtoDAsync_v2_ptsz",                                            \
	  (cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream), (dst, src, bytes, stream))     \
	X(fill8, "cuMemsetD8_v2_ptds", (cu_ptr addr, unsigned char byte, size_t nr),               \
	  (addr, byte, nr))                                                                        \
	X(fill16, "cuMemsetD16_v2_ptds", (cu_ptr addr, unsigned short word, size_t nr),            \
	  (addr, word, nr))                                                                        \
	X(fill32, "cuMemsetD32_v2_ptds", (cu_ptr addr, unsigned int word, size_t nr),              \
	  (addr, word, nr))                                                                        \
	X(fill8_async, "cuMemsetD8Async_ptsz",                                                     \
	  (cu_ptr addr, unsigned char byte, size_t nr, cu_stream stream),                          \
	  (addr, byte, nr, stream))                                                                \
	X(fill16_async, "cuMemsetD16Async_ptsz",                                                   \
	  (cu_ptr addr, unsigned short word, size_t nr, cu_stream stream),                         \
	  (addr, word, nr, stream))                                                                \
	X(fill, "cuMemsetD32Async_ptsz",                                                           \
	  (cu_ptr addr, unsigned int word, size_t nr_words, cu_stream stream),                     \
	  (addr, word, nr_words, stream))                                                          \
	X(managed_prefetch, "cuMemPrefetchAsync_v2_ptsz",                                          \
	  (cu_ptr addr, size_t bytes, struct cu_location to, unsigned int flags,                   \
	   cu_stream stream),                                                                      \
	  (addr, bytes, to, flags, stream))                                                        \
	X(pool_alloc, "cuMemAllocAsync_ptsz", (cu_ptr * addr, size_t bytes, cu_stream stream),     \
	  (addr, bytes, stream))                                                                   \
	X(pool_alloc_from, "cuMemAllocFromPoolAsync_ptsz",                                         \
	  (cu_ptr * addr, size_t bytes, cu_pool pool, cu_stream stream),                           \
	  (addr, bytes, pool, stream))                                                             \
	X(pool_free, "cuMemFreeAsync_ptsz", (cu_ptr addr, cu_stream stream), (addr, stream))       \
	X(launch, "cuLaunchKernel_ptsz", (LAUNCH_PARAMETERS, void **extra),                        \
	  (LAUNCH_ARGUMENTS, extra))                                                               \
	X(launch_config, "cuLaunchKernelEx_ptsz",                                                  \
	  (const struct cu_launch_config *config, cu_function function, void **parameters,         \
	   void **extra),                                                                          \
	  (config, function, parameters, extra))                                                   \
	X(launch_cooperative, "cuLaunchCooperativeKernel_ptsz", (LAUNCH_PARAMETERS),               \
	  (LAUNCH_ARGUMENTS))                                                                      \
	X(capture_begin, "cuStreamBeginCapture_v2_ptsz", (cu_stream stream, int mode),             \
	  (stream, mode))                                                                          \
	X(capture_end, "cuStreamEndCapture_ptsz", (cu_stream stream, cu_graph * graph),            \
	  (stream, graph))                                                                         \
	X(graph_launch, "cuGraphLaunch_ptsz", (cu_graph_exec exec, cu_stream stream),              \
	  (exec, stream))                                                                          \
	FAKE_COPIES_PER_THREAD(X)

#endif
