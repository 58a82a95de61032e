/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of chunk pools, and the walk that holds every structure to what its comment says. */
#include <errno.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ figures */

void chunk_pool_stats(struct chunk_pool *pool, struct chunk_pool_stats *out)
{
	struct chunk_pool_stats stats;

	pthread_mutex_lock(&pool->lock);
	stats = pool->stats;
	stats.held_bytes = chunk_held_bytes(pool);
	stats.allocated_bytes = pool->bytes[CHUNK_TAKEN];
	stats.rounding_bytes = pool->rounding_bytes;
	stats.free_bytes = pool->bytes[CHUNK_FREE] + pool->bytes[CHUNK_POOLED];
	stats.pooled_bytes = pool->bytes[CHUNK_POOLED];
	stats.idle_bytes = pool->idle_bytes;
	stats.pending_bytes = pool->bytes[CHUNK_PENDING];
	stats.largest_free_bytes =
		pool->nonempty ? pool->config.least_bytes << log2_floor(pool->nonempty) : 0;
	pthread_mutex_unlock(&pool->lock);
	*out = stats;
}

/* ------------------------------------------------------------------ the walk */

/* What the walk over roots counts, to be compared with what the pool says. */
struct count {
	const struct chunk_pool *pool;
	const char *wrong; /* the first thing that is */
	const void *where;
	uint64_t bytes[CHUNK_STATE_NR];
	uint64_t nr[CHUNK_STATE_NR];
	uint64_t nr_free[CHUNK_ORDERS], nr_pooled[CHUNK_ORDERS]; /* in lists of the pool */
	uint64_t idle_bytes, rounding_bytes;
	uint64_t nr_roots, nr_idle;
};

static void expect(struct count *count, bool right, const char *what, const void *where)
{
	if (right || count->wrong)
		return;
	count->wrong = what;
	count->where = where;
}

static bool link_is_sound(const struct list_link *link)
{
	return link->next && link->prev && link->next->prev == link && link->prev->next == link;
}

static void check_free(struct count *count, const struct mem_chunk *chunk)
{
	const struct chunk_root *root = chunk->root;
	uint32_t at = chunk_index(chunk), order = chunk->order, other = at ^ 1u << order;

	expect(count, order < CHUNK_ORDERS && chunk->nr == 1u << order && !(at & (chunk->nr - 1)),
	       "a free chunk is no aligned power of two", chunk);
	if (count->wrong)
		return;
	expect(count, link_is_sound(&chunk->link), "a free chunk is in no list", chunk);
	if (chunk->state == CHUNK_POOLED) {
		count->nr_pooled[order]++;
		return;
	}
	count->nr_free[order]++;
	expect(count,
	       other + chunk->nr > root->nr || root->chunk[other].state != CHUNK_FREE ||
		       root->chunk[other].order != order,
	       "two free halves are not merged", chunk);
}

/* One that is in use. */
static void check_used(struct count *count, const struct mem_chunk *chunk)
{
	if (chunk->state == CHUNK_PENDING) {
		if (chunk->link.next) /* else in the hands of a call */
			expect(count,
			       link_is_sound(&chunk->link) && chunk->unfenced == !chunk->fence,
			       "a pending chunk is in no list, or has no fence", chunk);
		return;
	}
	count->rounding_bytes += chunk->rounding;
	expect(count, chunk->rounding < chunk_bytes(chunk),
	       "more is lost to rounding than there is", chunk);
}

static void check_chunk(struct count *count, const struct chunk_root *root, uint32_t at)
{
	const struct mem_chunk *chunk = &root->chunk[at];
	bool is_free = chunk->state == CHUNK_FREE || chunk->state == CHUNK_POOLED;

	expect(count, chunk->state > CHUNK_NONE && chunk->state < CHUNK_STATE_NR,
	       "no chunk where the last one ends", chunk);
	expect(count, chunk->root == root && chunk->nr && chunk->nr <= root->nr - at,
	       "a chunk is not of its root", chunk);
	if (count->wrong)
		return;
	for (uint32_t i = 1; i < chunk->nr; i++)
		expect(count, chunk[i].state == CHUNK_NONE, "a chunk begins inside another", chunk);
	count->nr[chunk->state]++;
	count->bytes[chunk->state] += chunk_bytes(chunk);
	if (is_free)
		check_free(count, chunk);
	else
		check_used(count, chunk);
}

