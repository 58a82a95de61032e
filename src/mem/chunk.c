/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunk pools: what the header offers. The way of a hit is chunk_alloc(), chunk_take() and
 * chunk_buddy_take() or chunk_large_take(), under one lock; all that is rare is in other files.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* Larger ones need fewer calls of the backend, but one small chunk then keeps more of it. */
#define ROOT_BYTES (UINT64_C(8) << 20)
#define LEAST_BYTES UINT64_C(4096)
#define LEAST_BYTES_MIN UINT64_C(512)
/* Of roots that many sizes share about a third stays free. That is little of all, as long as those
 * are a small part of it. */
#define SHARE_BYTES (UINT64_C(64) << 20)
#define SHARE_UNITS (UINT64_C(1) << 20) /* granules; more have a root of their own in any case */
/* Roots that are shared are so many times the largest that shares them, up to a size. */
#define SHARED_PER_ROOT 4u
#define SHARED_ROOT_BYTES (UINT64_C(1) << 30)

/* ------------------------------------------------------------------ making */

void chunk_pool_config_init(struct chunk_pool_config *config, struct backend *b, uint32_t memory)
{
	uint64_t granularity = b->desc.vmm.granularity_bytes;
	uint64_t root = ROOT_BYTES > granularity ? ROOT_BYTES : granularity;
	uint64_t share = SHARE_BYTES;

	while (memory < b->desc.nr_memories && root / 2 >= granularity && root / 2 >= LEAST_BYTES &&
	       root > b->desc.memory[memory].bytes / 16)
		root /= 2;
	while (memory < b->desc.nr_memories &&
	       share * SHARED_PER_ROOT > b->desc.memory[memory].bytes / 16)
		share /= 2;
	*config = (struct chunk_pool_config){.backend = b,
					     .memory = memory,
					     .root_bytes = root,
					     .least_bytes = LEAST_BYTES,
					     .share_bytes = share,
					     .idle_bytes = 2 * root,
					     .idle_per_mille = 100,
					     .hold_peak = true,
					     .nr_pooled = 8};
}

static int config_check(const struct chunk_pool_config *config)
{
	const struct weir_machine_desc *desc = &config->backend->desc;
	uint64_t least = config->least_bytes, root = config->root_bytes;

	if (config->memory >= desc->nr_memories || least < LEAST_BYTES_MIN ||
	    !is_power_of_2(least) || !root || root % least || root % desc->vmm.granularity_bytes ||
	    root / least >= UINT64_C(1) << (CHUNK_ORDERS - 1) || config->idle_per_mille > 1000 ||
	    config->nr_pooled > UINT8_MAX ||
	    (config->zero && config->zero_device >= desc->nr_devices))
		return -EINVAL;
	return 0;
}

static void lists_init(struct chunk_pool *pool)
{
	list_init(&pool->roots);
	list_init(&pool->idle);
	list_init(&pool->pending);
	list_init(&pool->published);
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t o = 0; o < CHUNK_ORDERS; o++) {
			list_init(&pool->free[z][o]);
			list_init(&pool->pooled[z][o]);
		}
	for (uint32_t c = 0; c < CHUNK_SIZE_CLASSES; c++) {
		list_init(&pool->shared.list[c]);
		list_init(&pool->own.list[c]);
	}
}

int chunk_pool_create(const struct chunk_pool_config *config, struct chunk_pool **out)
{
	struct chunk_pool *pool;
	int err = config_check(config);

	if (err) {
		log_error("chunk pool: a size or number of its configuration is out of range");
		return err;
	}
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->config = *config;
	pool->backend = config->backend;
	pool->granularity = config->backend->desc.vmm.granularity_bytes;
	pool->shift = log2_floor(config->least_bytes);
	pool->share_bytes = SHARE_UNITS * pool->granularity;
	if (pool->share_bytes > config->share_bytes)
		pool->share_bytes = config->share_bytes;
	pool->shared_root_bytes = SHARED_PER_ROOT * pool->share_bytes;
	if (pool->shared_root_bytes > SHARED_ROOT_BYTES)
		pool->shared_root_bytes = SHARED_ROOT_BYTES;
	lists_init(pool);
	err = chunk_zero_init(pool);
	if (err)
		goto err_free;
	err = -pthread_mutex_init(&pool->lock, NULL);
	if (err)
		goto err_zero;
	*out = pool;
	return 0;

err_zero:
	chunk_zero_fini(pool);
err_free:
	free(pool);
	return err;
}

