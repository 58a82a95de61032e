/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weir bench gcn`: one table and one reader a kind of value. See bench_options.h;
 * checks of the whole that cost more than a look are in bench_check.c.
 */
#include "cli/bench_options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/first_logged.h"
#include "cli/options.h"
#include "cli/result.h"
#include "cli/size.h"
#include "src/backend/cuda/cuda.h"
#include "src/core/cost.h"
#include "workloads/gcn/cuda.h"
#include "workloads/gcn/gcn.h"
#include "workloads/gcn/graph.h"

#define EPOCHS_MAX 1000000u
#define EPOCHS_RANDOM 2u
#define EPOCHS_GRAPH 200u
#define THREADS_MAX 1024u
#define PERCENT_MAX 1000.0
#define WHY_BYTES 256

enum option_id {
	MACHINE,
	MEASURED,
	DEVICE,
	MANAGER,
	NODES,
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
	DEBUG,
	JSON,
	TIMELINE,
	TIMELINE_ALL,
	FIT_KERNELS,
	VERBOSE,
	HELP,
	OPTION_NR
};

static const struct option_def option_table[OPTION_NR] = {
	[MACHINE] =
		{"machine", "M", "WEIR_MACHINE", NULL,
		 "cuda: this computer's GPUs; or a simulated machine: its name or description file "
		 "(default: cuda where there is a GPU, else " MACHINE_DEFAULT ")"},
	[MEASURED] = {"measured", "FILE", "WEIR_MEASURED", NULL,
		      "with --machine cuda: description with this computer's measured rates"},
	[DEVICE] = {"device", "D", "WEIR_DEVICE", "0", "device that trains: index or name"},
	[MANAGER] = {"manager", "A,B,...", "WEIR_MANAGER", "native,malloc,zerocopy,weir",
		     "ways of holding memory, each run in turn"},
	[NODES] = {"nodes", "N,...", "WEIR_NODES", "1M", "sizes of the random graph"},
	[GPU_BUDGET] = {"gpu-budget", "S", "WEIR_GPU_BUDGET", NULL,
			"GPU memory to use, or P% of native's peak (default: all)"},
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
	[DEBUG] = {"debug", NULL, NULL, NULL,
		   "on this computer's GPUs: check remaps and launches; slow"},
	[JSON] = {"json", "FILE", NULL, NULL, "write one JSON object a result; - is stdout"},
	[TIMELINE] = {"timeline", "FILE", NULL, NULL,
		      "write what happened in the last epoch of each run, for Perfetto"},
	[TIMELINE_ALL] = {"timeline-all", NULL, NULL, NULL,
			  "all of each run in the timeline, set-up included"},
	[FIT_KERNELS] =
		{"fit-kernels", "FILE", NULL, NULL,
		 "write the machine's description with kernels as a run of native has them"},
	[VERBOSE] = {"verbose", NULL, NULL, NULL, "show bytes by cause"},
	[HELP] = {"help", NULL, NULL, NULL, "show this text"},
};

/* What the readers share: where values come from and where an error goes. */
struct reader {
	char taken[WHY_BYTES]; /* by others, of a real GPU; or empty */
	struct option_value values[OPTION_NR];
	char *err;
	size_t err_bytes;
};

/* "--nodes" or "WEIR_NODES", as the user gave it. */
static const char *label(const struct reader *r, enum option_id id, char *text, size_t bytes)
{
	if (r->values[id].origin == OPTION_ENV)
		snprintf(text, bytes, "%s", option_table[id].env);
	else
		snprintf(text, bytes, "--%s", option_table[id].name);
	return text;
}

/* Fail over one option's value: "--nodes '0': " and what is wrong, with the remedy. */
static int refuse(const struct reader *r, enum option_id id, const char *what)
{
	char name[64];

	snprintf(r->err, r->err_bytes, "%s '%s': %s", label(r, id, name, sizeof(name)),
		 r->values[id].text, what);
	return -EINVAL;
}

/* ------------------------------------------------------------------ single values */

/* A count within limits; the option has a value. */
static int read_count(const struct reader *r, enum option_id id, uint64_t least, uint64_t most,
		      uint64_t *out)
{
	char what[96];
	uint64_t count;
	int err = count_parse(r->values[id].text, &count);

	if (err == -EINVAL)
		return refuse(r, id, "not a count; write a whole number such as 5M or 20000");
	if (err || count < least || count > most) {
		snprintf(what, sizeof(what), "out of range; choose %" PRIu64 " to %" PRIu64, least,
			 most);
		return refuse(r, id, what);
	}
	*out = count;
	return 0;
}

/* As read_count(), with a default for an option that has no value. */
static int read_u32(const struct reader *r, enum option_id id, uint32_t most, uint32_t preset,
		    uint32_t *out)
{
	uint64_t count = preset;
	int err = r->values[id].text ? read_count(r, id, 1, most, &count) : 0;

	if (!err)
		*out = (uint32_t)count;
	return err;
}

static int read_bytes(const struct reader *r, enum option_id id, uint64_t *out)
{
	int err = size_parse(r->values[id].text, out);

	if (err == -ERANGE)
		return refuse(r, id, "too large for a size; sizes end below 2^64 bytes");
	if (err)
		return refuse(r, id, "not a size; write for example 33.67GB or 512MiB");
	return 0;
}

static int read_seed(const struct reader *r, uint64_t *out)
{
	const char *text = r->values[SEED].text;
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return refuse(r, SEED, "not a seed; write a whole number below 2^64");
	return 0;
}

/* A budget of one memory, checked against it. */
static int read_budget(const struct reader *r, enum option_id id,
		       const struct weir_memory_desc *memory, uint64_t least, uint64_t *out)
{
	char what[160 + WHY_BYTES], has[SIZE_TEXT_BYTES];
	uint64_t bytes;
	int err;

	if (!r->values[id].text) {
		*out = memory->bytes;
		return 0;
	}
	err = read_bytes(r, id, &bytes);
	if (err)
		return err;
	size_format(memory->bytes, has, sizeof(has));
	if (bytes > memory->bytes) {
		snprintf(what, sizeof(what),
			 "beyond memory '%s', which has %s (%" PRIu64
			 " bytes); choose less or leave the option out%s%s",
			 memory->name, has, memory->bytes, r->taken[0] ? "; " : "", r->taken);
		return refuse(r, id, what);
	}
	if (bytes < least) {
		snprintf(what, sizeof(what),
			 "below two blocks; choose at least %" PRIu64
			 " bytes or leave the option out (%s has %s)",
			 least, memory->name, has);
		return refuse(r, id, what);
	}
	*out = bytes;
	return 0;
}

/* "40%" as a fraction. */
static int read_percent(const struct reader *r, double *out)
{
	const char *text = r->values[GPU_BUDGET].text;
	size_t length = strlen(text) - 1; /* of the number */
	double percent = strtod(text, NULL);

	if (!length || strspn(text, "0123456789.") != length ||
	    strchr(text, '.') != strrchr(text, '.'))
		return refuse(r, GPU_BUDGET, "not a percentage; write for example 40%");
	if (!(percent > 0) || percent > PERCENT_MAX)
		return refuse(r, GPU_BUDGET, "out of range; choose above 0% and up to 1000%");
	*out = percent / 100;
	return 0;
}

/* ------------------------------------------------------------------ machine, managers, sizes */

static int read_device(const struct reader *r, struct bench_params *p)
{
	const char *text = r->values[DEVICE].text;
	char what[96];

	for (uint32_t i = 0; i < p->machine.nr_devices; i++) {
		char index[16];

		snprintf(index, sizeof(index), "%" PRIu32, i);
		if (strcmp(text, index) == 0 || strcmp(text, p->machine.device[i].name) == 0) {
			p->device = i;
			return 0;
		}
	}
	snprintf(what, sizeof(what), "no such device; machine '%s' has 0 to %" PRIu32,
		 p->machine.name, p->machine.nr_devices - 1);
	return refuse(r, DEVICE, what);
}

/* Step through a comma-separated list, in place: the next item, never empty; NULL: a bad list. */
static char *next_item(char **rest)
{
	char *item = strsep(rest, ",");

	return item && item[0] ? item : NULL;
}

static const struct manager_ops *manager_find(const char *name)
{
	size_t length = strcspn(name, "+");

	for (unsigned int i = 0; manager_list[i]; i++)
		if (strlen(manager_list[i]->name) == length &&
		    strncmp(manager_list[i]->name, name, length) == 0)
			return manager_list[i];
	return NULL;
}

static int unknown_manager(const struct reader *r, const char *name)
{
	char text[64], all[160] = "";
	size_t used = 0;

	for (unsigned int i = 0; manager_list[i] && used < sizeof(all); i++)
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 manager_list[i]->name);
	snprintf(r->err, r->err_bytes, "%s: no manager '%s'; there are %s",
		 label(r, MANAGER, text, sizeof(text)), name, all);
	return -EINVAL;
}

static int read_managers(const struct reader *r, struct bench_params *p)
{
	char what[160], *rest;

	p->manager_text = strdup(r->values[MANAGER].text);
	if (!p->manager_text)
		return -ENOMEM;
	rest = p->manager_text;
	while (rest) {
		char *name = next_item(&rest);

		if (!name)
			return refuse(r, MANAGER,
				      "a name is missing; write for example native,weir");
		if (!manager_find(name))
			return unknown_manager(r, name);
		for (unsigned int i = 0; i < p->nr_managers; i++) {
			if (strcmp(p->manager[i], name) == 0) {
				snprintf(what, sizeof(what), "%s is listed twice; keep one", name);
				return refuse(r, MANAGER, what);
			}
		}
		if (p->nr_managers == BENCH_LIST_MAX)
			return refuse(r, MANAGER, "too many; split the run");
		p->manager[p->nr_managers++] = name;
	}
	return 0;
}

static int read_nodes(struct reader *r, struct bench_params *p)
{
	char *text = strdup(r->values[NODES].text), *rest = text;
	struct option_value whole = r->values[NODES];
	int err = 0;

	if (!text)
		return -ENOMEM;
	while (rest && !err) {
		uint64_t *nodes = &p->nodes[p->nr_nodes];
		char *item = next_item(&rest);

		if (!item) {
			err = refuse(r, NODES, "a size is missing; write for example 5M,8M");
			break;
		}
		if (p->nr_nodes == BENCH_LIST_MAX) {
			err = refuse(r, NODES, "too many; split the run");
			break;
		}
		r->values[NODES].text = item; /* so that an error names the one that is wrong */
		err = read_count(r, NODES, GCN_NODES_MIN, GCN_NODES_MAX, nodes);
		for (unsigned int i = 0; i < p->nr_nodes && !err; i++)
			if (p->nodes[i] == *nodes)
				err = refuse(r, NODES, "listed twice; keep one");
		if (!err)
			p->nr_nodes++;
		r->values[NODES] = whole;
	}
	free(text);
	return err;
}

/* A real graph stands for the sizes: it has one. */
static int read_graph(const struct reader *r, struct bench_params *p)
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
	p->nodes[0] = graph.nr_nodes;
	p->nr_nodes = 1;
	graph_fini(&graph);
	return 0;
}

static int read_data(const struct reader *r, struct bench_params *p)
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
		return refuse(r, DATA, "no such kind of data; choose real or phantom");
	if (p->real_gpu && p->data == WEIR_DATA_PHANTOM)
		return refuse(r, DATA, "a real GPU has real data only; choose real");
	if (p->check && p->data == WEIR_DATA_PHANTOM) {
		snprintf(r->err, r->err_bytes,
			 "--check and --data phantom contradict each other: phantom data has no "
			 "losses to compare; drop one");
		return -EINVAL;
	}
	return 0;
}

/* ------------------------------------------------------------------ blocks, budgets */

static int read_block_size(const struct reader *r, struct bench_params *p)
{
	uint64_t granularity = p->machine.vmm.granularity_bytes, bytes;
	char what[128];
	int err;

	if (!r->values[BLOCK_SIZE].text)
		return 0;
	err = read_bytes(r, BLOCK_SIZE, &bytes);
	if (err)
		return err;
	if (!bytes || bytes % granularity) {
		snprintf(what, sizeof(what),
			 "not a block size; choose a multiple of %" PRIu64
			 " bytes, the machine's granularity",
			 granularity);
		return refuse(r, BLOCK_SIZE, what);
	}
	p->block_bytes = bytes;
	return 0;
}

static int read_budgets(const struct reader *r, struct bench_params *p)
{
	const struct weir_machine_desc *machine = &p->machine;
	uint64_t block = p->block_bytes ? p->block_bytes : machine->vmm.granularity_bytes;
	const char *gpu = r->values[GPU_BUDGET].text;
	int err;

	/* Two blocks, where that is a number; a larger block than half of 2^64 fits no machine. */
	if (block > UINT64_MAX / 2)
		return refuse(r, BLOCK_SIZE, "larger than any memory; choose less");
	if (gpu && gpu[strlen(gpu) - 1] == '%')
		err = read_percent(r, &p->gpu_budget_fraction);
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

static int read_training(struct reader *r, struct bench_params *p)
{
	int err;

	if (r->values[GRAPH].text)
		err = read_graph(r, p);
	else
		err = read_nodes(r, p);
	if (!err)
		err = read_data(r, p);
	if (!err)
		err = read_count(r, SLICE, 1, GCN_NODES_MAX, &p->slice);
	if (!err)
		err = read_seed(r, &p->seed);
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

/* Whether each GPU that there is, and its link to the host, were measured. */
static bool describes(const struct weir_machine_desc *measured,
		      const struct weir_machine_desc *gpus)
{
	uint32_t host = cost_host_memory(gpus);
	bool all = measured->nr_devices >= gpus->nr_devices;

	for (uint32_t d = 0; d < gpus->nr_devices && all; d++)
		all = measured->device[d].memory == gpus->device[d].memory &&
		      cost_link_find(measured, host, gpus->device[d].memory) >= 0;
	return all && cost_host_memory(measured) == host;
}

/* Look at this computer's GPUs, and load the kernels for them. measured: may be NULL. why: what is
 * missing, of WHY_BYTES. */
static int find_gpus(struct reader *r, const struct weir_machine_desc *measured,
		     struct bench_params *p, char *why)
{
	struct weir_machine *machine;
	struct first_logged logged = {0};
	int err;

	weir_log_set(first_logged_keep, &logged);
	err = weir_machine_cuda(measured, &machine);
	if (!err) {
		p->machine = *weir_machine_desc(machine);
		weir_machine_close(machine);
		err = gcn_cuda_load();
	}
	weir_log_set(NULL, NULL);
	snprintf(why, WHY_BYTES, "%.*s", WHY_BYTES - 1,
		 logged.error[0] ? logged.error : weir_strerror(err));
	snprintf(r->taken, sizeof(r->taken), "%.*s", WHY_BYTES - 1, logged.warning);
	p->real_gpu = !err;
	return err;
}

static int read_cuda(struct reader *r, struct bench_params *p)
{
	const char *measured = r->values[MEASURED].text;
	char why[WHY_BYTES];
	int err = 0;

	if (measured)
		err = machine_file_read(measured, &p->file, why, sizeof(why));
	if (err) {
		snprintf(r->err, r->err_bytes, "%s", why);
		return err;
	}
	/* The backend reads the variable each time a machine is opened. */
	if (r->values[DEBUG].text && setenv(CUDA_DEBUG_VARIABLE, "1", 1))
		return -ENOMEM;
	err = find_gpus(r, measured ? &p->file.desc : NULL, p, why);
	if (err) {
		snprintf(r->err, r->err_bytes,
			 "machine '" MACHINE_CUDA "': %s; or choose a simulated one, `weir info` "
			 "lists them",
			 why);
		return err;
	}
	if (measured && !describes(&p->file.desc, &p->machine))
		return refuse(r, MEASURED,
			      "describes another machine: it has the host's memory first, then one "
			      "of each GPU that is here, and its link");
	return 0;
}

static int read_machine(struct reader *r, struct bench_params *p)
{
	const char *name = r->values[MACHINE].text;
	char why[WHY_BYTES];
	int err;

	if (!name && !r->values[MEASURED].text && !r->values[DEBUG].text) {
		/* A GPU where there is one; where there is none, the user hears of it. */
		if (!find_gpus(r, NULL, p, why))
			return 0;
		name = MACHINE_DEFAULT;
		snprintf(p->note, sizeof(p->note), "no GPU to run on: %s; simulating %s", why,
			 name);
	}
	if (!name || strcmp(name, MACHINE_CUDA) == 0)
		return read_cuda(r, p);
	if (r->values[MEASURED].origin == OPTION_GIVEN)
		return refuse(r, MEASURED, "is for --machine " MACHINE_CUDA "; drop one of them");
	if (r->values[DEBUG].text) {
		snprintf(r->err, r->err_bytes,
			 "--debug is for real GPUs: choose --machine " MACHINE_CUDA
			 " or drop it; a simulated machine always checks");
		return -EINVAL;
	}
	err = machine_file_read(name, &p->file, why, sizeof(why));
	if (err)
		snprintf(r->err, r->err_bytes, "%s", why);
	else
		p->machine = p->file.desc;
	return err;
}

/* What is compared are epochs after the first ones, of managers that move blocks. */
static int read_oracle(const struct reader *r, struct bench_params *p)
{
	const char *what = NULL;
	bool any = false;

	p->oracle = r->values[ORACLE].text != NULL;
	if (!p->oracle)
		return 0;
	for (unsigned int i = 0; i < p->nr_managers; i++)
		any |= manager_find(p->manager[i])->tell_where != NULL;
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

/* Files that are written: each its own, and not the standard output, which has the table. */
static int read_files(struct reader *r, struct bench_params *p)
{
	static const enum option_id ids[] = {JSON, TIMELINE, FIT_KERNELS};

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		const char *name = r->values[ids[i]].text;

		if (name && ids[i] != JSON && strcmp(name, "-") == 0)
			return refuse(r, ids[i], "not the standard output; name a file");
		for (size_t j = 0; name && j < i; j++)
			if (r->values[ids[j]].text && strcmp(name, r->values[ids[j]].text) == 0)
				return refuse(r, ids[i], "two outputs cannot be one file");
	}
	p->json = r->values[JSON].text;
	p->timeline = r->values[TIMELINE].text;
	p->timeline_all = r->values[TIMELINE_ALL].text != NULL;
	p->fit = r->values[FIT_KERNELS].text;
	if (p->timeline_all && !p->timeline) {
		snprintf(r->err, r->err_bytes, "--timeline-all is for --timeline; give both");
		return -EINVAL;
	}
	return 0;
}

/* A fit takes one run of native, all in memory, and a description to put its results into. */
static int check_fit(const struct reader *r, const struct bench_params *p)
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
	return what ? refuse(r, FIT_KERNELS, what) : 0;
}

static int read_all(struct reader *r, struct bench_params *p)
{
	int err = read_machine(r, p);

	if (!err)
		err = read_device(r, p);
	if (!err)
		err = read_managers(r, p);
	if (!err)
		err = read_block_size(r, p);
	if (!err)
		err = read_budgets(r, p);
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
	p->verbose = r->values[VERBOSE].text != NULL;
	return err;
}

int bench_params_parse(int argc, char **argv, struct bench_params *out, char *err, size_t err_bytes)
{
	struct reader reader = {.err = err, .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = options_parse(option_table, OPTION_NR, argc, argv, reader.values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = read_all(&reader, out);
	if (rc)
		bench_params_fini(out);
	return rc;
}

void bench_params_fini(struct bench_params *params)
{
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
	      "Train a graph convolutional network on this computer's GPU or a simulated machine\n"
	      "under several ways of holding memory; compare times, bytes moved and results.\n\n",
	      out);
	options_help(out, option_table, OPTION_NR);
	fputs("\nmanagers:\n", out);
	for (unsigned int i = 0; manager_list[i]; i++)
		fprintf(out, "  %-22s %s\n", manager_list[i]->name, manager_list[i]->help);
	fputs("\n[...] is the default, {...} the environment variable that sets it.\n"
	      "Sizes take KB, MB, GB, TB and KiB, MiB, GiB, TiB; counts take k, M, G.\n"
	      "Exit status: 0 done (out of memory is a result), 1 a run failed or its losses\n"
	      "differ, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
