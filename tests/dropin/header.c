/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program written with cuda.h, as programs are: the header's names become symbols of one version
 * or another, and the compiler passes what the header's types are. So the fake driver, which
 * declares its own, is held to them. It exits with 77 where there was no cuda.h to compile it with.
 */
#if __has_include(<cuda.h>)
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#define NR 1024

static int nr_wrong;

static void expect(int good, const char *what, int line)
{
	if (good)
		return;
	fprintf(stderr, "header: line %d: %s\n", line, what);
	nr_wrong++;
}

#define EXPECT(what) expect(what, #what, __LINE__)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static const char image[] = "fakecuda kernels\nglobal table 8\n";

/* Launches of one kernel, of a module and of a library. */
static void launches(CUstream stream, CUdeviceptr addr)
{
	CUlaunchConfig config = {.gridDimX = 4,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 256,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream};
	size_t nr = NR, offset = 0, bytes = 0, bound = 20;
	struct {
		CUdeviceptr addr;
		size_t nr;
		unsigned value;
	} buffer = {addr, NR, 9};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bound, CU_LAUNCH_PARAM_END};
	unsigned value = 7, word = 0;
	void *parameters[] = {&addr, &nr, &value};
	CUfunction function;
	CUlibrary library;
	CUdeviceptr table;
	CUmodule module;
	CUkernel kernel;

	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&function, module, "fill"));
	OK(cuModuleGetGlobal(&table, &bytes, module, "table"));
	EXPECT(bytes == 8);
	OK(cuLaunchKernelEx(&config, function, parameters, NULL));
	OK(cuMemcpyDtoHAsync(&word, addr + 4 * NR - 4, 4, stream));
	OK(cuStreamSynchronize(stream));
	EXPECT(word == 7);
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	OK(cuKernelGetParamInfo(kernel, 2, &offset, &bytes));
	EXPECT(offset == 16 && bytes == 4);
	value = 8;
	OK(cuLaunchCooperativeKernel((CUfunction)kernel, 4, 1, 1, 256, 1, 1, 0, stream,
				     parameters));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(&word, addr, 4));
	EXPECT(word == 8);
	OK(cuKernelGetFunction(&function, kernel));
	OK(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, NULL, extra));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH(&word, addr, 4));
	EXPECT(word == 9);
	OK(cuModuleUnload(module));
	OK(cuLibraryUnload(library));
}

static void attributes(CUdevice device, CUcontext context, CUdeviceptr addr)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_CONTEXT,	  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_ACCESS_FLAGS};
	CUdeviceptr start = 0;
	CUcontext of = NULL;
	unsigned type = 0, ipc = 0, access = 0;
	size_t bytes = 0;
	int ordinal = -1, value = 0;
	void *data[] = {&type, &ordinal, &of, &start, &bytes, &ipc, &access};
	CUipcMemHandle handle;
	cuuint64_t threshold = 5;
	CUmemoryPool pool;

	OK(cuPointerGetAttributes(7, which, data, addr + 4));
	EXPECT(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && of == context);
	EXPECT(start == addr && bytes == 4 * NR && ipc == 1);
	EXPECT(access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	OK(cuIpcGetMemHandle(&handle, addr));
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
	EXPECT(value == 32);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	EXPECT(value == 9);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
	EXPECT(value == 1);
	OK(cuDeviceGetDefaultMemPool(&pool, device));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &threshold));
	EXPECT(threshold == 4 * NR);
	OK(cuMemPoolTrimTo(pool, 0));
}

static void names(void)
{
	void *found = NULL;
	CUdriverProcAddressQueryResult status;

	OK(cuGetProcAddress("cuMemAlloc", &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT,
			    &status));
	EXPECT(found == (void *)cuMemAlloc && status == CU_GET_PROC_ADDRESS_SUCCESS);
	OK(cuGetProcAddress("cuNothing", &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT,
			    &status));
	EXPECT(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
	OK(cuGetProcAddress("cuMemcpyAsync", &found, CUDA_VERSION,
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
#else
	OK(cuGetProcAddress("cuMemcpyAsync", &found, CUDA_VERSION,
			    CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
#endif
	EXPECT(found == (void *)cuMemcpyAsync);
}

int main(void)
{
	int least = 0, greatest = 0, version = 0;
	CUevent begin, end;
	CUdeviceptr addr;
	CUcontext context;
	CUdevice device;
	CUstream stream;
	CUuuid uuid;
	float ms;

	OK(cuDriverGetVersion(&version));
	if (version < CUDA_VERSION)
		return 77;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDeviceGetUuid(&uuid, device));
#if CUDA_VERSION >= 13000
	OK(cuCtxCreate(&context, NULL, 0, device));
#else
	OK(cuCtxCreate(&context, 0, device));
#endif
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
	OK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
	OK(cuEventRecord(begin, stream));
	OK(cuMemAllocAsync(&addr, 4 * NR, stream));
	OK(cuMemsetD8Async(addr, 1, 4 * NR, stream));
	OK(cuMemFreeAsync(addr, stream));
	OK(cuEventRecord(end, stream));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&ms, begin, end));
	OK(cuMemAlloc(&addr, 4 * NR));
	launches(stream, addr);
	attributes(device, context, addr);
	names();
	OK(cuMemFree(addr));
	OK(cuEventDestroy(begin));
	OK(cuEventDestroy(end));
	OK(cuStreamDestroy(stream));
	OK(cuCtxSynchronize());
	OK(cuCtxDestroy(context));
	return nr_wrong > 0;
}
#else
int main(void)
{
	return 77;
}
#endif
