/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose kernels use memory that their launches do not name, or have handles that others
 * had, one for each run, on the memory of arrays.h. It prints what it read, so that a run under
 * weir can be compared with one without; the first call that fails is named and ends it with
 * status 1. The kernels are those of tests/fakecuda/fakecuda.h. It includes nothing of weir, but
 * for what api.h declares.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/dropin/arrays.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuStreamQuery(CUstream stream);
CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, int device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuDevicePrimaryCtxReset_v2(int device);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);

enum { ILLEGAL_ADDRESS = 700, RELAXED = 2 };

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

/* The same by a kernel that was launched often with its addresses in the host's memory. */
static void stored_place(void)
{
	CUdeviceptr from = pointers_make(), *staging;
	CUstream stream = stream_make();
	uint64_t nr = ARRAYS, one = 1, stride = 0;

	OK(cu.cuMemHostAlloc((void **)&staging, sizeof(array), 0));
	for (unsigned time = 0; time < 12; time++) /* that kernel is not looked at any more */
		LAUNCH("addresses", stream, &from, &stride, &stride, &one);
	for (unsigned n = 0; n < ARRAYS; n++) {
		CUdeviceptr at = from + n * sizeof(from);

		staging[n] = out + n * sizeof(uint32_t);
		LAUNCH("addresses", stream, &at, &array[n], &stride, &one);
	}
	for (unsigned time = 0; time < 12; time++)
		LAUNCH("gather", stream, &out, &staging, &nr);
	use_all(1, stream);
	gather(from, stream);
}

/* The same in an array that is too large to be looked at. */
static void stored_large(void)
{
	CUstream stream = stream_make();
	uint64_t nr = 1, stride = 0;
	CUdeviceptr from;

	OK(cu.cuMemAlloc(&from, 2 * BYTES));
	for (unsigned n = 0; n < ARRAYS; n++) {
		CUdeviceptr at = from + n * sizeof(from);

		LAUNCH("addresses", stream, &at, &array[n], &stride, &nr);
	}
	use_all(1, stream);
	gather(from, stream);
}

/* A list whose kernel finds one node at each of many launches, until another kernel links it to a
 * node in an array. */
