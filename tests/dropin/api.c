/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to reach the driver's functions: see api.h. */
#include "tests/dropin/api.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define CUDA_ASKED 12040 /* the version of CUDA that the program was written for */

#define DECLARE(name, suffix, parameters) CUresult linked_##name parameters __asm__(#name #suffix);
API(DECLARE)

static const struct {
	const char *name, *symbol;
	size_t offset;
} functions[] = {
#define FUNCTION(name, suffix, parameters) {#name, #name #suffix, offsetof(struct api, name)},
	API(FUNCTION)};

#define NR_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

typedef CUresult (*proc_first)(const char *, void **, int, uint64_t);
typedef CUresult (*proc_second)(const char *, void **, int, uint64_t, int *);

enum { LEGACY = 1, PER_THREAD = 2 };

static const char *open_linked(struct api *api)
{
#define ASSIGN(name, suffix, parameters) api->name = linked_##name;
	API(ASSIGN)
	return NULL;
}

/* A function by its name; NULL: there is none. */
static void *find(void *library, const char *name, enum reach reach)
{
	proc_second second = NULL;
	proc_first first = NULL;
	void *found = NULL;
	int status = -1;

	if (reach == REACH_PROC_FIRST) {
		*(void **)&first = dlsym(library, "cuGetProcAddress");
		return !first || first(name, &found, CUDA_ASKED, LEGACY) ? NULL : found;
	}
	*(void **)&second = dlsym(library, "cuGetProcAddress_v2");
	if (!second || second(name, &found, CUDA_ASKED,
			      reach == REACH_PER_THREAD ? PER_THREAD : LEGACY, &status))
		return NULL;
	return status ? NULL : found;
}

const char *api_open(struct api *api, enum reach reach)
{
	void *library;

	if (reach == REACH_LINKED)
		return open_linked(api);
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return LIBRARY;
	for (size_t i = 0; i < NR_FUNCTIONS; i++) {
		void *found = reach == REACH_DLSYM ? dlsym(library, functions[i].symbol)
						   : find(library, functions[i].name, reach);

		if (!found)
			return functions[i].symbol;
		memcpy((char *)api + functions[i].offset, &found, sizeof(found));
	}
	return NULL;
}
