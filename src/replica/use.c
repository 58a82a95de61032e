/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets that name replicated ranges: what weir_begin() and weir_end() ask of them, as
 * src/core/space.h has it (struct shared_ops).
 */
#include <errno.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/replica/replica.h"

/* ------------------------------------------------------------------ contradictions */

/* A bracket that names the whole space names the one copy only of what its device has no window
 * for: it would be written at two places. */
static bool is_left_out(const struct weir_space *space, const struct use_list *uses,
			const struct space_use *use, place_t own)
{
	uint64_t offset;
	uint8_t copy;
	const struct replica *r =
		uses->all && !use->range->kind ? replica_of_use(space, use, &copy, &offset) : NULL;

	return r && r->window[own];
}

bool use_contradicts(struct weir_space *space, const struct stream_slot *slot)
{
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		const struct stream_slot *other = space->slot[i];

		for (uint32_t u = 0; other->open && u < slot->uses.nr; u++)
			for (uint32_t o = 0; o < other->uses.nr; o++) {
				const struct space_use *a = &slot->uses.use[u];
				const struct space_use *b = &other->uses.use[o];

				if (is_left_out(space, &slot->uses, a, slot->own) ||
				    is_left_out(space, &other->uses, b, other->own) ||
				    !replica_contradict(space, a, b))
					continue;
				log_error("begin: %llu bytes at %p, on stream %u, and %llu bytes "
					  "at %p, in the open bracket of stream %u, are parts of "
					  "one replicated range that overlap, and %s: the brackets "
					  "have no order",
					  (unsigned long long)a->bytes,
					  (void *)((char *)a->range->addr + a->offset),
					  stream_id(slot->stream), (unsigned long long)b->bytes,
					  (void *)((char *)b->range->addr + b->offset),
					  stream_id(other->stream),
					  a->range->kind && b->range->kind
						  ? "both are written"
						  : "one is named at its one copy");
				return true;
			}
	}
	return false;
}

/* ------------------------------------------------------------------ begin */

/* Whether the bracket may name this. */
static int check_use(const struct weir_space *space, const struct stream_slot *slot,
		     const struct space_use *use, const struct replica *r, uint8_t copy)
{
	if (copy == COPY_ONE || copy == slot->own)
		return r->dying ? -EINVAL : 0;
	log_error("begin: the window at %p is that of device '%s', and the stream is one of '%s'",
		  use->range->addr, space_device(space, copy)->name,
		  space_device(space, slot->own)->name);
	return -EINVAL;
}

/* Whether a bracket names the same bytes at the one copy and through a window. */
static int check_uses(const struct weir_space *space, const struct use_list *uses)
{
	for (uint32_t a = 0; a < uses->nr && !uses->all; a++)
		for (uint32_t b = 0; b < a; b++)
			if (replica_contradict(space, &uses->use[a], &uses->use[b])) {
				log_error("begin: %p and %p are the same bytes of a replicated "
					  "range, at its one copy and through a window",
					  uses->use[a].range->addr, uses->use[b].range->addr);
				return -EINVAL;
			}
	return 0;
}

int use_ready(struct weir_space *space, struct stream_slot *slot, struct settle *settle)
{
	int ret;

	if (check_uses(space, &slot->uses))
		return -EINVAL;
	ret = arrange(space, slot->own, settle);
	if (ret)
		return ret;
	for (uint32_t u = 0; u < slot->uses.nr; u++) {
		const struct space_use *use = &slot->uses.use[u];
		uint64_t offset;
		uint8_t copy;
		struct replica *r = replica_of_use(space, use, &copy, &offset);
		int err = r ? check_use(space, slot, use, r, copy) : 0;

		if (!err && r && copy != COPY_ONE && use->kind != WEIR_DISCARD)
			err = copies_ready(space, r, (place_t)copy, offset, offset + use->bytes,
					   settle);
		if (err)
			return err;
	}
	return 0;
}

/* One part of a use, of which all is in one copy. */
static int open_part(struct weir_space *space, const struct stream_slot *slot,
		     struct space_use *use, const struct access *access)
{
	const struct waiter waiter = {stream_id(slot->stream), slot,
				      clock_of_slot(replicas_of(space), slot)};
	bool elements =
		use->elements && access->copy == slot->own && access->replica->list[slot->own];
	int err = 0;

