/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results that are shown a row each, in the order in which they came: those of workloads that make
 * passes over memory. A chart of one figure of each, by case, and what tables of them share.
 */
#ifndef WEIR_CLI_REPORT_ROWS_H
#define WEIR_CLI_REPORT_ROWS_H

#include "cli/report_canvas.h"
#include "cli/report_read.h"

#define ROWS_CASE_BYTES 256

struct report_rows {
	const struct report_list *list;
	/* The figure; what is not above 0 is not known. */
	double (*value)(const struct report_result *r);
	const char *unit; /* of it */
	/* Whether two results differ by no more than the manager, or how what they share is called:
	 * into text, of ROWS_CASE_BYTES. */
	bool (*same_case)(const struct report_result *a, const struct report_result *b);
	const char *(*case_text)(const struct report_result *r, char *text, size_t bytes);
};

/* Whether there is something to draw. */
bool rows_have_chart(const struct report_rows *rows);

/* A row a result, by case, on a logarithmic scale. */
void rows_chart(struct canvas *canvas, const struct report_rows *rows);

/* A table: its caption and the titles behind case, manager and seconds a pass, of which the last
 * five are of what rows_row_end() puts; of each row its begin, figures of its own, and its end. A
 * table without pages and bound ends a row with rows_check(), the last of the five. */
void rows_table_begin(FILE *out, const char *caption, const char *const *titles, size_t nr);
void rows_row_begin(FILE *out, const struct report_rows *rows, const struct report_result *r);
void rows_number(FILE *out, const char *format, double value);
void rows_row_end(FILE *out, const struct report_result *r);
void rows_check(FILE *out, const struct report_result *r);
void rows_table_end(FILE *out);

#endif
