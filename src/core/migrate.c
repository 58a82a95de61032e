/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving one block between places: remap its address, queue the copy between the chunks' aliases,
 * finish when the copy is done. Decides nothing about which block, when or why.
 *
 * Copies are gathered into batches, since each batch costs the link one latency; a block whose
 * copy waits in a batch is already mapped to its new chunk, and migrate_flush() must come before
 * any stream that uses it goes on.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/cost/cost.h"
#include "src/core/migrate.h"
#include "src/core/tracing.h"

/* Blocks unmapped by one migrate_drop_stale(): the calls take time that a launch may wait for. */
#define DROP_MAX 16u

/* Have a block's address show nothing. */
static int call_unmap(struct weir_space *space, const struct range *range, uint32_t i)
{
	struct backend *b = space->backend;
	const uint64_t since_ns = b->ops->now_ns(b);
	int err = b->ops->unmap(b, range_block_addr(space, range, i));

	space->calls_ns += b->ops->now_ns(b) - since_ns;
	space->nr_calls++;
	return err;
}

/* Have it show a chunk. */
static int call_map(struct weir_space *space, const struct range *range, uint32_t i,
		    const struct chunk *chunk)
{
	struct backend *b = space->backend;
	const uint64_t since_ns = b->ops->now_ns(b);
	int err = b->ops->map(b, range_block_addr(space, range, i), &chunk->backend,
			      BACKEND_PROT_WRITE, range->devices);

	space->calls_ns += b->ops->now_ns(b) - since_ns;
	space->nr_calls++;
	return err;
}

int migrate_unstale(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (!block_is_stale(block))
		return 0;
	assert(!range_block_is_held(space, range, i));
	err = call_unmap(space, range, i);
	if (err)
		return err;
	block->at.mapped->stale--;
	block_set_mapped(range, block, NULL);
	space->nr_stale--;
	space->epoch++;
	space->stats.nr_remaps++;
	return 0;
}

bool migrate_drop_stale(struct weir_space *space)
{
	const uint64_t before = space->nr_stale;
	uint32_t left = DROP_MAX;

	for (uint32_t r = 0; r < space->nr_ranges && space->nr_stale; r++) {
		struct range *range = space->range[r];
		bool all = true; /* up to here */

		if (range_last_use(space, range) > space->done_seq)
			continue; /* all are held */
		for (uint32_t i = range->first_stale; i < range->nr_blocks && range->nr_stale;
		     i++) {
			if (!block_is_stale(&range->block[i]))
				continue;
			if (!left)
				return space->nr_stale < before;
			if (!range_block_is_held(space, range, i)) {
				space_note_error(space, migrate_unstale(space, range, i));
				left--;
			}
			all &= !block_is_stale(&range->block[i]);
			if (all)
				range->first_stale = i + 1;
		}
	}
	return space->nr_stale < before;
}

static int map_block(struct weir_space *space, struct range *range, uint32_t i,
		     const struct chunk *chunk)
{
	int err = migrate_unstale(space, range, i);

	if (err)
		return err;
	return call_map(space, range, i, chunk);
}

int migrate_mend(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (!block_is_unmapped(block))
		return 0;
	err = map_block(space, range, i, block->at.home);
	if (!err)
		block_set_mapped(range, block, block->at.home);
	return err;
}

int migrate_unplug(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	int err;

	if (!block->at.mapped || block_is_stale(block))
		return 0;
	err = call_unmap(space, range, i);
	if (err)
		return err;
	block_set_mapped(range, block, NULL);
	space->stats.nr_remaps++;
	return 0;
}

/* Map the block, which has a home, to another chunk, which the caller then makes its home. On error
 * it is mapped as before, or unmapped. */
static int remap_block(struct weir_space *space, struct range *range, uint32_t i,
		       const struct chunk *to)
{
	int err = migrate_unplug(space, range, i);

	return err ? err : map_block(space, range, i, to);
}

/* A move failed after the remap: the block must not stay mapped to the chunk that goes back. */
static void unplug_surely(struct weir_space *space, struct range *range, uint32_t i)
{
	for (int t = 0; t < SPACE_TRIES && migrate_unplug(space, range, i); t++)
		;
}

void migrate_change_home(struct weir_space *space, struct range *range, uint32_t i,
			 const struct copies *to, enum weir_cause cause)
{
	struct block *block = &range->block[i];
	place_t own = range_block_own(range, i);
	bool was = block_is_at(block, own);

	block_change(range, block, to);
	if (block_is_at(block, own) != was)
		space->ops->moved(space, range, i, !was, cause);
}

