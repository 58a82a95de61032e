/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what report_explain.h shows. What is there is there whole: a number that is missing would
 * look like one that is 0. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/report_explain.h"
#include "src/base/util.h"

#define STAGES_MAX 100000u
#define NUMBER_MAX 1e20
/* What sums of a few doubles may be off by, as a part of them, and in seconds. */
#define ROUNDING 1e-6
#define ROUNDING_S 1e-9

#define GIVE "give a file of `weir bench --explain --json`"

struct number {
	const char *name;
	double *value;
};

static int read_numbers(struct report_source *source, const json_t *json, size_t index,
			const struct number *numbers, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const json_t *number = json_object_get(json, numbers[i].name);
		const double value = json_number_value(number);

		if (!json_is_number(number) || !(value >= 0 && value <= NUMBER_MAX))
			return report_refuse(source,
					     "\"explain\": \"%s\" of stage %zu is no number from 0 "
					     "to 1e20: " GIVE,
					     numbers[i].name, index);
		*numbers[i].value = value;
	}
	return 0;
}

/* A text, or null. */
static int read_text(struct report_source *source, const json_t *json, const char *member,
		     const char **out)
{
	const json_t *text = json_object_get(json, member);

	*out = json_string_value(text);
	if (!text || json_is_null(text) || *out)
		return 0;
	return report_refuse(source, "\"explain\": \"%s\" is no text: write a text or null",
			     member);
}

/* Null, or missing: not known. */
static int read_room(struct report_source *source, const json_t *room, size_t index,
		     struct report_stage *out)
{
	struct number numbers[EXPLAIN_ROOM_NR + 1] = {{"filled", &out->filled}};

	if (!room || json_is_null(room))
		return 0;
	if (!json_is_object(room))
		return report_refuse(
			source, "\"explain\": \"room\" of stage %zu is no object: " GIVE, index);
	for (int i = 0; i < EXPLAIN_ROOM_NR; i++)
		numbers[i + 1] =
			(struct number){explain_room_name((enum explain_room)i), &out->room[i]};
	return read_numbers(source, room, index, numbers, ARRAY_LEN(numbers));
}

static int read_stage(struct report_source *source, const json_t *json, size_t index,
		      struct report_stage *out)
{
	const struct number numbers[] = {
		{"brackets", &out->brackets},
		{"planned_s", &out->planned_s},
		{"measured_s", &out->measured_s},
		{"kernels_s", &out->kernels_s},
		{"waited_s", &out->waited_s},
		{"brought", &out->brought},
		{"ahead", &out->ahead},
		{"late", &out->late},
		{"out", &out->out},
		{"calls", &out->calls},
		{"calls_s", &out->calls_s},
	};
	int err;

	if (!json_is_object(json))
		return report_refuse(source, "\"explain\": stage %zu is no object: " GIVE, index);
	err = read_text(source, json, "name", &out->name);
	if (!err)
		err = read_numbers(source, json, index, numbers, ARRAY_LEN(numbers));
	if (!err)
		err = read_room(source, json_object_get(json, "room"), index, out);
	if (err)
		return err;
	if (fabs(out->kernels_s + out->waited_s - out->measured_s) <=
	    ROUNDING * out->measured_s + ROUNDING_S)
		return 0;
	return report_refuse(source,
			     "\"explain\": \"kernels_s\" and \"waited_s\" of stage %zu do not add "
			     "up to \"measured_s\": " GIVE,
			     index);
}

static int read_stages(struct report_source *source, const json_t *stages,
		       struct report_explained *out)
{
	const size_t nr = json_array_size(stages);
	int err = 0;

	if (!json_is_array(stages) || nr > STAGES_MAX)
		return report_refuse(source,
				     "\"explain\": \"stages\" is no array of up to %u: " GIVE,
				     STAGES_MAX);
	out->stage = calloc(nr + 1, sizeof(*out->stage));
	if (!out->stage)
		return -ENOMEM;
	for (; out->nr_stages < nr && !err; out->nr_stages++)
		err = read_stage(source, json_array_get(stages, out->nr_stages), out->nr_stages,
				 &out->stage[out->nr_stages]);
	return err;
}

static int read_device(struct report_source *source, const json_t *json,
		       struct report_explained *out)
{
	int err;

	if (!json_is_object(json))
		return report_refuse(source, "\"explain\" has a device that is no object: " GIVE);
	err = read_text(source, json, "device", &out->device);
	if (!err && !out->device)
		err = report_refuse(source, "\"explain\" has a device without \"device\": " GIVE);
	if (!err)
		err = read_text(source, json, "why", &out->why);
	out->chunk_bytes = json_number_value(json_object_get(json, "chunk_bytes"));
	out->suspended = json_is_true(json_object_get(json, "suspended"));
	return err ? err : read_stages(source, json_object_get(json, "stages"), out);
}

int report_explain_read(struct report_source *source, struct report_result *result)
{
	const json_t *explain = json_object_get(result->json, "explain");
	const size_t nr = json_array_size(explain);
	int err = 0;

	if (!explain || json_is_null(explain))
		return 0;
	if (!json_is_array(explain) || nr > WEIR_DEVICES_MAX)
		return report_refuse(source, "\"explain\" is no array of up to %d devices: " GIVE,
				     WEIR_DEVICES_MAX);
	result->explained = calloc(nr + 1, sizeof(*result->explained));
	if (!result->explained)
		return -ENOMEM;
	for (; result->nr_explained < nr && !err; result->nr_explained++)
		err = read_device(source, json_array_get(explain, result->nr_explained),
				  &result->explained[result->nr_explained]);
	return err;
}

void report_explain_fini(struct report_result *result)
{
	for (size_t i = 0; i < result->nr_explained; i++)
		free(result->explained[i].stage);
	free(result->explained);
	result->explained = NULL;
	result->nr_explained = 0;
}
