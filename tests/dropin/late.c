/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that work in a part of their memory at first and then allocate several times as much,
 * one for each run: what was queued, copied, captured and freed before that matters afterwards,
 * while all of the memory is used. It prints what it read, so that a run under weir can be compared
 * with one without; the first call that fails is named and ends it with status 1. The kernels are
 * those of tests/fakecuda/fakecuda.h. It includes nothing of weir, but for what api.h declares.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dropin/api.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, int device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);

enum { NON_BLOCKING = 1, RELAXED = 2 };
/* Of so many arrays the first ones are there from the begin. */
enum { FIRST = 10, ARRAYS = 48, WORDS = 1 << 14, BYTES = 4 * WORDS, THREADS = 4 };

static const char image[] = "fakecuda kernels\nglobal table 8\n";

static struct api cu;
static CUcontext context;
static CUmodule module;
static CUdeviceptr array[ARRAYS], out, flag;
static unsigned nr_arrays;

static void check(CUresult result, const char *call, int line)
{
	if (!result)
		return;
	fprintf(stderr, "late: line %d: %s: %d\n", line, call, result);
	exit(1);
}

#define OK(call) check(call, #call, __LINE__)

static void launch(const char *name, CUstream stream, void **parameters)
{
	CUfunction function = NULL;

	OK(cu.cuModuleGetFunction(&function, module, name));
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

#define LAUNCH(name, stream, ...) launch(name, stream, (void *[]){__VA_ARGS__})

static void fill(unsigned n, unsigned value, CUstream stream)
{
	uint64_t nr = WORDS, word = value;

	LAUNCH("fill", stream, &array[n], &nr, &word);
}

static void grow(unsigned nr)
{
	for (; nr_arrays < nr; nr_arrays++)
		OK(cu.cuMemAlloc(&array[nr_arrays], BYTES));
}

/* Use the arrays from one on, each with words that are its own and those of the time. */
static void use_from(unsigned first, unsigned time, CUstream stream)
{
	for (unsigned n = first; n < nr_arrays; n++)
		fill(n, 1000 * time + n, stream);
	OK(cu.cuStreamSynchronize(stream));
}

static void show(const char *what, CUdeviceptr addr, unsigned nr)
{
	uint32_t word[ARRAYS];

	OK(cuMemcpyDtoH_v2(word, addr, nr * sizeof(*word)));
	printf("%s", what);
	for (unsigned i = 0; i < nr; i++)
		printf(" %u", word[i]);
	printf("\n");
	(void)fflush(stdout);
}

static void show_all(void)
{
	for (unsigned n = 0; n < nr_arrays; n++)
		show("array", array[n] + BYTES - 8, 2);
}

static CUstream stream_make(unsigned flags)
{
	CUstream stream;

	OK(cu.cuStreamCreate(&stream, flags));
	return stream;
}

static void set_flag(unsigned to)
{
	OK(cu.cuMemsetD32Async(flag, to, 1, NULL));
	OK(cu.cuCtxSynchronize());
}

/* ------------------------------------------------------------------ addresses from before */

/* Arrays below hold addresses, which another run has others of. */
enum { POINTED = 3, NR_POINTED = FIRST - POINTED };

/* Read a word of each of some first arrays by the addresses that lie at from, later ones being used
 * in between. */
static void gather_from(CUdeviceptr from)
{
	CUstream stream = stream_make(NON_BLOCKING);
	uint64_t nr = NR_POINTED;

	grow(ARRAYS);
	for (unsigned time = 1; time < 6; time++) {
		use_from(FIRST, time, stream);
		LAUNCH("gather", stream, &out, &from, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("gathered", out, NR_POINTED);
	}
}

/* The array of addresses is so large that nobody looks into it later. */
static void copied(void)
{
	OK(cu.cuMemcpyHtoD(array[0], &array[POINTED], sizeof(array[0]) * NR_POINTED));
	gather_from(array[0]);
}

static void copied_unified(void)
{
	OK(cuMemcpy(array[0], (uintptr_t)&array[POINTED], sizeof(array[0]) * NR_POINTED));
	gather_from(array[0]);
}

/* A copy of what was copied, of which the second one is made when there is more memory. */
static void copied_on(void)
{
	OK(cu.cuMemcpyHtoD(array[0], &array[POINTED], sizeof(array[0]) * NR_POINTED));
	OK(cuMemcpyDtoD_v2(array[1], array[0], BYTES));
	grow(ARRAYS);
	OK(cuMemcpyDtoD_v2(array[2], array[1], BYTES));
	use_from(FIRST, 1, NULL);
	gather_from(array[2]);
}

/* A variable of the module holds an address. */
static void variable(void)
{
	CUstream stream = stream_make(NON_BLOCKING);
	CUdeviceptr table;
	uint64_t nr = FIRST;
	size_t bytes;

	OK(cu.cuModuleGetGlobal(&table, &bytes, module, "table"));
	OK(cu.cuMemcpyHtoD(table, &array[3], sizeof(array[3])));
	grow(ARRAYS);
	for (unsigned time = 1; time < 6; time++) {
		use_from(FIRST, time, stream);
		LAUNCH("load_table", stream, &out, &nr);
		OK(cu.cuStreamSynchronize(stream));
		show("loaded", out, FIRST);
	}
}

/* ------------------------------------------------------------------ work from before */

/* Until the flag is set, the stream does nothing; then it writes the first arrays. */
static void queue_late(CUstream stream)
{
	uint64_t value = 77;

	LAUNCH("wait_flag", stream, &flag, &value);
	for (unsigned n = 0; n < FIRST; n++)
		fill(n, 500 + n, stream);
}

static void sync_context(CUcontext of)
{
	OK(cu.cuCtxSetCurrent(of));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuCtxSetCurrent(context));
}

/* More memory is used than there is while that is queued, in a context. */
static void grow_and_set(CUcontext queued)
{
	CUstream stream = stream_make(NON_BLOCKING);
	uint64_t value = 77;

	grow(ARRAYS);
	for (unsigned time = 1; time < 4; time++)
		use_from(FIRST, time, stream);
	LAUNCH("store_flag", stream, &flag, &value);
	sync_context(queued);
	show_all();
	for (unsigned time = 10; time < 16; time++) {
		use_from(0, time, stream);
		(void)usleep(1000);
	}
}

static void running(void)
{
	set_flag(0);
	queue_late(stream_make(NON_BLOCKING));
	grow_and_set(context);
}

/* Nobody has a name for the stream any more. */
static void running_destroyed(void)
{
	CUstream stream = stream_make(NON_BLOCKING);

	set_flag(0);
	queue_late(stream);
	OK(cu.cuStreamDestroy(stream));
	grow_and_set(context);
}

/* It is of a context that is not the current one when memory is short. */
static void running_context(void)
{
	CUmodule primary = module;
	CUcontext own, gone;

	set_flag(0);
	/* One that was used, and is no more. */
	OK(cuCtxCreate_v2(&gone, 0, 0));
	OK(cu.cuModuleLoadData(&module, image));
	fill(0, 3, NULL);
	OK(cuCtxDestroy_v2(gone));
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cu.cuModuleLoadData(&module, image));
	queue_late(stream_make(NON_BLOCKING));
	OK(cu.cuCtxSetCurrent(context));
	module = primary;
	grow_and_set(own);
}

