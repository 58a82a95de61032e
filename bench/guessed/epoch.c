/* SPDX-License-Identifier: Apache-2.0 */
/* Taking an epoch out of a trace; see epoch.h. */
#include "bench/guessed/epoch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/hash.h"
#include "src/base/util.h"

#define STEPS_MAX 100000u

struct loading {
	const struct trace_file *file;
	struct epoch *epoch;
	bool inside; /* the epoch */
	/* The bracket that is open, and where the trace goes on behind its beginning. */
	const struct trace_begin *begin;
	struct trace_cursor behind;
	uint32_t slice; /* see kernel_find_slice() */
	uint64_t rows_life;
	char *why;
	size_t why_bytes;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct loading *l, const char *format,
							...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(l->why, l->why_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

/* ------------------------------------------------------------------ where it is */

/* Of the last two epochs the first: the last one may end as the program does. */
static int find_epoch(const struct loading *l, struct trace_span *out)
{
	struct trace_cursor cursor = trace_cursor(l->file);
	struct trace_span before = {0}, last = {0};
	const struct trace_event *event, *mark = NULL;
	uint64_t at = 0;

	for (uint64_t n = 0; (event = trace_next(&cursor)); n++) {
		if (event->kind != TRACE_MARK)
			continue;
		if (mark && !trace_is_pause(mark)) {
			before = last;
			last = (struct trace_span){.first = at, .end = n};
		}
		mark = event;
		at = n;
	}
	*out = before.end ? before : last;
	if (!out->end)
		return refuse(l, "no epoch between two marks in the trace");
	return 0;
}

/* ------------------------------------------------------------------ events */

static int add_step(const struct loading *l, enum epoch_what what, struct epoch_step **out)
{
	struct epoch *epoch = l->epoch;

	if (epoch->nr_steps == STEPS_MAX)
		return refuse(l, "more than %u events in the epoch", STEPS_MAX);
	if (epoch->nr_steps == epoch->max_steps) {
		const uint32_t max = MAX(1024u, 2 * epoch->max_steps);
		struct epoch_step *step = realloc(epoch->step, max * sizeof(*step));

		if (!step)
			return -ENOMEM;
		epoch->step = step;
		epoch->max_steps = max;
	}
	*out = &epoch->step[epoch->nr_steps++];
	**out = (struct epoch_step){.what = what};
	return 0;
}

static int add_life(const struct loading *l, enum epoch_what what, uint64_t number)
{
	struct epoch_step *step = NULL;
	int err;

	l->epoch->life[number].live = what == EPOCH_ALLOC;
	if (!l->inside)
		return 0;
	err = add_step(l, what, &step);
	if (step)
		step->life = number;
	return err;
}

static int add_alloc(const struct loading *l, const void *event)
{
	const struct trace_alloc *alloc = event;

	if (alloc->flags & (TRACE_ALLOC_PAGED | TRACE_ALLOC_WINDOW))
		return refuse(l, "life %" PRIu64 " is paged or replicated: no unmodified program",
			      alloc->life);
	l->epoch->life[alloc->life].bytes = alloc->bytes;
	l->epoch->life[alloc->life].on_stream = alloc->event.stream != TRACE_NO_STREAM;
	return add_life(l, EPOCH_ALLOC, alloc->life);
}

static int add_uses(const struct loading *l, struct epoch_step *step, const char *name)
{
	struct trace_use_cursor uses = {.cursor = l->behind, .begin = l->begin};
	const struct trace_file_use *use;

	while ((use = trace_next_use(&uses))) {
		if (!use->life) /* freed before recording began */
			continue;
		if (step->nr_uses == EPOCH_USES_MAX)
			return refuse(l, "kernel '%.100s' names more than %u ranges", name,
				      EPOCH_USES_MAX);
		step->use[step->nr_uses++] =
			(struct epoch_use){.life = use->life,
					   .offset = use->offset,
					   .bytes = use->bytes,
					   .fresh = !l->epoch->life[use->life].used};
	}
	for (uint32_t u = 0; u < step->nr_uses; u++)
		l->epoch->life[step->use[u].life].used = true;
	return 0;
}

static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0;

	for (; *name; name++)
		hash = hash_mix(hash, (unsigned char)*name);
	return hash | 1;
}

static int add_launch(struct loading *l, const void *event)
{
	const struct trace_end *end = event;
	const char *name = trace_end_name(l->file, end);
	struct epoch_step *step = NULL;
	int err;

	if (end->several)
		return refuse(l, "bracket %" PRIu64 " has several launches: no unmodified program",
			      end->bracket);
	err = add_step(l, EPOCH_LAUNCH, &step);
	if (!step)
		return err;
	step->kernel = end->kernel;
	step->class = kernel_class_find(name);
	/* The driver's own copies and fills are no kernels, and use all that they name. */
	step->launched = strncmp(name, "cuM", 3) != 0 ? hash_name(name) : 0;
	err = add_uses(l, step, name);
	if (err)
		return err;
	if (kernel_is_strange(step, name, l->why, l->why_bytes))
		return -EINVAL;
	kernel_find_slice(step, &l->slice, &l->rows_life);
	return 0;
}

static int add_event(struct loading *l, const struct trace_event *event, struct trace_cursor behind)
{
	const void *of_kind = event;
	int err = 0;

	switch (event->kind) {
	case TRACE_ALLOC:
		return add_alloc(l, of_kind);
	case TRACE_FREE:
		return add_life(l, EPOCH_FREE, ((const struct trace_free *)of_kind)->life);
	case TRACE_BEGIN:
		if (l->begin)
			return refuse(l, "brackets of several streams are open at once");
		l->begin = of_kind;
		l->behind = behind;
		return 0;
	case TRACE_END:
		if (l->inside && l->begin)
			err = add_launch(l, of_kind);
		l->begin = NULL;
		return err;
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------ all of it */

static int list_live(struct epoch *epoch, uint64_t **list, uint64_t *nr)
{
	*nr = 0;
	*list = calloc(epoch->nr_lives + 1, sizeof(**list));
	if (!*list)
		return -ENOMEM;
	for (uint64_t n = 1; n <= epoch->nr_lives; n++) {
		if (!epoch->life[n].live)
			continue;
		(*list)[(*nr)++] = n;
		epoch->life[n].used = true;
	}
	return 0;
}

static int read_events(struct loading *l, const struct trace_span *span)
{
	struct trace_cursor cursor = trace_cursor(l->file);
	struct epoch *epoch = l->epoch;
	const struct trace_event *event;
	int err = 0;

	for (uint64_t n = 0; !err && n < span->end && (event = trace_next(&cursor)); n++) {
		l->inside = n >= span->first;
		if (n == span->first)
			err = list_live(epoch, &epoch->start, &epoch->nr_start);
		if (!err)
			err = add_event(l, event, cursor);
	}
	return err ? err : list_live(epoch, &epoch->end, &epoch->nr_end);
}

/* What is there at the end has to be what was there at the beginning, for all to begin again. */
static int check_lives(const struct loading *l)
{
	const struct epoch *epoch = l->epoch;

	if (epoch->nr_start != epoch->nr_end)
		return refuse(l,
			      "%" PRIu64 " allocations at the epoch's beginning and %" PRIu64
			      " at its end: it cannot be repeated",
			      epoch->nr_start, epoch->nr_end);
	for (uint64_t i = 0; i < epoch->nr_start; i++) {
		const uint64_t start = epoch->start[i], end = epoch->end[i];

		if (epoch->life[start].bytes != epoch->life[end].bytes)
			return refuse(l,
				      "life %" PRIu64 " at the epoch's beginning and life %" PRIu64
				      " at its end differ in size: it cannot be repeated",
				      start, end);
	}
	return 0;
}

static int check_kernels(const struct loading *l)
{
	for (uint32_t i = 0; i < l->epoch->nr_steps; i++)
		if (l->epoch->step[i].what == EPOCH_LAUNCH && l->epoch->step[i].class->edge_bytes)
			return 0;
	return refuse(l, "no kernel in the epoch that goes through edges: what kernels use is "
			 "known of PyTorch's GCN alone");
}

int epoch_load(const struct trace_file *file, struct epoch *out, char *why, size_t why_bytes)
{
	struct loading l = {.file = file, .epoch = out, .why = why, .why_bytes = why_bytes};
	struct trace_span span;
	int err;

	*out = (struct epoch){.nr_lives = file->nr_lives};
	out->life = calloc(out->nr_lives + 1, sizeof(*out->life));
	err = out->life ? find_epoch(&l, &span) : -ENOMEM;
	if (!err && !is_power_of_2(file->space->devices))
		err = refuse(&l, "the trace is of several devices");
	if (!err)
		err = read_events(&l, &span);
	if (!err)
		err = check_lives(&l);
	if (!err)
		err = check_kernels(&l);
	if (!err)
		kernels_find_parts(out);
	if (err == -ENOMEM)
		(void)snprintf(why, why_bytes, "no memory on the host");
	return err;
}

void epoch_free(struct epoch *epoch)
{
	free(epoch->step);
	free(epoch->life);
	free(epoch->start);
	free(epoch->end);
	*epoch = (struct epoch){0};
}
