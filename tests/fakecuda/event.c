/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. What an event stands for is its last record; who waits holds on to the record that was
 * the last when it asked, so recording again changes nothing for it.
 */
#include <stdlib.h>

#include "tests/fakecuda/fake.h"

static struct event *event_find(cu_event handle, cu_result *result)
{
	void **at = table_at(&fake.events, EVENT_BASE, (uintptr_t)handle);
	struct event *event = at ? *at : NULL;

	*result = CU_SUCCESS;
	if (!event)
		*result = CU_INVALID_HANDLE;
	else if (event->generation != fake.context[event->context].generation)
		*result = CU_CONTEXT_IS_DESTROYED;
	return *result ? NULL : event;
}

static cu_result event_create(cu_event *handle, unsigned int flags)
{
	struct event *event;
	uint64_t number;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	if (!handle || flags & ~7u ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CU_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CU_OUT_OF_MEMORY;
	event->flags = flags;
	event->context = context;
	event->generation = fake.context[context].generation;
	number = table_add(&fake.events, EVENT_BASE, event);
	if (!number) {
		free(event);
		return CU_OUT_OF_MEMORY;
	}
	*handle = (cu_event)number;
	return CU_SUCCESS;
}

cu_result fake_event_create(cu_event *handle, unsigned int flags)
{
	cu_result result = call_enter(CALL_event_create);

	return call_leave(result ? result : event_create(handle, flags));
}

static void event_free(struct event *event)
{
	record_put(event->record);
	free(event);
}

void events_fini(void)
{
	for (size_t i = 0; i < fake.events.nr; i++)
		if (fake.events.at[i]) {
			event_free(fake.events.at[i]);
			fake.events.at[i] = NULL;
		}
}

cu_result fake_event_destroy(cu_event handle)
{
	cu_result result = call_enter(CALL_event_destroy), error = CU_SUCCESS;
	struct event *event;
	int context;

	if (!result)
		result = context_current_undo(&context, &error);
	if (result)
		return call_leave(result);
	event = event_find(handle, &result);
	if (event) {
		*table_at(&fake.events, EVENT_BASE, (uintptr_t)handle) = NULL;
		event_free(event);
	}
	return call_leave(result ? result : error);
}

static cu_result event_record(cu_event handle, cu_stream stream_handle)
{
	struct stream *stream;
	struct event *event;
	struct op *op;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	event = event_find(handle, &result);
	stream = event ? stream_find(stream_handle, context, &result) : NULL;
	if (!stream)
		return result;
	if (stream->context != event->context)
		return CU_INVALID_HANDLE;
	event->captured = stream->capturing;
	if (event->captured)
		return CU_SUCCESS;
	op = op_create(OP_RECORD, 0);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->record = calloc(1, sizeof(*op->record));
	if (!op->record) {
		op_free(op);
		return CU_OUT_OF_MEMORY;
	}
	op->sleeps = event->flags & CU_EVENT_BLOCKING_SYNC;
	op->record->refs = 2;
	record_put(event->record);
	event->record = op->record;
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_event_record(cu_event handle, cu_stream stream)
{
	cu_result result = call_enter(CALL_event_record);

	return call_leave(result ? result : event_record(handle, stream));
}

static cu_result stream_wait(cu_stream stream_handle, cu_event handle, unsigned int flags)
{
	struct stream *stream;
	struct event *event;
	struct op *op;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	if (flags)
		return CU_INVALID_VALUE;
	event = event_find(handle, &result);
	stream = event ? stream_find(stream_handle, context, &result) : NULL;
	if (!stream)
		return result;
	if (stream->capturing != event->captured) {
		captures_spoil();
		return CU_CAPTURE_ISOLATION;
	}
	if (!event->record || event->captured)
		return CU_SUCCESS;
	op = op_create(OP_NOTHING, 0);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->clock = event->record->clock;
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_stream_wait(cu_stream stream, cu_event event, unsigned int flags)
{
	cu_result result = call_enter(CALL_stream_wait);

	return call_leave(result ? result : stream_wait(stream, event, flags));
}

/* Of an event that is alive; its context's error comes first. */
static cu_result event_state(const struct event *event)
{
	if (event->captured)
		return CU_CAPTURED_EVENT;
	if (fake.context[event->context].error)
		return fake.context[event->context].error;
	return event->record && !event->record->done ? CU_NOT_READY : CU_SUCCESS;
}

cu_result fake_event_query(cu_event handle)
{
	cu_result result = call_enter(CALL_event_query);
	struct event *event;

	if (result)
		return call_leave(result);
	event = event_find(handle, &result);
	return call_leave(event ? event_state(event) : result);
}

/* Waits for the record, which stays while the event may go. */
static cu_result record_wait(struct record *record, int context)
{
	record->refs++;
	while (!record->done)
		pthread_cond_wait(&fake.finished, &fake.lock);
	record_put(record);
	return fake.context[context].error;
}

cu_result fake_event_sync(cu_event handle)
{
	cu_result result = call_enter(CALL_event_sync);
	struct event *event;
	int context;

	if (!result)
		result = context_current(&context);
	if (result)
		return call_leave(result);
	event = event_find(handle, &result);
	if (!event)
		return call_leave(result);
	result = event_state(event);
	return call_leave(result == CU_NOT_READY ? record_wait(event->record, event->context)
						 : result);
}

static cu_result elapsed(float *ms, cu_event begin_handle, cu_event end_handle)
{
	struct event *begin, *end;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	begin = event_find(begin_handle, &result);
	end = begin ? event_find(end_handle, &result) : NULL;
	if (!end)
		return result;
	if (!ms)
		return CU_INVALID_VALUE;
	if (begin->captured || end->captured)
		return CU_CAPTURED_EVENT;
	if (!begin->record || !end->record || begin->context != end->context ||
	    (begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CU_INVALID_HANDLE;
	if (!begin->record->done || !end->record->done)
		return CU_NOT_READY;
	*ms = (float)((double)(int64_t)(end->record->time_ns - begin->record->time_ns) *
		      fake.config.clock_percent / 1e8);
	return CU_SUCCESS;
}

cu_result fake_event_elapsed(float *ms, cu_event begin, cu_event end)
{
	cu_result result = call_enter(CALL_event_elapsed);

	return call_leave(result ? result : elapsed(ms, begin, end));
}

cu_result fake_event_elapsed_v2(float *ms, cu_event begin, cu_event end)
{
	cu_result result = call_enter(CALL_event_elapsed_v2);

	return call_leave(result ? result : elapsed(ms, begin, end));
}
