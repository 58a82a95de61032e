/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a trace: events are put together in a mapping of the file itself, so that a process that
 * is killed loses no more than the event it was writing. Not thread-safe: who records holds a lock
 * of its own.
 *
 * The file grows by pieces that are allocated on the disk before they are mapped. A disk without
 * room ends the recording, with one line in the log; nothing else happens to the program. In a
 * child process (after a fork) nothing is written.
 */
#ifndef WEIR_TRACE_WRITER_H
#define WEIR_TRACE_WRITER_H

#include <stdbool.h>

#include "src/trace/format.h"

struct trace_writer;

/*
 * Begin a trace. A file that is there is replaced if it is empty or a trace. path: cut at 4095
 * bytes. numbered: where the file is a trace that is being written, take PATH.2, PATH.3, ...
 * @return 0, or, and nothing changed and the log says why:
 *   -EEXIST  the file is there, and neither empty nor a trace; or it is no regular file
 *   -EBUSY   the file is a trace that is being written, here or by another process
 *   -ENOMEM, -ENOSPC, or what the system said
 */
int trace_writer_open(const char *path, bool numbered, struct trace_writer **out);

/* End it; NULL is allowed. What is there stays, whether all of it could be written or not. */
void trace_writer_close(struct trace_writer *w);

/*
 * Begin an event of so many bytes, a multiple of 8 and TRACE_FRAME_MAX less the frame's header at
 * most. It is zero but for kind, stream and ns. NULL: nothing is recorded any more.
 * trace_writer_commit() ends it, before anything else of the writer is called.
 */
void *trace_writer_event(struct trace_writer *w, enum trace_kind kind, uint32_t stream, uint64_t ns,
			 size_t bytes);
void trace_writer_commit(struct trace_writer *w);

/* An event that ends with a text, cut to TRACE_TEXT_MAX. head_bytes: what is in front of it. */
void *trace_writer_text(struct trace_writer *w, enum trace_kind kind, uint64_t ns,
			size_t head_bytes, const char *text);

/* The number of a text that stays where it is; written when it is first met. 0: of NULL. */
uint32_t trace_writer_name(struct trace_writer *w, const char *name, uint64_t ns);

#endif
