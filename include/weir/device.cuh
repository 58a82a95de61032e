/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paged memory for CUDA kernels, over the same step machine as the CPU's agents. It becomes a
 * public header with the host's side of it.
 *
 * A warp comes online with all its lanes together, uses elements and spans, passes quiescent
 * points, and leaves. Lanes that want the same page at the same time form a group, whose first
 * lane steps; all lanes that miss at the same time copy for each of them. A hit is one load of the
 * entry a lane, without the others.
 *
 *     struct weir_paged_warp w = weir_paged_enter(&view);
 *     for (...) {
 *             x = weir_paged_read<float>(&w, range, index);
 *             ...
 *             weir_paged_quiesce(&w);
 *     }
 *     weir_paged_leave(&w);
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
	uint32_t nr_held;  /* this lane's unpinned spans */
	uint32_t nr_since; /* a lane's: quiescent points since the epoch was looked at */
};

#define WEIR_PAGED_PINNED 1u /* weir_paged_done() gives a pin back */
#define WEIR_PAGED_FRAME 2u  /* it is in a frame: as good as a hit */

/* Where an access may go; for those that hold a pin, until weir_paged_done(). */
struct weir_paged_place {
	unsigned char *addr; /* NULL: there is no such element, or it may not be written */
	uint64_t id;
	uint32_t group;
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
					       uint64_t id, enum weir_paged_event event)
{
	uint32_t range = (uint32_t)(id >> PT_PAGE_BITS);

	pt_add(&v->counts[slot % WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX + range].nr[event], 1,
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

/* Whether every slot is at this epoch, or offline: pt_slot_lags() of all of them, but with one
 * fence for what was loaded relaxed. */
__device__ __noinline__ static bool weir_paged_scan(const struct pt_table *t, uint64_t global,
						    uint32_t group)
{
	uint32_t rank = __popc(group & ((1u << weir_paged_lane()) - 1)), lanes = __popc(group);
	bool lags = false;

#pragma unroll 2
	for (uint32_t i = rank; i < t->nr_slots; i += lanes) {
		uint64_t epoch = pt_load(&t->slot[i], PT_RELAXED);

		lags |= epoch && epoch != global;
	}
	pt_fence_sc(&t->shared->fence);
	return !__any_sync(group, lags);
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

/* What lane `who` needs all lanes for, as its agent says. */
__device__ __noinline__ static void weir_paged_help(const struct weir_paged_view *v,
						    struct pt_agent *a, uint32_t lanes, int who,
						    int verdict)
{
	uint32_t frame = __shfl_sync(lanes, a->frame, who);
	uint64_t page = 0;
	bool ok;

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
		ok = weir_paged_scan(&v->table, __shfl_sync(lanes, a->global, who), lanes);
		if (weir_paged_lane() == (uint32_t)who)
			a->scan_ok = ok;
	}
	if (weir_paged_lane() != (uint32_t)who)
		return;
	if (verdict == PT_SCAN)
		weir_paged_count(v, a->slot, 0, WEIR_PAGED_SCAN);
	else
		weir_paged_count(v, a->slot, page,
				 verdict == PT_COPY_IN ? WEIR_PAGED_IN : WEIR_PAGED_OUT);
}

/*
 * Bring the agents of some lanes (verdict: not final) to the end of what they began. All lanes call
 * it: agents are stepped by their own lanes at the same time, then all lanes copy for each in turn.
 * Lanes' stores are ordered before an agent's next step by the barrier.
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
		todo = __ballot_sync(lanes, verdict == PT_COPY_IN || verdict == PT_COPY_OUT);
		if (scans) /* first: it holds a lock */
			todo = scans;
		if (!todo && verdict == PT_WAIT) {
			weir_paged_count(v, a->slot, a->id, WEIR_PAGED_WAIT);
			__nanosleep(100);
		}
#pragma unroll 1
		for (; todo; todo &= todo - 1)
			weir_paged_help(v, a, lanes, __ffs(todo) - 1, verdict);
		__syncwarp(lanes);
	}
	return verdict;
}

