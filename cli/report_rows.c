/* SPDX-License-Identifier: Apache-2.0 */
/* See report_rows.h. */
#include "cli/report_rows.h"

#include <math.h>

#include "cli/report_axes.h"
#include "cli/report_plot.h"
#include "cli/report_sets.h"

#define ROW_HEIGHT 17.0
#define LABEL_WIDTH 136.0 /* of the longest name of a manager, and a gap */
#define FIGURE_WIDTH 90.0
#define CHART_ROWS 120u /* more are left to the table */

bool rows_have_chart(const struct report_rows *rows)
{
	for (size_t i = 0; i < rows->list->nr; i++)
		if (rows->value(&rows->list->result[i]) > 0)
			return true;
	return false;
}

/* ------------------------------------------------------------------ chart */

static double chart_x(const struct report_rows *rows, double left, double width, double value)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < rows->list->nr; i++) {
		least = fmin(least, rows->value(&rows->list->result[i]));
		most = fmax(most, rows->value(&rows->list->result[i]));
	}
	least /= 2;
	return left + width * log(value / least) / log(most / least);
}

static void draw_row(struct canvas *canvas, const struct report_rows *rows,
		     const struct report_result *r, double y)
{
	enum colour colour = (enum colour)(COLOUR_MANAGER + report_manager_slot(r->manager));
	double width = canvas->width - LABEL_WIDTH - FIGURE_WIDTH, x = LABEL_WIDTH;
	double value = rows->value(r);
	char text[48];

	canvas_text(canvas, LABEL_WIDTH - 6, y, TEXT_RIGHT, SMALL_FONT, COLOUR_INK, r->manager);
	if (!(value > 0)) {
		canvas_text(canvas, x, y, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
			    report_status_word(r->status));
		return;
	}
	x = chart_x(rows, LABEL_WIDTH, width, value);
	canvas_line(canvas, LABEL_WIDTH, y, x, y, COLOUR_GRID, 1);
	canvas_mark(canvas, x, y, MARK_DISC, colour);
	/* Three digits, and no exponent, which nobody expects here. */
	snprintf(text, sizeof(text), value < 999.5 ? "%.3g %s" : "%.0f %s", value, rows->unit);
	canvas_text(canvas, x + 8, y, TEXT_LEFT, SMALL_FONT, COLOUR_INK, text);
}

void rows_chart(struct canvas *canvas, const struct report_rows *rows)
{
	double y = ROW_HEIGHT / 2;

	for (size_t i = 0; i < rows->list->nr && i < CHART_ROWS; i++) {
		const struct report_result *r = &rows->list->result[i];
		char text[ROWS_CASE_BYTES];

		if (!i || !rows->same_case(r, r - 1)) {
			y += i ? ROW_HEIGHT / 2 : 0;
			y += canvas_paragraph(canvas, 0, y, canvas->width, SMALL_FONT, COLOUR_MUTED,
					      rows->case_text(r, text, sizeof(text)));
			y += ROW_HEIGHT;
		}
		draw_row(canvas, rows, r, y);
		y += ROW_HEIGHT;
	}
	canvas->height = y;
}

/* ------------------------------------------------------------------ table */

void rows_table_begin(FILE *out, const char *caption, const char *const *titles, size_t nr)
{
	fprintf(out,
		"<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n"
		"<caption>%s</caption>\n<thead><tr><th scope=\"col\" class=\"l\">case</th>"
		"<th scope=\"col\" class=\"l\">manager</th><th scope=\"col\">seconds a pass</th>",
		caption, caption);
	for (size_t i = 0; i < nr; i++)
		fprintf(out, "<th scope=\"col\">%s</th>", titles[i]);
	fputs("</tr></thead>\n<tbody>\n", out);
}

void rows_number(FILE *out, const char *format, double value)
{
	fputs("<td>", out);
	if (isnan(value))
		fputs("-", out);
	else
		fprintf(out, format, value);
	fputs("</td>", out);
}

void rows_row_begin(FILE *out, const struct report_rows *rows, const struct report_result *r)
{
	char text[ROWS_CASE_BYTES];

	fputs("<tr><td class=\"l\">", out);
	html_text(out, rows->case_text(r, text, sizeof(text)));
	fprintf(out,
		"</td><th scope=\"row\" class=\"l\"><span class=\"swatch\" style=\"background:"
		"var(--%s)\"></span>",
		report_palette[COLOUR_MANAGER + report_manager_slot(r->manager)].name);
	html_text(out, r->manager);
	fputs("</th>", out);
	if (r->status == RESULT_OK)
		rows_number(out, "%.4g", r->epoch_s);
	else
		fprintf(out, "<td>%s</td>", report_status_word(r->status));
}

void rows_row_end(FILE *out, const struct report_result *r)
{
	rows_number(out, "%.0f", r->pages_in);
	rows_number(out, "%.0f", r->pages_out);
	rows_number(out, "%.0f", r->pages_in_place);
	rows_number(out, "%.2f", r->epoch_s / r->bound_s);
	rows_check(out, r);
}

void rows_check(FILE *out, const struct report_result *r)
{
	static const char *const checks[] = {"not compared", "wrong", "right"};

	fprintf(out, "<td>%s</td></tr>\n", checks[r->passed + 1]);
}

void rows_table_end(FILE *out)
{
	fputs("</tbody>\n</table>\n</div>\n", out);
}
