/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device's memory is a range's own, in a space of several devices.
 *
 * A range that one device uses is resident in that one's memory, and is in its record and plans:
 * what a device does repeats in the same order. Between devices no order repeats, so a range that
 * several use is in no plan. Each of its blocks is resident in the memory of the device that made
 * its last two uses, and the others use it there in place.
 *
 * Whose a range is shows when a bracket names it, or at once where weir_alloc() is told the stream
 * of its first use; that is where its record begins. A freed range that several devices used is
 * taken to be used so in its next life, too, until that was not so.
 */
#include "src/residency/residency.h"

/* Whether the program said in which device's memory the range stays. */
static bool is_fixed(const struct weir_space *space, const struct range *range)
{
	int prefer = range->residency->prefer;

	return prefer >= 0 && prefer < (int)space->nr_devices;
}

void home_forget(struct weir_space *space, struct range *range)
{
	if (!range->residency->planner)
		return;
	follow_life(space, EVENT_FREE, range);
	follow_freed(range);
	range->residency->planner = NULL;
}

/* From here on the range is one device's alone. */
static void take_over(struct weir_space *space, struct range *range, place_t own)
{
	home_forget(space, range);
	if (range->own != own && !is_fixed(space, range))
		range_set_own(space, range, own);
	if (range->own != own)
		return; /* used in place, by advice: nothing to plan */
	range->residency->planner = &space->residency->planner[own];
	follow_life(space, EVENT_ALLOC, range);
}

void home_reset(struct weir_space *space, struct range *range)
{
	struct range_residency *r = range->residency;

	if (range->homes && r->users != USERS_MANY)
		range_set_own(space, range, r->users == USERS_ONE ? r->user : range->own);
	past_reset(range);
	r->users = USERS_NONE;
	r->planner = space->nr_devices == 1 ? space->residency->planner : NULL;
	r->plan_life = -1;
}

void home_allocated(struct weir_space *space, struct range *range, int own)
{
	if (space->nr_devices == 1) {
		follow_life(space, EVENT_ALLOC, range);
		return;
	}
	home_forget(space, range);
	range->residency->users = USERS_NONE;
	if (own >= 0 && !range->homes)
		take_over(space, range, (place_t)own);
}

static void note_user(struct weir_space *space, struct range *range, place_t own)
{
	struct range_residency *r = range->residency;

	if (r->users == USERS_MANY ||
	    (r->users == USERS_ONE && r->user == own &&
	     (range->homes || range->own == own || is_fixed(space, range))))
		return;
	if (r->users == USERS_ONE && r->user != own) {
		r->users = USERS_MANY;
		home_forget(space, range);
		/* Without memory for that it stays where it is as a whole. */
		if (!range->homes)
			(void)range_split(range);
		return;
	}
	r->users = USERS_ONE;
	r->user = own;
	if (!range->homes && r->planner != &space->residency->planner[own])
		take_over(space, range, own);
}

/* Who used a range's blocks last, and where they are resident by that. */
static void note_blocks(struct weir_space *space, const struct space_use *use, place_t own)
{
	struct range *range = use->range;

	for (uint32_t i = use->first; i < use->first + use->nr; i++) {
		struct block_home *home = &range->homes[i];

		if (home->own != own && !is_fixed(space, range) &&
		    (home->user == own || !block_is_backed(&range->block[i])))
			range_block_set_own(space, range, i, own);
		home->user = own;
	}
}

int home_allow(struct weir_space *space, struct range *range, place_t own)
{
	uint64_t bit = BACKEND_DEVICE_BIT(space->device[own]);

	return range->devices & bit ? 0 : migrate_set_devices(space, range, range->devices | bit);
}

int home_used(struct weir_space *space, place_t own, const struct use_list *uses)
{
	int err = 0;

	if (space->nr_devices == 1)
		return 0; /* all of it is that one's, and mapped for it */
	for (uint32_t u = 0; !err && u < uses->nr; u++) {
		const struct space_use *use = &uses->use[u];
		struct range *range = use->range;

		if (use->kind == WEIR_DISCARD)
			continue;
		range->users |= UINT64_C(1) << own;
		if (!range->arena && !range->kind) {
			note_user(space, range, own);
			if (range->homes)
				note_blocks(space, use, own);
		}
		err = home_allow(space, range, own);
	}
	return err;
}

/* Blocks of a range with homes[] are resident there from here on. */
static void set_blocks(struct weir_space *space, const struct space_use *part, place_t own)
{
	for (uint32_t i = part->first; i < part->first + part->nr; i++)
		range_block_set_own(space, part->range, i, own);
}

void home_set(struct weir_space *space, const struct space_use *part, place_t own)
{
	struct range *range = part->range;

	if (space->nr_devices == 1 || range->arena || is_fixed(space, range))
		return;
	if (range->homes)
		set_blocks(space, part, own);
	else if (range->residency->users == USERS_NONE)
		take_over(space, range, own);
}

void home_prefer(struct weir_space *space, struct range *range, place_t own)
{
	if (space->nr_devices == 1 || range->arena)
		return;
	if (range->homes)
		set_blocks(space, &(struct space_use){.range = range, .nr = range->nr_blocks}, own);
	else if (range->own != own)
		range_set_own(space, range, own);
	if (range->residency->planner != &space->residency->planner[own])
		home_forget(space, range);
}
