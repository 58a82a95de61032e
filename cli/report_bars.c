/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charts of bars; see report_charts.h. Times of one case may be a hundred times apart, and parts of
 * a short bar must be readable beside a long one. So every bar is there twice: as seconds, on one
 * scale a case, and as shares of its own time. Bytes have a scale for each manager.
 */
#include <math.h>
#include <string.h>

#include "cli/report_axes.h"
#include "cli/report_charts.h"
#include "cli/report_format.h"

#define HEADING_HEIGHT 26.0
#define CASE_GAP 14.0
#define NAME_CHARS 22	/* of managers and links above bars */
#define COLUMN_CHARS 18 /* of managers beside them */
#define NAME_BYTES (4 * NAME_CHARS + 8)

static bool is_narrow(const struct canvas *canvas)
{
	return canvas->width < CHART_WIDE;
}

const char *report_part_name(enum report_part part)
{
	static const char *const names[REPORT_PART_NR] = {
		"computing",	    "use in place", "allocation", "first touches",
		"copies on demand", "eviction",	    "other"};

	return names[part];
}

/* "12M nodes, 1.61 times the GPU's memory"; of one size, "31.6 GB of GPU memory, needs ...". */
static void write_case(char *text, size_t bytes, const struct report_set *set,
		       const struct report_case *c)
{
	bool one_size = report_one_size(set);
	struct figure what, over;

	if (one_size)
		figure_bytes(&what, c->budget_bytes);
	else
		figure_count(&what, c->nodes);
	if (isnan(c->over))
		snprintf(text, bytes, "%s %s", what.text, one_size ? "of GPU memory" : "nodes");
	else
		snprintf(text, bytes,
			 one_size ? "%s of GPU memory, needs %s times that"
				  : "%s nodes, %s times the GPU\xe2\x80\x99s memory",
			 what.text, figure_ratio(&over, c->over));
}

/* ------------------------------------------------------------------ time */

bool chart_has_parts(const struct report_sets *sets, const struct report_set *set)
{
	for (size_t i = 0; i < set->nr_cases; i++)
		if (report_fastest(sets, &set->cases[i], SIZE_MAX) != SIZE_MAX)
			return true;
	return false;
}

/* Where the columns of a row are, beside each other or below. */
struct bar_layout {
	double row_height, name_width;
	double seconds_x, seconds_y, seconds_width, seconds_height;
	double share_x, share_y, share_width, share_height;
	double total_x;
	enum text_align total_align; /* right: above the bars */
};

static struct bar_layout layout_of(const struct canvas *canvas, bool parts)
{
	if (is_narrow(canvas))
		return (struct bar_layout){
			.row_height = parts ? 42 : 32,
			.seconds_y = 18,
			.seconds_width = canvas->width,
			.seconds_height = parts ? 4 : 9,
			.share_y = 25,
			.share_width = canvas->width,
			.share_height = 10,
			.total_x = canvas->width,
			.total_align = TEXT_RIGHT,
		};
	return (struct bar_layout){
		.row_height = 21,
		.name_width = 138,
		.seconds_x = 140,
		.seconds_y = 3,
		.seconds_width = parts ? 230 : 540,
		.seconds_height = 14,
		.share_x = 450,
		.share_y = 3,
		.share_width = 310,
		.share_height = 14,
		.total_align = TEXT_LEFT,
	};
}

/* One result's parts, in a bar of a width. */
static void draw_parts(struct canvas *canvas, double x, double y, double width, double height,
		       const struct report_result *result)
{
	for (int part = 0; part < REPORT_PART_NR; part++) {
		double w = width * result->time_s[part] / result->parts_s;

		if (w > 0)
			canvas_box(canvas, x, y, w, height, (enum colour)(COLOUR_PART + part));
		x += w;
	}
}