void migrate_vacate(struct weir_space *space, struct chunk *chunk)
{
	if (!chunk)
		return;
	if (space->poison)
		space->backend->ops->poison(space->backend, &chunk->backend, 0);
	pmm_chunk_put(&space->pmm[chunk->place], chunk);
}

int migrate_back(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk)
{
	struct block *block = &range->block[i];
	int err;

	assert(!block_is_backed(block));
	err = map_block(space, range, i, chunk);
	if (err) {
		pmm_chunk_put(&space->pmm[chunk->place], chunk);
		return err;
	}
	block->ready = 0;
	migrate_change_home(
		space, range, i,
		&(struct copies){.home = chunk, .mapped = chunk, .dead = block->at.dead},
		WEIR_CAUSE_DEMAND);
	tracing_place(space, range, i, NULL);
	return 0;
}

/* The chunk that the block is mapped to is not going to be its home any more. */
static void note_stale(struct weir_space *space, struct range *range, uint32_t i)
{
	range->block[i].at.mapped->stale++;
	range->first_stale = range->nr_stale ? MIN(range->first_stale, i) : i;
	space->nr_stale++;
}

/* The block keeps its chunk after all. */
static void note_fresh(struct weir_space *space, const struct block *block)
{
	block->at.mapped->stale--;
	space->nr_stale--;
}

/* The block's chunk goes, and nobody uses its address until it is mapped anew: it may show the
 * chunk until somebody has the time to take that away, see migrate_drop_stale(). */
static int leave_address(struct weir_space *space, struct range *range, uint32_t i)
{
	const struct block *block = &range->block[i];

	if (block_is_unmapped(block) || block->at.home->stale || space->mode == WEIR_FIXED ||
	    pmm_nr_beyond(&space->pmm[block->at.home->place]))
		return migrate_unplug(space, range, i);
	note_stale(space, range, i);
	return 0;
}

/* The dead block loses its home; its address is left as it is. */
static void lose_home(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	struct chunk *home = block->at.home;

	assert(block->at.dead && !block_is_moving(block) && !block->at.below);
	migrate_change_home(space, range, i,
			    &(struct copies){.mapped = block->at.mapped, .dead = true},
			    WEIR_CAUSE_EVICTION);
	tracing_place(space, range, i, home);
	migrate_vacate(space, home);
}

int migrate_unback(struct weir_space *space, struct range *range, uint32_t i)
{
	int err = migrate_unplug(space, range, i);

	if (!err)
		lose_home(space, range, i);
	return err;
}

int migrate_unback_later(struct weir_space *space, struct range *range, uint32_t i)
{
	int err = leave_address(space, range, i);

	if (!err)
		lose_home(space, range, i);
	return err;
}

void migrate_drop_lower(struct weir_space *space, struct range *range, struct block *block)
{
	struct chunk *below = block->at.below;
	struct copies to = block->at;

	if (!below)
		return;
	to.unproved = to.digested = false;
	if (block_is_cleaning(block)) { /* until it is done */
		to.cleaning = CLEANING_CANCELLED;
		block_change(range, block, &to);
		return;
	}
	to.below = NULL;
	block_change(range, block, &to);
	if (block->at.source != below) /* else it is still being read: move_finish() drops it */
		migrate_vacate(space, below);
}

void migrate_set_dead(struct weir_space *space, struct range *range, struct block *block, bool dead)
{
	const struct copies *at = &block->at;
	struct copies to = *at;

	if (!dead && at->digested) {
		to.unproved = true;
		if (!at->unproved)
			block_change(range, block, &to);
	} else {
		if (at->digested && block->nr_changed < BLOCK_CHANGED_MAX)
			block->nr_changed++;
		migrate_drop_lower(space, range, block);
	}
	block_set_dead(range, block, dead);
}

int migrate_queue(struct weir_space *space, struct range *range, uint32_t i, const struct chunk *to,
		  const struct chunk *from, enum weir_cause cause)
{
	struct path *path = space_path(space, from->place, to->place);
	struct copy_batch *batch = &path->batch;
	int err;

	if (batch->nr == SPACE_BATCH_MAX) {
		err = migrate_flush(space);
		if (err)
			return err;
	}
	batch->copy[batch->nr] = (struct backend_copy){
		.dst = to->backend.alias,
		.src = from->backend.alias,
		.bytes = space->block_bytes,
	};
	batch->move[batch->nr++] = (struct move){.range = range, .block = i, .cause = cause};
	space->stats.link_bytes[path->link][path->direction][cause] += space->block_bytes;
	space->stats.nr_moves[cause]++;
	tracing_move(space, range, i, path, cause);
	return 0;
}