static void check_root(struct count *count, const struct chunk_root *root)
{
	uint32_t used = 0;

	expect(count, root->nr * root->unit_bytes == root->backend.bytes,
	       "a root's size is not its chunks'", root);
	for (uint32_t at = 0; at < root->nr && !count->wrong; at += root->chunk[at].nr) {
		check_chunk(count, root, at);
		used += root->chunk[at].state >= CHUNK_PENDING ? root->chunk[at].nr : 0;
	}
	expect(count, used == root->used, "a root does not know what of it is used", root);
	expect(count, !used == (root->idle_link.next != NULL),
	       "a root is idle and in use, or neither", root);
	count->nr_roots++;
	if (root->idle_link.next) {
		count->idle_bytes += root->backend.bytes;
		count->nr_idle++;
	}
}

static uint64_t list_length(struct count *count, const struct list_link *list)
{
	uint64_t nr = 0;

	for (const struct list_link *l = list->next; l != list && !count->wrong; l = l->next) {
		expect(count, link_is_sound(l), "a list is torn", l);
		nr++;
	}
	return nr;
}

static void check_lists(struct count *count)
{
	const struct chunk_pool *pool = count->pool;

	for (uint32_t o = 0; o < CHUNK_ORDERS; o++) {
		uint64_t nr_free = list_length(count, &pool->free[o]);
		uint64_t nr_pooled = list_length(count, &pool->pooled[o]);

		expect(count,
		       nr_free == count->nr_free[o] && nr_pooled == count->nr_pooled[o] &&
			       nr_pooled == pool->nr_pooled[o],
		       "a free list has not what is free", &pool->free[o]);
		expect(count,
		       (pool->nonempty >> o & 1) == (nr_free > 0) &&
			       (pool->pooled_nonempty >> o & 1) == (nr_pooled > 0),
		       "a bit map is not its lists'", &pool->free[o]);
	}
	expect(count,
	       list_length(count, &pool->pending) + pool->nr_in_hand == count->nr[CHUNK_PENDING] &&
		       list_length(count, &pool->idle) == count->nr_idle,
	       "a list has not its chunks", pool);
}

static void check_totals(struct count *count)
{
	const struct chunk_pool *pool = count->pool;

	for (uint32_t s = CHUNK_FREE; s < CHUNK_STATE_NR; s++)
		expect(count, pool->bytes[s] == count->bytes[s], "bytes of a state", pool);
	expect(count, count->idle_bytes == pool->idle_bytes, "bytes idle", pool);
	expect(count, count->rounding_bytes == pool->rounding_bytes, "bytes lost", pool);
	expect(count,
	       count->nr_roots == pool->stats.nr_roots &&
		       count->nr_roots == pool->stats.nr_creates - pool->stats.nr_destroys &&
		       count->nr[CHUNK_TAKEN] == pool->stats.nr_chunks,
	       "numbers of roots or chunks", pool);
}

int chunk_pool_check(struct chunk_pool *pool)
{
	struct count count = {.pool = pool};

	pthread_mutex_lock(&pool->lock);
	for (struct list_link *l = pool->roots.next; l != &pool->roots && !count.wrong; l = l->next)
		check_root(&count, chunk_root_of_all(l));
	check_lists(&count);
	check_totals(&count);
	pthread_mutex_unlock(&pool->lock);
	if (!count.wrong)
		return 0;
	log_error("chunk pool of '%s': %s (%p)", pool->backend->desc.memory[pool->memory].name,
		  count.wrong, count.where);
	return -EUCLEAN;
}
