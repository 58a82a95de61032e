/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the CUDA kernels come from: the library is looked for, opened, held against this program's
 * idea of it, and its functions are put into a table. Nothing here calls CUDA.
 */
#include "workloads/gcn/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/log.h"

#define FILE_NAME "libweir-gcn-cuda.so"
#define VARIABLE "WEIR_CUDA_KERNELS"
#define REMEDY "build it with `make cuda`, or name it in " VARIABLE

/* Everything that the library gives: its functions by their symbols' names. */
struct table {
	uint64_t (*gcn_cuda_abi)(void);
	const char *(*gcn_cuda_error)(void);
	int (*gcn_cuda_stream_add)(void *stream);
	void (*gcn_cuda_stream_del)(void *stream);
#define MEMBER(name) int (*gcn_cuda_##name)(void *stream, const void *args);
	GCN_CUDA_KERNELS(MEMBER)
#undef MEMBER
};

/* Protects table while it is filled; loaded is set under it. The dynamic linker runs under it. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static struct table table;

/* &table once it is complete, else NULL; release here, acquire in table_get(). */
static _Atomic(const struct table *) loaded;

static const struct table *table_get(void)
{
	return atomic_load_explicit(&loaded, memory_order_acquire);
}

/* ---- loading */

/* The folder of the running program, without a slash at its end; "" if nobody knows. */
static void program_folder(char *out, size_t bytes)
{
	ssize_t nr = readlink("/proc/self/exe", out, bytes - 1);

	out[nr > 0 ? nr : 0] = '\0';
	if (strrchr(out, '/'))
		*strrchr(out, '/') = '\0';
}

static bool resolve(void *library, const char *symbol, void *function)
{
	void *found = dlsym(library, symbol);

	memcpy(function, &found, sizeof(found)); /* ISO C does not cast data to functions */
	return found;
}

#define RESOLVE(t, library, symbol) resolve(library, #symbol, &(t)->symbol)

/* NULL, or the first symbol that the library lacks. */
static const char *table_fill(struct table *t, void *library)
{
	if (!RESOLVE(t, library, gcn_cuda_abi))
		return "gcn_cuda_abi";
	if (!RESOLVE(t, library, gcn_cuda_error))
		return "gcn_cuda_error";
	if (!RESOLVE(t, library, gcn_cuda_stream_add))
		return "gcn_cuda_stream_add";
	if (!RESOLVE(t, library, gcn_cuda_stream_del))
		return "gcn_cuda_stream_del";
#define FILL(name)                                 \
	if (!RESOLVE(t, library, gcn_cuda_##name)) \
		return "gcn_cuda_" #name;
	GCN_CUDA_KERNELS(FILL)
#undef FILL
	return NULL;
}

static int table_load(struct table *t, const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!library) {
		log_error("gcn: no CUDA kernels: %s: " REMEDY, dlerror());
		return -ENOENT;
	}
	missing = table_fill(t, library);
	if (missing)
		log_error("gcn: no CUDA kernels: %s lacks %s: build it again with `make cuda`",
			  path, missing);
	else if (t->gcn_cuda_abi() != gcn_cuda_abi_here())
		log_error("gcn: no CUDA kernels: %s belongs to another version of weir: build it "
			  "again with `make cuda`",
			  path);
	else
		return 0;
	dlclose(library);
	return -ELIBBAD;
}

/* Find the library and open it. */
static int table_find(struct table *t)
{
	const char *named = getenv(VARIABLE);
	char folder[PATH_MAX], path[PATH_MAX + sizeof("/../lib/" FILE_NAME)];

	if (named && *named)
		return table_load(t, named);
	program_folder(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/" FILE_NAME, folder);
	if (access(path, F_OK) == 0)
		return table_load(t, path);
	snprintf(path, sizeof(path), "%s/../lib/" FILE_NAME, folder);
	if (access(path, F_OK) == 0)
		return table_load(t, path);
	log_error("gcn: no CUDA kernels: " FILE_NAME
		  " is neither in %s nor in ../lib from there: " REMEDY,
		  folder);
	return -ENOENT;
}

int gcn_cuda_load(void)
{
	int ret = 0;

	pthread_mutex_lock(&load_lock);
	if (!table_get()) {
		ret = table_find(&table);
		if (!ret)
			atomic_store_explicit(&loaded, &table, memory_order_release);
	}
	pthread_mutex_unlock(&load_lock);
	return ret;
}

/* ---- calls */

static int not_loaded(void)
{
	log_error("gcn: a CUDA kernel is asked for, and none are loaded");
	return -ENOSYS;
}

static int outcome(const struct table *t, int ret)
{
	if (ret)
		log_error("gcn: CUDA: %s", t->gcn_cuda_error());
	return ret;
}

int gcn_cuda_prepare(void *stream)
{
	const struct table *t = table_get();

	return t ? outcome(t, t->gcn_cuda_stream_add(stream)) : not_loaded();
}

void gcn_cuda_forget(void *stream)
{
	const struct table *t = table_get();

	if (t)
		t->gcn_cuda_stream_del(stream);
}

#define FORWARD(name)                                                                   \
	int gcn_cuda_run_##name(void *stream, const void *args)                         \
	{                                                                               \
		const struct table *t = table_get();                                    \
                                                                                        \
		return t ? outcome(t, t->gcn_cuda_##name(stream, args)) : not_loaded(); \
	}
GCN_CUDA_KERNELS(FORWARD)
