/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as commands of gnuplot; see report_canvas.h. */
#include "cli/report_canvas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Colours that people who see fewer of them can tell apart (managers after Okabe and Ito, parts
 * after Tol), lighter or darker as the background asks for.
 */
const struct colour_def report_palette[COLOUR_NR] = {
	[COLOUR_INK] = {"ink", "#1c2024", "#e6e9ec"},
	[COLOUR_MUTED] = {"muted", "#5c6670", "#a3adb7"},
	[COLOUR_GRID] = {"grid", "#dde1e5", "#3a4148"},
	[COLOUR_SHADE] = {"shade", "#f1f3f5", "#21262b"},
	[COLOUR_PART + 0] = {"compute", "#44aa99", "#4fb8a7"},
	[COLOUR_PART + 1] = {"in-place", "#332288", "#8f86e0"},
	[COLOUR_PART + 2] = {"allocation", "#ddcc77", "#e0d07f"},
	[COLOUR_PART + 3] = {"first-touch", "#999933", "#a9a944"},
	[COLOUR_PART + 4] = {"demand", "#cc6677", "#db7686"},
	[COLOUR_PART + 5] = {"eviction", "#882255", "#b84c85"},
	[COLOUR_PART + 6] = {"other", "#a9b0b7", "#6f7880"},
	[COLOUR_PREFETCH] = {"prefetch", "#88ccee", "#8fd0f0"},
	[COLOUR_WRITEBACK] = {"write-back", "#aa4499", "#c466b4"},
	[COLOUR_MANAGER + 0] = {"m-native", "#0072b2", "#4aa3df"},
	[COLOUR_MANAGER + 1] = {"m-malloc", "#e69f00", "#f0b033"},
	[COLOUR_MANAGER + 2] = {"m-zerocopy", "#cc79a7", "#dd93bb"},
	[COLOUR_MANAGER + 3] = {"m-uvm", "#d55e00", "#ee7a22"},
	[COLOUR_MANAGER + 4] = {"m-uvm-max", "#8c4a1a", "#c58657"},
	[COLOUR_MANAGER + 5] = {"m-uvm-prefetch", "#56b4e9", "#6cc3f3"},
	[COLOUR_MANAGER + 6] = {"m-uvm-prefetch-max", "#5b3f99", "#a08ae0"},
	[COLOUR_MANAGER + 7] = {"m-weir", "#009e73", "#1fc296"},
	[COLOUR_MANAGER + 8] = {"m-8", "#a3324c", "#e0657f"},
	[COLOUR_MANAGER + 9] = {"m-9", "#6b7d1e", "#a5bb45"},
	[COLOUR_MANAGER + 10] = {"m-10", "#246b7a", "#55a9ba"},
	[COLOUR_MANAGER + 11] = {"m-11", "#7a6a58", "#b5a48f"},
	[COLOUR_MANAGER + 12] = {"m-12", "#3f5fa8", "#7f9ce0"},
	[COLOUR_MANAGER + 13] = {"m-13", "#b0562f", "#dd8a64"},
	[COLOUR_MANAGER + 14] = {"m-14", "#4d8a3a", "#7fc06a"},
	[COLOUR_MANAGER + 15] = {"m-15", "#8a4d8f", "#c188c6"},
};

int canvas_init(struct canvas *canvas, double width)
{
	*canvas = (struct canvas){.width = width};
	canvas->body = open_memstream(&canvas->body_text, &canvas->body_bytes);
	canvas->curves = open_memstream(&canvas->curves_text, &canvas->curves_bytes);
	if (canvas->body && canvas->curves)
		return 0;
	canvas_fini(canvas);
	return -ENOMEM;
}

void canvas_fini(struct canvas *canvas)
{
	if (canvas->body)
		(void)fclose(canvas->body);
	if (canvas->curves)
		(void)fclose(canvas->curves);
	free(canvas->body_text);
	free(canvas->curves_text);
	*canvas = (struct canvas){0};
}

/* A text in single quotes, in which gnuplot expands nothing. */
static void put_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', out);
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text, out);
	}
	fputc('\'', out);
}

