/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses of the CUDA driver that programs rarely make, one for each run: it prints what the calls
 * return, so that a run under weir can be compared with one without. The kernels are those of
 * tests/fakecuda/fakecuda.h. It includes nothing of weir, but for what api.h declares.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dropin/api.h"

typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;

CUresult cuMemAllocPitch_v2(CUdeviceptr *addr, size_t *pitch, size_t width, size_t height,
			    unsigned int element);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, int device);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *addr, size_t bytes, CUmemoryPool pool,
				 CUstream stream);

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuPointerGetAttributes(unsigned int nr, int *attributes, void **data, CUdeviceptr addr);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);

enum { NON_BLOCKING = 1 };

static struct api cu;
static CUcontext context;
static CUmodule module;

/* Print a result. */
static void show(const char *what, CUresult result)
{
	printf("%s %d\n", what, result);
	(void)fflush(stdout);
}

static CUfunction kernel(const char *name)
{
	CUfunction function = NULL;

	show(name, cu.cuModuleGetFunction(&function, module, name));
	return function;
}

static CUresult launch(CUfunction function, CUstream stream, void **parameters)
{
	return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static CUstream stream_make(void)
{
	CUstream stream = NULL;

	show("stream", cu.cuStreamCreate(&stream, NON_BLOCKING));
	return stream;
}

/* A word that kernels wait for. */
static CUdeviceptr flag_make(void)
{
	CUdeviceptr flag = 0;

	show("flag", cu.cuMemAlloc(&flag, 4));
	show("flag is 0", cu.cuMemsetD32Async(flag, 0, 1, NULL));
	show("sync", cu.cuCtxSynchronize());
	return flag;
}

/* ------------------------------------------------------------------ cases */

/* More than any machine has is out of memory, however large. */
static void sizes(void)
{
	static const size_t bytes[] = {
		0, (size_t)1 << 40, (size_t)1 << 52, SIZE_MAX / 2, SIZE_MAX - 255, SIZE_MAX};
	CUstream stream = stream_make();

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		CUdeviceptr addr;
		size_t pitch;

		show("alloc", cu.cuMemAlloc(&addr, bytes[i]));
		show("ordered", cu.cuMemAllocAsync(&addr, bytes[i], stream));
		show("rows", cuMemAllocPitch_v2(&addr, &pitch, bytes[i], 3, 4));
		show("columns", cuMemAllocPitch_v2(&addr, &pitch, 3, bytes[i], 4));
	}
}

/* A stream is destroyed while a kernel on it waits for one that is launched later. */
static void destroy(void)
{
	CUdeviceptr flag = flag_make(), addr;
	CUfunction wait = kernel("wait_flag"), store = kernel("store_flag");
	CUstream first = stream_make(), second = stream_make();
	uint64_t value = 1;
	void *parameters[] = {&flag, &value};

	show("ordered", cu.cuMemAllocAsync(&addr, 4096, first));
	show("wait", launch(wait, first, parameters));
	show("free", cu.cuMemFreeAsync(addr, first));
	show("destroy", cu.cuStreamDestroy(first));
	show("store", launch(store, second, parameters));
	show("destroy", cu.cuStreamDestroy(second));
	show("sync", cu.cuCtxSynchronize());
	/* Few: the driver of the tests has 96 streams, and takes a while to end one. */
	for (int i = 0; i < 8; i++)
		show("destroy", cu.cuStreamDestroy(stream_make()));
}

struct later {
	CUfunction store;
	CUstream stream;
	CUdeviceptr flag;
};

static void *store_later(void *arg)
{
	struct later *later = arg;
	uint64_t value = 1;
	void *parameters[] = {&later->flag, &value};

	(void)usleep(50000);
	if (cu.cuCtxSetCurrent(context) || launch(later->store, later->stream, parameters))
		exit(1);
	return NULL;
}

