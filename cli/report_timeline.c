/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines; see report_timeline.h. Traces are large: one pass over the events, and no copies of
 * texts. */
#include "cli/report_timeline.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_read.h"

struct reader {
	struct report_timeline *timeline;
	struct report_source source;
};

/* The run of an event; a new one is made. NULL: there are too many. */
static struct report_run *run_of(struct report_timeline *timeline, const json_t *event)
{
	double pid = json_number_value(json_object_get(event, "pid"));
	struct report_run *run = timeline->run;

	for (; run < timeline->run + timeline->nr_runs; run++)
		if (run->pid == pid)
			return run;
	if (timeline->nr_runs == REPORT_RUNS_MAX)
		return NULL;
	timeline->nr_runs++;
	*run = (struct report_run){.pid = pid};
	return run;
}

static struct report_residency *residency_of(struct report_run *run, const char *memory)
{
	struct report_residency *residency = run->residency;

	for (; residency < run->residency + run->nr_residencies; residency++)
		if (strcmp(residency->memory, memory) == 0)
			return residency;
	if (run->nr_residencies == REPORT_MEMORIES_MAX)
		return NULL;
	run->nr_residencies++;
	*residency = (struct report_residency){.memory = memory};
	return residency;
}

static int add_sample(struct report_residency *residency, struct report_sample sample)
{
	struct report_sample *moved;
	size_t room = residency->room ? 2 * residency->room : 64;

	if (residency->nr == residency->room) {
		moved = reallocarray(residency->sample, room, sizeof(*moved));
		if (!moved)
			return -ENOMEM;
		residency->sample = moved;
		residency->room = room;
	}
	residency->sample[residency->nr++] = sample;
	return 0;
}

static int read_counter(struct reader *r, const json_t *event, size_t index)
{
	const json_t *ts = json_object_get(event, "ts");
	double s = json_number_value(ts) / 1e6, bytes;
	struct report_run *run = run_of(r->timeline, event);
	const char *memory;
	json_t *value;
	int err = 0;

	if (!run)
		return report_refuse(&r->source, "more than %d runs: give a timeline of fewer",
				     REPORT_RUNS_MAX);
	if (!json_is_number(ts) || !(fabs(s) <= 1e12))
		return report_refuse(&r->source,
				     "event %zu has no time: write \"ts\" in microseconds", index);
	json_object_foreach(json_object_get(event, "args"), memory, value)
	{
		struct report_residency *residency = residency_of(run, memory);

		bytes = json_number_value(value);
		if (!residency)
			return report_refuse(&r->source,
					     "a run has more than %d memories: leave some out",
					     REPORT_MEMORIES_MAX);
		if (!json_is_number(value) || !(bytes >= 0 && bytes <= 1e20))
			return report_refuse(
				&r->source,
				"event %zu has no bytes of '%.40s': write a number from 0", index,
				memory);
		err = add_sample(residency, (struct report_sample){s, bytes});
		if (err)
			return err;
	}
	return 0;
}

static int read_event(struct reader *r, const json_t *event, size_t index)
{
	const char *ph = json_string_value(json_object_get(event, "ph"));
	const char *name = json_string_value(json_object_get(event, "name"));
	struct report_run *run;

	if (!ph || !name)
		return 0;
	if (strcmp(ph, "C") == 0 &&
	    (strcmp(name, "resident") == 0 || strcmp(name, "resident bytes") == 0))
		return read_counter(r, event, index);
	if (strcmp(ph, "M") == 0 && strcmp(name, "process_name") == 0) {
		run = run_of(r->timeline, event);
		if (!run)
			return report_refuse(&r->source,
					     "more than %d runs: give a timeline of fewer",
					     REPORT_RUNS_MAX);
		run->name =
			json_string_value(json_object_get(json_object_get(event, "args"), "name"));
	}
	return 0;
}

static int compare_samples(const void *a, const void *b)
{
	double x = ((const struct report_sample *)a)->s, y = ((const struct report_sample *)b)->s;

	return (x > y) - (x < y);
}

static void run_fini(struct report_run *run)
{
	for (size_t i = 0; i < run->nr_residencies; i++)
		free(run->residency[i].sample);
}

/* Sort the samples, find the extent, and leave out memories that never hold anything. */
static void settle_run(struct report_run *run)
{
	size_t nr = 0;

	run->start_s = INFINITY;
	run->end_s = -INFINITY;
	for (size_t i = 0; i < run->nr_residencies; i++) {
		struct report_residency residency = run->residency[i];
		double most = 0;

		qsort(residency.sample, residency.nr, sizeof(*residency.sample), compare_samples);
		run->start_s = fmin(run->start_s, residency.sample[0].s);
		run->end_s = fmax(run->end_s, residency.sample[residency.nr - 1].s);
		for (size_t k = 0; k < residency.nr; k++)
			most = fmax(most, residency.sample[k].bytes);
		if (most > 0)
			run->residency[nr++] = residency;
		else
			free(residency.sample);
	}
	run->nr_residencies = nr;
}

static void settle(struct report_timeline *timeline)
{
	size_t nr = 0;

	for (size_t i = 0; i < timeline->nr_runs; i++) {
		struct report_run run = timeline->run[i];

		settle_run(&run);
		if (run.nr_residencies && run.end_s > run.start_s)
			timeline->run[nr++] = run;
		else
			run_fini(&run);
	}
	timeline->nr_runs = nr;
}

int report_timeline_read(const char *text, size_t bytes, const char *file,
			 struct report_timeline *out, char *err, size_t err_bytes)
{
	struct reader r = {.timeline = out, .source = {file, 0, err, err_bytes}};
	json_error_t error;
	const json_t *events;
	int rc = 0;

	*out = (struct report_timeline){0};
	out->json = json_loadb(text, bytes, JSON_DECODE_INT_AS_REAL, &error);
	if (!out->json)
		return report_refuse(
			&r.source,
			"line %d: no JSON (%.80s): give a file of `weir bench --timeline`",
			error.line, error.text);
	events = json_is_array(out->json) ? out->json : json_object_get(out->json, "traceEvents");
	if (!json_is_array(events))
		return report_refuse(
			&r.source,
			"no array \"traceEvents\": give a file of `weir bench --timeline`");
	for (size_t i = 0; i < json_array_size(events) && !rc; i++)
		rc = read_event(&r, json_array_get(events, i), i);
	if (rc == -ENOMEM)
		(void)report_refuse(&r.source, "not enough memory on this computer");
	if (rc)
		return rc;
	settle(out);
	if (!out->nr_runs)
		return report_refuse(
			&r.source, "nothing is \"resident\" over time in it: give a file of `weir "
				   "bench --timeline`");
	return 0;
}

void report_timeline_fini(struct report_timeline *timeline)
{
	for (size_t i = 0; i < timeline->nr_runs; i++)
		run_fini(&timeline->run[i]);
	json_decref(timeline->json);
	*timeline = (struct report_timeline){0};
}
