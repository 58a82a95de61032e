/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences; see report_text.h. Which cases and managers are spoken of is chosen by rules that
 * stand here: the last case that fits, the one nearest to half as much again as fits, and the last.
 */
#include "cli/report_text.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cli/report_charts.h"
#include "cli/report_format.h"
#include "cli/report_words.h"

/* Times that are this near are called the same. */
#define SAME 1.005

static bool any_time(const struct report_sets *sets, const struct report_case *c)
{
	return report_fastest(sets, c, SIZE_MAX) != SIZE_MAX;
}

/* ------------------------------------------------------------------ epoch times */

/* ", 1.04 times the lower bound and 1.06 times as long as in memory": what is known of that. */
static void put_ratios(FILE *out, const struct report_case *c, size_t manager)
{
	double s = report_epoch_s(c, manager), bound = s / report_bound_s(c, c->cell[manager]);
	double memory = c->over > 1 ? s / c->in_memory_s : NAN;
	struct figure figure;

	if (bound < SAME && bound > 1 / SAME)
		fputs(", which is the lower bound", out);
	else if (!isnan(bound))
		fprintf(out, ", %s times the lower bound", figure_ratio(&figure, bound));
	if (!isnan(memory))
		fprintf(out, "%s %s times as long as in memory", isnan(bound) ? "," : " and",
			figure_ratio(&figure, memory));
}

/* The managers that are as fast as the fastest, in the order of the page. */
static size_t list_fastest(const struct report_sets *sets, const struct report_case *c, size_t *out)
{
	double best = report_epoch_s(c, report_fastest(sets, c, SIZE_MAX));
	size_t nr = 0;

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (report_epoch_s(c, m) <= SAME * best)
			out[nr++] = m;
	return nr;
}

static size_t slowest(const struct report_sets *sets, const struct report_case *c)
{
	size_t worst = SIZE_MAX;

	for (size_t m = 0; m < sets->nr_managers; m++)
		if (!isnan(report_epoch_s(c, m)) &&
		    (worst == SIZE_MAX || report_epoch_s(c, m) > report_epoch_s(c, worst)))
			worst = m;
	return worst;
}

/* The next after the fastest, and the slowest. */
static void put_others(FILE *out, const struct report_sets *sets, const struct report_case *c,
		       const size_t *fastest, size_t nr_fastest)
{
	double best = report_epoch_s(c, report_fastest(sets, c, SIZE_MAX));
	size_t next = SIZE_MAX, last = slowest(sets, c);
	struct figure time, ratio;

	for (size_t m = 0; m < sets->nr_managers; m++) {
		bool taken = isnan(report_epoch_s(c, m));

		for (size_t i = 0; i < nr_fastest; i++)
			taken |= fastest[i] == m;
		if (!taken && (next == SIZE_MAX || report_epoch_s(c, m) < report_epoch_s(c, next)))
			next = m;
	}
	if (next == SIZE_MAX)
		return;
	fprintf(out, "; %s, the next, takes %s, %s times as long", sets->manager[next],
		figure_seconds(&time, report_epoch_s(c, next)),
		figure_ratio(&ratio, report_epoch_s(c, next) / best));
	if (last != next)
		fprintf(out, ", and %s, the slowest, %s (%s times)", sets->manager[last],
			figure_seconds(&time, report_epoch_s(c, last)),
			figure_ratio(&ratio, report_epoch_s(c, last) / best));
}

/* "weir takes 2.87 s, ...; zerocopy, the next, takes ...": of a case in which a run got through. */
static void put_case_times(FILE *out, const struct report_sets *sets, const struct report_set *set,
			   const struct report_case *c)
{
	size_t fastest[REPORT_MANAGERS_MAX] = {0}, nr = list_fastest(sets, c, fastest);
	size_t first = report_fastest(sets, c, SIZE_MAX);
	struct figure time;

	words_managers(out, sets, fastest, nr);
	fprintf(out, " take%s %s", nr == 1 ? "s" : "",
		figure_seconds(&time, report_epoch_s(c, first)));
	put_ratios(out, c, first);
	put_others(out, sets, c, fastest, nr);
	fputs(". ", out);
	words_absent(out, sets, set, c);
}

