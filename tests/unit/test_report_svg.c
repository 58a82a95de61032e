/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot's SVG made fit for a page, the palette that this rests on, quoting, and figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_canvas.h"
#include "cli/report_format.h"
#include "cli/report_plot.h"

static char *text;
static size_t bytes;

static FILE *open_text(void)
{
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	return out;
}

/* Close, compare, free. */
static void is(FILE *out, const char *expected)
{
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_html_text(void **state)
{
	FILE *out = open_text();

	(void)state;
	html_text(out, "<a href=\"x\">&'\x01\x7f\xc3\xa9");
	is(out, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;  \xc3\xa9");
}

static void test_svg_for_a_page(void **state)
{
	static const char svg[] =
		"<?xml version=\"1.0\"?>\n<svg \n viewBox=\"0 0 760 40\"\n>\n"
		"<title>Gnuplot</title>\n"
		"<g id=\"gnuplot_canvas\">\n<defs>\n\t<path id='gpPt0'/>\n<filter id='textbox'>"
		"</filter>\n</defs>\n<g fill=\"none\" color=\"white\">\n</g>\n"
		"<g id=\"a_plot_1\" ><title>$curve0</title>\n"
		"<path stroke='rgb(  0, 158, 115)'/>"
		"<text font-family=\"sans-serif\">rgb(1,2,3)</text>"
		"</g>\n</g>\n</svg>\n";
	FILE *out = open_text();

	(void)state;
	assert_int_equal(plot_svg_write(out, svg, "i", "wide", "T<", "A"), 0);
	is(out, "<svg class=\"wide\" viewBox=\"0 0 760 40\" xmlns=\"http://www.w3.org/2000/svg\" "
		"xmlns:xlink=\"http://www.w3.org/1999/xlink\" role=\"img\" "
		"aria-labelledby=\"i-t i-d\">\n<title id=\"i-t\">T&lt;</title>\n"
		"<desc id=\"i-d\">A</desc>\n<g>\n<g >\n<path stroke='var(--m-weir)'/>"
		"<text>rgb(1,2,3)</text></g>\n</g>\n</svg>\n");
	out = open_text();
	assert_int_equal(plot_svg_marks(out, svg), 0);
	is(out, "<svg class=\"marks\" width=\"0\" height=\"0\" aria-hidden=\"true\" "
		"xmlns=\"http://www.w3.org/2000/svg\" "
		"xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n<defs>\n\t<path id='gpPt0'/>\n"
		"</defs>\n</svg>\n");
}

static void test_svg_of_another_kind(void **state)
{
	FILE *out = open_text();

	(void)state;
	assert_int_equal(plot_svg_write(out, "", "i", "wide", "T", "A"), -EIO);
	assert_int_equal(plot_svg_write(out, "</defs>viewBox=\"", "i", "wide", "T", "A"), -EIO);
	assert_int_equal(plot_svg_marks(out, "<defs></defs>"), -EIO);
	is(out, "");
}

/* In what gnuplot wrote colours are told apart by their light values. */
static void test_palette(void **state)
{
	(void)state;
	for (int i = 0; i < COLOUR_NR; i++) {
		assert_non_null(report_palette[i].name);
		assert_int_equal(strlen(report_palette[i].light), 7);
		assert_int_equal(strspn(report_palette[i].light, "#0123456789abcdef"), 7);
		assert_int_equal(strlen(report_palette[i].dark), 7);
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(report_palette[i].light, report_palette[k].light);
			assert_string_not_equal(report_palette[i].name, report_palette[k].name);
		}
	}
}

static void test_canvas_quotes(void **state)
{
	struct canvas canvas;
	FILE *out = open_text();

	(void)state;
	assert_int_equal(canvas_init(&canvas, 100), 0);
	canvas.height = 50;
	canvas_text(&canvas, 1, 2, TEXT_LEFT, 12, COLOUR_INK, "it's `x`\n\"$y\" . system(\"z\")");
	assert_int_equal(canvas_finish(&canvas, out, CANVAS_SVG, "a.svg"), 0);
	canvas_fini(&canvas);
	assert_int_equal(fclose(out), 0);
	assert_non_null(
		strstr(text, "set label 1 'it''s `x` \"$y\" . system(\"z\")' at 1.00,2.00 "));
	assert_non_null(strstr(text, "set output 'a.svg'\n"));
	free(text);
}

static void test_figures(void **state)
{
	struct figure figure;

	(void)state;
	assert_string_equal(figure_seconds(&figure, 3.874), "3.87 s");
	assert_string_equal(figure_seconds(&figure, 0.22487), "225 ms");
	assert_string_equal(figure_seconds(&figure, 0.9996), "1.00 s");
	assert_string_equal(figure_seconds(&figure, 9.996), "10.0 s");
	assert_string_equal(figure_seconds(&figure, 65.27), "65.3 s");
	assert_string_equal(figure_seconds(&figure, 0), "0 s");
	assert_string_equal(figure_seconds(&figure, NAN), "-");
	assert_string_equal(figure_bytes(&figure, 33.67e9), "33.7 GB");
	assert_string_equal(figure_bytes(&figure, 5e6), "5.00 MB");
	assert_string_equal(figure_bytes(&figure, 2213e9), "2213 GB");
	assert_string_equal(figure_bytes(&figure, 2.2e13), "22.0 TB");
	assert_string_equal(figure_bytes(&figure, 0), "0 GB");
	assert_string_equal(figure_ratio(&figure, 1.0049), "1.00");
	assert_string_equal(figure_ratio(&figure, 150.6), "151");
	assert_string_equal(figure_count(&figure, 12e6), "12M");
	assert_string_equal(figure_count(&figure, NAN), "-");
	assert_string_equal(figure_percent(&figure, 0.466), "47 %");
	assert_string_equal(figure_percent(&figure, 0.001), "under 1 %");
}

static void test_tick_step(void **state)
{
	(void)state;
	assert_true(fabs(tick_step(4.1, 9) - 0.5) < 1e-12);
	assert_true(fabs(tick_step(35, 4) - 10) < 1e-12);
	assert_true(fabs(tick_step(1, 10) - 0.1) < 1e-12);
	assert_true(fabs(tick_step(150, 10) - 20) < 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_html_text),	    cmocka_unit_test(test_svg_for_a_page),
		cmocka_unit_test(test_svg_of_another_kind), cmocka_unit_test(test_palette),
		cmocka_unit_test(test_canvas_quotes),	    cmocka_unit_test(test_figures),
		cmocka_unit_test(test_tick_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
