/* SPDX-License-Identifier: Apache-2.0 */
/* What charts and sentences ask about sets and cases; see report_sets.h. */
#include "cli/report_sets.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* How much over a case should be that says something about not fitting. */
#define TELLING_OVER 1.5

bool report_same_budget(double a, double b)
{
	return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-3 * fmax(a, b);
}

double report_bound_s(const struct report_case *c, const struct report_result *result)
{
	if (!result || !(result->near_bytes > 0))
		return c->bound_s;
	return result->bound_s > 0 ? result->bound_s : NAN;
}

double report_epoch_s(const struct report_case *c, size_t manager)
{
	return c->cell[manager] ? c->cell[manager]->epoch_s : NAN;
}

size_t report_fastest(const struct report_sets *sets, const struct report_case *c, size_t but)
{
	size_t best = SIZE_MAX;

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (m != but && !isnan(report_epoch_s(c, m)) &&
		    (best == SIZE_MAX || report_epoch_s(c, m) < report_epoch_s(c, best)))
			best = m;
	return best;
}

const struct report_case *report_case_like(const struct report_set *set,
					   const struct report_case *like)
{
	for (size_t i = 0; i < set->nr_cases; i++)
		if (set->cases[i].nodes == like->nodes &&
		    report_same_budget(set->cases[i].budget_bytes, like->budget_bytes))
			return &set->cases[i];
	return NULL;
}

bool report_sets_meet(const struct report_sets *sets, const struct report_set *a,
		      const struct report_set *b)
{
	if (!report_same_work(a->result[0], b->result[0]))
		return false;
	for (size_t i = 0; i < a->nr_cases; i++) {
		const struct report_case *other = report_case_like(b, &a->cases[i]);

		for (size_t m = 0; other && m < sets->nr_managers; m++)
			if (!isnan(report_epoch_s(&a->cases[i], m)) &&
			    !isnan(report_epoch_s(other, m)))
				return true;
	}
	return false;
}

bool report_is_replay(const struct report_set *set)
{
	return set->result[0]->trace != NULL;
}

bool report_one_size(const struct report_set *set)
{
	if (report_is_replay(set))
		return true;
	return set->nr_cases > 1 && set->cases[0].nodes == set->cases[set->nr_cases - 1].nodes;
}

const char *report_status_word(enum result_status status)
{
	static const char *const words[] = {
		[RESULT_OK] = "no time",
		[RESULT_OUT_OF_MEMORY] = "out of memory",
		[RESULT_REFUSED] = "refused",
		[RESULT_FAILED] = "failed",
	};

	return words[status];
}

/* How far a case is from the most telling excess. */
static double telling_distance(const struct report_case *c)
{
	return isnan(c->over) ? INFINITY : fabs(log(c->over / TELLING_OVER));
}

const struct report_case *report_telling_case(const struct report_sets *sets,
					      const struct report_set *set)
{
	const struct report_case *best = NULL;

	for (size_t i = 0; i < set->nr_cases; i++) {
		const struct report_case *c = &set->cases[i];

		if (report_fastest(sets, c, SIZE_MAX) != SIZE_MAX &&
		    (!best || telling_distance(c) <= telling_distance(best)))
			best = c;
	}
	return best;
}

size_t report_cases_pick(const struct report_sets *sets, const struct report_set *set,
			 size_t *index, size_t nr)
{
	const struct report_case *telling = report_telling_case(sets, set);
	size_t nearest = 0;

	if (set->nr_cases <= nr)
		nr = set->nr_cases;
	for (size_t i = 0; i < nr; i++)
		index[i] = nr > 1 ? (i * (set->nr_cases - 1) + (nr - 1) / 2) / (nr - 1) : 0;
	/* The ends stay; of those between, the nearest gives way. */
	for (size_t i = 1; telling && i + 1 < nr; i++) {
		long at = telling - set->cases;

		if (!nearest || labs((long)index[i] - at) < labs((long)index[nearest] - at))
			nearest = i;
	}
	if (nearest && telling != set->cases && telling != &set->cases[set->nr_cases - 1])
		index[nearest] = (size_t)(telling - set->cases);
	return nr;
}

double report_flow_bytes(const struct report_result *result, const struct report_flow *flow,
			 enum weir_cause cause)
{
	double epochs = result->epochs + (isnan(result->warm_up) ? 0 : result->warm_up);

	return epochs > 0 ? flow->bytes[cause] / epochs : NAN;
}

size_t report_nr_times(const struct report_set *set, size_t manager)
{
	size_t nr = 0;

	for (size_t i = 0; i < set->nr_cases; i++)
		nr += isnan(report_epoch_s(&set->cases[i], manager)) ? 0 : 1;
	return nr;
}

const struct report_case *report_last_case(const struct report_set *set, size_t manager)
{
	size_t i = set->nr_cases;

	while (i && isnan(report_epoch_s(&set->cases[i - 1], manager)))
		i--;
	return i ? &set->cases[i - 1] : NULL;
}

const struct report_case *report_first_failure(const struct report_set *set, size_t manager)
{
	const struct report_case *last = report_last_case(set, manager);

	for (const struct report_case *c = last ? last + 1 : set->cases;
	     c < set->cases + set->nr_cases; c++)
		if (c->cell[manager])
			return c;
	return NULL;
}

bool report_was_run(const struct report_set *set, size_t manager)
{
	for (size_t i = 0; i < set->nr_cases; i++)
		if (set->cases[i].cell[manager])
			return true;
	return false;
}

size_t report_nr_run(const struct report_sets *sets, const struct report_set *set)
{
	size_t nr = 0;

	for (size_t m = 0; m < sets->nr_managers; m++)
		nr += report_was_run(set, m);
	return nr;
}