void migrate_undo(struct weir_space *space, struct range *range, uint32_t i)
{
	struct block *block = &range->block[i];
	struct chunk *home = block->at.home;
	struct copies to = block->at;

	if (block->at.mapped && block->at.mapped == block->at.source) {
		note_fresh(space, block); /* it goes back to where it is mapped to */
	} else if (!block_is_stale(block)) {
		unplug_surely(space, range, i);
		if (block->at.mapped)
			note_stale(space, range, i);
	}
	to.mapped = block->at.mapped;
	to.home = to.source;
	to.source = NULL;
	if (to.below == to.home)
		to.below = NULL;
	to.unproved = to.unproved && to.below;
	to.digested = to.digested && to.below;
	migrate_change_home(space, range, i, &to, WEIR_CAUSE_EVICTION);
	migrate_vacate(space, home);
}

/* The block, which moves to the chunk, is mapped to it, or to nothing. */
static int remap_or_unplug(struct weir_space *space, struct range *range, uint32_t i,
			   const struct chunk *chunk, bool mapped)
{
	int err = mapped ? remap_block(space, range, i, chunk) : migrate_unstale(space, range, i);

	return err || mapped ? err : migrate_unplug(space, range, i);
}

static int fetch(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
		 enum weir_cause cause, bool mapped)
{
	struct block *block = &range->block[i];
	struct chunk *lower = block->at.home;
	struct copies to = {.home = chunk, .mapped = mapped ? chunk : NULL, .dead = block->at.dead};
	bool copied = !block->at.dead && WEIR_MUTANT != 1;
	int err;

	assert(block_is_backed(block) && !block_is_moving(block) && !block_is_cleaning(block));
	assert(range_block_rank(range, i, chunk->place) < range_block_rank(range, i, lower->place));
	err = remap_or_unplug(space, range, i, chunk, mapped);
	if (err) {
		pmm_chunk_put(&space->pmm[chunk->place], chunk);
		return err;
	}
	if (!copied) {
		block->ready = 0;
		migrate_change_home(space, range, i, &to, cause);
		tracing_place(space, range, i, lower);
		migrate_vacate(space, lower);
		return 0;
	}
	to.source = lower;
	to.below = block->at.below ? block->at.below : lower;
	migrate_change_home(space, range, i, &to, cause);
	err = migrate_queue(space, range, i, chunk, lower, cause);
	if (err)
		migrate_undo(space, range, i);
	return err;
}

int migrate_fetch(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
		  enum weir_cause cause)
{
	return fetch(space, range, i, chunk, cause, true);
}

int migrate_fetch_unmapped(struct weir_space *space, struct range *range, uint32_t i,
			   struct chunk *chunk, enum weir_cause cause)
{
	return fetch(space, range, i, chunk, cause, false);
}

int migrate_up(struct weir_space *space, struct range *range, uint32_t i, struct chunk *chunk,
	       enum weir_cause cause)
{
	if (!block_is_backed(&range->block[i]))
		return migrate_back(space, range, i, chunk);
	return migrate_fetch(space, range, i, chunk, cause);
}

int migrate_clean(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower)
{
	struct block *block = &range->block[i];
	int err;

	assert(block_is_backed(block) && !block_is_moving(block));
	assert(!block->at.dead && !block->at.below);
	block_set_below(range, block, lower, CLEANING_ACTIVE);
	err = migrate_queue(space, range, i, lower, block->at.home, WEIR_CAUSE_WRITEBACK);
	if (err) {
		block_set_below(range, block, NULL, CLEANING_NONE);
		pmm_chunk_put(&space->pmm[lower->place], lower);
	}
	return err;
}

/* The part of an eviction that copies; the block is unmapped. */
static int evict_copy(struct weir_space *space, struct range *range, uint32_t i,
		      struct chunk *lower, enum weir_cause cause)
{
	struct block *block = &range->block[i];
	struct copies to = {.home = lower, .source = block->at.home};
	int err = migrate_queue(space, range, i, lower, block->at.home, cause);
	if (err)
		return err;
	/* A lower copy stays one only if it is below the new home. */
	if (block->at.below == lower)
		block_set_below(range, block, NULL, CLEANING_NONE);
	else if (block->at.below &&
		 (block->at.unproved || range_block_rank(range, i, block->at.below->place) <=
						range_block_rank(range, i, lower->place)))
		migrate_drop_lower(space, range, block);
	to.mapped = block->at.mapped;
	to.below = block->at.below;
	migrate_change_home(space, range, i, &to, cause);
	return 0;
}

