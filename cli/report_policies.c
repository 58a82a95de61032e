/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chart of policies; see report_charts.h. Times are told in times of those in memory: sizes
 * then share a scale, and what a policy changes shows at each of them. Parts that a choice of
 * victims can change come last in a bar, behind an upright line: no such choice saves more than
 * what is behind it.
 */
#include <math.h>
#include <string.h>

#include "cli/report_axes.h"
#include "cli/report_charts.h"
#include "cli/report_format.h"
#include "cli/report_text.h"
#include "cli/report_words.h"
#include "src/base/util.h"

#define POLICY " policy="

#define ROW_HEIGHT 19.0
#define NAME_WIDTH 132.0  /* beside the bars, on wide screens */
#define FIGURE_WIDTH 34.0 /* behind a bar */
#define COLUMN_GAP 6.0
#define NARROW_CASES 3

/* As they are stacked. */
static const enum report_part order[REPORT_PART_NR] = {
	REPORT_COMPUTE,	    REPORT_IN_PLACE, REPORT_ALLOCATION, REPORT_OTHER,
	REPORT_FIRST_TOUCH, REPORT_DEMAND,   REPORT_EVICTION};

/* From here on they depend on what is evicted. */
#define FIRST_OF_VICTIMS 5

/* A manager with its policies, and those without any beside it. */
struct panel {
	struct canvas *canvas;
	const struct report_sets *sets;
	const struct report_set *set;
	const char *name; /* of the manager */
	size_t name_bytes;
	size_t index[CHART_CASES], nr_cases;
	double scale; /* of the longest bar */
	double left, column;
};

static bool is_narrow(const struct canvas *canvas)
{
	return canvas->width < CHART_WIDE;
}

/* The policy of a manager's name, or NULL. */
static const char *policy_of(const char *name)
{
	const char *at = strstr(name, POLICY);

	return at ? at + strlen(POLICY) : NULL;
}

/* Whether a name is that of the panel's manager, with a policy or without. */
static bool is_of(const struct panel *panel, const char *name)
{
	return !strncmp(name, panel->name, panel->name_bytes) &&
	       (!name[panel->name_bytes] ||
		!strncmp(name + panel->name_bytes, POLICY, strlen(POLICY)));
}

/* A manager without a policy, of which no other has one. */
static bool is_plain(const struct report_sets *sets, size_t m)
{
	struct panel panel = {.name = sets->manager[m], .name_bytes = strlen(sets->manager[m])};

	for (size_t i = 0; i < sets->nr_managers; i++)
		if (policy_of(sets->manager[i]) && is_of(&panel, sets->manager[i]))
			return false;
	return !policy_of(sets->manager[m]);
}

/* Fill in the m-th manager's name, if it is the first of those with its policies. */
static bool find_panel(struct panel *panel, size_t m)
{
	const char *const *name = panel->sets->manager;

	panel->name = name[m];
	panel->name_bytes = strcspn(name[m], " ");
	if (!report_was_run(panel->set, m) || is_plain(panel->sets, m))
		return false;
	for (size_t i = 0; i < m; i++)
		if (is_of(panel, name[i]) && report_was_run(panel->set, i))
			return false;
	return true;
}

/* Times in memory of a cell, of all or of a part of its time; NaN: not known. */
static double times_of(const struct report_case *c, size_t m, double s)
{
	return c->cell[m] && c->cell[m]->status == RESULT_OK ? s / c->in_memory_s : NAN;
}

static bool can_be_drawn(const struct report_set *set, size_t m)
{
	for (size_t i = 0; i < set->nr_cases; i++)
		if (set->cases[i].in_memory_s > 0 && set->cases[i].cell[m] &&
		    !isnan(set->cases[i].cell[m]->parts_s))
			return true;
	return false;
}

bool chart_has_policies(const struct report_sets *sets, const struct report_set *set)
{
	size_t nr = 0;

	for (size_t m = 0; m < sets->nr_managers; m++)
		nr += policy_of(sets->manager[m]) && can_be_drawn(set, m);
	return nr > 1;
}

/* ------------------------------------------------------------------ bars */

static double draw_bar(const struct panel *panel, double x, double y, const struct report_case *c,
		       size_t m)
{
	const double width = panel->column - FIGURE_WIDTH - COLUMN_GAP;
	const struct report_result *result = c->cell[m];

	for (size_t i = 0; i < REPORT_PART_NR; i++) {
		double w = width * times_of(c, m, result->time_s[order[i]]) / panel->scale;

		if (i == FIRST_OF_VICTIMS &&
		    result->time_s[REPORT_DEMAND] + result->time_s[REPORT_EVICTION] > 0)
			canvas_line(panel->canvas, x, y + 1, x, y + ROW_HEIGHT - 1, COLOUR_INK,
				    1.5);
		if (w > 0)
			canvas_box(panel->canvas, x, y + 3, w, ROW_HEIGHT - 6,
				   (enum colour)(COLOUR_PART + order[i]));
		x += w;
	}
	return x;
}

