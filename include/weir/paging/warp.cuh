/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warp that uses paged memory, for weir/device.cuh, which includes this and has the accesses: its
 * slot, coming online, quiescent points and leaving, and how lanes step agents together.
 */
#ifndef WEIR_PAGING_WARP_CUH
#define WEIR_PAGING_WARP_CUH

#include "weir/paging/pt_step.h"
#include "weir/paging/view.h"

#define WEIR_PAGED_POLL_EVERY 64u    /* quiescent points between looks at the epoch */
#define WEIR_PAGED_ADVANCE_EVERY 32u /* looks after a slow access, of which one advances it */

/* A warp's; the same in all its lanes, but for what is said to be a lane's. */
struct weir_paged_warp {
	const struct weir_paged_view *view;
	uint32_t epoch; /* its low half: the whole one is in the slot, which nobody else writes */
	uint32_t slot;
	uint32_t lanes;	   /* that were together at weir_paged_enter() */
	uint32_t nr_held;  /* a lane's: spans in frames, unpinned */
	uint32_t nr_since; /* a lane's: quiescent points since the epoch was looked at */
	uint32_t noted;	   /* a lane's: a page, and why; 0: none. See weir_paged_note() */
	uint32_t placed;   /* a lane's: accesses in place to be counted; see weir_paged_placed() */
};

#define WEIR_PAGED_PINNED 1u /* weir_paged_done() gives a pin back */
#define WEIR_PAGED_FRAME 2u  /* it is in a frame: as good as a hit */

/* Where an access may go; for those that hold a pin, until weir_paged_done(). */
struct weir_paged_place {
	unsigned char *addr; /* NULL: there is no such element, or it may not be written */
	uint64_t id;
	uint32_t flags;
};

/* ------------------------------------------------------------------ lanes */

#ifdef __CUDACC__
__device__ static inline uint32_t weir_paged_lane()
{
	uint32_t lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

/* Most warps that are resident have another one, and a warp keeps its own most of the time. */
__device__ static inline uint32_t weir_paged_hint()
{
	uint32_t sm, warp;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
	asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
	return sm * 64 + warp;
}

__device__ static inline uint32_t weir_paged_clock()
{
	return (uint32_t)clock();
}
#endif

/*
 * A function to call out of line, as the ABI has it: who is called saves what it uses of a kernel's
 * registers. If the compiler sees which one it is, it gives the slow path registers that the kernel
 * does not have, and both together set how many warps are resident.
 */
template <typename F> __device__ static inline F weir_paged_far(F function)
{
#ifdef __CUDA_ARCH__
	asm volatile("" : "+l"(function));
#endif
	return function;
}

__device__ static inline bool weir_paged_leads(uint32_t group)
{
	return weir_paged_lane() == (uint32_t)__ffs(group) - 1;
}

__device__ static inline unsigned char *weir_paged_host(const struct weir_paged_view *v,
							uint64_t id)
{
	return (unsigned char *)v->table.range[id >> PT_PAGE_BITS].host +
	       ((id & (PT_PAGE_MAX - 1)) << v->page_shift);
}

__device__ static inline unsigned char *weir_paged_frame(const struct weir_paged_view *v,
							 uint32_t frame)
{
	return v->frames + ((uint64_t)frame << v->page_shift);
}

/* Bytes of a page: the last one of a range may be cut short. */
__device__ static inline uint32_t weir_paged_bytes(const struct weir_paged_view *v, uint64_t id)
{
	uint64_t left = v->table.range[id >> PT_PAGE_BITS].bytes -
			((id & (PT_PAGE_MAX - 1)) << v->page_shift);

	return left >> v->page_shift ? 1u << v->page_shift : (uint32_t)left;
}

/* id: the page that it happened to. */
__device__ static inline void weir_paged_count(const struct weir_paged_view *v, uint32_t slot,
					       uint64_t id, enum weir_paged_event event,
					       uint32_t nr = 1)
{
	uint32_t range = (uint32_t)(id >> PT_PAGE_BITS);

	pt_add(&v->counts[slot % WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX + range].nr[event], nr,
	       PT_RELAXED);
}

/*
 * Pieces of 16 bytes of a lane's that are under way at a time, where all lanes of a warp copy. A
 * load from another GPU takes some 2 us, so few warps get more of that link by more of them: 512
 * warps that bring in pages of 64 KiB got 185, 287, 321 and 333 GB/s with 1, 2, 3 and 4 (H200); the
 * host's link they fill with one. Registers of what is called count for the kernel, too: with 4 a
 * kernel that reads takes 40 of them.
 */
#define WEIR_PAGED_COPIES 4
#define WEIR_PAGED_ROW 512u /* bytes of a piece of each lane of a whole warp */

/* Copy a page's bytes with all lanes of the group. The last ones, less than 16, are one lane's. */
__device__ __noinline__ static void weir_paged_copy(unsigned char *to, const unsigned char *from,
						    uint32_t bytes, uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << weir_paged_lane()) - 1)), step = __popc(group) * 16;
	uint32_t at = rank * 16;

	/* By constants apart, so that one address does for all pieces. */
