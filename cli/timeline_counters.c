/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a timeline. Residency is written as it changes; by name at so many moments at
 * most, since each sample has all names. Rates over links are means over equal parts of the
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

	if (run->log->nr_names <= 1) /* nobody gave any */
		return;
	names_of(out, run, own);
	for (uint32_t m = 0; m < run->machine->nr_memories; m++)
		if (m != own && run->near_bytes[m])
			names_of(out, run, m);
}

/* ------------------------------------------------------------------ links */

/* Of one link: bytes in each part of the record, each way. */
struct rates {
	double part[WEIR_DIRECTION_NR][LINK_PARTS + 1]; /* the last one begins with the end */
	double width_ns;				/* of a part */
	bool any;
};

/* Add bytes that cross evenly while an event lasts to the parts that it meets. */
static void spread(struct rates *r, enum weir_direction direction, const struct watch_log *log,
		   const struct watch_event *event, uint64_t bytes)
{
	double begin = ((double)event->begin_ns - (double)log->begin_ns) / r->width_ns;
	double end = ((double)event->end_ns - (double)log->begin_ns) / r->width_ns;
	double each;

	r->any |= bytes != 0;
	if (end <= begin) /* shorter than a clock tells */
		end = begin + 1e-9;
	each = (double)bytes / (end - begin);
	if (begin < 0)
		begin = 0;
	for (uint32_t i = (uint32_t)begin; i < LINK_PARTS && (double)i < end; i++) {
		double from = (double)i > begin ? (double)i : begin;
		double to = (double)i + 1 < end ? (double)i + 1 : end;

		r->part[direction][i] += each * (to - from);
	}
}

/* Names of the two directions. */
static void write_rates(FILE *out, const struct timeline_run *run, const struct rates *r,
			const char *title, const char *const name[WEIR_DIRECTION_NR])
{
	for (uint32_t i = 0; i <= LINK_PARTS; i++) {
		if (i && r->part[0][i] == r->part[0][i - 1] && r->part[1][i] == r->part[1][i - 1])
			continue;
		sample_begin(out, run, title,
			     run->log->begin_ns + (uint64_t)((double)i * r->width_ns));
		for (int d = 0; d < WEIR_DIRECTION_NR; d++)
			write_value(out, !d, name[d], (int64_t)(r->part[d][i] / r->width_ns * 1e9));
		fputs("}}", out);
	}
}

/* What a device's streams moved over its link to the host; the first direction is to the device. */
static void add_host_link(struct rates *r, const struct timeline_run *run, uint32_t device)
{
	const struct watch_log *log = run->log;

	for (uint32_t i = 0; i < log->nr_events; i++) {
		const struct watch_event *event = &log->event[i];

		if (!watch_on_stream(event) || log->stream[event->track].device != device)
			continue;
		spread(r, WEIR_A_TO_B, log, event, event->bytes[BACKEND_TO_DEVICE]);
		spread(r, WEIR_B_TO_A, log, event, event->bytes[BACKEND_TO_HOST]);
	}
}

static void add_flows(struct rates *r, const struct timeline_run *run, uint32_t a, uint32_t b)
{
	const struct watch_log *log = run->log;

	for (uint32_t i = 0; i < log->nr_flows; i++) {
		const struct watch_flow *flow = &log->flow[i];

		if ((flow->from == a && flow->to == b) || (flow->from == b && flow->to == a))
			spread(r, flow->from == a ? WEIR_A_TO_B : WEIR_B_TO_A, log,
			       &log->event[flow->event], flow->bytes);
	}
}

/* A link that is not the device's own to the host, if anything crossed it. */
static void write_link(FILE *out, const struct timeline_run *run, struct rates *r,
		       const struct weir_link_desc *link)
{
	const struct weir_machine_desc *machine = run->machine;
	const char *a = machine->memory[link->a].name, *b = machine->memory[link->b].name;
	char title[2 * WEIR_NAME_MAX + 32], there[2 * WEIR_NAME_MAX + 8], back[sizeof(there)];

	memset(r->part, 0, sizeof(r->part));
	r->any = false;
	for (uint32_t d = 0; d < machine->nr_devices; d++)
		if (d != run->device && machine->device[d].memory == link->b &&
		    machine->memory[link->a].kind == WEIR_MEMORY_HOST)
			add_host_link(r, run, d);
	add_flows(r, run, link->a, link->b);
	if (!r->any)
		return;
	snprintf(title, sizeof(title), "link %s-%s bytes/s", a, b);
	snprintf(there, sizeof(there), "%s->%s", a, b);
	snprintf(back, sizeof(back), "%s->%s", b, a);
	write_rates(out, run, r, title, (const char *const[]){there, back});
}

int timeline_links(FILE *out, const struct timeline_run *run)
{
	const struct watch_log *log = run->log;
	struct rates *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->width_ns = (double)(log->end_ns - log->begin_ns) / LINK_PARTS;
	if (r->width_ns > 0) {
		add_host_link(r, run, run->device);
		write_rates(out, run, r, "link bytes/s", (const char *const[]){"in", "out"});
		for (uint32_t l = 0; l < run->machine->nr_links; l++)
			write_link(out, run, r, &run->machine->link[l]);
	}
	free(r);
	return 0;
}
