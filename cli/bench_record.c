/* SPDX-License-Identifier: Apache-2.0 */
/* Recording during a run; see bench_record.h. */
#include "cli/bench_record.h"

#include <errno.h>

#include "src/backend/machine.h"

/* Events of one run, at most; 40 MB of memory when they are there, and twice that on disk. */
#define EVENTS_MAX (1u << 19)

static void name_part(void *arg, const void *addr, uint64_t bytes, const char *name)
{
	watch_name(arg, addr, bytes, name);
}

static int record_start(struct bench_record *r)
{
	int err = r->trace_wanted ? trace_manager_start(r->tracer) : 0;

	if (r->tracer)
		r->tracer->ops->stats(r->tracer, &r->from);
	if (!err && r->log_wanted)
		err = watch_start(r->watch, EVENTS_MAX);
	r->started = !err;
	return err;
}

static int record_stop(struct bench_record *r)
{
	int err = r->trace_wanted ? trace_manager_stop(r->tracer, &r->trace) : 0;

	if (r->tracer)
		r->tracer->ops->stats(r->tracer, &r->to);
	if (!err && r->log_wanted)
		err = watch_stop(r->watch, &r->log);
	r->started = false;
	return err;
}

int bench_record_machine(struct bench_record *r, struct weir_machine *machine)
{
	int err;

	if (!r->log_wanted)
		return 0;
	err = watch_create(machine_backend(machine), &r->watch);
	if (!err)
		machine_set_backend(machine, r->watch);
	return err;
}

int bench_record_manager(struct bench_record *r, struct manager **manager)
{
	int err;

	if (!manager)
		return r->first_epoch ? 0 : record_start(r);
	/* Names come from there, too. */
	err = trace_manager_create(*manager, &r->tracer);
	if (err)
		return err;
	*manager = r->tracer;
	if (r->log_wanted)
		trace_manager_observe(r->tracer, name_part, r->watch);
	return r->first_epoch ? 0 : record_start(r);
}

int bench_record_progress(struct bench_record *r, uint32_t done, uint32_t total)
{
	/* Progress is reported within epochs, too, but between two it comes first. */
	if (!r->started && done < total && done >= r->first_epoch)
		return record_start(r);
	if (r->started && done == total && !r->to_end)
		return record_stop(r);
	return 0;
}

int bench_record_end(struct bench_record *r)
{
	if (r->started)
		return record_stop(r);
	return (!r->trace_wanted || r->trace) && (!r->log_wanted || r->log) ? 0 : -EIO;
}

void bench_record_fini(struct bench_record *r)
{
	trace_destroy(r->trace);
	watch_log_free(r->log);
	*r = (struct bench_record){0};
}

/* The next launch at or behind an event, or nr_events. */
static uint32_t next_launch(const struct watch_log *log, uint32_t i)
{
	while (i < log->nr_events && log->event[i].kind != WATCH_LAUNCH)
		i++;
	return i;
}

bool bench_record_times(struct bench_record *r)
{
	struct trace *trace = r->trace;
	const struct watch_log *log = r->log;
	uint32_t nr = 0, nr_launches = 0;

	for (uint32_t s = 0; s < trace->nr_steps; s++)
		nr += trace->steps[s].name != NULL;
	for (uint32_t i = next_launch(log, 0); i < log->nr_events; i = next_launch(log, i + 1))
		nr_launches++;
	if (nr != nr_launches || log->nr_launches != nr)
		return false;
	for (uint32_t s = 0, i = 0; s < trace->nr_steps; s++) {
		if (!trace->steps[s].name)
			continue;
		i = next_launch(log, i);
		trace->steps[s].compute_ns =
			(double)(log->event[i].end_ns - log->event[i].begin_ns);
		i++;
	}
	return true;
}
