/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries of CUDA kernels: programs are built without CUDA and open them at run time. A library
 * with the prefix P has uint64_t P_abi(void), which says what it was built for, const char
 * *P_error(void), what went wrong in the calling thread's last call that failed, and the functions
 * that its user lists. Nothing here calls CUDA.
 */
#ifndef WEIR_CUDA_PLUGIN_H
#define WEIR_CUDA_PLUGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function of a library, and where in the user's table its address goes. */
struct cuda_plugin_symbol {
	const char *name;
	size_t offset;
};

/* Its initializer. */
#define CUDA_PLUGIN_SYMBOL(table, symbol)                                      \
	{                                                                      \
		.name = #symbol, .offset = offsetof(__typeof__(table), symbol) \
	}

/* One library. The user fills the first part, which never changes; the rest is zero at first. */
struct cuda_plugin {
	const char *what;     /* whose it is: messages begin with it */
	const char *prefix;   /* "gcn_cuda" */
	const char *file;     /* "libweir-gcn-cuda.so" */
	const char *variable; /* of the environment: names another file */
	uint64_t (*abi_here)(void);
	const struct cuda_plugin_symbol *symbols;
	size_t nr_symbols;
	void *table; /* valid once the library is loaded; filled under one lock for all */

	const char *(*error)(void);
	atomic_bool loaded; /* release when the table is complete, acquire before it is read */
};

/**
 * Open the library: the file that its variable names, if it is set; else the one beside the running
 * program, else the one in ../lib from there. Once it is open it stays open, and further calls
 * return 0. It touches no device.
 *
 * @return 0, or what is logged in one line:
 *   -ENOENT   it is not there, or the dynamic linker cannot load it
 *   -ELIBBAD  it is another version's, or not such a library at all
 * Threads: safe.
 */
int cuda_plugin_load(struct cuda_plugin *plugin);

static inline bool cuda_plugin_loaded(const struct cuda_plugin *plugin)
{
	return atomic_load_explicit(&plugin->loaded, memory_order_acquire);
}

/* 0: the table may be used. -ENOSYS: it is not loaded; logged. */
int cuda_plugin_ready(const struct cuda_plugin *plugin);

/* Pass on what a function of the library returned; an error is logged with the library's words. */
int cuda_plugin_outcome(const struct cuda_plugin *plugin, int ret);

#endif
