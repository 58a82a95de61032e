/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel gets of a pool of paged memory, and what it counts. C11 and CUDA C++. */
#ifndef WEIR_PAGING_VIEW_H
#define WEIR_PAGING_VIEW_H

#include "weir/paging/pt_table.h"

#define WEIR_PAGED_RANGES_MAX 16u
#define WEIR_PAGED_STATS_NR 64u

enum weir_paged_event {
	WEIR_PAGED_IN,	     /* a page was copied into a frame */
	WEIR_PAGED_OUT,	     /* a dirty page was written back */
	WEIR_PAGED_IN_PLACE, /* an access, or a span, went to the host's memory; lanes
			      * together that did so to one page count once */
	WEIR_PAGED_WAIT,     /* a look at a page that another agent copies at the moment */
	WEIR_PAGED_SCAN,     /* all slots were looked at, to advance the epoch; range 0's count */
	WEIR_PAGED_REFUSED,  /* outside the range, or a write to a read-only one */
	WEIR_PAGED_NO_SLOT,  /* a warp came online as a guest, as all slots were taken; range 0's */
	WEIR_PAGED_PINS,     /* an access was refused since the page can have no more pins */
	WEIR_PAGED_LAG,	     /* a scan found a slot behind, so that the epoch stayed; range 0's */
	WEIR_PAGED_APART,    /* a lane had ended when its warp left, or could pass none of its last
			      * WEIR_PAGED_POLL_EVERY quiescent points; range 0's */
	WEIR_PAGED_EVENT_NR
};

/* One range's, of the warps whose slot says so; the host adds them up. */
struct weir_paged_counts {
	PT_ALIGNED(PT_LINE) uint64_t nr[WEIR_PAGED_EVENT_NR];
	uint64_t lagged; /* in the first of all: the slot that the last WEIR_PAGED_LAG found, + 1 */
};

/* What agents left behind that ended without weir_paged_leave(), or with a pinned span. */
struct weir_paged_left {
	uint64_t nr_slots; /* agents that their slots still said online */
	uint64_t nr_pages; /* that were pinned */
};

/* A kernel's argument, declared const __grid_constant__: so a hit finds its range in the constant
 * bank. table.nr_slots: as many as warps can be resident at a time; further warps are guests. */
struct weir_paged_view {
	struct pt_table table;			      /* its ranges are in the GPU's memory, */
	struct pt_range range[WEIR_PAGED_RANGES_MAX]; /* and here; others have no bytes */
	unsigned char *frames; /* each aligned to 16, as the hosts' bytes are */
	/* [WEIR_PAGED_STATS_NR][WEIR_PAGED_RANGES_MAX]. A range beyond them: range 0's. */
	struct weir_paged_counts *counts;
	uint32_t page_shift;
};

#endif
