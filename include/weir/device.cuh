/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory for CUDA kernels, over the same step machine as the CPU's agents. The host's side is
 * weir/paged.h; docs/paging-protocol.md says why it holds.
 *
 * A warp comes online with all its lanes together, uses elements and spans, passes quiescent
 * points, and leaves.
 *
 *     struct weir_paged_warp w = weir_paged_enter(&view);
 *     for (...) {
 *             x = weir_paged_read<float>(&w, range, index);
 *             ...
 *             weir_paged_quiesce(&w);
 *     }
 *     weir_paged_leave(&w);
 *
 * The same with objects, of which the first leaves in its destructor, is in weir/paging/scope.cuh.
 *
 * A hit is one load of the page's entry a lane. When a lane misses while all lanes are together,
 * all help: of those that want the same page the first has an agent, agents step at the same time,
 * and all lanes copy for each. When lanes are apart, each is on its own: its access goes in place,
 * over the link, and the page is brought in at the next quiescent point that all pass together. So
 * everything is right in any kernel, and at full speed in one whose warps mostly stay together:
 * better read with an index that is in range and drop the value than leave a lane out.
 *
 * No lane ever waits for another one of its warp but where all of them are: that lanes in parts of
 * a warp meet, each part with a mask of its own, did not work on an H200 (CUDA 13.0).
 *
 * Accesses to a range that is only filled, once frames are used up, go to the host's memory without
 * a call: a load of the page's entry tells. So do a lane's further accesses to the page that it met
 * last, wherever that is, until its warp announces another epoch.
 *
 * What a kernel has of its own stays in registers: what is called out of line takes and gives
 * values, and no address of a kernel's variable.
 */
#ifndef WEIR_DEVICE_CUH
#define WEIR_DEVICE_CUH

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

/* Copy a page's bytes with all lanes of the group. Not unrolled, since what is called sets a
 * kernel's registers; enough warps keep the link busy without. */
__device__ __noinline__ static void weir_paged_copy(unsigned char *to, const unsigned char *from,
						    uint32_t bytes, uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << weir_paged_lane()) - 1)), lanes = __popc(group);

#pragma unroll 1
	for (uint32_t at = rank * 16; at < (bytes & ~15u); at += lanes * 16)
		*(int4 *)(to + at) = *(const int4 *)(from + at);
#pragma unroll 1
	for (uint32_t at = (bytes & ~15u) + rank; at < bytes; at += lanes)
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

