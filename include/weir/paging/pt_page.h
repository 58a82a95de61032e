/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that concern the page that an agent wants: how its entry is judged, marked, pinned,
 * revived, claimed and published. See pt_step.h.
 */
#ifndef WEIR_PAGING_PT_PAGE_H
#define WEIR_PAGING_PT_PAGE_H

#include "weir/paging/pt_agent.h"

/* Whether the access holds off changes of the host's bytes: it changes them, or uses them for
 * longer. What is read-only changes for nobody. */
PT_FN bool pt_host_pin(const struct pt_table *t, const struct pt_agent *a)
{
	const struct pt_range *range = &t->range[a->id >> PT_PAGE_BITS];

	return (a->op & (PT_WRITE | PT_SPAN | PT_PIN)) && !range->read_only &&
	       !(PT_MUTANT == 17 && range->fill_only);
}

/* Where it is: used there. */
PT_FN enum pt_do pt_in_place(const struct pt_table *t, struct pt_agent *a)
{
	if (a->op & PT_PREFETCH)
		return pt_end(a, PT_DONE);
	if (pt_host_pin(t, a) && PT_MUTANT != 4)
		return pt_go(a, PT_PC_PIN);
	return pt_end(a, PT_IN_PLACE);
}

/* Touches that the access counts as. */
PT_FN uint32_t pt_weight(const struct pt_table *t, const struct pt_agent *a)
{
	uint32_t nr = a->nr_touches ? a->nr_touches : t->range[a->id >> PT_PAGE_BITS].word;

	return nr ? nr : 1;
}

/* Bits that a resident page's entry must have for the access. */
PT_FN uint64_t pt_wanted(const struct pt_agent *a)
{
	return PT_REF | ((a->op & PT_WRITE) && PT_MUTANT != 7 ? PT_DIRTY : 0);
}

PT_FN enum pt_do pt_judge_resident(struct pt_agent *a)
{
	uint64_t want = pt_wanted(a);

	if (a->op & PT_PREFETCH)
		return pt_end(a, PT_DONE);
	if (a->op & PT_DROP)
		return pt_pins_of(a->seen) ? pt_end(a, PT_DONE) : pt_go(a, PT_PC_DROP);
	if ((a->op & PT_PIN) && !a->pinned)
		return pt_go(a, PT_PC_PIN);
	if ((a->seen & want) != want)
		return pt_go(a, PT_PC_MARK);
	a->frame = pt_frame_of(a->seen);
	return pt_end(a, PT_HIT);
}

PT_FN enum pt_do pt_judge_absent(const struct pt_table *t, struct pt_agent *a)
{
	const struct pt_range *range = &t->range[a->id >> PT_PAGE_BITS];
	const uint32_t weight = pt_weight(t, a);

	if (a->op & PT_DROP)
		return pt_end(a, PT_DONE);
	if (a->full)
		return pt_end(a, PT_IN_PLACE);
	if ((pt_pins_of(a->seen) && PT_MUTANT != 12) || a->op & PT_STAY)
		return pt_in_place(t, a);
	if (!(a->op & PT_PREFETCH) &&
	    pt_frame_of(a->seen) + weight < pt_admit(range, a->id & (PT_PAGE_MAX - 1), weight))
		return pt_go(a, PT_PC_TOUCH);
	return pt_go(a, PT_PC_ADMIT);
}

/* What to do about the page, by a->seen. */
PT_FN enum pt_do pt_judge(const struct pt_table *t, struct pt_agent *a)
{
	switch (pt_state_of(a->seen)) {
	case PT_RESIDENT:
		return pt_judge_resident(a);
	case PT_ABSENT:
		return pt_judge_absent(t, a);
	case PT_LIMBO:
		if (a->op & (PT_DROP | PT_PREFETCH))
			return pt_end(a, PT_DONE);
		return PT_MUTANT == 5 ? pt_in_place(t, a) : pt_go(a, PT_PC_REVIVE);
	case PT_LOADING:
		if (a->op & (PT_DROP | PT_PREFETCH))
			return pt_end(a, PT_DONE);
		if (!pt_host_pin(t, a) || PT_MUTANT == 15)
			return pt_end(a, PT_IN_PLACE);
		a->pc = PT_PC_LOAD;
		return PT_WAIT;
	default:
		if (a->op & (PT_DROP | PT_PREFETCH))
			return pt_end(a, PT_DONE);
		a->pc = PT_PC_LOAD;
		return PT_WAIT;
	}
}

/* Change the page's entry from a->seen, or see what it has become. */
PT_FN bool pt_change(const struct pt_table *t, struct pt_agent *a, uint64_t to)
{
	if (!pt_cas(pt_entry_at(t, a->id), &a->seen, to))
		return false;
	a->seen = to;
	return true;
}

/* A pin counts if the state that it met can bear it: what was ABSENT stays so, what was RESIDENT
 * too. Otherwise it was in passing. */
