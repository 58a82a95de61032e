/* SPDX-License-Identifier: Apache-2.0 */
/* `weir trace`: the commands below it, and what those share. */
#include "cli/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/kept.h"
#include "cli/trace_internal.h"
#include "src/base/util.h"

const char *const trace_use_names[] = {"read", "write", "overwrite", "discard"};
const char *const trace_pattern_names[] = {"stream", "random"};
const char *const trace_advice_names[] = {"default", "prefer-memory", "read-mostly", "accessed-by"};
const char *const trace_cause_names[] = {"demand",    "prefetch", "eviction",
					 "writeback", "in-place", "before"};
const char *const trace_compared_names[] = {"first", "unchanged", "changed"};

const char *trace_printable(const char *text, char out[TRACE_TEXT_MAX + 1])
{
	size_t i = 0;

	for (; i < TRACE_TEXT_MAX && text[i]; i++)
		out[i] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
	out[i] = '\0';
	return out;
}

bool trace_is_shown(const struct trace_event *event)
{
	return event->kind != TRACE_SPACE && event->kind != TRACE_MACHINE &&
	       event->kind != TRACE_NAME && event->kind != TRACE_USES;
}

const char *trace_place_name(const struct trace_file *file, uint32_t place)
{
	return place == TRACE_NO_PLACE ? "nowhere"
				       : file->machine.memory[file->space->memory[place]].name;
}

int trace_input_open(struct trace_input *input, const char *command,
		     const struct option_def *options, unsigned int nr_options, int from, int argc,
		     char **argv, int nr_operands, struct option_value *values)
{
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	char err[TRACE_ERROR_BYTES];
	int nr, rc;

	if (!operands)
		return command_complain("no memory on the host");
	*input = (struct trace_input){0};
	rc = options_parse_operands(options, nr_options, argc, argv, values, operands, &nr, err,
				    sizeof(err));
	if (!rc && nr != nr_operands) {
		(void)snprintf(err, sizeof(err),
			       "trace %s takes %d file%s, %d are named; weir trace %s --help",
			       command, nr_operands, nr_operands == 1 ? "" : "s", nr, command);
		rc = COMMAND_EXIT_BAD;
	}
	for (int i = 0; !rc && i < nr_operands; i++)
		input->operand[i] = operands[i];
	free(operands);
	if (!rc)
		kept_add_name(input->operand[0]);
	if (!rc)
		rc = trace_file_open(input->operand[0], &input->file, err, sizeof(err));
	if (!rc) {
		input->span.end = input->file.nr_events;
		if (from >= 0)
			rc = trace_file_span(&input->file, values[from].text, values[from + 1].text,
					     &input->span, err, sizeof(err));
		if (rc)
			trace_file_close(&input->file);
	}
	return rc ? command_complain("%s", err) : 0;
}

void trace_input_close(struct trace_input *input)
{
	trace_file_close(&input->file);
}

int trace_main(int argc, char **argv)
{
	static const struct command commands[] = {
		{"convert", "write a trace as a table or as a timeline", trace_convert},
		{"cut", "write a part of a trace as a trace", trace_cut},
		{"info", "show what is in a trace", trace_info},
		{"show", "show the events of a trace, one a line", trace_show},
	};
	static const struct command_family family = {
		"trace",
		"Traces of what programs did with a space, as WEIR_TRACE has them written.",
		commands, ARRAY_LEN(commands)};

	return commands_main(&family, argc, argv);
}
