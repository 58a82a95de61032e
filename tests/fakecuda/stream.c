/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: each has a thread that does its operations in order. An operation waits for the gates,
 * then for work of other streams that is ordered before it, then for the delay. Threads are
 * detached: the library is never unloaded, and a reset waits until all slots are empty.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "tests/fakecuda/fake.h"

static bool stream_is_stale(const struct stream *stream)
{
	return fake.resetting || stream->generation != fake.context[stream->device].generation;
}

bool stream_is_dead(const struct stream *stream)
{
	return stream_is_stale(stream) || fake.context[stream->device].error;
}

void streams_wake(void)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i])
			pthread_cond_broadcast(&fake.slot[i]->wake);
	pthread_cond_broadcast(&fake.finished);
}

/* ------------------------------------------------------------------ threads */

static void clock_merge(struct clock *clock, const struct clock *other)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (clock->at[i] < other->at[i])
			clock->at[i] = other->at[i];
}

/* Stream 0 and all others but those that were created not to be. */
static bool streams_are_ordered(const struct stream *a, const struct stream *b)
{
	const struct stream *zero = fake.context[a->device].zero;

	return a->device == b->device && ((a == zero && b->blocking) || (b == zero && a->blocking));
}

/* What a stream takes before a call waits, as found on an H200. */
#define QUEUE_MAX 1021u
#define SLEEPS_MAX 56u

void stream_add(struct stream *stream, struct op *op)
{
	while (stream->nr_ops == QUEUE_MAX || (op->sleeps && stream->nr_sleeps == SLEEPS_MAX))
		pthread_cond_wait(&fake.finished, &fake.lock);
	stream->nr_ops++;
	stream->nr_sleeps += op->sleeps;
	op->device = stream->device;
	op->seq = ++fake.queued[stream->slot];
	op->stamp = ++fake.stamp;
	clock_merge(&stream->clock, &op->clock);
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && streams_are_ordered(stream, fake.slot[i]))
			clock_merge(&stream->clock, &fake.slot[i]->clock);
	stream->clock.at[stream->slot] = op->seq;
	op->clock = stream->clock;
	if (op->kind == OP_RECORD)
		op->record->clock = stream->clock;
	if (stream->last)
		stream->last->next = op;
	else
		stream->first = op;
	stream->last = op;
	pthread_cond_broadcast(&stream->wake);
}

/* Take the first operation off the queue: it is done, or dropped. */
static void stream_advance(struct stream *stream)
{
	struct op *op = stream->first;

	stream->first = op->next;
	if (!stream->first)
		stream->last = NULL;
	stream->nr_ops--;
	stream->nr_sleeps -= op->sleeps;
	fake.done[stream->slot] = op->seq;
	if (op->kind == OP_RECORD) {
		op->record->time_ns = clock_now_ns();
		op->record->done = true;
	}
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && fake.slot[i]->waiting)
			pthread_cond_broadcast(&fake.slot[i]->wake);
	pthread_cond_broadcast(&fake.finished);
	op_free(op);
}

/* Whether all is done that the first operation comes after. */
static bool stream_is_ready(const struct stream *stream)
{
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		if (i != stream->slot && fake.done[i] < stream->first->clock.at[i])
			return false;
	return true;
}

/* Whether the first operation's delay is over; waits a while where it is not. */
static bool delay_is_over(struct stream *stream)
{
	uint64_t delay = stream->delay_ns > fake.delay_ns ? stream->delay_ns : fake.delay_ns;
	uint64_t now, end;
	struct timespec until;

	if (!delay)
		return true;
	now = clock_now_ns();
	if (!stream->first->ready_ns)
		stream->first->ready_ns = now;
	end = stream->first->ready_ns + delay;
	if (end <= now)
		return true;
	until = (struct timespec){.tv_sec = (time_t)(end / 1000000000),
				  .tv_nsec = (long)(end % 1000000000)};
	pthread_cond_timedwait(&stream->wake, &fake.lock, &until);
	return false;
}

