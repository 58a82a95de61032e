/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions by their names without suffix, which the version asked for and the flags complete; and
 * the variants whose stream 0 is the calling thread's own.
 */
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

/* The thread is inside one of them: none calls another. */
#define DEFINE_OWN(member, symbol, parameters, arguments) \
	cu_result fake_##member##_own parameters          \
	{                                                 \
		cu_result result;                         \
                                                          \
		stream_zero_is_own = true;                \
		result = fake_##member arguments;         \
		stream_zero_is_own = false;               \
		return result;                            \
	}
FAKE_PER_THREAD(DEFINE_OWN)

/* Copies of them that nobody exports, for look-ups to give. */
#define HIDDEN_ROW(X, member, symbol, suffix, parameters, arguments) \
	static cu_result hidden_##member parameters                  \
	{                                                            \
		return fake_##member arguments;                      \
	}                                                            \
	static cu_result hidden_##member##_own parameters            \
	{                                                            \
		return fake_##member##_own arguments;                \
	}
FAKE_COPY_ROWS(HIDDEN_ROW, )

/* As it was in CUDA 12.8: there is no other way to it than a look-up. */
static cu_result batch_12(cu_ptr *dst, cu_ptr *src, size_t *bytes, size_t nr,
			  struct cu_copy_attributes *attributes, size_t *first,
			  size_t nr_attributes, size_t *failed, cu_stream stream)
{
	cu_result result =
		fake_copy_batch(dst, src, bytes, nr, attributes, first, nr_attributes, stream);

	if (result && failed)
		*failed = SIZE_MAX;
	return result;
}

typedef void (*function)(void);

static const struct entry {
	const char *symbol;
	enum call call;
	function address;
} entries[] = {
#define ENTRY(member, symbol, parameters) {symbol, CALL_##member, (function)fake_##member},
	CUDA_FUNCTIONS(ENTRY, ENTRY) FAKE_FUNCTIONS(ENTRY)};

static const function per_thread[CALL_NR] = {
#define OWN(member, symbol, parameters, arguments) [CALL_##member] = (function)fake_##member##_own,
	FAKE_PER_THREAD(OWN)};