static void draw_row(struct canvas *canvas, const struct report_sets *sets,
		     const struct report_case *c, size_t m, double scale_s,
		     const struct bar_layout *at, double y)
{
	const struct report_result *result = c->cell[m];
	double s = report_epoch_s(c, m), width = at->seconds_width * s / scale_s;
	double bound_x = at->seconds_x + at->seconds_width * c->bound_s / scale_s;
	double text_x = at->seconds_x + 6, middle = y + (is_narrow(canvas) ? 9 : 10);
	char name[NAME_BYTES];
	struct figure total;

	canvas_text(canvas, at->name_width, middle, at->name_width > 0 ? TEXT_RIGHT : TEXT_LEFT,
		    SMALL_FONT, COLOUR_INK,
		    text_cut(sets->manager[m], at->name_width > 0 ? COLUMN_CHARS : NAME_CHARS, name,
			     sizeof(name)));
	if (!isnan(s)) {
		text_x = at->seconds_x + width + 6;
		if (bound_x <= at->seconds_x + at->seconds_width && !is_narrow(canvas)) {
			canvas_line(canvas, bound_x, y, bound_x, y + at->row_height - 1, COLOUR_INK,
				    1.5);
			text_x = fmax(text_x, bound_x + 6);
		}
	}
	canvas_text(canvas, at->total_align == TEXT_RIGHT ? at->total_x : text_x, middle,
		    at->total_align, SMALL_FONT, isnan(s) ? COLOUR_MUTED : COLOUR_INK,
		    !result    ? "not run"
		    : isnan(s) ? report_status_word(result->status)
			       : figure_seconds(&total, s));
	if (!result || isnan(s))
		return;
	if (isnan(result->parts_s)) {
		canvas_box(canvas, at->seconds_x, y + at->seconds_y, width, at->seconds_height,
			   (enum colour)(COLOUR_MANAGER + sets->slot[m]));
		return;
	}
	draw_parts(canvas, at->seconds_x, y + at->seconds_y, width, at->seconds_height, result);
	draw_parts(canvas, at->share_x, y + at->share_y, at->share_width, at->share_height, result);
}

/* A case's rows; returns where the next begins. */
static double draw_case(struct canvas *canvas, const struct report_sets *sets,
			const struct report_set *set, const struct report_case *c,
			const struct bar_layout *at, double y)
{
	double scale_s = 0;
	char text[80];

	write_case(text, sizeof(text), set, c);
	y += canvas_paragraph(canvas, 0, y + 10, canvas->width, CANVAS_FONT, COLOUR_INK, text);
	y += HEADING_HEIGHT;
	for (size_t m = 0; m < sets->nr_managers; m++)
		scale_s = fmax(scale_s, report_epoch_s(c, m));
	for (size_t m = 0; m < sets->nr_managers; m++) {
		if (!report_was_run(set, m))
			continue;
		draw_row(canvas, sets, c, m, scale_s, at, y);
		/* Where nothing is drawn below the name, nothing is left free. */
		y += is_narrow(canvas) && isnan(report_epoch_s(c, m)) ? 20 : at->row_height;
	}
	return y + CASE_GAP;
}

/* Parts that any of the results has, and the bound's line. */
static double parts_legend(struct canvas *canvas, const struct report_sets *sets,
			   const struct report_set *set, const size_t *index, size_t nr,
			   bool *parts)
{
	struct legend_entry entries[REPORT_PART_NR + 1];
	double sum[REPORT_PART_NR] = {0};
	bool bound = false;
	size_t nr_entries = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct report_case *c = &set->cases[index[i]];

		bound |= c->bound_s > 0;
		for (size_t m = 0; m < sets->nr_managers; m++)
			for (int part = 0; part < REPORT_PART_NR; part++)
				if (c->cell[m] && !isnan(c->cell[m]->parts_s))
					sum[part] += c->cell[m]->time_s[part];
	}
	*parts = false;
	for (int part = 0; part < REPORT_PART_NR; part++) {
		*parts |= sum[part] > 0;
		if (sum[part] > 0)
			entries[nr_entries++] =
				(struct legend_entry){report_part_name((enum report_part)part),
						      (enum colour)(COLOUR_PART + part), 0};
	}
	if (bound && !is_narrow(canvas))
		entries[nr_entries++] =
			(struct legend_entry){"lower bound, upright", COLOUR_INK, -1};
	return legend_draw(canvas, 0, entries, nr_entries);
}

