/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the driver that copies, fills, or has a stream wait for a word, each on memory that
 * was not used for a while, of which there is several times what a run under weir is given. It
 * prints a sum of what is there after each call, so that a run under weir can be compared with one
 * without; the first call that fails is named and ends it with status 1. The first argument says
 * which functions: "all" or "thread", whose stream 0 is one for all threads or each thread's own.
 * With "asked" behind it the driver is asked for them, by the version of CUDA that each came with.
 * It includes nothing of weir, but for what api.h and shapes.h declare.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dropin/shapes.h"

enum { ARRAYS = 48, WORDS = 1 << 14, BYTES = 4 * WORDS, NON_BLOCKING = 1 };
enum { PITCH = 1024, ROWS = 16, WIDTH = 600, SLICES = 3 };

static struct api cu;
static void *driver;
static bool per_thread, asks;
static CUcontext context;
static CUstream stream, other;
static CUfunction fill;
static CUdeviceptr array[ARRAYS];
static unsigned last;		 /* array that was used */
static uint32_t *pinned, *words; /* of an array's size each, pinned and not */

static void check(CUresult result, const char *call)
{
	if (!result)
		return;
	fprintf(stderr, "copies: %s: %d\n", call, result);
	exit(1);
}

/* What the driver says of a name; of those with two versions the one that is meant. */
static void *ask(const char *symbol, int version)
{
	CUresult (*proc)(const char *, void **, int, uint64_t, int *);
	const char *v2 = strstr(symbol, "_v2");
	char name[64];
	void *found = NULL;
	int status = -1;

	*(void **)&proc = dlsym(driver, "cuGetProcAddress_v2");
	(void)snprintf(name, sizeof(name), "%.*s", v2 ? (int)(v2 - symbol) : 60, symbol);
	if (!version)
		version = v2 ? 12020 : 11060;
	check(proc(name, &found, version, per_thread ? 2 : 1, &status), symbol);
	return status ? NULL : found;
}

/* A function by its name; sync: it takes no stream. */
static void *find(const char *name, bool sync)
{
	char symbol[64];
	void *found;

	if (asks) {
		found = ask(name, 0);
		check(found ? 0 : -1, name);
		return found;
	}

	(void)snprintf(symbol, sizeof(symbol), "%s%s", name,
		       !per_thread ? ""
		       : sync	   ? "_ptds"
				   : "_ptsz");
	found = dlsym(driver, symbol);
	if (!found) {
		fprintf(stderr, "copies: no %s\n", symbol);
		exit(1);
	}
	return found;
}

#define CALL(name, sync, types, ...)                \
	do {                                        \
		CUresult(*call) types;              \
                                                    \
		*(void **)&call = find(name, sync); \
		check(call(__VA_ARGS__), name);     \
	} while (0)
#define SYNC(name, types, ...) CALL(name, true, types, __VA_ARGS__)
#define ASYNC(name, types, ...) CALL(name, false, types, __VA_ARGS__)

/* An array that was last used half of all arrays ago, to be filled with words that are its own; it
 * is elsewhere by now where there is little memory. */
static CUdeviceptr next(void)
{
	const unsigned later = (last + ARRAYS / 2) % ARRAYS;
	uint64_t nr = WORDS, value = 0x01020304u * (later + 1);
	CUdeviceptr addr = array[later];

	check(cu.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&addr, &nr, &value},
				NULL),
	      "fill");
	check(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
	last = (last + 1) % ARRAYS;
	return array[last];
}

/* The work is done; say what is in an array. */
static void show(const char *what, CUdeviceptr addr)
{
	uint32_t sum = 0;

	check(cu.cuCtxSynchronize(), what);
	check(cu.cuMemcpyDtoHAsync(words, addr, BYTES, stream), what);
	check(cu.cuStreamSynchronize(stream), what);
	for (unsigned i = 0; i < WORDS; i++)
		sum = sum * 31 + words[i];
	printf("%s %08x\n", what, sum);
	(void)fflush(stdout);
}

static void host_fill(void *at, uint32_t first)
{
	for (uint32_t i = 0; i < WORDS; i++)
		((uint32_t *)at)[i] = first + i * 2654435761u;
}

/* ------------------------------------------------------------------ rows of bytes */

#define PARTS (BYTES / 4) /* copied: not all of it */

