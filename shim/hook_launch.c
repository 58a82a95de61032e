/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls to launch kernels. Looked at only where a trace is recorded. */
#include "shim/hooks.h"
#include "shim/infer.h"
#include "shim/record.h"

/* What the third form of parameters is made of: pairs of a tag and a value, up to the end. */
#define EXTRA_END ((void *)0)
#define EXTRA_BUFFER ((void *)1)
#define EXTRA_BUFFER_BYTES ((void *)2)

static struct infer_launch launch_of(cu_function function, void **parameters, void **extra)
{
	struct infer_launch launch = {.kernel = function, .params = (void *const *)parameters};

	for (; !parameters && extra && extra[0] != EXTRA_END; extra += 2)
		if (extra[0] == EXTRA_BUFFER)
			launch.buffer = extra[1];
		else if (extra[0] == EXTRA_BUFFER_BYTES && extra[1])
			launch.buffer_bytes = (uint32_t) * (const size_t *)extra[1];
	return launch;
}

/* Whether the launch is recorded: then launched() is called behind it. */
static bool begin(struct record_launch *r, cu_function function, cu_stream stream,
		  void **parameters, void **extra)
{
	struct infer_launch launch;

	if (!record_is_on() || !hook_enter())
		return false;
	launch = launch_of(function, parameters, extra);
	record_begin(r, function, stream, &launch);
	return true;
}

static void end(struct record_launch *r, bool begun)
{
	if (!begun)
		return;
	record_end(r);
	hook_leave();
}

#define SHAPE                                                                              \
	function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, \
		parameters

cu_result hook_cuLaunchKernel LAUNCH_PARAMETERS
{
	struct record_launch r;
	bool begun = begin(&r, function, hook_stream_all(stream), parameters, extra);
	cu_result result = real.cuLaunchKernel(SHAPE, extra);

	end(&r, begun);
	return result;
}

cu_result hook_cuLaunchKernel_ptsz LAUNCH_PARAMETERS
{
	struct record_launch r;
	bool begun = begin(&r, function, hook_stream_thread(stream), parameters, extra);
	cu_result result = real.cuLaunchKernel_ptsz(SHAPE, extra);

	end(&r, begun);
	return result;
}

cu_result hook_cuLaunchCooperativeKernel COOPERATIVE
{
	struct record_launch r;
	bool begun = begin(&r, function, hook_stream_all(stream), parameters, NULL);
	cu_result result = real.cuLaunchCooperativeKernel(SHAPE);

	end(&r, begun);
	return result;
}

cu_result hook_cuLaunchCooperativeKernel_ptsz COOPERATIVE
{
	struct record_launch r;
	bool begun = begin(&r, function, hook_stream_thread(stream), parameters, NULL);
	cu_result result = real.cuLaunchCooperativeKernel_ptsz(SHAPE);

	end(&r, begun);
	return result;
}

cu_result hook_cuLaunchKernelEx LAUNCH_EX
{
	struct record_launch r;
	bool begun =
		config && begin(&r, function, hook_stream_all(config->stream), parameters, extra);
	cu_result result = real.cuLaunchKernelEx(config, function, parameters, extra);

	end(&r, begun);
	return result;
}

cu_result hook_cuLaunchKernelEx_ptsz LAUNCH_EX
{
	struct record_launch r;
	bool begun = config &&
		     begin(&r, function, hook_stream_thread(config->stream), parameters, extra);
	cu_result result = real.cuLaunchKernelEx_ptsz(config, function, parameters, extra);

	end(&r, begun);
	return result;
}

/* ------------------------------------------------------------------ kernels that go */

/* A process that fork() made unloads modules when it ends, and finds locks as they were. */
static void forget_kernels(void)
{
	if (!record_is_on() || !hook_enter())
		return;
	record_forget_kernels();
	hook_leave();
}

cu_result hook_cuModuleUnload(cu_module module)
{
	forget_kernels();
	return real.cuModuleUnload(module);
}

cu_result hook_cuLibraryUnload(cu_library library)
{
	forget_kernels();
	return real.cuLibraryUnload(library);
}