void chart_parts(struct canvas *canvas, const struct report_sets *sets,
		 const struct report_set *set)
{
	size_t index[CHART_CASES], nr = report_cases_pick(sets, set, index, CHART_CASES);
	struct bar_layout at;
	bool parts;
	double y;

	y = parts_legend(canvas, sets, set, index, nr, &parts) + 10;
	at = layout_of(canvas, parts);
	if (parts && !is_narrow(canvas)) {
		canvas_text(canvas, at.seconds_x, y + 10, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
			    "seconds an epoch");
		canvas_text(canvas, at.share_x, y + 10, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
			    "shares of it");
		y += 20;
	}
	for (size_t i = 0; i < nr; i++)
		y = draw_case(canvas, sets, set, &set->cases[index[i]], &at, y);
	canvas->height = y;
}

/* ------------------------------------------------------------------ bytes */

#define PANEL_WIDTH 360.0
#define LINK_WIDTH 128.0
#define BAR_WIDTH 168.0
#define BAR_STEP 17.0

static enum colour cause_colour(enum weir_cause cause)
{
	static const enum colour colours[WEIR_CAUSE_NR] = {
		[WEIR_CAUSE_DEMAND] = COLOUR_PART + REPORT_DEMAND,
		[WEIR_CAUSE_PREFETCH] = COLOUR_PREFETCH,
		[WEIR_CAUSE_EVICTION] = COLOUR_PART + REPORT_EVICTION,
		[WEIR_CAUSE_WRITEBACK] = COLOUR_WRITEBACK,
		[WEIR_CAUSE_INPLACE] = COLOUR_PART + REPORT_IN_PLACE,
	};

	return colours[cause];
}

/* All causes; what is not known counts as nothing, unless nothing is known. */
static double flow_total(const struct report_result *result, const struct report_flow *flow)
{
	double sum = NAN;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++) {
		double bytes = report_flow_bytes(result, flow, (enum weir_cause)cause);

		if (!isnan(bytes))
			sum = isnan(sum) ? bytes : sum + bytes;
	}
	return sum;
}

double report_traffic(const struct report_result *result, enum weir_cause cause)
{
	double sum = NAN;

	for (size_t i = 0; i < result->nr_flows; i++) {
		double bytes = cause == WEIR_CAUSE_NR
				       ? flow_total(result, &result->flow[i])
				       : report_flow_bytes(result, &result->flow[i], cause);

		if (!isnan(bytes))
			sum = isnan(sum) ? bytes : sum + bytes;
	}
	return sum;
}

/* Of the cases that are drawn: the longest bar of a manager. */
static double longest(const struct report_set *set, const size_t *index, size_t nr, size_t m)
{
	double most = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct report_result *result = set->cases[index[i]].cell[m];

		for (size_t f = 0; result && result->status == RESULT_OK && f < result->nr_flows;
		     f++)
			most = fmax(most, flow_total(result, &result->flow[f]));
	}
	return most;
}

bool chart_has_traffic(const struct report_sets *sets, const struct report_set *set)
{
	size_t index[CHART_CASES], nr = report_cases_pick(sets, set, index, CHART_CASES);

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (longest(set, index, nr, m) > 0)
			return true;
	return false;
}

/* One link, one way. */
static void draw_flow(struct canvas *canvas, double x, double y, const struct report_result *result,
		      const struct report_flow *flow, double scale)
{
	const char *arrow = strstr(flow->name, "->");
	double at = x + LINK_WIDTH;
	char name[NAME_BYTES], whole[2 * NAME_BYTES];
	struct figure total;

	if (arrow)
		snprintf(whole, sizeof(whole), "%.*s \xe2\x86\x92 %s",
			 (int)(arrow - flow->name < 80 ? arrow - flow->name : 80), flow->name,
			 arrow + 2);
	else
		snprintf(whole, sizeof(whole), "%s", flow->name);
	canvas_text(canvas, at - 6, y, TEXT_RIGHT, SMALL_FONT, COLOUR_MUTED,
		    text_cut(whole, 13, name, sizeof(name)));
	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++) {
		double w =
			BAR_WIDTH * report_flow_bytes(result, flow, (enum weir_cause)cause) / scale;

		if (!(w > 0))
			continue;
		canvas_box(canvas, at, y - 6, w, 12, cause_colour((enum weir_cause)cause));
		at += w;
	}
	canvas_text(canvas, at + 5, y, TEXT_LEFT, SMALL_FONT, COLOUR_INK,
		    figure_bytes(&total, flow_total(result, flow)));
}