/* Memory is freed while a kernel is queued that uses it, with its own GPU's context or another
 * one's as the current one. */
static void free_in_use(int device)
{
	struct later later = {kernel("store_flag"), stream_make(), flag_make()};
	CUfunction wait = kernel("wait_flag"), fill = kernel("fill");
	uint64_t value = 1, nr = 1 << 18;
	CUstream stream = stream_make();
	CUdeviceptr addr, next;
	CUcontext other;
	pthread_t thread;

	show("alloc", cu.cuMemAlloc(&addr, nr * 4));
	show("wait", launch(wait, stream, (void *[]){&later.flag, &value}));
	show("fill", launch(fill, stream, (void *[]){&addr, &nr, &value}));
	if (pthread_create(&thread, NULL, store_later, &later))
		exit(1);
	show("other", cu.cuDevicePrimaryCtxRetain(&other, device));
	show("current", cu.cuCtxSetCurrent(other));
	show("free", cu.cuMemFree(addr));
	show("current", cu.cuCtxSetCurrent(context));
	show("alloc", cu.cuMemAlloc(&next, nr * 4));
	show("set", cu.cuMemsetD32Async(next, 9, nr, later.stream));
	(void)pthread_join(thread, NULL);
	show("sync", cu.cuCtxSynchronize());
}

static void other_context(void)
{
	free_in_use(1);
}

static void same_context(void)
{
	free_in_use(0);
}

enum { PIECES = 24, PIECE_BYTES = 1 << 20, RESERVED = 5, ORDINAL = 9 };

static void pieces_use(CUstream stream)
{
	CUdeviceptr piece[PIECES];

	for (int i = 0; i < PIECES; i++)
		show("piece", cu.cuMemAllocAsync(&piece[i], PIECE_BYTES, stream));
	for (int i = 0; i < PIECES; i++)
		show("free", cu.cuMemFreeAsync(piece[i], stream));
	show("sync", cu.cuStreamSynchronize(stream));
}

/* What is kept for one stream is there for another allocation, and goes with its stream. */
static void kept(void)
{
	CUstream first = stream_make(), second = stream_make();
	size_t before = 0, used = 0, after = 0, total;
	CUmemoryPool preset = NULL;
	uint64_t reserved = 1;
	CUdeviceptr addr;
	int device = -1;

	pieces_use(first);
	show("all of it", cu.cuMemAlloc(&addr, (size_t)(PIECES + 16) * PIECE_BYTES));
	show("ordinal", cu.cuPointerGetAttribute(&device, ORDINAL, addr));
	show("is", device);
	show("free", cu.cuMemFree(addr));
	pieces_use(second);
	show("destroy", cu.cuStreamDestroy(second));
	show("pool", cuDeviceGetDefaultMemPool(&preset, 0));
	show("reserved", cuMemPoolGetAttribute(preset, RESERVED, &reserved));
	show("is", (int)reserved);
	show("info", cuMemGetInfo_v2(&before, &total));
	show("alloc", cu.cuMemAlloc(&addr, PIECE_BYTES));
	show("info", cuMemGetInfo_v2(&used, &total));
	show("less", before - used == PIECE_BYTES);
	show("free", cu.cuMemFree(addr));
	show("info", cuMemGetInfo_v2(&after, &total));
	show("as before", before == after);
	for (int i = 0; i < 4; i++) {
		show("small", cu.cuMemAllocAsync(&addr, 1000, first));
		show("free", cu.cuMemFreeAsync(addr, first));
	}
}

/* What is kept for a stream while it is captured is there afterwards, though memory was short. */
static void kept_captured(void)
{
	const size_t most = (size_t)(PIECES + 16) * PIECE_BYTES;
	CUstream stream = stream_make();
	CUgraph graph = NULL;
	CUdeviceptr addr;

	pieces_use(stream);
	show("begin", cuStreamBeginCapture_v2(stream, 2));
	if (!cu.cuMemAlloc(&addr, most)) /* who keeps it may say that there is none now */
		(void)cu.cuMemFree(addr);
	show("end", cuStreamEndCapture(stream, &graph));
	show("all of it", cu.cuMemAlloc(&addr, most));
}

