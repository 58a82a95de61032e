/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams into graphs that are under way. Who waits for a context then spoils them,
 * whatever the modes of threads are (an H200, driver 580.159); a capture that begins while somebody
 * waits does no harm. Threads: all functions are safe.
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

/* Whether no stream is captured, nor is one about to be. Takes no lock: who asks holds the space's,
 * which captures_begin() takes once where this has become false. */
bool captures_are_none(void);

/*
 * Before and behind a wait for contexts: a capture that begins meanwhile lets the wait begin first.
 *
 * @param [in] unless_unknown  Refuse also where there were so many captures that nobody knows.
 * @return false: streams are captured, which a wait would spoil; then nothing ends
 */
bool captures_wait_begin(bool unless_unknown);
void captures_wait_end(void);

/* Wait for the work of the current context. @return as cuCtxSynchronize(); where it is
 * CU_CAPTURE_UNSUPPORTED, nobody waited, since streams are captured */
cu_result captures_sync(void);

#endif
