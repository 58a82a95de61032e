/* SPDX-License-Identifier: Apache-2.0 */
/* A table of streams, searched from its begin: programs have few of them. See streams.h. */
#include "shim/streams.h"

#include <errno.h>
#include <stdlib.h>

#include "shim/summary.h"
#include "src/base/util.h"
#include "weir/weir.h"

#define STREAMS_MAX 4096u

struct stream_entry {
	cu_stream native;
	struct weir_stream *adopted; /* NULL: it is of another context */
	bool ends;		     /* destroyed by the program before its work was done */
};

/* A stream of weir's own. When the thread has ended, another one may have its mark, and the
 * stream. */
struct stream_own {
	const char *thread; /* its mark */
	struct weir_stream *stream;
};

/* Its address tells threads apart. */
static _Thread_local char thread_mark;

/* ------------------------------------------------------------------ what the driver says */

bool streams_is_queue(cu_stream native)
{
	int status = CU_CAPTURE_NONE;

	return !real.cuStreamIsCapturing(native, &status) && status == CU_CAPTURE_NONE;
}

cu_result streams_query(cu_stream native)
{
	cu_result result;
	int mode;

	if (!real.cuStreamQuery)
		return CU_SUCCESS;
	/* This one, too, reports what happened to earlier work. */
	result = hook_relax(&mode);
	if (result)
		return result == CU_NOT_SUPPORTED ? CU_SUCCESS : result;
	result = real.cuStreamQuery(native);
	hook_unrelax(mode);
	return result;
}

/* What is said of captures is no fault of a kernel. */
static bool is_fault(cu_result said)
{
	return said && said != CU_NOT_READY &&
	       (said < CU_CAPTURE_UNSUPPORTED || said > CU_CAPTURE_WRONG_THREAD);
}

bool streams_is_fault(cu_result result)
{
	return result == CU_ILLEGAL_ADDRESS || result == CU_LAUNCH_TIMEOUT || result == CU_ASSERT ||
	       (result >= CU_HARDWARE_STACK_ERROR && result <= CU_LAUNCH_FAILED);
}

cu_result streams_result(int err, cu_stream native)
{
	cu_result said;

	if (!err)
		return CU_SUCCESS;
	said = streams_query(native);
	if (is_fault(said))
		return summary_note_result(said);
	return err == -ENOMEM ? CU_OUT_OF_MEMORY : CU_OPERATING_SYSTEM;
}

/* Whether work of a stream is not done. */
static bool is_busy(cu_stream native)
{
	return streams_query(native) == CU_NOT_READY;
}

cu_result streams_sync(cu_device device)
{
	cu_context current = NULL, primary = NULL, popped;
	cu_result result = real.cuCtxSynchronize();

	if (result || real.cuCtxGetCurrent(&current) ||
	    real.cuDevicePrimaryCtxRetain(&primary, device))
		return result;
	if (current != primary) {
		result = real.cuCtxPushCurrent_v2(primary);
		if (!result) {
			result = real.cuCtxSynchronize();
			(void)real.cuCtxPopCurrent_v2(&popped);
		}
	}
	(void)real.cuDevicePrimaryCtxRelease_v2(device);
	return result;
}

/* ------------------------------------------------------------------ finding */

static struct stream_entry *find(struct streams *streams, cu_stream native)
{
	for (uint32_t s = 0; s < streams->nr; s++)
		if (streams->entry[s].native == native)
			return &streams->entry[s];
	return NULL;
}

/* NULL: no memory, or far too many. */
static struct stream_entry *add(struct streams *streams, cu_stream native)
{
	struct stream_entry *entry;

	if (streams->nr == streams->max) {
		uint32_t max = MAX(16u, 2 * streams->max);
		struct stream_entry *more = NULL;

		if (max <= STREAMS_MAX)
			more = realloc(streams->entry, max * sizeof(*more));
		if (!more)
			return NULL;
		streams->entry = more;
		streams->max = max;
	}
	entry = &streams->entry[streams->nr++];
	*entry = (struct stream_entry){.native = native};
	if (weir_stream_adopt(streams->machine, streams->gpu, native, &entry->adopted))
		entry->adopted = NULL;
	return entry;
}

