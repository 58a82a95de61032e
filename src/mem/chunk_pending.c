/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that queued work may still name, and zeroing, which is such work: copies from a source of
 * zeros on a stream of the pool's own. (The boundary has no fill. A copy reads what it writes, so
 * it takes about twice the time.)
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
#define POLL_NR 32u
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
	err = b->ops->device_alloc(b, pool->memory, pool->zero_bytes, &pool->zero);
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

/* Queue zeroing of a chunk. Called without the lock. *queued: whether work may name it, by fence
 * *fence, or 0 where that could not be recorded. */
static int zero_queue(struct chunk_pool *pool, const struct mem_chunk *chunk, bool *queued,
		      fence_t *fence)
{
	struct backend *b = pool->backend;
	uint64_t left = chunk_bytes(chunk);
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

/* A chunk that is taken, or in hand, waits for a fence; 0: for one that could not be recorded. */
static void pending_add(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t fence)
{
	chunk_set_state(pool, chunk, CHUNK_PENDING);
	chunk->fence = fence;
	chunk->unfenced = !fence;
	list_add_tail(&pool->pending, &chunk->link);
}

static void count_back(struct chunk_pool *pool, const struct mem_chunk *chunk)
{
	pool->stats.nr_chunks--;
	pool->rounding_bytes -= chunk->rounding;
}

void chunk_put(struct chunk_pool *pool, struct mem_chunk *chunk, fence_t after)
{
	count_back(pool, chunk);
	if (after)
		pending_add(pool, chunk, after);
	else
		chunk_root_put(pool, chunk);
}

int chunk_zero_unlocked(struct chunk_pool *pool, struct mem_chunk *chunk)
{
	fence_t fence;
	bool queued;
	int err;

	pthread_mutex_unlock(&pool->lock);
	err = zero_queue(pool, chunk, &queued, &fence);
	pthread_mutex_lock(&pool->lock);
	pool->stats.nr_zeroings += !err;
	if (!err) {
		chunk->fence = fence;
	} else if (queued) { /* chunk_put() would take fence 0 for no work at all */
		count_back(pool, chunk);
		pending_add(pool, chunk, fence);
	} else {
		chunk_put(pool, chunk, 0);
	}
	return err;
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
		chunk->fence = 0;
		chunk_root_put(pool, chunk);
		return true;
	}
	pool->stats.nr_fence_errors += q->answer < 0;
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

bool chunk_pending_poll_unlocked(struct chunk_pool *pool)
{
	uint32_t nr_free;
	bool any = false;

	if (pool->polling)
		return false;
	pool->polling = true;
	do {
		nr_free = poll_some(pool);
		any = any || nr_free;
	} while (nr_free);
	pool->polling = false;
	return any;
}

/* ------------------------------------------------------------------ waiting */

/* Drops the lock. @return how many it found to wait for */
static uint32_t wait_some(struct chunk_pool *pool)
{
	struct backend *b = pool->backend;
	fence_t fence[POLL_NR];
	uint32_t nr = 0;

	for (struct list_link *l = pool->pending.next; l != &pool->pending && nr < POLL_NR;
	     l = l->next)
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

bool chunk_pending_wait_unlocked(struct chunk_pool *pool)
{
	for (uint32_t nr_failed = 0; nr_failed < WAIT_ROUNDS;) {
		uint32_t nr = wait_some(pool);
		bool others = !nr || pool->polling;

		if (!nr && !pool->nr_in_hand)
			return true;
		if (nr && chunk_pending_poll_unlocked(pool))
			continue;
		/* Another thread has some in hand, and will be done with them. */
		nr_failed += !others;
		pthread_mutex_unlock(&pool->lock);
		sched_yield();
		pthread_mutex_lock(&pool->lock);
	}
	return false;
}