#pragma unroll 1
	for (; step == WEIR_PAGED_ROW &&
	       at + (WEIR_PAGED_COPIES - 1) * WEIR_PAGED_ROW < (bytes & ~15u);
	     at += WEIR_PAGED_COPIES * WEIR_PAGED_ROW) {
		int4 piece[WEIR_PAGED_COPIES];

#pragma unroll
		for (uint32_t i = 0; i < WEIR_PAGED_COPIES; i++)
			piece[i] = *(const int4 *)(from + at + i * WEIR_PAGED_ROW);
#pragma unroll
		for (uint32_t i = 0; i < WEIR_PAGED_COPIES; i++)
			*(int4 *)(to + at + i * WEIR_PAGED_ROW) = piece[i];
	}
#pragma unroll 1
	for (; at < (bytes & ~15u); at += step)
		*(int4 *)(to + at) = *(const int4 *)(from + at);
	for (; at < bytes; at++)
		to[at] = from[at];
}

/* A slot, or the guests', that is neither at this epoch nor offline, + 1; 0: there is none.
 * pt_slot_lags() of all of them, but with one fence for what was loaded relaxed. */
__device__ __noinline__ static uint32_t weir_paged_scan(const struct pt_table *t, uint64_t global,
							uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << weir_paged_lane()) - 1)), lanes = __popc(group);
	uint32_t lagging = 0, who;

#pragma unroll 2
	for (uint32_t i = rank; i <= t->nr_slots; i += lanes) {
		uint64_t epoch = pt_load(&t->slot[i], PT_RELAXED);

		lagging = epoch && epoch != global ? i + 1 : lagging;
	}
	pt_fence_sc(&t->shared->fence);
	who = __ballot_sync(group, lagging);
	return who ? __shfl_sync(group, lagging, __ffs(who) - 1) : 0;
}

/* Step to where other lanes are needed. Not inlined, for the same reason. */
__device__ __noinline__ static int weir_paged_steps(const struct pt_table *t, struct pt_agent *a)
{
	enum pt_do verdict;

#pragma unroll 1
	do {
		verdict = pt_step(t, a);
	} while (verdict == PT_AGAIN);
	return verdict;
}

/* Tell an agent what its scan found. */
__device__ static inline void weir_paged_scanned(const struct weir_paged_view *v,
						 struct pt_agent *a, uint32_t lagging)
{
	a->scan_ok = !lagging;
	weir_paged_count(v, a->slot, 0, WEIR_PAGED_SCAN);
	if (!lagging)
		return;
	weir_paged_count(v, a->slot, 0, WEIR_PAGED_LAG);
	pt_store(&v->counts->lagged, lagging, PT_RELAXED);
}

/* A page to be copied, for a lane's agent; of no bytes: none. */
struct weir_paged_move {
	unsigned char *to;
	const unsigned char *from;
	uint32_t bytes;
};

