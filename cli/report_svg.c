/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gnuplot's SVG for pages; see report_plot.h. It is rewritten as text, from left to right: what it
 * looks like is known, and what is not found is left as it is.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_canvas.h"
#include "cli/report_plot.h"
#include "src/base/util.h"

void html_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fputc((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text, out);
			break;
		}
	}
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Behind the first `what` in a text; NULL: there is none. */
static const char *behind(const char *text, const char *what)
{
	const char *at = strstr(text, what);

	return at ? at + strlen(what) : NULL;
}

/* "rgb( 68, 170, 153)" of the palette: its name is written, and what it takes is returned. */
static size_t write_colour(FILE *out, const char *text)
{
	unsigned long channel[3];
	const char *at = text;
	char hex[8], *end;

	for (int i = 0; i < 3; i++) {
		if (!begins(at, i ? "," : "rgb("))
			return 0;
		at += i ? 1 : strlen("rgb(");
		channel[i] = strtoul(at, &end, 10);
		if (end == at || channel[i] > 255)
			return 0;
		at = end;
	}
	if (*at != ')')
		return 0;
	snprintf(hex, sizeof(hex), "#%02lx%02lx%02lx", channel[0] & 255, channel[1] & 255,
		 channel[2] & 255);
	for (int i = 0; i < COLOUR_NR; i++) {
		if (strcmp(report_palette[i].light, hex) == 0) {
			fprintf(out, "var(--%s)", report_palette[i].name);
			return (size_t)(at + 1 - text);
		}
	}
	return 0;
}

/* What a page has no use for: fonts are the page's, and an id may stand in it once. */
static size_t skipped(const char *text)
{
	static const char *const noise[] = {
		" font-family=\"sans-serif\"", " stroke-linecap=\"butt\"",
		" stroke-linejoin=\"miter\"",  " xml:space=\"preserve\"",
		" stroke-width=\"1.00\"",      "\t",
	};
	const char *end;

	for (size_t i = 0; i < ARRAY_LEN(noise); i++)
		if (begins(text, noise[i]))
			return strlen(noise[i]);
	if (begins(text, " id=\"")) {
		end = strchr(text + 5, '"');
		return end ? (size_t)(end + 1 - text) : 0;
	}
	if (begins(text, "<title>")) {
		end = behind(text, "</title>");
		return end ? (size_t)(end - text) : 0;
	}
	if (begins(text, "<g ")) {
		end = strchr(text, '>');
		if (end)
			end += 1 + strspn(end + 1, "\n\t ");
		if (end && begins(end, "</g>\n"))
			return (size_t)(end + strlen("</g>\n") - text);
	}
	return 0;
}

static void write_body(FILE *out, const char *at, const char *end)
{
	while (at < end) {
		size_t taken = skipped(at);

		if (!taken && *at == 'r')
			taken = write_colour(out, at);
		if (!taken) {
			fputc(*at, out);
			taken = 1;
		}
		at += taken;
	}
}

int plot_svg_write(FILE *out, const char *svg, const char *id, const char *css_class,
		   const char *title, const char *about)
{
	const char *box = behind(svg, "viewBox=\""), *body = behind(svg, "</defs>"), *end = NULL;

	/* Texts in it are escaped: the first end is the end. */
	if (body)
		end = strstr(body, "</svg>");
	if (!box || !end || box > body)
		return -EIO;
	fprintf(out,
		"<svg class=\"%s\" viewBox=\"%.*s\" xmlns=\"http://www.w3.org/2000/svg\" "
		"xmlns:xlink=\"http://www.w3.org/1999/xlink\" role=\"img\" "
		"aria-labelledby=\"%s-t %s-d\">\n<title id=\"%s-t\">",
		css_class, (int)strcspn(box, "\""), box, id, id, id);
	html_text(out, title);
	fprintf(out, "</title>\n<desc id=\"%s-d\">", id);
	html_text(out, about);
	fputs("</desc>\n<g>", out);
	write_body(out, body, end);
	fputs("</svg>\n", out);
	return 0;
}

int plot_svg_marks(FILE *out, const char *svg)
{
	const char *begin = strstr(svg, "<defs>"), *end = begin ? strstr(begin, "<filter") : NULL;

	if (!end)
		return -EIO;
	fprintf(out,
		"<svg class=\"marks\" width=\"0\" height=\"0\" aria-hidden=\"true\" "
		"xmlns=\"http://www.w3.org/2000/svg\" "
		"xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n%.*s</defs>\n</svg>\n",
		(int)(end - begin), begin);
	return 0;
}
