/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that appears under its name only when it is whole: it is written beside its target and
 * renamed at the end. "-" is standard output; what is no regular file (a pipe, /dev/null) cannot be
 * replaced and is written to directly. What is an input of the command, or another output of it, is
 * refused: see kept.h.
 */
#ifndef WEIR_CLI_OUTPUT_FILE_H
#define WEIR_CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output_file {
	FILE *stream;		/* NULL: not open */
	char *target, *partial; /* owned; partial is NULL where nothing is renamed */
	const char *name;	/* as the user wrote it */
	const char *option;	/* "--json": what remedies speak of */
};

/*
 * Refuse a name that is an input or another output, before work whose result would go there.
 * output_file_open() does so, too. Returns and err: as of that.
 */
int output_file_check(const char *option, const char *name, char *err, size_t err_bytes);

/*
 * Open, so that a target that cannot be written is known before hours of work. name and option are
 * borrowed.
 * On error (negative errno) nothing is left to undo and err has one line.
 */
int output_file_open(struct output_file *output, const char *option, const char *name, char *err,
		     size_t err_bytes);

/* Hand what is written so far to the system: a full disk shows now, not at the end. */
int output_file_flush(struct output_file *output, char *err, size_t err_bytes);

/* Finish: all written, on disk and under its name, or an error and nothing under its name. Either
 * way it is closed. */
int output_file_commit(struct output_file *output, char *err, size_t err_bytes);

/* Give up: nothing is left. A zeroed one, and a finished one, are allowed. */
void output_file_abandon(struct output_file *output);

#endif
