/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: bytes that were written last, copied to a copy that lacks them. What a bracket reads
 * and lacks is copied on its own stream, which would have to wait for it anyway. All others go
 * through a stream for each pair of copies, of the device that they come from, or else of the one
 * that they go to.
 */
#include <errno.h>

#include "src/replica/parcel.h"

/* ------------------------------------------------------------------ lanes */

/* Whose engine copies from one copy to another: its place. The one copy is in any memory, which
 * every device's engine reaches. */
static place_t lane_own(const struct replica *r, uint8_t from, uint8_t to)
{
	if (from < WEIR_DEVICES_MAX)
		return (place_t)from;
	return to < WEIR_DEVICES_MAX ? (place_t)to : (place_t)__builtin_ctzll(r->devices);
}

/* ------------------------------------------------------------------ sending */

/* Where to, unless it is a deliberate fault (src/core/types.h) to take another device's copy. */
static uint8_t mutant_to(const struct message *m, uint8_t from, uint8_t to)
{
	uint64_t bytes;

	for (uint8_t c = 0; WEIR_MUTANT == 9 && c < COPY_HOST; c++) {
		struct replica_chunk *chunk = NULL;

		if (c != to && c != from && m->replica->chunk[c])
			(void)copies_alias(m->replica, c, m->offset, &bytes, &chunk);
		if (chunk && chunk->backend.handle && m->bytes <= bytes)
			return c;
	}
	return to;
}

/* Copies that are queued together. */
struct batch {
	struct weir_space *space;
	const struct message *m;
	place_t own; /* whose engine copies */
	uint8_t from, to;
	struct backend_copy copy[PARCEL_BATCH_MAX];
	uint32_t nr;
};

static int batch_queue(struct batch *batch)
{
	struct backend *b = batch->space->backend;
	uint32_t nr = batch->nr;

	batch->nr = 0;
	return nr ? b->ops->copy_beside(b, batch->m->stream, batch->copy, nr) : 0;
}

/* Copies of some bytes more. Where a call fails, earlier ones may have been queued. */
static int batch_add(struct batch *batch, uint64_t offset, uint64_t end)
{
	const struct replica *r = batch->m->replica;
	uint64_t device = BACKEND_DEVICE_BIT(batch->space->device[batch->own]);
	uint8_t to = mutant_to(batch->m, batch->from, batch->to);
	int err = 0;

	while (offset < end && !err) {
		struct backend_copy *copy = &batch->copy[batch->nr];
		struct replica_chunk *src, *dst;
		uint64_t src_bytes, dst_bytes;

		copy->src = copies_alias(r, batch->from, offset, &src_bytes, &src);
		copy->dst = copies_alias(r, to, offset, &dst_bytes, &dst);
		copy->bytes = MIN(MIN(src_bytes, dst_bytes), end - offset);
		offset += copy->bytes;
		err = chunks_allow(batch->space, src, device);
		if (!err)
			err = chunks_allow(batch->space, dst, device);
		if (!err && ++batch->nr == PARCEL_BATCH_MAX)
			err = batch_queue(batch);
	}
	return err;
}

/* Queue the copies of a message. */
static int copy_part(struct weir_space *space, const struct message *m, const struct parcel *p,
		     place_t own)
{
	struct batch batch = {.space = space, .m = m, .own = own, .from = p->from, .to = p->to};
	bool runs = p->how == WEIR_SENT_RUNS;
	int err = runs ? 0 : batch_add(&batch, p->offset, p->end);

	for (uint32_t k = WEIR_MUTANT == 19; runs && k < p->part.nr_runs && !err; k++) {
		uint64_t offset, end;

		list_part_run(p->list, p->replica->element_bytes, &p->part, k, &offset, &end);
		err = batch_add(&batch, MAX(offset, p->offset), MIN(end, p->end));
	}
	return err ? err : batch_queue(&batch);
}

/* Queue a message behind what it conflicts with. */
static int send(struct weir_space *space, const struct message *m, const struct waiter *w,
		const struct parcel *p, place_t own)
{
	struct access reads = {p->replica, p->offset, p->end, p->from, .message = true};
	struct access writes = {p->replica, p->offset,	    p->end,
				p->to,	    .writes = true, .message = true};
	int err = access_wait(space, w, &reads);

	if (!err)
		err = access_wait(space, w, &writes);
	if (!err && (p->from == COPY_ONE || p->to == COPY_ONE))
		err = one_wait(space, p->replica, m->stream, p->offset, p->end);
	return err || WEIR_MUTANT == 8 ? err : copy_part(space, m, p, own);
}

/* A message, on the slot's stream or the lane's. On success the other copy has what it brought. */
static int message_send(struct weir_space *space, const struct stream_slot *slot,
			const struct parcel *p)
{
	struct replica *r = p->replica;
	struct message m = {.replica = r, .offset = p->offset, .bytes = p->end - p->offset};
	place_t own = slot ? slot->own : lane_own(r, p->from, p->to);
	struct waiter waiter = {.slot = slot, .clock = clock_of_slot(r->replicas, slot)};
	struct lane *lane = NULL;
	int err = pieces_reserve(r, 2), fence_err;

	if (!err)
		err = lane_get(r->replicas, p->from, p->to, &lane);
	if (!err && !slot)
		err = lane_stream(space, &lane->out, own);
	if (err)
		return err;
	m.stream = slot ? stream_id(slot->stream) : lane->out.stream;
	if (!slot)
		waiter.clock = &lane->out.clock;
	waiter.stream = m.stream;
	parcel_begin(space, p);
	err = send(space, &m, &waiter, p, own);
	if (!slot)
		lane_number(&lane->out, &m);
	/* Also of copies that were queued before an error. */
	lane_add(lane, &m);
	if (p->to == COPY_ONE)
		one_revive(space, r, p->offset, p->end);
	fence_err = lane_fence(space, lane);
	err = err ? err : fence_err;
	parcel_end(space, p, err);
	if (!err && p->how == WEIR_SENT_WHOLE)
		pieces_add(r, p->offset, p->end, p->to);
	return err;
}