#define PER_THREAD ((CUstream)2) /* CU_STREAM_PER_THREAD */

/* Takes memory in the order of its own default stream while another thread's waits. */
static void *take_later(void *arg)
{
	struct later *later = arg;
	CUdeviceptr addr;
	uint64_t value = 1;
	void *parameters[] = {&later->flag, &value};

	show("current", cu.cuCtxSetCurrent(context));
	for (int i = 0; i < 4; i++) {
		show("ordered", cu.cuMemAllocAsync(&addr, PIECE_BYTES, PER_THREAD));
		show("set", cu.cuMemsetD32Async(addr, 9, PIECE_BYTES / 4, PER_THREAD));
	}
	show("store", launch(later->store, later->stream, parameters));
	return NULL;
}

/* The default streams of threads have one name, and no order among each other. */
static void per_thread(void)
{
	struct later later = {kernel("store_flag"), stream_make(), flag_make()};
	CUfunction wait = kernel("wait_flag"), fill = kernel("fill");
	uint64_t value = 1, nr = PIECE_BYTES / 4;
	CUdeviceptr addr;
	pthread_t thread;

	show("ordered", cu.cuMemAllocAsync(&addr, PIECE_BYTES, PER_THREAD));
	show("wait", launch(wait, PER_THREAD, (void *[]){&later.flag, &value}));
	show("fill", launch(fill, PER_THREAD, (void *[]){&addr, &nr, &value}));
	show("free", cu.cuMemFreeAsync(addr, PER_THREAD));
	if (pthread_create(&thread, NULL, take_later, &later))
		exit(1);
	(void)pthread_join(thread, NULL);
	show("sync", cu.cuCtxSynchronize());
}