__device__ static inline struct weir_paged_move
weir_paged_move_of(const struct weir_paged_view *v, const struct pt_agent *a, int verdict)
{
	const bool in = verdict == PT_COPY_IN;
	struct weir_paged_move move = {nullptr, nullptr, 0};

	if (in || verdict == PT_COPY_OUT) {
		const uint64_t page = in ? a->id : a->victim;
		unsigned char *frame = weir_paged_frame(v, a->frame);
		unsigned char *home = weir_paged_host(v, page);

		move.to = in ? frame : home;
		move.from = in ? home : frame;
		move.bytes = weir_paged_bytes(v, page);
		weir_paged_count(v, a->slot, page, in ? WEIR_PAGED_IN : WEIR_PAGED_OUT);
	}
	return move;
}

/* What agents of some lanes need all lanes for: scans first, since they hold a lock. Where to and
 * from, each lane has found for its own agent, all at the same time. */
__device__ __noinline__ static void weir_paged_help(const struct weir_paged_view *v,
						    struct pt_agent *a, uint32_t lanes, int verdict)
{
	struct weir_paged_move move = weir_paged_move_of(v, a, verdict);
	uint32_t scans = __ballot_sync(lanes, verdict == PT_SCAN);
	uint32_t moves = __ballot_sync(lanes, move.bytes != 0);

#pragma unroll 1
	for (; scans; scans &= scans - 1) {
		int who = __ffs(scans) - 1;
		uint32_t lagging =
			weir_paged_scan(&v->table, __shfl_sync(lanes, a->global, who), lanes);

		if (weir_paged_lane() == (uint32_t)who)
			weir_paged_scanned(v, a, lagging);
	}
#pragma unroll 1
	for (; moves; moves &= moves - 1) {
		int who = __ffs(moves) - 1;

		weir_paged_copy(
			(unsigned char *)__shfl_sync(lanes, (unsigned long long)move.to, who),
			(const unsigned char *)__shfl_sync(lanes, (unsigned long long)move.from,
							   who),
			__shfl_sync(lanes, move.bytes, who), lanes);
	}
}

/*
 * Bring the agents of some lanes (verdict: not final) to the end of what they began. All lanes of
 * the warp call it: agents are stepped by their own lanes at the same time, then all lanes copy for
 * each in turn. Lanes' stores are ordered before an agent's next step by the barrier.
 *
 * An agent that waits for another warp's holds no claim, and is stepped again only after those of
 * this warp that have one are served: so nobody waits for a warp that waits.
 */
__device__ __noinline__ static int weir_paged_drive(const struct weir_paged_view *v,
						    struct pt_agent *a, uint32_t lanes, int verdict)
{
	bool helped;

#pragma unroll 1
	while (__any_sync(lanes, !pt_final((enum pt_do)verdict))) {
		if (!pt_final((enum pt_do)verdict))
			verdict = weir_paged_steps(&v->table, a);
		__syncwarp(lanes);
		helped = __any_sync(lanes, verdict == PT_SCAN || verdict == PT_COPY_IN ||
						   verdict == PT_COPY_OUT);
		if (helped) {
			weir_paged_help(v, a, lanes, verdict);
		} else if (verdict == PT_WAIT) {
			weir_paged_count(v, a->slot, a->id, WEIR_PAGED_WAIT);
			__nanosleep(100);
		}
		__syncwarp(lanes);
	}
	return verdict;
}

/* ------------------------------------------------------------------ epochs */

struct weir_paged_online {
	uint32_t epoch;
	uint32_t slot;
};

#define WEIR_PAGED_LAPS 4u	/* over all slots, before a warp becomes a guest */
#define WEIR_PAGED_LAP_NS 1000u /* after the first of them; after each, twice as much */

