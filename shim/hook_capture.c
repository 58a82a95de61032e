/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls to capture streams, and to destroy contexts. */
#include "shim/captures.h"
#include "shim/hooks.h"
#include "shim/memory.h"
#include "shim/when.h"

/* A hook of a call that begins a capture: its parameters, the same as arguments, and the stream. */
#define BEGIN(symbol, parameters, arguments, stream)          \
	cu_result hook_##symbol parameters                    \
	{                                                     \
		cu_result result;                             \
                                                              \
		if (!hook_enter())                            \
			return real.symbol arguments;         \
		captures_begin();                             \
		result = real.symbol arguments;               \
		captures_begun(stream, result == CU_SUCCESS); \
		hook_leave();                                 \
		return result;                                \
	}

/* On a stream by the name of the default stream of all threads, or of each one's. */
#define BEGIN_BOTH(symbol, parameters, arguments)                     \
	BEGIN(symbol, parameters, arguments, hook_stream_all(stream)) \
	BEGIN(symbol##_ptsz, parameters, arguments, hook_stream_thread(stream))

/* clang-format off */
BEGIN_BOTH(cuStreamBeginCapture, CAPTURE, (stream))
BEGIN_BOTH(cuStreamBeginCapture_v2, CAPTURE_MODE, (stream, mode))
BEGIN_BOTH(cuStreamBeginCaptureToGraph, CAPTURE_TO,
	   (stream, graph, dependencies, data, nr_dependencies, mode))
/* clang-format on */

static cu_result ended(cu_stream stream, cu_result result)
{
	if (hook_enter()) {
		captures_ended(stream);
		hook_leave();
	}
	return result;
}

cu_result hook_cuStreamEndCapture CAPTURE_END
{
	return ended(hook_stream_all(stream), real.cuStreamEndCapture(stream, graph));
}

cu_result hook_cuStreamEndCapture_ptsz CAPTURE_END
{
	return ended(hook_stream_thread(stream), real.cuStreamEndCapture_ptsz(stream, graph));
}

static void context_ends(cu_context context)
{
	if (context && hook_enter()) {
		when_context_ends(context);
		captures_context_ends(context);
		memory_context_ends();
		hook_leave();
	}
}

cu_result hook_cuCtxDestroy(cu_context context)
{
	context_ends(context);
	hook_forget_kernels();
	return real.cuCtxDestroy(context);
}

cu_result hook_cuCtxDestroy_v2(cu_context context)
{
	context_ends(context);
	hook_forget_kernels();
	return real.cuCtxDestroy_v2(context);
}
