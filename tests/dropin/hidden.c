/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose kernels use memory that their launches do not name, or that wait for each other,
 * one for each run, on the memory of arrays.h. It prints what it read, so that a run under weir can
 * be compared with one without; the first call that fails is named and ends it with status 1. The
 * kernels are those of tests/fakecuda/fakecuda.h. It includes nothing of weir, but for what api.h
 * declares.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dropin/arrays.h"

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuStreamQuery(CUstream stream);
CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, int device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuDevicePrimaryCtxReset_v2(int device);

enum { MORE = 16, ILLEGAL_ADDRESS = 700 };

/* ------------------------------------------------------------------ arrays of addresses */

/* Read a word of each array by the addresses that lie at from, early and after other work. */
static void gather(CUdeviceptr from, CUstream stream)
{
	uint64_t nr = ARRAYS;

	for (unsigned time = 2; time < 5; time++) {
		LAUNCH("gather", stream, &out, &from, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("gathered", out, ARRAYS);
		use_all(time, stream);
	}
}

static CUdeviceptr pointers_make(void)
{
	CUdeviceptr addr;

	OK(cu.cuMemAlloc(&addr, sizeof(array)));
	return addr;
}

static void copied(void)
{
	CUdeviceptr from = pointers_make();

	OK(cu.cuMemcpyHtoD(from, array, sizeof(array)));
	gather(from, stream_make());
}

static void copied_async(void)
{
	CUdeviceptr from = pointers_make();
	CUstream stream = stream_make();
	void *staging;

	OK(cu.cuMemHostAlloc(&staging, sizeof(array), 0));
	memcpy(staging, array, sizeof(array));
	OK(cu.cuMemcpyHtoDAsync(from, staging, sizeof(array), stream));
	gather(from, stream);
}

/* By the calls that find out what they copy from: of the program's own memory, and pinned. */
static void copied_unified(void)
{
	CUdeviceptr from = pointers_make();
	CUstream stream = stream_make();
	void *staging;

	OK(cuMemcpy(from, (uintptr_t)array, sizeof(array)));
	gather(from, stream);
	from = pointers_make();
	OK(cu.cuMemHostAlloc(&staging, sizeof(array), 0));
	memcpy(staging, array, sizeof(array));
	OK(cuMemcpyAsync(from, (uintptr_t)staging, sizeof(array), stream));
	gather(from, stream);
}

/* What kernels read is a copy of what came from the host, which is gone. */
static void copied_on(void)
{
	CUdeviceptr first = pointers_make(), second = pointers_make(), third = pointers_make();
	CUstream stream = stream_make();

	OK(cu.cuMemcpyHtoD(first, array, sizeof(array)));
	OK(cuMemcpyDtoD_v2(second, first, sizeof(array)));
	OK(cu.cuMemFree(first));
	OK(cu.cuMemcpyDtoDAsync(third, second, sizeof(array), stream));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuMemFree(second));
	gather(third, stream);
}

/* One kernel in two ways: its addresses are those of what it names, and in the host's memory those
 * of other arrays. */
