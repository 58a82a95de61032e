/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens in a space, as events of a trace (src/trace): which these are, and what is in them.
 * Everything here is called with the space's lock, and does nothing in a space that is not traced.
 * An event is written when its call has succeeded, so that what the call brought about stands in
 * front of it. Lives are numbered for the trace alone, and count pieces of arenas, too.
 */
#ifndef WEIR_CORE_TRACING_H
#define WEIR_CORE_TRACING_H

#include "src/core/space.h"
#include "src/trace/writer.h"

/* One bracket in so many has its time taken when no plan asks for times. */
#define TRACING_SAMPLE 16u

struct tracing {
	struct trace_writer *writer;
	uint64_t last_life;
	uint64_t waited_ns;	  /* for streams, that the trace knows of */
	uint32_t first_host;	  /* numbers of the CPU's brackets are beyond it */
	uint32_t nr_begun;	  /* brackets */
	bracket_seq_t last_ended; /* the newest whose end is in the trace */
	struct trace_time early;  /* of one that was done before that; bracket 0: there is none */
	bracket_seq_t first_bracket; /* none before it, ended or not, is in the trace */
};

/* Write a trace from here on, or no more. As weir_space_trace(). stop: the space is not destroyed
 * meanwhile, and is told of in the trace. */
int tracing_start(struct weir_space *space, const char *path, bool numbered);
void tracing_stop(struct weir_space *space);

static inline bool is_traced(const struct weir_space *space)
{
	return space->tracing != NULL;
}

/* When a call was made, for took_ns; 0 where nobody asks. */
static inline uint64_t tracing_now(const struct weir_space *space)
{
	return is_traced(space) ? space->backend->ops->now_ns(space->backend) : 0;
}

/* An allocation, by its place in a range, was made or is freed; and all of a range of another kind
 * than mapped. slot: of the stream that was named; NULL: none was. A life is taken
 * before anything becomes of the range, and named as the call returns; 0: the trace has none. */
void tracing_alloc(struct weir_space *space, struct range *range, uint64_t offset, uint64_t bytes,
		   const struct stream_slot *slot, uint64_t since_ns);
uint64_t tracing_life_take(struct weir_space *space, struct range *range, uint64_t offset);
void tracing_free(struct weir_space *space, uint64_t life, const struct stream_slot *slot,
		  uint64_t since_ns);
void tracing_kind_add(struct weir_space *space, struct range *range);

/* A bracket was begun; ended, with what was launched in it; and a time of one that is done. */
void tracing_begin(struct weir_space *space, const struct stream_slot *slot, uint64_t since_ns);
void tracing_end(struct weir_space *space, const struct stream_slot *slot, const char *kernel,
		 double ops, bool in_place, uint64_t since_ns);
void tracing_time(struct weir_space *space, const struct ended_bracket *bracket, bracket_seq_t seq,
		  uint64_t begin_ns, uint64_t end_ns);

/* Whether the bracket being begun is one of those whose time is taken. */
bool tracing_samples(struct weir_space *space);

/* A bracket of the CPU's. @return its number; 0: it is not traced. */
uint32_t tracing_host_begin(struct weir_space *space, const struct space_use *uses, uint32_t nr,
			    uint64_t since_ns);
void tracing_host_end(struct weir_space *space, uint32_t number, uint64_t since_ns);

/* TRACE_WRITE, TRACE_READ, TRACE_PREFETCH. */
void tracing_part(struct weir_space *space, enum trace_kind kind, const struct space_use *part,
		  uint32_t memory, uint64_t since_ns);
void tracing_advise(struct weir_space *space, const struct space_use *part, enum weir_advice advice,
		    uint32_t where, uint64_t since_ns);
void tracing_sync(struct weir_space *space, uint64_t since_ns);
void tracing_budget(struct weir_space *space, place_t place, uint64_t since_ns);
void tracing_mode(struct weir_space *space);
void tracing_stream(struct weir_space *space, const struct stream_slot *slot);
void tracing_mark(struct weir_space *space, const char *name);

/* A copy of a block was queued; so many were done, or undone, on a path; a block went from a chunk
 * to where its home now is, by no copy. from: NULL: none. */
void tracing_move(struct weir_space *space, const struct range *range, uint32_t block,
		  const struct path *path, enum weir_cause cause);
void tracing_moved(struct weir_space *space, const struct path *path, uint32_t nr, bool undone);
void tracing_place(struct weir_space *space, const struct range *range, uint32_t block,
		   const struct chunk *from);

/* A digest of a block was taken as it left its device. */
void tracing_compared(struct weir_space *space, const struct range *range, uint32_t block,
		      enum trace_compared_result result);

/* A plan was made for a device's own memory, or dropped. */
void tracing_plan(struct weir_space *space, place_t own, const struct trace_plan *plan);

#endif
