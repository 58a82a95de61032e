/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weir_publish(): a part of what a bracket writes is finished while the bracket is open. The part
 * is taken out of it as a bracket of its own, a *slice*, which ends at once: it has a fence, a
 * number among the brackets that ended, and an event that readings are learnt of. So everything
 * that weir_end() does about a bracket that wrote the part is done by the same code. What is left
 * of the open bracket reads the part.
 *
 * A slice is nothing to mapped ranges: it pins nothing, is in no record, and counts as no bracket.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/replica/replica.h"

struct slice {
	struct stream_slot *slot;
	struct replica *r;
	struct range *window;
	uint64_t offset, end;
	struct use_list uses; /* of the bracket that ends: the part */
	uint32_t nr_pieces;   /* to be reserved beside what its bracket has */
};

static bool is_met(const struct slice *s, const struct space_use *use)
{
	return use->range == s->window && use_writes(use) && use->offset < s->end &&
	       s->offset < use->offset + use->bytes;
}

/* Whether uses of the open bracket write all of it. */
static bool is_written(const struct slice *s)
{
	const struct use_list *uses = &s->slot->uses;
	uint64_t at = s->offset, was;

	do {
		was = at;
		for (uint32_t u = 0; u < uses->nr; u++)
			if (is_met(s, &uses->use[u]) && uses->use[u].offset <= at)
				at = MAX(at, uses->use[u].offset + uses->use[u].bytes);
	} while (was < at && at < s->end);
	return at >= s->end;
}

static int find_slice(struct weir_space *space, struct stream_slot *slot, void *addr,
		      uint64_t bytes, struct slice *out)
{
	struct slice s = {.slot = slot};

	s.r = replica_find(space, addr, &s.offset);
	s.window = s.r ? s.r->window[slot->own] : NULL;
	s.end = s.offset + bytes;
	if (s.window && range_find(space, addr) == s.window && bytes &&
	    bytes <= s.r->bytes - s.offset && is_written(&s)) {
		*out = s;
		return 0;
	}
	log_error("publish: %llu bytes at %p: not all of it is written by the open bracket of "
		  "stream %u, through its device's window of a replicated range",
		  (unsigned long long)bytes, addr, stream_id(slot->stream));
	return -EINVAL;
}

/* Pieces that a bracket may make when it ends, by its use of a part: as it was reserved when the
 * bracket opened. */
static uint32_t nr_made(const struct slice *s, uint64_t offset, uint64_t end)
{
	uint64_t view_end;
	uint32_t nr = 0;

	for (; offset < end; offset = view_end, nr += 2)
		(void)copies_view(s->r, s->slot->own, offset, &view_end);
	return nr;
}

/* Room for everything that changes, so that nothing fails then. */
static int reserve(struct weir_space *space, struct slice *s)
{
	struct use_list *uses = &s->slot->uses;
	uint32_t nr_met = 0;
	int err;

	for (uint32_t u = 0; u < uses->nr; u++)
		nr_met += is_met(s, &uses->use[u]);
	/* What is before and behind the part in the same view has a border more. */
	s->nr_pieces = nr_made(s, s->offset, s->end) + 2 * nr_met;
	err = use_list_reserve(&s->uses, 1);
	if (!err)
		err = use_list_reserve(uses, uses->nr + 2 * nr_met);
	if (!err)
		err = pieces_reserve(s->r, s->nr_pieces);
	return err ? err : space_ended_reserve(space);
}

/* What is left of a use before or behind the part is a use of its own. */
static void keep(struct slice *s, const struct space_use *was, uint64_t offset, uint64_t end)
{
	struct use_list *uses = &s->slot->uses;
	struct space_use *use;

	if (offset >= end)
		return;
	use = &uses->use[uses->nr++];
	*use = *was;
	use->offset = offset;
	use->bytes = end - offset;
	use->nr_reserved = nr_made(s, offset, end);
	s->r->nr_reserved += use->nr_reserved;
	s->window->pins++;
}

/* Take the part out of the open bracket's uses that write it: there it is read from here on. */
static void cut(struct slice *s)
{
	struct use_list *uses = &s->slot->uses;

	for (uint32_t u = 0, nr = uses->nr; u < nr; u++) {
		struct space_use was = uses->use[u], *use = &uses->use[u];
		uint64_t end = was.offset + was.bytes;

		if (!is_met(s, use))
			continue;
		s->r->nr_reserved -= was.nr_reserved;
		use->nr_reserved = 0;
		use->kind = WEIR_READ;
		use->offset = MAX(was.offset, s->offset);
		use->bytes = MIN(end, s->end) - use->offset;
		keep(s, &was, was.offset, use->offset);
		keep(s, &was, use->offset + use->bytes, end);
	}
}

/* The slice as a bracket that ended. */
static void end_slice(struct weir_space *space, struct slice *s, fence_t fence)
{
	struct ended_bracket ended = {.slot = s->slot, .end = fence};
	uint64_t event = s->slot->shared_event;
	bracket_seq_t seq;

	s->uses.nr = 1;
	s->uses.kinds = true;
	s->uses.use[0] = (struct space_use){
		.range = s->window,
		.kind = WEIR_WRITE,
		.offset = s->offset,
		.bytes = s->end - s->offset,
		.nr_reserved = nr_made(s, s->offset, s->end),
	};
	s->r->nr_reserved += s->uses.use[0].nr_reserved;
	/* A deliberate fault (src/core/types.h): nobody waits for the launches so far. */
	if (WEIR_MUTANT == 18 && s->slot->last_seq)
		ended.end = space_ended(space, s->slot->last_seq)->end;
	s->slot->shared_event = learn_begin(space, s->slot, &s->uses);
	seq = space_ended_add(space, &ended, &s->uses);
	use_ended(space, space_ended(space, seq));
	s->slot->shared_event = event;
}

int weir_publish(struct weir_space *space, struct weir_stream *stream, void *addr, uint64_t bytes)
{
	struct stream_slot *slot;
	struct slice s = {0};
	fence_t fence;
	int err;

	pthread_mutex_lock(&space->lock);
	slot = space_slot_find(space, stream);
	err = !slot || !slot->open ? -WEIR_ECONTRACT : find_slice(space, slot, addr, bytes, &s);
	if (!err)
		err = reserve(space, &s);
	if (!err)
		err = space_fence_record(space, stream_id(stream), &fence);
	if (!err)
		err = space->backend->ops->access_narrow(space->backend, stream_id(stream), space,
							 addr, bytes);
	if (err)
		goto out;
	cut(&s);
	end_slice(space, &s, fence);
	space_progress(space);
out:
	free(s.uses.use);
	pthread_mutex_unlock(&space->lock);
	return err;
}
