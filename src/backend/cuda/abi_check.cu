/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds driver.h to cuda.h where there is one: this file need only compile. What differs in a later
 * CUDA stops the build of its CUDA code, not a user's program.
 */
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

/* Macros know no namespaces. */
#undef CU_STREAM_LEGACY
#undef CU_STREAM_PER_THREAD

namespace weir
{
#include "src/backend/cuda/driver.h"
#include "shim/copies.h"
#include "shim/textures.h"
} // namespace weir

#define SAME(ours, theirs) static_assert((int)(weir::ours) == (int)(theirs), #ours)
#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, a, theirs, b) \
	static_assert(offsetof(ours, a) == offsetof(theirs, b), #ours "." #a)

SAME(CU_SUCCESS, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME(CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(CU_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(CU_CONTAINED, CUDA_ERROR_CONTAINED);
SAME(CU_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(CU_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY);
SAME(CU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(CU_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CU_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(CU_ATTRIBUTE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_ATTRIBUTE_MEMORY_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(CU_ATTRIBUTE_MEMORY_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(CU_ATTRIBUTE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(CU_ATTRIBUTE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(CU_ATTRIBUTE_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(CU_ATTRIBUTE_VMM_SUPPORTED, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_ATTRIBUTE_HOST_NUMA_ID, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
SAME(CU_ATTRIBUTE_HOST_NUMA_VMM_SUPPORTED,
     CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_LOCATION_HOST, CU_MEM_LOCATION_TYPE_HOST);
SAME(CU_LOCATION_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(CU_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME(CU_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME(CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(CU_STREAM_NON_BLOCKING, ::CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_DEFAULT, ::CU_EVENT_DEFAULT);
SAME(CU_EVENT_BLOCKING_SYNC, ::CU_EVENT_BLOCKING_SYNC);
SAME(CU_EVENT_DISABLE_TIMING, ::CU_EVENT_DISABLE_TIMING);
SAME(CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CU_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(CU_ADVISE_READ_MOSTLY, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME(CU_ADVISE_UNSET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
SAME(CU_ADVISE_PREFERRED, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME(CU_ADVISE_UNSET_PREFERRED, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
SAME(CU_ADVISE_ACCESSED_BY, CU_MEM_ADVISE_SET_ACCESSED_BY);
SAME(CU_ADVISE_UNSET_ACCESSED_BY, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CU_SOURCE_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);

SAME_SIZE(weir::cu_result, CUresult);
SAME_SIZE(weir::cu_device, CUdevice);
SAME_SIZE(weir::cu_ptr, CUdeviceptr);
SAME_SIZE(weir::cu_handle, CUmemGenericAllocationHandle);
SAME_SIZE(weir::cu_location, CUmemLocation);
SAME_SIZE(weir::cu_allocation_prop, CUmemAllocationProp);
SAME_PLACE(weir::cu_allocation_prop, location, CUmemAllocationProp, location);
SAME_PLACE(weir::cu_allocation_prop, flags, CUmemAllocationProp, allocFlags);
SAME_SIZE(weir::cu_access, CUmemAccessDesc);
SAME_PLACE(weir::cu_access, flags, CUmemAccessDesc, flags);
SAME_SIZE(CUmem_advise, int);
SAME_SIZE(CUstreamCaptureStatus, int);
SAME_SIZE(CUstreamCaptureMode, int);
SAME_SIZE(weir::cu_copy_attributes, CUmemcpyAttributes);
SAME_PLACE(weir::cu_copy_attributes, dst, CUmemcpyAttributes, dstLocHint);
SAME_PLACE(weir::cu_copy_attributes, flags, CUmemcpyAttributes, flags);

/* ---- what only unmodified programs pass */

SAME(CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(CU_MEMORY_ARRAY, CU_MEMORYTYPE_ARRAY);
SAME(CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);

#define SAME_END2D(end, x_of, y_of, type_of, host_of, device_of, array_of, pitch_of) \
	SAME_PLACE(weir::cu_copy2d, end.x, CUDA_MEMCPY2D, x_of);                     \
	SAME_PLACE(weir::cu_copy2d, end.y, CUDA_MEMCPY2D, y_of);                     \
	SAME_PLACE(weir::cu_copy2d, end.type, CUDA_MEMCPY2D, type_of);               \
	SAME_PLACE(weir::cu_copy2d, end.host, CUDA_MEMCPY2D, host_of);               \
	SAME_PLACE(weir::cu_copy2d, end.device, CUDA_MEMCPY2D, device_of);           \
	SAME_PLACE(weir::cu_copy2d, end.array, CUDA_MEMCPY2D, array_of);             \
	SAME_PLACE(weir::cu_copy2d, end.pitch, CUDA_MEMCPY2D, pitch_of)

SAME_SIZE(CUmemorytype, int);
SAME_SIZE(weir::cu_copy2d, CUDA_MEMCPY2D);
SAME_END2D(src, srcXInBytes, srcY, srcMemoryType, srcHost, srcDevice, srcArray, srcPitch);
SAME_END2D(dst, dstXInBytes, dstY, dstMemoryType, dstHost, dstDevice, dstArray, dstPitch);
SAME_PLACE(weir::cu_copy2d, width, CUDA_MEMCPY2D, WidthInBytes);
SAME_PLACE(weir::cu_copy2d, height, CUDA_MEMCPY2D, Height);

#define SAME_END3D(theirs, end, x_of, y_of, z_of, level_of, type_of, host_of, device_of, array_of, \
		   pitch_of, rows_of)                                                              \
	SAME_PLACE(weir::cu_copy3d, end.x, theirs, x_of);                                          \
	SAME_PLACE(weir::cu_copy3d, end.y, theirs, y_of);                                          \
	SAME_PLACE(weir::cu_copy3d, end.z, theirs, z_of);                                          \
	SAME_PLACE(weir::cu_copy3d, end.level, theirs, level_of);                                  \
	SAME_PLACE(weir::cu_copy3d, end.type, theirs, type_of);                                    \
	SAME_PLACE(weir::cu_copy3d, end.host, theirs, host_of);                                    \
	SAME_PLACE(weir::cu_copy3d, end.device, theirs, device_of);                                \
	SAME_PLACE(weir::cu_copy3d, end.array, theirs, array_of);                                  \
	SAME_PLACE(weir::cu_copy3d, end.pitch, theirs, pitch_of);                                  \
	SAME_PLACE(weir::cu_copy3d, end.rows, theirs, rows_of)
#define SAME_COPY3D(theirs)                                                              \
	SAME_SIZE(weir::cu_copy3d, theirs);                                              \
	SAME_END3D(theirs, src, srcXInBytes, srcY, srcZ, srcLOD, srcMemoryType, srcHost, \
		   srcDevice, srcArray, srcPitch, srcHeight);                            \
	SAME_END3D(theirs, dst, dstXInBytes, dstY, dstZ, dstLOD, dstMemoryType, dstHost, \
		   dstDevice, dstArray, dstPitch, dstHeight);                            \
	SAME_PLACE(weir::cu_copy3d, width, theirs, WidthInBytes);                        \
	SAME_PLACE(weir::cu_copy3d, height, theirs, Height);                             \
	SAME_PLACE(weir::cu_copy3d, depth, theirs, Depth)

SAME_COPY3D(CUDA_MEMCPY3D);
SAME_COPY3D(CUDA_MEMCPY3D_PEER);

SAME_SIZE(weir::cu_stream_op, CUstreamBatchMemOpParams);
SAME_PLACE(weir::cu_stream_op, kind, CUstreamBatchMemOpParams, operation);
SAME_PLACE(weir::cu_stream_op, addr, CUstreamBatchMemOpParams, waitValue.address);
SAME_PLACE(weir::cu_stream_op, addr, CUstreamBatchMemOpParams, writeValue.address);

SAME(CU_RESOURCE_LINEAR, CU_RESOURCE_TYPE_LINEAR);
SAME(CU_RESOURCE_PITCH, CU_RESOURCE_TYPE_PITCH2D);
SAME_SIZE(CUresourcetype, int);
SAME_SIZE(CUarray_format, int);
SAME_SIZE(weir::cu_resource, CUDA_RESOURCE_DESC);
SAME_PLACE(weir::cu_resource, type, CUDA_RESOURCE_DESC, resType);
SAME_PLACE(weir::cu_resource, linear.addr, CUDA_RESOURCE_DESC, res.linear.devPtr);
SAME_PLACE(weir::cu_resource, linear.bytes, CUDA_RESOURCE_DESC, res.linear.sizeInBytes);
SAME_PLACE(weir::cu_resource, rows.addr, CUDA_RESOURCE_DESC, res.pitch2D.devPtr);
SAME_PLACE(weir::cu_resource, rows.width, CUDA_RESOURCE_DESC, res.pitch2D.width);
SAME_PLACE(weir::cu_resource, rows.pitch, CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes);
SAME_PLACE(weir::cu_resource, flags, CUDA_RESOURCE_DESC, flags);
SAME_SIZE(weir::cu_tensor_map, CUtensorMap);

/* ---- functions: the symbol that cuda.h gives the name today, and what it takes */

template <class A, class B> constexpr bool same_parameter()
{
	return sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value;
}

template <class... A, class... B>
constexpr bool same_shape(weir::cu_result (*)(A...), CUresult (*)(B...))
{
	if constexpr (sizeof...(A) == sizeof...(B))
		return (same_parameter<A, B>() && ...);
	else
		return false;
}

constexpr bool same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

namespace symbol
{
#define SYMBOL(member, symbol, parameters) constexpr char member[] = symbol;
CUDA_FUNCTIONS(SYMBOL, SYMBOL)
} // namespace symbol

#define SAME_SHAPE(member, function)                                           \
	static_assert(same_shape(decltype(weir::cuda_driver::member)(nullptr), \
				 decltype (&::function)(nullptr)),             \
		      #member)
#define TEXT(function) #function
#define SAME_FUNCTION(member, function) \
	SAME_SHAPE(member, function);   \
	static_assert(same_text(symbol::member, TEXT(function)), #member)

SAME_FUNCTION(init, cuInit);
SAME_FUNCTION(driver_version, cuDriverGetVersion);
SAME_FUNCTION(error_name, cuGetErrorName);
SAME_FUNCTION(error_string, cuGetErrorString);
SAME_FUNCTION(device_count, cuDeviceGetCount);
SAME_FUNCTION(device_get, cuDeviceGet);
SAME_FUNCTION(device_name, cuDeviceGetName);
SAME_FUNCTION(device_attribute, cuDeviceGetAttribute);
SAME_FUNCTION(device_bytes, cuDeviceTotalMem);
SAME_FUNCTION(device_pci, cuDeviceGetPCIBusId);
SAME_FUNCTION(device_peer, cuDeviceCanAccessPeer);
SAME_FUNCTION(context_retain, cuDevicePrimaryCtxRetain);
SAME_FUNCTION(context_release, cuDevicePrimaryCtxRelease);
SAME_FUNCTION(context_push, cuCtxPushCurrent);
SAME_FUNCTION(context_pop, cuCtxPopCurrent);
SAME_FUNCTION(context_sync, cuCtxSynchronize);
SAME_FUNCTION(mem_info, cuMemGetInfo);
SAME_FUNCTION(mem_granularity, cuMemGetAllocationGranularity);
SAME_FUNCTION(mem_reserve, cuMemAddressReserve);
SAME_FUNCTION(mem_unreserve, cuMemAddressFree);
SAME_FUNCTION(mem_create, cuMemCreate);
SAME_FUNCTION(mem_release, cuMemRelease);
SAME_FUNCTION(mem_map, cuMemMap);
SAME_FUNCTION(mem_unmap, cuMemUnmap);
SAME_FUNCTION(mem_access, cuMemSetAccess);
SAME_FUNCTION(mem_alloc, cuMemAlloc);
SAME_FUNCTION(mem_free, cuMemFree);
SAME_FUNCTION(host_alloc, cuMemHostAlloc);
SAME_FUNCTION(host_free, cuMemFreeHost);
SAME_FUNCTION(managed_alloc, cuMemAllocManaged);
SAME_FUNCTION(stream_create, cuStreamCreate);
SAME_FUNCTION(stream_priorities, cuCtxGetStreamPriorityRange);
SAME_FUNCTION(stream_create_priority, cuStreamCreateWithPriority);
SAME_FUNCTION(stream_destroy, cuStreamDestroy);
SAME_FUNCTION(stream_sync, cuStreamSynchronize);
SAME_FUNCTION(stream_wait, cuStreamWaitEvent);
SAME_FUNCTION(stream_context, cuStreamGetCtx);
SAME_FUNCTION(stream_capturing, cuStreamIsCapturing);
SAME_FUNCTION(capture_mode, cuThreadExchangeStreamCaptureMode);
SAME_FUNCTION(event_create, cuEventCreate);
SAME_FUNCTION(event_destroy, cuEventDestroy);
SAME_FUNCTION(event_record, cuEventRecord);
SAME_FUNCTION(event_query, cuEventQuery);
SAME_FUNCTION(event_sync, cuEventSynchronize);
/* The second version, of 12.8, differs in what errors it may pass on only. */
SAME_SHAPE(event_elapsed, cuEventElapsedTime);
static_assert(same_text(symbol::event_elapsed, "cuEventElapsedTime"), "event_elapsed");
SAME_FUNCTION(copy, cuMemcpyAsync);
SAME_FUNCTION(fill, cuMemsetD32Async);
SAME_FUNCTION(module_load, cuModuleLoadDataEx);
SAME_FUNCTION(module_unload, cuModuleUnload);
SAME_FUNCTION(module_function, cuModuleGetFunction);
SAME_FUNCTION(launch, cuLaunchKernel);
#if CUDA_VERSION >= 13000 /* before, these names stood for other versions */
SAME_FUNCTION(managed_prefetch, cuMemPrefetchAsync);
SAME_FUNCTION(managed_advise, cuMemAdvise);
SAME_FUNCTION(copy_batch, cuMemcpyBatchAsync);
#endif

/* ---- functions that are replaced in unmodified programs */

#define SAME_PARAMETERS(function, parameters)                             \
	static_assert(same_shape((weir::cu_result(*) parameters) nullptr, \
				 decltype (&::function)(nullptr)),        \
		      #function)

namespace weir
{
SAME_PARAMETERS(cuTexObjectCreate, TEXTURE);
SAME_PARAMETERS(cuTensorMapEncodeTiled, MAP_TILED);
SAME_PARAMETERS(cuTensorMapEncodeIm2col, MAP_IM2COL);
#if CUDA_VERSION >= 12080
SAME_PARAMETERS(cuTensorMapEncodeIm2colWide, MAP_IM2COL_WIDE);
#endif
SAME_PARAMETERS(cuTensorMapReplaceAddress, MAP_ADDRESS);
} // namespace weir
