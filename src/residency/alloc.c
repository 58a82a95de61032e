/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation: ranges from the pool or new, small ones from arenas, and what freeing does to both.
 * */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/core/kind.h"
#include "src/core/tracing.h"
#include "src/residency/residency.h"

/* Freed ranges kept for reuse: beyond this, the one freed first goes. */
#define POOLED_MAX 1024u

void alloc_expect_anything(struct weir_space *space, struct range *range)
{
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		migrate_set_dead(space, range, &range->block[i], false);
	}
}

/* Keep the pool small: addresses cost bookkeeping, idle freed ranges nothing else. */
static void trim_pool(struct weir_space *space)
{
	struct range *oldest = NULL;
	uint32_t nr = 0;

	for (struct range *range = space->pooled; range; range = range->next_pooled) {
		nr++;
		if (range_is_idle(space, range) && !range_is_moving(range) && !range->nr_cleaning)
			oldest = range;
	}
	if (nr > POOLED_MAX && oldest)
		range_destroy(space, oldest);
}

/* Whether the devices' own memories have room for so many blocks, or will have when freed ranges
 * are idle. */
static bool own_has_room(const struct weir_space *space, uint32_t nr_blocks)
{
	uint64_t nr = 0;

	for (uint32_t own = 0; own < space->nr_devices; own++) {
		nr += pmm_nr_available(&space->pmm[own]);
		for (const struct range *range = space->pooled; range; range = range->next_pooled)
			nr += range_nr_settled(range, (place_t)own);
	}
	return nr >= nr_blocks;
}

/* A range for a new allocation: a freed one, or a new one. slot: where it is used first; NULL:
 * nobody said. */
static int take_range(struct weir_space *space, uint32_t nr_blocks, const struct stream_slot *slot,
		      struct range **out)
{
	const struct planner *p = slot ? slot_planner(space, slot) : space->residency->planner;
	struct range_wanted wanted;
	int err;

	while (!space_has_room(space, nr_blocks))
		if (!space_ask_owners(space, nr_blocks))
			return -ENOMEM;
	if (space->own_only && !own_has_room(space, nr_blocks))
		return -ENOSPC;
	wanted = schedule_expected(space, p, nr_blocks);
	*out = range_pool_get(space, nr_blocks, slot, &wanted);
	if (*out) {
		space->stats.nr_pool_hits++;
		wide_add(space, *out);
		return 0;
	}
	space->stats.nr_pool_misses++;
	trim_pool(space);
	err = range_create(space, nr_blocks, out);
	if (err)
		return err;
	space->nr_live_blocks += nr_blocks;
	wide_add(space, *out);
	return 0;
}

int alloc_guard(struct weir_space *space, const struct range *range, bool guarded)
{
	int err = space->backend->ops->access_guard(space->backend, range->addr, guarded);

	return err == -ENOSYS ? 0 : err;
}

/* Have the stream wait on the device for who used the bytes before, and for where they were
 * freed. */
static int follow_frees(struct weir_space *space, const struct use_list *uses,
			struct weir_stream *stream)
{
	const struct stream_slot *slot = space_slot(space, stream);

	if (!slot)
		return -ENOMEM;
	place_mark(space, uses->use, uses->nr);
	return order_behind(space, slot, uses);
}

/* Have the host wait for the same, as long as the space is patient: the first launch to use the
 * bytes may not name them. */
static void wait_for_frees(struct weir_space *space, const struct use_list *uses)
{
	place_mark(space, uses->use, uses->nr);
	space_settle_patiently(space, order_newest(space, uses));
}

/*
 * In a fixed space any launch may use what was allocated: it is backed, and who uses it comes after
 * who used the same bytes before. A stream that is named waits on the device, else the host waits.
 * In a planned space brackets see to both; where these are guesses, a stream that is named waits
 * there, too, or the host does, but for those that only may have used the bytes.
 */
static int open_fixed(struct weir_space *space, struct range *range, uint64_t offset,
		      uint64_t bytes, struct weir_stream *stream)
{
	struct space_use use = {.range = range,
				.nr = range->nr_blocks,
				.offset = offset,
				.bytes = bytes,
				.kind = WEIR_OVERWRITE};
	struct use_list uses = {.use = &use, .nr = 1};
	int err;

	if (space->mode != WEIR_FIXED) {
		use.atomic = true; /* not behind what only may use it */
		if (space->guessed && stream)
			return follow_frees(space, &uses, stream);
		if (space->guessed)
			wait_for_frees(space, &uses);
		return 0;
	}
	err = migrate_set_devices(space, range, range->devices | space->devices);
	if (!err)
		err = place_back_all(space, range);
	if (err)
		return err;
	alloc_expect_anything(space, range);
	if (!stream) {
		space_settle_seq(space, range_newest_use(space, range));
		return 0;
	}
	return follow_frees(space, &uses, stream);
}

/* The own memory of a stream's device; -1: there is no stream, or it is of none of the space's. */
static int stream_own(const struct weir_space *space, const struct weir_stream *stream)
{
	return stream ? space_own(space, stream_device(stream)) : -1;
}

