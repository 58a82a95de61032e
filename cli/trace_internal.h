/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands below `weir trace` share. */
#ifndef WEIR_CLI_TRACE_INTERNAL_H
#define WEIR_CLI_TRACE_INTERNAL_H

#include "cli/commands.h"
#include "cli/options.h"
#include "workloads/trace_file.h"

#define TRACE_ERROR_BYTES 512

/* Each is given what follows its name, and returns the program's exit status. */
int trace_info(int argc, char **argv);
int trace_show(int argc, char **argv);
int trace_cut(int argc, char **argv);
int trace_convert(int argc, char **argv);

/* Options that several commands have. */
#define TRACE_OPTION_FROM                                        \
	{                                                        \
		"from", "MARK", NULL, NULL, "begin at this mark" \
	}
#define TRACE_OPTION_TO                                                                 \
	{                                                                               \
		"to", "MARK", NULL, NULL, "end before this one, the first that follows" \
	}

/* What a command reads. */
struct trace_input {
	const char *operand[2]; /* files, as they are named */
	struct trace_file file; /* the first of them */
	struct trace_span span; /* of --from and --to */
};

/*
 * Parse a command line of so many files, open the first one and find the part that is asked for.
 * from: the index of --from, which --to follows; -1: there are none. values: one for each option.
 * On error one line was printed.
 */
int trace_input_open(struct trace_input *input, const char *command,
		     const struct option_def *options, unsigned int nr_options, int from, int argc,
		     char **argv, int nr_operands, struct option_value *values);
void trace_input_close(struct trace_input *input);

/* A text of a trace with what is no printable ASCII replaced. */
const char *trace_printable(const char *text, char out[TRACE_TEXT_MAX + 1]);

/* Names, for people and for tables: of uses, patterns, advice, causes, what comparisons found. */
extern const char *const trace_use_names[], *const trace_pattern_names[],
						    *const trace_advice_names[],
							    *const trace_cause_names[],
								    *const trace_compared_names[];

/* The memory of a place; "nowhere". */
const char *trace_place_name(const struct trace_file *file, uint32_t place);

/* Whether an event is for people: what is not is there for readers of the file alone, and stands in
 * `weir trace info`. */
bool trace_is_shown(const struct trace_event *event);

/* Write a part as CSV, one line for each event and one for each use of a bracket; or as a timeline.
 * 0 or -ENOMEM. */
int trace_write_csv(const struct trace_input *input, FILE *out);
int trace_write_timeline(const struct trace_input *input, FILE *out);

#endif
