/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "src/paging/walk.h"

void walk_count(struct walk_tally *tally, uint64_t entry)
{
	tally->nr[pt_state_of(entry)]++;
	tally->nr_dirty += (entry & PT_DIRTY) != 0;
	tally->nr_pinned += pt_pins_of(entry) != 0;
}

void walk_text(const struct walk_tally *tally, char *text, size_t bytes)
{
	static const char *const names[8] = {"absent",	  "loading", "resident", "limbo",
					     "writeback", "?",	     "?",	 "?"};
	uint64_t nr_pages = 0;
	size_t at;

	for (uint32_t state = 0; state < 8; state++)
		nr_pages += tally->nr[state];
	at = (size_t)snprintf(text, bytes,
			      "%" PRIu64 " pages, %" PRIu64 " dirty, %" PRIu64 " pinned", nr_pages,
			      tally->nr_dirty, tally->nr_pinned);
	for (uint32_t state = 0; state < 8 && at < bytes; state++)
		if (tally->nr[state])
			at += (size_t)snprintf(text + at, bytes - at, ", %" PRIu64 " %s",
					       tally->nr[state], names[state]);
}

const char *walk_entry(const struct pt_range *range, uint64_t id, uint64_t entry,
		       const uint64_t *owner, uint64_t nr_frames, uint8_t *seen)
{
	uint64_t frame = pt_frame_of(entry);

	if (pt_pins_of(entry))
		return "is pinned, or its count of pins overflowed";
	if (pt_state_of(entry) == PT_ABSENT)
		return entry & ~PT_FRAME_MASK || frame >= (uint64_t)range->admit + range->late
			       ? "is absent, and its entry says more than touches"
			       : NULL;
	if (pt_state_of(entry) != PT_RESIDENT && pt_state_of(entry) != PT_LIMBO)
		return "is being moved, and nobody is online";
	if (frame >= nr_frames)
		return "is in a frame that there is not";
	if (seen[frame / 8] & 1u << frame % 8)
		return "is in a frame that another page is in";
	seen[frame / 8] |= (uint8_t)(1u << frame % 8);
	if (owner[frame] != id + 1)
		return "is in a frame that says another owner";
	if (range->read_only && (entry & PT_DIRTY))
		return "is dirty in a read-only range";
	return NULL;
}

uint64_t walk_fill(const uint64_t *owner, uint64_t nr_frames, uint64_t fill)
{
	uint64_t i = 0;

	while (i < nr_frames && (i >= fill || owner[i] != PT_OWNER_FREE))
		i++;
	return i;
}

uint64_t walk_frames(const uint64_t *owner, uint64_t nr_frames, const uint8_t *seen)
{
	uint64_t i = 0;

	while (i < nr_frames && (owner[i] != PT_OWNER_FREE) == (seen[i / 8] >> i % 8 & 1))
		i++;
	return i;
}
