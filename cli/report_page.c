/* SPDX-License-Identifier: Apache-2.0 */
/* The page; see report_page.h. Everything that comes from input goes through html_text(). */
#include "cli/report_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_canvas.h"
#include "cli/report_charts.h"
#include "cli/report_explain.h"
#include "cli/report_graph.h"
#include "cli/report_solver.h"
#include "cli/report_origin.h"
#include "cli/report_style.h"
#include "cli/report_tables.h"
#include "cli/report_text.h"
#include "cli/report_touch.h"
#include "src/base/util.h"

#define DRAWING_MARGIN 12L /* pixels */

/* ------------------------------------------------------------------ what is on it */

/* Others are of what no set has. */
static bool of_a_set(enum chart_kind kind)
{
	return kind == CHART_EPOCHS || kind == CHART_PARTS || kind == CHART_POLICIES ||
	       kind == CHART_TRAFFIC || kind == CHART_COPIES;
}

static void add_chart(struct page *page, enum chart_kind kind, size_t set)
{
	static const char *const names[] = {"epochs", "time",	"policies", "traffic",	"copies",
					    "table",  "graphs", "solvers",  "residency"};
	struct page_chart *chart = &page->chart[page->nr_charts++];

	*chart = (struct page_chart){.kind = kind, .set = set};
	if (!of_a_set(kind))
		snprintf(chart->name, sizeof(chart->name), "%s", names[kind]);
	else
		snprintf(chart->name, sizeof(chart->name), "%zu-%s", set + 1, names[kind]);
}

void page_plan(struct page *page, const struct report_sets *sets,
	       const struct report_timeline *timeline)
{
	*page = (struct page){.sets = sets, .timeline = timeline};
	for (size_t i = 0; i < sets->nr; i++) {
		const struct report_set *set = &sets->set[i];

		page->nr_results += set->nr_results;
		if (chart_has_epochs(sets, set))
			add_chart(page, CHART_EPOCHS, i);
		if (chart_has_parts(sets, set) && report_nr_run(sets, set) <= REPORT_SLOTS_MAX)
			add_chart(page, CHART_PARTS, i);
		if (chart_has_policies(sets, set))
			add_chart(page, CHART_POLICIES, i);
		if (chart_has_traffic(sets, set))
			add_chart(page, CHART_TRAFFIC, i);
		if (chart_has_copies(sets, set))
			add_chart(page, CHART_COPIES, i);
	}
	if (sets->results)
		page->nr_results += sets->results->touch.nr + sets->results->graph.nr +
				    sets->results->solver.nr;
	if (sets->results && touch_has_chart(sets->results))
		add_chart(page, CHART_TOUCH, 0);
	if (sets->results && graph_has_chart(sets->results))
		add_chart(page, CHART_GRAPH, 0);
	if (sets->results && solver_has_chart(sets->results))
		add_chart(page, CHART_SOLVER, 0);
	if (timeline)
		add_chart(page, CHART_RESIDENCY, 0);
}

void page_fini(struct page *page)
{
	for (size_t i = 0; i < page->nr_charts; i++) {
		free(page->chart[i].wide);
		free(page->chart[i].narrow);
	}
	*page = (struct page){0};
}

/* ------------------------------------------------------------------ head */

static void put_colours(FILE *out, bool dark)
{
	fprintf(out, "--paper:%s;color-scheme:%s", dark ? "#15181b" : "#ffffff",
		dark ? "dark" : "light");
	for (int i = 0; i < COLOUR_NR; i++)
		fprintf(out, ";--%s:%s", report_palette[i].name,
			dark ? report_palette[i].dark : report_palette[i].light);
}

static void put_head(FILE *out, const struct page *page)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	      "<title>",
	      out);
	origin_title(out, page->sets->results);
	fputs(" - weir report</title>\n<style>\n:root{", out);
	put_colours(out, false);
	fputs("}\n@media(prefers-color-scheme:dark){:root{", out);
	put_colours(out, true);
	fputs("}}\n" REPORT_STYLE "</style>\n</head>\n<body>\n", out);
}

