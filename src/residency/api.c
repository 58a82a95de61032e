/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces and allocation: the public calls that begin and end things. */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/core/cost.h"
#include "src/residency/residency.h"

#define BLOCK_DEFAULT (8u << 20)
/* The default block size shrinks until the budget has so many of them. */
#define BLOCKS_MIN 64u
/* Freed ranges kept for reuse: beyond this, the one freed first goes. */
#define POOLED_MAX 1024u

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* A block size for a budget: the default, halved while blocks are few and the machine allows. */
static uint64_t pick_block_bytes(const struct weir_machine_desc *desc, uint64_t budget)
{
	uint64_t bytes = BLOCK_DEFAULT;

	while (budget / bytes < BLOCKS_MIN && bytes / 2 >= desc->vmm.granularity_bytes)
		bytes /= 2;
	return MAX(bytes, desc->vmm.granularity_bytes);
}

static int check_config(const struct weir_machine_desc *desc, struct weir_space_config *config)
{
	const char *wrong = NULL;
	uint64_t gpu, host;

	if (config->device >= desc->nr_devices || config->mode > WEIR_PLANNED) {
		log_error("space: no device %u, or no mode %d", config->device, (int)config->mode);
		return -EINVAL;
	}
	gpu = desc->memory[desc->device[config->device].memory].bytes;
	host = desc->memory[cost_host_memory(desc)].bytes;
	config->gpu_budget_bytes = config->gpu_budget_bytes ? config->gpu_budget_bytes : gpu;
	config->host_budget_bytes = config->host_budget_bytes ? config->host_budget_bytes : host;
	if (!config->block_bytes)
		config->block_bytes = pick_block_bytes(desc, config->gpu_budget_bytes);
	if (config->gpu_budget_bytes > gpu)
		wrong = "the GPU budget is larger than the GPU's memory";
	else if (config->host_budget_bytes > host)
		wrong = "the host budget is larger than the host's memory";
	else if (!is_power_of_two(config->block_bytes) ||
		 config->block_bytes % desc->vmm.granularity_bytes ||
		 config->block_bytes > UINT32_MAX)
		wrong = "the block size is no power of two, or no multiple of the granularity";
	else if (config->gpu_budget_bytes / config->block_bytes < 2)
		wrong = "the GPU budget is below two blocks";
	else if (config->host_budget_bytes / config->block_bytes < 2)
		wrong = "the host budget is below two blocks";
	if (!wrong)
		return 0;
	log_error("space: %s", wrong);
	return -EINVAL;
}

static void residency_advance(struct weir_space *space)
{
	advice_advance(space);
	follow_advance(space);
}

int weir_space_create(struct weir_machine *machine, const struct weir_space_config *config,
		      struct weir_space **out)
{
	struct weir_space_config checked = *config;
	struct weir_space *space;
	int err = check_config(weir_machine_desc(machine), &checked);

	if (err)
		return err;
	space = calloc(1, sizeof(*space));
	if (!space)
		return -ENOMEM;
	space->residency = calloc(1, sizeof(*space->residency));
	if (!space->residency) {
		err = -ENOMEM;
		goto err_free;
	}
	if (record_init(&space->residency->record)) {
		err = -ENOMEM;
		goto err_residency;
	}
	space->residency->recording = checked.mode == WEIR_PLANNED;
	space->advance = residency_advance;
	space->bracket_done = follow_done;
	err = space_init(space, machine, &checked);
	if (err)
		goto err_record;
	*out = space;
	return 0;

err_record:
	record_fini(&space->residency->record);
err_residency:
	free(space->residency);
err_free:
	free(space);
	return err;
}

/* Wait until everything that was queued is done. Lock held. */
static void quiesce(struct weir_space *space)
{
	int err = migrate_flush(space);

	if (err)
		space_note_error(space, err);
	space_wait_seq(space, space->last_seq);
	for (int tier = 0; tier < TIER_NR; tier++)
		while (space->moving[tier].nr) {
			struct move_queue *queue = &space->moving[tier];

			space_wait_fence(space, queue->move[queue->head].fence);
		}
}

void weir_space_destroy(struct weir_space *space)
{
	if (!space)
		return;
	pthread_mutex_lock(&space->lock);
	learn_forget(space);
	space->residency->recording = false;
	advice_cancel(space);
	for (uint32_t i = 0; i < space->nr_slots; i++) {
		struct stream_slot *slot = space->slot[i];

		if (!slot->open)
			continue;
		log_warning("space: destroyed with an open bracket; waiting for its stream");
		space->backend->ops->access_end(space->backend, stream_id(slot->stream));
		for (int t = 0; t < SPACE_TRIES && weir_stream_sync(slot->stream); t++)
			;
	}
	quiesce(space);
	while (space->nr_ranges)
		range_destroy(space, space->range[space->nr_ranges - 1]);
	pthread_mutex_unlock(&space->lock);
	record_fini(&space->residency->record);
	free(space->residency->pending);
	free(space->residency);
	space_fini(space);
	free(space);
}

