/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory for CUDA kernels, over the same step machine as the CPU's agents: a draft. It is
 * compiled, and the registers that it takes are checked; it has not run on a GPU yet. It becomes a
 * public header once it has.
 *
 * A warp comes online with all its lanes together, uses elements and spans, passes quiescent
 * points, and leaves. Lanes that want the same page at the same time form a group: its first lane
 * steps, the verdict goes to all, and all of them copy. A hit is one load of the entry a lane,
 * without a group.
 *
 *     struct paged_warp w;
 *     paged_enter(&w, &view, warp_number);
 *     for (...) {
 *             x = paged_read<float>(&w, range, index);
 *             ...
 *             paged_quiesce(&w);
 *     }
 *     paged_leave(&w);
 */
#ifndef WEIR_PAGING_DEVICE_CUH
#define WEIR_PAGING_DEVICE_CUH

#include "src/paging/pt_step.h"

/* What a kernel gets, as a __grid_constant__ argument. */
struct paged_view {
	struct pt_table table;
	unsigned char *frames; /* each aligned to 16, as the hosts' bytes are */
	uint32_t page_shift;
};

/* A warp's; the same in all its lanes. */
struct paged_warp {
	const struct paged_view *view;
	uint64_t epoch;
	uint32_t slot;
	uint32_t lanes;	  /* that were together at paged_enter() */
	uint32_t nr_held; /* this lane's unpinned spans */
};

/* Where an access may go; for those that hold a pin, until paged_done(). */
struct paged_place {
	unsigned char *addr;
	uint64_t id;
	uint32_t group;
	bool pinned;
};

__device__ static inline uint32_t paged_lane()
{
	uint32_t lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

__device__ static inline unsigned char *paged_host(const struct paged_view *v, uint64_t id)
{
	return (unsigned char *)v->table.range[id >> PT_PAGE_BITS].host +
	       ((id & (PT_PAGE_MAX - 1)) << v->page_shift);
}

__device__ static inline unsigned char *paged_frame(const struct paged_view *v, uint32_t frame)
{
	return v->frames + ((uint64_t)frame << v->page_shift);
}

/* Copy a page with all lanes of the group: to its frame, or from it. Not unrolled, since what is
 * called sets a kernel's registers; enough warps keep the link busy without. */
__device__ __noinline__ static void paged_copy(const struct paged_view *v, uint64_t id,
					       uint32_t frame, bool in, uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << paged_lane()) - 1)), lanes = __popc(group);
	uint64_t left = v->table.range[id >> PT_PAGE_BITS].bytes -
			((id & (PT_PAGE_MAX - 1)) << v->page_shift);
	uint32_t bytes = left >> v->page_shift ? 1u << v->page_shift : (uint32_t)left;
	unsigned char *host = paged_host(v, id), *there = paged_frame(v, frame);
	const unsigned char *from = in ? host : there;
	unsigned char *to = in ? there : host;

#pragma unroll 1
	for (uint32_t at = rank * 16; at < (bytes & ~15u); at += lanes * 16)
		*(int4 *)(to + at) = *(const int4 *)(from + at);
#pragma unroll 1
	for (uint32_t at = (bytes & ~15u) + rank; at < bytes; at += lanes)
		to[at] = from[at];
}

/* Whether every slot is at this epoch, or offline. */
__device__ __noinline__ static bool paged_scan(const struct pt_table *t, uint64_t global,
					       uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << paged_lane()) - 1)), lanes = __popc(group);
	bool lags = false;

#pragma unroll 1
	for (uint32_t i = rank; i < t->nr_slots; i += lanes)
		lags |= pt_slot_lags(t, i, global);
	return !__any_sync(group, lags);
}

/* Step to where other lanes are needed. Not inlined, for the same reason. */
__device__ __noinline__ static int paged_steps(const struct pt_table *t, struct pt_agent *a)
{
	enum pt_do verdict;

#pragma unroll 1
	do {
		verdict = pt_step(t, a);
		if (verdict == PT_WAIT)
			__nanosleep(100);
	} while (verdict <= PT_WAIT);
	return verdict;
}

/* Lead a group's agent to the end of what it began. Every lane of the group has a copy of the
 * agent; the leader's is the one that is stepped. Lanes' stores are ordered before the leader's
 * next step by the barrier, and the leader's loads before the lanes' by the one after it. */
