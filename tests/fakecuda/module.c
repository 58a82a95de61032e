/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and libraries of kernels. Of PTX only the names of kernels are looked at, and those of
 * weir's library are known; a text that begins with "fakecuda kernels" has all kernels of kernels.c
 * and the variables that its lines name (see fakecuda.h). A kernel of a library is its function,
 * too.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

enum { KERNELS_MAX = 63, GLOBALS_MAX = 8 };

/* Handles of functions: so many for each module, and of those 1 and the kernel's number. */
#define FUNCTION_STEP (KERNELS_MAX + 1)

/* A variable on each device: a module's is on one alone. */
struct global {
	char name[32];
	uint64_t bytes;
	uint64_t addr[DEVICES_MAX]; /* 0: not there yet */
};

struct module {
	bool library;	     /* of no context */
	int context;	     /* of one that is no library */
	unsigned generation; /* of the context */
	unsigned shift;	     /* of kernels' numbers in handles */
	bool has[KERNELS_MAX];
	unsigned nr_globals;
	struct global global[GLOBALS_MAX];
};

static struct module *module_find(const void *handle, bool library, cu_result *result)
{
	void **at = table_at(&fake.modules, MODULE_BASE, (uintptr_t)handle);
	struct module *module = at ? *at : NULL;

	*result = CU_SUCCESS;
	if (!module || module->library != library)
		*result = CU_INVALID_HANDLE;
	else if (!library && module->generation != fake.context[module->context].generation)
		*result = CU_CONTEXT_IS_DESTROYED;
	return *result ? NULL : module;
}

void modules_fini(void)
{
	for (size_t i = 0; i < fake.modules.nr; i++) {
		free(fake.modules.at[i]);
		fake.modules.at[i] = NULL;
	}
}

/* ------------------------------------------------------------------ images */

/* Whether the text has an entry of this name. */
static bool has_entry(const char *text, const char *name)
{
	const char *at = text;

	while ((at = strstr(at, ".entry "))) {
		at += strlen(".entry ");
		if (!strncmp(at, name, strlen(name)) && at[strlen(name)] == '(')
			return true;
	}
	return false;
}

static cu_result ptx_read(struct module *module, const char *text)
{
	if (!strstr(text, "\n.version ") || !strstr(text, "\n.target sm_"))
		return CU_INVALID_PTX;
	for (unsigned i = 0; i < LIBRARY_KERNELS; i++)
		module->has[i] = has_entry(text, kernel_nth(i)->name);
	return CU_SUCCESS;
}

static struct global *global_named(struct module *module, const char *name)
{
	for (unsigned i = 0; i < module->nr_globals; i++)
		if (!strcmp(module->global[i].name, name))
			return &module->global[i];
	return NULL;
}

/* Lines "global NAME BYTES". */
static cu_result image_read(struct module *module, const char *text)
{
	const struct kernel *kernel;

	for (text += strlen(FAKECUDA_IMAGE); *text;
	     text += strcspn(text, "\n"), text += *text == '\n') {
		struct global *global = &module->global[module->nr_globals];
		unsigned long bytes;

		/* NOLINTNEXTLINE(cert-err34-c): too large a number is none of a test's */
		if (sscanf(text, "shift %u", &module->shift) == 1)
			continue;
		if (module->nr_globals == GLOBALS_MAX ||
		    /* NOLINTNEXTLINE(cert-err34-c): too large a number is none of a test's */
		    sscanf(text, "global %31s %lu", global->name, &bytes) != 2 || !bytes)
			return CU_INVALID_IMAGE;
		global->bytes = bytes;
		module->nr_globals++;
	}
	for (unsigned i = LIBRARY_KERNELS; (kernel = kernel_nth(i)); i++)
		module->has[i] = !kernel->global || global_named(module, kernel->global);
	return CU_SUCCESS;
}

/* ------------------------------------------------------------------ variables */

