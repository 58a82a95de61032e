/* SPDX-License-Identifier: Apache-2.0 */
/* Text files, line by line; see lines.h. */
#include "workloads/graph/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workloads/graph/fail.h"

#define WORD_SHOWN 40 /* of a word that is quoted */
#define WEIGHT_CHARS 63
#define WATCH_LINES 65536
#define LOOK_MS 100

int lines_fail(const struct lines *l, const char *format, ...)
{
	char text[GRAPH_ERROR_BYTES];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return graph_fail(l->err, l->err_bytes, -EINVAL, "%s:%llu: %s", l->name,
			  (unsigned long long)l->line, text);
}

static bool should_stop(const struct lines *l)
{
	double fraction = l->file_bytes ? (double)l->bytes / (double)l->file_bytes : 0;

	return graph_watch_stop(l->watch, fraction, "reading");
}

/* Wait until a pipe or a terminal has something, or whoever watches has enough. */
static int wait_for_input(const struct lines *l)
{
	struct pollfd from = {.fd = l->fd, .events = POLLIN};

	while (!l->file_bytes && poll(&from, 1, LOOK_MS) <= 0)
		if (should_stop(l))
			return -ECANCELED;
	return 0;
}

/* Read as much as there is room for. */
static int fill(struct lines *l)
{
	while (!l->ended && l->used < LINES_BUFFER_BYTES) {
		ssize_t got;

		if (wait_for_input(l))
			return -ECANCELED;
		got = read(l->fd, l->buffer + l->used, LINES_BUFFER_BYTES - l->used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return graph_fail(l->err, l->err_bytes, -errno, "%s: %s", l->name,
					  strerror(errno));
		l->ended = !got;
		l->used += (size_t)got;
		l->bytes += (uint64_t)got;
	}
	return 0;
}

int lines_open(struct lines *l, const char *name, int fd, const struct graph_watch *watch,
	       char *err, size_t err_bytes)
{
	struct stat st;
	int rc;

	*l = (struct lines){
		.name = name, .fd = fd, .watch = watch, .err = err, .err_bytes = err_bytes};
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		l->file_bytes = (uint64_t)st.st_size;
	l->buffer = malloc(LINES_BUFFER_BYTES);
	if (!l->buffer)
		return graph_fail(err, err_bytes, -ENOMEM, "%s: no memory on the host", name);
	rc = fill(l);
	if (rc)
		lines_close(l);
	return rc;
}

void lines_close(struct lines *l)
{
	free(l->buffer);
	l->buffer = NULL;
}

bool lines_begin_with(const struct lines *l, const void *bytes, size_t nr_bytes)
{
	return l->used >= nr_bytes && memcmp(l->buffer, bytes, nr_bytes) == 0;
}

/* Move what is left to the front and read on. */
static int refill(struct lines *l)
{
	memmove(l->buffer, l->buffer + l->next, l->used - l->next);
	l->used -= l->next;
	l->next = 0;
	return fill(l);
}

int lines_next(struct lines *l)
{
	const char *end = memchr(l->buffer + l->next, '\n', l->used - l->next);
	int rc;

	if (l->line % WATCH_LINES == 0 && should_stop(l))
		return -ECANCELED;
	if (!end && !l->ended) {
		rc = refill(l);
		if (rc)
			return rc;
		end = memchr(l->buffer, '\n', l->used);
	}
	if (!end && l->used == l->next)
		return 0;
	l->line++;
	if (!end && l->ended)
		return lines_fail(l, "the file ends in mid-line: fetch it again, or end the line "
				     "if it is whole");
	if (!end)
		return lines_fail(l, "the line is longer than %u bytes: this is no graph as text",
				  LINES_BUFFER_BYTES);
	l->at = l->buffer + l->next;
	l->end = end > l->at && end[-1] == '\r' ? end - 1 : end;
	l->next = (size_t)(end - l->buffer) + 1;
	return 1;
}

/* ------------------------------------------------------------------ words */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

size_t lines_word(struct lines *l, const char **word)
{
	while (l->at < l->end && is_space(*l->at))
		l->at++;
	*word = l->at;
	while (l->at < l->end && !is_space(*l->at))
		l->at++;
	return (size_t)(l->at - *word);
}

static int shown(size_t length)
{
	return length < WORD_SHOWN ? (int)length : WORD_SHOWN;
}

int lines_number(struct lines *l, const char *what, uint64_t *out)
{
	uint64_t value = 0;
	const char *word;
	size_t length = lines_word(l, &word);

	if (!length)
		return lines_fail(l, "the line ends where %s should be: complete it", what);
	for (size_t i = 0; i < length; i++) {
		if (word[i] < '0' || word[i] > '9')
			return lines_fail(l, "'%.*s' is not %s: write a whole number",
					  shown(length), word, what);
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		    __builtin_add_overflow(value, (uint64_t)(word[i] - '0'), &value))
			return lines_fail(l, "'%.*s' is beyond 64 bits: number vertices below 2^64",
					  shown(length), word);
	}
	*out = value;
	return 0;
}

int lines_weight(struct lines *l, uint32_t *out)
{
	char text[WEIGHT_CHARS + 1] = "", *end;
	const char *word;
	size_t length = lines_word(l, &word);
	double value;

	if (!length)
		return lines_fail(l, "the line ends where a weight should be: complete it");
	if (length <= WEIGHT_CHARS)
		memcpy(text, word, length);
	/* No names of infinity, no hexadecimal digits. The locale is C's. */
	value = strtod(text, &end);
	if (!text[0] || strspn(text, "0123456789+-.eE") != length || end != text + length)
		return lines_fail(l, "'%.*s' is not a weight: write a number", shown(length), word);
	if (!(value >= 0 && value <= UINT32_MAX) || value != (double)(uint32_t)value)
		return lines_fail(l,
				  "weight '%.*s' is not a whole number from 0 to %u: leave weights "
				  "out with --weights none, or make them with --weights gen",
				  shown(length), word, UINT32_MAX);
	*out = (uint32_t)value;
	return 0;
}

int lines_done(struct lines *l)
{
	const char *word;
	size_t length = lines_word(l, &word);

	if (length)
		return lines_fail(l, "'%.*s' is more than the line should have: remove it",
				  shown(length), word);
	return 0;
}
