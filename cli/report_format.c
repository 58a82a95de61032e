/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of reports; see report_format.h. */
#include "cli/report_format.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/size.h"

static char *put(struct figure *figure, double value, int decimals, const char *unit)
{
	if (isfinite(value))
		snprintf(figure->text, sizeof(figure->text), "%.*f%s", decimals, value, unit);
	else
		strcpy(figure->text, "-");
	return figure->text;
}

/* So many decimals that three digits show; 999.5 shows as four. */
static int decimals_of(double value)
{
	return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

/* In the largest of the units, each a thousandth of the one before, that leaves it at 1 or more. */
static char *scaled(struct figure *figure, double value, const char *const *units)
{
	while (value > 0 && value < 0.9995 && units[1]) {
		value *= 1000;
		units++;
	}
	return put(figure, value, value > 0 ? decimals_of(value) : 0, *units);
}

char *figure_seconds(struct figure *figure, double s)
{
	static const char *const units[] = {" s", " ms", " us", " ns", NULL};

	return scaled(figure, s, units);
}

char *figure_bytes(struct figure *figure, double bytes)
{
	static const char *const units[] = {" TB", " GB", " MB", " kB", " B", NULL};

	/* Gigabytes up to ten thousand: what belongs together is easier to compare. */
	if (bytes < 1e13)
		return scaled(figure, bytes / 1e9, units + 1);
	return scaled(figure, bytes / 1e12, units);
}

char *figure_count(struct figure *figure, double count)
{
	if (!(count >= 0 && count < 1e19))
		return put(figure, NAN, 0, "");
	return count_format((uint64_t)count, figure->text, sizeof(figure->text));
}

char *figure_ratio(struct figure *figure, double ratio)
{
	return put(figure, ratio, decimals_of(ratio), "");
}

char *figure_percent(struct figure *figure, double part)
{
	if (part > 0 && part < 0.005)
		return strcpy(figure->text, "under 1 %");
	return put(figure, 100 * part, 0, " %");
}

double tick_step(double span, double most)
{
	double step = pow(10, floor(log10(span / most)));

	if (step * most >= span)
		return step;
	if (2 * step * most >= span)
		return 2 * step;
	return 5 * step * most >= span ? 5 * step : 10 * step;
}

const char *text_cut(const char *text, size_t chars, char *buf, size_t bytes)
{
	size_t at = 0, nr = 0;

	while (text[at] && nr < chars && at + 4 < bytes) {
		do {
			buf[at] = text[at];
			at++;
		} while ((text[at] & 0xc0) == 0x80 && at + 4 < bytes);
		nr++;
	}
	snprintf(buf + at, bytes - at, "%s", text[at] ? "\xe2\x80\xa6" : "");
	return buf;
}