/* What lane `who` needs all lanes for, as its agent says. */
__device__ __noinline__ static void weir_paged_help(const struct weir_paged_view *v,
						    struct pt_agent *a, uint32_t lanes, int who,
						    int verdict)
{
	uint32_t frame = __shfl_sync(lanes, a->frame, who), lagging = 0;
	uint64_t page = 0;

	verdict = __shfl_sync(lanes, verdict, who);
	if (verdict == PT_COPY_IN) {
		page = __shfl_sync(lanes, a->id, who);
		weir_paged_copy(weir_paged_frame(v, frame), weir_paged_host(v, page),
				weir_paged_bytes(v, page), lanes);
	} else if (verdict == PT_COPY_OUT) {
		page = __shfl_sync(lanes, a->victim, who);
		weir_paged_copy(weir_paged_host(v, page), weir_paged_frame(v, frame),
				weir_paged_bytes(v, page), lanes);
	} else {
		lagging = weir_paged_scan(&v->table, __shfl_sync(lanes, a->global, who), lanes);
	}
	if (weir_paged_lane() != (uint32_t)who)
		return;
	if (verdict == PT_SCAN)
		weir_paged_scanned(v, a, lagging);
	else
		weir_paged_count(v, a->slot, page,
				 verdict == PT_COPY_IN ? WEIR_PAGED_IN : WEIR_PAGED_OUT);
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
	uint32_t scans, todo;

#pragma unroll 1
	while (__any_sync(lanes, !pt_final((enum pt_do)verdict))) {
		if (!pt_final((enum pt_do)verdict))
			verdict = weir_paged_steps(&v->table, a);
		__syncwarp(lanes);
		scans = __ballot_sync(lanes, verdict == PT_SCAN);
		todo = scans |
		       __ballot_sync(lanes, verdict == PT_COPY_IN || verdict == PT_COPY_OUT);
		if (!todo && verdict == PT_WAIT) {
			weir_paged_count(v, a->slot, a->id, WEIR_PAGED_WAIT);
			__nanosleep(100);
		}
#pragma unroll 1
		for (; todo; scans &= todo) { /* scans first: they hold a lock */
			uint32_t who = __ffs(scans ? scans : todo) - 1;

			weir_paged_help(v, a, lanes, (int)who, verdict);
			todo &= ~(1u << who);
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

/* ------------------------------------------------------------------ places */

/* An id of no page. What asks for it asks for nothing, or is refused: */
#define WEIR_PAGED_NOTHING PT_ID(WEIR_PAGED_RANGES_MAX, 0)
#define WEIR_PAGED_OUTSIDE(range) \
	PT_ID((range) < WEIR_PAGED_RANGES_MAX ? (range) : 0, PT_PAGE_MAX - 1)

struct weir_paged_reached {
	unsigned char *addr;
	uint32_t flags;
	uint32_t noted;
};

/* Where what was reached lies. noted: what the lane has noted before. */
__device__ static inline struct weir_paged_reached
weir_paged_reached_at(const struct weir_paged_view *v, uint64_t id, uint32_t rest,
		      const struct pt_agent *a, int verdict, uint32_t noted)
{
	struct weir_paged_reached to = {nullptr, 0, noted};

	to.flags = a->pinned ? WEIR_PAGED_PINNED : 0;
	if (verdict == PT_HIT) {
		to.flags |= WEIR_PAGED_FRAME;
		to.addr = weir_paged_frame(v, a->frame) + rest;
		to.noted = weir_paged_acquired(
			noted, weir_paged_note((uint32_t)(id >> PT_PAGE_BITS),
					       id & (PT_PAGE_MAX - 1), WEIR_PAGED_IN_FRAME));
	} else if (verdict == PT_IN_PLACE) {
		to.addr = weir_paged_host(v, id) + rest;
	}
	return to;
}

/* Added to an operation: the number of further elements that it is for. In place each is counted,
 * since the link moves each; together they are one touch. PT_TOUCHES() has the bits below. */
#define WEIR_PAGED_MORE(nr) ((nr) << 24)

__device__ static inline uint32_t weir_paged_elements(uint32_t op)
{
	return (op >> 24) + 1;
}

__device__ static inline uint32_t weir_paged_touches(uint32_t op)
{
	return op >> 8 & 0xffff;
}

/* Whether the program may do that; if it was refused all the same, the page's pins are used up. */
__device__ static inline bool weir_paged_allowed(const struct weir_paged_view *v, uint64_t id,
						 uint32_t op)
{
	return pt_id_valid(&v->table, id) &&
	       !(op & PT_WRITE && v->table.range[id >> PT_PAGE_BITS].read_only);
}

/* nr: of lanes. */
__device__ static inline void weir_paged_count_verdict(const struct weir_paged_view *v,
						       uint32_t slot, uint64_t id, uint32_t op,
						       int verdict, uint32_t nr)
{
	if (verdict == PT_FAIL)
		weir_paged_count(
			v, slot, id,
			weir_paged_allowed(v, id, op) ? WEIR_PAGED_PINS : WEIR_PAGED_REFUSED, nr);
	else if (verdict == PT_IN_PLACE)
		weir_paged_count(v, slot, id, WEIR_PAGED_IN_PLACE, weir_paged_elements(op));
}

/* A lane on its own: no page is brought in. */
__device__ __noinline__ static struct weir_paged_reached
weir_paged_reach_alone(const struct weir_paged_view *v, uint32_t slot, uint64_t id, uint32_t rest,
		       uint32_t op, uint32_t noted)
{
	struct pt_agent a = {};
	int verdict;

	a.slot = slot;
	a.epoch = weir_paged_epoch(v, slot);
	verdict = pt_begin(&v->table, &a, id, op | PT_STAY);
#pragma unroll 1
	while (!pt_final((enum pt_do)verdict)) {
		verdict = weir_paged_steps(&v->table, &a);
		if (verdict == PT_WAIT) {
			weir_paged_count(v, slot, id, WEIR_PAGED_WAIT);
			__nanosleep(100);
		}
	}
	weir_paged_count_verdict(v, slot, id, op, verdict, 1);
	if (verdict == PT_IN_PLACE && !(op & PT_STAY))
		noted = weir_paged_note((uint32_t)(id >> PT_PAGE_BITS), id & (PT_PAGE_MAX - 1),
					WEIR_PAGED_WANTED);
	return weir_paged_reached_at(v, id, rest, &a, verdict, noted);
}

/* Touches are counted one by one from so many on; of smaller accesses that say how many they are,
 * one in a few counts as so many. */
#define WEIR_PAGED_TOUCHES 8u

__device__ static inline uint32_t weir_paged_counted(uint32_t op)
{
	uint32_t nr = weir_paged_touches(op);

	return nr && nr < WEIR_PAGED_TOUCHES ? (op & 0xff) | PT_TOUCHES(WEIR_PAGED_TOUCHES) : op;
}

/* All lanes of the warp; those that want nothing have that as id. Of those that want the same page
 * in the same way the first one has the agent, and each gets a pin if it gets one. */
__device__ __noinline__ static struct weir_paged_reached
weir_paged_reach(const struct weir_paged_view *v, uint32_t slot, uint32_t lanes, uint64_t id,
		 uint32_t rest, uint32_t op, uint32_t noted)
{
	uint32_t group = __match_any_sync(lanes, (unsigned long long)id << 8 | (op & 0xff));
	struct pt_agent a = {};
	int verdict = PT_DONE, leader = __ffs(group) - 1;
	bool leads = weir_paged_leads(group) && id != WEIR_PAGED_NOTHING;

	if (leads) {
		a.slot = slot;
		a.epoch = weir_paged_epoch(v, slot);
		verdict = pt_begin(&v->table, &a, id, weir_paged_counted(op));
	}
	verdict = weir_paged_drive(v, &a, lanes, verdict);
	if (a.pinned && group & (group - 1))
		pt_add(pt_entry_at(&v->table, id), (__popc(group) - 1) * PT_PIN_ONE, PT_RELAXED);
	if (leads)
		weir_paged_count_verdict(v, slot, id, op, verdict, __popc(group));
	__syncwarp(lanes);
	verdict = __shfl_sync(lanes, verdict, leader);
	a.frame = __shfl_sync(lanes, a.frame, leader);
	a.pinned = __shfl_sync(lanes, a.pinned, leader);
	return weir_paged_reached_at(v, id, rest, &a, verdict, noted);
}

/* Whether there is such an element. */
template <typename T>
__device__ static inline bool weir_paged_there(const struct weir_paged_warp *w, uint32_t range,
					       uint64_t index)
{
	static_assert(
		4096 % sizeof(T) == 0,
		"an element lies in one page: read what does not divide it by its parts, with "
		"weir_paged_read_row()");
	return range < WEIR_PAGED_RANGES_MAX && index < w->view->range[range].bytes / sizeof(T);
}

/* Load a page's entry for the hit path: relaxed. The table is small beside what is read through it:
 * it is to stay in the L2 cache while that goes by. */
__device__ static inline uint64_t weir_paged_entry(const struct weir_paged_warp *w, uint32_t range,
						   uint64_t offset)
{
	const uint64_t *at = &w->view->range[range].entry[offset >> w->view->page_shift];
#ifdef __CUDA_ARCH__
	uint64_t policy, entry;

	asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
	asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u64 %0, [%1], %2;"
		     : "=l"(entry)
		     : "l"(__cvta_generic_to_global(at)), "l"(policy)
		     : "memory");
	return entry;
#else
	return pt_load(at, PT_RELAXED);
#endif
}

/* The hit path, by the page's entry: NULL if it is no hit. */
__device__ static inline unsigned char *weir_paged_hit(const struct weir_paged_warp *w,
						       uint64_t entry, uint64_t offset, bool write)
{
	const struct weir_paged_view *v = w->view;

	if (!pt_hit(entry, write) || !pt_settled(entry, w->epoch))
		return nullptr;
	return weir_paged_frame(v, pt_frame_of(entry)) + (offset & ((1ull << v->page_shift) - 1));
}

/* Whether an access that says how many touches it is goes uncounted. By where it is and the
 * quiescent points since the epoch was looked at: the same in all lanes that read together, and
 * another thing each time. */
__device__ static inline bool weir_paged_uncounted(const struct weir_paged_warp *w, uint64_t offset,
						   uint32_t op)
{
	uint32_t nr = weir_paged_touches(op);
	uint32_t hash = ((uint32_t)(offset >> 7) + w->nr_since * 0x85ebca6bu) * 0x9e3779b1u;

	return nr && nr < WEIR_PAGED_TOUCHES && hash % 65536 * WEIR_PAGED_TOUCHES >> 16 >= nr;
}

/* The same of a page that is resident, but no plain hit: too young, or not used since the hand came
 * by, which what this lane has just brought in itself is not either. */
__device__ static inline unsigned char *weir_paged_young(struct weir_paged_warp *w, uint32_t range,
							 uint64_t entry, uint64_t offset,
							 bool write)
{
	const struct weir_paged_view *v = w->view;
	const uint64_t page = offset >> v->page_shift;
	const uint32_t note = weir_paged_note(range, page, WEIR_PAGED_IN_FRAME);
	const bool acquired = note && w->noted == note;

	if (!pt_hit(acquired ? entry | PT_REF : entry, write))
		return nullptr;
	if (!acquired) {
		entry = pt_load(&v->range[range].entry[page], PT_ACQUIRE);
		if (!pt_hit(entry, write))
			return nullptr;
		w->noted = weir_paged_acquired(w->noted, note);
		w->nr_since = WEIR_PAGED_POLL_EVERY; /* so that it does not stay so */
	}
	return weir_paged_frame(v, pt_frame_of(entry)) + (offset & ((1ull << v->page_shift) - 1));
}

/* The frame, by the page's entry, loaded relaxed; NULL: somebody must be asked. */
__device__ static inline unsigned char *weir_paged_in_frame(struct weir_paged_warp *w,
							    uint32_t range, uint64_t entry,
							    uint64_t offset, bool write)
{
	unsigned char *at = weir_paged_hit(w, entry, offset, write);

	return at ? at : weir_paged_young(w, range, entry, offset, write);
}

__device__ static inline bool weir_paged_on_host(uint64_t entry)
{
	return pt_state_of(entry) == PT_ABSENT || pt_state_of(entry) == PT_LOADING;
}

/* Whether the access is over at once and changes nothing. */
__device__ static inline bool weir_paged_brief(uint32_t op)
{
	return !(op & (PT_WRITE | PT_SPAN));
}

/* Whether the host's bytes of a page that is there may be used. Of a page that is on its way into a
 * frame they are right, but not for long. */
__device__ static inline bool weir_paged_right(struct weir_paged_warp *w, uint32_t range,
					       uint64_t offset, uint32_t op)
{
	const struct pt_range *r = &w->view->range[range];
	const uint64_t page = offset >> w->view->page_shift;
	const uint32_t note = weir_paged_note(range, page, WEIR_PAGED_ON_HOST);
	uint64_t entry;

	if (r->read_only || (note && w->noted == note))
		return true;
	entry = pt_load(&r->entry[page], PT_ACQUIRE);
	if (pt_state_of(entry) != PT_ABSENT)
		return pt_state_of(entry) == PT_LOADING && weir_paged_brief(op);
	w->noted = weir_paged_acquired(w->noted, note);
	return true;
}

/* Whether no frame is left to fill. Then a page of a range that is only filled stays on the host if
 * it is absent there, by an entry that was loaded after this was seen. */
__device__ static inline bool weir_paged_full(struct weir_paged_warp *w)
{
	const struct pt_table *t = &w->view->table;

	if (!(w->placed & WEIR_PAGED_FULL) &&
	    pt_load(&t->shared->fill, PT_ACQUIRE) >= t->nr_frames) {
		w->placed |= WEIR_PAGED_FULL;
		w->noted = weir_paged_acquired(w->noted, 0);
	}
	return w->placed & WEIR_PAGED_FULL;
}

/* Whether a page that is on the host is one to use there, for which nobody need be asked: it is not
 * to be brought in, and the access is brief or the range does not change; or no frame is left for
 * it. What is in a frame has better be found there. */
__device__ static inline bool weir_paged_stays(struct weir_paged_warp *w, uint32_t range,
					       uint64_t offset, uint32_t op)
{
	const struct pt_range *r = &w->view->range[range];

	if ((op & PT_STAY || weir_paged_uncounted(w, offset, op)) &&
	    (weir_paged_brief(op) || r->read_only))
		return weir_paged_right(w, range, offset, op);
	return r->fill_only && weir_paged_full(w) && weir_paged_right(w, range, offset, op);
}

/* Without a call: a frame, or the host's bytes, which has no flags. */
__device__ static inline void weir_paged_at_once(struct weir_paged_warp *w, uint32_t range,
						 uint64_t offset, uint32_t op,
						 struct weir_paged_place *place)
{
	uint64_t entry = weir_paged_entry(w, range, offset);

	place->addr = weir_paged_in_frame(w, range, entry, offset, op & PT_WRITE);
	if (place->addr || (op & PT_WRITE && w->view->range[range].read_only) ||
	    !weir_paged_on_host(entry) || !weir_paged_stays(w, range, offset, op))
		return;
	place->addr = (unsigned char *)w->view->range[range].host + offset;
	place->flags = 0;
}

/* All lanes of the warp; placed: whether this one's nr accesses are in place. */
__device__ static inline void weir_paged_place_together(struct weir_paged_warp *w, uint64_t id,
							bool placed, uint32_t nr)
{
	uint32_t group;

	if (!__any_sync(w->lanes, placed))
		return;
	group = __match_any_sync(w->lanes, placed ? id : WEIR_PAGED_NOTHING);
	if (placed && weir_paged_leads(group))
		weir_paged_placed(w, (uint32_t)(id >> PT_PAGE_BITS), nr);
}

/* What is no hit for some lane that is here. place: a hit; or the host's bytes, to be counted; or
 * NULL and what page is wanted. */
__device__ static inline void weir_paged_miss(struct weir_paged_warp *w, uint64_t offset,
					      uint32_t op, struct weir_paged_place *place)
{
	uint32_t rest = (uint32_t)(offset & ((1ull << w->view->page_shift) - 1));
	bool placed = place->addr && !place->flags;
	struct weir_paged_reached to = {};

	if (weir_paged_together(w)) {
		if (!__any_sync(w->lanes, !place->addr || placed))
			return;
		weir_paged_place_together(w, place->id, placed, weir_paged_elements(op));
		if (!__any_sync(w->lanes, !place->addr))
			return;
		to = weir_paged_far(weir_paged_reach)(w->view, w->slot, w->lanes,
						      place->addr ? WEIR_PAGED_NOTHING : place->id,
						      rest, op, w->noted);
	} else {
		if (placed)
			weir_paged_placed(w, (uint32_t)(place->id >> PT_PAGE_BITS),
					  weir_paged_elements(op));
		if (place->addr)
			return;
		to = weir_paged_far(weir_paged_reach_alone)(w->view, w->slot, place->id, rest, op,
							    w->noted);
	}
	w->noted = to.noted;
	w->nr_since = WEIR_PAGED_POLL_EVERY;
	if (place->addr)
		return;
	place->addr = to.addr;
	place->flags = to.flags;
}

/* Where an access to sizeof(T) bytes at index may go. */
template <typename T>
__device__ static inline struct weir_paged_place
weir_paged_find(struct weir_paged_warp *w, uint32_t range, uint64_t index, uint32_t op)
{
	struct weir_paged_place place = {nullptr, WEIR_PAGED_OUTSIDE(range), WEIR_PAGED_FRAME};
	uint64_t offset = index * sizeof(T);

	if (weir_paged_there<T>(w, range, index)) {
		place.id = PT_ID(range, offset >> w->view->page_shift);
		if (!(op & PT_PIN))
			weir_paged_at_once(w, range, offset, op, &place);
	}
	weir_paged_miss(w, offset, op, &place);
	return place;
}

/* The access to a place is over. */
__device__ static inline void weir_paged_done(const struct weir_paged_warp *w,
					      const struct weir_paged_place *place)
{
	if (place->flags & WEIR_PAGED_PINNED)
		pt_unpin(&w->view->table, place->id);
}

/* ------------------------------------------------------------------ elements and spans */

/* index: in elements of T, whose size divides 4096, so that no page's end cuts one. What is outside
 * the range reads as 0. */
template <typename T>
__device__ static inline T weir_paged_read(struct weir_paged_warp *w, uint32_t range,
					   uint64_t index)
{
	struct weir_paged_place place = weir_paged_find<T>(w, range, index, PT_READ);

	return place.addr ? *(const T *)place.addr : T();
}

/* weir_paged_read() of data that is touched once: a page that is not there is left where it is, and
 * read over the link. */
template <typename T>
__device__ static inline T weir_paged_read_once(struct weir_paged_warp *w, uint32_t range,
						uint64_t index)
{
	struct weir_paged_place place = weir_paged_find<T>(w, range, index, PT_READ | PT_STAY);

	return place.addr ? *(const T *)place.addr : T();
}

/* again: whether it may be read again soon; if not, it is the first to leave the L2 cache. */
template <bool again, typename T> __device__ static inline T weir_paged_load(const T *at)
{
#ifdef __CUDA_ARCH__
	if (!again)
		return __ldcs(at);
#endif
	return *at;
}

/* weir_paged_read_n() of elements that are there and in one page, which is one access. All lanes of
 * the warp, or one that is apart. */
template <typename T, uint32_t nr, bool again>
__device__ static inline void weir_paged_read_page(struct weir_paged_warp *w, uint32_t range,
						   const uint64_t (&index)[nr], T (&value)[nr])
{
	struct weir_paged_place place =
		weir_paged_find<T>(w, range, index[0], PT_READ | WEIR_PAGED_MORE(nr - 1));

#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		value[i] = place.addr ? weir_paged_load<again>((const T *)place.addr +
							       (int64_t)(index[i] - index[0]))
				      : T();
}

/*
 * weir_paged_read() of several elements, whose loads are under way at the same time. Those that lie
 * in one page are one access, and count as one touch. Where few are
 * read twice, say so by again: then they leave the pages' entries in the L2 cache. T is then a type
 * that __ldcs() takes.
 */
template <typename T, uint32_t nr, bool again = true>
__device__ static inline void weir_paged_read_n(struct weir_paged_warp *w, uint32_t range,
						const uint64_t (&index)[nr], T (&value)[nr])
{
	const struct weir_paged_view *v = w->view;
	uint64_t entry[nr];
	uint32_t missed = 0;
	bool together, one = true;

	static_assert(nr <= 32, "a bit each");
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		entry[i] = weir_paged_there<T>(w, range, index[i])
				   ? weir_paged_entry(w, range, index[i] * sizeof(T))
				   : 0;
#pragma unroll
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t rest = index[i] * sizeof(T) & ((1ull << v->page_shift) - 1);

		if (pt_hit(entry[i], false) && pt_settled(entry[i], w->epoch))
			value[i] = weir_paged_load<again>(
				(const T *)(weir_paged_frame(v, pt_frame_of(entry[i])) + rest));
		else
			missed |= 1u << i;
	}
	together = weir_paged_together(w);
	if (!(together ? __any_sync(w->lanes, missed) : missed))
		return;
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		one = one && weir_paged_there<T>(w, range, index[i]) &&
		      index[i] * sizeof(T) >> v->page_shift ==
			      index[0] * sizeof(T) >> v->page_shift;
	if (together ? __all_sync(w->lanes, one) : one) {
		weir_paged_read_page<T, nr, again>(w, range, index, value);
		return;
	}
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		if (together ? __any_sync(w->lanes, missed >> i & 1) : missed >> i & 1)
			value[i] = weir_paged_read<T>(w, range, index[i]);
}

