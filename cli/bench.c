/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir bench`: run a workload under several managers, each on a fresh machine, and report. The
 * output is the same byte for byte whenever the same thing is simulated: it holds no time but
 * virtual time. Here is the GCN; others are in bench_touch.c and bench_graph.c. What is run is in
 * bench_options.c, how in bench_run.c, what is written in bench_write.c.
 *
 * Exit status: 0; 1 when a run failed or its losses differ; 2 for bad input and for output that
 * cannot be written; 128 + n when stopped by signal n. Out of memory is a result.
 */
#include "cli/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_check.h"
#include "cli/bench_explain.h"
#include "cli/bench_graph.h"
#include "cli/bench_layers.h"
#include "cli/bench_matrix.h"
#include "cli/bench_near.h"
#include "cli/bench_options.h"
#include "cli/bench_oracle.h"
#include "cli/bench_plan.h"
#include "cli/bench_policy.h"
#include "cli/bench_reader.h"
#include "cli/bench_reference.h"
#include "cli/bench_solver.h"
#include "cli/bench_table.h"
#include "cli/bench_touch.h"
#include "cli/bench_write.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/result_policy.h"
#include "cli/size.h"
#include "src/base/util.h"
#include "workloads/bound.h"

/* One run of the command. */
struct bench {
	struct bench_params params;
	struct bench_files files;
	struct bench_progress work;
	struct bench_row *rows;
	unsigned int nr_rows;
	struct bench_decisions decisions;
	struct bench_explain explain;
	struct bench_plan plan;
	int status; /* exit status so far */
	char err[BENCH_ERROR_BYTES];
};

/* One line on stderr, the bar out of its way. */
static void complain(struct bench *bench, const char *text)
{
	progress_clear(&bench->work.bar);
	command_print_line(text);
}

/* What is going on between runs. */
static void show(struct bench *bench, const char *label)
{
	progress_set(&bench->work.bar, bench->work.done / bench->work.total, label);
}

static int stop(struct bench *bench, int status)
{
	complain(bench, bench->err);
	bench->status = status;
	return -1;
}

/* ------------------------------------------------------------------ one result */

/* What sums in another order may change. */
#define LOSS_TOLERANCE 1e-4

/* Bit by bit, or on a real GPU nearly, in the epochs that both have; a NaN is no result to agree
 * on. */
static bool same_values(const struct workload_result *a, const struct workload_result *b,
			bool nearly)
{
	uint32_t nr = MIN(a->nr_epochs, b->nr_epochs);

	if (a->nr_epochs != b->nr_epochs && !nearly)
		return false;
	for (uint32_t i = 0; i < nr; i++) {
		double off = nearly ? LOSS_TOLERANCE * fabs(b->loss[i]) : 0;

		if (!(fabs(a->loss[i] - b->loss[i]) <= off))
			return false;
	}
	if (nearly)
		return true;
	return isnan(a->test_accuracy) ? isnan(b->test_accuracy)
				       : a->test_accuracy == b->test_accuracy;
}

static void fill_parameters(const struct bench_params *p, uint64_t nodes,
			    struct result_parameters *out)
{
	*out = (struct result_parameters){
		.nodes = nodes,
		.slice = p->slice,
		.seed = p->seed,
		.host_budget_bytes = p->host_budget_bytes,
		.block_bytes = p->block_bytes,
		.epochs = p->epochs,
		.warm_up = p->warm_up,
		.hidden = p->hidden,
		.data = p->data == WEIR_DATA_REAL ? "real" : "phantom",
		.graph = p->graph_dir,
	};
}

/* The outcome of a run as a result, which borrows from all. gpu: filled for a real one. */
static void fill_result(const struct bench_params *p, const struct bench_run *run,
			const struct bench_outcome *outcome,
			const struct bench_reference *reference, double bound_s,
			struct result_real_gpu *gpu, struct result *out)
{
	const struct workload_result *r = &outcome->run;

	*gpu = (struct result_real_gpu){
		.in_memory_measured = reference->measured,
		.bound_measured = reference->timed,
		.epoch_cpu_s = outcome->err ? NULL : r->epoch_cpu_s + p->warm_up,
		.peak_rss_bytes = outcome->host.peak_rss_bytes,
		.bookkeeping_bytes = outcome->host.bookkeeping_bytes,
	};

	*out = (struct result){
		.command = p->command,
		.date = p->date[0] ? p->date : NULL,
		.workload = "gcn",
		.machine = &p->machine,
		.device = p->device,
		.manager = run->manager,
		.policy = result_policy_of(run->manager),
		.run_s = outcome->run_s,
		.stats = outcome->stats,
		.real_gpu = p->real_gpu ? gpu : NULL,
		.gpu_budget_bytes = run->config.gpu_budget_bytes,
		.near_bytes_per_s = run->config.near_bytes_per_s,
		.epoch_median_s = NAN,
		.test_accuracy = NAN,
		.bound_s = bound_s,
		.live_peak_bytes = reference->live_bytes,
		.needs_bytes = reference->needs_bytes,
		.in_memory_s = reference->epoch_s,
		.explains = p->explain,
		.explain = outcome->explain,
	};
	memcpy(out->near_bytes, run->config.near_bytes, sizeof(out->near_bytes));
	fill_parameters(p, run->nodes, &out->parameters);
	if (outcome->err) {
		out->status = result_status_of(outcome->err);
		out->error = outcome->error;
		return;
	}
	out->status = RESULT_OK;
	out->epoch_s = r->epoch_s + p->warm_up;
	out->nr_epochs = r->nr_epochs - p->warm_up;
	out->epoch_median_s = result_median(out->epoch_s, out->nr_epochs);
	out->time_s = r->time_s ? outcome->time_s : NULL;
	out->loss = r->loss;
	out->nr_losses = r->nr_epochs;
	out->test_accuracy = r->test_accuracy;
	if (reference->real.run.nr_epochs)
		out->check = same_values(r, &reference->real.run, p->real_gpu) ? RESULT_PASSED
									       : RESULT_DIFFERS;
}

static void keep_row(struct bench *bench, const struct result *result, double in_memory_s)
{
	struct bench_row *row = &bench->rows[bench->nr_rows++];

	*row = (struct bench_row){
		.nodes = result->parameters.nodes,
		.gpu_budget_bytes = result->gpu_budget_bytes,
		.manager = result->manager,
		.status = result->status,
		.check = result->check,
		.epoch_median_s = result->epoch_median_s,
		.in_memory_s = in_memory_s,
		.bound_s = result->bound_s,
		.last_loss = result->nr_losses ? result->loss[result->nr_losses - 1] : NAN,
		.test_accuracy = result->test_accuracy,
		.traffic = {.machine = result->machine,
			    .device = result->device,
			    .stats = result->stats},
		.has_oracle = result->oracle != NULL,
		.oracle = result->oracle ? *result->oracle : (struct result_oracle){0},
	};
	memcpy(row->traffic.near_bytes, result->near_bytes, sizeof(row->traffic.near_bytes));
}

/* Keep what its policy decided, and say on standard error, where nothing has to repeat, which part
 * of the computer's time that took. */
static int keep_decisions(struct bench *bench, const struct result *result)
{
	const struct manager_policy_stats *policy = &result->stats.policy;
	double s = (double)policy->counts.ns / 1e9;

	if (bench_decisions_add(&bench->decisions, result)) {
		snprintf(bench->err, sizeof(bench->err), "not enough memory on this computer");
		return stop(bench, BENCH_EXIT_FAILED);
	}
	if (!bench->params.verbose || !result_has_decisions(result))
		return 0;
	snprintf(bench->err, sizeof(bench->err),
		 "%s: %" PRIu64 " decisions took %.4f s of %.3f s, %.2f %%, %.0f ns each",
		 result->manager, result_decisions(policy), s, result->run_s,
		 result_decision_share(result) * 100,
		 1e9 * s / (double)MAX(result_decisions(policy), 1));
	complain(bench, bench->err);
	bench->err[0] = '\0';
	return 0;
}

/* Say at once what makes the exit status 1. */
static void judge(struct bench *bench, const struct result *result)
{
	char nodes[SIZE_TEXT_BYTES];

	count_format(result->parameters.nodes, nodes, sizeof(nodes));
	if (result->status == RESULT_FAILED)
		snprintf(bench->err, sizeof(bench->err), "%s, %s nodes: %.*s", result->manager,
			 nodes, BENCH_ERROR_BYTES / 2, result->error);
	else if (result->check == RESULT_DIFFERS)
		snprintf(bench->err, sizeof(bench->err),
			 "%s, %s nodes: losses differ from uncapped native's", result->manager,
			 nodes);
	else
		return;
	complain(bench, bench->err);
	bench->status = BENCH_EXIT_FAILED;
}

/* ------------------------------------------------------------------ the runs */

/* Compare with the oracle, where the manager moves blocks. */
static void consult(struct bench *bench, const struct bench_run *run, struct result_oracle *oracle,
		    struct result *result)
{
	int rc;

	if (!bench->params.oracle || !run->record->trace || !run->record->trace->block_bytes)
		return;
	show(bench, "oracle");
	rc = bench_oracle(run, oracle, bench->err, sizeof(bench->err));
	if (!rc) {
		result->oracle = oracle;
		return;
	}
	complain(bench, bench->err);
	bench->err[0] = '\0';
	if (rc != -ENOSPC)
		bench->status = BENCH_EXIT_FAILED;
}

/* Lower bounds of a size: without other GPUs' memory, and with what --near has of it. */
struct bounds {
	double own_s, near_s; /* near_s: NaN where no manager uses any */
};

/* A run that did not follow the plan that it was given failed. */
static void check_plan(struct bench *bench, struct bench_outcome *outcome)
{
	const char *wrong = outcome->err ? NULL : bench_plan_wrong(&bench->plan);

	if (!wrong)
		return;
	outcome->err = -EINVAL;
	snprintf(outcome->error, sizeof(outcome->error), "%s", wrong);
}

/* 0, or -1: the benchmark stops. */
static int run_manager(struct bench *bench, unsigned int manager, uint64_t nodes, uint64_t budget,
		       const struct bench_reference *reference, const struct bounds *bounds)
{
	const struct bench_params *p = &bench->params;
	struct bench_run run = {
		.params = p,
		.machine = &p->machine,
		.data = p->data,
		.real_gpu = p->real_gpu,
		.nodes = nodes,
		.manager = p->manager[manager],
		.config = {.device = p->device,
			   .gpu_budget_bytes = budget,
			   .host_budget_bytes = p->host_budget_bytes,
			   .block_bytes = p->block_bytes,
			   .plans = bench_plan_maker(&bench->plan),
			   .options = ""},
		.epochs = p->warm_up + p->epochs,
		.work = &bench->work,
		.weight = bench_run_weight(p, nodes, p->data, p->warm_up + p->epochs),
	};
	struct bench_record record;
	struct bench_outcome outcome;
	struct result_oracle oracle;
	struct result_real_gpu gpu;
	struct result result;
	double bound_s = bounds->own_s;
	int rc = 0;

	if (manager_is_near(run.manager)) {
		bench_near_bytes(p, reference->needs_bytes, run.config.near_bytes);
		run.config.near_bytes_per_s = p->near.bytes_per_s;
		bound_s = bounds->near_s;
	}
	run.record = bench_record_wanted(p, &record);
	bench_run(&run, &outcome);
	check_plan(bench, &outcome);
	if (!interrupt_pending()) {
		fill_result(p, &run, &outcome, reference, bound_s, &gpu, &result);
		consult(bench, &run, &oracle, &result);
		judge(bench, &result);
		keep_row(bench, &result, reference->epoch_s);
		bench_explain_add(&bench->explain, &result);
		rc = keep_decisions(bench, &result);
		if (!rc && bench_write(&bench->files, &run, &outcome, &result, bench->err,
				       sizeof(bench->err)))
			rc = stop(bench, BENCH_EXIT_BAD);
	}
	bench_record_fini(&record);
	bench_outcome_fini(&outcome);
	return interrupt_pending() ? -1 : rc;
}

/* The GPU budget in bytes, which as a percentage is known only with the reference. */
static int budget_bytes(struct bench *bench, uint64_t nodes,
			const struct bench_reference *reference, uint64_t *out)
{
	const struct bench_params *p = &bench->params;
	const struct weir_memory_desc *memory =
		&p->machine.memory[p->machine.device[p->device].memory];
	uint64_t least = 2 * (p->block_bytes ? p->block_bytes : p->machine.vmm.granularity_bytes);
	char asked[SIZE_TEXT_BYTES], count[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];

	if (!(p->gpu_budget_fraction > 0)) {
		*out = p->gpu_budget_bytes;
		return 0;
	}
	*out = (uint64_t)((double)reference->needs_bytes * p->gpu_budget_fraction);
	if (*out >= least && *out <= memory->bytes)
		return 0;
	size_format(*out, asked, sizeof(asked));
	count_format(nodes, count, sizeof(count));
	snprintf(bench->err, sizeof(bench->err),
		 "--gpu-budget of %.6g%% is %s for %s nodes, %s, %s; choose %s",
		 p->gpu_budget_fraction * 100, asked, count,
		 *out < least ? "below two blocks" : "beyond the device's memory",
		 size_format(*out < least ? least : memory->bytes, limit, sizeof(limit)),
		 *out < least ? "more" : "less");
	return stop(bench, BENCH_EXIT_BAD);
}

/* Beyond the sizes that end in a minute, say first how long a simulation may take. */
static void warn_of_uvm(struct bench *bench, unsigned int manager, uint64_t nodes, double over)
{
	const struct bench_params *p = &bench->params;
	const double s = bench_check_uvm_s(p, nodes, over);
	char count[SIZE_TEXT_BYTES];

	if (p->real_gpu || s < 60 || bench_manager_find(p->manager[manager]) != &manager_uvm)
		return;
	snprintf(bench->err, sizeof(bench->err),
		 "%s, %s nodes: every page fault is simulated, and the work needs %.2f times the "
		 "GPU budget: this may take about %.0f minutes; fewer --nodes or a larger "
		 "--gpu-budget take less",
		 p->manager[manager], count_format(nodes, count, sizeof(count)), over,
		 ceil(s / 60));
	complain(bench, bench->err);
	bench->err[0] = '\0';
}

static int compute_bounds(struct bench *bench, const struct bench_reference *reference,
			  uint64_t budget, struct bounds *out)
{
	const struct bench_params *p = &bench->params;
	uint64_t near_bytes[WEIR_MEMORIES_MAX];
	struct bound_result bound;
	int rc;

	show(bench, "lower bound");
	out->near_s = NAN;
	rc = bound_compute(reference->trace, &p->machine, p->device, budget, NULL, &bound);
	if (!rc)
		out->own_s = bound.bound_s;
	if (!rc && p->near.given) {
		bench_near_bytes(p, reference->needs_bytes, near_bytes);
		rc = bound_compute(reference->trace, &p->machine, p->device, budget, near_bytes,
				   &bound);
		if (!rc)
			out->near_s = bound.bound_s;
	}
	if (!rc)
		return 0;
	snprintf(bench->err, sizeof(bench->err), "lower bound: %s", weir_strerror(rc));
	return stop(bench, BENCH_EXIT_FAILED);
}

static int run_size(struct bench *bench, uint64_t nodes)
{
	const struct bench_params *p = &bench->params;
	struct bench_reference reference;
	struct bounds bounds;
	uint64_t budget;
	int rc;

	rc = bench_reference_run(p, nodes, &bench->work, &reference, bench->err,
				 sizeof(bench->err));
	if (rc)
		return interrupt_pending() ? -1 : stop(bench, BENCH_EXIT_FAILED);
	if (bench->err[0])
		complain(bench, bench->err);
	rc = budget_bytes(bench, nodes, &reference, &budget);
	if (rc)
		goto out;
	if (bench_near_check(p, reference.needs_bytes, budget, bench->err, sizeof(bench->err))) {
		rc = stop(bench, BENCH_EXIT_BAD);
		goto out;
	}
	rc = compute_bounds(bench, &reference, budget, &bounds);
	for (unsigned int i = 0; i < p->nr_managers && !rc; i++) {
		warn_of_uvm(bench, i, nodes, (double)reference.live_bytes / (double)budget);
		rc = run_manager(bench, i, nodes, budget, &reference, &bounds);
	}
out:
	bench_reference_fini(&reference);
	return rc;
}

static int run_all(struct bench *bench)
{
	const struct bench_params *p = &bench->params;
	int rc = 0;

	for (unsigned int i = 0; i < p->nr_nodes; i++)
		bench->work.total += bench_reference_weight(p, p->nodes[i]) +
				     p->nr_managers * bench_run_weight(p, p->nodes[i], p->data,
								       p->warm_up + p->epochs);
	progress_start(&bench->work.bar, stderr);
	for (unsigned int i = 0; i < p->nr_nodes && !rc; i++)
		rc = run_size(bench, p->nodes[i]);
	progress_end(&bench->work.bar);
	return rc;
}

/* ------------------------------------------------------------------ the command */

/* The table goes where JSON does not. */
static void report(struct bench *bench)
{
	FILE *out = bench->files.json.stream == stdout ? stderr : stdout;
	int err;

	if (bench_files_commit(&bench->files, bench->err, sizeof(bench->err)) ||
	    bench_plan_write(&bench->plan, bench->err, sizeof(bench->err))) {
		complain(bench, bench->err);
		bench->status = BENCH_EXIT_BAD;
	}
	errno = 0;
	err = bench_table_print(out, bench->rows, bench->nr_rows, bench->params.verbose);
	if (!err)
		err = bench_decisions_print(&bench->decisions, out);
	if (!err)
		err = bench_explain_print(&bench->explain, out);
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	if (err) {
		snprintf(bench->err, sizeof(bench->err),
			 "cannot write the table: %s; send the output elsewhere",
			 strerror(errno ? errno : -err));
		complain(bench, bench->err);
		bench->status = BENCH_EXIT_BAD;
	}
}

static int run_command(struct bench *bench)
{
	struct bench_params *p = &bench->params;
	int rc;

	bench->rows = calloc((size_t)p->nr_nodes * p->nr_managers, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->err, sizeof(bench->err), "not enough memory on this computer");
		return stop(bench, BENCH_EXIT_FAILED);
	}
	if (bench_explain_open(&bench->explain, p, bench->err, sizeof(bench->err)))
		return stop(bench, BENCH_EXIT_FAILED);
	rc = interrupt_init();
	if (rc) {
		snprintf(bench->err, sizeof(bench->err), "cannot handle signals: %s",
			 strerror(-rc));
		return stop(bench, BENCH_EXIT_FAILED);
	}
	if (bench_plan_init(p, &bench->plan, bench->err, sizeof(bench->err)))
		return stop(bench, BENCH_EXIT_BAD);
	if (bench_files_open(&bench->files, p, &p->file, bench->err, sizeof(bench->err)))
		return stop(bench, BENCH_EXIT_BAD);
	return run_all(bench);
}

static int bench_gcn(int argc, char **argv)
{
	struct bench bench = {0};
	int rc;

	if (options_want_help(argc, argv)) {
		bench_params_help(stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	/* Reading a graph may take long. */
	progress_start(&bench.work.bar, stderr);
	if (bench_params_parse(argc, argv, &bench.params, bench.err, sizeof(bench.err))) {
		complain(&bench, bench.err);
		progress_end(&bench.work.bar);
		return BENCH_EXIT_BAD;
	}
	if (bench.params.note[0])
		complain(&bench, bench.params.note);
	rc = run_command(&bench);
	progress_end(&bench.work.bar);
	if (!rc)
		report(&bench);
	bench_files_abandon(&bench.files);
	if (rc && interrupt_pending()) {
		complain(&bench, "interrupted; no results were written");
		bench.status = 128 + interrupt_pending();
	}
	bench_explain_fini(&bench.explain);
	free(bench.rows);
	bench_plan_fini(&bench.plan);
	bench_decisions_fini(&bench.decisions);
	bench_params_fini(&bench.params);
	return bench.status;
}

/* The workloads there are. */
static const struct workload_command {
	const char *name, *help;
	int (*main)(int argc, char **argv); /* argv[0]: the first option */
} workloads[] = {
	{"gcn", "train a graph convolutional network", bench_gcn},
	{"pagein", "touch every page of a table", bench_pagein},
	{"gups", "add to random words of a table", bench_gups},
	{"layers", "use ranges again and again, without a plan", bench_layers},
	{"mvt", "two products of a matrix and of its transpose", bench_mvt},
	{"atax", "the product of a transpose and a product", bench_atax},
	{"bicg", "the products of a step of BiCG", bench_bicg},
	{"bfs", "search a graph, breadth first", bench_bfs},
	{"sssp", "find shortest paths in a graph", bench_sssp},
	{"cc", "find the components of a graph", bench_cc},
	{"pagerank", "rank the vertices of a graph", bench_pagerank},
	{"jacobi", "solve in two dimensions, on several GPUs", bench_jacobi},
	{"diffusion", "solve in three dimensions, on several GPUs", bench_diffusion},
	{"als", "factor ratings by least squares, on several GPUs", bench_als},
};

#define NR_WORKLOADS ARRAY_LEN(workloads)

static int usage(void)
{
	fputs("usage: weir bench WORKLOAD [options]\n\nworkloads:\n", stdout);
	for (size_t i = 0; i < NR_WORKLOADS; i++)
		printf("  %-9s %s\n", workloads[i].name, workloads[i].help);
	fputs("\n`weir bench WORKLOAD --help` lists a workload's options.\n", stdout);
	return fflush(stdout) ? BENCH_EXIT_BAD : 0;
}

int bench_main(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] == '-' && options_want_help(argc - 1, argv + 1))
		return usage();
	if (argc < 2) {
		fputs("weir: bench needs a workload; write weir bench gcn\n", stderr);
		return BENCH_EXIT_BAD;
	}
	for (size_t i = 0; i < NR_WORKLOADS; i++)
		if (strcmp(argv[1], workloads[i].name) == 0)
			return workloads[i].main(argc - 2, argv + 2);
	return command_complain("no workload '%s'; `weir bench --help` lists them", argv[1]);
}
