/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a timeline. Residency is written as it changes; by name at so many moments at
 * most, since each sample has all names. Rates over the link are means over equal parts of the
 * record, of work whose bytes are taken to cross evenly while it lasts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result.h"
#include "cli/timeline_internal.h"

#define LINK_PARTS 1000u
#define NAME_SAMPLES 2000u
#define NAMES_SHOWN 12u

/* The beginning of a counter's sample; its values and "}}" are for the caller. */
static void sample_begin(FILE *out, const struct timeline_run *run, const char *name, uint64_t ns)
{
	fprintf(out, ",\n{\"ph\":\"C\",\"pid\":%" PRIu32 ",\"name\":", run->number);
	result_write_text(out, name);
	timeline_time(out, "ts", ns > run->log->begin_ns ? ns - run->log->begin_ns : 0);
	fputs(",\"args\":{", out);
}

static void write_value(FILE *out, bool first, const char *name, int64_t value)
{
	if (!first)
		fputc(',', out);
	result_write_text(out, name);
	fprintf(out, ":%" PRId64, value);
}

/* Whether the change after i belongs to the same moment. */
static bool goes_on(const struct watch_log *log, uint32_t i)
{
	return i + 1 < log->nr_changes && log->change[i + 1].ns == log->change[i].ns;
}

void timeline_residency(FILE *out, const struct timeline_run *run)
{
	const struct watch_log *log = run->log;
	int64_t bytes[WEIR_MEMORIES_MAX] = {0};
	bool changed = true;

	for (uint32_t i = 0; i < log->nr_changes; i++) {
		const struct watch_change *change = &log->change[i];

		if (!change->name) {
			bytes[change->memory] += change->bytes;
			changed = true;
		}
		if (!changed || goes_on(log, i))
			continue;
		changed = false;
		sample_begin(out, run, "resident bytes", change->ns);
		for (uint32_t m = 0; m < run->machine->nr_memories; m++)
			write_value(out, !m, run->machine->memory[m].name, bytes[m]);
		fputs("}}", out);
	}
}

/* ------------------------------------------------------------------ by name */

struct by_name {
	int64_t bytes[WATCH_NAMES_MAX], most[WATCH_NAMES_MAX];
	uint32_t shown[NAMES_SHOWN], nr_shown;
};

/* The names with the most bytes at any time, in the order of the names. */
static void names_choose(struct by_name *n, const struct watch_log *log, uint32_t memory)
{
	for (uint32_t i = 0; i < log->nr_changes; i++) {
		const struct watch_change *change = &log->change[i];

		if (change->memory != memory)
			continue;
		n->bytes[change->name] += change->bytes;
		if (n->bytes[change->name] > n->most[change->name])
			n->most[change->name] = n->bytes[change->name];
	}
	for (uint32_t i = 1; i < log->nr_names; i++) {
		uint32_t nr_larger = 0;

		for (uint32_t j = 1; j < log->nr_names; j++)
			nr_larger += n->most[j] > n->most[i] || (j < i && n->most[j] == n->most[i]);
		if (n->most[i] > 0 && nr_larger < NAMES_SHOWN)
			n->shown[n->nr_shown++] = i;
	}
	memset(n->bytes, 0, sizeof(n->bytes));
}

static void names_write(FILE *out, const struct timeline_run *run, const struct by_name *n,
			const char *title, uint64_t ns)
{
	int64_t others = n->bytes[0];

	sample_begin(out, run, title, ns);
	for (uint32_t i = 0; i < n->nr_shown; i++) {
		write_value(out, !i, run->log->name[n->shown[i]], n->bytes[n->shown[i]]);
		others -= n->bytes[n->shown[i]];
	}
	write_value(out, !n->nr_shown, "others", others > 0 ? others : 0);
	fputs("}}", out);
}

static void names_of(FILE *out, const struct timeline_run *run, uint32_t memory)
{
	const struct watch_log *log = run->log;
	uint64_t step = (log->end_ns - log->begin_ns) / NAME_SAMPLES, next = 0;
	struct by_name n = {.nr_shown = 0};
	char title[WEIR_NAME_MAX + 32];
	uint32_t last = UINT32_MAX;

	names_choose(&n, log, memory);
	snprintf(title, sizeof(title), "bytes in %s by name", run->machine->memory[memory].name);
	for (uint32_t i = 0; i < log->nr_changes; i++) {
		const struct watch_change *change = &log->change[i];

		if (change->memory == memory) {
			n.bytes[change->name] += change->bytes;
			last = i;
		}
		if (last == UINT32_MAX || goes_on(log, i) ||
		    (change->ns < next && i + 1 < log->nr_changes))
			continue;
		names_write(out, run, &n, title, change->ns);
		next = change->ns + step;
		last = UINT32_MAX;
	}
}

void timeline_names(FILE *out, const struct timeline_run *run)
{
	uint32_t own = run->machine->device[run->device].memory;

	names_of(out, run, own);
	for (uint32_t m = 0; m < run->machine->nr_memories; m++)
		if (m != own && run->near_bytes[m])
			names_of(out, run, m);
}

/* ------------------------------------------------------------------ the link */

/* Add bytes that cross evenly between two moments to the parts that these meet. */
static void spread(double *part, const struct watch_log *log, double width,
		   const struct watch_event *event, double bytes)
{
	double begin = ((double)event->begin_ns - (double)log->begin_ns) / width;
	double end = ((double)event->end_ns - (double)log->begin_ns) / width;
	double each = end > begin ? bytes / (end - begin) : 0;

	if (begin < 0)
		begin = 0;
	for (uint32_t i = (uint32_t)begin; i < LINK_PARTS && (double)i < end; i++) {
		double from = (double)i > begin ? (double)i : begin;
		double to = (double)i + 1 < end ? (double)i + 1 : end;

		part[i] += each * (to - from);
	}
}

int timeline_link(FILE *out, const struct timeline_run *run)
{
	const struct watch_log *log = run->log;
	double width = (double)(log->end_ns - log->begin_ns) / LINK_PARTS;
	double(*part)[LINK_PARTS] = calloc(BACKEND_DIRECTION_NR, sizeof(*part));

	if (!part)
		return -ENOMEM;
	for (uint32_t i = 0; i < log->nr_events && width > 0; i++)
		for (int d = 0; watch_on_stream(&log->event[i]) && d < BACKEND_DIRECTION_NR; d++)
			spread(part[d], log, width, &log->event[i], (double)log->event[i].bytes[d]);
	for (uint32_t i = 0; i < LINK_PARTS && width > 0; i++) {
		if (i && part[0][i] == part[0][i - 1] && part[1][i] == part[1][i - 1])
			continue;
		sample_begin(out, run, "link bytes/s",
			     log->begin_ns + (uint64_t)((double)i * width));
		write_value(out, true, "in", (int64_t)(part[BACKEND_TO_DEVICE][i] / width * 1e9));
		write_value(out, false, "out", (int64_t)(part[BACKEND_TO_HOST][i] / width * 1e9));
		fputs("}}", out);
	}
	free(part);
	return 0;
}
