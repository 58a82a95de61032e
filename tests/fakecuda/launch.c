/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the kernels of modules, in all the ways that the driver has for it. */
#include <stdlib.h>
#include <string.h>

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
