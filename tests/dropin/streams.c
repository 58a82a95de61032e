/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs on several streams and contexts, one for each run, on the memory of arrays.h: kernels
 * that wait for each other, memory that one stream frees and another one uses, calls that fail. It
 * prints what it read, so that a run under weir can be compared with one without; the first call
 * that fails and should not is named and ends it with status 1. The kernels are those of
 * tests/fakecuda/fakecuda.h. It includes nothing of weir, but for what api.h declares.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/dropin/arrays.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, int device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuDevicePrimaryCtxReset_v2(int device);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t nr);
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t nr);
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t nr);
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t nr, CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t nr, CUstream stream);
CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z);
CUresult cuParamSetSize(CUfunction function, unsigned int bytes);
CUresult cuParamSetv(CUfunction function, int offset, void *from, unsigned int bytes);
CUresult cuLaunch(CUfunction function);
CUresult cuLaunchGrid(CUfunction function, int width, int height);
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream);

enum { MORE = 16, RELAXED = 2 };

/* ------------------------------------------------------------------ memory that streams share */

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

/* Memory of an array's size that is full of one word. */
static CUdeviceptr filled(unsigned value, CUstream stream)
{
	uint64_t nr = WORDS, word = value;
	CUdeviceptr addr;

	OK(cu.cuMemAllocAsync(&addr, BYTES, stream));
	LAUNCH("fill", stream, &addr, &nr, &word);
	return addr;
}

/* Memory is freed on one stream while another one is to read it, and nothing orders the two: what
 * is read then CUDA does not say. As much is allocated and used meanwhile. */
static void freed_early(void)
{
	CUstream first = stream_make(), second = stream_make();
	CUdeviceptr old = filled(11, first), next;
	uint64_t nr = WORDS;

	OK(cu.cuStreamSynchronize(first));
	for (unsigned n = 2; n < ARRAYS; n++)
		LAUNCH("copy", second, &array[1], &array[n], &nr);
	LAUNCH("copy", second, &array[0], &old, &nr);
	OK(cu.cuMemFreeAsync(old, first));
	next = filled(22, first);
	OK(cu.cuCtxSynchronize());
	show("copied", array[0], 2);
	show("next", next, 2);
}

/* The same with an event before the free, where the kernel that reads waits for a word which a
 * third stream stores after it has allocated and used as much. */
static void freed_behind(void)
{
	CUstream first = stream_make(), second = stream_make(), third = stream_make();
	CUdeviceptr flag, old = filled(11, first), next;
	uint64_t nr = WORDS, one = 1;
	CUevent used;

	OK(cu.cuEventCreate(&used, NO_TIMING));
	OK(cu.cuMemAlloc(&flag, 4));
	OK(cu.cuMemsetD32Async(flag, 0, 1, first));
	OK(cu.cuStreamSynchronize(first));
	LAUNCH("wait_flag", second, &flag, &one);
	LAUNCH("copy", second, &array[0], &old, &nr);
	OK(cu.cuEventRecord(used, second));
	OK(cu.cuStreamWaitEvent(first, used, 0));
	OK(cu.cuMemFreeAsync(old, first));
	next = filled(22, third);
	for (unsigned n = 1; n < ARRAYS; n++)
		fill(n, 1000 + n, third);
	LAUNCH("store_flag", third, &flag, &one);
	OK(cu.cuCtxSynchronize());
	show("copied", array[0], 2);
	show("next", next, 2);
}

/* Memory that is freed behind work on one stream, which takes a while, is allocated for any, and
 * used first by a graph: its launch shows nothing, and nothing else orders it. */
