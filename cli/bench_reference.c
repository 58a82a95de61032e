/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference of a size; see bench_reference.h.
 *
 * On a simulated machine it runs on phantom data, where it takes no time worth speaking of, and
 * gives the in-memory time, what native needs and the trace that the bound is computed from. Real
 * data adds a second run, for the losses.
 */
#include "cli/bench_reference.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/result.h"
#include "src/base/util.h"
#include "workloads/gcn/gcn.h"

#define REFERENCE_EPOCHS (BENCH_WARM_UP + 1u)
/* On a real GPU: warm-up, some that count, one that is recorded. */
#define MEASURED_EPOCHS 3u
#define MEASURED_TOTAL (BENCH_WARM_UP + MEASURED_EPOCHS + 1u)
#define REFERENCE_SPARE_BYTES (UINT64_C(1) << 30)

/* A reference on its way. */
struct job {
	const struct bench_params *params;
	uint64_t nodes;
	struct bench_progress *work;
	struct bench_reference *out;
	/* With as much memory on the device as training could ever take, pool and all. */
	struct weir_machine_desc machine;
	char *err;
	size_t err_bytes;
};

double bench_reference_weight(const struct bench_params *params, uint64_t nodes)
{
	double weight = bench_run_weight(params, nodes, WEIR_DATA_PHANTOM, REFERENCE_EPOCHS);

	if (params->real_gpu)
		weight += bench_run_weight(params, nodes, WEIR_DATA_REAL, MEASURED_TOTAL);
	if (bench_has_losses(params))
		weight += bench_run_weight(params, nodes, WEIR_DATA_REAL,
					   params->warm_up + params->epochs);
	return weight;
}

static int enlarge(struct job *job)
{
	const struct bench_params *p = job->params;
	struct gcn_params gcn = {
		.nodes = job->nodes,
		.slice = p->slice,
		.epochs = p->epochs,
		.seed = p->seed,
		.graph_dir = p->graph_dir,
		.hidden = p->hidden,
	};
	uint64_t live = gcn_peak_bytes(&gcn), most = live * 4 + REFERENCE_SPARE_BYTES, *bytes;

	if (!live || live > UINT64_MAX / 8) {
		/* It changed since it was checked. */
		snprintf(job->err, job->err_bytes, "graph '%s' cannot be read any more",
			 p->graph_dir ? p->graph_dir : "");
		return -EINVAL;
	}
	job->out->live_bytes = live;
	job->machine = p->machine;
	bytes = &job->machine.memory[job->machine.device[p->device].memory].bytes;
	most -= most % job->machine.vmm.granularity_bytes;
	if (*bytes < most)
		*bytes = most;
	return 0;
}

/* native in memory without a budget, on data without bytes; what differs between the ways to run it
 * is for the caller to set. */
static struct bench_run run_of(const struct job *job, uint32_t epochs)
{
	return (struct bench_run){
		.params = job->params,
		.machine = &job->machine,
		.data = WEIR_DATA_PHANTOM,
		.nodes = job->nodes,
		.manager = "native",
		.config = {.device = job->params->device, .options = ""},
		.epochs = epochs,
		.work = job->work,
	};
}

/* Run it, or say why not. */
static int run_whole(const struct job *job, const struct bench_run *run, const char *what,
		     struct bench_outcome *outcome)
{
	bench_run(run, outcome);
	if (outcome->err)
		snprintf(job->err, job->err_bytes, "%s: %s", what, outcome->error);
	return outcome->err;
}

/* The last epoch alone is recorded. */
static struct bench_record record_of(const struct bench_run *run)
{
	return (struct bench_record){.trace_wanted = true, .first_epoch = run->epochs - 1};
}

/* By the description, on data without bytes. */
static int reference_model(struct job *job)
{
	struct bench_run run = run_of(job, REFERENCE_EPOCHS);
	struct bench_record record = record_of(&run);
	struct bench_outcome outcome;
	int rc;

	run.weight = bench_run_weight(job->params, job->nodes, run.data, run.epochs);
	run.record = &record;
	rc = run_whole(job, &run, "in-memory run", &outcome);
	if (!rc) {
		job->out->epoch_s = outcome.run.epoch_s[outcome.run.nr_epochs - 1];
		job->out->trace = record.trace;
	}
	bench_outcome_fini(&outcome);
	return rc;
}

/*
 * Recording makes a kernel look longer by what the GPU needs to get from one to the next. No launch
 * may be charged more than the epochs without recording have room for.
 */
static void scale_times(struct trace *trace, double epoch_s)
{
	double sum_ns = 0;

	for (uint32_t s = 0; s < trace->nr_steps; s++)
		sum_ns += trace->steps[s].compute_ns;
	for (uint32_t s = 0; s < trace->nr_steps && sum_ns > epoch_s * 1e9; s++)
		trace->steps[s].compute_ns *= epoch_s * 1e9 / sum_ns;
}

