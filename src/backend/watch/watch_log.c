/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: events, and how they get their times. Work that is queued while it records has a mark
 * before and one behind it; its event waits in its stream's list until the second is reached. The
 * lists are looked through whenever calls come by: a backend keeps times for a while only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/watch/watch_internal.h"
#include "src/base/util.h"

static _Thread_local bool migrating;
/* The message whose work the thread queues, by its index in the log plus 1; 0: there is none. */
static _Thread_local uint32_t sending;

void watch_migrating(bool on)
{
	migrating = on;
}

/* ------------------------------------------------------------------ events */

/* Add an event. @return its number plus 1, or 0: there is no room, or it records no longer. Lock
 * held. */
static uint32_t event_add(struct watch *w, const struct watch_event *event)
{
	struct watch_log *log = w->log;

	if (!log)
		return 0;
	if (event->kind == WATCH_LAUNCH)
		log->nr_launches++;
	if (log->nr_events == w->max_events) {
		log->nr_dropped++;
		return 0;
	}
	log->event[log->nr_events++] = *event;
	return log->nr_events;
}

void watch_change(struct watch *w, uint64_t ns, uint32_t memory, uint32_t name, int64_t bytes)
{
	struct watch_log *log = w->log;

	w->resident[name][memory] += bytes;
	if (!log || !bytes)
		return;
	if (log->nr_changes == w->max_changes) {
		log->nr_dropped++;
		return;
	}
	/* Calls are told in their order; agents with clocks of their own may be behind. */
	if (log->nr_changes && ns < log->change[log->nr_changes - 1].ns)
		ns = log->change[log->nr_changes - 1].ns;
	log->change[log->nr_changes++] = (struct watch_change){
		.ns = ns, .bytes = bytes, .memory = (uint16_t)memory, .name = (uint16_t)name};
}

uint64_t watch_call_begin(struct watch *w)
{
	return atomic_load(&w->recording) ? watch_now(w) : WATCH_NEVER;
}

void watch_call_end(struct watch *w, enum watch_kind kind, uint64_t begin_ns, uint64_t bytes)
{
	struct watch_event event = {.kind = kind,
				    .track = migrating ? WATCH_MIGRATOR : WATCH_PROGRAM,
				    .begin_ns = begin_ns,
				    .bytes = {bytes, 0}};

	if (begin_ns == WATCH_NEVER)
		return;
	event.end_ns = watch_now(w);
	if (event.end_ns < begin_ns + WATCH_LEAST_NS)
		return;
	pthread_mutex_lock(&w->lock);
	(void)event_add(w, &event);
	pthread_mutex_unlock(&w->lock);
}

/* ------------------------------------------------------------------ streams */

int watch_stream_add(struct watch *w, stream_id_t id, uint32_t device,
		     enum backend_stream_kind kind)
{
	struct watch_stream *grown;
	int err = -ENOMEM;

	pthread_mutex_lock(&w->lock);
	grown = realloc(w->stream, (w->nr_streams + 1) * sizeof(*grown));
	if (grown) {
		w->stream = grown;
		grown[w->nr_streams++] =
			(struct watch_stream){.id = id, .device = device, .kind = kind};
		err = 0;
	}
	pthread_mutex_unlock(&w->lock);
	return err;
}

/* The index of a stream, or nr_streams. Lock held. */
static uint32_t stream_index(const struct watch *w, stream_id_t id)
{
	uint32_t i = 0;

	while (i < w->nr_streams && w->stream[i].id != id)
		i++;
	return i;
}

/* ------------------------------------------------------------------ work and its marks */

static void count_dropped(struct watch *w, enum watch_kind kind)
{
	pthread_mutex_lock(&w->lock);
	if (w->log) {
		w->log->nr_launches += kind == WATCH_LAUNCH;
		w->log->nr_dropped++;
	}
	pthread_mutex_unlock(&w->lock);
}

void watch_work_begin(struct watch *w, stream_id_t stream, struct watch_work *work)
{
	work->stream = stream;
	work->begin = 0;
	work->called_ns = watch_call_begin(w);
	work->nr_flows = 0;
	work->on = work->called_ns != WATCH_NEVER;
	if (!work->on)
		return;
	/* Without a mark it is counted as dropped, when it has been queued. */
	if (w->inner->observe->fence_mark(w->inner, stream, &work->begin))
		work->begin = 0;
}

