/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of accesses to copies. Brackets and messages under way are known: brackets that ended
 * and are not done with the uses that they declared, messages in their lanes. A new access comes
 * after those that it conflicts with, in the same copy, by a wait on the device; the host does not
 * wait. The newest one of each stream is enough, since a stream's work is done in order.
 *
 * That suffices for the consistency of weir/replica.h. What a bracket reads is current in its copy
 * as the bracket begins, or a message brings it, and the bracket comes after that; nothing that
 * begins later writes those bytes of that copy before the bracket is done. Copies that nobody has
 * to see are stale for as long as they like.
 *
 * Nobody waits for a bracket that is open, which may itself wait for what comes: it has no order
 * with a message that is queued meanwhile. Whoever wrote what that brings had not ended when the
 * bracket began, else it would be there; so the bracket may see it or not. A message never goes
 * where an open bracket writes: what that one does not overwrite is there as it begins, and its
 * bytes are its own until it ends; where it overwrites, nobody else is brought anything.
 */
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/replica/replica.h"

static bool meets(const struct access *a, uint64_t offset, uint64_t end, bool writes, bool atomic)
{
	return offset < a->end && a->offset < end && (writes || a->writes) &&
	       !(atomic && a->atomic);
}

/* Whether a bracket's use, of that copy or through that window, conflicts with an access. */
static bool use_meets(const struct weir_space *space, const struct space_use *use,
		      const struct access *a)
{
	uint64_t offset, end, view_end;
	const struct replica *r;
	uint8_t copy;

	if (use->kind == WEIR_DISCARD)
		return false;
	r = replica_of_use(space, use, &copy, &offset);
	end = offset + use->bytes;
	if (r != a->replica || !meets(a, offset, end, use_writes(use), use->atomic))
		return false;
	if (copy == COPY_ONE || !r->nr_borrowed)
		return copy == a->copy;
	for (offset = MAX(offset, a->offset), end = MIN(end, a->end); offset < end;
	     offset = view_end)
		if (copies_view(r, (place_t)copy, offset, &view_end) == a->copy)
			return true;
	return false;
}

static bool uses_meet(const struct weir_space *space, const struct use_list *uses,
		      const struct access *a)
{
	for (uint32_t u = 0; u < uses->nr; u++)
		if (use_meets(space, &uses->use[u], a))
			return true;
	return false;
}

void access_note(struct weir_space *space, const struct access *a, struct stream_slot *slot,
		 bracket_seq_t seq)
{
	struct used_list **list = &a->replica->used[a->copy];
	struct used *used;

	/* Without it all brackets are looked at, and those before it was made, which may have used
	 * the one copy before it had replicas. */
	if (!*list) {
		*list = calloc(1, sizeof(**list));
		if (!*list)
			return;
		(*list)->lost = seq - 1;
	}
	used = &(*list)->used[(*list)->next++ % USED_MAX];
	if (used->seq > space->done_seq)
		(*list)->lost = used->seq;
	*used = (struct used){seq, slot, a->offset, a->end, a->writes, a->atomic};
}

/* Whether a deliberate fault (src/core/types.h) leaves this wait out. */
static bool is_mutant(const struct access *a)
{
	return (WEIR_MUTANT == 11 && a->writes && !a->message) ||
	       (WEIR_MUTANT == 12 && a->writes && a->message) ||
	       (WEIR_MUTANT == 14 && !a->writes && a->message);
}

/* Wait for the bracket of a number, once for each stream. */
static int wait_seq(struct weir_space *space, const struct waiter *w, bracket_seq_t seq)
{
	const struct ended_bracket *ended = space_ended(space, seq);
	uint32_t entity = ended->slot->number < CLOCK_SLOTS ? ended->slot->number : CLOCK_ENTITIES;
	int err;

	if (ended->slot == w->slot || ended->slot->accessed == space->access_mark)
		return 0;
	ended->slot->accessed = space->access_mark;
	if (clock_knows(w->clock, entity, seq))
		return 0;
	err = space->backend->ops->stream_wait(space->backend, w->stream, ended->end);
	if (!err)
		clock_learn(w->clock, entity, seq, clock_of_bracket(replicas_of(space), seq));
	return err;
}

