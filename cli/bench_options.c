/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weir bench gcn`: one table and one reader a kind of value. See bench_options.h;
 * checks of the whole that cost more than a look are in bench_check.c.
 */
#include "cli/bench_options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/bench_near.h"
#include "cli/bench_policy.h"
#include "cli/bench_reader.h"
#include "cli/kept.h"
#include "cli/result.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/gcn.h"
#include "workloads/gcn/graph.h"

#define EPOCHS_MAX 1000000u
#define EPOCHS_RANDOM 2u
#define EPOCHS_GRAPH 200u
#define THREADS_MAX 1024u

enum option_id {
	NODES = BENCH_OPTION_NR,
	GPU_BUDGET,
	HOST_BUDGET,
	EPOCHS,
	DATA,
	SEED,
	SLICE,
	BLOCK_SIZE,
	GRAPH,
	HIDDEN,
	THREADS,
	CHECK,
	ORACLE,
	JSON,
	TIMELINE,
	TIMELINE_ALL,
	FIT_KERNELS,
	PLAN,
	PLAN_INPUT,
	VERBOSE,
	HELP,
	OPTION_NR
};

static const struct option_def option_table[OPTION_NR] = {
	BENCH_OPTIONS("device that trains: index or name", "native,malloc,zerocopy,weir"),
	[NODES] = {"nodes", "N,...", "WEIR_NODES", "1M", "sizes of the random graph"},
	[GPU_BUDGET] = {"gpu-budget", "S", "WEIR_GPU_BUDGET", NULL,
			"GPU memory to use, or P% of what native needs (default: all)"},
	[HOST_BUDGET] = {"host-budget", "S", "WEIR_HOST_BUDGET", NULL,
			 "host memory to use (default: all)"},
	[EPOCHS] = {"epochs", "E", "WEIR_EPOCHS", NULL,
		    "measured epochs (default: 2 after 2 of warm-up; with --graph 200, none)"},
	[DATA] = {"data", "KIND", "WEIR_DATA", NULL,
		  "real or phantom (default: phantom; real with --graph, --check or a GPU)"},
	[SEED] = {"seed", "N", "WEIR_SEED", "2025", "of data, weights and dropout"},
	[SLICE] = {"slice", "N", "WEIR_SLICE", "2M", "adjacency entries aggregated at a time"},
	[BLOCK_SIZE] = {"block-size", "S", "WEIR_BLOCK_SIZE", NULL,
			"weir's unit of residency (default: 56 MiB, less in small budgets)"},
	[GRAPH] = {"graph", "DIR", NULL, NULL, "train on nodes.txt and edges.txt of a directory"},
	[HIDDEN] = {"hidden", "N", "WEIR_HIDDEN", NULL,
		    "width of the hidden layer (default: 256; 16 with --graph)"},
	[THREADS] = {"threads", "N", "WEIR_THREADS", NULL,
		     "host threads that run kernels (default: one a processor)"},
	[CHECK] = {"check", NULL, NULL, NULL,
		   "real data; compare losses with uncapped native's, bit by bit"},
	[ORACLE] = {"oracle", NULL, NULL, NULL,
		    "compare copies in with the fewest that would have done (weir)"},
	[JSON] = {"json", "FILE", NULL, NULL, "write one JSON object a result; - is stdout"},
	[TIMELINE] = {"timeline", "FILE", NULL, NULL,
		      "write what happened in the last epoch of each run, for Perfetto"},
	[TIMELINE_ALL] = {"timeline-all", NULL, NULL, NULL,
			  "all of each run in the timeline, set-up included"},
	[FIT_KERNELS] =
		{"fit-kernels", "FILE", NULL, NULL,
		 "write the machine's description with kernels as a run of native has them"},
	[PLAN] = {"plan", "FILE", NULL, NULL,
		  "have weir follow the levels of a file, and search for none"},
	[PLAN_INPUT] = {"plan-input", "FILE", NULL, NULL, "write what weir's plan is made from"},
	[VERBOSE] = {"verbose", NULL, NULL, NULL, "show bytes by cause"},
	[HELP] = {"help", NULL, NULL, NULL, "show this text"},
};

/* ------------------------------------------------------------------ single values */

/* As bench_read_count(), with a default for an option that has no value. */
static int read_u32(const struct bench_reader *r, unsigned int id, uint32_t most, uint32_t preset,
		    uint32_t *out)
{
	uint64_t count = preset;
	int err = r->values[id].text ? bench_read_count(r, id, 1, most, &count) : 0;

	if (!err)
		*out = (uint32_t)count;
	return err;
}

/* A budget of one memory, checked against it. */
static int read_budget(const struct bench_reader *r, unsigned int id,
		       const struct weir_memory_desc *memory, uint64_t least, uint64_t *out)
{
	const char *taken = bench_taken(r, memory->name);
	char what[160 + BENCH_WHY_BYTES], has[SIZE_TEXT_BYTES];
	uint64_t bytes;
	int err;

	if (!r->values[id].text) {
		*out = memory->bytes;
		return 0;
	}
	err = bench_read_bytes(r, id, &bytes);
	if (err)
		return err;
	size_format(memory->bytes, has, sizeof(has));
	if (bytes > memory->bytes) {
		snprintf(what, sizeof(what),
			 "beyond memory '%s', which has %s (%" PRIu64
			 " bytes); choose less or leave the option out%s%s",
			 memory->name, has, memory->bytes, taken[0] ? "; " : "", taken);
		return bench_refuse(r, id, what);
	}
	if (bytes < least) {
		snprintf(what, sizeof(what),
			 "below two blocks; choose at least %" PRIu64
			 " bytes or leave the option out (%s has %s)",
			 least, memory->name, has);
		return bench_refuse(r, id, what);
	}
	*out = bytes;
	return 0;
}

/* ------------------------------------------------------------------ machine, managers, sizes */

static int read_nodes(struct bench_reader *r, struct bench_params *p)
{
	char *text = strdup(r->values[NODES].text), *rest = text;
	struct option_value whole = r->values[NODES];
	int err = 0;

	if (!text)
		return -ENOMEM;
	while (rest && !err) {
		uint64_t *nodes = &p->nodes[p->nr_nodes];
		char *item = bench_next_item(&rest);

		if (!item) {
			err = bench_refuse(r, NODES, "a size is missing; write for example 5M,8M");
			break;
		}
		if (p->nr_nodes == BENCH_LIST_MAX) {
			err = bench_refuse(r, NODES, "too many; split the run");
			break;
		}
		r->values[NODES].text = item; /* so that an error names the one that is wrong */
		err = bench_read_count(r, NODES, GCN_NODES_MIN, GCN_NODES_MAX, nodes);
		for (unsigned int i = 0; i < p->nr_nodes && !err; i++)
			if (p->nodes[i] == *nodes)
				err = bench_refuse(r, NODES, "listed twice; keep one");
		if (!err)
			p->nr_nodes++;
		r->values[NODES] = whole;
	}
	free(text);
	return err;
}

/* No output replaces its files. */
static void keep_graph(const char *dir)
{
	static const char *const names[] = {"nodes.txt", "edges.txt"};
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, names[i]) < sizeof(path))
			kept_add_name(path);
}

/* A real graph stands for the sizes: it has one. */
static int read_graph(const struct bench_reader *r, struct bench_params *p)
{
	struct graph graph;
	char why[256];
	int err;

	if (r->values[NODES].origin == OPTION_GIVEN) {
		snprintf(r->err, r->err_bytes,
			 "--nodes and --graph contradict each other: a graph has its own size; "
			 "drop one");
		return -EINVAL;
	}
	p->graph_dir = r->values[GRAPH].text;
	err = graph_load(p->graph_dir, &graph, why, sizeof(why));
	if (err) {
		snprintf(r->err, r->err_bytes, "--graph: %s", why);
		return err;
	}
	keep_graph(p->graph_dir);
	p->nodes[0] = graph.nr_nodes;
	p->nr_nodes = 1;
	graph_fini(&graph);
	return 0;
}

static int read_data(const struct bench_reader *r, struct bench_params *p)
{
	const struct option_value *value = &r->values[DATA];

	p->check = r->values[CHECK].text != NULL;
	p->data = p->check || p->graph_dir || p->real_gpu ? WEIR_DATA_REAL : WEIR_DATA_PHANTOM;
	if (!value->text || (value->origin == OPTION_ENV && p->check))
		return 0;
	if (strcmp(value->text, "real") == 0)
		p->data = WEIR_DATA_REAL;
	else if (strcmp(value->text, "phantom") == 0)
		p->data = WEIR_DATA_PHANTOM;
	else
		return bench_refuse(r, DATA, "no such kind of data; choose real or phantom");
	if (p->real_gpu && p->data == WEIR_DATA_PHANTOM)
		return bench_refuse(r, DATA, "a real GPU has real data only; choose real");
	if (p->check && p->data == WEIR_DATA_PHANTOM) {
		snprintf(r->err, r->err_bytes,
			 "--check and --data phantom contradict each other: phantom data has no "
			 "losses to compare; drop one");
		return -EINVAL;
	}
	return 0;
}

/* ------------------------------------------------------------------ blocks, budgets */

static int read_block_size(const struct bench_reader *r, struct bench_params *p)
{
	uint64_t granularity = p->machine.vmm.granularity_bytes, bytes;
	char what[128];
	int err;

	if (!r->values[BLOCK_SIZE].text)
		return 0;
	err = bench_read_bytes(r, BLOCK_SIZE, &bytes);
	if (err)
		return err;
	if (!bytes || bytes % granularity) {
		snprintf(what, sizeof(what),
			 "not a block size; choose a multiple of %" PRIu64
			 " bytes, the machine's granularity",
			 granularity);
		return bench_refuse(r, BLOCK_SIZE, what);
	}
	p->block_bytes = bytes;
	return 0;
}

static int read_budgets(const struct bench_reader *r, struct bench_params *p)
{
	const struct weir_machine_desc *machine = &p->machine;
	uint64_t block = p->block_bytes ? p->block_bytes : machine->vmm.granularity_bytes;
	const char *gpu = r->values[GPU_BUDGET].text;
	int err;

	/* Two blocks, where that is a number; a larger block than half of 2^64 fits no machine. */
	if (block > UINT64_MAX / 2)
		return bench_refuse(r, BLOCK_SIZE, "larger than any memory; choose less");
	if (gpu && gpu[strlen(gpu) - 1] == '%')
		err = bench_read_percent(r, GPU_BUDGET, BENCH_BUDGET_PERCENT_MAX,
					 &p->gpu_budget_fraction);
	else
		err = read_budget(r, GPU_BUDGET,
				  &machine->memory[machine->device[p->device].memory], 2 * block,
				  &p->gpu_budget_bytes);
	if (err)
		return err;
	return read_budget(r, HOST_BUDGET, &machine->memory[bench_host_memory(p)], 2 * block,
			   &p->host_budget_bytes);
}

/* ------------------------------------------------------------------ all of it */

static int read_training(struct bench_reader *r, struct bench_params *p)
{
	int err;

	if (r->values[GRAPH].text)
		err = read_graph(r, p);
	else
		err = read_nodes(r, p);
	if (!err)
		err = read_data(r, p);
	if (!err)
		err = bench_read_count(r, SLICE, 1, GCN_NODES_MAX, &p->slice);
	if (!err)
		err = bench_read_seed(r, SEED, &p->seed);
	if (!err)
		err = read_u32(r, EPOCHS, EPOCHS_MAX, p->graph_dir ? EPOCHS_GRAPH : EPOCHS_RANDOM,
			       &p->epochs);
	if (!err)
		err = read_u32(r, HIDDEN, GCN_HIDDEN_MAX,
			       p->graph_dir ? GCN_HIDDEN_GRAPH : GCN_HIDDEN_RANDOM, &p->hidden);
	if (!err)
		err = read_u32(r, THREADS, THREADS_MAX, 0, &p->threads);
	p->warm_up = p->graph_dir ? 0 : BENCH_WARM_UP;
	return err;
}

/* What is compared are epochs after the first ones, of managers that move blocks. */
static int read_oracle(const struct bench_reader *r, struct bench_params *p)
{
	const char *what = NULL;
	bool any = false;

	p->oracle = r->values[ORACLE].text != NULL;
	if (!p->oracle)
		return 0;
	for (unsigned int i = 0; i < p->nr_managers; i++)
		any |= bench_manager_find(p->manager[i])->tell_where != NULL;
	if (!any)
		what = "is for managers that move blocks; add weir to --manager";
	else if (p->warm_up + p->epochs <= BENCH_WARM_UP)
		what = "looks at the third epoch and those after it; give more --epochs";
	else if (r->values[TIMELINE].text)
		what = "and --timeline record different epochs; drop one of them";
	if (!what)
		return 0;
	snprintf(r->err, r->err_bytes, "--oracle %s", what);
	return -EINVAL;
}

/* Files that are written; but for results not the standard output, which has the table. */
static int read_files(struct bench_reader *r, struct bench_params *p)
{
	const char *fit = r->values[FIT_KERNELS].text;

	if (fit && strcmp(fit, "-") == 0)
		return bench_refuse(r, FIT_KERNELS, "not the standard output; name a file");
	p->json = r->values[JSON].text;
	p->fit = r->values[FIT_KERNELS].text;
	return bench_read_timeline(r, TIMELINE, TIMELINE_ALL, p);
}

/* A fit takes one run of native, all in memory, and a description to put its results into. */
static int check_fit(const struct bench_reader *r, const struct bench_params *p)
{
	const char *what = NULL;

	if (!p->fit)
		return 0;
	if (p->nr_managers != 1 || strcmp(p->manager[0], "native") != 0)
		what = "takes a run of native; add --manager native";
	else if (p->nr_nodes != 1)
		what = "takes one size; choose one of --nodes";
	else if (p->timeline)
		what = "and --timeline record different epochs; drop one of them";
	else if (!p->file.nr_constants)
		what = "needs a description to add to; name this computer's with --measured";
	return what ? bench_refuse(r, FIT_KERNELS, what) : 0;
}

/* Plans in files are those of one run of weir. */
static int read_plan(const struct bench_reader *r, struct bench_params *p)
{
	const unsigned int id = r->values[PLAN].text ? PLAN : PLAN_INPUT;
	const char *what = NULL;

	p->plan = r->values[PLAN].text;
	p->plan_input = r->values[PLAN_INPUT].text;
	if (!p->plan && !p->plan_input)
		return 0;
	if (p->nr_managers != 1 || strcmp(p->manager[0], "weir") != 0)
		what = "is for one manager, weir; write --manager weir";
	else if (p->nr_nodes != 1)
		what = "takes one size; choose one of --nodes";
	if (what)
		return bench_refuse(r, id, what);
	if (p->plan)
		kept_add_name(p->plan);
	return 0;
}

static int read_all(struct bench_reader *r, struct bench_params *p)
{
	int err = bench_read_machine(r, p);

	if (!err)
		err = bench_read_device(r, p);
	if (!err)
		err = bench_read_managers(r, p);
	if (!err)
		err = bench_read_policies(r, p);
	if (!err)
		err = read_block_size(r, p);
	if (!err)
		err = read_budgets(r, p);
	if (!err)
		err = bench_read_near(r, p);
	if (!err)
		err = read_training(r, p);
	if (!err)
		err = read_oracle(r, p);
	if (!err)
		err = bench_check_peaks(p, r->err, r->err_bytes);
	if (!err)
		err = bench_check_managers(p, r->err, r->err_bytes);
	if (!err)
		err = read_files(r, p);
	if (!err)
		err = check_fit(r, p);
	if (!err)
		err = read_plan(r, p);
	p->verbose = r->values[VERBOSE].text != NULL;
	bench_read_explain(r, p);
	return err;
}

int bench_params_parse(int argc, char **argv, struct bench_params *out, char *err, size_t err_bytes)
{
	struct option_value values[OPTION_NR];
	struct bench_reader reader = {.defs = option_table,
				      .values = values,
				      .nr = OPTION_NR,
				      .load_kernels = gcn_cuda_load,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = options_parse(option_table, OPTION_NR, argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = bench_set_command(&reader, "gcn", NULL, 0, out);
	if (!rc)
		rc = read_all(&reader, out);
	if (rc)
		bench_params_fini(out);
	return rc;
}

void bench_params_fini(struct bench_params *params)
{
	free(params->command);
	free(params->manager_text);
	machine_file_fini(&params->file);
	memset(params, 0, sizeof(*params));
}

uint32_t bench_host_memory(const struct bench_params *params)
{
	return result_host_memory(&params->machine, params->device);
}

void bench_params_help(FILE *out)
{
	fputs("usage: weir bench gcn [options]\n\n"
	      "Train a graph convolutional network on this computer's GPU or a simulated\n"
	      "machine under several ways of holding memory; compare times, bytes moved and\n"
	      "results.\n\n",
	      out);
	options_help(out, option_table, OPTION_NR);
	bench_help_end(out, false);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or its losses\n"
	      "differ, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
