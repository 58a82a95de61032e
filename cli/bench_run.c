/* SPDX-License-Identifier: Apache-2.0 */
/* Single runs of the benchmark; see bench_run.h. */
#include "cli/bench_run.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_explain.h"
#include "cli/first_logged.h"
#include "cli/interrupt.h"
#include "cli/result.h"
#include "src/base/clock.h"
#include "src/residency/explain.h"
#include "workloads/gcn/gcn.h"

/* Real data computes what phantom data only counts. */
#define REAL_WEIGHT 100.0

/* ------------------------------------------------------------------ what weir logs */

/* During a run. */
static struct first_logged logged;

#define PINNING "pinning "
#define PINNING_BYTES 64

/* How far a thread of weir's is with pinning memory; empty: there is none to do. */
static char pinning[PINNING_BYTES];
static pthread_mutex_t pinning_lock = PTHREAD_MUTEX_INITIALIZER; /* guards it */

static void note_pinning(const char *text)
{
	pthread_mutex_lock(&pinning_lock);
	snprintf(pinning, sizeof(pinning), "%s", text);
	pthread_mutex_unlock(&pinning_lock);
}

static void keep_log(void *arg, enum weir_log_level level, const char *message)
{
	first_logged_keep(arg, level, message);
	if (level == WEIR_LOG_INFO && strncmp(message, PINNING, strlen(PINNING)) == 0)
		note_pinning(message);
	else if (level == WEIR_LOG_INFO && strncmp(message, "pinned ", strlen("pinned ")) == 0)
		note_pinning("");
}

/* ------------------------------------------------------------------ one run */

/* What the workload's progress callback needs. */
struct listener {
	const struct bench_run *run;
	struct bench_outcome *outcome;
	struct manager *manager; /* NULL: not made yet */
	uint32_t next_mark;	 /* the epoch that is marked next */
	double done_before;
	int err; /* of recording */
};

/* Show how far the work is; beside it what weir does at the same time. */
static void show_progress(const struct bench_run *run)
{
	char label[PINNING_BYTES + WEIR_NAME_MAX + 4];

	pthread_mutex_lock(&pinning_lock);
	snprintf(label, sizeof(label), "%.*s%s%s", WEIR_NAME_MAX, run->manager,
		 pinning[0] ? ", " : "", pinning);
	pthread_mutex_unlock(&pinning_lock);
	progress_set(&run->work->bar, run->work->done / run->work->total, label);
}

static int listen(void *arg, uint32_t done, uint32_t total)
{
	struct listener *listener = arg;
	const struct bench_run *run = listener->run;
	struct bench_progress *work = run->work;

	if (interrupt_pending())
		return 1;
	work->done = listener->done_before + run->weight * done / (total ? total : 1);
	show_progress(run);
	if (run->real_gpu && done == total)
		bench_host_look(&listener->outcome->host);
	if (listener->manager && done >= listener->next_mark) {
		manager_mark_epoch(listener->manager, done, total);
		listener->next_mark = done + 1;
	}
	if (run->record)
		listener->err = bench_record_progress(run->record, done, total);
	return listener->err;
}

