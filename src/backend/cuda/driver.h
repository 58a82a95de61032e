/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver library, opened at run time: the part of its binary interface that weir uses, one
 * list of its functions, and how its errors read. The types are declared here, so that weir builds
 * where no CUDA header is; a test holds them to cuda.h where there is one.
 */
#ifndef WEIR_CUDA_DRIVER_H
#define WEIR_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result;	    /* CUresult */
typedef int cu_device;	    /* CUdevice */
typedef uint64_t cu_ptr;    /* CUdeviceptr */
typedef uint64_t cu_handle; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;

/* Results that are told apart; the driver names the others. */
enum {
	CU_SUCCESS = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_DEINITIALIZED = 4,
	CU_STUB_LIBRARY = 34,
	CU_DEVICE_UNAVAILABLE = 46,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_ECC_UNCORRECTABLE = 214,
	CU_NVLINK_UNCORRECTABLE = 220,
	CU_CONTAINED = 226,
	CU_OPERATING_SYSTEM = 304,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_LAUNCH_TIMEOUT = 702,
	CU_CONTEXT_IS_DESTROYED = 709,
	CU_ASSERT = 710,
	CU_HARDWARE_STACK_ERROR = 714,
	CU_INVALID_PC = 718, /* and those between: faults of a kernel */
	CU_LAUNCH_FAILED = 719,
	CU_NOT_SUPPORTED = 801,
	CU_SYSTEM_NOT_READY = 802,
	CU_SYSTEM_DRIVER_MISMATCH = 803,
	CU_CAPTURE_UNSUPPORTED = 900,
	CU_CAPTURE_WRONG_THREAD = 908, /* and those between: a stream is being captured */
};

/* cuDeviceGetAttribute() */
enum {
	CU_ATTRIBUTE_MULTIPROCESSORS = 16,
	CU_ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
	CU_ATTRIBUTE_MEMORY_BUS_BITS = 37,
	CU_ATTRIBUTE_CLOCK_KHZ = 13,
	CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_ATTRIBUTE_MANAGED_MEMORY = 83,
	CU_ATTRIBUTE_VMM_SUPPORTED = 102,
	CU_ATTRIBUTE_HOST_NUMA_ID = 134,
	CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED = 141,
};

enum { CU_LOCATION_DEVICE = 1, CU_LOCATION_HOST = 2, CU_LOCATION_HOST_NUMA = 3 };
enum { CU_ACCESS_NONE = 0, CU_ACCESS_READ = 1, CU_ACCESS_READWRITE = 3 };
enum { CU_ALLOCATION_PINNED = 1 };
enum { CU_GRANULARITY_MINIMUM = 0, CU_GRANULARITY_RECOMMENDED = 1 };
enum { CU_STREAM_NON_BLOCKING = 1 };
/* Default streams: the context's, and the one of the thread that makes the call. */
#define CU_STREAM_LEGACY ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD ((cu_stream)0x2)
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_HOST_PORTABLE = 1, CU_HOST_DEVICEMAP = 2 };
enum { CU_ATTACH_GLOBAL = 1 };
enum {
	CU_ADVISE_READ_MOSTLY = 1,
	CU_ADVISE_UNSET_READ_MOSTLY = 2,
	CU_ADVISE_PREFERRED = 3,
	CU_ADVISE_UNSET_PREFERRED = 4,
	CU_ADVISE_ACCESSED_BY = 5,
	CU_ADVISE_UNSET_ACCESSED_BY = 6,
};
enum { CU_SOURCE_ORDER_STREAM = 1 };
enum { CU_CAPTURE_NONE = 0 };	      /* CUstreamCaptureStatus */
enum { CU_CAPTURE_MODE_RELAXED = 2 }; /* CUstreamCaptureMode */

struct cu_location {
	int type, id;
};

struct cu_allocation_prop {
	int type, handle_types;
	struct cu_location location;
	void *win32;
	struct {
		uint8_t compression, rdma;
		uint16_t usage;
		uint8_t reserved[4];
	} flags;
};

struct cu_access {
	struct cu_location location;
	int flags;
};

struct cu_copy_attributes {
	int source_order;
	struct cu_location src, dst;
	unsigned int flags;
};

/*
 * The functions: REQUIRED(member, symbol, parameters) or OPTIONAL(...), whose member is NULL where
 * the driver lacks it. All return a cu_result.
 */
