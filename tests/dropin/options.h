/* SPDX-License-Identifier: Apache-2.0 */
/* What program.c is asked to do. */
#ifndef WEIR_TESTS_DROPIN_OPTIONS_H
#define WEIR_TESTS_DROPIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/dropin/api.h"

enum { STREAMS_MAX = 16 };

/* Constant after options_read(). */
extern struct options {
	unsigned arrays, passes, streams, threads; /* arrays and streams of each thread */
	size_t bytes;				   /* of an array, in whole words */
	bool async;		       /* memory comes and goes in the order of streams */
	bool ask, copied, spin, plant; /* see the usage */
	enum reach reach;
} options;

/* Ends the program where it is not what is asked of it. */
void options_read(int argc, char **argv);

/* Ends the program with a message. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
