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

/* A fence: the index of the stream's slot above, the sequence below; sequences begin with 1. */
#define SEQ_BITS 48
#define SEQ_MASK ((UINT64_C(1) << SEQ_BITS) - 1)
/* A stream's id: the same index below, how often the slot was taken above. */
#define INDEX_BITS (64 - SEQ_BITS)
#define INDEX_MASK (MAX_STREAMS - 1)
#define MAX_STREAMS (1u << INDEX_BITS)
#define FIRST_EVENTS 64u
/* Times are counted anew after so long, since the driver gives them as float. */
#define BASE_MAX_NS UINT64_C(2000000000)

/* ------------------------------------------------------------------ streams */

struct cuda_stream *cuda_stream_find(const struct cuda *cuda, stream_id_t id)
{
	uint32_t at = id & INDEX_MASK;
	struct cuda_stream *stream = at < cuda->nr_streams ? cuda->stream[at] : NULL;

	return stream && stream->stream && stream->id == id ? stream : NULL;
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

int cuda_capture_check(struct cuda *cuda, stream_id_t id, cu_stream stream, bool quiet)
{
	int status = CU_CAPTURE_NONE, err;

	cuda_relax(cuda);
	err = cuda_error(&cuda->driver, cuda->driver.stream_capturing(stream, &status),
			 "cuStreamIsCapturing");
	cuda_unrelax(cuda);
	if (err || status == CU_CAPTURE_NONE)
		return err;
	if (!quiet)
		log_error("cuda: stream %u is being captured into a graph: no bracket begins or "
			  "ends there before the capture does, since what brackets place may move "
			  "before the graph runs",
			  id);
	return -WEIR_ECONTRACT;
}

static void slot_free(struct cuda_stream *slot)
{
	cuda_debug_stream_fini(slot);
	free(slot->event);
	free(slot->time_ns);
	free(slot);
}

/* One more slot, at the end of the table. NULL: no memory. */
static struct cuda_stream *slot_add(struct cuda *cuda)
{
	struct cuda_stream *slot;

	if (cuda->nr_streams == cuda->max_streams) {
		uint32_t max = cuda->max_streams ? cuda->max_streams * 2 : 16;
		struct cuda_stream **table =
			realloc(cuda->stream, max * sizeof(struct cuda_stream *));

		if (!table)
			return NULL;
		cuda->stream = table;
		cuda->max_streams = max;
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return NULL;
	slot->max_events = FIRST_EVENTS;
	slot->event = calloc(FIRST_EVENTS, sizeof(struct cuda_event *));
	slot->time_ns = calloc(CUDA_TIMES, sizeof(*slot->time_ns));
	if (!slot->event || !slot->time_ns) {
		slot_free(slot);
		return NULL;
	}
	slot->id = cuda->nr_streams - MAX_STREAMS; /* not taken yet */
	cuda->stream[cuda->nr_streams++] = slot;
	return slot;
}

/* A slot for a new stream: one of a destroyed stream whose fences are all reached, or one more. */
static int slot_get(struct cuda *cuda, struct cuda_stream **out)
{
	for (uint32_t i = 0; i < cuda->nr_streams; i++)
		if (!cuda->stream[i]->stream && cuda->stream[i]->done == cuda->stream[i]->last) {
			*out = cuda->stream[i];
			return 0;
		}
	if (cuda->nr_streams == MAX_STREAMS) {
		log_error("cuda: %u streams are open, as many as there can be: destroy some",
			  MAX_STREAMS);
		return -ENOMEM;
	}
	*out = slot_add(cuda);
	return *out ? 0 : -ENOMEM;
}

/* Put the driver's stream in a slot. Lock held. */
static int slot_take(struct cuda *cuda, cu_stream queue, uint32_t device, stream_id_t *out)
{
	struct cuda_stream *slot;
	int err = slot_get(cuda, &slot);

	if (err)
		return err;
	slot->stream = queue;
	slot->device = device;
	slot->id += MAX_STREAMS;
	slot->first = slot->told = slot->last;
	slot->error = 0;
	*out = slot->id;
	return 0;
}

int cuda_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		       stream_id_t *out)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	cu_stream queue;
	int err;