/* Announce in a slot that no online warp has. @return whether there is one */
__device__ static inline bool weir_paged_slot_find(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t nobody = 0;

	a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
#pragma unroll 1
	for (uint32_t i = 0; i < t->nr_slots; i++) {
		if (pt_cas(&t->slot[a->slot], &nobody, a->global))
			return true;
		a->slot = a->slot + 1 == t->nr_slots ? 0 : a->slot + 1;
		nobody = 0;
	}
	return false;
}

/* A slot, by one lane. There are as many as warps can be resident; so there is none only if warps
 * ended without leaving, or entered twice, and then none need become free: the warp is a guest. */
__device__ static inline void weir_paged_slot_take(const struct weir_paged_view *v,
						   struct pt_agent *a)
{
	const struct pt_table *t = &v->table;

	a->slot = weir_paged_hint() % t->nr_slots;
#pragma unroll 1
	for (uint32_t lap = 0; lap < WEIR_PAGED_LAPS && !pt_load_host(t->abort); lap++) {
		if (weir_paged_slot_find(t, a)) {
			pt_entered(a);
			return;
		}
		__nanosleep(WEIR_PAGED_LAP_NS << lap);
	}
	weir_paged_count(v, a->slot, 0, WEIR_PAGED_NO_SLOT);
	pt_enter_guest(t, a);
}

/* The epoch of a warp's agents. A guest's: it does not go on while there is one. */
__device__ static inline uint64_t weir_paged_epoch(const struct weir_paged_view *v, uint32_t slot)
{
	return slot == v->table.nr_slots ? pt_load(&v->table.shared->epoch, PT_ACQUIRE)
					 : pt_load(&v->table.slot[slot], PT_RELAXED);
}

__device__ __noinline__ static struct weir_paged_online
weir_paged_come_online(const struct weir_paged_view *v, uint32_t lanes)
{
	struct pt_agent a = {};
	struct weir_paged_online online;
	int leader = __ffs(lanes) - 1;

	if (weir_paged_leads(lanes))
		weir_paged_slot_take(v, &a);
	weir_paged_drive(v, &a, lanes, weir_paged_leads(lanes) ? PT_AGAIN : PT_DONE);
	online.epoch = (uint32_t)__shfl_sync(lanes, a.epoch, leader);
	online.slot = __shfl_sync(lanes, a.slot, leader);
	return online;
}

/*
 * Come online. lanes: of the warp, all that will ever use it together, each of which calls this
 * with the same bits; those that have ended do not count. They wait for each other here, so that
 * halves of a warp that come apart are one agent.
 */
__device__ static inline struct weir_paged_warp weir_paged_enter(const struct weir_paged_view *v,
								 uint32_t lanes = ~0u)
{
	struct weir_paged_online online;

	lanes = __ballot_sync(lanes, true);
	online = weir_paged_far(weir_paged_come_online)(v, lanes);
	return {v, online.epoch, online.slot, lanes, 0, 0, 0, 0};
}

/*
 * weir_paged_warp.noted: a range, why, and a page's number + 1. One that is too far back is not
 * noted.
 *
 * WANTED: to be brought in at the next quiescent point.
 *
 * IN_FRAME, ON_HOST: the page whose entry the lane acquired last in this epoch, RESIDENT or ABSENT.
 * Until its warp announces another epoch, no frame is reused whose page was evicted in this one. So
 * a page that was in a frame is still in that, and one that was ABSENT and is so again was in none
 * meanwhile: its entry need not be acquired once more.
 */
#define WEIR_PAGED_NOTED_BITS 26
#define WEIR_PAGED_IN_FRAME (1u << WEIR_PAGED_NOTED_BITS)
#define WEIR_PAGED_ON_HOST (2u << WEIR_PAGED_NOTED_BITS)
#define WEIR_PAGED_WANTED (3u << WEIR_PAGED_NOTED_BITS)

__device__ static inline uint32_t weir_paged_note(uint32_t range, uint64_t page, uint32_t why)
{
	return (page + 1) >> WEIR_PAGED_NOTED_BITS
		       ? 0
		       : range << (WEIR_PAGED_NOTED_BITS + 2) | why | (uint32_t)(page + 1);
}

