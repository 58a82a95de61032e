/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of chunk pools, and the walk that holds every structure to what its comment says. */
#include <errno.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

/* ------------------------------------------------------------------ figures */

static uint64_t largest_free(const struct chunk_pool *pool)
{
	uint32_t nonempty = pool->nonempty[0] | pool->nonempty[1];
	uint64_t buddy = nonempty ? pool->config.least_bytes << log2_floor(nonempty) : 0;
	uint64_t piece = chunk_large_largest(pool), largest = MAX(buddy, piece);

	for (struct list_link *l = pool->idle.next; l != &pool->idle; l = l->next) {
		const struct chunk_root *root = chunk_root_of_idle(l);

		if (root->kind == CHUNK_OWN && root->backend.bytes > largest)
			largest = root->backend.bytes;
	}
	return largest;
}

void chunk_pool_stats(struct chunk_pool *pool, struct chunk_pool_stats *out)
{
	struct chunk_pool_stats stats;

	pthread_mutex_lock(&pool->lock);
	stats = pool->stats;
	stats.held_bytes = chunk_held_bytes(pool);
	stats.allocated_bytes = chunk_allocated_bytes(pool);
	stats.rounding_bytes = pool->rounding_bytes;
	stats.tail_bytes = pool->tail_bytes;
	stats.free_bytes = pool->bytes[CHUNK_FREE] + pool->bytes[CHUNK_POOLED];
	stats.pooled_bytes = pool->bytes[CHUNK_POOLED];
	stats.zeroed_bytes = pool->zeroed_bytes;
	stats.idle_bytes = pool->idle_bytes;
	stats.pending_bytes = pool->bytes[CHUNK_PENDING];
	stats.evictable_bytes = pool->bytes[CHUNK_PUBLISHED];
	stats.largest_free_bytes = largest_free(pool);
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
	uint64_t nr_free[2][CHUNK_ORDERS], nr_pooled[2][CHUNK_ORDERS]; /* in lists of the pool */
	uint64_t zeroed_bytes, zeroing_bytes, idle_bytes, tail_bytes, rounding_bytes;
	uint64_t nr_large[CHUNK_KIND_NR][CHUNK_SIZE_CLASSES]; /* the same; none of buddies */
	uint64_t nr_roots, nr_kind[CHUNK_KIND_NR], nr_idle;
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

/* A free one of a root that large requests share or own. */
static void check_large(struct count *count, const struct mem_chunk *chunk)
{
	const struct chunk_root *root = chunk->root;
	const struct mem_chunk *behind = chunk + chunk->nr;

	expect(count, link_is_sound(&chunk->link), "a free piece is in no list", chunk);
	expect(count, chunk->state == CHUNK_FREE, "a large chunk in a class pool", chunk);
	expect(count, behind[-1].nr == chunk->nr, "a free piece has no mark at its end", chunk);
	expect(count, chunk_index(chunk) + chunk->nr == root->nr || behind->state != CHUNK_FREE,
	       "two free pieces are not merged", chunk);
	count->nr_large[root->kind][chunk_size_class(chunk_span(chunk))] += !root->emptying;
}

static void check_free(struct count *count, const struct mem_chunk *chunk)
{
	const struct chunk_root *root = chunk->root;
	uint32_t at = chunk_index(chunk), order = chunk->order, other = at ^ 1u << order;

	if (root->kind != CHUNK_BUDDY) {
		check_large(count, chunk);
		return;
	}
	expect(count, order < CHUNK_ORDERS && chunk->nr == 1u << order && !(at & (chunk->nr - 1)),
	       "a free chunk is no aligned power of two", chunk);
	if (count->wrong)
		return;
	expect(count, link_is_sound(&chunk->link), "a free chunk is in no list", chunk);
	if (chunk->state == CHUNK_POOLED) {
		count->nr_pooled[chunk->zeroed][order]++;
		expect(count, !root->emptying, "a pooled chunk in a root that is emptied", chunk);
		return;
	}
	count->nr_free[chunk->zeroed][order] += !root->emptying;
	expect(count,
	       other + chunk->nr > root->nr || root->chunk[other].state != CHUNK_FREE ||
		       root->chunk[other].order != order,
	       "two free halves are not merged", chunk);
}

/* One that is in use. */
static void check_used(struct count *count, const struct mem_chunk *chunk)
{
	if (chunk->state == CHUNK_PUBLISHED)
		expect(count, link_is_sound(&chunk->link), "a published chunk is in no list",
		       chunk);
	if (chunk->state == CHUNK_PENDING) {
		if (chunk->link.next) /* else in the hands of a call */
			expect(count,
			       link_is_sound(&chunk->link) && chunk->unfenced == !chunk->fence,
			       "a pending chunk is in no list, or has no fence", chunk);
		count->zeroing_bytes += chunk->zeroing ? chunk_span(chunk) : 0;
		return;
	}
	count->rounding_bytes += chunk->rounding;
	count->tail_bytes += chunk_tail(chunk);
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
	count->bytes[chunk->state] += chunk_span(chunk);
	if (is_free)
		check_free(count, chunk);
	else
		check_used(count, chunk);
	if (is_free && chunk->zeroed)
		count->zeroed_bytes += chunk_span(chunk);
}

static void check_root(struct count *count, const struct chunk_root *root)
{
	uint32_t used = 0, nr_pinned = 0;

	expect(count, root->kind < CHUNK_KIND_NR && (root->kind != CHUNK_OWN || root->nr == 1),
	       "a root is of no kind", root);
	expect(count, root->nr * root->unit_bytes == root->backend.bytes,
	       "a root's size is not its chunks'", root);
	for (uint32_t at = 0; at < root->nr && !count->wrong; at += root->chunk[at].nr) {
		check_chunk(count, root, at);
		used += root->chunk[at].state >= CHUNK_PENDING ? root->chunk[at].nr : 0;
		nr_pinned += root->chunk[at].state == CHUNK_PINNED;
	}
	expect(count, used == root->used && nr_pinned == root->nr_pinned,
	       "a root does not know what of it is used", root);
	expect(count, (!used && !root->emptying) == (root->idle_link.next != NULL),
	       "a root is idle and in use, or neither", root);
	count->nr_roots++;
	count->nr_kind[root->kind]++;
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

static void check_sizes(struct count *count, const struct chunk_sizes *sizes, enum chunk_kind kind)
{
	for (uint32_t c = 0; c < CHUNK_SIZE_CLASSES; c++) {
		uint64_t nr = list_length(count, &sizes->list[c]);

		expect(count, nr == count->nr_large[kind][c], "a list by size has not what is free",
		       &sizes->list[c]);
		expect(count, (sizes->nonempty[c / 64] >> c % 64 & 1) == (nr > 0),
		       "a bit map is not its lists'", &sizes->list[c]);
	}
}

static void check_lists(struct count *count)
{
	const struct chunk_pool *pool = count->pool;

	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t o = 0; o < CHUNK_ORDERS; o++) {
			uint64_t nr_free = list_length(count, &pool->free[z][o]);
			uint64_t nr_pooled = list_length(count, &pool->pooled[z][o]);

			expect(count,
			       nr_free == count->nr_free[z][o] &&
				       nr_pooled == count->nr_pooled[z][o] &&
				       nr_pooled == pool->nr_pooled[z][o],
			       "a free list has not what is free", &pool->free[z][o]);
			expect(count,
			       (pool->nonempty[z] >> o & 1) == (nr_free > 0) &&
				       (pool->pooled_nonempty[z] >> o & 1) == (nr_pooled > 0),
			       "a bit map is not its lists'", &pool->free[z][o]);
		}
	check_sizes(count, &pool->shared, CHUNK_SHARED);
	check_sizes(count, &pool->own, CHUNK_OWN);
	expect(count,
	       list_length(count, &pool->pending) + pool->nr_in_hand == count->nr[CHUNK_PENDING] &&
		       list_length(count, &pool->published) == count->nr[CHUNK_PUBLISHED] &&
		       list_length(count, &pool->idle) == count->nr_idle,
	       "a list has not its chunks", pool);
}

static void check_totals(struct count *count)
{
	const struct chunk_pool *pool = count->pool;
	uint64_t max = pool->config.max_bytes;

	for (uint32_t s = CHUNK_FREE; s < CHUNK_STATE_NR; s++)
		expect(count, pool->bytes[s] == count->bytes[s], "bytes of a state", pool);
	expect(count,
	       count->zeroed_bytes == pool->zeroed_bytes &&
		       count->zeroing_bytes == pool->zeroing_bytes,
	       "bytes zeroed", pool);
	expect(count, count->idle_bytes == pool->idle_bytes, "bytes idle", pool);
	expect(count,
	       count->tail_bytes == pool->tail_bytes &&
		       count->rounding_bytes == pool->rounding_bytes,
	       "bytes lost", pool);
	expect(count,
	       count->nr_roots == pool->stats.nr_roots &&
		       count->nr_kind[CHUNK_OWN] == pool->stats.nr_own &&
		       count->nr_kind[CHUNK_SHARED] == pool->stats.nr_shared &&
		       count->nr_roots == pool->stats.nr_creates - pool->stats.nr_destroys &&
		       count->nr[CHUNK_PINNED] + count->nr[CHUNK_PUBLISHED] +
				       count->nr[CHUNK_EVICTING] ==
			       pool->stats.nr_chunks,
	       "numbers of roots or chunks", pool);
	expect(count, !max || chunk_held_bytes(pool) <= max, "more is held than allowed", pool);
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
	log_error("chunk pool of '%s': %s (%p)",
		  pool->backend->desc.memory[pool->config.memory].name, count.wrong, count.where);
	return -EUCLEAN;
}
