/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of the model checker: agents that run the real step machine (weir/paging/pt_step.h),
 * two pages, each a range of its own, and one frame, or a few more, of one number each. model.pml
 * chooses who goes next and what an agent begins; all the rest is here. One call of actor_step() is
 * one operation on what agents share.
 *
 * What is checked: each page's number is only added to, so
 *   - a read gives no less than what was there when it began, and no more than there is now;
 *   - in the end, with everything written back, no addition is missing;
 *   - nobody uses a frame that is not, or no longer, the page's;
 *   - a fault of a page that is only filled evicts nothing;
 *   - in the end nothing is pinned, claimed or locked.
 * That all agents come to their end is for the checker (no invalid end state, no cycle).
 */
#ifndef WEIR_TEST_PAGING_MODEL_H
#define WEIR_TEST_PAGING_MODEL_H

#include <string.h>

#include "weir/paging/pt_step.h"

#ifndef NR_AGENTS
#define NR_AGENTS 2
#endif
#ifndef NR_OPS
#define NR_OPS 2
#endif
#ifndef ADMIT
#define ADMIT 1
#endif
#ifndef NR_PAGES
#define NR_PAGES 2
#endif
#ifndef NR_FRAMES
#define NR_FRAMES 1
#endif
/* Which pages' ranges are so, one bit each. Read-only: not page 0, which may begin dirty. */
#ifndef FILL_ONLY
#define FILL_ONLY 0
#endif
#ifndef READ_ONLY
#define READ_ONLY 0
#endif
#define READ_ONLY_VALUE 100 /* what such a page holds */

/* What agents may do, one bit each: NR_KINDS of them, chosen from by KINDS. */
enum kind {
	KIND_READ,
	KIND_ADD,
	KIND_PINNED, /* add, pass a quiescent point, add again: pinned. Of a read-only page: read */
	KIND_HINT,   /* prefetch the page, drop the other one */
	KIND_SPAN,   /* read twice through one address */
	NR_KINDS
};
#ifndef KINDS
#define KINDS (1 << KIND_READ | 1 << KIND_ADD)
#endif
/* How often somebody else, who does nothing more, advances the epoch when that is allowed. */
#ifndef ADVANCES
#define ADVANCES 3
#endif
/* Whether the abort word may be set, at any time. */
#ifndef ABORTS
#define ABORTS 0
#endif
/* Which agents have no slot of their own, one bit each. */
#ifndef GUESTS
#define GUESTS 0
#endif
#define NR_SCANNED \
	(NR_AGENTS + ((GUESTS) != 0)) /* slots; without guests, theirs is not looked at */
/* Ends of an operation: pass a quiescent point; leave and come back. 1, 2, or 3 for both. */
#ifndef ENDS
#define ENDS 3
#endif

enum phase {
	PHASE_ENTER,
	PHASE_CHOOSE,
	PHASE_REACH, /* the machine steps */
	PHASE_COPY,  /* the second half of a copy */
	PHASE_USE,
	PHASE_REST, /* between the two uses of what is pinned; chooses */
	PHASE_REST_QUIESCE,
	PHASE_UNPIN,
	PHASE_END, /* of an operation */
	PHASE_QUIESCE,
	PHASE_LEAVE,
	PHASE_DONE
};

struct actor {
	struct pt_agent agent;
	uint8_t phase, verdict, kind, page, nr_ops, nr_uses;
	uint8_t scan;  /* next slot to look at */
	uint8_t half;  /* of a copy: what was read */
	uint8_t least; /* what the page held when the operation began */
	bool in_place;
};

/* All that changes, for the checker to save and restore. */
static struct world {
	struct pt_shared shared;
	uint64_t entry[NR_PAGES], owner[NR_FRAMES], slot[NR_AGENTS + 1];
	struct actor actor[NR_AGENTS];
	uint8_t frame[NR_FRAMES], host[NR_PAGES], right[NR_PAGES];
	uint64_t abort;
	uint8_t nr_advances;
	uint8_t wrong; /* the line that found it */
} world;

#define RANGE(page)                                                                         \
	{                                                                                   \
		.entry = world.entry + (page), .nr_pages = 1, .admit = ADMIT,               \
		.read_only = (READ_ONLY) >> (page)&1, .fill_only = (FILL_ONLY) >> (page)&1, \
	}
static struct pt_range world_range[] = {RANGE(0), RANGE(1), RANGE(2)};
static const struct pt_table world_table = {
	world_range, world.owner, world.slot, &world.shared, &world.abort,
	NR_FRAMES,   1,		  NR_PAGES,   NR_AGENTS,
};