__device__ __noinline__ static enum pt_do paged_drive(const struct paged_view *v,
						      struct pt_agent *a, uint32_t group)
{
	int leader = __ffs(group) - 1;
	int verdict = PT_AGAIN;

#pragma unroll 1
	while (!pt_final((enum pt_do)verdict)) {
		if (paged_lane() == (uint32_t)leader)
			verdict = paged_steps(&v->table, a);
		__syncwarp(group);
		verdict = __shfl_sync(group, verdict, leader);
		a->frame = __shfl_sync(group, a->frame, leader);
		if (verdict == PT_COPY_IN) {
			paged_copy(v, a->id, a->frame, true, group);
		} else if (verdict == PT_COPY_OUT) {
			a->victim = __shfl_sync(group, a->victim, leader);
			paged_copy(v, a->victim, a->frame, false, group);
		} else if (verdict == PT_SCAN) {
			a->global = __shfl_sync(group, a->global, leader);
			a->scan_ok = paged_scan(&v->table, a->global, group);
		}
		__syncwarp(group);
	}
	a->pinned = __shfl_sync(group, a->pinned, leader);
	return (enum pt_do)verdict;
}

/* ------------------------------------------------------------------ epochs */

/* With all lanes that will ever use it together; slot: a number that no other online warp has. */
__device__ __noinline__ static void paged_enter(struct paged_warp *w, const struct paged_view *v,
						uint32_t slot)
{
	struct pt_agent a = {};

	a.slot = slot;
	w->view = v;
	w->slot = slot;
	w->lanes = __activemask();
	w->nr_held = 0;
	pt_enter(&a);
	paged_drive(v, &a, w->lanes);
	w->epoch = __shfl_sync(w->lanes, a.epoch, __ffs(w->lanes) - 1);
}

/* The epoch moved on to `global`, or beyond, as each lane has acquired: announce what all have. */
__device__ __noinline__ static uint64_t paged_announce(const struct paged_view *v, uint64_t epoch,
						       uint64_t global, uint32_t slot,
						       uint32_t lanes)
{
	global = epoch + __reduce_min_sync(lanes, (unsigned)(global - epoch));
	__syncwarp(lanes);
	if (global != epoch && paged_lane() == (uint32_t)__ffs(lanes) - 1)
		pt_store(&v->table.slot[slot], global, PT_RELEASE);
	__syncwarp(lanes);
	return global;
}

/* Pass a quiescent point, if all lanes are together and none holds an unpinned span; else nothing:
 * frames are then reused later. */
__device__ static inline void paged_quiesce(struct paged_warp *w)
{
	uint64_t global;

	if (__activemask() != w->lanes || __any_sync(w->lanes, w->nr_held != 0))
		return;
	global = pt_load(&w->view->table.shared->epoch, PT_ACQUIRE);
	if (__all_sync(w->lanes, global == w->epoch))
		return;
	w->epoch = paged_announce(w->view, w->epoch, global, w->slot, w->lanes);
}

__device__ static inline void paged_leave(struct paged_warp *w)
{
	__syncwarp(w->lanes);
	if (paged_lane() == (uint32_t)__ffs(w->lanes) - 1)
		pt_store(&w->view->table.slot[w->slot], 0, PT_RELEASE);
}

/* ------------------------------------------------------------------ places */

/* The slow path. place->addr: NULL if there is no such page, or it may not be written. */
__device__ __noinline__ static void paged_reach(const struct paged_view *v, uint64_t epoch,
						uint32_t slot, uint64_t id, uint32_t rest,
						unsigned op, struct paged_place *place)
{
	struct pt_agent a = {};
	enum pt_do verdict;

	place->group = __match_any_sync(__activemask(), id);
	a.slot = slot;
	a.epoch = epoch;
	verdict = pt_begin(&v->table, &a, id, op);
	if (!pt_final(verdict))
		verdict = paged_drive(v, &a, place->group);
	place->id = id;
	place->pinned = a.pinned;
	place->addr = verdict == PT_HIT	       ? paged_frame(v, a.frame) + rest
		      : verdict == PT_IN_PLACE ? paged_host(v, id) + rest
					       : nullptr;
}

