/* SPDX-License-Identifier: Apache-2.0 */
/* See view.h. Words are plain where nobody is online; counts are atomic, each for itself. */
#include <string.h>

#include "src/paging/view.h"

void view_count(const struct weir_paged_view *v, uint32_t slot, uint64_t id,
		enum weir_paged_event event)
{
	uint32_t range = (uint32_t)(id >> PT_PAGE_BITS);

	if (range >= WEIR_PAGED_RANGES_MAX)
		range = 0;
	pt_add(&v->counts[slot % WEIR_PAGED_STATS_NR * WEIR_PAGED_RANGES_MAX + range].nr[event], 1,
	       PT_RELAXED);
}

void view_count_scan(const struct weir_paged_view *v, uint32_t slot, const uint32_t *lagging)
{
	view_count(v, slot, 0, WEIR_PAGED_SCAN);
	if (!lagging)
		return;
	view_count(v, slot, 0, WEIR_PAGED_LAG);
	pt_store(&v->counts->lagged, *lagging + 1ull, PT_RELAXED);
}

void view_counts_sum(const struct weir_paged_counts *counts, uint32_t range,
		     uint64_t nr[WEIR_PAGED_EVENT_NR])
{
	for (uint32_t i = 0; i < WEIR_PAGED_STATS_NR; i++)
		for (uint32_t event = 0; event < WEIR_PAGED_EVENT_NR; event++)
			nr[event] += pt_load(&counts[i * WEIR_PAGED_RANGES_MAX + range].nr[event],
					     PT_RELAXED);
}

void view_frame_clean(const struct weir_paged_view *v, uint64_t frame)
{
	uint64_t owner = v->table.owner[frame];
	uint64_t *entry;

	if (owner == PT_OWNER_FREE)
		return;
	entry = pt_entry_at(&v->table, owner - 1);
	if (!(*entry & PT_DIRTY))
		return;
	memcpy(view_host(v, owner - 1), view_frame(v, frame), view_bytes(v, owner - 1));
	*entry &= ~PT_DIRTY;
	view_count(v, (uint32_t)(frame % WEIR_PAGED_STATS_NR), owner - 1, WEIR_PAGED_OUT);
}

void view_frame_evict(const struct weir_paged_view *v, uint64_t frame)
{
	uint64_t owner = v->table.owner[frame], *entry;

	if (owner == PT_OWNER_FREE)
		return;
	view_frame_clean(v, frame);
	entry = pt_entry_at(&v->table, owner - 1);
	*entry = pt_drained(&v->table.range[(owner - 1) >> PT_PAGE_BITS], *entry);
	v->table.owner[frame] = PT_OWNER_FREE;
	v->table.shared->fill = 0;
}

/* Of pages in no frame; where all come in at once there is nothing to count. */
static void touches_drain(const struct pt_range *range)
{
	for (uint64_t page = 0; range->admit > 1 && page < range->nr_pages; page++)
		if (pt_state_of(range->entry[page]) == PT_ABSENT)
			range->entry[page] = pt_drained(range, range->entry[page]);
}

void view_home(const struct weir_paged_view *v, bool evict)
{
	for (uint32_t i = 0; evict && i < v->table.nr_ranges; i++)
		touches_drain(&v->table.range[i]);
	for (uint64_t i = 0; i < v->table.nr_frames; i++) {
		if (evict)
			view_frame_evict(v, i);
		else
			view_frame_clean(v, i);
	}
}

void view_settle(const struct weir_paged_view *v, struct weir_paged_left *left)
{
	const struct pt_table *t = &v->table;

	for (uint32_t i = 0; i <= t->nr_slots; i++) {
		left->nr_slots += pt_slot_agents(t->slot[i]);
		t->slot[i] = 0;
	}
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		for (uint64_t page = 0; page < t->range[i].nr_pages; page++) {
			uint64_t *entry = &t->range[i].entry[page];

			left->nr_pages += pt_pins_of(*entry) != 0;
			*entry &= PT_PIN_ONE - 1;
		}
}

#define CHOSEN_MORE 4u /* than frames, so that none stays free: multiples are not even to a page */

void view_choose(struct pt_range *range, uint32_t nr_ranges, uint64_t nr_frames)
{
	double nr_pages = 0, part;

	for (uint32_t i = 0; i < nr_ranges; i++)
		nr_pages += range[i].late ? (double)range[i].nr_pages : 0;
	for (uint32_t i = 0; i < nr_ranges; i++) {
		struct pt_range *r = &range[i];

		r->chosen = UINT32_MAX;
		if (!r->late)
			continue;
		part = (double)nr_frames / nr_pages + CHOSEN_MORE / (double)r->nr_pages;
		if (part < 1)
			r->chosen = (uint32_t)(part * 4294967296.0);
	}
}