/* What a writer of sentences writes, as paragraphs. */
struct sentences {
	FILE *stream;
	char *text;
	size_t bytes;
};

static FILE *sentences_open(struct sentences *sentences)
{
	*sentences = (struct sentences){0};
	sentences->stream = open_memstream(&sentences->text, &sentences->bytes);
	return sentences->stream;
}

/* "- WHAT: ..." */
static void put_item(FILE *out, char *line)
{
	char *colon = strstr(line, ": ");

	fputs("<li>", out);
	if (colon) {
		*colon = '\0';
		fputs("<strong>", out);
		html_text(out, line + 2);
		fputs("</strong>: ", out);
		line = colon;
	}
	html_text(out, line + 2);
	fputs("</li>\n", out);
}

static int sentences_put(struct sentences *sentences, FILE *out, const char *css_class)
{
	char *line, *rest = NULL;
	int rc = fclose(sentences->stream) ? -ENOMEM : 0;
	bool list = false;

	for (line = rc ? NULL : strtok_r(sentences->text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		bool item = strncmp(line, "- ", 2) == 0;

		if (item != list)
			fputs(item ? "<ul>\n" : "</ul>\n", out);
		list = item;
		if (item) {
			put_item(out, line);
			continue;
		}
		fprintf(out, "<p%s>", css_class);
		html_text(out, line);
		fputs("</p>\n", out);
	}
	if (list)
		fputs("</ul>\n", out);
	free(sentences->text);
	return rc;
}

static int put_summary(FILE *out, const struct page *page)
{
	const struct report_sets *sets = page->sets;

	bool replay = false;

	for (size_t i = 0; i < sets->nr; i++)
		replay |= report_is_replay(&sets->set[i]);
	fputs("<h1>", out);
	origin_title(out, sets->results);
	fprintf(out,
		": where the time goes</h1>\n<p class=\"by\">%zu result%s of <code>weir bench"
		"</code>%s, by <code>weir report</code>; <a href=\"#made\">how they were made</a>"
		"</p>\n",
		page->nr_results, page->nr_results == 1 ? "" : "s",
		replay ? " and <code>weir replay</code>" : "");
	for (size_t i = 0; i < sets->nr; i++) {
		struct sentences sentences;
		int rc;

		if (!sentences_open(&sentences))
			return -ENOMEM;
		if (chart_has_parts(sets, &sets->set[i]))
			fprintf(sentences.stream, "%s. ", sets->set[i].title);
		text_in_short(sentences.stream, sets, &sets->set[i]);
		rc = sentences_put(&sentences, out, " class=\"lead\"");
		if (rc)
			return rc;
	}
	if (sets->nr < 2)
		return 0;
	fputs("<nav aria-label=\"Sections\"><ul>\n", out);
	for (size_t i = 0; i < sets->nr; i++) {
		fprintf(out, "<li><a href=\"#set-%zu\">", i + 1);
		html_text(out, sets->set[i].title);
		fputs("</a></li>\n", out);
	}
	fputs("</ul></nav>\n", out);
	return 0;
}

/* ------------------------------------------------------------------ charts */

struct chart_words {
	const char *heading, *title, *about;
};

static const struct chart_words chart_words[] = {
	[CHART_EPOCHS] =
		{"Time of an epoch", "Time of an epoch over memory needed",
		 "A curve for each manager: seconds an epoch, on a logarithmic scale, over "
		 "how many times the GPU\xe2\x80\x99s memory the work needs, with the lower "
		 "bound. The table of results has the figures."},
	[CHART_PARTS] = {"Where the time goes", "Parts of the time of an epoch",
			 "For each size a bar for each manager, divided into what the time of an "
			 "epoch goes into. The text has the largest parts."},
	[CHART_POLICIES] =
		{"What policies bring", "Time of an epoch over that in memory, by policy",
		 "For each manager that was run with policies a row for each of them, and at each "
		 "size a bar, divided into what the time of an epoch goes into, in times of an "
		 "epoch in memory. The table of results has the figures."},
	[CHART_TRAFFIC] =
		{"What crosses the links", "Bytes over the links by cause",
		 "For each manager and size a bar for each link and direction, divided by "
		 "why the bytes were moved. The table of results has the sums."},
	[CHART_COPIES] =
		{"Copies, and the least that would have done", "Bytes copied to the GPU an epoch",
		 "For each manager that was compared with the oracle a curve of what it copied to "
		 "the GPU an epoch, and a dashed one of the least for what it served from there."},
	[CHART_TOUCH] = {"Tables and matrices", "Bytes a second by manager",
			 "For each case a row for each manager: what its kernels read and wrote "
			 "a second, on a logarithmic scale. The table has the figures."},
	[CHART_GRAPH] = {"Graphs", "Time over the lower bound by manager",
			 "For each graph, algorithm and budget a row for each manager: the time of "
			 "a pass over the lower bound, on a logarithmic scale. The table has the "
			 "figures."},
	[CHART_SOLVER] = {"Solvers", "Speed-up by manager",
			  "For each field and number of GPUs a row for each manager: times as fast "
			  "as one GPU, on a logarithmic scale. The table has the figures."},
	[CHART_RESIDENCY] = {"What is resident when", "Resident bytes over time",
			     "For each run a curve for each memory: bytes resident in it over the "
			     "time of the run."},
};

static void put_sentences_of(FILE *out, const struct page *page, const struct page_chart *chart)
{
	const struct report_set *set = &page->sets->set[chart->set];

	switch (chart->kind) {
	case CHART_EPOCHS:
		text_epochs(out, page->sets, set);
		break;
	case CHART_PARTS:
		text_parts(out, page->sets, set);
		break;
	case CHART_POLICIES:
		text_policies(out, page->sets, set);
		break;
	case CHART_TRAFFIC:
		text_traffic(out, page->sets, set);
		break;
	case CHART_COPIES:
		text_copies(out, page->sets, set);
		break;
	case CHART_TOUCH:
		touch_text(out, page->sets->results);
		break;
	case CHART_GRAPH:
		graph_text(out, page->sets->results);
		break;
	case CHART_SOLVER:
		solver_text(out, page->sets->results);
		break;
	case CHART_RESIDENCY:
		text_residency(out, page->timeline);
		break;
	}
}

/* Of a replay the question is another one. */
static const struct chart_words replay_words = {
	"How much memory is enough", "Time of an epoch over GPU memory",
	"A curve for each manager: seconds an epoch, on a logarithmic scale, over the "
	"GPU\xe2\x80\x99s memory that it may use, with the lower bound. The table of results has "
	"the figures."};

static const struct chart_words *words_of(const struct page *page, const struct page_chart *chart)
{
	bool replay = chart->kind == CHART_EPOCHS && report_is_replay(&page->sets->set[chart->set]);

	return replay ? &replay_words : &chart_words[chart->kind];
}

static int put_chart(FILE *out, const struct page *page, const struct page_chart *chart)
{
	const struct chart_words *words = words_of(page, chart);
	struct sentences sentences;
	char id[40];
	int rc;

	fprintf(out, "<%s id=\"%s\">%s</%s>\n", of_a_set(chart->kind) ? "h3" : "h2", chart->name,
		words->heading, of_a_set(chart->kind) ? "h3" : "h2");
	if (!sentences_open(&sentences))
		return -ENOMEM;
	put_sentences_of(sentences.stream, page, chart);
	rc = sentences_put(&sentences, out, "");
	if (rc)
		return rc;
	fputs("<figure>\n", out);
	snprintf(id, sizeof(id), "%s-wide", chart->name);
	rc = plot_svg_write(out, chart->wide, id, "wide", words->title, words->about);
	snprintf(id, sizeof(id), "%s-narrow", chart->name);
	if (!rc)
		rc = plot_svg_write(out, chart->narrow, id, "narrow", words->title, words->about);
	fputs("</figure>\n", out);
	return rc;
}

int page_write_drawing(FILE *out, const struct page *page, const struct page_chart *chart)
{
	const struct chart_words *words = words_of(page, chart);
	static const char view[] = "viewBox=\"0 0 ";
	const char *box = strstr(chart->wide, view);
	char *end = NULL;
	long width = box ? strtol(box + strlen(view), &end, 10) : 0;
	long height = box ? strtol(end, &end, 10) : 0;
	int rc;

	if (width <= 0 || height <= 0 || *end != '"')
		return -EIO;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%ld\" height=\"%ld\" "
		"viewBox=\"-%ld -%ld %ld %ld\">\n<style>\n:root{",
		width + 2 * DRAWING_MARGIN, height + 2 * DRAWING_MARGIN, DRAWING_MARGIN,
		DRAWING_MARGIN, width + 2 * DRAWING_MARGIN, height + 2 * DRAWING_MARGIN);
	put_colours(out, false);
	fputs("}\n@media(prefers-color-scheme:dark){:root{", out);
	put_colours(out, true);
	fprintf(out,
		"}}\ntext{font-family:sans-serif}\n.wide{width:%ldpx;height:%ldpx}\n</style>\n"
		"<rect x=\"-%ld\" y=\"-%ld\" width=\"100%%\" height=\"100%%\" "
		"fill=\"var(--paper)\"/>\n",
		width, height, DRAWING_MARGIN, DRAWING_MARGIN);
	rc = plot_svg_marks(out, chart->wide);
	if (!rc)
		rc = plot_svg_write(out, chart->wide, "chart", "wide", words->title, words->about);
	fputs("</svg>\n", out);
	return rc;
}