/* Same, as an item that begins with the case. */
static void put_case_item(FILE *out, const struct report_sets *sets, const struct report_set *set,
			  const struct report_case *c)
{
	fputs("- ", out);
	words_case(out, set, c);
	fputs(": ", out);
	put_case_times(out, sets, set, c);
	fputc('\n', out);
}

void text_in_short(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	const struct report_case *c = report_telling_case(sets, set);

	if (!c)
		return;
	fputs("At ", out);
	words_case(out, set, c);
	fputs(", ", out);
	put_case_times(out, sets, set, c);
}

/* How near weir, or the only manager that there is, stays to the bound. */
static void put_distance(FILE *out, const struct report_sets *sets, const struct report_set *set,
			 size_t m)
{
	const struct report_case *far = NULL, *below = NULL;
	double farthest = NAN;
	struct figure ratio;

	for (size_t i = 0; i < set->nr_cases; i++) {
		const struct report_case *c = &set->cases[i];
		double distance = report_epoch_s(c, m) / report_bound_s(c, c->cell[m]);

		if (distance < 1 / SAME)
			below = c;
		if (!isnan(distance) && (!far || distance > farthest)) {
			far = c;
			farthest = distance;
		}
	}
	if (!far || report_nr_times(set, m) < 2)
		return;
	fprintf(out, "%s is never more than %s times the lower bound, farthest at ",
		sets->manager[m], figure_ratio(&ratio, farthest));
	words_case(out, set, far);
	fputs(". ", out);
	if (below) {
		fputs("At ", out);
		words_case(out, set, below);
		fprintf(out, " it is below the bound, so this machine is faster than the rates "
			     "from which the bound is computed. ");
	}
}

/* Less than this over a manager's shortest time, and there is memory enough for it. */
#define ENOUGH 1.05

/* From which budget on a manager takes hardly more than its shortest time. Cases go from the most
 * memory to the least. */
static void put_enough(FILE *out, const struct report_sets *sets, const struct report_set *set,
		       size_t m)
{
	const struct report_case *last = NULL;
	double best = INFINITY;
	struct figure budget;

	for (size_t i = 0; i < set->nr_cases; i++)
		best = fmin(best, report_epoch_s(&set->cases[i], m));
	for (size_t i = 0; i < set->nr_cases; i++) {
		double s = report_epoch_s(&set->cases[i], m);

		if (!isnan(s) && s > ENOUGH * best)
			break;
		last = isnan(s) ? last : &set->cases[i];
	}
	if (!last || report_nr_times(set, m) < 2)
		return;
	fprintf(out, "- Enough for %s: %s", sets->manager[m],
		figure_bytes(&budget, last->budget_bytes));
	if (last == &set->cases[set->nr_cases - 1])
		fputs(", the least that was tried.\n", out);
	else
		fprintf(out,
			". With less it takes more than %.2f times as long as at best, or has no "
			"time.\n",
			ENOUGH);
}

void text_epochs(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	const struct report_case *fits = NULL, *telling = report_telling_case(sets, set),
				 *last = NULL;

	for (size_t i = 0; i < set->nr_cases; i++) {
		const struct report_case *c = &set->cases[i];

		if (!any_time(sets, c))
			continue;
		if (c->over <= 1)
			fits = c;
		last = c;
	}
	words_ends(out, sets, set);
	fputc('\n', out);
	if (fits && fits != telling)
		put_case_item(out, sets, set, fits);
	if (telling)
		put_case_item(out, sets, set, telling);
	if (last && last != telling && last != fits)
		put_case_item(out, sets, set, last);
	for (size_t m = 0; m < sets->nr_managers && report_is_replay(set); m++)
		put_enough(out, sets, set, m);
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (strcmp(sets->manager[m], "weir") == 0 || sets->nr_managers == 1)
			put_distance(out, sets, set, m);
	fputc('\n', out);
}

/* ------------------------------------------------------------------ parts of the time */

/* The largest part, but for one of REPORT_PART_NR. */
static int largest_part(const struct report_result *result, int but)
{
	int best = -1;

	for (int part = 0; part < REPORT_PART_NR; part++)
		if (part != but && (best < 0 || result->time_s[part] > result->time_s[best]))
			best = part;
	return best;
}

