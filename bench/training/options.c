/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_training is asked to do; see options.h. */
#include "bench/training/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_reader.h"
#include "cli/size.h"
#include "src/base/variables.h"

#define EPOCHS_MAX 1000000u
#define EACH_MAX 1000u
#define WARM_UP_MAX 10000u
#define BUSY_MAX 64u

enum option_id {
	MACHINE,
	MEASURED,
	NODES,
	GPU_BUDGET,
	SLICE,
	HIDDEN,
	PASSED_NR, /* those before it are read as `weir bench gcn` reads them */
	WHAT = PASSED_NR,
	PRIORITY,
	PAIRS,
	EPOCHS_EACH,
	WARM_UP,
	HELP,
	OPTION_NR
};

static const struct option_def option_table[OPTION_NR] = {
	[MACHINE] = {.name = "machine",
		     .metavar = "M",
		     .help = "cuda: this computer's GPUs; or a machine to simulate: its name or "
			     "file (default: cuda where there is a GPU, else " MACHINE_DEFAULT ")"},
	[MEASURED] = {.name = "measured",
		      .metavar = "FILE",
		      .help = "with --machine cuda: description with its measured rates"},
	[NODES] = {.name = "nodes", .metavar = "N", .help = "size of the graph (default: 1M)"},
	[GPU_BUDGET] = {.name = "gpu-budget",
			.metavar = "S",
			.help = "GPU memory to use (default: all)"},
	[SLICE] = {.name = "slice",
		   .metavar = "N",
		   .help = "adjacency entries aggregated at a time (default: 2M)"},
	[HIDDEN] = {.name = "hidden",
		    .metavar = "N",
		    .help = "width of the hidden layer (default: 256)"},
	[WHAT] = {.name = "what",
		  .metavar = "trace|busy",
		  .help = "what is switched: recording a trace into FILE; or N endless loops for "
			  "each processor that this process may use"},
	[PRIORITY] = {.name = "priority",
		      .metavar = "P,...",
		      .preset = "none",
		      .help = "how the training's thread is preferred to the busy ones, each in "
			      "turn: none; nice:-N; fifo, SCHED_FIFO; pin, a processor of its own"},
	[PAIRS] = {.name = "pairs", .metavar = "N", .preset = "9", .help = "of both states"},
	[EPOCHS_EACH] = {.name = "epochs-each",
			 .metavar = "K",
			 .preset = "1",
			 .help = "epochs of each state of a pair"},
	[WARM_UP] = {.name = "warm-up",
		     .metavar = "N",
		     .preset = "4",
		     .help = "epochs before the first pair"},
	[HELP] = {.name = "help", .help = "show this text"},
};

void training_help(void)
{
	fputs("usage: bench_training --what trace FILE [options]\n"
	      "       bench_training --what busy N [options]\n\n"
	      "Train a graph convolutional network under weir and switch something on and off\n"
	      "from epoch to epoch: what it costs, within one process. One JSON object a line.\n\n",
	      stdout);
	options_help(stdout, option_table, OPTION_NR);
	bench_help_units(stdout);
	fputs("Variables of `weir bench gcn` count here, too. Exit status: 0 done, 1 it failed,\n"
	      "2 bad input.\n",
	      stdout);
}

/* "none", "nice:-5", "fifo" or "pin"; one of those before it, too. */
static int read_priority(struct bench_reader *r, unsigned int nr, void *arg)
{
	const char *text = r->values[PRIORITY].text;
	struct training_options *asked = arg;
	struct priority *out = &asked->priority[nr];
	char *end = NULL;
	long nice;

	*out = (struct priority){.kind = PRIORITY_NONE};
	if (strncmp(text, "nice:-", 6) == 0 && text[6] >= '0' && text[6] <= '9') {
		nice = strtol(text + 5, &end, 10);
		if (*end || nice < -20 || nice > -1)
			return bench_refuse(r, PRIORITY, "choose nice:-1 to nice:-20");
		out->kind = PRIORITY_NICE;
		out->nice = (int)nice;
	} else if (strcmp(text, "fifo") == 0) {
		out->kind = PRIORITY_FIFO;
	} else if (strcmp(text, "pin") == 0) {
		out->kind = PRIORITY_PIN;
	} else if (strcmp(text, "none") != 0) {
		return bench_refuse(r, PRIORITY, "no such one; choose none, nice:-N, fifo or pin");
	}
	if (out->kind == PRIORITY_PIN && priority_processors() < 2)
		return bench_refuse(r, PRIORITY, "this process has one processor; pin takes two");
	snprintf(out->name, sizeof(out->name), "%s", text);
	for (unsigned int i = 0; i < nr; i++)
		if (strcmp(asked->priority[i].name, out->name) == 0)
			return bench_refuse(r, PRIORITY, "listed twice; keep one");
	return 0;
}

