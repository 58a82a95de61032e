/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and fences. A fence is an event, until it is known to be reached: then its time is kept
 * and the event used again. Events of a stream are reached in order, so that one number says which
 * are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

/* A fence: the stream's number above, the sequence below; sequences begin with 1. */
#define SEQ_BITS 40
#define SEQ_MASK ((UINT64_C(1) << SEQ_BITS) - 1)
#define MAX_STREAMS (1u << (64 - SEQ_BITS))
#define FIRST_EVENTS 64u
/* Times are counted anew after so long, since the driver gives them as float. */
#define BASE_MAX_NS UINT64_C(2000000000)

/* ------------------------------------------------------------------ streams */

struct cuda_stream *cuda_stream_find(const struct cuda *cuda, stream_id_t id)
{
	struct cuda_stream *stream = id < cuda->nr_streams ? cuda->stream[id] : NULL;

	return stream && stream->stream ? stream : NULL;
}

int cuda_stream_get(struct cuda *cuda, stream_id_t id, cu_stream *out, uint32_t *device)
{
	const struct cuda_stream *stream;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream) {
		*out = stream->stream;
		*device = stream->device;
	}
	pthread_mutex_unlock(&cuda->lock);
	return stream ? 0 : -EINVAL;
}

void *cuda_stream_native(struct backend *b, stream_id_t id)
{
	cu_stream stream;
	uint32_t device;

	return cuda_stream_get(cuda_of(b), id, &stream, &device) ? NULL : stream;
}

static int table_add(struct cuda *cuda, struct cuda_stream *stream, stream_id_t *out)
{
	if (cuda->nr_streams == MAX_STREAMS)
		return -ENOMEM;
	if (cuda->nr_streams == cuda->max_streams) {
		uint32_t max = cuda->max_streams ? cuda->max_streams * 2 : 16;
		struct cuda_stream **table =
			realloc(cuda->stream, max * sizeof(struct cuda_stream *));

		if (!table)
			return -ENOMEM;
		cuda->stream = table;
		cuda->max_streams = max;
	}
	*out = cuda->nr_streams;
	cuda->stream[cuda->nr_streams++] = stream;
	return 0;
}

static void stream_free(struct cuda_stream *stream)
{
	cuda_debug_stream_fini(stream);
	free(stream->event);
	free(stream->time_ns);
	free(stream);
}

