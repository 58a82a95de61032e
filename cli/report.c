/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weir report`: results in, a page out. What is read is in report_read.c and report_timeline.c,
 * how it is put in order in report_sets.c, what is said of it in report_text.c, what is drawn in
 * report_charts.c and report_bars.c, what the page looks like in report_page.c.
 */
#include "cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/file_read.h"
#include "cli/interrupt.h"
#include "cli/kept.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report_canvas.h"
#include "cli/report_charts.h"
#include "cli/report_graph.h"
#include "cli/report_solver.h"
#include "cli/report_page.h"
#include "cli/report_plot.h"
#include "cli/report_read.h"
#include "cli/report_touch.h"

enum { EXIT_BAD = 2 };

/* Of what gnuplot wrote. Before it is made fit for a page, SVG may be larger than a page. */
#define SVG_BYTES_MAX ((size_t)4 << 20)
#define PNG_BYTES_MAX ((size_t)64 << 20)

enum report_option { OUTPUT, TIMELINE, PNG, SVG, PLOT_TIMEOUT, HELP, NR_OPTIONS };

static const struct option_def report_options[NR_OPTIONS] = {
	[OUTPUT] = {"output", "FILE", NULL, "report.html",
		    "the page; -o for short; - is standard output"},
	[TIMELINE] = {"timeline", "FILE", NULL, NULL,
		      "a timeline of `weir bench`, for residency over time"},
	[PNG] = {"png", "DIR", NULL, NULL, "write the charts as pictures into this folder, too"},
	[SVG] = {"svg", "DIR", NULL, NULL,
		 "write the charts as drawings into this folder, too, for light and dark"},
	[PLOT_TIMEOUT] = {"plot-timeout", "S", NULL, "60", "seconds that gnuplot may take"},
	[HELP] = {"help", NULL, NULL, NULL, "print this"},
};

struct report {
	char **files; /* borrowed texts */
	size_t nr_files;
	struct option_value values[NR_OPTIONS];
	double plot_timeout_s;
	struct report_results results;
	struct report_timeline timeline;
	struct report_sets sets;
	struct page page;
	struct plot plot;
	struct progress bar;
	char err[512];
};

static int print_help(void)
{
	puts("usage: weir report RESULTS... [options]\n"
	     "\n"
	     "Make a page out of results, as `weir bench` and `weir replay` write them with\n"
	     "--json FILE, that shows what each manager's time goes into. - is standard input.\n");
	options_help(stdout, report_options, NR_OPTIONS);
	return fflush(stdout) ? EXIT_BAD : 0;
}

/* ------------------------------------------------------------------ arguments */

/* Divide arguments: what is no option is a file. rest has room for all of them. */
static int split(int argc, char **argv, struct report *r, char **rest, int *nr_rest)
{
	static char output[] = "--output";

	for (int i = 0; i < argc; i++) {
		bool option = strncmp(argv[i], "--", 2) == 0 || strcmp(argv[i], "-o") == 0;

		if (!option && argv[i][0] == '-' && argv[i][1]) {
			snprintf(r->err, sizeof(r->err),
				 "no option %.40s; weir report --help lists the options", argv[i]);
			return -EINVAL;
		}
		if (!option) {
			r->files[r->nr_files++] = argv[i];
			continue;
		}
		rest[(*nr_rest)++] = argv[i][1] == 'o' ? output : argv[i];
		/* All but --help take a value, and that would not get here. */
		if (!strchr(argv[i], '=') && i + 1 < argc)
			rest[(*nr_rest)++] = argv[++i];
	}
	return 0;
}

static int check_arguments(struct report *r)
{
	const char *text = r->values[PLOT_TIMEOUT].text;
	size_t nr_stdin = r->values[TIMELINE].text && !strcmp(r->values[TIMELINE].text, "-");
	char *end;

	r->plot_timeout_s = strtod(text, &end);
	if (*end || !(r->plot_timeout_s > 0 && r->plot_timeout_s <= 86400)) {
		snprintf(r->err, sizeof(r->err),
			 "--plot-timeout '%.40s' is no time: write seconds above 0, at most 86400",
			 text);
		return -EINVAL;
	}
	if (!r->nr_files) {
		snprintf(r->err, sizeof(r->err),
			 "report needs results; write weir report RESULTS.json -o report.html");
		return -EINVAL;
	}
	for (size_t i = 0; i < r->nr_files; i++)
		nr_stdin += strcmp(r->files[i], "-") == 0;
	if (nr_stdin > 1) {
		snprintf(r->err, sizeof(r->err),
			 "standard input is named %zu times: it can be read once", nr_stdin);
		return -EINVAL;
	}
	return 0;
}

static int parse(int argc, char **argv, struct report *r)
{
	char **rest = calloc((size_t)argc + 1, sizeof(*rest));
	int nr_rest = 0, rc;

	r->files = calloc((size_t)argc + 1, sizeof(*r->files));
	if (rest && r->files) {
		rc = split(argc, argv, r, rest, &nr_rest);
		if (!rc)
			rc = options_parse(report_options, NR_OPTIONS, nr_rest, rest, r->values,
					   r->err, sizeof(r->err));
		if (!rc)
			rc = check_arguments(r);
	} else {
		rc = -ENOMEM;
	}
	free(rest);
	return rc;
}

/* ------------------------------------------------------------------ input */

static int read_file(struct report *r, const char *name, char **text, size_t *bytes)
{
	bool standard = strcmp(name, "-") == 0;
	int fd = standard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : file_read(fd, REPORT_FILE_BYTES_MAX, text, bytes);

	if (fd >= 0)
		kept_add_fd(fd);
	if (fd >= 0 && !standard)
		(void)close(fd);
	if (rc == -EFBIG)
		snprintf(r->err, sizeof(r->err), "%.200s: larger than 64 MiB: give fewer results",
			 name);
	else if (rc)
		snprintf(r->err, sizeof(r->err), "%.200s: %s; give a file of `weir bench`", name,
			 strerror(-rc));
	report_printable(r->err);
	return rc;
}

static int read_results(struct report *r, const char *name)
{
	const char *called = strcmp(name, "-") == 0 ? "standard input" : name;
	size_t bytes = 0, before = report_results_nr(&r->results);
	char *text = NULL;
	int rc = read_file(r, name, &text, &bytes);

	if (rc)
		return rc;
	rc = report_read(text, bytes, called, &r->results, r->err, sizeof(r->err));
	free(text);
	if (!rc && report_results_nr(&r->results) == before) {
		snprintf(r->err, sizeof(r->err),
			 "%.200s: no results in it: give a file of `weir bench --json`", called);
		report_printable(r->err);
		rc = -EINVAL;
	}
	return rc;
}

static int read_all(struct report *r)
{
	const char *timeline = r->values[TIMELINE].text;
	size_t bytes = 0;
	char *text = NULL;
	int rc = 0;

	for (size_t i = 0; i < r->nr_files && !rc; i++)
		rc = read_results(r, r->files[i]);
	if (!rc && timeline) {
		rc = read_file(r, timeline, &text, &bytes);
		if (rc)
			return rc;
		rc = report_timeline_read(text, bytes,
					  strcmp(timeline, "-") == 0 ? "standard input" : timeline,
					  &r->timeline, r->err, sizeof(r->err));
		free(text);
	}
	return rc;
}

/* ------------------------------------------------------------------ charts */

static void draw(struct canvas *canvas, const struct page *page, const struct page_chart *chart)
{
	const struct report_sets *sets = page->sets;
	const struct report_set *set = &sets->set[chart->set];

	switch (chart->kind) {
	case CHART_EPOCHS:
		chart_epochs(canvas, page->sets, set);
		break;
	case CHART_PARTS:
		chart_parts(canvas, page->sets, set);
		break;
	case CHART_POLICIES:
		chart_policies(canvas, page->sets, set);
		break;
	case CHART_TRAFFIC:
		chart_traffic(canvas, page->sets, set);
		break;
	case CHART_COPIES:
		chart_copies(canvas, page->sets, set);
		break;
	case CHART_TOUCH:
		touch_chart(canvas, sets->results);
		break;
	case CHART_GRAPH:
		graph_chart(canvas, sets->results);
		break;
	case CHART_SOLVER:
		solver_chart(canvas, sets->results);
		break;
	case CHART_RESIDENCY:
		chart_residency(canvas, page->timeline);
		break;
	}
}

/* The ways in which a chart is drawn, and what is behind its name then. */
enum variant { WIDE, NARROW, PICTURE };

static const char *const suffixes[] = {"-wide.svg", "-narrow.svg", ".png"};

static void file_name(char *name, size_t bytes, const struct page_chart *chart,
		      enum variant variant)
{
	snprintf(name, bytes, "%s%s", chart->name, suffixes[variant]);
}

static int script_chart(struct report *r, const struct page_chart *chart, enum variant variant)
{
	struct canvas canvas;
	char name[40];
	int rc = canvas_init(&canvas, variant == NARROW ? CHART_NARROW : CHART_WIDE);

	if (rc)
		return rc;
	file_name(name, sizeof(name), chart, variant);
	draw(&canvas, &r->page, chart);
	rc = canvas_finish(&canvas, r->plot.script, variant == PICTURE ? CANVAS_PNG : CANVAS_SVG,
			   name);
	canvas_fini(&canvas);
	return rc;
}

/* What gnuplot wrote. */
static int read_drawn(struct report *r, const struct page_chart *chart, enum variant variant,
		      size_t bytes_max, char **text, size_t *bytes)
{
	char name[40], *path;
	int fd, rc = -ENOMEM;

	file_name(name, sizeof(name), chart, variant);
	path = plot_path(&r->plot, name);
	if (!path)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	rc = fd < 0 ? -errno : file_read(fd, bytes_max, text, bytes);
	if (fd >= 0)
		(void)close(fd);
	free(path);
	if (rc)
		snprintf(r->err, sizeof(r->err),
			 "gnuplot's %s: %s; is the package gnuplot-nox whole?", name,
			 strerror(-rc));
	return rc;
}

static int draw_all(struct report *r)
{
	int last = r->values[PNG].text ? PICTURE : NARROW, rc;

	if (!r->page.nr_charts)
		return 0;
	rc = plot_open(&r->plot, r->err, sizeof(r->err));
	for (size_t i = 0; i < r->page.nr_charts && !rc; i++)
		for (int variant = WIDE; variant <= last && !rc; variant++)
			rc = script_chart(r, &r->page.chart[i], (enum variant)variant);
	if (!rc)
		rc = plot_run(&r->plot, r->plot_timeout_s, r->err, sizeof(r->err));
	for (size_t i = 0; i < r->page.nr_charts && !rc; i++) {
		struct page_chart *chart = &r->page.chart[i];
		size_t bytes;

		rc = read_drawn(r, chart, WIDE, SVG_BYTES_MAX, &chart->wide, &bytes);
		if (!rc)
			rc = read_drawn(r, chart, NARROW, SVG_BYTES_MAX, &chart->narrow, &bytes);
	}
	return rc;
}

/* ------------------------------------------------------------------ output */

static int write_whole(struct report *r, const char *option, const char *name, const char *text,
		       size_t bytes)
{
	struct output_file output;
	int rc = output_file_open(&output, option, name, r->err, sizeof(r->err));

	if (rc)
		return rc;
	interrupt_set_partial(0, output.partial);
	errno = 0;
	fwrite(text, 1, bytes, output.stream);
	rc = output_file_flush(&output, r->err, sizeof(r->err));
	if (rc)
		output_file_abandon(&output);
	else
		rc = output_file_commit(&output, r->err, sizeof(r->err));
	interrupt_set_partial(0, NULL);
	return rc;
}

/* A chart's drawing, as a file that stands alone. */
static int make_drawing(const struct report *r, const struct page_chart *chart, char **text,
			size_t *bytes)
{
	FILE *out = open_memstream(text, bytes);
	int rc = -ENOMEM;

	if (!out)
		return rc;
	rc = page_write_drawing(out, &r->page, chart);
	return fclose(out) && !rc ? -ENOMEM : rc;
}

static int write_picture(struct report *r, const struct page_chart *chart,
			 enum report_option option)
{
	char *text = NULL, *path = NULL, name[40];
	size_t bytes = 0;
	int rc = option == PNG ? read_drawn(r, chart, PICTURE, PNG_BYTES_MAX, &text, &bytes)
			       : make_drawing(r, chart, &text, &bytes);

	snprintf(name, sizeof(name), "%s.%s", chart->name, report_options[option].name);
	if (!rc && asprintf(&path, "%s/%s", r->values[option].text, name) < 0) {
		path = NULL;
		rc = -ENOMEM;
	}
	if (!rc)
		rc = write_whole(r, option == PNG ? "--png" : "--svg", path, text, bytes);
	free(path);
	free(text);
	return rc;
}

static int write_pictures(struct report *r, enum report_option option)
{
	const char *dir = r->values[option].text;
	int rc = 0;

	if (!dir)
		return 0;
	if (mkdir(dir, 0777) && errno != EEXIST) {
		rc = -errno;
		snprintf(r->err, sizeof(r->err), "cannot make folder '%.200s': %s; choose another",
			 dir, strerror(-rc));
		return rc;
	}
	for (size_t i = 0; i < r->page.nr_charts && !rc; i++)
		rc = write_picture(r, &r->page.chart[i], option);
	return rc;
}

static int write_page(struct report *r)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int rc = -ENOMEM;

	if (!out)
		return rc;
	rc = page_write(out, &r->page);
	if (fclose(out) && !rc)
		rc = -ENOMEM;
	if (rc == -EIO)
		snprintf(r->err, sizeof(r->err),
			 "gnuplot wrote SVG of a kind that is not known here: its version should "
			 "be 5.4 or later");
	if (!rc && bytes > REPORT_PAGE_BYTES_MAX) {
		snprintf(r->err, sizeof(r->err),
			 "the page would have %zu bytes, more than %d: give fewer results", bytes,
			 REPORT_PAGE_BYTES_MAX);
		rc = -EFBIG;
	}
	if (!rc)
		rc = write_whole(r, "--output", r->values[OUTPUT].text, text, bytes);
	free(text);
	return rc;
}

/* ------------------------------------------------------------------ the command */

static int make(struct report *r)
{
	int rc = read_all(r);

	if (!rc)
		rc = output_file_check("--output", r->values[OUTPUT].text, r->err, sizeof(r->err));
	if (!rc)
		rc = report_sets_make(&r->results, &r->sets, r->err, sizeof(r->err));
	if (rc)
		return rc;
	page_plan(&r->page, &r->sets, r->timeline.nr_runs ? &r->timeline : NULL);
	progress_start(&r->bar, stderr);
	progress_set(&r->bar, 0, "drawing");
	rc = draw_all(r);
	progress_end(&r->bar);
	if (!rc)
		rc = write_pictures(r, PNG);
	if (!rc)
		rc = write_pictures(r, SVG);
	return rc ? rc : write_page(r);
}

/* Say where it is, unless it is standard output. */
static int tell(const struct report *r)
{
	const char *output = r->values[OUTPUT].text;
	const char *png = r->values[PNG].text, *svg = r->values[SVG].text;
	const size_t charts = r->page.nr_charts;

	if (strcmp(output, "-") == 0)
		return 0;
	if (png)
		printf("%s: %zu picture%s\n", png, charts, charts == 1 ? "" : "s");
	if (svg)
		printf("%s: %zu drawing%s\n", svg, charts, charts == 1 ? "" : "s");
	printf("%s: a page of %zu result%s, with %zu chart%s\n", output, r->page.nr_results,
	       r->page.nr_results == 1 ? "" : "s", charts, charts == 1 ? "" : "s");
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "weir: standard output: %s; the page is written\n", strerror(errno));
	return EXIT_BAD;
}

static int status_of(struct report *r, int rc)
{
	if (rc == -ENOMEM && !r->err[0])
		snprintf(r->err, sizeof(r->err), "not enough memory on this computer");
	else if (rc && !r->err[0])
		snprintf(r->err, sizeof(r->err), "%s", strerror(-rc));
	if (interrupt_pending()) {
		fputs("weir: interrupted; no page was written\n", stderr);
		return 128 + interrupt_pending();
	}
	if (rc)
		fprintf(stderr, "weir: %s\n", r->err);
	return rc ? EXIT_BAD : tell(r);
}

int report_main(int argc, char **argv)
{
	struct report report = {0};
	int rc;

	if (options_want_help(argc - 1, argv + 1))
		return print_help();
	rc = interrupt_init();
	if (!rc)
		rc = parse(argc - 1, argv + 1, &report);
	if (!rc)
		rc = make(&report);
	rc = status_of(&report, rc);
	plot_close(&report.plot);
	page_fini(&report.page);
	report_sets_fini(&report.sets);
	report_timeline_fini(&report.timeline);
	report_results_fini(&report.results);
	free(report.files);
	return rc;
}