/* Nobody uses the range yet but the stream's device. */
static void set_own(struct weir_space *space, struct range *range, const struct weir_stream *stream)
{
	int own = stream_own(space, stream);

	if (own >= 0 && own != range->own && !range->homes)
		range_set_own(space, range, (place_t)own);
}

static int alloc_range(struct weir_space *space, uint64_t bytes, struct weir_stream *stream,
		       struct range **out)
{
	uint32_t nr_blocks = (uint32_t)((bytes - 1) / space->block_bytes + 1);
	struct range *range;
	int err = take_range(space, nr_blocks, space_slot_find(space, stream), &range);

	if (err)
		return err;
	range->bytes = bytes;
	range->born = space->last_seq;
	set_own(space, range, stream);
	err = alloc_guard(space, range, space->mode == WEIR_PLANNED);
	if (!err)
		err = open_fixed(space, range, 0, bytes, stream);
	if (err) {
		range_pool_add(space, range);
		return err;
	}
	*out = range;
	return 0;
}

/* One more arena. */
static int add_arena(struct weir_space *space, struct weir_stream *stream, struct range **out)
{
	int err = take_range(space, 1, space_slot_find(space, stream), out);

	if (err)
		return err;
	set_own(space, *out, stream);
	err = migrate_set_devices(space, *out, (*out)->devices | space->devices);
	if (!err)
		err = alloc_guard(space, *out, false);
	if (!err)
		err = arena_init(space, *out);
	if (err)
		range_pool_add(space, *out);
	return err;
}

/* A piece of an arena; the arena is backed at once, since it does not move. */
static int small_alloc(struct weir_space *space, uint64_t bytes, struct weir_stream *stream,
		       struct range **out, void **addr)
{
	struct range *range = NULL;
	int err = -ENOSPC, own = stream_own(space, stream);
	uint64_t offset;
	void *piece;

	for (uint32_t i = 0; err == -ENOSPC && i < space->nr_ranges; i++) {
		range = space->range[i];
		if (range->arena && (own < 0 || range->own == own))
			err = arena_alloc(range, bytes, space->last_seq, &piece);
	}
	if (err == -ENOSPC) {
		err = add_arena(space, stream, &range);
		if (!err)
			err = arena_alloc(range, bytes, space->last_seq, &piece);
	}
	if (err)
		return err;
	range->born = space->last_seq;
	space->wide.reborn = space->last_seq;
	offset = (uint64_t)((char *)piece - (char *)range->addr);
	err = place_back_all(space, range);
	if (!err)
		err = open_fixed(space, range, offset, bytes, stream);
	if (err)
		(void)arena_free(range, piece);
	else
		*addr = piece;
	*out = range;
	return err;
}

/* What the places above have no room for is going to be on the host, and so are copies of what
 * neighbours have, and of what nobody writes. */
static void expect_host_chunks(struct weir_space *space)
{
	uint64_t most = space->stats.live_peak_bytes / space->block_bytes + SPACE_CHUNKS_SPARE;
	uint64_t above = 0;

	for (uint32_t own = 0; own < space->nr_devices; own++) {
		const struct plan *plan = space->residency->planner[own].plan;
		uint64_t kept = plan && space_has_neighbours(space) ? plan->nr_kept_blocks : 0;

		above += space->pmm[own].max_chunks - MIN(space->pmm[own].max_chunks, kept);
	}
	for (uint32_t place = space->nr_devices; place < space_host(space); place++)
		above += MIN(space->pmm[place].max_chunks, space->residency->dirty_max[place]);
	if (most > above)
		pmm_expect(&space->pmm[space_host(space)], most - above);
}

/* Why there was no room: what each budget has that no live range holds. */
static void log_no_room(const struct weir_space *space, uint64_t bytes)
{
	uint64_t held[PLACES_MAX] = {0};
	char left[PLACES_MAX * (WEIR_NAME_MAX + 32)];
	size_t at = 0;

	for (uint32_t r = 0; r < space->nr_ranges; r++)
		for (uint32_t place = 0; !space->range[r]->pooled && place < space->nr_places;
		     place++)
			held[place] += space->range[r]->nr_home[place];
	for (uint32_t place = 0; place < space->nr_places; place++) {
		const struct pmm *pmm = &space->pmm[place];
		uint64_t nr = pmm->max_chunks > held[place] ? pmm->max_chunks - held[place] : 0;

		at += (size_t)snprintf(left + at, sizeof(left) - at, "%s%.3f MB of %s",
				       place ? ", " : "", (double)(nr * space->block_bytes) / 1e6,
				       space->backend->desc.memory[pmm->memory].name);
	}
	log_error("alloc: no room for %.3f MB beside %.3f MB that are allocated: the budgets have "
		  "left %s, and %.3f MB stay free for copies: free something, or give the space "
		  "more",
		  (double)bytes / 1e6, (double)(space->nr_live_blocks * space->block_bytes) / 1e6,
		  left, (double)(SPACE_CHUNKS_SPARE * space->block_bytes) / 1e6);
}

