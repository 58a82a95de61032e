/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a random program: events between streams, as few as are needed. What reads part of a
 * buffer comes after what wrote there last, and what writes there after all that has read it since.
 */
#include <string.h>

#include "tests/dropin/random/random.h"

enum { NON_BLOCKING = 1, NO_TIMING = 2 };
#define PER_THREAD ((CUstream)2) /* CU_STREAM_PER_THREAD */

/* ------------------------------------------------------------------ streams */

static void stream_create(struct thread *t, unsigned s)
{
	struct stream *stream = &t->stream[s];

	stream->native = NULL;
	stream->independent = false;
	if (s == 1 && chance(t, 30)) {
		stream->native = PER_THREAD;
	} else if (s) {
		stream->independent = s == 2 || chance(t, 60);
		CU(cuStreamCreate, &stream->native, stream->independent ? NON_BLOCKING : 0);
	}
}

void streams_open(struct thread *t)
{
	t->nr_streams = 3 + (unsigned)below(t, STREAMS - 2);
	for (unsigned s = 0; s < t->nr_streams; s++) {
		stream_create(t, s);
		for (unsigned i = 0; i < RING; i++)
			CU(cuEventCreate, &t->stream[s].ring[i], NO_TIMING);
	}
}

static bool is_own(const struct stream *stream)
{
	return stream->native && stream->native != PER_THREAD;
}

void streams_close(struct thread *t)
{
	for (unsigned s = 0; s < t->nr_streams; s++) {
		for (unsigned i = 0; i < RING; i++)
			CU(cuEventDestroy, t->stream[s].ring[i]);
		if (is_own(&t->stream[s]))
			CU(cuStreamDestroy, t->stream[s].native);
	}
}

/* The event that stands for a mark now: of that stream, the mark's or a later one. */
static CUevent event_of(const struct thread *t, struct mark mark)
{
	return t->stream[mark.stream].ring[mark.seq % RING];
}

/* Its number. */
static uint64_t seq_of(const struct thread *t, struct mark mark)
{
	const uint64_t nr = t->stream[mark.stream].nr;

	return nr - (nr - mark.seq) % RING;
}

/* A stream goes while it has work, and another one comes in its place and order. */
void stream_renew(struct thread *t, unsigned s)
{
	struct stream *stream = &t->stream[s];

	if (!is_own(stream))
		return;
	say("stream %u is another one", s);
	CU(cuStreamDestroy, stream->native);
	stream_create(t, s);
	memset(stream->knows, 0, sizeof(stream->knows));
	if (stream->nr > stream->done)
		CU(cuStreamWaitEvent, stream->native, stream->ring[stream->nr % RING], 0);
}

unsigned stream_any(struct thread *t)
{
	return (unsigned)below(t, t->nr_streams);
}

unsigned stream_independent(struct thread *t, unsigned but)
{
	const unsigned first = (unsigned)below(t, t->nr_streams);

	for (unsigned i = 0; i < t->nr_streams; i++) {
		const unsigned s = (first + i) % t->nr_streams;

		if (s != but && t->stream[s].independent)
			return s;
	}
	return STREAMS;
}

/* ------------------------------------------------------------------ marks */

static void stream_wait(struct thread *t, unsigned s, struct mark mark)
{
	struct stream *stream = &t->stream[s];

	if (mark.stream == s || mark.seq <= stream->knows[mark.stream] ||
	    mark.seq <= t->stream[mark.stream].done)
		return;
	CU(cuStreamWaitEvent, stream->native, event_of(t, mark), 0);
	stream->knows[mark.stream] = seq_of(t, mark);
}

void mark_sync(struct thread *t, struct mark mark)
{
	struct stream *stream = &t->stream[mark.stream];
	const uint64_t seq = seq_of(t, mark);

	if (mark.seq <= stream->done)
		return;
	CU(cuEventSynchronize, event_of(t, mark));
	stream->done = seq;
}

void stream_sync(struct thread *t, unsigned s)
{
	CU(cuStreamSynchronize, t->stream[s].native);
	t->stream[s].done = t->stream[s].nr;
}

void all_sync(struct thread *t)
{
	pthread_rwlock_wrlock(&captures); /* which it would spoil */
	CU(cuCtxSynchronize);
	pthread_rwlock_unlock(&captures);
	for (unsigned s = 0; s < t->nr_streams; s++)
		t->stream[s].done = t->stream[s].nr;
}

/* ------------------------------------------------------------------ uses */

void use(struct thread *t, struct buffer *buffer, size_t off, size_t bytes, bool write)
{
	if (off > buffer->bytes || bytes > buffer->bytes - off)
		fail("the program itself is wrong: %zu bytes at %zu of %zu", bytes, off,
		     buffer->bytes);
	if (t->nr_uses == USES)
		fail("the program itself is wrong: too many uses");
	if (bytes)
		t->use[t->nr_uses++] = (struct use){buffer, off, bytes, write};
}

/*
 * Small buffers have one part. weir may look at all of what a launch names there, and the driver
 * without a GPU would take that for a race with who writes elsewhere in it: harmless, since the
 * launch cannot follow what it has no order with.
 */
static size_t part_of(const struct buffer *buffer, size_t off)
{
	return buffer->bytes <= LOOKED_BYTES ? 0 : off / (buffer->bytes / PARTS + 1);
}

/* Call fn for each mark that a use comes after. */
static void marks_before(struct thread *t, const struct use *use,
			 void (*fn)(struct thread *t, unsigned s, struct mark mark), unsigned s)
{
	const size_t end = part_of(use->buffer, use->off + use->bytes - 1);

	for (size_t p = part_of(use->buffer, use->off); p <= end; p++) {
		const struct part *part = &use->buffer->part[p];

		fn(t, s, part->wrote);
		for (unsigned r = 0; use->write && r < t->nr_streams; r++)
			fn(t, s, (struct mark){r, part->read[r]});
	}
}

static void sync_mark(struct thread *t, unsigned s, struct mark mark)
{
	(void)s;
	mark_sync(t, mark);
}

void uses_wait(struct thread *t, unsigned s)
{
	for (unsigned u = 0; u < t->nr_uses; u++)
		marks_before(t, &t->use[u], stream_wait, s);
}

void uses_sync(struct thread *t)
{
	for (unsigned u = 0; u < t->nr_uses; u++)
		marks_before(t, &t->use[u], sync_mark, 0);
}

void buffer_sync(struct thread *t, const struct buffer *buffer)
{
	const struct use all = {(struct buffer *)buffer, 0, buffer->bytes, true};

	marks_before(t, &all, sync_mark, 0);
}

static void use_end(const struct use *use, struct mark mark, unsigned op)
{
	const size_t end = part_of(use->buffer, use->off + use->bytes - 1);

	for (size_t p = part_of(use->buffer, use->off); p <= end; p++) {
		struct part *part = &use->buffer->part[p];

		if (use->write)
			*part = (struct part){.wrote = mark};
		else
			part->read[mark.stream] = mark.seq;
	}
	if (use->write)
		use->buffer->last = op;
}

struct mark uses_end(struct thread *t, unsigned s)
{
	struct stream *stream = &t->stream[s];
	const struct mark mark = {s, ++stream->nr};

	CU(cuEventRecord, event_of(t, mark), stream->native);
	/* What is written comes last: it was read before it, by the same operation. */
	for (int write = 0; write < 2; write++)
		for (unsigned u = 0; u < t->nr_uses; u++)
			if (t->use[u].write == write)
				use_end(&t->use[u], mark, t->op);
	t->nr_uses = 0;
	return mark;
}

void uses_forget(struct thread *t)
{
	t->nr_uses = 0;
}
