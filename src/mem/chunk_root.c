/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root chunks: made, taken into a pool and out of it, idle or not. What is free inside a root is
 * chunk_buddy.c's or chunk_large.c's, by its kind: who does not care about kinds asks here.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ what is free in one */

/* Free nr units from a place on. */
static void root_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
		      bool zeroed)
{
	if (root->kind == CHUNK_BUDDY)
		chunk_buddy_free(pool, root, at, nr, zeroed);
	else
		chunk_large_free(pool, root, at, nr, zeroed);
}

/* Take a chunk that is free or pooled off its list. */
static void root_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	if (chunk->root->kind != CHUNK_BUDDY)
		chunk_large_unlink(pool, chunk);
	else if (chunk->state == CHUNK_POOLED)
		chunk_pooled_unlink(pool, chunk);
	else
		chunk_buddy_unlink(pool, chunk);
}

/* ------------------------------------------------------------------ making */

int chunk_root_create(struct chunk_pool *pool, uint64_t bytes, enum chunk_kind kind,
		      struct chunk_root **out)
{
	const uint64_t unit[CHUNK_KIND_NR] = {
		[CHUNK_BUDDY] = pool->config.least_bytes,
		[CHUNK_SHARED] = pool->granularity,
		[CHUNK_OWN] = bytes,
	};
	uint64_t nr = bytes / unit[kind];
	struct chunk_root *root = calloc(1, sizeof(*root) + nr * sizeof(root->chunk[0]));
	int err;

	if (!root)
		return -ENOMEM;
	root->nr = (uint32_t)nr;
	root->unit_bytes = unit[kind];
	root->kind = kind;
	err = pool->backend->ops->chunk_create(pool->backend, pool->config.memory, bytes,
					       &root->backend);
	if (err) {
		free(root);
		return err;
	}
	*out = root;
	return 0;
}

/* Without the lock; the root is in no pool. */
static void root_destroy(struct chunk_pool *pool, struct chunk_root *root)
{
	pool->backend->ops->chunk_destroy(pool->backend, &root->backend);
	free(root);
}

void chunk_roots_destroy(struct chunk_pool *pool, struct list_link *doomed)
{
	struct list_link *link = doomed->next;

	while (link != doomed) {
		struct chunk_root *root = chunk_root_of_all(link);

		link = link->next;
		root_destroy(pool, root);
	}
	list_init(doomed);
}

void chunk_root_add(struct chunk_pool *pool, struct chunk_root *root)
{
	list_add_tail(&pool->roots, &root->all);
	pool->stats.nr_roots++;
	pool->stats.nr_own += root->kind == CHUNK_OWN;
	pool->stats.nr_shared += root->kind == CHUNK_SHARED;
	pool->stats.nr_creates++;
	pool->stats.created_bytes += root->backend.bytes;
	root_free(pool, root, 0, root->nr, false);
	chunk_root_settle(pool, root);
}

/* ------------------------------------------------------------------ taking, putting back */

struct mem_chunk *chunk_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	struct mem_chunk *chunk = request->kind == CHUNK_BUDDY ? chunk_buddy_take(pool, request)
							       : chunk_large_take(pool, request);

	if (!chunk)
		return NULL;
	chunk->fence = 0;
	chunk_root_settle(pool, chunk->root);
	return chunk;
}

void chunk_root_put(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed)
{
	struct chunk_root *root = chunk->root;

	chunk_set_state(pool, chunk, CHUNK_NONE);
	if (root->kind != CHUNK_BUDDY || !chunk_pooled_put(pool, chunk, zeroed))
		root_free(pool, root, chunk_index(chunk), chunk->nr, zeroed);
	chunk_root_settle(pool, root);
}

/* ------------------------------------------------------------------ idle ones */

void chunk_root_settle(struct chunk_pool *pool, struct chunk_root *root)
{
	bool idle = !root->used && !root->emptying;

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

/* Take an idle root out of the pool, into a list. */
static void root_doom(struct chunk_pool *pool, struct chunk_root *root, struct list_link *doomed)
{
	for (uint32_t i = 0; i < root->nr;) {
		struct mem_chunk *chunk = &root->chunk[i];

		i += chunk->nr;
		root_unlink(pool, chunk);
	}
	list_del(&root->idle_link);
	pool->idle_bytes -= root->backend.bytes;
	list_del(&root->all);
	list_add_tail(doomed, &root->all);
	pool->stats.nr_roots--;
	pool->stats.nr_own -= root->kind == CHUNK_OWN;
	pool->stats.nr_shared -= root->kind == CHUNK_SHARED;
	pool->stats.nr_destroys++;
}

uint64_t chunk_roots_trim(struct chunk_pool *pool, uint64_t keep_bytes, struct list_link *doomed)
{
	struct list_link *link = pool->idle.prev;
	uint64_t before = pool->idle_bytes;

	while (pool->idle_bytes > keep_bytes && link != &pool->idle) {
		struct chunk_root *root = chunk_root_of_idle(link);

		link = link->prev;
		root_doom(pool, root, doomed);
	}
	return before - pool->idle_bytes;
}

uint64_t chunk_roots_most(const struct chunk_pool *pool, uint64_t more_bytes)
{
	uint64_t most = chunk_allocated_bytes(pool) + more_bytes, beyond;

	/* Memories are far below 2^54 bytes. */
	beyond = most * pool->config.idle_per_mille / 1000;
	most += MAX(beyond, pool->config.idle_bytes);
	return pool->config.hold_peak ? MAX(pool->most_bytes, most) : most;
}

void chunk_roots_limit(struct chunk_pool *pool, uint64_t more_bytes, struct list_link *doomed)
{
	uint64_t held = chunk_held_bytes(pool) + more_bytes, most;

	if (!pool->idle_bytes)
		return;
	most = chunk_roots_most(pool, more_bytes);
	if (held <= most)
		return;
	held -= most;
	chunk_roots_trim(pool, pool->idle_bytes > held ? pool->idle_bytes - held : 0, doomed);
}

/* ------------------------------------------------------------------ emptying */

void chunk_root_empty_begin(struct chunk_pool *pool, struct chunk_root *root)
{
	list_init(&root->held);
	root->emptying = true;
	for (uint32_t i = 0; i < root->nr; i++) {
		struct mem_chunk *chunk = &root->chunk[i];

		if (chunk->state != CHUNK_POOLED && chunk->state != CHUNK_FREE)
			continue;
		root_unlink(pool, chunk);
		root_free(pool, root, i, chunk->nr, chunk->zeroed);
	}
	chunk_root_settle(pool, root);
}

void chunk_root_empty_end(struct chunk_pool *pool, struct chunk_root *root)
{
	root->emptying = false;
	while (!list_empty(&root->held)) {
		struct mem_chunk *chunk = chunk_of(root->held.next);

		root_unlink(pool, chunk);
		root_free(pool, root, chunk_index(chunk), chunk->nr, chunk->zeroed);
	}
	chunk_root_settle(pool, root);
}
