/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, in slots, and what of them is reached. A fence is an event until it is known to be
 * reached. Then the event is used again; one that is timed, once its time was asked for or nobody
 * can ask any more. Events of a stream are reached in order, so that one number says which are;
 * those of the default streams of threads, which have one name, count as reached in the order in
 * which they were recorded.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/util.h"

#define FIRST_EVENTS 64u

struct cuda_stream *cuda_stream_find(const struct cuda *cuda, stream_id_t id)
{
	uint32_t at = id % CUDA_MAX_STREAMS;
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

int cuda_calls_begin(struct backend *b, stream_id_t id)
{
	struct cuda *cuda = cuda_of(b);
	uint32_t device;
	cu_stream stream;
	int err = cuda_stream_get(cuda, id, &stream, &device);

	return err ? err : cuda_enter(cuda, device);
}

void cuda_calls_end(struct backend *b)
{
	cuda_leave(cuda_of(b));
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

/* Forget a stream's brackets, of debug mode. Lock held, or nobody else there. */
static void brackets_free(struct cuda_stream *stream)
{
	struct access_bracket **lists[] = {&stream->open, &stream->ended};

	for (int i = 0; i < 2; i++)
		while (*lists[i]) {
			struct access_bracket *bracket = *lists[i];

			*lists[i] = bracket->outer;
			access_bracket_free(bracket);
		}
}

static void slot_free(struct cuda_stream *slot)
{
	brackets_free(slot);
	free(slot->event);
	free(slot->time);
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
	slot->time = calloc(CUDA_TIMES, sizeof(*slot->time));
	if (!slot->event || !slot->time) {
		slot_free(slot);
		return NULL;
	}
	slot->id = cuda->nr_streams - CUDA_MAX_STREAMS; /* not taken yet */
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
	if (cuda->nr_streams == CUDA_MAX_STREAMS) {
		log_error("cuda: %u streams are open, as many as there can be: destroy some",
			  CUDA_MAX_STREAMS);
		return -ENOMEM;
	}
	*out = slot_add(cuda);
	return *out ? 0 : -ENOMEM;
}

/* Put the driver's stream in a slot. Lock held. */
static int slot_take(struct cuda *cuda, cu_stream queue, bool adopted, uint32_t device,
		     stream_id_t *out)
{
	struct cuda_stream *slot;
	int err = slot_get(cuda, &slot);

	if (err)
		return err;
	slot->stream = queue;
	slot->adopted = adopted;
	slot->threads = queue == CU_STREAM_PER_THREAD;
	slot->device = device;
	slot->id += CUDA_MAX_STREAMS;
	slot->first = slot->told = slot->last;
	slot->error = 0;
	*out = slot->id;
	return 0;
}

/* A stream of the driver's; of the highest priority for what goes before other kernels. */
static int queue_create(struct cuda_driver *driver, enum backend_stream_kind kind, cu_stream *out)
{
	int least, highest = 0;
	int err;

	if (kind != BACKEND_URGENT)
		return cuda_error(driver, driver->stream_create(out, CU_STREAM_NON_BLOCKING),
				  "cuStreamCreate");
	err = cuda_error(driver, driver->stream_priorities(&least, &highest),
			 "cuCtxGetStreamPriorityRange");
	return err ? err
		   : cuda_error(
			     driver,
			     driver->stream_create_priority(out, CU_STREAM_NON_BLOCKING, highest),
			     "cuStreamCreateWithPriority");
}

int cuda_stream_create(struct backend *b, uint32_t device, enum backend_stream_kind kind,
		       stream_id_t *out)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	cu_stream queue;
	int err;

	if (device >= b->desc.nr_devices || kind > BACKEND_URGENT)
		return -EINVAL;
	err = cuda_device_enter(cuda, device);
	if (err)
		return err;
	err = queue_create(driver, kind, &queue);
	if (err)
		goto out;
	pthread_mutex_lock(&cuda->lock);
	err = slot_take(cuda, queue, false, device, out);
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		(void)cuda_error(driver, driver->stream_destroy(queue), "cuStreamDestroy");
out:
	cuda_leave(cuda);
	return err;
}

int cuda_stream_adopt(struct backend *b, uint32_t device, void *native, stream_id_t *out)
{
	struct cuda *cuda = cuda_of(b);
	cu_context context;
	int err = device < b->desc.nr_devices ? cuda_device_enter(cuda, device) : -EINVAL;

	if (err)
		return err;
	err = cuda_error(&cuda->driver, cuda->driver.stream_context(native, &context),
			 "cuStreamGetCtx");
	if (!err && context != cuda->device[device].context) {
		log_error("cuda: the stream %p is not of the primary context of device %u: weir "
			  "uses no other",
			  native, device);
		err = -EINVAL;
	}
	if (!err) {
		pthread_mutex_lock(&cuda->lock);
		err = slot_take(cuda, native, true, device, out);
		pthread_mutex_unlock(&cuda->lock);
	}
	cuda_leave(cuda);
	return err;
}

/*
 * A fence is reached: what is known of its time is kept, in place of an older one's. lost: the
 * driver says nothing of it any more. The context is current unless it is lost.
 */
static void event_retire(struct cuda *cuda, struct cuda_stream *stream, uint64_t seq, bool lost)
{
	struct cuda_event *event = stream->event[seq % stream->max_events];
	struct cuda_time *time = &stream->time[seq % CUDA_TIMES];

	if (time->event)
		cuda_event_put(cuda, time->event);
	*time = (struct cuda_time){0};
	stream->event[seq % stream->max_events] = NULL;
	stream->done = seq;
	if (lost || !event->timed) {
		cuda_event_put(cuda, event);
		return;
	}
	event->noticed_ns = clock_now_ns() - cuda->start_ns;
	if (cuda_event_is_far(cuda, event))
		time->ns = cuda_event_time_ns(cuda, event);
	else
		time->event = event;
}

int cuda_refusal(int err)
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
	return cuda_refusal(again ? cuda_errno(result) : cuda_error(&cuda->driver, result, call));
}