static int take_error(struct weir_space *space)
{
	int err = space->error;

	space->error = 0;
	return err;
}

int weir_space_sync(struct weir_space *space)
{
	int err;

	pthread_mutex_lock(&space->lock);
	quiesce(space);
	err = take_error(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* Make a range fit for the mode. */
static int range_set_mode(struct weir_space *space, struct range *range, enum weir_space_mode mode)
{
	struct backend *b = space->backend;
	int err;

	if (range->arena)
		return 0;
	if (mode == WEIR_FIXED && !range->pooled) {
		err = place_back_all(space, range);
		if (err)
			return err;
	}
	err = b->ops->access_guard(b, range->addr, mode == WEIR_PLANNED);
	return err == -ENOSYS ? 0 : err;
}

int weir_space_set_mode(struct weir_space *space, enum weir_space_mode mode)
{
	int err;

	if (mode > WEIR_PLANNED)
		return -EINVAL;
	pthread_mutex_lock(&space->lock);
	err = space->nr_open ? -WEIR_ECONTRACT : 0;
	if (err || space->mode == mode)
		goto out;
	learn_forget(space);
	record_drop(&space->residency->record);
	quiesce(space);
	err = take_error(space);
	for (uint32_t r = 0; !err && r < space->nr_ranges; r++)
		err = range_set_mode(space, space->range[r], mode);
	if (err) {
		for (uint32_t r = 0; r < space->nr_ranges; r++)
			(void)range_set_mode(space, space->range[r], space->mode);
		goto out;
	}
	space->mode = mode;
	space->residency->recording = mode == WEIR_PLANNED;
out:
	pthread_mutex_unlock(&space->lock);
	return err;
}

/* Record an allocation or a free. */
static void record_life(struct weir_space *space, enum event_kind kind, struct range *range)
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
		    !range->nr_state[BLOCK_TO_HBM] && !range->nr_state[BLOCK_TO_HOST])
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
		if (!stream || range->stream != stream)
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
	if (space->mode == WEIR_FIXED) {
		err = place_back_all(space, range);
		if (err)
			goto err_pool;
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
		(void)arena_free(space, range, piece);
		return err;
	}
	/* What was freed here may still be in use on another stream. */
	if (!stream || range->stream != stream)
		space_wait_seq(space, MAX(range->last_use, range->last_part_use));
	*addr = piece;
	return 0;
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
			record_life(space, EVENT_ALLOC, range);
		}
	}
	space->stats.live_peak_bytes = MAX(space->stats.live_peak_bytes,
					   space->nr_live_blocks * space->block_bytes);
	space_placing_end(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}

int weir_free(struct weir_space *space, void *addr, struct weir_stream *stream)
{
	struct range *range;
	int err = 0;

	if (!addr)
		return 0;
	pthread_mutex_lock(&space->lock);
	range = range_find(space, addr);
	if (!range || range->pooled || range->free_pending) {
		err = -EINVAL;
	} else if (range->arena) {
		range->stream = range->stream && range->stream != stream ? NULL : stream;
		err = arena_free(space, range, addr);
	} else if (range->addr != addr) {
		err = -EINVAL;
	} else {
		record_life(space, EVENT_FREE, range);
		range->stream = stream;
		range->free_pending = true;
		if (!range->pins && !range->part_pins)
			range_pool_add(space, range);
	}
	if (err)
		log_error("free: nothing was allocated at %p", addr);
	pthread_mutex_unlock(&space->lock);
	return err;
}

void weir_space_stats(struct weir_space *space, struct weir_stats *out)
{
	const struct pmm *hbm = &space->pmm[TIER_HBM], *host = &space->pmm[TIER_HOST];
	struct backend *b = space->backend;
	uint64_t in_place[WEIR_DIRECTION_NR];

	pthread_mutex_lock(&space->lock);
	b->ops->inplace_bytes(b, space->device, in_place);
	for (int d = 0; d < WEIR_DIRECTION_NR; d++)
		space->stats.bytes[d][WEIR_CAUSE_INPLACE] = in_place[d];
	*out = space->stats;
	out->gpu_bytes = pmm_nr_out(hbm) * space->block_bytes;
	out->gpu_peak_bytes = hbm->nr_peak * space->block_bytes;
	out->host_bytes = pmm_nr_out(host) * space->block_bytes;
	out->host_peak_bytes = host->nr_peak * space->block_bytes;
	out->live_bytes = space->nr_live_blocks * space->block_bytes;
	out->block_bytes = space->block_bytes;
	pthread_mutex_unlock(&space->lock);
}

int weir_space_check(struct weir_space *space)
{
	int err;

	pthread_mutex_lock(&space->lock);
	err = space_check(space);
	pthread_mutex_unlock(&space->lock);
	return err;
}
