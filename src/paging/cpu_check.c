/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics and dumps of paged memory on the CPU, and the walk that holds it to its invariants. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/log.h"
#include "src/paging/cpu.h"
#include "src/paging/walk.h"

void paging_stats(struct paging *pool, struct paging_stats *out)
{
	uint64_t nr[WEIR_PAGED_EVENT_NR] = {0};

	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		view_counts_sum(pool->view.counts, i, nr);
	*out = (struct paging_stats){
		.nr_in = nr[WEIR_PAGED_IN],
		.nr_out = nr[WEIR_PAGED_OUT],
		.nr_in_place = nr[WEIR_PAGED_IN_PLACE],
		.nr_waits = nr[WEIR_PAGED_WAIT],
		.nr_scans = nr[WEIR_PAGED_SCAN],
		.nr_refused = nr[WEIR_PAGED_REFUSED] + nr[WEIR_PAGED_PINS],
	};
}

static void dump_pages(struct paging *pool, FILE *to)
{
	const struct pt_table *t = &pool->view.table;
	char text[256];

	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		struct walk_tally tally = {.nr_dirty = 0};

		for (uint64_t page = 0; page < t->range[i].nr_pages; page++)
			walk_count(&tally, pt_load(&t->range[i].entry[page], PT_RELAXED));
		walk_text(&tally, text, sizeof(text));
		fprintf(to, "range %u: %s\n", i, text);
	}
}

void paging_dump(struct paging *pool, FILE *to)
{
	const struct pt_table *t = &pool->view.table;

	fprintf(to,
		"epoch %" PRIu64 ", prepare %" PRIu64 ", take %" PRIu64 ", fill %" PRIu64
		", %" PRIu64 " frames, window %" PRIu64 "%s%s\n",
		pt_load(&t->shared->epoch, PT_RELAXED), pt_load(&t->shared->prepare, PT_RELAXED),
		pt_load(&t->shared->take, PT_RELAXED), pt_load(&t->shared->fill, PT_RELAXED),
		t->nr_frames, t->window, pt_load(&t->shared->scan, PT_RELAXED) ? ", scanning" : "",
		pt_load(t->abort, PT_RELAXED) ? ", aborted" : "");
	for (uint32_t i = 0; i < t->nr_slots; i++) {
		uint64_t epoch = pt_load(&t->slot[i], PT_RELAXED);

		if (epoch)
			fprintf(to, "agent %u: online, epoch %" PRIu64 "\n", i, epoch);
	}
	dump_pages(pool, to);
}

/* ------------------------------------------------------------------ the walk */

/* What is wrong with a page, or NULL. seen: a bit of each frame. */
static const char *page_wrong(const struct paging *pool, uint64_t id, uint8_t *seen)
{
	const struct weir_paged_view *v = &pool->view;
	const struct pt_table *t = &v->table;
	uint64_t entry = *pt_entry_at(t, id);
	const char *wrong =
		walk_entry(&t->range[id >> PT_PAGE_BITS], id, entry, t->owner, t->nr_frames, seen);

	if (wrong || pt_state_of(entry) == PT_ABSENT || entry & PT_DIRTY)
		return wrong;
	return memcmp(view_frame(v, pt_frame_of(entry)), view_host(v, id), view_bytes(v, id)) == 0
		       ? NULL
		       : "is clean, and differs from the host's copy";
}

static bool frames_right(const struct paging *pool, const uint8_t *seen)
{
	const struct pt_table *t = &pool->view.table;
	uint64_t i = walk_frames(t->owner, t->nr_frames, seen);
	uint64_t left = walk_fill(t->owner, t->nr_frames, t->shared->fill);

	if (i < t->nr_frames)
		log_error("paging: frame %" PRIu64 " has owner word %" PRIx64 ", and %s page", i,
			  t->owner[i], seen[i / 8] >> i % 8 & 1 ? "a" : "no");
	if (left < t->nr_frames)
		log_error("paging: frame %" PRIu64 " is free, and filling is at %" PRIu64, left,
			  t->shared->fill);
	return i == t->nr_frames && left == t->nr_frames;
}

static bool shared_right(const struct paging *pool)
{
	const struct pt_table *t = &pool->view.table;

	for (uint32_t i = 0; i < t->nr_slots; i++) {
		if (!t->slot[i] && !pool->agent[i].used && !pool->agent[i].nr_spans)
			continue;
		log_error("paging: slot %u says epoch %" PRIu64 ", and nobody is online", i,
			  t->slot[i]);
		return false;
	}
	if (t->shared->epoch && !t->shared->scan)
		return true;
	log_error("paging: epoch %" PRIu64 ", scan lock %" PRIu64 ", and nobody is online",
		  t->shared->epoch, t->shared->scan);
	return false;
}

int paging_check(struct paging *pool)
{
	const struct pt_table *t = &pool->view.table;
	int err = cpu_quiet_begin(pool, "the check");
	uint8_t *seen = err ? NULL : calloc(t->nr_frames / 8 + 1, 1);

	if (err)
		return err;
	if (!seen)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < t->nr_ranges; i++) {
		for (uint64_t page = 0; !err && page < t->range[i].nr_pages; page++) {
			const char *wrong = page_wrong(pool, PT_ID(i, page), seen);

			if (!wrong)
				continue;
			log_error("paging: page %" PRIu64 " of range %u %s: entry %016" PRIx64,
				  page, i, wrong, t->range[i].entry[page]);
			err = -EUCLEAN;
		}
	}
	if (!err && (!frames_right(pool, seen) || !shared_right(pool)))
		err = -EUCLEAN;
	free(seen);
	cpu_quiet_end(pool);
	return err;
}
