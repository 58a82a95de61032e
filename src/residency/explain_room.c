/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a device's own memory: what each chunk of the space's budget there is for. It is
 * looked at as stages begin, while a plan is timed. Counts of ranges are taken where they say all;
 * blocks are walked over of ranges alone that are dead in part.
 */
#include "src/residency/residency.h"

const char *explain_room_name(enum explain_room room)
{
	static const char *const names[EXPLAIN_ROOM_NR] = {
		[EXPLAIN_LIVE] = "live",   [EXPLAIN_DEAD] = "dead",	[EXPLAIN_COMING] = "coming",
		[EXPLAIN_GOING] = "going", [EXPLAIN_ARENAS] = "arenas", [EXPLAIN_OTHERS] = "others",
		[EXPLAIN_SPARE] = "spare",
	};

	return names[room];
}

/* Of a range's blocks that are at a place, or on their way there, those at rest and dead. */
static uint32_t nr_dead_at(const struct range *range, place_t place)
{
	uint32_t nr = 0;

	if (!range->nr_dead)
		return 0;
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		nr += block_is_settled_at(&range->block[i], place) && range->block[i].at.dead;
	return nr;
}

static void add_range(const struct range *range, place_t own, struct room_seen *room)
{
	const uint32_t nr = range->nr_home[own], coming = range->nr_moving[own];
	uint32_t dead;

	if (!nr || range->own != own)
		return;
	if (range->arena) {
		room->nr_chunks[EXPLAIN_ARENAS] += nr;
		room->filled_bytes += arena_used(range);
		return;
	}
	dead = range->nr_dead == range->nr_blocks ? nr - coming : nr_dead_at(range, own);
	room->nr_chunks[EXPLAIN_COMING] += coming;
	room->nr_chunks[EXPLAIN_DEAD] += dead;
	room->nr_chunks[EXPLAIN_LIVE] += nr - coming - dead;
}

/* Chunks that blocks have left and are still copied from. */
static uint64_t nr_going(const struct weir_space *space, place_t own)
{
	uint64_t nr = 0;

	for (uint32_t p = 0; p < space->nr_paths; p++) {
		const struct path *path = &space->path[p];

		for (uint32_t n = 0; path->from == own && n < path_nr_moves(path); n++) {
			const struct move *move = path_move(path, n);

			nr += block_is_moving(&move->range->block[move->block]);
		}
	}
	return nr;
}

void explain_room_add(const struct weir_space *space, place_t own, struct room_seen *room)
{
	const struct pmm *pmm = &space->pmm[own];
	const uint64_t out = pmm_nr_out(pmm);
	struct room_seen now = {.nr = 1};
	uint64_t known = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++)
		add_range(space->range[r], own, &now);
	now.nr_chunks[EXPLAIN_GOING] = nr_going(space, own);
	for (int i = 0; i < EXPLAIN_ROOM_NR; i++)
		known += now.nr_chunks[i];
	now.nr_chunks[EXPLAIN_OTHERS] = (out > known ? out - known : 0) + pmm->nr_lent;
	now.nr_chunks[EXPLAIN_SPARE] = pmm->max_chunks > out ? pmm->max_chunks - out : 0;
	room->nr += now.nr;
	room->filled_bytes += now.filled_bytes;
	for (int i = 0; i < EXPLAIN_ROOM_NR; i++)
		room->nr_chunks[i] += now.nr_chunks[i];
}
