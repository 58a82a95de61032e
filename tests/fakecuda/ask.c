/* SPDX-License-Identifier: Apache-2.0 */
/* What calls tell of a stream. */
#include "tests/fakecuda/fake.h"

/* A stream of any context by its handle; what has none is the current context's. */
static struct stream *stream_or_default(cu_stream handle, cu_result *result)
{
	int context = -1;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		*result = context_current(&context);
	return *result ? NULL : stream_find(handle, context, result);
}

static cu_result stream_context(cu_stream handle, cu_context *context)
{
	cu_result result = CU_SUCCESS;
	const struct stream *stream = stream_or_default(handle, &result);

	if (stream && !context)
		result = CU_INVALID_VALUE;
	if (!result)
		*context = context_handle(stream->context);
	return result;
}

cu_result fake_stream_context(cu_stream stream, cu_context *context)
{
	cu_result result = call_enter(CALL_stream_context);

	return call_leave(result ? result : stream_context(stream, context));
}

/* No stream here is one of a green context. */
cu_result fake_stream_context_v2(cu_stream stream, cu_context *context, void **green)
{
	cu_result result = call_enter(CALL_stream_context_v2);

	if (!result)
		result = green ? stream_context(stream, context) : CU_INVALID_VALUE;
	if (!result)
		*green = NULL;
	return call_leave(result);
}

cu_result fake_stream_capturing(cu_stream handle, int *status)
{
	cu_result result = call_enter(CALL_stream_capturing);
	struct stream *stream;

	if (result)
		return call_leave(result);
	stream = stream_or_default(handle, &result);
	if (stream && !status)
		result = CU_INVALID_VALUE;
	if (!result)
		*status = stream->capturing ? 1 : CU_CAPTURE_NONE;
	return call_leave(result);
}

cu_result fake_stream_query(cu_stream handle)
{
	cu_result result = call_enter(CALL_stream_query);
	struct stream *stream;

	if (result)
		return call_leave(result);
	stream = stream_or_default(handle, &result);
	if (!stream)
		return call_leave(result);
	if (stream->capturing) {
		captures_spoil();
		return call_leave(CU_CAPTURE_UNSUPPORTED);
	}
	result = fake.context[stream->context].error;
	if (!result && fake.done[stream->slot] < fake.queued[stream->slot])
		result = CU_NOT_READY;
	return call_leave(result);
}

cu_result fake_stream_flags(cu_stream handle, unsigned int *flags)
{
	cu_result result = call_enter(CALL_stream_flags);
	struct stream *stream;

	if (result)
		return call_leave(result);
	stream = stream_or_default(handle, &result);
	if (stream && !flags)
		result = CU_INVALID_VALUE;
	if (!result)
		*flags = stream->number && !stream->blocking ? CU_STREAM_NON_BLOCKING : 0;
	return call_leave(result);
}

cu_result fake_stream_priority(cu_stream handle, int *priority)
{
	cu_result result = call_enter(CALL_stream_priority);
	struct stream *stream;

	if (result)
		return call_leave(result);
	stream = stream_or_default(handle, &result);
	if (stream && !priority)
		result = CU_INVALID_VALUE;
	if (!result)
		*priority = stream->priority;
	return call_leave(result);
}
