/* SPDX-License-Identifier: Apache-2.0 */
/* See report_touch.h. Results are shown in the order in which they came. */
#include "cli/report_touch.h"

#include <math.h>
#include <string.h>

#include "cli/report_rows.h"
#include "cli/report_sets.h"
#include "cli/size.h"
#include "src/base/util.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Or neither is known. */
static bool same_number(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

/* All but the manager. */
static bool same_case(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->workload, b->workload) && same_text(a->machine, b->machine) &&
	       same_text(a->pattern, b->pattern) && same_text(a->access, b->access) &&
	       a->bytes == b->bytes && a->page_bytes == b->page_bytes &&
	       a->elements == b->elements && a->warm == b->warm &&
	       same_number(a->touched_pages, b->touched_pages) && same_number(a->rows, b->rows) &&
	       same_number(a->ranges, b->ranges) && same_number(a->split, b->split) &&
	       same_number(a->columns, b->columns) && same_number(a->devices, b->devices) &&
	       report_same_budget(a->budget_bytes, b->budget_bytes);
}

static const char *case_text(const struct report_result *r, char *text, size_t bytes)
{
	char table[SIZE_TEXT_BYTES], page[SIZE_TEXT_BYTES], budget[SIZE_TEXT_BYTES] = "not known";
	char part[40] = "", sides[120] = "", unit[SIZE_TEXT_BYTES + 16];

	if (r->touched_pages * r->page_bytes < r->bytes)
		snprintf(part, sizeof(part), ", %.3g %% of it",
			 100 * r->touched_pages * r->page_bytes / r->bytes);
	if (r->rows > 0 && r->columns > 0)
		snprintf(sides, sizeof(sides), ", %.0f x %.0f", r->rows, r->columns);
	if (r->devices > 1) {
		size_t used = strlen(sides);

		snprintf(sides + used, sizeof(sides) - used, ", %.0f GPUs", r->devices);
	}
	if (r->split >= 0)
		snprintf(part, sizeof(part), ", %.0f ranges advised to stay", r->split);
	if (r->ranges > 0)
		snprintf(unit, sizeof(unit), "%.0f ranges", r->ranges);
	else
		snprintf(unit, sizeof(unit), "pages of %s",
			 size_format((uint64_t)r->page_bytes, page, sizeof(page)));
	if (!isnan(r->budget_bytes))
		size_format((uint64_t)r->budget_bytes, budget, sizeof(budget));
	snprintf(text, bytes, "%s%s%s%s%s%s%s%s%s: %s in %s, budget %s, on %.40s", r->workload,
		 sides, r->pattern ? ", " : "", r->pattern ? r->pattern : "", r->access ? " " : "",
		 r->access ? r->access : "", r->elements ? ", word by word" : "",
		 r->warm ? ", warm" : "", part,
		 size_format((uint64_t)r->bytes, table, sizeof(table)), unit, budget, r->machine);
	return text;
}

static double value(const struct report_result *r)
{
	return r->useful_bytes_per_s / 1e9;
}

static struct report_rows rows_of(const struct report_results *results)
{
	return (struct report_rows){
		.list = &results->touch,
		.value = value,
		.unit = "GB/s",
		.same_case = same_case,
		.case_text = case_text,
	};
}

bool touch_has_chart(const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	return rows_have_chart(&rows);
}

void touch_chart(struct canvas *canvas, const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	rows_chart(canvas, &rows);
}

void touch_text(FILE *out, const struct report_results *results)
{
	for (size_t i = 0; i < results->touch.nr; i++) {
		const struct report_result *r = &results->touch.result[i];
		char text[ROWS_CASE_BYTES];

		if (strncmp(r->manager, "weir-paged", strlen("weir-paged")) != 0 ||
		    !(r->useful_bytes_per_s > 0))
			continue;
		fprintf(out, "- %s: %s moves %.3g GB/s of what is asked for",
			case_text(r, text, sizeof(text)), r->manager, r->useful_bytes_per_s / 1e9);
		if (r->bound_s > 0)
			fprintf(out, ", in %.2f times the lower bound", r->epoch_s / r->bound_s);
		fputs(".\n", out);
	}
}

void touch_table(FILE *out, const struct report_results *results)
{
	static const char *const titles[] = {"GB/s",	 "M updates/s",	    "pages in", "out",
					     "in place", "times the bound", "contents"};
	struct report_rows rows = rows_of(results);

	rows_table_begin(out, "Results on tables and matrices", titles, ARRAY_LEN(titles));
	for (size_t i = 0; i < results->touch.nr; i++) {
		const struct report_result *r = &results->touch.result[i];

		rows_row_begin(out, &rows, r);
		rows_number(out, "%.4g", r->useful_bytes_per_s / 1e9);
		rows_number(out, "%.4g", r->updates_per_s / 1e6);
		rows_row_end(out, r);
	}
	rows_table_end(out);
}
