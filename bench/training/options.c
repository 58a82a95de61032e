/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_training is asked to do; see options.h. */
#include "bench/training/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_reader.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "src/base/variables.h"

#define EPOCHS_MAX 1000000u
#define EACH_MAX 1000u
#define WARM_UP_MAX 10000u
#define BUSY_MAX 64u
#define LIMIT_S_MAX 86400u
#define SAMPLES_OTHER 1000u /* with --each, of classes that are not asked for, and more */

enum option_id {
	MACHINE,
	MEASURED,
	NODES,
	GPU_BUDGET,
	SLICE,
	HIDDEN,
	SEED,
	NEAR,
	NEAR_RATE,
	PASSED_NR, /* those before it are read as `weir bench gcn` reads them */
	WHAT = PASSED_NR,
	PRIORITY,
	PAIRS,
	EPOCHS_EACH,
	WARM_UP,
	SAMPLES,
	EACH,
	CLASSES,
	SECONDS,
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
	[SEED] = {.name = "seed",
		  .metavar = "N",
		  .help = "of the data, and of the points at which samples are taken"},
	[NEAR] = {.name = "near",
		  .metavar = "GPU:S,...",
		  .help = "with --what budget: other GPUs' memory to use, as gpu1:60GB"},
	[NEAR_RATE] = {.name = "near-rate",
		       .metavar = "B/s",
		       .help = "with --near: the most to read and write in each of them, on "
			       "average"},
	[WHAT] = {.name = "what",
		  .metavar = "trace|busy|budget",
		  .help = "what is switched: recording a trace into FILE; N endless loops for "
			  "each processor that this process may use; or taking 1 GiB of MEMORY "
			  "back, a GPU's of --near, and giving it again, now and then"},
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
	[SAMPLES] = {.name = "samples",
		     .metavar = "N",
		     .preset = "100",
		     .help = "with --what budget: how often the memory is taken back, in all"},
	[EACH] = {.name = "each",
		  .metavar = "N",
		  .help = "with --what budget, instead of --pairs and --samples: go on until there "
			  "are so many samples of each class of --classes, at points of the epochs "
			  "at which they come"},
	[CLASSES] = {.name = "classes",
		     .metavar = "C,...",
		     .preset = "clean,dirty,in-use",
		     .help = "with --each: of clean, dirty and in-use"},
	[SECONDS] = {.name = "seconds",
		     .metavar = "S",
		     .preset = "600",
		     .help = "with --each: end then, after warm-up, whatever there is"},
	[HELP] = {.name = "help", .help = "show this text"},
};