static inline uint64_t id_of(uint8_t page)
{
	return PT_ID(page, 0);
}

static inline uint8_t page_of(uint64_t id)
{
	return (uint8_t)(id >> PT_PAGE_BITS);
}

static inline bool is_read_only(uint8_t page)
{
	return world_range[page].read_only;
}

#define EXPECT(what)                                     \
	do {                                             \
		if (!(what) && !world.wrong)             \
			world.wrong = (uint8_t)__LINE__; \
	} while (0)

/* What page 0 may be at first; page 1 is absent. The epoch is 5. */
#define START_EPOCH 5
static const struct {
	enum pt_state state;
	uint8_t age; /* of its tag, in epochs */
	uint64_t bits;
} starts[] = {
	{PT_ABSENT, 0, 0},	    {PT_RESIDENT, 1, 0},
	{PT_RESIDENT, 1, PT_DIRTY}, {PT_RESIDENT, 1, PT_DIRTY | PT_REF},
	{PT_LIMBO, 3, 0},	    {PT_LIMBO, 3, PT_DIRTY},
	{PT_LIMBO, 2, PT_DIRTY},    {PT_LIMBO, 1, PT_DIRTY},
	{PT_LIMBO, 0, PT_DIRTY},
};

static inline bool is_guest(uint8_t me)
{
	return (GUESTS) >> me & 1;
}

static inline uint8_t actor_enter(uint8_t me)
{
	struct pt_agent *a = &world.actor[me].agent;

	return (uint8_t)(is_guest(me) ? pt_enter_guest(&world_table, a) : pt_enter(a));
}

static inline void world_start(uint8_t start)
{
	world.shared.epoch = START_EPOCH;
	if (starts[start].state != PT_ABSENT) {
		world.entry[0] = pt_entry(starts[start].state, START_EPOCH - starts[start].age, 0) |
				 starts[start].bits;
		world.owner[0] = 1;
	}
	world.frame[0] = world.right[0] = starts[start].bits & PT_DIRTY ? 1 : 0;
	for (uint8_t i = 1; i < NR_PAGES; i++)
		if (is_read_only(i))
			world.host[i] = world.right[i] = READ_ONLY_VALUE;
	for (uint8_t i = 0; i < NR_AGENTS; i++) {
		world.actor[i].agent.slot = i;
		world.actor[i].verdict = actor_enter(i);
	}
}

/* An agent that is online already, in this epoch or still in the one before it. */
static inline void start_online(uint8_t me, uint8_t behind)
{
	if (is_guest(me))
		world.slot[NR_AGENTS] += PT_GUEST;
	else
		world.slot[me] = START_EPOCH - behind;
	world.actor[me].agent.epoch = START_EPOCH - behind;
	world.actor[me].phase = PHASE_CHOOSE;
}

/* An agent that has used page 0 once, pinned, and will again. */
static inline bool may_start_pinned(uint8_t me, uint8_t start)
{
	return ((KINDS)&1 << KIND_PINNED) && !me && starts[start].state == PT_RESIDENT &&
	       (starts[start].bits & PT_DIRTY);
}

static inline void start_pinned(uint8_t me)
{
	struct actor *x = &world.actor[me];

	start_online(me, 0);
	world.entry[0] += PT_PIN_ONE;
	x->kind = KIND_PINNED;
	x->verdict = PT_HIT;
	x->nr_uses = x->nr_ops = 1;
	x->agent.op = PT_WRITE | PT_PIN;
	x->agent.pinned = true;
	x->phase = PHASE_REST;
}

/* From here on, what the machine no longer looks at is 0, and what matters only as a difference is
 * as small as can be: without that no more than two operations could be explored. */
static inline void forget_scratch(struct pt_agent *a)
{
	bool frames = a->pc >= PT_PC_TAKE_HAND && a->pc <= PT_PC_SCAN_UNLOCK;

	if (!frames)
		a->hand = a->ahead = a->nr_prepared = a->nr_taken = a->ticket = a->scanned = 0;
	if (!frames && a->pc != PT_PC_OWN && a->pc != PT_PC_PUBLISH)
		a->touches = 0;
	if (a->pc <= PT_PC_LOAD || a->pc == PT_PC_UNPIN || a->pc == PT_PC_REFUSE_PIN ||
	    (a->pc >= PT_PC_TAKE_HAND && a->pc <= PT_PC_VICTIM) || a->pc == PT_PC_TAKE_OWNER ||
	    a->pc == PT_PC_TAKE_ENTRY || a->pc == PT_PC_WRITTEN || a->pc >= PT_PC_OWN)
		a->seen = 0;
	if (!frames || (a->pc >= PT_PC_TAKE_HAND && a->pc <= PT_PC_VICTIM_OWNER) ||
	    a->pc == PT_PC_TAKE_OWNER)
		a->victim = 0;
	if (!frames && (a->pc < PT_PC_ENTER_STORE || a->pc > PT_PC_QUIET_STORE))
		a->global = 0;
	if (!frames || a->pc == PT_PC_TAKE_HAND)
		a->scan_ok = 0;
}

