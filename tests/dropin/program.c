/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows of the CUDA driver and of nothing else. Each of its threads allocates arrays
 * of words, computes over them in passes, by kernels, copies and fills on several streams which
 * events order, frees and allocates some of them again, and does the same on the CPU; at the end,
 * and before an array is freed, every word is compared. What it computes depends on the sizes
 * alone, not on how it allocates or reaches the driver, so that runs of one size print one
 * checksum. Its kernels are those of tests/fakecuda/fakecuda.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dropin/api.h"
#include "tests/dropin/options.h"

enum { NON_BLOCKING = 1, NO_TIMING = 2, POINTERS = 64 };
enum { RANGE_START = 11, RANGE_BYTES = 12 }; /* CU_POINTER_ATTRIBUTE_* */

static const char image[] = "fakecuda kernels\nglobal table 8\n";

enum kernel {
	FILL,
	COPY,
	ADD,
	SUM,
	GATHER,
	LIST_SUM,
	LOAD_TABLE,
	ADDRESSES,
	WAIT_FLAG,
	STORE_FLAG,
	NR_KERNELS
};

static const char *const names[NR_KERNELS] = {"fill",	   "copy",	"add",	      "sum",
					      "gather",	   "list_sum",	"load_table", "addresses",
					      "wait_flag", "store_flag"};

static struct api cu;
static CUcontext context;

/* Memory of the device, and when it was last used. */
struct array {
	CUdeviceptr addr;
	CUevent used;
	uint32_t *expected; /* NULL: is not compared */
	size_t bytes;
};

struct node {
	uint64_t next, value;
};

struct thread {
	pthread_t thread;
	unsigned number;
	CUstream stream[STREAMS_MAX];
	CUmodule module;
	CUlibrary library;
	CUfunction function[2][NR_KERNELS]; /* the module's, the library's */
	struct array *array;
	struct array pointers, list, table; /* what kernels find addresses in */
	struct array spare;
	char *staging; /* pinned, of an array's size */
	unsigned nr_launches;
	uint32_t checksum;
};

static void check(CUresult result, const char *call, int line)
{
	const char *name = "?";

	if (!result)
		return;
	cu.cuGetErrorName(result, &name);
	die("line %d: %s: %s (%d)", line, call, name, result);
}

#define CU(function, ...) check(cu.function(__VA_ARGS__), #function, __LINE__)

/* ------------------------------------------------------------------ order */

static CUstream stream_of(const struct thread *t, unsigned n)
{
	return options.streams ? t->stream[n % options.streams] : NULL;
}

/* What a stream does next may touch the array: after all that did so before. */
static void use_begin(struct array *array, CUstream stream)
{
	CU(cuStreamWaitEvent, stream, array->used, 0);
}

static void use_end(struct array *array, CUstream stream)
{
	CU(cuEventRecord, array->used, stream);
}

/* ------------------------------------------------------------------ memory */

static void array_ask(const struct array *array)
{
	CUdeviceptr base = 0, start = 0;
	size_t bytes = 0, length = 0;

	CU(cuMemGetAddressRange, &base, &bytes, array->addr + array->bytes / 2);
	CU(cuPointerGetAttribute, &start, RANGE_START, array->addr + array->bytes - 1);
	CU(cuPointerGetAttribute, &length, RANGE_BYTES, array->addr);
	if (base != array->addr || start != base || bytes < array->bytes || length != bytes)
		die("the driver says of %#llx that it is %#llx, of %zu bytes",
		    (unsigned long long)array->addr, (unsigned long long)base, bytes);
}

static void array_alloc(struct array *array, size_t bytes, CUstream stream)
{
	array->bytes = bytes;
	if (options.async)
		CU(cuMemAllocAsync, &array->addr, bytes, stream);
	else
		CU(cuMemAlloc, &array->addr, bytes);
	CU(cuEventRecord, array->used, stream);
	if (options.ask)
		array_ask(array);
}

static void array_free(struct array *array, CUstream stream)
{
	use_begin(array, stream);
	if (options.async)
		CU(cuMemFreeAsync, array->addr, stream);
	else
		CU(cuMemFree, array->addr);
}

/* Write what the CPU has. */
static void array_write(struct thread *t, struct array *array, const void *from, CUstream stream)
{
	memcpy(t->staging, from, array->bytes);
	use_begin(array, stream);
	CU(cuMemcpyHtoDAsync, array->addr, t->staging, array->bytes, stream);
	use_end(array, stream);
	CU(cuStreamSynchronize, stream);
}

