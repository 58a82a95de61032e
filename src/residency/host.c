/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets on the host: the contract of weir_host_begin() and weir_host_end(). Each block is
 * brought home, pinned, and opened to the CPU; what was refused is refused before anything is given
 * up.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/residency/residency.h"

/*
 * Wait until no launch uses the block and it stands still. The waits drop the lock, so all is
 * looked at again after each. -EBUSY: an open bracket on a stream names it.
 */
static int host_wait(struct weir_space *space, const struct range *range, uint32_t i)
{
	const struct block *block = &range->block[i];
	int err = 0;

	while (!err) {
		if (range->pins || range->nr_discards || block->pins > block->host_pins)
			return -EBUSY;
		if (range_block_last_use(range, i) > space->done_seq) {
			space_wait_seq(space, range_block_last_use(range, i));
		} else if (block_is_moving(block) || block->cleaning != CLEANING_NONE) {
			err = migrate_flush(space);
			if (!err)
				(void)space_wait_any(space);
		} else {
			/* Nothing moves in a fixed space. */
			return space->mode == WEIR_FIXED && block_is_resident(block) ? -EBUSY : 0;
		}
	}
	return err;
}

/*
 * Wait until the host has a chunk to spare for the block, if it needs one. The block stands still,
 * and does again afterwards.
 */
static int host_room(struct weir_space *space, const struct range *range, uint32_t i)
{
	const struct block *block = &range->block[i];

	while (block->state == BLOCK_UNBACKED ||
	       (block->state == BLOCK_HBM && !block->dead && !block->clean)) {
		struct chunk *chunk = room_host(space);
		int err;

		pmm_chunk_put(&space->pmm[TIER_HOST], chunk);
		if (chunk)
			return 0;
		err = migrate_flush(space);
		if (!err && !space_wait_any(space))
			return -ENOMEM;
		if (!err)
			err = host_wait(space, range, i);
		if (err)
			return err;
	}
	return 0;
}

/* Bring one block home. drop: contents about to be overwritten need not come. */
static int host_fetch(struct weir_space *space, const struct space_use *use, uint32_t i, bool drop)
{
	struct range *range = use->range;
	struct block *block = &range->block[i];
	bool freed;
	int err;

	err = host_wait(space, range, i);
	if (!err)
		err = host_room(space, range, i);
	if (err)
		return err;
	if (drop && use->kind == WEIR_OVERWRITE && use_covers(use, i) && !block->pins) {
		migrate_set_dead(space, range, block, true);
	}
	if (block->state == BLOCK_HBM) {
		err = room_evict(space, range, i, WEIR_CAUSE_DEMAND, &freed);
		if (err)
			return err == -ENOSPC ? -ENOMEM : err;
	}
	if (block->state == BLOCK_UNBACKED) {
		struct chunk *chunk = room_host(space);

		if (!chunk)
			return -ENOMEM;
		err = migrate_back(space, range, i, TIER_HOST, chunk);
		if (err)
			return err;
	}
	return migrate_mend(space, range, i);
}

/* Undo host pins of the first nr_blocks blocks of a use. */
static void host_unpin(struct weir_space *space, const struct space_use *use, uint32_t nr_blocks)
{
	struct range *range = use->range;

	for (uint32_t n = 0; n < nr_blocks; n++) {
		uint32_t i = use->first + n;
		struct block *block = &range->block[i];

		block->pins--;
		range->part_pins--;
		if (--block->host_pins == 0 && !block->unmapped)
			space_note_error(space, migrate_set_access(space, range, i, false));
	}
	if (range->free_pending && !range_is_named(space, range))
		range_pool_add(space, range);
}

static int host_pin(struct weir_space *space, const struct space_use *use, bool drop)
{
	struct range *range = use->range;
	uint32_t n;
	int err;

	for (n = 0; n < use->nr; n++) {
		uint32_t i = use->first + n;

		err = host_fetch(space, use, i, drop);
		if (!err && !range->block[i].host_pins)
			err = migrate_set_access(space, range, i, true);
		if (err)
			goto err_unpin;
		range->block[i].host_pins++;
		range->block[i].pins++;
		range->part_pins++;
	}
	bracket_expect_writes(space, use);
	return 0;

err_unpin:
	host_unpin(space, use, n);
	return err;
}

