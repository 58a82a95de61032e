/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and ending an event of a space's trace: see tracing_internal.h. */
#include "src/core/tracing_internal.h"

#include "src/backend/machine.h"

void *tracing_event_at(const struct weir_space *space, enum trace_kind kind, uint32_t stream,
		       uint64_t ns, size_t bytes)
{
	return trace_writer_event(space->tracing->writer, kind, stream, ns, bytes);
}

/* Whether the program called. */
static bool is_call(enum trace_kind kind)
{
	switch (kind) {
	case TRACE_ALLOC:
	case TRACE_FREE:
	case TRACE_BEGIN:
	case TRACE_END:
	case TRACE_HOST_BEGIN:
	case TRACE_HOST_END:
	case TRACE_WRITE:
	case TRACE_READ:
	case TRACE_SYNC:
	case TRACE_MARK:
		return true;
	default:
		return false;
	}
}

void tracing_wait(const struct weir_space *space)
{
	uint64_t waited_ns = machine_waited_ns(space->machine);
	struct trace_sync *e;

	if (waited_ns == space->tracing->waited_ns)
		return;
	e = tracing_event_at(space, TRACE_WAIT, TRACE_NO_STREAM, tracing_now(space), sizeof(*e));
	if (!e)
		return;
	e->took_ns = waited_ns - space->tracing->waited_ns;
	space->tracing->waited_ns = waited_ns;
	trace_writer_commit(space->tracing->writer);
}

void *tracing_event(const struct weir_space *space, enum trace_kind kind, uint32_t stream,
		    size_t bytes)
{
	if (is_traced(space) && is_call(kind))
		tracing_wait(space);
	return is_traced(space) ? tracing_event_at(space, kind, stream, tracing_now(space), bytes)
				: NULL;
}

void tracing_commit(const struct weir_space *space)
{
	trace_writer_commit(space->tracing->writer);
}
