/* SPDX-License-Identifier: Apache-2.0 */
/* See report_origin.h. Each list names what differs once, in the order of the results. */
#include "cli/report_origin.h"

#include <stdbool.h>
#include <string.h>

#include "cli/report_plot.h"

#define TITLES_MAX 3
#define COMMANDS_MAX 40

/* The i-th of all results. */
static const struct report_result *result_at(const struct report_results *results, size_t i)
{
	const struct report_list *const lists[] = {&results->touch, &results->graph,
						   &results->solver};
	const struct report_list *const *list = lists;

	if (i < results->nr)
		return &results->result[i];
	i -= results->nr;
	while (i >= (*list)->nr)
		i -= (*list++)->nr;
	return &(*list)->result[i];
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* ------------------------------------------------------------------ title */

static bool same_subject(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->workload, b->workload) && same_text(a->machine, b->machine) &&
	       a->measured == b->measured;
}

static bool same_command(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->command, b->command) && same_text(a->date, b->date);
}

static bool same_version(const struct report_result *a, const struct report_result *b)
{
	return same_text(a->version, b->version);
}

typedef bool (*same_fn)(const struct report_result *a, const struct report_result *b);

/* Whether no result before the i-th is the same. */
static bool is_first(const struct report_results *results, size_t i, same_fn same)
{
	for (size_t k = 0; k < i; k++)
		if (same(result_at(results, k), result_at(results, i)))
			return false;
	return true;
}

void origin_title(FILE *out, const struct report_results *results)
{
	size_t nr = 0;

	for (size_t i = 0; i < report_results_nr(results); i++) {
		const struct report_result *r = result_at(results, i);

		if (!is_first(results, i, same_subject) || ++nr > TITLES_MAX)
			continue;
		fputs(nr > 1 ? ", " : "", out);
		html_text(out, r->workload);
		/* "cuda" stands for whatever GPU there was. */
		fputs(!r->measured			? " on a simulated "
		      : strcmp(r->machine, "cuda") == 0 ? " on a real GPU"
							: " on a real ",
		      out);
		if (!r->measured || strcmp(r->machine, "cuda") != 0)
			html_text(out, r->machine);
	}
	if (nr > TITLES_MAX)
		fprintf(out, " and %zu more", nr - TITLES_MAX);
}

/* ------------------------------------------------------------------ how they were made */

static void put_versions(FILE *out, const struct report_results *results)
{
	bool any = false, simulated = false;

	fputs("<p>", out);
	for (size_t i = 0; i < report_results_nr(results); i++) {
		const struct report_result *r = result_at(results, i);

		simulated |= !r->measured;
		if (!r->version || !is_first(results, i, same_version))
			continue;
		fputs(any ? ", " : "By weir ", out);
		html_text(out, r->version);
		any = true;
	}
	fputs(any ? ". " : "", out);
	fputs(simulated ? "Simulated times depend on no date, and have none.</p>\n" : "</p>\n",
	      out);
}

void origin_put(FILE *out, const struct report_results *results)
{
	size_t nr = 0, silent = 0;

	fputs("<h2 id=\"made\">How the results were made</h2>\n", out);
	put_versions(out, results);
	for (size_t i = 0; i < report_results_nr(results); i++) {
		const struct report_result *r = result_at(results, i);

		silent += r->command == NULL;
		if (!r->command || !is_first(results, i, same_command) || ++nr > COMMANDS_MAX)
			continue;
		fputs("<pre>", out);
		html_text(out, r->command);
		if (r->date) {
			fputs("  # ", out);
			html_text(out, r->date);
		}
		fputs("</pre>\n", out);
	}
	if (nr > COMMANDS_MAX)
		fprintf(out, "<p class=\"note\">%zu more commands are in the results.</p>\n",
			nr - COMMANDS_MAX);
	if (silent)
		fprintf(out, "<p class=\"note\">%zu result%s not say by which command.</p>\n",
			silent, silent == 1 ? " does" : "s do");
}
