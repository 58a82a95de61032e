/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets on the host: the contract of weir_host_begin() and weir_host_end(). Each block is
 * brought home, pinned, and opened to the CPU; what was refused is refused before anything is given
 * up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
		} else if (block_is_moving(block) || block_is_cleaning(block)) {
			err = migrate_flush(space);
			if (!err)
				(void)space_wait_any(space);
		} else {
			/* Nothing moves in a fixed space. */
			return space->mode == WEIR_FIXED && block_is_backed(block) &&
					       !block_is_at(block, space_host(space))
				       ? -EBUSY
				       : 0;
		}
	}
	return err;
}

/* Whether the host's memory has the block's contents. */
static bool is_at_host(const struct weir_space *space, const struct block *block)
{
	return block_is_at(block, space_host(space)) ||
	       (block_is_clean(block) && block->at.below->place == space_host(space));
}

/*
 * Wait until the host has a chunk to spare for the block, if it needs one. The block stands still,
 * and does again afterwards.
 */
static int host_room(struct weir_space *space, const struct range *range, uint32_t i)
{
	const struct block *block = &range->block[i];

	while (!block_is_backed(block) || !is_at_host(space, block)) {
		struct chunk *chunk = room_try(space, space_host(space));
		int err;

		pmm_chunk_put(&space->pmm[space_host(space)], chunk);
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
	if (drop && use->kind == WEIR_OVERWRITE && use_covers(use, i) && !block->pins)
		migrate_set_dead(space, range, block, true);
	if (block_is_backed(block) && !block_is_at(block, space_host(space))) {
		err = room_send(space, range, i, space_host(space), WEIR_CAUSE_DEMAND, &freed);
		if (err)
			return err == -ENOSPC ? -ENOMEM : err;
	}
	if (!block_is_backed(block)) {
		struct chunk *chunk = room_try(space, space_host(space));

		if (!chunk)
			return -ENOMEM;
		err = migrate_back(space, range, i, chunk);
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
		if (--block->host_pins == 0 && !block_is_unmapped(block))
			space_note_error(space, migrate_set_access(space, range, i, false));
	}
	alloc_settle(space, range);
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
		while (block_is_moving(&use->range->block[i]) &&
		       space_wait_coming(space, space_host(space)))
			;
		/* A flush that failed, maybe another thread's, put it back; or no fence is to be
		 * had, and when it will be there is not known. */
		if (!block_is_settled_at(&use->range->block[i], space_host(space)))
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
	drop = pmm_nr_available(&space->pmm[space_host(space)]) >= nr_blocks;
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

static void bracket_destroy(struct host_bracket *bracket)
{
	free(bracket->use);
	free(bracket);
}

static struct host_bracket *bracket_create(const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket *bracket =
		calloc(1, sizeof(*bracket) + nr_uses * sizeof(bracket->declared[0]));

	if (!bracket)
		return NULL;
	bracket->nr = nr_uses;
	memcpy(bracket->declared, uses, nr_uses * sizeof(*uses));
	bracket->use = calloc(nr_uses, sizeof(*bracket->use));
	if (bracket->use)
		return bracket;
	free(bracket);
	return NULL;
}

int weir_host_begin(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket *bracket;
	int err;

	if (!uses || !nr_uses)
		return -EINVAL;
	bracket = bracket_create(uses, nr_uses);
	if (!bracket)
		return -ENOMEM;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	err = bracket_resolve(space, uses, nr_uses, bracket->use);
	if (err)
		goto out;
	place_mark(space, bracket->use, nr_uses);
	space_progress(space);
	(void)bracket_record(space, EVENT_HOST, 0, bracket->use, nr_uses);
	err = host_begin_locked(space, bracket->use, nr_uses);
	if (!err) {
		bracket->next = space->residency->host;
		space->residency->host = bracket;
	}
out:
	space_placing_end(space);
	/* What was freed meanwhile, and is named by nobody, since this failed. */
	for (uint32_t u = 0; u < nr_uses; u++)
		if (bracket->use[u].range)
			alloc_settle(space, bracket->use[u].range);
	pthread_mutex_unlock(&space->lock);
	if (err)
		bracket_destroy(bracket);
	return err;
}

/* Whether the bracket was opened with these uses. */
static bool is_same(const struct host_bracket *bracket, const struct weir_use *uses,
		    uint32_t nr_uses)
{
	bool same = bracket->nr == nr_uses;

	for (uint32_t u = 0; same && u < nr_uses; u++)
		same = bracket->declared[u].addr == uses[u].addr &&
		       bracket->declared[u].bytes == uses[u].bytes &&
		       bracket->declared[u].kind == uses[u].kind;
	return same;
}

int weir_host_end(struct weir_space *space, const struct weir_use *uses, uint32_t nr_uses)
{
	struct host_bracket **at = &space->residency->host, *bracket;

	if (!uses || !nr_uses)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	while (*at && !is_same(*at, uses, nr_uses))
		at = &(*at)->next;
	bracket = *at;
	if (bracket) {
		*at = bracket->next;
		for (uint32_t u = 0; u < nr_uses; u++)
			host_unpin(space, &bracket->use[u], bracket->use[u].nr);
		space->nr_open--;
		space->nr_host_open--;
		space_progress(space);
	}
	pthread_mutex_unlock(&space->lock);
	if (!bracket)
		return -WEIR_ECONTRACT;
	bracket_destroy(bracket);
	return 0;
}

void host_cancel(struct weir_space *space)
{
	while (space->residency->host) {
		struct host_bracket *bracket = space->residency->host;

		space->residency->host = bracket->next;
		bracket_destroy(bracket);
	}
}
