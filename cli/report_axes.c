/* SPDX-License-Identifier: Apache-2.0 */
/* Legends and axes; see report_axes.h. */
#include "cli/report_axes.h"

#include <math.h>
#include <stdio.h>

#include "cli/report_format.h"

#define KEY_WIDTH 20.0
#define ROW_HEIGHT 20.0
#define GAP 16.0

static void draw_key(struct canvas *canvas, double x, double y, const struct legend_entry *entry)
{
	if (entry->mark == 0) {
		canvas_box(canvas, x + 2, y - 5, 12, 10, entry->colour);
		return;
	}
	if (entry->mark == -2) {
		canvas_line(canvas, x, y, x + 6, y, entry->colour, 1.5);
		canvas_line(canvas, x + 10, y, x + 16, y, entry->colour, 1.5);
		return;
	}
	if (entry->mark != MARK_CROSS)
		canvas_line(canvas, x, y, x + 16, y, entry->colour, 2);
	if (entry->mark > 0)
		canvas_mark(canvas, x + 8, y, entry->mark, entry->colour);
}

double legend_draw(struct canvas *canvas, double y, const struct legend_entry *entries, size_t nr)
{
	double x = 0, from = y;

	if (!nr)
		return 0;
	for (size_t i = 0; i < nr; i++) {
		double width = KEY_WIDTH + canvas_text_width(entries[i].text, SMALL_FONT);

		if (x > 0 && x + width > canvas->width) {
			x = 0;
			y += ROW_HEIGHT;
		}
		draw_key(canvas, x, y + ROW_HEIGHT / 2, &entries[i]);
		canvas_text(canvas, x + KEY_WIDTH, y + ROW_HEIGHT / 2, TEXT_LEFT, SMALL_FONT,
			    COLOUR_INK, entries[i].text);
		x += width + GAP;
	}
	return y + ROW_HEIGHT - from;
}

double area_x(const struct area *area, double x)
{
	return area->left + area->width * (x - area->x0) / (area->x1 - area->x0);
}

double area_y(const struct area *area, double y)
{
	double part = area->log_y ? log(y / area->y0) / log(area->y1 / area->y0)
				  : (y - area->y0) / (area->y1 - area->y0);

	return area->top + area->height * (1 - part);
}

/* A tick at the very end is one, whatever it was rounded to. */
static bool is_within(double end, double tick)
{
	return tick <= end * (1 + 1e-9);
}

void area_draw_x(struct canvas *canvas, const struct area *area, const char *title)
{
	double bottom = area->top + area->height;
	double step = tick_step(area->x1 - area->x0, area->width / 60);
	char text[32];

	canvas_line(canvas, area->left, bottom, area->left + area->width, bottom, COLOUR_MUTED, 1);
	for (long i = lrint(ceil(area->x0 / step)); is_within(area->x1, (double)i * step); i++) {
		double x = area_x(area, (double)i * step);

		snprintf(text, sizeof(text), "%.6g", (double)i * step);
		canvas_line(canvas, x, bottom, x, bottom + 4, COLOUR_MUTED, 1);
		canvas_text(canvas, x, bottom + 14, TEXT_MIDDLE, SMALL_FONT, COLOUR_MUTED, text);
	}
	canvas_text(canvas, area->left + area->width / 2, bottom + 34, TEXT_MIDDLE, SMALL_FONT,
		    COLOUR_MUTED, title);
}

static void draw_y_tick(struct canvas *canvas, const struct area *area, double value)
{
	double y = area_y(area, value);
	char text[32];

	snprintf(text, sizeof(text), "%.6g", value);
	canvas_line(canvas, area->left, y, area->left + area->width, y, COLOUR_GRID, 1);
	canvas_text(canvas, area->left - 6, y, TEXT_RIGHT, SMALL_FONT, COLOUR_MUTED, text);
}

/* Fewer digits of a decade the more decades there are. */
static bool is_shown(int digit, double decades)
{
	if (decades < 2)
		return digit == 1 || digit == 2 || digit == 5;
	return digit == 1 || (decades < 4 && digit == 3);
}

static void draw_decades(struct canvas *canvas, const struct area *area, double decades)
{
	long last = lrint(floor(log10(area->y1)));

	for (long e = lrint(floor(log10(area->y0))); e <= last; e++) {
		for (int digit = 1; digit < 10; digit++) {
			double value = digit * pow(10, (double)e);

			if (is_shown(digit, decades) && value >= area->y0 && value <= area->y1)
				draw_y_tick(canvas, area, value);
		}
	}
}

void area_draw_y(struct canvas *canvas, const struct area *area, const char *title)
{
	double decades = log10(area->y1 / area->y0);

	canvas_text(canvas, 0, area->top - 14, TEXT_LEFT, SMALL_FONT, COLOUR_MUTED, title);
	if (!area->log_y) {
		double step = tick_step(area->y1 - area->y0, area->height / 40);

		for (long i = lrint(ceil(area->y0 / step)); is_within(area->y1, (double)i * step);
		     i++)
			draw_y_tick(canvas, area, (double)i * step);
		return;
	}
	draw_decades(canvas, area, decades);
}
