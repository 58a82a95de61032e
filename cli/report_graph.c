/* SPDX-License-Identifier: Apache-2.0 */
/* See report_graph.h. Results are shown in the order in which they came. */
#include "cli/report_graph.h"

#include <math.h>
#include <string.h>

#include "cli/report_rows.h"
#include "cli/report_sets.h"
#include "cli/size.h"
#include "src/base/util.h"

/* All but the manager. */
static bool same_case(const struct report_result *a, const struct report_result *b)
{
	return strcmp(a->workload, b->workload) == 0 && strcmp(a->machine, b->machine) == 0 &&
	       json_equal(a->parameters, b->parameters) &&
	       report_same_budget(a->budget_bytes, b->budget_bytes);
}

static const char *case_text(const struct report_result *r, char *text, size_t bytes)
{
	char edges[SIZE_TEXT_BYTES] = "not known", budget[SIZE_TEXT_BYTES] = "not known";
	char page[SIZE_TEXT_BYTES];

	if (!isnan(r->edge_bytes))
		size_format((uint64_t)r->edge_bytes, edges, sizeof(edges));
	if (!isnan(r->budget_bytes))
		size_format((uint64_t)r->budget_bytes, budget, sizeof(budget));
	snprintf(text, bytes, "%s of %.60s%s: edges %s in pages of %s, budget %s, on %.40s",
		 r->workload, r->graph, r->warm ? ", warm" : "", edges,
		 size_format((uint64_t)r->page_bytes, page, sizeof(page)), budget, r->machine);
	return text;
}

static double value(const struct report_result *r)
{
	return r->bound_s > 0 ? r->epoch_s / r->bound_s : NAN;
}

static struct report_rows rows_of(const struct report_results *results)
{
	return (struct report_rows){
		.list = &results->graph,
		.value = value,
		.unit = "times",
		.same_case = same_case,
		.case_text = case_text,
	};
}

bool graph_has_chart(const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	return rows_have_chart(&rows);
}

void graph_chart(struct canvas *canvas, const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	rows_chart(canvas, &rows);
}

/* What zerocopy takes in the same case; NULL: nobody knows. */
static const struct report_result *in_place(const struct report_list *list,
					    const struct report_result *like)
{
	for (size_t i = 0; i < list->nr; i++)
		if (strcmp(list->result[i].manager, "zerocopy") == 0 &&
		    same_case(&list->result[i], like) && list->result[i].epoch_s > 0)
			return &list->result[i];
	return NULL;
}

void graph_text(FILE *out, const struct report_results *results)
{
	for (size_t i = 0; i < results->graph.nr; i++) {
		const struct report_result *r = &results->graph.result[i], *other;
		char text[ROWS_CASE_BYTES];

		if (strncmp(r->manager, "weir-paged", strlen("weir-paged")) != 0 || !(value(r) > 0))
			continue;
		fprintf(out, "- %s: %s takes %.2f times the lower bound",
			case_text(r, text, sizeof(text)), r->manager, value(r));
		other = in_place(&results->graph, r);
		if (other)
			fprintf(out, ", and %.2f times as long as edges used in place",
				r->epoch_s / other->epoch_s);
		fputs(".\n", out);
	}
}

void graph_table(FILE *out, const struct report_results *results)
{
	static const char *const titles[] = {"GB/s",	 "M edges/s",	    "pages in", "out",
					     "in place", "times the bound", "answer"};
	struct report_rows rows = rows_of(results);

	rows_table_begin(out, "Results on graphs", titles, ARRAY_LEN(titles));
	for (size_t i = 0; i < results->graph.nr; i++) {
		const struct report_result *r = &results->graph.result[i];

		rows_row_begin(out, &rows, r);
		rows_number(out, "%.4g", r->useful_bytes_per_s / 1e9);
		rows_number(out, "%.4g", r->teps_per_s / 1e6);
		rows_row_end(out, r);
	}
	rows_table_end(out);
}
