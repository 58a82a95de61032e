/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The charts of a report. Each is drawn twice, for wide and for narrow screens, with letters of the
 * same size in both.
 */
#ifndef WEIR_CLI_REPORT_CHARTS_H
#define WEIR_CLI_REPORT_CHARTS_H

#include <stdbool.h>

#include "cli/report_canvas.h"
#include "cli/report_sets.h"
#include "cli/report_timeline.h"

#define CHART_WIDE 760.0
#define CHART_NARROW 360.0

/* Cases that bars are drawn of. */
#define CHART_CASES 5

/* Whether there is something to draw. */
bool chart_has_epochs(const struct report_sets *sets, const struct report_set *set);
bool chart_has_parts(const struct report_sets *sets, const struct report_set *set);
bool chart_has_traffic(const struct report_sets *sets, const struct report_set *set);
bool chart_has_copies(const struct report_sets *sets, const struct report_set *set);

/* Epoch time over how much of the work does not fit, a curve a manager, and the lower bound. */
void chart_epochs(struct canvas *canvas, const struct report_sets *sets,
		  const struct report_set *set);

/* Where the time goes: a bar a manager and case. */
void chart_parts(struct canvas *canvas, const struct report_sets *sets,
		 const struct report_set *set);

/* Policies of a manager beside it, by size: what the time of an epoch goes into, in times of an
 * epoch in memory. */
bool chart_has_policies(const struct report_sets *sets, const struct report_set *set);
void chart_policies(struct canvas *canvas, const struct report_sets *sets,
		    const struct report_set *set);

/* Bytes over each link and way, by cause. */
void chart_traffic(struct canvas *canvas, const struct report_sets *sets,
		   const struct report_set *set);

/* Bytes copied into the GPU's memory an epoch, a curve a manager, and a dashed one of the least. */
void chart_copies(struct canvas *canvas, const struct report_sets *sets,
		  const struct report_set *set);

/* Resident bytes over time, a panel a run. */
void chart_residency(struct canvas *canvas, const struct report_timeline *timeline);

/* "computing", "use in place", ...: what time is spent on. */
const char *report_part_name(enum report_part part);

/* Bytes an epoch of a result over all links, of one cause or (WEIR_CAUSE_NR) of all; NaN: not
 * known. */
double report_traffic(const struct report_result *result, enum weir_cause cause);

#endif