struct weir_stream *streams_known(struct streams *streams, cu_stream native)
{
	struct stream_entry *entry = find(streams, native);

	return entry ? entry->adopted : NULL;
}

struct weir_stream *streams_find(struct streams *streams, cu_stream native)
{
	struct stream_entry *entry = find(streams, native);

	if (!entry)
		entry = add(streams, native);
	return entry ? entry->adopted : NULL;
}

/* Whether the calling thread means another stream by the name: the default one of another
 * context. */
static bool is_another(const struct streams *streams, cu_stream native)
{
	const bool preset = native == CU_STREAM_LEGACY || native == CU_STREAM_PER_THREAD;
	cu_context current = NULL;

	return preset && (real.cuCtxGetCurrent(&current) || current != streams->primary);
}

struct weir_stream *streams_find_used(struct streams *streams, cu_stream native)
{
	return is_another(streams, native) ? NULL : streams_find(streams, native);
}

struct weir_stream *streams_own(struct streams *streams)
{
	struct stream_own *more;

	for (uint32_t o = 0; o < streams->nr_own; o++)
		if (streams->own[o].thread == &thread_mark)
			return streams->own[o].stream;
	more = realloc(streams->own, (streams->nr_own + 1) * sizeof(*more));
	if (more) {
		streams->own = more;
		more += streams->nr_own;
		more->thread = &thread_mark;
		if (!weir_stream_create(streams->machine, streams->gpu, &more->stream)) {
			streams->nr_own++;
			return more->stream;
		}
	}
	/* Another thread's, which may have to wait. */
	return streams->nr_own ? streams->own[0].stream : NULL;
}

/* A thread's default stream has the same name in all threads, so the space would take another
 * thread's next allocation for one that comes after this thread's work. */
struct weir_stream *streams_find_behind(struct streams *streams, cu_stream native)
{
	struct weir_stream *own = streams_find_used(streams, native);

	if (!own || native != CU_STREAM_PER_THREAD)
		return own;
	if (!streams->threads &&
	    weir_stream_create(streams->machine, streams->gpu, &streams->threads))
		streams->threads = NULL;
	return streams->threads && !weir_stream_wait(streams->threads, own) ? streams->threads
									    : NULL;
}

/* ------------------------------------------------------------------ ending */

static void take(struct streams *streams, struct stream_entry *entry, struct stream_gone *gone)
{
	*gone = (struct stream_gone){entry->native, entry->adopted};
	*entry = streams->entry[--streams->nr];
}

bool streams_end(struct streams *streams, cu_stream native, struct stream_gone *gone)
{
	struct stream_entry *entry = find(streams, native);

	if (!entry) {
		*gone = (struct stream_gone){.native = native};
		return false;
	}
	entry->ends = entry->adopted && streams_is_queue(native) && is_busy(native);
	if (!entry->ends)
		take(streams, entry, gone);
	return entry->ends;
}

bool streams_take_idle(struct streams *streams, uint32_t *from, struct stream_gone *gone)
{
	for (; *from < streams->nr; ++*from) {
		struct stream_entry *entry = &streams->entry[*from];

		if (entry->ends && !is_busy(entry->native)) {
			take(streams, entry, gone);
			return true;
		}
	}
	return false;
}

cu_stream streams_next_idle(const struct streams *streams, uint32_t *from)
{
	while (*from < streams->nr) {
		const cu_stream native = streams->entry[(*from)++].native;

		if (!is_another(streams, native) && streams_is_queue(native) && !is_busy(native))
			return native;
	}
	return NULL;
}

void streams_forget_others(struct streams *streams)
{
	uint32_t kept = 0;

	for (uint32_t s = 0; s < streams->nr; s++)
		if (streams->entry[s].adopted)
			streams->entry[kept++] = streams->entry[s];
	streams->nr = kept;
}

void streams_fini(struct streams *streams)
{
	for (uint32_t s = 0; s < streams->nr; s++)
		weir_stream_destroy(streams->entry[s].adopted);
	for (uint32_t o = 0; o < streams->nr_own; o++)
		weir_stream_destroy(streams->own[o].stream);
	weir_stream_destroy(streams->threads);
	free(streams->own);
	free(streams->entry);
	*streams = (struct streams){0};
}
