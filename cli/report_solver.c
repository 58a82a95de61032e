/* SPDX-License-Identifier: Apache-2.0 */
/* See report_solver.h. Results are shown in the order in which they came. */
#include "cli/report_solver.h"

#include <math.h>
#include <string.h>

#include "cli/report_rows.h"
#include "cli/report_sets.h"
#include "src/base/util.h"
#include "workloads/solver/manager.h"

static bool same_case(const struct report_result *a, const struct report_result *b)
{
	return strcmp(a->workload, b->workload) == 0 && strcmp(a->machine, b->machine) == 0 &&
	       json_equal(a->parameters, b->parameters);
}

static const char *case_text(const struct report_result *r, char *text, size_t bytes)
{
	char planes[24] = "";

	if (r->graph) {
		snprintf(text, bytes, "%s, %.40s, %.0f GPU%s, on %.40s", r->workload, r->graph,
			 r->devices > 1 ? r->devices : 1, r->devices > 1 ? "s" : "", r->machine);
		return text;
	}
	if (r->planes > 0)
		snprintf(planes, sizeof(planes), "%.0f x ", r->planes);
	snprintf(text, bytes, "%s, %s%.0f x %.0f, %.0f GPU%s, on %.40s", r->workload, planes,
		 r->rows, r->columns, r->devices > 1 ? r->devices : 1, r->devices > 1 ? "s" : "",
		 r->machine);
	return text;
}

/* Over one device that has all of the field; NaN: that was not run. */
static double speed_up(const struct report_result *r)
{
	return r->in_memory_s / r->epoch_s;
}

/* How fast, where what sends nothing is 100, with the same budget if that was run; NaN: it was not
 * run. */
static double limit_percent(const struct report_list *list, const struct report_result *r)
{
	const struct report_result *best = NULL;

	for (size_t i = 0; i < list->nr; i++) {
		const struct report_result *limit = &list->result[i];

		if (strcmp(limit->manager, solver_manager_weir_nopublish.name) != 0 ||
		    !same_case(limit, r))
			continue;
		if (!best || report_same_budget(limit->budget_bytes, r->budget_bytes))
			best = limit;
	}
	return best ? 100 * best->epoch_s / r->epoch_s : NAN;
}

/* Over all links, for one reason. */
static double moved_bytes(const struct report_result *r, enum weir_cause cause)
{
	double bytes = 0;

	for (size_t i = 0; i < r->nr_flows; i++)
		bytes += r->flow[i].bytes[cause];
	return bytes;
}

static struct report_rows rows_of(const struct report_results *results)
{
	return (struct report_rows){
		.list = &results->solver,
		.value = speed_up,
		.unit = "times",
		.same_case = same_case,
		.case_text = case_text,
	};
}

bool solver_has_chart(const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	return rows_have_chart(&rows);
}

void solver_chart(struct canvas *canvas, const struct report_results *results)
{
	struct report_rows rows = rows_of(results);

	rows_chart(canvas, &rows);
}

void solver_text(FILE *out, const struct report_results *results)
{
	const struct report_list *list = &results->solver;

	for (size_t i = 0; i < list->nr;) {
		const struct report_result *first = &list->result[i], *best = NULL;
		char text[ROWS_CASE_BYTES];

		for (; i < list->nr && same_case(&list->result[i], first); i++)
			if (speed_up(&list->result[i]) > (best ? speed_up(best) : 0))
				best = &list->result[i];
		if (best && best->devices > 1)
			fprintf(out, "- %s: %s is the fastest, %.3g times as fast as one GPU.\n",
				case_text(best, text, sizeof(text)), best->manager, speed_up(best));
	}
}

void solver_table(FILE *out, const struct report_results *results)
{
	static const char *const titles[] = {
		"us an iteration", "GB/s",	 "speed-up",	 "% of limit",	"times the bound",
		"budget, GB",	   "MB fetched", "MB published", "MB in place", "field"};
	struct report_rows rows = rows_of(results);

	rows_table_begin(out, "Results of solvers", titles, ARRAY_LEN(titles));
	for (size_t i = 0; i < results->solver.nr; i++) {
		const struct report_result *r = &results->solver.result[i];

		rows_row_begin(out, &rows, r);
		rows_number(out, "%.4g", r->iteration_s * 1e6);
		rows_number(out, "%.4g", r->useful_bytes_per_s / 1e9);
		rows_number(out, "%.3f", speed_up(r));
		rows_number(out, "%.1f", limit_percent(&results->solver, r));
		rows_number(out, "%.3f", r->epoch_s / r->bound_s);
		rows_number(out, "%.4g", r->budget_bytes / 1e9);
		rows_number(out, "%.4g", moved_bytes(r, WEIR_CAUSE_DEMAND) / 1e6);
		rows_number(out, "%.4g", moved_bytes(r, WEIR_CAUSE_PREFETCH) / 1e6);
		rows_number(out, "%.4g", moved_bytes(r, WEIR_CAUSE_INPLACE) / 1e6);
		rows_check(out, r);
	}
	rows_table_end(out);
}