static void draw_cell(const struct panel *panel, double x, double y, const struct report_case *c,
		      size_t m)
{
	const struct report_result *result = c->cell[m];
	struct figure figure;
	bool ok = result && result->status == RESULT_OK && c->in_memory_s > 0;

	if (ok && !isnan(result->parts_s))
		x = draw_bar(panel, x, y, c, m);
	canvas_text(panel->canvas, x + 4, y + ROW_HEIGHT / 2, TEXT_LEFT, SMALL_FONT,
		    ok ? COLOUR_INK : COLOUR_MUTED,
		    !result ? ""
		    : ok    ? figure_ratio(&figure, times_of(c, m, result->epoch_s))
			    : report_status_word(result->status));
}

/* What a row is called. */
static const char *row_name(const struct panel *panel, size_t m)
{
	const char *policy = policy_of(panel->sets->manager[m]);

	return policy				       ? policy
	       : is_of(panel, panel->sets->manager[m]) ? "no policy"
						       : panel->sets->manager[m];
}

/* @return where the next one begins. */
static double draw_row(const struct panel *panel, size_t m, double y)
{
	bool narrow = is_narrow(panel->canvas);

	canvas_text(panel->canvas, narrow ? 0 : NAME_WIDTH - 8, y + ROW_HEIGHT / 2,
		    narrow ? TEXT_LEFT : TEXT_RIGHT, SMALL_FONT, COLOUR_INK, row_name(panel, m));
	y += narrow ? ROW_HEIGHT - 3 : 0;
	for (size_t i = 0; i < panel->nr_cases; i++)
		draw_cell(panel, panel->left + (double)i * panel->column, y,
			  &panel->set->cases[panel->index[i]], m);
	return y + ROW_HEIGHT;
}

/* ------------------------------------------------------------------ panels */

#define NR_GROUPS 3
#define GROUP_GAP 5.0

/* Those beside it first, then itself, then with its policies. */
static bool is_row(const struct panel *panel, size_t m, int group)
{
	const char *name = panel->sets->manager[m];

	if (!report_was_run(panel->set, m))
		return false;
	if (group == 0)
		return is_plain(panel->sets, m);
	return is_of(panel, name) && (group == 1) == !policy_of(name);
}

static double longest(const struct panel *panel)
{
	double most = 0;

	for (size_t m = 0; m < panel->sets->nr_managers; m++)
		for (size_t i = 0; i < panel->nr_cases; i++) {
			const struct report_case *c = &panel->set->cases[panel->index[i]];

			if (c->cell[m] &&
			    (is_plain(panel->sets, m) || is_of(panel, panel->sets->manager[m])))
				most = fmax(most, times_of(c, m, c->cell[m]->epoch_s));
		}
	return most;
}

/* Upright lines behind the bars, which are drawn later, and their figures below. */
static void draw_scale(const struct panel *panel, double top, double bottom)
{
	const double width = panel->column - FIGURE_WIDTH - COLUMN_GAP;
	double step = tick_step(panel->scale, width / 26);
	char text[32];

	for (size_t i = 0; i < panel->nr_cases; i++) {
		double left = panel->left + (double)i * panel->column;

		for (int k = 0; k * step <= panel->scale * (1 + 1e-9); k++) {
			double x = left + width * k * step / panel->scale;

			canvas_box(panel->canvas, x - 0.5, top, 1, bottom + 3 - top,
				   k ? COLOUR_GRID : COLOUR_MUTED);
			snprintf(text, sizeof(text), "%.6g", k * step);
			canvas_text(panel->canvas, x, bottom + 12, TEXT_MIDDLE, SMALL_FONT,
				    COLOUR_MUTED, text);
		}
	}
	canvas_text(panel->canvas, panel->left, bottom + 30, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED,
		    "time of an epoch over that in memory");
}

/* Sizes, or budgets of one size. */
static void draw_heading(const struct panel *panel, double y)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*s", (int)MIN(panel->name_bytes, 40u), panel->name);
	canvas_text(panel->canvas, 0, y + 8, TEXT_LEFT, CANVAS_FONT, COLOUR_INK, text);
	if (is_narrow(panel->canvas))
		y += ROW_HEIGHT;
	for (size_t i = 0; i < panel->nr_cases; i++) {
		const struct report_case *c = &panel->set->cases[panel->index[i]];
		bool one_size = report_one_size(panel->set);
		struct figure figure;

		if (one_size)
			figure_bytes(&figure, c->budget_bytes);
		else
			figure_count(&figure, c->nodes);
		snprintf(text, sizeof(text), "%s%s", figure.text, one_size ? "" : " nodes");
		canvas_text(panel->canvas, panel->left + (double)i * panel->column, y + 8,
			    TEXT_LEFT, SMALL_FONT, COLOUR_MUTED, text);
	}
}

