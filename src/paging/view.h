/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool's words and bytes as the CPU sees them, where it reaches them: finding a frame or a page's
 * bytes, counting, and what is done while nobody is online. The same for pools of the CPU's own and
 * for those of weir_paged_create() on a simulated machine.
 */
#ifndef WEIR_PAGING_VIEW_CPU_H
#define WEIR_PAGING_VIEW_CPU_H

#include "weir/paging/view.h"

/* Whether a pool may have pages of so many bytes. */
static inline bool view_page_valid(uint32_t bytes)
{
	return bytes == 4096 || bytes == 8192 || bytes == 16384 || bytes == 65536;
}

static inline uint64_t view_page_bytes(const struct weir_paged_view *v)
{
	return 1ull << v->page_shift;
}

static inline uint8_t *view_frame(const struct weir_paged_view *v, uint64_t frame)
{
	return v->frames + (frame << v->page_shift);
}

static inline uint8_t *view_host(const struct weir_paged_view *v, uint64_t id)
{
	return (uint8_t *)v->table.range[id >> PT_PAGE_BITS].host +
	       ((id & (PT_PAGE_MAX - 1)) << v->page_shift);
}

/* Bytes of a page in a range of so many; the last one may be cut short. */
static inline uint64_t view_bytes_in(const struct weir_paged_view *v, uint64_t range_bytes,
				     uint64_t page)
{
	uint64_t left = range_bytes - (page << v->page_shift);

	return left < view_page_bytes(v) ? left : view_page_bytes(v);
}

static inline uint64_t view_bytes(const struct weir_paged_view *v, uint64_t id)
{
	return view_bytes_in(v, v->table.range[id >> PT_PAGE_BITS].bytes, id & (PT_PAGE_MAX - 1));
}

/* id: the page that it happened to. */
void view_count(const struct weir_paged_view *v, uint32_t slot, uint64_t id,
		enum weir_paged_event event);

/* A scan was made, and found this slot behind; NULL: none. */
void view_count_scan(const struct weir_paged_view *v, uint32_t slot, const uint32_t *lagging);

/* Add up what all warps have counted in a range. */
void view_counts_sum(const struct weir_paged_counts *counts, uint32_t range,
		     uint64_t nr[WEIR_PAGED_EVENT_NR]);

/* Nobody is online. Write the page in a frame back if it is dirty; and evict it. */
void view_frame_clean(const struct weir_paged_view *v, uint64_t frame);
void view_frame_evict(const struct weir_paged_view *v, uint64_t frame);

/* The same with all frames. */
void view_home(const struct weir_paged_view *v, bool evict);

/* Nobody is online. Take slots and pins back that are left, and add how many there were. */
void view_settle(const struct weir_paged_view *v, struct weir_paged_left *left);

/* Choose the pages that are not late, as many as there are frames, in all ranges. Nobody is
 * online. */
void view_choose(struct pt_range *range, uint32_t nr_ranges, uint64_t nr_frames);

#endif