/* --what and the word behind it. */
static int read_what(const struct bench_reader *r, const char *const *operands, int nr,
		     struct training_options *asked)
{
	const char *what = r->values[WHAT].text;
	uint64_t count;

	if (!what || (strcmp(what, "trace") != 0 && strcmp(what, "busy") != 0)) {
		snprintf(r->err, r->err_bytes,
			 "--what '%s': choose --what trace FILE or --what busy N",
			 what ? what : "");
	} else if (nr != 1) {
		snprintf(r->err, r->err_bytes, "--what %s takes one word, a %s, and not %d", what,
			 what[0] == 't' ? "file" : "number", nr);
	} else if (what[0] == 't') {
		asked->trace = operands[0];
		if (r->values[PRIORITY].origin != OPTION_PRESET)
			snprintf(r->err, r->err_bytes, "--priority is for --what busy; drop it");
		else if (variable_text(VARIABLE_TRACE))
			snprintf(r->err, r->err_bytes,
				 "--what trace: WEIR_TRACE is set, which traces "
				 "all of the run; unset it");
		else
			return 0;
	} else if (count_parse(operands[0], &count) || count < 1 || count > BUSY_MAX) {
		snprintf(r->err, r->err_bytes,
			 "--what busy '%s': choose 1 to %u threads a processor", operands[0],
			 BUSY_MAX);
	} else {
		asked->busy = (uint32_t)count;
		return 0;
	}
	return -EINVAL;
}

/* What `weir bench gcn` knows, by its own reader. */
static int read_training(const struct bench_reader *r, struct training_options *asked)
{
	struct bench_params *p = &asked->params;
	char *argv[PASSED_NR + 1] = {strdup("--manager=weir")};
	int argc = 1, err = argv[0] ? 0 : -ENOMEM;

	for (unsigned int i = 0; i < PASSED_NR && !err; i++) {
		if (!r->values[i].text)
			continue;
		if (asprintf(&argv[argc], "--%s=%s", option_table[i].name, r->values[i].text) < 0)
			err = -ENOMEM;
		else
			argc++;
	}
	if (err)
		snprintf(r->err, r->err_bytes, "not enough memory on this computer");
	else
		err = bench_params_parse(argc, argv, p, r->err, r->err_bytes);
	while (argc > 0)
		free(argv[--argc]);
	if (err)
		return err;
	if (p->nr_nodes != 1)
		snprintf(r->err, r->err_bytes, "--nodes: several sizes are given; choose one");
	else if (p->gpu_budget_fraction > 0)
		snprintf(r->err, r->err_bytes,
			 "--gpu-budget: a percentage is no size; choose bytes");
	else
		return 0;
	bench_params_fini(p);
	return -EINVAL;
}

static int read_numbers(struct bench_reader *r, struct training_options *asked)
{
	uint64_t total;
	int err = bench_read_u32(r, PAIRS, 1, TRAINING_PAIRS_MAX, &asked->pairs);

	if (!err)
		err = bench_read_u32(r, EPOCHS_EACH, 1, EACH_MAX, &asked->each);
	if (!err)
		err = bench_read_u32(r, WARM_UP, 1, WARM_UP_MAX, &asked->warm_up);
	if (!err)
		err = bench_read_list(r, PRIORITY, TRAINING_PRIORITIES_MAX, read_priority, asked,
				      &asked->nr_priorities);
	if (err)
		return err;
	total = asked->warm_up + 2ULL * asked->nr_priorities * asked->pairs * asked->each;
	if (total <= EPOCHS_MAX)
		return 0;
	snprintf(r->err, r->err_bytes,
		 "--pairs, --epochs-each: %" PRIu64 " epochs in all; %u are most", total,
		 EPOCHS_MAX);
	return -EINVAL;
}

int training_options_parse(int argc, char **argv, struct training_options *out, char *err,
			   size_t err_bytes)
{
	struct option_value values[OPTION_NR];
	struct bench_reader reader = {.defs = option_table,
				      .values = values,
				      .nr = OPTION_NR,
				      .err = err,
				      .err_bytes = err_bytes};
	const char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	int nr = 0, rc;

	memset(out, 0, sizeof(*out));
	if (!operands) {
		snprintf(err, err_bytes, "not enough memory on this computer");
		return -ENOMEM;
	}
	rc = options_parse_operands(option_table, OPTION_NR, argc, argv, values, operands, &nr, err,
				    err_bytes);
	if (!rc)
		rc = read_what(&reader, operands, nr, out);
	if (!rc)
		rc = read_numbers(&reader, out);
	if (!rc)
		rc = read_training(&reader, out);
	free(operands);
	return rc;
}