/* The variable's address on a device, where it comes to be, full of zeros, if it is not there. */
static cu_result global_place(struct global *global, int context)
{
	int device = fake.context[context].device;
	struct mapping *mapping;
	cu_result result;

	if (global->addr[device])
		return CU_SUCCESS;
	result = mapping_create(MAPPING_GLOBAL, (unsigned)device, global->bytes, context, &mapping);
	if (result)
		return result;
	memset(mapping->piece->shadow, 0, mapping->piece->bytes);
	global->addr[device] = mapping->range.addr;
	return CU_SUCCESS;
}

static void module_free(struct module *module)
{
	for (unsigned i = 0; i < module->nr_globals; i++)
		for (int j = 0; j < DEVICES_MAX; j++)
			if (module->global[i].addr[j])
				mapping_destroy(mapping_find(module->global[i].addr[j]));
	free(module);
}

static cu_result global_get(cu_ptr *addr, size_t *bytes, const void *handle, bool library,
			    const char *name)
{
	struct module *module;
	struct global *global;
	int context;
	cu_result result = context_current(&context);

	module = result ? NULL : module_find(handle, library, &result);
	if (!module)
		return result;
	if (!name)
		return CU_INVALID_VALUE;
	global = global_named(module, name);
	if (!global)
		return CU_NOT_FOUND;
	context = library ? context : module->context;
	result = global_place(global, context);
	if (result)
		return result;
	if (addr)
		*addr = global->addr[fake.context[context].device];
	if (bytes)
		*bytes = global->bytes;
	return CU_SUCCESS;
}

cu_result fake_module_global(cu_ptr *addr, size_t *bytes, cu_module module, const char *name)
{
	cu_result result = call_enter(CALL_module_global);

	return call_leave(result ? result : global_get(addr, bytes, module, false, name));
}

cu_result fake_library_global(cu_ptr *addr, size_t *bytes, cu_library library, const char *name)
{
	cu_result result = call_enter(CALL_library_global);

	return call_leave(result ? result : global_get(addr, bytes, library, true, name));
}

void modules_end(int context)
{
	for (size_t i = 0; fake.config.reuse && i < fake.modules.nr; i++) {
		struct module *module = fake.modules.at[i];

		if (!module || module->library || module->context != context)
			continue;
		module_free(module);
		fake.modules.at[i] = NULL;
	}
}

/* ------------------------------------------------------------------ loading */

/* The handle's number; 0: no memory. */
static uint64_t module_publish(struct module *module)
{
	for (size_t i = 0; fake.config.reuse && i < fake.modules.nr; i++)
		if (!fake.modules.at[i]) {
			fake.modules.at[i] = module;
			return MODULE_BASE + 16 * (i + 1);
		}
	return table_add(&fake.modules, MODULE_BASE, module);
}

/* A handle of either kind. context: -1 for a library. */
static cu_result module_load(void **handle, const char *text, int context)
{
	struct module *module;
	cu_result result;
	uint64_t number;

	if (!handle || !text)
		return CU_INVALID_VALUE;
	module = calloc(1, sizeof(*module));
	if (!module)
		return CU_OUT_OF_MEMORY;
	module->library = context < 0;
	module->context = context;
	if (!module->library)
		module->generation = fake.context[context].generation;
	result = strncmp(text, FAKECUDA_IMAGE, strlen(FAKECUDA_IMAGE)) ? ptx_read(module, text)
								       : image_read(module, text);
	for (unsigned i = 0; !result && !module->library && i < module->nr_globals; i++)
		result = global_place(&module->global[i], context);
	number = result ? 0 : module_publish(module);
	if (!number) {
		module_free(module);
		return result ? result : CU_OUT_OF_MEMORY;
	}
	*handle = (void *)(uintptr_t)number;
	return CU_SUCCESS;
}

cu_result fake_module_load(cu_module *module, const void *image, unsigned int nr_options,
			   int *options, void **values)
{
	cu_result result = call_enter(CALL_module_load);
	int context;

	(void)options, (void)values;
	if (!result)
		result = nr_options ? CU_INVALID_VALUE : context_current(&context);
	return call_leave(result ? result : module_load((void **)module, image, context));
}

cu_result fake_module_load_data(cu_module *module, const void *image)
{
	cu_result result = call_enter(CALL_module_load_data);
	int context;

	if (!result)
		result = context_current(&context);
	return call_leave(result ? result : module_load((void **)module, image, context));
}