void watch_work_flow(const struct watch *w, struct watch_work *work, uint32_t from, uint32_t to,
		     uint64_t bytes)
{
	uint32_t i = 0;

	if (!bytes || from == to || watch_is_host(w, from) || watch_is_host(w, to))
		return;
	while (i < work->nr_flows && (work->flow[i].from != from || work->flow[i].to != to))
		i++;
	if (i == WATCH_FLOWS_MAX)
		return;
	if (i == work->nr_flows)
		work->flow[work->nr_flows++] =
			(struct watch_flow){.from = (uint16_t)from, .to = (uint16_t)to};
	work->flow[i].bytes += bytes;
}

/* Add an event's flows. Lock held. */
static void flows_add(struct watch *w, const struct watch_work *work, uint32_t event)
{
	struct watch_log *log = w->log;

	for (uint32_t i = 0; i < work->nr_flows; i++) {
		if (log->nr_flows == w->max_events) {
			log->nr_dropped++;
			return;
		}
		log->flow[log->nr_flows] = work->flow[i];
		log->flow[log->nr_flows++].event = event;
	}
}

void watch_work_end(struct watch *w, const struct watch_work *work, int err,
		    struct watch_event *event)
{
	struct watch_stream *stream;
	uint32_t number;
	fence_t end;

	if (err || !work->on)
		return;
	if (!work->begin || w->inner->observe->fence_mark(w->inner, work->stream, &end)) {
		count_dropped(w, event->kind);
		return;
	}
	event->begin_ns = work->begin;
	event->end_ns = end;
	event->least_ns += work->called_ns;
	event->pending = true;
	event->message = sending;
	pthread_mutex_lock(&w->lock);
	event->track = stream_index(w, work->stream);
	if (w->log && event->message > w->log->nr_messages)
		event->message = 0; /* of a record that was ended meanwhile */
	number = event->track < w->nr_streams ? event_add(w, event) : 0;
	if (number) {
		flows_add(w, work, number - 1);
		stream = &w->stream[event->track];
		if (stream->tail)
			w->log->event[stream->tail - 1].next = number;
		else
			stream->head = number;
		stream->tail = number;
	}
	pthread_mutex_unlock(&w->lock);
}

/* ------------------------------------------------------------------ messages */

void watch_message_begin(struct watch *w, const struct backend_message *message)
{
	struct watch_log *log;

	sending = 0;
	if (!atomic_load(&w->recording))
		return;
	pthread_mutex_lock(&w->lock);
	log = w->log;
	if (log && log->nr_messages == w->max_events) {
		log->nr_dropped++;
	} else if (log) {
		log->message[log->nr_messages++].message = *message;
		sending = log->nr_messages;
	}
	pthread_mutex_unlock(&w->lock);
}

void watch_message_end(struct watch *w, bool sent)
{
	if (!sending)
		return;
	pthread_mutex_lock(&w->lock);
	/* Another thread may have ended the record, and begun one. */
	if (w->log && sending <= w->log->nr_messages)
		w->log->message[sending - 1].sent = sent;
	pthread_mutex_unlock(&w->lock);
	sending = 0;
}

/* ------------------------------------------------------------------ times */

/* Ask for the times of an event. */
static bool settle(struct watch *w, struct watch_event *event)
{
	uint64_t end = w->inner->observe->fence_time_ns(w->inner, event->end_ns), begin;

	if (!end)
		return false;
	begin = w->inner->observe->fence_time_ns(w->inner, event->begin_ns);
	if (!begin)
		return false;
	if (begin < event->least_ns)
		begin = event->least_ns;
	event->begin_ns = MIN(begin, end);
	event->end_ns = end;
	event->pending = false;
	return true;
}

/*
 * Settle a stream's events in order, up to the first that is not reached; at the end of recording
 * all of them, since those in front may have been too long ago to be known. collecting is held, so
 * that events here are nobody else's.
 */
static void stream_collect(struct watch *w, uint32_t i, bool all)
{
	uint32_t at;

	pthread_mutex_lock(&w->lock);
	at = w->log ? w->stream[i].head : 0;
	while (at) {
		struct watch_event *event = &w->log->event[at - 1];
		bool settled;

		pthread_mutex_unlock(&w->lock);
		settled = settle(w, event);
		pthread_mutex_lock(&w->lock);
		if (!settled && !all)
			break;
		at = event->next;
		w->stream[i].head = at;
		if (!at)
			w->stream[i].tail = 0;
	}
	pthread_mutex_unlock(&w->lock);
}

void watch_collect(struct watch *w, stream_id_t stream)
{
	uint32_t i;

	if (!atomic_load(&w->recording) || pthread_mutex_trylock(&w->collecting))
		return;
	pthread_mutex_lock(&w->lock);
	i = stream_index(w, stream);
	i = i < w->nr_streams ? i : UINT32_MAX;
	pthread_mutex_unlock(&w->lock);
	if (i != UINT32_MAX)
		stream_collect(w, i, false);
	pthread_mutex_unlock(&w->collecting);
}

