/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See report_explain.h. The picture is a column of the table: its bars are short, belong to figures
 * that stand beside them, and are so many that gnuplot's would make a page too large.
 */
#include "cli/report_explain.h"

#include <math.h>
#include <stdlib.h>

#include "cli/report_canvas.h"
#include "cli/report_format.h"
#include "cli/report_plot.h"
#include "cli/report_room.h"
#include "src/base/util.h"

/* What a page has room for; what is left out is said. */
#define TABLES_MAX 8u
#define ROWS_MAX 48u

#define BAR_WIDTH 180.0 /* pixels */

/* ------------------------------------------------------------------ figures */

static void add(struct report_stage *sum, const struct report_stage *s)
{
	sum->brackets += s->brackets;
	sum->planned_s += s->planned_s;
	sum->measured_s += s->measured_s;
	sum->kernels_s += s->kernels_s;
	sum->waited_s += s->waited_s;
	sum->brought += s->brought;
	sum->ahead += s->ahead;
	sum->late += s->late;
	sum->out += s->out;
	sum->calls += s->calls;
	sum->calls_s += s->calls_s;
}

/* By what it is shown or left out. */
static double longest(const struct report_stage *s)
{
	return fmax(s->planned_s, s->measured_s);
}

static int compare_longest(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Stages that take longer than this are shown; those that take as long, until there are enough. */
static double threshold(const struct report_explained *e)
{
	double *length, least = -1;

	if (e->nr_stages <= ROWS_MAX)
		return -1;
	length = reallocarray(NULL, e->nr_stages, sizeof(*length));
	for (size_t i = 0; length && i < e->nr_stages; i++)
		length[i] = longest(&e->stage[i]);
	if (length) {
		qsort(length, e->nr_stages, sizeof(*length), compare_longest);
		least = length[ROWS_MAX];
	}
	free(length);
	return least;
}

/* ------------------------------------------------------------------ the table */

static void put_title(FILE *out, const char *title, const char *css_class)
{
	fprintf(out, "<th scope=\"col\"%s>%s</th>", css_class, title);
}

static void put_bar(FILE *out, double x, double y, double width, enum colour colour)
{
	if (width >= 0.05)
		fprintf(out,
			"<rect x=\"%.1f\" y=\"%g\" width=\"%.1f\" height=\"6\" "
			"fill=\"var(--%s)\"/>",
			x, y, width, report_palette[colour].name);
}

/* The planned time above the measured one, whose waits are behind its kernels. */
static void put_bars(FILE *out, const struct report_stage *s, double scale_s)
{
	const double scale = scale_s > 0 ? BAR_WIDTH / scale_s : 0;

	fprintf(out, "<td><svg width=\"%g\" height=\"14\" aria-hidden=\"true\">", BAR_WIDTH);
	put_bar(out, 0, 0, scale * s->planned_s, COLOUR_PART + REPORT_OTHER);
	put_bar(out, 0, 7, scale * s->kernels_s, COLOUR_PART + REPORT_COMPUTE);
	put_bar(out, scale * s->kernels_s, 7, scale * s->waited_s, COLOUR_PART + REPORT_DEMAND);
	fputs("</svg></td>", out);
}

static void put_seconds(FILE *out, double s)
{
	fprintf(out, "<td>%.3f</td>", s * 1e3);
}

static void put_blocks(FILE *out, double blocks)
{
	fprintf(out, "<td>%.1f</td>", blocks);
}

/* stage: its number, or what the row is of instead. scale_s 0: no bars. */
static void put_row(FILE *out, const char *stage, const struct report_stage *s, double scale_s)
{
	fprintf(out, "<tr><th scope=\"row\">%s</th><td class=\"l\">", stage);
	html_text(out, s->name ? s->name : "");
	fprintf(out, "</td><td>%.0f</td>", s->brackets);
	put_seconds(out, s->planned_s);
	put_seconds(out, s->measured_s);
	put_bars(out, s, scale_s);
	put_seconds(out, s->kernels_s);
	put_seconds(out, s->waited_s);
	put_blocks(out, s->brought);
	put_blocks(out, s->ahead);
	put_blocks(out, s->late);
	put_blocks(out, s->out);
	put_blocks(out, s->calls);
	put_seconds(out, s->calls_s);
	fputs("</tr>\n", out);
}

static void put_titles(FILE *out)
{
	static const char *const titles[] = {"brackets", "planned ms", "measured ms"};
	static const char *const behind[] = {"kernels ms", "waited ms", "brought", "ahead",
					     "late",	   "out",	"calls",   "calls ms"};

	put_title(out, "stage", "");
	put_title(out, "begins with", " class=\"l\"");
	for (size_t i = 0; i < ARRAY_LEN(titles); i++)
		put_title(out, titles[i], "");
	put_title(out, "planned, measured", " class=\"l\"");
	for (size_t i = 0; i < ARRAY_LEN(behind); i++)
		put_title(out, behind[i], "");
}

static void put_stages(FILE *out, const struct report_explained *e)
{
	const double least = threshold(e);
	struct report_stage sum = {0}, others = {0};
	size_t nr_shown = 0, nr_others = 0;
	char text[48];
	double scale_s = 0;

	for (size_t i = 0; i < e->nr_stages; i++)
		scale_s = fmax(scale_s, longest(&e->stage[i]));
	for (size_t i = 0; i < e->nr_stages; i++) {
		const struct report_stage *s = &e->stage[i];

		add(&sum, s);
		if (longest(s) > least || (longest(s) == least && nr_shown < ROWS_MAX)) {
			snprintf(text, sizeof(text), "%zu", i);
			put_row(out, text, s, scale_s);
			nr_shown++;
		} else {
			add(&others, s);
			nr_others++;
		}
	}
	if (nr_others) {
		snprintf(text, sizeof(text), "%zu shorter ones", nr_others);
		put_row(out, text, &others, 0);
	}
	put_row(out, "all", &sum, 0);
}

/* ------------------------------------------------------------------ what is said of it */

static void put_case(FILE *out, const struct report_result *r)
{
	struct figure figure;

	html_text(out, r->manager);
	fputs(", ", out);
	html_text(out, r->trace ? r->trace : r->workload);
	if (r->nodes > 0)
		fprintf(out, " of %s nodes", figure_count(&figure, r->nodes));
	if (r->graph) {
		fputs(", ", out);
		html_text(out, r->graph);
	}
	if (r->rows > 0 && r->columns > 0)
		fprintf(out, ", %.0f x %.0f", r->rows, r->columns);
	fputs(" on ", out);
	html_text(out, r->machine);
	fprintf(out, ", %s of GPU memory", figure_bytes(&figure, r->budget_bytes));
}

/* The sums, and where the device waits longest. */
static void put_short(FILE *out, const struct report_explained *e)
{
	struct report_stage sum = {0};
	struct figure planned, measured, waited, most;
	size_t at = 0;

	for (size_t i = 0; i < e->nr_stages; i++) {
		add(&sum, &e->stage[i]);
		at = e->stage[i].waited_s > e->stage[at].waited_s ? i : at;
	}
	fprintf(out, "<p>A period is planned to take %s", figure_seconds(&planned, sum.planned_s));
	if (sum.measured_s > 0)
		fprintf(out, ", and took %s", figure_seconds(&measured, sum.measured_s));
	else
		fputs("; none was measured", out);
	if (sum.measured_s > 0 && sum.waited_s > 0) {
		fprintf(out,
			", in %s of which the device had nothing to do, most of it in stage %zu",
			figure_seconds(&waited, sum.waited_s), at);
		if (e->stage[at].name) {
			fputs(", which begins with ", out);
			html_text(out, e->stage[at].name);
		}
		fprintf(out, " (%s)", figure_seconds(&most, e->stage[at].waited_s));
	}
	fprintf(out, ". Of blocks that were to come ahead of use, %.0f were late.%s</p>\n",
		sum.late,
		e->suspended ? " The program did something else when it ended than this plan has."
			     : "");
}

static void put_device(FILE *out, const struct report_result *r, const struct report_explained *e,
		       size_t number)
{
	fprintf(out, "<h3 id=\"explain-%zu\">", number);
	put_case(out, r);
	if (r->nr_explained > 1) {
		fputs(": ", out);
		html_text(out, e->device);
	}
	fputs("</h3>\n", out);
	if (e->why || !e->nr_stages) {
		fputs("<p>", out);
		html_text(out, e->why ? e->why : "a plan without stages");
		fputs("</p>\n", out);
		return;
	}
	put_short(out, e);
	report_room_put(out, e, number);
	fputs("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"Planned and "
	      "measured\">\n<table>\n<caption>Planned and measured, stage by stage</caption>\n"
	      "<thead><tr>",
	      out);
	put_titles(out);
	fputs("</tr></thead>\n<tbody>\n", out);
	put_stages(out, e);
	fputs("</tbody>\n</table>\n</div>\n", out);
}

static void put_swatch(FILE *out, enum colour colour, const char *what)
{
	fprintf(out, "<span class=\"swatch\" style=\"background:var(--%s)\"></span>%s",
		report_palette[colour].name, what);
}

static void put_about(FILE *out)
{
	fputs("<h2 id=\"explain\">Planned and measured</h2>\n"
	      "<p>What the plan says of each stage of a period, a bracket or a loop of alike ones, "
	      "and beside it what was measured: means of the periods that were timed. Brought: "
	      "blocks that brackets waited for. Ahead: those that came before their bracket began. "
	      "Late: those planned to, which were not there when it could have begun. Out: blocks "
	      "that were copied away. Calls: mapping calls, and the host\xe2\x80\x99s time "
	      "in them.</p>\n<p>The upper bar is ",
	      out);
	put_swatch(out, COLOUR_PART + REPORT_OTHER, "planned, the lower one is measured: ");
	put_swatch(out, COLOUR_PART + REPORT_COMPUTE, "kernels and ");
	put_swatch(out, COLOUR_PART + REPORT_DEMAND, "waits.</p>\n");
}

/* Devices of a list's results, which have numbers from *number on. */
static void put_results(FILE *out, const struct report_result *results, size_t nr, size_t *number)
{
	for (size_t i = 0; i < nr; i++)
		for (size_t d = 0; d < results[i].nr_explained; d++) {
			if (!*number)
				put_about(out);
			if (++*number <= TABLES_MAX)
				put_device(out, &results[i], &results[i].explained[d], *number);
		}
}

void report_explain_put(FILE *out, const struct report_results *results)
{
	size_t number = 0;

	put_results(out, results->result, results->nr, &number);
	put_results(out, results->touch.result, results->touch.nr, &number);
	put_results(out, results->graph.result, results->graph.nr, &number);
	put_results(out, results->solver.result, results->solver.nr, &number);
	if (number > TABLES_MAX)
		fprintf(out,
			"<p>%zu more are left out: give fewer results for a page that has them.</p>"
			"\n",
			number - TABLES_MAX);
}
