/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that is in a space: what the space asks of its ranges (src/core/kind.h). A bracket that
 * names some is a bracket of the pool, opened by the first of its uses and closed with the last.
 */
#include <errno.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/paging/paged.h"

static struct weir_paged *pool_of(struct range_owner *owner)
{
	return (struct weir_paged *)(void *)((char *)owner - offsetof(struct weir_paged, owner));
}

/* As paged_wait(), without the lock. To a space, what is open is in use. */
static int wait_offline(struct weir_paged *pool)
{
	int err = paged_wait(pool);

	if (!err)
		pthread_mutex_unlock(&pool->lock);
	return err == -WEIR_ECONTRACT ? -EBUSY : err;
}

/* One more use, by the bracket that weir_begin() places on the stream. */
static int name(struct weir_paged *pool, struct weir_stream *stream)
{
	bool another, mine;
	int err;

	pthread_mutex_lock(&pool->lock);
	another = pool->stream != stream_id(stream);
	mine = !another && pool->open && pool->nr_named;
	pool->nr_named += mine;
	pthread_mutex_unlock(&pool->lock);
	if (mine)
		return 0;
	err = another ? wait_offline(pool) : 0;
	if (!err)
		err = paged_bracket_open(pool, stream, true);
	return err == -WEIR_ECONTRACT ? -EBUSY : err;
}

static void call_name(void *arg)
{
	struct range_ready *use = arg;

	use->called = true;
	use->err = name(pool_of(use->owner), use->stream);
}

static int paged_ready(struct weir_space *space, struct range_ready *use, struct settle *settle)
{
	(void)space;
	if (use->called)
		return use->err;
	settle->call = call_name;
	settle->arg = use;
	return SETTLE_WAIT;
}

static int paged_release(struct range_owner *owner, uint32_t number, struct weir_stream *stream)
{
	struct weir_paged *pool = pool_of(owner);
	int err = 0;

	(void)number;
	(void)stream;
	pthread_mutex_lock(&pool->lock);
	if (pool->nr_named && !--pool->nr_named)
		err = paged_bracket_close(pool);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

static int paged_copy(struct range_owner *owner, uint32_t number, uint64_t offset, const void *in,
		      void *out, uint64_t bytes)
{
	struct weir_paged *pool = pool_of(owner);
	int err = wait_offline(pool);

	if (err)
		return err;
	return in ? weir_paged_write(pool, number, offset, in, bytes)
		  : weir_paged_read(pool, number, offset, out, bytes);
}

static void paged_query(const struct range *range, struct weir_space_stats *out)
{
	out->paged_bytes += range->bytes;
}

static void paged_destroy(struct range_owner *owner)
{
	struct weir_paged *pool = pool_of(owner);

	pthread_mutex_lock(&pool->lock);
	pool->space = NULL;
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		pool->range[i].in_space = NULL;
	pthread_mutex_unlock(&pool->lock);
}

const struct range_kind paged_kind = {
	.name = "a paged",
	.ready = paged_ready,
	.release = paged_release,
	.copy = paged_copy,
	.query = paged_query,
	.destroy = paged_destroy,
};
