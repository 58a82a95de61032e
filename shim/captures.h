/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams into graphs that are under way. Who waits for a context then spoils them,
 * whatever the modes of threads are (an H200, driver 580.159); a capture that begins while somebody
 * waits does no harm. Looked at with --when oom alone. Threads: all functions are safe.
 */
#ifndef WEIR_SHIM_CAPTURES_H
#define WEIR_SHIM_CAPTURES_H

#include <stdbool.h>

#include "shim/hooks.h"

/* Around the driver's call that begins a capture. stream: as in brackets.h. */
void captures_begin(void);
void captures_begun(cu_stream stream, bool began);

/* Behind the driver's call that ends one, whatever it said. */
void captures_ended(cu_stream stream);

/* The same of what ends them, too: a stream, or a context with all of its streams, is destroyed. */
void captures_stream_ends(cu_stream stream);
void captures_context_ends(cu_context context);

/* Wait for the work of the current context. @return as cuCtxSynchronize(); where it is
 * CU_CAPTURE_UNSUPPORTED, nobody waited, since streams are captured */
cu_result captures_sync(void);

#endif