static void stored_late(void)
{
	const uint64_t node[2] = {0, 7};
	CUdeviceptr first = pointers_make(), next = array[5] + BYTES - sizeof(node);
	CUstream stream = stream_make();
	uint64_t nr = 2, one = 1, stride = 0;

	OK(cu.cuMemcpyHtoD(first, node, sizeof(node)));
	for (unsigned time = 0; time < 12; time++) {
		LAUNCH("list_sum", stream, &out, &first, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("sum", out, 1);
	}
	OK(cu.cuMemcpyHtoD(next, node, sizeof(node)));
	LAUNCH("addresses", stream, &first, &next, &stride, &one);
	for (unsigned n = 6; n < ARRAYS; n++)
		fill(n, n, stream);
	LAUNCH("list_sum", stream, &out, &first, &nr);
	OK(cu.cuStreamSynchronize(stream));
	show("sum", out, 1);
}

/* ------------------------------------------------------------------ two modes of operation */

/* Kernels make a list with a node in each array, at its end, behind one in memory that is too large
 * to be looked at: nobody sees an address. */
static CUdeviceptr list_store(CUstream stream)
{
	const uint64_t at = BYTES - 16;
	uint64_t one = 1, stride = 0;
	CUdeviceptr first, node;

	OK(cu.cuMemAlloc(&first, 2 * BYTES));
	node = first;
	for (unsigned n = 0; n <= ARRAYS; n++) {
		CUdeviceptr next = n < ARRAYS ? array[n] + at : 0, word = node + sizeof(next);
		uint64_t value = 1 + n * n;

		LAUNCH("addresses", stream, &node, &next, &stride, &one);
		LAUNCH("addresses", stream, &word, &value, &stride, &one);
		node = next;
	}
	OK(cu.cuStreamSynchronize(stream));
	return first;
}

/* Sum so many nodes of it, then use all arrays but for the nodes, in another order each time. Of
 * one node the kernel uses what its launch names. */
static void list_use(CUdeviceptr first, uint64_t nr, unsigned time, CUstream stream)
{
	static const unsigned steps[] = {1, 5, 7, 11, 13, 17, 19, 23}; /* 48 has no such factor */
	uint64_t words = WORDS / 2, value = time;

	LAUNCH("list_sum", stream, &out, &first, &nr);
	OK(cu.cuStreamSynchronize(stream));
	show("sum", out, 1);
	for (unsigned n = 0; n < ARRAYS; n++)
		LAUNCH("fill", stream, &array[(n * steps[time % 8] + time) % ARRAYS], &words,
		       &value);
}

static void closed_mode(void)
{
	CUstream stream = stream_make();
	CUdeviceptr first = list_store(stream);

	for (unsigned time = 0; time < 8; time++)
		list_use(first, 1, time, stream);
	OK(cu.cuStreamSynchronize(stream));
}

/* A parameter says whether the kernel follows the addresses: after many launches it does. */
static void both_modes(void)
{
	CUstream stream = stream_make();
	CUdeviceptr first = list_store(stream);

	for (unsigned time = 0; time < 8; time++)
		list_use(first, 1, time, stream);
	for (unsigned time = 8; time < 12; time++)
		list_use(first, time % 2 ? 1 : 1 + ARRAYS, time, stream);
	OK(cu.cuStreamSynchronize(stream));
}

/* A graph has it that follows them, and the rest of the work. */
static void graph(void)
{
	CUstream stream = stream_make();
	CUdeviceptr first = list_store(stream);
	uint64_t nr = 1 + ARRAYS, words = WORDS / 4;
	CUgraphExec exec;
	CUgraph made;

	OK(cuStreamBeginCapture_v2(stream, RELAXED));
	LAUNCH("list_sum", stream, &out, &first, &nr);
	for (unsigned n = 0; n < ARRAYS; n += 5)
		LAUNCH("add", stream, &array[n], &array[n], &array[n + 1 < ARRAYS ? n + 1 : 0],
		       &words);
	OK(cuStreamEndCapture(stream, &made));
	OK(cuGraphInstantiateWithFlags(&exec, made, 0));
	for (unsigned time = 0; time < 6; time++) {
		list_use(first, 1, time, stream);
		OK(cuGraphLaunch(exec, stream));
		OK(cu.cuStreamSynchronize(stream));
		show("sum", out, 1);
		show("added", array[5], 2);
	}
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

/* The same where a kernel stores it there. */
static void variable_stored(void)
{
	uint64_t nr = ARRAYS, one = 1, stride = 0;
	CUstream stream = stream_make();
	CUdeviceptr table;
	size_t bytes;

	OK(cu.cuModuleGetGlobal(&table, &bytes, module, "table"));
	for (unsigned n = 0; n < ARRAYS; n += 5) {
		LAUNCH("addresses", stream, &table, &array[n], &stride, &one);
		use_all(n + 2, stream);
		LAUNCH("load_table", stream, &out, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("loaded", out, ARRAYS);
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
				     (void *[]){&array[20], &array[21], &array[n], &nr}, NULL));
		OK(cu.cuCtxSynchronize());
		show("added", array[20], 2);
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

/* From here on whoever writes a file is killed. */
static void write_nothing(void)
{
	(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
}

/* Ends well but for that. */
static void killed(void)
{
	use_all(2, NULL);
	OK(cu.cuCtxSynchronize());
	(void)fflush(NULL);
	(void)atexit(write_nothing);
}

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {{"copied", copied},
						   {"copied-async", copied_async},
						   {"copied-unified", copied_unified},
						   {"copied-on", copied_on},
						   {"stored", stored},
						   {"stored-place", stored_place},
						   {"stored-large", stored_large},
						   {"stored-late", stored_late},
						   {"closed-mode", closed_mode},
						   {"both-modes", both_modes},
						   {"graph", graph},
						   {"watched", watched},
						   {"places", places},
						   {"small", small},
						   {"variable", variable},
						   {"variable-stored", variable_stored},
						   {"list", list},
						   {"several", several},
						   {"reused", reused},
						   {"released", released},
						   {"reset", reset},
						   {"killed", killed},
						   {NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