PT_FN enum pt_do pt_step_pin(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t old = pt_add(pt_entry_at(t, a->id), PT_PIN_ONE, PT_ACQ_REL);

	a->seen = old + PT_PIN_ONE;
	if (pt_pins_of(old) >= PT_PINS_MAX)
		return pt_go(a, PT_PC_REFUSE_PIN);
	if (pt_state_of(old) == PT_ABSENT) {
		a->pinned = true;
		return pt_end(a, PT_IN_PLACE);
	}
	if (pt_state_of(old) == PT_RESIDENT && (a->op & PT_PIN)) {
		a->pinned = true;
		return pt_judge_resident(a);
	}
	return pt_go(a, PT_PC_UNPIN);
}

/* Give back a pin that a final verdict left (a->pinned, a->id). One operation. */
PT_FN void pt_unpin(const struct pt_table *t, uint64_t id)
{
	pt_add(pt_entry_at(t, id), 0 - PT_PIN_ONE, PT_ACQ_REL);
}

PT_FN enum pt_do pt_step_revive(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t keep = a->seen & (PT_PIN_MASK | PT_DIRTY);

	pt_change(t, a, pt_entry(PT_RESIDENT, a->epoch, pt_frame_of(a->seen)) | keep | PT_REF);
	return pt_judge(t, a);
}

PT_FN bool pt_fill_only(const struct pt_table *t, const struct pt_agent *a)
{
	return t->range[a->id >> PT_PAGE_BITS].fill_only;
}

/* A page that no frame is left for is not claimed, so that all use it at the same time. If it is
 * still absent after that was seen it stays so while anybody is online: no pin need hold it. */
PT_FN enum pt_do pt_step_fill_look(const struct pt_table *t, struct pt_agent *a)
{
	if (pt_load(&t->shared->fill, PT_ACQUIRE) < t->nr_frames)
		return pt_go(a, PT_PC_CLAIM);
	if (a->op & PT_PREFETCH || !pt_host_pin(t, a))
		return pt_in_place(t, a);
	a->full = true;
	return PT_MUTANT == 21 ? pt_end(a, PT_IN_PLACE) : pt_go(a, PT_PC_LOAD);
}

PT_FN enum pt_do pt_step_claim(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t to = pt_entry(PT_LOADING, 0, pt_frame_of(a->seen));

	a->touches = pt_frame_of(a->seen);
	if (PT_MUTANT == 8)
		pt_store(pt_entry_at(t, a->id), to, PT_RELEASE);
	else if (!pt_change(t, a, PT_MUTANT == 12 ? to | (a->seen & PT_PIN_MASK) : to))
		return pt_judge(t, a);
	a->nr_prepared = a->nr_taken = 0;
	a->ticket = a->scanned = false;
	a->global = a->epoch; /* it was that, at least */
	return pt_go(a, pt_fill_only(t, a) ? PT_PC_FILL : PT_PC_TAKE_HAND);
}

/* ------------------------------------------------------------------ the end of a fault */

/* By addition, so that pins in passing survive. Ends as a hit would. */
PT_FN enum pt_do pt_step_publish(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t dirty = pt_wanted(a) & PT_DIRTY;
	uint64_t delta = (pt_entry(PT_RESIDENT, a->epoch, a->frame) | dirty) -
			 pt_entry(PT_LOADING, 0, a->touches);

	pt_add(pt_entry_at(t, a->id), delta, PT_MUTANT == 13 ? PT_RELAXED : PT_ACQ_REL);
	if (PT_MUTANT == 9) {
		a->pc = PT_PC_LOAD;
		return PT_COPY_IN;
	}
	if (a->op & PT_PREFETCH)
		return pt_end(a, PT_DONE);
	return a->op & PT_PIN ? pt_go(a, PT_PC_PIN) : pt_end(a, PT_HIT);
}

/* No frame: the claim becomes a host pin, or nothing, in one operation. */
PT_FN enum pt_do pt_step_give_up(const struct pt_table *t, struct pt_agent *a)
{
	bool pin = !(a->op & PT_PREFETCH) && pt_host_pin(t, a);
	uint64_t old;

	if (PT_MUTANT == 4)
		pin = false;
	old = pt_add(pt_entry_at(t, a->id), (pin ? PT_PIN_ONE : 0) - pt_entry(PT_LOADING, 0, 0),
		     PT_ACQ_REL);
	a->seen = old - pt_entry(PT_LOADING, 0, 0) + (pin ? PT_PIN_ONE : 0);
	if (pin && pt_pins_of(old) >= PT_PINS_MAX)
		return pt_go(a, PT_PC_REFUSE_PIN);
	a->pinned = pin;
	return pt_end(a, a->op & PT_PREFETCH ? PT_DONE : PT_IN_PLACE);
}

#endif