static uint32_t words[WORDS];

static void *read_first(void *arg)
{
	OK(cu.cuCtxSetCurrent(context));
	OK(cuMemcpyDtoH_v2(words, array[0], BYTES));
	return arg;
}

/* A thread is inside the driver meanwhile, in a call that waits for the flag. */
static void blocked(void)
{
	pthread_t thread;

	set_flag(0);
	queue_late(stream_make(0));
	if (pthread_create(&thread, NULL, read_first, NULL))
		exit(1);
	(void)usleep(20000);
	grow_and_set(context);
	(void)pthread_join(thread, NULL);
	printf("read %u %u\n", words[0], words[WORDS - 1]);
}

/* Memory that is freed in the order of a stream whose work is not done, and allocated on others. */
static void freed(void)
{
	CUstream first = stream_make(NON_BLOCKING), second = stream_make(NON_BLOCKING);
	CUdeviceptr old[4], next[16];
	uint64_t nr = WORDS, value = 77;

	set_flag(0);
	for (unsigned i = 0; i < 4; i++)
		OK(cu.cuMemAllocAsync(&old[i], BYTES, first));
	queue_late(first);
	for (unsigned i = 0; i < 4; i++) {
		LAUNCH("copy", first, &old[i], &array[i], &nr);
		LAUNCH("add", first, &array[i], &array[i], &old[i], &nr);
		OK(cu.cuMemFreeAsync(old[i], first));
	}
	for (unsigned i = 0; i < 16; i++) {
		uint64_t word = 900 + i;

		OK(cu.cuMemAllocAsync(&next[i], BYTES, second));
		LAUNCH("fill", second, &next[i], &nr, &word);
	}
	OK(cu.cuStreamSynchronize(second));
	LAUNCH("store_flag", second, &flag, &value);
	OK(cu.cuCtxSynchronize());
	for (unsigned i = 0; i < 16; i++) {
		show("next", next[i] + BYTES - 8, 2);
		OK(cu.cuMemFreeAsync(next[i], i % 2 ? first : second));
	}
	grow_and_set(context);
}

/* ------------------------------------------------------------------ captures */

