/* SPDX-License-Identifier: Apache-2.0 */
/* What the results of a report are of, and how they were made. */
#ifndef WEIR_CLI_REPORT_ORIGIN_H
#define WEIR_CLI_REPORT_ORIGIN_H

#include <stdio.h>

#include "cli/report_read.h"

/* "gcn on a simulated rtx5090, bfs on a real GPU": workloads and machines, as a part of a page. */
void origin_title(FILE *out, const struct report_results *results);

/* A section: versions, dates, and the command lines, as far as the results say them. */
void origin_put(FILE *out, const struct report_results *results);

#endif
