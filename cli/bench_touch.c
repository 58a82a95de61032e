/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir bench pagein` and `weir bench gups`: each case under each manager, on a fresh machine. As
 * for other workloads, the output of a simulated machine is the same byte for byte from two runs;
 * with more than one agent, what agents do depends on the host.
 */
#include "cli/bench_touch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_host.h"
#include "cli/bench_reader.h"
#include "cli/bench_touch_options.h"
#include "cli/bench_touch_table.h"
#include "cli/first_logged.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/result_touch.h"
#include "workloads/touch/bound.h"
#include "workloads/touch/cuda.h"

#define ERROR_BYTES 512

struct bench_touch {
	struct bench_touch_params params;
	struct output_file json;
	struct progress bar;
	struct bench_touch_row *rows;
	unsigned int nr_rows;
	double done, total; /* of the progress, in passes */
	int status;	    /* exit status so far */
	char err[ERROR_BYTES];
};

/* One run and what came of it. */
struct outcome {
	struct touch_params params;
	const char *manager;
	uint64_t budget_bytes;
	int err;		  /* 0, -ENOMEM: it does not fit, else it failed */
	char error[ERROR_BYTES];  /* in words */
	struct passes_result run; /* zeroed unless err is 0 */
	struct manager_stats stats;
	struct bench_host host;
};

static void complain(struct bench_touch *bench, const char *text)
{
	progress_clear(&bench->bar);
	fprintf(stderr, "weir: %s\n", text);
}

static int stop(struct bench_touch *bench, int status)
{
	complain(bench, bench->err);
	bench->status = status;
	return -1;
}

/* ------------------------------------------------------------------ one run */

struct listener {
	struct bench_touch *bench;
	struct outcome *outcome;
};

static int listen(void *arg, uint32_t done, uint32_t total)
{
	const struct listener *listener = arg;
	struct bench_touch *bench = listener->bench;

	if (interrupt_pending())
		return 1;
	progress_set(&bench->bar, (bench->done + done) / bench->total, listener->outcome->manager);
	if (done == total && bench->params.base.real_gpu)
		bench_host_look(&listener->outcome->host);
	return 0;
}

/* What happened, and what weir logged of it if that says more; one line. */
static void set_error(struct outcome *out, int err, const char *text, const char *logged)
{
	const char *what = text[0] ? text : weir_strerror(err);

	out->err = err;
	if (logged[0] && !strstr(what, logged))
		snprintf(out->error, sizeof(out->error), "%.*s (%.*s)", ERROR_BYTES / 2 - 4, what,
			 ERROR_BYTES / 2 - 4, logged);
	else
		snprintf(out->error, sizeof(out->error), "%s", what);
	for (char *c = out->error; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
}

static int open_machine(const struct bench_params *p, struct weir_machine **out)
{
	if (p->real_gpu)
		return weir_machine_cuda(bench_measured(p), out);
	return weir_machine_simulate(&p->machine, p->data, out);
}

/* Create the manager and run under it. logged: what weir logs meanwhile. */
static void run_on(struct bench_touch *bench, struct weir_machine *machine, struct outcome *out,
		   const struct first_logged *logged)
{
	const struct bench_params *p = &bench->params.base;
	uint64_t host = p->machine.memory[bench_host_memory(p)].bytes;
	struct listener listener = {bench, out};
	struct manager_config config = {
		.machine = machine,
		.device = p->device,
		.host_budget_bytes = p->host_budget_bytes == host ? 0 : p->host_budget_bytes,
		.page_bytes = out->params.page_bytes,
		.paged_kernels = p->real_gpu ? &touch_cuda_kernels : NULL,
		.options = "",
	};
	char text[ERROR_BYTES / 2] = "";
	struct manager *manager;
	int err;

	config.gpu_budget_bytes = bench_manager_find(out->manager)->paged_begin
					  ? out->budget_bytes
					  : bench_touch_room(&bench->params, out->budget_bytes);
	err = manager_create(out->manager, &config, &manager);
	if (err) {
		set_error(out, err, "the manager cannot be created", logged->error);
		return;
	}
	out->params.progress = listen;
	out->params.progress_arg = &listener;
	err = touch_run(manager, &out->params, &out->run, text, sizeof(text));
	if (err)
		set_error(out, err, text, logged->error);
	manager->ops->stats(manager, &out->stats);
	manager->ops->destroy(manager);
}

static void run_one(struct bench_touch *bench, struct outcome *out)
{
	struct first_logged logged = {0};
	struct weir_machine *machine;
	int err;

	weir_log_set(first_logged_keep, &logged);
	bench_host_start(&out->host);
	err = open_machine(&bench->params.base, &machine);
	if (err) {
		set_error(out, err == -ENOMEM ? -EAGAIN : err, "the machine cannot be opened",
			  logged.error);
	} else {
		run_on(bench, machine, out, &logged);
		weir_machine_close(machine);
	}
	weir_log_set(NULL, NULL);
	bench->done += out->params.passes;
}

/* ------------------------------------------------------------------ one result */

/* What a pass may find and leave of the table in the device's memory. On a real GPU nothing limits
 * what the driver keeps there of managed memory. */
static struct touch_bound resident(const struct bench_touch *bench, const struct outcome *o)
{
	const struct bench_params *p = &bench->params.base;
	const struct manager_ops *ops = bench_manager_find(o->manager);
	const uint64_t *peak = o->stats.peak_bytes;
	uint64_t all = o->params.bytes, most = o->budget_bytes;
	bool driver = p->real_gpu && ops == &manager_uvm;

	if (!peak[p->machine.device[p->device].memory])
		return (struct touch_bound){0, 0};
	if (!ops->paged_begin)
		most = bench_touch_room(&bench->params, most);
	if (!most || driver || (!ops->drain && !peak[bench_host_memory(p)]))
		most = all;
	return (struct touch_bound){ops->drain && !o->params.warm ? 0 : most, most};
}

static void fill_touch(const struct outcome *o, double median_s, struct result_touch *out)
{
	const struct passes_result *r = &o->run;
	double nr = r->nr_passes;

	*out = (struct result_touch){
		.params = &o->params,
		.in = NAN,
		.out = NAN,
		.in_place = NAN,
		.waits = NAN,
		.useful_bytes_per_s = NAN,
		.updates_per_s = NAN,
		.wrong = r->wrong,
	};
	if (o->err)
		return;
	out->useful_bytes_per_s = (double)(r->read_bytes + r->write_bytes) / median_s;
	if (o->params.kind == TOUCH_GUPS)
		out->updates_per_s = (double)o->params.updates / median_s;
	if (!bench_manager_find(o->manager)->paged_begin)
		return;
	out->in = (double)r->pages.nr_in / nr;
	out->out = (double)r->pages.nr_out / nr;
	out->in_place = (double)r->pages.nr_in_place / nr;
	out->waits = (double)r->pages.nr_waits / nr;
}

static void fill_result(const struct bench_touch *bench, const struct outcome *o,
			struct result_touch *touch, struct result_real_gpu *gpu, struct result *out)
{
	const struct bench_params *p = &bench->params.base;
	struct touch_bound held = resident(bench, o);

	*gpu = (struct result_real_gpu){
		.epoch_cpu_s = o->run.pass_cpu_s,
		.peak_rss_bytes = o->host.peak_rss_bytes,
		.bookkeeping_bytes = o->host.bookkeeping_bytes,
	};
	*out = (struct result){
		.workload = bench->params.kind == TOUCH_GUPS ? "gups" : "pagein",
		.touch = touch,
		.parameters = {.host_budget_bytes = p->host_budget_bytes,
			       .data = p->data == WEIR_DATA_REAL ? "real" : "phantom"},
		.machine = &p->machine,
		.device = p->device,
		.manager = o->manager,
		.policy = strncmp(o->manager, "weir", 4) == 0 ? "default" : NULL,
		.stats = o->stats,
		.real_gpu = p->real_gpu ? gpu : NULL,
		.gpu_budget_bytes = o->budget_bytes,
		.epoch_median_s = NAN,
		.test_accuracy = NAN,
		.bound_s = NAN,
		.needs_bytes = o->params.bytes,
		.in_memory_s = NAN,
		.status = o->err == 0	      ? RESULT_OK
			  : o->err == -ENOMEM ? RESULT_OUT_OF_MEMORY
					      : RESULT_FAILED,
		.error = o->error,
	};
	if (!o->err) {
		out->epoch_s = o->run.pass_s;
		out->nr_epochs = o->run.nr_passes;
		out->epoch_median_s = result_median(out->epoch_s, out->nr_epochs);
		out->bound_s = touch_bound_s(&p->machine, p->device, &o->params, &o->run, &held);
		if (o->run.checked)
			out->check = o->run.passed ? RESULT_PASSED : RESULT_DIFFERS;
	}
	fill_touch(o, out->epoch_median_s, touch);
}

/* Say at once what makes the exit status 1. */
static void judge(struct bench_touch *bench, const struct result *result)
{
	if (result->status == RESULT_FAILED)
		snprintf(bench->err, sizeof(bench->err), "%s: %.*s", result->manager,
			 ERROR_BYTES - 64, result->error);
	else if (result->check == RESULT_DIFFERS)
		snprintf(bench->err, sizeof(bench->err), "%s: wrong bytes: %s", result->manager,
			 result->touch->wrong);
	else
		return;
	complain(bench, bench->err);
	bench->status = BENCH_EXIT_FAILED;
}

/* ------------------------------------------------------------------ all runs */

static int run_case(struct bench_touch *bench, const struct touch_params *params,
		    const char *manager)
{
	struct outcome outcome = {
		.params = *params,
		.manager = manager,
		.budget_bytes =
			bench_touch_budget(&bench->params, params->bytes, params->page_bytes),
	};
	struct result_touch touch;
	struct result_real_gpu gpu;
	struct result result;
	int rc = 0;

	run_one(bench, &outcome);
	if (!interrupt_pending()) {
		fill_result(bench, &outcome, &touch, &gpu, &result);
		judge(bench, &result);
		bench->rows[bench->nr_rows++] = bench_touch_row(&result);
		if (bench->json.stream) {
			result_write(bench->json.stream, &result);
			rc = output_file_flush(&bench->json, bench->err, sizeof(bench->err));
		}
		if (rc)
			rc = stop(bench, BENCH_EXIT_BAD);
	}
	passes_result_free(&outcome.run);
	return interrupt_pending() ? -1 : rc;
}

/* The i-th case: sizes, in them page sizes, in them patterns, in them managers. */
static int run_all(struct bench_touch *bench)
{
	const struct bench_touch_params *p = &bench->params;
	const struct bench_params *base = &p->base;
	unsigned int nr = p->nr_bytes * p->nr_page_bytes * p->nr_patterns * base->nr_managers;
	int rc = 0;

	bench->rows = calloc(nr, sizeof(*bench->rows));
	if (!bench->rows) {
		snprintf(bench->err, sizeof(bench->err), "not enough memory on this computer");
		return stop(bench, BENCH_EXIT_FAILED);
	}
	bench->total = (double)nr * (base->warm_up + base->epochs);
	progress_start(&bench->bar, stderr);
	for (unsigned int i = 0; i < nr && !rc; i++) {
		unsigned int pattern = i / base->nr_managers, page = pattern / p->nr_patterns;
		struct touch_params one = bench_touch_case(p, p->bytes[page / p->nr_page_bytes],
							   p->page_bytes[page % p->nr_page_bytes],
							   p->pattern[pattern % p->nr_patterns]);

		rc = run_case(bench, &one, base->manager[i % base->nr_managers]);
	}
	progress_clear(&bench->bar);
	return rc;
}

static int run_command(struct bench_touch *bench)
{
	const char *json = bench->params.base.json;
	int rc = interrupt_init();

	if (rc) {
		snprintf(bench->err, sizeof(bench->err), "cannot handle signals: %s",
			 strerror(-rc));
		return stop(bench, BENCH_EXIT_FAILED);
	}
	if (json && output_file_open(&bench->json, "--json", json, bench->err, sizeof(bench->err)))
		return stop(bench, BENCH_EXIT_BAD);
	interrupt_set_partial(0, bench->json.partial);
	return run_all(bench);
}

/* The table goes where JSON does not. */
static void report(struct bench_touch *bench)
{
	FILE *out = bench->json.stream == stdout ? stderr : stdout;
	int err;

	interrupt_set_partial(0, NULL);
	if (bench->json.stream && output_file_commit(&bench->json, bench->err, sizeof(bench->err)))
		(void)stop(bench, BENCH_EXIT_BAD);
	errno = 0;
	err = bench_touch_table_print(out, bench->rows, bench->nr_rows);
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	if (err) {
		snprintf(bench->err, sizeof(bench->err),
			 "cannot write the table: %s; send the output elsewhere",
			 strerror(errno ? errno : -err));
		(void)stop(bench, BENCH_EXIT_BAD);
	}
}

static int bench_touch(enum touch_kind kind, int argc, char **argv)
{
	struct bench_touch bench = {0};
	int rc;

	if (options_want_help(argc, argv)) {
		bench_touch_help(kind, stdout);
		return fflush(stdout) ? BENCH_EXIT_BAD : 0;
	}
	if (bench_touch_parse(kind, argc, argv, &bench.params, bench.err, sizeof(bench.err))) {
		complain(&bench, bench.err);
		return BENCH_EXIT_BAD;
	}
	if (bench.params.base.note[0])
		complain(&bench, bench.params.base.note);
	rc = run_command(&bench);
	if (!rc)
		report(&bench);
	interrupt_set_partial(0, NULL);
	output_file_abandon(&bench.json);
	if (rc && interrupt_pending()) {
		complain(&bench, "interrupted; no results were written");
		bench.status = 128 + interrupt_pending();
	}
	free(bench.rows);
	bench_touch_params_fini(&bench.params);
	return bench.status;
}

int bench_pagein(int argc, char **argv)
{
	return bench_touch(TOUCH_PAGEIN, argc, argv);
}

int bench_gups(int argc, char **argv)
{
	return bench_touch(TOUCH_GUPS, argc, argv);
}
