/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that concern epochs: coming online, quiescent points, leaving, and advancing the global
 * epoch, which one agent at a time tries and nobody waits for. See pt_step.h.
 */
#ifndef WEIR_PAGING_PT_EPOCH_H
#define WEIR_PAGING_PT_EPOCH_H

#include "weir/paging/pt_agent.h"

PT_FN bool pt_is_guest(const struct pt_table *t, const struct pt_agent *a)
{
	return a->slot == t->nr_slots;
}

/* Whether the agent with this slot keeps the epoch from going beyond `global`. */
PT_FN bool pt_slot_lags(const struct pt_table *t, uint32_t slot, uint64_t global)
{
	uint64_t epoch = pt_load(&t->slot[slot], PT_ACQUIRE);

	return epoch && epoch != global && !(PT_MUTANT == 18 && slot == t->nr_slots);
}

PT_FN enum pt_do pt_step_scan_lock(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t free = 0;

	a->scanned = true;
	if (pt_cas(&t->shared->scan, &free, 1))
		return pt_go(a, PT_PC_SCAN_EPOCH);
	return a->op == PT_ADVANCE ? pt_end(a, PT_DONE) : pt_go(a, PT_PC_GIVE_UP);
}

PT_FN enum pt_do pt_step_scan_epoch(const struct pt_table *t, struct pt_agent *a)
{
	a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
	a->scan_ok = false;
	return pt_go(a, PT_PC_SCAN_FENCE);
}

PT_FN enum pt_do pt_step_scan_fence(const struct pt_table *t, struct pt_agent *a)
{
	pt_fence_sc(&t->shared->fence);
	a->pc = PT_PC_ADVANCE;
	return PT_SCAN;
}

PT_FN enum pt_do pt_step_advance(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t seen = a->global;

	if (a->scan_ok && pt_cas(&t->shared->epoch, &seen, a->global + 1))
		a->global++;
	return pt_go(a, PT_PC_SCAN_UNLOCK);
}

PT_FN enum pt_do pt_step_scan_unlock(const struct pt_table *t, struct pt_agent *a)
{
	pt_store(&t->shared->scan, 0, PT_RELEASE);
	if (a->op == PT_ADVANCE)
		return pt_end(a, PT_DONE);
	return pt_go(a, pt_ready(a->seen, a->global) ? PT_PC_TICKET : PT_PC_GIVE_UP);
}

/* Online is who has stored an epoch and then still found it to be the global one. */
PT_FN enum pt_do pt_step_enter_store(const struct pt_table *t, struct pt_agent *a)
{
	pt_store(&t->slot[a->slot], a->global, PT_RELEASE);
	a->epoch = a->global;
	return PT_MUTANT == 2 ? pt_end(a, PT_DONE) : pt_go(a, PT_PC_ENTER_FENCE);
}

PT_FN enum pt_do pt_step_enter_check(const struct pt_table *t, struct pt_agent *a)
{
	a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
	return a->global == a->epoch ? pt_end(a, PT_DONE) : pt_go(a, PT_PC_ENTER_STORE);
}

/* A guest announces no epoch, but that it is there: from then on no scan succeeds, so the epoch
 * that it reads stays, or advances once if a scan is past its slot. */
PT_FN enum pt_do pt_step_guest_count(const struct pt_table *t, struct pt_agent *a)
{
	pt_add(&t->slot[a->slot], PT_GUEST, PT_ACQ_REL);
	return pt_go(a, PT_PC_GUEST_FENCE);
}

PT_FN enum pt_do pt_step_guest_look(const struct pt_table *t, struct pt_agent *a)
{
	a->epoch = pt_load(&t->shared->epoch, PT_ACQUIRE);
	return pt_end(a, PT_DONE);
}

PT_FN enum pt_do pt_step_quiet_look(const struct pt_table *t, struct pt_agent *a)
{
	a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
	return a->global == a->epoch ? pt_end(a, PT_DONE) : pt_go(a, PT_PC_QUIET_STORE);
}

PT_FN enum pt_do pt_step_quiet_store(const struct pt_table *t, struct pt_agent *a)
{
	if (!pt_is_guest(t, a))
		pt_store(&t->slot[a->slot], a->global, PT_MUTANT == 14 ? PT_RELAXED : PT_RELEASE);
	a->epoch = a->global;
	return pt_end(a, PT_DONE);
}

PT_FN enum pt_do pt_step_leave(const struct pt_table *t, struct pt_agent *a)
{
	if (pt_is_guest(t, a))
		pt_add(&t->slot[a->slot], 0 - PT_GUEST, PT_ACQ_REL);
	else
		pt_store(&t->slot[a->slot], 0, PT_RELEASE);
	a->epoch = 0;
	return pt_end(a, PT_DONE);
}

#endif
