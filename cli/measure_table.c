/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what was measured; see measure_table.h. Figures are rounded here alone. */
#include "cli/measure_table.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/size.h"
#include "cli/table.h"
#include "src/base/util.h"

static const struct table_column columns[] = {
	{"constant", TABLE_LEFT},      {"estimate", TABLE_RIGHT}, {"median", TABLE_RIGHT},
	{"least", TABLE_RIGHT},	       {"most", TABLE_RIGHT},	  {"runs", TABLE_RIGHT},
	{"what was done", TABLE_LEFT},
};

static bool ends_in(const char *text, const char *end)
{
	size_t bytes = strlen(text), nr = strlen(end);

	return bytes >= nr && strcmp(text + bytes - nr, end) == 0;
}

/* In the unit that the path ends in, if it does. What fails to be added shows when the table is
 * printed. */
static void add_value(struct table *table, const char *path, double value)
{
	char text[SIZE_TEXT_BYTES] = "-";

	if (!(value >= 0))
		;
	else if (ends_in(path, "_bytes_per_s"))
		rate_format(value, "B/s", text, sizeof(text));
	else if (ends_in(path, "_per_s"))
		rate_format(value, "/s", text, sizeof(text));
	else if (ends_in(path, "_ns"))
		duration_format((uint64_t)(value + 0.5), text, sizeof(text));
	else if (ends_in(path, "_bytes"))
		size_format((uint64_t)(value + 0.5), text, sizeof(text));
	else
		(void)snprintf(text, sizeof(text), "%.3g", value);
	(void)table_add(table, "%s", text);
}

static void add_record(struct table *table, const struct probe_record *record)
{
	bool measured = record->nr > 0;

	(void)table_add(table, "%s", record->path);
	add_value(table, record->path, record->estimate);
	add_value(table, record->path, measured ? record->median : NAN);
	add_value(table, record->path, measured ? record->min : NAN);
	add_value(table, record->path, measured ? record->max : NAN);
	(void)table_add(table, "%u", record->nr);
	(void)table_add(table, "%s%s", measured ? "" : "not measured: ", record->how);
}

/* Which links the numbers stand for, where there are several. */
static void print_links(FILE *out, const struct weir_machine_desc *desc)
{
	for (uint32_t l = 0; l < desc->nr_links && desc->nr_links > 1; l++)
		(void)fprintf(out, "link[%u]: %s (a) - %s (b)\n", l,
			      desc->memory[desc->link[l].a].name,
			      desc->memory[desc->link[l].b].name);
}

int measure_table_print(FILE *out, const struct probe_result *result)
{
	struct table *table;
	int err = table_create(columns, ARRAY_LEN(columns), &table);

	if (err)
		return err;
	for (uint32_t i = 0; i < result->nr_records; i++)
		if (!result->record[i].is_again)
			add_record(table, &result->record[i]);
	print_links(out, &result->desc);
	err = table_print(table, out);
	table_destroy(table);
	return err;
}
