/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to see in a chart, in sentences computed from the results. Plain text, a paragraph
 * a line, or "- WHAT: ...", an item of a list; nothing is escaped. Errors stay in the stream.
 */
#ifndef WEIR_CLI_REPORT_TEXT_H
#define WEIR_CLI_REPORT_TEXT_H

#include "cli/report_sets.h"
#include "cli/report_timeline.h"

/* One sentence that says most about a set; nothing where no run got through. */
void text_in_short(FILE *out, const struct report_sets *sets, const struct report_set *set);

void text_epochs(FILE *out, const struct report_sets *sets, const struct report_set *set);
void text_parts(FILE *out, const struct report_sets *sets, const struct report_set *set);
void text_policies(FILE *out, const struct report_sets *sets, const struct report_set *set);
void text_traffic(FILE *out, const struct report_sets *sets, const struct report_set *set);
void text_copies(FILE *out, const struct report_sets *sets, const struct report_set *set);
void text_residency(FILE *out, const struct report_timeline *timeline);

/* Of two sets that meet: how the times of the second are to those of the first. */
void text_comparison(FILE *out, const struct report_sets *sets, const struct report_set *a,
		     const struct report_set *b);

#endif