static void graph_first(void)
{
	CUstream first = stream_make(), second = stream_make();

	for (unsigned time = 0; time < 3; time++) {
		CUdeviceptr old = filled(11, first), next;
		uint64_t nr = WORDS, value = 12;
		CUgraphExec exec;
		CUgraph graph;

		for (unsigned n = 0; n < ARRAYS; n++)
			LAUNCH("fill", first, &old, &nr, &value);
		OK(cu.cuMemFreeAsync(old, first));
		OK(cu.cuMemAlloc(&next, BYTES));
		OK(cuStreamBeginCapture_v2(second, RELAXED));
		LAUNCH("copy", second, &next, &array[time], &nr);
		OK(cuStreamEndCapture(second, &graph));
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		OK(cuGraphLaunch(exec, second));
		OK(cu.cuCtxSynchronize());
		show("next", next, 2);
		OK(cu.cuMemFree(next));
	}
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

/* A kernel on each stream waits for what the one on the stream before stores, and the first one for
 * what comes after work over all of the memory. */
static void waiting_chain(void)
{
	enum { LINKS = 4 };
	CUstream stream[LINKS], works = stream_make();
	CUdeviceptr flag[LINKS + 1];
	uint64_t value = 77;

	for (unsigned i = 0; i <= LINKS; i++)
		OK(cu.cuMemAlloc(&flag[i], 4));
	for (unsigned i = 0; i < LINKS; i++)
		stream[i] = stream_make();
	for (unsigned time = 2; time < 4; time++) {
		for (unsigned i = 0; i <= LINKS; i++)
			OK(cu.cuMemsetD32Async(flag[i], 0, 1, works));
		OK(cu.cuStreamSynchronize(works));
		for (unsigned i = LINKS; i-- > 0;) {
			LAUNCH("wait_flag", stream[i], &flag[i], &value);
			fill(i, time, stream[i]);
			LAUNCH("store_flag", stream[i], &flag[i + 1], &value);
		}
		for (unsigned n = LINKS; n < ARRAYS; n++)
			fill(n, 1000 * time + n, works);
		LAUNCH("store_flag", works, &flag[0], &value);
		for (unsigned i = 0; i < LINKS; i++)
			OK(cu.cuStreamSynchronize(stream[i]));
		show("flag", flag[LINKS], 1);
		use_all(time + 10, works);
	}
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

/* A stream has the handle of one that went with a context of the program's own. Whoever took it for
 * that one would wait without end for a kernel on it, which waits for what comes later. */
static void reused(void)
{
	CUmodule of_context[2] = {module, NULL};
	CUstream gone, stream = NULL;
	CUcontext own;

	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cu.cuModuleLoadData(&of_context[1], ARRAYS_IMAGE));
	module = of_context[1];
	gone = stream_make();
	use_all(2, gone);
	OK(cuCtxDestroy_v2(own));
	OK(cu.cuCtxSetCurrent(context));
	module = of_context[0];
	stream = stream_make();
	printf("the same handle %d\n", stream == gone);
	waiting_on(stream, stream_make());
}

/* ------------------------------------------------------------------ all of what a fill uses */

/* Fills of an allocation of several blocks, which are elsewhere by then. */
static void fills(void)
{
	enum { BLOCKS = 4, ALL = BLOCKS * BYTES };
	CUstream stream = stream_make();
	CUdeviceptr all;

	OK(cu.cuMemAlloc(&all, ALL));
	for (unsigned way = 0; way < 6; way++) {
		use_all(way + 2, stream);
		if (way == 0)
			OK(cuMemsetD8_v2(all, 1, ALL));
		else if (way == 1)
			OK(cuMemsetD16_v2(all, 2, ALL / 2));
		else if (way == 2)
			OK(cuMemsetD32_v2(all, 3, ALL / 4));
		else if (way == 3)
			OK(cuMemsetD8Async(all, 4, ALL, stream));
		else if (way == 4)
			OK(cuMemsetD16Async(all, 5, ALL / 2, stream));
		else
			OK(cu.cuMemsetD32Async(all, 6, ALL / 4, stream));
		OK(cu.cuStreamSynchronize(stream));
		for (unsigned n = 1; n <= BLOCKS; n++)
			show("filled", all + n * BYTES - 8, 2);
	}
}

/* A graph of a copy and a fill is made when their memory is elsewhere, which the driver looks at
 * then. */
static void graph_late(void)
{
	CUstream stream = stream_make();

	for (unsigned time = 2; time < 8; time++) {
		CUgraphExec exec;
		CUgraph graph;

		OK(cuStreamBeginCapture_v2(stream, RELAXED));
		OK(cu.cuMemsetD32Async(array[time], time, WORDS, stream));
		OK(cu.cuMemcpyDtoDAsync(array[time + 8], array[time], BYTES, stream));
		OK(cuStreamEndCapture(stream, &graph));
		use_all(time, stream);
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		OK(cuGraphLaunch(exec, stream));
		OK(cu.cuStreamSynchronize(stream));
		show("copied", array[time + 8] + BYTES - 8, 2);
	}
}

/* ------------------------------------------------------------------ launches of CUDA 3 */

static void set_parameters(CUfunction function, CUdeviceptr dst, CUdeviceptr a, CUdeviceptr b)
{
	uint64_t nr = WORDS, parameters[] = {dst, a, b, nr};

	OK(cuParamSetv(function, 0, parameters, sizeof(parameters)));
	OK(cuParamSetSize(function, sizeof(parameters)));
	OK(cuFuncSetBlockShape(function, 64, 1, 1));
}

/* Parameters are set by calls of their own: no launch shows any. */
static void set_before(void)
{
	CUfunction add = kernel("add");
	CUstream stream = stream_make();

	for (unsigned time = 2; time < 6; time++) {
		use_all(time, stream);
		for (unsigned n = 0; n + 3 < ARRAYS; n += 4) {
			set_parameters(add, array[n], array[n + 1], array[n + 2]);
			OK(cuLaunchGridAsync(add, 4, 4, stream));
			set_parameters(add, array[n + 3], array[n], array[n + 2]);
			OK(cuLaunchGridAsync(add, 4, 4, stream));
		}
		OK(cu.cuStreamSynchronize(stream));
		set_parameters(add, array[time], array[3], array[time + 7]);
		OK(cuLaunch(add));
		set_parameters(add, array[time + 1], array[time], array[23]);
		OK(cuLaunchGrid(add, 4, 4));
		OK(cu.cuCtxSynchronize());
		for (unsigned n = 0; n < ARRAYS; n++)
			show("added", array[n] + BYTES - 8, 2);
	}
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
		OK(cu.cuMemAlloc(&out, OUT * sizeof(uint32_t)));
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

/* ------------------------------------------------------------------ the end of the process */

static void end_here(int signal)
{
	(void)signal;
	exit(3);
}

/* A signal's handler ends the process, as programs do at an interrupt, at any instruction. */
static void interrupted(void)
{
	const struct itimerval soon = {.it_value.tv_usec = 20000 + getpid() % 32 * 1000};

	(void)signal(SIGALRM, end_here);
	(void)setitimer(ITIMER_REAL, &soon, NULL);
	for (unsigned time = 0;; time++)
		use_all(time, NULL);
}

int main(int argc, char **argv)
{
	static const struct arrays_case cases[] = {{"side", side},
						   {"freed-early", freed_early},
						   {"freed-behind", freed_behind},
						   {"graph-first", graph_first},
						   {"waiting", waiting},
						   {"waiting-chain", waiting_chain},
						   {"waiting-thread", waiting_thread},
						   {"other-context", other_context},
						   {"reused", reused},
						   {"set-before", set_before},
						   {"fills", fills},
						   {"graph-late", graph_late},
						   {"no-events", no_events},
						   {"reset-open", reset_open},
						   {"full", full},
						   {"interrupted", interrupted},
						   {NULL, NULL}};

	return arrays_main(argc, argv, cases);
}