/* Wait for the copies home. */
static int host_settle(struct weir_space *space, const struct space_use *use)
{
	int err = migrate_flush(space);

	for (uint32_t i = use->first; !err && i < use->first + use->nr; i++) {
		while (block_is_moving(&use->range->block[i]))
			space_wait_fence(space, use->range->block[i].ready);
		/* A flush that failed, maybe another thread's, put it back. */
		if (block_is_resident(&use->range->block[i]))
			err = space->error ? space->error : -EIO;
	}
	return err;
}

static int host_begin_locked(struct weir_space *space, const struct space_use *uses,
			     uint32_t nr_uses)
{
	uint32_t nr_pinned = 0;
	uint64_t nr_blocks = 0;
	bool drop;
	int err = 0;

	/* All that can be refused is refused before anything is given up for being overwritten. */
	for (uint32_t u = 0; !err && u < nr_uses; u++) {
		nr_blocks += uses[u].nr;
		for (uint32_t n = 0; !err && n < uses[u].nr; n++)
			err = host_wait(space, uses[u].range, uses[u].first + n);
	}
	if (err)
		return err;
	drop = pmm_nr_available(&space->pmm[TIER_HOST]) >= nr_blocks;
	for (; nr_pinned < nr_uses; nr_pinned++) {
		err = host_pin(space, &uses[nr_pinned], drop);
		if (err)
			break;
	}
	for (uint32_t u = 0; !err && u < nr_uses; u++)
		err = host_settle(space, &uses[u]);
	if (err)
		goto err_unpin;
	space->nr_open++;
	space->nr_host_open++;
	return 0;

err_unpin:
	(void)migrate_flush(space);
	while (nr_pinned-- > 0)
		host_unpin(space, &uses[nr_pinned], uses[nr_pinned].nr);
	return err;
}

int weir_host_begin(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct space_use *resolved = calloc(nr_uses + 1u, sizeof(*resolved));
	int err;

	if (!resolved)
		return -ENOMEM;
	pthread_mutex_lock(&space->lock);
	err = uses && nr_uses ? bracket_resolve(space, uses, nr_uses, false, resolved) : -EINVAL;
	if (!err) {
		space_progress(space);
		(void)bracket_record(space, EVENT_HOST, 0, resolved, nr_uses);
		err = host_begin_locked(space, resolved, nr_uses);
	}
	pthread_mutex_unlock(&space->lock);
	free(resolved);
	return err;
}

/* Whether each block named has as many host pins as the uses name it times. */
static bool host_is_open(const struct space_use *uses, uint32_t nr_uses)
{
	bool open = true;
	uint32_t u;

	/* Take the pins away, and give them back: that counts them. */
	for (u = 0; open && u < nr_uses; u++)
		for (uint32_t n = 0; n < uses[u].nr; n++) {
			struct block *block = &uses[u].range->block[uses[u].first + n];

			open &= block->host_pins != 0;
			block->host_pins--; /* may wrap; it comes back */
		}
	while (u-- > 0)
		for (uint32_t n = 0; n < uses[u].nr; n++)
			uses[u].range->block[uses[u].first + n].host_pins++;
	return open;
}

int weir_host_end(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct space_use *resolved = calloc(nr_uses + 1u, sizeof(*resolved));
	int err;

	if (!resolved)
		return -ENOMEM;
	pthread_mutex_lock(&space->lock);
	err = uses && nr_uses ? bracket_resolve(space, uses, nr_uses, true, resolved) : -EINVAL;
	if (!err && !host_is_open(resolved, nr_uses))
		err = -WEIR_ECONTRACT;
	if (!err && !space->nr_host_open)
		err = -WEIR_ECONTRACT;
	if (!err) {
		for (uint32_t u = 0; u < nr_uses; u++)
			host_unpin(space, &resolved[u], resolved[u].nr);
		space->nr_open--;
		space->nr_host_open--;
		space_progress(space);
	}
	pthread_mutex_unlock(&space->lock);
	free(resolved);
	return err;
}
