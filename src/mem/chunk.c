/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunk pools: what the header offers. The way of a hit is chunk_alloc(), chunk_take() and
 * chunk_buddy_take(), under one lock; all that is rare is in other files.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

#define LEAST_BYTES_MIN UINT64_C(512)

/* ------------------------------------------------------------------ making */

static int config_check(const struct chunk_pool_config *config)
{
	const struct weir_machine_desc *desc = &config->client->memory->backend->desc;
	uint64_t least = config->least_bytes, root = config->root_bytes;

	if (least < LEAST_BYTES_MIN || !is_power_of_2(least) || !root || root % least ||
	    root % desc->vmm.granularity_bytes ||
	    root / least >= UINT64_C(1) << (CHUNK_ORDERS - 1) || config->idle_per_mille > 1000 ||
	    config->nr_pooled > UINT8_MAX ||
	    (config->zero && config->zero_device >= desc->nr_devices))
		return -EINVAL;
	return 0;
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
	pool->backend = config->client->memory->backend;
	pool->memory = config->client->memory->index;
	pool->shift = log2_floor(config->least_bytes);
	list_init(&pool->roots);
	list_init(&pool->idle);
	list_init(&pool->pending);
	for (uint32_t o = 0; o < CHUNK_ORDERS; o++) {
		list_init(&pool->free[o]);
		list_init(&pool->pooled[o]);
	}
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
	name = pool->backend->desc.memory[pool->memory].name;
	pthread_mutex_lock(&pool->lock);
	ended = chunk_pending_wait_unlocked(pool);
	pthread_mutex_unlock(&pool->lock);
	if (!ended)
		log_error("chunk pool of '%s': queued work does not end; its memory goes", name);
	if (pool->stats.nr_chunks)
		log_error("chunk pool of '%s': %llu chunks of %llu bytes were not given back", name,
			  (unsigned long long)pool->stats.nr_chunks,
			  (unsigned long long)pool->bytes[CHUNK_TAKEN]);
	chunk_roots_destroy(pool, &pool->roots);
	chunk_zero_fini(pool);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* ------------------------------------------------------------------ handing out */

static int request_init(const struct chunk_pool *pool, uint64_t bytes, bool zeroed,
			struct chunk_request *request)
{
	uint64_t root = pool->config.root_bytes;

	if (!bytes || bytes > root)
		return -EINVAL;
	if (zeroed && !pool->config.zero)
		return -ENOTSUP;
	request->nr = (uint32_t)div_round_up(bytes, pool->config.least_bytes);
	request->order = log2_ceil(request->nr);
	return request->order <= log2_floor(root >> pool->shift) ? 0 : -EINVAL;
}

/* What no free list had. Drops the lock. */
static int take_more(struct chunk_pool *pool, const struct chunk_request *request,
		     struct mem_chunk **out)
{
	struct mem_chunk *chunk = NULL;
	int err = 0;

	/* What cost least first: what is ready by now; the class pools, merged; another root. */
	if (chunk_pending_poll_unlocked(pool))
		chunk = chunk_take(pool, request);
	if (!chunk && chunk_buddy_flush(pool))
		chunk = chunk_take(pool, request);
	while (!chunk && !err) { /* others may be faster at what is created */
		err = chunk_root_add_unlocked(pool, request);
		chunk = chunk_take(pool, request);
	}
	if (!chunk)
		return err;
	*out = chunk;
	return 0;
}

/* Count a chunk that is about to be the caller's. */
static void handed_out(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t asked_bytes)
{
	chunk->rounding = (uint32_t)(chunk_bytes(chunk) - asked_bytes);
	pool->rounding_bytes += chunk->rounding;
	pool->stats.nr_chunks++;
}

int chunk_alloc(struct chunk_pool *pool, uint64_t bytes, fence_t *zeroed, struct mem_chunk **out)
{
	struct chunk_request request;
	struct mem_chunk *chunk;
	int err = request_init(pool, bytes, zeroed != NULL, &request);

	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	pool->stats.nr_allocs++;
	chunk = chunk_take(pool, &request);
	if (chunk)
		pool->stats.nr_hits++;
	else
		err = take_more(pool, &request, &chunk);
	if (!err) {
		handed_out(pool, chunk, bytes);
		if (zeroed)
			err = chunk_zero_unlocked(pool, chunk);
	}
	pthread_mutex_unlock(&pool->lock);
	if (err)
		return err;
	if (zeroed)
		*zeroed = chunk->fence;
	*out = chunk;
	return 0;
}

/* ------------------------------------------------------------------ taking back */

void chunk_free(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after)
{
	struct list_link doomed;
	bool right;

	if (!chunk)
		return;
	list_init(&doomed);
	pthread_mutex_lock(&pool->lock);
	right = chunk->state == CHUNK_TAKEN;
	if (right) {
		chunk_put(pool, chunk, after ? after : chunk->fence);
		chunk_roots_limit(pool, &doomed);
	} else {
		pool->stats.nr_wrong++;
	}
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	if (!right)
		log_error("chunk %p is given back, and was not handed out", (void *)chunk);
}

uint64_t chunk_pool_trim(struct chunk_pool *pool, uint64_t bytes)
{
	struct list_link doomed;
	uint64_t given;

	list_init(&doomed);
	pthread_mutex_lock(&pool->lock);
	(void)chunk_pending_poll_unlocked(pool);
	(void)chunk_buddy_flush(pool);
	given = chunk_roots_trim(pool, bytes, &doomed);
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	return given;
}