/* Every word is what the CPU computed. */
static void array_check(struct thread *t, struct array *array, CUstream stream)
{
	const uint32_t *words = (uint32_t *)t->staging;

	use_begin(array, stream);
	CU(cuMemcpyDtoHAsync, t->staging, array->addr, array->bytes, stream);
	use_end(array, stream);
	CU(cuStreamSynchronize, stream);
	for (size_t i = 0; i < array->bytes / sizeof(*words); i++) {
		if (words[i] != array->expected[i])
			die("thread %u, array %td, word %zu is %#x, not %#x", t->number,
			    array - t->array, i, words[i], array->expected[i]);
		t->checksum = t->checksum * 31 + words[i];
	}
}

static void array_fill(struct thread *t, unsigned n)
{
	struct array *array = &t->array[n];

	for (size_t i = 0; i < array->bytes / sizeof(uint32_t); i++)
		array->expected[i] = (uint32_t)i * 2654435761u + 97 * n + 1009 * t->number;
	array_write(t, array, array->expected, stream_of(t, n));
}

/* ------------------------------------------------------------------ kernels */

/* In one way after the other, all of which do the same. */
static void launch(struct thread *t, enum kernel kernel, CUstream stream, void **parameters)
{
	struct launch_config config = {{64, 1, 1}, {256, 1, 1}, 0, stream, NULL, 0};
	/* The variable that it reads is the module's. */
	unsigned library = kernel != LOAD_TABLE && t->nr_launches / 3 % 2;
	CUfunction function = t->function[library][kernel];
	uint64_t buffer[4];
	size_t bytes = sizeof(buffer);
	void *extra[] = {(void *)1, buffer, (void *)2, &bytes, NULL};

	switch (t->nr_launches++ % 3) {
	case 0:
		CU(cuLaunchKernel, function, 64, 1, 1, 256, 1, 1, 0, stream, parameters, NULL);
		break;
	case 1:
		CU(cuLaunchKernelEx, &config, function, parameters, NULL);
		break;
	default:
		/* Only the last one may have fewer bytes. */
		for (int i = 0; i < 4; i++)
			buffer[i] = parameters[i] ? *(uint64_t *)parameters[i] : 0;
		CU(cuLaunchKernel, function, 64, 1, 1, 256, 1, 1, 0, stream, NULL, extra);
	}
}

#define LAUNCH(t, kernel, stream, ...) launch(t, kernel, stream, (void *[4]){__VA_ARGS__})

/* a[i] = b[i * stride], by addresses that a kernel makes, or that are copied there. */
static void do_gather(struct thread *t, struct array *a, struct array *b, CUstream stream)
{
	uint64_t nr = a->bytes / 4 < POINTERS ? a->bytes / 4 : POINTERS;
	uint64_t stride = a->bytes / 4 / nr * 4, pointers[POINTERS] = {0};

	for (uint64_t i = 0; i < nr; i++)
		pointers[i] = b->addr + i * stride;
	if (options.copied)
		array_write(t, &t->pointers, pointers, stream);
	use_begin(&t->pointers, stream);
	if (!options.copied)
		LAUNCH(t, ADDRESSES, stream, &t->pointers.addr, &b->addr, &stride, &nr);
	LAUNCH(t, GATHER, stream, &a->addr, &t->pointers.addr, &nr);
	use_end(&t->pointers, stream);
	for (uint64_t i = 0; i < nr; i++)
		a->expected[i] = b->expected[i * stride / 4];
}

/* The first words, through a variable of the module that holds b's address. */
static void do_table(struct thread *t, struct array *a, struct array *b, CUstream stream)
{
	uint64_t nr = a->bytes / 4 / 2 + 1;

	array_write(t, &t->table, &b->addr, stream);
	use_begin(&t->table, stream);
	LAUNCH(t, LOAD_TABLE, stream, &a->addr, &nr);
	use_end(&t->table, stream);
	memmove(a->expected, b->expected, nr * 4);
}

/* A list whose nodes lie in a mixed order. */
static void do_list(struct thread *t, struct array *a, unsigned pass, CUstream stream)
{
	struct node node[POINTERS];
	uint64_t nr = POINTERS;

	a->expected[0] = 0;
	for (unsigned i = 0; i < POINTERS; i++) {
		unsigned next = (i + 5) % POINTERS;

		node[i].next = next ? t->list.addr + next * sizeof(node[0]) : 0;
		node[i].value = (uint64_t)i * pass + t->number;
		a->expected[0] += (uint32_t)node[i].value;
	}
	array_write(t, &t->list, node, stream);
	use_begin(&t->list, stream);
	LAUNCH(t, LIST_SUM, stream, &a->addr, &t->list.addr, &nr);
	use_end(&t->list, stream);
}

