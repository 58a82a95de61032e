/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of streams into graphs: what an ongoing one forbids. Nothing is captured but events. */
#include "tests/fakecuda/fake.h"

static _Thread_local int capture_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL */

/* A capture that is not relaxed forbids its own thread, and a global one all of that mode. */
static bool stream_forbids(const struct stream *stream)
{
	if (!stream->capturing || stream->capture_mode == CU_CAPTURE_MODE_RELAXED)
		return false;
	return pthread_equal(stream->capturer, pthread_self()) ||
	       (!stream->capture_mode && !capture_mode);
}

bool capture_forbids(void)
{
	bool forbids = false;

	for (int i = 0; i < STREAMS_MAX && capture_mode != CU_CAPTURE_MODE_RELAXED; i++)
		forbids |= fake.slot[i] && stream_forbids(fake.slot[i]);
	return forbids;
}

void captures_spoil(void)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i])
			fake.slot[i]->spoiled = fake.slot[i]->capturing;
}

/* Nothing here is captured but events: otherwise a stream only says that it is. */
static cu_result capture_set(cu_stream handle, bool capturing, int mode)
{
	cu_result result = CU_SUCCESS;
	struct stream *stream = stream_find(handle, -1, &result);

	if (!stream)
		return result;
	if (!capturing && stream->spoiled)
		result = CU_CAPTURE_INVALIDATED;
	stream->capturing = capturing;
	stream->spoiled = false;
	stream->capture_mode = mode;
	stream->capturer = pthread_self();
	return result;
}

cu_result fake_capture_begin(cu_stream handle, int mode)
{
	pthread_mutex_lock(&fake.lock);
	return call_leave(capture_set(handle, true, mode));
}

cu_result fake_capture_end(cu_stream handle, struct CUgraph_st **graph)
{
	pthread_mutex_lock(&fake.lock);
	*graph = NULL;
	return call_leave(capture_set(handle, false, 0));
}

cu_result fake_graph_destroy(struct CUgraph_st *graph)
{
	return graph ? CU_INVALID_VALUE : CU_SUCCESS;
}

cu_result fake_capture_mode(int *mode)
{
	cu_result result = call_enter(CALL_capture_mode);

	if (!result && (!mode || *mode < 0 || *mode > CU_CAPTURE_MODE_RELAXED))
		result = CU_INVALID_VALUE;
	if (!result) {
		int before = capture_mode;

		capture_mode = *mode;
		*mode = before;
	}
	return call_leave(result);
}

int fakecuda_capture(void *handle, bool capturing)
{
	pthread_mutex_lock(&fake.lock);
	return call_leave(capture_set(handle, capturing, 0));
}

int fakecuda_capture_mode(void)
{
	return capture_mode;
}
