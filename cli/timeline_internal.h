/* SPDX-License-Identifier: Apache-2.0 */
/* What the three files that write timelines share. */
#ifndef WEIR_CLI_TIMELINE_INTERNAL_H
#define WEIR_CLI_TIMELINE_INTERNAL_H

#include "cli/timeline.h"

/* ,"key":<microseconds> */
void timeline_time(FILE *out, const char *key, uint64_t ns);

/* Metadata: a name with one argument, a track's place among others. Track 0: of the process. */
void timeline_name(FILE *out, const struct timeline_run *run, uint32_t track, const char *what,
		   const char *name);
void timeline_order(FILE *out, const struct timeline_run *run, uint32_t track, uint32_t order);

/* The beginning of a span; it is for the caller to close. */
void timeline_span(FILE *out, const struct timeline_run *run, uint32_t track, const char *name,
		   uint64_t begin_ns, uint64_t end_ns);

/* Messages, on tracks from this one on, one for each way between two memories or several. -ENOMEM.
 */
#define TRACK_MESSAGES 0x8000u
int timeline_messages(FILE *out, const struct timeline_run *run) WEIR_MUST_CHECK;

/* Counters: bytes resident in each memory; in the device's memory, and in others that have a
 * budget, by name; bytes a second over each link that something crossed, each way. -ENOMEM. */
void timeline_residency(FILE *out, const struct timeline_run *run);
void timeline_names(FILE *out, const struct timeline_run *run);
int timeline_links(FILE *out, const struct timeline_run *run) WEIR_MUST_CHECK;

#endif
