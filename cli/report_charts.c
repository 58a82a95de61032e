/* SPDX-License-Identifier: Apache-2.0 */
/* Charts with axes; see report_charts.h. Those of bars are in report_bars.c. */
#include "cli/report_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_axes.h"
#include "cli/report_format.h"

#define LABEL_WIDTH 130.0 /* beside the curves, on wide screens; at least */
#define LABEL_INDENT 12.0
#define LABEL_CHARS 24
#define LABEL_HEIGHT 15.0

/* By slot of a manager. */
static const int marks[REPORT_SLOTS_MAX] = {5, 13, 9, 11, 10, 15, 14, 7, 4, 6, 8, 12, 1, 2, 3, 15};

static enum colour manager_colour(const struct report_sets *sets, size_t manager)
{
	return (enum colour)(COLOUR_MANAGER + sets->slot[manager]);
}

static bool is_narrow(const struct canvas *canvas)
{
	return canvas->width < CHART_WIDE;
}

/* ------------------------------------------------------------------ epoch times */

/* Where a case stands. */
static double case_x(const struct report_set *set, const struct report_case *c)
{
	if (report_is_replay(set))
		return c->budget_bytes / 1e9;
	return set->by_nodes ? c->nodes / 1e6 : c->over;
}

bool chart_has_epochs(const struct report_sets *sets, const struct report_set *set)
{
	/* More curves could not be told apart. */
	if (report_nr_run(sets, set) > REPORT_SLOTS_MAX)
		return false;
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (report_nr_times(set, m) > 1)
			return true;
	return false;
}

static void fit_area(const struct report_sets *sets, const struct report_set *set,
		     struct area *area)
{
	double least = INFINITY, most = 0;

	area->x0 = area->x1 = 0;
	for (size_t i = 0; i < set->nr_cases; i++) {
		const struct report_case *c = &set->cases[i];

		area->x1 = fmax(area->x1, 1.03 * case_x(set, c));
		least = fmin(least, c->bound_s);
		most = fmax(most, c->bound_s);
		for (size_t m = 0; m < sets->nr_managers; m++) {
			least = fmin(least, report_epoch_s(c, m));
			most = fmax(most, report_epoch_s(c, m));
		}
	}
	area->y0 = least / 1.4;
	area->y1 = most * 1.4;
	area->log_y = true;
}

static double bound_of(const struct report_case *c)
{
	return c->bound_s;
}

/* What it would take in memory is of interest where that is less than there is. */
static double in_memory_of(const struct report_case *c)
{
	return c->over > 1 ? c->in_memory_s : NAN;
}

static void draw_line_of(struct canvas *canvas, const struct report_set *set,
			 const struct area *area, double (*value)(const struct report_case *),
			 enum colour colour, int dash)
{
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_cases; i++)
		nr += value(&set->cases[i]) >= area->y0;
	if (!nr)
		return;
	canvas_curve(canvas, colour, 1.5, dash, 0);
	for (size_t i = 0; i < set->nr_cases; i++) {
		double y = value(&set->cases[i]);

		if (y >= area->y0)
			canvas_point(canvas, area_x(area, case_x(set, &set->cases[i])),
				     area_y(area, y));
	}
	canvas_curve_end(canvas);
}

/* A cross where the first case is that failed, as high as the last one that did not: it has no
 * time. */
static void draw_failure(struct canvas *canvas, const struct area *area, double last_x,
			 double failure_x, double s, enum colour colour)
{
	double y = area_y(area, s);

	canvas_curve(canvas, colour, 1, 3, 0);
	canvas_point(canvas, area_x(area, last_x), y);
	canvas_point(canvas, area_x(area, failure_x), y);
	canvas_curve_end(canvas);
	canvas_mark(canvas, area_x(area, failure_x), y, MARK_CROSS, colour);
}

static void draw_manager(struct canvas *canvas, const struct report_sets *sets,
			 const struct report_set *set, const struct area *area, size_t m)
{
	enum colour colour = manager_colour(sets, m);
	const struct report_case *last = report_last_case(set, m);
	const struct report_case *failure = report_first_failure(set, m);

	if (!last)
		return;
	canvas_curve(canvas, colour, 2, 1, marks[sets->slot[m]]);
	for (const struct report_case *c = set->cases; c <= last; c++) {
		double s = report_epoch_s(c, m);

		/* What failed in between leaves a gap. */
		canvas_point(canvas, isnan(s) ? NAN : area_x(area, case_x(set, c)),
			     isnan(s) ? NAN : area_y(area, s));
	}
	canvas_curve_end(canvas);
	if (failure)
		draw_failure(canvas, area, case_x(set, last), case_x(set, failure),
			     report_epoch_s(last, m), colour);
}

