/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens when no free list has what is asked for: in order, what cost least first. Take what
 * is ready by now; merge the class pools; hand out what will be ready, with its fence; create a
 * root; give back unused ones and try again; create a smaller one; evict.
 */
#include <errno.h>

#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* Published chunks that are looked at for one that is as large as the request, before a root is
 * emptied. */
#define EVICT_LOOK 16u

/* ------------------------------------------------------------------ roots */

/* Drops the lock. */
static int create_take(struct chunk_pool *pool, const struct chunk_request *request, uint64_t bytes,
		       struct mem_chunk **out)
{
	uint64_t max = pool->config.max_bytes, held = chunk_held_bytes(pool) + pool->creating_bytes;
	struct chunk_root *root;
	int err;

	if (max && (held > max || bytes > max - held))
		return -ENOMEM;
	pool->creating_bytes += bytes;
	pthread_mutex_unlock(&pool->lock);
	err = chunk_root_create(pool, bytes, request->kind, &root);
	pthread_mutex_lock(&pool->lock);
	pool->creating_bytes -= bytes;
	if (err) {
		pool->stats.nr_refused++;
		return err;
	}
	chunk_root_add(pool, root);
	*out = chunk_take(pool, request);
	return *out ? 0 : -ENOMEM;
}

/* So much more is going to be held: give back what is then unused beyond the limit. May drop the
 * lock. */
static void make_way(struct chunk_pool *pool, uint64_t bytes)
{
	struct list_link doomed;

	list_init(&doomed);
	chunk_roots_limit(pool, bytes, &doomed);
	if (list_empty(&doomed))
		return;
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	pthread_mutex_lock(&pool->lock);
}

/* Give back idle roots, the oldest first, until there is room for so much more. Drops the lock.
 * false: there was none. */
static bool give_back(struct chunk_pool *pool, uint64_t bytes)
{
	uint64_t idle = pool->idle_bytes;
	struct list_link doomed;

	if (!idle)
		return false;
	list_init(&doomed);
	chunk_roots_trim(pool, idle > bytes ? idle - bytes : 0, &doomed);
	pthread_mutex_unlock(&pool->lock);
	chunk_roots_destroy(pool, &doomed);
	pthread_mutex_lock(&pool->lock);
	return true;
}

/* The smallest root that a request fits into. */
static uint64_t least_root(const struct chunk_pool *pool, const struct chunk_request *request)
{
	uint64_t unit = MAX(pool->granularity, pool->config.least_bytes), bytes;

	if (request->kind != CHUNK_BUDDY)
		return request->bytes;
	bytes = (UINT64_C(1) << request->order) << pool->shift;
	return round_up(bytes, unit);
}

/* The root to create for a request. One that others are to share goes no further beyond the limits
 * than the request does by itself. */
static uint64_t wanted_root(const struct chunk_pool *pool, const struct chunk_request *request)
{
	uint64_t most = chunk_roots_most(pool, request->bytes), max = pool->config.max_bytes;
	uint64_t held = chunk_held_bytes(pool) + pool->creating_bytes, bytes;

	if (request->kind != CHUNK_SHARED)
		return request->kind == CHUNK_BUDDY ? pool->config.root_bytes : request->bytes;
	if (max && most > max)
		most = max;
	bytes = most > held ? most - held : 0;
	if (bytes > pool->shared_root_bytes)
		bytes = pool->shared_root_bytes;
	bytes -= bytes % pool->granularity;
	return MAX(bytes, request->bytes);
}

static int grow(struct chunk_pool *pool, const struct chunk_request *request,
		struct mem_chunk **out)
{
	uint64_t bytes = wanted_root(pool, request);
	int err;

	make_way(pool, bytes);
	err = create_take(pool, request, bytes, out);
	while (err == -ENOMEM && give_back(pool, bytes))
		err = create_take(pool, request, bytes, out);
	if (err == -ENOMEM && least_root(pool, request) < bytes)
		err = create_take(pool, request, least_root(pool, request), out);
	return err;
}

/* ------------------------------------------------------------------ eviction */

/* Ask a published chunk's owner. Drops the lock; the root is not given back meanwhile, as the chunk
 * is in use. false: it stays. */
static bool evict_chunk(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	uint64_t owner = chunk->owner;

	list_del(&chunk->link);
	chunk_set_state(pool, chunk, CHUNK_EVICTING);
	chunk->given_up = false;
	pthread_mutex_unlock(&pool->lock);
	/* Whether it was given up, by whom ever, shows at the chunk. */
	(void)pool->config.evict(pool->config.evict_arg, chunk, owner);
	pthread_mutex_lock(&pool->lock);
	if (chunk->given_up) {
		chunk_put(pool, chunk, chunk->fence);
		pool->stats.nr_evicted++;
		return true;
	}
	chunk_set_state(pool, chunk, CHUNK_PUBLISHED);
	list_add_tail(&pool->published, &chunk->link);
	pool->stats.nr_evict_refused++;
	return false;
}