static void wait_for(pid_t pid)
{
	int status = -1;

	show("waited", pid > 0 && waitpid(pid, &status, 0) == pid);
	show("status", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* A child that ends as programs do. */
static void child(void)
{
	CUdeviceptr addr;
	pid_t pid;

	show("alloc", cu.cuMemAlloc(&addr, 4096));
	pid = fork();
	if (!pid)
		exit(7);
	wait_for(pid);
}

/* ------------------------------------------------------------------ captures */

enum { RELAXED = 2, THREAD_LOCAL = 1, AT_ONCE = 8, ONE_BYTES = 4 << 20 };

static void *free_all(void *addr)
{
	show("current", cu.cuCtxSetCurrent(context));
	for (int i = 0; i < AT_ONCE; i++)
		show("free", cu.cuMemFree(((CUdeviceptr *)addr)[i]));
	show("twice", cu.cuMemFree(*(CUdeviceptr *)addr));
	return NULL;
}

static void allocate_all(CUdeviceptr *addr, CUstream stream)
{
	for (int i = 0; i < AT_ONCE; i++) {
		show("alloc", cu.cuMemAlloc(&addr[i], ONE_BYTES));
		show("set", cu.cuMemsetD32Async(addr[i], 5, ONE_BYTES / 4, stream));
	}
}

/* Another thread frees what is in use while this one captures a stream. The driver has no objection
 * where the capture is the thread's own, or relaxed. Whoever keeps the memory has none soon. */
static void free_beside(int mode)
{
	CUstream stream = stream_make(), works = stream_make();
	CUfunction fill = kernel("fill");
	CUdeviceptr addr[AT_ONCE], other;
	uint64_t nr = 1000, value = 3;
	CUgraph graph = NULL;
	pthread_t thread;

	show("alloc", cu.cuMemAlloc(&other, 4096));
	for (int time = 0; time < 3; time++) {
		allocate_all(addr, works);
		show("begin", cuStreamBeginCapture_v2(stream, mode));
		show("captured", launch(fill, stream, (void *[]){&other, &nr, &value}));
		if (pthread_create(&thread, NULL, free_all, addr))
			exit(1);
		(void)pthread_join(thread, NULL);
		show("end", cuStreamEndCapture(stream, &graph));
		show("is", graph != NULL);
		show("sync", cu.cuStreamSynchronize(works));
	}
	show("free", cu.cuMemFree(other));
}

static void free_relaxed(void)
{
	free_beside(RELAXED);
}

static void free_local(void)
{
	free_beside(THREAD_LOCAL);
}

/* ------------------------------------------------------------------ children */

/* Everything that a program does first, in a process that may have no right to it. */
static void begin_anew(void)
{
	CUdeviceptr addr = 0;
	CUcontext own = NULL;

	show("init", cu.cuInit(0));
	show("context", cu.cuDevicePrimaryCtxRetain(&own, 0));
	show("alloc", cu.cuMemAlloc(&addr, 4096));
	show("set", cu.cuMemsetD32Async(addr, 9, 1024, NULL));
	show("sync", cu.cuCtxSynchronize());
	show("free", cu.cuMemFree(addr));
}

/* A child uses the GPU as if it had begun to, which the driver refuses; its parent goes on. */
static void child_uses(void)
{
	CUdeviceptr addr;
	pid_t pid;

	show("alloc", cu.cuMemAlloc(&addr, 20 << 20));
	show("set", cu.cuMemsetD32Async(addr, 7, 5 << 20, NULL));
	show("sync", cu.cuCtxSynchronize());
	pid = fork();
	if (!pid) {
		show("set", cu.cuMemsetD32Async(addr, 8, 5 << 20, NULL));
		show("free", cu.cuMemFree(addr));
		begin_anew();
		exit(7);
	}
	wait_for(pid);
	show("set", cu.cuMemsetD32Async(addr, 9, 5 << 20, NULL));
	begin_anew();
	show("free", cu.cuMemFree(addr));
}

/* Two processes use it, of which none had begun to when the first made the second. */
static void child_first(void)
{
	const pid_t pid = fork();

	if (pid)
		wait_for(pid);
}

/* The first allocation of all is from the default pool. */
static void pool(void)
{
	CUstream stream = stream_make();
	CUmemoryPool preset = NULL;
	CUdeviceptr addr;

	show("pool", cuDeviceGetDefaultMemPool(&preset, 0));
	show("from pool", cuMemAllocFromPoolAsync(&addr, 4096, preset, stream));
	show("free", cu.cuMemFreeAsync(addr, stream));
	show("no pool", cuMemAllocFromPoolAsync(&addr, 4096, NULL, stream));
}

/* Launches that the driver refuses. */
static void refused(void)
{
	void *no_size[] = {(void *)2, NULL, NULL}, *no_buffer[] = {(void *)1, NULL, NULL};
	CUfunction fill = kernel("fill");
	CUdeviceptr addr;

	show("alloc", cu.cuMemAlloc(&addr, 4096));
	show("no size", cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, no_size));
	show("no buffer", cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, no_buffer));
	show("nothing", cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	show("no config", cu.cuLaunchKernelEx(NULL, fill, NULL, NULL));
}

/* Addresses where no allocation begins. */
static void frees(void)
{
	CUstream stream = stream_make();
	CUdeviceptr addr;

	show("alloc", cu.cuMemAlloc(&addr, 20 << 20));
	show("within", cu.cuMemFree(addr + 256));
	show("within, ordered", cu.cuMemFreeAsync(addr + (8 << 20), stream));
	show("free", cu.cuMemFree(addr));
	show("twice", cu.cuMemFree(addr));
	show("ordered", cu.cuMemAllocAsync(&addr, 4096, stream));
	show("free", cu.cuMemFreeAsync(addr, stream));
	show("twice", cu.cuMemFreeAsync(addr, stream));
	show("other way", cu.cuMemFree(addr));
	show("nothing", cu.cuMemFree(0));
}

/* ------------------------------------------------------------------ what calls say */

/* What is said of an address within an allocation, and how much of eight bytes is written. */
static void say_attribute(const char *what, int attribute, CUdeviceptr base, CUdeviceptr addr)
{
	uint64_t value[2] = {UINT64_MAX / 3, UINT64_MAX / 3};
	void *data = value;
	CUresult result = cu.cuPointerGetAttribute(value, attribute, addr);

	for (int both = 0; both < 2; both++) {
		if (value[0] - base < ONE_BYTES)
			value[0] -= base;
		printf("%s: attribute %d: %d: %#llx %d\n", what, attribute, result,
		       (unsigned long long)value[0], value[1] == UINT64_MAX / 3);
		value[0] = UINT64_MAX / 3;
		result = cuPointerGetAttributes(1, &attribute, &data, addr);
	}
}

/* Which are the same for any plain allocation, wherever it lies now, and no handles. */
static void attributes(void)
{
	static const int asked[] = {2, 3, 6, 8, 9, 11, 12, 13, 16};
	CUdeviceptr addr[AT_ONCE], base;
	size_t bytes;

	allocate_all(addr, NULL);
	show("sync", cu.cuCtxSynchronize());
	for (int n = 0; n < AT_ONCE; n += AT_ONCE - 1) {
		const CUdeviceptr last = addr[n] + ONE_BYTES - 1;

		for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
			say_attribute("first", asked[i], addr[n], addr[n]);
			say_attribute("last", asked[i], addr[n], last);
		}
		show("range", cu.cuMemGetAddressRange(&base, &bytes, last));
		printf("is %d %zu\n", base == addr[n], bytes);
	}
}

