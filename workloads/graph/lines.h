/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text file, line by line and word by word, in a bounded buffer, so that it may be longer than
 * memory. Whatever is wrong is said with the file's name and the line's number.
 */
#ifndef WEIR_GRAPH_LINES_H
#define WEIR_GRAPH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/graph/watch.h"

#define LINES_BUFFER_BYTES 1048576u /* a longer line is refused */

struct lines {
	const char *name; /* borrowed */
	int fd;		  /* borrowed */
	const struct graph_watch *watch;
	uint64_t file_bytes;  /* 0: not known */
	uint64_t bytes;	      /* read so far */
	uint64_t line;	      /* the current one, from 1 */
	const char *at, *end; /* what is left of it, without its end */
	char *buffer;
	size_t next, used; /* what follows it in the buffer */
	bool ended;
	char *err; /* borrowed */
	size_t err_bytes;
};

/*
 * Begin to read. The first bytes are in the buffer then, for lines_begin_with().
 * 0, -ENOMEM or what reading says, with a line in err. lines_close() it if it was 0.
 */
int lines_open(struct lines *l, const char *name, int fd, const struct graph_watch *watch,
	       char *err, size_t err_bytes);
void lines_close(struct lines *l);

/* Before the first line: whether the file begins with this. */
bool lines_begin_with(const struct lines *l, const void *bytes, size_t nr_bytes);

/* Step to the next line: 1, 0 at the end of the file, or a negative errno, -ECANCELED too. */
int lines_next(struct lines *l);

/* Complain about the current line. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int lines_fail(const struct lines *l, const char *format,
						     ...);

/* The next word of the line; its length, 0 at the end of the line. Not terminated. */
size_t lines_word(struct lines *l, const char **word);

/* A whole number that the line must have, called what in messages. 0 or -EINVAL. */
int lines_number(struct lines *l, const char *what, uint64_t *out);

/* A weight that the line must have: a whole number of 32 bits, however it is written (3, 3.0, 3e0),
 * to the precision of a double. 0 or -EINVAL. */
int lines_weight(struct lines *l, uint32_t *out);

/* That the line has nothing more. 0 or -EINVAL. */
int lines_done(struct lines *l);

#endif
