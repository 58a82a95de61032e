/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that find a frame for a page that was claimed. Two hands go round the frames: `prepare`
 * evicts what was not used since it last came by, `take` follows it and reuses what has been in
 * limbo for a grace period. Pages of ranges that are only filled take what is free instead, each
 * frame being looked at once. See pt_step.h.
 */
#ifndef WEIR_PAGING_PT_FRAME_H
#define WEIR_PAGING_PT_FRAME_H

#include "weir/paging/pt_agent.h"

/* Prepare while the hand that evicts leads by less than the window, then take; if neither is left
 * to this fault, there is no frame. */
PT_FN enum pt_do pt_seek(const struct pt_table *t, struct pt_agent *a)
{
	if (a->ahead < t->window && a->nr_prepared < PT_PREPARE_MAX && !a->nr_taken)
		return pt_go(a, PT_PC_PREPARE);
	if (a->ahead && a->nr_taken < PT_TAKE_MAX)
		return pt_go(a, PT_PC_TAKE_OWNER);
	return pt_go(a, PT_PC_GIVE_UP);
}

PT_FN enum pt_do pt_step_prepare_hand(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t at = pt_load(&t->shared->prepare, PT_RELAXED);

	/* Read one after the other, and not at one time. */
	a->ahead = at <= a->hand	      ? 0
		   : at - a->hand > t->window ? (uint32_t)t->window
					      : (uint32_t)(at - a->hand);
	return pt_seek(t, a);
}

PT_FN enum pt_do pt_step_prepare(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t at = pt_add(&t->shared->prepare, 1, PT_RELAXED);

	a->frame = (uint32_t)(at % t->nr_frames);
	a->nr_prepared++;
	a->ahead += at >= a->hand; /* what is behind the other hand is nothing to take */
	return pt_go(a, PT_PC_VICTIM_OWNER);
}

PT_FN enum pt_do pt_step_victim_owner(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t owner = pt_load(&t->owner[a->frame], PT_ACQUIRE);

	if (owner == PT_OWNER_FREE || owner == PT_OWNER_TAKEN)
		return pt_seek(t, a);
	a->victim = owner - 1;
	return pt_go(a, PT_PC_VICTIM);
}

PT_FN bool pt_holds(uint64_t entry, enum pt_state state, uint32_t frame)
{
	return pt_state_of(entry) == state && pt_frame_of(entry) == frame &&
	       (!pt_pins_of(entry) || PT_MUTANT == 6);
}

PT_FN enum pt_do pt_step_victim(const struct pt_table *t, struct pt_agent *a)
{
	a->seen = pt_load(pt_entry_at(t, a->victim), PT_ACQUIRE);
	if (!pt_holds(a->seen, PT_RESIDENT, a->frame))
		return pt_seek(t, a);
	return pt_go(a, PT_PC_EVICT);
}

/* A second chance for what was used. */
PT_FN enum pt_do pt_step_evict(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t to = a->seen & PT_REF ? a->seen & ~PT_REF : pt_limbo(a->seen, a->epoch);

	pt_cas(pt_entry_at(t, a->victim), &a->seen, to);
	return pt_seek(t, a);
}

/* This position has no frame to take. */
PT_FN enum pt_do pt_next(const struct pt_table *t, struct pt_agent *a)
{
	a->ticket = false;
	a->hand++;
	a->ahead--;
	a->nr_taken++;
	return pt_seek(t, a);
}

/* The position is this agent's: take the frame there, as victim and seen say. */
PT_FN enum pt_do pt_take(const struct pt_table *t, struct pt_agent *a)
{
	a->frame = (uint32_t)(a->hand % t->nr_frames);
	if (a->victim == PT_OWNER_FREE - 1)
		return pt_go(a, PT_PC_TAKE_FREE);
	if (!pt_holds(a->seen, PT_LIMBO, a->frame))
		return pt_next(t, a);
	if (!pt_ready(a->seen, a->global) && !(PT_MUTANT == 3 && (a->seen & PT_DIRTY)))
		return pt_next(t, a);
	return pt_go(a, a->seen & PT_DIRTY ? PT_PC_TAKE_DIRTY : PT_PC_TAKE_CLEAN);
}