struct end_label {
	const char *text;
	double y;
};

static int compare_labels(const void *a, const void *b)
{
	double x = ((const struct end_label *)a)->y, y = ((const struct end_label *)b)->y;

	return (x > y) - (x < y);
}

/* The case that is farthest to the right. */
static const struct report_case *right_case(const struct report_set *set)
{
	return report_is_replay(set) ? set->cases : &set->cases[set->nr_cases - 1];
}

/* Names beside the curves that reach the right, pushed apart where they would meet. */
static void label_curves(struct canvas *canvas, const struct report_sets *sets,
			 const struct report_set *set, const struct area *area)
{
	const struct report_case *last = right_case(set);
	struct end_label labels[REPORT_MANAGERS_MAX + 1];
	size_t nr = 0;

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (!isnan(report_epoch_s(last, m)))
			labels[nr++] = (struct end_label){sets->manager[m],
							  area_y(area, report_epoch_s(last, m))};
	if (last->bound_s > 0)
		labels[nr++] = (struct end_label){"lower bound", area_y(area, last->bound_s)};
	qsort(labels, nr, sizeof(*labels), compare_labels);
	for (size_t i = 1; i < nr; i++)
		labels[i].y = fmax(labels[i].y, labels[i - 1].y + LABEL_HEIGHT);
	for (size_t i = 0; i < nr; i++) {
		char text[4 * LABEL_CHARS + 8];

		canvas_text(canvas, area_x(area, case_x(set, last)) + LABEL_INDENT, labels[i].y,
			    TEXT_LEFT, SMALL_FONT, COLOUR_INK,
			    text_cut(labels[i].text, LABEL_CHARS, text, sizeof(text)));
	}
}

/* What is left free for names beside the curves. */
static double label_width(const struct report_sets *sets, const struct report_set *set)
{
	double width = LABEL_WIDTH;

	for (size_t m = 0; m < sets->nr_managers; m++) {
		char text[4 * LABEL_CHARS + 8];

		if (report_was_run(set, m))
			width = fmax(width,
				     LABEL_INDENT + canvas_text_width(text_cut(sets->manager[m],
									       LABEL_CHARS, text,
									       sizeof(text)),
								      SMALL_FONT));
	}
	return width;
}

/* Sizes above the points, as many as there is room for. */
static void label_sizes(struct canvas *canvas, const struct report_set *set,
			const struct area *area)
{
	double free_from = 100; /* behind the title of the y axis */
	struct figure figure;

	if (set->by_nodes || report_one_size(set))
		return;
	for (size_t i = 0; i < set->nr_cases; i++) {
		const char *text = figure_count(&figure, set->cases[i].nodes);
		double x = area_x(area, case_x(set, &set->cases[i]));
		double half = canvas_text_width(text, SMALL_FONT) / 2;

		if (x - half < free_from)
			continue;
		canvas_text(canvas, x, area->top - 14, TEXT_MIDDLE, SMALL_FONT, COLOUR_MUTED, text);
		canvas_line(canvas, x, area->top - 5, x, area->top, COLOUR_MUTED, 1);
		free_from = x + half + 8;
	}
}

/* What the crosses stand for; NULL: there are none. */
static const char *cross_text(const struct report_sets *sets, const struct report_set *set)
{
	bool any = false, memory = true, budgets = report_one_size(set);

	for (size_t m = 0; m < sets->nr_managers; m++) {
		const struct report_case *failure = report_first_failure(set, m);

		if (!failure || !report_nr_times(set, m))
			continue;
		any = true;
		memory &= failure->cell[m]->status == RESULT_OUT_OF_MEMORY;
	}
	if (!any)
		return NULL;
	if (memory)
		return budgets ? "out of memory with this budget" : "out of memory at this size";
	return budgets ? "the first budget that failed" : "the first size that failed";
}

