/* SPDX-License-Identifier: Apache-2.0 */
/* `weir trace show`: the events of a trace in words. */
#include <inttypes.h>

#include "cli/trace_internal.h"

enum { FROM, TO, HELP, NR_OPTIONS };

static const struct option_def show_options[NR_OPTIONS] = {
	[FROM] = TRACE_OPTION_FROM,
	[TO] = TRACE_OPTION_TO,
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

static void show_use(const struct trace_file_use *use)
{
	printf("\n%28s%s life %" PRIu64 " [%" PRIu64 ", %" PRIu64 ")", "",
	       trace_use_names[use->kind], use->life, use->offset, use->offset + use->bytes);
	printf(" %s", trace_pattern_names[use->pattern]);
	if (use->granule)
		printf(" of %" PRIu32, use->granule);
	printf(", reads %" PRIu64 ", writes %" PRIu64, use->read_bytes, use->write_bytes);
}

static void show_begin(const struct trace_cursor *cursor, const struct trace_begin *e)
{
	struct trace_use_cursor uses = {.cursor = *cursor, .begin = e};
	const struct trace_file_use *use;

	if (e->number)
		printf(" number %" PRIu32, e->number);
	printf(" uses %" PRIu32 ", took %" PRIu64 " ns", e->nr_uses, e->took_ns);
	while ((use = trace_next_use(&uses)))
		show_use(use);
}

static void show_alloc(const struct trace_file *file, const struct trace_alloc *e)
{
	printf(" life %" PRIu64 ", %" PRIu64 " bytes in %" PRIu32 " blocks", e->life, e->bytes,
	       e->nr_blocks);
	if (e->flags & TRACE_ALLOC_BEFORE)
		printf(", from before");
	if (e->flags & TRACE_ALLOC_PAGED)
		printf(", paged");
	if (e->flags & TRACE_ALLOC_WINDOW)
		printf(", window of %s in range %" PRIu32, file->machine.device[e->device].name,
		       e->number);
}

static void show_end(const struct trace_file *file, const struct trace_end *e)
{
	char text[TRACE_TEXT_MAX + 1];

	printf(" bracket %" PRIu64 ", %s", e->bracket,
	       trace_printable(trace_end_name(file, e), text));
	if (e->ops > 0)
		printf(", %.0f operations", e->ops);
	if (e->flags & TRACE_END_IN_PLACE)
		printf(", in place");
}

static void show_place(const struct trace_file *file, const struct trace_place *e)
{
	printf(" life %" PRIu64 ", blocks [%" PRIu32 ", %" PRIu32 ")", e->life, e->first,
	       e->first + e->nr);
	if (e->from == e->to)
		printf(" are in %s", trace_place_name(file, e->to));
	else
		printf(" from %s to %s", trace_place_name(file, e->from),
		       trace_place_name(file, e->to));
}

static void show_copy(const struct trace_part_of *e)
{
	printf(" life %" PRIu64 " [%" PRIu64 ", %" PRIu64 "), took %" PRIu64 " ns", e->life,
	       e->offset, e->offset + e->bytes, e->took_ns);
}

/* Events of moves and plans. */
static void show_moves(const struct trace_file *file, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_move *move = e;
	const struct trace_moved *moved = e;
	const struct trace_plan *plan = e;
	const struct trace_compared *compared = e;

	if (event->kind == TRACE_MOVE)
		printf(" life %" PRIu64 ", block %" PRIu32 " from %s to %s, %s", move->life,
		       move->block, trace_place_name(file, move->from),
		       trace_place_name(file, move->to), trace_cause_names[move->cause]);
	else if (event->kind == TRACE_MOVED || event->kind == TRACE_UNDONE)
		printf(" %" PRIu32 " from %s to %s", moved->nr, trace_place_name(file, moved->from),
		       trace_place_name(file, moved->to));
	else if (event->kind == TRACE_PLACE)
		show_place(file, e);
	else if (event->kind == TRACE_COMPARED)
		printf(" life %" PRIu64 ", block %" PRIu32 ": %s", compared->life, compared->block,
		       trace_compared_names[compared->result]);
	else if (event->kind == TRACE_PLAN)
		printf(" %s: %" PRIu32 " steps in %" PRIu32 " stages, %" PRIu32
		       " moves; %.3f ms a period, %.3f ms of computation",
		       file->machine.device[plan->device].name, plan->nr_steps, plan->nr_stages,
		       plan->nr_actions, plan->modelled_ns / 1e6, plan->compute_ns / 1e6);
	else if (event->kind == TRACE_UNPLAN)
		printf(" %s", file->machine.device[plan->device].name);
}

/* What the program says beside brackets. */
static void show_said(const struct trace_file *file, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_advise *advise = e;
	char text[TRACE_TEXT_MAX + 1];

	switch (event->kind) {
	case TRACE_ADVISE:
		printf(" life %" PRIu64 ", %s %" PRIu32, advise->life,
		       trace_advice_names[advise->advice], advise->where);
		break;
	case TRACE_PREFETCH:
		show_copy(e);
		printf(" to %s",
		       file->machine.memory[((const struct trace_part_of *)e)->memory].name);
		break;
	case TRACE_MODE:
		printf(" %s", ((const struct trace_mode *)e)->mode ? "planned" : "fixed");
		break;
	case TRACE_BUDGET:
		printf(" %s, %" PRIu64 " bytes",
		       file->machine.memory[((const struct trace_budget *)e)->memory].name,
		       ((const struct trace_budget *)e)->bytes);
		break;
	case TRACE_MARK:
		printf(" %s", trace_printable(((const struct trace_mark *)e)->text, text));
		break;
	default:
		show_moves(file, event);
	}
}

static void show_event(const struct trace_cursor *cursor, const struct trace_event *event)
{
	const struct trace_file *file = cursor->file;
	const void *e = event;
	const struct trace_time *time = e;

	printf("%14.3f us ", (double)(event->ns - file->begin_ns) / 1e3);
	if (event->stream == TRACE_NO_STREAM)
		printf("%-10s", trace_kind_name(event->kind));
	else
		printf("%-10s stream %u", trace_kind_name(event->kind), (unsigned)event->stream);
	switch (event->kind) {
	case TRACE_STREAM:
		printf(" of %s",
		       file->machine.device[((const struct trace_stream *)e)->device].name);
		break;
	case TRACE_ALLOC:
		show_alloc(file, e);
		break;
	case TRACE_FREE:
		printf(" life %" PRIu64, ((const struct trace_free *)e)->life);
		break;
	case TRACE_BEGIN:
	case TRACE_HOST_BEGIN:
		show_begin(cursor, e);
		break;
	case TRACE_END:
		show_end(file, e);
		break;
	case TRACE_HOST_END:
		printf(" number %" PRIu32, ((const struct trace_host_end *)e)->number);
		break;
	case TRACE_TIME:
		printf(" bracket %" PRIu64 " ran %.3f us%s", time->bracket,
		       (double)(time->end_ns - time->begin_ns) / 1e3,
		       time->flags & TRACE_END_IN_PLACE ? ", in place" : "");
		break;
	case TRACE_WRITE:
	case TRACE_READ:
		show_copy(e);
		break;
	case TRACE_SYNC:
	case TRACE_WAIT:
		printf(" took %" PRIu64 " ns", ((const struct trace_sync *)e)->took_ns);
		break;
	default:
		show_said(file, event);
	}
	putchar('\n');
}

static int print_help(void)
{
	puts("usage: weir trace show FILE [--from MARK] [--to MARK]\n"
	     "\n"
	     "Show events in the order in which they happened, with their times from the\n"
	     "beginning of the trace on; below a bracket, its uses.\n");
	options_help(stdout, show_options, NR_OPTIONS);
	return command_flushed(0);
}

int trace_show(int argc, char **argv)
{
	struct option_value values[NR_OPTIONS];
	const struct trace_event *event;
	struct trace_cursor cursor;
	struct trace_input input;

	if (options_want_help(argc, argv))
		return print_help();
	if (trace_input_open(&input, "show", show_options, NR_OPTIONS, FROM, argc, argv, 1, values))
		return COMMAND_EXIT_BAD;
	cursor = trace_cursor(&input.file);
	for (uint64_t n = 0; n < input.span.end && (event = trace_next(&cursor)); n++)
		if (n >= input.span.first && trace_is_shown(event))
			show_event(&cursor, event);
	trace_input_close(&input);
	return command_flushed(0);
}
