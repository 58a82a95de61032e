/* SPDX-License-Identifier: Apache-2.0 */
/* Running workloads that make passes over memory; see bench_pass.h. */
#include "cli/bench_pass.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/bench_near.h"
#include "cli/commands.h"
#include "cli/first_logged.h"
#include "cli/interrupt.h"
#include "src/base/clock.h"
#include "src/residency/explain.h"

void bench_pass_complain(struct bench_pass *b, const char *text)
{
	progress_clear(&b->bar);
	command_print_line(text);
}

int bench_pass_stop(struct bench_pass *b, int status)
{
	bench_pass_complain(b, b->err);
	b->status = status;
	return -1;
}

/* ------------------------------------------------------------------ one run */

struct listener {
	struct bench_pass *b;
	struct bench_pass_run *run;
	struct manager *manager;     /* NULL: it is the workload's own */
	struct bench_record *record; /* of such a workload; NULL: none is wanted */
	int err;		     /* of recording */
	uint32_t next_mark;	     /* the pass that is marked next, as an epoch */
};

static int listen(void *arg, uint32_t done, uint32_t total)
{
	struct listener *listener = arg;
	struct bench_pass *b = listener->b;

	if (interrupt_pending())
		return 1;
	progress_set(&b->bar, (b->done + done) / b->total, listener->run->manager);
	if (done == total && b->params->base.real_gpu)
		bench_host_look(&listener->run->host);
	if (listener->manager && done >= listener->next_mark) {
		manager_mark_epoch(listener->manager, done, total);
		listener->next_mark = done + 1;
	}
	if (listener->record)
		listener->err = bench_record_progress(listener->record, done, total);
	return listener->err;
}