/* Whether hand is a position: a page that is only filled has none. */
static inline bool has_hand(const struct actor *x)
{
	return x->agent.pc > PT_PC_TAKE_HAND && x->agent.pc < PT_PC_OWN &&
	       !world_range[page_of(x->agent.id)].fill_only;
}

/* Positions a lap apart are the same; and so are all numbers that are no frame's. */
static inline void level_hands(void)
{
	uint64_t least = world.shared.take;

	if (world.shared.prepare < least)
		least = world.shared.prepare;
	for (uint32_t i = 0; i < NR_AGENTS; i++)
		if (has_hand(&world.actor[i]) && world.actor[i].agent.hand < least)
			least = world.actor[i].agent.hand;
	least -= least % NR_FRAMES;
	world.shared.take -= least;
	world.shared.prepare -= least;
	for (uint32_t i = 0; i < NR_AGENTS; i++)
		if (has_hand(&world.actor[i]))
			world.actor[i].agent.hand -= least;
	if (world.shared.fill > NR_FRAMES)
		world.shared.fill = NR_FRAMES;
}

static inline bool has_tag(uint64_t entry)
{
	return pt_state_of(entry) == PT_RESIDENT || pt_state_of(entry) == PT_LIMBO;
}

static inline uint64_t min_epoch(uint64_t least, uint64_t epoch)
{
	return epoch && epoch < least ? epoch : least;
}

static inline void level_epochs(void)
{
	uint64_t least = world.shared.epoch;

	for (uint32_t i = 0; i < NR_PAGES; i++)
		if (has_tag(world.entry[i]))
			least = min_epoch(least, pt_tag_of(world.entry[i]));
	for (uint32_t i = 0; i < NR_AGENTS; i++) {
		struct pt_agent *a = &world.actor[i].agent;

		least = min_epoch(min_epoch(min_epoch(least, a->epoch), a->global), world.slot[i]);
		if (has_tag(a->seen))
			least = min_epoch(least, pt_tag_of(a->seen));
	}
	least--;
	world.shared.epoch -= least;
	for (uint32_t i = 0; i < NR_PAGES; i++)
		if (has_tag(world.entry[i]))
			world.entry[i] -= least << PT_TAG_SHIFT;
	for (uint32_t i = 0; i < NR_AGENTS; i++) {
		struct pt_agent *a = &world.actor[i].agent;

		a->epoch -= a->epoch ? least : 0;
		a->global -= a->global ? least : 0;
		world.slot[i] -= world.slot[i] ? least : 0;
		if (has_tag(a->seen))
			a->seen -= least << PT_TAG_SHIFT;
	}
}

/* Forget what an operation leaves behind, so that equal states are equal. */
static inline void forget(struct actor *x)
{
	struct actor kept = *x;

	memset(x, 0, sizeof(*x));
	x->agent.epoch = kept.agent.epoch;
	x->agent.slot = kept.agent.slot;
	x->phase = kept.phase;
	x->nr_ops = kept.nr_ops;
}

/* Nobody may be about to use the frame for another page than the one it holds now. */
static inline void expect_frame_is(uint32_t frame, uint8_t page)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_PAGES; i++) {
		enum pt_state state = pt_state_of(world.entry[i]);

		if ((state == PT_RESIDENT || state == PT_LIMBO || state == PT_WRITEBACK) &&
		    pt_frame_of(world.entry[i]) == frame)
			nr += i == page ? 1 : 16;
	}
	EXPECT(nr <= 1);
}

static inline bool may_choose(uint8_t me, uint8_t kind, uint8_t page)
{
	return world.actor[me].phase == PHASE_CHOOSE && ((KINDS)&1 << kind) &&
	       !(kind == KIND_ADD && is_read_only(page));
}

static inline bool is_write(uint8_t kind, uint8_t page)
{
	return kind == KIND_ADD || (kind == KIND_PINNED && !is_read_only(page));
}

static inline unsigned op_of(uint8_t kind, uint8_t page)
{
	unsigned way = is_write(kind, page) ? PT_WRITE : PT_READ;

	return kind == KIND_HINT     ? PT_PREFETCH
	       : kind == KIND_PINNED ? way | PT_PIN
	       : kind == KIND_SPAN   ? way | PT_SPAN
				     : way;
}

