/* SPDX-License-Identifier: Apache-2.0 */
/* `weir bench mvt`, `atax` and `bicg`: which cases there are, and what comes of each. How they run
 * is in bench_pass.c. */
#include "cli/bench_matrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/bench.h"
#include "cli/bench_matrix_options.h"
#include "cli/bench_pass.h"
#include "cli/bench_pass_table.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "src/base/util.h"
#include "workloads/matrix/bound.h"
#include "workloads/matrix/cuda.h"

/* A row of the table. */
struct row {
	struct matrix_params params;
	struct bench_pass_row pass; /* its rate: GB a second */
};

struct bench_matrix {
	struct bench_matrix_params params;
	struct bench_pass pass;
	struct row *rows;
	unsigned int nr_rows;
};

/* One case under one manager. */
struct work {
	struct matrix_params params;
	struct passes_result result; /* zeroed unless it got through */
};

static int work(struct manager *m, void *arg, workload_progress_fn progress, void *progress_arg,
		char *err, size_t err_bytes)
{
	struct work *w = arg;

	w->params.progress = progress;
	w->params.progress_arg = progress_arg;
	return matrix_run(m, &w->params, &w->result, err, err_bytes);
}

/* ------------------------------------------------------------------ one result */

static void write_parameters(FILE *out, const void *of)
{
	const struct matrix_params *p = of;

	fprintf(out, "\"rows\":%" PRIu32 ",\"columns\":%" PRIu32, p->rows, p->columns);
	fprintf(out, ",\"bytes\":%" PRIu64 ",\"page_bytes\":%" PRIu32, matrix_bytes(p),
		p->page_bytes);
	fprintf(out, ",\"warm\":%s,\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32,
		p->warm ? "true" : "false", p->passes - p->warm_up, p->warm_up);
	fprintf(out, ",\"blocks\":%" PRIu32 ",\"threads\":%" PRIu32 ",\"agents\":%" PRIu32,
		p->blocks, p->threads, p->agents);
	fprintf(out, ",\"seed\":%" PRIu64, p->seed);
}

static int add_result(struct bench_matrix *bench, const struct bench_pass_run *run,
		      const struct work *w)
{
	const struct bench_params *p = &bench->params.pass.base;
	struct passes_held held = bench_pass_held(&bench->pass, run);
	struct bench_pass_result out;

	bench_pass_fill(&bench->pass, run, &w->result,
			matrix_bound_s(&p->machine, p->device, &w->params, &held), &out);
	out.result.workload = matrix_kind_name(w->params.kind);
	out.pass.parameters = write_parameters;
	out.pass.of = &w->params;
	bench->rows[bench->nr_rows++] = (struct row){
		w->params, bench_pass_row(&out.result, out.pass.useful_bytes_per_s / 1e9)};
	return bench_pass_add(&bench->pass, &out.result);
}

static int run_case(struct bench_matrix *bench, const struct matrix_params *params,
		    const struct bench_budget *budget, const char *manager)
{
	struct work w = {.params = *params};
	struct bench_pass_run run = {
		.manager = manager,
		.needs_bytes = matrix_bytes(params),
		.budget_bytes = bench_pass_budget(budget, matrix_bytes(params), params->page_bytes),
		.page_bytes = params->page_bytes,
		.passes = params->passes,
		.kernels = &matrix_cuda_kernels,
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

/* ------------------------------------------------------------------ all results */

/* The i-th case: sizes, in them page sizes, in them budgets, in them managers. */
static int run_all(void *arg)
{
	struct bench_matrix *bench = arg;
	const struct bench_matrix_params *p = &bench->params;
	const struct bench_pass_params *pass = &p->pass;
	const unsigned int nr_managers = pass->base.nr_managers;
	unsigned int nr = p->nr_sizes * pass->nr_page_bytes * pass->nr_budgets * nr_managers;
	int rc = 0;

	bench->rows = calloc(nr, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->pass.err, sizeof(bench->pass.err),
			 "not enough memory on this computer");
		return bench_pass_stop(&bench->pass, BENCH_EXIT_FAILED);
	}
	bench->pass.total = (double)nr * (pass->base.warm_up + pass->base.epochs);
	for (unsigned int i = 0; i < nr && !rc; i++) {
		unsigned int budget = i / nr_managers, page = budget / pass->nr_budgets;
		struct matrix_params one =
			bench_matrix_case(p, &p->size[page / pass->nr_page_bytes],
					  pass->page_bytes[page % pass->nr_page_bytes]);

		rc = run_case(bench, &one, &pass->budget[budget % pass->nr_budgets],
			      pass->base.manager[i % nr_managers]);
	}
	return rc;
}

static int print(void *arg, FILE *out)
{
	/* The first one with several devices alone. */
	static const struct table_column columns[] = {
		{"GPUs", TABLE_RIGHT},	    {"rows", TABLE_RIGHT},	 {"columns", TABLE_RIGHT},
		{"matrix", TABLE_RIGHT},    {"GPU budget", TABLE_RIGHT}, {"page", TABLE_RIGHT},
		BENCH_PASS_COLUMNS("GB/s"),
	};
	const struct bench_matrix *bench = arg;
	struct table *table;
	const uint32_t nr_devices = bench->params.pass.base.nr_devices;
	const unsigned int left_out = nr_devices == 1;
	int err = table_create(columns + left_out, ARRAY_LEN(columns) - left_out, &table);

	if (err)
		return err;
	table_set_keys(table, 7 - left_out);
	for (unsigned int i = 0; i < bench->nr_rows; i++) {
		const struct row *row = &bench->rows[i];

		if (!left_out)
			(void)table_add(table, "%" PRIu32, nr_devices);
		(void)table_add(table, "%" PRIu32, row->params.rows);
		(void)table_add(table, "%" PRIu32, row->params.columns);
		(void)table_add_size(table, matrix_bytes(&row->params));
		(void)table_add_size(table, row->pass.budget_bytes);
		(void)table_add_size(table, row->params.page_bytes);
		bench_pass_row_add(table, &row->pass);
	}
	return bench_pass_table_end(table, out);
}

static int bench_matrix(enum matrix_kind kind, int argc, char **argv)
{
	struct bench_matrix bench = {.pass = {.params = &bench.params.pass}};

	if (options_want_help(argc, argv)) {
		bench_matrix_help(kind, stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	progress_start(&bench.pass.bar, stderr);
	if (bench_matrix_parse(kind, argc, argv, &bench.params, bench.pass.err,
			       sizeof(bench.pass.err))) {
		bench_pass_complain(&bench.pass, bench.pass.err);
		progress_end(&bench.pass.bar);
		return BENCH_EXIT_BAD;
	}
	bench_pass_main(&bench.pass, run_all, print, &bench);
	free(bench.rows);
	bench_matrix_params_fini(&bench.params);
	return bench.pass.status;
}

int bench_mvt(int argc, char **argv)
{
	return bench_matrix(MATRIX_MVT, argc, argv);
}

int bench_atax(int argc, char **argv)
{
	return bench_matrix(MATRIX_ATAX, argc, argv);
}

int bench_bicg(int argc, char **argv)
{
	return bench_matrix(MATRIX_BICG, argc, argv);
}
