/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies on the host of what is at a neighbour, so that its memory can be given back at once. They
 * are made in the background by the neighbour's copy engine, over its own link, for as long as more
 * is without one than the limit; nothing else of the space uses these. Blocks are looked at in
 * turn. A block that is written again loses its copy, and comes up again in its turn.
 */
#include <errno.h>

#include "src/residency/residency.h"

/* Where the program names no limit. */
#define DIRTY_MAX_BYTES 1000000000u

/* A range that is used before so many stages is not copied now: what writes it, or fetches it,
 * would wait for that. */
#define STAGES_LEAST 3u

/* Copies under way at a time: the link is busy, and who has to wait for one does not wait long. */
#define MOVES_MAX 2u

void save_init(struct weir_space *space, const struct weir_space_config *config)
{
	for (uint32_t place = 0; place < space->nr_places; place++) {
		uint64_t bytes = config->dirty_max_bytes[space->pmm[place].memory];

		space->residency->dirty_max[place] =
			(bytes ? bytes : DIRTY_MAX_BYTES) / space->block_bytes;
	}
}

static bool is_busy(const struct weir_space *space, place_t place)
{
	return path_nr_moves(space_path(space, place, space_host(space))) >= MOVES_MAX;
}

/* Start copies of so many of a range's blocks. @return 0, or why there can be no more. */
static int save_range(struct weir_space *space, struct range *range, place_t place, uint64_t nr)
{
	uint64_t least = range->nr_dirty[place] - MIN(nr, range->nr_dirty[place]);

	for (uint32_t i = 0; i < range->nr_blocks && range->nr_dirty[place] > least; i++) {
		int err;

		if (is_busy(space, place))
			return -EAGAIN;
		err = room_clean(space, range, i, place);
		if (err && err != -EAGAIN)
			return err;
	}
	return 0;
}

/* @return whether there is more to do, when some of what is under way is done. */
static bool save_place(struct weir_space *space, place_t place)
{
	struct residency *r = space->residency;
	uint64_t nr = space_nr_dirty(space, place), max = r->dirty_max[place];
	uint64_t left = nr - MIN(nr, max);

	for (uint32_t n = 0; n < space->nr_ranges && left; n++) {
		struct range *range = space->range[r->next_save % space->nr_ranges];
		uint32_t before = range->nr_dirty[place];
		int err = 0;

		if (before && !range->arena && !range->pooled &&
		    !schedule_is_used_soon(range, STAGES_LEAST))
			err = save_range(space, range, place, left);
		left -= before - range->nr_dirty[place];
		if (err && err != -EAGAIN && err != -ENOSPC)
			space_note_error(space, err);
		if (err)
			return err == -EAGAIN;
		r->next_save = (r->next_save + 1) % space->nr_ranges;
	}
	return false;
}

void save_advance(struct weir_space *space)
{
	struct residency *r = space->residency;
	bool more = false;

	/* In a fixed space any kernel may write at any time. */
	if (space->mode == WEIR_FIXED || !space->nr_ranges || r->saved_seq == space->done_seq)
		return;
	for (uint32_t place = space->nr_devices; place < space_host(space); place++)
		more |= is_busy(space, (place_t)place) || save_place(space, (place_t)place);
	if (!more)
		r->saved_seq = space->done_seq;
	space_note_error(space, migrate_flush(space));
}
