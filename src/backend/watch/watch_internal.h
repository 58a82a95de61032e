/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watching backend's state.
 *
 *   watch.c        the table of operations: each passed on, with what it tells the other two
 *   watch_log.c    events, marks, start and stop
 *   watch_place.c  where memory is and what it is called
 *
 * Locks: lock protects everything but the times of events that are pending. No call of the inner
 * backend is made while it is held: such a call may wait for a thread that is about to come here.
 * collecting is held by the one thread that asks for times; others do not wait for it.
 */
#ifndef WEIR_WATCH_INTERNAL_H
#define WEIR_WATCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/backend/watch/watch.h"

/* A function registered for progress. */
struct watch_progress {
	struct watch_progress *next;
	struct watch *watch;
	void (*fn)(void *arg);
	void *arg;
};

struct watch {
	struct backend base;
	struct backend *inner; /* owned */
	pthread_mutex_t lock, collecting;
	struct watch_progress *progress;

	atomic_bool recording;
	struct watch_log *log; /* NULL: not recording */
	uint32_t max_events, max_changes;
	struct watch_stream *stream;
	uint32_t nr_streams;

	void *places, *parts; /* search trees, see watch_place.c */
	const char *name[WATCH_NAMES_MAX];
	uint32_t nr_names;
	int64_t resident[WATCH_NAMES_MAX][WEIR_MEMORIES_MAX]; /* by name; 0: all */
	uint64_t nr_lost; /* pieces of memory that there was no room to know of */
};

static inline struct watch *watch_of(struct backend *b)
{
	return (struct watch *)(void *)b; /* base comes first */
}

static inline uint64_t watch_now(const struct watch *w)
{
	return w->inner->ops->now_ns(w->inner);
}

static inline bool watch_is_host(const struct watch *w, uint32_t memory)
{
	return w->base.desc.memory[memory].kind == WEIR_MEMORY_HOST;
}

/* ---- watch_log.c */

/* A launch reads from and writes to all other GPUs' memories at most. */
#define WATCH_FLOWS_MAX (2 * WEIR_DEVICES_MAX)

/* Work that is being queued on a stream. */
struct watch_work {
	bool on;
	stream_id_t stream;
	fence_t begin;
	uint64_t called_ns;
	uint32_t nr_flows;
	struct watch_flow flow[WATCH_FLOWS_MAX]; /* of different memories each */
};

/* Before and after the call that queues it. err: what that returned; event has all but its track
 * and times, and least_ns counted from the call. */
void watch_work_begin(struct watch *w, stream_id_t stream, struct watch_work *work);
void watch_work_end(struct watch *w, const struct watch_work *work, int err,
		    struct watch_event *event);

/* The work moves bytes from one memory to another one. In between. Of two GPUs only are noted. */
void watch_work_flow(const struct watch *w, struct watch_work *work, uint32_t from, uint32_t to,
		     uint64_t bytes);

/* Work that the calling thread queues in between is the message's. */
void watch_message_begin(struct watch *w, const struct backend_message *message);
void watch_message_end(struct watch *w, bool sent);

/* Before and after a call of the host. begin_ns: what the first returned, WATCH_NEVER while nothing
 * is recorded. */
#define WATCH_NEVER UINT64_MAX
uint64_t watch_call_begin(struct watch *w);
void watch_call_end(struct watch *w, enum watch_kind kind, uint64_t begin_ns, uint64_t bytes);

/* Ask for times that have become known: of one stream, or of all. */
void watch_collect(struct watch *w, stream_id_t stream);
void watch_collect_all(struct watch *w);

/* Bytes became resident, or ceased to be. Lock held; ns: now. */
void watch_change(struct watch *w, uint64_t ns, uint32_t memory, uint32_t name, int64_t bytes);

int watch_stream_add(struct watch *w, stream_id_t id, uint32_t device,
		     enum backend_stream_kind kind);

/* The calling thread runs a progress function, or no longer. */
void watch_migrating(bool on);

/* ---- watch_place.c: none of these can fail, since none may disturb the run */

void watch_chunk_add(struct watch *w, const struct backend_chunk *chunk);
void watch_plain_add(struct watch *w, void *addr, uint64_t bytes, uint32_t memory);
void watch_region_add(struct watch *w, void *addr, uint64_t bytes, uint64_t unit);

/* A chunk by its alias, a plain allocation, or a region. */
void watch_place_del(struct watch *w, void *addr);

void watch_map(struct watch *w, void *addr, const struct backend_chunk *chunk);
void watch_unmap(struct watch *w, void *addr);

/* Bytes of [addr, addr + bytes) by memory; and those in host memory alone. */
void watch_bytes(struct watch *w, const void *addr, uint64_t bytes,
		 uint64_t by_memory[WEIR_MEMORIES_MAX]);
uint64_t watch_host_bytes(struct watch *w, const void *addr, uint64_t bytes);

void watch_places_free(struct watch *w);

#endif
