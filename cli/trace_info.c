/* SPDX-License-Identifier: Apache-2.0 */
/* `weir trace info`: what is in a trace, in a few lines. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "cli/size.h"
#include "cli/trace_internal.h"

enum { JSON, HELP, NR_OPTIONS };

static const struct option_def info_options[NR_OPTIONS] = {
	[JSON] = {"json", NULL, NULL, NULL, "print JSON"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

/* What the events say together. */
struct summary {
	uint64_t budget_bytes[WEIR_MEMORIES_MAX]; /* the last ones */
	bool budgeted[WEIR_MEMORIES_MAX];
	uint64_t live_bytes, peak_bytes; /* as they were asked for */
	uint64_t moves[WEIR_CAUSE_NR + 1];
	double kernel_ns; /* of the brackets whose times were taken */
	uint32_t mode;
};

static void add(struct summary *s, const struct trace_file *file, const struct trace_event *event)
{
	const void *e = event;
	const struct trace_budget *budget = e;
	const struct trace_time *time = e;

	switch (event->kind) {
	case TRACE_BUDGET:
		s->budget_bytes[budget->memory] = budget->bytes;
		s->budgeted[budget->memory] = true;
		break;
	case TRACE_MODE:
		s->mode = ((const struct trace_mode *)e)->mode;
		break;
	case TRACE_ALLOC:
		s->live_bytes += ((const struct trace_alloc *)e)->bytes;
		if (s->live_bytes > s->peak_bytes)
			s->peak_bytes = s->live_bytes;
		break;
	case TRACE_FREE:
		s->live_bytes -= file->life[((const struct trace_free *)e)->life].bytes;
		break;
	case TRACE_MOVE:
		s->moves[((const struct trace_move *)e)->cause]++;
		break;
	case TRACE_TIME:
		s->kernel_ns += (double)(time->end_ns - time->begin_ns);
		break;
	default:
		break;
	}
}

static void summarise(const struct trace_file *file, struct summary *out)
{
	struct trace_cursor cursor = trace_cursor(file);
	const struct trace_event *event;

	*out = (struct summary){0};
	while ((event = trace_next(&cursor)))
		add(out, file, event);
}

/* ------------------------------------------------------------------ printing */

static const char *state(const struct trace_file *file)
{
	return file->ended ? "ended as it should" : "cut short: the program ended, or goes on";
}

static void line(const char *name, uint64_t value)
{
	printf("%-20s %" PRIu64 "\n", name, value);
}

static void size_line(const char *name, uint64_t bytes)
{
	char text[SIZE_TEXT_BYTES];

	printf("%-20s %s\n", name, size_format(bytes, text, sizeof(text)));
}

static void date_text(const struct trace_file *file, char *text, size_t bytes)
{
	time_t when = (time_t)(file->space->wall_ns / 1000000000u);
	struct tm tm;

	if (!gmtime_r(&when, &tm) || !strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &tm))
		text[0] = '\0';
}

static void print_text(const struct trace_input *input)
{
	const struct trace_file *file = &input->file;
	char text[TRACE_TEXT_MAX + 1], date[64];
	struct summary s;

	summarise(file, &s);
	date_text(file, date, sizeof(date));
	printf("%-20s %s\n", "file", input->operand[0]);
	printf("%-20s %s\n", "recording", state(file));
	printf("%-20s %s, by weir %s\n", "written", date, trace_printable(file->space->weir, text));
	printf("%-20s %s\n", "machine", trace_printable(file->machine.name, text));
	for (uint32_t m = 0; m < file->machine.nr_memories; m++)
		if (s.budgeted[m]) {
			char name[WEIR_NAME_MAX + 8];

			(void)snprintf(name, sizeof(name), "budget %s",
				       file->machine.memory[m].name);
			size_line(trace_printable(name, text), s.budget_bytes[m]);
		}
	size_line("block", file->space->block_bytes);
	printf("%-20s %s\n", "mode", s.mode == WEIR_PLANNED ? "planned" : "fixed");
	printf("%-20s %.6f s\n", "time", (double)(file->end_ns - file->begin_ns) / 1e9);
	line("events", file->nr_events);
	line("allocations", file->nr_lives);
	size_line("allocated at most", s.peak_bytes);
	line("brackets", file->nr_brackets);
	line("host brackets", file->nr_of[TRACE_HOST_BEGIN]);
	line("times taken", file->nr_of[TRACE_TIME]);
	line("plans made", file->nr_of[TRACE_PLAN]);
	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE) {
			(void)snprintf(text, sizeof(text), "moves, %s", trace_cause_names[cause]);
			line(text, s.moves[cause]);
		}
	line("marks", file->nr_of[TRACE_MARK]);
	for (uint32_t i = 1; i <= file->nr_names; i++)
		printf("%-20s %s\n", i == 1 ? "kernels" : "", trace_printable(file->name[i], text));
}

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *budgets_json(const struct trace_file *file, const struct summary *s)
{
	json_t *budgets = json_object();
	char text[TRACE_TEXT_MAX + 1];

	for (uint32_t m = 0; budgets && m < file->machine.nr_memories; m++)
		if (s->budgeted[m])
			(void)json_object_set_new(
				budgets, trace_printable(file->machine.memory[m].name, text),
				integer(s->budget_bytes[m]));
	return budgets;
}