int cuda_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		       stream_id_t *out)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_stream *stream;
	int err;

	if (device >= b->desc.nr_devices || kind > BACKEND_COPY_OUT)
		return -EINVAL;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	stream->device = device;
	stream->max_events = FIRST_EVENTS;
	stream->event = calloc(FIRST_EVENTS, sizeof(struct cuda_event *));
	stream->time_ns = calloc(CUDA_TIMES, sizeof(*stream->time_ns));
	err = stream->event && stream->time_ns ? cuda_enter(cuda, device) : -ENOMEM;
	if (err)
		goto err_free;
	err = cuda_error(driver, driver->stream_create(&stream->stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (err)
		goto err_leave;
	pthread_mutex_lock(&cuda->lock);
	err = table_add(cuda, stream, out);
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		goto err_stream;
	cuda_leave(cuda);
	return 0;

err_stream:
	(void)cuda_error(driver, driver->stream_destroy(stream->stream), "cuStreamDestroy");
err_leave:
	cuda_leave(cuda);
err_free:
	stream_free(stream);
	return err;
}

/* ------------------------------------------------------------------ events */

/*
 * An event to record. It is none to sleep on: of those a stream takes 56 (measured on an H200,
 * driver 580.159), then cuEventRecord() waits; of others, and launches, 1,021.
 * NULL: there is none to be had. Lock held, the device's context current.
 */
static struct cuda_event *event_get(struct cuda *cuda, uint32_t device)
{
	struct cuda_event *event = cuda->device[device].free_events;

	if (event) {
		cuda->device[device].free_events = event->next;
		return event;
	}
	event = calloc(1, sizeof(*event));
	if (!event)
		return NULL;
	if (cuda_error(&cuda->driver, cuda->driver.event_create(&event->event, CU_EVENT_DEFAULT),
		       "cuEventCreate")) {
		free(event);
		return NULL;
	}
	return event;
}

static void event_put(struct cuda *cuda, uint32_t device, struct cuda_event *event)
{
	event->next = cuda->device[device].free_events;
	cuda->device[device].free_events = event;
}

/* ------------------------------------------------------------------ waiters */

/* NULL: there is none to be had. Lock held, the device's context current. */
static struct cuda_waiter *waiter_get(struct cuda *cuda, uint32_t device)
{
	const unsigned int flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_waiter *waiter = cuda->device[device].free_waiters;

	if (waiter) {
		cuda->device[device].free_waiters = waiter->next;
		return waiter;
	}
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return NULL;
	if (cuda_error(driver, driver->event_create(&waiter->event, flags), "cuEventCreate"))
		goto err_free;
	if (cuda_error(driver, driver->stream_create(&waiter->stream, CU_STREAM_NON_BLOCKING),
		       "cuStreamCreate"))
		goto err_event;
	return waiter;

err_event:
	(void)cuda_error(driver, driver->event_destroy(waiter->event), "cuEventDestroy");
err_free:
	free(waiter);
	return NULL;
}

static void waiter_put(struct cuda *cuda, uint32_t device, struct cuda_waiter *waiter)
{
	waiter->next = cuda->device[device].free_waiters;
	cuda->device[device].free_waiters = waiter;
}

/* Have the waiter's event be reached after another, which may be recorded anew right away. */
static int waiter_aim(struct cuda *cuda, struct cuda_waiter *waiter, const struct cuda_event *event)
{
	struct cuda_driver *driver = &cuda->driver;
	int err = cuda_error(driver, driver->stream_wait(waiter->stream, event->event, 0),
			     "cuStreamWaitEvent");

	return err ? err
		   : cuda_error(driver, driver->event_record(waiter->event, waiter->stream),
				"cuEventRecord");
}

static void waiters_destroy(struct cuda *cuda, struct cuda_waiter *waiter)
{
	struct cuda_driver *driver = &cuda->driver;

	while (waiter) {
		struct cuda_waiter *next = waiter->next;

		(void)cuda_error(driver, driver->stream_destroy(waiter->stream), "cuStreamDestroy");
		(void)cuda_error(driver, driver->event_destroy(waiter->event), "cuEventDestroy");
		free(waiter);
		waiter = next;
	}
}

/* ------------------------------------------------------------------ times */

/*
 * When a reached event was, by the clock of now_ns(); 0: the driver does not say. The device's
 * clock does not run as the host's does, but the event lies between its record and now: that keeps
 * the two together for as long as the machine is open. *off: it did not.
 */
static uint64_t event_time_ns(struct cuda *cuda, uint32_t device, const struct cuda_event *event,
			      bool *off)
{
	const struct cuda_device *dev = &cuda->device[device];
	uint64_t now = cuda_monotonic_ns() - cuda->start_ns, ns;
	float ms = 0;

	*off = false;
	if (!dev->base ||
	    cuda_error(&cuda->driver,
		       cuda->driver.event_elapsed(&ms, dev->base->event, event->event),
		       "cuEventElapsedTime"))
		return 0;
	ns = dev->base_ns + (uint64_t)(int64_t)((double)ms * 1e6); /* may be before the base */
	*off = (int64_t)(ns - event->recorded_ns) < 0 || (int64_t)(now - ns) < 0;
	if (!*off)
		return ns;
	return (int64_t)(ns - event->recorded_ns) < 0 ? event->recorded_ns : now;
}

/*
 * A fence is reached: keep its time, 0 if that is not known. The event becomes the base of later
 * times when the present base is old or led to a wrong time, else it is used again.
 */
static void event_retire(struct cuda *cuda, struct cuda_stream *stream, uint64_t seq, uint64_t ns,
			 bool rebase)
{
	struct cuda_device *dev = &cuda->device[stream->device];
	struct cuda_event *event = stream->event[seq % stream->max_events];

	stream->time_ns[seq % CUDA_TIMES] = ns;
	stream->event[seq % stream->max_events] = NULL;
	stream->done = seq;
	if (ns && (rebase || ns > dev->base_ns + BASE_MAX_NS)) {
		event_put(cuda, stream->device, dev->base);
		dev->base = event;
		dev->base_ns = ns;
	} else {
		event_put(cuda, stream->device, event);
	}
}

/*
 * Notice which of a stream's fences are reached. An error is the stream's, and kept until it is
 * asked for: what was queued is over. Lock held, the context current.
 * @return whether any but marks are.
 */
static bool stream_retire(struct cuda *cuda, struct cuda_stream *stream)
{
	bool any = false;

	while (stream->done < stream->last) {
		uint64_t seq = stream->done + 1, ns = 0;
		struct cuda_event *event = stream->event[seq % stream->max_events];
		int err = stream->error;
		bool off = false;

		if (!err)
			err = cuda_error(&cuda->driver, cuda->driver.event_query(event->event),
					 "cuEventQuery");
		if (err == -EAGAIN)
			break;
		if (err)
			stream->error = err;
		else
			ns = event_time_ns(cuda, stream->device, event, &off);
		any |= !event->mark;
		event_retire(cuda, stream, seq, ns, off);
	}
	return any;
}

void cuda_streams_retire(struct cuda *cuda, bool *any, bool *waits)
{
	*any = cuda->noticed;
	*waits = cuda->noticed = false;
	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		struct cuda_stream *stream = cuda->stream[i];

		if (stream->done == stream->last)
			continue;
		if (cuda_enter(cuda, stream->device))
			continue;
		*any |= stream_retire(cuda, stream);
		cuda_leave(cuda);
		*waits |= stream->done != stream->last;
	}
}

