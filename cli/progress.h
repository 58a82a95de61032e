/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far long work is. On a terminal: a bar with the time left, no wider than the terminal, drawn
 * anew at least once a second, also while the work itself says nothing for long: a thread does
 * that. On anything else: a line every 30 seconds, so that a log shows that work goes on.
 */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRESS_LABEL_BYTES 96

/* Zeroed before its first use. */
struct progress {
	bool running; /* started and not ended */
	FILE *out;
	bool terminal;	  /* out is one */
	bool has_thread;  /* that draws while nobody else does */
	uint64_t line_ns; /* between lines where out is no terminal; may be changed for tests */
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wake;  /* end is set */
	bool end;	      /* the thread is to return */
	bool drawn;	      /* a bar stands on the current line */
	uint64_t start_ns, drawn_ns;
	double fraction;
	char label[PROGRESS_LABEL_BYTES];
};

/* Begin, or begin anew with other work. out is borrowed until progress_end(). */
void progress_start(struct progress *progress, FILE *out);

/* fraction: 0 to 1 of all the work, or of a part of it, which begins where it is less than before.
 * label: what is running. Draws ten times a second at most. */
void progress_set(struct progress *progress, double fraction, const char *label);

/* Take the bar off the line, before anything else is printed. It comes back while work goes on. */
void progress_clear(struct progress *progress);

/* Take it off for good. One that was not started, or has ended, is allowed. */
void progress_end(struct progress *progress);

/* For tests: "[####    ]  50 %  1 min 05 s left  label", cut to columns, at most bytes - 1. Before
 * a hundredth is done there is no saying what is left, and it is the time so far. */
void progress_format(char *text, size_t bytes, size_t columns, double fraction, uint64_t elapsed_ns,
		     const char *label);

#endif
