/* SPDX-License-Identifier: Apache-2.0 */
/* Block states and the counts that ranges keep of them: see block.h. */
#include "src/core/block.h"

#include <assert.h>
#include <errno.h>

#include "src/base/log.h"
#include "src/core/space.h"

#define TO(state) (1u << (state))

/* From each state, the states that may follow. */
static const uint8_t block_transitions[BLOCK_STATE_NR] = {
	[BLOCK_UNBACKED] = TO(BLOCK_HBM) | TO(BLOCK_HOST),
	/* straight to HOST: clean; to UNBACKED: dead */
	[BLOCK_HBM] = TO(BLOCK_UNBACKED) | TO(BLOCK_HOST) | TO(BLOCK_TO_HOST),
	/* straight to HBM: about to be overwritten, nothing to copy */
	[BLOCK_HOST] = TO(BLOCK_UNBACKED) | TO(BLOCK_HBM) | TO(BLOCK_TO_HBM),
	/* back again: the copy could not be queued */
	[BLOCK_TO_HBM] = TO(BLOCK_HBM) | TO(BLOCK_HOST),
	[BLOCK_TO_HOST] = TO(BLOCK_HOST) | TO(BLOCK_HBM),
};

const char *block_state_name(enum block_state state)
{
	static const char *const names[BLOCK_STATE_NR] = {"unbacked", "hbm", "host", "to-hbm",
							  "to-host"};

	return state < BLOCK_STATE_NR ? names[state] : "?";
}

void block_set_state(struct range *range, struct block *block, enum block_state state)
{
	bool legal = (block_transitions[block->state] & TO(state)) != 0;

	assert(legal);
	(void)legal;
	range->nr_state[block->state]--;
	range->nr_state[state]++;
	block->state = (uint8_t)state;
	if (state == BLOCK_HBM)
		range->top = range->nr_blocks;
}

void block_set_dead(struct range *range, struct block *block, bool dead)
{
	if (block->dead == dead)
		return;
	block->dead = dead;
	range->nr_dead += dead ? 1 : (uint32_t)-1;
}

void block_set_clean(struct range *range, struct block *block, bool clean)
{
	if (block->clean == clean)
		return;
	block->clean = clean;
	range->nr_clean += clean ? 1 : (uint32_t)-1;
}

void block_set_cleaning(struct range *range, struct block *block, enum block_cleaning cleaning)
{
	range->nr_cleaning += cleaning != CLEANING_NONE ? 1 : 0;
	range->nr_cleaning -= block->cleaning != CLEANING_NONE ? 1 : 0;
	block->cleaning = (uint8_t)cleaning;
}

void block_set_unmapped(struct range *range, struct block *block, bool unmapped)
{
	if (block->unmapped == unmapped)
		return;
	block->unmapped = unmapped;
	range->nr_unmapped += unmapped ? 1 : (uint32_t)-1;
}

int block_check(const struct range *range, const struct block *block)
{
	bool upper = block->chunk[TIER_HBM] != NULL, lower = block->chunk[TIER_HOST] != NULL;
	const char *broken = NULL;

	switch ((enum block_state)block->state) {
	case BLOCK_UNBACKED:
		if (upper || lower || !block->dead)
			broken = "is unbacked but holds a chunk or is not dead";
		break;
	case BLOCK_HBM:
		if (!upper || lower != (block->clean || block->cleaning != CLEANING_NONE))
			broken =
				"is resident without an upper chunk, or not clean with a lower one";
		break;
	case BLOCK_HOST:
		if (upper || !lower)
			broken = "is on the host but its chunks do not say so";
		break;
	case BLOCK_TO_HBM:
	case BLOCK_TO_HOST:
		if (!upper || !lower)
			broken = "is moving without both chunks";
		break;
	default:
		broken = "has no state";
	}
	if (!broken && block->clean && (block->dead || !block_is_resident(block)))
		broken = "is clean but dead or not resident";
	if (!broken && block->stale &&
	    (!block->stale->stale || (block->state == BLOCK_HOST && !block->unmapped) ||
	     (block->state != BLOCK_HOST && block->state != BLOCK_UNBACKED)))
		broken = "is mapped to a chunk of another block, but its state does not say so";
	if (!broken && block->pins && block->state == BLOCK_UNBACKED)
		broken = "is pinned but unbacked";
	if (!broken)
		return 0;
	log_error("block %zu of range %p (%s) %s", (size_t)(block - range->block), range->addr,
		  block_state_name(block->state), broken);
	return -EUCLEAN;
}
