/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as JSON lines; see result.h. Written directly: the shape is fixed, and the only two
 * things that can go wrong in it, texts and doubles, each have one function.
 */
#include "cli/result.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result_explain.h"
#include "cli/result_policy.h"
#include "src/base/util.h"

const char *result_status_name(enum result_status status)
{
	static const char *const names[] = {"ok", "out-of-memory", "refused", "failed"};

	return names[status];
}

enum result_status result_status_of(int err)
{
	switch (err) {
	case 0:
		return RESULT_OK;
	case -ENOMEM:
		return RESULT_OUT_OF_MEMORY;
	case -EDQUOT:
		return RESULT_REFUSED;
	default:
		return RESULT_FAILED;
	}
}

const char *result_cause_name(enum weir_cause cause)
{
	static const char *const names[WEIR_CAUSE_NR] = {
		[WEIR_CAUSE_DEMAND] = "demand",	    [WEIR_CAUSE_PREFETCH] = "prefetch",
		[WEIR_CAUSE_EVICTION] = "eviction", [WEIR_CAUSE_WRITEBACK] = "write-back",
		[WEIR_CAUSE_INPLACE] = "in-place",
	};

	return names[cause];
}

const char *result_time_name(enum backend_time time)
{
	static const char *const names[BACKEND_TIME_NR] = {
		[BACKEND_TIME_COMPUTE] = "compute",
		[BACKEND_TIME_IN_PLACE] = "in_place",
		[BACKEND_TIME_ALLOCATION] = "allocation",
		[BACKEND_TIME_FIRST_TOUCH] = "first_touch",
		[BACKEND_TIME_DEMAND] = "demand",
		[BACKEND_TIME_EVICTION] = "eviction",
		[BACKEND_TIME_OTHER] = "other",
	};

	return names[time];
}

const char *result_policy_of(const char *manager)
{
	const char *policy = manager_policy(manager);

	return policy || strncmp(manager, "weir", 4) != 0 ? policy : "default";
}

/* -1: none. */
static int host_link(const struct weir_machine_desc *machine, uint32_t device)
{
	for (uint32_t i = 0; i < machine->nr_links; i++)
		if (machine->link[i].b == machine->device[device].memory &&
		    machine->memory[machine->link[i].a].kind == WEIR_MEMORY_HOST)
			return (int)i;
	return -1;
}

uint32_t result_host_memory(const struct weir_machine_desc *machine, uint32_t device)
{
	int link = host_link(machine, device);

	return link < 0 ? machine->device[device].memory : machine->link[link].a;
}

uint32_t result_host_link(const struct weir_machine_desc *machine, uint32_t device)
{
	int link = host_link(machine, device);

	return link < 0 ? 0 : (uint32_t)link;
}

bool result_is_near(const struct result *result)
{
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		if (result->near_bytes[m])
			return true;
	return false;
}

static bool uses_memory(const struct result *result, uint32_t memory)
{
	for (uint32_t d = result->device + 1; d < result->device + result->nr_devices; d++)
		if (memory == result->machine->device[d].memory)
			return true;
	return result->near_bytes[memory] ||
	       memory == result->machine->device[result->device].memory ||
	       memory == result_host_memory(result->machine, result->device);
}

bool result_uses_link(const struct result *result, uint32_t link)
{
	const struct weir_link_desc *desc = &result->machine->link[link];

	return uses_memory(result, desc->a) && uses_memory(result, desc->b);
}

const uint64_t *result_link_bytes(const struct result *result, uint32_t link,
				  enum weir_direction direction)
{
	if (link == result_host_link(result->machine, result->device))
		return result->stats.bytes[direction];
	return result->stats.near[link][direction];
}

void result_way_name(const struct weir_machine_desc *machine, uint32_t link,
		     enum weir_direction direction, char name[RESULT_WAY_BYTES])
{
	const struct weir_link_desc *desc = &machine->link[link];
	uint32_t from = direction == WEIR_A_TO_B ? desc->a : desc->b;

	snprintf(name, RESULT_WAY_BYTES, "%.*s->%.*s", WEIR_NAME_MAX - 1,
		 machine->memory[from].name, WEIR_NAME_MAX - 1,
		 machine->memory[desc->a + desc->b - from].name);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double result_median(const double *values, uint32_t nr)
{
	double *sorted, median;

	if (!nr)
		return NAN;
	sorted = reallocarray(NULL, nr, sizeof(*sorted));
	if (!sorted)
		return NAN;
	memcpy(sorted, values, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), compare_doubles);
	median = nr % 2 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
	free(sorted);
	return median;
}

