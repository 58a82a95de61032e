/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets: a kernel of the sender packs elements of a list side by side, they are copied as one
 * piece, and a kernel of the receiver unpacks them. Both use their own device's window, which shows
 * its own copy there. What does not fit into a lane's chunks goes in several packets, one behind
 * the other; the next one is packed while the last one is unpacked.
 *
 * Chunks of lanes, and lists in device memory, are taken from what is free and kept; copies that
 * need their room have it when nothing uses them. A message that finds none is sent as copies.
 */
#include <errno.h>

#include "src/replica/parcel.h"

#define SECTOR 32u

/* A message that is being sent. */
struct sending {
	struct weir_space *space;
	const struct parcel *p;
	struct list *list;
	struct lane *lane;
	struct waiter out, in;
};

/* ------------------------------------------------------------------ what it needs */

/* See that there is a chunk for packets of so many bytes, or as many as one may have. */
static int chunk_ready(struct weir_space *space, const struct lane *lane, uint8_t copy,
		       uint64_t bytes, struct replica_chunk *chunk)
{
	struct replicas *rs = replicas_of(space);

	bytes = MIN(round_up(bytes, rs->granule_bytes), rs->packet_bytes);
	if (chunk->backend.handle && chunk->backend.bytes < bytes && !lane->nr)
		chunks_put(space, copy, chunk);
	return chunk->backend.handle ? 0 : chunks_get(space, copy, bytes, CHUNKS_FREE, NULL, chunk);
}

static int lane_ready(struct sending *s)
{
	const struct parcel *p = s->p;
	uint64_t bytes = p->part.nr * p->replica->element_bytes;
	int err = lane_get(p->replica->replicas, p->from, p->to, &s->lane);

	if (!err)
		err = lane_stream(s->space, &s->lane->out, p->from);
	if (!err)
		err = lane_stream(s->space, &s->lane->in, p->to);
	if (!err)
		err = chunk_ready(s->space, s->lane, p->from, bytes, &s->lane->out_chunk);
	if (!err)
		err = chunk_ready(s->space, s->lane, p->to, bytes, &s->lane->in_chunk);
	if (!err)
		err = chunks_allow(s->space, &s->lane->in_chunk,
				   BACKEND_DEVICE_BIT(s->space->device[p->from]));
	if (err)
		return err;
	s->out = (struct waiter){.stream = s->lane->out.stream, .clock = &s->lane->out.clock};
	s->in = (struct waiter){.stream = s->lane->in.stream, .clock = &s->lane->in.clock};
	return 0;
}

/* ------------------------------------------------------------------ one packet */

/* Make the receiver's stream wait for what is on the sender's, or the other way round. */
static int join(struct weir_space *space, const struct lane_stream *behind, struct waiter *w)
{
	fence_t fence;
	int err = space_fence_record(space, behind->stream, &fence);

	if (!err)
		err = space->backend->ops->stream_wait(space->backend, w->stream, fence);
	if (!err)
		clock_learn(w->clock, behind->entity, behind->number, &behind->clock);
	return err;
}

/* Have the sender's stream wait until the receiver's chunk is free. */
static int wait_unpacked(struct sending *s, bool is_first)
{
	int err = is_first ? lane_fence(s->space, s->lane) : join(s->space, &s->lane->in, &s->out);

	for (uint32_t n = is_first ? s->lane->nr : 0; n-- > 0 && !err;) {
		const struct message *m = lane_nth(s->lane, n);

		if (m->stream == s->in.stream)
			return message_wait(s->space, &s->out, m);
	}
	return err;
}

/* Queue a kernel that packs or unpacks elements of the list from an index on, or fewer: as many as
 * one part of the list has. */
static int queue_kernel(struct sending *s, uint64_t index, uint64_t *nr, bool unpack)
{
	const struct parcel *p = s->p;
	const struct replica *r = p->replica;
	uint8_t copy = unpack ? p->to : p->from;
	const struct waiter *w = unpack ? &s->in : &s->out;
	struct backend_packet packet = {
		.elements = r->window_addr[copy],
		.packet =
			unpack ? s->lane->in_chunk.backend.alias : s->lane->out_chunk.backend.alias,
		.element_bytes = r->element_bytes,
		.unpack = unpack,
	};
	uint64_t bytes, span;
	uint32_t nr_runs;
	int err = list_index(s->space, s->list, copy, w->stream, index, nr, &packet.index);

	if (err)
		return err;
	packet.nr = *nr;
	nr_runs = list_span(s->list, index, *nr, &packet.first, &packet.last);
	bytes = *nr * r->element_bytes;
	span = ((uint64_t)packet.last - packet.first + 1) * r->element_bytes;
	/* Of a run the first and the last one are there in part, on average. */
	packet.sector_bytes = bytes + nr_runs * (uint64_t)(SECTOR - r->element_bytes);
	packet.sector_bytes = MAX(MIN(packet.sector_bytes, round_up(span, SECTOR)), bytes);
	return s->space->backend->ops->packet(s->space->backend, w->stream, &packet);
}

