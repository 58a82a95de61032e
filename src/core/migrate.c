/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving one block between tiers: remap its address, queue the copy between the chunks' aliases,
 * finish when the copy is done. Decides nothing about which block, when or why.
 *
 * Copies are gathered into batches, since each batch costs the link one latency; a block whose
 * copy waits in a batch is already mapped to its new chunk, and migrate_flush() must come before
 * any stream that uses it goes on.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/core/space.h"

/* Blocks unmapped by one migrate_drop_stale(): the calls take time that a launch may wait for. */
#define DROP_MAX 16u

int migrate_unstale(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (!block->stale)
		return 0;
	assert(!range_block_is_held(space, range, i));
	err = space->backend->ops->unmap(space->backend, range_block_addr(space, range, i));
	if (err)
		return err;
	block->stale->stale = false;
	block->stale = NULL;
	range->nr_stale--;
	space->nr_stale--;
	space->give_epoch++;
	space->stats.nr_remaps++;
	return 0;
}

void migrate_drop_stale(struct weir_space *space)
{
	uint32_t left = DROP_MAX;

	for (uint32_t r = 0; r < space->nr_ranges && space->nr_stale; r++) {
		struct range *range = space->range[r];
		bool all = true; /* up to here */

		if (range->last_use > space->done_seq)
			continue; /* all are held */
		for (uint32_t i = range->first_stale; i < range->nr_blocks && range->nr_stale;
		     i++) {
			if (!range->block[i].stale)
				continue;
			if (!left)
				return;
			if (!range_block_is_held(space, range, i)) {
				space_note_error(space, migrate_unstale(space, range, i));
				left--;
			}
			all &= !range->block[i].stale;
			if (all)
				range->first_stale = i + 1;
		}
	}
}

static int map_block(struct weir_space *space, struct range *range, uint32_t i,
		     const struct chunk *chunk)
{
	int err = migrate_unstale(space, range, i);

	if (err)
		return err;
	return space->backend->ops->map(space->backend, range_block_addr(space, range, i),
					&chunk->backend, BACKEND_PROT_WRITE, range->devices);
}

static int unmap_block(struct weir_space *space, const struct range *range, uint32_t i)
{
	return space->backend->ops->unmap(space->backend, range_block_addr(space, range, i));
}

int migrate_mend(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (!block->unmapped)
		return 0;
	err = map_block(space, range, i, block->chunk[block_tier(block)]);
	if (!err)
		block_set_unmapped(range, block, false);
	return err;
}

static int unplug_block(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (block->unmapped)
		return 0;
	err = unmap_block(space, range, i);
	if (err)
		return err;
	block_set_unmapped(range, block, true);
	space->stats.nr_remaps++;
	return 0;
}

/* Map the block to another chunk. On error it is mapped as before, or unmapped. */
static int remap_block(struct weir_space *space, struct range *range, uint32_t i,
		       const struct chunk *to)
{
	int err = unplug_block(space, range, i);

	if (err)
		return err;
	err = map_block(space, range, i, to);
	if (err)
		return err;
	block_set_unmapped(range, &range->block[i], false);
	return 0;
}

/* A move failed after the remap: the block must not stay mapped to the chunk that goes back. */
static void unplug_surely(struct weir_space *space, struct range *range, uint32_t i)
{
	for (int t = 0; t < SPACE_TRIES && unplug_block(space, range, i); t++)
		;
}

/* A chunk whose contents nobody needs any more goes back to its pool. */
static void chunk_vacate(struct weir_space *space, enum tier tier, struct chunk *chunk)
{
	if (space->poison && chunk)
		space->backend->ops->poison(space->backend, &chunk->backend, 0);
	pmm_chunk_put(&space->pmm[tier], chunk);
}

int migrate_back(struct weir_space *space, struct range *range, uint32_t i, enum tier tier,
		 struct chunk *chunk)
{
	struct block *block = &range->block[i];
	int err;

