/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that queued work may still name, and zeroing, which is such work: copies from a source of
 * zeros on a stream of the pool's own. (The boundary has no fill. A copy reads what it writes, so
 * it takes about twice the time; it is off the path of whoever allocates.)
 *
 * A pending chunk is in pool->pending, or in the hands of one call that has dropped the lock: then
 * in no list, and counted in nr_in_hand.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/chunk_internal.h"

#define ZERO_BYTES_MAX (UINT64_C(2) << 20)
#define ZERO_PIECES 64u /* of a batch */
#define ZERO_AHEAD 4u	/* chunks that a call of the progress function queues */
#define POLL_NR 32u
#define TAKE_LOOK 16u
/* Rounds of a wait in which nothing became ready, because questions keep failing. */
#define WAIT_ROUNDS 1000u

/* ------------------------------------------------------------------ the source of zeros */

static int zero_fill(struct chunk_pool *pool)
{
	struct backend *b = pool->backend;
	void *zeros = NULL;
	int err;

	if (b->data == WEIR_DATA_REAL) {
		zeros = calloc(1, pool->zero_bytes);
		if (!zeros)
			return -ENOMEM;
	}
	err = b->ops->upload(b, pool->zero_stream, pool->zero, zeros, pool->zero_bytes);
	free(zeros);
	return err;
}

int chunk_zero_init(struct chunk_pool *pool)
{
	struct backend *b = pool->backend;
	int err;

	if (!pool->config.zero)
		return 0;
	pool->zero_bytes =
		pool->config.root_bytes < ZERO_BYTES_MAX ? pool->config.root_bytes : ZERO_BYTES_MAX;
	err = b->ops->stream_create(b, pool->config.zero_device, BACKEND_COPY_IN,
				    &pool->zero_stream);
	if (err)
		return err;
	/* A plain allocation: what is uploaded to an alias, backends need not take. */
	err = b->ops->device_alloc(b, pool->config.memory, pool->zero_bytes, &pool->zero);
	if (err)
		goto err_stream;
	err = zero_fill(pool);
	if (err)
		goto err_zero;
	return 0;

err_zero:
	b->ops->device_free(b, pool->zero);
err_stream:
	b->ops->stream_destroy(b, pool->zero_stream);
	return err;
}

void chunk_zero_fini(struct chunk_pool *pool)
{
	struct backend *b = pool->backend;

	if (!pool->config.zero)
		return;
	b->ops->device_free(b, pool->zero);
	b->ops->stream_destroy(b, pool->zero_stream);
}

int chunk_zero_queue(struct chunk_pool *pool, const struct mem_chunk *chunk, bool *queued,
		     fence_t *fence)
{
	struct backend *b = pool->backend;
	uint64_t left = chunk_span(chunk);
	struct backend_copy copy[ZERO_PIECES];
	char *at = chunk_addr(chunk);
	fence_t recorded;
	int err = 0, fence_err;

	*queued = false;
	*fence = 0;
	while (left && !err) {
		uint32_t nr = 0;

		while (left && nr < ZERO_PIECES) {
			uint64_t bytes = MIN(left, pool->zero_bytes);

			copy[nr++] = (struct backend_copy){at, pool->zero, bytes};
			at += bytes;
			left -= bytes;
		}
		err = b->ops->copy(b, pool->zero_stream, copy, nr);
		if (!err)
			*queued = true;
	}
	if (!*queued)
		return err;
	fence_err = b->ops->fence_record(b, pool->zero_stream, &recorded);
	if (!fence_err)
		*fence = recorded;
	return err ? err : fence_err;
}

/* ------------------------------------------------------------------ the list */

void chunk_pending_add(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t fence,
		       bool zeroing)
{
	chunk->fence = fence;
	chunk->unfenced = !fence;
	chunk->zeroing = zeroing;
	if (zeroing)
		pool->zeroing_bytes += chunk_span(chunk);
	list_add_tail(&pool->pending, &chunk->link);
}