static bool has_parts(const struct report_sets *sets, const struct report_case *c)
{
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (c->cell[m] && !isnan(c->cell[m]->parts_s))
			return true;
	return false;
}

/* "weir: 66 % of 39.8 s on use in place and 17 % on computing". */
static void put_parts(FILE *out, const char *manager, const struct report_result *result)
{
	int first = largest_part(result, -1), second = largest_part(result, first);
	struct figure part, time;

	fprintf(out, "- %s: %s of %s on %s", manager,
		figure_percent(&part, result->time_s[first] / result->parts_s),
		figure_seconds(&time, result->epoch_s), report_part_name((enum report_part)first));
	/* Less than a twentieth explains nothing. */
	if (result->time_s[second] >= 0.05 * result->parts_s)
		fprintf(out, " and %s on %s",
			figure_percent(&part, result->time_s[second] / result->parts_s),
			report_part_name((enum report_part)second));
	fputs(".\n", out);
}

static void put_case_parts(FILE *out, const struct report_sets *sets, const struct report_set *set,
			   const struct report_case *c)
{
	fputs("At ", out);
	words_case(out, set, c);
	fputs(" an epoch goes into\n", out);
	for (size_t m = 0; m < sets->nr_managers; m++)
		if (c->cell[m] && !isnan(c->cell[m]->parts_s))
			put_parts(out, sets->manager[m], c->cell[m]);
}

/* Faults of the runs, where there are some. */
static void put_faults(FILE *out, const struct report_sets *sets, const struct report_case *c)
{
	const char *before = "Page faults of the whole run there: ";

	for (size_t m = 0; m < sets->nr_managers; m++) {
		const struct report_result *r = c->cell[m];
		struct figure faults, touches;

		if (!r || r->status != RESULT_OK || !(r->faults > 0))
			continue;
		fprintf(out, "%s%s %s", before, sets->manager[m], figure_count(&faults, r->faults));
		if (r->first_touches > 0)
			fprintf(out, " (first touches: %s)",
				figure_count(&touches, r->first_touches));
		before = ", ";
	}
	if (before[0] == ',')
		fputs(".\n", out);
}

/* How many of the cases are drawn. */
static void put_picked(FILE *out, const struct report_set *set, size_t nr)
{
	if (nr < set->nr_cases)
		fprintf(out, "%zu of %zu cases are drawn; the table has all. ", nr, set->nr_cases);
}

void text_parts(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	const struct report_case *telling = report_telling_case(sets, set), *last = NULL;
	size_t index[CHART_CASES], nr = report_cases_pick(sets, set, index, CHART_CASES);

	for (size_t i = 0; i < nr; i++)
		if (has_parts(sets, &set->cases[index[i]]))
			last = &set->cases[index[i]];
	if (last) {
		if (telling && telling != last && has_parts(sets, telling))
			put_case_parts(out, sets, set, telling);
		put_case_parts(out, sets, set, last);
		put_faults(out, sets, last);
		fputs("Each case has a scale of seconds of its own, and each bar is there once "
		      "more as shares of its own time. ",
		      out);
	} else {
		fputs("These results do not say what the time goes into, so each bar is whole. ",
		      out);
	}
	put_picked(out, set, nr);
	fputc('\n', out);
}

/* ------------------------------------------------------------------ bytes */

static double in_and_out(const struct report_result *result, enum weir_cause a, enum weir_cause b)
{
	double x = report_traffic(result, a), y = report_traffic(result, b);

	return (isnan(x) ? 0 : x) + (isnan(y) ? 0 : y);
}

