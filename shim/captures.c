/* SPDX-License-Identifier: Apache-2.0 */
/* See captures.h. */
#include "shim/captures.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "shim/memory.h"
#include "src/base/clock.h"

#define CAPTURES_MAX 64u
/* How long a capture's begin waits for who waits: until that one is inside the driver for sure. */
#define ENTER_NS 10000000u
#define PAUSE_NS 50000

/* A capture under way, by the stream that it began on. */
struct capture {
	cu_stream stream;
	cu_context context; /* the current one when it began */
	const char *thread; /* whose default stream it is; NULL: the stream is no thread's */
};

static struct {
	pthread_mutex_t lock;
	struct capture capture[CAPTURES_MAX];
	uint32_t nr;
	uint32_t nr_beginning, nr_syncing;
	bool unknown;	 /* there were too many to note: some may be under way for ever */
	atomic_bool any; /* of all that: written with the lock */
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Its address tells threads apart. */
static _Thread_local char thread_mark;

/* Lock held: something changed. */
static void note_any(void)
{
	atomic_store(&captures.any, captures.nr || captures.nr_beginning || captures.unknown);
}

bool captures_are_none(void)
{
	return !atomic_load(&captures.any);
}

static const char *thread_of(cu_stream stream)
{
	return stream == CU_STREAM_PER_THREAD ? &thread_mark : NULL;
}

void captures_begin(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const uint64_t since_ns = clock_now_ns();

	pthread_mutex_lock(&captures.lock);
	while (captures.nr_syncing && clock_now_ns() - since_ns < ENTER_NS) {
		pthread_mutex_unlock(&captures.lock);
		(void)nanosleep(&pause, NULL);
		pthread_mutex_lock(&captures.lock);
	}
	captures.nr_beginning++;
	note_any();
	pthread_mutex_unlock(&captures.lock);
	/* What is recorded on a stream that is captured is part of the graph. */
	memory_fence_all();
}

void captures_begun(cu_stream stream, bool began)
{
	struct capture capture = {.stream = stream, .thread = thread_of(stream)};

	if (real.cuCtxGetCurrent(&capture.context))
		capture.context = NULL;
	pthread_mutex_lock(&captures.lock);
	captures.nr_beginning--;
	if (began && captures.nr < CAPTURES_MAX)
		captures.capture[captures.nr++] = capture;
	else if (began)
		captures.unknown = true;
	note_any();
	pthread_mutex_unlock(&captures.lock);
}

/* Forget those of a stream, or of a context. */
static void forget(const struct capture *gone)
{
	pthread_mutex_lock(&captures.lock);
	for (uint32_t c = 0; c < captures.nr;) {
		const struct capture *capture = &captures.capture[c];
		const bool is = gone->context ? capture->context == gone->context
					      : capture->stream == gone->stream &&
							capture->thread == gone->thread;

		if (is)
			captures.capture[c] = captures.capture[--captures.nr];
		else
			c++;
	}
	note_any();
	pthread_mutex_unlock(&captures.lock);
}

void captures_ended(cu_stream stream)
{
	int status = CU_CAPTURE_NONE;

	/* A call that was refused may have left it under way. */
	if (!real.cuStreamIsCapturing(stream, &status) && status != CU_CAPTURE_NONE)
		return;
	captures_stream_ends(stream);
}

void captures_stream_ends(cu_stream stream)
{
	forget(&(struct capture){.stream = stream, .thread = thread_of(stream)});
}

void captures_context_ends(cu_context context)
{
	forget(&(struct capture){.context = context});
}

bool captures_wait_begin(bool unless_unknown)
{
	bool is_quiet;

	pthread_mutex_lock(&captures.lock);
	is_quiet = !captures.nr && !captures.nr_beginning && !(captures.unknown && unless_unknown);
	captures.nr_syncing += is_quiet;
	pthread_mutex_unlock(&captures.lock);
	return is_quiet;
}

void captures_wait_end(void)
{
	pthread_mutex_lock(&captures.lock);
	captures.nr_syncing--;
	pthread_mutex_unlock(&captures.lock);
}

cu_result captures_sync(void)
{
	cu_result result;

	if (!captures_wait_begin(true))
		return CU_CAPTURE_UNSUPPORTED;
	result = real.cuCtxSynchronize();
	captures_wait_end();
	return result;
}