/* One step: b is read, a is written, here and on the CPU. */
static void step(struct thread *t, struct array *a, struct array *b, unsigned pass, unsigned what)
{
	CUstream stream = stream_of(t, (unsigned)(a - t->array) + pass);
	uint64_t value = 40503 * pass + what, nr = a->bytes / 4;
	uint32_t sum = 0;

	use_begin(a, stream);
	use_begin(b, stream);
	switch (what) {
	case 0:
		LAUNCH(t, FILL, stream, &a->addr, &nr, &value);
		for (size_t i = 0; i < nr; i++)
			a->expected[i] = (uint32_t)value;
		break;
	case 1:
		LAUNCH(t, COPY, stream, &a->addr, &b->addr, &nr);
		memmove(a->expected, b->expected, a->bytes);
		break;
	case 2:
		LAUNCH(t, SUM, stream, &a->addr, &b->addr, &nr);
		for (size_t i = 0; i < nr; i++)
			sum += b->expected[i];
		a->expected[0] = sum;
		break;
	case 3:
		do_gather(t, a, b, stream);
		break;
	case 4:
		do_table(t, a, b, stream);
		break;
	case 5:
		do_list(t, a, pass, stream);
		break;
	case 6:
		CU(cuMemcpyDtoDAsync, a->addr, b->addr, a->bytes / 2, stream);
		memmove(a->expected, b->expected, a->bytes / 2);
		break;
	case 7:
		CU(cuMemsetD32Async, a->addr, (unsigned)value, nr / 3, stream);
		for (size_t i = 0; i < nr / 3; i++)
			a->expected[i] = (uint32_t)value;
		break;
	default:
		LAUNCH(t, ADD, stream, &a->addr, &a->addr, &b->addr, &nr);
		for (size_t i = 0; i < nr; i++)
			a->expected[i] += b->expected[i];
		break;
	}
	use_end(a, stream);
	use_end(b, stream);
}

/* A kernel that runs until one on another stream stores a word, which does so after others: as long
 * as it runs, nothing may wait for it. */
static void spin(struct thread *t)
{
	struct array *flag = &t->array[0], *other = &t->array[1];
	uint64_t value = 77, nr = other->bytes / 4;

	array_check(t, flag, t->stream[0]);
	LAUNCH(t, WAIT_FLAG, t->stream[0], &flag->addr, &value);
	array_alloc(&t->spare, other->bytes, t->stream[1]);
	use_begin(other, t->stream[1]);
	LAUNCH(t, COPY, t->stream[1], &t->spare.addr, &other->addr, &nr);
	LAUNCH(t, ADD, t->stream[1], &other->addr, &other->addr, &t->spare.addr, &nr);
	use_end(other, t->stream[1]);
	CU(cuStreamSynchronize, t->stream[1]);
	LAUNCH(t, STORE_FLAG, t->stream[1], &flag->addr, &value);
	use_end(flag, t->stream[1]); /* which the other kernel may end before */
	use_end(&t->spare, t->stream[1]);
	CU(cuStreamSynchronize, t->stream[0]);
	array_free(&t->spare, t->stream[1]);
	flag->expected[0] = (uint32_t)value;
	for (size_t i = 0; i < nr; i++)
		other->expected[i] *= 2;
}

/* ------------------------------------------------------------------ threads */

static void event_create(struct array *array)
{
	CU(cuEventCreate, &array->used, NO_TIMING);
}

static void open_kernels(struct thread *t)
{
	CU(cuModuleLoadData, &t->module, image);
	CU(cuLibraryLoadData, &t->library, image, NULL, NULL, 0, NULL, NULL, 0);
	for (int i = 0; i < NR_KERNELS; i++) {
		CUkernel kernel;

		CU(cuModuleGetFunction, &t->function[0][i], t->module, names[i]);
		CU(cuLibraryGetKernel, &kernel, t->library, names[i]);
		CU(cuKernelGetFunction, &t->function[1][i], kernel);
	}
}