/* On the GPU. -ENOMEM: it does not fit. */
static int reference_measure(struct job *job)
{
	struct bench_reference *out = job->out;
	struct bench_run run = run_of(job, MEASURED_TOTAL);
	struct bench_record record = record_of(&run);
	struct bench_outcome outcome;
	int rc;

	run.real_gpu = true;
	run.weight = bench_run_weight(job->params, job->nodes, WEIR_DATA_REAL, MEASURED_TOTAL);
	run.record = &record;
	record.log_wanted = true;
	rc = run_whole(job, &run, "in-memory run", &outcome);
	if (rc) {
		bench_outcome_fini(&outcome);
		return rc;
	}
	out->measured = true;
	out->epoch_s = result_median(outcome.run.epoch_s + BENCH_WARM_UP, MEASURED_EPOCHS);
	out->timed = bench_record_times(&record);
	out->trace = record.trace;
	record.trace = NULL;
	/* What the CPU computes takes long, so that most runs are compared with these losses. */
	if (!bench_has_losses(job->params)) {
		out->real = outcome;
		outcome = (struct bench_outcome){0};
	}
	if (out->timed)
		scale_times(out->trace, out->epoch_s);
	else
		snprintf(job->err, job->err_bytes,
			 "not every launch of %" PRIu64
			 " nodes was timed: the bound is the description's model; take larger "
			 "slices",
			 job->nodes);
	bench_record_fini(&record);
	bench_outcome_fini(&outcome);
	return 0;
}

/* The same training on the CPU, for its losses. */
static int reference_losses(struct job *job)
{
	struct bench_run run = run_of(job, job->params->warm_up + job->params->epochs);

	run.data = WEIR_DATA_REAL;
	run.weight = bench_run_weight(job->params, job->nodes, run.data, run.epochs);
	return run_whole(job, &run, "in-memory run on real data", &job->out->real);
}

/* Whether native gets through under a budget. 1, 0 or an error. */
static int fits(struct job *job, uint64_t budget_bytes, uint64_t *peak_bytes)
{
	struct bench_run run = run_of(job, REFERENCE_EPOCHS);
	struct bench_outcome outcome;
	int rc;

	run.config.gpu_budget_bytes = budget_bytes;
	bench_run(&run, &outcome);
	rc = outcome.err == -ENOMEM ? 0 : outcome.err;
	if (rc)
		snprintf(job->err, job->err_bytes, "what native needs: %s", outcome.error);
	else if (!outcome.err)
		rc = 1;
	*peak_bytes = outcome.stats.peak_bytes[job->machine.device[job->params->device].memory];
	bench_outcome_fini(&outcome);
	return rc;
}

/* Halve the distance between what it has allocated and what it takes where there is plenty. Some
 * twelve runs without bytes. */
static int reference_needs(struct job *job)
{
	const uint64_t step = job->machine.vmm.granularity_bytes;
	uint64_t few = job->out->live_bytes / step, enough, peak;
	int rc = fits(job, 0, &peak);

	if (rc < 0)
		return rc;
	for (enough = div_round_up(peak, step); enough - few > 1;) {
		uint64_t middle = few + (enough - few) / 2;

		rc = fits(job, middle * step, &peak);
		if (rc < 0)
			return rc;
		if (rc)
			enough = middle;
		else
			few = middle;
	}
	job->out->needs_bytes = enough * step;
	return 0;
}

int bench_reference_run(const struct bench_params *params, uint64_t nodes,
			struct bench_progress *work, struct bench_reference *out, char *err,
			size_t err_bytes)
{
	struct job job;
	int rc;

	memset(out, 0, sizeof(*out));
	err[0] = '\0';
	job = (struct job){params, nodes, work, out, .err = err, .err_bytes = err_bytes};
	rc = enlarge(&job);
	if (!rc)
		rc = reference_needs(&job);
	if (rc)
		return rc;
	rc = params->real_gpu ? reference_measure(&job) : -ENOMEM;
	if (rc == -ENOMEM) {
		rc = reference_model(&job);
		if (!rc && params->real_gpu)
			snprintf(err, err_bytes,
				 "%" PRIu64 " nodes do not fit %s: their in-memory time and bound "
				 "are the description's model",
				 nodes, params->machine.device[params->device].name);
	}
	if (!rc && bench_has_losses(params))
		rc = reference_losses(&job);
	if (rc)
		bench_reference_fini(out);
	return rc;
}

void bench_reference_fini(struct bench_reference *reference)
{
	trace_destroy(reference->trace);
	bench_outcome_fini(&reference->real);
	memset(reference, 0, sizeof(*reference));
}
