/* SPDX-License-Identifier: Apache-2.0 */
/* `weir trace convert`: traces in other formats. */
#include "cli/output_file.h"
#include "cli/trace_internal.h"

enum { FROM, TO, CSV, TIMELINE, HELP, NR_OPTIONS };

static const struct option_def convert_options[NR_OPTIONS] = {
	[FROM] = TRACE_OPTION_FROM,
	[TO] = TRACE_OPTION_TO,
	[CSV] = {"csv", "FILE", NULL, NULL, "write a table: an event or a use a line; -: stdout"},
	[TIMELINE] = {"timeline", "FILE", NULL, NULL,
		      "write a timeline for Perfetto or chrome://tracing; -: stdout"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

/* One output. Prints a line on error. */
static int write_output(const struct trace_input *input, const char *option, const char *name,
			int (*write)(const struct trace_input *input, FILE *out))
{
	struct output_file output;
	char err[TRACE_ERROR_BYTES];
	int rc;

	if (!name)
		return 0;
	if (output_file_open(&output, option, name, err, sizeof(err)))
		return command_complain("%s", err);
	rc = write(input, output.stream);
	if (rc) {
		output_file_abandon(&output);
		return command_complain("no memory on the host");
	}
	return output_file_commit(&output, err, sizeof(err)) ? command_complain("%s", err) : 0;
}

static int print_help(void)
{
	puts("usage: weir trace convert FILE [--csv FILE] [--timeline FILE] [options]\n"
	     "\n"
	     "Write a trace, or a part of it, in other formats.\n");
	options_help(stdout, convert_options, NR_OPTIONS);
	return command_flushed(0);
}

int trace_convert(int argc, char **argv)
{
	struct option_value values[NR_OPTIONS];
	struct trace_input input;
	int status;

	if (options_want_help(argc, argv))
		return print_help();
	if (trace_input_open(&input, "convert", convert_options, NR_OPTIONS, FROM, argc, argv, 1,
			     values))
		return COMMAND_EXIT_BAD;
	if (values[CSV].text || values[TIMELINE].text)
		status = write_output(&input, "--csv", values[CSV].text, trace_write_csv);
	else
		status = command_complain("nothing to write: name a file with --csv or --timeline");
	if (!status)
		status = write_output(&input, "--timeline", values[TIMELINE].text,
				      trace_write_timeline);
	trace_input_close(&input);
	return status;
}
