/* SPDX-License-Identifier: Apache-2.0 */
/* Fits; see fit.h. */
#include "workloads/probe/fit.h"

#include <math.h>
#include <stdlib.h>

#define NS_PER_S 1e9

/* Below this share of another rate, a rate is limited by something else. */
#define CLEARLY_SLOWER 0.9

/* The same of rates of one kernel, which differ by less. */
#define SLOWER 0.95

/* ------------------------------------------------------------------ series */

void fit_add(struct fit_series *series, double value)
{
	if (series->nr < FIT_SAMPLES_MAX)
		series->value[series->nr++] = value;
}

double fit_digits(double value)
{
	double unit = value > 0 ? pow(10, floor(log10(value)) - 4) : 1;

	/* A product by a whole number, where there is one, is exact. */
	return unit < 1 ? round(value / unit) * unit : round(value / unit) * round(unit);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double fit_median(const struct fit_series *series)
{
	struct fit_series sorted = *series;
	uint32_t middle = sorted.nr / 2;

	qsort(sorted.value, sorted.nr, sizeof(sorted.value[0]), by_value);
	return sorted.nr % 2 ? sorted.value[middle]
			     : (sorted.value[middle - 1] + sorted.value[middle]) / 2;
}

double fit_min(const struct fit_series *series)
{
	double min = series->value[0];

	for (uint32_t i = 1; i < series->nr; i++)
		min = fmin(min, series->value[i]);
	return min;
}

double fit_max(const struct fit_series *series)
{
	double max = series->value[0];

	for (uint32_t i = 1; i < series->nr; i++)
		max = fmax(max, series->value[i]);
	return max;
}

/* ------------------------------------------------------------------ lines */

static void line(const struct fit_point *points, uint32_t nr, double *fixed_ns, double *each_ns)
{
	double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;

	for (uint32_t i = 0; i < nr; i++) {
		double weight = 1 / (points[i].ns * points[i].ns);

		w += weight;
		wx += weight * points[i].amount;
		wxx += weight * points[i].amount * points[i].amount;
		wy += weight * points[i].ns;
		wxy += weight * points[i].amount * points[i].ns;
	}
	*each_ns = (w * wxy - wx * wy) / (w * wxx - wx * wx);
	*fixed_ns = (wy - *each_ns * wx) / w;
}

void fit_line(const struct fit_point *points, uint32_t nr, double *fixed_ns, double *each_ns)
{
	line(points, nr, fixed_ns, each_ns);
	*each_ns = fmax(*each_ns, 0);
	*fixed_ns = fmax(*fixed_ns, 0);
}

double fit_rate(struct fit_point less, struct fit_point more)
{
	if (more.ns <= less.ns)
		return more.amount / more.ns * NS_PER_S;
	return (more.amount - less.amount) / (more.ns - less.ns) * NS_PER_S;
}

/* ------------------------------------------------------------------ copies */

static double beyond_bytes_ns(struct fit_point copy, double bytes_per_s)
{
	return copy.ns - copy.amount / bytes_per_s * NS_PER_S;
}

void fit_overhead(const struct fit_point *singles, uint32_t nr, struct fit_point batch,
		  uint32_t nr_pieces, double bytes_per_s, double *latency_ns, double *piece_ns)
{
	struct fit_series beyond = {0};
	double single, piece;

	for (uint32_t i = 0; i < nr; i++)
		fit_add(&beyond, beyond_bytes_ns(singles[i], bytes_per_s));
	single = fmax(fit_median(&beyond), 0);
	piece = (beyond_bytes_ns(batch, bytes_per_s) - single) / (nr_pieces - 1);
	*piece_ns = fmin(fmax(piece, 0), single);
	*latency_ns = single - *piece_ns;
}

double fit_duplex(const struct fit_point less[2], const struct fit_point more[2],
		  const double alone_bytes_per_s[2])
{
	double bytes = more[0].amount - less[0].amount, ns[2], rest;
	int last;

	for (int back = 0; back < 2; back++)
		ns[back] = bytes / fit_rate(less[back], more[back]) * NS_PER_S;
	last = ns[1] > ns[0];
	rest = (ns[last] - ns[!last]) / NS_PER_S * alone_bytes_per_s[last];
	return (bytes + fmax(bytes - rest, 0)) / 2 / ns[!last] * NS_PER_S;
}

/* ------------------------------------------------------------------ events */

void fit_events(const struct fit_series *rounds_ns, struct fit_series *out)
{
	*out = (struct fit_series){0};
	for (uint32_t i = 0; i < rounds_ns->nr; i++)
		fit_add(out, rounds_ns->value[i] / 2);
}

/* ------------------------------------------------------------------ in place */

uint32_t fit_first_miss(const double *per_s, uint32_t nr)
{
	while (nr && per_s[nr - 1] < SLOWER * per_s[0])
		nr--;
	return nr;
}

bool fit_misses(const uint64_t *footprint, const double *per_s, uint32_t nr, double *misses_per_s,
		double *reach_bytes)
{
	struct fit_point point[FIT_SAMPLES_MAX];
	double fixed_ns, each_ns;

	for (uint32_t i = 0; i < nr; i++)
		point[i] = (struct fit_point){1 / (double)footprint[i], NS_PER_S / per_s[i]};
	line(point, nr, &fixed_ns, &each_ns);
	if (!(fixed_ns > 0 && each_ns < 0))
		return false;
	*misses_per_s = NS_PER_S / fixed_ns;
	*reach_bytes = -each_ns / fixed_ns;
	return true;
}

void fit_request(const struct fit_series *pieces_per_s, uint32_t bytes, double accesses_per_s,
		 double streaming_bytes_per_s, struct fit_series *out)
{
	*out = (struct fit_series){0};
	if (fit_median(pieces_per_s) * bytes >= CLEARLY_SLOWER * streaming_bytes_per_s)
		return;
	for (uint32_t i = 0; i < pieces_per_s->nr; i++)
		fit_add(out, pieces_per_s->value[i] * bytes / accesses_per_s);
}
