/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: what happens in a space, written to a file while the program runs. docs/traces.md says
 * what is in one and what it costs. Conventions are those of weir/weir.h.
 *
 *     weir_space_trace(space, "run.trace");
 *     weir_space_trace_mark(space, "epoch 1");
 *     ...
 *     weir_space_trace(space, NULL);
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include "weir/weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write a trace of what happens in the space from here on: allocations, frees, brackets with their
 * uses, copies to and from the program's buffers, advice, plans, moves and budgets, and the times
 * of some kernels. `weir trace` reads it, and docs/traces.md says what is in it. No address and no
 * content of memory is.
 *
 * The environment variable WEIR_TRACE names a file that each space is traced to from its creation
 * on, the first of a process to FILE, the next ones to FILE.2, FILE.3 and so on.
 *
 * A file that is there is replaced if it is empty or a trace that nobody is writing. When it cannot
 * grow, recording ends with one warning, and the program goes on. A child process (after a fork)
 * writes nothing.
 *
 * @param [in] path  The file. NULL: end the trace, if one is being written; weir_space_destroy()
 *                   does so, too.
 * @return 0, or, and nothing is recorded (the log says why):
 *   -EALREADY  the space is being traced
 *   -EEXIST    the file is there, and neither empty nor a trace; or is no regular file
 *   -EBUSY     another space, of this process or another, writes its trace there
 *   -ENOMEM, -ENOSPC, or another error of the file system
 */
WEIR_API WEIR_MUST_CHECK int weir_space_trace(struct weir_space *space, const char *path);

/**
 * Set a mark in the space's trace, by which parts of it can be named: at the beginning of an epoch,
 * say. Without a trace it does nothing. What comes behind a mark "pause", up to the next mark,
 * belongs to no epoch.
 *
 * @param [in] name  Copied; what is beyond 255 bytes is cut.
 */
WEIR_API void weir_space_trace_mark(struct weir_space *space, const char *name);

#ifdef __cplusplus
}
#endif
#endif
