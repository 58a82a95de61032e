/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as CSV: a line for each event, and one for each use of a bracket; a column that says
 * nothing of an event is empty. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/trace_internal.h"

#define NONE UINT64_MAX /* an empty column */

/* A line, in the order of its columns behind kind. */
struct row {
	uint64_t took_ns, life, offset, bytes;
	const char *use, *pattern;
	uint64_t granule, read_bytes, write_bytes, block, nr;
	const char *from, *to, *cause;
	uint64_t number;
	double ops; /* 0: empty */
	const char *name;
};

static const struct row empty = {.took_ns = NONE,
				 .life = NONE,
				 .offset = NONE,
				 .bytes = NONE,
				 .granule = NONE,
				 .read_bytes = NONE,
				 .write_bytes = NONE,
				 .block = NONE,
				 .nr = NONE,
				 .number = NONE};

static void write_number(FILE *out, uint64_t value)
{
	if (value == NONE)
		fputc(',', out);
	else
		fprintf(out, ",%" PRIu64, value);
}

/* Texts of a trace may hold anything. */
static void write_text(FILE *out, const char *text)
{
	char plain[TRACE_TEXT_MAX + 1];

	fputc(',', out);
	if (!text)
		return;
	fputc('"', out);
	for (const char *c = trace_printable(text, plain); *c; c++) {
		if (*c == '"')
			fputc('"', out);
		fputc(*c, out);
	}
	fputc('"', out);
}

static void write_word(FILE *out, const char *word)
{
	fprintf(out, ",%s", word ? word : "");
}

static void write_row(FILE *out, const struct trace_event *event, uint64_t n, const char *kind,
		      const struct row *row)
{
	fprintf(out, "%" PRIu64 ",%" PRIu64 ",%s", n, event->ns, kind);
	write_number(out, row->took_ns);
	write_number(out, event->stream == TRACE_NO_STREAM ? NONE : event->stream);
	write_number(out, row->life);
	write_number(out, row->offset);
	write_number(out, row->bytes);
	write_word(out, row->use);
	write_word(out, row->pattern);
	write_number(out, row->granule);
	write_number(out, row->read_bytes);
	write_number(out, row->write_bytes);
	write_number(out, row->block);
	write_number(out, row->nr);
	write_word(out, row->from);
	write_word(out, row->to);
	write_word(out, row->cause);
	write_number(out, row->number);
	if (row->ops > 0)
		fprintf(out, ",%.17g", row->ops);
	else
		fputc(',', out);
	write_text(out, row->name);
	fputc('\n', out);
}

static void write_uses(FILE *out, const struct trace_cursor *cursor, const struct trace_begin *e,
		       uint64_t n)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = e};
	const struct trace_file_use *use;

	while ((use = trace_next_use(&uses))) {
		struct row row = empty;

		row.life = use->life;
		row.offset = use->offset;
		row.bytes = use->bytes;
		row.use = trace_use_names[use->kind];
		row.pattern = trace_pattern_names[use->pattern];
		row.granule = use->granule;
		row.read_bytes = use->read_bytes;
		row.write_bytes = use->write_bytes;
		write_row(out, &e->event, n, "use", &row);
	}
}

/* Columns of events of moves. */
static void fill_move(const struct trace_file *file, const struct trace_event *event,
		      struct row *row)
{
	const void *e = event;
	const struct trace_move *move = e;
	const struct trace_moved *moved = e;
	const struct trace_place *place = e;
	const struct trace_compared *compared = e;

	if (event->kind == TRACE_MOVE) {
		row->life = move->life;
		row->block = move->block;
		row->nr = 1;
		row->from = trace_place_name(file, move->from);
		row->to = trace_place_name(file, move->to);
		row->cause = trace_cause_names[move->cause];
	} else if (event->kind == TRACE_PLACE) {
		row->life = place->life;
		row->block = place->first;
		row->nr = place->nr;
		row->from = trace_place_name(file, place->from);
		row->to = trace_place_name(file, place->to);
	} else if (event->kind == TRACE_COMPARED) {
		row->life = compared->life;
		row->block = compared->block;
		row->nr = 1;
		row->name = trace_compared_names[compared->result];
	} else if (event->kind == TRACE_MOVED || event->kind == TRACE_UNDONE) {
		row->nr = moved->nr;
		row->from = trace_place_name(file, moved->from);
		row->to = trace_place_name(file, moved->to);
	}
}