/*
 * The last of the stream's fences that is reached, of which those up to `known` are. They are
 * reached in order: the oldest is asked for first, then the newest, then what is between. *result:
 * what the driver said of the next one; of none, success.
 */
static uint64_t find_reached(struct cuda *cuda, const struct cuda_stream *stream, uint64_t known,
			     cu_result *result)
{
	uint64_t reached = stream->threads ? stream->done : MAX(known, stream->done);
	uint64_t not_reached = stream->last + 1;

	*result = CU_SUCCESS;
	for (uint64_t ask = reached > stream->done ? stream->last : reached + 1;
	     reached + 1 < not_reached;) {
		const cu_result said =
			cuda->driver.event_query(stream->event[ask % stream->max_events]->event);
		const bool was_oldest = ask == stream->done + 1;

		if (said == CU_SUCCESS)
			reached = ask;
		else
			not_reached = ask;
		if (said != CU_SUCCESS)
			*result = said;
		if (stream->threads)
			ask = reached + 1;
		else
			ask = was_oldest && said == CU_SUCCESS
				      ? stream->last
				      : reached + (not_reached - reached) / 2;
	}
	return reached;
}

int cuda_stream_retire(struct cuda *cuda, struct cuda_stream *stream, uint64_t known, bool *any)
{
	cu_result result = CU_SUCCESS, entered;
	const char *call = "cuEventQuery";

	if (stream->done == stream->last)
		return 0;
	entered = cuda_push(cuda, stream->device);
	if (entered) {
		result = entered;
		call = "cuCtxPushCurrent";
		known = 0;
	} else {
		known = find_reached(cuda, stream, known, &result);
	}
	while (stream->done < stream->last) {
		uint64_t seq = stream->done + 1;

		if (seq > known && !cuda_is_loss(result))
			break;
		if (seq > known)
			stream->error = cuda_error(&cuda->driver, result, call);
		*any |= !stream->event[seq % stream->max_events]->mark;
		event_retire(cuda, stream, seq, seq > known);
	}
	if (!entered)
		cuda_leave(cuda);
	return answer_note(cuda, stream, result, call);
}

/*
 * Ask for a stream's oldest fence without the lock, which the program's threads want meanwhile: an
 * event is used again only once its fence is retired, and destroyed with the machine. Lock held on
 * entry and exit.
 */
static void stream_look(struct cuda *cuda, struct cuda_stream *stream, bool *any)
{
	const uint64_t seq = stream->done + 1;
	const uint32_t device = stream->device;
	cu_event event;
	cu_result said;

	if (stream->done == stream->last)
		return;
	event = stream->event[seq % stream->max_events]->event;
	pthread_mutex_unlock(&cuda->lock);
	said = cuda_push(cuda, device);
	if (!said) {
		said = cuda->driver.event_query(event);
		cuda_leave(cuda);
	}
	pthread_mutex_lock(&cuda->lock);
	if (stream->done < seq && said != CU_NOT_READY)
		(void)cuda_stream_retire(cuda, stream, said ? 0 : seq, any);
}

void cuda_streams_retire(struct cuda *cuda, bool *any, bool *waits)
{
	const uint64_t begin = clock_now_ns();

	*any = *waits = false;
	for (uint32_t i = 0; i < cuda->nr_streams; i++)
		stream_look(cuda, cuda->stream[i], any);
	cuda->looked_ns = begin;
	/* Only now: others had the lock. */
	for (uint32_t i = 0; i < cuda->nr_streams; i++)
		*waits |= cuda->stream[i]->done != cuda->stream[i]->last;
	*any |= cuda->noticed;
	cuda->noticed = false;
}

void cuda_stream_destroy(struct backend *b, stream_id_t id)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_stream *stream;
	cu_stream queue;
	uint32_t device;
	bool entered, synced, adopted;

	if (cuda_stream_get(cuda, id, &queue, &device)) {
		log_error("cuda: destroying a stream that is none");
		return;
	}
	entered = !cuda_enter_surely(cuda, device);
	synced = entered && !cuda_error(driver, driver->stream_sync(queue), "cuStreamSynchronize");
	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	(void)cuda_stream_retire(cuda, stream, synced ? stream->last : 0, &cuda->noticed);
	cuda->waited_ns = synced ? clock_now_ns() : cuda->waited_ns;
	adopted = stream->adopted;
	stream->stream = NULL;
	brackets_free(stream);
	pthread_mutex_unlock(&cuda->lock);
	if (!entered)
		return;
	if (!adopted)
		(void)cuda_error(driver, driver->stream_destroy(queue), "cuStreamDestroy");
	cuda_leave(cuda);
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

void cuda_streams_fini(struct cuda *cuda)
{
	for (uint32_t i = 0; i < cuda->nr_streams; i++) {
		struct cuda_stream *stream = cuda->stream[i];

		for (uint64_t seq = stream->done + 1; seq <= stream->last; seq++)
			cuda_event_put(cuda, stream->event[seq % stream->max_events]);
		for (uint32_t t = 0; t < CUDA_TIMES; t++)
			if (stream->time[t].event)
				cuda_event_put(cuda, stream->time[t].event);
		slot_free(stream);
	}
	free(cuda->stream);
}
