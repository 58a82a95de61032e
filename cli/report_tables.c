/* SPDX-License-Identifier: Apache-2.0 */
/* Tables; see report_tables.h. A column that would say nothing is left out. */
#include "cli/report_tables.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/report_canvas.h"
#include "cli/report_charts.h"
#include "cli/report_format.h"
#include "cli/report_plot.h"
#include "src/base/util.h"

static void begin_table(FILE *out, const char *about, const char *title)
{
	fputs("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"", out);
	html_text(out, about);
	fputs("\">\n<table>\n<caption>", out);
	html_text(out, title);
	fputs("</caption>\n<thead><tr>", out);
}

__attribute__((format(printf, 2, 3))) static void put_cell(FILE *out, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fputs("<td>", out);
	html_text(out, text);
	fputs("</td>", out);
}

static void put_title(FILE *out, const char *title)
{
	fprintf(out, "<th scope=\"col\"%s>%s</th>",
		strcmp(title, "manager") == 0 ? " class=\"l\"" : "", title);
}

static void put_manager(FILE *out, const struct report_sets *sets, const char *manager)
{
	size_t m = 0;

	while (strcmp(sets->manager[m], manager) != 0)
		m++;
	fprintf(out,
		"<th scope=\"row\" class=\"l\"><span class=\"swatch\" style=\"background:"
		"var(--%s)\"></span>",
		report_palette[COLOUR_MANAGER + sets->slot[m]].name);
	html_text(out, manager);
	fputs("</th>", out);
}

static double traffic_of(const struct report_result *result, enum weir_cause a, enum weir_cause b)
{
	double x = report_traffic(result, a), y = report_traffic(result, b);

	return isnan(x) ? y : isnan(y) ? x : x + y;
}

static void put_status(FILE *out, const struct report_result *result)
{
	struct figure time;

	put_cell(out, "%s",
		 isnan(result->epoch_s) ? report_status_word(result->status)
					: figure_seconds(&time, result->epoch_s));
}

/* Columns that not every table has. */
struct columns {
	bool nodes, budget, over, near, in_memory, bound, faults, losses;
};

static struct columns columns_of(const struct report_set *set)
{
	struct columns columns = {.nodes = !report_is_replay(set), .budget = report_is_replay(set)};

	for (size_t i = 0; i < set->nr_cases; i++) {
		columns.budget |=
			!report_same_budget(set->cases[i].budget_bytes, set->cases[0].budget_bytes);
		columns.over |= !isnan(set->cases[i].over);
		columns.in_memory |= !isnan(set->cases[i].in_memory_s);
		columns.bound |= !isnan(set->cases[i].bound_s);
	}
	for (size_t i = 0; i < set->nr_results; i++) {
		columns.faults |= set->result[i]->faults > 0 || set->result[i]->first_touches > 0;
		columns.losses |= set->result[i]->passed >= 0;
		columns.near |= set->result[i]->near_bytes > 0;
		columns.bound |= set->result[i]->bound_s > 0;
	}
	return columns;
}

static void put_titles(FILE *out, const struct columns *columns)
{
	if (columns->nodes)
		put_title(out, "nodes");
	if (columns->budget)
		put_title(out, "GPU memory");
	if (columns->over)
		put_title(out, "needs over GPU memory");
	put_title(out, "manager");
	if (columns->near)
		put_title(out, "other GPUs\xe2\x80\x99 memory");
	put_title(out, "epoch");
	if (columns->in_memory)
		put_title(out, "over in memory");
	if (columns->bound)
		put_title(out, "over bound");
	put_title(out, "copied in");
	put_title(out, "copied out");
	put_title(out, "in place");
	if (columns->faults) {
		put_title(out, "faults");
		put_title(out, "first touches");
	}
	if (columns->losses)
		put_title(out, "losses");
	fputs("</tr></thead>\n<tbody>\n", out);
}

static void put_result(FILE *out, const struct report_sets *sets, const struct report_case *c,
		       const struct report_result *result, const struct columns *columns)
{
	static const char *const passed[] = {"-", "differ", "the same"};
	const bool ok = result->status == RESULT_OK;
	struct figure figure;

	if (columns->nodes)
		put_cell(out, "%s", figure_count(&figure, c->nodes));
	if (columns->budget)
		put_cell(out, "%s", figure_bytes(&figure, c->budget_bytes));
	if (columns->over)
		put_cell(out, "%s", figure_ratio(&figure, c->over));
	put_manager(out, sets, result->manager);
	if (columns->near)
		put_cell(out, "%s",
			 figure_bytes(&figure, result->near_bytes > 0 ? result->near_bytes : NAN));
	put_status(out, result);
	if (columns->in_memory)
		put_cell(out, "%s", figure_ratio(&figure, result->epoch_s / c->in_memory_s));
	if (columns->bound)
		put_cell(out, "%s",
			 figure_ratio(&figure, result->epoch_s / report_bound_s(c, result)));
	put_cell(out, "%s",
		 figure_bytes(&figure,
			      ok ? traffic_of(result, WEIR_CAUSE_DEMAND, WEIR_CAUSE_PREFETCH)
				 : NAN));
	put_cell(out, "%s",
		 figure_bytes(&figure,
			      ok ? traffic_of(result, WEIR_CAUSE_EVICTION, WEIR_CAUSE_WRITEBACK)
				 : NAN));
	put_cell(out, "%s",
		 figure_bytes(&figure, ok ? report_traffic(result, WEIR_CAUSE_INPLACE) : NAN));
	if (columns->faults) {
		put_cell(out, "%s", figure_count(&figure, ok ? result->faults : NAN));
		put_cell(out, "%s", figure_count(&figure, ok ? result->first_touches : NAN));
	}
	if (columns->losses)
		put_cell(out, "%s", passed[result->passed + 1]);
}

/* Each result has a case. */
static const struct report_case *case_of(const struct report_set *set,
					 const struct report_result *result)
{
	const struct report_case *c = set->cases;

	while (c->nodes != result->nodes ||
	       !report_same_budget(c->budget_bytes, result->budget_bytes))
		c++;
	return c;
}

static void put_failures(FILE *out, const struct report_set *set)
{
	struct figure figure;

	for (size_t i = 0; i < set->nr_results; i++) {
		const struct report_result *result = set->result[i];

		if (result->status != RESULT_REFUSED && result->status != RESULT_FAILED)
			continue;
		fputs("<p class=\"note\">", out);
		html_text(out, result->manager);
		fprintf(out,
			" %s at %s%s: ", result->status == RESULT_FAILED ? "failed" : "was refused",
			result->trace ? figure_bytes(&figure, result->budget_bytes)
				      : figure_count(&figure, result->nodes),
			result->trace ? "" : " nodes");
		html_text(out, result->error ? result->error : "no reason was given");
		fputs("</p>\n", out);
	}
}

void table_results(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	const struct columns columns = columns_of(set);
	const struct report_case *before = NULL;

	begin_table(out, "All results",
		    columns.faults
			    ? "All results. Bytes are an epoch\xe2\x80\x99s; faults and first "
			      "touches are the whole run\xe2\x80\x99s."
			    : "All results. Bytes are an epoch\xe2\x80\x99s.");
	put_titles(out, &columns);
	for (size_t i = 0; i < set->nr_results; i++) {
		const struct report_case *c = case_of(set, set->result[i]);

		fputs(!i || c != before ? "<tr class=\"first\">" : "<tr>", out);
		put_result(out, sets, c, set->result[i], &columns);
		fputs("</tr>\n", out);
		before = c;
	}
	fputs("</tbody>\n</table>\n</div>\n", out);
	put_failures(out, set);
}

/* "12/34", of counts that are whole; "-" where nothing was asked. */
static void put_answers(FILE *out, double answered, double asked)
{
	if (asked > 0)
		put_cell(out, "%.0f/%.0f", isnan(answered) ? 0 : answered, asked);
	else
		put_cell(out, "-");
}

static void put_globals(FILE *out, const json_t *globals)
{
	const char *name, *separator = "";
	json_t *value;

	fputs("<td class=\"l\">", out);
	json_object_foreach((json_t *)globals, name, value)
	{
		fputs(separator, out);
		html_text(out, name);
		fprintf(out, "=%.15g", json_number_value(value));
		separator = " ";
	}
	fputs("</td>", out);
}

static void put_decisions(FILE *out, const struct report_sets *sets,
			  const struct report_result *result)
{
	const struct report_decisions *d = &result->decisions;
	struct figure figure;

	put_cell(out, "%s", figure_count(&figure, result->nodes));
	put_manager(out, sets, result->manager);
	for (int i = 0; i < 3; i++)
		put_answers(out, d->answered[i], d->asked[i]);
	put_cell(out, "%.0f", d->asked[3] > 0 ? d->asked[3] : 0);
	put_cell(out, "%.0f", d->wrong > 0 ? d->wrong : 0);
	if (d->instructions > 0)
		put_cell(out, "%.1f", d->instructions);
	else
		put_cell(out, "-");
	put_globals(out, d->globals);
}

void table_decisions(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	static const char *const titles[] = {"nodes", "manager", "admit",	 "victim", "fault",
					     "moved", "wrong",	 "instructions", "globals"};
	bool any = false;

	for (size_t i = 0; i < set->nr_results; i++)
		any |= set->result[i]->decisions.known;
	if (!any)
		return;
	begin_table(out, "Decisions of policies",
		    "Decisions of policies: answers that were taken, of questions; instructions of "
		    "one on average.");
	for (size_t i = 0; i < ARRAY_LEN(titles); i++)
		put_title(out, titles[i]);
	fputs("</tr></thead>\n<tbody>\n", out);
	for (size_t i = 0; i < set->nr_results; i++) {
		if (!set->result[i]->decisions.known)
			continue;
		fputs("<tr>", out);
		put_decisions(out, sets, set->result[i]);
		fputs("</tr>\n", out);
	}
	fputs("</tbody>\n</table>\n</div>\n", out);
}

static void put_pair_rows(FILE *out, const struct report_sets *sets, const struct report_set *a,
			  const struct report_set *b)
{
	for (size_t i = 0; i < a->nr_cases; i++) {
		const struct report_case *c = &a->cases[i], *other = report_case_like(b, c);
		struct figure figure;

		for (size_t m = 0; other && m < sets->nr_managers; m++) {
			double x = report_epoch_s(c, m), y = report_epoch_s(other, m);

			if (isnan(x) || isnan(y))
				continue;
			fputs("<tr>", out);
			if (!report_is_replay(a))
				put_cell(out, "%s", figure_count(&figure, c->nodes));
			put_cell(out, "%s", figure_bytes(&figure, c->budget_bytes));
			put_manager(out, sets, sets->manager[m]);
			put_cell(out, "%s", figure_seconds(&figure, x));
			put_cell(out, "%s", figure_seconds(&figure, y));
			put_cell(out, "%s", figure_ratio(&figure, y / x));
			fputs("</tr>\n", out);
		}
	}
}

void table_pair(FILE *out, const struct report_sets *sets, const struct report_set *a,
		const struct report_set *b)
{
	bool kinds = a->measured != b->measured;

	begin_table(out, "Comparison", "Times of an epoch, and the second over the first.");
	if (!report_is_replay(a))
		put_title(out, "nodes");
	put_title(out, "GPU memory");
	put_title(out, "manager");
	put_title(out, kinds ? "simulated" : "first");
	put_title(out, kinds ? "measured" : "second");
	put_title(out, "ratio");
	fputs("</tr></thead>\n<tbody>\n", out);
	put_pair_rows(out, sets, a, b);
	fputs("</tbody>\n</table>\n</div>\n", out);
}