	if (device >= b->desc.nr_devices || kind > BACKEND_COPY_OUT)
		return -EINVAL;
	err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = cuda_error(driver, driver->stream_create(&queue, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (err)
		goto out;
	pthread_mutex_lock(&cuda->lock);
	err = slot_take(cuda, queue, device, out);
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		(void)cuda_error(driver, driver->stream_destroy(queue), "cuStreamDestroy");
out:
	cuda_leave(cuda);
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

/* -EINVAL says that there is no such fence or stream: what the driver refused is something else. */
static int refusal(int err)
{
	return err == -EINVAL ? -EIO : err;
}

/* What the driver's last answer about a stream's fences was. Refusals one after the other, while
 * somebody waits, are one message. @return 0, or that it was none. */
static int answer_note(struct cuda *cuda, struct cuda_stream *stream, cu_result result,
		       const char *call)
{
	bool again = stream->refused;

	stream->refused = result != CU_SUCCESS && result != CU_NOT_READY && !cuda_is_loss(result);
	if (!stream->refused)
		return 0;
	return refusal(again ? cuda_errno(result) : cuda_error(&cuda->driver, result, call));
}

/*
 * Notice which of a stream's fences are reached: up to `known`, where somebody has waited, those of
 * which the driver says so, and all when the context is lost, since what was queued is over then;
 * that error is the stream's, and kept until it is asked for. Any other error is no answer, and
 * leaves the ring as it is. Lock held.
 * @return 0, or that there was no answer. *any is set when any but marks are reached.
 */
static int stream_retire(struct cuda *cuda, struct cuda_stream *stream, uint64_t known, bool *any)
{
	cu_result result = CU_SUCCESS, entered;
	const char *call = "cuEventQuery";

	if (stream->done == stream->last)
		return 0;
	entered = cuda_push(cuda, stream->device);
	if (entered) {
		result = entered;
		call = "cuCtxPushCurrent";
	}
	while (stream->done < stream->last) {
		uint64_t seq = stream->done + 1, ns = 0;
		struct cuda_event *event = stream->event[seq % stream->max_events];
		bool off = false;

		if (!entered)
			result = seq <= known ? CU_SUCCESS : cuda->driver.event_query(event->event);
		if (result == CU_SUCCESS)
			ns = event_time_ns(cuda, stream->device, event, &off);
		else if (cuda_is_loss(result))
			stream->error = cuda_error(&cuda->driver, result, call);
		else
			break;
		*any |= !event->mark;
		event_retire(cuda, stream, seq, ns, off);
	}
	if (!entered)
		cuda_leave(cuda);
	return answer_note(cuda, stream, result, call);
}

void cuda_streams_retire(struct cuda *cuda, bool *any, bool *waits)
{
	*any = cuda->noticed;
	*waits = cuda->noticed = false;
	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		struct cuda_stream *stream = cuda->stream[i];

		(void)stream_retire(cuda, stream, 0, any);
		*waits |= stream->done != stream->last;
	}
}

void cuda_stream_destroy(struct backend *b, stream_id_t id)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_stream *stream;
	cu_stream queue;
	uint32_t device;
	bool entered, synced;

	if (cuda_stream_get(cuda, id, &queue, &device)) {
		log_error("cuda: destroying a stream that is none");
		return;
	}
	entered = !cuda_enter_surely(cuda, device);
	synced = entered && !cuda_error(driver, driver->stream_sync(queue), "cuStreamSynchronize");
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	(void)stream_retire(cuda, stream, synced ? stream->last : 0, &cuda->noticed);
	stream->stream = NULL;
	cuda_debug_stream_fini(stream);
	pthread_mutex_unlock(&cuda->lock);
	if (!entered)
		return;
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
		slot_free(stream);
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
	cu_stream stream = NULL;
	int err;

	if (!event)
		return -ENOMEM;
	/* The default stream would spoil what the program captures of streams that wait for it. */
	err = cuda_error(driver, driver->stream_create(&stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (!err)
		err = cuda_error(driver, driver->event_record(event->event, stream),
				 "cuEventRecord");
	if (!err)
		err = cuda_error(driver, driver->event_sync(event->event), "cuEventSynchronize");
	if (stream)
		(void)cuda_error(driver, driver->stream_destroy(stream), "cuStreamDestroy");
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

	if (stream && (fence & SEQ_MASK) > stream->first) {
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
		err = refusal(cuda_enter(cuda, stream->device));
	if (!err) {
		/* A fence in a capture would never be reached. */
		err = refusal(cuda_capture_check(cuda, id, stream->stream, mark));
		if (!err)
			err = refusal(record(cuda, stream, mark, &seq));
		cuda_leave(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!err)
		*out = (uint64_t)(id & INDEX_MASK) << SEQ_BITS | seq;
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
	int err = -EINVAL;
	bool any = false;

	pthread_mutex_lock(&cuda->lock);
	if (!fence_exists(cuda, fence))
		goto out;
	stream = fence_stream(cuda, fence);
	err = stream ? stream_retire(cuda, stream, 0, &any) : 0;
	if (!fence_stream(cuda, fence)) {
		err = tell(cuda, fence);
		err = err ? err : 1;
	}
out:
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/* Block until the event of a fence that is not reached is. Lock held on entry and exit, not while
 * it waits. */
static int event_wait(struct cuda *cuda, const struct cuda_stream *stream, fence_t fence)
{
	struct cuda_event *event = stream->event[(fence & SEQ_MASK) % stream->max_events];
	uint32_t device = stream->device; /* the stream may be destroyed meanwhile */
	struct cuda_waiter *waiter;
	int err = cuda_enter(cuda, device);

	if (err)
		return err;
	waiter = waiter_get(cuda, device);
	err = waiter ? waiter_aim(cuda, waiter, event) : -ENOMEM;
	if (!err) {
		pthread_mutex_unlock(&cuda->lock);
		err = cuda_error(&cuda->driver, cuda->driver.event_sync(waiter->event),
				 "cuEventSynchronize");
		pthread_mutex_lock(&cuda->lock);
	}
	if (waiter)
		waiter_put(cuda, device, waiter);
	cuda_leave(cuda);
	return err;
}

int cuda_fence_wait(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_stream *stream;
	int err = -EINVAL, asked;
	bool any = false;

	pthread_mutex_lock(&cuda->lock);
	if (!fence_exists(cuda, fence))
		goto out;
	stream = fence_stream(cuda, fence);
	err = stream ? refusal(event_wait(cuda, stream, fence)) : 0;
	if (stream) {
		asked = stream_retire(cuda, stream, err ? 0 : fence & SEQ_MASK, &any);
		err = err ? err : asked;
	}
	/* Reached: what counts is how the work went, not how the wait did. */
	if (!fence_stream(cuda, fence))
		err = tell(cuda, fence);
out:
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

		if (fence_stream(cuda, fence))
			(void)stream_retire(cuda, stream, 0, &cuda->noticed);
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

		err = cuda_capture_check(cuda, id, stream->stream, false);
		if (!err)
			err = cuda_error(&cuda->driver,
					 cuda->driver.stream_wait(stream->stream, event->event, 0),
					 "cuStreamWaitEvent");
		cuda_leave(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/* Make a stream wait for a point of the native one, through an event that is there no longer than
 * the calls: the driver keeps what it needs. The native stream's context is current. */
static int wait_by_event(struct cuda *cuda, cu_stream stream, cu_stream native)
{
	struct cuda_driver *driver = &cuda->driver;
	cu_event event;
	int err = cuda_error(driver, driver->event_create(&event, CU_EVENT_DISABLE_TIMING),
			     "cuEventCreate");

	if (err)
		return err;
	err = cuda_error(driver, driver->event_record(event, native), "cuEventRecord");
	if (!err)
		err = cuda_error(driver, driver->stream_wait(stream, event, 0),
				 "cuStreamWaitEvent");
	(void)cuda_undo_error(driver, driver->event_destroy(event), "cuEventDestroy");
	return err;
}

int cuda_stream_wait_native(struct backend *b, stream_id_t id, void *native)
{
	struct cuda *cuda = cuda_of(b);
	cu_context context;
	cu_stream stream;
	uint32_t device;
	int err = cuda_stream_get(cuda, id, &stream, &device);

	if (!err)
		err = cuda_enter(cuda, device);
	if (err)
		return err;
	err = cuda_capture_check(cuda, id, stream, false);
	if (!err)
		err = cuda_capture_check(cuda, id, native, false);
	if (!err)
		err = cuda_error(&cuda->driver, cuda->driver.stream_context(native, &context),
				 "cuStreamGetCtx");
	if (!err)
		err = cuda_error(&cuda->driver, cuda->driver.context_push(context),
				 "cuCtxPushCurrent");
	if (!err) {
		err = wait_by_event(cuda, stream, native);
		(void)cuda_error(&cuda->driver, cuda->driver.context_pop(&context),
				 "cuCtxPopCurrent");
	}
	cuda_leave(cuda);
	return err;
}
