/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a timeline. A message lasts from the beginning of its first copy to the end of
 * its last one; kernels that pack and unpack it are on their streams' tracks alone. Messages of one
 * way between two memories have a track, and where some are under way at the same time, as many as
 * that takes: spans of one track do not overlap.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/result.h"
#include "cli/timeline_internal.h"

/* More than these at the same time would be on one track. */
#define TRACKS_MAX 64u

struct span {
	uint64_t begin_ns, end_ns;
	uint32_t pieces; /* 0: no copy of it is in the record */
	const struct backend_message *message;
};

/* The tracks of one way. */
struct way {
	uint64_t end_ns[TRACKS_MAX]; /* of the newest span on each */
	uint32_t first, nr;
};

/* Whether it is a copy of a message. Packets have kernels, too, whose lists come from the host. */
static bool is_copy(const struct timeline_run *run, const struct watch_event *event,
		    const struct backend_message *message)
{
	const struct weir_memory_desc *memory = run->machine->memory;

	if (event->kind != WATCH_COPY)
		return false;
	return memory[message->from].kind == WEIR_MEMORY_HOST ||
	       memory[message->to].kind == WEIR_MEMORY_HOST ||
	       !(event->bytes[BACKEND_TO_DEVICE] | event->bytes[BACKEND_TO_HOST]);
}

static void span_extend(struct span *span, const struct watch_event *event)
{
	if (!span->pieces || event->begin_ns < span->begin_ns)
		span->begin_ns = event->begin_ns;
	if (!span->pieces || event->end_ns > span->end_ns)
		span->end_ns = event->end_ns;
	span->pieces += event->pieces;
}

/* By way, then by beginning, then in the order of the calls. */
static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->message->from != y->message->from)
		return x->message->from < y->message->from ? -1 : 1;
	if (x->message->to != y->message->to)
		return x->message->to < y->message->to ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->message > y->message) - (x->message < y->message);
}

/* Those that were sent. @return how many. */
static uint32_t find_spans(const struct timeline_run *run, struct span *span)
{
	const struct watch_log *log = run->log;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < log->nr_events; i++) {
		const uint32_t m = log->event[i].message;

		if (m && is_copy(run, &log->event[i], &log->message[m - 1].message))
			span_extend(&span[m - 1], &log->event[i]);
	}
	for (uint32_t i = 0; i < log->nr_messages; i++) {
		if (!log->message[i].sent || !span[i].pieces)
			continue;
		span[nr] = span[i];
		span[nr++].message = &log->message[i].message;
	}
	qsort(span, nr, sizeof(*span), compare_spans);
	return nr;
}

static void write_track(FILE *out, const struct timeline_run *run, const struct way *way,
			const struct backend_message *message)
{
	const struct weir_memory_desc *memory = run->machine->memory;
	const uint32_t track = way->first + way->nr;
	char name[2 * WEIR_NAME_MAX + 32];

	snprintf(name, sizeof(name), way->nr ? "messages %s->%s %" PRIu32 : "messages %s->%s",
		 memory[message->from].name, memory[message->to].name, way->nr + 1);
	timeline_name(out, run, track, "thread_name", name);
	timeline_order(out, run, track, track);
}

/* The first track that has room; a new one, if there is none. */
static uint32_t take_track(FILE *out, const struct timeline_run *run, struct way *way,
			   const struct span *span)
{
	uint32_t i = 0;

	while (i < way->nr && way->end_ns[i] > span->begin_ns)
		i++;
	if (i == TRACKS_MAX)
		i--;
	if (i == way->nr) {
		write_track(out, run, way, span->message);
		way->nr++;
	}
	way->end_ns[i] = span->end_ns;
	return way->first + i;
}

static void write_message(FILE *out, const struct timeline_run *run, uint32_t track,
			  const struct span *span)
{
	const struct backend_message *m = span->message;

	timeline_span(out, run, track, m->mechanism, span->begin_ns, span->end_ns);
	fprintf(out,
		",\"args\":{\"bytes\":%" PRIu64 ",\"mechanism\":\"%s\",\"reason\":\"%s\""
		",\"range\":%" PRIu32 ",\"offset\":%" PRIu64 ",\"end\":%" PRIu64
		",\"pieces\":%" PRIu32 "}}",
		m->bytes, m->mechanism, m->reason, m->range, m->offset, m->end, span->pieces);
}

int timeline_messages(FILE *out, const struct timeline_run *run)
{
	struct way way = {.first = TRACK_MESSAGES};
	struct span *span;
	uint32_t nr;

	if (!run->log->nr_messages)
		return 0;
	span = calloc(run->log->nr_messages, sizeof(*span));
	if (!span)
		return -ENOMEM;
	nr = find_spans(run, span);
	for (uint32_t i = 0; i < nr; i++) {
		if (i && (span[i].message->from != span[i - 1].message->from ||
			  span[i].message->to != span[i - 1].message->to))
			way = (struct way){.first = way.first + way.nr};
		write_message(out, run, take_track(out, run, &way, &span[i]), &span[i]);
	}
	free(span);
	return 0;
}
