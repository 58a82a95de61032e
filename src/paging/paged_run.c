/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brackets: when a pool is online, waiting until it is not, the watchdog, and what kernels left
 * behind or did wrong. Where time is virtual a kernel runs to its end inside a call of the machine:
 * a wait there cannot look in between, and only weir_paged_watch() does.
 */
#include <errno.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/paging/paged.h"

#define PAUSE_MIN_NS UINT64_C(5000)
#define PAUSE_MAX_NS UINT64_C(500000)

/* A bracket that ended without a fence gets one. A stream that is gone has waited for its work. */
static int fence_late(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	int err;

	if (!pool->unfenced)
		return 0;
	err = b->ops->fence_record(b, pool->stream, &pool->fence);
	if (err && err != -EINVAL)
		return err;
	if (err)
		pool->fence = 0;
	pool->unfenced = false;
	return 0;
}

/* 1: nobody is online; 0: somebody is, or may be; or the error of kernels, or of the machine. */
static int offline(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	int done = pool->open ? 0 : fence_late(pool);

	if (pool->open || done)
		return done;
	done = pool->fence ? b->ops->fence_done(b, pool->fence) : 1;
	if (done > 0)
		pool->fence = 0;
	return done;
}

/* ------------------------------------------------------------------ what kernels left */

/* What kernels did in a range since this was called last. */
static void tell_range(struct weir_paged *pool, uint32_t i)
{
	const char *name = pool->view.range[i].nr_pages ? pool->range[i].name : "there is none";
	uint64_t nr[WEIR_PAGED_EVENT_NR] = {0}, *told = pool->range[i].told;
	uint64_t refused, pins, no_slot;

	view_counts_sum(pool->counts, i, nr);
	refused = nr[WEIR_PAGED_REFUSED] - told[WEIR_PAGED_REFUSED];
	pins = nr[WEIR_PAGED_PINS] - told[WEIR_PAGED_PINS];
	no_slot = nr[WEIR_PAGED_NO_SLOT] - told[WEIR_PAGED_NO_SLOT];
	memcpy(told, nr, sizeof(nr));
	if (no_slot)
		log_warning("paged pool '%s': %llu warps found no slot free, and kept frames from "
			    "being reused: a warp enters once, and leaves on every way out of a "
			    "kernel",
			    pool->name, (unsigned long long)no_slot);
	if (pins) {
		log_error("paged pool '%s': %llu accesses to pages of range %u (%s) were not made, "
			  "since those can have no more pins: put each span, and once",
			  pool->name, (unsigned long long)pins, i, name);
		pool->wrong = -WEIR_ECONTRACT;
	}
	if (refused) {
		log_error("paged pool '%s': kernels made %llu accesses outside range %u (%s) or "
			  "writes to it that it does not allow: none was made; check their indices",
			  pool->name, (unsigned long long)refused, i, name);
		pool->wrong = -EFAULT;
	}
}

/* Nobody is online any more: take back what agents left, note what they did wrong. */
static int settle(struct weir_paged *pool)
{
	struct weir_paged_left left;
	int err = pool->settled ? 0 : paged_counts_get(pool);

	if (pool->settled || err)
		return err;
	err = paged_settle(pool, &left);
	if (err)
		return err;
	if (left.nr_slots || left.nr_pages) {
		log_error("paged pool '%s': %llu warps ended without weir_paged_leave(), and %llu "
			  "pages are pinned by spans that nobody put: both were taken back; put "
			  "every span, and leave on every way out of a kernel",
			  pool->name, (unsigned long long)left.nr_slots,
			  (unsigned long long)left.nr_pages);
		pool->wrong = -WEIR_ECONTRACT;
	}
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		tell_range(pool, i);
	pool->settled = true;
	return 0;
}

int paged_quiet(struct weir_paged *pool, const char *what)
{
	int done = offline(pool);

	if (!done) {
		log_error(
			"paged pool '%s': %s while it is online%s: call %sweir_paged_sync() first",
			pool->name, what, pool->open ? ", with a bracket open" : "",
			pool->open ? "weir_paged_end() and " : "");
		return -EBUSY;
	}
	if (done > 0)
		done = paged_side_wait(pool);
	return done ? done : settle(pool);
}

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
	int done = offline(pool);

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
		done = offline(pool);
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

int weir_paged_begin(struct weir_paged *pool, struct weir_stream *stream,
		     struct weir_paged_view *view)
{
	int err = -EINVAL;

	if (stream_machine(stream) != pool->machine || stream_device(stream) != pool->device) {
		log_error(
			"paged pool '%s': a stream of another device: it takes those of device %u",
			pool->name, pool->device);
		return err;
	}
	pthread_mutex_lock(&pool->lock);
	err = begin(pool, stream_id(stream));
	if (!err) {
		pool->open = pool->used = true;
		pool->settled = pool->watching = false;
		pool->stream = stream_id(stream);
		*view = pool->view;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_paged_end(struct weir_paged *pool, struct weir_stream *stream)
{
	int err = -WEIR_ECONTRACT;

	pthread_mutex_lock(&pool->lock);
	if (stream_machine(stream) != pool->machine || !pool->open ||
	    stream_id(stream) != pool->stream) {
		log_error("paged pool '%s': no bracket is open on this stream: weir_paged_begin() "
			  "opens one",
			  pool->name);
	} else {
		pool->open = false;
		err = paged_slots_free(pool);
		if (!err)
			err = pool->backend->ops->fence_record(pool->backend, pool->stream,
							       &pool->fence);
		pool->unfenced = err != 0;
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* Where time is virtual, let it go by. Elsewhere a wait that nobody watches is not to be had. */
static int wait_simulated(struct weir_paged *pool)
{
	fence_t fence;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = pool->open ? 0 : fence_late(pool);
	fence = pool->fence;
	pthread_mutex_unlock(&pool->lock);
	return err ? err : pool->backend->ops->fence_wait(pool->backend, fence);
}

static int sync_end(struct weir_paged *pool)
{
	int err = paged_side_wait(pool);

	if (!err)
		err = settle(pool);
	if (err)
		return err;
	err = pool->wrong;
	pool->wrong = 0;
	return err;
}

int weir_paged_sync(struct weir_paged *pool)
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
		if (err > 0) {
			err = sync_end(pool);
			pthread_mutex_unlock(&pool->lock);
			return err;
		}
		pthread_mutex_unlock(&pool->lock);
		if (!err)
			b->ops->host_spend(b, pause);
		pause = pause * 5 / 4 < PAUSE_MAX_NS ? pause * 5 / 4 : PAUSE_MAX_NS;
	}
	return err;
}