static double epochs_legend(struct canvas *canvas, const struct report_sets *sets,
			    const struct report_set *set)
{
	struct legend_entry entries[REPORT_MANAGERS_MAX + 3];
	bool bound = false, in_memory = false;
	const char *cross = cross_text(sets, set);
	size_t nr = 0;

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (report_nr_times(set, m))
			entries[nr++] = (struct legend_entry){
				sets->manager[m], manager_colour(sets, m), marks[sets->slot[m]]};
	for (size_t i = 0; i < set->nr_cases; i++) {
		bound |= set->cases[i].bound_s > 0;
		in_memory |= in_memory_of(&set->cases[i]) > 0;
	}
	if (bound)
		entries[nr++] = (struct legend_entry){"lower bound", COLOUR_MUTED, -2};
	if (in_memory)
		entries[nr++] = (struct legend_entry){"if it all fitted", COLOUR_MANAGER, -2};
	if (cross)
		entries[nr++] = (struct legend_entry){cross, COLOUR_INK, MARK_CROSS};
	return legend_draw(canvas, 0, entries, nr);
}

static void shade_beyond(struct canvas *canvas, const struct report_set *set,
			 const struct area *area)
{
	double from = area_x(area, 1), to = area->left + area->width;

	if (report_is_replay(set)) {
		from = to;
		if (set->cases[0].needs_bytes > 0) {
			from = area->left;
			to = fmin(to, area_x(area, set->cases[0].needs_bytes / 1e9));
		}
	}
	if (!(from < to))
		return;
	canvas_box(canvas, from, area->top, to - from, area->height, COLOUR_SHADE);
	if (to - from > 110)
		canvas_text(canvas, to - 8, area->top + area->height - 11, TEXT_RIGHT, SMALL_FONT,
			    COLOUR_MUTED, "does not fit");
}

static const char *x_title(const struct report_set *set)
{
	return report_is_replay(set) ? "GPU memory, GB"
	       : set->by_nodes	     ? "nodes, millions"
				     : "memory needed over GPU memory";
}

void chart_epochs(struct canvas *canvas, const struct report_sets *sets,
		  const struct report_set *set)
{
	bool narrow = is_narrow(canvas);
	struct area area = {.left = 40, .height = narrow ? 260 : 320};

	fit_area(sets, set, &area);
	area.top = epochs_legend(canvas, sets, set) + 36;
	area.width = canvas->width - area.left - (narrow ? 8 : label_width(sets, set));
	canvas->height = area.top + area.height + 46;
	if (!set->by_nodes)
		shade_beyond(canvas, set, &area);
	area_draw_y(canvas, &area, "s an epoch");
	area_draw_x(canvas, &area, x_title(set));
	label_sizes(canvas, set, &area);
	draw_line_of(canvas, set, &area, in_memory_of, COLOUR_MANAGER, 3);
	for (size_t m = 0; m < sets->nr_managers; m++)
		draw_manager(canvas, sets, set, &area, m);
	draw_line_of(canvas, set, &area, bound_of, COLOUR_MUTED, 2);
	if (!narrow)
		label_curves(canvas, sets, set, &area);
}

/* ------------------------------------------------------------------ copies */

/* What a manager copied in a case, or the least; NaN: not known. */
static double copies_of(const struct report_case *c, size_t m, bool least)
{
	if (!c->cell[m])
		return NAN;
	return least ? c->cell[m]->least_bytes : c->cell[m]->copied_bytes;
}

/* In how many cases a manager was held against the least. */
static size_t nr_copies(const struct report_set *set, size_t m)
{
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_cases; i++)
		nr += isnan(copies_of(&set->cases[i], m, true)) ? 0 : 1;
	return nr;
}

bool chart_has_copies(const struct report_sets *sets, const struct report_set *set)
{
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (nr_copies(set, m) > 1)
			return true;
	return false;
}

static void draw_copies(struct canvas *canvas, const struct report_sets *sets,
			const struct report_set *set, const struct area *area, size_t m, bool least)
{
	canvas_curve(canvas, manager_colour(sets, m), least ? 1.5 : 2, least ? 2 : 1,
		     least ? 0 : marks[sets->slot[m]]);
	for (size_t i = 0; i < set->nr_cases; i++) {
		double bytes = copies_of(&set->cases[i], m, least);

		canvas_point(canvas, isnan(bytes) ? NAN : area_x(area, case_x(set, &set->cases[i])),
			     isnan(bytes) ? NAN : area_y(area, bytes / 1e9));
	}
	canvas_curve_end(canvas);
}

