/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/real.h"

#include <dlfcn.h>
#include <pthread.h>

#include "shim/settings.h"

static void *library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
	library = dlopen(real_path(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		settings_fail("the CUDA driver cannot be opened: %s", dlerror());
}

const char *real_path(void)
{
	return settings_get()->driver;
}

void *real_find(const char *name)
{
	(void)pthread_once(&once, open_library);
	return dlsym(library, name);
}
