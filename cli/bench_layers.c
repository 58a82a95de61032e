/* SPDX-License-Identifier: Apache-2.0 */
/* `weir bench layers`: which cases there are, and what comes of each. How they run is in
 * bench_pass.c. */
#include "cli/bench_layers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_layers_options.h"
#include "cli/bench_pass.h"
#include "cli/bench_pass_table.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "src/base/util.h"
#include "workloads/touch/cuda.h"

/* Splits that `best` tries: as many ranges as there is room for, and so many fewer. */
#define BEST_TRIES 6u

/* One line of the table. */
struct row {
	struct bench_pass_row pass;
	enum layers_order order;
	uint32_t split;
};

struct bench_layers {
	struct bench_layers_params params;
	struct bench_pass pass;
	struct row *rows;
	unsigned int nr_rows;
};

/* One case under one manager. */
struct work {
	struct layers_params params;
	struct passes_result result; /* zeroed unless it got through */
	struct bench_pass_run run;
};

static int work(struct manager *m, void *arg, workload_progress_fn progress, void *progress_arg,
		char *err, size_t err_bytes)
{
	struct work *w = arg;

	w->params.progress = progress;
	w->params.progress_arg = progress_arg;
	return layers_run(m, &w->params, &w->result, err, err_bytes);
}

/* ------------------------------------------------------------------ results */

static void write_parameters(FILE *out, const void *of)
{
	const struct layers_params *p = of;

	fprintf(out, "\"ranges\":%" PRIu32 ",\"range_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64,
		p->nr_ranges, p->range_bytes, p->nr_ranges * p->range_bytes);
	fprintf(out, ",\"page_bytes\":%u,\"pattern\":\"%s\",\"access\":\"%s\",\"split\":",
		LAYERS_PAGE_BYTES, layers_order_name(p->order), p->write ? "both" : "read");
	if (p->split == LAYERS_NO_SPLIT)
		fputs("null", out);
	else
		fprintf(out, "%" PRIu32, p->split);
	fputs(",\"compute\":", out);
	result_write_double(out, p->compute);
	fprintf(out, ",\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32, p->passes - p->warm_up,
		p->warm_up);
	fprintf(out, ",\"blocks\":%" PRIu32 ",\"threads\":%" PRIu32 ",\"seed\":%" PRIu64, p->blocks,
		p->threads, p->seed);
}

static double bound_s(const struct bench_layers *bench, const struct work *w)
{
	const struct bench_params *p = &bench->params.pass.base;
	struct passes_held held = bench_pass_held(&bench->pass, &w->run);

	return layers_bound_s(&p->machine, p->device, &w->params, &w->result, &held);
}

static int add_result(struct bench_layers *bench, const struct work *w)
{
	struct bench_pass_result out;

	bench_pass_fill(&bench->pass, &w->run, &w->result, w->run.err ? NAN : bound_s(bench, w),
			&out);
	out.result.workload = "layers";
	out.pass.parameters = write_parameters;
	out.pass.of = &w->params;
	bench->rows[bench->nr_rows++] = (struct row){
		.pass = bench_pass_row(&out.result, out.pass.useful_bytes_per_s / 1e9),
		.order = w->params.order,
		.split = w->params.split,
	};
	return bench_pass_add(&bench->pass, &out.result);
}

/* ------------------------------------------------------------------ cases */

static void run_one(struct bench_layers *bench, enum layers_order order, uint32_t split,
		    const struct bench_budget *budget, const char *manager, struct work *out)
{
	const struct bench_layers_params *p = &bench->params;
	const uint64_t bytes = bench_layers_bytes(p);

	*out = (struct work){.params = bench_layers_case(p, order, split)};
	out->run = (struct bench_pass_run){
		.manager = manager,
		.needs_bytes = bytes + layers_temporary_bytes(&out->params),
		.budget_bytes = bench_pass_budget(budget, bytes, LAYERS_PAGE_BYTES),
		.page_bytes = LAYERS_PAGE_BYTES,
		.passes = out->params.passes,
		.kernels = &touch_cuda_kernels,
		.work = work,
		.arg = out,
	};
	bench_pass_run(&bench->pass, &out->run);
}

static double median_s(const struct work *w)
{
	return w->run.err ? INFINITY : result_median(w->result.pass_s, w->result.nr_passes);
}

/* Of the splits for which there is room, from the largest on, the fastest. */
static void run_best(struct bench_layers *bench, enum layers_order order,
		     const struct bench_budget *budget, const char *manager, struct work *out)
{
	const struct bench_layers_params *p = &bench->params;
	uint64_t fit = bench_pass_budget(budget, bench_layers_bytes(p), LAYERS_PAGE_BYTES) /
		       p->range_bytes;
	uint32_t most = (uint32_t)MIN(fit, (uint64_t)p->nr_ranges);

	run_one(bench, order, most, budget, manager, out);
	for (uint32_t i = 1; i < BEST_TRIES && i <= most && !interrupt_pending(); i++) {
		struct work other;

		run_one(bench, order, most - i, budget, manager, &other);
		if (median_s(&other) < median_s(out)) {
			passes_result_free(&out->result);
			bench_pass_run_fini(&out->run);
			*out = other;
			out->run.arg = out;
		} else {
			passes_result_free(&other.result);
			bench_pass_run_fini(&other.run);
		}
	}
}

