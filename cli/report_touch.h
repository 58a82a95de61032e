/* SPDX-License-Identifier: Apache-2.0 */
/* Results on tables (pagein, gups) and matrices (mvt, atax, bicg) on a page: a chart of what
 * kernels got a second, and a table. */
#ifndef WEIR_CLI_REPORT_TOUCH_H
#define WEIR_CLI_REPORT_TOUCH_H

#include "cli/report_canvas.h"
#include "cli/report_read.h"

/* Whether there is something to draw. */
bool touch_has_chart(const struct report_results *results);

/* A row a result, by case, on a logarithmic scale of bytes a second. */
void touch_chart(struct canvas *canvas, const struct report_results *results);

/* One sentence a workload: the fastest, and how far it is from the bound. */
void touch_text(FILE *out, const struct report_results *results);

void touch_table(FILE *out, const struct report_results *results);

#endif