/* ------------------------------------------------------------------ texts and doubles */

/* Length of the UTF-8 sequence at text, 0 when it is none: also for overlong forms, surrogates and
 * what lies beyond U+10FFFF. */
static size_t utf8_length(const unsigned char *text)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = text[0] < 0x80	 ? 1
			: text[0] < 0xc0 ? 0
			: text[0] < 0xe0 ? 2
			: text[0] < 0xf0 ? 3
			: text[0] < 0xf8 ? 4
					 : 0;
	uint32_t code;

	if (length <= 1)
		return length;
	code = text[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80) /* the terminator too */
			return 0;
		code = code << 6 | (text[i] & 0x3fu);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

void result_write_text(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', out);
	while (*at) {
		size_t length = utf8_length(at);

		if (length == 0) {
			fputs("\\ufffd", out);
			length = 1;
		} else if (*at == '"' || *at == '\\') {
			fprintf(out, "\\%c", *at);
		} else if (*at < 0x20 || *at == 0x7f) {
			fprintf(out, "\\u%04x", *at);
		} else {
			fwrite(at, 1, length, out);
		}
		at += length;
	}
	fputc('"', out);
}

void result_write_double(FILE *out, double value)
{
	char text[40];

	if (!isfinite(value)) {
		fputs("null", out);
		return;
	}
	/* 17 digits always read back the same. The program never sets a locale, so the point is a
	 * point. */
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, out);
}

static void write_doubles(FILE *out, const double *values, uint32_t nr)
{
	fputc('[', out);
	for (uint32_t i = 0; i < nr; i++) {
		if (i)
			fputc(',', out);
		result_write_double(out, values[i]);
	}
	fputc(']', out);
}

/* ------------------------------------------------------------------ the members */

static void write_gcn_parameters(FILE *out, const struct result_parameters *p)
{
	fprintf(out, "\"nodes\":%" PRIu64 ",\"slice\":%" PRIu64, p->nodes, p->slice);
	fprintf(out, ",\"hidden\":%" PRIu32 ",\"epochs\":%" PRIu32 ",\"warm_up\":%" PRIu32,
		p->hidden, p->epochs, p->warm_up);
	fprintf(out, ",\"seed\":%" PRIu64, p->seed);
}

static void write_parameters(FILE *out, const struct result *result)
{
	const struct result_parameters *p = &result->parameters;

	fputs(",\"parameters\":{", out);
	if (result->pass)
		result->pass->parameters(out, result->pass->of);
	else
		write_gcn_parameters(out, p);
	fputs(",\"data\":", out);
	result_write_text(out, p->data);
	if (!result->pass) {
		fputs(",\"graph\":", out);
		if (p->graph)
			result_write_text(out, p->graph);
		else
			fputs("null", out);
	}
	fputs(",\"device\":", out);
	result_write_text(out, result->machine->device[result->device].name);
	if (result->nr_devices > 1)
		fprintf(out, ",\"devices\":%" PRIu32, result->nr_devices);
	fprintf(out, ",\"host_budget_bytes\":%" PRIu64 ",\"block_bytes\":", p->host_budget_bytes);
	if (p->block_bytes)
		fprintf(out, "%" PRIu64 "}", p->block_bytes);
	else
		fputs("null}", out);
}

static void write_times(FILE *out, const double *time_s)
{
	fputs(",\"time_s\":", out);
	for (int i = 0; i < BACKEND_TIME_NR; i++) {
		fprintf(out, "%c\"%s\":", i ? ',' : '{', result_time_name((enum backend_time)i));
		result_write_double(out, time_s[i]);
	}
	fputc('}', out);
}

/* What crossed a link, one way. */
static void write_way(FILE *out, const struct result *result, uint32_t link,
		      enum weir_direction direction)
{
	const uint64_t *bytes = result_link_bytes(result, link, direction);
	char name[RESULT_WAY_BYTES];

	result_way_name(result->machine, link, direction, name);
	result_write_text(out, name);
	fputs(":{", out);
	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		fprintf(out, "%s\"%s\":%" PRIu64, cause ? "," : "",
			result_cause_name((enum weir_cause)cause), bytes[cause]);
	fputc('}', out);
}