/* ------------------------------------------------------------------ epochs */

struct weir_paged_online {
	uint32_t epoch;
	uint32_t slot;
};

/* A slot that no online warp has, by one lane, which announces in it. There are as many as warps
 * can be resident, so one is free at any time; and who has one is resident: nobody waits for a warp
 * that has not started. */
__device__ static inline void weir_paged_slot_take(const struct pt_table *t, struct pt_agent *a)
{
	uint64_t nobody = 0;

	a->slot = weir_paged_hint() % t->nr_slots;
	a->global = pt_load(&t->shared->epoch, PT_ACQUIRE);
#pragma unroll 1
	while (!pt_cas(&t->slot[a->slot], &nobody, a->global)) {
		a->slot = a->slot + 1 == t->nr_slots ? 0 : a->slot + 1;
		nobody = 0;
	}
	pt_entered(a);
}

__device__ __noinline__ static struct weir_paged_online
weir_paged_come_online(const struct weir_paged_view *v, uint32_t lanes)
{
	struct pt_agent a = {};
	struct weir_paged_online online;
	int leader = __ffs(lanes) - 1;

	if (weir_paged_leads(lanes))
		weir_paged_slot_take(&v->table, &a);
	weir_paged_drive(v, &a, lanes, weir_paged_leads(lanes) ? PT_AGAIN : PT_DONE);
	online.epoch = (uint32_t)__shfl_sync(lanes, a.epoch, leader);
	online.slot = __shfl_sync(lanes, a.slot, leader);
	return online;
}

/* With all lanes that will ever use it together. */
__device__ static inline struct weir_paged_warp weir_paged_enter(const struct weir_paged_view *v)
{
	uint32_t lanes = __activemask();
	struct weir_paged_online online = weir_paged_come_online(v, lanes);
	struct weir_paged_warp w = {v, online.epoch, online.slot, lanes, 0, 0};

	return w;
}

/*
 * Look at the epoch. If it moved on, announce what all lanes have acquired; if it did not, and a
 * page was met that is too young for plain hits (slow), try sometimes to advance it: otherwise it
 * would stay so while nobody needs frames.
 */
__device__ __noinline__ static uint32_t weir_paged_look(const struct weir_paged_view *v,
							uint32_t slot, uint32_t lanes, bool slow)
{
	uint64_t epoch = pt_load(&v->table.slot[slot], PT_RELAXED);
	uint64_t global = pt_load(&v->table.shared->epoch, PT_RELAXED);
	struct pt_agent a = {};

	if (__all_sync(lanes, global == epoch)) {
		uint32_t leader = (uint32_t)__ffs(lanes) - 1;

		slow = slow && __shfl_sync(lanes, weir_paged_clock(), leader) / 64 %
					       WEIR_PAGED_ADVANCE_EVERY ==
				       0;
		if (!slow)
			return (uint32_t)epoch;
		a.slot = slot;
		pt_advance(&a);
		weir_paged_drive(v, &a, lanes, weir_paged_leads(lanes) ? PT_AGAIN : PT_DONE);
	}
	global = pt_load(&v->table.shared->epoch, PT_ACQUIRE);
	global = epoch + __reduce_min_sync(lanes, (unsigned)(global - epoch));
	__syncwarp(lanes);
	if (global != epoch && weir_paged_leads(lanes))
		pt_store(&v->table.slot[slot], global, PT_RELEASE);
	__syncwarp(lanes);
	return (uint32_t)global;
}

/* Pass a quiescent point, if all lanes are together and none holds an unpinned span; else nothing:
 * frames are then reused later. Cheap: the epoch is looked at now and then, or after a slow
 * access. */
