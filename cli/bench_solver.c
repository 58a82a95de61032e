/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir bench jacobi`, `diffusion`, `als` and, on several devices, `pagerank` and `sssp`: which
 * cases there are, and what comes of each. How they run is in bench_pass.c.
 */
#include "cli/bench_solver.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_pass.h"
#include "cli/bench_solver_options.h"
#include "cli/bench_solver_table.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "src/replica/replica.h"
#include "workloads/solver/bound.h"

/* What later runs of the same size are compared with. */
struct reference {
	double single_s;	    /* a pass under `single`; NaN: it has not run, or failed */
	struct solver_bound single; /* what the model has for that pass */
	bool has_hash;		    /* a run of real bytes got through: */
	uint64_t hash;		    /* of its field, */
	const char *manager;	    /* under this manager */
	uint32_t devices;
};

struct bench_solver {
	struct bench_solver_params params;
	struct bench_pass pass;
	struct reference reference; /* of the present size */
	struct solver_graph graph;  /* of the present size, with real data; else zeroed */
	struct bench_solver_row *rows;
	unsigned int nr_rows;
};

/* One case under one manager. */
struct work {
	struct solver_params params;
	struct solver_graph *graph; /* its graph, which lists are added to; or NULL */
	const struct solver_manager_ops *ops;
	uint64_t budget_bytes[WEIR_DEVICES_MAX], most_budget_bytes; /* 0: all of the memory */
	struct manager_stats *stats;
	struct bench_pass_run *run;
	struct solver_result result; /* zeroed unless it got through */
};

static int work_on(struct weir_machine *machine, void *arg, workload_progress_fn progress,
		   void *progress_arg, char *err, size_t err_bytes)
{
	struct work *w = arg;
	struct solver_config config = {
		.machine = machine,
		.options = w->ops->options,
	};
	struct solver_manager *m;
	bool by_hand;
	int rc;

	by_hand = w->params.graph && w->ops->by_hand &&
		  solver_lists_pay(weir_machine_describe(machine), &w->params);
	if (w->params.graph && (by_hand || w->ops->lists) &&
	    solver_graph_make_lists(w->graph, w->params.devices)) {
		snprintf(err, err_bytes, "not enough memory on this computer");
		return -EAGAIN;
	}
	solver_config_set(&config, &w->params);
	config.lists_by_hand = by_hand;
	memcpy(config.budget_bytes, w->budget_bytes, sizeof(config.budget_bytes));
	rc = w->ops->create(&config, &m);
	if (rc) {
		snprintf(err, err_bytes, "the manager cannot be created");
		return rc;
	}
	w->params.progress = progress;
	w->params.progress_arg = progress_arg;
	rc = solver_run(m, &w->params, &w->result, err, err_bytes);
	m->ops->stats(m, w->stats);
	if (!rc && w->run->explains && m->ops->explain && m->ops->explain(m, &w->run->explain)) {
		snprintf(err, err_bytes, BENCH_EXPLAIN_NO_MEMORY);
		rc = -EAGAIN;
	}
	m->ops->destroy(m);
	return rc;
}

/* ------------------------------------------------------------------ one result */

static void write_parameters(FILE *out, const void *of)
{
	const struct solver_params *p = &((const struct work *)of)->params;

	if (p->graph) {
		fprintf(out,
			"\"graph\":\"kron%" PRIu32 " degree %" PRIu64 "\",\"nr_vertices\":%" PRIu64
			",\"nr_edges\":%" PRIu64 ",\"seed\":%" PRIu64 ",",
			p->graph->scale, p->graph->degree, p->graph->nr_vertices,
			p->graph->nr_edges, p->graph->seed);
	}
	if (p->kind == SOLVER_ALS)
		fprintf(out, "\"users\":%" PRIu32 ",\"items\":%" PRIu32, p->shape.slices,
			p->shape.rows);
	else if (p->kind == SOLVER_DIFFUSION)
		fprintf(out, "\"planes\":%" PRIu32 ",\"rows\":%" PRIu32, p->shape.slices,
			p->shape.rows);
	else
		fprintf(out, "\"rows\":%" PRIu32, p->shape.slices);
	fprintf(out, ",\"columns\":%" PRIu32 ",\"bytes\":%" PRIu64, p->shape.columns,
		p->kind == SOLVER_ALS ? solver_all_bytes(p) : solver_bytes(p));
	fprintf(out, ",\"iterations\":%" PRIu32 ",\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32,
		p->iterations, p->passes - p->warm_up, p->warm_up);
}

static double iteration_s(const struct work *w)
{
	const struct passes_result *r = &w->result.passes;

	return result_median(r->pass_s, r->nr_passes) / w->result.nr_iterations;
}

/* In the whole run, over all links, by cause. */
static void count_moved(const struct manager_stats *stats, uint64_t bytes[WEIR_CAUSE_NR])
{
	for (uint32_t link = 0; link < WEIR_LINKS_MAX; link++)
		for (int way = 0; way < WEIR_DIRECTION_NR; way++)
			for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
				bytes[cause] += stats->near[link][way][cause];
}

static void write_mechanisms(FILE *out, const struct manager_stats *stats)
{
	uint64_t moved[WEIR_CAUSE_NR] = {0};

	count_moved(stats, moved);
	fputs(",\"mechanisms\":{", out);
	for (enum weir_replica_mechanism how = 0; how < WEIR_REPLICA_MECHANISM_NR; how++)
		fprintf(out, "\"%s\":{\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 "},",
			replica_mechanism_name(how), stats->nr_sent[how], stats->sent_bytes[how]);
	fprintf(out,
		"\"blocks\":{\"bytes\":%" PRIu64 "},\"in-place\":{\"bytes\":%" PRIu64
		"},\"local\":{\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64
		"},\"lists\":{\"bytes\":%" PRIu64 "}}",
		stats->moved_bytes, moved[WEIR_CAUSE_INPLACE], stats->nr_local, stats->local_bytes,
		stats->list_bytes);
}

static void write_members(FILE *out, const void *of)
{
	const struct work *w = of;

	fputs(",\"iteration_s\":", out);
	result_write_double(out, iteration_s(w));
	if (w->params.kind == SOLVER_SSSP) {
		fprintf(out, ",\"nr_rounds\":%" PRIu32 ",\"changed\":", w->result.nr_iterations);
		for (uint32_t i = 0; i < w->result.nr_iterations && w->params.check; i++)
			fprintf(out, "%c%" PRIu64, i ? ',' : '[', w->result.rounds[i].nr_changed);
		fputs(w->params.check && w->result.nr_iterations ? "]" : "null", out);
	}
	write_mechanisms(out, w->stats);
	if (w->result.hash)
		fprintf(out, ",\"hash\":\"%016" PRIx64 "\"", w->result.hash);
	else
		fputs(",\"hash\":null", out);
}

/* Of a pass, by the description's model. */
static struct solver_bound modelled_bound(const struct bench_solver *bench, const struct work *w)
{
	return solver_bound_of(&bench->params.pass.base.machine, &w->params, &w->result,
			       w->ops->in_place ? SOLVER_IN_PLACE : SOLVER_COPIED);
}

/* Compare a field with that of the first run of its size, and remember what later ones need. */
static void compare(struct bench_solver *bench, struct work *w)
{
	struct reference *ref = &bench->reference;
	struct passes_result *r = &w->result.passes;

	if (w->ops == &solver_manager_single) {
		ref->single_s = result_median(r->pass_s, r->nr_passes);
		ref->single = modelled_bound(bench, w);
	}
	if (bench->params.pass.base.data == WEIR_DATA_PHANTOM || w->ops->limit)
		return;
	if (!ref->has_hash) {
		ref->has_hash = true;
		ref->hash = w->result.hash;
		ref->manager = w->ops->name;
		ref->devices = w->params.devices;
		return;
	}
	if (r->passed && w->result.hash != ref->hash) {
		r->passed = false;
		snprintf(r->wrong, sizeof(r->wrong), "the field is not that of %s on %" PRIu32,
			 ref->manager, ref->devices);
	}
	r->checked = true;
}

/* Whether a pass under `single` was measured, which is the time in memory, and whose kernels bounds
 * are by. */
static bool single_measured(const struct bench_solver *bench)
{
	return bench->params.pass.base.real_gpu && !isnan(bench->reference.single_s);
}

/* Of a pass. Where nothing is sent, kernels alone are left. */
static double bound_s(const struct bench_solver *bench, const struct work *w)
{
	const struct reference *ref = &bench->reference;
	struct solver_bound bound = modelled_bound(bench, w);

	if (single_measured(bench))
		bound = solver_bound_measured(&bound, &ref->single, ref->single_s);
	return w->ops->limit ? bound.kernels_s : solver_bound_s(&bound);
}

static int add_result(struct bench_solver *bench, const struct bench_pass_run *run, struct work *w)
{
	struct bench_pass_result out;
	struct result *result = &out.result;
	struct bench_solver_row *row = &bench->rows[bench->nr_rows++];

	if (!run->err)
		compare(bench, w);
	bench_pass_fill(&bench->pass, run, &w->result.passes, run->err ? NAN : bound_s(bench, w),
			&out);
	out.gpu.in_memory_measured = out.gpu.bound_measured = single_measured(bench);
	/* Managers of solvers count all links alike. */
	memcpy(result->stats.bytes,
	       run->stats.near[result_host_link(result->machine, result->device)],
	       sizeof(result->stats.bytes));
	result->workload = solver_kind_name(w->params.kind);
	result->nr_devices = w->params.devices;
	result->in_memory_s = bench->reference.single_s;
	out.pass.parameters = write_parameters;
	out.pass.members = write_members;
	out.pass.of = w;
	*row = (struct bench_solver_row){
		.params = w->params,
		.scale = w->params.graph ? w->params.graph->scale : 0,
		.ops = w->ops,
		.budget_bytes = w->most_budget_bytes,
		.status = result->status,
		.check = result->check,
		.iteration_s = iteration_s(w),
		.bound_s = result->bound_s / w->result.nr_iterations,
		.bytes_per_s = out.pass.useful_bytes_per_s,
		.speed_up = result->in_memory_s / result->epoch_median_s,
	};
	count_moved(&run->stats, row->moved_bytes);
	row->block_bytes = run->stats.moved_bytes;
	memcpy(row->nr_sent, run->stats.nr_sent, sizeof(row->nr_sent));
	memcpy(row->sent_bytes, run->stats.sent_bytes, sizeof(row->sent_bytes));
	return bench_pass_add(&bench->pass, result);
}

/* What there is of each device's memory, but for the first one's, and what the run is called. */
static int add_timeline(struct bench_solver *bench, struct bench_pass_run *run,
			const struct work *w)
{
	const struct weir_machine_desc *machine = &bench->params.pass.base.machine;
	const struct solver_params *p = &w->params;
	char field[BENCH_SOLVER_FIELD_BYTES], budget[SIZE_TEXT_BYTES];
	char title[WEIR_NAME_MAX + sizeof(field) + sizeof(budget) + 64];

	for (uint32_t d = 1; d < p->devices; d++) {
		const uint32_t memory = machine->device[d].memory;

		run->near_bytes[memory] =
			w->budget_bytes[d] ? w->budget_bytes[d] : machine->memory[memory].bytes;
	}
	bench_solver_field(p, p->graph ? p->graph->scale : 0, field, sizeof(field));
	snprintf(title, sizeof(title), "%s, %s %s on %" PRIu32 " GPU%s, budget %s", w->ops->name,
		 solver_kind_name(p->kind), field, p->devices, p->devices > 1 ? "s" : "",
		 size_format(run->budget_bytes, budget, sizeof(budget)));
	return bench_pass_add_timeline(&bench->pass, run, &w->result.passes, title);
}

static int run_case(struct bench_solver *bench, const struct solver_params *params,
		    struct solver_graph *graph, const struct solver_manager_ops *ops,
		    const struct bench_budget *budget)
{
	const struct weir_machine_desc *machine = &bench->params.pass.base.machine;
	struct work w = {.params = *params, .graph = graph, .ops = ops};
	struct bench_pass_run run = {
		.manager = ops->name,
		.needs_bytes = solver_all_bytes(params),
		.budget_bytes = machine->memory[machine->device[0].memory].bytes,
		.passes = params->passes,
		.work_on = work_on,
		.arg = &w,
	};
	int rc = 0;

	w.stats = &run.stats;
	w.run = &run;
	if (ops->spills && (budget->bytes || budget->fraction > 0))
		run.budget_bytes = w.most_budget_bytes =
			bench_solver_budget(&bench->params, params, budget, w.budget_bytes);
	bench_pass_run(&bench->pass, &run);
	if (!interrupt_pending()) {
		rc = add_result(bench, &run, &w);
		rc = rc ? rc : add_timeline(bench, &run, &w);
	}
	bench_pass_run_fini(&run);
	solver_result_free(&w.result);
	return interrupt_pending() ? -1 : rc;
}

/* ------------------------------------------------------------------ all results */

static int graph_split(struct bench_solver *bench, struct solver_graph *graph, uint32_t devices)
{
	if (!solver_graph_split(graph, devices))
		return 0;
	snprintf(bench->pass.err, sizeof(bench->pass.err), "not enough memory on this computer");
	return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
}

/* All numbers of devices of a size under all managers, with the budgets that they take. */
static int run_size(struct bench_solver *bench, unsigned int size)
{
	const struct bench_solver_params *p = &bench->params;
	const unsigned int nr_managers = p->pass.base.nr_managers;
	struct solver_graph *graph = bench->graph.nr_vertices ? &bench->graph : NULL;
	int rc = 0;

	if (!graph && p->graph[size].nr_vertices)
		graph = &bench->params.graph[size];
	bench->reference = (struct reference){.single_s = NAN};
	for (unsigned int i = 0; i < p->nr_devices * nr_managers && !rc; i++) {
		const struct solver_manager_ops *ops =
			solver_manager_find(p->pass.base.manager[i % nr_managers]);
		struct solver_params one = bench_solver_case(
			p, size, ops->one_device ? 1 : p->devices[i / nr_managers]);

		if (graph) {
			rc = graph_split(bench, graph, one.devices);
			one.graph = graph;
		}
		if (ops->one_device && i >= nr_managers)
			continue;
		for (unsigned int k = 0; k < (ops->spills ? p->pass.nr_budgets : 1) && !rc; k++)
			rc = run_case(bench, &one, graph, ops, &p->pass.budget[k]);
	}
	return rc;
}

static bool look_on(void *arg, double fraction, const char *label)
{
	struct bench_solver *bench = arg;

	progress_set(&bench->pass.bar, fraction, label);
	return interrupt_pending() != 0;
}

/* On a real GPU, which generates it. */
static int graph_open(struct bench_solver *bench, struct solver_graph_params *ask)
{
	const struct bench_params *base = &bench->params.pass.base;
	int rc = base->real_gpu ? weir_machine_cuda(bench_measured(base), &ask->machine) : 0;

	if (rc)
		snprintf(bench->pass.err, sizeof(bench->pass.err), "the GPU cannot be opened: %s",
			 weir_strerror(rc));
	else
		rc = solver_graph_open(ask, &bench->graph, bench->pass.err,
				       sizeof(bench->pass.err));
	weir_machine_close(ask->machine);
	return rc;
}

/* With real data a size's graph is generated first. */
static int run_size_on_graph(struct bench_solver *bench, unsigned int size)
{
	const struct bench_solver_params *p = &bench->params;
	const struct graph_watch watch = {.stop = look_on, .arg = bench};
	struct solver_graph_params ask = {
		.scale = p->graph[size].scale,
		.degree = p->degree,
		.seed = p->seed,
		.weights = p->kind == SOLVER_SSSP,
		.watch = &watch,
	};
	int rc;

	if (!p->graph[size].nr_vertices || p->pass.base.data == WEIR_DATA_PHANTOM)
		return run_size(bench, size);
	rc = graph_open(bench, &ask);
	if (rc == -ECANCELED)
		return -1;
	if (rc)
		return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
	rc = run_size(bench, size);
	solver_graph_close(&bench->graph);
	return rc;
}

static unsigned int cases_of_size(const struct bench_solver_params *p)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < p->pass.base.nr_managers; i++) {
		const struct solver_manager_ops *ops = solver_manager_find(p->pass.base.manager[i]);

		nr += (ops->one_device ? 1 : p->nr_devices) *
		      (ops->spills ? p->pass.nr_budgets : 1);
	}
	return nr;
}

static int run_all(void *arg)
{
	struct bench_solver *bench = arg;
	const struct bench_solver_params *p = &bench->params;
	const unsigned int nr = p->nr_sizes * cases_of_size(p);
	int rc = 0;

	bench->rows = calloc(nr + 1, sizeof(*bench->rows)); /* never empty */
	if (!bench->rows) {
		snprintf(bench->pass.err, sizeof(bench->pass.err),
			 "not enough memory on this computer");
		return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
	}
	bench->pass.total = (double)nr * (p->pass.base.warm_up + p->pass.base.epochs);
	for (unsigned int i = 0; i < p->nr_sizes && !rc; i++)
		rc = run_size_on_graph(bench, i);
	return rc;
}

static int print(void *arg, FILE *out)
{
	const struct bench_solver *bench = arg;

	return bench_solver_table_print(out, bench->rows, bench->nr_rows, &bench->params.pass.base);
}

/* ------------------------------------------------------------------ the command */

static int bench_solver(enum solver_kind kind, int argc, char **argv)
{
	struct bench_solver bench = {.pass = {.params = &bench.params.pass}};

	if (options_want_help(argc, argv)) {
		bench_solver_help(kind, stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	progress_start(&bench.pass.bar, stderr);
	if (bench_solver_parse(kind, argc, argv, &bench.params, bench.pass.err,
			       sizeof(bench.pass.err))) {
		bench_pass_complain(&bench.pass, bench.pass.err);
		progress_end(&bench.pass.bar);
		return BENCH_EXIT_BAD;
	}
	bench_pass_main(&bench.pass, run_all, print, &bench);
	free(bench.rows);
	bench_solver_params_fini(&bench.params);
	return bench.pass.status;
}

int bench_jacobi(int argc, char **argv)
{
	return bench_solver(SOLVER_JACOBI, argc, argv);
}

int bench_diffusion(int argc, char **argv)
{
	return bench_solver(SOLVER_DIFFUSION, argc, argv);
}

int bench_als(int argc, char **argv)
{
	return bench_solver(SOLVER_ALS, argc, argv);
}

int bench_solver_pagerank(int argc, char **argv)
{
	return bench_solver(SOLVER_PAGERANK, argc, argv);
}

int bench_solver_sssp(int argc, char **argv)
{
	return bench_solver(SOLVER_SSSP, argc, argv);
}

bool bench_solver_wanted(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		const char *arg = argv[i];

		if (strcmp(arg, "--") == 0)
			return false;
		if (strcmp(arg, "--devices") == 0 || strncmp(arg, "--devices=", 10) == 0)
			return true;
	}
	return false;
}
