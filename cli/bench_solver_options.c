/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weir bench jacobi`, `diffusion`, `als` and, on several devices, `pagerank` and
 * `sssp`; see bench_solver_options.h. */
#include "cli/bench_solver_options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/solver/cuda.h"
#include "workloads/solver/edges.h"

#define ITERATIONS_MAX 1000000u
#define EPOCHS_MAX 100000u
#define EPOCHS_GPU 5u
#define WARM_UP 1u

enum solver_option {
	SIZE = BENCH_SHARED_OPTION_NR,
	DEVICES,
	GPU_BUDGET,
	ITERATIONS,
	EPOCHS,
	DATA,
	CHECK,
	JSON,
	TIMELINE,
	TIMELINE_ALL,
	VERBOSE,
	HELP,
	SOLVER_OPTION_NR,
	/* Of what runs on graphs. */
	DEGREE = SOLVER_OPTION_NR,
	SEED,
	GRAPH_OPTION_NR
};

#define OPTIONS_BUT_SIZE(iterations_)                                                             \
	BENCH_SHARED_OPTIONS("single,memcpy,overlap,rdl"),                                        \
		[DEVICES] = {"devices", "N,...", "WEIR_DEVICES", NULL,                            \
			     "numbers of devices, the machine's first ones; a run for "           \
			     "each (default: 1, 2, 4 ... and all)"},                              \
		[GPU_BUDGET] = {"gpu-budget", "S,...", "WEIR_GPU_BUDGET", NULL,                   \
				"of each GPU's memory, under weir's managers, or P% of "          \
				"what its kernels name (default: all)"},                          \
		[ITERATIONS] = {"iterations", "I", NULL, iterations_, "steps in time of a pass"}, \
		[EPOCHS] = {"epochs", "E", "WEIR_EPOCHS", NULL,                                   \
			    "measured passes, after one of warm-up (default: 5 on GPUs, "         \
			    "else 1)"},                                                           \
		[DATA] = {"data", "KIND", "WEIR_DATA", NULL,                                      \
			  "real or phantom (default: phantom; real with --check and on "          \
			  "GPUs)"},                                                               \
		[CHECK] = {"check", NULL, NULL, NULL,                                             \
			   "real data; compare every element with the CPU's"},                    \
		[JSON] = {"json", "FILE", NULL, NULL,                                             \
			  "write one JSON object a result; - is stdout"},                         \
		[TIMELINE] = {"timeline", "FILE", NULL, NULL,                                     \
			      "write what happened in the last pass of each run, for Perfetto"},  \
		[TIMELINE_ALL] = {"timeline-all", NULL, NULL, NULL,                               \
				  "all of each run in the timeline, set-up included"},            \
		[VERBOSE] = {"verbose", NULL, NULL, NULL,                                         \
			     "show messages by the mechanism that sent them"},                    \
		[HELP] = {"help", NULL, NULL, NULL, "show this text"}
#define SOLVER_OPTIONS(size_help)                   \
	{                                           \
		OPTIONS_BUT_SIZE("100"), [SIZE] = { \
			"size",                     \
			"N,...",                    \
			"WEIR_SIZE",                \
			NULL,                       \
			size_help                   \
		}                                   \
	}
#define GRAPH_OPTIONS(iterations_)                                                              \
	{                                                                                       \
		OPTIONS_BUT_SIZE(iterations_),                                                  \
			[SIZE] = {"kron", "SCALE,...", NULL, "26",                              \
				  "Kronecker graphs of 2^SCALE vertices"},                      \
			[DEGREE] = {"degree", "D", NULL, "16", "edges drawn for each of them"}, \
			[SEED] = {                                                              \
				"seed",                                                         \
				"S",                                                            \
				NULL,                                                           \
				"1",                                                            \
				"of generated graphs"                                           \
			}                                                                       \
	}

static const struct option_def tables[SOLVER_KIND_NR][GRAPH_OPTION_NR] = {
	SOLVER_OPTIONS("rows and columns, or RxC (default: 16384)"),
	SOLVER_OPTIONS("planes, rows and columns, or PxRxC (default: 1024)"),
	SOLVER_OPTIONS("users and items, or UxI (default: 8Mx1M)"),
	GRAPH_OPTIONS("20"),
	GRAPH_OPTIONS("1000"),
};

static const struct solver_shape default_shape[SOLVER_KIND_NR] = {
	{16384, 1, 16384},
	{1024, 1024, 1024},
	{8000000, 1000000, SOLVER_WIDTH},
};

static bool on_graph(enum solver_kind kind)
{
	const struct solver_params p = {.kind = kind};

	return solver_on_graph(&p);
}

/* ------------------------------------------------------------------ lists */

/* "1024", or as many as a field has, with an x between. 0: it is no size. */
static uint32_t read_sides(const char *text, uint32_t nr, uint32_t most, uint32_t side[3])
{
	uint32_t found = 0;

	while (found < nr) {
		size_t length = strcspn(text, "x");
		char one[32];
		uint64_t count;

		snprintf(one, sizeof(one), "%.*s", (int)length, text);
		if (length >= sizeof(one) || count_parse(one, &count) || !count || count > most)
			return 0;
		side[found++] = (uint32_t)count;
		if (!text[length])
			break;
		text += length + 1;
		if (found == nr)
			return 0;
	}
	return found;
}

static int read_size(struct bench_reader *r, unsigned int nr, void *arg)
{
	static const char *const what[] = {
		"no size; write rows and columns as 16384 or 4096x16384, at most 1048576",
		"no size; write planes, rows and columns as 1024 or 256x1024x1024, at most 1048576",
		"no size; write users and items as 1M or 8Mx1M, at most 268435456",
	};
	struct bench_solver_params *p = arg;
	const uint32_t dimensions = p->kind == SOLVER_DIFFUSION ? 3 : 2;
	const uint32_t most = p->kind == SOLVER_ALS ? SOLVER_ROWS_MAX : SOLVER_SIDE_MAX;
	uint32_t side[3], found = read_sides(r->values[SIZE].text, dimensions, most, side);

	if (found != 1 && found != dimensions)
		return bench_refuse(r, SIZE, what[p->kind]);
	for (uint32_t i = found; i < dimensions; i++)
		side[i] = side[0];
	p->size[nr] = (struct solver_shape){
		.slices = side[0],
		.rows = dimensions == 2 ? 1 : side[1],
		.columns = side[dimensions - 1],
	};
	if (p->kind == SOLVER_ALS)
		p->size[nr] = (struct solver_shape){side[0], side[1], SOLVER_WIDTH};
	for (unsigned int i = 0; i < nr; i++)
		if (!memcmp(&p->size[i], &p->size[nr], sizeof(p->size[nr])))
			return bench_refuse(r, SIZE, "listed twice; keep one");
	return 0;
}

static int read_graph(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_solver_params *p = arg;
	struct solver_graph_params ask = {.degree = p->degree, .seed = p->seed, .phantom = true};
	int err = bench_read_u32(r, SIZE, SOLVER_SCALE_MIN, SOLVER_SCALE_MAX, &ask.scale);

	if (!err)
		err = solver_graph_open(&ask, &p->graph[nr], r->err, r->err_bytes);
	if (err)
		return err;
	p->size[nr] = solver_graph_shape(&p->graph[nr]);
	for (unsigned int i = 0; i < nr; i++)
		if (p->graph[i].scale == ask.scale)
			return bench_refuse(r, SIZE, "listed twice; keep one");
	return 0;
}

static int read_graphs(struct bench_reader *r, struct bench_solver_params *p)
{
	int err = bench_read_count(r, DEGREE, 1, GRAPH_INPUT_DEGREE_MAX, &p->degree);

	if (!err)
		err = bench_read_seed(r, SEED, &p->seed);
	return err ? err : bench_read_list(r, SIZE, BENCH_LIST_MAX, read_graph, p, &p->nr_sizes);
}

static int read_sizes(struct bench_reader *r, struct bench_solver_params *p)
{
	if (on_graph(p->kind))
		return read_graphs(r, p);
	p->size[0] = default_shape[p->kind];
	p->nr_sizes = !r->values[SIZE].text;
	return p->nr_sizes ? 0
			   : bench_read_list(r, SIZE, BENCH_LIST_MAX, read_size, p, &p->nr_sizes);
}

static int read_device_count(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_solver_params *p = arg;
	const struct weir_machine_desc *machine = &p->pass.base.machine;
	char what[96];
	int err = bench_read_u32(r, DEVICES, 1, WEIR_DEVICES_MAX, &p->devices[nr]);

	if (err)
		return err;
	if (p->devices[nr] > machine->nr_devices) {
		snprintf(what, sizeof(what), "machine '%s' has %" PRIu32 "; choose no more",
			 machine->name, machine->nr_devices);
		return bench_refuse(r, DEVICES, what);
	}
	for (unsigned int i = 0; i < nr; i++)
		if (p->devices[i] == p->devices[nr])
			return bench_refuse(r, DEVICES, "listed twice; keep one");
	return 0;
}

static int read_devices(struct bench_reader *r, struct bench_solver_params *p)
{
	const uint32_t all = p->pass.base.machine.nr_devices;

	if (r->values[DEVICES].text)
		return bench_read_list(r, DEVICES, WEIR_DEVICES_MAX, read_device_count, p,
				       &p->nr_devices);
	for (uint32_t nr = 1; nr < all; nr *= 2)
		p->devices[p->nr_devices++] = nr;
	p->devices[p->nr_devices++] = all;
	return 0;
}

static int read_budget(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_solver_params *p = arg;

	return bench_read_budget(r, GPU_BUDGET, nr, p->pass.budget);
}

static int read_budgets(struct bench_reader *r, struct bench_solver_params *p)
{
	p->pass.nr_budgets = !r->values[GPU_BUDGET].text; /* zeroed: all of the memory */
	return p->pass.nr_budgets ? 0
				  : bench_read_list(r, GPU_BUDGET, BENCH_LIST_MAX, read_budget, p,
						    &p->pass.nr_budgets);
}

static int read_manager(struct bench_reader *r, unsigned int nr, void *arg)
{
	struct bench_params *p = arg;
	const char *name = r->values[BENCH_MANAGER].text;
	const struct solver_manager_ops *ops = solver_manager_find(name);
	char what[160] = "no such manager; there are ";
	size_t used = strlen(what);

	for (unsigned int i = 0; i < nr && ops; i++)
		if (strcmp(p->manager[i], name) == 0)
			return bench_refuse(r, BENCH_MANAGER, "listed twice; keep one");
	if (ops) {
		p->manager[nr] = ops->name;
		return 0;
	}
	for (unsigned int i = 0; solver_managers[i] && used < sizeof(what); i++)
		used += (size_t)snprintf(what + used, sizeof(what) - used, "%s%s", i ? ", " : "",
					 solver_managers[i]->name);
	return bench_refuse(r, BENCH_MANAGER, what);
}

/* ------------------------------------------------------------------ single options */

static int read_data(const struct bench_reader *r, struct bench_params *p)
{
	const char *text = r->values[DATA].text;

	p->check = r->values[CHECK].text != NULL;
	p->data = p->check || p->real_gpu ? WEIR_DATA_REAL : WEIR_DATA_PHANTOM;
	if (!text || (r->values[DATA].origin == OPTION_ENV && p->check))
		return 0;
	if (strcmp(text, "phantom") == 0)
		p->data = WEIR_DATA_PHANTOM;
	else if (strcmp(text, "real") == 0)
		p->data = WEIR_DATA_REAL;
	else
		return bench_refuse(r, DATA, "no such kind of data; choose real or phantom");
	if (p->data == WEIR_DATA_REAL)
		return 0;
	if (p->real_gpu)
		return bench_refuse(r, DATA, "a real GPU has real data only; choose real");
	return p->check ? bench_refuse(r, DATA, "nothing to --check in it; drop one") : 0;
}

static int read_epochs(const struct bench_reader *r, struct bench_params *p)
{
	p->warm_up = WARM_UP;
	p->epochs = p->real_gpu ? EPOCHS_GPU : 1;
	return r->values[EPOCHS].text ? bench_read_u32(r, EPOCHS, 1, EPOCHS_MAX, &p->epochs) : 0;
}

/* On a real GPU `single` runs before the others, whose bounds are by its kernels. */
static void single_first(struct bench_params *p)
{
	const char *const single = solver_manager_single.name;
	unsigned int at = 0;

	while (at < p->nr_managers && strcmp(p->manager[at], single) != 0)
		at++;
	if (!p->real_gpu || at == p->nr_managers)
		return;
	memmove(&p->manager[1], &p->manager[0], at * sizeof(p->manager[0]));
	p->manager[0] = single;
}

static int read_all(struct bench_reader *r, struct bench_solver_params *out)
{
	struct bench_params *base = &out->pass.base;
	int err = bench_read_machine(r, base);

	if (!err)
		err = bench_read_list(r, BENCH_MANAGER, BENCH_LIST_MAX, read_manager, base,
				      &base->nr_managers);
	if (!err)
		err = read_data(r, base);
	if (!err)
		err = read_epochs(r, base);
	if (!err)
		err = read_sizes(r, out);
	if (!err)
		err = read_devices(r, out);
	if (!err)
		err = read_budgets(r, out);
	if (!err)
		err = bench_read_u32(r, ITERATIONS, 1, ITERATIONS_MAX, &out->iterations);
	if (!err)
		single_first(base);
	base->json = r->values[JSON].text;
	bench_read_explain(r, base);
	if (!err)
		err = bench_read_timeline(r, TIMELINE, TIMELINE_ALL, base);
	base->verbose = r->values[VERBOSE].text != NULL;
	base->host_budget_bytes = err ? 0 : base->machine.memory[bench_host_memory(base)].bytes;
	return err;
}

/* ------------------------------------------------------------------ cases */

struct solver_params bench_solver_case(const struct bench_solver_params *p, unsigned int size,
				       uint32_t devices)
{
	const struct bench_params *base = &p->pass.base;

	return (struct solver_params){
		.kind = p->kind,
		.shape = p->size[size],
		.graph = on_graph(p->kind) ? &p->graph[size] : NULL,
		.iterations = p->iterations,
		.passes = base->warm_up + base->epochs,
		.warm_up = base->warm_up,
		.devices = devices,
		.check = base->check,
	};
}

uint64_t bench_solver_budget(const struct bench_solver_params *p, const struct solver_params *one,
			     const struct bench_budget *budget, uint64_t out[WEIR_DEVICES_MAX])
{
	const uint64_t page_bytes = p->pass.base.machine.vmm.granularity_bytes;
	uint64_t most = 0;

	for (uint32_t d = 0; d < one->devices; d++) {
		const uint64_t named = solver_named_bytes(one, d, page_bytes);

		out[d] = bench_pass_budget(budget, named, page_bytes);
		most = MAX(most, out[d]);
	}
	return most;
}

/* Each device has two pages at least, and no more than there is. */
static int check_budgets(const struct bench_solver_params *p, const struct solver_params *one,
			 char *err, size_t err_bytes)
{
	const struct weir_machine_desc *machine = &p->pass.base.machine;
	const uint64_t least = 2 * machine->vmm.granularity_bytes;
	char is[SIZE_TEXT_BYTES], page[SIZE_TEXT_BYTES], has[SIZE_TEXT_BYTES];

	for (unsigned int i = 0; i < p->pass.nr_budgets; i++) {
		const struct bench_budget *budget = &p->pass.budget[i];
		uint64_t bytes[WEIR_DEVICES_MAX];

		if (!budget->bytes && !(budget->fraction > 0))
			continue;
		(void)bench_solver_budget(p, one, budget, bytes);
		for (uint32_t d = 0; d < one->devices; d++) {
			const uint64_t most = machine->memory[machine->device[d].memory].bytes;

			if (bytes[d] >= least && bytes[d] <= most)
				continue;
			snprintf(err, err_bytes,
				 "--gpu-budget: %s of %s: choose at least two pages, %s, and no "
				 "more than its memory, %s",
				 size_format(bytes[d], is, sizeof(is)), machine->device[d].name,
				 size_format(least, page, sizeof(page)),
				 size_format(most, has, sizeof(has)));
			return -EINVAL;
		}
	}
	return 0;
}

/* With real data this computer holds both arrays, and those of --check beside them. */
static int check_ram(const struct bench_solver_params *p, const struct solver_params *one,
		     char *err, size_t err_bytes)
{
	const struct bench_params *base = &p->pass.base;
	const uint64_t simulated = base->real_gpu ? 0 : 2, checked = base->check ? 2 : 0;
	const uint64_t edges = one->graph ? (1 + simulated / 2) * solver_edge_bytes(one) : 0;
	const uint64_t bytes = (simulated + checked) * (solver_all_bytes(one) / 2) + edges;
	char needs[SIZE_TEXT_BYTES], ram[SIZE_TEXT_BYTES];

	if (base->data == WEIR_DATA_PHANTOM || bytes <= bench_ram_bytes() / 4 * 3)
		return 0;
	snprintf(err, err_bytes,
		 "--size: real data takes %s of this computer's memory of %s; choose less, or "
		 "--data phantom",
		 size_format(bytes, needs, sizeof(needs)),
		 size_format(bench_ram_bytes(), ram, sizeof(ram)));
	return -EINVAL;
}

/* Between any of the numbers, of which one device is single's. More devices than slices are refused
 * with the case. */
static int split_graphs(struct bench_solver_params *p)
{
	for (unsigned int i = 0; i < p->nr_sizes && on_graph(p->kind); i++) {
		if (solver_graph_split(&p->graph[i], 1))
			return -ENOMEM;
		for (unsigned int k = 0; k < p->nr_devices; k++)
			if (solver_graph_split(&p->graph[i], p->devices[k]) == -ENOMEM)
				return -ENOMEM;
	}
	return 0;
}

static int check_cases(struct bench_solver_params *p, char *err, size_t err_bytes)
{
	int rc = 0;

	for (unsigned int i = 0; i < p->nr_sizes; i++)
		for (unsigned int k = 0; k < p->nr_devices && !rc; k++) {
			struct solver_params one = bench_solver_case(p, i, p->devices[k]);

			rc = solver_params_check(&one, err, err_bytes);
			rc = rc ? rc : check_ram(p, &one, err, err_bytes);
			rc = rc ? rc : check_budgets(p, &one, err, err_bytes);
		}
	return rc;
}

/* ------------------------------------------------------------------ all of it */

int bench_solver_parse(enum solver_kind kind, int argc, char **argv,
		       struct bench_solver_params *out, char *err, size_t err_bytes)
{
	const struct option_def *table = tables[kind];
	struct option_value values[GRAPH_OPTION_NR];
	const unsigned int nr = on_graph(kind) ? GRAPH_OPTION_NR : SOLVER_OPTION_NR;
	struct bench_reader reader = {.defs = table,
				      .values = values,
				      .nr = nr,
				      .load_kernels = solver_cuda_load,
				      .err = err,
				      .err_bytes = err_bytes};
	int rc;

	memset(out, 0, sizeof(*out));
	out->kind = kind;
	rc = options_parse(table, nr, argc, argv, values, err, err_bytes);
	if (rc)
		return rc;
	snprintf(err, err_bytes, "not enough memory on this computer");
	rc = bench_set_command(&reader, solver_kind_name(kind), NULL, 0, &out->pass.base);
	if (!rc)
		rc = read_all(&reader, out);
	if (!rc && split_graphs(out)) {
		rc = -ENOMEM;
		snprintf(err, err_bytes, "not enough memory on this computer");
	}
	if (!rc)
		rc = check_cases(out, err, err_bytes);
	if (rc)
		bench_solver_params_fini(out);
	return rc;
}

void bench_solver_params_fini(struct bench_solver_params *params)
{
	for (unsigned int i = 0; i < params->nr_sizes; i++)
		solver_graph_close(&params->graph[i]);
	bench_params_fini(&params->pass.base);
}

void bench_solver_help(enum solver_kind kind, FILE *out)
{
	static const char *const what[] = {
		"the mean of four neighbours, again and again, in two dimensions",
		"heat equation and Burgers' advection, step by step, in three dimensions",
		"alternating least squares, users' rows from items' and items' from users'",
		"the PageRank of each vertex of a Kronecker graph, with --devices",
		"distances from one vertex of a Kronecker graph, with --devices"};

	fprintf(out,
		"usage: weir bench %s [options]\n\n"
		"%s: %s,\n"
		"on several GPUs of this computer or a simulated machine, each with a part of the\n"
		"rows, under several ways to have what the others wrote.\n\n",
		solver_kind_name(kind), solver_kind_name(kind), what[kind]);
	options_help(out, tables[kind], on_graph(kind) ? GRAPH_OPTION_NR : SOLVER_OPTION_NR);
	fputs("\nmanagers:\n", out);
	for (unsigned int i = 0; solver_managers[i]; i++)
		options_help_line(out, solver_managers[i]->name, solver_managers[i]->help);
	bench_help_units(out);
	fputs("Exit status: 0 done (out of memory is a result), 1 a run failed or found a wrong\n"
	      "field, 2 bad input or output, 128 + n stopped by signal n.\n",
	      out);
}