/* What happened, and what weir logged of it if that says more; one line. */
static void set_error(struct bench_pass_run *run, int err, const char *text, const char *logged)
{
	const int half = BENCH_PASS_ERROR_BYTES / 2 - 4;
	const char *what = text[0] ? text : weir_strerror(err);

	run->err = err;
	if (logged[0] && !strstr(what, logged))
		snprintf(run->error, sizeof(run->error), "%.*s (%.*s)", half, what, half, logged);
	else
		snprintf(run->error, sizeof(run->error), "%s", what);
	for (char *c = run->error; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
}

static int open_machine(const struct bench_params *p, struct weir_machine **out)
{
	int err;

	if (p->real_gpu)
		return weir_machine_cuda(bench_measured(p), out);
	err = weir_machine_simulate(&p->machine, p->data, out);
	if (!err)
		interrupt_look_in(*out);
	return err;
}

int bench_pass_explain(struct bench_pass_run *run, struct manager *m, char *err, size_t err_bytes)
{
	int rc = run->explains ? manager_explain(m, &run->explain) : 0;

	if (!rc)
		return 0;
	snprintf(err, err_bytes, BENCH_EXPLAIN_NO_MEMORY);
	return -EAGAIN;
}

/* Work with a manager of the workload's own. */
static void run_own(struct bench_pass *b, struct weir_machine *machine, struct bench_pass_run *run,
		    const struct first_logged *logged)
{
	struct bench_record *record = bench_record_wanted(&b->params->base, &run->record);
	struct listener listener = {.b = b, .run = run, .record = record};
	char text[BENCH_PASS_ERROR_BYTES / 2] = "";
	int err = record ? bench_record_machine(record, machine) : 0;

	if (!err && record)
		err = bench_record_manager(record, NULL);
	if (err) {
		set_error(run, -EAGAIN, "no memory to record the run", logged->error);
		return;
	}
	err = run->work_on(machine, run->arg, listen, &listener, text, sizeof(text));
	if (err == -EINTR && listener.err)
		set_error(run, listener.err == -ENOMEM ? -EAGAIN : listener.err, "recording",
			  logged->error);
	else if (err)
		set_error(run, err, text, logged->error);
	err = !err && record ? bench_record_end(record) : 0;
	if (err)
		set_error(run, err == -ENOMEM ? -EAGAIN : err, "the run was not recorded whole",
			  logged->error);
	if (run->err && record)
		bench_record_fini(record);
}

/* Create the manager and work under it. logged: what weir logs meanwhile. */
static void run_on(struct bench_pass *b, struct weir_machine *machine, struct bench_pass_run *run,
		   const struct first_logged *logged)
{
	const struct bench_params *p = &b->params->base;
	uint64_t host = p->machine.memory[bench_host_memory(p)].bytes;
	struct listener listener = {.b = b, .run = run};
	struct manager_config config = {
		.machine = machine,
		.device = p->device,
		.nr_devices = p->nr_devices,
		.host_budget_bytes = p->host_budget_bytes == host ? 0 : p->host_budget_bytes,
		.page_bytes = run->page_bytes,
		.paged_kernels = p->real_gpu ? run->kernels : NULL,
		.options = "",
	};
	char text[BENCH_PASS_ERROR_BYTES / 2] = "";
	struct manager *manager;
	int err;

	config.gpu_budget_bytes = bench_manager_find(run->manager)->paged_begin
					  ? run->budget_bytes
					  : bench_pass_room(p, run->budget_bytes);
	if (manager_is_near(run->manager)) {
		bench_near_bytes(p, run->needs_bytes, run->near_bytes);
		memcpy(config.near_bytes, run->near_bytes, sizeof(config.near_bytes));
		config.near_bytes_per_s = p->near.bytes_per_s;
		config.needs_bytes = run->needs_bytes;
	}
	err = manager_create(run->manager, &config, &manager);
	if (err) {
		set_error(run, err, "the manager cannot be created", logged->error);
		return;
	}
	listener.manager = manager;
	err = run->work(manager, run->arg, listen, &listener, text, sizeof(text));
	if (!err)
		err = bench_pass_explain(run, manager, text, sizeof(text));
	if (err)
		set_error(run, err, text, logged->error);
	manager->ops->stats(manager, &run->stats);
	manager->ops->destroy(manager);
}

void bench_pass_run(struct bench_pass *b, struct bench_pass_run *run)
{
	struct first_logged logged = {0};
	uint64_t since_ns = clock_now_ns();
	struct weir_machine *machine;
	int err;

	run->explains = b->params->base.explain;
	weir_log_set(first_logged_keep, &logged);
	bench_host_start(&run->host);
	err = open_machine(&b->params->base, &machine);
	if (err) {
		set_error(run, err == -ENOMEM ? -EAGAIN : err, "the machine cannot be opened",
			  logged.error);
	} else {
		(run->work_on ? run_own : run_on)(b, machine, run, &logged);
		weir_machine_close(machine);
	}
	weir_log_set(NULL, NULL);
	run->run_s = (double)(clock_now_ns() - since_ns) / 1e9;
	b->done += run->passes;
}

void bench_pass_run_fini(struct bench_pass_run *run)
{
	bench_record_fini(&run->record);
	explain_free(run->explain);
	run->explain = NULL;
}

/* ------------------------------------------------------------------ one result */

struct passes_held bench_pass_held(const struct bench_pass *b, const struct bench_pass_run *run)
{
	const struct bench_params *p = &b->params->base;
	const struct manager_ops *ops = bench_manager_find(run->manager);
	const uint64_t *peak = run->stats.peak_bytes;
	struct passes_held held = {.near_bytes = NULL};
	uint64_t most = run->budget_bytes;
	bool driver = p->real_gpu && ops == &manager_uvm;

	if (manager_is_near(run->manager))
		held.near_bytes = run->near_bytes;
	if (!peak[p->machine.device[p->device].memory])
		return held;
	if (!ops->paged_begin)
		most = bench_pass_room(p, most);
	if (!most || driver || (!ops->drain && !held.near_bytes && !peak[bench_host_memory(p)]))
		most = run->needs_bytes;
	held.begin_bytes = ops->drain && !b->params->warm ? 0 : most;
	held.end_bytes = most;
	return held;
}

static void fill_pass(const struct bench_pass_run *run, const struct passes_result *r,
		      double median_s, struct result_pass *out)
{
	const struct manager_ops *ops = bench_manager_find(run->manager);
	double nr = r->nr_passes;

	*out = (struct result_pass){
		.in = NAN,
		.out = NAN,
		.in_place = NAN,
		.waits = NAN,
		.useful_bytes_per_s = NAN,
	};
	if (run->err)
		return;
	out->useful_bytes_per_s = (double)(r->read_bytes + r->write_bytes) / median_s;
	out->wrong = r->wrong;
	if (run->work_on || !ops->paged_begin)
		return;
	out->in = (double)r->pages.nr_in / nr;
	out->out = (double)r->pages.nr_out / nr;
	out->in_place = (double)r->pages.nr_in_place / nr;
	out->waits = (double)r->pages.nr_waits / nr;
}

void bench_pass_fill(const struct bench_pass *b, const struct bench_pass_run *run,
		     const struct passes_result *r, double bound_s, struct bench_pass_result *out)
{
	const struct bench_params *p = &b->params->base;
	struct result *result = &out->result;

	out->gpu = (struct result_real_gpu){
		.epoch_cpu_s = run->err ? NULL : r->pass_cpu_s,
		.peak_rss_bytes = run->host.peak_rss_bytes,
		.bookkeeping_bytes = run->host.bookkeeping_bytes,
	};
	*result = (struct result){
		.command = p->command,
		.date = p->date[0] ? p->date : NULL,
		.pass = &out->pass,
		.parameters = {.host_budget_bytes = p->host_budget_bytes,
			       .data = p->data == WEIR_DATA_REAL ? "real" : "phantom"},
		.machine = &p->machine,
		.device = p->device,
		.nr_devices = p->nr_devices,
		.manager = run->manager,
		.policy = result_policy_of(run->manager),
		.run_s = run->run_s,
		.stats = run->stats,
		.real_gpu = p->real_gpu ? &out->gpu : NULL,
		.gpu_budget_bytes = run->budget_bytes,
		.epoch_median_s = NAN,
		.test_accuracy = NAN,
		.bound_s = NAN,
		.live_peak_bytes = run->needs_bytes,
		.needs_bytes = run->needs_bytes,
		.in_memory_s = NAN,
		.status = result_status_of(run->err),
		.error = run->error,
		.explains = run->explains,
		.explain = run->explain,
	};
	if (!run->err) {
		result->epoch_s = r->pass_s;
		result->nr_epochs = r->nr_passes;
		result->epoch_median_s = result_median(r->pass_s, r->nr_passes);
		result->bound_s = bound_s;
		if (r->checked)
			result->check = r->passed ? RESULT_PASSED : RESULT_DIFFERS;
	}
	if (manager_is_near(run->manager)) {
		memcpy(result->near_bytes, run->near_bytes, sizeof(result->near_bytes));
		result->near_bytes_per_s = p->near.bytes_per_s;
		/* Nothing limits what the driver keeps there. */
		if (bench_manager_find(run->manager) == &manager_uvm)
			result->bound_s = NAN;
	}
	fill_pass(run, r, result->epoch_median_s, &out->pass);
}

/* Say at once what makes the exit status 1. */
static void judge(struct bench_pass *b, const struct result *result)
{
	if (result->status == RESULT_FAILED)
		snprintf(b->err, sizeof(b->err), "%s: %.*s", result->manager,
			 BENCH_PASS_ERROR_BYTES - 64, result->error);
	else if (result->check == RESULT_DIFFERS)
		snprintf(b->err, sizeof(b->err), "%s: wrong: %s", result->manager,
			 result->pass->wrong);
	else
		return;
	bench_pass_complain(b, b->err);
	b->status = BENCH_EXIT_FAILED;
}

int bench_pass_add(struct bench_pass *b, const struct result *result)
{
	judge(b, result);
	if (bench_decisions_add(&b->decisions, result)) {
		snprintf(b->err, sizeof(b->err), "not enough memory on this computer");
		return bench_pass_stop(b, BENCH_EXIT_FAILED);
	}
	bench_explain_add(&b->explain, result);
	if (!b->files.json.stream)
		return 0;
	result_write(b->files.json.stream, result);
	if (output_file_flush(&b->files.json, b->err, sizeof(b->err)))
		return bench_pass_stop(b, BENCH_EXIT_BAD);
	return 0;
}

int bench_pass_add_timeline(struct bench_pass *b, const struct bench_pass_run *run,
			    const struct passes_result *r, const char *title)
{
	const struct bench_params *p = &b->params->base;
	struct timeline_run timeline = {
		.title = title,
		.machine = &p->machine,
		.device = p->device,
		.gpu_budget_bytes = run->budget_bytes,
		.host_budget_bytes = p->host_budget_bytes,
		.near_bytes = run->near_bytes,
		.log = run->record.log,
		.nr_epochs = r->nr_passes,
		.first_epoch = p->warm_up,
		.epoch_begin_ns = r->pass_begin_ns,
		.epoch_s = r->pass_s,
	};

	if (run->err || !timeline.log || !b->files.timeline.stream)
		return 0;
	if (bench_write_timeline(&b->files, &timeline, b->err, sizeof(b->err)))
		return bench_pass_stop(b, BENCH_EXIT_BAD);
	return 0;
}

/* ------------------------------------------------------------------ the command */

static int begin(struct bench_pass *b)
{
	int rc = interrupt_init();

	if (rc) {
		snprintf(b->err, sizeof(b->err), "cannot handle signals: %s", strerror(-rc));
		return bench_pass_stop(b, BENCH_EXIT_FAILED);
	}
	if (bench_explain_open(&b->explain, &b->params->base, b->err, sizeof(b->err)))
		return bench_pass_stop(b, BENCH_EXIT_FAILED);
	if (bench_files_open(&b->files, &b->params->base, NULL, b->err, sizeof(b->err)))
		return bench_pass_stop(b, BENCH_EXIT_BAD);
	progress_start(&b->bar, stderr);
	return 0;
}

/* The table goes where JSON does not. */
static void report(struct bench_pass *b, int (*print)(void *arg, FILE *out), void *arg)
{
	FILE *out = b->files.json.stream == stdout ? stderr : stdout;
	int err;

	if (bench_files_commit(&b->files, b->err, sizeof(b->err)))
		(void)bench_pass_stop(b, BENCH_EXIT_BAD);
	errno = 0;
	err = print(arg, out);
	if (!err)
		err = bench_decisions_print(&b->decisions, out);
	if (!err)
		err = bench_explain_print(&b->explain, out);
	if (!err && (fflush(out) || ferror(out)))
		err = -EIO;
	if (err) {
		snprintf(b->err, sizeof(b->err),
			 "cannot write the table: %s; send the output elsewhere",
			 strerror(errno ? errno : -err));
		(void)bench_pass_stop(b, BENCH_EXIT_BAD);
	}
}

int bench_pass_main(struct bench_pass *b, int (*run)(void *arg), int (*print)(void *arg, FILE *out),
		    void *arg)
{
	int rc;

	if (b->params->base.note[0])
		bench_pass_complain(b, b->params->base.note);
	rc = begin(b);
	if (!rc)
		rc = run(arg);
	progress_end(&b->bar);
	if (!rc)
		report(b, print, arg);
	bench_files_abandon(&b->files);
	bench_decisions_fini(&b->decisions);
	bench_explain_fini(&b->explain);
	if (rc && interrupt_pending()) {
		bench_pass_complain(b, "interrupted; no results were written");
		b->status = 128 + interrupt_pending();
	}
	return b->status;
}
