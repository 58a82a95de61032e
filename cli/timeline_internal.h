/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files that write timelines share. */
#ifndef WEIR_CLI_TIMELINE_INTERNAL_H
#define WEIR_CLI_TIMELINE_INTERNAL_H

#include "cli/timeline.h"

/* ,"key":<microseconds> */
void timeline_time(FILE *out, const char *key, uint64_t ns);

/* Counters: bytes resident in each memory; in the device's memory, and in others that have a
 * budget, by name; bytes a second over each link that something crossed, each way. -ENOMEM. */
void timeline_residency(FILE *out, const struct timeline_run *run);
void timeline_names(FILE *out, const struct timeline_run *run);
int timeline_links(FILE *out, const struct timeline_run *run) WEIR_MUST_CHECK;

#endif
