/* SPDX-License-Identifier: Apache-2.0 */
/* See report_touch.h. Results are shown in the order in which they came. */
#include "cli/report_touch.h"

#include <math.h>
#include <string.h>

#include "cli/report_axes.h"
#include "cli/report_format.h"
#include "cli/report_plot.h"
#include "cli/report_sets.h"
#include "cli/size.h"

#define CASE_BYTES 192
#define ROW_HEIGHT 17.0
#define LABEL_WIDTH 112.0
#define FIGURE_WIDTH 76.0
#define CHART_ROWS 120u /* more are left to the table */

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
	       same_number(a->touched_pages, b->touched_pages) &&
	       report_same_budget(a->budget_bytes, b->budget_bytes);
}

static const char *case_text(const struct report_result *r, char *text, size_t bytes)
{
	char table[SIZE_TEXT_BYTES], page[SIZE_TEXT_BYTES], budget[SIZE_TEXT_BYTES] = "not known";
	char part[40] = "";

	if (r->touched_pages * r->page_bytes < r->bytes)
		snprintf(part, sizeof(part), ", %.3g %% of it",
			 100 * r->touched_pages * r->page_bytes / r->bytes);
	if (!isnan(r->budget_bytes))
		size_format((uint64_t)r->budget_bytes, budget, sizeof(budget));
	snprintf(text, bytes, "%s, %s%s%s%s%s%s: %s in pages of %s, budget %s, on %.40s",
		 r->workload, r->pattern ? r->pattern : "", r->access ? " " : "",
		 r->access ? r->access : "", r->elements ? ", word by word" : "",
		 r->warm ? ", warm" : "", part,
		 size_format((uint64_t)r->bytes, table, sizeof(table)),
		 size_format((uint64_t)r->page_bytes, page, sizeof(page)), budget, r->machine);
	return text;
}

bool touch_has_chart(const struct report_results *results)
{
	for (size_t i = 0; i < results->nr_touch; i++)
		if (results->touch[i].useful_bytes_per_s > 0)
			return true;
	return false;
}

/* ------------------------------------------------------------------ chart */

static double chart_x(const struct report_results *results, double left, double width, double rate)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < results->nr_touch; i++) {
		least = fmin(least, results->touch[i].useful_bytes_per_s);
		most = fmax(most, results->touch[i].useful_bytes_per_s);
	}
	least /= 2;
	return left + width * log(rate / least) / log(most / least);
}

static void draw_row(struct canvas *canvas, const struct report_results *results,
		     const struct report_result *r, double y)
{
	enum colour colour = (enum colour)(COLOUR_MANAGER + report_manager_slot(r->manager));
	double width = canvas->width - LABEL_WIDTH - FIGURE_WIDTH, x = LABEL_WIDTH;
	char text[48];

	canvas_text(canvas, LABEL_WIDTH - 6, y, TEXT_RIGHT, SMALL_FONT, COLOUR_INK, r->manager);
	if (!(r->useful_bytes_per_s > 0)) {
		canvas_text(canvas, x, y, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
			    report_status_word(r->status));
		return;
	}
	x = chart_x(results, LABEL_WIDTH, width, r->useful_bytes_per_s);
	canvas_line(canvas, LABEL_WIDTH, y, x, y, COLOUR_GRID, 1);
	canvas_mark(canvas, x, y, MARK_DISC, colour);
	snprintf(text, sizeof(text), "%.3g GB/s", r->useful_bytes_per_s / 1e9);
	canvas_text(canvas, x + 8, y, TEXT_LEFT, SMALL_FONT, COLOUR_INK, text);
}

void touch_chart(struct canvas *canvas, const struct report_results *results)
{
	double y = ROW_HEIGHT / 2;

	for (size_t i = 0; i < results->nr_touch && i < CHART_ROWS; i++) {
		const struct report_result *r = &results->touch[i];
		char text[CASE_BYTES];

		if (!i || !same_case(r, r - 1)) {
			y += i ? ROW_HEIGHT / 2 : 0;
			canvas_text(canvas, 0, y, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
				    case_text(r, text, sizeof(text)));
			y += ROW_HEIGHT;
		}
		draw_row(canvas, results, r, y);
		y += ROW_HEIGHT;
	}
	canvas->height = y;
}

/* ------------------------------------------------------------------ text, table */

void touch_text(FILE *out, const struct report_results *results)
{
	for (size_t i = 0; i < results->nr_touch; i++) {
		const struct report_result *r = &results->touch[i];
		char text[CASE_BYTES];

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

static void put_number(FILE *out, const char *format, double value)
{
	fputs("<td>", out);
	if (isnan(value))
		fputs("-", out);
	else
		fprintf(out, format, value);
	fputs("</td>", out);
}

static void put_row(FILE *out, const struct report_result *r)
{
	static const char *const checks[] = {"not compared", "wrong", "right"};
	char text[CASE_BYTES];

	fputs("<tr><td class=\"l\">", out);
	html_text(out, case_text(r, text, sizeof(text)));
	fprintf(out,
		"</td><th scope=\"row\" class=\"l\"><span class=\"swatch\" style=\"background:"
		"var(--%s)\"></span>",
		report_palette[COLOUR_MANAGER + report_manager_slot(r->manager)].name);
	html_text(out, r->manager);
	fputs("</th>", out);
	if (r->status == RESULT_OK)
		put_number(out, "%.4g", r->epoch_s);
	else
		fprintf(out, "<td>%s</td>", report_status_word(r->status));
	put_number(out, "%.4g", r->useful_bytes_per_s / 1e9);
	put_number(out, "%.4g", r->updates_per_s / 1e6);
	put_number(out, "%.0f", r->pages_in);
	put_number(out, "%.0f", r->pages_out);
	put_number(out, "%.0f", r->pages_in_place);
	put_number(out, "%.2f", r->epoch_s / r->bound_s);
	fprintf(out, "<td>%s</td></tr>\n", checks[r->passed + 1]);
}

void touch_table(FILE *out, const struct report_results *results)
{
	static const char *const titles[] = {"seconds a pass",	"GB/s",	   "M updates/s",
					     "pages in",	"out",	   "in place",
					     "times the bound", "contents"};

	fputs("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"Results of pagein "
	      "and gups\">\n<table>\n<caption>Results of pagein and gups</caption>\n<thead><tr>"
	      "<th scope=\"col\" class=\"l\">case</th><th scope=\"col\" class=\"l\">manager</th>",
	      out);
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		fprintf(out, "<th scope=\"col\">%s</th>", titles[i]);
	fputs("</tr></thead>\n<tbody>\n", out);
	for (size_t i = 0; i < results->nr_touch; i++)
		put_row(out, &results->touch[i]);
	fputs("</tbody>\n</table>\n</div>\n", out);
}