/* weir_paged_read() of index, index + apart, ...: with one translation where they lie in one page,
 * as they do for a warp that goes through a table in order with apart = 32. With apart = 1 it reads
 * what a page's end may cut: the 3 words of the i-th struct of 12 bytes are those from 3 * i on. */
template <typename T, uint32_t nr, uint32_t apart>
__device__ static inline void weir_paged_read_row(struct weir_paged_warp *w, uint32_t range,
						  uint64_t index, T (&value)[nr])
{
	const uint64_t bytes = ((uint64_t)(nr - 1) * apart + 1) * sizeof(T);
	uint64_t page_bytes = 1ull << w->view->page_shift, offset = index * sizeof(T);
	const T *at = nullptr;

	if ((offset & (page_bytes - 1)) + bytes <= page_bytes &&
	    weir_paged_there<T>(w, range, index + (nr - 1) * apart))
		at = (const T *)weir_paged_in_frame(w, range, weir_paged_entry(w, range, offset),
						    offset, false);
	if (weir_paged_together(w) ? __all_sync(w->lanes, at != nullptr) : at != nullptr) {
#pragma unroll
		for (uint32_t i = 0; i < nr; i++)
			value[i] = at[i * apart];
		return;
	}
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		value[i] = weir_paged_read<T>(w, range, index + (uint64_t)i * apart);
}

