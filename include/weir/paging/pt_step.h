/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paging protocol as a step machine: what one agent does to reach one page, bring it in, evict
 * others for it and write them back, and to come online, pass a quiescent point and leave. A step
 * does at most one operation on shared words; all other state is plain data in struct pt_agent.
 * No loops, no lanes, no copies, no waiting: those are the platform's, which calls
 *
 *     verdict = pt_begin(table, agent, id, op);
 *     while (!pt_final(verdict))
 *             verdict = (do what it says), pt_step(table, agent);
 *
 * An agent is what has an epoch slot: a thread on the CPU, a warp on a GPU, of which groups of
 * lanes have an agent each with the same slot and epoch. C11 and CUDA C++.
 */
#ifndef WEIR_PAGING_PT_STEP_H
#define WEIR_PAGING_PT_STEP_H

#include "weir/paging/pt_page.h"
#include "weir/paging/pt_frame.h"
#include "weir/paging/pt_epoch.h"

/* Begin to reach a page; the agent is online. op: PT_READ and so on. */
PT_FN enum pt_do pt_begin(const struct pt_table *t, struct pt_agent *a, uint64_t id, unsigned op)
{
	a->pinned = a->full = false;
	if (!a->epoch || !pt_id_valid(t, id) ||
	    ((op & PT_WRITE) && t->range[id >> PT_PAGE_BITS].read_only))
		return pt_end(a, PT_FAIL);
	a->id = id;
	a->op = (uint8_t)op;
	a->nr_touches = (uint16_t)(op >> 8);
	return pt_go(a, PT_PC_LOAD);
}

/* Come online (the agent is offline); pass a quiescent point (it uses nothing but what it pinned);
 * leave (nothing at all). Then step until PT_DONE. */
PT_FN enum pt_do pt_enter(struct pt_agent *a)
{
	return pt_go(a, PT_PC_ENTER_LOOK);
}

/* Come online without a slot of its own. Until it leaves the epoch does not advance, so that no
 * frame is reused: others go in place meanwhile. */
PT_FN enum pt_do pt_enter_guest(const struct pt_table *t, struct pt_agent *a)
{
	a->slot = t->nr_slots;
	return pt_go(a, PT_PC_GUEST_COUNT);
}

/* As pt_enter(), by a platform that has stored a->global in the slot when it took that. */
PT_FN enum pt_do pt_entered(struct pt_agent *a)
{
	a->epoch = a->global;
	return pt_go(a, PT_PC_ENTER_FENCE);
}

PT_FN enum pt_do pt_quiesce(struct pt_agent *a)
{
	return pt_go(a, PT_PC_QUIET_LOOK);
}

PT_FN enum pt_do pt_leave(struct pt_agent *a)
{
	return pt_go(a, PT_PC_LEAVE);
}

/* Try once to advance the epoch; nothing needs it, but pages that were published in this epoch or
 * the last are no plain hits. */
PT_FN enum pt_do pt_advance(struct pt_agent *a)
{
	a->op = PT_ADVANCE;
	return pt_go(a, PT_PC_SCAN_LOCK);
}

/* Steps that concern the page. */
PT_FN enum pt_do pt_step_page(const struct pt_table *t, struct pt_agent *a)
{
	switch ((enum pt_pc)a->pc) {
	case PT_PC_LOAD:
		a->seen = pt_load(pt_entry_at(t, a->id), PT_ACQUIRE);
		return pt_judge(t, a);
	case PT_PC_MARK:
		pt_change(t, a, a->seen | pt_wanted(a));
		return pt_judge(t, a);
	case PT_PC_PIN:
		return pt_step_pin(t, a);
	case PT_PC_UNPIN:
		pt_unpin(t, a->id);
		return pt_go(a, PT_PC_LOAD);
	case PT_PC_REFUSE_PIN:
		pt_unpin(t, a->id);
		return pt_end(a, PT_FAIL);
	case PT_PC_REVIVE:
		return pt_step_revive(t, a);
	case PT_PC_DROP:
		pt_change(t, a, pt_limbo(a->seen, a->epoch - (PT_MUTANT == 19)));
		return pt_end(a, PT_DONE);
	case PT_PC_TOUCH:
		return pt_change(t, a, a->seen + pt_weight(t, a)) ? pt_in_place(t, a)
								  : pt_judge(t, a);
	case PT_PC_ADMIT:
		if (pt_load_host(t->abort))
			return pt_in_place(t, a);
		return pt_go(a, pt_fill_only(t, a) ? PT_PC_FILL_LOOK : PT_PC_CLAIM);
	case PT_PC_FILL_LOOK:
		return pt_step_fill_look(t, a);
	case PT_PC_CLAIM:
		return pt_step_claim(t, a);
	case PT_PC_OWN:
		pt_store(&t->owner[a->frame], a->id + 1, PT_RELEASE);
		return pt_go(a, PT_PC_PUBLISH);
	case PT_PC_PUBLISH:
		return pt_step_publish(t, a);
	case PT_PC_GIVE_UP:
		return pt_step_give_up(t, a);
	default:
		return pt_end(a, PT_FAIL);
	}
}

