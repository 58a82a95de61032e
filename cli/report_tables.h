/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the page. Errors stay in the stream. */
#ifndef WEIR_CLI_REPORT_TABLES_H
#define WEIR_CLI_REPORT_TABLES_H

#include <stdio.h>

#include "cli/report_sets.h"

/* All results of a set, and why those failed that did. */
void table_results(FILE *out, const struct report_sets *sets, const struct report_set *set);

/* What the policies of a set's results decided; nothing where none had one. */
void table_decisions(FILE *out, const struct report_sets *sets, const struct report_set *set);

/* Times that two sets have of the same manager, size and budget. */
void table_pair(FILE *out, const struct report_sets *sets, const struct report_set *a,
		const struct report_set *b);

#endif
