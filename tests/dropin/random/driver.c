/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the driver's functions, and of what they return. */
#include "tests/dropin/random/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/dropin/random/random.h"

struct driver cu;

static const struct {
	const char *name, *symbol, *per_thread;
	size_t offset;
} functions[] = {
#define FUNCTION(name, suffix, own, parameters) \
	{#name, #name suffix, #name suffix own, offsetof(struct driver, name)},
	DRIVER(FUNCTION)};

const char *driver_open(bool per_thread)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const char *symbol = per_thread ? functions[i].per_thread : functions[i].symbol;
		void *found = library ? dlsym(library, symbol) : NULL;

		if (!found)
			return symbol;
		memcpy((char *)&cu + functions[i].offset, &found, sizeof(found));
	}
	return NULL;
}

void driver_check(CUresult result, const char *call, int line)
{
	const char *name = "?";

	if (!result)
		return;
	(void)cu.cuGetErrorName(result, &name);
	fail("line %d: %s: %s (%d)", line, call, name, result);
}
