/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a trace while it is opened: between trace_file.c and trace_file_check.c. */
#ifndef WEIR_TRACE_FILE_CHECK_H
#define WEIR_TRACE_FILE_CHECK_H

#include "workloads/trace_file.h"

struct trace_check_stream {
	bool known, open;
};

struct trace_check {
	struct trace_file *file; /* lives, names and streams are added as they come */
	const char *name;
	char *err;
	size_t err_bytes;

	bool *alive; /* by life */
	uint64_t max_lives;
	uint32_t max_names;
	struct trace_check_stream *stream;
	uint32_t part, index; /* of the machine's description, which comes next; all: part is NR */
	uint32_t uses_left;   /* of the bracket before, that TRACE_USES is to have */
	uint64_t begin_at;    /* where that bracket is, and how many events are before it */
	uint64_t begin_events;
	uint64_t last_bracket;
	uint32_t *host; /* open brackets of the CPU's */
	uint32_t nr_hosts, max_hosts, last_host;
	uint32_t queued[WEIR_MEMORIES_MAX][WEIR_MEMORIES_MAX]; /* copies, from and to places */
};

int trace_check_init(struct trace_check *c);
void trace_check_fini(struct trace_check *c);

/* One event, whose length is that of all of it, and fits. -EINVAL with a line, -ENOMEM. */
int trace_file_check_event(struct trace_check *c, const struct trace_event *event, uint64_t at);

/* All events were checked. */
int trace_file_check_end(struct trace_check *c, uint64_t at);

/* Write a line to err. @return -EINVAL. */
int trace_file_bad(const struct trace_check *c, uint64_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