static json_t *events_json(const struct trace_file *file)
{
	json_t *events = json_object();

	for (uint32_t kind = 1; events && kind < TRACE_KIND_END; kind++)
		if (file->nr_of[kind])
			(void)json_object_set_new(events, trace_kind_name(kind),
						  integer(file->nr_of[kind]));
	return events;
}

static json_t *moves_json(const struct summary *s)
{
	json_t *moves = json_object();

	for (int cause = 0; moves && cause < WEIR_CAUSE_NR; cause++)
		if (cause != WEIR_CAUSE_INPLACE)
			(void)json_object_set_new(moves, trace_cause_names[cause],
						  integer(s->moves[cause]));
	return moves;
}

static json_t *kernels_json(const struct trace_file *file)
{
	json_t *kernels = json_array();
	char text[TRACE_TEXT_MAX + 1];

	for (uint32_t i = 1; kernels && i <= file->nr_names; i++)
		(void)json_array_append_new(kernels,
					    json_string(trace_printable(file->name[i], text)));
	return kernels;
}

static int print_json(const struct trace_input *input)
{
	const struct trace_file *file = &input->file;
	char weir[TRACE_TEXT_MAX + 1], machine[TRACE_TEXT_MAX + 1], date[64];
	struct summary s;
	json_t *root;

	summarise(file, &s);
	date_text(file, date, sizeof(date));
	root = json_pack("{ss si sb ss ss ss so so ss so so so so so so so}", "file",
			 input->operand[0], "version", (int)file->version, "ended", file->ended,
			 "date", date, "weir", trace_printable(file->space->weir, weir), "machine",
			 trace_printable(file->machine.name, machine), "budget_bytes",
			 budgets_json(file, &s), "block_bytes", integer(file->space->block_bytes),
			 "mode", s.mode == WEIR_PLANNED ? "planned" : "fixed", "ns",
			 integer(file->end_ns - file->begin_ns), "events", events_json(file),
			 "allocations", integer(file->nr_lives), "peak_bytes",
			 integer(s.peak_bytes), "brackets", integer(file->nr_brackets), "moves",
			 moves_json(&s), "kernels", kernels_json(file));
	if (!root)
		return command_complain("no memory on the host, or a file name that is not UTF-8");
	(void)json_dumpf(root, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(root);
	return 0;
}

static int print_help(void)
{
	puts("usage: weir trace info FILE [--json]\n"
	     "\n"
	     "Show of what machine and budgets a trace is, and how much is in it.\n");
	options_help(stdout, info_options, NR_OPTIONS);
	return command_flushed(0);
}

int trace_info(int argc, char **argv)
{
	struct option_value values[NR_OPTIONS];
	struct trace_input input;
	int status = 0;

	if (options_want_help(argc, argv))
		return print_help();
	if (trace_input_open(&input, "info", info_options, NR_OPTIONS, -1, argc, argv, 1, values))
		return COMMAND_EXIT_BAD;
	if (values[JSON].text)
		status = print_json(&input);
	else
		print_text(&input);
	trace_input_close(&input);
	return command_flushed(status);
}