cu_result fake_library_load(cu_library *library, const void *image, int *options, void **values,
			    unsigned int nr_options, int *library_options, void **library_values,
			    unsigned int nr_library_options)
{
	cu_result result = call_enter(CALL_library_load);

	(void)options, (void)values, (void)library_options, (void)library_values;
	if (!result && (nr_options || nr_library_options))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : module_load((void **)library, image, -1));
}

static cu_result module_unload(const void *handle, bool library)
{
	cu_result result;
	struct module *module = module_find(handle, library, &result);

	if (!module)
		return result;
	*table_at(&fake.modules, MODULE_BASE, (uintptr_t)handle) = NULL;
	module_free(module);
	return CU_SUCCESS;
}

cu_result fake_module_unload(cu_module handle)
{
	cu_result result = call_enter(CALL_module_unload), error = CU_SUCCESS;
	int context;

	if (!result)
		result = context_current_undo(&context, &error);
	if (!result)
		result = module_unload(handle, false);
	return call_leave(result ? result : error);
}

cu_result fake_library_unload(cu_library library)
{
	cu_result result = call_enter(CALL_library_unload);

	return call_leave(result ? result : module_unload(library, true));
}

/* ------------------------------------------------------------------ functions */

static cu_result function_get(void **function, const void *handle, bool library, const char *name)
{
	cu_result result;
	const struct module *module = module_find(handle, library, &result);
	uint64_t index = ((uintptr_t)handle - MODULE_BASE) / 16;

	if (!module)
		return result;
	if (!function || !name)
		return CU_INVALID_VALUE;
	for (unsigned i = 0; i < KERNELS_MAX; i++)
		if (module->has[i] && !strcmp(name, kernel_nth(i)->name)) {
			*function = (void *)(FUNCTION_BASE + FUNCTION_STEP * index + 1 +
					     (i + module->shift) % KERNELS_MAX);
			return CU_SUCCESS;
		}
	return CU_NOT_FOUND;
}

cu_result fake_module_function(cu_function *function, cu_module module, const char *name)
{
	cu_result result = call_enter(CALL_module_function);

	return call_leave(result ? result : function_get((void **)function, module, false, name));
}

cu_result fake_library_kernel(cu_kernel *kernel, cu_library library, const char *name)
{
	cu_result result = call_enter(CALL_library_kernel);

	return call_leave(result ? result : function_get((void **)kernel, library, true, name));
}

/* The kernel behind a handle, and the module that has it. */
static const struct kernel *kernel_find(const void *function, struct module **out)
{
	uint64_t offset = (uintptr_t)function - FUNCTION_BASE, place = offset % FUNCTION_STEP,
		 kernel;
	void **at = table_at(&fake.modules, MODULE_BASE, MODULE_BASE + offset / FUNCTION_STEP * 16);
	struct module *module = at ? *at : NULL;

	if ((uintptr_t)function < FUNCTION_BASE || !module || !place)
		return NULL;
	kernel = (place - 1 + KERNELS_MAX - module->shift % KERNELS_MAX) % KERNELS_MAX;
	if (!module->has[kernel])
		return NULL;
	*out = module;
	return kernel_nth((unsigned)kernel);
}

const struct kernel *function_kernel(cu_function function, int context, uint64_t *global,
				     cu_result *result)
{
	struct module *module;
	const struct kernel *kernel = kernel_find(function, &module);
	struct global *variable = NULL;

	*result = CU_INVALID_HANDLE;
	if (!kernel || (!module->library && module->context != context))
		return NULL;
	*result = CU_CONTEXT_IS_DESTROYED;
	if (!module->library && module->generation != fake.context[context].generation)
		return NULL;
	*result = CU_SUCCESS;
	if (kernel->global) {
		variable = global_named(module, kernel->global);
		*result = global_place(variable, context);
		*global = variable->addr[fake.context[context].device];
	}
	return *result ? NULL : kernel;
}