/* Steps that concern a frame. */
PT_FN enum pt_do pt_step_frame(const struct pt_table *t, struct pt_agent *a)
{
	switch ((enum pt_pc)a->pc) {
	case PT_PC_TAKE_HAND:
		a->hand = pt_load(&t->shared->take, PT_RELAXED);
		return pt_go(a, PT_PC_PREPARE_HAND);
	case PT_PC_PREPARE_HAND:
		return pt_step_prepare_hand(t, a);
	case PT_PC_PREPARE:
		return pt_step_prepare(t, a);
	case PT_PC_VICTIM_OWNER:
		return pt_step_victim_owner(t, a);
	case PT_PC_VICTIM:
		return pt_step_victim(t, a);
	case PT_PC_EVICT:
		return pt_step_evict(t, a);
	case PT_PC_TAKE_OWNER:
		return pt_step_take_owner(t, a);
	case PT_PC_TAKE_ENTRY:
		return pt_step_take_entry(t, a);
	case PT_PC_TICKET:
		return pt_step_ticket(t, a);
	case PT_PC_FILL:
		return pt_step_fill(t, a);
	case PT_PC_TAKE_FREE:
		return pt_step_take_free(t, a);
	case PT_PC_TAKE_CLEAN:
		return pt_step_take_clean(t, a);
	case PT_PC_TAKE_DIRTY:
		return pt_step_take_dirty(t, a);
	default:
		return pt_step_written(t, a);
	}
}

/* Steps that concern epochs. */
PT_FN enum pt_do pt_step_epoch(const struct pt_table *t, struct pt_agent *a)
{
	switch ((enum pt_pc)a->pc) {
	case PT_PC_ENTER_LOOK:
		a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
		return pt_go(a, PT_PC_ENTER_STORE);
	case PT_PC_ENTER_STORE:
		return pt_step_enter_store(t, a);
	case PT_PC_ENTER_FENCE:
		pt_fence_sc(&t->shared->fence);
		return pt_go(a, PT_PC_ENTER_CHECK);
	case PT_PC_ENTER_CHECK:
		return pt_step_enter_check(t, a);
	case PT_PC_GUEST_COUNT:
		return pt_step_guest_count(t, a);
	case PT_PC_GUEST_FENCE:
		pt_fence_sc(&t->shared->fence);
		return pt_go(a, PT_PC_GUEST_LOOK);
	case PT_PC_GUEST_LOOK:
		return pt_step_guest_look(t, a);
	case PT_PC_QUIET_LOOK:
		return pt_step_quiet_look(t, a);
	case PT_PC_QUIET_STORE:
		return pt_step_quiet_store(t, a);
	case PT_PC_LEAVE:
		return pt_step_leave(t, a);
	case PT_PC_SCAN_LOCK:
		return pt_step_scan_lock(t, a);
	case PT_PC_SCAN_EPOCH:
		return pt_step_scan_epoch(t, a);
	case PT_PC_SCAN_FENCE:
		return pt_step_scan_fence(t, a);
	case PT_PC_ADVANCE:
		return pt_step_advance(t, a);
	default:
		return pt_step_scan_unlock(t, a);
	}
}

/* One step. An agent without anything begun: PT_FAIL. */
PT_FN enum pt_do pt_step(const struct pt_table *t, struct pt_agent *a)
{
	if (a->pc >= PT_PC_TAKE_HAND && a->pc <= PT_PC_WRITTEN)
		return pt_step_frame(t, a);
	if ((a->pc >= PT_PC_SCAN_LOCK && a->pc <= PT_PC_SCAN_UNLOCK) ||
	    (a->pc >= PT_PC_ENTER_LOOK && a->pc <= PT_PC_LEAVE))
		return pt_step_epoch(t, a);
	return pt_step_page(t, a);
}

#endif
