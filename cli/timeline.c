/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines as JSON; see timeline.h. Times are microseconds from the start of the record, with
 * nanoseconds behind the point. What is counted (bytes resident, bytes a second over links) is
 * in timeline_counters.c.
 */
#include "cli/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/result.h"
#include "cli/timeline_internal.h"

/* Tracks of a run; those of streams follow, and then those of messages. */
enum { TRACK_EPOCHS = 1, TRACK_HOST = 2, TRACK_STREAMS = 10 };

/* Threads of different processes have different numbers: not all readers tell them apart else. */
static uint32_t thread_of(const struct timeline_run *run, uint32_t track)
{
	return run->number << 16 | track;
}

void timeline_begin(FILE *out)
{
	fprintf(out,
		"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"version\":\"%s\"},\"traceEvents\":[\n"
		"{\"ph\":\"M\",\"name\":\"weir\",\"pid\":0}",
		weir_version());
}

void timeline_end(FILE *out)
{
	fputs("\n]}\n", out);
}

void timeline_time(FILE *out, const char *key, uint64_t ns)
{
	fprintf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

void timeline_name(FILE *out, const struct timeline_run *run, uint32_t track, const char *what,
		   const char *name)
{
	fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":\"%s\"",
		run->number, thread_of(run, track), what);
	fputs(",\"args\":{\"name\":", out);
	result_write_text(out, name);
	fputs("}}", out);
}

void timeline_order(FILE *out, const struct timeline_run *run, uint32_t track, uint32_t order)
{
	fprintf(out,
		",\n{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
		",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu32 "}}",
		run->number, thread_of(run, track), order);
}

void timeline_span(FILE *out, const struct timeline_run *run, uint32_t track, const char *name,
		   uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t start_ns = run->log->begin_ns;

	/* What began before the record is shown from its start on. */
	if (begin_ns < start_ns)
		begin_ns = start_ns;
	if (end_ns < begin_ns)
		end_ns = begin_ns;
	fprintf(out,
		",\n{\"ph\":\"X\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":", run->number,
		thread_of(run, track));
	result_write_text(out, name);
	timeline_time(out, "ts", begin_ns - start_ns);
	timeline_time(out, "dur", end_ns - begin_ns);
}

/* ------------------------------------------------------------------ tracks */

/* nr: of streams with the same name that have something on them, before this one. */
static void write_stream_name(FILE *out, const struct timeline_run *run, uint32_t stream,
			      uint32_t nr)
{
	static const char *const kinds[] = {[BACKEND_COMPUTE] = "kernels",
					    [BACKEND_COPY_IN] = "copies in",
					    [BACKEND_COPY_OUT] = "copies out",
					    [BACKEND_URGENT] = "urgent"};
	const struct watch_stream *s = &run->log->stream[stream];
	const char *device = run->machine->device[s->device].name;
	char name[WEIR_NAME_MAX + 32];

	if (nr)
		snprintf(name, sizeof(name), "%s %s %" PRIu32, device, kinds[s->kind], nr + 1);
	else
		snprintf(name, sizeof(name), "%s %s", device, kinds[s->kind]);
	timeline_name(out, run, TRACK_STREAMS + stream, "thread_name", name);
	/* Kernels first, whatever was created first. */
	timeline_order(out, run, TRACK_STREAMS + stream,
		       TRACK_STREAMS * ((uint32_t)s->kind + 1) + stream);
}

static uint32_t nr_like(const struct watch_log *log, const bool *used, uint32_t stream)
{
	const struct watch_stream *s = &log->stream[stream];
	uint32_t nr = 0;

	for (uint32_t i = 0; i < stream; i++)
		nr += used[i] && log->stream[i].device == s->device &&
		      log->stream[i].kind == s->kind;
	return nr;
}

/* Name the tracks that have something on them. */
static int write_tracks(FILE *out, const struct timeline_run *run)
{
	const struct watch_log *log = run->log;
	bool *used = calloc(log->nr_streams + 1, sizeof(*used));
	bool host[2] = {false, false};

	if (!used)
		return -ENOMEM;
	for (uint32_t i = 0; i < log->nr_events; i++)
		*(watch_on_stream(&log->event[i]) ? &used[log->event[i].track]
						  : &host[log->event[i].track]) = true;
	timeline_name(out, run, TRACK_EPOCHS, "thread_name", "epochs");
	timeline_order(out, run, TRACK_EPOCHS, TRACK_EPOCHS);
	for (uint32_t agent = 0; agent < 2; agent++) {
		if (!host[agent])
			continue;
		timeline_name(out, run, TRACK_HOST + agent, "thread_name",
			      agent == WATCH_PROGRAM ? "host: program" : "host: migrator");
		timeline_order(out, run, TRACK_HOST + agent, TRACK_HOST + agent);
	}
	for (uint32_t i = 0; i < log->nr_streams; i++)
		if (used[i])
			write_stream_name(out, run, i, nr_like(log, used, i));
	free(used);
	return 0;
}

/* ------------------------------------------------------------------ spans */

static const char *event_name(const struct watch_event *event)
{
	static const char *const names[] = {
		[WATCH_UPLOAD] = "upload", [WATCH_DOWNLOAD] = "download", [WATCH_WAIT] = "wait",
		[WATCH_MAP] = "map",	   [WATCH_UNMAP] = "unmap",	  [WATCH_ACCESS] = "access",
		[WATCH_CREATE] = "create", [WATCH_DESTROY] = "destroy",	  [WATCH_ALLOC] = "alloc",
		[WATCH_FREE] = "free",
	};

	if (event->name)
		return event->name;
	if (event->kind == WATCH_LAUNCH)
		return "kernel";
	if (event->kind == WATCH_COPY)
		return event->bytes[BACKEND_TO_DEVICE] ? "copy in"
		       : event->bytes[BACKEND_TO_HOST] ? "copy out"
						       : "copy between GPUs";
	return names[event->kind];
}