/* Whether it says something of a link: it is the device's, or something crossed it. */
static bool tells(const struct result *result, uint32_t link)
{
	const uint32_t own = result->machine->device[result->device].memory;
	const uint64_t *there = result_link_bytes(result, link, WEIR_A_TO_B);
	const uint64_t *back = result_link_bytes(result, link, WEIR_B_TO_A);
	uint64_t bytes = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++)
		bytes += there[cause] + back[cause];
	return bytes || result->machine->link[link].a == own ||
	       result->machine->link[link].b == own;
}

/* The device's link to the host first. */
static void write_links(FILE *out, const struct result *result)
{
	uint32_t host = result_host_link(result->machine, result->device);

	fputs(",\"bytes\":{", out);
	write_way(out, result, host, WEIR_A_TO_B);
	fputc(',', out);
	write_way(out, result, host, WEIR_B_TO_A);
	for (uint32_t link = 0; link < result->machine->nr_links; link++) {
		if (link == host || !result_uses_link(result, link) || !tells(result, link))
			continue;
		fputc(',', out);
		write_way(out, result, link, WEIR_A_TO_B);
		fputc(',', out);
		write_way(out, result, link, WEIR_B_TO_A);
	}
	fputc('}', out);
}

/* Of the device's memory, and of others' where the manager uses them. */
static void write_budgets(FILE *out, const struct result *result)
{
	const struct weir_machine_desc *machine = result->machine;
	char before = '{';

	fprintf(out, ",\"budget_bytes\":%" PRIu64, result->gpu_budget_bytes);
	if (!result_is_near(result))
		return;
	fputs(",\"near_budget_bytes\":", out);
	for (uint32_t m = 0; m < machine->nr_memories; m++) {
		if (!result->near_bytes[m])
			continue;
		fputc(before, out);
		result_write_text(out, machine->memory[m].name);
		fprintf(out, ":%" PRIu64, result->near_bytes[m]);
		before = ',';
	}
	fputs("},\"near_bytes_per_s\":", out);
	result_write_double(out, result->near_bytes_per_s > 0 ? result->near_bytes_per_s : NAN);
}

static void write_peaks(FILE *out, const struct result *result)
{
	fputs(",\"peak_bytes\":{", out);
	for (uint32_t i = 0; i < result->machine->nr_memories; i++) {
		if (i)
			fputc(',', out);
		result_write_text(out, result->machine->memory[i].name);
		fprintf(out, ":%" PRIu64, result->stats.peak_bytes[i]);
	}
	fprintf(out, "},\"live_peak_bytes\":%" PRIu64, result->live_peak_bytes);
}

static void write_check(FILE *out, const struct result *result)
{
	static const char *const passed[] = {"null", "true", "false"};

	fputs(",\"check\":{", out);
	if (result->pass) {
		fputs("\"wrong\":", out);
		if (result->pass->wrong && result->pass->wrong[0])
			result_write_text(out, result->pass->wrong);
		else
			fputs("null", out);
	} else {
		fputs("\"loss\":", out);
		write_doubles(out, result->loss, result->nr_losses);
		fputs(",\"test_accuracy\":", out);
		result_write_double(out, result->test_accuracy);
	}
	fprintf(out, ",\"passed\":%s}", passed[result->check]);
}

static void write_oracle(FILE *out, const struct result_oracle *oracle)
{
	const struct {
		const char *name;
		double value;
	} members[] = {
		{"copy_ins", oracle->copy_ins},
		{"min_copy_ins", oracle->min_copy_ins},
		{"write_backs", oracle->write_backs},
		{"min_write_backs", oracle->min_write_backs},
		{"in_place_bytes", oracle->in_place_bytes},
		{"host_copy_ins", oracle->host_copy_ins},
		{"min_host_copy_ins", oracle->min_host_copy_ins},
	};

	fprintf(out, "{\"epochs\":%" PRIu32, oracle->nr_epochs);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		fprintf(out, ",\"%s\":", members[i].name);
		result_write_double(out, members[i].value);
	}
	fprintf(out,
		",\"block_bytes\":%" PRIu64 ",\"capacity_blocks\":%" PRIu64
		",\"largest_set_blocks\":%" PRIu64 ",\"exact\":%s}",
		oracle->block_bytes, oracle->capacity_blocks, oracle->largest_set_blocks,
		oracle->exact ? "true" : "false");
}

const char *result_pick_name(const struct manager_pick *pick)
{
	return pick->paged ? "paged" : "in place";
}