	assert(block->state == BLOCK_UNBACKED);
	err = map_block(space, range, i, chunk);
	if (err) {
		pmm_chunk_put(&space->pmm[tier], chunk);
		return err;
	}
	block->chunk[tier] = chunk;
	block->ready = 0;
	block_set_state(range, block, tier == TIER_HBM ? BLOCK_HBM : BLOCK_HOST);
	return 0;
}

int migrate_unback(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	assert(block->dead && !block_is_moving(block) && !block->clean && !block->cleaning);
	err = unplug_block(space, range, i);
	if (err)
		return err;
	for (int tier = 0; tier < TIER_NR; tier++) {
		if (block->chunk[tier])
			chunk_vacate(space, (enum tier)tier, block->chunk[tier]);
		block->chunk[tier] = NULL;
	}
	block_set_unmapped(range, block, false);
	block_set_state(range, block, BLOCK_UNBACKED);
	return 0;
}

void migrate_drop_lower(struct weir_space *space, struct range *range, struct block *block)
{
	if (block->cleaning != CLEANING_NONE)
		block_set_cleaning(range, block, CLEANING_CANCELLED); /* until it is done */
	if (!block->clean)
		return;
	block_set_clean(range, block, false);
	if (block->state == BLOCK_TO_HBM)
		return; /* still being read: move_finish() drops it */
	chunk_vacate(space, TIER_HOST, block->chunk[TIER_HOST]);
	block->chunk[TIER_HOST] = NULL;
}

void migrate_set_dead(struct weir_space *space, struct range *range, struct block *block, bool dead)
{
	migrate_drop_lower(space, range, block);
	block_set_dead(range, block, dead);
}

static void count_move(struct weir_space *space, enum tier to, enum weir_cause cause)
{
	enum weir_direction direction = to == TIER_HBM ? WEIR_TO_DEVICE : WEIR_TO_HOST;

	space->stats.bytes[direction][cause] += space->block_bytes;
	space->stats.nr_moves[cause]++;
}

/* Add the block's copy towards a tier to that tier's batch; it holds both chunks. */
static int batch_add(struct weir_space *space, struct range *range, uint32_t i, enum tier to)
{
	struct copy_batch *batch = &space->batch[to];
	struct block *block = &range->block[i];
	int err;

	if (batch->nr == SPACE_BATCH_MAX) {
		err = migrate_flush(space);
		if (err)
			return err;
	}
	batch->copy[batch->nr] = (struct backend_copy){
		.dst = block->chunk[to]->backend.alias,
		.src = block->chunk[to == TIER_HBM ? TIER_HOST : TIER_HBM]->backend.alias,
		.bytes = space->block_bytes,
	};
	batch->move[batch->nr++] = (struct move){.range = range, .block = i};
	return 0;
}

int migrate_fetch(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
		  enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct chunk *lower = block->chunk[TIER_HOST];
	bool copied = !block->dead && WEIR_MUTANT != 1;
	int err;

	assert(block->state == BLOCK_HOST);
	err = remap_block(space, range, i, chunk);
	if (err)
		goto err_put;
	block->chunk[TIER_HBM] = chunk;
	if (!copied) {
		block->chunk[TIER_HOST] = NULL;
		block->ready = 0;
		block_set_state(range, block, BLOCK_HBM);
		chunk_vacate(space, TIER_HOST, lower);
		return 0;
	}
	err = batch_add(space, range, i, TIER_HBM);
	if (err) {
		block->chunk[TIER_HBM] = NULL;
		unplug_surely(space, range, i);
		goto err_put;
	}
	block_set_state(range, block, BLOCK_TO_HBM);
	block_set_clean(range, block, true);
	count_move(space, TIER_HBM, cause);
	return 0;

err_put:
	pmm_chunk_put(&space->pmm[TIER_HBM], chunk);
	return err;
}

int migrate_up(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
	       enum weir_cause cause)
{
	if (range->block[i].state == BLOCK_UNBACKED)
		return migrate_back(space, range, i, TIER_HBM, chunk);
	return migrate_fetch(space, range, i, chunk, cause);
}

