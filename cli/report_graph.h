/* SPDX-License-Identifier: Apache-2.0 */
/* Results of bfs, sssp, cc and pagerank on a page: a chart of times over the bound, and a table. */
#ifndef WEIR_CLI_REPORT_GRAPH_H
#define WEIR_CLI_REPORT_GRAPH_H

#include "cli/report_canvas.h"
#include "cli/report_read.h"

/* Whether there is something to draw. */
bool graph_has_chart(const struct report_results *results);

/* A row a result, by case, on a logarithmic scale of times over the bound. */
void graph_chart(struct canvas *canvas, const struct report_results *results);

/* One sentence for each result of weir-paged: its time over the bound, and zerocopy's. */
void graph_text(FILE *out, const struct report_results *results);

void graph_table(FILE *out, const struct report_results *results);

#endif
