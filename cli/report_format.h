/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures as a report shows them: three digits, a unit, "-" for what is not known. Each returns the
 * text, so that it can stand among the arguments of a print.
 */
#ifndef WEIR_CLI_REPORT_FORMAT_H
#define WEIR_CLI_REPORT_FORMAT_H

#include <stddef.h>

struct figure {
	char text[32];
};

char *figure_seconds(struct figure *figure, double s);	  /* "3.87 s", "225 ms" */
char *figure_bytes(struct figure *figure, double bytes);  /* "33.7 GB" */
char *figure_count(struct figure *figure, double count);  /* "12M" */
char *figure_ratio(struct figure *figure, double ratio);  /* "1.04", "17.6", "151" */
char *figure_percent(struct figure *figure, double part); /* "47 %", of 0.47; "under 1 %" */

/* A text cut to so many characters, in a buffer of 4 bytes for each and 8 more. */
const char *text_cut(const char *text, size_t chars, char *buf, size_t bytes);

/* A step of 1, 2 or 5 times a power of ten, of which at most `most` fit into a span > 0. */
double tick_step(double span, double most);

#endif
