/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of kernels: of the text that is loaded only the names of kernels are looked at. Those
 * that the library has are done on the CPU; which elements a packet's kernel touches it learns from
 * the list as it starts.
 */
#include <stdlib.h>
#include <string.h>

#include "src/backend/backend.h"
#include "tests/fakecuda/fake.h"

/* A kernel that is known here: its number is its handle. */
static const char *const kernels[] = {"weir_pack1",  "weir_unpack1", "weir_pack2", "weir_unpack2",
				      "weir_pack4",  "weir_unpack4", "weir_pack8", "weir_unpack8",
				      "weir_pack16", "weir_unpack16"};

#define NR_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

/* Elements of a packet, at most, that are looked at one by one: of more, what lies between them in
 * a page counts as touched, too. */
#define EXACT_MAX 4096u

/* Handles of functions: the module's, plus 1 and the kernel's number. */
#define FUNCTION_STEP 16u

struct module {
	int device;
	unsigned generation; /* of the context */
	bool has[NR_KERNELS];
};

static struct module *module_find(uint64_t handle, cu_result *result)
{
	void **at = table_at(&fake.modules, MODULE_BASE, handle);
	struct module *module = at ? *at : NULL;

	*result = CU_SUCCESS;
	if (!module)
		*result = CU_INVALID_HANDLE;
	else if (module->generation != fake.context[module->device].generation)
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

static cu_result module_load(cu_module *handle, const char *text, unsigned int nr_options)
{
	struct module *module;
	uint64_t number;
	int device;
	cu_result result = context_current(&device);

	if (result)
		return result;
	if (!handle || !text || nr_options)
		return CU_INVALID_VALUE;
	if (!strstr(text, "\n.version ") || !strstr(text, "\n.target sm_"))
		return CU_INVALID_PTX;
	module = calloc(1, sizeof(*module));
	if (!module)
		return CU_OUT_OF_MEMORY;
	module->device = device;
	module->generation = fake.context[device].generation;
	for (size_t i = 0; i < NR_KERNELS; i++)
		module->has[i] = has_entry(text, kernels[i]);
	number = table_add(&fake.modules, MODULE_BASE, module);
	if (!number) {
		free(module);
		return CU_OUT_OF_MEMORY;
	}
	*handle = (cu_module)number;
	return CU_SUCCESS;
}

cu_result fake_module_load(cu_module *module, const void *image, unsigned int nr_options,
			   int *options, void **values)
{
	cu_result result = call_enter(CALL_module_load);

	(void)options, (void)values;
	return call_leave(result ? result : module_load(module, image, nr_options));
}

cu_result fake_module_unload(cu_module handle)
{
	cu_result result = call_enter(CALL_module_unload), error = CU_SUCCESS;
	struct module *module;
	int device;

	if (!result)
		result = context_current_undo(&device, &error);
	if (result)
		return call_leave(result);
	module = module_find((uintptr_t)handle, &result);
	if (module) {
		*table_at(&fake.modules, MODULE_BASE, (uintptr_t)handle) = NULL;
		free(module);
	}
	return call_leave(result ? result : error);
}

cu_result fake_module_function(cu_function *function, cu_module handle, const char *name)
{
	cu_result result = call_enter(CALL_module_function);
	const struct module *module = result ? NULL : module_find((uintptr_t)handle, &result);

	if (result)
		return call_leave(result);
	for (size_t i = 0; function && name && i < NR_KERNELS; i++)
		if (module->has[i] && !strcmp(name, kernels[i])) {
			*function = (cu_function)((uintptr_t)handle + 1 + i);
			return call_leave(CU_SUCCESS);
		}
	return call_leave(function && name ? CU_NOT_FOUND : CU_INVALID_VALUE);
}

/* ------------------------------------------------------------------ packets */

static void packet_run(const void *args)
{
	const struct backend_packet *p = args;

	for (uint64_t i = 0; i < p->nr; i++) {
		char *element = (char *)p->elements + (uint64_t)p->index[i] * p->element_bytes;
		char *packed = (char *)p->packet + i * p->element_bytes;

		memcpy(p->unpack ? element : packed, p->unpack ? packed : element,
		       p->element_bytes);
	}
}

/* The list's numbers; NULL: they are not there. */
static uint32_t *list_read(const struct op *op, const struct backend_packet *p)
{
	const struct touch list = {(uintptr_t)p->index, p->nr * sizeof(*p->index), false};
	uint32_t *index = malloc(list.bytes);
	struct spans spans = {0};
	size_t at = 0;

	if (!index)
		fake_panic("no memory");
	if (!touch_resolve(op, &list, false, &spans)) {
		free(index);
		index = NULL;
	}
	for (size_t i = 0; index && i < spans.nr; i++) {
		memcpy((char *)index + at, spans.at[i].data, spans.at[i].bytes);
		at += spans.at[i].bytes;
	}
	free(spans.at);
	return index;
}

void packet_touches(struct op *op)
{
	const struct backend_packet *p = op->args;
	/* No page lies whole in a gap that is less. */
	uint64_t gap = p->nr > EXACT_MAX ? page_up(1) - 1 : 0, end = 0;
	uint32_t *index = list_read(op, p);
	struct touch *touch;

	if (!index)
		return;
	touch = realloc(op->touch, (op->nr_touches + p->nr) * sizeof(*touch));
	if (!touch)
		fake_panic("no memory");
	op->touch = touch;
	for (uint64_t i = 0; i < p->nr; i++) {
		uint64_t addr = (uintptr_t)p->elements + (uint64_t)index[i] * p->element_bytes;

		if (i && addr - end <= gap)
			touch[op->nr_touches - 1].bytes += addr - end + p->element_bytes;
		else
			touch[op->nr_touches++] = (struct touch){addr, p->element_bytes, p->unpack};
		end = addr + p->element_bytes;
	}
	free(index);
}

static cu_result launch(cu_function function, cu_stream handle, void **parameters)
{
	uint64_t number = ((uintptr_t)function - 1) / FUNCTION_STEP * FUNCTION_STEP;
	size_t kernel = (uintptr_t)function - 1 - number;
	struct backend_packet *args;
	const struct module *module;
	struct stream *stream;
	struct op *op;
	int device;
	cu_result result = stream_for(handle, &stream, &device);

	if (result)
		return result;
	module = module_find(number, &result);
	if (!module || kernel >= NR_KERNELS || module->device != device)
		return CU_INVALID_HANDLE;
	if (!parameters || !parameters[0])
		return CU_INVALID_VALUE;
	op = op_create(OP_KERNEL, 2);
	args = op ? malloc(sizeof(*args)) : NULL;
	if (!args) {
		if (op)
			op_free(op);
		return CU_OUT_OF_MEMORY;
	}
	*args = *(struct backend_packet *)parameters[0];
	args->element_bytes = 1u << kernel / 2;
	args->unpack = kernel % 2;
	op->fn = packet_run;
	op->args = args;
	op->packet = true;
	op->touch[0] =
		(struct touch){(uintptr_t)args->index, args->nr * sizeof(*args->index), false};
	op->touch[1] = (struct touch){(uintptr_t)args->packet, args->nr * args->element_bytes,
				      !args->unpack};
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_launch(cu_function function, unsigned int grid_x, unsigned int grid_y,
		      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
		      unsigned int block_z, unsigned int shared_bytes, cu_stream stream,
		      void **parameters, void **extra)
{
	cu_result result = call_enter(CALL_launch);

	if (!result && (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z ||
			block_x > 1024 || shared_bytes || extra))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : launch(function, stream, parameters));
}