__device__ static inline void weir_paged_quiesce(struct weir_paged_warp *w)
{
	bool slow;

	w->nr_since++;
	if (__activemask() != w->lanes ||
	    !__any_sync(w->lanes, w->nr_since >= WEIR_PAGED_POLL_EVERY) ||
	    __any_sync(w->lanes, w->nr_held != 0))
		return;
	slow = __any_sync(w->lanes, w->nr_since > WEIR_PAGED_POLL_EVERY);
	w->nr_since = 0;
	w->epoch = weir_paged_look(w->view, w->slot, w->lanes, slow);
}

__device__ static inline void weir_paged_leave(struct weir_paged_warp *w)
{
	__syncwarp(w->lanes);
	if (weir_paged_leads(w->lanes))
		pt_store(&w->view->table.slot[w->slot], 0, PT_RELEASE);
}

/* ------------------------------------------------------------------ places */

struct weir_paged_reached {
	unsigned char *addr;
	uint32_t group;
	uint32_t flags;
};

/*
 * The slow path. Lanes that are here together, for the same of one pool (compilers may make one
 * call of several), help each other; of those that want the same page the first one has the agent.
 */
__device__ __noinline__ static struct weir_paged_reached
weir_paged_reach(const struct weir_paged_view *v, uint32_t slot, uint64_t id, uint32_t rest,
		 uint32_t op)
{
	uint32_t lanes =
		__match_any_sync(__activemask(), (unsigned long long)(uintptr_t)v << 5 | op);
	struct weir_paged_reached to = {};
	struct pt_agent a = {};
	int verdict = PT_DONE, leader;

	to.group = __match_any_sync(lanes, (unsigned long long)id);
	leader = __ffs(to.group) - 1;
	if (weir_paged_leads(to.group)) {
		a.slot = slot;
		a.epoch = pt_load(&v->table.slot[slot], PT_RELAXED);
		verdict = pt_begin(&v->table, &a, id, op);
	}
	verdict = weir_paged_drive(v, &a, lanes, verdict);
	verdict = __shfl_sync(lanes, verdict, leader);
	a.frame = __shfl_sync(lanes, a.frame, leader);
	a.pinned = __shfl_sync(lanes, a.pinned, leader);
	to.flags = (a.pinned ? WEIR_PAGED_PINNED : 0) | (verdict == PT_HIT ? WEIR_PAGED_FRAME : 0);
	if (verdict == PT_HIT)
		to.addr = weir_paged_frame(v, a.frame) + rest;
	else if (verdict == PT_IN_PLACE)
		to.addr = weir_paged_host(v, id) + rest;
	if (verdict != PT_HIT && weir_paged_leads(to.group))
		weir_paged_count(v, slot, id,
				 verdict == PT_IN_PLACE ? WEIR_PAGED_IN_PLACE : WEIR_PAGED_REFUSED);
	return to;
}

/* Count an access outside its range. */
__device__ __noinline__ static void weir_paged_refuse(const struct weir_paged_view *v,
						      uint32_t slot, uint32_t range)
{
	weir_paged_count(v, slot, PT_ID(range < WEIR_PAGED_RANGES_MAX ? range : 0, 0),
			 WEIR_PAGED_REFUSED);
}

/* Whether there is such an element; if not, that is counted. */
template <typename T>
__device__ static inline bool weir_paged_there(const struct weir_paged_warp *w, uint32_t range,
					       uint64_t index)
{
	if (range < WEIR_PAGED_RANGES_MAX && index < w->view->range[range].bytes / sizeof(T))
		return true;
	weir_paged_refuse(w->view, w->slot, range);
	return false;
}

/* The hit path, of what is there: NULL if it is no hit. */
__device__ static inline unsigned char *weir_paged_hit(const struct weir_paged_warp *w,
						       uint32_t range, uint64_t offset, bool write)
{
	const struct weir_paged_view *v = w->view;
	uint64_t entry = pt_load(&v->range[range].entry[offset >> v->page_shift], PT_RELAXED);

	if (!pt_hit(entry, write) || !pt_settled(entry, w->epoch))
		return nullptr;
	return weir_paged_frame(v, pt_frame_of(entry)) + (offset & ((1ull << v->page_shift) - 1));
}