int weir_alloc(struct weir_space *space, uint64_t bytes, struct weir_stream *stream, void **addr)
{
	struct range *range = NULL;
	uint64_t since_ns;
	int err;

	if (!bytes || bytes > (uint64_t)UINT32_MAX * space->block_bytes)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	since_ns = tracing_now(space);
	space_placing_begin(space);
	space_progress(space);
	if (bytes < space->block_bytes) {
		err = small_alloc(space, bytes, stream, &range, addr);
	} else {
		err = alloc_range(space, bytes, stream, &range);
		if (!err) {
			*addr = range->addr;
			home_allocated(space, range, stream_own(space, stream));
		}
	}
	space->stats.live_peak_bytes =
		MAX(space->stats.live_peak_bytes, space->nr_live_blocks * space->block_bytes);
	expect_host_chunks(space);
	if (!err)
		tracing_alloc(space, range, (uint64_t)((char *)*addr - (char *)range->addr), bytes,
			      space_slot_find(space, stream), since_ns);
	if (err == -ENOMEM)
		log_no_room(space, bytes);
	space_placing_end(space);
	if (range)
		alloc_settle(space, range); /* pieces of it that were freed meanwhile */
	pthread_mutex_unlock(&space->lock);
	return err;
}

/*
 * In a fixed space no bracket says what launches use: what is queued on the stream so far may use
 * the part. What is freed without a stream is no longer in use.
 */
static int note_fixed_use(struct weir_space *space, struct range *range, uint64_t offset,
			  uint64_t bytes, struct weir_stream *stream)
{
	struct ended_bracket bracket = {0};
	struct use_list uses = {0};
	int err;

	if ((space->mode != WEIR_FIXED && !space->guessed) || !stream)
		return 0;
	bracket.slot = space_slot(space, stream);
	if (!bracket.slot)
		return -ENOMEM;
	err = space_ended_reserve(space);
	if (!err)
		err = use_list_reserve(&uses, 1);
	if (!err)
		err = space_fence_record(space, stream_id(stream), &bracket.end);
	if (!err) {
		uses.nr = 1;
		uses.use[0] = (struct space_use){.range = range,
						 .offset = offset,
						 .bytes = bytes,
						 .kind = WEIR_WRITE,
						 .freed = true};
		range->last_part_use = space_ended_add(space, &bracket, &uses);
		range->users |= UINT64_C(1) << bracket.slot->own;
	}
	free(uses.use); /* on success what it was swapped for */
	return err;
}

/* An arena without pieces becomes a freed range like any other. */
static void retire_arena(struct weir_space *space, struct range *range)
{
	int err = alloc_guard(space, range, space->mode == WEIR_PLANNED);

	if (err) {
		space_note_error(space, err); /* it stays an arena, and empty */
		return;
	}
	arena_fini(range);
	range_pool_add(space, range);
}

void alloc_settle(struct weir_space *space, struct range *range)
{
	if (range_is_named(space, range))
		return;
	if (range->arena) {
		if (arena_settle(range))
			retire_arena(space, range);
	} else if (range->free_pending) {
		range_pool_add(space, range);
	}
}

void alloc_settle_all(struct weir_space *space)
{
	bool frees = false;

	for (uint32_t r = 0; r < space->nr_ranges && space->wide.frees; r++) {
		struct range *range = space->range[r];

		if (!range->arena && !range->free_pending)
			continue;
		alloc_settle(space, range);
		frees |= range_is_named(space, range);
	}
	space->wide.frees = frees;
}

/* Free part of a range: all of it, or a piece of an arena. */
static int free_part(struct weir_space *space, struct range *range, void *addr,
		     struct weir_stream *stream)
{
	uint64_t offset = 0, bytes = range->bytes, since_ns = tracing_now(space), life;
	int err;

	if (range->arena)
		bytes = arena_find(range, addr, &offset);
	if (!bytes || (char *)range->addr + offset != (char *)addr)
		return -EINVAL;
	/* Who takes the memory waits for no launch that comes behind this. */
	space_fence_all(space);
	err = note_fixed_use(space, range, offset, bytes, stream);
	if (err)
		return err;
	if (range->nr_replicated)
		space->shared_ops->freed(space, range, offset);
	life = tracing_life_take(space, range, offset);
	if (range->arena) {
		(void)arena_free(range, addr);
	} else {
		follow_life(space, EVENT_FREE, range);
		follow_freed(range);
		range->free_pending = true;
	}
	wide_note_free(space, range);
	alloc_settle(space, range);
	tracing_free(space, life, space_slot_find(space, stream), since_ns);
	return 0;
}

int weir_free(struct weir_space *space, void *addr, struct weir_stream *stream)
{
	struct range *range;
	int err = -EINVAL;

	if (!addr)
		return 0;
	pthread_mutex_lock(&space->lock);
	range = range_find(space, addr);
	if (range && !range->kind && range_lives(range))
		err = free_part(space, range, addr, stream);
	if (err == -EINVAL)
		log_error("free: nothing was allocated at %p", addr);
	pthread_mutex_unlock(&space->lock);
	return err;
}