cu_result fake_kernel_function(cu_function *function, cu_kernel handle)
{
	cu_result result = call_enter(CALL_kernel_function);
	struct module *module;
	int context;

	if (!result)
		result = context_current(&context);
	if (!result && !function)
		result = CU_INVALID_VALUE;
	if (!result && (!kernel_find(handle, &module) || !module->library))
		result = CU_INVALID_HANDLE;
	if (!result)
		*function = (cu_function)handle;
	return call_leave(result);
}

static cu_result name_get(const char **name, const void *function)
{
	struct module *module;
	const struct kernel *kernel = kernel_find(function, &module);

	if (!name || !kernel)
		return name ? CU_INVALID_HANDLE : CU_INVALID_VALUE;
	*name = kernel->name;
	return CU_SUCCESS;
}

cu_result fake_function_name(const char **name, cu_function function)
{
	cu_result result = call_enter(CALL_function_name);

	return call_leave(result ? result : name_get(name, function));
}

cu_result fake_kernel_name(const char **name, cu_kernel kernel)
{
	cu_result result = call_enter(CALL_kernel_name);

	return call_leave(result ? result : name_get(name, kernel));
}

static cu_result parameter(const void *function, size_t index, size_t *offset, size_t *bytes)
{
	struct module *module;
	const struct kernel *kernel = kernel_find(function, &module);

	if (!kernel)
		return CU_INVALID_HANDLE;
	if (!offset || index >= kernel->nr_parameters)
		return CU_INVALID_VALUE;
	*offset = kernel_offset(kernel, (unsigned)index);
	if (bytes)
		*bytes = kernel->parameter_bytes[index];
	return CU_SUCCESS;
}

cu_result fake_function_parameter(cu_function function, size_t index, size_t *offset, size_t *bytes)
{
	cu_result result = call_enter(CALL_function_parameter);

	return call_leave(result ? result : parameter(function, index, offset, bytes));
}

cu_result fake_kernel_parameter(cu_kernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	cu_result result = call_enter(CALL_kernel_parameter);

	return call_leave(result ? result : parameter(kernel, index, offset, bytes));
}

/* By attribute: threads a block, bytes (shared, constant, local), registers, versions, cache mode,
 * dynamic shared bytes, what is preferred of shared memory. */
static cu_result attribute_get(int *value, int attribute, const void *function)
{
	static const int values[] = {1024, 0, 0, 0, 32, 90, 90, 0, 49152, -1};
	struct module *module;

	if (!value || attribute < 0 || attribute >= (int)ARRAY_LEN(values))
		return CU_INVALID_VALUE;
	if (!kernel_find(function, &module))
		return CU_INVALID_HANDLE;
	*value = values[attribute];
	return CU_SUCCESS;
}

cu_result fake_function_attribute(int *value, int attribute, cu_function function)
{
	cu_result result = call_enter(CALL_function_attribute);

	return call_leave(result ? result : attribute_get(value, attribute, function));
}

cu_result fake_kernel_attribute(int *value, int attribute, cu_kernel kernel, cu_device device)
{
	cu_result result = call_enter(CALL_kernel_attribute);

	if (!result && device < 0)
		result = CU_INVALID_DEVICE;
	return call_leave(result ? result : attribute_get(value, attribute, kernel));
}

/* What a function or a kernel is in. */
static cu_result owner_get(void **owner, const void *function, bool library)
{
	const uint64_t index = ((uintptr_t)function - FUNCTION_BASE) / FUNCTION_STEP;
	struct module *module;

	if (!owner)
		return CU_INVALID_VALUE;
	if (!kernel_find(function, &module) || module->library != library)
		return CU_INVALID_HANDLE;
	*owner = (void *)(uintptr_t)(MODULE_BASE + 16 * index);
	return CU_SUCCESS;
}

cu_result fake_function_module(cu_module *module, cu_function function)
{
	cu_result result = call_enter(CALL_function_module);

	return call_leave(result ? result : owner_get((void **)module, function, false));
}

cu_result fake_kernel_library(cu_library *library, cu_kernel kernel)
{
	cu_result result = call_enter(CALL_kernel_library);

	return call_leave(result ? result : owner_get((void **)library, kernel, true));
}