static CUgraphExec captured(CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* One stream is captured while there is more and more memory, and one was before. */
static void capture(void)
{
	CUstream stream = stream_make(NON_BLOCKING), other = stream_make(NON_BLOCKING);
	CUgraphExec before, during;

	OK(cuStreamBeginCapture_v2(stream, RELAXED));
	for (unsigned n = 0; n < FIRST / 2; n++)
		fill(n, 300 + n, stream);
	before = captured(stream);
	OK(cuGraphLaunch(before, stream));
	OK(cu.cuStreamSynchronize(stream));
	OK(cuStreamBeginCapture_v2(stream, RELAXED));
	for (unsigned n = FIRST / 2; n < FIRST; n++)
		fill(n, 300 + n, stream);
	grow(ARRAYS);
	for (unsigned time = 1; time < 4; time++) {
		use_from(FIRST, time, other);
		(void)usleep(4000);
	}
	fill(FIRST, 299, stream);
	during = captured(stream);
	for (unsigned time = 6; time < 10; time++) {
		use_from(0, time, other);
		OK(cuGraphLaunch(during, stream));
		OK(cuGraphLaunch(before, stream));
		OK(cu.cuStreamSynchronize(stream));
		show_all();
		(void)usleep(4000);
	}
}

/* ------------------------------------------------------------------ threads */

static atomic_bool grown;

/* Launches one after another, on arrays of the thread's own, until there is more memory and some
 * more. */
static void *launch_on(void *arg)
{
	const unsigned first = 2 * *(const unsigned *)arg;
	CUstream stream;
	uint64_t nr = WORDS, one = 1;
	unsigned left = 8;

	OK(cu.cuCtxSetCurrent(context));
	stream = stream_make(*(const unsigned *)arg % 2 ? NON_BLOCKING : 0);
	while (left) {
		fill(first, 7, stream);
		LAUNCH("fill", stream, &array[first + 1], &nr, &one);
		LAUNCH("add", stream, &array[first], &array[first], &array[first + 1], &nr);
		OK(cu.cuMemcpyDtoDAsync(array[first + 1], array[first], BYTES / 2, stream));
		OK(cu.cuStreamSynchronize(stream));
		left -= atomic_load(&grown);
	}
	return NULL;
}

static void threads(void)
{
	CUstream stream = stream_make(NON_BLOCKING);
	unsigned number[THREADS];
	pthread_t thread[THREADS];

	for (unsigned t = 0; t < THREADS; t++) {
		number[t] = t;
		if (pthread_create(&thread[t], NULL, launch_on, &number[t]))
			exit(1);
	}
	while (nr_arrays < ARRAYS) {
		grow(nr_arrays + 1);
		if (nr_arrays % 4 == 0)
			use_from(2 * THREADS, nr_arrays, stream);
	}
	atomic_store(&grown, true);
	for (unsigned t = 0; t < THREADS; t++)
		(void)pthread_join(thread[t], NULL);
	show_all();
}

/* Each thread allocates, so that several find at once that there is no room. */
static void *grow_on(void *arg)
{
	const unsigned number = *(const unsigned *)arg;
	CUstream stream;

	OK(cu.cuCtxSetCurrent(context));
	stream = stream_make(NON_BLOCKING);
	for (unsigned n = FIRST + number; n < ARRAYS; n += THREADS) {
		OK(number % 2 ? cu.cuMemAllocAsync(&array[n], BYTES, stream)
			      : cu.cuMemAlloc(&array[n], BYTES));
		for (unsigned i = FIRST + number; i <= n; i += THREADS)
			fill(i, 10 * n + i, stream);
		OK(cu.cuStreamSynchronize(stream));
	}
	return NULL;
}

static void growers(void)
{
	unsigned number[THREADS];
	pthread_t thread[THREADS];

	for (unsigned t = 0; t < THREADS; t++) {
		number[t] = t;
		if (pthread_create(&thread[t], NULL, grow_on, &number[t]))
			exit(1);
	}
	for (unsigned t = 0; t < THREADS; t++)
		(void)pthread_join(thread[t], NULL);
	nr_arrays = ARRAYS;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"copied", copied},
		     {"copied-unified", copied_unified},
		     {"copied-on", copied_on},
		     {"variable", variable},
		     {"running", running},
		     {"running-destroyed", running_destroyed},
		     {"running-context", running_context},
		     {"blocked", blocked},
		     {"freed", freed},
		     {"capture", capture},
		     {"threads", threads},
		     {"growers", growers}};

	if (argc != 2 || api_open(&cu, REACH_LINKED))
		return 1;
	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
	OK(cu.cuCtxSetCurrent(context));
	OK(cu.cuModuleLoadData(&module, image));
	OK(cu.cuMemAlloc(&out, FIRST * sizeof(uint32_t)));
	OK(cu.cuMemAlloc(&flag, sizeof(uint32_t)));
	grow(FIRST);
	use_from(0, 0, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			show_all();
			return 0;
		}
	return 1;
}