void cuda_stream_destroy(struct backend *b, stream_id_t id)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_stream *stream;
	cu_stream queue;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	pthread_mutex_unlock(&cuda->lock);
	if (!stream) {
		log_error("cuda: destroying a stream that is none");
		return;
	}
	if (cuda_enter_surely(cuda, stream->device))
		return;
	(void)cuda_error(driver, driver->stream_sync(stream->stream), "cuStreamSynchronize");
	pthread_mutex_lock(&cuda->lock);
	(void)stream_retire(cuda, stream);
	queue = stream->stream;
	stream->stream = NULL;
	cuda_debug_stream_fini(stream);
	pthread_mutex_unlock(&cuda->lock);
	(void)cuda_error(driver, driver->stream_destroy(queue), "cuStreamDestroy");
	cuda_leave(cuda);
}

/* Destroy the events of a list. */
static void events_destroy(struct cuda *cuda, struct cuda_event *event)
{
	while (event) {
		struct cuda_event *next = event->next;

		(void)cuda_error(&cuda->driver, cuda->driver.event_destroy(event->event),
				 "cuEventDestroy");
		free(event);
		event = next;
	}
}

void cuda_streams_fini(struct cuda *cuda)
{
	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		struct cuda_stream *stream = cuda->stream[i];

		for (uint64_t seq = stream->done + 1; seq <= stream->last; seq++)
			event_put(cuda, stream->device, stream->event[seq % stream->max_events]);
		stream_free(stream);
	}
	free(cuda->stream);
	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++) {
		struct cuda_device *dev = &cuda->device[d];

		if (!dev->context || cuda_enter_surely(cuda, d))
			continue;
		if (dev->base) {
			dev->base->next = NULL;
			events_destroy(cuda, dev->base);
		}
		events_destroy(cuda, dev->free_events);
		waiters_destroy(cuda, dev->free_waiters);
		cuda_leave(cuda);
	}
}

int cuda_time_base(struct cuda *cuda, uint32_t device)
{
	struct cuda_device *dev = &cuda->device[device];
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_event *event = event_get(cuda, device);
	uint64_t before = cuda_monotonic_ns();
	int err;

	if (!event)
		return -ENOMEM;
	err = cuda_error(driver, driver->event_record(event->event, NULL), "cuEventRecord");
	if (!err)
		err = cuda_error(driver, driver->event_sync(event->event), "cuEventSynchronize");
	if (err) {
		event_put(cuda, device, event);
		return err;
	}
	dev->base = event;
	/* Before rather than after: no fence then seems to be reached in the future. */
	dev->base_ns = before - cuda->start_ns;
	return 0;
}

/* ------------------------------------------------------------------ fences */

/* Whether there is such a fence. */
static bool fence_exists(const struct cuda *cuda, fence_t fence)
{
	uint64_t id = fence >> SEQ_BITS;

	return !fence || (id < cuda->nr_streams && (fence & SEQ_MASK) <= cuda->stream[id]->last);
}

/* The stream of a fence that is not known to be reached; NULL: it is. */
static struct cuda_stream *fence_stream(const struct cuda *cuda, fence_t fence)
{
	struct cuda_stream *stream = fence ? cuda->stream[fence >> SEQ_BITS] : NULL;

	return stream && (fence & SEQ_MASK) > stream->done ? stream : NULL;
}

/* Whoever asks takes the fence for reached from now on. Returns the error that the stream's work
 * left, once. */
static int tell(const struct cuda *cuda, fence_t fence)
{
	struct cuda_stream *stream = fence ? cuda->stream[fence >> SEQ_BITS] : NULL;
	int err = 0;

	if (stream) {
		err = stream->error;
		stream->error = 0;
		if (stream->told < (fence & SEQ_MASK))
			stream->told = fence & SEQ_MASK;
	}
	return err;
}

/* Room for one more event that is not reached. */
static int ring_reserve(struct cuda_stream *stream)
{
	uint64_t max = stream->max_events * 2;
	struct cuda_event **event;

	if (stream->last - stream->done < stream->max_events)
		return 0;
	event = calloc(max, sizeof(struct cuda_event *));
	if (!event)
		return -ENOMEM;
	for (uint64_t seq = stream->done + 1; seq <= stream->last; seq++)
		event[seq % max] = stream->event[seq % stream->max_events];
	free(stream->event);
	stream->event = event;
	stream->max_events = max;
	return 0;
}

