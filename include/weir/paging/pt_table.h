/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agents of a paged pool share: one 64-bit entry a page, one owner word a frame, one slot
 * an agent, and a few words. C11 and CUDA C++. docs/paging-protocol.md has the argument.
 *
 * The truth about a page is its entry, and nothing else: whoever changes it compares all 64 bits,
 * or owns the state that it leaves. Owner words only say which entry to look at.
 */
#ifndef WEIR_PAGING_PT_TABLE_H
#define WEIR_PAGING_PT_TABLE_H

#include "weir/paging/pt_arch.h"

/*
 * An entry, from bit 0 up:
 *
 *   frame  28  RESIDENT, LIMBO, WRITEBACK: which. ABSENT, LOADING: how often the page was touched
 *   tag     8  RESIDENT: the epoch of the agent that published it; LIMBO: of the one that evicted
 *   state   3
 *   dirty   1  differs from the host's copy
 *   ref     1  used since the hand last came by
 *   pins   21  at the top, so that a count gone wrong reaches the two bits that are always 0
 */
#define PT_FRAME_BITS 28
#define PT_TAG_SHIFT PT_FRAME_BITS
#define PT_STATE_SHIFT (PT_TAG_SHIFT + 8)
#define PT_DIRTY (1ull << (PT_STATE_SHIFT + 3))
#define PT_REF (PT_DIRTY << 1)
#define PT_PIN_SHIFT (PT_STATE_SHIFT + 5)
#define PT_PIN_BITS 21
#define PT_PIN_ONE (1ull << PT_PIN_SHIFT)
#define PT_FRAME_MASK ((1ull << PT_FRAME_BITS) - 1)
#define PT_PIN_MASK (((1ull << PT_PIN_BITS) - 1) << PT_PIN_SHIFT)

/* Pins that can be held at a time. Those in passing, one an agent, come on top. */
#define PT_PINS_MAX (1ull << 20)
#define PT_FRAMES_MAX (PT_FRAME_MASK + 1)
#define PT_AGENTS_MAX (1u << 20)

/* What a guest adds to the slot behind the agents' own: no epoch is so large, so it lags behind any
 * as long as there is one. */
#define PT_GUEST (1ull << 40)

enum pt_state {
	PT_ABSENT,   /* on the host. Pins: agents that use it there and must not see it move */
	PT_LOADING,  /* an agent brings it in; the host's copy is right, and nobody may change it */
	PT_RESIDENT, /* in a frame. Pins: agents that use it beyond their quiescent points */
	PT_LIMBO,    /* in a frame; evicted, but some agent may not have noticed */
	PT_WRITEBACK, /* in a frame that nobody can use any more; an agent writes it to the host */
	PT_STATE_NR
};

/* Epochs between eviction, by the evictor's slot, and reuse of the frame. */
#if PT_MUTANT == 1
#define PT_GRACE 2
#else
#define PT_GRACE 3
#endif
/* A tag is 8 bits of an epoch. An agent's epoch and a tag that it can meet differ by -1 at least;
 * the differences that could be small negative ones, or 256 more than it seems, count as none. */
#define PT_AGE_MAX 250

/* A page: its range, and its number there. */
#define PT_PAGE_BITS 48
#define PT_PAGE_MAX (1ull << PT_PAGE_BITS)
#define PT_RANGES_MAX (1u << 16)
#define PT_ID(range, page) ((uint64_t)(range) << PT_PAGE_BITS | (page))

/* Owner words: free, being filled by an agent, or a page's id + 1. An id that would wrap is none:
 * the last page of the last range does not exist. */
#define PT_OWNER_FREE 0ull
#define PT_OWNER_TAKEN (~0ull)

#ifdef __cplusplus
#define PT_ALIGNED(bytes) alignas(bytes)
#else
#define PT_ALIGNED(bytes) _Alignas(bytes)
#endif
#ifdef PT_ARCH_MODEL
#define PT_LINE 8
#else
#define PT_LINE 128
#endif

/* Never changes while an agent is online. */
struct pt_range {
	uint64_t *entry; /* nr_pages of them */
	uint64_t nr_pages;
	void *host;	/* the range's bytes; for platforms, the machine does not look */
	uint64_t bytes; /* of them; the last page may be cut short */
	uint32_t admit; /* a page is brought in at this touch; >= 1, */
	uint32_t late;	/* and those that are not chosen so many touches later; see pt_admit() */
	uint32_t chosen;
	uint32_t whole; /* one that is chosen at an access of so many touches, too; 0: not so */
	uint32_t word;	/* touches that an access is which does not say how many; 0: one */
	bool read_only; /* nobody changes the host's bytes while an agent is online */
	bool fill_only; /* a fault takes a frame that is free, and evicts nothing */
};

/* Each word on a line of its own. */
struct pt_shared {
	PT_ALIGNED(PT_LINE) uint64_t epoch;   /* the global one; starts at 1, never wraps */
	PT_ALIGNED(PT_LINE) uint64_t prepare; /* the hand that evicts: a position, mod frames */
	PT_ALIGNED(PT_LINE) uint64_t take;    /* the hand that reuses, behind it */
	/* The next frame that a range which is only filled looks at, once; all before it have been
	 * taken, if it is not beyond the frames. Does not go back while an agent is online. */
	PT_ALIGNED(PT_LINE) uint64_t fill;
	PT_ALIGNED(PT_LINE) uint64_t scan;  /* an agent looks at all slots */
	PT_ALIGNED(PT_LINE) uint64_t fence; /* for pt_fence_sc() */
};

