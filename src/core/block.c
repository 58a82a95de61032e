/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a block's copies, and the counts that ranges keep of them: see block.h. */
#include "src/core/block.h"

#include <assert.h>
#include <errno.h>

#include "src/base/log.h"
#include "src/core/space.h"

void block_count(struct range *range, const struct block *block, uint32_t nr)
{
	if (block->at.home) {
		range->nr_home[block->at.home->place] += nr;
		range->nr_backed += nr;
		range->nr_dirty[block->at.home->place] += block_is_exposed(block) ? nr : 0;
	}
	if (block->at.home && block->at.source) {
		range->nr_moving[block->at.home->place] += nr;
		range->nr_copying += nr;
	}
	range->nr_dead += block->at.dead ? nr : 0;
	range->nr_clean += block_is_clean(block) ? nr : 0;
	range->nr_cleaning += block_is_cleaning(block) ? nr : 0;
	range->nr_unproved += block->at.unproved ? nr : 0;
	range->nr_comparing += block->at.comparing ? nr : 0;
	range->nr_stale += block_is_stale(block) ? nr : 0;
	range->nr_unmapped += block_is_unmapped(block) ? nr : 0;
}

/* The same with whether it is resident. */
static void count(struct range *range, const struct block *block, uint32_t nr)
{
	place_t own = range->homes ? range->homes[block - range->block].own : range->own;

	block_count(range, block, nr);
	if (!block_is_at(block, own))
		return;
	range->nr_resident += nr;
	range->nr_arriving += block->at.source ? nr : 0;
}

/*
 * Whether a block's home may change so. From nowhere it comes to rest somewhere, empty. At rest it
 * goes nowhere; or to a copy that it has below; or somewhere else, filled from where it was, or
 * empty. On its way it arrives; or goes back to the source, where its copy could not be queued.
 */
static bool is_legal(const struct copies *from, const struct copies *to)
{
	if (to->home == from->home)
		return to->source == from->source || !to->source;
	if (!from->home)
		return !to->source;
	if (from->source)
		return to->home == from->source && !to->source;
	return !to->source || (to->home && to->source == from->home);
}

void block_change(struct range *range, struct block *block, const struct copies *to)
{
	bool legal = is_legal(&block->at, to);

	assert(legal);
	(void)legal;
	count(range, block, (uint32_t)-1);
	block->at = *to;
	count(range, block, 1);
	wide_count(range);
	if (block_is_settled_at(block, range->own))
		range->nr_arrivals++;
}

void block_set_dead(struct range *range, struct block *block, bool dead)
{
	if (block->at.dead == dead)
		return;
	block_count(range, block, (uint32_t)-1);
	block->at.dead = dead;
	block_count(range, block, 1);
	wide_count(range);
}

void block_set_mapped(struct range *range, struct block *block, struct chunk *chunk)
{
	struct copies to = block->at;

	to.mapped = chunk;
	block_change(range, block, &to);
}

void block_set_below(struct range *range, struct block *block, struct chunk *chunk,
		     enum block_cleaning cleaning)
{
	struct copies to = block->at;

	to.below = chunk;
	to.cleaning = (uint8_t)cleaning;
	block_change(range, block, &to);
}

/* What is wrong with a block that is resident at `own`; NULL: nothing. */
static const char *find_broken(const struct block *block, place_t own)
{
	const struct copies *at = &block->at;

	if (!at->home && (at->source || at->below || !at->dead))
		return "is unbacked but has another copy or is not dead";
	if (!at->home && block->pins)
		return "is pinned but unbacked";
	if (at->home && (at->home == at->source || at->home == at->below))
		return "has its home as another copy, too";
	if (at->source && at->home->place == at->source->place)
		return "is moving within a place";
	if (at->source && at->below && at->source != at->below &&
	    at->source->place == at->below->place)
		return "is moving from the place of its lower copy";
	if (at->cleaning > CLEANING_CANCELLED || (at->cleaning == CLEANING_ACTIVE && !at->below))
		return "is being cleaned without a lower copy";
	if (at->unproved && (!at->below || !at->digested))
		return "has an unproved copy, but no copy or no digest of it";
	if (at->comparing && (!at->source || at->below))
		return "is being compared, but does not move, or has a third copy";
	if (at->digested && (at->dead || !at->below))
		return "has a digest that is of nothing";
	if (block_is_cleaning(block) && at->source)
		return "is being cleaned while it moves";
	if (at->dead && block_is_clean(block))
		return "is clean but dead";
	if (at->below && place_rank(own, at->home->place) >= place_rank(own, at->below->place))
		return "has a lower copy that is not at a lower place";
	if (at->source && at->mapped == at->source && !at->mapped->stale)
		return "is moving but mapped to the source";
	if (block_is_stale(block) && !at->mapped->stale)
		return "is mapped to a chunk of another block that does not say so";
	return NULL;
}

int block_check(const struct range *range, const struct block *block)
{
	const struct copies *at = &block->at;
	const char *broken =
		find_broken(block, range_block_own(range, (uint32_t)(block - range->block)));

	if (!broken)
		return 0;
	log_error("block %zu of range %p (home %d, source %d, below %d) %s",
		  (size_t)(block - range->block), range->addr, at->home ? (int)at->home->place : -1,
		  at->source ? (int)at->source->place : -1, at->below ? (int)at->below->place : -1,
		  broken);
	return -EUCLEAN;
}