/* ------------------------------------------------------------------ sets beside each other */

static int put_pair(FILE *out, const struct report_sets *sets, const struct report_set *a,
		    const struct report_set *b)
{
	struct sentences sentences;
	int rc;

	fputs("<h3>", out);
	html_text(out, a->title);
	fputs(" beside ", out);
	html_text(out, b->title);
	fputs("</h3>\n", out);
	if (!sentences_open(&sentences))
		return -ENOMEM;
	text_comparison(sentences.stream, sets, a, b);
	rc = sentences_put(&sentences, out, "");
	if (rc)
		return rc;
	table_pair(out, sets, a, b);
	return 0;
}

/* Each set beside the first that it meets, a simulated beside a measured one where there is. */
static int put_comparisons(FILE *out, const struct report_sets *sets)
{
	bool heading = false;

	for (size_t k = 1; k < sets->nr; k++) {
		const struct report_set *partner = NULL, *b = &sets->set[k];
		int rc;

		for (size_t i = 0; i < k; i++) {
			const struct report_set *a = &sets->set[i];

			if (report_sets_meet(sets, a, b) &&
			    (!partner ||
			     (partner->measured == b->measured && a->measured != b->measured)))
				partner = a;
		}
		if (!partner)
			continue;
		if (!heading)
			fputs("<h2 id=\"beside\">Beside each other</h2>\n", out);
		heading = true;
		/* The simulated one first: the ratio is how far the model is off. */
		rc = partner->measured && !b->measured ? put_pair(out, sets, b, partner)
						       : put_pair(out, sets, partner, b);
		if (rc)
			return rc;
	}
	return 0;
}

