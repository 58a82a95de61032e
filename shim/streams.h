/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's streams that allocate or free in their order, and the space's names of them. A
 * stream's entry lasts until the program destroys the stream, or until its work is done, where that
 * is later. Threads: the caller's lock.
 */
#ifndef WEIR_SHIM_STREAMS_H
#define WEIR_SHIM_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/hooks.h"

struct stream_entry;
struct stream_own;
struct weir_machine;
struct weir_stream;

struct streams {
	struct weir_machine *machine; /* borrowed; NULL: not begun */
	uint32_t gpu;		      /* as the machine numbers it */
	struct stream_entry *entry;
	uint32_t nr, max;
	struct weir_stream *threads; /* waits for threads' default streams; NULL: not yet */
	cu_context primary;	     /* the machine's context */
	struct stream_own *own;	     /* see streams_own() */
	uint32_t nr_own;
};

/* A stream that is in the table no longer. */
struct stream_gone {
	cu_stream native;
	struct weir_stream *adopted; /* the caller's, to destroy; NULL: nothing to destroy */
};

/* Whether work may be ordered behind a stream: it is not being captured into a graph. Takes no
 * lock. */
bool streams_is_queue(cu_stream native);

/* What the driver says of a stream's work: CU_SUCCESS, also where it has no function for that;
 * CU_NOT_READY; or the error of its context. Takes no lock. */
cu_result streams_query(cu_stream native);

/* Whether a result means that a kernel has broken its context, of which all calls say so from then
 * on. */
bool streams_is_fault(cu_result result);

/* What the driver would say where the space returned err, of a stream's work: a fault of an earlier
 * kernel, which is why then and which the program may not know of, or what err is called. Takes no
 * lock. */
cu_result streams_result(int err, cu_stream native);

/* Wait for the work of all streams of the current context, and where that is another one, of the
 * device's primary context. Takes no lock, and none is to be held: it waits for the device.
 * @return the driver's result */
cu_result streams_sync(cu_device device);

/* The space's name of a stream, which is not NULL. NULL: it is of another context, or there is no
 * memory on the host, or there are far too many streams. */
struct weir_stream *streams_find(struct streams *streams, cu_stream native);

/* The same of one that was found before; NULL: it was not, either. */
struct weir_stream *streams_known(struct streams *streams, cu_stream native);

/* The same of a stream that the calling thread uses now. NULL also: it is a default stream, whose
 * name stands for one of the thread's current context, and that is not the machine's. */
struct weir_stream *streams_find_used(struct streams *streams, cu_stream native);

/* A stream of weir's own, for work of the calling thread that has none: each thread has another,
 * so that one need not wait for what another one waits for. NULL: no memory. */
struct weir_stream *streams_own(struct streams *streams);

/* What a range may be freed behind that was used on a stream: its name, but of a thread's default
 * stream one that waits for all that is queued on it now. NULL: as for streams_find_used(), or the
 * wait could not be queued. */
struct weir_stream *streams_find_behind(struct streams *streams, cu_stream native);

/*
 * Take a stream that the program destroys out of the table, unless its work is not done: then it
 * stays until streams_take_idle() finds that it is. To destroy the space's name of a stream is to
 * wait for its work, and that may wait for what the program launches next.
 *
 * @return whether it stays; if not, *gone is written
 */
bool streams_end(struct streams *streams, cu_stream native, struct stream_gone *gone);

/*
 * Take one that had to stay and whose work is done by now. *from: 0 before the first call; between
 * calls the lock may be dropped, and no others may take streams out.
 *
 * @return false: there is none any more
 */
bool streams_take_idle(struct streams *streams, uint32_t *from, struct stream_gone *gone);

/* The next stream from *from on that has no work now; the lock may be dropped between calls while
 * no others take streams out. NULL: there is none any more. */
cu_stream streams_next_idle(const struct streams *streams, uint32_t *from);

/* Forget the streams of other contexts: one of these ends, and its streams' handles may be given to
 * others. Those that live are found again. */
void streams_forget_others(struct streams *streams);

/* Destroy all names. */
void streams_fini(struct streams *streams);

#endif