/* The same where their uses are not all noted. */
static int wait_all_brackets(struct weir_space *space, const struct waiter *w,
			     const struct access *a)
{
	int err = 0;

	for (bracket_seq_t seq = space->last_seq; !err && seq > space->done_seq; seq--)
		if (space_ended(space, seq)->uses.wide ||
		    uses_meet(space, &space_ended(space, seq)->uses, a))
			err = wait_seq(space, w, seq);
	return err;
}

/* Wait for brackets that ended. */
static int wait_brackets(struct weir_space *space, const struct waiter *w, const struct access *a)
{
	const struct used_list *list = a->replica->used[a->copy];
	int err = 0;

	if (is_mutant(a))
		return 0;
	space->access_mark++;
	if (!list || list->lost > space->done_seq)
		return wait_all_brackets(space, w, a);
	for (uint32_t n = 1; n <= USED_MAX && !err; n++) {
		const struct used *used = &list->used[(list->next - n) % USED_MAX];

		if (used->seq <= space->done_seq)
			break;
		if (meets(a, used->offset, used->end, used->writes, used->atomic))
			err = wait_seq(space, w, used->seq);
	}
	return err;
}

int message_wait(struct weir_space *space, const struct waiter *w, const struct message *m)
{
	int err;

	if (clock_knows(w->clock, m->entity, m->number))
		return 0;
	err = space->backend->ops->stream_wait(space->backend, w->stream, m->fence);
	if (!err && m->number)
		clock_learn(w->clock, m->entity, m->number, &m->clock);
	return err;
}

/* Wait for messages of a lane that meet the access. writes: whether messages of the lane write the
 * copy, or read it. */
static int wait_lane(struct weir_space *space, const struct waiter *w, struct lane *lane,
		     const struct access *a, bool writes)
{
	const struct message *last = NULL; /* that was waited for */
	int err = lane_fence(space, lane);

	for (uint32_t n = lane->nr; n-- > 0 && !err;) {
		const struct message *m = lane_nth(lane, n);

		if (m->replica != a->replica || m->stream == w->stream ||
		    (last && m->stream == last->stream) ||
		    !meets(a, m->offset, m->offset + m->bytes, writes, false))
			continue;
		last = m;
		err = message_wait(space, w, m);
	}
	return err;
}

static int wait_messages(struct weir_space *space, const struct waiter *w, const struct access *a)
{
	int err = 0;

	for (struct lane *lane = replicas_of(space)->active; lane && !err; lane = lane->next) {
		if (lane->to == a->copy && (WEIR_MUTANT != 10 || a->message) &&
		    (WEIR_MUTANT != 13 || !a->message || !a->writes))
			err = wait_lane(space, w, lane, a, true);
		else if (lane->from == a->copy && a->writes && WEIR_MUTANT != 15)
			err = wait_lane(space, w, lane, a, false);
	}
	return err;
}

int access_wait(struct weir_space *space, const struct waiter *w, const struct access *a)
{
	int err = wait_brackets(space, w, a);

	return err ? err : wait_messages(space, w, a);
}

bool access_is_overwritten(const struct weir_space *space, const struct access *a)
{
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		const struct use_list *uses = &space->slot[i]->uses;

		for (uint32_t u = 0; space->slot[i]->open && u < uses->nr; u++)
			if (uses->use[u].kind == WEIR_OVERWRITE &&
			    use_meets(space, &uses->use[u], a))
				return true;
	}
	return false;
}

/* Whether a list names a granule through a device's window. */
static bool names(const struct use_list *uses, const struct replica *r, place_t own, uint32_t g)
{
	uint64_t granule = r->replicas->granule_bytes;

	for (uint32_t u = 0; u < uses->nr; u++)
		if (uses->use[u].range == r->window[own] &&
		    uses->use[u].offset < (g + 1) * granule &&
		    g * granule < uses->use[u].offset + uses->use[u].bytes)
			return true;
	return false;
}

bool access_window_is_idle(const struct weir_space *space, const struct replica *r, place_t own,
			   uint32_t g, bool placing)
{
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		const struct stream_slot *slot = space->slot[i];

		if ((slot->open || (slot->placing && placing)) && names(&slot->uses, r, own, g))
			return false;
	}
	for (bracket_seq_t seq = space->last_seq; seq > space->done_seq; seq--)
		if (names(&space_ended(space, seq)->uses, r, own, g))
			return false;
	return true;
}
