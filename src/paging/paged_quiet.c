/* SPDX-License-Identifier: Apache-2.0 */
/* When a pool is not online, and what kernels left behind or did wrong until then. */
#include <errno.h>
#include <string.h>

#include "src/base/log.h"
#include "src/paging/paged.h"

/* A stream that is gone has waited for its work. */
int paged_fence_late(struct weir_paged *pool)
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

int paged_offline(struct weir_paged *pool)
{
	struct backend *b = pool->backend;
	int done = pool->open ? 0 : paged_fence_late(pool);

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

int paged_take_back(struct weir_paged *pool)
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
	int done = paged_offline(pool);

	if (!done) {
		log_error(
			"paged pool '%s': %s while it is online%s: call %sweir_paged_sync() first",
			pool->name, what, pool->open ? ", with a bracket open" : "",
			pool->open ? "weir_paged_end() and " : "");
		return -EBUSY;
	}
	if (done > 0)
		done = paged_side_wait(pool);
	return done ? done : paged_take_back(pool);
}