/* Columns of what the program says beside brackets. */
static void fill_said(const struct trace_file *file, const struct trace_event *event,
		      struct row *row)
{
	const void *e = event;
	const struct trace_part_of *part = e;
	const struct trace_advise *advise = e;
	const struct trace_budget *budget = e;
	const struct trace_plan *plan = e;

	switch (event->kind) {
	case TRACE_WRITE:
	case TRACE_READ:
	case TRACE_PREFETCH:
		row->took_ns = part->took_ns;
		row->life = part->life;
		row->offset = part->offset;
		row->bytes = part->bytes;
		if (event->kind == TRACE_PREFETCH)
			row->to = file->machine.memory[part->memory].name;
		break;
	case TRACE_SYNC:
	case TRACE_WAIT:
		row->took_ns = ((const struct trace_sync *)e)->took_ns;
		break;
	case TRACE_ADVISE:
		row->life = advise->life;
		row->name = trace_advice_names[advise->advice];
		row->number = advise->where;
		break;
	case TRACE_BUDGET:
		row->to = file->machine.memory[budget->memory].name;
		row->bytes = budget->bytes;
		break;
	case TRACE_MODE:
		row->name = ((const struct trace_mode *)e)->mode ? "planned" : "fixed";
		break;
	case TRACE_PLAN:
	case TRACE_UNPLAN:
		row->number = plan->device;
		row->nr = event->kind == TRACE_PLAN ? plan->nr_steps : NONE;
		break;
	case TRACE_MARK:
		row->name = ((const struct trace_mark *)e)->text;
		break;
	default:
		fill_move(file, event, row);
	}
}

static void fill(const struct trace_file *file, const struct trace_event *event, struct row *row)
{
	const void *e = event;
	const struct trace_alloc *alloc = e;
	const struct trace_begin *begin = e;
	const struct trace_end *end = e;
	const struct trace_time *time = e;

	switch (event->kind) {
	case TRACE_STREAM:
		row->name = file->machine.device[((const struct trace_stream *)e)->device].name;
		break;
	case TRACE_ALLOC:
		row->took_ns = alloc->took_ns;
		row->life = alloc->life;
		row->bytes = alloc->bytes;
		row->nr = alloc->nr_blocks;
		break;
	case TRACE_FREE:
		row->life = ((const struct trace_free *)e)->life;
		break;
	case TRACE_BEGIN:
	case TRACE_HOST_BEGIN:
		row->took_ns = begin->took_ns;
		row->nr = begin->nr_uses;
		row->number = begin->number ? begin->number : NONE;
		break;
	case TRACE_END:
		row->number = end->bracket;
		row->ops = end->ops;
		row->name = trace_end_name(file, end);
		break;
	case TRACE_TIME:
		row->number = time->bracket;
		row->took_ns = time->end_ns - time->begin_ns;
		break;
	case TRACE_HOST_END:
		row->number = ((const struct trace_host_end *)e)->number;
		break;
	default:
		fill_said(file, event, row);
	}
}

int trace_write_csv(const struct trace_input *input, FILE *out)
{
	struct trace_cursor cursor = trace_cursor(&input->file);
	const struct trace_event *event;

	fputs("event,ns,kind,took_ns,stream,life,offset,bytes,use,pattern,granule,read_bytes,"
	      "write_bytes,block,nr,from,to,cause,number,ops,name\n",
	      out);
	for (uint64_t n = 0; n < input->span.end && (event = trace_next(&cursor)); n++) {
		struct row row = empty;

		if (n < input->span.first || !trace_is_shown(event))
			continue;
		fill(&input->file, event, &row);
		write_row(out, event, n, trace_kind_name(event->kind), &row);
		if (event->kind == TRACE_BEGIN || event->kind == TRACE_HOST_BEGIN)
			write_uses(out, &cursor, (const void *)event, n);
	}
	return 0;
}
