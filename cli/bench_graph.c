/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir bench bfs`, sssp, cc and pagerank: the graph is got once, then each case runs on it. Which
 * cases there are, and what comes of each; how they run is in bench_pass.c.
 */
#include "cli/bench_graph.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_check.h"
#include "cli/bench_graph_input.h"
#include "cli/bench_graph_output.h"
#include "cli/bench_graph_table.h"
#include "cli/bench_solver.h"
#include "cli/bench_pass.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/result_graph.h"
#include "cli/size.h"
#include "workloads/graph/cuda.h"

struct bench_graph {
	struct bench_graph_params params;
	struct bench_pass pass;
	struct bench_graph_input input;
	struct graph_params ask; /* of all cases, but for progress */
	struct output_file output;
	bool written; /* the answer is in it */
	struct bench_graph_row *rows;
	unsigned int nr_rows;
};

/* One case under one manager. */
struct work {
	struct graph_params params;
	struct graph_result result; /* zeroed unless it got through */
};

static int work(struct manager *m, void *arg, workload_progress_fn progress, void *progress_arg,
		char *err, size_t err_bytes)
{
	struct work *w = arg;

	w->params.progress = progress;
	w->params.progress_arg = progress_arg;
	return graph_run(m, &w->params, &w->result, err, err_bytes);
}

static int stop(struct bench_graph *bench, int status)
{
	return bench_pass_stop(&bench->pass, status);
}

/* ------------------------------------------------------------------ one result */

static bool weighted(const struct bench_graph *bench)
{
	return bench->params.algorithm == GRAPH_SSSP && bench->input.edges->weight;
}

/* Of edges, and weights, that are the manager's. */
static uint64_t edge_bytes(const struct bench_graph *bench)
{
	return bench->input.edges->nr_edges * sizeof(uint32_t) * (weighted(bench) ? 2 : 1);
}

/* The pages that these fill, one at least. */
static uint64_t paged_bytes(const struct bench_graph *bench, uint64_t page_bytes)
{
	uint64_t bytes = bench->input.edges->nr_edges * sizeof(uint32_t);
	uint64_t pages = bytes ? (bytes - 1) / page_bytes + 1 : 1;

	return pages * page_bytes * (weighted(bench) ? 2 : 1);
}

/* Of a pass that begins with nothing in the device's memory, or, warm, with all that fits. NAN
 * where other GPUs' memory is used: which of a round's edges are there nobody can say. */
static double bound_s(const struct bench_graph *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	const struct bench_params *p = &bench->params.pass.base;
	struct graph_result r = w->result;
	uint64_t room = run->budget_bytes;

	if (manager_is_near(run->manager))
		return NAN;
	if (!bench_manager_find(run->manager)->paged_begin)
		room = bench_pass_room(p, room);
	if (bench->params.pass.warm)
		r.work.first_bytes = 0;
	return graph_bound_s(&p->machine, p->device, &r, room ? room : run->needs_bytes);
}

/* Each edge of what was reached: of a symmetric graph, where both directions are expanded, once. */
static double traversed_edges(const struct bench_graph *bench, const struct graph_result *r)
{
	bool twice =
		bench->params.algorithm == GRAPH_BFS && bench->input.edges->flags & CSR_SYMMETRIC;

	if (bench->params.algorithm != GRAPH_BFS && bench->params.algorithm != GRAPH_PAGERANK)
		return NAN;
	return (double)r->work.nr_edges / (twice ? 2 : 1);
}

static int add_result(struct bench_graph *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	const struct bench_graph_params *p = &bench->params;
	const struct graph_result *r = &w->result;
	struct result_graph graph = {
		.params = &w->params,
		.graph = bench->input.name,
		.symmetric = bench->input.edges->flags & CSR_SYMMETRIC,
		.page_bytes = run->page_bytes,
		.seed = p->pass.base.seed,
		.source = p->one_source ? &p->source : NULL,
		.edge_bytes = run->needs_bytes,
		.run = run->err ? NULL : r,
		.teps_per_s = NAN,
	};
	struct bench_pass_result out;

	bench_pass_fill(&bench->pass, run, &r->passes, run->err ? NAN : bound_s(bench, run, w),
			&out);
	if (!run->err)
		graph.teps_per_s = traversed_edges(bench, r) / out.result.epoch_median_s;
	out.result.workload = graph_algorithm_name(p->algorithm);
	out.pass.parameters = result_graph_parameters;
	out.pass.members = result_graph_members;
	out.pass.of = &graph;
	bench->rows[bench->nr_rows++] = bench_graph_row(&out.result);
	return bench_pass_add(&bench->pass, &out.result);
}

/* The answer of the first manager that has a right one. */
static int add_answer(struct bench_graph *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	struct bench_pass *pass = &bench->pass;

	if (!bench->output.stream || bench->written || run->err || !w->result.passes.passed)
		return 0;
	bench_graph_write(bench->output.stream, bench->params.algorithm, bench->input.edges,
			  &w->result);
	bench->written = true;
	if (output_file_flush(&bench->output, pass->err, sizeof(pass->err)))
		return stop(bench, BENCH_EXIT_BAD);
	return 0;
}

/* ------------------------------------------------------------------ all cases */

static int run_case(struct bench_graph *bench, uint64_t page_bytes,
		    const struct bench_budget *budget, const char *manager)
{
	struct work w = {.params = bench->ask};
	struct bench_pass_run run = {
		.manager = manager,
		.needs_bytes = edge_bytes(bench),
		.budget_bytes =
			bench_pass_budget(budget, paged_bytes(bench, page_bytes), page_bytes),
		.page_bytes = (uint32_t)page_bytes,
		.passes = bench->ask.passes,
		.kernels = &graph_cuda_kernels,
		.work = work,
		.arg = &w,
	};
	int rc = 0;

	bench_pass_run(&bench->pass, &run);
	if (!interrupt_pending())
		rc = add_result(bench, &run, &w);
	if (!interrupt_pending() && !rc)
		rc = add_answer(bench, &run, &w);
	bench_pass_run_fini(&run);
	graph_result_free(&w.result);
	return interrupt_pending() ? -1 : rc;
}

/* The i-th case: page sizes, in them budgets, in them managers. */
static int run_cases(struct bench_graph *bench)
{
	const struct bench_pass_params *p = &bench->params.pass;
	const unsigned int nr_managers = p->base.nr_managers;
	unsigned int nr = p->nr_page_bytes * p->nr_budgets * nr_managers;
	int rc = 0;

	bench->rows = calloc(nr ? nr : 1, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->pass.err, sizeof(bench->pass.err),
			 "not enough memory on this computer");
		return stop(bench, BENCH_EXIT_FAILED);
	}
	bench->pass.total = (double)nr * bench->ask.passes;
	progress_start(&bench->pass.bar, stderr);
	for (unsigned int i = 0; i < nr && !rc; i++) {
		unsigned int budget = i / nr_managers;

		rc = run_case(bench, p->page_bytes[budget / p->nr_budgets],
			      &p->budget[budget % p->nr_budgets], p->base.manager[i % nr_managers]);
	}
	return rc;
}

/* ------------------------------------------------------------------ before them */

static bool look_on(void *arg, double fraction, const char *label)
{
	struct bench_graph *bench = arg;

	progress_set(&bench->pass.bar, fraction, label);
	return interrupt_pending() != 0;
}

static void set_ask(struct bench_graph *bench)
{
	const struct bench_graph_params *p = &bench->params;
	const struct bench_params *base = &p->pass.base;

	bench->ask = (struct graph_params){
		.algorithm = p->algorithm,
		.graph = bench->input.edges,
		.degree = bench->input.degree,
		.sources = bench->input.source,
		.nr_sources = bench->input.nr_sources,
		.iterations = p->iterations,
		.damping = p->damping,
		.delta = p->delta,
		.passes = base->warm_up + base->epochs,
		.warm_up = base->warm_up,
		.warm = p->pass.warm,
		.check = base->check,
		.blocks = p->pass.blocks,
		.threads = p->pass.threads,
		.agents = p->pass.agents,
	};
}

/* What can be known to be wrong once the graph is there. */
static int check_cases(struct bench_graph *bench, char *err, size_t err_bytes)
{
	const struct bench_pass_params *p = &bench->params.pass;
	uint64_t least = UINT64_MAX;
	char bytes[SIZE_TEXT_BYTES], ram[SIZE_TEXT_BYTES];
	int rc = graph_params_check(&bench->ask, err, err_bytes);

	for (unsigned int i = 0; i < p->nr_page_bytes && !rc; i++)
		rc = bench_pass_check_budgets(p, "edges", paged_bytes(bench, p->page_bytes[i]),
					      p->page_bytes[i], &least, err, err_bytes);
	if (!rc && bench->params.algorithm != GRAPH_PAGERANK)
		rc = bench_pass_check_order(p, "edges", edge_bytes(bench), least, err, err_bytes);
	if (rc)
		return rc;
	if (edge_bytes(bench) > bench_ram_bytes() / 2) {
		snprintf(err, err_bytes,
			 "%s: edges of %s are more than half of this computer's memory of %s; "
			 "choose a smaller graph",
			 bench->input.name, size_format(edge_bytes(bench), bytes, sizeof(bytes)),
			 size_format(bench_ram_bytes(), ram, sizeof(ram)));
		return -EINVAL;
	}
	return bench_pass_check_managers(p, least, err, err_bytes);
}

static int open_output(struct bench_graph *bench, char *err, size_t err_bytes)
{
	const char *name = bench->params.output;
	int rc = name ? output_file_open(&bench->output, "--output", name, err, err_bytes) : 0;

	interrupt_set_partial(1, bench->output.partial);
	return rc;
}

static int prepare(struct bench_graph *bench)
{
	const struct graph_watch watch = {.stop = look_on, .arg = bench};
	struct bench_pass *pass = &bench->pass;
	int rc = open_output(bench, pass->err, sizeof(pass->err));

	if (!rc)
		rc = bench_graph_open(&bench->params, &watch, &bench->input, pass->err,
				      sizeof(pass->err));
	if (rc == -ECANCELED)
		return -1;
	if (!rc) {
		set_ask(bench);
		rc = check_cases(bench, pass->err, sizeof(pass->err));
	}
	return rc ? stop(bench, BENCH_EXIT_BAD) : 0;
}

/* ------------------------------------------------------------------ the command */

static int finish_output(struct bench_graph *bench)
{
	struct bench_pass *pass = &bench->pass;

	if (!bench->output.stream)
		return 0;
	interrupt_set_partial(1, NULL);
	if (bench->written) {
		if (output_file_commit(&bench->output, pass->err, sizeof(pass->err)))
			return stop(bench, BENCH_EXIT_BAD);
		return 0;
	}
	bench_pass_complain(pass, "--output: no manager got through, and there is no answer");
	pass->status = pass->status ? pass->status : BENCH_EXIT_FAILED;
	return 0;
}

static int run_all(void *arg)
{
	struct bench_graph *bench = arg;
	int rc = prepare(bench);

	if (!rc)
		rc = run_cases(bench);
	if (!rc)
		rc = finish_output(bench);
	interrupt_set_partial(1, NULL);
	output_file_abandon(&bench->output);
	return rc;
}

static int print(void *arg, FILE *out)
{
	const struct bench_graph *bench = arg;
	const struct csr *g = bench->input.edges;

	fprintf(out, "%s: %llu vertices, %llu edges%s\n\n", bench->input.name,
		(unsigned long long)g->nr_vertices, (unsigned long long)g->nr_edges,
		g->flags & CSR_SYMMETRIC ? ", symmetric" : "");
	return bench_graph_table_print(out, bench->rows, bench->nr_rows);
}

static int bench_graph(enum graph_algorithm algorithm, int argc, char **argv)
{
	struct bench_graph bench = {.pass = {.params = &bench.params.pass}};

	if (options_want_help(argc, argv)) {
		bench_graph_help(algorithm, stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	progress_start(&bench.pass.bar, stderr);
	if (bench_graph_parse(algorithm, argc, argv, &bench.params, bench.pass.err,
			      sizeof(bench.pass.err))) {
		bench_pass_complain(&bench.pass, bench.pass.err);
		progress_end(&bench.pass.bar);
		return BENCH_EXIT_BAD;
	}
	bench_pass_main(&bench.pass, run_all, print, &bench);
	bench_graph_close(&bench.input);
	free(bench.rows);
	bench_graph_params_fini(&bench.params);
	return bench.pass.status;
}

int bench_bfs(int argc, char **argv)
{
	return bench_graph(GRAPH_BFS, argc, argv);
}

int bench_sssp(int argc, char **argv)
{
	if (bench_solver_wanted(argc, argv))
		return bench_solver_sssp(argc, argv);
	return bench_graph(GRAPH_SSSP, argc, argv);
}

int bench_cc(int argc, char **argv)
{
	return bench_graph(GRAPH_CC, argc, argv);
}

int bench_pagerank(int argc, char **argv)
{
	if (bench_solver_wanted(argc, argv))
		return bench_solver_pagerank(argc, argv);
	return bench_graph(GRAPH_PAGERANK, argc, argv);
}