int migrate_clean(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower)
{
	struct block *block = &range->block[i];
	int err;

	assert(block->state == BLOCK_HBM && !block->clean && !block->dead && !block->cleaning);
	block->chunk[TIER_HOST] = lower;
	err = batch_add(space, range, i, TIER_HOST);
	if (err) {
		block->chunk[TIER_HOST] = NULL;
		pmm_chunk_put(&space->pmm[TIER_HOST], lower);
		return err;
	}
	block_set_cleaning(range, block, CLEANING_ACTIVE);
	count_move(space, TIER_HOST, WEIR_CAUSE_WRITEBACK);
	return 0;
}

/* The part of an eviction that copies. */
static int evict_dirty(struct weir_space *space, struct range *range, uint32_t i,
		       struct chunk *lower, enum weir_cause cause)
{
	struct block *block = &range->block[i];
	int err = unplug_block(space, range, i);

	if (err)
		return err;
	block->chunk[TIER_HOST] = lower;
	err = batch_add(space, range, i, TIER_HOST);
	if (err) {
		block->chunk[TIER_HOST] = NULL;
		unplug_surely(space, range, i);
		return err;
	}
	block_set_state(range, block, BLOCK_TO_HOST);
	count_move(space, TIER_HOST, cause);
	return 0;
}

int migrate_evict(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower,
		  enum weir_cause cause, bool *freed)
{
	struct block *block = &range->block[i];
	struct chunk *upper = block->chunk[TIER_HBM];
	int err;

	assert(block->state == BLOCK_HBM);
	if (WEIR_MUTANT == 3 && !range->pooled && !block->clean && range->nr_blocks > 1 && i == 0)
		block_set_dead(range, block, true);
	if (block->dead) {
		err = migrate_unback(space, range, i);
		if (err)
			return err;
		space->stats.nr_dead_dropped++;
		*freed = true;
		return 0;
	}
	if (!block->clean) {
		*freed = false;
		return evict_dirty(space, range, i, lower, cause);
	}
	err = unplug_block(space, range, i);
	if (err)
		return err;
	block_set_clean(range, block, false);
	block->chunk[TIER_HBM] = NULL;
	block->ready = 0;
	block_set_state(range, block, BLOCK_HOST);
	chunk_vacate(space, TIER_HBM, upper);
	space->stats.nr_clean_dropped++;
	*freed = true;
	return 0;
}

int migrate_take(struct weir_space *space, struct range *from, uint32_t i, struct range *to,
		 uint32_t n)
{
	struct block *giver = &from->block[i], *taker = &to->block[n];
	struct chunk *chunk = giver->chunk[TIER_HBM], *lower = taker->chunk[TIER_HOST];
	int err;

	assert(giver->state == BLOCK_HBM && (giver->dead || giver->clean) && !chunk->stale);
	assert(taker->dead && (taker->state == BLOCK_UNBACKED || taker->state == BLOCK_HOST));
	if (taker->state == BLOCK_UNBACKED)
		err = map_block(space, to, n, chunk);
	else
		err = remap_block(space, to, n, chunk);
	if (err)
		return err;
	giver->chunk[TIER_HBM] = NULL;
	giver->ready = 0;
	giver->stale = chunk;
	chunk->stale = true;
	from->first_stale = from->nr_stale++ ? MIN(from->first_stale, i) : i;
	space->nr_stale++;
	if (giver->clean) {
		block_set_clean(from, giver, false);
		block_set_unmapped(from, giver, true);
		block_set_state(from, giver, BLOCK_HOST);
		space->stats.nr_clean_dropped++;
	} else {
		block_set_state(from, giver, BLOCK_UNBACKED);
		space->stats.nr_dead_dropped++;
	}
	taker->chunk[TIER_HBM] = chunk;
	taker->chunk[TIER_HOST] = NULL;
	taker->ready = 0;
	/* The chunk is in use by what used the giver. */
	taker->last_use = MAX(taker->last_use, range_block_last_use(from, i));
	to->last_part_use = MAX(to->last_part_use, taker->last_use);
	block_set_state(to, taker, BLOCK_HBM);
	if (lower)
		chunk_vacate(space, TIER_HOST, lower);
	return 0;
}

