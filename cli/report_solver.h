/* SPDX-License-Identifier: Apache-2.0 */
/* Results of jacobi and diffusion on a page: a chart of speed-ups, and a table. */
#ifndef WEIR_CLI_REPORT_SOLVER_H
#define WEIR_CLI_REPORT_SOLVER_H

#include "cli/report_canvas.h"
#include "cli/report_read.h"

/* Whether there is something to draw. */
bool solver_has_chart(const struct report_results *results);

/* A row a result, by field and number of devices, on a logarithmic scale of times as fast. */
void solver_chart(struct canvas *canvas, const struct report_results *results);

/* One sentence for each field and number of devices: which manager is the fastest there. */
void solver_text(FILE *out, const struct report_results *results);

void solver_table(FILE *out, const struct report_results *results);

#endif