static int run_case(struct bench_layers *bench, enum layers_order order, uint32_t split,
		    const struct bench_budget *budget, const char *manager)
{
	struct work w;
	int rc = 0;

	if (split == BENCH_SPLIT_BEST)
		run_best(bench, order, budget, manager, &w);
	else
		run_one(bench, order, split, budget, manager, &w);
	if (!interrupt_pending())
		rc = add_result(bench, &w);
	passes_result_free(&w.result);
	bench_pass_run_fini(&w.run);
	return interrupt_pending() ? -1 : rc;
}

/* Runs of all splits of a case. */
static unsigned int nr_runs(const struct bench_layers_params *p)
{
	unsigned int nr = p->nr_splits;

	for (unsigned int i = 0; i < p->nr_splits; i++)
		nr += p->split[i] == BENCH_SPLIT_BEST ? BEST_TRIES - 1 : 0;
	return nr;
}

/* The i-th case: orders, in them budgets, in them splits, in them managers. */
static int run_all(void *arg)
{
	struct bench_layers *bench = arg;
	const struct bench_layers_params *p = &bench->params;
	const struct bench_params *base = &p->pass.base;
	unsigned int nr_budgets = p->pass.nr_budgets, nr_managers = base->nr_managers;
	unsigned int nr = p->nr_orders * nr_budgets * p->nr_splits * nr_managers;
	int rc = 0;

	bench->rows = calloc(nr, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->pass.err, sizeof(bench->pass.err),
			 "not enough memory on this computer");
		return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
	}
	bench->pass.total = (double)p->nr_orders * nr_budgets * nr_runs(p) * nr_managers *
			    (base->warm_up + base->epochs);
	for (unsigned int i = 0; i < nr && !rc; i++) {
		unsigned int split = i / nr_managers, budget = split / p->nr_splits;

		rc = run_case(bench, p->order[budget / nr_budgets], p->split[split % p->nr_splits],
			      &p->pass.budget[budget % nr_budgets], base->manager[i % nr_managers]);
	}
	return rc;
}

/* ------------------------------------------------------------------ the table */

static void add_row(const struct bench_layers *bench, struct table *t, const struct row *row)
{
	static const char *const checks[] = {"-", "right", "WRONG"};
	const struct bench_pass_row *pass = &row->pass;
	bool ok = pass->status == RESULT_OK;

	(void)table_add(t, "%s", layers_order_name(row->order));
	(void)table_add(t, "%s", bench->params.write ? "both" : "read");
	(void)table_add_size(t, pass->budget_bytes);
	(void)(row->split == LAYERS_NO_SPLIT ? table_add(t, "-")
					     : table_add(t, "%" PRIu32, row->split));
	(void)table_add(t, "%s", pass->manager);
	(void)(ok ? table_add_double(t, "%.4g", pass->median_s)
		  : table_add(t, "%s", result_status_name(pass->status)));
	(void)table_add_double(t, "%.4g", pass->rate);
	(void)table_add_double(t, "%.4g", pass->bound_s);
	(void)table_add_double(t, "%.3f", pass->median_s / pass->bound_s);
	(void)table_add(t, "%s", ok ? checks[pass->check] : "-");
}

static int print(void *arg, FILE *out)
{
	static const struct table_column columns[] = {
		{"order", TABLE_LEFT},	{"access", TABLE_LEFT},	  {"GPU budget", TABLE_RIGHT},
		{"split", TABLE_RIGHT}, {"manager", TABLE_LEFT},  {"pass s", TABLE_RIGHT},
		{"GB/s", TABLE_RIGHT},	{"bound s", TABLE_RIGHT}, {"distance", TABLE_RIGHT},
		{"check", TABLE_LEFT},
	};
	const struct bench_layers *bench = arg;
	struct table *t;
	int err = table_create(columns, ARRAY_LEN(columns), &t);

	if (err)
		return err;
	table_set_keys(t, 5);
	for (unsigned int i = 0; i < bench->nr_rows; i++)
		add_row(bench, t, &bench->rows[i]);
	err = table_print(t, out);
	table_destroy(t);
	if (err)
		return err;
	fputs("\npass s: median of the measured passes. split: ranges that weir was advised to\n"
	      "keep in GPU memory, the others on the host. distance: that time over the lower\n"
	      "bound for this budget.\n",
	      out);
	return ferror(out) ? -EIO : 0;
}

int bench_layers(int argc, char **argv)
{
	struct bench_layers bench = {.pass = {.params = &bench.params.pass}};

	if (options_want_help(argc, argv)) {
		bench_layers_help(stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	progress_start(&bench.pass.bar, stderr);
	if (bench_layers_parse(argc, argv, &bench.params, bench.pass.err, sizeof(bench.pass.err))) {
		bench_pass_complain(&bench.pass, bench.pass.err);
		progress_end(&bench.pass.bar);
		return BENCH_EXIT_BAD;
	}
	bench_pass_main(&bench.pass, run_all, print, &bench);
	free(bench.rows);
	bench_layers_params_fini(&bench.params);
	return bench.pass.status;
}
