/* SPDX-License-Identifier: Apache-2.0 */
/* See report_room.h. */
#include "cli/report_room.h"

#include <math.h>

#include "cli/report_canvas.h"
#include "cli/report_format.h"
#include "src/base/util.h"

#define WIDTH 760.0
#define HEIGHT 160.0
/* A column is no narrower: stages that are, share one. It has their means by time. */
#define COLUMN_WIDTH 6.0

/* From the bottom of the picture to its top. */
static const struct band {
	enum explain_room room;
	enum colour colour;
	const char *what;
} bands[EXPLAIN_ROOM_NR] = {
	{EXPLAIN_LIVE, COLOUR_PART + REPORT_COMPUTE, "live contents"},
	{EXPLAIN_COMING, COLOUR_PREFETCH, "being filled"},
	{EXPLAIN_GOING, COLOUR_PART + REPORT_EVICTION, "being emptied"},
	{EXPLAIN_ARENAS, COLOUR_PART + REPORT_ALLOCATION, "small allocations"},
	{EXPLAIN_OTHERS, COLOUR_PART + REPORT_IN_PLACE, "others"},
	{EXPLAIN_DEAD, COLOUR_PART + REPORT_OTHER, "dead contents"},
	{EXPLAIN_SPARE, COLOUR_GRID, "spare"},
};

/* Sums by time. */
struct column {
	double s, room[EXPLAIN_ROOM_NR], filled;
};

static double all_of(const double *room)
{
	double sum = 0;

	for (int i = 0; i < EXPLAIN_ROOM_NR; i++)
		sum += room[i];
	return sum;
}

/* How long a stage takes: as measured, or where nothing was as planned. */
static double length(const struct report_stage *s, bool measured)
{
	return measured ? s->measured_s : s->planned_s;
}

static void add(struct column *column, const struct report_stage *stage, double s)
{
	column->s += s;
	column->filled += s * stage->filled;
	for (int i = 0; i < EXPLAIN_ROOM_NR; i++)
		column->room[i] += s * stage->room[i];
}

/* most: the largest sum of a stage, which is as high as the picture. */
static void put_column(FILE *out, const struct column *column, double x, double width, double most)
{
	double y = HEIGHT;

	for (size_t i = 0; i < ARRAY_LEN(bands); i++) {
		const double chunks = column->room[bands[i].room] / column->s;
		const double height = HEIGHT * chunks / most;

		y = fmax(y - height, 0); /* sums of doubles may be off */
		if (height >= 0.05)
			fprintf(out,
				"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
				"fill=\"var(--%s)\"/>",
				x, y, width, height, report_palette[bands[i].colour].name);
	}
}

static void put_band(FILE *out, const struct band *band, const struct column *all)
{
	const double part = all->room[band->room] / all_of(all->room);
	struct figure figure;

	if (!(part > 0))
		return;
	fprintf(out, ", <span class=\"swatch\" style=\"background:var(--%s)\"></span>%s %s",
		report_palette[band->colour].name, band->what, figure_percent(&figure, part));
	if (band->room == EXPLAIN_ARENAS)
		fprintf(out, " (of that filled: %s)",
			figure_percent(&figure, all->filled / all->room[EXPLAIN_ARENAS]));
}

/* What there is, and on average for what. */
static void put_caption(FILE *out, const struct report_explained *e, const struct column *all)
{
	struct figure figure;

	fprintf(out, "<figcaption class=\"note\">Room in GPU memory over the period: %.0f blocks",
		all_of(all->room) / all->s);
	if (e->chunk_bytes > 0)
		fprintf(out, " of %s", figure_bytes(&figure, e->chunk_bytes));
	for (size_t i = 0; i < ARRAY_LEN(bands); i++)
		put_band(out, &bands[i], all);
	fputs("</figcaption>\n", out);
}

static void put_columns(FILE *out, const struct report_explained *e, bool measured, double total_s,
			double most)
{
	struct column column = {0};
	double at_s = 0;

	for (size_t i = 0; i < e->nr_stages; i++) {
		const bool last = i + 1 == e->nr_stages;

		add(&column, &e->stage[i], length(&e->stage[i], measured));
		if (!(column.s > 0) || (WIDTH * column.s / total_s < COLUMN_WIDTH && !last))
			continue;
		put_column(out, &column, WIDTH * at_s / total_s, WIDTH * column.s / total_s, most);
		at_s += column.s;
		column = (struct column){0};
	}
}

void report_room_put(FILE *out, const struct report_explained *e, size_t number)
{
	struct column all = {0};
	double most = 0;
	bool measured = false;

	for (size_t i = 0; i < e->nr_stages; i++)
		measured |= e->stage[i].measured_s > 0;
	for (size_t i = 0; i < e->nr_stages; i++) {
		most = fmax(most, all_of(e->stage[i].room));
		add(&all, &e->stage[i], length(&e->stage[i], measured));
	}
	if (!(all.s > 0) || !(all_of(all.room) > 0))
		return;
	fprintf(out,
		"<figure>\n<svg viewBox=\"0 0 %g %g\" xmlns=\"http://www.w3.org/2000/svg\" "
		"role=\"img\" aria-labelledby=\"room-%zu-t room-%zu-d\">\n"
		"<title id=\"room-%zu-t\">Room in GPU memory over the period</title>\n"
		"<desc id=\"room-%zu-d\">Stage by stage, each as wide as it takes, what the blocks "
		"of the budget are for as it begins. The text below has the means.</desc>\n",
		WIDTH, HEIGHT, number, number, number, number);
	put_columns(out, e, measured, all.s, most);
	fputs("</svg>\n", out);
	put_caption(out, e, &all);
	fputs("</figure>\n", out);
}