/* *nr: at most so many, then those that it has. */
static int queue_packet(struct sending *s, uint64_t index, uint64_t *nr, bool is_first)
{
	struct backend *b = s->space->backend;
	struct backend_copy copy = {.dst = s->lane->in_chunk.backend.alias,
				    .src = s->lane->out_chunk.backend.alias};
	int err = queue_kernel(s, index, nr, false);

	if (!err)
		err = wait_unpacked(s, is_first);
	copy.bytes = *nr * s->p->replica->element_bytes;
	if (!err)
		err = b->ops->copy_beside(b, s->out.stream, &copy, 1);
	if (!err)
		err = join(s->space, &s->lane->out, &s->in);
	return err ? err : queue_kernel(s, index, nr, true);
}

/* ------------------------------------------------------------------ all of them */

static int queue_packets(struct sending *s)
{
	const struct parcel *p = s->p;
	/* Of a fourfold number, so that all packets' parts of the list are aligned alike. */
	uint64_t most = MIN(s->lane->out_chunk.backend.bytes, s->lane->in_chunk.backend.bytes) /
			p->replica->element_bytes / LIST_ALIGN * LIST_ALIGN;
	uint64_t index = p->part.index + (WEIR_MUTANT == 19), end = p->part.index + p->part.nr, nr;
	int err = 0;

	for (bool is_first = true; index < end && !err; index += nr, is_first = false) {
		nr = MIN(most, end - index);
		err = queue_packet(s, index, &nr, is_first);
	}
	return err;
}

/* Note what is under way on a stream. */
static void note(struct sending *s, struct lane_stream *stream)
{
	const struct parcel *p = s->p;
	struct message m = {.replica = p->replica,
			    .offset = p->offset,
			    .bytes = p->end - p->offset,
			    .stream = stream->stream,
			    .list = s->list};

	lane_number(stream, &m);
	lane_add(s->lane, &m);
}

int packets_send(struct weir_space *space, const struct parcel *p)
{
	struct sending s = {.space = space, .p = p, .list = p->replica->list[p->to]};
	const struct access reads = {p->replica, p->offset, p->end, p->from, .message = true};
	const struct access writes = {p->replica, p->offset,	  p->end,
				      p->to,	  .writes = true, .message = true};
	int err = lane_ready(&s), fence_err;

	if (err)
		return err;
	parcel_begin(space, p);
	err = access_wait(space, &s.out, &reads);
	if (!err)
		err = access_wait(space, &s.in, &writes);
	if (!err && WEIR_MUTANT != 8)
		err = queue_packets(&s);
	/* Also what was queued before an error, on either stream. */
	if (err)
		note(&s, &s.lane->out);
	note(&s, &s.lane->in);
	fence_err = lane_fence(space, s.lane);
	err = err ? err : fence_err;
	parcel_end(space, p, err);
	return err;
}

/* ------------------------------------------------------------------ memory */

bool packets_evict(struct weir_space *space, uint8_t copy)
{
	const struct replicas *rs = replicas_of(space);
	uint32_t at = 0;

	for (struct lane *l = lane_next(rs, &at); l; l = lane_next(rs, &at)) {
		bool out = l->from == copy && l->out_chunk.backend.handle;

		if (l->nr || (!out && (l->to != copy || !l->in_chunk.backend.handle)))
			continue;
		chunks_put(space, copy, out ? &l->out_chunk : &l->in_chunk);
		return true;
	}
	return lists_evict(space, copy);
}

void packets_fini(struct weir_space *space)
{
	const struct replicas *rs = replicas_of(space);
	uint32_t at = 0;

	for (struct lane *l = lane_next(rs, &at); l; l = lane_next(rs, &at)) {
		chunks_put(space, l->from, &l->out_chunk);
		chunks_put(space, l->to, &l->in_chunk);
	}
	lists_fini(space);
}
