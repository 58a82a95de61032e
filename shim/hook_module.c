/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program calls to load and unload modules and libraries of kernels. What they are made of
 * is noted where a file says something of kernels, which is told by their code. Memory goes with
 * the device's primary context.
 */
#include "shim/brackets.h"
#include "shim/code.h"
#include "shim/hooks.h"
#include "shim/launches.h"
#include "shim/memory.h"
#include "shim/settings.h"

/* CU_LIBRARY_BINARY_IS_PRESERVED */
#define IMAGE_STAYS 1

/* Whether there is an option by which the program says that the image stays. */
static bool says_stays(const int *options, unsigned int nr)
{
	for (unsigned int n = 0; options && n < nr; n++)
		if (options[n] == IMAGE_STAYS)
			return true;
	return false;
}

/* One hook that loads: its parameters, the same as arguments, and what is noted on success. */
#define LOAD_HOOK(symbol, parameters, arguments, what)                        \
	cu_result hook_##symbol parameters                                    \
	{                                                                     \
		const bool entered = settings_get()->kernels && hook_enter(); \
		const cu_result result = real.symbol arguments;               \
                                                                              \
		if (entered && result == CU_SUCCESS)                          \
			(what);                                               \
		if (entered)                                                  \
			hook_leave();                                         \
		return result;                                                \
	}

/* clang-format off */
LOAD_HOOK(cuModuleLoad, MODULE_FILE, (module, path), code_loaded_file(*module, path))
LOAD_HOOK(cuModuleLoadData, MODULE_IMAGE, (module, image), code_loaded(*module, image, false))
LOAD_HOOK(cuModuleLoadDataEx, MODULE_IMAGE_EX, (module, image, nr, options, values),
	  code_loaded(*module, image, false))
LOAD_HOOK(cuModuleLoadFatBinary, MODULE_IMAGE, (module, image),
	  code_loaded(*module, image, false))
LOAD_HOOK(cuLibraryLoadData, LIBRARY_IMAGE,
	  (library, image, options, values, nr, library_options, library_values, nr_library),
	  code_loaded(*library, image, says_stays(library_options, nr_library)))
LOAD_HOOK(cuLibraryLoadFromFile, LIBRARY_FILE,
	  (library, path, options, values, nr, library_options, library_values, nr_library),
	  code_loaded_file(*library, path))
/* clang-format on */

/* ------------------------------------------------------------------ kernels that go */

/* A process that fork() made unloads modules when it ends, and finds locks as they were. module:
 * NULL: whatever is there. */
static void forget(const void *module)
{
	if (!brackets_are_on() || !hook_enter())
		return;
	launches_forget_kernels();
	if (module)
		code_unload(module);
	hook_leave();
}

void hook_forget_kernels(void)
{
	forget(NULL);
}

cu_result hook_cuModuleUnload(cu_module module)
{
	forget(module);
	return real.cuModuleUnload(module);
}

cu_result hook_cuLibraryUnload(cu_library library)
{
	forget(library);
	return real.cuLibraryUnload(library);
}

/* A context goes, and its kernels and streams do: others may be given their handles. */
static void context_goes(void)
{
	hook_forget_kernels();
	if (hook_enter()) {
		memory_context_ends();
		hook_leave();
	}
}

/* A device's primary context goes with its last release: programs make others all the time. weir
 * holds that of the device whose memory it manages. */
static cu_result context_released(cu_device device, cu_result result)
{
	unsigned int flags;
	int active = 0;

	if (result == CU_SUCCESS &&
	    (!real.cuDevicePrimaryCtxGetState ||
	     real.cuDevicePrimaryCtxGetState(device, &flags, &active) || !active))
		context_goes();
	return result;
}

cu_result hook_cuDevicePrimaryCtxRelease(cu_device device)
{
	return context_released(device, real.cuDevicePrimaryCtxRelease(device));
}

cu_result hook_cuDevicePrimaryCtxRelease_v2(cu_device device)
{
	return context_released(device, real.cuDevicePrimaryCtxRelease_v2(device));
}

/* What is allocated on the device goes, too, where it is weir's. */
static void context_resets(cu_device device)
{
	context_goes();
	if (hook_enter()) {
		memory_reset(device);
		hook_leave();
	}
}

cu_result hook_cuDevicePrimaryCtxReset(cu_device device)
{
	context_resets(device);
	return real.cuDevicePrimaryCtxReset(device);
}

cu_result hook_cuDevicePrimaryCtxReset_v2(cu_device device)
{
	context_resets(device);
	return real.cuDevicePrimaryCtxReset_v2(device);
}