/* ------------------------------------------------------------------ the whole */

struct explanation {
	const char *term, *text;
};

/* Those that the page speaks of: managers, then what is always explained. */
static void put_words(FILE *out, const struct report_sets *sets)
{
	static const struct explanation managers[] = {
		{"native", "pooled GPU memory, as training frameworks hold it"},
		{"malloc", "one allocation of GPU memory a tensor"},
		{"zerocopy", "pinned host memory that kernels use in place, over the link"},
		{"zerocopy+near", "another GPU\xe2\x80\x99s memory that kernels use in place"},
		{"uvm", "the driver\xe2\x80\x99s managed memory, moved by page faults"},
		{"uvm+max", "the same, always fetching the largest piece that the driver moves"},
		{"uvm+prefetch", "managed memory that is prefetched to the GPU when allocated"},
		{"uvm+prefetch+max", "both"},
		{"weir",
		 "planned residency: moved before use, and used in place where that is less"},
		{"weir+near",
		 "the same, with other GPUs\xe2\x80\x99 memory besides, nearer than the host; the "
		 "lower bound of others does not hold for it"},
		{"weir+near-copy", "the same, with that memory for copies alone"},
		{"weir-paged", "kernels bring pages from the host into frames themselves; those "
			       "that they only read once that pays"},
		{"weir-paged+page", "the same, each page at once: others are evicted for it"},
		{"weir-paged+fill", "each page at once, until the frames are full: nothing is "
				    "evicted"},
		{"weir-paged+auto", "all pages once that pays: nothing is evicted"},
		{"weir-paged+near", "weir-paged with pages in other GPUs\xe2\x80\x99 memory, too"},
	};
	static const struct explanation always[] = {
		{"lower bound", "a time that no manager can beat with this memory on this machine"},
		{"in memory", "native on the same GPU with memory enough"},
		{"needs", "the peak of bytes that are live at one time"},
	};

	fputs("<h2 id=\"words\">Words</h2>\n<dl>\n", out);
	for (size_t m = 0; m < sets->nr_managers; m++)
		for (size_t i = 0; i < ARRAY_LEN(managers); i++)
			if (strcmp(sets->manager[m], managers[i].term) == 0)
				fprintf(out,
					"<dt><span class=\"swatch\" style=\"background:var(--%s)"
					"\"></span>%s</dt><dd>%s</dd>\n",
					report_palette[COLOUR_MANAGER + sets->slot[m]].name,
					managers[i].term, managers[i].text);
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		fprintf(out, "<dt>%s</dt><dd>%s</dd>\n", always[i].term, always[i].text);
	fputs("</dl>\n", out);
}

