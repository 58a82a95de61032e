/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation: ranges from the pool or new, small ones from arenas, and what freeing does to both.
 * */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/residency/residency.h"

/* Freed ranges kept for reuse: beyond this, the one freed first goes. */
#define POOLED_MAX 1024u

void alloc_expect_anything(struct weir_space *space, struct range *range)
{
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		migrate_set_dead(space, range, &range->block[i], false);
	}
}

void alloc_record(struct weir_space *space, enum event_kind kind, struct range *range)
{
	struct residency *r = space->residency;
	uint64_t number;

	if (!r->recording)
		return;
	number = record_add(&r->record, kind, 0, range->life, range->nr_blocks);
	if (!number) {
		learn_forget(space);
		return;
	}
	if (kind == EVENT_ALLOC)
		range->life = number;
	follow_event(space, range);
}

/* Keep the pool small: addresses cost bookkeeping, idle freed ranges nothing else. */
static void trim_pool(struct weir_space *space)
{
	struct range *oldest = NULL;
	uint32_t nr = 0;

	for (struct range *range = space->pooled; range; range = range->next_pooled) {
		nr++;
		if (MAX(range->last_use, range->last_part_use) <= space->done_seq &&
		    !range->nr_state[BLOCK_TO_HBM] && !range->nr_state[BLOCK_TO_HOST] &&
		    !range->nr_cleaning)
			oldest = range;
	}
	if (nr > POOLED_MAX && oldest)
		range_destroy(space, oldest);
}

static int alloc_range(struct weir_space *space, uint64_t bytes, struct weir_stream *stream,
		       struct range **out)
{
	uint32_t nr_blocks = (uint32_t)((bytes - 1) / space->block_bytes + 1);
	struct backend *b = space->backend;
	struct range *range;
	int err;

	if (!space_has_room(space, nr_blocks))
		return -ENOMEM;
	range = range_pool_get(space, nr_blocks, stream, follow_expected_level(space, nr_blocks));
	if (range) {
		space->stats.nr_pool_hits++;
		if (!range_is_free_for(range, stream))
			space_wait_seq(space, MAX(range->last_use, range->last_part_use));
		goto found;
	}
	space->stats.nr_pool_misses++;
	trim_pool(space);
	err = range_create(space, nr_blocks, &range);
	if (err)
		return err;
	space->nr_live_blocks += nr_blocks;
	err = b->ops->access_guard(b, range->addr, space->mode == WEIR_PLANNED);
	if (err && err != -ENOSYS)
		goto err_pool;
found:
	range->bytes = bytes;
	range->stream = NULL;
	range->stream_any = false;
	if (space->mode == WEIR_FIXED) {
		err = place_back_all(space, range);
		if (err)
			goto err_pool;
		alloc_expect_anything(space, range);
	}
	*out = range;
	return 0;

err_pool:
	range_pool_add(space, range);
	return err;
}

/* A piece of an arena; the arena is backed at once, since it does not move. */
static int small_alloc(struct weir_space *space, uint64_t bytes, struct weir_stream *stream,
		       void **addr)
{
	struct range *range;
	void *piece;
	int err;

	err = arena_alloc(space, bytes, &piece);
	if (err)
		return err;
	range = range_find(space, piece);
	err = place_back_all(space, range);
	if (err) {
		(void)arena_free(range, piece);
		return err;
	}
	if (space->mode == WEIR_FIXED)
		alloc_expect_anything(space, range);
	/* What was freed here may still be in use elsewhere. */
	if ((range->stream || range->stream_any) && !range_is_free_for(range, stream)) {
		space_wait_seq(space, MAX(range->last_use, range->last_part_use));
		/* Unless pieces were freed inside a bracket that is still open. */
		if (!range_is_named(space, range)) {
			range->stream = NULL;
			range->stream_any = false;
		}
	}
	*addr = piece;
	return 0;
}

/* What the GPU's budget has no room for is going to be on the host. */
static void expect_host_chunks(struct weir_space *space)
{
	uint64_t most = space->stats.live_peak_bytes / space->block_bytes + SPACE_CHUNKS_SPARE;

	if (most > space->pmm[TIER_HBM].max_chunks)
		pmm_expect(&space->pmm[TIER_HOST], most - space->pmm[TIER_HBM].max_chunks);
}

int weir_alloc(struct weir_space *space, uint64_t bytes, struct weir_stream *stream, void **addr)
{
	struct range *range;
	int err;

	if (!bytes || bytes > (uint64_t)UINT32_MAX * space->block_bytes)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	space_placing_begin(space);
	space_progress(space);
	if (bytes < space->block_bytes) {
		err = small_alloc(space, bytes, stream, addr);
	} else {
		err = alloc_range(space, bytes, stream, &range);
		if (!err) {
			*addr = range->addr;
			alloc_record(space, EVENT_ALLOC, range);
		}
	}
	space->stats.live_peak_bytes =
		MAX(space->stats.live_peak_bytes, space->nr_live_blocks * space->block_bytes);
	expect_host_chunks(space);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

/*
 * In a fixed space no bracket says what launches use: what is queued on the stream so far may. A
 * range freed without a stream is no longer in use.
 */
static int note_fixed_use(struct weir_space *space, struct range *range, struct weir_stream *stream)
{
	struct ended_bracket bracket = {0};
	int err;

	if (space->mode != WEIR_FIXED || !stream)
		return 0;
	err = space_ended_reserve(space);
	if (!err)
		err = space_fence_record(space, stream_id(stream), &bracket.end);
	if (!err)
		range->last_part_use = space_ended_add(space, &bracket);
	return err;
}

/* An arena without pieces becomes a freed range like any other. */
static void retire_arena(struct weir_space *space, struct range *range)
{
	int err;

	if (!arena_is_empty(range) || range_is_named(space, range))
		return;
	err = space->backend->ops->access_guard(space->backend, range->addr,
						space->mode == WEIR_PLANNED);
	if (err && err != -ENOSYS) {
		space_note_error(space, err);
		return;
	}
	arena_destroy(range->small);
	range->small = NULL;
	range->arena = false;
	range_pool_add(space, range);
}

int weir_free(struct weir_space *space, void *addr, struct weir_stream *stream)
{
	struct range *range;
	int err = 0;

	if (!addr)
		return 0;
	pthread_mutex_lock(&space->lock);
	range = range_find(space, addr);
	if (range && !range->pooled && !range->free_pending)
		err = note_fixed_use(space, range, stream);
	if (err) {
		pthread_mutex_unlock(&space->lock);
		return err;
	}
	if (!range || range->pooled || range->free_pending) {
		err = -EINVAL;
	} else if (range->arena) {
		err = arena_free(range, addr);
		if (!err) {
			range_freed_on(range, stream);
			retire_arena(space, range);
		}
	} else if (range->addr != addr) {
		err = -EINVAL;
	} else {
		alloc_record(space, EVENT_FREE, range);
		follow_freed(space, range);
		range_freed_on(range, stream);
		range->free_pending = true;
		if (!range_is_named(space, range))
			range_pool_add(space, range);
	}
	if (err)
		log_error("free: nothing was allocated at %p", addr);
	pthread_mutex_unlock(&space->lock);
	return err;
}