/* offset is inside the range. */
__device__ static inline struct weir_paged_place
weir_paged_find(struct weir_paged_warp *w, uint32_t range, uint64_t offset, uint32_t op)
{
	const struct weir_paged_view *v = w->view;
	struct weir_paged_place place = {nullptr, PT_ID(range, offset >> v->page_shift), 0,
					 WEIR_PAGED_FRAME};
	struct weir_paged_reached reached;

	if (!(op & PT_PIN))
		place.addr = weir_paged_hit(w, range, offset, op & PT_WRITE);
	if (place.addr)
		return place;
	w->nr_since = WEIR_PAGED_POLL_EVERY;
	reached = weir_paged_reach(v, w->slot, place.id,
				   (uint32_t)(offset & ((1ull << v->page_shift) - 1)), op);
	place.addr = reached.addr;
	place.group = reached.group;
	place.flags = reached.flags;
	return place;
}

/* The access to a place is over. The group's pin is given back by one lane, after all of them. */
__device__ static inline void weir_paged_done(const struct weir_paged_warp *w,
					      const struct weir_paged_place *place)
{
	if (!(place->flags & WEIR_PAGED_PINNED))
		return;
	__syncwarp(place->group);
	if (weir_paged_leads(place->group))
		pt_unpin(&w->view->table, place->id);
}

/* ------------------------------------------------------------------ elements and spans */

/* index: in elements of T, whose size divides the page's. What is outside the range reads as 0. */
template <typename T>
__device__ static inline T weir_paged_read(struct weir_paged_warp *w, uint32_t range,
					   uint64_t index)
{
	struct weir_paged_place place;

	if (!weir_paged_there<T>(w, range, index))
		return T();
	place = weir_paged_find(w, range, index * sizeof(T), PT_READ);
	return place.addr ? *(const T *)place.addr : T();
}

/* weir_paged_read() of several elements, whose loads are under way at the same time. */
template <typename T, uint32_t nr>
__device__ static inline void weir_paged_read_n(struct weir_paged_warp *w, uint32_t range,
						const uint64_t (&index)[nr], T (&value)[nr])
{
	const struct weir_paged_view *v = w->view;
	uint64_t entry[nr];
	uint32_t missed = 0;

	static_assert(nr <= 32, "a bit each");
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		entry[i] = !weir_paged_there<T>(w, range, index[i])
				   ? 0
				   : pt_load(&v->range[range]
						      .entry[index[i] * sizeof(T) >> v->page_shift],
					     PT_RELAXED);
#pragma unroll
	for (uint32_t i = 0; i < nr; i++) {
		if (pt_hit(entry[i], false) && pt_settled(entry[i], w->epoch))
			value[i] = *(
				const T *)(weir_paged_frame(v, pt_frame_of(entry[i])) +
					   (index[i] * sizeof(T) & ((1ull << v->page_shift) - 1)));
		else
			missed |= 1u << i;
	}
	if (!missed)
		return;
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		if (missed >> i & 1)
			value[i] = weir_paged_read<T>(w, range, index[i]);
}

/* Where one element may be written; no address: outside the range, or that is read-only. */
template <typename T>
__device__ static inline struct weir_paged_place
weir_paged_find_write(struct weir_paged_warp *w, uint32_t range, uint64_t index)
{
	struct weir_paged_place nowhere = {nullptr, 0, 0, 0};

	return weir_paged_there<T>(w, range, index)
		       ? weir_paged_find(w, range, index * sizeof(T), PT_WRITE)
		       : nowhere;
}

/* @return whether it was written: not outside the range, nor if that is read-only */
template <typename T>
__device__ static inline bool weir_paged_write(struct weir_paged_warp *w, uint32_t range,
					       uint64_t index, T value)
{
	struct weir_paged_place place = weir_paged_find_write<T>(w, range, index);

	if (!place.addr)
		return false;
	*(T *)place.addr = value;
	weir_paged_done(w, &place);
	return true;
}