static inline void actor_choose(uint8_t me, uint8_t kind, uint8_t page)
{
	struct actor *x = &world.actor[me];

	x->kind = kind;
	x->page = page;
	x->least = kind == KIND_HINT || is_write(kind, page) ? 0 : world.right[page];
	x->nr_ops++;
	x->nr_uses = 0;
	x->verdict = (uint8_t)pt_begin(&world_table, &x->agent, id_of(page), op_of(kind, page));
	x->phase = PHASE_REACH;
}

/* The machine has come to an end. */
static inline void actor_reached(struct actor *x)
{
	switch ((enum pt_do)x->verdict) {
	case PT_HIT:
	case PT_IN_PLACE:
		EXPECT(x->phase == PHASE_REACH);
		x->in_place = x->verdict == PT_IN_PLACE;
		if (!x->in_place)
			expect_frame_is(x->agent.frame, x->page);
		x->phase = PHASE_USE;
		return;
	case PT_DONE:
		if (x->phase == PHASE_LEAVE && x->nr_ops == NR_OPS) {
			x->phase = PHASE_DONE;
		} else if (x->phase == PHASE_LEAVE) {
			x->verdict = actor_enter((uint8_t)(x - world.actor));
			x->phase = PHASE_ENTER;
			return;
		} else if (x->phase == PHASE_REACH && !(x->agent.op & PT_DROP)) {
			x->page ^= 1; /* a hint */
			x->verdict =
				(uint8_t)pt_begin(&world_table, &x->agent, id_of(x->page), PT_DROP);
			return;
		} else if (x->phase == PHASE_REACH) {
			x->phase = PHASE_END;
		} else if (x->phase == PHASE_REST_QUIESCE) {
			x->phase = PHASE_REST;
			return;
		} else {
			x->phase = PHASE_CHOOSE;
		}
		forget(x);
		return;
	default:
		EXPECT(0);
	}
}

/* Whether its next step is one of a fault that evicts. */
static inline bool evicts(const struct pt_agent *a)
{
	return a->pc >= PT_PC_TAKE_HAND && a->pc <= PT_PC_SCAN_UNLOCK && a->pc != PT_PC_FILL &&
	       a->pc != PT_PC_TAKE_FREE;
}

/* What the last verdict asks for. A copy is two steps, so that others come in between. */
static inline void actor_machine(struct actor *x)
{
	struct pt_agent *a = &x->agent;

	if (x->verdict == PT_SCAN && x->scan < NR_SCANNED) {
		if (pt_slot_lags(&world_table, x->scan, a->global))
			x->scan = NR_SCANNED; /* scan_ok stays false */
		else if (++x->scan == NR_SCANNED)
			a->scan_ok = true;
		return;
	}
	if ((x->verdict == PT_COPY_IN || x->verdict == PT_COPY_OUT) && x->scan < 2) {
		bool in = x->verdict == PT_COPY_IN;

		if (x->scan++ == 0)
			x->half = in ? world.host[page_of(a->id)] : world.frame[a->frame];
		else if (in)
			world.frame[a->frame] = x->half;
		else
			world.host[page_of(a->victim)] = x->half;
		if (x->scan == 2)
			x->half = 0;
		return;
	}
	x->scan = 0;
	EXPECT(x->phase != PHASE_REACH || !world_range[x->page].fill_only || !evicts(a));
	x->verdict = (uint8_t)pt_step(&world_table, a);
	if (pt_final((enum pt_do)x->verdict))
		actor_reached(x);
}

static inline void actor_use(struct actor *x)
{
	uint8_t *at = x->in_place ? &world.host[x->page] : &world.frame[x->agent.frame];

	if (!x->in_place)
		expect_frame_is(x->agent.frame, x->page);
	if (is_write(x->kind, x->page)) {
		EXPECT(*at == world.right[x->page]);
		++*at;
		++world.right[x->page];
	} else {
		EXPECT(*at >= x->least && *at <= world.right[x->page]);
	}
	x->nr_uses++;
	if ((x->kind == KIND_PINNED || x->kind == KIND_SPAN) && x->nr_uses == 1) {
		x->phase = PHASE_REST;
	} else if (x->agent.pinned) {
		x->phase = PHASE_UNPIN;
	} else {
		x->phase = PHASE_END;
		forget(x);
	}
}