static double draw_panel(struct panel *panel, double y)
{
	const double row = ROW_HEIGHT + (is_narrow(panel->canvas) ? ROW_HEIGHT - 3 : 0);
	double top = y + ROW_HEIGHT * (is_narrow(panel->canvas) ? 2 : 1) + 4, bottom = top;

	panel->scale = longest(panel);
	if (!(panel->scale > 0))
		return y;
	for (int group = 0; group < NR_GROUPS; group++) {
		for (size_t m = 0; m < panel->sets->nr_managers; m++)
			bottom += is_row(panel, m, group) ? row : 0;
		bottom += group == 0 ? GROUP_GAP : 0;
	}
	draw_heading(panel, y);
	draw_scale(panel, top, bottom);
	y = top;
	for (int group = 0; group < NR_GROUPS; group++) {
		for (size_t m = 0; m < panel->sets->nr_managers; m++)
			if (is_row(panel, m, group))
				y = draw_row(panel, m, y);
		y += group == 0 ? GROUP_GAP : 0;
	}
	return bottom + 56;
}

/* Parts that any of the results has, and the upright line. */
static double policies_legend(struct canvas *canvas, const struct report_sets *sets,
			      const struct report_set *set)
{
	struct legend_entry entries[REPORT_PART_NR + 1];
	double sum[REPORT_PART_NR] = {0};
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_cases * sets->nr_managers; i++) {
		const struct report_result *result =
			set->cases[i % set->nr_cases].cell[i / set->nr_cases];

		for (int part = 0; part < REPORT_PART_NR; part++)
			if (result && !isnan(result->parts_s))
				sum[part] += result->time_s[part] / result->parts_s;
	}
	for (size_t i = 0; i < REPORT_PART_NR; i++)
		if (sum[order[i]] > 0.001 * (double)set->nr_results)
			entries[nr++] =
				(struct legend_entry){report_part_name(order[i]),
						      (enum colour)(COLOUR_PART + order[i]), 0};
	entries[nr++] = (struct legend_entry){
		is_narrow(canvas)
			? "upright: all that victims decide is right of it"
			: "upright: no choice of victims saves more than what is right of "
			  "it",
		COLOUR_INK, -1};
	return legend_draw(canvas, 0, entries, nr);
}

void chart_policies(struct canvas *canvas, const struct report_sets *sets,
		    const struct report_set *set)
{
	struct panel panel = {.canvas = canvas, .sets = sets, .set = set};
	double y = policies_legend(canvas, sets, set) + 16;

	panel.nr_cases = report_cases_pick(sets, set, panel.index,
					   is_narrow(canvas) ? NARROW_CASES : CHART_CASES);
	panel.left = is_narrow(canvas) ? 6 : NAME_WIDTH; /* half a figure */
	panel.column = (canvas->width - panel.left) / (double)panel.nr_cases;
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (find_panel(&panel, m))
			y = draw_panel(&panel, y);
	canvas->height = y;
}

/* ------------------------------------------------------------------ words */

static double part_of(const struct report_result *result, double s)
{
	return s / result->parts_s;
}

/* Of the last case that the panel's manager got through, the m-th. */
static void put_panel(FILE *out, const struct panel *panel, size_t m)
{
	const struct report_case *c = report_last_case(panel->set, m);
	size_t best = m;
	struct figure figure;

	if (!c || isnan(c->cell[m]->parts_s) || !(c->in_memory_s > 0))
		return;
	for (size_t i = 0; i < panel->sets->nr_managers; i++)
		if (is_of(panel, panel->sets->manager[i]) &&
		    report_epoch_s(c, i) < report_epoch_s(c, best))
			best = i;
	fprintf(out, "- %.*s: %s times as long as in memory at ", (int)panel->name_bytes,
		panel->name, figure_ratio(&figure, times_of(c, m, c->cell[m]->epoch_s)));
	words_case(out, panel->set, c);
	if (best != m)
		fprintf(out, ", with %s %s times", row_name(panel, best),
			figure_ratio(&figure, times_of(c, best, c->cell[best]->epoch_s)));
	fprintf(out, ". First touches, which a pool does without, are %s of it without a policy, ",
		figure_percent(&figure,
			       part_of(c->cell[m], c->cell[m]->time_s[REPORT_FIRST_TOUCH])));
	fprintf(out,
		"and copies on demand and eviction %s: no choice of victims saves more, even if "
		"it knows the future.\n",
		figure_percent(&figure,
			       part_of(c->cell[m], c->cell[m]->time_s[REPORT_DEMAND] +
							   c->cell[m]->time_s[REPORT_EVICTION])));
}

void text_policies(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	struct panel panel = {.sets = sets, .set = set};

	fputs("Times are told in times of those in memory, so that sizes share a scale.\n", out);
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (find_panel(&panel, m) && !policy_of(sets->manager[m]))
			put_panel(out, &panel, m);
}
