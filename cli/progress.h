/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A progress bar with the time left, on a terminal; on anything else, nothing at all.
 */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
	FILE *out;
	bool shown; /* out is a terminal */
	bool drawn; /* a bar stands on the current line */
	uint64_t start_ns, drawn_ns;
};

/* out is borrowed for as long as the bar is used. */
void progress_start(struct progress *progress, FILE *out);

/* fraction: 0 to 1 of all the work. label: what is running. Draws ten times a second at most. */
void progress_set(struct progress *progress, double fraction, const char *label);

/* Take the bar off the line, before anything else is printed and at the end. */
void progress_clear(struct progress *progress);

/* For tests: "[####    ]  50 %  1 min 05 s left  label", cut to bytes. */
void progress_format(char *text, size_t bytes, double fraction, uint64_t elapsed_ns,
		     const char *label);

#endif