static void places(void)
{
	CUstream stream = stream_make();
	CUdeviceptr own[ARRAYS];
	uint64_t nr = ARRAYS;
	void *staging;

	OK(cu.cuMemHostAlloc(&staging, sizeof(array), 0));
	memcpy(staging, array, sizeof(array));
	for (unsigned time = 2; time < 5; time++) {
		CUdeviceptr from = array[time] + BYTES / 4;

		for (unsigned n = 0; n < ARRAYS; n++)
			own[n] = from + sizeof(own) + n * sizeof(uint32_t);
		OK(cu.cuMemcpyHtoD(from, own, sizeof(own)));
		LAUNCH("gather", stream, &out, &from, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("own", out, ARRAYS);
		LAUNCH("gather", stream, &out, &staging, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("others", out, ARRAYS);
		use_all(time, stream);
	}
}

/* Addresses of small allocations, which share blocks with what the kernel names. */
static void small(void)
{
	CUdeviceptr from, words[ARRAYS];
	CUstream stream = stream_make();
	uint64_t nr = ARRAYS;

	for (unsigned n = 0; n < ARRAYS; n++) {
		OK(cu.cuMemAlloc(&words[n], 64));
		OK(cu.cuMemsetD32Async(words[n], 3 * n, 16, stream));
	}
	from = pointers_make();
	OK(cu.cuMemcpyHtoD(from, words, sizeof(words)));
	LAUNCH("gather", stream, &out, &from, &nr);
	OK(cu.cuStreamSynchronize(stream));
	show("small", out, ARRAYS);
	for (unsigned n = 0; n < ARRAYS; n++)
		OK(cu.cuMemFree(words[n]));
}

/* Another thread ends the process as soon as anything fails, in a way that no library sees. */
static void *watch(void *done)
{
	OK(cu.cuCtxSetCurrent(context));
	while (!atomic_load((atomic_bool *)done))
		if (cuStreamQuery(NULL) == ILLEGAL_ADDRESS)
			_exit(9);
	return NULL;
}

static void watched(void)
{
	static atomic_bool done;
	pthread_t watcher;

	if (pthread_create(&watcher, NULL, watch, &done))
		exit(1);
	copied();
	atomic_store(&done, true);
	(void)pthread_join(watcher, NULL);
}

/* A kernel made the addresses: no call shows them. */
static void stored(void)
{
	CUdeviceptr from = pointers_make();
	CUstream stream = stream_make();
	uint64_t nr = 1, stride = 0;

	for (unsigned n = 0; n < ARRAYS; n++) {
		CUdeviceptr at = from + n * sizeof(from);

		LAUNCH("addresses", stream, &at, &array[n], &stride, &nr);
	}
	use_all(1, stream);
	gather(from, stream);
}

/* ------------------------------------------------------------------ other ways to memory */

/* A variable of the module holds the address. */
static void variable(void)
{
	CUstream stream = stream_make();
	CUdeviceptr table;
	uint64_t nr = ARRAYS;
	size_t bytes;

	OK(cu.cuModuleGetGlobal(&table, &bytes, module, "table"));
	for (unsigned n = 0; n < ARRAYS; n += 5) {
		OK(cu.cuMemcpyHtoD(table, &array[n], sizeof(array[n])));
		LAUNCH("load_table", stream, &out, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("loaded", out, ARRAYS);
		use_all(n + 2, stream);
	}
}

/* A list with a node in each array, at its end. */
static void list(void)
{
	const uint64_t at = BYTES - 16;
	CUdeviceptr first = array[0] + at;
	CUstream stream = stream_make();
	uint64_t nr = ARRAYS, words = WORDS / 2, value = 5;

	for (unsigned n = 0; n < ARRAYS; n++) {
		uint64_t node[2] = {n + 1 < ARRAYS ? array[n + 1] + at : 0, 1 + n * n};

		OK(cu.cuMemcpyHtoD(array[n] + at, node, sizeof(node)));
	}
	for (unsigned time = 0; time < 3; time++) {
		LAUNCH("list_sum", stream, &out, &first, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("sum", out, 1);
		for (unsigned n = 0; n < ARRAYS; n++)
			LAUNCH("fill", stream, &array[n], &words, &value);
	}
	OK(cu.cuStreamSynchronize(stream));
}

/* Kernels that hide addresses in different ways. */
static void several(void)
{
	copied();
	variable();
	list();
}

/* ------------------------------------------------------------------ streams */

/* Memory that is freed on one stream behind another one's use, which is late, and memory that is
 * freed on one and used by the next owner on another; events are all the order there is. */
static void side(void)
{
	CUstream first = stream_make(), second = stream_make();
	CUevent freed, used;
	uint64_t nr = WORDS;

	OK(cu.cuEventCreate(&freed, NO_TIMING));
	OK(cu.cuEventCreate(&used, NO_TIMING));
	for (unsigned time = 0; time < ARRAYS; time++) {
		CUdeviceptr old, next;
		uint64_t value = time, last = 90000 + time;

		OK(cu.cuMemAllocAsync(&old, BYTES, first));
		LAUNCH("fill", first, &old, &nr, &value);
		OK(cu.cuEventRecord(used, first));
		OK(cu.cuStreamWaitEvent(second, used, 0));
		fill(time, 7 * time, second);
		LAUNCH("add", second, &array[time], &array[time], &old, &nr);
		OK(cu.cuEventRecord(used, second));
		OK(cu.cuStreamWaitEvent(first, used, 0));
		OK(cu.cuMemFreeAsync(old, first));
		OK(cu.cuEventRecord(freed, first));
		OK(cu.cuStreamWaitEvent(second, freed, 0));
		OK(cu.cuMemAllocAsync(&next, BYTES, second));
		LAUNCH("fill", second, &next, &nr, &last);
		LAUNCH("copy", second, &array[(time + 1) % ARRAYS], &next, &nr);
		OK(cu.cuMemFreeAsync(next, second));
	}
	OK(cu.cuCtxSynchronize());
	for (unsigned n = 0; n < ARRAYS; n++)
		show("array", array[n] + BYTES - 8, 2);
}

/* A kernel on one stream runs until one on another stores a word, which does so after work over all
 * of the memory; whoever waits for the first waits forever. */
static void waiting_on(CUstream waits, CUstream works)
{
	uint64_t value = 77, nr = 1;
	CUdeviceptr flag;

	OK(cu.cuMemAlloc(&flag, 4));
	for (unsigned time = 2; time < 5; time++) {
		OK(cu.cuMemsetD32Async(flag, 0, 1, works));
		OK(cu.cuStreamSynchronize(works));
		LAUNCH("wait_flag", waits, &flag, &value);
		use_all(time, works);
		LAUNCH("store_flag", works, &flag, &value);
		OK(cu.cuStreamSynchronize(waits));
		for (unsigned n = 0; n < ARRAYS; n += 7)
			show("array", array[n], (unsigned)nr);
	}
}

static void waiting(void)
{
	waiting_on(stream_make(), stream_make());
}

/* The kernel that waits is on the thread's default stream. */
static void waiting_thread(void)
{
	waiting_on(PER_THREAD, stream_make());
}

/* The same in a context of the program's own, whose default stream has the name of the other's. */
static void other_context(void)
{
	uint64_t nr = WORDS, value = 7;
	CUmodule of_context[2] = {module, NULL};
	CUdeviceptr addr[MORE];
	CUcontext own;

	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cu.cuModuleLoadData(&of_context[1], ARRAYS_IMAGE));
	for (unsigned time = 0; time < 4; time++) {
		OK(cu.cuCtxSetCurrent(time % 2 ? context : own));
		module = of_context[time % 2 ? 0 : 1];
		for (unsigned n = 0; n < ARRAYS; n++) {
			value = 100 * time + n;
			LAUNCH("fill", NULL, &array[n], &nr, &value);
			LAUNCH("add", NULL, &array[n], &array[n], &array[n], &nr);
		}
		for (unsigned n = 0; n < MORE; n++) {
			OK(cu.cuMemAllocAsync(&addr[n], BYTES, NULL));
			LAUNCH("copy", NULL, &addr[n], &array[n], &nr);
		}
		for (unsigned n = 0; n < MORE; n++) {
			show("copy", addr[n] + BYTES - 8, 2);
			OK(cu.cuMemFreeAsync(addr[n], NULL));
		}
		OK(cu.cuCtxSynchronize());
	}
	OK(cu.cuCtxSetCurrent(context));
	module = of_context[0];
}

/* ------------------------------------------------------------------ handles that are used again */

/* Launch a kernel in a context that ends then, and one with more parameters by the same handle in
 * the primary one. The driver without a GPU is told to use handles again. */
static void reuse(CUcontext ends, CUresult (*end)(void))
{
	CUfunction first, second, again;
	char shifted[64];
	CUmodule gone;
	CUdeviceptr addr;
	uint64_t nr = WORDS, value = 5, few = 16;

	OK(cu.cuCtxSetCurrent(ends));
	OK(cu.cuModuleLoadData(&gone, ARRAYS_IMAGE));
	OK(cu.cuModuleGetFunction(&first, gone, "fill"));
	OK(cu.cuModuleGetFunction(&second, gone, "add"));
	OK(cu.cuMemAlloc(&addr, 64));
	OK(cu.cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&addr, &few, &value},
			     NULL));
	OK(cu.cuCtxSynchronize());
	OK(end());
	OK(cu.cuCtxSetCurrent(context));
	(void)snprintf(shifted, sizeof(shifted), "fakecuda kernels\nshift %d\n",
		       (int)((intptr_t)first - (intptr_t)second + 63) % 63);
	OK(cu.cuModuleLoadData(&gone, shifted));
	OK(cu.cuModuleGetFunction(&again, gone, "add"));
	printf("the same handle %d\n", again == first);
	for (unsigned n = 0; n < ARRAYS; n += 3) {
		use_all(n + 2, NULL);
		OK(cu.cuLaunchKernel(again, 1, 1, 1, 1, 1, 1, 0, NULL,
				     (void *[]){&array[40], &array[41], &array[n], &nr}, NULL));
		OK(cu.cuCtxSynchronize());
		show("added", array[40], 2);
	}
}

static CUcontext own;

static CUresult own_end(void)
{
	return cuCtxDestroy_v2(own);
}

static void reused(void)
{
	OK(cuCtxCreate_v2(&own, 0, 0));
	reuse(own, own_end);
}

/* The primary context of another GPU. */
static CUresult primary_end(void)
{
	return cu.cuDevicePrimaryCtxRelease(1);
}

static CUresult primary_reset(void)
{
	return cuDevicePrimaryCtxReset_v2(1);
}

static void released(void)
{
	OK(cu.cuDevicePrimaryCtxRetain(&own, 1));
	reuse(own, primary_end);
}

static void reset(void)
{
	OK(cu.cuDevicePrimaryCtxRetain(&own, 1));
	reuse(own, primary_reset);
}

/* ------------------------------------------------------------------ calls that fail */

/* From so many calls on events cannot be recorded; result 0: they can again. The driver without a
 * GPU has a function for that, which under weir is found by the driver's own path alone. */
static void fail_events(uint64_t skip, int result)
{
	bool (*fail)(const char *symbol, uint64_t skip, int result);
	const char *path = getenv("WEIR_RUN_DRIVER");
	void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	*(void **)&fail = driver ? dlsym(driver, "fakecuda_fail_symbol") : NULL;
	if (!fail)
		exit(1);
	(void)fail("cuEventRecord", skip, result);
	(void)dlclose(driver); /* the program has it open, too */
}

/* For a while events cannot be recorded, which the program does not use. */
static void no_events(void)
{
	CUstream stream = stream_make();
	uint64_t nr = WORDS;

	for (unsigned skip = 0; skip < 4; skip++) {
		unsigned n = ARRAYS - 1 - skip;
		CUdeviceptr addr = array[n];
		uint64_t value = 40 + skip;

		fill(n, 30 + skip, stream);
		OK(cu.cuStreamSynchronize(stream));
		/* The launch may be refused, or be noted too late by weir. */
		fail_events(skip, 304);
		(void)cu.cuLaunchKernel(kernel("fill"), 1, 1, 1, 1, 1, 1, 0, stream,
					(void *[]){&addr, &nr, &value}, NULL);
		fail_events(0, 0);
		fill(n, 7, stream);
		LAUNCH("add", stream, &addr, &addr, &addr, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("added", addr, 1);
		use_all(skip, stream);
	}
}

/* The GPU is reset where what weir noted of launches has not ended, since events could not be
 * recorded behind them; the program begins anew. */
static void reset_open(void)
{
	for (unsigned skip = 0; skip < 3; skip++) {
		CUstream stream = stream_make();
		CUdeviceptr addr = array[skip];
		uint64_t nr = WORDS, value = skip;

		fail_events(skip, 304);
		(void)cu.cuLaunchKernel(kernel("fill"), 1, 1, 1, 1, 1, 1, 0, stream,
					(void *[]){&addr, &nr, &value}, NULL);
		if (skip % 2)
			fail_events(0, 0);
		OK(cuDevicePrimaryCtxReset_v2(0));
		fail_events(0, 0);
		OK(cu.cuModuleLoadData(&module, ARRAYS_IMAGE));
		OK(cu.cuMemAlloc(&out, ARRAYS * sizeof(uint32_t)));
		for (unsigned n = 0; n < ARRAYS; n++)
			OK(cu.cuMemAlloc(&array[n], BYTES));
		use_all(skip + 2, NULL);
	}
}

/* Allocations until there is no memory, twice; what there is can be used before and after. */
static void full(void)
{
	enum { MOST = 1 << 12 };
	static CUdeviceptr addr[MOST];
	CUstream stream = stream_make();
	uint64_t nr = WORDS;

	for (unsigned time = 2; time < 4; time++) {
		unsigned n = 0;
		CUresult result = 0;

		while (!result && n < MOST) {
			result = time % 2 ? cu.cuMemAlloc(&addr[n], BYTES)
					  : cu.cuMemAllocAsync(&addr[n], BYTES, stream);
			if (!result)
				LAUNCH("copy", stream, &addr[n], &array[n % ARRAYS], &nr);
			n += !result;
		}
		printf("some %d, then %d\n", n > 0, result);
		use_all(time, stream);
		for (unsigned i = 0; i < n; i++)
			OK(time % 2 ? cu.cuMemFree(addr[i]) : cu.cuMemFreeAsync(addr[i], stream));
		OK(cu.cuStreamSynchronize(stream));
		use_all(10 * time, stream);
	}
}

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {{"copied", copied},
						   {"copied-async", copied_async},
						   {"copied-unified", copied_unified},
						   {"copied-on", copied_on},
						   {"stored", stored},
						   {"watched", watched},
						   {"places", places},
						   {"small", small},
						   {"variable", variable},
						   {"list", list},
						   {"several", several},
						   {"side", side},
						   {"waiting", waiting},
						   {"waiting-thread", waiting_thread},
						   {"other-context", other_context},
						   {"no-events", no_events},
						   {"reset-open", reset_open},
						   {"full", full},
						   {"reused", reused},
						   {"released", released},
						   {"reset", reset},
						   {NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