/* One step of a stream's thread; false: the stream has ended. */
static bool stream_step(struct stream *stream)
{
	struct op *op = stream->first;

	if (!op && stream->closing)
		return false;
	if (op && stream_is_stale(stream)) {
		stream_advance(stream);
	} else if (!op || fake.gate_closed || stream->gate_closed) {
		pthread_cond_wait(&stream->wake, &fake.lock);
	} else if (stream_is_dead(stream)) {
		stream_advance(stream);
	} else if (!stream_is_ready(stream)) {
		stream->waiting = true;
		pthread_cond_wait(&stream->wake, &fake.lock);
		stream->waiting = false;
	} else if (delay_is_over(stream)) {
		op_run(stream, op);
		stream_advance(stream);
	}
	return true;
}

static void *stream_thread(void *arg)
{
	struct stream *stream = arg;

	pthread_mutex_lock(&fake.lock);
	while (stream_step(stream))
		;
	fake.slot[stream->slot] = NULL;
	pthread_cond_broadcast(&fake.finished);
	pthread_mutex_unlock(&fake.lock);
	pthread_cond_destroy(&stream->wake);
	free(stream);
	return NULL;
}

/* Signals go to the program's threads, but for those that a kernel itself causes. */
static bool thread_start(struct stream *stream)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int err;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, stream_thread, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return !err;
}

static bool wake_init(pthread_cond_t *wake)
{
	pthread_condattr_t attr;
	int err;

	if (pthread_condattr_init(&attr))
		return false;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	err = pthread_cond_init(wake, &attr);
	pthread_condattr_destroy(&attr);
	return !err;
}

/* ------------------------------------------------------------------ streams */

/* With a handle, or without one as stream 0. */
static cu_result stream_create(int device, bool handle, struct stream **out)
{
	struct stream *stream;
	unsigned slot = 0;

	while (slot < STREAMS_MAX && fake.slot[slot])
		slot++;
	if (slot == STREAMS_MAX)
		return CU_OUT_OF_MEMORY;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return CU_OUT_OF_MEMORY;
	stream->slot = slot;
	stream->device = device;
	stream->generation = fake.context[device].generation;
	stream->clock.at[slot] = fake.queued[slot];
	if (!wake_init(&stream->wake))
		goto err_free;
	stream->number = handle ? table_add(&fake.streams, STREAM_BASE, stream) : 0;
	if (handle && !stream->number)
		goto err_wake;
	if (!thread_start(stream))
		goto err_del;
	fake.slot[slot] = stream;
	*out = stream;
	return CU_SUCCESS;

err_del:
	if (handle)
		*table_at(&fake.streams, STREAM_BASE, stream->number) = NULL;
err_wake:
	pthread_cond_destroy(&stream->wake);
err_free:
	free(stream);
	return CU_OUT_OF_MEMORY;
}

static struct stream *stream_zero(int device, cu_result *result)
{
	struct context *context = &fake.context[device];

	*result = context->zero ? CU_SUCCESS : stream_create(device, false, &context->zero);
	return context->zero;
}

struct stream *stream_find(const void *handle, int device, cu_result *result)
{
	void **at = table_at(&fake.streams, STREAM_BASE, (uintptr_t)handle);
	struct stream *stream = at ? *at : NULL;

	if (!handle && device >= 0)
		return stream_zero(device, result);
	*result = CU_SUCCESS;
	if (!stream)
		*result = CU_INVALID_HANDLE;
	else if (stream_is_stale(stream))
		*result = CU_CONTEXT_IS_DESTROYED;
	return *result ? NULL : stream;
}

