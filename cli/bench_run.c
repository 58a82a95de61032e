/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs and references of the benchmark; see bench_run.h.
 *
 * The reference always runs on phantom data, where it takes no time worth speaking of, and gives
 * the in-memory time, the peak and the trace that the bound is computed from. Real data adds a
 * second one, for the losses.
 */
#include "cli/bench_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_signal.h"
#include "workloads/gcn/gcn.h"

#define REFERENCE_EPOCHS (BENCH_WARM_UP + 1u)
#define REFERENCE_SPARE_BYTES (UINT64_C(1) << 30)

/* Real data computes what phantom data only counts. */
#define REAL_WEIGHT 100.0

/* ------------------------------------------------------------------ what weir logs */

/* The first error that weir logged during a run: it says where, the return value only what. */
static char logged[BENCH_ERROR_BYTES];

static void keep_first_error(void *arg, enum weir_log_level level, const char *message)
{
	(void)arg;
	if (level == WEIR_LOG_ERROR && !logged[0])
		snprintf(logged, sizeof(logged), "%s", message);
}

/* ------------------------------------------------------------------ one run */

/* What the workload's progress callback needs. */
struct listener {
	const struct bench_run *run;
	struct manager *tracer; /* NULL: no trace is wanted */
	struct bench_outcome *out;
	bool started;
	struct trace *trace;
	double done_before;
	int err; /* of tracing */
};

/* Record the last epochs: progress is reported within epochs too, and first between two. */
static int listen_for_trace(struct listener *listener, uint32_t done, uint32_t total)
{
	struct manager *tracer = listener->tracer;

	if (done == listener->run->first_traced && !listener->started) {
		listener->started = true;
		tracer->ops->stats(tracer, &listener->out->traced_from);
		listener->err = trace_manager_start(tracer);
	} else if (done == total && !listener->trace) {
		tracer->ops->stats(tracer, &listener->out->traced_to);
		listener->err = trace_manager_stop(tracer, &listener->trace);
	}
	return listener->err;
}

static int listen(void *arg, uint32_t done, uint32_t total)
{
	struct listener *listener = arg;
	const struct bench_run *run = listener->run;
	struct bench_progress *work = run->work;

	if (bench_signal_pending())
		return 1;
	work->done = listener->done_before + run->weight * done / (total ? total : 1);
	progress_set(&work->bar, work->done / work->total, run->manager);
	return listener->tracer ? listen_for_trace(listener, done, total) : 0;
}