int migrate_evict(struct weir_space *space, struct range *range, uint32_t i, struct chunk *lower,
		  enum weir_cause cause, bool *freed)
{
	struct block *block = &range->block[i];
	struct chunk *upper = block->at.home;
	int err;

	assert(block_is_backed(block) && !block_is_moving(block) && !block_is_cleaning(block));
	if (WEIR_MUTANT == 3 && !range->pooled && !block_is_clean(block) && range->nr_blocks > 1 &&
	    i == 0)
		block_set_dead(range, block, true);
	if (block->at.dead) {
		err = migrate_unback(space, range, i);
		if (err)
			return err;
		space->stats.nr_dead_dropped++;
		*freed = true;
		return 0;
	}
	if (!lower && block->at.unproved)
		lower = block->at.below;
	err = leave_address(space, range, i);
	if (err)
		return err;
	if (lower) {
		*freed = false;
		err = evict_copy(space, range, i, lower, cause);
		if (err && block->at.mapped == upper && upper->stale)
			note_fresh(space, block);
		return err;
	}
	assert(block_is_clean(block));
	block->ready = 0;
	migrate_change_home(space, range, i,
			    &(struct copies){.home = block->at.below, .mapped = block->at.mapped},
			    cause);
	tracing_place(space, range, i, upper);
	migrate_vacate(space, upper);
	space->stats.nr_clean_dropped++;
	*freed = true;
	return 0;
}

