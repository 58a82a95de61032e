/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls to launch kernels. Looked at only where launches have brackets. */
#include "shim/hooks.h"
#include "shim/infer.h"
#include "shim/launches.h"
#include "shim/summary.h"
#include "shim/when.h"

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

/* A launch that has a bracket, or is to have one. */
struct hooked {
	bool entered; /* else it is the driver's alone */
	bool passes;
	struct launch launch;
};

/* @return what the launch ends with, if that is not CU_SUCCESS */
static cu_result begin(struct hooked *h, cu_function function, cu_stream stream, void **parameters,
		       void **extra)
{
	struct infer_launch launch;
	cu_result result;

	h->entered = brackets_are_on() && hook_enter();
	/* Its stream is of the current context. */
	h->passes = h->entered && when_pass(CU_STREAM_LEGACY);
	if (!h->entered || h->passes)
		return CU_SUCCESS;
	launch = launch_of(function, parameters, extra);
	result = launch_begin(&h->launch, function, stream, &launch);
	if (result) {
		hook_leave();
		h->entered = false;
	}
	return result;
}

static cu_result end(struct hooked *h, cu_result result)
{
	if (!h->entered)
		return result;
	if (h->passes) {
		when_passed();
		hook_leave();
		return result;
	}
	launch_end(&h->launch, result);
	hook_leave();
	return summary_note_result(result);
}

#define SHAPE                                                                              \
	function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, \
		parameters

/* A hook's body: the driver's function within a bracket. */
#define WITHIN(function, stream, extra, call)                                      \
	do {                                                                       \
		struct hooked h;                                                   \
		cu_result result = begin(&h, function, stream, parameters, extra); \
                                                                                   \
		return result ? result : end(&h, call);                            \
	} while (0)

cu_result hook_cuLaunchKernel LAUNCH_PARAMETERS
{
	WITHIN(function, hook_stream_all(stream), extra, real.cuLaunchKernel(SHAPE, extra));
}

cu_result hook_cuLaunchKernel_ptsz LAUNCH_PARAMETERS
{
	WITHIN(function, hook_stream_thread(stream), extra, real.cuLaunchKernel_ptsz(SHAPE, extra));
}

cu_result hook_cuLaunchCooperativeKernel COOPERATIVE
{
	WITHIN(function, hook_stream_all(stream), NULL, real.cuLaunchCooperativeKernel(SHAPE));
}

cu_result hook_cuLaunchCooperativeKernel_ptsz COOPERATIVE
{
	WITHIN(function, hook_stream_thread(stream), NULL,
	       real.cuLaunchCooperativeKernel_ptsz(SHAPE));
}

cu_result hook_cuLaunchKernelEx LAUNCH_EX
{
	if (!config)
		return real.cuLaunchKernelEx(config, function, parameters, extra);
	WITHIN(function, hook_stream_all(config->stream), extra,
	       real.cuLaunchKernelEx(config, function, parameters, extra));
}

cu_result hook_cuLaunchKernelEx_ptsz LAUNCH_EX
{
	if (!config)
		return real.cuLaunchKernelEx_ptsz(config, function, parameters, extra);
	WITHIN(function, hook_stream_thread(config->stream), extra,
	       real.cuLaunchKernelEx_ptsz(config, function, parameters, extra));
}