static void set_error(struct bench_outcome *out, int err, const char *text)
{
	const char *what = text[0] ? text : weir_strerror(err);

	out->err = err;
	if (logged[0] && !strstr(what, logged))
		snprintf(out->error, sizeof(out->error), "%.*s (%.*s)", BENCH_ERROR_BYTES / 2 - 4,
			 what, BENCH_ERROR_BYTES / 2 - 4, logged);
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
		set_error(out, listener->err, "");
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

void bench_run(const struct bench_run *run, struct bench_outcome *out)
{
	struct listener listener = {.run = run, .out = out, .done_before = run->work->done};
	struct manager_config config = run->config;
	struct manager *manager, *tracer;
	int err;

	memset(out, 0, sizeof(*out));
	logged[0] = '\0';
	weir_log_set(keep_first_error, NULL);
	progress_set(&run->work->bar, run->work->done / run->work->total, run->manager);

	if (run->real_gpu)
		err = weir_machine_cuda(NULL, &config.machine);
	else
		err = weir_machine_simulate(run->machine, run->data, &config.machine);
	if (err) {
		set_error(out, err == -ENOMEM ? -EAGAIN : err,
			  run->real_gpu ? "the GPU cannot be opened"
					: "the machine cannot be simulated here");
		goto out_log;
	}
	err = manager_create(run->manager, &config, &manager);
	if (err) {
		/* Not a result: nothing was asked of it yet. */
		set_error(out, err == -ENOMEM ? -EAGAIN : err, "the manager cannot be created");
		goto out_close;
	}
	if (run->trace) {
		err = trace_manager_create(manager, &tracer);
		if (err) {
			set_error(out, -EAGAIN, "no memory to record a trace");
			goto out_destroy;
		}
		manager = listener.tracer = tracer;
	}
	train(run, manager, &listener, out);
	if (!out->err && run->trace && !listener.trace)
		set_error(out, -EIO, "the workload did not report its epochs");
	if (!out->err && run->trace)
		*run->trace = listener.trace;
	else
		trace_destroy(listener.trace);
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

/* ------------------------------------------------------------------ the reference */

double bench_reference_weight(const struct bench_params *params, uint64_t nodes)
{
	double weight = bench_run_weight(params, nodes, WEIR_DATA_PHANTOM, REFERENCE_EPOCHS);

	if (bench_has_losses(params))
		weight += bench_run_weight(params, nodes, WEIR_DATA_REAL,
					   params->warm_up + params->epochs);
	return weight;
}

/* The machine with as much memory on the device as training could ever take, pool and all. */
static int enlarge(const struct bench_params *params, uint64_t nodes, struct weir_machine_desc *out)
{
	struct gcn_params gcn = {
		.nodes = nodes,
		.slice = params->slice,
		.epochs = params->epochs,
		.seed = params->seed,
		.graph_dir = params->graph_dir,
		.hidden = params->hidden,
	};
	uint64_t peak = gcn_peak_bytes(&gcn), *bytes;

	if (!peak || peak > UINT64_MAX / 8)
		return -EINVAL; /* the graph changed since it was checked */
	*out = params->machine;
	bytes = &out->memory[out->device[params->device].memory].bytes;
	peak = peak * 4 + REFERENCE_SPARE_BYTES;
	peak -= peak % out->vmm.granularity_bytes;
	if (*bytes < peak)
		*bytes = peak;
	return 0;
}

int bench_reference_run(const struct bench_params *params, uint64_t nodes,
			struct bench_progress *work, struct bench_reference *out, char *err,
			size_t err_bytes)
{
	struct weir_machine_desc machine;
	struct bench_outcome phantom;
	struct bench_run run = {
		.params = params,
		.machine = &machine,
		.data = WEIR_DATA_PHANTOM,
		.nodes = nodes,
		.manager = "native",
		.config = {.device = params->device, .options = ""},
		.epochs = REFERENCE_EPOCHS,
		.work = work,
		.weight = bench_run_weight(params, nodes, WEIR_DATA_PHANTOM, REFERENCE_EPOCHS),
		.trace = &out->trace,
		.first_traced = REFERENCE_EPOCHS - 1,
	};
	int rc;

	memset(out, 0, sizeof(*out));
	rc = enlarge(params, nodes, &machine);
	if (rc) {
		snprintf(err, err_bytes, "graph '%s' cannot be read any more",
			 params->graph_dir ? params->graph_dir : "");
		return rc;
	}
	bench_run(&run, &phantom);
	rc = phantom.err;
	if (rc)
		snprintf(err, err_bytes, "in-memory run: %s", phantom.error);
	else
		out->epoch_s = phantom.run.epoch_s[phantom.run.nr_epochs - 1];
	out->peak_bytes = phantom.stats.peak_bytes[machine.device[params->device].memory];
	bench_outcome_fini(&phantom);
	if (rc || !bench_has_losses(params))
		return rc;

	run.data = WEIR_DATA_REAL;
	run.epochs = params->warm_up + params->epochs;
	run.weight = bench_run_weight(params, nodes, run.data, run.epochs);
	run.trace = NULL;
	bench_run(&run, &out->real);
	rc = out->real.err;
	if (rc) {
		snprintf(err, err_bytes, "in-memory run on real data: %s", out->real.error);
		bench_reference_fini(out);
	}
	return rc;
}

void bench_reference_fini(struct bench_reference *reference)
{
	trace_destroy(reference->trace);
	bench_outcome_fini(&reference->real);
	memset(reference, 0, sizeof(*reference));
}
