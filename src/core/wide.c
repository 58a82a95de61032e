/* SPDX-License-Identifier: Apache-2.0 */
/* Brackets whose launches may use any range: see struct wide. */
#include <errno.h>

#include "src/base/log.h"
#include "src/core/space.h"

struct space_use wide_use(struct range *range)
{
	return (struct space_use){
		.range = range,
		.nr = range->nr_blocks,
		.bytes = range->bytes,
		.kind = WEIR_WRITE,
		.atomic = true,
		.stays = true,
		.hidden = true,
	};
}

uint64_t wide_begin(struct weir_space *space)
{
	space->wide.placing = ++space->wide.last;
	return space->wide.placing;
}

void wide_opened(struct weir_space *space, const struct stream_slot *slot)
{
	space->wide.newest_open = MAX(space->wide.newest_open, slot->uses.wide);
}

static uint64_t find_newest_open(const struct weir_space *space)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i]->open)
			newest = MAX(newest, space->slot[i]->uses.wide);
	return newest;
}

void wide_ended(struct weir_space *space, bracket_seq_t seq)
{
	struct wide *wide = &space->wide;

	wide->ended = space_ended(space, seq)->uses.wide;
	wide->ended_seq = seq;
	if (wide->ended == wide->newest_open)
		wide->newest_open = find_newest_open(space);
}

bool wide_is_open(const struct weir_space *space, const struct range *range)
{
	for (uint32_t i = 0; i < space->nr_slots; i++)
		if (space->slot[i]->open && range_is_in_wide(range, space->slot[i]->uses.wide))
			return true;
	return false;
}

bracket_seq_t wide_find_use(const struct weir_space *space, const struct range *range)
{
	for (bracket_seq_t seq = space->wide.ended_seq; seq > space->done_seq; seq--)
		if (range_is_in_wide(range, space_ended(space, seq)->uses.wide))
			return seq;
	return 0;
}

void wide_add(struct weir_space *space, struct range *range)
{
	range->wide_born = space->wide.last;
	range->nr_astray = &space->wide.nr_astray;
	space->wide.nr_astray += !range->at_hand;
	space->wide.reborn = MAX(space->wide.reborn, range_newest_use(space, range));
}

void wide_del(struct weir_space *space, struct range *range)
{
	const bracket_seq_t use = range_wide_use(space, range);

	range->last_use = MAX(range->last_use, use);
	range->last_write = MAX(range->last_write, use);
	range->wide_past = MAX(range->wide_past, use);
	range->wide_born = UINT64_MAX;
	if (range->nr_astray)
		space->wide.nr_astray -= !range->at_hand;
	range->nr_astray = NULL;
}

void wide_note_free(struct weir_space *space, struct range *range)
{
	range->wide_freed = space->wide.last;
	space->wide.frees |= range_is_named(space, range);
}

void wide_count(struct range *range)
{
	const bool at_hand = range_is_at_hand(range);

	if (at_hand == range->at_hand)
		return;
	range->at_hand = at_hand;
	if (range->nr_astray)
		*range->nr_astray += at_hand ? -1u : 1u;
}

int wide_check(const struct weir_space *space)
{
	uint32_t nr_astray = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++) {
		const struct range *range = space->range[r];

		if (!range->kind && range->at_hand != range_is_at_hand(range)) {
			log_error("range %p is not counted as what it is", range->addr);
			return -EUCLEAN;
		}
		if (!range->nr_astray != (range->wide_born == UINT64_MAX) ||
		    !range->nr_astray != (range->kind || range->pooled)) {
			log_error("range %p lives, or not, but for wide brackets", range->addr);
			return -EUCLEAN;
		}
		nr_astray += range->nr_astray && !range->at_hand;
	}
	if (nr_astray == space->wide.nr_astray &&
	    find_newest_open(space) == space->wide.newest_open)
		return 0;
	log_error("space: %u ranges are not at hand, %u counted; wide bracket %llu is open, %llu "
		  "counted",
		  nr_astray, space->wide.nr_astray, (unsigned long long)find_newest_open(space),
		  (unsigned long long)space->wide.newest_open);
	return -EUCLEAN;
}
