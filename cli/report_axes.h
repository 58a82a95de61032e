/* SPDX-License-Identifier: Apache-2.0 */
/* What charts are made of: legends, and areas with axes. */
#ifndef WEIR_CLI_REPORT_AXES_H
#define WEIR_CLI_REPORT_AXES_H

#include <stdbool.h>

#include "cli/report_canvas.h"

#define SMALL_FONT 12.0

/* A text behind what it explains. */
struct legend_entry {
	const char *text;
	enum colour colour;
	int mark; /* gnuplot's point type; 0: a box; -1: a line; -2: a dashed one */
};

/* Draw entries in rows as wide as the canvas from y on; returns the height. */
double legend_draw(struct canvas *canvas, double y, const struct legend_entry *entries, size_t nr);

/* A rectangle in pixels and what its edges stand for. */
struct area {
	double left, top, width, height;
	double x0, x1, y0, y1; /* y0 is the lower edge */
	bool log_y;
};

double area_x(const struct area *area, double x);
double area_y(const struct area *area, double y);

/* Grid lines and figures of an axis, and what it stands for; y's is written above the area. */
void area_draw_x(struct canvas *canvas, const struct area *area, const char *title);
void area_draw_y(struct canvas *canvas, const struct area *area, const char *title);

#endif