/* What a manager that picks has picked, by allocation. */
static void write_picks(FILE *out, const struct manager_stats *stats)
{
	fputs(",\"picked\":[", out);
	for (uint32_t i = 0; i < stats->nr_picks; i++) {
		const struct manager_pick *pick = &stats->pick[i];

		fprintf(out, "%s{\"name\":", i ? "," : "");
		result_write_text(out, pick->name);
		fprintf(out,
			",\"as\":\"%s\",\"pages\":%" PRIu64 ",\"in\":%" PRIu64
			",\"in_place\":%" PRIu64 "}",
			result_pick_name(pick), pick->nr_pages, pick->nr_in, pick->nr_in_place);
	}
	fputc(']', out);
}

static void write_pass(FILE *out, const struct result_pass *pass)
{
	const struct {
		const char *name;
		double value;
	} pages[] = {
		{"in", pass->in},
		{"out", pass->out},
		{"in_place", pass->in_place},
		{"waits", pass->waits},
	};

	fputs(",\"useful_bytes_per_s\":", out);
	result_write_double(out, pass->useful_bytes_per_s);
	if (pass->members)
		pass->members(out, pass->of);
	fputs(",\"pages\":", out);
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		fprintf(out, "%c\"%s\":", i ? ',' : '{', pages[i].name);
		result_write_double(out, pages[i].value);
	}
	fputc('}', out);
}

static void write_real_gpu(FILE *out, const struct result *result)
{
	static const char *const from[] = {"modelled", "measured"};
	const struct result_real_gpu *gpu = result->real_gpu;

	fprintf(out, ",\"real_gpu\":{\"in_memory\":\"%s\",\"bound\":\"%s\",\"epoch_cpu_s\":",
		from[gpu->in_memory_measured], from[gpu->bound_measured]);
	write_doubles(out, gpu->epoch_cpu_s, result->nr_epochs);
	fprintf(out, ",\"peak_rss_bytes\":%" PRIu64 ",\"bookkeeping_bytes\":%" PRIu64 "}",
		gpu->peak_rss_bytes, gpu->bookkeeping_bytes);
}

/* What was run, and on what. */
static void write_run(FILE *out, const struct result *result)
{
	fputs("{\"schema\":\"" RESULT_SCHEMA "\"", out);
	if (result->command) {
		fputs(",\"command\":", out);
		result_write_text(out, result->command);
	}
	if (result->date) {
		fputs(",\"date\":", out);
		result_write_text(out, result->date);
	}
	fputs(",\"workload\":", out);
	result_write_text(out, result->workload);
	write_parameters(out, result);
	fputs(",\"machine\":", out);
	result_write_text(out, result->machine->name);
	fputs(",\"manager\":", out);
	result_write_text(out, result->manager);
	fputs(",\"policy\":", out);
	if (result->policy)
		result_write_text(out, result->policy);
	else
		fputs("null", out);
	result_decisions_write(out, result);
}

void result_write(FILE *out, const struct result *result)
{
	write_run(out, result);
	fprintf(out, ",\"status\":\"%s\"", result_status_name(result->status));
	if (result->status == RESULT_REFUSED || result->status == RESULT_FAILED) {
		fputs(",\"error\":", out);
		result_write_text(out, result->error ? result->error : "");
	}
	fputs(",\"epoch_s\":", out);
	write_doubles(out, result->epoch_s, result->nr_epochs);
	fputs(",\"epoch_median_s\":", out);
	result_write_double(out, result->epoch_median_s);
	if (result->time_s)
		write_times(out, result->time_s);
	write_links(out, result);
	fprintf(out, ",\"faults\":%" PRIu64 ",\"first_touches\":%" PRIu64, result->stats.nr_faults,
		result->stats.nr_first_touches);
	write_peaks(out, result);
	write_budgets(out, result);
	write_check(out, result);
	fputs(",\"bound_s\":", out);
	result_write_double(out, result->bound_s);
	fputs(",\"oracle\":", out);
	if (result->oracle)
		write_oracle(out, result->oracle);
	else
		fputs("null", out);
	fprintf(out, ",\"needs_bytes\":%" PRIu64 ",\"in_memory_s\":", result->needs_bytes);
	result_write_double(out, result->in_memory_s);
	if (result->pass) {
		write_pass(out, result->pass);
		write_picks(out, &result->stats);
	}
	if (result->real_gpu)
		write_real_gpu(out, result);
	if (result->explains)
		result_explain_write(out, result->explain);
	fputs(",\"version\":", out);
	result_write_text(out, weir_version());
	fputs("}\n", out);
}
