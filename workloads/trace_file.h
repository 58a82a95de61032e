/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces in files, as the library writes them (src/trace/format.h): opening one checks all of it,
 * so that who goes through its events need not. docs/traces.md says what is in them.
 */
#ifndef WEIR_TRACE_FILE_H
#define WEIR_TRACE_FILE_H

#include <stdbool.h>

#include "src/trace/format.h"
#include "workloads/trace.h"

#define TRACE_STREAMS_MAX 65535u

/* What is known of a life without its events. */
struct trace_file_life {
	uint64_t bytes;
	uint32_t nr_blocks, flags; /* TRACE_ALLOC_* */
};

/* Everything in it is the file's and goes with it. */
struct trace_file {
	char *bytes;	  /* NULL: not open */
	bool owned;	  /* bytes are */
	uint64_t end;	  /* of the last event, in bytes[] */
	bool ended;	  /* its last event says that recording ended as it should */
	bool unfinished;  /* ... and else, the last frame was not finished */
	uint32_t version; /* of the format */
	struct weir_machine_desc machine;
	const struct trace_space *space;
	uint64_t nr_events, nr_of[TRACE_KIND_END];
	uint64_t begin_ns, end_ns;	/* of the first event and the latest one */
	struct trace_file_life *life;	/* by number, from 1 */
	const char **name;		/* by number, from 1 */
	uint64_t nr_lives, nr_brackets; /* brackets that ended */
	uint32_t nr_names, nr_streams;	/* streams have numbers below that */
};

/*
 * Read a trace.
 *
 * @param [out] out  Written on success only; trace_file_close() it.
 * @param [out] err  One line that begins with the file's name.
 * @return 0, -EINVAL (no trace, damaged, cut off, of another version), -ENOMEM, or what the system
 *         said.
 */
int trace_file_open(const char *name, struct trace_file *out, char *err, size_t err_bytes);

/* The same of bytes in memory, at an address that is a multiple of 8. Borrowed. */
int trace_file_view(const char *name, char *bytes, size_t nr_bytes, struct trace_file *out,
		    char *err, size_t err_bytes);

/* A zeroed one is allowed. */
void trace_file_close(struct trace_file *file);

/* Going through the events in order. */
struct trace_cursor {
	const struct trace_file *file;
	uint64_t at, frame_end;
};

static inline struct trace_cursor trace_cursor(const struct trace_file *file)
{
	return (struct trace_cursor){file, TRACE_HEADER_BYTES, TRACE_HEADER_BYTES};
}

/* NULL: there are no more. */
const struct trace_event *trace_next(struct trace_cursor *cursor);

/* Whether a mark is one behind which no epoch is. */
bool trace_is_pause(const struct trace_event *mark);

/* Uses of a TRACE_BEGIN or TRACE_HOST_BEGIN, in order, over the TRACE_USES that may follow. NULL:
 * no more. Zeroed but for cursor, which is the one that gave the event, and begin. */
struct trace_use_cursor {
	struct trace_cursor cursor; /* a copy: the caller's goes on as if nothing had happened */
	const struct trace_begin *begin;
	const struct trace_uses *more;
	uint32_t nr, here; /* uses given, in all and of this event */
};
const struct trace_file_use *trace_next_use(struct trace_use_cursor *uses);

/* What was launched in a bracket, for people: "several kernels"; "kernel", if that is not known. */
const char *trace_end_name(const struct trace_file *file, const struct trace_end *end);

/* "alloc", "begin" ...; NULL: no such kind. */
const char *trace_kind_name(uint32_t kind);

/* What became of guesses. */
struct trace_observed {
	uint64_t nr_writes; /* recorded, of brackets on streams */
	uint64_t nr_reads;  /* found to be reads among them */
};

/*
 * Of a trace whose uses are guesses ("may write all of it"), take uses to be reads where
 * comparisons of blocks say so: at least one of a use's blocks was found unchanged when it was
 * compared next, and none was found changed. All that reads the file from then on finds them as
 * reads, since the events are changed in memory; those of trace_file_view() at bytes, too.
 *
 * @param [out] err  One line without the file's name.
 * @return 0, -ENODATA (there are no comparisons, or uses are no guesses: nothing is changed),
 *         -ENOMEM (some uses may be changed).
 */
int trace_file_observe(struct trace_file *file, struct trace_observed *out, char *err,
		       size_t err_bytes);

/* A part of a trace: events first .. end - 1, counted from 0. */
struct trace_span {
	uint64_t first, end;
};

/*
 * The part from one mark to another one that follows, without it. NULL: from the beginning, to the
 * end.
 * @return 0 or -ENOENT, with a line in err: there are no such marks in this order.
 */
int trace_file_span(const struct trace_file *file, const char *from, const char *to,
		    struct trace_span *out, char *err, size_t err_bytes);

/*
 * A part as the struct trace that bounds and oracles take; names in it are the file's. A step is a
 * bracket; what the CPU overwrote, by weir_write() or in a bracket of its own, is a step without a
 * kernel. compute_ns is what was measured with everything in the device's memory, of the bracket
 * itself or, as a mean, of those like it; else 0. Uses of memory that was freed before recording
 * began are left out.
 * @return 0, -ENOTSUP (brackets of several devices, paged ranges or windows of replicated ones;
 *         text in err), -E2BIG, -ENOMEM.
 */
int trace_file_steps(const struct trace_file *file, const struct trace_span *span,
		     struct trace **out, char *err, size_t err_bytes);

#endif