static void queue_push(struct move_queue *queue, const struct move *move)
{
	/* Room was reserved: see queue_reserve(). */
	assert(queue->nr < queue->max);
	queue->move[(queue->head + queue->nr++) % queue->max] = *move;
}

static int queue_reserve(struct move_queue *queue, uint32_t more)
{
	uint32_t max = MAX(64u, queue->max * 2);
	struct move *move;

	if (queue->nr + more <= queue->max)
		return 0;
	while (max < queue->nr + more)
		max *= 2;
	move = malloc(max * sizeof(*move));
	if (!move)
		return -ENOMEM;
	for (uint32_t i = 0; i < queue->nr; i++)
		move[i] = queue->move[(queue->head + i) % queue->max];
	free(queue->move);
	queue->move = move;
	queue->max = max;
	queue->head = 0;
	return 0;
}

/* The batch could not be queued: put its blocks back to where their contents are. */
static void batch_undo(struct weir_space *space, enum tier to)
{
	enum tier from = to == TIER_HBM ? TIER_HOST : TIER_HBM;
	struct copy_batch *batch = &space->batch[to];

	for (uint32_t n = 0; n < batch->nr; n++) {
		struct range *range = batch->move[n].range;
		struct block *block = &range->block[batch->move[n].block];
		struct chunk *chunk = block->chunk[to];

		if (block->cleaning != CLEANING_NONE) {
			block_set_cleaning(range, block, CLEANING_NONE);
			block->chunk[to] = NULL;
			chunk_vacate(space, to, chunk);
			continue;
		}
		unplug_surely(space, range, batch->move[n].block);
		block->chunk[to] = NULL;
		block_set_clean(range, block, false);
		block_set_state(range, block, from == TIER_HBM ? BLOCK_HBM : BLOCK_HOST);
		chunk_vacate(space, to, chunk);
	}
	batch->nr = 0;
}

int migrate_fence(struct weir_space *space, enum tier to)
{
	struct move_queue *queue = &space->moving[to];
	fence_t fence;
	int err;

	if (!space->unfenced[to])
		return 0;
	err = space_fence_record(space, space->copy_stream[to], &fence);
	if (err)
		return err;
	space->unfenced[to] = false;
	for (uint32_t n = queue->nr; n-- > 0;) {
		struct move *move = &queue->move[(queue->head + n) % queue->max];
		struct block *block = &move->range->block[move->block];

		if (move->fence)
			break;
		move->fence = fence;
		if (block->cleaning != CLEANING_NONE) {
			move->range->cleaned = fence;
		} else {
			block->ready = fence;
			move->range->ready[to] = fence;
		}
	}
	return 0;
}

static int batch_flush(struct weir_space *space, enum tier to)
{
	struct copy_batch *batch = &space->batch[to];
	struct backend *b = space->backend;
	int err;

	if (!batch->nr)
		return migrate_fence(space, to);
	err = queue_reserve(&space->moving[to], batch->nr);
	if (err)
		goto err_undo;
	/* No waits: both chunks of a block that may move are idle (see residency/room.c). */
	if (WEIR_MUTANT != 2 || to != TIER_HOST) {
		err = b->ops->copy(b, space->copy_stream[to], batch->copy, batch->nr);
		if (err)
			goto err_undo;
	}
	for (uint32_t n = 0; n < batch->nr; n++) {
		batch->move[n].fence = 0;
		queue_push(&space->moving[to], &batch->move[n]);
	}
	batch->nr = 0;
	space->unfenced[to] = true;
	return migrate_fence(space, to);

err_undo:
	batch_undo(space, to);
	return err;
}