__device__ static inline bool weir_paged_is_wanted(uint32_t noted)
{
	return (noted & WEIR_PAGED_WANTED) == WEIR_PAGED_WANTED;
}

/* A page's entry was acquired: what is noted then. What is wanted is more. */
__device__ static inline uint32_t weir_paged_acquired(uint32_t noted, uint32_t note)
{
	return weir_paged_is_wanted(noted) ? noted : note;
}

/* weir_paged_warp.placed: whether the lane has seen that filling has come to its end, which only
 * weir_paged_stays() says; a range; how many accesses to that are to be counted. */
#define WEIR_PAGED_FULL (1u << 31)
#define WEIR_PAGED_PLACED_BITS 27
#define WEIR_PAGED_PLACED_MASK ((1u << WEIR_PAGED_PLACED_BITS) - 1)

/* Count what it says. */
__device__ static inline void weir_paged_placed_add(const struct weir_paged_view *v, uint32_t slot,
						    uint32_t placed)
{
	if (placed & WEIR_PAGED_PLACED_MASK)
		weir_paged_count(v, slot,
				 PT_ID((placed & ~WEIR_PAGED_FULL) >> WEIR_PAGED_PLACED_BITS, 0),
				 WEIR_PAGED_IN_PLACE, placed & WEIR_PAGED_PLACED_MASK);
}

/* nr more, which are counted together with those after them in the same range. */
__device__ static inline void weir_paged_placed(struct weir_paged_warp *w, uint32_t range,
						uint32_t nr)
{
	const uint32_t none = (w->placed & WEIR_PAGED_FULL) | range << WEIR_PAGED_PLACED_BITS;

	if ((w->placed ^ none) > WEIR_PAGED_PLACED_MASK - nr) {
		weir_paged_placed_add(w->view, w->slot, w->placed);
		w->placed = none;
	}
	w->placed += nr;
}

/* By all lanes: bring in what each wants. */
__device__ __noinline__ static void weir_paged_bring(const struct weir_paged_view *v, uint32_t slot,
						     uint32_t lanes, uint32_t wanted)
{
	uint32_t group = __match_any_sync(lanes, wanted);
	struct pt_agent a = {};
	int verdict = PT_DONE;

	if (wanted && weir_paged_leads(group)) {
		a.slot = slot;
		a.epoch = weir_paged_epoch(v, slot);
		verdict = pt_begin(&v->table, &a,
				   PT_ID(wanted >> (WEIR_PAGED_NOTED_BITS + 2),
					 (wanted & ((1u << WEIR_PAGED_NOTED_BITS) - 1)) - 1),
				   PT_PREFETCH);
	}
	weir_paged_drive(v, &a, lanes, verdict);
}

/*
 * By all lanes: look at the epoch. If it moved on, announce what all lanes have acquired; if it did
 * not, and a page was met that is too young for plain hits (slow), try sometimes to advance it:
 * otherwise it would stay so while nobody needs frames. Then bring in what lanes want. placed: is
 * counted.
 */
__device__ __noinline__ static uint32_t weir_paged_look(const struct weir_paged_view *v,
							uint32_t slot, uint32_t lanes, bool slow,
							uint32_t wanted, uint32_t placed)
{
	const bool guest = slot == v->table.nr_slots;
	uint64_t epoch = weir_paged_epoch(v, slot);
	uint64_t global = guest ? epoch : pt_load(&v->table.shared->epoch, PT_RELAXED);
	uint32_t leader = (uint32_t)__ffs(lanes) - 1;
	struct pt_agent a = {};
	bool same = __all_sync(lanes, global == epoch);

	weir_paged_placed_add(v, slot, placed);
	if (same && slow && !guest &&
	    __shfl_sync(lanes, weir_paged_clock(), leader) / 64 % WEIR_PAGED_ADVANCE_EVERY == 0) {
		a.slot = slot;
		pt_advance(&a);
		weir_paged_drive(v, &a, lanes, weir_paged_leads(lanes) ? PT_AGAIN : PT_DONE);
		same = false;
	}
	if (!same) {
		global = pt_load(&v->table.shared->epoch, PT_ACQUIRE);
		global = epoch + __reduce_min_sync(lanes, (unsigned)(global - epoch));
		__syncwarp(lanes);
		if (global != epoch && weir_paged_leads(lanes))
			pt_store(&v->table.slot[slot], global, PT_RELEASE);
		__syncwarp(lanes);
	}
	if (__any_sync(lanes, wanted))
		weir_paged_bring(v, slot, lanes, wanted);
	if (guest) { /* the epoch may have moved on once, between lanes' loads */
		__syncwarp(lanes);
		global = __shfl_sync(lanes, global, leader);
	}
	return (uint32_t)global;
}

