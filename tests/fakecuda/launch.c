/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the kernels of modules, in all the ways that the driver has for it. */
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

struct shape {
	unsigned int grid[3], block[3], shared_bytes;
};

/* What an H200 takes. */
static bool shape_is_valid(const struct shape *shape)
{
	uint64_t threads = 1;

	for (int i = 0; i < 3; i++) {
		if (!shape->grid[i] || !shape->block[i] || shape->block[i] > 1024)
			return false;
		threads *= shape->block[i];
	}
	return threads <= 1024 && shape->shared_bytes <= 232448;
}

/* The buffer of parameters that a list of extra options names; NULL: none of enough bytes. */
static const void *extra_buffer(void **extra, size_t bytes)
{
	const void *buffer = NULL;
	size_t given = 0;

	for (; extra[0] != CU_LAUNCH_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_BUFFER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_BUFFER_BYTES && extra[1])
			given = *(const size_t *)extra[1];
		else
			return NULL;
	}
	return given >= bytes ? buffer : NULL;
}

/* Parameters one behind the other, each copied; NULL: they are not there, or no memory. */
static char *arguments(const struct kernel *kernel, void **parameters, void **extra,
		       uint64_t global, size_t *args_bytes)
{
	size_t bytes = kernel_offset(kernel, kernel->nr_parameters);
	size_t behind = (bytes + sizeof(global) - 1) / sizeof(global) * sizeof(global);
	char *args = malloc(behind + sizeof(global));
	const void *buffer = extra ? extra_buffer(extra, bytes) : NULL;

	if (!args)
		return NULL;
	*args_bytes = behind + sizeof(global);
	memcpy(args + behind, &global, sizeof(global));
	for (unsigned i = 0; i < kernel->nr_parameters; i++) {
		size_t offset = kernel_offset(kernel, i);
		const char *from = buffer ? (const char *)buffer + offset : NULL;

		if (!extra && parameters)
			from = parameters[i];
		if (!from) {
			free(args);
			return NULL;
		}
		memcpy(args + offset, from, kernel->parameter_bytes[i]);
	}
	return args;
}

static cu_result launch(cu_function function, const struct shape *shape, cu_stream handle,
			void **parameters, void **extra)
{
	const struct kernel *kernel;
	struct stream *stream;
	uint64_t global = 0;
	struct op *op;
	int context;
	cu_result result = stream_for(handle, &stream, &context);

	if (result)
		return result;
	kernel = function_kernel(function, stream->context, &global, &result);
	if (!kernel)
		return result;
	if (!shape_is_valid(shape) || (parameters && extra))
		return CU_INVALID_VALUE;
	op = op_create(OP_KERNEL, 0);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->args = arguments(kernel, parameters, extra, global, &op->args_bytes);
	if (!op->args) {
		op_free(op);
		return CU_INVALID_VALUE;
	}
	op->kernel = kernel;
	op->fn = kernel->run;
	op->find = kernel->find;
	kernel->touch(op);
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_launch(cu_function function, unsigned int grid_x, unsigned int grid_y,
		      unsigned int grid_z, unsigned int block_x, unsigned int block_y,
		      unsigned int block_z, unsigned int shared_bytes, cu_stream stream,
		      void **parameters, void **extra)
{
	const struct shape shape = {
		{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
	cu_result result = call_enter(CALL_launch);

	return call_leave(result ? result : launch(function, &shape, stream, parameters, extra));
}

/* What waits for the whole grid is nothing special here: a kernel is one function. */
cu_result fake_launch_cooperative(LAUNCH_PARAMETERS)
{
	const struct shape shape = {
		{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
	cu_result result = call_enter(CALL_launch_cooperative);

	return call_leave(result ? result : launch(function, &shape, stream, parameters, NULL));
}

cu_result fake_launch_config(const struct cu_launch_config *config, cu_function function,
			     void **parameters, void **extra)
{
	cu_result result = call_enter(CALL_launch_config);
	struct shape shape;

	if (!result && (!config || (config->nr_attributes && !config->attributes)))
		result = CU_INVALID_VALUE;
	if (result)
		return call_leave(result);
	memcpy(shape.grid, config->grid, sizeof(shape.grid));
	memcpy(shape.block, config->block, sizeof(shape.block));
	shape.shared_bytes = config->shared_bytes;
	return call_leave(launch(function, &shape, config->stream, parameters, extra));
}

/* ------------------------------------------------------------------ parameters set before */

#define SET_BYTES 64u

/* Of the functions that parameters were set of last; few at a time. */
static struct set {
	cu_function function;
	unsigned int block[3];
	size_t bytes;
	char parameters[SET_BYTES];
} sets[16];

/* NULL: there is no such function. */
static struct set *set_of(cu_function function, cu_result *result)
{
	static size_t next;
	uint64_t global;
	int context;

	*result = context_current(&context);
	if (*result || !function_kernel(function, context, &global, result))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (sets[i].function == function)
			return &sets[i];
	next = (next + 1) % ARRAY_LEN(sets);
	sets[next] = (struct set){.function = function, .block = {1, 1, 1}};
	return &sets[next];
}

cu_result fake_function_block(cu_function function, int x, int y, int z)
{
	cu_result result = call_enter(CALL_function_block);
	struct set *set = result ? NULL : set_of(function, &result);

	if (set) {
		set->block[0] = (unsigned int)x;
		set->block[1] = (unsigned int)y;
		set->block[2] = (unsigned int)z;
	}
	return call_leave(result);
}

cu_result fake_parameter_size(cu_function function, unsigned int bytes)
{
	cu_result result = call_enter(CALL_parameter_size);
	struct set *set = result ? NULL : set_of(function, &result);

	if (set && bytes > SET_BYTES)
		result = CU_INVALID_VALUE;
	else if (set)
		set->bytes = bytes;
	return call_leave(result);
}

cu_result fake_parameter_set(cu_function function, int offset, void *from, unsigned int bytes)
{
	cu_result result = call_enter(CALL_parameter_set);
	struct set *set = result ? NULL : set_of(function, &result);

	if (set && (offset < 0 || bytes > SET_BYTES || (size_t)offset > SET_BYTES - bytes))
		result = CU_INVALID_VALUE;
	else if (set)
		memcpy(set->parameters + offset, from, bytes);
	return call_leave(result);
}

static cu_result launch_set(cu_function function, int width, int height, cu_stream stream)
{
	cu_result result;
	struct set *set = set_of(function, &result);
	void *extra[] = {CU_LAUNCH_BUFFER, NULL, CU_LAUNCH_BUFFER_BYTES, NULL, CU_LAUNCH_END};
	struct shape shape = {{(unsigned int)width, (unsigned int)height, 1}, {0}, 0};

	if (!set)
		return result;
	extra[1] = set->parameters;
	extra[3] = &set->bytes;
	memcpy(shape.block, set->block, sizeof(shape.block));
	return launch(function, &shape, stream, NULL, extra);
}

cu_result fake_launch_one(cu_function function)
{
	cu_result result = call_enter(CALL_launch_one);

	return call_leave(result ? result : launch_set(function, 1, 1, NULL));
}

cu_result fake_launch_grid(cu_function function, int width, int height)
{
	cu_result result = call_enter(CALL_launch_grid);

	return call_leave(result ? result : launch_set(function, width, height, NULL));
}

cu_result fake_launch_grid_async(cu_function function, int width, int height, cu_stream stream)
{
	cu_result result = call_enter(CALL_launch_grid_async);

	return call_leave(result ? result : launch_set(function, width, height, stream));
}