/* Never changes while an agent is online. A kernel gets it as an argument. */
struct pt_table {
	struct pt_range *range;
	uint64_t *owner; /* of each frame */
	/* Of each agent: the epoch it has announced, 0: it is offline; and slot[nr_slots]: PT_GUEST
	 * for each agent that is online without one of its own. */
	uint64_t *slot;
	struct pt_shared *shared;
	const uint64_t *abort; /* the host's word: admit nothing once it is not 0 */
	uint64_t nr_frames;    /* >= 1 */
	uint64_t window;       /* positions by which prepare leads take; >= 1 */
	uint32_t nr_ranges, nr_slots;
};

PT_FN enum pt_state pt_state_of(uint64_t entry)
{
	return (enum pt_state)(entry >> PT_STATE_SHIFT & 7);
}

PT_FN uint32_t pt_frame_of(uint64_t entry)
{
	return (uint32_t)(entry & PT_FRAME_MASK);
}

PT_FN uint8_t pt_tag_of(uint64_t entry)
{
	return (uint8_t)(entry >> PT_TAG_SHIFT);
}

PT_FN uint64_t pt_pins_of(uint64_t entry)
{
	return entry >> PT_PIN_SHIFT;
}

/* An entry without pins. */
PT_FN uint64_t pt_entry(enum pt_state state, uint64_t epoch, uint64_t frame)
{
	return (uint64_t)state << PT_STATE_SHIFT | (epoch & 0xff) << PT_TAG_SHIFT | frame;
}

/* A resident page's entry, evicted at this epoch. */
PT_FN uint64_t pt_limbo(uint64_t entry, uint64_t epoch)
{
	uint64_t pins = PT_MUTANT == 6 ? entry & PT_PIN_MASK : 0;

	return pt_entry(PT_LIMBO, epoch, pt_frame_of(entry)) | (entry & PT_DIRTY) | pins;
}

/*
 * How far the hand that evicts should lead. While a page waits for its frame to be reused, agents
 * pass three quiescent points, and each may bring in a page between two of them: at least so many
 * frames have to be in limbo, and as many again so that one slow agent does not hold up all. In at
 * most half of the frames, since what is in limbo is used at the cost of a fault.
 */
PT_FN uint64_t pt_window(uint64_t nr_frames, uint64_t nr_agents)
{
	uint64_t window = nr_frames / 8;

	if (window < 8 * nr_agents)
		window = 8 * nr_agents;
	if (window > nr_frames / 2)
		window = nr_frames / 2;
	return window ? window : 1;
}

/*
 * The touch at which a page is brought in. Where only some pages of a range fit and nothing is
 * evicted for them, those that come in first are chosen, `chosen` of 2^32, such that they lie
 * evenly in the range: then accesses to frames and accesses in place go on at the same time, and
 * neither the GPU's memory nor the link waits for the other. Multiples of the golden ratio, modulo
 * 1, are the evenest that there are (Knuth, The Art of Computer Programming 3, 6.4).
 *
 * weight: of the access that asks. One that uses most of a page moves as many bytes in place as it
 * takes to bring the page in.
 */
PT_FN uint64_t pt_admit(const struct pt_range *range, uint64_t page, uint32_t weight)
{
	bool chosen = (uint32_t)(page * 0x9e3779b97f4a7c15ull >> 32) <= range->chosen;

	if (!chosen)
		return (uint64_t)range->admit + range->late;
	return range->whole && weight >= range->whole ? 1 : range->admit;
}

/* Agents that are online by this word of a slot. */
PT_FN uint64_t pt_slot_agents(uint64_t word)
{
	return word < PT_GUEST ? (uint64_t)(word != 0) : (uint64_t)(word / PT_GUEST);
}

/*
 * An entry once nobody is online and its frame, if it has one, is given up. What was touched often
 * enough to be brought in is so at its next touch, if it is chosen; what was not is counted anew.
 */
PT_FN uint64_t pt_drained(const struct pt_range *range, uint64_t entry)
{
	bool worth = pt_state_of(entry) != PT_ABSENT || pt_frame_of(entry) >= range->admit - 1;

	return pt_entry(PT_ABSENT, 0, worth ? range->admit - 1 : 0);
}

PT_FN bool pt_id_valid(const struct pt_table *t, uint64_t id)
{
	uint64_t range = id >> PT_PAGE_BITS;

	return range < t->nr_ranges && (id & (PT_PAGE_MAX - 1)) < t->range[range].nr_pages;
}

PT_FN uint64_t *pt_entry_at(const struct pt_table *t, uint64_t id)
{
	return t->range[id >> PT_PAGE_BITS].entry + (id & (PT_PAGE_MAX - 1));
}

/* Whether a frame in limbo may be reused, as the epoch `global` was seen. */
PT_FN bool pt_ready(uint64_t entry, uint64_t global)
{
	uint8_t age = (uint8_t)(global - pt_tag_of(entry));

	return age >= PT_GRACE && age <= PT_AGE_MAX;
}

/*
 * The hit path: whether an access at this epoch may go to the frame that the entry says, without
 * changing the entry. The entry may have been loaded relaxed, if pt_settled() too.
 */
PT_FN bool pt_hit(uint64_t entry, bool write)
{
	uint64_t want = (uint64_t)PT_RESIDENT << PT_STATE_SHIFT | PT_REF | (write ? PT_DIRTY : 0);

	return (entry & ((7ull << PT_STATE_SHIFT) | PT_REF | (write ? PT_DIRTY : 0))) == want;
}

/* Whether the page was published so long ago that the agent's own epoch has acquired it; else the
 * entry is to be loaded with acquire. */
PT_FN bool pt_settled(uint64_t entry, uint64_t epoch)
{
	uint8_t age = (uint8_t)(epoch - pt_tag_of(entry));

	return age >= 2 && age <= PT_AGE_MAX;
}

#endif