/* @return whether it was written: not outside the range, nor if that is read-only */
template <typename T>
__device__ static inline bool weir_paged_write(struct weir_paged_warp *w, uint32_t range,
					       uint64_t index, T value)
{
	struct weir_paged_place place = weir_paged_find<T>(w, range, index, PT_WRITE);

	if (!place.addr)
		return false;
	*(T *)place.addr = value;
	weir_paged_done(w, &place);
	return true;
}

/*
 * Atomic operations at device scope, in the frame or in place. As CUDA's functions of their names,
 * for the same types.
 * *old: what was there; may be NULL. @return as weir_paged_write().
 */
#define WEIR_PAGED_ATOMIC(name, function)                                                      \
	template <typename T>                                                                  \
	__device__ static inline bool name(struct weir_paged_warp *w, uint32_t range,          \
					   uint64_t index, T value, T *old = nullptr)          \
	{                                                                                      \
		struct weir_paged_place place = weir_paged_find<T>(w, range, index, PT_WRITE); \
		T was;                                                                         \
                                                                                               \
		if (!place.addr)                                                               \
			return false;                                                          \
		was = function((T *)place.addr, value);                                        \
		if (old)                                                                       \
			*old = was;                                                            \
		weir_paged_done(w, &place);                                                    \
		return true;                                                                   \
	}