void chunk_pool_destroy(struct chunk_pool *pool)
{
	const char *name;
	bool ended;

	if (!pool)
		return;
	name = pool->backend->desc.memory[pool->config.memory].name;
	pthread_mutex_lock(&pool->lock);
	ended = chunk_pending_wait_unlocked(pool, NULL);
	pthread_mutex_unlock(&pool->lock);
	if (!ended)
		log_error("chunk pool of '%s': queued work does not end; its memory goes", name);
	if (pool->stats.nr_chunks)
		log_error("chunk pool of '%s': %llu chunks of %llu bytes were not given back", name,
			  (unsigned long long)pool->stats.nr_chunks,
			  (unsigned long long)chunk_allocated_bytes(pool));
	chunk_roots_destroy(pool, &pool->roots);
	chunk_zero_fini(pool);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* ------------------------------------------------------------------ handing out */

static int request_init(const struct chunk_pool *pool, uint64_t bytes, uint32_t flags,
			struct chunk_request *request)
{
	uint64_t least = pool->config.least_bytes, nr;

	if (!bytes || flags & ~(CHUNK_ZEROED | CHUNK_EVICT))
		return -EINVAL;
	if (flags & CHUNK_ZEROED && !pool->config.zero)
		return -ENOTSUP;
	if (bytes > pool->backend->desc.memory[pool->config.memory].bytes)
		return -ENOMEM;
	*request = (struct chunk_request){.zeroed = flags & CHUNK_ZEROED,
					  .evict = flags & CHUNK_EVICT};
	nr = (bytes + least - 1) >> pool->shift;
	if (nr <= UINT64_C(1) << log2_floor(pool->config.root_bytes >> pool->shift)) {
		request->kind = CHUNK_BUDDY;
		request->nr = (uint32_t)nr;
		request->order = log2_ceil(nr);
		request->bytes = nr << pool->shift;
		return 0;
	}
	nr = div_round_up(bytes, pool->granularity);
	request->kind = bytes <= pool->share_bytes ? CHUNK_SHARED : CHUNK_OWN;
	request->nr = request->kind == CHUNK_SHARED ? (uint32_t)nr : 1;
	request->bytes = nr * pool->granularity;
	return 0;
}

/* Count a chunk that is about to be the caller's. */
static void handed_out(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t asked_bytes)
{
	chunk->rounding = (uint32_t)(chunk_bytes(chunk) - asked_bytes);
	pool->rounding_bytes += chunk->rounding;
	pool->stats.nr_chunks++;
}

/* Only creating a root can make one. */
static void peak_update(struct chunk_pool *pool)
{
	struct chunk_pool_stats *stats = &pool->stats;
	uint64_t held = chunk_held_bytes(pool);

	if (held > pool->most_bytes)
		pool->most_bytes = held;
	if (held <= stats->peak_held_bytes)
		return;
	stats->peak_held_bytes = held;
	stats->peak_allocated_bytes = chunk_allocated_bytes(pool);
	stats->peak_rounding_bytes = pool->rounding_bytes;
}

/*
 * A zeroed chunk was asked for, and this one is not. Drops the lock. Queue its zeroing: without a
 * fence to hand over it becomes pending, unless enough of it is being zeroed already.
 */
static int zero_handed(struct chunk_pool *pool, struct mem_chunk *chunk, bool hand_over)
{
	fence_t fence;
	bool queued;
	int err;

	if (!hand_over && pool->zeroing_bytes >= chunk_span(chunk)) {
		chunk_put(pool, chunk, 0);
		return -EAGAIN;
	}
	pthread_mutex_unlock(&pool->lock);
	err = chunk_zero_queue(pool, chunk, &queued, &fence);
	pthread_mutex_lock(&pool->lock);
	pool->stats.nr_zeroings += !err;
	if (!err && hand_over) {
		chunk->fence = fence;
		return 0;
	}
	if (!queued) {
		chunk_put(pool, chunk, 0);
		return err;
	}
	/* chunk_put() would make it free, or pending without zeroing. */
	pool->rounding_bytes -= chunk->rounding;
	pool->stats.nr_chunks--;
	pool->tail_bytes -= chunk_tail(chunk);
	chunk_set_state(pool, chunk, CHUNK_PENDING);
	chunk_pending_add(pool, chunk, fence, !err);
	return err ? err : -EAGAIN;
}

int chunk_alloc(struct chunk_pool *pool, uint64_t bytes, uint32_t flags, fence_t *fence,
		struct mem_chunk **out)
{
	struct chunk_request request;
	struct mem_chunk *chunk;
	int err = request_init(pool, bytes, flags, &request);

	if (err)
		return err;
	request.fence = fence != NULL;
	pthread_mutex_lock(&pool->lock);
	pool->stats.nr_allocs++;
	/* Who cannot be given a fence may find that some has just become zero. */
	if (request.zeroed && !fence && pool->zeroing_bytes)
		(void)chunk_pending_poll_unlocked(pool, true);
	chunk = chunk_take(pool, &request);
	if (chunk) {
		pool->stats.nr_hits++;
		handed_out(pool, chunk, bytes);
	} else {
		err = chunk_pressure_take_unlocked(pool, &request, &chunk);
		if (!err) {
			handed_out(pool, chunk, bytes);
			peak_update(pool);
		}
	}
	if (!err && request.zeroed && chunk->zeroed)
		pool->stats.nr_zeroed_hits++;
	else if (!err && request.zeroed)
		err = zero_handed(pool, chunk, fence != NULL);
	pthread_mutex_unlock(&pool->lock);
	if (err == -ENOMEM) /* no more than a hint: callers have another way more often than not */
		log_debug("chunk pool of '%s': no room for %llu bytes",
			  pool->backend->desc.memory[pool->config.memory].name,
			  (unsigned long long)bytes);
	if (err)
		return err;
	if (fence)
		*fence = chunk->fence;
	*out = chunk;
	return 0;
}

/* ------------------------------------------------------------------ taking back */

/* With the lock. A wrong chunk is counted; who calls logs it. */
static bool is_handed_out(struct chunk_pool *pool, const struct mem_chunk *chunk)
{
	bool yes = chunk->state >= CHUNK_PINNED &&
		   !(chunk->state == CHUNK_EVICTING && chunk->given_up);

	pool->stats.nr_wrong += !yes;
	return yes;
}

void chunk_free(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after)
{
	struct list_link doomed;
	bool right;

	if (!chunk)
		return;
	list_init(&doomed);
	pthread_mutex_lock(&pool->lock);
	right = is_handed_out(pool, chunk);
	if (right) {
		if (!after)
			after = chunk->fence;
		if (chunk->state == CHUNK_EVICTING) {
			/* Whoever asks its owner goes on from here. */
			chunk->given_up = true;
			chunk->fence = after;
		} else {
			if (chunk->state == CHUNK_PUBLISHED)
				list_del(&chunk->link);
			chunk_put(pool, chunk, after);
			chunk_roots_limit(pool, 0, &doomed);
		}
	}
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	if (!right)
		log_error("chunk %p is given back, and was not handed out", (void *)chunk);
}

uint64_t chunk_pool_trim(struct chunk_pool *pool, uint64_t keep_bytes)
{
	struct list_link doomed;
	uint64_t bytes;

	list_init(&doomed);
	pthread_mutex_lock(&pool->lock);
	(void)chunk_pending_poll_unlocked(pool, true);
	(void)chunk_buddy_flush(pool);
	bytes = chunk_roots_trim(pool, keep_bytes, &doomed);
	/* What is left unused is not held for a peak any more. */
	pool->most_bytes = chunk_held_bytes(pool) - pool->idle_bytes;
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	return bytes;
}

bool chunk_pool_progress(struct chunk_pool *pool)
{
	struct list_link doomed;
	bool more;

	list_init(&doomed);
	pthread_mutex_lock(&pool->lock);
	(void)chunk_pending_poll_unlocked(pool, false);
	chunk_zero_ahead_unlocked(pool);
	chunk_roots_limit(pool, 0, &doomed);
	more = !list_empty(&pool->pending) || chunk_zero_ahead_wanted(pool);
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	return more;
}

/* ------------------------------------------------------------------ publishing */

int chunk_publish(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t owner)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	if (chunk->state == CHUNK_PINNED) {
		chunk->owner = owner;
		chunk_set_state(pool, chunk, CHUNK_PUBLISHED);
		list_add_tail(&pool->published, &chunk->link);
	} else {
		pool->stats.nr_wrong++;
		err = -EINVAL;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int chunk_pin(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	if (chunk->state == CHUNK_PUBLISHED) {
		list_del(&chunk->link);
		chunk_set_state(pool, chunk, CHUNK_PINNED);
	} else if (chunk->state == CHUNK_EVICTING) {
		err = -EBUSY;
	} else if (chunk->state != CHUNK_PINNED) {
		pool->stats.nr_wrong++;
		err = -EINVAL;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void chunk_touch(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	pthread_mutex_lock(&pool->lock);
	if (chunk->state == CHUNK_PUBLISHED) {
		list_del(&chunk->link);
		list_add_tail(&pool->published, &chunk->link);
	}
	pthread_mutex_unlock(&pool->lock);
}