/* A kernel has broken the context, and the program has heard of it: no memory is given any more. */
static void broken(void)
{
	CUdeviceptr addr, next = UINT64_C(0x123456780000);
	uint64_t nr = 4, value = 7;
	CUfunction fill = kernel("fill");
	CUstream stream = stream_make();
	size_t unused, total;

	show("alloc", cu.cuMemAllocAsync(&addr, 4096, stream));
	show("free", cu.cuMemFreeAsync(addr, stream));
	show("fill", launch(fill, stream, (void *[]){&next, &nr, &value}));
	show("sync", cu.cuStreamSynchronize(stream));
	show("alloc", cu.cuMemAlloc(&addr, 4096));
	show("alloc", cu.cuMemAlloc(&addr, ONE_BYTES));
	show("alloc", cu.cuMemAllocAsync(&addr, 4096, stream));
	show("rows", cuMemAllocPitch_v2(&addr, &total, 64, 64, 4));
	show("info", cuMemGetInfo_v2(&unused, &total));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"sizes", sizes},
		     {"destroy", destroy},
		     {"other-context", other_context},
		     {"same-context", same_context},
		     {"kept", kept},
		     {"kept-captured", kept_captured},
		     {"per-thread", per_thread},
		     {"child", child},
		     {"child-uses", child_uses},
		     {"child-first", begin_anew},
		     {"free-relaxed", free_relaxed},
		     {"free-local", free_local},
		     {"pool", pool},
		     {"refused", refused},
		     {"attributes", attributes},
		     {"broken", broken},
		     {"frees", frees}};

	if (argc != 2 || api_open(&cu, REACH_LINKED))
		return 1;
	if (!strcmp(argv[1], "child-first"))
		child_first();
	show("init", cu.cuInit(0));
	show("context", cu.cuDevicePrimaryCtxRetain(&context, 0));
	show("current", cu.cuCtxSetCurrent(context));
	show("module", cu.cuModuleLoadData(&module, "fakecuda kernels\n"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
	return 1;
}