void chart_copies(struct canvas *canvas, const struct report_sets *sets,
		  const struct report_set *set)
{
	struct legend_entry entries[REPORT_MANAGERS_MAX + 1];
	struct area area = {.left = 40, .height = is_narrow(canvas) ? 220 : 260};
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_cases; i++)
		area.x1 = fmax(area.x1, 1.03 * case_x(set, &set->cases[i]));
	for (size_t m = 0; m < sets->nr_managers; m++) {
		if (!nr_copies(set, m))
			continue;
		entries[nr++] = (struct legend_entry){sets->manager[m], manager_colour(sets, m),
						      marks[sets->slot[m]]};
		for (size_t i = 0; i < set->nr_cases; i++)
			area.y1 = fmax(fmax(area.y1, copies_of(&set->cases[i], m, false) / 1e9),
				       copies_of(&set->cases[i], m, true) / 1e9);
	}
	entries[nr++] =
		(struct legend_entry){"the least for what it served there", COLOUR_MUTED, -2};
	area.y1 = area.y1 > 0 ? 1.05 * area.y1 : 1;
	area.top = legend_draw(canvas, 0, entries, nr) + 36;
	area.width = canvas->width - area.left - 8;
	canvas->height = area.top + area.height + 46;
	if (!set->by_nodes)
		shade_beyond(canvas, set, &area);
	area_draw_y(canvas, &area, "GB copied to the GPU an epoch");
	area_draw_x(canvas, &area, x_title(set));
	for (size_t m = 0; m < sets->nr_managers; m++) {
		if (!nr_copies(set, m))
			continue;
		draw_copies(canvas, sets, set, &area, m, true);
		draw_copies(canvas, sets, set, &area, m, false);
	}
}

/* ------------------------------------------------------------------ residency */

/* More points than these would fall on one another. */
#define COLUMNS 300

/* The colour of a run's i-th memory. */
static enum colour memory_colour(size_t i)
{
	static const int slots[8] = {12, 13, 14, 15, 10, 11, 8, 9};

	return (enum colour)(COLOUR_MANAGER + slots[i % 8]);
}

/* Steps; of many samples in one column the least, the most and the last. */
static void draw_residency(struct canvas *canvas, const struct area *area,
			   const struct report_residency *residency, double start_s,
			   enum colour colour)
{
	double column_s = area->x1 / COLUMNS, last_y = area_y(area, 0);
	size_t i = 0;

	canvas_curve(canvas, colour, 1.5, 1, 0);
	while (i < residency->nr) {
		double s = residency->sample[i].s - start_s, least = INFINITY, most = 0;
		double x = area_x(area, s);
		size_t from = i;

		for (; i < residency->nr && residency->sample[i].s - start_s <= s + column_s; i++) {
			least = fmin(least, residency->sample[i].bytes / 1e9);
			most = fmax(most, residency->sample[i].bytes / 1e9);
		}
		canvas_point(canvas, x, last_y);
		if (i - from > 1) {
			canvas_point(canvas, x, area_y(area, most));
			canvas_point(canvas, x, area_y(area, least));
		}
		last_y = area_y(area, residency->sample[i - 1].bytes / 1e9);
		canvas_point(canvas, x, last_y);
	}
	canvas_point(canvas, area_x(area, area->x1), last_y);
	canvas_curve_end(canvas);
}

static void draw_run(struct canvas *canvas, const struct report_run *run, double *y)
{
	struct legend_entry entries[REPORT_MEMORIES_MAX];
	struct area area = {.left = 40, .height = is_narrow(canvas) ? 150 : 180};
	double most = 0;

	*y += canvas_paragraph(canvas, 0, *y + 10, canvas->width, CANVAS_FONT, COLOUR_INK,
			       run->name ? run->name : "a run");
	*y += 22;
	for (size_t i = 0; i < run->nr_residencies; i++) {
		entries[i] = (struct legend_entry){run->residency[i].memory, memory_colour(i), -1};
		for (size_t k = 0; k < run->residency[i].nr; k++)
			most = fmax(most, run->residency[i].sample[k].bytes / 1e9);
	}
	*y += legend_draw(canvas, *y, entries, run->nr_residencies);
	area.top = *y + 30;
	area.width = canvas->width - area.left - 8;
	area.x1 = run->end_s - run->start_s;
	area.y1 = most > 0 ? 1.05 * most : 1;
	area_draw_y(canvas, &area, "GB resident");
	area_draw_x(canvas, &area, "seconds");
	for (size_t i = 0; i < run->nr_residencies; i++)
		draw_residency(canvas, &area, &run->residency[i], run->start_s, memory_colour(i));
	*y = area.top + area.height + 60;
}

void chart_residency(struct canvas *canvas, const struct report_timeline *timeline)
{
	double y = 0;

	for (size_t i = 0; i < timeline->nr_runs; i++)
		draw_run(canvas, &timeline->run[i], &y);
	canvas->height = y - 14;
}