int migrate_flush(struct weir_space *space)
{
	int err = batch_flush(space, TIER_HOST);
	int err_up = batch_flush(space, TIER_HBM);

	return err ? err : err_up;
}

/* The block's copy is done: it is where it is mapped. */
static void move_finish(struct weir_space *space, const struct move *move)
{
	struct range *range = move->range;
	struct block *block = &range->block[move->block];

	if (block->state != BLOCK_TO_HOST)
		space->give_epoch++; /* resident, or clean, from now on */
	space->pool_dry[TIER_HBM] = space->pool_dry[TIER_HOST] = false;
	if (block->cleaning != CLEANING_NONE) {
		bool cancelled = block->cleaning == CLEANING_CANCELLED;

		block_set_cleaning(range, block, CLEANING_NONE);
		if (!cancelled) {
			block_set_clean(range, block, true);
			return;
		}
		chunk_vacate(space, TIER_HOST, block->chunk[TIER_HOST]);
		block->chunk[TIER_HOST] = NULL;
	} else if (block->state == BLOCK_TO_HOST) {
		struct chunk *upper = block->chunk[TIER_HBM];

		block->chunk[TIER_HBM] = NULL;
		block_set_state(range, block, BLOCK_HOST);
		chunk_vacate(space, TIER_HBM, upper);
	} else {
		assert(block->state == BLOCK_TO_HBM);
		block_set_state(range, block, BLOCK_HBM);
		if (block->clean)
			return;
		/* Written, freed or overwritten meanwhile. */
		chunk_vacate(space, TIER_HOST, block->chunk[TIER_HOST]);
		block->chunk[TIER_HOST] = NULL;
	}
}

void migrate_retire(struct weir_space *space)
{
	for (int tier = 0; tier < TIER_NR; tier++) {
		struct move_queue *queue = &space->moving[tier];

		/* What was queued without a fence holds up all: it is tried again at every call. */
		if (space->unfenced[tier] && migrate_fence(space, (enum tier)tier))
			continue;
		while (queue->nr) {
			struct move *move = &queue->move[queue->head];

			if (!space_fence_done(space, move->fence, &move->err))
				break;
			if (move->err)
				space->move_failed(space, move, (enum tier)tier, move->err);
			move_finish(space, move);
			queue->head = (queue->head + 1) % queue->max;
			queue->nr--;
		}
	}
}

bool migrate_pending(const struct weir_space *space, enum tier to, fence_t fence)
{
	const struct move_queue *queue = &space->moving[to];

	for (uint32_t n = 0; n < queue->nr; n++)
		if (queue->move[(queue->head + n) % queue->max].fence == fence)
			return true;
	return false;
}

void migrate_note_error(struct weir_space *space, fence_t fence, int err)
{
	for (int tier = 0; tier < TIER_NR; tier++) {
		struct move_queue *queue = &space->moving[tier];

		if (!migrate_pending(space, (enum tier)tier, fence))
			continue;
		for (uint32_t n = 0; n < queue->nr; n++) {
			struct move *move = &queue->move[(queue->head + n) % queue->max];

			if (move->fence > fence)
				break;
			move->err = err;
		}
	}
}

int migrate_set_access(struct weir_space *space, const struct range *range, uint32_t i, bool host)
{
	uint32_t devices = range->granted | (host ? BACKEND_HOST_BIT : 0);

	return space->backend->ops->set_access(space->backend, range_block_addr(space, range, i),
					       BACKEND_PROT_WRITE, devices);
}

int migrate_set_devices(struct weir_space *space, struct range *range, uint32_t devices)
{
	uint32_t old = range->devices;

	range->devices = devices;
	range->granted |= devices;
	/* Fewer: mappings follow when they are made anew. */
	if (!(devices & ~old))
		return 0;
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		struct block *block = &range->block[i];
		int err;

		if (block->state == BLOCK_UNBACKED || block->unmapped)
			continue;
		err = migrate_set_access(space, range, i, block->host_pins != 0);
		if (err) {
			range->devices = old;
			return err;
		}
	}
	return 0;
}