/* Record a fence or a mark. Lock held, the context current. */
static int record(struct cuda *cuda, struct cuda_stream *stream, bool mark, uint64_t *seq)
{
	struct cuda_event *event;
	int err = ring_reserve(stream);

	if (err)
		return err;
	event = event_get(cuda, stream->device);
	if (!event)
		return -ENOMEM;
	event->recorded_ns = cuda_monotonic_ns() - cuda->start_ns;
	err = cuda_error(&cuda->driver, cuda->driver.event_record(event->event, stream->stream),
			 "cuEventRecord");
	if (err) {
		event_put(cuda, stream->device, event);
		return err;
	}
	event->mark = mark;
	*seq = ++stream->last;
	stream->event[*seq % stream->max_events] = event;
	cuda_migrator_wake(cuda);
	return 0;
}

static int fence_queue(struct cuda *cuda, stream_id_t id, bool mark, fence_t *out)
{
	struct cuda_stream *stream;
	uint64_t seq = 0;
	int err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream)
		err = cuda_enter(cuda, stream->device);
	if (!err) {
		err = record(cuda, stream, mark, &seq);
		cuda_leave(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!err)
		*out = (uint64_t)id << SEQ_BITS | seq;
	return err;
}

int cuda_fence_record(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(cuda_of(b), id, false, out);
}

int cuda_fence_mark(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(cuda_of(b), id, true, out);
}

int cuda_fence_done(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_stream *stream;
	int done, err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	if (!fence_exists(cuda, fence))
		goto out;
	stream = fence_stream(cuda, fence);
	err = stream ? cuda_enter(cuda, stream->device) : 0;
	if (err)
		goto out; /* who asks again and again must hear that no answer is to be had */
	if (stream) {
		(void)stream_retire(cuda, stream);
		cuda_leave(cuda);
	}
	done = !fence_stream(cuda, fence);
	err = done ? tell(cuda, fence) : 0;
	err = err ? err : done;
out:
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/* Block until the event of a fence that is not reached is. Lock held on entry and exit, not while
 * it waits. */
static int event_wait(struct cuda *cuda, struct cuda_stream *stream, fence_t fence)
{
	struct cuda_event *event = stream->event[(fence & SEQ_MASK) % stream->max_events];
	struct cuda_waiter *waiter;
	int err = cuda_enter(cuda, stream->device);

	if (err)
		return err;
	waiter = waiter_get(cuda, stream->device);
	err = waiter ? waiter_aim(cuda, waiter, event) : -ENOMEM;
	if (!err) {
		pthread_mutex_unlock(&cuda->lock);
		err = cuda_error(&cuda->driver, cuda->driver.event_sync(waiter->event),
				 "cuEventSynchronize");
		pthread_mutex_lock(&cuda->lock);
	}
	if (waiter)
		waiter_put(cuda, stream->device, waiter);
	(void)stream_retire(cuda, stream);
	cuda_leave(cuda);
	/* What went wrong with the work is found again, and kept, by the query. */
	return stream->done >= (fence & SEQ_MASK) ? 0 : err;
}

int cuda_fence_wait(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_stream *stream;
	int err = -EINVAL, work;

	pthread_mutex_lock(&cuda->lock);
	if (fence_exists(cuda, fence)) {
		stream = fence_stream(cuda, fence);
		err = stream ? event_wait(cuda, stream, fence) : 0;
		work = tell(cuda, fence);
		err = err ? err : work;
	}
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

uint64_t cuda_fence_time_ns(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	uint64_t id = fence >> SEQ_BITS, seq = fence & SEQ_MASK, ns = 0;

	pthread_mutex_lock(&cuda->lock);
	if (fence && fence_exists(cuda, fence)) {
		struct cuda_stream *stream = cuda->stream[id];

		if (fence_stream(cuda, fence) && !cuda_enter(cuda, stream->device)) {
			cuda->noticed |= stream_retire(cuda, stream);
			cuda_leave(cuda);
		}
		if (seq <= stream->done && stream->done - seq < CUDA_TIMES)
			ns = stream->time_ns[seq % CUDA_TIMES];
	}
	pthread_mutex_unlock(&cuda->lock);
	return ns;
}

int cuda_stream_wait(struct backend *b, stream_id_t id, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_stream *stream, *other;
	int err = 0;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	other = fence_exists(cuda, fence) ? fence_stream(cuda, fence) : NULL;
	if (!stream || !fence_exists(cuda, fence))
		err = -EINVAL;
	else if (other && other != stream)
		err = cuda_enter(cuda, stream->device);
	if (!err && other && other != stream) {
		struct cuda_event *event = other->event[(fence & SEQ_MASK) % other->max_events];

		err = cuda_error(&cuda->driver,
				 cuda->driver.stream_wait(stream->stream, event->event, 0),
				 "cuStreamWaitEvent");
		cuda_leave(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	return err;
}