WEIR_PAGED_ATOMIC(weir_paged_atomic_add, atomicAdd)
WEIR_PAGED_ATOMIC(weir_paged_atomic_min, atomicMin)
WEIR_PAGED_ATOMIC(weir_paged_atomic_max, atomicMax)
WEIR_PAGED_ATOMIC(weir_paged_atomic_exch, atomicExch)
WEIR_PAGED_ATOMIC(weir_paged_atomic_or, atomicOr)
#undef WEIR_PAGED_ATOMIC

/* atomicCAS(): value is stored if *expected was there; *expected becomes what was. */
template <typename T>
__device__ static inline bool weir_paged_atomic_cas(struct weir_paged_warp *w, uint32_t range,
						    uint64_t index, T *expected, T value)
{
	struct weir_paged_place place = weir_paged_find<T>(w, range, index, PT_WRITE);

	if (!place.addr)
		return false;
	*expected = atomicCAS((T *)place.addr, *expected, value);
	weir_paged_done(w, &place);
	return true;
}

/* A hint: the page of this element will be used (bring it in), or will not (evict it first).
 * Contents never change by it. Lanes apart from their warp: nothing. */
__device__ static inline void weir_paged_hint(struct weir_paged_warp *w, uint64_t id, uint32_t op)
{
	if (!weir_paged_together(w))
		return;
	weir_paged_far(weir_paged_reach)(w->view, w->slot, w->lanes, id, 0, op, w->noted);
	w->nr_since = WEIR_PAGED_POLL_EVERY;
}