static const function hidden[CALL_NR][2] = {
#define HIDDEN_ENTRY(X, member, symbol, suffix, parameters, arguments) \
	[CALL_##member] = {(function)hidden_##member, (function)hidden_##member##_own},
	FAKE_COPY_ROWS(HIDDEN_ENTRY, )};

/* In which version of CUDA a function came: the others in 3.2 or before. */
static const struct {
	const char *symbol;
	int version;
} versions[] = {
	{"cuCtxGetCurrent", 4000},
	{"cuCtxSetCurrent", 4000},
	{"cuCtxDestroy_v2", 4000},
	{"cuMemcpy", 4000},
	{"cuPointerGetAttribute", 4000},
	{"cuTexRefSetAddress2D_v3", 4010},
	{"cuTexObjectCreate", 5000},
	{"cuTexObjectDestroy", 5000},
	{"cuMemHostUnregister", 4000},
	{"cuDeviceCanAccessPeer", 4000},
	{"cuCtxPushCurrent_v2", 4000},
	{"cuCtxPopCurrent_v2", 4000},
	{"cuStreamDestroy_v2", 4000},
	{"cuEventDestroy_v2", 4000},
	{"cuMemcpyAsync", 4000},
	{"cuMemcpyPeer", 4000},
	{"cuMemcpyPeerAsync", 4000},
	{"cuMemcpy3DPeer", 4000},
	{"cuMemcpy3DPeerAsync", 4000},
	{"cuLaunchKernel", 4000},
	{"cuIpcGetMemHandle", 4010},
	{"cuDeviceGetPCIBusId", 4010},
	{"cuCtxGetStreamPriorityRange", 5050},
	{"cuStreamCreateWithPriority", 5050},
	{"cuStreamGetFlags", 5050},
	{"cuStreamGetPriority", 5050},
	{"cuGetErrorName", 6000},
	{"cuGetErrorString", 6000},
	{"cuMemAllocManaged", 6000},
	{"cuMemHostRegister_v2", 6050},
	{"cuDevicePrimaryCtxGetState", 7000},
	{"cuPointerGetAttributes", 7000},
	{"cuDevicePrimaryCtxRetain", 7000},
	{"cuStreamWaitValue32", 8000},
	{"cuStreamWriteValue32", 8000},
	{"cuStreamBatchMemOp", 8000},
	{"cuStreamWaitValue64", 9000},
	{"cuStreamWriteValue64", 9000},
	{"cuLaunchCooperativeKernel", 9000},
	{"cuDeviceGetUuid", 9020},
	{"cuStreamGetCtx", 9020},
	{"cuStreamIsCapturing", 10000},
	{"cuStreamEndCapture", 10000},
	{"cuGraphLaunch", 10000},
	{"cuGraphDestroy", 10000},
	{"cuGraphExecDestroy", 10000},
	{"cuStreamBeginCapture_v2", 10010},
	{"cuThreadExchangeStreamCaptureMode", 10010},
	{"cuMemGetAllocationGranularity", 10020},
	{"cuMemAddressReserve", 10020},
	{"cuMemAddressFree", 10020},
	{"cuMemCreate", 10020},
	{"cuMemRelease", 10020},
	{"cuMemMap", 10020},
	{"cuMemUnmap", 10020},
	{"cuMemSetAccess", 10020},
	{"cuDevicePrimaryCtxReset_v2", 11000},
	{"cuDevicePrimaryCtxRelease_v2", 11000},
	{"cuDeviceGetDefaultMemPool", 11020},
	{"cuDeviceGetMemPool", 11020},
	{"cuMemAllocAsync", 11020},
	{"cuMemAllocFromPoolAsync", 11020},
	{"cuMemFreeAsync", 11020},
	{"cuMemPoolTrimTo", 11020},
	{"cuMemPoolGetAttribute", 11020},
	{"cuMemPoolSetAttribute", 11020},
	{"cuGetProcAddress", 11030},
	{"cuDeviceGetUuid_v2", 11040},
	{"cuCtxCreate_v3", 11040},
	{"cuGraphInstantiateWithFlags", 11040},
	{"cuLaunchKernelEx", 11060},
	{"cuStreamWaitValue32_v2", 11070},
	{"cuStreamWaitValue64_v2", 11070},
	{"cuStreamWriteValue32_v2", 11070},
	{"cuStreamWriteValue64_v2", 11070},
	{"cuStreamBatchMemOp_v2", 11070},
	{"cuGetProcAddress_v2", 12000},
	{"cuTensorMapEncodeTiled", 12000},
	{"cuTensorMapEncodeIm2col", 12000},
	{"cuTensorMapReplaceAddress", 12000},
	{"cuLibraryLoadData", 12000},
	{"cuLibraryUnload", 12000},
	{"cuLibraryGetKernel", 12000},
	{"cuLibraryGetGlobal", 12000},
	{"cuKernelGetFunction", 12000},
	{"cuMemPrefetchAsync_v2", 12020},
	{"cuMemAdvise_v2", 12020},
	{"cuFuncGetName", 12030},
	{"cuKernelGetName", 12030},
	{"cuFuncGetParamInfo", 12040},
	{"cuKernelGetParamInfo", 12040},
	{"cuCtxCreate_v4", 12050},
	{"cuStreamGetCtx_v2", 12050},
	{"cuEventElapsedTime_v2", 12080},
	{"cuTensorMapEncodeIm2colWide", 12080},
	{"cuCtxGetDevice_v2", 13000},
	{"cuCtxSynchronize_v2", 13000},
	{"cuMemcpyBatchAsync_v2", 13000},
};

static int version_of(const char *symbol)
{
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (!strcmp(versions[i].symbol, symbol))
			return versions[i].version;
	return 3020;
}

/* A symbol's length without the number of its version. */
static size_t name_length(const char *symbol)
{
	size_t length = strlen(symbol);

	return length > 3 && !strncmp(symbol + length - 3, "_v", 2) ? length - 3 : length;
}

static int proc_find(const char *name, int version, uint64_t flags, function *found)
{
	const struct entry *best = NULL;
	int status = CU_PROC_NOT_FOUND;

	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		const struct entry *entry = &entries[i];

		if (name_length(entry->symbol) != strlen(name) ||
		    strncmp(entry->symbol, name, strlen(name)) != 0)
			continue;
		status = CU_PROC_TOO_OLD;
		if (version_of(entry->symbol) <= version &&
		    (!best || version_of(best->symbol) < version_of(entry->symbol)))
			best = entry;
	}
	*found = best ? best->address : NULL;
	if (best && flags & CU_PROC_PER_THREAD && per_thread[best->call])
		*found = per_thread[best->call];
	if (best && fake.config.unexported && hidden[best->call][0])
		*found = hidden[best->call][(flags & CU_PROC_PER_THREAD) != 0];
	if (!best && !strcmp(name, "cuMemcpyBatchAsync") && version >= 12080 &&
	    fake.config.unexported) {
		*found = (function)batch_12;
		return CU_PROC_FOUND;
	}
	return best ? CU_PROC_FOUND : status;
}

static cu_result proc(const char *name, void **out, int version, uint64_t flags, int *status)
{
	function found;

	if (!name || !out || flags & ~(uint64_t)(CU_PROC_LEGACY | CU_PROC_PER_THREAD) ||
	    version > fake.config.version)
		return CU_INVALID_VALUE;
	*status = proc_find(name, version, flags, &found);
	/* ISO C has no conversion of functions to objects. */
	memcpy(out, &found, sizeof(found));
	return CU_SUCCESS;
}

/* In the first version, what is not found is an error. */
cu_result fake_proc(const char *name, void **out, int version, uint64_t flags)
{
	cu_result result = call_enter(CALL_proc);
	int status = CU_PROC_FOUND;

	if (!result)
		result = proc(name, out, version, flags, &status);
	return call_leave(result || status == CU_PROC_FOUND ? result : CU_NOT_FOUND);
}

cu_result fake_proc_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
	cu_result result = call_enter(CALL_proc_v2);
	int found;

	if (!result)
		result = proc(name, out, version, flags, &found);
	if (!result && status)
		*status = found;
	return call_leave(result);
}