/* Whether all lanes of the warp are here. Inlined: "here" is a place in the code that asks. */
__device__ static __forceinline__ bool weir_paged_together(const struct weir_paged_warp *w)
{
	return __activemask() == w->lanes;
}

/* Pass a quiescent point, if all lanes are together and none holds an unpinned span in a frame;
 * else nothing: frames are then reused later. So a lane that has ended, or waits to leave, keeps
 * the rest of its warp from it; WEIR_PAGED_APART counts that, WEIR_PAGED_LAG what it is for others.
 * Cheap: the epoch is looked at every WEIR_PAGED_POLL_EVERY calls, or after a slow access. */
__device__ static inline void weir_paged_quiesce(struct weir_paged_warp *w)
{
	bool slow, wants;
	uint32_t epoch;

	w->nr_since++;
	if (!weir_paged_together(w) ||
	    !__any_sync(w->lanes, w->nr_since >= WEIR_PAGED_POLL_EVERY) ||
	    (__any_sync(w->lanes, w->nr_held != 0) && PT_MUTANT != 20))
		return;
	slow = __any_sync(w->lanes, w->nr_since > WEIR_PAGED_POLL_EVERY);
	wants = weir_paged_is_wanted(w->noted);
	epoch = weir_paged_far(weir_paged_look)(w->view, w->slot, w->lanes, slow,
						wants ? w->noted : 0, w->placed);
	if (wants || epoch != w->epoch)
		w->noted = 0;
	w->epoch = epoch;
	w->nr_since = 0;
	w->placed &= ~WEIR_PAGED_PLACED_MASK;
}

/* weir_paged_quiesce() that looks at the epoch in any case: for a loop that mostly hits and whose
 * iterations are long. Until a warp has looked, no frame that was evicted meanwhile is reused. */
__device__ static inline void weir_paged_quiesce_now(struct weir_paged_warp *w)
{
	if (w->nr_since < WEIR_PAGED_POLL_EVERY - 1)
		w->nr_since = WEIR_PAGED_POLL_EVERY - 1;
	weir_paged_quiesce(w);
}

/* By all lanes that are left. apart: the lane could not pass its last quiescent points. */
__device__ __noinline__ static void weir_paged_go_offline(const struct weir_paged_view *v,
							  uint32_t slot, uint32_t lanes,
							  uint32_t placed, bool apart)
{
	uint32_t here = __ballot_sync(lanes, true), missed;
	struct pt_agent a = {};

	weir_paged_placed_add(v, slot, placed);
	missed = (lanes ^ here) | __ballot_sync(here, apart);
	__syncwarp(here); /* what lanes did comes before the slot's release */
	if (!weir_paged_leads(here))
		return;
	if (missed)
		weir_paged_count(v, slot, 0, WEIR_PAGED_APART, __popc(missed));
	a.slot = slot;
	pt_leave(&a);
	weir_paged_steps(&v->table, &a);
}

/* The lanes wait for each other; those that have ended do not count. */
__device__ static inline void weir_paged_leave(struct weir_paged_warp *w)
{
	weir_paged_far(weir_paged_go_offline)(w->view, w->slot, w->lanes, w->placed,
					      w->nr_since >= 2 * WEIR_PAGED_POLL_EVERY);
}

#endif