template <typename T>
__device__ static inline void weir_paged_prefetch(struct weir_paged_warp *w, uint32_t range,
						  uint64_t index)
{
	weir_paged_hint(w,
			weir_paged_there<T>(w, range, index)
				? PT_ID(range, index * sizeof(T) >> w->view->page_shift)
				: WEIR_PAGED_NOTHING,
			PT_PREFETCH);
}

template <typename T>
__device__ static inline void weir_paged_drop(struct weir_paged_warp *w, uint32_t range,
					      uint64_t index)
{
	weir_paged_hint(w,
			weir_paged_there<T>(w, range, index)
				? PT_ID(range, index * sizeof(T) >> w->view->page_shift)
				: WEIR_PAGED_NOTHING,
			PT_DROP);
}

/* A lane's translation of one page, for elements that lie together. Zeroed at first. */
struct weir_paged_cursor {
	unsigned char *page; /* where it begins */
	uint64_t id;
	uint32_t epoch; /* at which it was found: it is good as long as the warp is at that */
};

/* weir_paged_read() of what is mostly in the page of the read before. */
template <typename T>
__device__ static inline T weir_paged_read_near(struct weir_paged_warp *w,
						struct weir_paged_cursor *c, uint32_t range,
						uint64_t index)
{
	uint64_t offset = index * sizeof(T), id = PT_ID(range, offset >> w->view->page_shift);
	uint64_t rest = offset & ((1ull << w->view->page_shift) - 1);
	bool near = id == c->id && w->epoch == c->epoch && weir_paged_there<T>(w, range, index);
	struct weir_paged_place place;

	if (weir_paged_together(w) ? __all_sync(w->lanes, near) : near)
		return *(const T *)(c->page + rest);
	place = weir_paged_find<T>(w, range, index, PT_READ);
	if (!place.addr)
		return T();
	if (place.flags & WEIR_PAGED_FRAME) {
		c->page = place.addr - rest;
		c->id = id;
		c->epoch = w->epoch;
	}
	return *(const T *)place.addr;
}

/*
 * An address up to the end of its page, until weir_paged_span_put(). op: PT_READ or PT_WRITE, with
 * PT_PIN to pass quiescent points meanwhile, and PT_TOUCHES() if it counts as more than one, or is
 * a small part of what one would be: best in sectors of 32 bytes that are used. NULL: outside the
 * range, or it is read-only.
 */
__device__ static inline void *weir_paged_span_get(struct weir_paged_warp *w, uint32_t range,
						   uint64_t offset, uint32_t op,
						   struct weir_paged_place *span)
{
	*span = weir_paged_find<unsigned char>(w, range, offset, op | PT_SPAN);
	w->nr_held += span->flags == WEIR_PAGED_FRAME;
	return span->addr;
}

/* The span is over. One that was put, or got NULL, may be put again, which does nothing. */
__device__ static inline void weir_paged_span_put(struct weir_paged_warp *w,
						  struct weir_paged_place *span)
{
	w->nr_held -= span->flags == WEIR_PAGED_FRAME;
	weir_paged_done(w, span);
	span->addr = nullptr;
	span->flags = 0;
}

#include "weir/paging/scope.cuh"

#endif