static int put_set(FILE *out, const struct page *page, size_t i)
{
	const struct report_set *set = &page->sets->set[i];
	int rc = 0;

	fprintf(out, "<section aria-labelledby=\"set-%zu\">\n<h2 id=\"set-%zu\">", i + 1, i + 1);
	html_text(out, set->title);
	fputs("</h2>\n", out);
	if (set->measured)
		fprintf(out,
			"<p class=\"note\">Times are measured; the lower bound is computed from %s "
			"times of kernels.</p>\n",
			set->result[0]->bound_measured ? "measured" : "estimated");
	if (!chart_has_parts(page->sets, set))
		fputs("<p>No run got through, so there is nothing to draw.</p>\n", out);
	for (size_t k = 0; k < page->nr_charts && !rc; k++)
		if (of_a_set(page->chart[k].kind) && page->chart[k].set == i)
			rc = put_chart(out, page, &page->chart[k]);
	table_results(out, page->sets, set);
	table_decisions(out, page->sets, set);
	fputs("</section>\n", out);
	return rc;
}

int page_write(FILE *out, const struct page *page)
{
	int rc = 0;

	put_head(out, page);
	if (page->nr_charts)
		rc = plot_svg_marks(out, page->chart[0].wide);
	fputs("<main>\n", out);
	if (!rc)
		rc = put_summary(out, page);
	for (size_t i = 0; i < page->sets->nr && !rc; i++)
		rc = put_set(out, page, i);
	for (size_t k = 0; k < page->nr_charts && !rc; k++)
		if (!of_a_set(page->chart[k].kind))
			rc = put_chart(out, page, &page->chart[k]);
	if (page->sets->results && page->sets->results->touch.nr)
		touch_table(out, page->sets->results);
	if (page->sets->results && page->sets->results->graph.nr)
		graph_table(out, page->sets->results);
	if (page->sets->results && page->sets->results->solver.nr)
		solver_table(out, page->sets->results);
	if (page->sets->results)
		report_explain_put(out, page->sets->results);
	if (!rc)
		rc = put_comparisons(out, page->sets);
	put_words(out, page->sets);
	origin_put(out, page->sets->results);
	fputs("</main>\n</body>\n</html>\n", out);
	return rc;
}