/* "weir: 172 GB copied to the GPU and 64.3 GB back, 2213 GB used in place". */
static void put_traffic(FILE *out, const char *manager, const struct report_result *result)
{
	double in = in_and_out(result, WEIR_CAUSE_DEMAND, WEIR_CAUSE_PREFETCH);
	double back = in_and_out(result, WEIR_CAUSE_EVICTION, WEIR_CAUSE_WRITEBACK);
	double in_place = report_traffic(result, WEIR_CAUSE_INPLACE);
	struct figure a, b, c;

	fprintf(out, "- %s: ", manager);
	if (in + back > 0)
		fprintf(out, "%s copied to the GPU and %s back", figure_bytes(&a, in),
			figure_bytes(&b, back));
	if (in_place > 0)
		fprintf(out, "%s%s used in place", in + back > 0 ? ", " : "",
			figure_bytes(&c, in_place));
	fputs(".\n", out);
}

static bool has_traffic(const struct report_case *c, size_t m)
{
	return c->cell[m] && c->cell[m]->status == RESULT_OK &&
	       report_traffic(c->cell[m], WEIR_CAUSE_NR) > 0;
}

static void put_case_traffic(FILE *out, const struct report_sets *sets,
			     const struct report_set *set, const struct report_case *c)
{
	size_t most = SIZE_MAX, least = SIZE_MAX;
	struct figure ratio;

	fputs("At ", out);
	words_case(out, set, c);
	fputs(" an epoch moves\n", out);
	for (size_t m = 0; m < sets->nr_managers; m++) {
		double bytes;

		if (!has_traffic(c, m))
			continue;
		put_traffic(out, sets->manager[m], c->cell[m]);
		bytes = report_traffic(c->cell[m], WEIR_CAUSE_NR);
		if (most == SIZE_MAX || bytes > report_traffic(c->cell[most], WEIR_CAUSE_NR))
			most = m;
		if (least == SIZE_MAX || bytes < report_traffic(c->cell[least], WEIR_CAUSE_NR))
			least = m;
	}
	if (most != least)
		fprintf(out, "%s moves %s times as many bytes as %s. ", sets->manager[most],
			figure_ratio(&ratio, report_traffic(c->cell[most], WEIR_CAUSE_NR) /
						     report_traffic(c->cell[least], WEIR_CAUSE_NR)),
			sets->manager[least]);
}

void text_traffic(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	size_t index[CHART_CASES], nr = report_cases_pick(sets, set, index, CHART_CASES),
				   silent = 0;
	size_t managers[REPORT_MANAGERS_MAX];
	const struct report_case *last = NULL;

	for (size_t i = 0; i < nr; i++)
		for (size_t m = 0; m < sets->nr_managers; m++)
			if (has_traffic(&set->cases[index[i]], m))
				last = &set->cases[index[i]];
	if (last)
		put_case_traffic(out, sets, set, last);
	for (size_t m = 0; m < sets->nr_managers; m++) {
		bool moves = !report_nr_times(set, m);

		for (size_t i = 0; i < nr; i++)
			moves |= has_traffic(&set->cases[index[i]], m);
		if (!moves)
			managers[silent++] = m;
	}
	if (silent) {
		words_managers(out, sets, managers, silent);
		fprintf(out, " move%s nothing. ", silent == 1 ? "s" : "");
	}
	fputs("Bytes are those of the whole run divided by its epochs, warm-up included. Each "
	      "manager has a scale of its own, which stands above its bars: bars of one "
	      "manager can be compared, those of two by their figures. ",
	      out);
	put_picked(out, set, nr);
	fputc('\n', out);
}

/* ------------------------------------------------------------------ the oracle */

/* Where a manager copied most over the least, of the cases in which there is a least above 0; else
 * one in which nothing had to be copied. NULL: it was compared in none. */
static const struct report_case *most_over(const struct report_set *set, size_t m)
{
	const struct report_case *best = NULL;
	double most = 0;

	for (size_t i = 0; i < set->nr_cases; i++) {
		const struct report_result *r = set->cases[i].cell[m];

		if (!r || isnan(r->least_bytes) || (!(r->least_bytes > 0) && best))
			continue;
		if (!best || !(most > 0) || r->copied_bytes / r->least_bytes > most) {
			best = &set->cases[i];
			most = r->least_bytes > 0 ? r->copied_bytes / r->least_bytes : 0;
		}
	}
	return best;
}

