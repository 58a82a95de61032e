/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a library of CUDA kernels is found, opened, held against this program's idea of it, and its
 * functions put into a table; see cuda_plugin.h.
 */
#include "workloads/cuda_plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/log.h"
#include "src/base/program.h"
#include "src/base/variables.h"

#define SYMBOL_MAX 64

/* Protects every plugin's table and error while they are filled; loaded is set under it. The
 * dynamic linker runs under it. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

/* Look a function up into a pointer to functions. */
static bool resolve(void *library, const char *symbol, void *function)
{
	void *found = dlsym(library, symbol);

	memcpy(function, &found, sizeof(found)); /* ISO C does not cast data to functions */
	return found;
}

/* 0, or -ELIBBAD, logged with the first symbol that the library lacks. */
static int resolve_all(struct cuda_plugin *plugin, void *library, const char *path,
		       uint64_t (**abi)(void))
{
	char name[SYMBOL_MAX];
	const char *missing = name;

	snprintf(name, sizeof(name), "%s_abi", plugin->prefix);
	if (!resolve(library, name, abi))
		goto err_missing;
	snprintf(name, sizeof(name), "%s_error", plugin->prefix);
	if (!resolve(library, name, &plugin->error))
		goto err_missing;
	for (size_t i = 0; i < plugin->nr_symbols; i++) {
		missing = plugin->symbols[i].name;
		if (!resolve(library, missing, (char *)plugin->table + plugin->symbols[i].offset))
			goto err_missing;
	}
	return 0;

err_missing:
	log_error("%s: no CUDA kernels: %s lacks %s: build it again with `make cuda`", plugin->what,
		  path, missing);
	return -ELIBBAD;
}

static int load(struct cuda_plugin *plugin, const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	uint64_t (*abi)(void);
	int err;

	if (!library) {
		log_error("%s: no CUDA kernels: %s: build it with `make cuda`, or name it in %s",
			  plugin->what, dlerror(), plugin->variable);
		return -ENOENT;
	}
	err = resolve_all(plugin, library, path, &abi);
	if (!err && abi() != plugin->abi_here()) {
		log_error("%s: no CUDA kernels: %s belongs to another version of weir: build it "
			  "again with `make cuda`",
			  plugin->what, path);
		err = -ELIBBAD;
	}
	if (err)
		dlclose(library);
	return err;
}

/* Find the library and open it. */
static int find_and_load(struct cuda_plugin *plugin)
{
	const char *named = variable_text(plugin->variable);
	char folder[PATH_MAX - 128] = "", path[PATH_MAX];

	if (named)
		return load(plugin, named);
	(void)program_folder(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/%s", folder, plugin->file);
	if (access(path, F_OK) == 0)
		return load(plugin, path);
	snprintf(path, sizeof(path), "%s/../lib/%s", folder, plugin->file);
	if (access(path, F_OK) == 0)
		return load(plugin, path);
	log_error("%s: no CUDA kernels: %s is neither in %s nor in ../lib from there: build it "
		  "with `make cuda`, or name it in %s",
		  plugin->what, plugin->file, folder, plugin->variable);
	return -ENOENT;
}

int cuda_plugin_load(struct cuda_plugin *plugin)
{
	int ret = 0;

	pthread_mutex_lock(&load_lock);
	if (!cuda_plugin_loaded(plugin)) {
		ret = find_and_load(plugin);
		if (!ret)
			atomic_store_explicit(&plugin->loaded, true, memory_order_release);
	}
	pthread_mutex_unlock(&load_lock);
	return ret;
}

int cuda_plugin_ready(const struct cuda_plugin *plugin)
{
	if (cuda_plugin_loaded(plugin))
		return 0;
	log_error("%s: a CUDA kernel is asked for, and none are loaded", plugin->what);
	return -ENOSYS;
}

int cuda_plugin_outcome(const struct cuda_plugin *plugin, int ret)
{
	if (ret)
		log_error("%s: CUDA: %s", plugin->what, plugin->error());
	return ret;
}