void training_help(void)
{
	fputs("usage: bench_training --what trace FILE [options]\n"
	      "       bench_training --what busy N [options]\n"
	      "       bench_training --what budget MEMORY --near MEMORY:S [options]\n"
	      "       bench_training --what budget MEMORY --near MEMORY:S --each N [options]\n\n"
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

enum what { WHAT_TRACE, WHAT_BUSY, WHAT_BUDGET, WHAT_NR };

static const struct {
	const char *name, *word; /* and what the word behind it is */
} what_table[WHAT_NR] = {
	[WHAT_TRACE] = {"trace", "file"},
	[WHAT_BUSY] = {"busy", "number"},
	[WHAT_BUDGET] = {"budget", "memory"},
};

static int refuse(const struct bench_reader *r, const char *line)
{
	snprintf(r->err, r->err_bytes, "%s", line);
	return -EINVAL;
}

/* Options that are for another one of them. */
static int check_given(const struct bench_reader *r, enum what what)
{
	if (what != WHAT_BUSY && r->values[PRIORITY].origin != OPTION_PRESET)
		return refuse(r, "--priority is for --what busy; drop it");
	if (what != WHAT_BUDGET && r->values[SAMPLES].origin != OPTION_PRESET)
		return refuse(r, "--samples is for --what budget; drop it");
	if (what != WHAT_BUDGET && r->values[EACH].text)
		return refuse(r, "--each is for --what budget; drop it");
	if (!r->values[EACH].text && (r->values[CLASSES].origin != OPTION_PRESET ||
				      r->values[SECONDS].origin != OPTION_PRESET))
		return refuse(r, "--classes and --seconds are for --each; drop them");
	if (r->values[EACH].text && (r->values[SAMPLES].origin != OPTION_PRESET ||
				     r->values[PAIRS].origin != OPTION_PRESET ||
				     r->values[EPOCHS_EACH].origin != OPTION_PRESET))
		return refuse(r, "--each: it has no --samples, --pairs and --epochs-each; drop "
				 "them");
	if (what != WHAT_BUDGET && (r->values[NEAR].text || r->values[NEAR_RATE].text))
		return refuse(r, "--near and --near-rate are for --what budget; drop them");
	if (what == WHAT_BUDGET && !r->values[NEAR].text)
		return refuse(r, "--what budget: no other GPU's memory is used; say how much of "
				 "which with --near, for example gpu1:60GB");
	if (what == WHAT_TRACE && variable_text(VARIABLE_TRACE))
		return refuse(r, "--what trace: WEIR_TRACE is set, which traces all of the run; "
				 "unset it");
	return 0;
}

static int read_busy(const struct bench_reader *r, const char *word, struct training_options *asked)
{
	uint64_t count;

	if (count_parse(word, &count) || count < 1 || count > BUSY_MAX) {
		snprintf(r->err, r->err_bytes,
			 "--what busy '%s': choose 1 to %u threads a processor", word, BUSY_MAX);
		return -EINVAL;
	}
	asked->busy = (uint32_t)count;
	return 0;
}

/* --what and the word behind it. */
static int read_what(const struct bench_reader *r, const char *const *operands, int nr,
		     struct training_options *asked)
{
	const char *text = r->values[WHAT].text ? r->values[WHAT].text : "";
	int what = 0, err;

	while (what < WHAT_NR && strcmp(what_table[what].name, text) != 0)
		what++;
	if (what == WHAT_NR) {
		snprintf(r->err, r->err_bytes,
			 "--what '%s': choose --what trace FILE, --what busy N or --what budget "
			 "MEMORY",
			 text);
		return -EINVAL;
	}
	if (nr != 1) {
		snprintf(r->err, r->err_bytes, "--what %s takes one word, a %s, and not %d", text,
			 what_table[what].word, nr);
		return -EINVAL;
	}
	err = check_given(r, (enum what)what);
	if (err || what == WHAT_BUSY)
		return err ? err : read_busy(r, operands[0], asked);
	if (what == WHAT_TRACE)
		asked->trace = operands[0];
	else
		asked->memory_name = operands[0];
	return 0;
}

/* The memory whose budget changes is one of those that --near names, in bytes. */
static int find_memory(const struct bench_reader *r, struct training_options *asked)
{
	const struct bench_params *p = &asked->params;
	const struct weir_memory_desc *memory = p->machine.memory;

	if (!asked->memory_name)
		return 0;
	for (uint32_t m = 0; m < p->machine.nr_memories; m++) {
		if (p->near.fraction[m] > 0)
			return refuse(r, "--near: a percentage is no size; choose bytes");
		if (p->near.bytes[m] && strcmp(memory[m].name, asked->memory_name) == 0)
			asked->memory = m;
	}
	if (p->near.bytes[asked->memory] &&
	    strcmp(memory[asked->memory].name, asked->memory_name) == 0)
		return 0;
	snprintf(r->err, r->err_bytes,
		 "--what budget '%s': is none of --near '%s'; choose one of these",
		 asked->memory_name, r->values[NEAR].text);
	return -EINVAL;
}

/* What `weir bench gcn` knows, by its own reader. */
static int read_training(const struct bench_reader *r, struct training_options *asked)
{
	struct bench_params *p = &asked->params;
	const char *manager = asked->memory_name ? "--manager=weir+near" : "--manager=weir";
	char *argv[PASSED_NR + 1] = {strdup(manager)};
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
	else if (!find_memory(r, asked))
		return 0;
	bench_params_fini(p);
	return -EINVAL;
}

static int read_class(struct bench_reader *r, unsigned int nr, void *arg)
{
	static const struct {
		const char *name;
		enum budget_class class;
	} table[] = {{"clean", BUDGET_CLEAN}, {"dirty", BUDGET_DIRTY}, {"in-use", BUDGET_USED}};
	struct training_options *asked = arg;

	(void)nr;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (strcmp(r->values[CLASSES].text, table[i].name) != 0)
			continue;
		if (asked->classes & 1u << table[i].class)
			return bench_refuse(r, CLASSES, "listed twice; keep one");
		asked->classes |= 1u << table[i].class;
		return 0;
	}
	return bench_refuse(r, CLASSES, "no such one; choose clean, dirty or in-use");
}

/* --each, and what goes with it. */
static int read_each(struct bench_reader *r, struct training_options *asked)
{
	unsigned int nr;
	int err = bench_read_u32(r, EACH, 1, TRAINING_SAMPLES_MAX / 10, &asked->each);

	if (!err)
		err = bench_read_list(r, CLASSES, BUDGET_CLASS_NR, read_class, asked, &nr);
	if (!err)
		err = bench_read_u32(r, SECONDS, 1, LIMIT_S_MAX, &asked->limit_s);
	asked->samples = 10 * asked->each + SAMPLES_OTHER;
	return err;
}

static int read_numbers(struct bench_reader *r, struct training_options *asked)
{
	uint64_t total;
	int err = bench_read_u32(r, PAIRS, 1, TRAINING_PAIRS_MAX, &asked->pairs);

	if (!err)
		err = bench_read_u32(r, EPOCHS_EACH, 1, EACH_MAX, &asked->epochs_each);
	if (!err)
		err = bench_read_u32(r, WARM_UP, 1, WARM_UP_MAX, &asked->warm_up);
	if (!err)
		err = bench_read_u32(r, SAMPLES, 1, TRAINING_SAMPLES_MAX, &asked->samples);
	if (!err && r->values[EACH].text)
		err = read_each(r, asked);
	if (!err)
		err = bench_read_list(r, PRIORITY, TRAINING_PRIORITIES_MAX, read_priority, asked,
				      &asked->nr_priorities);
	if (err)
		return err;
	total = asked->warm_up + 2ULL * asked->nr_priorities * asked->pairs * asked->epochs_each;
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