/* From which copy to send a piece to one that lacks it: from the device that wrote it, which has
 * it now, rather than from one that it is still on its way to; else from the next one in a ring
 * that has it, so that several readers ask different ones. */
static uint8_t pick_source(const struct piece *piece, uint8_t to)
{
	if (piece->writer < WEIR_DEVICES_MAX && piece->current & COPY_BIT(piece->writer))
		return piece->writer;
	for (uint8_t n = 1; n < WEIR_DEVICES_MAX; n++) {
		uint8_t c = (uint8_t)((to + n) % WEIR_DEVICES_MAX);

		if (piece->current & COPY_BIT(c))
			return c;
	}
	return piece->current & COPY_BIT(COPY_ONE) ? COPY_ONE
						   : (uint8_t)__builtin_ctz(piece->current);
}

/* What was lost is any bytes: those that a copy has will do. It counts as current, or what is at
 * the one copy later would be sent there, perhaps over what a bracket writes. */
static int message_nothing(struct replica *r, uint8_t to, uint64_t offset, uint64_t end)
{
	int err = pieces_reserve(r, 2);

	if (!err)
		pieces_add(r, offset, end, to);
	return err;
}

/* Send a device what it lacks of its list, of a part whose pieces have one source. */
static int fill_elements(struct weir_space *space, const struct stream_slot *slot,
			 const struct parcel *all)
{
	struct replica *r = all->replica;
	struct parcel p = *all;
	uint64_t first, last, element = r->element_bytes;
	int err = 0;

	p.list = r->list[p.to];
	if (list_find(p.list, r->element_bytes, p.offset, p.end, &p.part)) {
		first = p.part.first * element;
		last = p.part.last * element + element;
		p.bytes = p.part.nr * element - (MAX(first, p.offset) - first) -
			  (last - MIN(last, p.end));
		p.offset = MAX(first, p.offset);
		p.end = MIN(last, p.end);
		p.how = parcel_choose(space, &p, true);
		if (p.how == WEIR_SENT_PACKETS)
			err = packets_send(space, &p);
		/* Where there is no room for them. */
		if (p.how == WEIR_SENT_PACKETS && err == -ENOMEM)
			p.how = parcel_choose(space, &p, false);
		if (p.how == WEIR_SENT_WHOLE)
			p.bytes = p.end - p.offset;
		if (p.how != WEIR_SENT_PACKETS)
			err = message_send(space, slot, &p);
	}
	if (!err)
		err = pieces_reserve(r, 2);
	if (!err)
		pieces_add_listed(r, all->offset, all->end, all->to);
	return err;
}

/* A part of pieces with one source, or where p->end is set lower, of that. */
static int fill_part(struct weir_space *space, const struct stream_slot *slot, struct parcel *p,
		     const struct piece *piece, bool elements)
{
	struct replica *r = p->replica;

	if (r->replicas->move_nothing || one_is_lost(space, r, piece->current, p->offset, &p->end))
		return message_nothing(r, p->to, p->offset, p->end);
	p->from = pick_source(piece, p->to);
	p->bytes = p->end - p->offset;
	return elements ? fill_elements(space, slot, p) : message_send(space, slot, p);
}

/* Whether a copy has what a piece says was written last: all of it, or its list's elements. */
static bool has_piece(const struct piece *piece, uint8_t copy, bool elements)
{
	return (elements ? piece->listed : piece->current) & COPY_BIT(copy);
}

/* Up to where one message brings a copy what it lacks from a piece on: what was sent to others
 * divides pieces, also where they come from one device. */
static uint64_t fill_end(const struct replica *r, uint32_t p, uint8_t to, uint64_t end,
			 bool elements)
{
	uint8_t from = pick_source(&r->piece[p], to);

	while (piece_end(r, p) < end && from < WEIR_DEVICES_MAX &&
	       !has_piece(&r->piece[p + 1], to, elements) &&
	       pick_source(&r->piece[p + 1], to) == from)
		p++;
	return MIN(piece_end(r, p), end);
}

int message_fill(struct weir_space *space, struct replica *r, const struct stream_slot *slot,
		 uint8_t to, uint64_t offset, uint64_t end, bool elements)
{
	elements = elements && r->list[to];
	while (offset < end) {
		uint32_t p = pieces_find(r, offset);
		struct parcel parcel = {
			.replica = r, .to = to, .offset = offset, .end = MIN(piece_end(r, p), end)};
		int err = 0;

		if (!has_piece(&r->piece[p], to, elements)) {
			parcel.end = fill_end(r, p, to, end, elements);
			err = fill_part(space, slot, &parcel, &r->piece[p], elements);
		}
		if (err)
			return err;
		offset = parcel.end;
	}
	return 0;
}
