/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces as timelines: a log as a watching backend would have made it, as far as a trace knows, for
 * the writer of timelines. Kernels are those whose times were taken; copies last from when they
 * were queued, or the one before them was seen to be done, to when they were seen to be done.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/timeline.h"
#include "cli/trace_internal.h"
#include "src/base/util.h"

#define NO_STREAM UINT32_MAX

/* A copy that was queued. */
struct queued {
	uint64_t ns;
	bool stays; /* the block does: it is written back */
};

/* What is copied from one place to another. */
struct way {
	struct queued *queued; /* [head, nr) are not done */
	uint32_t head, nr, max;
	uint64_t done_ns;
	uint32_t stream; /* in the log; NO_STREAM: not there yet */
};

struct bracket {
	uint64_t number;
	const char *name;
};

struct maker {
	const struct trace_file *file;
	struct watch_log log;
	uint32_t max_events, max_changes, max_streams, max_marks;
	uint32_t *stream; /* by the trace's number: in the log */
	struct way way[WEIR_MEMORIES_MAX][WEIR_MEMORIES_MAX]; /* by places */
	struct bracket *bracket;			      /* that ended, by number */
	uint64_t nr_brackets;
	struct timeline_mark *mark;
	uint32_t nr_marks;
	int64_t before[WEIR_MEMORIES_MAX]; /* bytes in each memory as the part begins */
	uint64_t budget_bytes[WEIR_MEMORIES_MAX];
	bool begun, failed; /* the part; no memory */
};

/* Room for one more element. */
static bool grow(struct maker *m, void *array, uint32_t nr, uint32_t *max, size_t bytes)
{
	uint32_t more = MAX(64u, 2 * *max);
	void *old, *moved;

	if (nr < *max)
		return true;
	memcpy(&old, array, sizeof(old));
	moved = realloc(old, more * bytes);
	if (!moved) {
		m->failed = true;
		return false;
	}
	memcpy(array, &moved, sizeof(moved));
	*max = more;
	/* cppcheck-suppress memleak -- it is where the pointer was copied to */
	return true;
}

static uint32_t add_stream(struct maker *m, uint32_t device, enum backend_stream_kind kind)
{
	struct watch_log *log = &m->log;

	if (!grow(m, &log->stream, log->nr_streams, &m->max_streams, sizeof(*log->stream)))
		return NO_STREAM;
	log->stream[log->nr_streams] = (struct watch_stream){.device = device, .kind = kind};
	return log->nr_streams++;
}

static struct watch_event *add_event(struct maker *m, enum watch_kind kind, uint32_t track,
				     uint64_t begin_ns, uint64_t end_ns)
{
	struct watch_log *log = &m->log;

	if (!m->begun || track == NO_STREAM || end_ns < log->begin_ns ||
	    !grow(m, &log->event, log->nr_events, &m->max_events, sizeof(*log->event)))
		return NULL;
	log->event[log->nr_events] = (struct watch_event){
		.kind = kind, .track = track, .begin_ns = begin_ns, .end_ns = end_ns};
	log->end_ns = MAX(log->end_ns, end_ns); /* what a device's clock says may be later */
	return &log->event[log->nr_events++];
}

static void add_change(struct maker *m, uint32_t memory, int64_t bytes, uint64_t ns)
{
	struct watch_log *log = &m->log;

	if (!m->begun) {
		m->before[memory] += bytes;
		return;
	}
	if (grow(m, &log->change, log->nr_changes, &m->max_changes, sizeof(*log->change)))
		log->change[log->nr_changes++] =
			(struct watch_change){.ns = ns, .bytes = bytes, .memory = (uint16_t)memory};
}

/* So many blocks went from one place to another. */
static void add_places(struct maker *m, uint32_t from, uint32_t to, uint64_t nr, uint64_t ns)
{
	int64_t bytes = (int64_t)(nr * m->file->space->block_bytes);

	if (from != TRACE_NO_PLACE)
		add_change(m, m->file->space->memory[from], -bytes, ns);
	if (to != TRACE_NO_PLACE)
		add_change(m, m->file->space->memory[to], bytes, ns);
}

/* ------------------------------------------------------------------ copies */

static uint32_t memory_of(const struct maker *m, uint32_t place)
{
	return m->file->space->memory[place];
}

static bool is_host(const struct maker *m, uint32_t place)
{
	return m->file->machine.memory[memory_of(m, place)].kind == WEIR_MEMORY_HOST;
}