int canvas_finish(struct canvas *canvas, FILE *script, enum canvas_terminal terminal,
		  const char *name)
{
	/* A picture stands alone: it has a margin, and two pixels where a page has one. Its letters
	 * are measured in points of 4/3 pixels. */
	const double scale = terminal == CANVAS_PNG ? 2 : 1, margin = scale > 1 ? 16 : 0;
	const double width = canvas->width + 2 * margin, height = canvas->height + 2 * margin;

	if (fflush(canvas->body) || fflush(canvas->curves) || ferror(canvas->body) ||
	    ferror(canvas->curves))
		return -ENOMEM;
	fprintf(script, "reset\nset encoding utf8\n");
	if (terminal == CANVAS_PNG)
		fprintf(script,
			"set terminal pngcairo noenhanced size %.0f,%.0f fontscale %g linewidth %g "
			"pointscale %g font 'sans,%d' background '#ffffff'\n",
			scale * width, scale * height, scale * 3 / 4, scale, scale, CANVAS_FONT);
	else
		fprintf(script, "set terminal svg noenhanced size %.0f,%.0f font 'sans-serif,%d'\n",
			width, height, CANVAS_FONT);
	fprintf(script, "set output '%s'\n", name);
	fprintf(script,
		"unset border\nunset tics\nunset key\n"
		"set lmargin at screen 0\nset rmargin at screen 1\n"
		"set tmargin at screen 1\nset bmargin at screen 0\n"
		"set xrange [%g:%g]\nset yrange [%g:%g]\n",
		-margin, canvas->width + margin, canvas->height + margin, -margin);
	fwrite(canvas->body_text, 1, canvas->body_bytes, script);
	fprintf(script, "plot %.*s\nset output\n",
		canvas->nr_curves ? (int)canvas->curves_bytes : 3,
		canvas->nr_curves ? canvas->curves_text : "NaN");
	return ferror(script) ? -EIO : 0;
}

void canvas_box(struct canvas *canvas, double x, double y, double width, double height,
		enum colour colour)
{
	fprintf(canvas->body,
		"set object %u rectangle from %.2f,%.2f to %.2f,%.2f behind fillcolor rgb '%s' "
		"fillstyle solid noborder\n",
		++canvas->nr_objects, x, y, x + width, y + height, report_palette[colour].light);
}

void canvas_line(struct canvas *canvas, double x0, double y0, double x1, double y1,
		 enum colour colour, double line_width)
{
	fprintf(canvas->body,
		"set arrow %u from %.2f,%.2f to %.2f,%.2f nohead back linecolor rgb '%s' "
		"linewidth %g\n",
		++canvas->nr_objects, x0, y0, x1, y1, report_palette[colour].light, line_width);
}

void canvas_mark(struct canvas *canvas, double x, double y, int mark, enum colour colour)
{
	fprintf(canvas->body,
		"set label %u '' at %.2f,%.2f front point pointtype %d pointsize 1 "
		"linecolor rgb '%s' linewidth 1.5\n",
		++canvas->nr_objects, x, y, mark, report_palette[colour].light);
}

void canvas_text(struct canvas *canvas, double x, double y, enum text_align align, double size,
		 enum colour colour, const char *text)
{
	static const char *const sides[] = {"left", "center", "right"};

	if (!*text)
		return;
	fprintf(canvas->body, "set label %u ", ++canvas->nr_objects);
	put_quoted(canvas->body, text);
	fprintf(canvas->body, " at %.2f,%.2f %s front font ',%g' textcolor rgb '%s'\n", x, y,
		sides[align], size, report_palette[colour].light);
}

double canvas_paragraph(struct canvas *canvas, double x, double y, double width, double size,
			enum colour colour, const char *text)
{
	const double from = y;
	char line[256];
	size_t used = 0;

	while (*text && used + 1 < sizeof(line)) {
		size_t word = strcspn(text + 1, " ") + 1; /* with the blank before it */

		if (word > sizeof(line) - 1 - used)
			word = sizeof(line) - 1 - used;
		memcpy(line + used, text, word);
		line[used + word] = '\0';
		if (used && canvas_text_width(line, size) > width) {
			line[used] = '\0';
			canvas_text(canvas, x, y, TEXT_LEFT, size, colour, line);
			y += size * 4 / 3;
			used = 0;
			text += *text == ' ';
			continue;
		}
		used += word;
		text += word;
	}
	line[used] = '\0';
	canvas_text(canvas, x, y, TEXT_LEFT, size, colour, line);
	return y - from;
}

double canvas_text_width(const char *text, double size)
{
	size_t nr = 0;

	for (; *text; text++)
		nr += (*text & 0xc0) != 0x80; /* characters, not bytes */
	return 0.62 * size * (double)nr;
}

void canvas_curve(struct canvas *canvas, enum colour colour, double line_width, int dash, int mark)
{
	char with[48] = "lines";

	if (mark)
		snprintf(with, sizeof(with), "linespoints pointtype %d pointsize 0.8", mark);
	fprintf(canvas->curves,
		"%s$curve%u using 1:2 with %s dashtype %d linewidth %g linecolor rgb '%s'",
		canvas->nr_curves ? ", " : "", canvas->nr_curves, with, dash, line_width,
		report_palette[colour].light);
	fprintf(canvas->body, "$curve%u << EOD\n", canvas->nr_curves++);
}

void canvas_point(struct canvas *canvas, double x, double y)
{
	if (isnan(x))
		fputc('\n', canvas->body);
	else
		fprintf(canvas->body, "%.2f %.2f\n", x, y);
}

void canvas_curve_end(struct canvas *canvas)
{
	fputs("EOD\n", canvas->body);
}
