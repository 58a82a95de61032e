/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_mechanisms is asked to do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/mechanisms/mechanisms.h"
#include "cli/bench_reader.h"
#include "machine/machine_file.h"

#define MACHINE "h200x2"
#define LIMIT_S_MAX 86400u

enum option_id { MACHINE_NAME, MEASURED, ROUNDS, READERS, SECONDS, CHECK, QUICK, HELP, OPTION_NR };

static const struct option_def option_table[OPTION_NR] = {
	[MACHINE_NAME] = {.name = "machine",
			  .metavar = "M",
			  .preset = MACHINE,
			  .help = "cuda: this computer's GPUs; or a machine to simulate: its name "
				  "or file"},
	[MEASURED] = {.name = "measured",
		      .metavar = "FILE",
		      .help = "with --machine cuda: description with its measured rates, which is "
			      "what mechanisms are chosen by"},
	[ROUNDS] = {.name = "rounds",
		    .metavar = "N",
		    .preset = "15",
		    .help = "publications by each mechanism that count, of each case"},
	[READERS] = {.name = "readers",
		     .metavar = "N",
		     .preset = "3",
		     .help = "devices that read in the cases with most of them, up to 7; where "
			     "there are too few other GPUs, parts of these"},
	[SECONDS] = {.name = "seconds",
		     .metavar = "S",
		     .preset = "60",
		     .help = "begin no case later; simulated: all are measured"},
	[CHECK] = {.name = "check",
		   .help = "compare the bytes that arrive, simulated, too, with real bytes; on "
			   "GPUs that is always done"},
	[QUICK] = {.name = "quick", .help = "small sizes and two rounds, to try this program"},
	[HELP] = {.name = "help", .help = "show this text"},
};

void mechanisms_help(void)
{
	fputs("usage: bench_mechanisms [options]\n\n"
	      "Elements of lists that one device writes and others read (docs/replica.md), sent\n"
	      "by each mechanism: one copy, a copy for each run of elements, or packets. How long\n"
	      "each takes, and whether the one that weir chooses is near the best. One JSON\n"
	      "object a line: the cases, in an order of no meaning, and a summary.\n\n",
	      stdout);
	options_help(stdout, option_table, OPTION_NR);
	fputs("WEIR_PROBE_KERNELS names the kernels' library for --machine cuda.\n"
	      "Exit status: 0 done, 1 it failed or bytes are wrong, 2 bad input.\n",
	      stdout);
}

int mechanisms_options(int argc, char **argv, struct mechanisms_options *out, char *err,
		       size_t err_bytes)
{
	struct option_value values[OPTION_NR];
	struct bench_reader reader = {.defs = option_table,
				      .values = values,
				      .nr = OPTION_NR,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc = options_parse(option_table, OPTION_NR, argc, argv, values, err, err_bytes);

	memset(out, 0, sizeof(*out));
	if (rc)
		return rc;
	out->machine = values[MACHINE_NAME].text;
	out->measured = values[MEASURED].text;
	out->simulated = strcmp(out->machine, MACHINE_CUDA) != 0;
	out->quick = values[QUICK].text;
	out->check = values[CHECK].text || !out->simulated;
	if (out->measured && out->simulated)
		return bench_refuse(&reader, MEASURED,
				    "a simulated machine has the rates of its description; leave "
				    "it out");
	rc = bench_read_u32(&reader, ROUNDS, 1, ROUNDS_MAX, &out->nr_rounds);
	if (!rc)
		rc = bench_read_u32(&reader, READERS, 1, READERS_MAX, &out->nr_readers);
	if (!rc)
		rc = bench_read_u32(&reader, SECONDS, 1, LIMIT_S_MAX, &out->limit_s);
	if (out->quick)
		out->nr_rounds = 2;
	return rc;
}