/* Number of streams; it only grows. */
static uint32_t nr_streams(struct watch *w)
{
	uint32_t nr;

	pthread_mutex_lock(&w->lock);
	nr = w->nr_streams;
	pthread_mutex_unlock(&w->lock);
	return nr;
}

void watch_collect_all(struct watch *w)
{
	if (!atomic_load(&w->recording) || pthread_mutex_trylock(&w->collecting))
		return;
	for (uint32_t i = 0; i < nr_streams(w); i++)
		stream_collect(w, i, false);
	pthread_mutex_unlock(&w->collecting);
}

/* ------------------------------------------------------------------ start, stop */

void watch_log_free(struct watch_log *log)
{
	if (!log)
		return;
	free(log->event);
	free(log->flow);
	free(log->message);
	free(log->change);
	free(log->stream);
	free(log);
}

/* The first changes: all that is resident. Lock held. */
static void changes_begin(struct watch *w)
{
	for (uint32_t n = 0; n < w->nr_names; n++) {
		for (uint32_t m = 0; m < w->base.desc.nr_memories; m++) {
			int64_t bytes = w->resident[n][m];

			w->resident[n][m] = 0;
			watch_change(w, w->log->begin_ns, m, n, bytes);
		}
	}
}

int watch_start(struct backend *b, uint32_t max_events)
{
	struct watch *w = watch_of(b);
	struct watch_log *log = calloc(1, sizeof(*log));
	uint64_t ns = watch_now(w);
	int err = -ENOMEM;

	if (!log)
		return -ENOMEM;
	log->event = calloc(max_events ? max_events : 1, sizeof(*log->event));
	log->flow = calloc(max_events ? max_events : 1, sizeof(*log->flow));
	log->message = calloc(max_events ? max_events : 1, sizeof(*log->message));
	log->change = calloc(2 * (size_t)max_events + 1, sizeof(*log->change));
	if (!log->event || !log->flow || !log->message || !log->change)
		goto err_log;
	pthread_mutex_lock(&w->lock);
	err = w->log ? -EBUSY : 0;
	if (!err) {
		log->begin_ns = ns;
		w->log = log;
		w->max_events = max_events;
		w->max_changes = 2 * max_events;
		changes_begin(w);
		atomic_store(&w->recording, true);
	}
	pthread_mutex_unlock(&w->lock);
	if (!err)
		return 0;

err_log:
	watch_log_free(log);
	return err;
}

/* Events whose times nobody knows any more are taken out. */
static void drop_pending(struct watch_log *log)
{
	uint32_t nr = 0, nr_flows = 0, flow = 0;

	for (uint32_t i = 0; i < log->nr_events; i++) {
		bool kept = !log->event[i].pending;

		for (; flow < log->nr_flows && log->flow[flow].event == i; flow++)
			if (kept) {
				log->flow[nr_flows] = log->flow[flow];
				log->flow[nr_flows++].event = nr;
			}
		if (kept)
			log->event[nr++] = log->event[i];
	}
	log->nr_dropped += log->nr_events - nr;
	log->nr_events = nr;
	log->nr_flows = nr_flows;
}

int watch_stop(struct backend *b, struct watch_log **out)
{
	struct watch *w = watch_of(b);
	struct watch_log *log;
	int err = 0;

	if (!atomic_exchange(&w->recording, false))
		return -EINVAL;
	pthread_mutex_lock(&w->collecting);
	for (uint32_t i = 0; i < nr_streams(w); i++)
		stream_collect(w, i, true);
	pthread_mutex_lock(&w->lock);
	log = w->log;
	w->log = NULL;
	for (uint32_t i = 0; i < w->nr_streams; i++)
		w->stream[i].head = w->stream[i].tail = 0;
	log->stream = calloc(w->nr_streams + 1, sizeof(*log->stream));
	if (log->stream && w->nr_streams)
		memcpy(log->stream, w->stream, w->nr_streams * sizeof(*log->stream));
	log->nr_streams = w->nr_streams;
	memcpy(log->name, w->name, sizeof(log->name));
	log->nr_names = w->nr_names;
	log->nr_dropped += w->nr_lost;
	pthread_mutex_unlock(&w->lock);
	pthread_mutex_unlock(&w->collecting);
	log->end_ns = watch_now(w);
	drop_pending(log);
	if (log->stream)
		*out = log;
	else
		err = -ENOMEM;
	if (err)
		watch_log_free(log);
	return err;
}
