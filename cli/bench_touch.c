/* SPDX-License-Identifier: Apache-2.0 */
/* `weir bench pagein` and `weir bench gups`: which cases there are, and what comes of each. How
 * they run is in bench_pass.c. */
#include "cli/bench_touch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_pass.h"
#include "cli/bench_touch_options.h"
#include "cli/bench_touch_table.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/result_touch.h"
#include "workloads/touch/bound.h"
#include "workloads/touch/cuda.h"

struct bench_touch {
	struct bench_touch_params params;
	struct bench_pass pass;
	struct bench_touch_row *rows;
	unsigned int nr_rows;
};

/* One case under one manager. */
struct work {
	struct touch_params params;
	struct passes_result result; /* zeroed unless it got through */
};

static int work(struct manager *m, void *arg, workload_progress_fn progress, void *progress_arg,
		char *err, size_t err_bytes)
{
	struct work *w = arg;

	w->params.progress = progress;
	w->params.progress_arg = progress_arg;
	return touch_run(m, &w->params, &w->result, err, err_bytes);
}

static double bound_s(const struct bench_touch *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	const struct bench_params *p = &bench->params.pass.base;
	struct passes_held held = bench_pass_held(&bench->pass, run);

	return touch_bound_s(&p->machine, p->device, &w->params, &w->result, &held);
}

static int add_result(struct bench_touch *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	bool gups = w->params.kind == TOUCH_GUPS;
	struct result_touch touch = {.params = &w->params, .updates_per_s = NAN};
	struct bench_pass_result out;

	bench_pass_fill(&bench->pass, run, &w->result, run->err ? NAN : bound_s(bench, run, w),
			&out);
	if (gups && !run->err)
		touch.updates_per_s = (double)w->params.updates / out.result.epoch_median_s;
	out.result.workload = gups ? "gups" : "pagein";
	out.pass.parameters = result_touch_parameters;
	out.pass.members = result_touch_members;
	out.pass.of = &touch;
	bench->rows[bench->nr_rows++] = bench_touch_row(&out.result);
	return bench_pass_add(&bench->pass, &out.result);
}

static int run_case(struct bench_touch *bench, const struct touch_params *params,
		    const struct bench_budget *budget, const char *manager)
{
	struct work w = {.params = *params};
	struct bench_pass_run run = {
		.manager = manager,
		.needs_bytes = params->bytes,
		.budget_bytes = bench_pass_budget(budget, params->bytes, params->page_bytes),
		.page_bytes = params->page_bytes,
		.passes = params->passes,
		.kernels = &touch_cuda_kernels,
		.work = work,
		.arg = &w,
	};
	int rc = 0;

	bench_pass_run(&bench->pass, &run);
	if (!interrupt_pending())
		rc = add_result(bench, &run, &w);
	bench_pass_run_fini(&run);
	passes_result_free(&w.result);
	return interrupt_pending() ? -1 : rc;
}

/* The i-th case: sizes, in them page sizes, in them patterns, in them budgets, in them managers. */
static int run_all(void *arg)
{
	struct bench_touch *bench = arg;
	const struct bench_touch_params *p = &bench->params;
	const struct bench_pass_params *pass = &p->pass;
	const unsigned int nr_managers = pass->base.nr_managers;
	unsigned int nr =
		p->nr_bytes * pass->nr_page_bytes * p->nr_patterns * pass->nr_budgets * nr_managers;
	int rc = 0;

	bench->rows = calloc(nr, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->pass.err, sizeof(bench->pass.err),
			 "not enough memory on this computer");
		return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
	}
	bench->pass.total = (double)nr * (pass->base.warm_up + pass->base.epochs);
	for (unsigned int i = 0; i < nr && !rc; i++) {
		unsigned int budget = i / nr_managers, pattern = budget / pass->nr_budgets;
		unsigned int page = pattern / p->nr_patterns;
		struct touch_params one =
			bench_touch_case(p, p->bytes[page / pass->nr_page_bytes],
					 pass->page_bytes[page % pass->nr_page_bytes],
					 p->pattern[pattern % p->nr_patterns]);

		rc = run_case(bench, &one, &pass->budget[budget % pass->nr_budgets],
			      pass->base.manager[i % nr_managers]);
	}
	return rc;
}

static int print(void *arg, FILE *out)
{
	const struct bench_touch *bench = arg;

	return bench_touch_table_print(out, bench->rows, bench->nr_rows);
}

static int bench_touch(enum touch_kind kind, int argc, char **argv)
{
	struct bench_touch bench = {.pass = {.params = &bench.params.pass}};

	if (options_want_help(argc, argv)) {
		bench_touch_help(kind, stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	progress_start(&bench.pass.bar, stderr);
	if (bench_touch_parse(kind, argc, argv, &bench.params, bench.pass.err,
			      sizeof(bench.pass.err))) {
		bench_pass_complain(&bench.pass, bench.pass.err);
		progress_end(&bench.pass.bar);
		return BENCH_EXIT_BAD;
	}
	bench_pass_main(&bench.pass, run_all, print, &bench);
	free(bench.rows);
	bench_touch_params_fini(&bench.params);
	return bench.pass.status;
}

int bench_pagein(int argc, char **argv)
{
	return bench_touch(TOUCH_PAGEIN, argc, argv);
}

int bench_gups(int argc, char **argv)
{
	return bench_touch(TOUCH_GUPS, argc, argv);
}