/* The device that has the memory of a place. */
static uint32_t device_of(const struct maker *m, uint32_t place)
{
	for (uint32_t d = 0; d < m->file->machine.nr_devices; d++)
		if (m->file->machine.device[d].memory == memory_of(m, place))
			return d;
	return 0;
}

static uint32_t way_stream(struct maker *m, uint32_t from, uint32_t to)
{
	struct way *way = &m->way[from][to];

	if (way->stream == NO_STREAM)
		way->stream = is_host(m, from)
				      ? add_stream(m, device_of(m, to), BACKEND_COPY_IN)
				      : add_stream(m, device_of(m, from), BACKEND_COPY_OUT);
	return way->stream;
}

static void move_queued(struct maker *m, const struct trace_move *e)
{
	struct way *way = &m->way[e->from][e->to];
	bool stays = e->cause == WEIR_CAUSE_WRITEBACK || e->cause == WEIR_CAUSE_NR;

	if (!grow(m, &way->queued, way->nr, &way->max, sizeof(*way->queued)))
		return;
	way->queued[way->nr++] = (struct queued){e->event.ns, stays};
	if (!stays)
		add_places(m, e->from, e->to, 1, e->event.ns);
}

static void moves_done(struct maker *m, const struct trace_moved *e)
{
	struct way *way = &m->way[e->from][e->to];
	uint64_t begin_ns = way->queued[way->head].ns;
	struct watch_event *event;

	event = add_event(m, WATCH_COPY, way_stream(m, e->from, e->to), MAX(begin_ns, way->done_ns),
			  e->event.ns);
	if (event) {
		uint64_t bytes = e->nr * m->file->space->block_bytes;

		event->pieces = e->nr;
		if (is_host(m, e->from))
			event->bytes[BACKEND_TO_DEVICE] = bytes;
		else if (is_host(m, e->to))
			event->bytes[BACKEND_TO_HOST] = bytes;
	}
	way->done_ns = e->event.ns;
	way->head += e->nr;
	if (way->head == way->nr)
		way->head = way->nr = 0;
}

static void moves_undone(struct maker *m, const struct trace_moved *e)
{
	struct way *way = &m->way[e->from][e->to];

	for (uint32_t i = 0; i < e->nr; i++)
		if (!way->queued[--way->nr].stays)
			add_places(m, e->to, e->from, 1, e->event.ns);
}

/* ------------------------------------------------------------------ kernels, calls */

static void kernel_time(struct maker *m, const struct trace_time *e)
{
	struct watch_event *event;
	uint64_t at;

	SEARCH_SORTED(at, UINT64_C(0), m->nr_brackets, m->bracket[at].number < e->bracket);
	event = add_event(m, WATCH_LAUNCH, m->stream[e->event.stream], e->begin_ns, e->end_ns);
	if (event)
		event->name = at < m->nr_brackets && m->bracket[at].number == e->bracket
				      ? m->bracket[at].name
				      : "kernel";
}

/* A call of the program that took time. */
static void call(struct maker *m, const struct trace_event *e, uint64_t took_ns, uint64_t bytes)
{
	struct watch_event *event = took_ns ? add_event(m, WATCH_WAIT, WATCH_PROGRAM,
							e->ns - MIN(took_ns, e->ns), e->ns)
					    : NULL;

	if (!event)
		return;
	event->name = trace_kind_name(e->kind);
	event->bytes[0] = bytes;
}

static void mark(struct maker *m, const struct trace_mark *e)
{
	if (m->begun && grow(m, &m->mark, m->nr_marks, &m->max_marks, sizeof(*m->mark)))
		m->mark[m->nr_marks++] = (struct timeline_mark){e->text, e->event.ns};
}

static void add_moves(struct maker *m, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_place *place = e;

	switch (event->kind) {
	case TRACE_MOVE:
		move_queued(m, e);
		break;
	case TRACE_MOVED:
		moves_done(m, e);
		break;
	case TRACE_UNDONE:
		moves_undone(m, e);
		break;
	case TRACE_PLACE:
		if (place->from != place->to)
			add_places(m, place->from, place->to, place->nr, event->ns);
		break;
	default:
		break;
	}
}

