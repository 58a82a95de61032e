/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: one HTML file that needs nothing else, no network and no scripts.
 */
#ifndef WEIR_CLI_REPORT_PAGE_H
#define WEIR_CLI_REPORT_PAGE_H

#include "cli/report_plot.h"
#include "cli/report_sets.h"
#include "cli/report_timeline.h"

#define REPORT_PAGE_BYTES_MAX 1000000

enum chart_kind {
	CHART_EPOCHS,
	CHART_PARTS,
	CHART_POLICIES,
	CHART_TRAFFIC,
	CHART_COPIES,
	CHART_TOUCH,
	CHART_GRAPH,
	CHART_SOLVER,
	CHART_RESIDENCY
};

/* A chart that the page shows. gnuplot's files of it are named after it. */
struct page_chart {
	enum chart_kind kind;
	size_t set; /* index; of residency: 0 */
	char name[24];
	char *wide, *narrow; /* gnuplot's SVG; owned */
};

#define PAGE_CHARTS_MAX (5 * REPORT_SETS_MAX + 4)

struct page {
	const struct report_sets *sets;
	const struct report_timeline *timeline; /* NULL: none */
	size_t nr_results;
	struct page_chart chart[PAGE_CHARTS_MAX];
	size_t nr_charts;
};

/* List the charts for which there is something to draw. The page borrows both. */
void page_plan(struct page *page, const struct report_sets *sets,
	       const struct report_timeline *timeline);

void page_fini(struct page *page);

/* Write it. -EIO: an SVG is not gnuplot's. Errors of writing stay in the stream. */
int page_write(FILE *out, const struct page *page);

/* Write a chart alone, as an SVG of its own, which follows the reader's choice of light or dark. As
 * page_write(). */
int page_write_drawing(FILE *out, const struct page *page, const struct page_chart *chart);

#endif
