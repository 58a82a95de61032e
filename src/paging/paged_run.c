/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets: waiting until a pool is not online, and the watchdog. Where time is virtual a kernel
 * runs to its end inside a call of the machine: a wait there cannot look in between, and only
 * weir_paged_watch() does.
 */
#include <errno.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/paging/paged.h"

#define PAUSE_MIN_NS UINT64_C(5000)
#define PAUSE_MAX_NS UINT64_C(500000)

/* ------------------------------------------------------------------ watching */

static int set_abort(struct weir_paged *pool, bool on)
{
	uint64_t word = on;
	int err = paged_put(pool, &pool->words->abort, &word, sizeof(word));

	if (!err)
		pool->stalled = on;
	return err;
}

static int stall(struct weir_paged *pool)
{
	int err = set_abort(pool, true);

	if (err)
		return err;
	pool->nr_stalls++;
	log_warning("paged pool '%s': accesses wait for pages, and none was moved for %llu ms: "
		    "admission is stopped until the next weir_paged_begin(); does a kernel keep a "
		    "warp from going on in the middle of an access?",
		    pool->name, (unsigned long long)(pool->watch_ns / 1000000));
	paged_dump(pool);
	return 0;
}

/* Kernels run. If since some time all looks saw that accesses waited in between, and that nothing
 * else happened, that is a stall. */
static int watch_counts(struct weir_paged *pool)
{
	uint64_t nr[WEIR_PAGED_EVENT_NR] = {0}, moved;
	uint64_t now = pool->backend->ops->now_ns(pool->backend);
	bool fresh;
	int err;

	if (!pool->watching) { /* short kernels end before anything is downloaded */
		pool->watching = true;
		pool->looked_ns = now;
		pool->nr_moved = UINT64_MAX;
	}
	if (pool->stalled || now - pool->looked_ns < pool->watch_ns / 8)
		return 0;
	err = paged_counts_get(pool);
	if (err)
		return err;
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		view_counts_sum(pool->counts, i, nr);
	moved = nr[WEIR_PAGED_IN] + nr[WEIR_PAGED_OUT] + nr[WEIR_PAGED_IN_PLACE];
	fresh = moved != pool->nr_moved || nr[WEIR_PAGED_WAIT] == pool->nr_waits;
	pool->looked_ns = now;
	pool->nr_moved = moved;
	pool->nr_waits = nr[WEIR_PAGED_WAIT];
	if (fresh)
		pool->since_ns = now;
	return now - pool->since_ns >= pool->watch_ns ? stall(pool) : 0;
}

static int look(struct weir_paged *pool)
{
	int done = paged_offline(pool);

	return done ? done : watch_counts(pool);
}

int weir_paged_watch(struct weir_paged *pool)
{
	int done;

	pthread_mutex_lock(&pool->lock);
	done = look(pool);
	pthread_mutex_unlock(&pool->lock);
	return done;
}

/* ------------------------------------------------------------------ brackets */

static int begin(struct weir_paged *pool, stream_id_t id)
{
	int done = 1;

	if (pool->open) {
		log_error("paged pool '%s': a bracket is open: weir_paged_end() it first",
			  pool->name);
		return -WEIR_ECONTRACT;
	}
	if (id != pool->stream) /* else what is queued next comes after it anyway */
		done = paged_offline(pool);
	if (!done) {
		log_error(
			"paged pool '%s': it is online on another stream: weir_paged_sync() first",
			pool->name);
		return -EBUSY;
	}
	if (done < 0)
		return done;
	done = paged_side_wait(pool);
	if (!done && pool->stalled)
		done = set_abort(pool, false);
	return done;
}

int paged_bracket_open(struct weir_paged *pool, struct weir_stream *stream, bool named)
{
	int err = -EINVAL;

	if (stream_machine(stream) != pool->machine || stream_device(stream) != pool->device) {
		log_error(
			"paged pool '%s': a stream of another device: it takes those of device %u",
			pool->name, pool->device);
		return err;
	}
	pthread_mutex_lock(&pool->lock);
	paged_frames_again(pool, named);
	err = begin(pool, stream_id(stream));
	if (!err) {
		pool->open = pool->used = true;
		pool->nr_named = named;
		pool->settled = pool->watching = false;
		pool->stream = stream_id(stream);
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* Whether a bracket is open on the stream. */
static bool is_open_on(const struct weir_paged *pool, const struct weir_stream *stream)
{
	return stream_machine(stream) == pool->machine && pool->open &&
	       stream_id(stream) == pool->stream;
}

int weir_paged_view_get(struct weir_paged *pool, struct weir_stream *stream,
			struct weir_paged_view *view)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	if (is_open_on(pool, stream)) {
		*view = pool->view;
	} else {
		log_error("paged pool '%s': no bracket is open on this stream that uses it: its "
			  "view is that of a bracket",
			  pool->name);
		err = -WEIR_ECONTRACT;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_paged_begin(struct weir_paged *pool, struct weir_stream *stream,
		     struct weir_paged_view *view)
{
	int err = paged_bracket_open(pool, stream, false);

	return err ? err : weir_paged_view_get(pool, stream, view);
}

int paged_bracket_close(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	int err;

	pool->open = false;
	err = paged_slots_free(pool);
	if (!err)
		err = b->ops->fence_record(b, pool->stream, &pool->fence);
	pool->unfenced = err != 0;
	return err;
}

int weir_paged_end(struct weir_paged *pool, struct weir_stream *stream)
{
	int err = -WEIR_ECONTRACT;

	pthread_mutex_lock(&pool->lock);
	if (!is_open_on(pool, stream))
		log_error("paged pool '%s': no bracket is open on this stream: weir_paged_begin() "
			  "opens one",
			  pool->name);
	else if (pool->nr_named)
		log_error("paged pool '%s': the bracket is weir_begin()'s: weir_end() ends it",
			  pool->name);
	else
		err = paged_bracket_close(pool);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* Where time is virtual, let it go by. Elsewhere a wait that nobody watches is not to be had. */
static int wait_simulated(struct weir_paged *pool)
{
	fence_t fence;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = pool->open ? 0 : paged_fence_late(pool);
	fence = pool->fence;
	pthread_mutex_unlock(&pool->lock);
	return err ? err : pool->backend->ops->fence_wait(pool->backend, fence);
}

int paged_wait(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	uint64_t pause = PAUSE_MIN_NS;
	int err = pool->simulated ? wait_simulated(pool) : 0;

	while (!err) {
		pthread_mutex_lock(&pool->lock);
		if (pool->open) {
			log_error("paged pool '%s': a bracket is open: weir_paged_end() it first",
				  pool->name);
			err = -WEIR_ECONTRACT;
		} else {
			err = look(pool);
		}
		if (err > 0)
			return 0;
		pthread_mutex_unlock(&pool->lock);
		if (!err)
			b->ops->host_spend(b, pause);
		pause = pause * 5 / 4 < PAUSE_MAX_NS ? pause * 5 / 4 : PAUSE_MAX_NS;
	}
	return err;
}

static int sync_end(struct weir_paged *pool)
{
	int err = paged_side_wait(pool);

	if (!err)
		err = paged_take_back(pool);
	if (err)
		return err;
	err = pool->wrong;
	pool->wrong = 0;
	return err;
}

int weir_paged_sync(struct weir_paged *pool)
{
	int err = paged_wait(pool);

	if (err)
		return err;
	err = sync_end(pool);
	pthread_mutex_unlock(&pool->lock);
	return err;
}
