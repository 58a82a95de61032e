/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at entries one by one, for dumps and for the walk that checks a table: the same for
 * tables that the CPU reaches and for copies of parts of others. */
#ifndef WEIR_PAGING_WALK_H
#define WEIR_PAGING_WALK_H

#include <stddef.h>

#include "src/paging/view.h"

struct walk_tally {
	uint64_t nr[8]; /* by state; the last ones are none */
	uint64_t nr_dirty, nr_pinned;
};

void walk_count(struct walk_tally *tally, uint64_t entry);

/* "16 pages, 1 dirty, 0 pinned, 15 absent, 1 resident" */
void walk_text(const struct walk_tally *tally, char *text, size_t bytes);

/*
 * What is wrong with a page's entry, nobody being online; NULL: nothing.
 *
 * @param [in]     owner  Of each frame.
 * @param [in,out] seen   A bit of each frame: pages are in it.
 */
const char *walk_entry(const struct pt_range *range, uint64_t id, uint64_t entry,
		       const uint64_t *owner, uint64_t nr_frames, uint8_t *seen);

/* The first frame that is free, and that filling is past; or nr_frames. */
uint64_t walk_fill(const uint64_t *owner, uint64_t nr_frames, uint64_t fill);

/* After all pages: the first frame whose owner word is wrong, or nr_frames. */
uint64_t walk_frames(const uint64_t *owner, uint64_t nr_frames, const uint8_t *seen);

#endif