static void linear(void)
{
	CUdeviceptr dst, src;

#define SHOWN(what) show(what, dst)
#define TAKE (src = next(), dst = next())
	TAKE;
	SYNC("cuMemcpy", (CUdeviceptr, CUdeviceptr, size_t), dst + 100, src, PARTS);
	SHOWN("cuMemcpy");
	TAKE;
	ASYNC("cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream), dst + 4, src, PARTS,
	      stream);
	SHOWN("cuMemcpyAsync");
	TAKE;
	SYNC("cuMemcpyPeer", (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t), dst, context,
	     src, context, PARTS);
	SHOWN("cuMemcpyPeer");
	TAKE;
	ASYNC("cuMemcpyPeerAsync",
	      (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream), dst, context, src,
	      context, PARTS, stream);
	SHOWN("cuMemcpyPeerAsync");
	TAKE;
	SYNC("cuMemcpyDtoD_v2", (CUdeviceptr, CUdeviceptr, size_t), dst + 8, src, PARTS);
	SHOWN("cuMemcpyDtoD");
	TAKE;
	ASYNC("cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream), dst + 12, src,
	      PARTS, stream);
	SHOWN("cuMemcpyDtoDAsync");
}

static void hosts(void)
{
	CUdeviceptr dst = next(), src;

	host_fill(words, 1);
	host_fill(pinned, 2);
	SYNC("cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t), dst + 16, words, PARTS);
	SHOWN("cuMemcpyHtoD");
	dst = next();
	ASYNC("cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream), dst + 20,
	      pinned, PARTS, stream);
	SHOWN("cuMemcpyHtoDAsync");
	TAKE;
	SYNC("cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t), words, src, PARTS);
	SYNC("cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t), dst, words, PARTS);
	SHOWN("cuMemcpyDtoH");
	TAKE;
	ASYNC("cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream), pinned, src, PARTS,
	      stream);
	ASYNC("cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream), dst, pinned,
	      PARTS, stream);
	SHOWN("cuMemcpyDtoHAsync");
}

/* ------------------------------------------------------------------ pictures and volumes */

static void pictures(void)
{
	static const char *const names[] = {"cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2",
					    "cuMemcpy2DAsync_v2"};
	struct copy2d copy = {.width = WIDTH, .height = ROWS};

	for (unsigned i = 0; i < 3; i++)
		for (unsigned from = 0; from < 3; from++) {
			CUdeviceptr src = next(), dst = next();

			host_fill(pinned, from);
			copy.src = (struct end2d){.x = 4, .y = 1, .type = DEVICE, .device = src};
			copy.src.pitch = PITCH;
			if (from == 1)
				copy.src.type = HOST, copy.src.host = pinned;
			else if (from == 2)
				copy.src.type = UNIFIED;
			copy.dst = (struct end2d){.x = 8, .y = 2, .type = DEVICE, .device = dst};
			copy.dst.pitch = PITCH + 8;
			if (i < 2)
				SYNC(names[i], (const struct copy2d *), &copy);
			else
				ASYNC(names[i], (const struct copy2d *, CUstream), &copy, stream);
			SHOWN(names[i]);
		}
}

static void volumes(void)
{
	static const char *const names[] = {"cuMemcpy3D_v2", "cuMemcpy3DPeer", "cuMemcpy3DAsync_v2",
					    "cuMemcpy3DPeerAsync"};
	struct copy3d copy = {.width = WIDTH, .height = ROWS / 2, .depth = SLICES};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned from = 0; from < 2; from++) {
			CUdeviceptr src = next(), dst = next();

			host_fill(pinned, 3 + from);
			copy.src = (struct end3d){.x = 4, .y = 1, .z = 1, .type = DEVICE};
			copy.src.device = src;
			copy.src.pitch = PITCH;
			copy.src.rows = ROWS - 4;
			copy.dst = copy.src;
			copy.dst.device = dst;
			if (from)
				copy.src.type = HOST, copy.src.host = pinned;
			if (i & 1)
				copy.src.context = copy.dst.context = context;
			if (i < 2)
				SYNC(names[i], (const struct copy3d *), &copy);
			else
				ASYNC(names[i], (const struct copy3d *, CUstream), &copy, stream);
			SHOWN(names[i]);
		}
}

/* ------------------------------------------------------------------ fills */

#define FILLS(bits, type)                                                                          \
	do {                                                                                       \
		CUdeviceptr dst = next();                                                          \
                                                                                                   \
		SYNC("cuMemsetD" #bits "_v2", (CUdeviceptr, type, size_t), dst + 16, (type)71,     \
		     PARTS / 8);                                                                   \
		SHOWN("cuMemsetD" #bits);                                                          \
		dst = next();                                                                      \
		ASYNC("cuMemsetD" #bits "Async", (CUdeviceptr, type, size_t, CUstream), dst + 16,  \
		      (type)72, PARTS / 8, stream);                                                \
		SHOWN("cuMemsetD" #bits "Async");                                                  \
		dst = next();                                                                      \
		SYNC("cuMemsetD2D" #bits "_v2", (CUdeviceptr, size_t, type, size_t, size_t), dst,  \
		     PITCH, (type)73, WIDTH / 8, ROWS);                                            \
		SHOWN("cuMemsetD2D" #bits);                                                        \
		dst = next();                                                                      \
		ASYNC("cuMemsetD2D" #bits "Async",                                                 \
		      (CUdeviceptr, size_t, type, size_t, size_t, CUstream), dst, PITCH, (type)74, \
		      WIDTH / 8, ROWS, stream);                                                    \
		SHOWN("cuMemsetD2D" #bits "Async");                                                \
	} while (0)

/* ------------------------------------------------------------------ words */

/* One stream waits for what the other one writes, and then writes behind it. */
#define FLAGS(bits, version)                                                                       \
	do {                                                                                       \
		const char *const name = "cuStreamWaitValue" #bits version;                        \
		CUdeviceptr dst = next();                                                          \
                                                                                                   \
		ASYNC(name, (CUstream, CUdeviceptr, uint##bits##_t, unsigned int), other, dst, 91, \
		      WAIT_EQ);                                                                    \
		ASYNC("cuStreamWriteValue" #bits version,                                          \
		      (CUstream, CUdeviceptr, uint##bits##_t, unsigned int), other, dst + 8, 93,   \
		      0);                                                                          \
		ASYNC("cuStreamWriteValue" #bits version,                                          \
		      (CUstream, CUdeviceptr, uint##bits##_t, unsigned int), stream, dst, 91, 0);  \
		SHOWN(name);                                                                       \
	} while (0)

static void lists(const char *name)
{
	CUdeviceptr src = next(), dst = next();
	struct stream_op waits[] = {{.kind = OP_WAIT32, .addr = dst, .value = 5, .flags = WAIT_EQ},
				    {.kind = OP_WAIT64, .addr = dst + 8, .value = 6},
				    {.kind = OP_WRITE32, .addr = src + 4, .value = 7}};
	struct stream_op writes[] = {{.kind = OP_WRITE64, .addr = dst + 8, .value = UINT64_MAX / 4},
				     {.kind = OP_WRITE32, .addr = dst, .value = 5}};

	ASYNC(name, (CUstream, unsigned int, struct stream_op *, unsigned int), other, 3, waits, 0);
	ASYNC(name, (CUstream, unsigned int, struct stream_op *, unsigned int), stream, 2, writes,
	      0);
	show(name, src);
	show(name, dst);
}

/* ------------------------------------------------------------------ the program */

static void open_all(void)
{
	CUmodule module;

	check(cu.cuInit(0), "cuInit");
	check(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(cu.cuModuleLoadData(&module, "fakecuda kernels\n"), "cuModuleLoadData");
	check(cu.cuModuleGetFunction(&fill, module, "fill"), "cuModuleGetFunction");
	check(cu.cuStreamCreate(&stream, 0), "cuStreamCreate");
	check(cu.cuStreamCreate(&other, NON_BLOCKING), "cuStreamCreate");
	check(cu.cuMemHostAlloc((void **)&pinned, BYTES, 0), "cuMemHostAlloc");
	for (unsigned n = 0; n < ARRAYS; n++)
		check(cu.cuMemAlloc(&array[n], BYTES), "cuMemAlloc");
	for (unsigned n = 0; n < 2 * ARRAYS; n++)
		(void)next();
}

/* Copies of one call, as in CUDA 12.8: this version only who asks for it gets. */
static void batch(void)
{
	struct {
		int order, places[4];
		unsigned int flags;
	} attributes = {.order = 1};
	CUdeviceptr src = next(), dst = next(), to[] = {dst + 4}, from[] = {src};
	size_t bytes[] = {PARTS}, first[] = {0}, failed = 0;
	CUresult (*call)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,
			 size_t *, CUstream);

	*(void **)&call = ask("cuMemcpyBatchAsync", 12080);
	if (!call)
		return;
	check(call(to, from, bytes, 1, &attributes, first, 1, &failed, stream), "batch");
	SHOWN("cuMemcpyBatchAsync");
}

int main(int argc, char **argv)
{
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	words = malloc(BYTES);
	if (argc < 2 || !driver || !words || api_open(&cu, REACH_DLSYM))
		return 1;
	per_thread = !strcmp(argv[1], "thread");
	asks = argc > 2;
	open_all();
	linear();
	hosts();
	pictures();
	volumes();
	FILLS(8, unsigned char);
	FILLS(16, unsigned short);
	FILLS(32, unsigned int);
	FLAGS(32, "");
	FLAGS(32, "_v2");
	FLAGS(64, "");
	FLAGS(64, "_v2");
	lists("cuStreamBatchMemOp");
	lists("cuStreamBatchMemOp_v2");
	if (asks)
		batch();
	for (unsigned n = 0; n < ARRAYS; n++)
		show("at the end", array[n]);
	free(words);
	return 0;
}