cu_result fake_stream_create(cu_stream *handle, unsigned int flags)
{
	cu_result result = call_enter(CALL_stream_create);
	struct stream *stream;
	int device;

	if (!result)
		result = context_current(&device);
	if (!result && (!handle || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
		result = CU_INVALID_VALUE;
	if (!result)
		result = stream_create(device, true, &stream);
	if (!result) {
		stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
		*handle = (cu_stream)stream->number;
	}
	return call_leave(result);
}

/* The thread ends when all work is done; the call does not wait for it. Nobody could open the gate
 * of a stream that has no name any more. */
void stream_close(struct stream *stream)
{
	if (stream->number)
		*table_at(&fake.streams, STREAM_BASE, stream->number) = NULL;
	stream->closing = true;
	stream->gate_closed = false;
	pthread_cond_broadcast(&stream->wake);
}

cu_result fake_stream_destroy(cu_stream handle)
{
	cu_result result = call_enter(CALL_stream_destroy), error = CU_SUCCESS;
	struct stream *stream;
	int device;

	if (!result)
		result = context_current_undo(&device, &error);
	if (result)
		return call_leave(result);
	stream = stream_find(handle, -1, &result);
	if (stream)
		stream_close(stream);
	return call_leave(result ? result : error);
}

void slots_wait(const uint64_t until[STREAMS_MAX])
{
	for (int i = 0; i < STREAMS_MAX; i++)
		while (fake.done[i] < until[i])
			pthread_cond_wait(&fake.finished, &fake.lock);
}

void streams_wait(int device)
{
	uint64_t until[STREAMS_MAX] = {0};

	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && (device < 0 || fake.slot[i]->device == device))
			until[i] = fake.queued[i];
	slots_wait(until);
}

cu_result fake_stream_sync(cu_stream handle)
{
	cu_result result = call_enter(CALL_stream_sync);
	uint64_t until[STREAMS_MAX] = {0};
	struct stream *stream;
	int device;

	if (!result)
		result = context_current(&device);
	if (result)
		return call_leave(result);
	stream = stream_find(handle, device, &result);
	if (!stream)
		return call_leave(result);
	if (stream->capturing) {
		captures_spoil();
		return call_leave(CU_CAPTURE_UNSUPPORTED);
	}
	/* Another thread may destroy it meanwhile. */
	device = stream->device;
	until[stream->slot] = fake.queued[stream->slot];
	slots_wait(until);
	return call_leave(fake.context[device].error);
}

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

/* NULL: the current context's default stream. */
static struct stream *stream_or_default(cu_stream handle, cu_result *result)
{
	int device = -1;

	if (!handle)
		*result = context_current(&device);
	return *result ? NULL : stream_find(handle, device, result);
}

cu_result fake_stream_context(cu_stream handle, cu_context *context)
{
	cu_result result = call_enter(CALL_stream_context);
	struct stream *stream;

	if (result)
		return call_leave(result);
	stream = stream_or_default(handle, &result);
	if (stream && !context)
		result = CU_INVALID_VALUE;
	if (!result)
		*context = context_handle(stream->device);
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

void streams_end(void)
{
	fake.resetting = true;
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && !fake.slot[i]->closing)
			stream_close(fake.slot[i]);
	streams_wake();
	for (int i = 0; i < STREAMS_MAX; i++)
		while (fake.slot[i])
			pthread_cond_wait(&fake.finished, &fake.lock);
	fake.resetting = false;
}

/* ------------------------------------------------------------------ control */

int fakecuda_gate(void *handle, bool closed)
{
	cu_result result = CU_SUCCESS;
	struct stream *stream;

	pthread_mutex_lock(&fake.lock);
	stream = handle ? stream_find(handle, -1, &result) : NULL;
	if (stream)
		stream->gate_closed = closed;
	else if (!handle)
		fake.gate_closed = closed;
	streams_wake();
	pthread_mutex_unlock(&fake.lock);
	return result;
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

int fakecuda_delay(void *handle, uint64_t ns)
{
	cu_result result = CU_SUCCESS;
	struct stream *stream;

	pthread_mutex_lock(&fake.lock);
	stream = handle ? stream_find(handle, -1, &result) : NULL;
	if (stream)
		stream->delay_ns = ns;
	else if (!handle)
		fake.delay_ns = ns;
	streams_wake();
	pthread_mutex_unlock(&fake.lock);
	return result;
}

void *fakecuda_stream(unsigned n)
{
	uint64_t number = 0;

	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.streams.nr && !number; i++) {
		const struct stream *stream = fake.streams.at[i];

		if (stream && !n--)
			number = stream->number;
	}
	pthread_mutex_unlock(&fake.lock);
	return (void *)(uintptr_t)number;
}

int fakecuda_stream_device(void *handle)
{
	struct stream *stream;
	cu_result result;
	int device;

	pthread_mutex_lock(&fake.lock);
	stream = stream_find(handle, -1, &result);
	device = stream ? stream->device : -1;
	pthread_mutex_unlock(&fake.lock);
	return device;
}

uint64_t fakecuda_nr_pending(void *handle)
{
	cu_result result = CU_SUCCESS;
	struct stream *stream;
	uint64_t nr = 0;

	pthread_mutex_lock(&fake.lock);
	stream = handle ? stream_find(handle, -1, &result) : NULL;
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && (!handle || fake.slot[i] == stream))
			nr += fake.queued[i] - fake.done[i];
	pthread_mutex_unlock(&fake.lock);
	return nr;
}
