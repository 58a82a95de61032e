/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences as the boundary names them: the index of the stream's slot above, the sequence below;
 * sequences begin with 1.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/clock.h"
#include "src/base/util.h"

#define SEQ_MASK ((UINT64_C(1) << CUDA_SEQ_BITS) - 1)

/* How a thread waits that stays awake: see waiter_poll(). */
#define POLL_PART 32
#define POLL_NS UINT64_C(1000)
#define POLL_MAX_NS UINT64_C(2000000)

/* Whether there is such a fence. */
static bool fence_exists(const struct cuda *cuda, fence_t fence)
{
	uint64_t id = fence >> CUDA_SEQ_BITS;

	return !fence || (id < cuda->nr_streams && (fence & SEQ_MASK) <= cuda->stream[id]->last);
}

/* The stream of a fence that is not known to be reached; NULL: it is. */
static struct cuda_stream *fence_stream(const struct cuda *cuda, fence_t fence)
{
	struct cuda_stream *stream = fence ? cuda->stream[fence >> CUDA_SEQ_BITS] : NULL;

	return stream && (fence & SEQ_MASK) > stream->done ? stream : NULL;
}

/* Whoever asks takes the fence for reached from now on. Returns the error that the stream's work
 * left, once. */
static int tell(const struct cuda *cuda, fence_t fence)
{
	struct cuda_stream *stream = fence ? cuda->stream[fence >> CUDA_SEQ_BITS] : NULL;
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

/* A fence was recorded: the migrator looks out for it. Lock held. */
static void migrator_wake(struct cuda *cuda)
{
	if (cuda->running)
		pthread_cond_signal(&cuda->wake);
}

/* What is recorded. */
enum fence_kind { FENCE, FENCE_UNTIMED, FENCE_MARK };

/* Record a fence. Lock held, the context current. */
static int record(struct cuda *cuda, struct cuda_stream *stream, enum fence_kind kind,
		  uint64_t *seq)
{
	struct cuda_event *event;
	int err = ring_reserve(stream);

	if (err)
		return err;
	err = cuda_event_get(cuda, stream->device, kind != FENCE_UNTIMED, &event);
	if (err)
		return err;
	event->recorded_ns = event->timed ? clock_now_ns() - cuda->start_ns : 0;
	err = cuda_error(&cuda->driver, cuda->driver.event_record(event->event, stream->stream),
			 "cuEventRecord");
	if (err) {
		cuda_event_put(cuda, event);
		return err;
	}
	event->mark = kind == FENCE_MARK;
	*seq = ++stream->last;
	stream->event[*seq % stream->max_events] = event;
	migrator_wake(cuda);
	return 0;
}

static int fence_queue(struct cuda *cuda, stream_id_t id, enum fence_kind kind, fence_t *out)
{
	struct cuda_stream *stream;
	uint64_t seq = 0;
	int err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	stream = cuda_stream_find(cuda, id);
	if (stream)
		err = cuda_refusal(cuda_enter(cuda, stream->device));
	if (!err) {
		/* A fence in a capture would never be reached. */
		err = cuda_refusal(
			cuda_capture_check(cuda, id, stream->stream, kind == FENCE_MARK));
		if (!err)
			err = cuda_refusal(record(cuda, stream, kind, &seq));
		cuda_leave(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!err)
		*out = (uint64_t)(id % CUDA_MAX_STREAMS) << CUDA_SEQ_BITS | seq;
	return err;
}

int cuda_fence_record(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(cuda_of(b), id, FENCE, out);
}

int cuda_fence_untimed(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(cuda_of(b), id, FENCE_UNTIMED, out);
}

int cuda_fence_mark(struct backend *b, stream_id_t id, fence_t *out)
{
	return fence_queue(cuda_of(b), id, FENCE_MARK, out);
}

/* What is known of a fence; ask: after asking the driver, if it is not known to be reached. */
static int fence_answer(struct cuda *cuda, fence_t fence, bool ask)
{
	struct cuda_stream *stream;
	int err = -EINVAL;
	bool any = false;

	if (!fence_exists(cuda, fence))
		return err;
	stream = fence_stream(cuda, fence);
	err = stream && (ask || stream->refused) ? cuda_stream_retire(cuda, stream, 0, &any) : 0;
	if (!fence_stream(cuda, fence)) {
		err = tell(cuda, fence);
		err = err ? err : 1;
	}
	return err;
}

int cuda_fence_done(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	int answer;

	pthread_mutex_lock(&cuda->lock);
	answer = fence_answer(cuda, fence, true);
	pthread_mutex_unlock(&cuda->lock);
	return answer;
}

/*
 * Whether the migrator has looked at all streams a moment ago, and nobody has waited for anything
 * since, who would want to know at once what that was behind. To ask costs a call of the driver
 * (0.9 us, measured on an H200 while four GPUs are kept busy), and brackets ask many times. Lock
 * held.
 */
static bool was_just_looked(const struct cuda *cuda)
{
	return cuda->looked_ns > cuda->waited_ns &&
	       clock_now_ns() - cuda->looked_ns < 2 * CUDA_LOOK_NS;
}

int cuda_fence_seen(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	int answer;

	pthread_mutex_lock(&cuda->lock);
	answer = fence_answer(cuda, fence, !was_just_looked(cuda));
	pthread_mutex_unlock(&cuda->lock);
	return answer;
}

/*
 * Ask for a waiter's event for a while before a thread sleeps for it, which wakes 50 to 200 us late
 * (H200, driver 580): each time after POLL_PART more of the time that passed so far, so that a wait
 * is too long by that part and takes fewer than 200 calls.
 */
static void waiter_poll(struct cuda *cuda, const struct cuda_waiter *waiter)
{
	const uint64_t begin_ns = clock_now_ns();
	uint64_t now_ns = begin_ns, next_ns;

	/* A question that is refused ends it, too: the wait that follows says what is wrong. */
	while (now_ns - begin_ns < POLL_MAX_NS &&
	       cuda->driver.event_query(waiter->event) == CU_NOT_READY) {
		next_ns = now_ns + MAX((now_ns - begin_ns) / POLL_PART, POLL_NS);
		do {
			sched_yield();
			now_ns = clock_now_ns();
		} while (now_ns < next_ns);
	}
}

/* Block until the event of a fence that is not reached is. Lock held on entry and exit, not while
 * it waits. */
static int event_wait(struct cuda *cuda, const struct cuda_stream *stream, fence_t fence,
		      bool awake)
{
	struct cuda_event *event = stream->event[(fence & SEQ_MASK) % stream->max_events];
	uint32_t device = stream->device; /* the stream may be destroyed meanwhile */
	struct cuda_waiter *waiter = NULL;
	int err = cuda_enter(cuda, device);

	if (err)
		return err;
	err = cuda_waiter_get(cuda, device, &waiter);
	if (!err)
		err = cuda_waiter_aim(cuda, waiter, event);
	if (!err) {
		pthread_mutex_unlock(&cuda->lock);
		if (awake)
			waiter_poll(cuda, waiter);
		err = cuda_error(&cuda->driver, cuda->driver.event_sync(waiter->event),
				 "cuEventSynchronize");
		pthread_mutex_lock(&cuda->lock);
	}
	if (waiter)
		cuda_waiter_put(cuda, device, waiter);
	cuda_leave(cuda);
	return err;
}

static int wait_for(struct backend *b, fence_t fence, bool awake)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_stream *stream;
	int err = -EINVAL, asked;

	pthread_mutex_lock(&cuda->lock);
	if (!fence_exists(cuda, fence))
		goto out;
	stream = fence_stream(cuda, fence);
	err = stream ? cuda_refusal(event_wait(cuda, stream, fence, awake)) : 0;
	if (stream) {
		/* Who waits may be the program, and what is reached be of interest to a space. */
		asked = cuda_stream_retire(cuda, stream, err ? 0 : fence & SEQ_MASK,
					   &cuda->noticed);
		err = err ? err : asked;
	}
	cuda->waited_ns = clock_now_ns();
	/* Reached: what counts is how the work went, not how the wait did. */
	if (!fence_stream(cuda, fence))
		err = tell(cuda, fence);
out:
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

int cuda_fence_wait(struct backend *b, fence_t fence)
{
	return wait_for(b, fence, false);
}

int cuda_fence_wait_awake(struct backend *b, fence_t fence)
{
	return wait_for(b, fence, true);
}

/* Ask the driver for it, the first time. Lock held. */
static uint64_t time_of(struct cuda *cuda, struct cuda_time *time)
{
	if (time->event && !cuda_push(cuda, time->event->device)) {
		time->ns = cuda_event_time_ns(cuda, time->event);
		time->event = NULL;
		cuda_leave(cuda);
	}
	return time->ns;
}

uint64_t cuda_fence_time_ns(struct backend *b, fence_t fence)
{
	struct cuda *cuda = cuda_of(b);
	uint64_t id = fence >> CUDA_SEQ_BITS, seq = fence & SEQ_MASK, ns = 0;

	pthread_mutex_lock(&cuda->lock);
	if (fence && fence_exists(cuda, fence)) {
		struct cuda_stream *stream = cuda->stream[id];

		if (fence_stream(cuda, fence))
			(void)cuda_stream_retire(cuda, stream, 0, &cuda->noticed);
		if (seq <= stream->done && stream->done - seq < CUDA_TIMES)
			ns = time_of(cuda, &stream->time[seq % CUDA_TIMES]);
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
