/* SPDX-License-Identifier: Apache-2.0 */
/* Root chunks: made, taken into a pool and out of it, idle or not. What is free inside a root is
 * chunk_buddy.c's. */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ idle or not */

/* Put a root on the idle list or take it off, by whether any of it is used. */
static void root_settle(struct chunk_pool *pool, struct chunk_root *root)
{
	bool idle = !root->used;

	if (idle == (root->idle_link.next != NULL))
		return;
	if (idle) {
		list_add(&pool->idle, &root->idle_link);
		pool->idle_bytes += root->backend.bytes;
	} else {
		list_del(&root->idle_link);
		pool->idle_bytes -= root->backend.bytes;
	}
}

/* ------------------------------------------------------------------ making */

/* Without the lock; in no pool. */
static int root_create(struct chunk_pool *pool, uint64_t bytes, struct chunk_root **out)
{
	uint64_t nr = bytes >> pool->shift;
	struct chunk_root *root = calloc(1, sizeof(*root) + nr * sizeof(root->chunk[0]));
	int err;

	if (!root)
		return -ENOMEM;
	root->nr = (uint32_t)nr;
	root->unit_bytes = pool->config.least_bytes;
	root->devices = pool->config.client->devices & ~BACKEND_HOST_BIT;
	err = phys_take(pool->config.client, bytes, &root->backend);
	if (err)
		free(root);
	else
		*out = root;
	return err;
}

static void root_add(struct chunk_pool *pool, struct chunk_root *root)
{
	list_add_tail(&pool->roots, &root->all);
	pool->stats.nr_roots++;
	pool->stats.nr_creates++;
	chunk_buddy_free(pool, root, 0, root->nr);
	root_settle(pool, root);
}

/* The smallest root that a request fits into. */
static uint64_t least_root(const struct chunk_pool *pool, const struct chunk_request *request)
{
	uint64_t unit = MAX(pool->backend->desc.vmm.granularity_bytes, pool->config.least_bytes);

	return round_up((UINT64_C(1) << request->order) << pool->shift, unit);
}

int chunk_root_add_unlocked(struct chunk_pool *pool, const struct chunk_request *request)
{
	uint64_t bytes = pool->config.root_bytes, least = least_root(pool, request);
	struct chunk_root *root = NULL;
	int err;

	pthread_mutex_unlock(&pool->lock);
	err = root_create(pool, bytes, &root);
	if ((err == -ENOMEM || err == -EAGAIN) && least < bytes)
		err = root_create(pool, least, &root);
	pthread_mutex_lock(&pool->lock);
	if (!err)
		root_add(pool, root);
	return err;
}

int chunk_add_devices(struct chunk_pool *pool, struct mem_chunk *chunk, uint64_t devices)
{
	struct chunk_root *root = chunk->root;
	struct backend *b = pool->backend;
	uint64_t more;
	int err;

	pthread_mutex_lock(&pool->lock);
	more = devices & ~root->devices;
	pthread_mutex_unlock(&pool->lock);
	if (!more)
		return 0;
	err = b->ops->chunk_add_devices(b, &root->backend, more);
	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	root->devices |= more;
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

void chunk_roots_destroy(struct chunk_pool *pool, struct list_link *doomed)
{
	struct list_link *link = doomed->next;

	while (link != doomed) {
		struct chunk_root *root = chunk_root_of_all(link);

		link = link->next;
		phys_put(pool->config.client, &root->backend);
		free(root);
	}
	list_init(doomed);
}

/* ------------------------------------------------------------------ taking, putting back */

struct mem_chunk *chunk_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	struct mem_chunk *chunk = chunk_buddy_take(pool, request);

	if (!chunk)
		return NULL;
	chunk->fence = 0;
	root_settle(pool, chunk->root);
	return chunk;
}

void chunk_root_put(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	struct chunk_root *root = chunk->root;

	chunk_set_state(pool, chunk, CHUNK_NONE);
	if (!chunk_pooled_put(pool, chunk))
		chunk_buddy_free(pool, root, chunk_index(chunk), chunk->nr);
	root_settle(pool, root);
}

/* ------------------------------------------------------------------ giving back */

/* Take an idle root out of the pool, into a list. */
static void root_doom(struct chunk_pool *pool, struct chunk_root *root, struct list_link *doomed)
{
	for (uint32_t i = 0; i < root->nr;) {
		struct mem_chunk *chunk = &root->chunk[i];

		i += chunk->nr;
		if (chunk->state == CHUNK_POOLED)
			chunk_pooled_unlink(pool, chunk);
		else
			chunk_buddy_unlink(pool, chunk);
	}
	list_del(&root->idle_link);
	pool->idle_bytes -= root->backend.bytes;
	list_del(&root->all);
	list_add_tail(doomed, &root->all);
	pool->stats.nr_roots--;
	pool->stats.nr_destroys++;
}

uint64_t chunk_roots_trim(struct chunk_pool *pool, uint64_t bytes, struct list_link *doomed)
{
	struct list_link *link = pool->idle.prev;
	uint64_t before = pool->idle_bytes;

	while (before - pool->idle_bytes < bytes && link != &pool->idle) {
		struct chunk_root *root = chunk_root_of_idle(link);

		link = link->prev;
		root_doom(pool, root, doomed);
	}
	return before - pool->idle_bytes;
}

/* What may be held. */
static uint64_t roots_most(const struct chunk_pool *pool)
{
	/* Memories are far below 2^54 bytes. */
	uint64_t most = pool->bytes[CHUNK_TAKEN];
	uint64_t beyond = most * pool->config.idle_per_mille / 1000;

	return most + MAX(beyond, pool->config.idle_bytes);
}

void chunk_roots_limit(struct chunk_pool *pool, struct list_link *doomed)
{
	uint64_t held = chunk_held_bytes(pool), most = roots_most(pool);

	if (held > most)
		(void)chunk_roots_trim(pool, held - most, doomed);
}