static inline bool may_step(uint8_t me)
{
	const struct actor *x = &world.actor[me];
	enum pt_state state = pt_state_of(world.entry[page_of(x->agent.id)]);

	if (x->phase == PHASE_CHOOSE || x->phase == PHASE_REST || x->phase == PHASE_END ||
	    x->phase == PHASE_DONE)
		return false;
	return x->phase != PHASE_REACH || x->verdict != PT_WAIT ||
	       (state != PT_LOADING && state != PT_WRITEBACK);
}

static inline void actor_step(uint8_t me)
{
	struct actor *x = &world.actor[me];

	switch ((enum phase)x->phase) {
	case PHASE_USE:
		actor_use(x);
		break;
	case PHASE_UNPIN:
		pt_unpin(&world_table, x->agent.id);
		x->phase = PHASE_END;
		forget(x);
		break;
	default:
		actor_machine(x);
	}
	forget_scratch(&x->agent);
	level_hands();
	level_epochs();
}

static inline void actor_end(uint8_t me, bool leave)
{
	struct actor *x = &world.actor[me];

	x->verdict = (uint8_t)(leave ? pt_leave(&x->agent) : pt_quiesce(&x->agent));
	x->phase = leave ? PHASE_LEAVE : PHASE_QUIESCE;
	x->least = 0;
}

static inline bool may_end(uint8_t me, bool leave)
{
	const struct actor *x = &world.actor[me];
	bool last = x->nr_ops == NR_OPS;

	return x->phase == PHASE_END && (leave ? last || (ENDS & 2) : !last && (ENDS & 1));
}

/* In the middle of what is pinned, or needs no pin, and between operations where the epoch has
 * moved on. */
static inline bool may_quiesce(uint8_t me)
{
	const struct actor *x = &world.actor[me];
	bool stays = is_read_only(x->page) || x->agent.full;
	bool held = x->agent.pinned || (x->in_place && stays);

	return ((x->phase == PHASE_REST && held) || x->phase == PHASE_CHOOSE) &&
	       x->agent.epoch != world.shared.epoch;
}

static inline void actor_quiesce(uint8_t me)
{
	struct actor *x = &world.actor[me];

	x->verdict = (uint8_t)pt_quiesce(&x->agent);
	x->phase = x->phase == PHASE_REST ? PHASE_REST_QUIESCE : PHASE_QUIESCE;
}

static inline bool may_use(uint8_t me)
{
	return world.actor[me].phase == PHASE_REST;
}

static inline void actor_use_again(uint8_t me)
{
	world.actor[me].phase = PHASE_USE;
}

static inline bool may_advance(void)
{
	if (world.nr_advances == ADVANCES)
		return false;
	for (uint32_t i = 0; i < NR_SCANNED; i++)
		if (pt_slot_lags(&world_table, i, world.shared.epoch))
			return false;
	return true;
}

static inline void world_advance(void)
{
	world.shared.epoch++;
	world.nr_advances++;
}

static inline bool may_abort(void)
{
	return ABORTS && !world.abort;
}

static inline void world_abort(void)
{
	world.abort = 1;
}

static inline bool is_done(uint8_t me)
{
	return world.actor[me].phase == PHASE_DONE;
}

/* Everybody has left: write back what is dirty, and look at everything. */
static inline void world_finish(void)
{
	for (uint32_t i = 0; i < NR_AGENTS; i++)
		if (world.actor[i].phase != PHASE_DONE)
			return;
	for (uint32_t i = 0; i <= NR_AGENTS; i++)
		EXPECT(!world.slot[i]);
	for (uint32_t i = 0; i < NR_PAGES; i++) {
		enum pt_state state = pt_state_of(world.entry[i]);

		EXPECT(!pt_pins_of(world.entry[i]));
		EXPECT(state == PT_ABSENT || state == PT_RESIDENT || state == PT_LIMBO);
		if (state == PT_ABSENT) {
			EXPECT(pt_frame_of(world.entry[i]) < ADMIT);
		} else {
			EXPECT(world.owner[pt_frame_of(world.entry[i])] == id_of((uint8_t)i) + 1);
			expect_frame_is(pt_frame_of(world.entry[i]), (uint8_t)i);
			if (world.entry[i] & PT_DIRTY)
				world.host[i] = world.frame[pt_frame_of(world.entry[i])];
			else
				EXPECT(world.host[i] == world.frame[pt_frame_of(world.entry[i])]);
		}
		EXPECT(world.host[i] == world.right[i]);
	}
	for (uint32_t i = 0; i < NR_FRAMES; i++)
		EXPECT(world.owner[i] != PT_OWNER_TAKEN &&
		       (world.owner[i] != PT_OWNER_FREE || i >= world.shared.fill));
	EXPECT(!world.shared.scan);
}

#endif
