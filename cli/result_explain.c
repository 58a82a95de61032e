/* SPDX-License-Identifier: Apache-2.0 */
/* See result_explain.h. */
#include "cli/result_explain.h"

#include <inttypes.h>

#include "cli/result.h"
#include "src/base/util.h"
#include "src/residency/explain.h"

#define NS_PER_S 1e9

static void write_text(FILE *out, const char *member, const char *text)
{
	fprintf(out, "\"%s\":", member);
	if (text && text[0])
		result_write_text(out, text);
	else
		fputs("null", out);
}

static void write_number(FILE *out, const char *member, double value)
{
	fprintf(out, ",\"%s\":", member);
	result_write_double(out, value);
}

/* What chunks of the device's memory are for as the stage begins; null: not known. */
static void write_room(FILE *out, const struct explain_stage *stage)
{
	double sum = 0;

	fputs(",\"room\":", out);
	for (int room = 0; room < EXPLAIN_ROOM_NR; room++)
		sum += stage->room[room];
	if (!(sum > 0)) {
		fputs("null", out);
		return;
	}
	for (int room = 0; room < EXPLAIN_ROOM_NR; room++) {
		fprintf(out, "%c\"%s\":", room ? ',' : '{',
			explain_room_name((enum explain_room)room));
		result_write_double(out, stage->room[room]);
	}
	write_number(out, "filled", stage->filled);
	fputc('}', out);
}

static void write_stage(FILE *out, const struct explain_stage *stage)
{
	const struct {
		const char *name;
		double value;
	} members[] = {
		{"planned_s", stage->planned_ns / NS_PER_S},
		{"measured_s", stage->measured_ns / NS_PER_S},
		{"kernels_s", stage->kernels_ns / NS_PER_S},
		{"waited_s", explain_waited_ns(stage) / NS_PER_S},
		{"brought", stage->brought},
		{"ahead", stage->ahead},
		{"late", stage->late},
		{"out", stage->out},
		{"calls", stage->calls},
		{"calls_s", stage->calls_ns / NS_PER_S},
	};

	fputc('{', out);
	write_text(out, "name", stage->name);
	fprintf(out, ",\"brackets\":%" PRIu32, stage->nr_brackets);
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		write_number(out, members[i].name, members[i].value);
	write_room(out, stage);
	fputc('}', out);
}

static void write_device(FILE *out, const struct explain_device *device)
{
	fputc('{', out);
	write_text(out, "device", device->name);
	fputc(',', out);
	write_text(out, "why", device->why);
	if (!device->why) {
		fprintf(out, ",\"suspended\":%s,\"moves\":%" PRIu32 ",\"chunk_bytes\":%" PRIu64,
			device->suspended ? "true" : "false", device->nr_moves,
			device->chunk_bytes);
		write_number(out, "modelled_s", device->modelled_ns / NS_PER_S);
		write_number(out, "compute_s", device->compute_ns / NS_PER_S);
	}
	fputs(",\"stages\":[", out);
	for (uint32_t g = 0; g < device->nr_stages; g++) {
		if (g)
			fputc(',', out);
		write_stage(out, &device->stage[g]);
	}
	fputs("]}", out);
}

void result_explain_write(FILE *out, const struct explain *explain)
{
	fputs(",\"explain\":", out);
	if (!explain) {
		fputs("null", out);
		return;
	}
	for (uint32_t i = 0; i < explain->nr_devices; i++) {
		fputc(i ? ',' : '[', out);
		write_device(out, &explain->device[i]);
	}
	fputc(']', out);
}