/* Of the first nr published ones, one that the request fits into. */
static struct mem_chunk *victim_chunk(struct chunk_pool *pool, const struct chunk_request *request,
				      uint64_t nr)
{
	struct list_link *link = pool->published.next;

	for (uint64_t i = 0; i < nr && link != &pool->published; i++, link = link->next) {
		struct mem_chunk *chunk = chunk_of(link);

		/* Of buddies only what is aligned can be had again: its largest power of two. */
		if (!chunk->root->emptying && chunk_fits(chunk, request) &&
		    (request->kind != CHUNK_BUDDY || log2_floor(chunk->nr) >= request->order))
			return chunk;
	}
	return NULL;
}

/* The root of the first published chunk that has nothing pinned. */
static struct chunk_root *victim_root(struct chunk_pool *pool)
{
	for (struct list_link *l = pool->published.next; l != &pool->published; l = l->next) {
		struct chunk_root *root = chunk_of(l)->root;

		if (!root->nr_pinned && !root->emptying)
			return root;
	}
	return NULL;
}

/* Empty a root, as far as its owners let. What becomes free in it meanwhile is kept for the caller,
 * who has it before the lock is dropped again. Counts who was asked. */
static void evict_root(struct chunk_pool *pool, struct chunk_root *root, uint64_t *nr_asked)
{
	bool all = true;

	chunk_root_empty_begin(pool, root);
	for (uint32_t i = 0; i < root->nr && all && !root->nr_pinned; i++) {
		if (root->chunk[i].state != CHUNK_PUBLISHED)
			continue;
		++*nr_asked;
		all = evict_chunk(pool, &root->chunk[i]);
	}
	if (all && !root->nr_pinned)
		(void)chunk_pending_wait_unlocked(pool, root);
	chunk_root_empty_end(pool, root);
}

/* Evict a chunk of the size, and wait until the request can have it. */
static struct mem_chunk *evict_one(struct chunk_pool *pool, const struct chunk_request *request,
				   struct mem_chunk *victim)
{
	const struct chunk_root *root = victim->root;
	struct mem_chunk *chunk = NULL;

	if (!evict_chunk(pool, victim))
		return NULL;
	if (request->fence)
		chunk = chunk_pending_take(pool, request);
	if (chunk)
		return chunk;
	(void)chunk_pending_wait_unlocked(pool, root);
	chunk = chunk_take(pool, request);
	if (!chunk && chunk_buddy_flush(pool))
		chunk = chunk_take(pool, request);
	return chunk;
}

static int evict(struct chunk_pool *pool, const struct chunk_request *request,
		 struct mem_chunk **out)
{
	/* Owners that refuse are asked again only as often as there were chunks to ask about. */
	uint64_t nr_asked = 0, most = 2 * pool->stats.nr_chunks + 1;
	int err = -ENOMEM;

	while (err == -ENOMEM && nr_asked < most) {
		struct mem_chunk *chunk = victim_chunk(pool, request, EVICT_LOOK);
		struct chunk_root *root = chunk ? NULL : victim_root(pool);

		if (!chunk && !root)
			chunk = victim_chunk(pool, request, UINT64_MAX);
		if (chunk) {
			nr_asked++;
			chunk = evict_one(pool, request, chunk);
		} else if (root) {
			evict_root(pool, root, &nr_asked);
			chunk = chunk_take(pool, request);
		} else {
			break;
		}
		if (chunk) {
			*out = chunk;
			return 0;
		}
		err = grow(pool, request, out);
	}
	return err;
}

int chunk_pressure_take_unlocked(struct chunk_pool *pool, const struct chunk_request *request,
				 struct mem_chunk **out)
{
	struct mem_chunk *chunk = NULL;
	int err;

	if (chunk_pending_poll_unlocked(pool, true))
		chunk = chunk_take(pool, request);
	if (!chunk && request->kind == CHUNK_BUDDY && chunk_buddy_flush(pool))
		chunk = chunk_take(pool, request);
	if (!chunk && request->fence)
		chunk = chunk_pending_take(pool, request);
	if (chunk) {
		*out = chunk;
		return 0;
	}
	err = grow(pool, request, out);
	if (err == -ENOMEM && request->evict && pool->config.evict)
		err = evict(pool, request, out);
	return err;
}
