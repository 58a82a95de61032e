/* SPDX-License-Identifier: Apache-2.0 */
/* How the graph files say what is wrong: one line for the caller to show. */
#ifndef WEIR_GRAPH_FAIL_H
#define WEIR_GRAPH_FAIL_H

#include <stddef.h>

/* Room for every message. */
#define GRAPH_ERROR_BYTES 512

/*
 * Write a line, with '?' for what would break it or speak to a terminal. err may be NULL.
 * @return error, which is a negative errno.
 */
__attribute__((format(printf, 4, 5))) int graph_fail(char *err, size_t err_bytes, int error,
						     const char *format, ...);

#endif
