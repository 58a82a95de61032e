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
 * Reads that are noted, of memory that is not paged, are in weir/tracked.h, which comes with this.
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

#include "weir/paging/warp.cuh"
#include "weir/tracked.h"

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
 * another thing each time, unless the kernel repeats itself every WEIR_PAGED_POLL_EVERY points. */
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
