/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture that gnuplot is to draw: boxes, texts, lines, marks and curves at places in pixels,
 * from the top left corner, in colours of one palette. gnuplot's own axes are not used: charts here
 * put figures beside what they belong to, and know where everything stands.
 *
 * In pages a colour is the CSS variable of its name; the palette gives its values in light and in
 * dark. No two colours have the same light value, since that is how they are told apart in what
 * gnuplot wrote.
 */
#ifndef WEIR_CLI_REPORT_CANVAS_H
#define WEIR_CLI_REPORT_CANVAS_H

#include <stddef.h>
#include <stdio.h>

enum colour {
	COLOUR_INK,
	COLOUR_MUTED,
	COLOUR_GRID,
	COLOUR_SHADE,
	COLOUR_PART,			   /* first of REPORT_PART_NR */
	COLOUR_PREFETCH = COLOUR_PART + 7, /* causes that are no part of the time */
	COLOUR_WRITEBACK,
	COLOUR_MANAGER,			/* first of REPORT_SLOTS_MAX */
	COLOUR_NR = COLOUR_MANAGER + 16 /* REPORT_SLOTS_MAX */
};

struct colour_def {
	const char *name;	  /* of the CSS variable, without its dashes */
	const char *light, *dark; /* "#rrggbb" */
};

extern const struct colour_def report_palette[COLOUR_NR];

enum text_align { TEXT_LEFT, TEXT_MIDDLE, TEXT_RIGHT };

/* gnuplot's point types. */
enum { MARK_CROSS = 2, MARK_SQUARE = 5, MARK_DISC = 7, MARK_UP = 9, MARK_DOWN = 11 };

#define CANVAS_FONT 13 /* pixels */

/* Errors of memory stay in the streams, and come out of canvas_finish(). */
struct canvas {
	double width, height; /* the height is the drawer's to set, at any time */
	FILE *body, *curves;
	char *body_text, *curves_text;
	size_t body_bytes, curves_bytes;
	unsigned int nr_objects, nr_curves;
};

enum canvas_terminal { CANVAS_SVG, CANVAS_PNG };

/* -ENOMEM: nothing is left to undo. */
int canvas_init(struct canvas *canvas, double width);
void canvas_fini(struct canvas *canvas);

/* Write the commands that draw it into a file of a plain name. -ENOMEM, -EIO. */
int canvas_finish(struct canvas *canvas, FILE *script, enum canvas_terminal terminal,
		  const char *name);

void canvas_box(struct canvas *canvas, double x, double y, double width, double height,
		enum colour colour);
void canvas_line(struct canvas *canvas, double x0, double y0, double x1, double y1,
		 enum colour colour, double line_width);
void canvas_mark(struct canvas *canvas, double x, double y, int mark, enum colour colour);

/* y: of the middle of the line. Anything may be in the text. size: pixels. */
void canvas_text(struct canvas *canvas, double x, double y, enum text_align align, double size,
		 enum colour colour, const char *text);

/* A text whose first line is at y, broken at blanks where it would be wider than the width.
 * @return the height of its lines but for the first. */
double canvas_paragraph(struct canvas *canvas, double x, double y, double width, double size,
			enum colour colour, const char *text);

/* About as wide as a text will be. */
double canvas_text_width(const char *text, double size);

/* A curve through the points added until the next one begins; a gap is left where x is NaN. dash:
 * gnuplot's dash type, 1 is none. mark: 0 is none. */
void canvas_curve(struct canvas *canvas, enum colour colour, double line_width, int dash, int mark);
void canvas_point(struct canvas *canvas, double x, double y);
void canvas_curve_end(struct canvas *canvas);

#endif