/* Bytes that an event moved between GPUs: to a memory, and otherwise. flow: the first that is not
 * of an earlier event; on return, of this one. */
static void sum_flows(const struct watch_log *log, uint32_t event, uint32_t memory, uint32_t *flow,
		      uint64_t *to, uint64_t *others)
{
	*to = *others = 0;
	for (; *flow < log->nr_flows && log->flow[*flow].event == event; ++*flow)
		*(log->flow[*flow].to == memory ? to : others) += log->flow[*flow].bytes;
}

/* flow: as above. */
static void write_event(FILE *out, const struct timeline_run *run, uint32_t i, uint32_t *flow)
{
	const struct watch_event *event = &run->log->event[i];
	uint32_t first = watch_on_stream(event) ? TRACK_STREAMS : TRACK_HOST;
	uint64_t to = 0, others = 0;

	timeline_span(out, run, first + event->track, event_name(event), event->begin_ns,
		      event->end_ns);
	if (watch_on_stream(event))
		sum_flows(run->log, i,
			  run->machine->device[run->log->stream[event->track].device].memory, flow,
			  &to, &others);
	fputs(",\"args\":{", out);
	if (event->kind == WATCH_LAUNCH) {
		fprintf(out, "\"read\":%" PRIu64 ",\"written\":%" PRIu64,
			event->bytes[BACKEND_TO_DEVICE], event->bytes[BACKEND_TO_HOST]);
		if (to || others)
			fprintf(out, ",\"near_read\":%" PRIu64 ",\"near_written\":%" PRIu64, to,
				others);
	} else if (watch_on_stream(event)) {
		fprintf(out, "\"in\":%" PRIu64 ",\"out\":%" PRIu64 ",\"pieces\":%" PRIu32,
			event->bytes[BACKEND_TO_DEVICE], event->bytes[BACKEND_TO_HOST],
			event->pieces);
		if (to || others)
			fprintf(out, ",\"between\":%" PRIu64, to + others);
	} else if (event->bytes[0]) {
		fprintf(out, "\"bytes\":%" PRIu64, event->bytes[0]);
	}
	fputs("}}", out);
}

static void write_epochs(FILE *out, const struct timeline_run *run)
{
	for (uint32_t i = 0; i < run->nr_epochs; i++) {
		uint64_t begin = run->epoch_begin_ns[i];
		uint64_t end = begin + (uint64_t)(run->epoch_s[i] * 1e9 + 0.5);
		char name[32];

		if (begin < run->log->begin_ns || end > run->log->end_ns)
			continue;
		snprintf(name, sizeof(name), "epoch %" PRIu32, run->first_epoch + i + 1);
		timeline_span(out, run, TRACK_EPOCHS, name, begin, end);
		fputc('}', out);
	}
}

static void write_marks(FILE *out, const struct timeline_run *run)
{
	for (uint32_t i = 0; i < run->nr_marks; i++) {
		uint64_t end = i + 1 < run->nr_marks ? run->mark[i + 1].ns : run->log->end_ns;

		timeline_span(out, run, TRACK_EPOCHS, run->mark[i].name, run->mark[i].ns, end);
		fputc('}', out);
	}
}

/* The budgets of other GPUs' memories, where there are any. */
static void write_near(FILE *out, const struct timeline_run *run)
{
	const char *before = ",\"near_budget_bytes\":{";

	for (uint32_t m = 0; m < run->machine->nr_memories; m++) {
		if (!run->near_bytes[m])
			continue;
		fputs(before, out);
		result_write_text(out, run->machine->memory[m].name);
		fprintf(out, ":%" PRIu64, run->near_bytes[m]);
		before = ",";
	}
	if (before[1] == '\0')
		fputc('}', out);
}

/* What a reader of the file needs to know of the run, beside the format's own. */
static void write_facts(FILE *out, const struct timeline_run *run)
{
	fprintf(out,
		",\n{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"name\":\"weir_run\",\"args\":{\"machine\":",
		run->number);
	result_write_text(out, run->machine->name);
	fprintf(out, ",\"gpu_budget_bytes\":%" PRIu64 ",\"host_budget_bytes\":%" PRIu64,
		run->gpu_budget_bytes, run->host_budget_bytes);
	write_near(out, run);
	fprintf(out, ",\"dropped\":%" PRIu64 "}}", run->log->nr_dropped);
}

int timeline_add(FILE *out, const struct timeline_run *run)
{
	uint32_t flow = 0;
	int err;

	timeline_name(out, run, 0, "process_name", run->title);
	fprintf(out,
		",\n{\"ph\":\"M\",\"pid\":%" PRIu32
		",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%" PRIu32 "}}",
		run->number, run->number);
	write_facts(out, run);
	err = write_tracks(out, run);
	if (err)
		return err;
	write_epochs(out, run);
	write_marks(out, run);
	for (uint32_t i = 0; i < run->log->nr_events; i++)
		write_event(out, run, i, &flow);
	err = timeline_messages(out, run);
	if (err)
		return err;
	timeline_residency(out, run);
	timeline_names(out, run);
	return timeline_links(out, run);
}