static void add(struct maker *m, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_end *end = e;
	const struct trace_part_of *part = e;
	const struct trace_budget *budget = e;

	switch (event->kind) {
	case TRACE_STREAM:
		m->stream[event->stream] =
			add_stream(m, ((const struct trace_stream *)e)->device, BACKEND_COMPUTE);
		break;
	case TRACE_BUDGET:
		m->budget_bytes[budget->memory] = budget->bytes;
		break;
	case TRACE_END:
		m->bracket[m->nr_brackets++] =
			(struct bracket){end->bracket, trace_end_name(m->file, end)};
		break;
	case TRACE_TIME:
		kernel_time(m, e);
		break;
	case TRACE_ALLOC:
		call(m, event, ((const struct trace_alloc *)e)->took_ns, 0);
		break;
	case TRACE_BEGIN:
	case TRACE_HOST_BEGIN:
		call(m, event, ((const struct trace_begin *)e)->took_ns, 0);
		break;
	case TRACE_WRITE:
	case TRACE_READ:
	case TRACE_PREFETCH:
		call(m, event, part->took_ns, part->bytes);
		break;
	case TRACE_SYNC:
	case TRACE_WAIT:
		call(m, event, ((const struct trace_sync *)e)->took_ns, 0);
		break;
	case TRACE_MARK:
		mark(m, e);
		break;
	default:
		add_moves(m, event);
	}
}

/* ------------------------------------------------------------------ all of it */

static int maker_init(struct maker *m, const struct trace_file *file)
{
	m->file = file;
	m->stream = calloc((size_t)file->nr_streams + 1, sizeof(*m->stream));
	m->bracket = calloc(file->nr_brackets + 1, sizeof(*m->bracket));
	for (uint32_t from = 0; from < WEIR_MEMORIES_MAX; from++)
		for (uint32_t to = 0; to < WEIR_MEMORIES_MAX; to++)
			m->way[from][to].stream = NO_STREAM;
	return m->stream && m->bracket ? 0 : -ENOMEM;
}

static void maker_fini(struct maker *m)
{
	for (uint32_t from = 0; from < WEIR_MEMORIES_MAX; from++)
		for (uint32_t to = 0; to < WEIR_MEMORIES_MAX; to++)
			free(m->way[from][to].queued);
	free(m->log.event);
	free(m->log.change);
	free(m->log.stream);
	free(m->stream);
	free(m->bracket);
	free(m->mark);
	free(m);
}

/* The part begins: with what is in each memory by then. */
static void begin(struct maker *m, uint64_t ns)
{
	m->begun = true;
	m->log.begin_ns = m->log.end_ns = ns;
	for (uint32_t memory = 0; memory < m->file->machine.nr_memories; memory++)
		add_change(m, memory, m->before[memory], ns);
}

static void make(struct maker *m, const struct trace_span *span)
{
	struct trace_cursor cursor = trace_cursor(m->file);
	const struct trace_event *event;

	for (uint64_t n = 0; n < span->end && !m->failed && (event = trace_next(&cursor)); n++) {
		if (n == span->first)
			begin(m, event->ns);
		add(m, event);
		m->log.end_ns = MAX(m->log.end_ns, event->ns);
	}
}

int trace_write_timeline(const struct trace_input *input, FILE *out)
{
	struct maker *m = calloc(1, sizeof(*m));
	const struct weir_machine_desc *machine = &input->file.machine;
	uint32_t device = (uint32_t)__builtin_ctzll(input->file.space->devices);
	struct timeline_run run;
	uint64_t host_bytes = 0;
	int err = m ? maker_init(m, &input->file) : -ENOMEM;

	if (!err)
		make(m, &input->span);
	if (!err && m->failed)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < machine->nr_memories; i++)
		if (machine->memory[i].kind == WEIR_MEMORY_HOST && m->budget_bytes[i]) {
			host_bytes = m->budget_bytes[i];
			m->budget_bytes[i] = 0;
		}
	if (!err) {
		run = (struct timeline_run){
			.number = 1,
			.title = "trace",
			.machine = machine,
			.device = device,
			.gpu_budget_bytes = m->budget_bytes[machine->device[device].memory],
			.host_budget_bytes = host_bytes,
			.near_bytes = m->budget_bytes,
			.log = &m->log,
			.mark = m->mark,
			.nr_marks = m->nr_marks,
		};
		m->budget_bytes[machine->device[device].memory] = 0;
		timeline_begin(out);
		err = timeline_add(out, &run);
		timeline_end(out);
	}
	if (m)
		maker_fini(m);
	return err;
}
