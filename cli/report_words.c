/* SPDX-License-Identifier: Apache-2.0 */
/* See report_words.h. */
#include "cli/report_words.h"

#include <math.h>
#include <stdbool.h>

#include "cli/report_format.h"

void words_case(FILE *out, const struct report_set *set, const struct report_case *c)
{
	struct figure nodes, budget, over;
	bool one_size = report_one_size(set);

	if (one_size)
		fprintf(out, "%s of GPU memory", figure_bytes(&budget, c->budget_bytes));
	else
		fprintf(out, "%s nodes", figure_count(&nodes, c->nodes));
	if (isnan(c->over))
		return;
	if (one_size)
		fprintf(out, " (the work needs %s times that)", figure_ratio(&over, c->over));
	else
		fprintf(out, " (%s times the GPU\xe2\x80\x99s memory)",
			figure_ratio(&over, c->over));
}

/* Between the i-th and the next of nr things. */
static const char *joint(size_t i, size_t nr)
{
	return i + 1 == nr ? "" : i + 2 == nr ? " and " : ", ";
}

void words_managers(FILE *out, const struct report_sets *sets, const size_t *manager, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		fprintf(out, "%s%s", sets->manager[manager[i]], joint(i, nr));
}

const char *words_kind(const struct report_set *set)
{
	return report_one_size(set) ? "budget" : "size";
}

/* ------------------------------------------------------------------ which managers end where */

/* What a run came to; one: of one manager. */
static const char *outcome(enum result_status status, bool one)
{
	static const char *const of_one[] = {"has no time", "runs out of memory", "is refused",
					     "fails"};
	static const char *const of_many[] = {"have no time", "run out of memory", "are refused",
					      "fail"};

	return one ? of_one[status] : of_many[status];
}

/* Whether two managers end at the same case, and fail at the same and for the same reason. */
static bool end_alike(const struct report_set *set, size_t a, size_t b)
{
	const struct report_case *failure = report_first_failure(set, a);

	return report_last_case(set, a) == report_last_case(set, b) &&
	       failure == report_first_failure(set, b) &&
	       (!failure || failure->cell[a]->status == failure->cell[b]->status);
}

static void put_end(FILE *out, const struct report_sets *sets, const struct report_set *set,
		    const size_t *manager, size_t nr)
{
	const struct report_case *last = report_last_case(set, *manager);
	const struct report_case *failure = report_first_failure(set, *manager);

	words_managers(out, sets, manager, nr);
	if (last) {
		fprintf(out, " get%s through up to ", nr == 1 ? "s" : "");
		words_case(out, set, last);
	}
	if (!failure) {
		fprintf(out, ", the last %s at which %s run. ", words_kind(set),
			nr == 1 ? "it was" : "they were");
		return;
	}
	fprintf(out, "%s %s at the %s %s tried, ", last ? " and" : "",
		outcome(failure->cell[*manager]->status, nr == 1), last ? "next" : "first",
		words_kind(set));
	words_case(out, set, failure);
	fputs(". ", out);
}

void words_ends(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	bool told[REPORT_MANAGERS_MAX] = {false};

	for (size_t m = 0; m < sets->nr_managers; m++) {
		const struct report_case *last = report_last_case(set, m);
		size_t alike[REPORT_MANAGERS_MAX] = {0}, nr = 0;

		if (told[m] || last == &set->cases[set->nr_cases - 1] || !report_was_run(set, m))
			continue;
		for (size_t k = m; k < sets->nr_managers; k++) {
			if (!report_was_run(set, k) || !end_alike(set, m, k))
				continue;
			alike[nr++] = k;
			told[k] = true;
		}
		put_end(out, sets, set, alike, nr);
	}
}

/* ------------------------------------------------------------------ which have no time */

void words_absent(FILE *out, const struct report_sets *sets, const struct report_set *set,
		  const struct report_case *c)
{
	static const char *const reasons[] = {"Without a time", "Out of memory", "Refused",
					      "Failed"};
	size_t manager[REPORT_MANAGERS_MAX], nr = 0;

	for (int status = RESULT_OK; status <= RESULT_FAILED; status++) {
		nr = 0;
		for (size_t m = 0; m < sets->nr_managers; m++)
			if (c->cell[m] && isnan(report_epoch_s(c, m)) &&
			    c->cell[m]->status == (enum result_status)status)
				manager[nr++] = m;
		if (!nr)
			continue;
		fprintf(out, "%s: ", reasons[status]);
		words_managers(out, sets, manager, nr);
		fputs(". ", out);
	}
	nr = 0;
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (!c->cell[m] && report_was_run(set, m))
			manager[nr++] = m;
	if (!nr)
		return;
	fprintf(out, "Not run at this %s: ", words_kind(set));
	words_managers(out, sets, manager, nr);
	fputs(". ", out);
}