void text_copies(FILE *out, const struct report_sets *sets, const struct report_set *set)
{
	struct figure bytes, ratio;

	for (size_t m = 0; m < sets->nr_managers; m++) {
		const struct report_case *c = most_over(set, m);

		if (!c)
			continue;
		fprintf(out, "- %s: at ", sets->manager[m]);
		words_case(out, set, c);
		fprintf(out, " an epoch copies %s to the GPU",
			figure_bytes(&bytes, c->cell[m]->copied_bytes));
		if (c->cell[m]->least_bytes > 0)
			fprintf(out, ", %s times the least; nowhere is it more",
				figure_ratio(&ratio,
					     c->cell[m]->copied_bytes / c->cell[m]->least_bytes));
		else
			fputs(" and none would have had to be", out);
		fputs(".\n", out);
	}
	fputs("The least is what Belady\xe2\x80\x99s MIN copies, which knows what comes, so that "
	      "each launch finds in the GPU\xe2\x80\x99s memory what it found there in the run. "
	      "Where a launch needs more at once than there is room for, there is none. \n",
	      out);
}

/* ------------------------------------------------------------------ residency */

static double mean_bytes(const struct report_run *run, const struct report_residency *residency)
{
	double sum = 0;

	for (size_t i = 0; i < residency->nr; i++) {
		double until = i + 1 < residency->nr ? residency->sample[i + 1].s : run->end_s;

		sum += residency->sample[i].bytes * (until - residency->sample[i].s);
	}
	return sum / (run->end_s - run->start_s);
}

void text_residency(FILE *out, const struct report_timeline *timeline)
{
	for (size_t i = 0; i < timeline->nr_runs; i++) {
		const struct report_run *run = &timeline->run[i];
		struct figure time, mean, peak;

		fprintf(out, "- %s: in %s ", run->name ? run->name : "A run",
			figure_seconds(&time, run->end_s - run->start_s));
		for (size_t k = 0; k < run->nr_residencies; k++) {
			const struct report_residency *residency = &run->residency[k];
			double most = 0;

			for (size_t s = 0; s < residency->nr; s++)
				most = fmax(most, residency->sample[s].bytes);
			fprintf(out, "%s holds %s on average, at most %s%s", residency->memory,
				figure_bytes(&mean, mean_bytes(run, residency)),
				figure_bytes(&peak, most), k + 1 < run->nr_residencies ? "; " : "");
		}
		fputs(".\n", out);
	}
}

/* ------------------------------------------------------------------ two sets */

static void put_size(FILE *out, const struct report_set *set, const struct report_case *c)
{
	struct figure figure;

	if (report_is_replay(set))
		fputs(figure_bytes(&figure, c->budget_bytes), out);
	else
		fprintf(out, "%s nodes", figure_count(&figure, c->nodes));
}

void text_comparison(FILE *out, const struct report_sets *sets, const struct report_set *a,
		     const struct report_set *b)
{
	const struct report_case *least_at = NULL, *most_at = NULL;
	double least = INFINITY, most = 0;
	size_t least_by = 0, most_by = 0, nr = 0;
	struct figure low, high;

	for (size_t i = 0; i < a->nr_cases; i++) {
		const struct report_case *c = &a->cases[i], *other = report_case_like(b, c);

		for (size_t m = 0; other && m < sets->nr_managers; m++) {
			double ratio = report_epoch_s(other, m) / report_epoch_s(c, m);

			if (isnan(ratio))
				continue;
			nr++;
			if (ratio < least) {
				least = ratio;
				least_at = c;
				least_by = m;
			}
			if (ratio > most) {
				most = ratio;
				most_at = c;
				most_by = m;
			}
		}
	}
	if (!least_at || !most_at)
		return;
	fprintf(out, "Of %zu result%s that both have, ", nr, nr == 1 ? "" : "s");
	if (nr == 1) {
		fprintf(out, "the second takes %s times as long.\n", figure_ratio(&low, least));
		return;
	}
	fprintf(out, "the second takes from %s (%s at ", figure_ratio(&low, least),
		sets->manager[least_by]);
	put_size(out, a, least_at);
	fprintf(out, ") to %s times as long (%s at ", figure_ratio(&high, most),
		sets->manager[most_by]);
	put_size(out, a, most_at);
	fputs(").\n", out);
}
