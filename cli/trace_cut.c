/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir trace cut`: a part of a trace as a trace. It begins with what is there by then, as one that
 * was started in the middle of a program: budgets, streams, names, allocations, open brackets,
 * copies under way. Lives are numbered anew. Times of its kernels that came later are kept, and the
 * next comparison of each block, which tells of uses in the part. The mark that it ends at is the
 * last of its other events, so that what lies between its two marks is an epoch.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/first_logged.h"
#include "cli/output_file.h"
#include "cli/trace_internal.h"
#include "src/base/util.h"
#include "src/trace/writer.h"

enum { FROM, TO, HELP, NR_OPTIONS };

static const struct option_def cut_options[NR_OPTIONS] = {
	[FROM] = TRACE_OPTION_FROM,
	[TO] = TRACE_OPTION_TO,
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

/* A bracket, and how its uses are found again. */
struct open_bracket {
	const struct trace_begin *begin; /* NULL: none */
	struct trace_cursor cursor;
};

struct cutter {
	const struct trace_file *file;
	struct trace_writer *writer;
	uint64_t ns;	  /* of what is written for the beginning */
	uint64_t *number; /* by life: in the new trace; 0: not there */
	bool *alive;	  /* by life */
	bool **compared;  /* by life, by block: it was compared behind the part; NULL: none was */
	uint64_t last_life;
	uint64_t first_bracket, last_bracket; /* that end in the part; 0: none yet */

	/* What is there as the part begins. */
	const struct trace_event *budget[WEIR_MEMORIES_MAX], *mode, **stream, **life;
	struct open_bracket *open; /* by stream */
	struct open_bracket *host; /* the CPU's */
	uint32_t nr_hosts, max_hosts;
	uint64_t blocks[WEIR_MEMORIES_MAX]; /* by place */
	uint32_t queued[WEIR_MEMORIES_MAX][WEIR_MEMORIES_MAX];
};

/* ------------------------------------------------------------------ writing */

/* The same event, at another time. NULL: it cannot be written, and was not begun. */
static void *copy_at(const struct cutter *c, const struct trace_event *event, uint64_t ns)
{
	char *out = trace_writer_event(c->writer, (enum trace_kind)event->kind, event->stream, ns,
				       event->bytes);

	if (out)
		memcpy(out + sizeof(*event), (const char *)event + sizeof(*event),
		       event->bytes - sizeof(*event));
	return out;
}

static void copy(const struct cutter *c, const struct trace_event *event, uint64_t ns)
{
	if (copy_at(c, event, ns))
		trace_writer_commit(c->writer);
}

static void renumber_uses(const struct cutter *c, struct trace_file_use *use, size_t nr)
{
	for (size_t u = 0; u < nr; u++)
		use[u].life = c->number[use[u].life];
}

/* An event that speaks of lives. */
static void copy_renumbered(const struct cutter *c, const struct trace_event *event, uint64_t ns)
{
	void *out = copy_at(c, event, ns);

	if (!out)
		return;
	switch (event->kind) {
	case TRACE_ALLOC:
		((struct trace_alloc *)out)->life = c->number[((struct trace_alloc *)out)->life];
		break;
	case TRACE_BEGIN:
	case TRACE_HOST_BEGIN:
		renumber_uses(c, ((struct trace_begin *)out)->use,
			      (event->bytes - sizeof(struct trace_begin)) /
				      sizeof(struct trace_file_use));
		break;
	case TRACE_USES:
		renumber_uses(c, ((struct trace_uses *)out)->use,
			      (event->bytes - sizeof(struct trace_uses)) /
				      sizeof(struct trace_file_use));
		break;
	case TRACE_WRITE:
	case TRACE_READ:
	case TRACE_PREFETCH: {
		struct trace_part_of *part = out;

		part->life = c->number[part->life];
		break;
	}
	default: { /* the life comes first */
		struct trace_free *e = out;

		e->life = c->number[e->life];
	}
	}
	trace_writer_commit(c->writer);
}

static void copy_bracket(const struct cutter *c, const struct open_bracket *open)
{
	struct trace_cursor cursor = open->cursor;

	copy_renumbered(c, &open->begin->event, c->ns);
	for (uint32_t nr = TRACE_USES_MAX; nr < open->begin->nr_uses; nr += TRACE_USES_MAX)
		copy_renumbered(c, trace_next(&cursor), c->ns);
}

static void write_place(const struct cutter *c, uint32_t place, uint64_t nr)
{
	struct trace_place *e;

	e = nr ? trace_writer_event(c->writer, TRACE_PLACE, TRACE_NO_STREAM, c->ns, sizeof(*e))
	       : NULL;
	if (!e)
		return;
	e->nr = (uint32_t)nr;
	e->from = TRACE_NO_PLACE;
	e->to = place;
	trace_writer_commit(c->writer);
}

static void write_queued(const struct cutter *c, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < c->queued[from][to]; i++) {
		struct trace_move *e = trace_writer_event(c->writer, TRACE_MOVE, TRACE_NO_STREAM,
							  c->ns, sizeof(*e));

		if (!e)
			return;
		e->from = (uint8_t)from;
		e->to = (uint8_t)to;
		e->cause = WEIR_CAUSE_NR;
		trace_writer_commit(c->writer);
	}
}

/* What there is as the part begins. */
static void write_state(struct cutter *c)
{
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		if (c->budget[m])
			copy(c, c->budget[m], c->ns);
	if (c->mode)
		copy(c, c->mode, c->ns);
	for (uint32_t s = 0; s < c->file->nr_streams; s++)
		if (c->stream[s])
			copy(c, c->stream[s], c->ns);
	for (uint64_t life = 1; life <= c->file->nr_lives; life++) {
		struct trace_alloc *e;

		if (!c->alive[life])
			continue;
		c->number[life] = ++c->last_life;
		e = copy_at(c, c->life[life], c->ns);
		if (!e)
			return;
		e->life = c->number[life];
		e->took_ns = 0;
		e->flags |= TRACE_ALLOC_BEFORE;
		trace_writer_commit(c->writer);
	}
	for (uint32_t place = 0; place < c->file->space->nr_places; place++)
		write_place(c, place, c->blocks[place]);
	for (uint32_t from = 0; from < c->file->space->nr_places; from++)
		for (uint32_t to = 0; to < c->file->space->nr_places; to++)
			write_queued(c, from, to);
	for (uint32_t s = 0; s < c->file->nr_streams; s++)
		if (c->open[s].begin)
			copy_bracket(c, &c->open[s]);
	for (uint32_t i = 0; i < c->nr_hosts; i++)
		copy_bracket(c, &c->host[i]);
}

/* ------------------------------------------------------------------ in front of the part */

static int host_add(struct cutter *c, const struct trace_cursor *cursor,
		    const struct trace_begin *begin)
{
	if (c->nr_hosts == c->max_hosts) {
		uint32_t max = MAX(16u, 2 * c->max_hosts);
		struct open_bracket *host = realloc(c->host, max * sizeof(*host));

		if (!host)
			return -ENOMEM;
		c->host = host;
		c->max_hosts = max;
	}
	c->host[c->nr_hosts++] = (struct open_bracket){begin, *cursor};
	return 0;
}

static void host_del(struct cutter *c, uint32_t number)
{
	uint32_t i = 0;

	while (c->host[i].begin->number != number)
		i++;
	memmove(&c->host[i], &c->host[i + 1], (c->nr_hosts - i - 1) * sizeof(*c->host));
	c->nr_hosts--;
}

static void note_moves(struct cutter *c, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_move *move = e;
	const struct trace_moved *moved = e;
	const struct trace_place *place = e;

	if (event->kind == TRACE_MOVE) {
		c->queued[move->from][move->to]++;
		/* What stays where it is has no home to change; what was undone is forgotten: the
		 * figure is for people. */
		if (move->cause != WEIR_CAUSE_WRITEBACK && move->cause != WEIR_CAUSE_NR) {
			c->blocks[move->from] -= c->blocks[move->from] != 0;
			c->blocks[move->to]++;
		}
	} else if (event->kind == TRACE_MOVED || event->kind == TRACE_UNDONE) {
		c->queued[moved->from][moved->to] -= moved->nr;
	} else if (event->kind == TRACE_PLACE && place->from != place->to) {
		if (place->from != TRACE_NO_PLACE)
			c->blocks[place->from] -= MIN(c->blocks[place->from], place->nr);
		if (place->to != TRACE_NO_PLACE)
			c->blocks[place->to] += place->nr;
	}
}

static int note(struct cutter *c, const struct trace_cursor *cursor,
		const struct trace_event *event)
{
	const void *e = event;
	uint64_t life;

	switch (event->kind) {
	case TRACE_BUDGET:
		c->budget[((const struct trace_budget *)e)->memory] = event;
		return 0;
	case TRACE_MODE:
		c->mode = event;
		return 0;
	case TRACE_STREAM:
		c->stream[event->stream] = event;
		return 0;
	case TRACE_ALLOC:
		life = ((const struct trace_alloc *)e)->life;
		c->life[life] = event;
		c->alive[life] = true;
		return 0;
	case TRACE_FREE:
		c->alive[((const struct trace_free *)e)->life] = false;
		return 0;
	case TRACE_BEGIN:
		c->open[event->stream] = (struct open_bracket){e, *cursor};
		return 0;
	case TRACE_END:
		c->open[event->stream].begin = NULL;
		return 0;
	case TRACE_HOST_BEGIN:
		return host_add(c, cursor, e);
	case TRACE_HOST_END:
		host_del(c, ((const struct trace_host_end *)e)->number);
		return 0;
	default:
		note_moves(c, event);
		return 0;
	}
}

/* ------------------------------------------------------------------ the part */

static void cut_event(struct cutter *c, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_time *time = e;

	switch (event->kind) {
	case TRACE_ALLOC:
		c->number[((const struct trace_alloc *)e)->life] = ++c->last_life;
		copy_renumbered(c, event, event->ns);
		break;
	case TRACE_FREE:
	case TRACE_BEGIN:
	case TRACE_USES:
	case TRACE_HOST_BEGIN:
	case TRACE_WRITE:
	case TRACE_READ:
	case TRACE_PREFETCH:
	case TRACE_ADVISE:
	case TRACE_MOVE:
	case TRACE_PLACE:
	case TRACE_COMPARED:
		copy_renumbered(c, event, event->ns);
		break;
	case TRACE_END:
		c->last_bracket = ((const struct trace_end *)e)->bracket;
		c->first_bracket = c->first_bracket ? c->first_bracket : c->last_bracket;
		copy(c, event, event->ns);
		break;
	case TRACE_TIME:
		if (c->first_bracket && time->bracket >= c->first_bracket)
			copy(c, event, event->ns);
		break;
	case TRACE_STOP:
		break;
	default:
		copy(c, event, event->ns);
	}
}

/* A block's first comparison behind the part says what became of it since the last one in it. */
static int cut_compared(struct cutter *c, const struct trace_compared *e, uint64_t ns)
{
	bool **compared = &c->compared[e->life];

	if (!c->number[e->life])
		return 0;
	if (!*compared)
		*compared = calloc(c->file->life[e->life].nr_blocks, sizeof(**compared));
	if (!*compared)
		return -ENOMEM;
	if (!(*compared)[e->block])
		copy_renumbered(c, &e->event, ns);
	(*compared)[e->block] = true;
	return 0;
}

/* What comes behind the part and tells of it. */
static int cut_later(struct cutter *c, const struct trace_event *event, uint64_t ns)
{
	const struct trace_time *time = (const void *)event;

	if (event->kind == TRACE_COMPARED)
		return cut_compared(c, (const void *)event, ns);
	if (event->kind == TRACE_TIME && c->first_bracket && time->bracket >= c->first_bracket &&
	    time->bracket <= c->last_bracket)
		copy(c, event, ns);
	return 0;
}

/* Names are numbered from the beginning of the trace on, and go into any part. */
static bool is_always(const struct trace_event *event)
{
	return event->kind == TRACE_SPACE || event->kind == TRACE_MACHINE ||
	       event->kind == TRACE_NAME;
}

/* When the part begins. */
static uint64_t first_ns(const struct trace_file *file, const struct trace_span *span)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event = trace_next(&cursor), *next;

	for (uint64_t n = 0; n < span->first && (next = trace_next(&cursor)); n++)
		event = next;
	return event->ns;
}

static int cut(struct cutter *c, const struct trace_span *span)
{
	struct trace_cursor cursor = trace_cursor(c->file);
	const struct trace_event *event;
	uint64_t n = 0, end_ns = 0;
	int err = 0;

	c->ns = first_ns(c->file, span);
	while (!err && n < span->first && (event = trace_next(&cursor))) {
		if (is_always(event))
			copy(c, event, c->ns);
		else
			err = note(c, &cursor, event);
		n++;
	}
	if (!err && span->first)
		write_state(c);
	for (; !err && n < span->end && (event = trace_next(&cursor)); n++) {
		cut_event(c, event);
		end_ns = event->ns;
	}
	if (!err && (event = trace_next(&cursor))) { /* the mark of --to */
		copy(c, event, event->ns);
		end_ns = event->ns;
	}
	while (!err && (event = trace_next(&cursor)))
		err = cut_later(c, event, end_ns);
	if (!err && trace_writer_event(c->writer, TRACE_STOP, TRACE_NO_STREAM, end_ns,
				       sizeof(struct trace_event)))
		trace_writer_commit(c->writer);
	return err;
}

static int cutter_init(struct cutter *c, const struct trace_file *file)
{
	c->file = file;
	c->number = calloc(file->nr_lives + 1, sizeof(*c->number));
	c->alive = calloc(file->nr_lives + 1, sizeof(*c->alive));
	c->compared = calloc(file->nr_lives + 1, sizeof(*c->compared));
	c->life = calloc(file->nr_lives + 1, sizeof(struct trace_event *));
	c->stream = calloc((size_t)file->nr_streams + 1, sizeof(struct trace_event *));
	c->open = calloc((size_t)file->nr_streams + 1, sizeof(*c->open));
	return c->number && c->alive && c->compared && c->life && c->stream && c->open ? 0
										       : -ENOMEM;
}

static void cutter_fini(struct cutter *c)
{
	free(c->number);
	free(c->alive);
	for (uint64_t life = 1; c->compared && life <= c->file->nr_lives; life++)
		free(c->compared[life]);
	free((void *)c->compared);
	free((void *)(uintptr_t)c->life);
	free((void *)(uintptr_t)c->stream);
	free(c->open);
	free(c->host);
}

/* ------------------------------------------------------------------ the command */

static int print_help(void)
{
	puts("usage: weir trace cut FILE OUTPUT [--from MARK] [--to MARK]\n"
	     "\n"
	     "Write a part of a trace as a trace, which ends with the mark of --to. OUTPUT is\n"
	     "replaced if it is a trace.\n");
	options_help(stdout, cut_options, NR_OPTIONS);
	return command_flushed(0);
}

/* 0, or the exit status, when a line was printed. */
static int write_cut(const struct trace_input *input)
{
	struct first_logged logged = {0};
	struct cutter c = {0};
	int err = cutter_init(&c, &input->file);

	weir_log_set(first_logged_keep, &logged);
	if (!err)
		err = trace_writer_open(input->operand[1], false, &c.writer);
	if (!err)
		err = cut(&c, &input->span);
	trace_writer_close(c.writer);
	weir_log_set(NULL, NULL);
	cutter_fini(&c);
	if (err == -ENOMEM)
		return command_complain("no memory on the host");
	/* A disk that is full is a warning of the writer's. */
	if (err || logged.warning[0])
		return command_complain("%s", err ? logged.error : logged.warning);
	return 0;
}

int trace_cut(int argc, char **argv)
{
	struct option_value values[NR_OPTIONS];
	struct trace_input input;
	char err[TRACE_ERROR_BYTES];
	int status;

	if (options_want_help(argc, argv))
		return print_help();
	if (trace_input_open(&input, "cut", cut_options, NR_OPTIONS, FROM, argc, argv, 2, values))
		return COMMAND_EXIT_BAD;
	if (output_file_check("OUTPUT", input.operand[1], err, sizeof(err)))
		status = command_complain("%s", err);
	else
		status = write_cut(&input);
	trace_input_close(&input);
	return status;
}