static void zeroing_end(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	if (chunk->zeroing)
		pool->zeroing_bytes -= chunk_span(chunk);
	chunk->zeroing = false;
}

/* Take a pending chunk back from what it waited for: free. */
static void pending_done(struct chunk_pool *pool, struct mem_chunk *chunk, bool zeroed)
{
	zeroing_end(pool, chunk);
	chunk->fence = 0;
	chunk_root_put(pool, chunk, zeroed);
}

void chunk_put(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after)
{
	pool->stats.nr_chunks--;
	pool->rounding_bytes -= chunk->rounding;
	pool->tail_bytes -= chunk_tail(chunk);
	if (after) {
		chunk_set_state(pool, chunk, CHUNK_PENDING);
		chunk_pending_add(pool, chunk, after, false);
	} else {
		chunk_root_put(pool, chunk, false);
	}
}

static bool pending_fits(const struct mem_chunk *chunk, const struct chunk_request *request)
{
	if (chunk->unfenced || chunk->root->emptying || (request->zeroed && !chunk->zeroing))
		return false;
	return chunk_fits(chunk, request) && chunk->nr == request->nr;
}

struct mem_chunk *chunk_pending_take(struct chunk_pool *pool, const struct chunk_request *request)
{
	struct list_link *link = pool->pending.next;

	for (uint32_t i = 0; i < TAKE_LOOK && link != &pool->pending; i++, link = link->next) {
		struct mem_chunk *chunk = chunk_of(link);

		if (!pending_fits(chunk, request))
			continue;
		list_del(link);
		chunk->zeroed = chunk->zeroing;
		zeroing_end(pool, chunk);
		chunk_set_state(pool, chunk, CHUNK_PINNED);
		chunk_large_ask(pool, chunk, request);
		return chunk;
	}
	return NULL;
}

/* ------------------------------------------------------------------ asking */

/* What was asked about a chunk in hand. */
struct question {
	struct mem_chunk *chunk;
	fence_t fence;
	bool unfenced;
	int answer; /* of fence_done */
};

/* Without the lock. Any later fence of the pool's stream stands for one that is missing. */
static void question_ask(struct chunk_pool *pool, struct question *q)
{
	struct backend *b = pool->backend;
	fence_t fence;

	q->answer = 0;
	if (q->unfenced) {
		q->answer = b->ops->fence_record(b, pool->zero_stream, &fence);
		if (q->answer)
			return;
		q->fence = fence;
	}
	q->answer = b->ops->fence_done(b, q->fence);
	if (q->answer == -EINVAL) /* no such fence any more: its stream is gone, its work done */
		q->answer = 1;
}

/* true: it is free. */
static bool question_settle(struct chunk_pool *pool, const struct question *q)
{
	struct mem_chunk *chunk = q->chunk;

	if (q->answer == 1) {
		pending_done(pool, chunk, chunk->zeroing);
		return true;
	}
	if (q->answer < 0) {
		pool->stats.nr_fence_errors++;
		zeroing_end(pool, chunk);
	}
	chunk->fence = q->fence;
	chunk->unfenced = !q->fence;
	list_add(&pool->pending, &chunk->link);
	return false;
}

/* Drops the lock. @return how many became free */
static uint32_t poll_some(struct chunk_pool *pool)
{
	struct list_link *link = pool->pending.next;
	struct question question[POLL_NR];
	uint32_t nr = 0, nr_free = 0;

	while (nr < POLL_NR && link != &pool->pending) {
		struct mem_chunk *chunk = chunk_of(link);

		link = link->next;
		list_del(&chunk->link);
		question[nr++] = (struct question){
			.chunk = chunk, .fence = chunk->fence, .unfenced = chunk->unfenced};
	}
	if (!nr)
		return 0;
	pool->nr_in_hand += nr;
	pthread_mutex_unlock(&pool->lock);
	for (uint32_t i = 0; i < nr; i++)
		question_ask(pool, &question[i]);
	pthread_mutex_lock(&pool->lock);
	pool->nr_in_hand -= nr;
	/* Backwards, so that those that stay pending stay in order. */
	while (nr--)
		nr_free += question_settle(pool, &question[nr]);
	return nr_free;
}