/* Looked at, first without the right to it: nobody takes a position whose frame is not ready, so
 * that the hand waits there, and passes no frame that it would find only a lap later. */
PT_FN enum pt_do pt_step_take_owner(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t owner = pt_load(&t->owner[a->hand % t->nr_frames], PT_ACQUIRE);

	a->victim = owner - 1;
	a->seen = 0;
	if (owner != PT_OWNER_FREE && owner != PT_OWNER_TAKEN)
		return pt_go(a, PT_PC_TAKE_ENTRY);
	if (a->ticket)
		return owner == PT_OWNER_FREE ? pt_take(t, a) : pt_next(t, a);
	return pt_go(a, PT_PC_TICKET);
}

PT_FN enum pt_do pt_step_take_entry(const struct pt_table *t, struct pt_agent *a)
{
	bool early;

	a->seen = pt_load(pt_entry_at(t, a->victim), PT_ACQUIRE);
	if (a->ticket)
		return pt_take(t, a);
	early = pt_holds(a->seen, PT_LIMBO, (uint32_t)(a->hand % t->nr_frames)) &&
		!pt_ready(a->seen, a->global) && PT_MUTANT != 3;
	if (!early)
		return pt_go(a, PT_PC_TICKET);
	return pt_go(a, a->scanned ? PT_PC_GIVE_UP : PT_PC_SCAN_LOCK);
}

PT_FN enum pt_do pt_step_ticket(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t at = pt_add(&t->shared->take, 1, PT_RELAXED);

	a->ticket = true;
	if (at != a->hand) { /* somebody was here in between */
		a->hand = at;
		return pt_go(a, PT_PC_TAKE_OWNER);
	}
	return a->victim == PT_OWNER_TAKEN - 1 ? pt_next(t, a) : pt_take(t, a);
}

PT_FN enum pt_do pt_got(struct pt_agent *a)
{
	a->pc = PT_PC_OWN;
	return PT_MUTANT == 9 ? PT_AGAIN : PT_COPY_IN;
}

/* Of a range that is only filled. The number is this agent's, the frame need not be: another range
 * may have taken it. */
PT_FN enum pt_do pt_step_fill(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t at;

	if (a->nr_taken == PT_TAKE_MAX)
		return pt_go(a, PT_PC_GIVE_UP);
	at = pt_add(&t->shared->fill, 1, PT_ACQ_REL);
	if (at >= t->nr_frames)
		return pt_go(a, PT_PC_GIVE_UP);
	a->frame = (uint32_t)at;
	a->nr_taken++;
	return pt_go(a, PT_PC_TAKE_FREE);
}

PT_FN enum pt_do pt_step_take_free(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t owner = PT_OWNER_FREE;

	if (PT_MUTANT == 16 && !a->ticket) {
		pt_store(&t->owner[a->frame], PT_OWNER_TAKEN, PT_RELEASE);
		return pt_got(a);
	}
	if (pt_cas(&t->owner[a->frame], &owner, PT_OWNER_TAKEN))
		return pt_got(a);
	return a->ticket ? pt_next(t, a) : pt_go(a, PT_PC_FILL);
}

PT_FN enum pt_do pt_step_take_clean(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t *entry = pt_entry_at(t, a->victim);

	if (PT_MUTANT == 11) {
		pt_store(entry, 0, PT_RELEASE);
		return pt_got(a);
	}
	return pt_cas(entry, &a->seen, pt_entry(PT_ABSENT, 0, 0)) ? pt_got(a) : pt_next(t, a);
}

PT_FN enum pt_do pt_step_take_dirty(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t to = pt_entry(PT_WRITEBACK, 0, a->frame);

	if (PT_MUTANT != 10 && !pt_cas(pt_entry_at(t, a->victim), &a->seen, to))
		return pt_next(t, a);
	a->pc = PT_PC_WRITTEN;
	return PT_COPY_OUT;
}

/* By addition, so that pins in passing survive. */
PT_FN enum pt_do pt_step_written(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t *entry = pt_entry_at(t, a->victim);

	if (PT_MUTANT == 10)
		pt_store(entry, 0, PT_RELEASE);
	else
		pt_add(entry, 0 - pt_entry(PT_WRITEBACK, 0, a->frame), PT_ACQ_REL);
	return pt_got(a);
}

#endif
