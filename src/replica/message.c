/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: bytes that were written last, copied to a copy that lacks them. What a bracket reads
 * and lacks is copied on its own stream, which would have to wait for it anyway. All others go
 * through a stream for each pair of copies, of the device that they come from, or else of the one
 * that they go to.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/cost/cost.h"
#include "src/replica/replica.h"

/* Pieces of one message that are copied as one batch. */
#define BATCH_MAX 64u

/* ------------------------------------------------------------------ lanes */

/* Whose engine copies from one copy to another: its place. The one copy is in any memory, which
 * every device's engine reaches. */
static place_t lane_own(const struct replica *r, uint8_t from, uint8_t to)
{
	if (from < WEIR_DEVICES_MAX)
		return (place_t)from;
	return to < WEIR_DEVICES_MAX ? (place_t)to : (place_t)__builtin_ctzll(r->devices);
}

/* The stream of a lane, of a device by its place. */
static int lane_stream(struct weir_space *space, struct lane *lane, place_t own,
		       stream_id_t *stream)
{
	struct replicas *rs = replicas_of(space);
	int err = lane->made
			  ? 0
			  : space->backend->ops->stream_create(space->backend, space->device[own],
							       BACKEND_COPY_OUT, &lane->stream);

	if (err)
		return err;
	if (!lane->made)
		lane->entity = CLOCK_SLOTS + rs->nr_entities++;
	lane->made = true;
	*stream = lane->stream;
	return 0;
}

/* ------------------------------------------------------------------ sending */

/* See that an engine may use a chunk. */
static int allow(struct weir_space *space, struct replica_chunk *chunk, uint64_t device)
{
	int err;

	if (!chunk || chunk->devices & device)
		return 0;
	err = space->backend->ops->chunk_add_devices(space->backend, &chunk->backend, device);
	if (!err)
		chunk->devices |= device;
	return err;
}

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

/* Queue the copies of a part. Where a call fails, earlier ones may have been queued. */
static int copy_part(struct weir_space *space, const struct message *m, place_t own, uint8_t from,
		     uint8_t to)
{
	const struct replica *r = m->replica;
	struct backend *b = space->backend;
	uint64_t device = BACKEND_DEVICE_BIT(space->device[own]);
	uint64_t offset = m->offset, end = m->offset + m->bytes;
	struct backend_copy copy[BATCH_MAX];
	uint32_t nr = 0;
	int err = 0;

	while (offset < end && !err) {
		struct replica_chunk *src, *dst;
		uint64_t src_bytes, dst_bytes;

		copy[nr].src = copies_alias(r, from, offset, &src_bytes, &src);
		copy[nr].dst = copies_alias(r, mutant_to(m, from, to), offset, &dst_bytes, &dst);
		copy[nr].bytes = MIN(MIN(src_bytes, dst_bytes), end - offset);
		offset += copy[nr++].bytes;
		err = allow(space, src, device);
		if (!err)
			err = allow(space, dst, device);
		if (!err && (nr == BATCH_MAX || offset == end)) {
			err = b->ops->copy_beside(b, m->stream, copy, nr);
			nr = 0;
		}
	}
	return err;
}

/* Queue a message behind what it conflicts with. */
static int send(struct weir_space *space, const struct message *m, const struct waiter *w,
		place_t own, uint8_t from, uint8_t to)
{
	struct replica *r = m->replica;
	uint64_t end = m->offset + m->bytes;
	struct access reads = {r, m->offset, end, from, false, true};
	struct access writes = {r, m->offset, end, to, true, true};
	int err = access_wait(space, w, &reads);

	if (!err)
		err = access_wait(space, w, &writes);
	if (!err && (from == COPY_ONE || to == COPY_ONE))
		err = one_wait(space, r, m->stream, m->offset, end);
	return err || WEIR_MUTANT == 8 ? err : copy_part(space, m, own, from, to);
}

/* The memory where a copy has a byte. */
static uint32_t memory_of(const struct weir_space *space, const struct message *m, uint8_t copy)
{
	const struct replica *r = m->replica;
	place_t place = memory_place(space, copy);

	if (copy == COPY_ONE)
		place = r->one->block[(r->one_offset + m->offset) / space->block_bytes]
				.at.home->place;
	return space->pmm[place].memory;
}

static void count(const struct weir_space *space, const struct message *m, uint8_t from, uint8_t to)
{
	const struct weir_machine_desc *desc = &space->backend->desc;
	struct weir_replica_stats *stats = &m->replica->replicas->stats;
	enum weir_message_kind kind = m->replica->replicas->kind;
	uint32_t a = memory_of(space, m, from), b = memory_of(space, m, to);
	int link = a == b ? -1 : cost_link_find(desc, a, b);

	stats->nr_messages[kind]++;
	stats->message_bytes[kind] += m->bytes;
	if (link >= 0)
		stats->link_bytes[link][desc->link[link].a == a ? WEIR_A_TO_B : WEIR_B_TO_A]
				 [kind] += m->bytes;
}

/* A message from a copy that has all of a part, on the slot's stream or the lane's. On success the
 * other copy is current. */
static int message_send(struct weir_space *space, struct replica *r, const struct stream_slot *slot,
			uint8_t from, uint8_t to, uint64_t offset, uint64_t end)
{
	struct message m = {.replica = r, .offset = offset, .bytes = end - offset};
	place_t own = slot ? slot->own : lane_own(r, from, to);
	struct waiter waiter = {.slot = slot, .clock = clock_of_slot(r->replicas, slot)};
	struct lane *lane = NULL;
	int err = pieces_reserve(r, 2), fence_err;

	if (!err)
		err = lane_get(r->replicas, from, to, &lane);
	if (!err && !slot)
		err = lane_stream(space, lane, own, &m.stream);
	if (err)
		return err;
	if (slot)
		m.stream = stream_id(slot->stream);
	else
		waiter.clock = &lane->clock;
	waiter.stream = m.stream;
	err = send(space, &m, &waiter, own, from, to);
	if (!slot) {
		m.number = ++lane->number;
		clock_learn(&lane->clock, lane->entity, m.number, NULL);
		m.clock = lane->clock;
	}
	/* Also of copies that were queued before an error. */
	lane_add(lane, &m);
	if (to == COPY_ONE)
		one_revive(space, r, offset, end);
	fence_err = lane_fence(space, lane);
	err = err ? err : fence_err;
	if (err)
		return err;
	pieces_add(r, offset, end, to);
	count(space, &m, from, to);
	return 0;
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

int message_fill(struct weir_space *space, struct replica *r, const struct stream_slot *slot,
		 uint8_t to, uint64_t offset, uint64_t end)
{
	while (offset < end) {
		uint32_t p = pieces_find(r, offset);
		uint64_t next = MIN(piece_end(r, p), end);
		copies_t current = r->piece[p].current;
		int err = 0;

		if (!(current & COPY_BIT(to))) {
			if (r->replicas->move_nothing ||
			    one_is_lost(space, r, current, offset, &next))
				err = message_nothing(r, to, offset, next);
			else
				err = message_send(space, r, slot, pick_source(&r->piece[p], to),
						   to, offset, next);
		}
		if (err)
			return err;
		offset = next;
	}
	return 0;
}