	/* What others look at while it is overwritten has to be there. */
	if (use->kind != WEIR_OVERWRITE || access->replica->nr_borrowed)
		err = message_fill(space, access->replica, slot, access->copy, access->offset,
				   access->end, elements);
	if (!err)
		err = access_wait(space, &waiter, access);
	if (!err && use->kind != WEIR_OVERWRITE && access->copy == slot->own)
		learn_read(access->replica, access->copy, access->offset, access->end, elements);
	if (err || !access->writes)
		return err;
	/* For the change that the end makes. */
	err = pieces_reserve(access->replica, 2);
	if (!err) {
		access->replica->nr_reserved += 2;
		use->nr_reserved += 2;
	}
	return err;
}

/* Call fn for each part of a use, of which all is in one copy, until it fails. */
static int for_parts(struct weir_space *space, const struct stream_slot *slot,
		     struct space_use *use,
		     int (*fn)(struct weir_space *space, const struct stream_slot *slot,
			       struct space_use *use, const struct access *access))
{
	struct access access = {.writes = use_writes(use), .atomic = use->atomic};
	uint64_t end;
	uint8_t named;
	int err = 0;

	access.replica = replica_of_use(space, use, &named, &access.offset);
	if (!access.replica || use->kind == WEIR_DISCARD)
		return 0;
	/* One that names the whole space names all of an arena. */
	end = MIN(access.offset + use->bytes, access.replica->bytes);
	for (; !err && access.offset < end; access.offset = access.end) {
		access.copy = named;
		access.end = end;
		if (named != COPY_ONE)
			access.copy = copies_view(access.replica, (place_t)named, access.offset,
						  &access.end);
		access.end = MIN(access.end, end);
		err = fn(space, slot, use, &access);
	}
	return err;
}

int use_open(struct weir_space *space, struct stream_slot *slot)
{
	int err = 0;

	for (uint32_t u = 0; u < slot->uses.nr; u++)
		slot->uses.use[u].nr_reserved = 0;
	for (uint32_t u = 0; u < slot->uses.nr && !err; u++)
		if (!is_left_out(space, &slot->uses, &slot->uses.use[u], slot->own))
			err = for_parts(space, slot, &slot->uses.use[u], open_part);
	if (!err)
		slot->shared_event = learn_begin(space, slot, &slot->uses);
	return err;
}

/* What open_part() reserved is not needed any more. */
static void unreserve(struct weir_space *space, struct space_use *use)
{
	uint64_t offset;
	uint8_t copy;
	struct replica *r = use->nr_reserved ? replica_of_use(space, use, &copy, &offset) : NULL;

	if (r)
		r->nr_reserved -= use->nr_reserved;
	use->nr_reserved = 0;
}

void use_cancel(struct weir_space *space, struct stream_slot *slot)
{
	for (uint32_t u = 0; u < slot->uses.nr; u++)
		unreserve(space, &slot->uses.use[u]);
}

/* ------------------------------------------------------------------ end */

/* What was written is in this copy alone. */
static int end_part(struct weir_space *space, const struct stream_slot *slot, struct space_use *use,
		    const struct access *access)
{
	struct replica *r = access->replica;

	access_note(space, access, (struct stream_slot *)(uintptr_t)slot, space->last_seq);
	arrange_note(space, slot->own, use, access);
	if (r->dying || !access->writes)
		return 0;
	pieces_write(r, access->offset, access->end, access->copy, slot->own, slot->shared_event);
	if (access->copy != COPY_ONE)
		one_forget(space, r, access->offset, access->end);
	publish_to_subscribers(space, r, access->copy, access->offset, access->end);
	return 0;
}

void use_ended(struct weir_space *space, const struct ended_bracket *ended)
{
	clock_bracket_ended(replicas_of(space), ended->slot, space->last_seq);
	learn_ended(space, ended);
	for (uint32_t u = 0; u < ended->uses.nr; u++) {
		struct space_use *use = &ended->uses.use[u];

		if (!is_left_out(space, &ended->uses, use, ended->slot->own))
			(void)for_parts(space, ended->slot, use, end_part);
		/* Not before: what is published reserves for itself beside it. */
		unreserve(space, use);
	}
	publish_learnt(space, ended->slot);
}
