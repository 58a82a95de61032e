/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that write a space's events share; see tracing.h. */
#ifndef WEIR_CORE_TRACING_INTERNAL_H
#define WEIR_CORE_TRACING_INTERNAL_H

#include "src/core/tracing.h"

/* Begin an event of the space's, now or at a time, which tracing_commit() ends. NULL: the space is
 * not traced, or nothing is written any more. At a time: only in a space that is traced. */
void *tracing_event(const struct weir_space *space, enum trace_kind kind, uint32_t stream,
		    size_t bytes);
void *tracing_event_at(const struct weir_space *space, enum trace_kind kind, uint32_t stream,
		       uint64_t ns, size_t bytes);
void tracing_commit(const struct weir_space *space);

/* Waiting for a stream is no call of a space: it is told of in front of the next one, or now. */
void tracing_wait(const struct weir_space *space);

/* Where the trace's number of an allocation is kept, and where that begins in the range. */
uint64_t *tracing_life_at(struct range *range, uint64_t offset, uint64_t *begin);

/* What was allocated before has a number from an earlier trace, or none; it gets one. */
void tracing_lives(struct weir_space *space);

#endif