int migrate_take(struct weir_space *space, struct range *from, uint32_t i, struct range *to,
		 uint32_t n)
{
	struct block *giver = &from->block[i], *taker = &to->block[n];
	struct chunk *chunk = giver->at.home, *lower = taker->at.home;
	int err;

	assert(!block_is_moving(giver) && !block_is_dirty(giver));
	assert(chunk->stale < SPACE_STALE_MAX);
	assert(giver->at.mapped == chunk);
	assert(taker->at.dead && !block_is_moving(taker) && !block_is_cleaning(taker));
	err = lower ? remap_block(space, to, n, chunk) : map_block(space, to, n, chunk);
	if (err)
		return err;
	if (block_is_clean(giver))
		space->stats.nr_clean_dropped++;
	else
		space->stats.nr_dead_dropped++;
	giver->ready = 0;
	note_stale(space, from, i);
	migrate_change_home(
		space, from, i,
		&(struct copies){.home = giver->at.below, .mapped = chunk, .dead = giver->at.dead},
		WEIR_CAUSE_EVICTION);
	taker->ready = 0;
	/* The chunk is in use by what used the giver. */
	taker->last_use = MAX(taker->last_use, range_block_last_use(space, from, i));
	to->last_part_use = MAX(to->last_part_use, taker->last_use);
	migrate_change_home(space, to, n,
			    &(struct copies){.home = chunk, .mapped = chunk, .dead = true},
			    WEIR_CAUSE_DEMAND);
	tracing_place(space, from, i, chunk);
	tracing_place(space, to, n, lower);
	migrate_vacate(space, lower);
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
static void batch_undo(struct weir_space *space, const struct path *path, struct copy_batch *batch)
{
	tracing_moved(space, path, batch->nr, true);
	for (uint32_t n = 0; n < batch->nr; n++) {
		struct range *range = batch->move[n].range;
		struct block *block = &range->block[batch->move[n].block];
		struct chunk *below = block->at.below;

		if (block_is_cleaning(block)) {
			block_set_below(range, block, NULL, CLEANING_NONE);
			migrate_vacate(space, below);
		} else {
			migrate_undo(space, range, batch->move[n].block);
		}
	}
	batch->nr = 0;
}

int migrate_fence(struct weir_space *space, struct path *path)
{
	struct move_queue *queue = &path->moving;
	fence_t fence;
	int err;

	if (!path->unfenced)
		return 0;
	err = space_fence_record(space, path->stream, &fence);
	if (err)
		return err;
	path->unfenced = false;
	for (uint32_t n = queue->nr; n-- > 0;) {
		struct move *move = &queue->move[(queue->head + n) % queue->max];
		struct block *block = &move->range->block[move->block];
		struct range_path *newest = &move->range->path[path - space->path];

		if (move->fence)
			break;
		move->fence = fence;
		if (block_is_cleaning(block)) {
			newest->cleaned = fence;
		} else if (WEIR_MUTANT != 5 || path->to != PLACE_OWN ||
			   path->from == space_host(space)) {
			block->ready = fence;
			newest->ready = fence;
		}
	}
	return 0;
}

static int batch_flush(struct weir_space *space, struct path *path)
{
	struct copy_batch *batch = &path->batch;
	struct backend *b = space->backend;
	int err;

	if (!batch->nr)
		return migrate_fence(space, path);
	err = queue_reserve(&path->moving, batch->nr);
	if (err)
		goto err_undo;
	/* No waits: both chunks of a block that may move are idle (see residency/room.c). */
	if ((WEIR_MUTANT != 2 || path->to < space->nr_devices) &&
	    (WEIR_MUTANT != 6 || path->from < space->nr_devices || path->to < space->nr_devices)) {
		err = b->ops->copy(b, path->stream, batch->copy, batch->nr);
		if (err)
			goto err_undo;
	}
	for (uint32_t n = 0; n < batch->nr; n++) {
		batch->move[n].fence = 0;
		queue_push(&path->moving, &batch->move[n]);
	}
	batch->nr = 0;
	path->unfenced = true;
	return migrate_fence(space, path);

err_undo:
	batch_undo(space, path, batch);
	return err;
}

int migrate_flush(struct weir_space *space)
{
	int err = 0;

	/* What makes room goes first. */
	for (uint32_t p = space->nr_paths; p-- > 0;) {
		struct path *path = &space->path[p];
		int err_path;

		if (!path->batch.nr && !path->unfenced)
			continue;
		err_path = batch_flush(space, path);
		err = err ? err : err_path;
	}
	return err;
}

/* The block's copy is done. */
static void move_finish(struct weir_space *space, const struct move *move)
{
	struct range *range = move->range;
	struct block *block = &range->block[move->block];
	struct copies to = block->at;
	struct chunk *unused = NULL;

	if (block_is_cleaning(block)) {
		if (to.cleaning == CLEANING_CANCELLED && (WEIR_MUTANT != 7 || to.dead)) {
			unused = to.below;
			to.below = NULL;
		}
		to.cleaning = CLEANING_NONE;
	} else {
		assert(to.source);
		unused = to.source == to.below ? NULL : to.source;
		to.source = NULL;
	}
	block_change(range, block, &to);
	migrate_vacate(space, unused);
	space->epoch++;
}

void migrate_retire(struct weir_space *space)
{
	for (uint32_t p = 0; p < space->nr_paths; p++) {
		struct path *path = &space->path[p];
		struct move_queue *queue = &path->moving;
		uint32_t nr = queue->nr;

		if (!nr)
			continue;
		/* What was queued without a fence holds up all: it is tried again at every call. */
		if (path->unfenced && migrate_fence(space, path))
			continue;
		while (queue->nr) {
			struct move *move = &queue->move[queue->head];

			if (!space_fence_done(space, move->fence, &move->err))
				break;
			if (move->err)
				space->ops->move_failed(space, path, move, move->err);
			move_finish(space, move);
			queue->head = (queue->head + 1) % queue->max;
			queue->nr--;
		}
		tracing_moved(space, path, nr - queue->nr, false);
	}
}

bool migrate_pending(const struct path *path, fence_t fence)
{
	const struct move_queue *queue = &path->moving;

	for (uint32_t n = 0; n < queue->nr; n++)
		if (queue->move[(queue->head + n) % queue->max].fence == fence)
			return true;
	return false;
}

void migrate_note_error(struct weir_space *space, fence_t fence, int err)
{
	for (uint32_t p = 0; p < space->nr_paths; p++) {
		struct move_queue *queue = &space->path[p].moving;

		if (!migrate_pending(&space->path[p], fence))
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
	uint64_t devices = range->granted | (host ? BACKEND_HOST_BIT : 0);

	return space->backend->ops->set_access(space->backend, range_block_addr(space, range, i),
					       BACKEND_PROT_WRITE, devices);
}

int migrate_set_devices(struct weir_space *space, struct range *range, uint64_t devices)
{
	uint64_t old = range->devices;

	range->devices = devices;
	range->granted |= devices;
	/* Fewer: mappings follow when they are made anew. */
	if (!(devices & ~old))
		return 0;
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		struct block *block = &range->block[i];
		int err;

		/* What was left behind follows when it is mapped anew, but what is still on its way
		 * down may come back. */
		if (!block->at.mapped ||
		    (block_is_stale(block) && block->at.mapped != block->at.source))
			continue;
		err = migrate_set_access(space, range, i, block->host_pins != 0);
		if (err) {
			range->devices = old;
			return err;
		}
	}
	return 0;
}