bool chunk_pending_poll_unlocked(struct chunk_pool *pool, bool on)
{
	uint32_t nr_free;
	bool any = false;

	if (pool->progressing)
		return false;
	pool->progressing = true;
	do {
		nr_free = poll_some(pool);
		any = any || nr_free;
	} while (on && nr_free);
	pool->progressing = false;
	return any;
}

/* ------------------------------------------------------------------ waiting */

/* Drops the lock. @return how many it found to wait for */
static uint32_t wait_some(struct chunk_pool *pool, const struct chunk_root *root)
{
	struct backend *b = pool->backend;
	fence_t fence[POLL_NR];
	uint32_t nr = 0;

	for (struct list_link *l = pool->pending.next; l != &pool->pending && nr < POLL_NR;
	     l = l->next)
		if (!root || chunk_of(l)->root == root)
			fence[nr++] = chunk_of(l)->fence;
	if (!nr)
		return 0;
	pthread_mutex_unlock(&pool->lock);
	/* Whether one is reached is asked afterwards: an error here is no answer. */
	for (uint32_t i = 0; i < nr; i++)
		if (fence[i])
			(void)b->ops->fence_wait(b, fence[i]);
	pthread_mutex_lock(&pool->lock);
	return nr;
}

/* Put the pending chunks of a root first, so that they are asked about. */
static void pending_prefer(struct chunk_pool *pool, const struct chunk_root *root)
{
	struct list_link *link = pool->pending.next;

	while (link != &pool->pending) {
		struct list_link *next = link->next;

		if (chunk_of(link)->root == root) {
			list_del(link);
			list_add(&pool->pending, link);
		}
		link = next;
	}
}

bool chunk_pending_wait_unlocked(struct chunk_pool *pool, const struct chunk_root *root)
{
	for (uint32_t nr_failed = 0; nr_failed < WAIT_ROUNDS;) {
		uint32_t nr = wait_some(pool, root);
		bool others = !nr || pool->progressing;

		if (!nr && !pool->nr_in_hand)
			return true;
		if (nr && root)
			pending_prefer(pool, root);
		if (nr && chunk_pending_poll_unlocked(pool, true))
			continue;
		/* Another thread has some in hand, and will be done with them. */
		nr_failed += !others;
		pthread_mutex_unlock(&pool->lock);
		sched_yield();
		pthread_mutex_lock(&pool->lock);
	}
	return false;
}

/* ------------------------------------------------------------------ zeroing ahead of need */

bool chunk_zero_ahead_wanted(const struct chunk_pool *pool)
{
	return pool->config.zero && pool->nonempty[0] &&
	       pool->zeroed_bytes + pool->zeroing_bytes < pool->config.zero_ahead_bytes;
}

void chunk_zero_ahead_unlocked(struct chunk_pool *pool)
{
	for (uint32_t i = 0; i < ZERO_AHEAD && chunk_zero_ahead_wanted(pool); i++) {
		uint32_t order = log2_floor(pool->nonempty[0]);
		struct mem_chunk *chunk = chunk_of(pool->free[0][order].next);
		fence_t fence;
		bool queued;
		int err;

		chunk_buddy_unlink(pool, chunk);
		chunk_set_state(pool, chunk, CHUNK_PENDING);
		chunk_root_settle(pool, chunk->root);
		pool->nr_in_hand++;
		pthread_mutex_unlock(&pool->lock);
		err = chunk_zero_queue(pool, chunk, &queued, &fence);
		pthread_mutex_lock(&pool->lock);
		pool->nr_in_hand--;
		pool->stats.nr_zeroings += !err;
		if (!queued) {
			chunk_root_put(pool, chunk, false);
			return;
		}
		chunk_pending_add(pool, chunk, fence, !err);
		if (err)
			return;
	}
}
