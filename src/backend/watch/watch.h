/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watching backend: it passes everything on to another and records what happened and when,
 * without changing what happens. Between watch_start() and watch_stop():
 *
 *  - work on streams: launches, packets and digests as launches, batches of copies, transfers.
 *    Their times are those of marks (see fence_mark) before and after. A launch begins when it
 *    could start: when the work before it on its stream is done, and what the stream was made to
 *    wait for, and the call was made. That other streams' kernels keep the device busy does not
 *    show.
 *  - messages between memories: which of that work each is, for senders who say so.
 *  - calls of the host that take time: mapping, chunks, allocations, waits. Those of less than
 *    WATCH_LEAST_NS are left out.
 *  - residency: bytes of each memory that hold something that kernels can reach (chunks that are
 *    mapped, each counted once, and plain allocations), and the same by name, for parts that were
 *    given one.
 *
 * What it costs: on a simulated machine no virtual time. On CUDA two event records a launch, a
 * batch or a transfer, and a query of one event a call; and a kernel seems longer by what the GPU
 * needs to get from one event to the next.
 *
 * Memory is bounded: what finds no room, and what was done before anybody could ask for its times
 * (backends keep those of the newest marks only), is dropped and counted.
 */
#ifndef WEIR_BACKEND_WATCH_H
#define WEIR_BACKEND_WATCH_H

#include "src/backend/backend.h"

#define WATCH_LEAST_NS 200
#define WATCH_NAMES_MAX 256

enum watch_kind {
	/* on a stream */
	WATCH_LAUNCH,
	WATCH_COPY,
	WATCH_UPLOAD,
	WATCH_DOWNLOAD,
	/* of the host */
	WATCH_WAIT,
	WATCH_MAP,
	WATCH_UNMAP,
	WATCH_ACCESS,
	WATCH_CREATE, /* a chunk */
	WATCH_DESTROY,
	WATCH_ALLOC, /* a plain allocation */
	WATCH_FREE,
};

/* Who made a call of the host. */
enum watch_agent { WATCH_PROGRAM, WATCH_MIGRATOR };

struct watch_event {
	enum watch_kind kind;
	uint32_t track;			      /* index in the log's streams; an agent */
	uint64_t begin_ns, end_ns;	      /* by now_ns() */
	const char *name;		      /* of a launch: the kernel's; else NULL */
	uint64_t bytes[BACKEND_DIRECTION_NR]; /* over the stream's device's link to the host; of a
					       * launch: used in place */
	uint32_t pieces;		      /* of a batch */
	uint32_t message;		      /* index in the log's messages, plus 1; 0: of none */

	/* Until the times are known the marks' numbers are in their place. */
	bool pending;
	uint32_t next;	   /* on its stream, plus 1 */
	uint64_t least_ns; /* it did not begin before */
};

/* Bytes that an event moved between two GPUs' memories, or used in place there. */
struct watch_flow {
	uint32_t event;	   /* index in the log */
	uint16_t from, to; /* memories */
	uint64_t bytes;
};

/* A message: the events that have its number are its work. */
struct watch_message {
	struct backend_message message;
	bool sent; /* false: it failed, and counts as none */
};

/* Whether it was work on a stream; else it was a call of the host. */
static inline bool watch_on_stream(const struct watch_event *event)
{
	return event->kind <= WATCH_DOWNLOAD;
}

/* A change of what is resident. In order of time. */
struct watch_change {
	uint64_t ns;
	int64_t bytes;
	uint16_t memory;
	uint16_t name; /* index in the log's names; 0: of the whole memory */
};

struct watch_stream {
	stream_id_t id;
	uint32_t device;
	enum backend_stream_kind kind;
	uint32_t head, tail; /* its events that are pending, plus 1 */
};

struct watch_log {
	struct watch_event *event; /* in the order of the calls */
	uint32_t nr_events;
	struct watch_flow *flow; /* in the order of their events */
	uint32_t nr_flows;
	struct watch_message *message; /* in the order of the calls */
	uint32_t nr_messages;
	struct watch_change *change; /* begins with what was resident at the start */
	uint32_t nr_changes;
	struct watch_stream *stream; /* all that the machine ever had */
	uint32_t nr_streams;
	const char *name[WATCH_NAMES_MAX]; /* static texts; 0 is none */
	uint32_t nr_names;
	uint64_t begin_ns, end_ns;
	uint64_t nr_launches; /* recorded or dropped */
	uint64_t nr_dropped;  /* events, flows, messages and changes */
};

/* Wrap a backend that nobody has used yet; it is owned by the wrapper from then on. -ENOMEM. */
int watch_create(struct backend *inner, struct backend **out);

/*
 * Start recording up to max_events events, as many flows, as many messages and twice as many
 * changes of residency; memory for them is taken now, and touched as it fills. -EBUSY: it records
 * already; -ENOMEM.
 */
int watch_start(struct backend *watch, uint32_t max_events);

/*
 * Stop recording. What is queued still is dropped: sync before.
 *
 * out: owned by the caller, watch_log_free() it; outlives the backend.
 * -EINVAL: it does not record; -ENOMEM: the record is gone.
 */
int watch_stop(struct backend *watch, struct watch_log **out);
void watch_log_free(struct watch_log *log);

/*
 * Tell what a part of memory is called, from its allocation on; name NULL: the part that begins at
 * addr is freed. At any time, whether it records or not.
 *
 * name: static text. After WATCH_NAMES_MAX - 1 different ones the others have none.
 */
void watch_name(struct backend *watch, const void *addr, uint64_t bytes, const char *name);

#endif
