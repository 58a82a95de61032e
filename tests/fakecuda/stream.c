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
	return fake.resetting || stream->generation != fake.context[stream->context].generation;
}

bool stream_is_dead(const struct stream *stream)
{
	return stream_is_stale(stream) || fake.context[stream->context].error;
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
	const struct stream *zero = fake.context[a->context].zero;

	return a->context == b->context &&
	       ((a == zero && b->blocking) || (b == zero && a->blocking));
}

/* What a stream takes before a call waits, as found on an H200. */
#define QUEUE_MAX 1021u
#define SLEEPS_MAX 56u

void stream_add(struct stream *stream, struct op *op)
{
	if (stream->graph) {
		graph_add(stream->graph, op);
		return;
	}
	while (stream->nr_ops == QUEUE_MAX || (op->sleeps && stream->nr_sleeps == SLEEPS_MAX))
		pthread_cond_wait(&fake.finished, &fake.lock);
	stream->nr_ops++;
	stream->nr_sleeps += op->sleeps;
	op->context = stream->context;
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
	if (op->kind == OP_FREE)
		mapping_destroy(mapping_find(op->touch[0].addr));
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
	graph_free(stream->graph);
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

/* The handle's number; 0: no memory. */
static uint64_t stream_publish(struct stream *stream)
{
	for (size_t i = 0; fake.config.reuse && i < fake.streams.nr; i++)
		if (!fake.streams.at[i]) {
			fake.streams.at[i] = stream;
			return STREAM_BASE + 16 * (i + 1);
		}
	return table_add(&fake.streams, STREAM_BASE, stream);
}

/* With a handle, or without one as stream 0. */
static cu_result stream_create(int context, bool handle, struct stream **out)
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
	stream->context = context;
	stream->device = fake.context[context].device;
	stream->generation = fake.context[context].generation;
	stream->clock.at[slot] = fake.queued[slot];
	if (!wake_init(&stream->wake))
		goto err_free;
	stream->number = handle ? stream_publish(stream) : 0;
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

static struct stream *stream_zero(int context, cu_result *result)
{
	struct stream **zero = &fake.context[context].zero;

	*result = *zero ? CU_SUCCESS : stream_create(context, false, zero);
	return *zero;
}

_Thread_local bool stream_zero_is_own;

/* A number for each thread that has a stream of its own; 0: not yet. */
static _Thread_local uint64_t thread_number;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* A thread ends, and its own streams with it. */
static void thread_end(void *number)
{
	pthread_mutex_lock(&fake.lock);
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && fake.slot[i]->owner == (uintptr_t)number &&
		    !fake.slot[i]->closing)
			stream_close(fake.slot[i]);
	pthread_mutex_unlock(&fake.lock);
}

static void thread_key_create(void)
{
	if (pthread_key_create(&thread_key, thread_end))
		fake_panic("no memory");
}

static struct stream *stream_own(int context, cu_result *result)
{
	static uint64_t nr_threads;
	struct stream *own = NULL;

	pthread_once(&thread_once, thread_key_create);
	if (!thread_number) {
		thread_number = ++nr_threads;
		pthread_setspecific(thread_key, (void *)(uintptr_t)thread_number);
	}
	*result = CU_SUCCESS;
	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && fake.slot[i]->owner == thread_number &&
		    fake.slot[i]->context == context && !fake.slot[i]->closing)
			return fake.slot[i];
	*result = stream_create(context, false, &own);
	if (own) {
		own->owner = thread_number;
		own->blocking = true;
	}
	return own;
}

struct stream *stream_find(const void *handle, int context, cu_result *result)
{
	void **at = table_at(&fake.streams, STREAM_BASE, (uintptr_t)handle);
	struct stream *stream = at ? *at : NULL;

	if (!handle && stream_zero_is_own)
		handle = CU_STREAM_PER_THREAD;
	if (context >= 0 && handle == CU_STREAM_PER_THREAD)
		return stream_own(context, result);
	if (context >= 0 && (!handle || handle == CU_STREAM_LEGACY))
		return stream_zero(context, result);
	*result = CU_SUCCESS;
	if (!stream)
		*result = CU_INVALID_HANDLE;
	else if (stream_is_stale(stream))
		*result = CU_CONTEXT_IS_DESTROYED;
	return *result ? NULL : stream;
}

static cu_result stream_new(cu_stream *handle, unsigned int flags, int priority)
{
	struct stream *stream;
	int context;
	cu_result result = context_current(&context);

	if (result)
		return result;
	if (!handle || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CU_INVALID_VALUE;
	result = stream_create(context, true, &stream);
	if (result)
		return result;
	stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	stream->priority = priority > 0 ? 0 : priority;
	if (priority < PRIORITY_GREATEST)
		stream->priority = PRIORITY_GREATEST;
	*handle = (cu_stream)stream->number;
	return CU_SUCCESS;
}

cu_result fake_stream_create(cu_stream *handle, unsigned int flags)
{
	cu_result result = call_enter(CALL_stream_create);

	return call_leave(result ? result : stream_new(handle, flags, 0));
}

/* A priority out of range is brought into it. */
cu_result fake_stream_create_priority(cu_stream *handle, unsigned int flags, int priority)
{
	cu_result result = call_enter(CALL_stream_create_priority);

	return call_leave(result ? result : stream_new(handle, flags, priority));
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
	int context;

	if (!result)
		result = context_current_undo(&context, &error);
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

void streams_wait(int context)
{
	uint64_t until[STREAMS_MAX] = {0};

	for (int i = 0; i < STREAMS_MAX; i++)
		if (fake.slot[i] && (context < 0 || fake.slot[i]->context == context))
			until[i] = fake.queued[i];
	slots_wait(until);
}

/* Another thread may destroy the stream meanwhile. */
cu_result op_wait(const struct stream *stream, uint64_t seq)
{
	uint64_t until[STREAMS_MAX] = {0};
	int context = stream->context;

	until[stream->slot] = seq;
	slots_wait(until);
	return fake.context[context].error;
}

cu_result fake_stream_sync(cu_stream handle)
{
	cu_result result = call_enter(CALL_stream_sync);
	struct stream *stream;
	int context;

	if (!result)
		result = context_current(&context);
	if (result)
		return call_leave(result);
	stream = stream_find(handle, context, &result);
	if (!stream)
		return call_leave(result);
	if (stream->capturing) {
		captures_spoil();
		return call_leave(CU_CAPTURE_UNSUPPORTED);
	}
	return call_leave(op_wait(stream, fake.queued[stream->slot]));
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
