/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as results, or (beginning with 't') as a timeline: refused with one printable line, or
 * accepted, and then everything that a page says and draws of them is made without a complaint.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_charts.h"
#include "cli/report_page.h"
#include "cli/report_read.h"
#include "cli/report_touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* As gnuplot frames what it draws. */
static const char svg[] = "<svg viewBox=\"0 0 1 1\"><defs><filter></defs><g></g></svg>";

static void check(int truth)
{
	if (!truth)
		abort();
}

static void check_refusal(const char *err)
{
	check(!strncmp(err, "file:", 5));
	for (const char *c = err; *c; c++)
		check(*c >= ' ' && *c <= '~');
}

static void draw(const struct page *page, const struct page_chart *chart, double width, FILE *null)
{
	const struct report_set *set = &page->sets->set[chart->set];
	struct canvas canvas;

	check(!canvas_init(&canvas, width));
	if (chart->kind == CHART_EPOCHS)
		chart_epochs(&canvas, page->sets, set);
	else if (chart->kind == CHART_PARTS)
		chart_parts(&canvas, page->sets, set);
	else if (chart->kind == CHART_TRAFFIC)
		chart_traffic(&canvas, page->sets, set);
	else if (chart->kind == CHART_TOUCH)
		touch_chart(&canvas, page->sets->results);
	else
		chart_residency(&canvas, page->timeline);
	check(canvas.height > 0 && canvas.height < 1e6);
	check(!canvas_finish(&canvas, null, CANVAS_SVG, "name"));
	canvas_fini(&canvas);
}

static void make_page(const struct report_sets *sets, const struct report_timeline *timeline)
{
	FILE *null = fopen("/dev/null", "we");
	struct page page;

	check(null != NULL);
	page_plan(&page, sets, timeline);
	for (size_t i = 0; i < page.nr_charts; i++) {
		page.chart[i].wide = strdup(svg);
		page.chart[i].narrow = strdup(svg);
		draw(&page, &page.chart[i], CHART_WIDE, null);
		draw(&page, &page.chart[i], CHART_NARROW, null);
	}
	check(!page_write(null, &page));
	page_fini(&page);
	(void)fclose(null);
}

static void take_results(const char *text, size_t bytes)
{
	struct report_results results = {0};
	struct report_sets sets = {0};
	char err[256] = "";
	int rc = report_read(text, bytes, "file", &results, err, sizeof(err));

	if (rc)
		check_refusal(err);
	if (!rc && results.nr) {
		rc = report_sets_make(&results, &sets, err, sizeof(err));
		check(!rc || (rc == -E2BIG && err[0]));
		if (!rc)
			make_page(&sets, NULL);
	}
	report_sets_fini(&sets);
	report_results_fini(&results);
}

static void take_timeline(const char *text, size_t bytes)
{
	struct report_timeline timeline;
	struct report_sets sets = {0};
	char err[256] = "";

	if (report_timeline_read(text, bytes, "file", &timeline, err, sizeof(err)))
		check_refusal(err);
	else
		make_page(&sets, &timeline);
	report_timeline_fini(&timeline);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes && data[0] == 't')
		take_timeline((const char *)data + 1, bytes - 1);
	else
		take_results((const char *)data, bytes);
	return 0;
}