/* atomicAdd(), at device scope, in the frame or in place. */
template <typename T>
__device__ static inline bool weir_paged_atomic_add(struct weir_paged_warp *w, uint32_t range,
						    uint64_t index, T value)
{
	struct weir_paged_place place = weir_paged_find_write<T>(w, range, index);

	if (!place.addr)
		return false;
	atomicAdd((T *)place.addr, value);
	weir_paged_done(w, &place);
	return true;
}

/* A lane's translation of one page, for elements that lie together. Zeroed at first. */
struct weir_paged_cursor {
	unsigned char *page; /* where it begins */
	uint64_t number;
	uint32_t epoch; /* at which it was found: it is good as long as the warp is at that */
};

/* weir_paged_read() of what is mostly in the page of the read before, in the same range. */
template <typename T>
__device__ static inline T weir_paged_read_near(struct weir_paged_warp *w,
						struct weir_paged_cursor *c, uint32_t range,
						uint64_t index)
{
	uint64_t offset = index * sizeof(T), number = offset >> w->view->page_shift;
	uint32_t rest = (uint32_t)(offset & ((1ull << w->view->page_shift) - 1));
	struct weir_paged_place place;

	if (!weir_paged_there<T>(w, range, index))
		return T();
	if (number == c->number && w->epoch == c->epoch)
		return *(const T *)(c->page + rest);
	place = weir_paged_find(w, range, offset, PT_READ);
	if (place.addr && place.flags & WEIR_PAGED_FRAME) {
		c->page = place.addr - rest;
		c->number = number;
		c->epoch = w->epoch;
	}
	return place.addr ? *(const T *)place.addr : T();
}

/* weir_paged_read_near() of several elements, `apart` from each other, in order: at once where they
 * lie in the page of the read before. */
template <typename T, uint32_t nr>
__device__ static inline void weir_paged_read_row(struct weir_paged_warp *w,
						  struct weir_paged_cursor *c, uint32_t range,
						  uint64_t index, uint32_t apart, T (&value)[nr])
{
	uint64_t offset = index * sizeof(T), last = index + (uint64_t)(nr - 1) * apart;
	uint32_t rest = (uint32_t)(offset & ((1ull << w->view->page_shift) - 1));

	if (offset >> w->view->page_shift == c->number && w->epoch == c->epoch &&
	    last * sizeof(T) >> w->view->page_shift == c->number &&
	    weir_paged_there<T>(w, range, last)) {
#pragma unroll
		for (uint32_t i = 0; i < nr; i++)
			value[i] = ((const T *)(c->page + rest))[i * apart];
		return;
	}
#pragma unroll
	for (uint32_t i = 0; i < nr; i++)
		value[i] = weir_paged_read_near<T>(w, c, range, index + (uint64_t)i * apart);
}

/*
 * An address up to the end of its page, until weir_paged_span_put() by the same lanes together. op:
 * PT_READ or PT_WRITE, with PT_PIN to pass quiescent points meanwhile. NULL: outside the range, or
 * it is read-only.
 */
__device__ static inline void *weir_paged_span_get(struct weir_paged_warp *w, uint32_t range,
						   uint64_t offset, uint32_t op,
						   struct weir_paged_place *span)
{
	*span = {};
	if (!weir_paged_there<unsigned char>(w, range, offset))
		return nullptr;
	*span = weir_paged_find(w, range, offset, op | PT_SPAN);
	w->nr_held += span->addr && !(span->flags & WEIR_PAGED_PINNED);
	return span->addr;
}

__device__ static inline void weir_paged_span_put(struct weir_paged_warp *w,
						  const struct weir_paged_place *span)
{
	w->nr_held -= span->addr && !(span->flags & WEIR_PAGED_PINNED);
	weir_paged_done(w, span);
}

#endif