/* A manager's panel; returns its height. */
static double draw_panel(struct canvas *canvas, const struct report_sets *sets,
			 const struct report_set *set, const size_t *index, size_t nr, size_t m,
			 double x, double y)
{
	double scale = longest(set, index, nr, m), from = y;
	struct figure figure;
	char name[NAME_BYTES], whole[64];

	canvas_text(canvas, x, y + 10, TEXT_LEFT, CANVAS_FONT, COLOUR_INK,
		    text_cut(sets->manager[m], NAME_CHARS, name, sizeof(name)));
	snprintf(whole, sizeof(whole), "a full bar is %s", figure_bytes(&figure, scale));
	canvas_text(canvas, x + LINK_WIDTH + BAR_WIDTH, y + 10, TEXT_RIGHT, SMALL_FONT,
		    COLOUR_MUTED, whole);
	canvas_line(canvas, x + LINK_WIDTH, y + 20, x + LINK_WIDTH + BAR_WIDTH, y + 20, COLOUR_GRID,
		    1);
	y += HEADING_HEIGHT;
	for (size_t i = 0; i < nr; i++) {
		const struct report_case *c = &set->cases[index[i]];

		if (!c->cell[m] || !(report_traffic(c->cell[m], WEIR_CAUSE_NR) > 0) ||
		    c->cell[m]->status != RESULT_OK)
			continue;
		if (report_one_size(set)) {
			canvas_text(canvas, x, y + 6, TEXT_LEFT, SMALL_FONT, COLOUR_INK,
				    figure_bytes(&figure, c->budget_bytes));
			y += BAR_STEP;
		} else {
			canvas_text(canvas, x, y + 6, TEXT_LEFT, SMALL_FONT, COLOUR_INK,
				    figure_count(&figure, c->nodes));
		}
		for (size_t f = 0; f < c->cell[m]->nr_flows; f++) {
			draw_flow(canvas, x, y + 6, c->cell[m], &c->cell[m]->flow[f], scale);
			y += BAR_STEP;
		}
		y += 5;
	}
	return y + CASE_GAP - from;
}

static double traffic_legend(struct canvas *canvas, const struct report_sets *sets,
			     const struct report_set *set, const size_t *index, size_t nr)
{
	static const char *const names[WEIR_CAUSE_NR] = {
		[WEIR_CAUSE_DEMAND] = "copied on demand",
		[WEIR_CAUSE_PREFETCH] = "prefetched",
		[WEIR_CAUSE_EVICTION] = "evicted",
		[WEIR_CAUSE_WRITEBACK] = "written back early",
		[WEIR_CAUSE_INPLACE] = "used in place",
	};
	struct legend_entry entries[WEIR_CAUSE_NR];
	size_t nr_entries = 0;

	for (int cause = 0; cause < WEIR_CAUSE_NR; cause++) {
		bool seen = false;

		for (size_t i = 0; i < nr * sets->nr_managers; i++) {
			const struct report_result *result = set->cases[index[i % nr]].cell[i / nr];

			seen |= result && report_traffic(result, (enum weir_cause)cause) > 0;
		}
		if (seen)
			entries[nr_entries++] = (struct legend_entry){
				names[cause], cause_colour((enum weir_cause)cause), 0};
	}
	return legend_draw(canvas, 0, entries, nr_entries);
}

void chart_traffic(struct canvas *canvas, const struct report_sets *sets,
		   const struct report_set *set)
{
	size_t index[CHART_CASES], nr = report_cases_pick(sets, set, index, CHART_CASES);
	double y[2], top = traffic_legend(canvas, sets, set, index, nr) + 12;
	size_t columns = is_narrow(canvas) ? 1 : 2;

	y[0] = y[1] = top;
	for (size_t m = 0; m < sets->nr_managers; m++) {
		/* Into the shorter column. */
		size_t column = columns == 2 && y[1] < y[0];

		if (longest(set, index, nr, m) > 0)
			y[column] += draw_panel(canvas, sets, set, index, nr, m,
						(double)column * (canvas->width - PANEL_WIDTH),
						y[column]);
	}
	canvas->height = fmax(y[0], y[1]);
}