/* A read of one element, which is never pinned. By values: what has an address is in memory. */
__device__ __noinline__ static unsigned char *paged_reach_read(const struct paged_view *v,
							       uint64_t epoch, uint32_t slot,
							       uint64_t id, uint32_t rest)
{
	struct paged_place place;

	paged_reach(v, epoch, slot, id, rest, PT_READ, &place);
	return place.addr;
}

/* The hit path: NULL if it is no hit. */
__device__ static inline unsigned char *paged_hit(const struct paged_warp *w, uint32_t range,
						  uint64_t page, uint32_t rest, bool write)
{
	const struct paged_view *v = w->view;
	uint64_t entry;

	if (page >= v->table.range[range].nr_pages)
		return nullptr;
	entry = pt_load(&v->table.range[range].entry[page], PT_RELAXED);
	if (!pt_hit(entry, write) || !pt_settled(entry, w->epoch))
		return nullptr;
	return paged_frame(v, pt_frame_of(entry)) + rest;
}

__device__ static inline void paged_place(const struct paged_warp *w, uint32_t range,
					  uint64_t offset, unsigned op, struct paged_place *place)
{
	const struct paged_view *v = w->view;
	uint64_t page = offset >> v->page_shift;
	uint32_t rest = (uint32_t)(offset & ((1ull << v->page_shift) - 1));

	place->pinned = false;
	place->addr = op & PT_PIN ? nullptr : paged_hit(w, range, page, rest, op & PT_WRITE);
	if (!place->addr)
		paged_reach(v, w->epoch, w->slot, PT_ID(range, page), rest, op, place);
}

/* The access to a place is over. The group's pin is given back by one lane, after all of them. */
__device__ static inline void paged_done(const struct paged_warp *w,
					 const struct paged_place *place)
{
	if (!place->pinned)
		return;
	__syncwarp(place->group);
	if (paged_lane() == (uint32_t)__ffs(place->group) - 1)
		pt_unpin(&w->view->table, place->id);
}

/* ------------------------------------------------------------------ elements and spans */

/* index: in elements of T, whose size divides the page's. What is outside the range reads as 0. */
template <typename T>
__device__ static inline T paged_read(const struct paged_warp *w, uint32_t range, uint64_t index)
{
	const struct paged_view *v = w->view;
	uint64_t offset = index * sizeof(T), page = offset >> v->page_shift;
	uint32_t rest = (uint32_t)(offset & ((1ull << v->page_shift) - 1));
	unsigned char *addr = paged_hit(w, range, page, rest, false);

	if (!addr)
		addr = paged_reach_read(v, w->epoch, w->slot, PT_ID(range, page), rest);
	return addr ? *(volatile const T *)addr : T();
}

/* @return whether it was written: not outside the range, nor if that is read-only */
template <typename T>
__device__ static inline bool paged_write(const struct paged_warp *w, uint32_t range,
					  uint64_t index, T value)
{
	struct paged_place place;

	paged_place(w, range, index * sizeof(T), PT_WRITE, &place);
	if (!place.addr)
		return false;
	*(volatile T *)place.addr = value;
	paged_done(w, &place);
	return true;
}

/* atomicAdd(), at device scope, in the frame or in place. */
template <typename T>
__device__ static inline bool paged_atomic_add(const struct paged_warp *w, uint32_t range,
					       uint64_t index, T value)
{
	struct paged_place place;

	paged_place(w, range, index * sizeof(T), PT_WRITE, &place);
	if (!place.addr)
		return false;
	atomicAdd((T *)place.addr, value);
	paged_done(w, &place);
	return true;
}

/*
 * An address up to the end of its page, until paged_span_put() by the same lanes together. op:
 * PT_READ or PT_WRITE, with PT_PIN to pass quiescent points meanwhile.
 */
__device__ static inline void *paged_span_get(struct paged_warp *w, uint32_t range, uint64_t offset,
					      unsigned op, struct paged_place *span)
{
	paged_place(w, range, offset, op | PT_SPAN, span);
	w->nr_held += span->addr && !span->pinned;
	return span->addr;
}

__device__ static inline void paged_span_put(struct paged_warp *w, const struct paged_place *span)
{
	w->nr_held -= span->addr && !span->pinned;
	paged_done(w, span);
}

#endif
