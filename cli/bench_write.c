/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a benchmark; see bench_write.h. */
#include "cli/bench_write.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/bench_fit.h"
#include "cli/interrupt.h"
#include "cli/size.h"

/* Places of their partial files with interrupt.h. */
enum { PLACE_JSON, PLACE_TIMELINE, PLACE_FIT };

static int open_one(struct output_file *output, unsigned int place, const char *option,
		    const char *name, char *err, size_t err_bytes)
{
	int rc = name ? output_file_open(output, option, name, err, err_bytes) : 0;

	if (!rc)
		interrupt_set_partial(place, output->partial);
	return rc;
}

int bench_files_open(struct bench_files *files, const struct bench_params *p,
		     struct machine_file *description, char *err, size_t err_bytes)
{
	int rc;

	*files = (struct bench_files){.description = description};
	rc = open_one(&files->json, PLACE_JSON, "--json", p->json, err, err_bytes);
	if (!rc)
		rc = open_one(&files->timeline, PLACE_TIMELINE, "--timeline", p->timeline, err,
			      err_bytes);
	if (!rc)
		rc = open_one(&files->fit, PLACE_FIT, "--fit-kernels", p->fit, err, err_bytes);
	if (!rc && files->timeline.stream)
		timeline_begin(files->timeline.stream);
	return rc;
}

struct bench_record *bench_record_wanted(const struct bench_params *p, struct bench_record *record)
{
	*record = (struct bench_record){.log_wanted = p->timeline || p->fit,
					.trace_wanted = p->fit || p->oracle,
					.first_epoch = p->oracle ? BENCH_WARM_UP : p->warm_up};
	if (p->timeline) {
		record->first_epoch = p->timeline_all ? 0 : p->warm_up + p->epochs - 1;
		record->to_end = p->timeline_all;
	}
	return record->log_wanted || record->trace_wanted ? record : NULL;
}

/* ------------------------------------------------------------------ one run */

int bench_write_timeline(struct bench_files *files, struct timeline_run *run, char *err,
			 size_t err_bytes)
{
	int rc;

	run->number = ++files->nr_runs;
	rc = timeline_add(files->timeline.stream, run);
	if (!rc)
		return output_file_flush(&files->timeline, err, err_bytes);
	snprintf(err, err_bytes, "timeline: %s", weir_strerror(rc));
	return rc;
}

static int write_timeline(struct bench_files *files, const struct bench_run *run,
			  const struct bench_outcome *outcome, char *err, size_t err_bytes)
{
	const struct manager_config *config = &run->config;
	char title[WEIR_NAME_MAX + 2 * SIZE_TEXT_BYTES + 64];
	char count[SIZE_TEXT_BYTES], budget[SIZE_TEXT_BYTES];
	struct timeline_run timeline = {
		.title = title,
		.machine = run->machine,
		.device = config->device,
		.gpu_budget_bytes = config->gpu_budget_bytes,
		.host_budget_bytes = config->host_budget_bytes,
		.near_bytes = config->near_bytes,
		.log = run->record->log,
		.nr_epochs = outcome->run.nr_epochs,
		.epoch_begin_ns = outcome->run.epoch_begin_ns,
		.epoch_s = outcome->run.epoch_s,
	};

	snprintf(title, sizeof(title), "%.64s, %s nodes, GPU budget %s", run->manager,
		 count_format(run->nodes, count, sizeof(count)),
		 size_format(config->gpu_budget_bytes, budget, sizeof(budget)));
	return bench_write_timeline(files, &timeline, err, err_bytes);
}

static int write_fit(struct bench_files *files, const struct bench_run *run,
		     const struct bench_outcome *outcome, char *err, size_t err_bytes)
{
	char count[SIZE_TEXT_BYTES], source[160];
	int rc;

	if (outcome->err) {
		snprintf(err, err_bytes, "--fit-kernels: native did not run: %.200s",
			 outcome->error);
		return -EAGAIN;
	}
	if (!bench_record_times(run->record)) {
		snprintf(err, err_bytes,
			 "--fit-kernels: not every launch was timed; choose larger --slice or "
			 "fewer --epochs");
		return -EAGAIN;
	}
	snprintf(source, sizeof(source),
		 "weir bench gcn --fit-kernels: native, %s nodes, %" PRIu32 " epochs",
		 count_format(run->nodes, count, sizeof(count)), run->params->epochs);
	rc = bench_fit_write(files->fit.stream, files->description, run->config.device,
			     run->record->trace, source);
	if (rc)
		snprintf(err, err_bytes, "--fit-kernels: %s", weir_strerror(rc));
	return rc ? rc : output_file_flush(&files->fit, err, err_bytes);
}

int bench_write(struct bench_files *files, const struct bench_run *run,
		const struct bench_outcome *outcome, const struct result *result, char *err,
		size_t err_bytes)
{
	int rc = 0;

	if (files->json.stream) {
		result_write(files->json.stream, result);
		rc = output_file_flush(&files->json, err, err_bytes);
	}
	/* A run that did not end well has no record. */
	if (!rc && files->timeline.stream && !outcome->err)
		rc = write_timeline(files, run, outcome, err, err_bytes);
	if (!rc && files->fit.stream)
		rc = write_fit(files, run, outcome, err, err_bytes);
	return rc;
}

/* ------------------------------------------------------------------ the end */

static int commit_one(struct output_file *output, unsigned int place, char *err, size_t err_bytes)
{
	interrupt_set_partial(place, NULL);
	return output->stream ? output_file_commit(output, err, err_bytes) : 0;
}

int bench_files_commit(struct bench_files *files, char *err, size_t err_bytes)
{
	int rc;

	if (files->timeline.stream)
		timeline_end(files->timeline.stream);
	rc = commit_one(&files->json, PLACE_JSON, err, err_bytes);
	if (!rc)
		rc = commit_one(&files->timeline, PLACE_TIMELINE, err, err_bytes);
	if (!rc)
		rc = commit_one(&files->fit, PLACE_FIT, err, err_bytes);
	return rc;
}

void bench_files_abandon(struct bench_files *files)
{
	for (unsigned int place = 0; place < INTERRUPT_PARTIALS; place++)
		interrupt_set_partial(place, NULL);
	output_file_abandon(&files->json);
	output_file_abandon(&files->timeline);
	output_file_abandon(&files->fit);
}