static void set_error(struct bench_outcome *out, int err, const char *text)
{
	const char *what = text[0] ? text : weir_strerror(err);

	out->err = err;
	if (logged.error[0] && !strstr(what, logged.error))
		snprintf(out->error, sizeof(out->error), "%.*s (%.*s)", BENCH_ERROR_BYTES / 2 - 4,
			 what, BENCH_ERROR_BYTES / 2 - 4, logged.error);
	else
		snprintf(out->error, sizeof(out->error), "%s", what);
	/* One line, whatever it was made of. */
	for (char *c = out->error; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
}

static void train(const struct bench_run *run, struct manager *manager, struct listener *listener,
		  struct bench_outcome *out)
{
	const struct bench_params *p = run->params;
	struct gcn_params gcn = {
		.nodes = run->nodes,
		.slice = p->slice,
		.epochs = run->epochs,
		.seed = p->seed,
		.graph_dir = p->graph_dir,
		.hidden = p->hidden,
		.threads = p->threads,
		.progress = listen,
		.progress_arg = listener,
	};
	char text[BENCH_ERROR_BYTES / 2] = "";
	int err;

	err = gcn_run(manager, &gcn, &out->run, text, sizeof(text));
	if (err == -EINTR && listener->err)
		set_error(out, listener->err == -ENOMEM ? -EAGAIN : listener->err, "recording");
	else if (err)
		set_error(out, err, text);
	manager->ops->stats(manager, &out->stats);
}

/* What the device's time went into, as means over the epochs after warm-up. */
static void average_times(const struct workload_result *run, uint32_t warm_up, double *time_s)
{
	for (uint32_t e = warm_up; run->time_s && e < run->nr_epochs; e++)
		for (int i = 0; i < BACKEND_TIME_NR; i++)
			time_s[i] += run->time_s[e][i] / (run->nr_epochs - warm_up);
}

/* The machine of a run. */
static int open_machine(const struct bench_run *run, struct weir_machine **out)
{
	int err;

	if (run->real_gpu)
		return weir_machine_cuda(bench_measured(run->params), out);
	err = weir_machine_simulate(run->machine, run->data, out);
	if (!err)
		interrupt_look_in(*out);
	return err;
}

/* All that a real memory had when the command began: what it has now may be less. */
static void ask_for_all(const struct bench_params *p, struct manager_config *config)
{
	const struct weir_machine_desc *machine = &p->machine;

	if (config->gpu_budget_bytes == machine->memory[machine->device[p->device].memory].bytes)
		config->gpu_budget_bytes = 0;
	if (config->host_budget_bytes == machine->memory[bench_host_memory(p)].bytes)
		config->host_budget_bytes = 0;
}

void bench_run(const struct bench_run *run, struct bench_outcome *out)
{
	struct listener listener = {.run = run, .outcome = out, .done_before = run->work->done};
	struct manager_config config = run->config;
	struct manager *manager;
	uint64_t since_ns;
	int err;

	memset(out, 0, sizeof(*out));
	logged = (struct first_logged){0};
	note_pinning("");
	weir_log_set(keep_log, &logged);
	show_progress(run);
	bench_host_start(&out->host);

	if (run->real_gpu)
		ask_for_all(run->params, &config);
	err = open_machine(run, &config.machine);
	if (err) {
		set_error(out, err == -ENOMEM ? -EAGAIN : err,
			  run->real_gpu ? "the GPU cannot be opened"
					: "the machine cannot be simulated here");
		goto out_log;
	}
	err = run->record ? bench_record_machine(run->record, config.machine) : 0;
	if (err) {
		set_error(out, -EAGAIN, "no memory to record the run");
		goto out_close;
	}
	err = manager_create(run->manager, &config, &manager);
	if (err) {
		/* Not a result: nothing was asked of it yet. */
		set_error(out, err == -ENOMEM ? -EAGAIN : err, "the manager cannot be created");
		goto out_close;
	}
	err = run->record ? bench_record_manager(run->record, &manager) : 0;
	if (err) {
		set_error(out, -EAGAIN, "no memory to record the run");
		goto out_destroy;
	}
	listener.manager = manager;
	since_ns = clock_now_ns();
	train(run, manager, &listener, out);
	out->run_s = (double)(clock_now_ns() - since_ns) / 1e9;
	err = !out->err && run->record ? bench_record_end(run->record) : 0;
	if (err)
		set_error(out, err == -ENOMEM ? -EAGAIN : err, "the run was not recorded whole");
	if (out->err && run->record)
		bench_record_fini(run->record);
	if (!out->err && run->params->explain && manager_explain(manager, &out->explain))
		set_error(out, -EAGAIN, BENCH_EXPLAIN_NO_MEMORY);
	average_times(&out->run, run->params->warm_up, out->time_s);

out_destroy:
	manager->ops->destroy(manager);
out_close:
	weir_machine_close(config.machine);
out_log:
	weir_log_set(NULL, NULL);
	run->work->done = listener.done_before + run->weight;
}

void bench_outcome_fini(struct bench_outcome *outcome)
{
	gcn_result_free(&outcome->run);
	explain_free(outcome->explain);
	memset(outcome, 0, sizeof(*outcome));
}

double bench_run_weight(const struct bench_params *params, uint64_t nodes, enum weir_data data,
			uint32_t epochs)
{
	/* Phantom time goes with the number of launches, and so with slices. */
	double work = data == WEIR_DATA_REAL ? (double)nodes * REAL_WEIGHT
					     : (double)nodes + (double)params->slice / 100;

	return work * epochs;
}
