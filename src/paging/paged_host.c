/* SPDX-License-Identifier: Apache-2.0 */
/* Flush and drain, reading and writing by the host: nobody is online, and pages are brought home
 * first, since what the host reads and writes is its own copy. */
#include <errno.h>

#include "src/base/log.h"
#include "src/paging/paged.h"

static int bring_home(struct weir_paged *pool, const char *what, bool evict)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = paged_quiet(pool, what);
	if (!err)
		err = paged_home(pool, 0, evict);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_paged_flush(struct weir_paged *pool)
{
	return bring_home(pool, "weir_paged_flush()", false);
}

int weir_paged_drain(struct weir_paged *pool)
{
	return bring_home(pool, "weir_paged_drain()", true);
}

/* Where a part of a range is, with its pages brought home. */
static int part_open(struct weir_paged *pool, const char *what, uint32_t range, uint64_t offset,
		     uint64_t bytes, bool evict, uint8_t **out)
{
	const struct pt_range *r = range < WEIR_PAGED_RANGES_MAX ? &pool->view.range[range] : NULL;
	int err;

	if (!r || !r->nr_pages || offset > r->bytes || bytes > r->bytes - offset) {
		log_error("paged pool '%s': %s of %llu bytes at %llu of range %u, which has %llu",
			  pool->name, what, (unsigned long long)bytes, (unsigned long long)offset,
			  range, (unsigned long long)(r ? r->bytes : 0));
		return -EINVAL;
	}
	err = paged_quiet(pool, what);
	if (!err && bytes)
		err = paged_home(pool, 0, evict);
	*out = (uint8_t *)r->host + offset;
	return err;
}

int weir_paged_read(struct weir_paged *pool, uint32_t range, uint64_t offset, void *data,
		    uint64_t bytes)
{
	uint8_t *at;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = part_open(pool, "weir_paged_read()", range, offset, bytes, false, &at);
	if (!err && bytes)
		err = paged_home_get(pool, range, data, at, bytes);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_paged_write(struct weir_paged *pool, uint32_t range, uint64_t offset, const void *data,
		     uint64_t bytes)
{
	uint8_t *at;
	int err;

	pthread_mutex_lock(&pool->lock);
	err = part_open(pool, "weir_paged_write()", range, offset, bytes, true, &at);
	if (!err && bytes)
		err = paged_home_put(pool, range, at, data, bytes);
	pthread_mutex_unlock(&pool->lock);
	return err;
}
