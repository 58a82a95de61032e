/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_guessed is asked to do. */
#include "bench/guessed/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_reader.h"
#include "weir/machine_file.h"

#define EPOCHS_MAX 10000u

enum option_id { BUDGET, MACHINE_NAME, EPOCHS, MODE, NO_WINDOWS, ODD, SEED, HELP, OPTION_NR };

static const struct option_def option_table[OPTION_NR] = {
	[BUDGET] = {.name = "gpu-budget",
		    .metavar = "S",
		    .preset = "15GB",
		    .help = "of the GPU's memory, for the program"},
	[MACHINE_NAME] = {.name = "machine",
			  .metavar = "M",
			  .preset = "h200",
			  .help = "a machine to simulate: its name or file"},
	[EPOCHS] = {.name = "epochs", .metavar = "N", .preset = "14", .help = "4 to 10000"},
	[MODE] =
		{.name = "mode",
		 .metavar = "M",
		 .preset = "safe",
		 .help = "as of weir run: safe, kernels may use anything; or fast, what they name"},
	[NO_WINDOWS] = {.name = "no-windows",
			.help = "launches name whole allocations, not slices that are recognised"},
	[ODD] = {.name = "odd",
		 .metavar = "SHARE",
		 .help = "of the launches, as 1%, that name one more large range, which they do "
			 "not use (default: none)"},
	[SEED] = {.name = "seed",
		  .metavar = "N",
		  .preset = "1",
		  .help = "of the choice of these launches and ranges"},
	[HELP] = {.name = "help", .help = "show this text"},
};

static int read_machine(const struct bench_reader *r, struct guessed_options *out)
{
	struct weir_machine_desc *desc = &out->machine;
	int err = weir_machine_file_read(r->values[MACHINE_NAME].text, desc, r->err, r->err_bytes);
	char what[96];

	if (!err)
		err = bench_read_bytes(r, BUDGET, &out->gpu_budget);
	if (err)
		return err;
	if (out->gpu_budget && out->gpu_budget <= desc->memory[desc->device[0].memory].bytes)
		return 0;
	(void)snprintf(what, sizeof(what), "choose 1 to %" PRIu64 " bytes, which the GPU has",
		       desc->memory[desc->device[0].memory].bytes);
	return bench_refuse(r, BUDGET, what);
}

int guessed_options_parse(int argc, char **argv, struct guessed_options *out, char *why,
			  size_t why_bytes)
{
	struct option_value values[OPTION_NR];
	struct bench_reader r = {.defs = option_table,
				 .values = values,
				 .nr = OPTION_NR,
				 .err = why,
				 .err_bytes = why_bytes};
	const char **operand = calloc((size_t)argc + 1, sizeof(*operand));
	int nr = 0, err = -ENOMEM;

	*out = (struct guessed_options){0};
	(void)snprintf(why, why_bytes, "no memory on the host");
	if (operand)
		err = options_parse_operands(option_table, OPTION_NR, argc, argv, values, operand,
					     &nr, why, why_bytes);
	if (!err && nr == 1)
		out->trace = operand[0];
	free(operand);
	if (err)
		return err;
	if (nr != 1) {
		(void)snprintf(why, why_bytes, "%d traces; name one, --help says more", nr);
		return -EINVAL;
	}
	out->windows = !values[NO_WINDOWS].text;
	out->safe = strcmp(values[MODE].text, "safe") == 0;
	if (!out->safe && strcmp(values[MODE].text, "fast") != 0)
		return bench_refuse(&r, MODE, "no such one; choose safe or fast");
	err = bench_read_u32(&r, EPOCHS, GUESSED_EPOCHS_MIN, EPOCHS_MAX, &out->nr_epochs);
	if (!err)
		err = bench_read_seed(&r, SEED, &out->seed);
	if (!err && values[ODD].text)
		err = bench_read_percent(&r, ODD, 100, &out->odd);
	return err ? err : read_machine(&r, out);
}

void guessed_help(void)
{
	fputs("usage: bench_guessed TRACE [options]\n\n"
	      "How fast weir runs an unmodified program whose data do not fit, without a GPU: an\n"
	      "epoch of the trace of PyTorch's GCN of 5M nodes (tests/data/gcn-5m.trace.gz,\n"
	      "unpacked), again and again, on a simulated machine. One JSON object a line.\n\n",
	      stdout);
	options_help(stdout, option_table, OPTION_NR);
	bench_help_units(stdout);
	fputs("Exit status: 0 done, 1 it failed, 2 bad input.\n", stdout);
}