#define CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                        \
	REQUIRED(init, "cuInit", (unsigned int flags))                                            \
	REQUIRED(driver_version, "cuDriverGetVersion", (int *version))                            \
	REQUIRED(error_name, "cuGetErrorName", (cu_result result, const char **name))             \
	REQUIRED(error_string, "cuGetErrorString", (cu_result result, const char **text))         \
	REQUIRED(device_count, "cuDeviceGetCount", (int *nr))                                     \
	REQUIRED(device_get, "cuDeviceGet", (cu_device * device, int ordinal))                    \
	REQUIRED(device_name, "cuDeviceGetName", (char *name, int bytes, cu_device device))       \
	REQUIRED(device_attribute, "cuDeviceGetAttribute",                                        \
		 (int *value, int attribute, cu_device device))                                   \
	REQUIRED(device_bytes, "cuDeviceTotalMem_v2", (size_t * bytes, cu_device device))         \
	REQUIRED(device_pci, "cuDeviceGetPCIBusId", (char *id, int bytes, cu_device device))      \
	REQUIRED(device_peer, "cuDeviceCanAccessPeer", (int *can, cu_device from, cu_device to))  \
	REQUIRED(context_retain, "cuDevicePrimaryCtxRetain",                                      \
		 (cu_context * context, cu_device device))                                        \
	REQUIRED(context_release, "cuDevicePrimaryCtxRelease_v2", (cu_device device))             \
	REQUIRED(context_push, "cuCtxPushCurrent_v2", (cu_context context))                       \
	REQUIRED(context_pop, "cuCtxPopCurrent_v2", (cu_context * context))                       \
	REQUIRED(context_sync, "cuCtxSynchronize", (void))                                        \
	REQUIRED(mem_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                    \
	REQUIRED(mem_granularity, "cuMemGetAllocationGranularity",                                \
		 (size_t * bytes, const struct cu_allocation_prop *prop, int option))             \
	REQUIRED(mem_reserve, "cuMemAddressReserve",                                              \
		 (cu_ptr * addr, size_t bytes, size_t align, cu_ptr hint,                         \
		  unsigned long long flags))                                                      \
	REQUIRED(mem_unreserve, "cuMemAddressFree", (cu_ptr addr, size_t bytes))                  \
	REQUIRED(mem_create, "cuMemCreate",                                                       \
		 (cu_handle * handle, size_t bytes, const struct cu_allocation_prop *prop,        \
		  unsigned long long flags))                                                      \
	REQUIRED(mem_release, "cuMemRelease", (cu_handle handle))                                 \
	REQUIRED(mem_map, "cuMemMap",                                                             \
		 (cu_ptr addr, size_t bytes, size_t offset, cu_handle handle,                     \
		  unsigned long long flags))                                                      \
	REQUIRED(mem_unmap, "cuMemUnmap", (cu_ptr addr, size_t bytes))                            \
	REQUIRED(mem_access, "cuMemSetAccess",                                                    \
		 (cu_ptr addr, size_t bytes, const struct cu_access *access, size_t nr))          \
	REQUIRED(mem_alloc, "cuMemAlloc_v2", (cu_ptr * addr, size_t bytes))                       \
	REQUIRED(mem_free, "cuMemFree_v2", (cu_ptr addr))                                         \
	REQUIRED(host_alloc, "cuMemHostAlloc", (void **addr, size_t bytes, unsigned int flags))   \
	REQUIRED(host_free, "cuMemFreeHost", (void *addr))                                        \
	REQUIRED(managed_alloc, "cuMemAllocManaged",                                              \
		 (cu_ptr * addr, size_t bytes, unsigned int flags))                               \
	OPTIONAL(managed_prefetch, "cuMemPrefetchAsync_v2",                                       \
		 (cu_ptr addr, size_t bytes, struct cu_location to, unsigned int flags,           \
		  cu_stream stream))                                                              \
	OPTIONAL(managed_advise, "cuMemAdvise_v2",                                                \
		 (cu_ptr addr, size_t bytes, int advice, struct cu_location location))            \
	REQUIRED(stream_create, "cuStreamCreate", (cu_stream * stream, unsigned int flags))       \
	REQUIRED(stream_priorities, "cuCtxGetStreamPriorityRange", (int *least, int *highest))    \
	REQUIRED(stream_create_priority, "cuStreamCreateWithPriority",                            \
		 (cu_stream * stream, unsigned int flags, int priority))                          \
	REQUIRED(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                        \
	REQUIRED(stream_sync, "cuStreamSynchronize", (cu_stream stream))                          \
	REQUIRED(stream_wait, "cuStreamWaitEvent",                                                \
		 (cu_stream stream, cu_event event, unsigned int flags))                          \
	REQUIRED(stream_context, "cuStreamGetCtx", (cu_stream stream, cu_context * context))      \
	REQUIRED(stream_capturing, "cuStreamIsCapturing", (cu_stream stream, int *status))        \
	REQUIRED(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                  \
	REQUIRED(event_create, "cuEventCreate", (cu_event * event, unsigned int flags))           \
	REQUIRED(event_destroy, "cuEventDestroy_v2", (cu_event event))                            \
	REQUIRED(event_record, "cuEventRecord", (cu_event event, cu_stream stream))               \
	REQUIRED(event_query, "cuEventQuery", (cu_event event))                                   \
	REQUIRED(event_sync, "cuEventSynchronize", (cu_event event))                              \
	REQUIRED(event_elapsed, "cuEventElapsedTime", (float *ms, cu_event begin, cu_event end))  \
	REQUIRED(copy, "cuMemcpyAsync", (cu_ptr dst, cu_ptr src, size_t bytes, cu_stream stream)) \
	OPTIONAL(copy_batch, "cuMemcpyBatchAsync_v2",                                             \
		 (cu_ptr * dst, cu_ptr * src, size_t * bytes, size_t nr,                          \
		  struct cu_copy_attributes * attributes, size_t * first, size_t nr_attributes,   \
		  cu_stream stream))                                                              \
	REQUIRED(fill, "cuMemsetD32Async",                                                        \
		 (cu_ptr addr, unsigned int word, size_t nr_words, cu_stream stream))             \
	REQUIRED(module_load, "cuModuleLoadDataEx",                                               \
		 (cu_module * module, const void *image, unsigned int nr_options, int *options,   \
		  void **values))                                                                 \
	REQUIRED(module_unload, "cuModuleUnload", (cu_module module))                             \
	REQUIRED(module_function, "cuModuleGetFunction",                                          \
		 (cu_function * function, cu_module module, const char *name))                    \
	REQUIRED(launch, "cuLaunchKernel",                                                        \
		 (cu_function function, unsigned int grid_x, unsigned int grid_y,                 \
		  unsigned int grid_z, unsigned int block_x, unsigned int block_y,                \
		  unsigned int block_z, unsigned int shared_bytes, cu_stream stream,              \
		  void **parameters, void **extra))

/* The driver as opened. Constant after cuda_driver_open(). */
struct cuda_driver {
	void *library;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters */
#define CUDA_MEMBER(member, symbol, parameters) cu_result(*member) parameters;
	CUDA_FUNCTIONS(CUDA_MEMBER, CUDA_MEMBER)
#undef CUDA_MEMBER
	int version; /* 1000 * major + 10 * minor, of the driver */
};

/* Oldest driver with host memory as handles (HOST_NUMA). */
#define CUDA_DRIVER_MIN 12020

/*
 * Open the driver library and initialise it. library: its file; NULL: libcuda.so.1. quiet: that
 * there is none, or no device, is no message.
 * @return 0, or
 *   -ENODEV   no driver library, or no device that this process may see
 *   -ENOTSUP  the driver is too old, or lacks a function; logged
 *   -EIO      it does not initialise; logged
 *   -ENOMEM   for lack of memory; logged
 */
int cuda_driver_open(struct cuda_driver *driver, const char *library, bool quiet);
void cuda_driver_close(struct cuda_driver *driver);

/* cuda_error() of any result but success. */
int cuda_failure(const struct cuda_driver *driver, cu_result result, const char *call);

/*
 * The one place that turns results into errors: 0, or a negative error, logged with the call and
 * the driver's own words, but for CU_NOT_READY (-EAGAIN) and CU_OUT_OF_MEMORY (-ENOMEM), which
 * callers expect, and CU_DEINITIALIZED: the process is ending, and its threads outlive the driver.
 * A result that says that the context is lost is logged once for all machines that are open, since
 * every call has it from then on.
 */
static inline int cuda_error(const struct cuda_driver *driver, cu_result result, const char *call)
{
	return result == CU_SUCCESS ? 0 : cuda_failure(driver, result, call);
}

/* The same without a message. */
int cuda_errno(cu_result result);

/* Whether the context that had it is lost for good, and with it what was queued. Any other error of
 * a question about work says nothing of the work. */
bool cuda_is_loss(cu_result result);

/*
 * The same for a call that gives something back, where the caller goes on as if it had worked: 0
 * also where the context is lost, and with it what it held.
 */
int cuda_undo_error(const struct cuda_driver *driver, cu_result result, const char *call);

#endif
