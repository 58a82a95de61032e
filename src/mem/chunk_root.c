/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root chunks: made, taken into a pool and out of it, idle or not; and the one function that
 * changes a chunk's state. What is free inside a root is chunk_buddy.c's or chunk_large.c's.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "src/mem/chunk_internal.h"

#define TO(state) (1u << (state))

/* What may follow what. */
static const uint8_t transitions[CHUNK_STATE_NR] = {
	[CHUNK_NONE] = TO(CHUNK_FREE) | TO(CHUNK_POOLED) | TO(CHUNK_PINNED) | TO(CHUNK_PENDING),
	[CHUNK_FREE] = TO(CHUNK_NONE),
	[CHUNK_POOLED] = TO(CHUNK_NONE),
	[CHUNK_PENDING] = TO(CHUNK_NONE) | TO(CHUNK_PINNED),
	[CHUNK_PINNED] = TO(CHUNK_NONE) | TO(CHUNK_PENDING) | TO(CHUNK_PUBLISHED),
	[CHUNK_PUBLISHED] =
		TO(CHUNK_NONE) | TO(CHUNK_PENDING) | TO(CHUNK_PINNED) | TO(CHUNK_EVICTING),
	[CHUNK_EVICTING] = TO(CHUNK_NONE) | TO(CHUNK_PENDING) | TO(CHUNK_PUBLISHED),
};

static bool state_is_used(uint8_t state)
{
	return state >= CHUNK_PENDING;
}

void chunk_set_state(struct chunk_pool *pool, struct mem_chunk *chunk, enum chunk_state state)
{
	struct chunk_root *root = chunk->root;
	bool legal = (transitions[chunk->state] & TO(state)) != 0;
	uint64_t span = chunk_span(chunk);

	assert(legal);
	(void)legal;
	pool->bytes[chunk->state] -= span;
	pool->bytes[state] += span;
	root->used -= state_is_used(chunk->state) ? chunk->nr : 0;
	root->used += state_is_used((uint8_t)state) ? chunk->nr : 0;
	root->nr_pinned -= chunk->state == CHUNK_PINNED;
	root->nr_pinned += state == CHUNK_PINNED;
	chunk->state = (uint8_t)state;
}

/* ------------------------------------------------------------------ making */

int root_create(struct chunk_pool *pool, uint64_t bytes, enum chunk_kind kind,
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

void root_destroy(struct chunk_pool *pool, struct chunk_root *root)
{
	pool->backend->ops->chunk_destroy(pool->backend, &root->backend);
	free(root);
}

void roots_destroy(struct chunk_pool *pool, struct list_link *doomed)
{
	struct list_link *link = doomed->next;

	while (link != doomed) {
		struct chunk_root *root = root_of_all(link);

		link = link->next;
		root_destroy(pool, root);
	}
	list_init(doomed);
}

void root_add(struct chunk_pool *pool, struct chunk_root *root)
{
	list_add_tail(&pool->roots, &root->all);
	pool->stats.nr_roots++;
	pool->stats.nr_own += root->kind == CHUNK_OWN;
	pool->stats.nr_shared += root->kind == CHUNK_SHARED;
	pool->stats.nr_creates++;
	pool->stats.created_bytes += root->backend.bytes;
	root_free(pool, root, 0, root->nr, false);
	root_settle(pool, root);
}

/* ------------------------------------------------------------------ what is free in one */

void root_free(struct chunk_pool *pool, struct chunk_root *root, uint32_t at, uint32_t nr,
	       bool zeroed)
{
	if (root->kind == CHUNK_BUDDY)
		buddy_free(pool, root, at, nr, zeroed);
	else
		large_free(pool, root, at, nr, zeroed);
}

void root_unlink(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	if (chunk->root->kind != CHUNK_BUDDY)
		large_unlink(pool, chunk);
	else if (chunk->state == CHUNK_POOLED)
		pooled_unlink(pool, chunk);
	else
		buddy_unlink(pool, chunk);
}

void root_put(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed)
{
	struct chunk_root *root = chunk->root;

	chunk_set_state(pool, chunk, CHUNK_NONE);
	if (root->kind != CHUNK_BUDDY || !pooled_put(pool, chunk, zeroed))
		root_free(pool, root, chunk_index(chunk), chunk->nr, zeroed);
	root_settle(pool, root);
}

/* ------------------------------------------------------------------ idle ones */

void root_settle(struct chunk_pool *pool, struct chunk_root *root)
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

void root_doom(struct chunk_pool *pool, struct chunk_root *root, struct list_link *doomed)
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

uint64_t roots_trim(struct chunk_pool *pool, uint64_t keep_bytes, struct list_link *doomed)
{
	struct list_link *link = pool->idle.prev;
	uint64_t before = pool->idle_bytes;

	while (pool->idle_bytes > keep_bytes && link != &pool->idle) {
		struct chunk_root *root = root_of_idle(link);

		link = link->prev;
		root_doom(pool, root, doomed);
	}
	return before - pool->idle_bytes;
}

uint64_t roots_most(const struct chunk_pool *pool, uint64_t more_bytes)
{
	uint64_t most = pool_allocated_bytes(pool) + more_bytes, beyond;

	/* Memories are far below 2^54 bytes. */
	beyond = most * pool->config.idle_per_mille / 1000;
	most += beyond > pool->config.idle_bytes ? beyond : pool->config.idle_bytes;
	return pool->config.hold_peak && pool->most_bytes > most ? pool->most_bytes : most;
}

void roots_limit(struct chunk_pool *pool, uint64_t more_bytes, struct list_link *doomed)
{
	uint64_t held = pool_held_bytes(pool) + more_bytes, most;

	if (!pool->idle_bytes)
		return;
	most = roots_most(pool, more_bytes);
	if (held <= most)
		return;
	held -= most;
	roots_trim(pool, pool->idle_bytes > held ? pool->idle_bytes - held : 0, doomed);
}

/* ------------------------------------------------------------------ emptying */

void root_empty_begin(struct chunk_pool *pool, struct chunk_root *root)
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
	root_settle(pool, root);
}

void root_empty_end(struct chunk_pool *pool, struct chunk_root *root)
{
	root->emptying = false;
	while (!list_empty(&root->held)) {
		struct mem_chunk *chunk = chunk_of(root->held.next);

		root_unlink(pool, chunk);
		root_free(pool, root, chunk_index(chunk), chunk->nr, chunk->zeroed);
	}
	root_settle(pool, root);
}