static void open_memory(struct thread *t)
{
	struct array *others[] = {&t->pointers, &t->list, &t->table, &t->spare};

	t->array = calloc(options.arrays, sizeof(*t->array));
	if (!t->array)
		die("no memory");
	for (int i = 0; i < 4; i++)
		event_create(others[i]);
	CU(cuMemHostAlloc, (void **)&t->staging, options.bytes + sizeof(struct node[POINTERS]), 0);
	array_alloc(&t->pointers, sizeof(uint64_t[POINTERS]), stream_of(t, 0));
	array_alloc(&t->list, sizeof(struct node[POINTERS]), stream_of(t, 0));
	t->table.bytes = sizeof(t->table.addr);
	CU(cuModuleGetGlobal, &t->table.addr, &t->table.bytes, t->module, "table");
	for (unsigned i = 0; i < options.arrays; i++) {
		event_create(&t->array[i]);
		t->array[i].expected = malloc(options.bytes);
		if (!t->array[i].expected)
			die("no memory");
		array_alloc(&t->array[i], options.bytes, stream_of(t, i));
		array_fill(t, i);
	}
}

static void close_memory(struct thread *t)
{
	for (unsigned i = 0; i < options.arrays; i++) {
		array_free(&t->array[i], stream_of(t, i));
		CU(cuEventDestroy, t->array[i].used);
		free(t->array[i].expected);
	}
	array_free(&t->pointers, stream_of(t, 0));
	array_free(&t->list, stream_of(t, 0));
	for (unsigned i = 0; i < options.streams; i++)
		CU(cuStreamSynchronize, t->stream[i]);
	CU(cuStreamSynchronize, NULL);
	CU(cuEventDestroy, t->pointers.used);
	CU(cuEventDestroy, t->list.used);
	CU(cuEventDestroy, t->table.used);
	CU(cuEventDestroy, t->spare.used);
	CU(cuMemFreeHost, t->staging);
	free(t->array);
}

/* One array is freed, and allocated again on another stream. */
static void replace(struct thread *t, unsigned n, unsigned pass)
{
	struct array *array = &t->array[n];
	CUstream stream = stream_of(t, pass);

	array_check(t, array, stream);
	array_free(array, stream);
	array_alloc(array, options.bytes, stream_of(t, pass / 2));
	array_fill(t, n);
}

static void *thread_run(void *arg)
{
	struct thread *t = arg;

	CU(cuCtxSetCurrent, context);
	for (unsigned i = 0; i < options.streams; i++)
		CU(cuStreamCreate, &t->stream[i], i % 2 ? NON_BLOCKING : 0);
	open_kernels(t);
	open_memory(t);
	for (unsigned pass = 0; pass < options.passes; pass++) {
		for (unsigned i = 0; i < options.arrays; i++) {
			unsigned j = i + 1 + (i * 7 + pass) % (options.arrays - 1);

			step(t, &t->array[i], &t->array[j % options.arrays], pass,
			     (pass * 5 + i) % 10);
		}
		replace(t, pass % options.arrays, pass);
	}
	if (options.spin)
		spin(t);
	if (options.plant && !t->number) {
		use_begin(&t->array[1], stream_of(t, 0));
		CU(cuMemsetD32Async, t->array[1].addr + options.bytes - 4,
		   ~t->array[1].expected[options.bytes / 4 - 1], 1, stream_of(t, 0));
		use_end(&t->array[1], stream_of(t, 0));
	}
	for (unsigned i = 0; i < options.arrays; i++)
		array_check(t, &t->array[i], stream_of(t, i));
	close_memory(t);
	for (unsigned i = 0; i < options.streams; i++)
		CU(cuStreamDestroy, t->stream[i]);
	CU(cuModuleUnload, t->module);
	CU(cuLibraryUnload, t->library);
	CU(cuCtxSetCurrent, NULL);
	return NULL;
}

/* ------------------------------------------------------------------ the program */

int main(int argc, char **argv)
{
	const char *missing;
	struct thread *thread;
	uint32_t checksum = 0;
	int device;

	options_read(argc, argv);
	missing = api_open(&cu, options.reach);
	if (missing)
		die("no %s", missing);
	CU(cuInit, 0);
	CU(cuDeviceGet, &device, 0);
	CU(cuDevicePrimaryCtxRetain, &context, device);
	thread = calloc(options.threads, sizeof(*thread));
	if (!thread)
		die("no memory");
	for (unsigned i = 0; i < options.threads; i++) {
		thread[i].number = i;
		if (pthread_create(&thread[i].thread, NULL, thread_run, &thread[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < options.threads; i++) {
		pthread_join(thread[i].thread, NULL);
		checksum = checksum * 131 + thread[i].checksum;
	}
	CU(cuCtxSetCurrent, context);
	CU(cuCtxSynchronize);
	CU(cuDevicePrimaryCtxRelease, device);
	free(thread);
	printf("arrays %u bytes %zu passes %u threads %u checksum %08x ok\n", options.arrays,
	       options.bytes, options.passes, options.threads, checksum);
	return 0;
}
