/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the test kernels, and the table by which launches name them: see kernels.h. */
#include "tests/support/kernels.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "WEIR_TEST_KERNELS"

/* What the library gives; filled once, before there are threads. */
static struct {
	uint64_t (*abi)(void);
	const char *(*error)(void);
	int (*prepare)(void);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a name */
#define MEMBER(name) int (*name)(void *stream, const void *args);
	TEST_KERNELS(MEMBER)
#undef MEMBER
	bool loaded;
} table;

/* Set a pointer to a function; false, and said, if the library lacks it. */
static bool resolve(void *library, const char *symbol, void *function)
{
	void *found = dlsym(library, symbol);

	memcpy(function, &found, sizeof(found)); /* ISO C does not cast data to functions */
	if (!found)
		fprintf(stderr, "test kernels: %s\n", dlerror());
	return found;
}

static bool table_fill(void *library)
{
	bool found = resolve(library, "test_cuda_abi", &table.abi) &&
		     resolve(library, "test_cuda_error", &table.error) &&
		     resolve(library, "test_cuda_prepare", &table.prepare);

#define FILL(name) found = found && resolve(library, "test_cuda_" #name, &table.name);
	TEST_KERNELS(FILL)
#undef FILL
	return found;
}

int test_kernels_load(void)
{
	const char *path = getenv(VARIABLE);
	void *library;

	if (table.loaded)
		return 0;
	if (!path || !*path) {
		fprintf(stderr, "test kernels: " VARIABLE " is not set: let it name "
				"libweir-test-cuda.so, or libweir-test-fake.so without a GPU\n");
		return -ENOENT;
	}
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "test kernels: %s\n", dlerror());
		return -ENOENT;
	}
	if (!table_fill(library)) {
		dlclose(library);
		return -ELIBBAD;
	}
	if (table.abi() != test_cuda_abi_here()) {
		fprintf(stderr, "test kernels: %s belongs to another version: build it again\n",
			path);
		dlclose(library);
		return -ELIBBAD;
	}
	table.loaded = true;
	return 0;
}

static int outcome(int err)
{
	if (err)
		fprintf(stderr, "test kernels: %s\n", table.error());
	return err;
}

int test_kernels_prepare(void)
{
	return outcome(table.prepare());
}

/* ------------------------------------------------------------------ the kernels */

/* Without the library there is no kernel, and who launches one is told so. */
#define FORWARD(name)                                                              \
	static int run_##name(void *stream, const void *args)                      \
	{                                                                          \
		return table.loaded ? outcome(table.name(stream, args)) : -ENOSYS; \
	}
TEST_KERNELS(FORWARD)
#undef FORWARD

static void nothing(const void *args)
{
	(void)args;
}

#define KERNEL(kernel, cpu_fn)                            \
	const struct weir_kernel test_kernel_##kernel = { \
		.name = #kernel, .cpu = (cpu_fn), .cuda = run_##kernel}

KERNEL(cells, test_cpu_cells);
KERNEL(fill, test_cpu_fill);
KERNEL(add, test_cpu_add);
KERNEL(churn, test_cpu_churn);
KERNEL(checksum, test_cpu_checksum);
KERNEL(gather, test_cpu_gather);
KERNEL(gate, nothing);
KERNEL(spin, nothing);
KERNEL(count, test_cpu_count);
KERNEL(rally, nothing);
KERNEL(poke, test_cpu_poke);
