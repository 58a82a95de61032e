/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of paged memory: made and destroyed, their ranges. See paged.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/cost/cost.h"
#include "src/paging/paged.h"

#define PAGE_BYTES_USUAL (64u << 10)
#define WATCH_MS_USUAL 2000u
#define TOUCHES_MAX (1u << 20)

/* ------------------------------------------------------------------ making */

/* Cut to what fits, as all names. */
static void name_set(char name[WEIR_NAME_MAX], const char *from, const char *usual)
{
	(void)snprintf(name, WEIR_NAME_MAX, "%s", from ? from : usual);
}

static int config_check(const struct backend *b, const struct weir_paged_config *config,
			uint32_t page_bytes)
{
	uint64_t max = config->gpu_max_bytes ? config->gpu_max_bytes : config->gpu_bytes;

	if (config->device >= b->desc.nr_devices) {
		log_error("paged pool: no device %u: the machine has %u", config->device,
			  b->desc.nr_devices);
		return -EINVAL;
	}
	if (!view_page_valid(page_bytes)) {
		log_error("paged pool: pages of %u bytes: choose 4, 8, 16 or 64 KiB", page_bytes);
		return -EINVAL;
	}
	if (config->gpu_bytes < page_bytes || max < config->gpu_bytes ||
	    max / page_bytes > PT_FRAMES_MAX) {
		log_error("paged pool: %llu bytes for frames of %u, at most %llu: it needs one at "
			  "least, 2^28 at most, and a maximum that is not below",
			  (unsigned long long)config->gpu_bytes, page_bytes,
			  (unsigned long long)max);
		return -EINVAL;
	}
	if (config->space && (machine_backend(config->space->machine) != b ||
			      space_own(config->space, config->device) < 0)) {
		log_error("paged pool: its space is of another machine or device");
		return -EINVAL;
	}
	if (b->data == WEIR_DATA_REAL)
		return 0;
	log_error("paged pool: the simulated machine has no bytes: make it with WEIR_DATA_REAL");
	return -ENOTSUP;
}

/* What all of a pool's memory is taken through; parts may be missing. */
static void pool_free(struct weir_paged *pool)
{
	struct backend *b = pool->backend;

	if (pool->space) {
		paged_frames_shrink(pool, 0);
		space_owner_del(pool->space, &pool->owner);
	}
	paged_frames_release(pool);
	if (pool->words)
		b->ops->device_free(b, pool->words);
	paged_accounts_close(pool);
	b->ops->stream_destroy(b, pool->side);
	free(pool->counts);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Memory for so many bytes of frames, which others may hold and not use. */
static int frames_fill(struct weir_paged *pool, uint64_t bytes)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	while ((err = paged_frames_grow(pool, bytes)) == -EAGAIN &&
	       paged_frames_ask(pool, bytes, false))
		;
	pthread_mutex_unlock(&pool->lock);
	return err == -EAGAIN ? -ENOMEM : err;
}

/* The pool's own part of the space's budget, first: memory may be free for it only then. */
static void space_join(struct weir_paged *pool, struct weir_space *space, uint64_t bytes)
{
	place_t own = (place_t)space_own(space, pool->device);

	space_owner_add(space, &pool->owner, &paged_kind, own, &pool->client);
	pthread_mutex_lock(&pool->lock);
	pool->space = space;
	while (paged_frames_lend(pool, bytes))
		;
	pthread_mutex_unlock(&pool->lock);
}

/* Frames and words, of the device's memory. */
static int pool_fill(struct weir_paged *pool, const struct weir_paged_config *config)
{
	uint64_t bytes = pool->view.table.nr_frames << pool->view.page_shift;
	uint64_t need = bytes + paged_words_bytes(pool);
	int err = paged_frames_reserve(pool, pool->max_frames << pool->view.page_shift);

	if (err)
		return err;
	if (config->space)
		space_join(pool, config->space, bytes);
	if (phys_others(&pool->client) && phys_room(pool->client.memory) < need)
		(void)phys_reclaim(&pool->client, need);
	err = backend_budget(pool->backend, pool->memory, &need) ? -ENOMEM : 0;
	if (!err)
		err = frames_fill(pool, bytes);
	pool->view.frames = pool->frames.base;
	if (!err)
		err = paged_words_make(pool);
	if (err)
		paged_no_room(pool, config->gpu_bytes, err);
	return err;
}

/* What never changes. The side is there after it, if it returns 0. */
static int pool_init(struct weir_paged *pool, struct weir_machine *machine,
		     const struct weir_paged_config *config, uint32_t page_bytes)
{
	struct backend *b = machine_backend(machine);
	uint64_t max = config->gpu_max_bytes ? config->gpu_max_bytes : config->gpu_bytes;
	struct pt_table *t = &pool->view.table;
	int err = b->ops->stream_create(b, config->device, BACKEND_COMPUTE, &pool->side);

	if (err)
		return err;
	name_set(pool->name, config->name, "paged");
	pool->machine = machine;
	pool->backend = b;
	pool->device = config->device;
	pool->memory = b->desc.device[config->device].memory;
	pool->host_memory = cost_host_memory(&b->desc);
	pool->simulated = !b->ops->stream_native(b, pool->side);
	pool->kernels = config->kernels;
	pool->watch_ns = (config->watch_ms ? config->watch_ms : WATCH_MS_USUAL) * UINT64_C(1000000);
	pool->settled = true;
	pool->stream = UINT32_MAX;
	pool->view.page_shift = (uint32_t)__builtin_ctz(page_bytes);
	pool->max_frames = max >> pool->view.page_shift;
	t->nr_frames = config->gpu_bytes >> pool->view.page_shift;
	pool->budget_frames = t->nr_frames;
	t->nr_slots = b->ops->device_warps(b, config->device);
	t->window = pt_window(t->nr_frames, t->nr_slots);
	paged_accounts_open(pool);
	return 0;
}

int weir_paged_create(struct weir_machine *machine, const struct weir_paged_config *config,
		      struct weir_paged **out)
{
	uint32_t page_bytes = config->page_bytes ? config->page_bytes : PAGE_BYTES_USUAL;
	int err = config_check(machine_backend(machine), config, page_bytes);
	struct weir_paged *pool;

	if (err)
		return err;
	pool = phys_of(machine, 0) ? calloc(1, sizeof(*pool)) : NULL;
	if (!pool)
		return -ENOMEM;
	pool->counts = aligned_alloc(PT_LINE, PAGED_COUNTS_NR * sizeof(*pool->counts));
	err = pool->counts && !pthread_mutex_init(&pool->lock, NULL) ? 0 : -ENOMEM;
	if (err)
		goto err_free;
	err = pool_init(pool, machine, config, page_bytes);
	if (err)
		goto err_lock;
	if (!pool->simulated &&
	    (!pool->kernels || !pool->kernels->home || !pool->kernels->settle)) {
		log_error("paged pool '%s': a GPU needs the pool's kernels: compile "
			  "weir/paged_home.cuh and name weir_paged_kernels_cuda",
			  pool->name);
		err = -ENOSYS;
	} else {
		err = pool_fill(pool, config);
	}
	if (err) {
		pool_free(pool);
		return err;
	}
	phys_client_start(&pool->client, paged_give, pool);
	machine_pool_count(machine, true);
	*out = pool;
	return 0;

err_lock:
	pthread_mutex_destroy(&pool->lock);
err_free:
	free(pool->counts);
	free(pool);
	return err;
}

/* ------------------------------------------------------------------ ranges */

static int range_config_check(const struct weir_paged *pool,
			      const struct weir_paged_range_config *config)
{
	uint64_t host = (uintptr_t)config->host;

	if (config->bytes && (config->bytes - 1) >> pool->view.page_shift < PT_PAGE_MAX - 1 &&
	    host % 16 == 0 && host <= UINT64_MAX - config->bytes && config->admit <= TOUCHES_MAX &&
	    config->late <= TOUCHES_MAX && config->whole <= PAGED_ACCESS_MAX &&
	    config->word <= PAGED_ACCESS_MAX)
		return paged_near_check(pool, config);
	log_error("paged pool '%s': a range of %llu bytes at %p, admitted at touch %u: it needs "
		  "bytes, fewer than 2^48 pages of them, an address that 16 divides, and at most "
		  "2^20 touches, of one access 2^16 - 1",
		  pool->name, (unsigned long long)config->bytes, config->host, config->admit);
	return -EINVAL;
}

/* Give back what range_make() took. */
static void range_free(struct weir_paged *pool, const struct pt_range *range, void *host)
{
	struct backend *b = pool->backend;

	if (range->entry)
		b->ops->device_free(b, range->entry);
	if (host)
		b->ops->device_free(b, host);
}

/* A range that no table has yet. near: its memory, or NULL. *host: weir's own of the host's, or
 * NULL. */
static int range_make(struct weir_paged *pool, const struct weir_paged_range_config *config,
		      const struct paged_near *near, struct pt_range *range, void **host)
{
	struct backend *b = pool->backend;
	void *entry = NULL;
	int err = 0;

	*host = NULL;
	*range = (struct pt_range){
		.nr_pages = ((config->bytes - 1) >> pool->view.page_shift) + 1,
		.host = near ? near->base : config->host,
		.bytes = config->bytes,
		.admit = config->admit ? config->admit : 1,
		.late = config->late,
		.whole = config->whole,
		.word = config->word,
		.read_only = config->read_only != 0,
		.fill_only = config->fill_only != 0,
	};
	if (!range->host) {
		err = b->ops->device_alloc(b, pool->host_memory, config->bytes, host);
		if (err)
			return err;
		memset(*host, 0, config->bytes);
		range->host = *host;
	}
	err = b->ops->device_alloc(b, pool->memory, range->nr_pages * sizeof(uint64_t), &entry);
	range->entry = entry;
	if (!err)
		err = paged_zero(pool, entry, range->nr_pages * sizeof(uint64_t));
	if (!err && near)
		err = paged_zero(pool, near->base, config->bytes);
	if (err)
		range_free(pool, range, *host);
	return err;
}

/* Into the space, and the table. */
static int range_enter(struct weir_paged *pool, uint32_t i, const struct pt_range *range,
		       struct range **in_space)
{
	int err = 0;

	*in_space = NULL;
	if (pool->space)
		err = space_range_add(pool->space, &pool->owner, i, range->host, range->bytes,
				      in_space);
	if (!err)
		err = paged_range_set(pool, i, range);
	if (err && *in_space)
		space_range_del(pool->space, *in_space);
	return err;
}

static void range_leave_space(struct weir_paged *pool, uint32_t i)
{
	if (pool->range[i].in_space)
		space_range_del(pool->space, pool->range[i].in_space);
	pool->range[i].in_space = NULL;
}

static int range_add(struct weir_paged *pool, const struct weir_paged_range_config *config,
		     struct paged_near *near, uint32_t *out)
{
	struct range *in_space;
	struct pt_range range;
	void *host;
	uint32_t i = 0;
	int err = paged_quiet(pool, "weir_paged_range_add()");

	while (i < WEIR_PAGED_RANGES_MAX && pool->view.range[i].nr_pages)
		i++;
	if (!err && i == WEIR_PAGED_RANGES_MAX) {
		log_error("paged pool '%s': %u ranges are all that it can have", pool->name, i);
		err = -ENOSPC;
	}
	if (!err)
		err = paged_counts_get(pool);
	if (err)
		return err;
	err = range_make(pool, config, near, &range, &host);
	if (!err) {
		err = range_enter(pool, i, &range, &in_space);
		if (err)
			range_free(pool, &range, host);
	}
	if (err) {
		log_error(
			"paged pool '%s': no range of %llu bytes, with 8 bytes of '%s' a page: %s",
			pool->name, (unsigned long long)config->bytes,
			pool->backend->desc.memory[pool->memory].name, weir_strerror(err));
		return err;
	}
	pool->range[i] = (struct paged_range){.host = host, .near = near, .in_space = in_space};
	view_counts_sum(pool->counts, i, pool->range[i].before);
	memcpy(pool->range[i].told, pool->range[i].before, sizeof(pool->range[i].told));
	name_set(pool->range[i].name, config->name, "range");
	*out = i;
	return 0;
}

int weir_paged_range_add(struct weir_paged *pool, const struct weir_paged_range_config *config,
			 uint32_t *range, void **host)
{
	int err = range_config_check(pool, config);
	struct paged_near *near;
	uint32_t i;

	if (!err)
		err = paged_near_make(pool, config, &near);
	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	err = range_add(pool, config, near, &i);
	if (!err) {
		*range = i;
		if (host)
			*host = pool->view.range[i].host;
	}
	pthread_mutex_unlock(&pool->lock);
	if (err)
		paged_near_free(pool, near);
	return err;
}

/* A range that no table has any more goes. What was refused stays told. */
static void range_drop(struct weir_paged *pool, uint32_t i, const struct pt_range *range)
{
	range_leave_space(pool, i);
	range_free(pool, range, pool->range[i].host);
	paged_near_free(pool, pool->range[i].near);
	pool->range[i].host = NULL;
	pool->range[i].near = NULL;
}

static int range_remove(struct weir_paged *pool, uint32_t i)
{
	const struct pt_range none = {.nr_pages = 0};
	struct pt_range range;
	int err;

	if (i >= WEIR_PAGED_RANGES_MAX || !pool->view.range[i].nr_pages) {
		log_error("paged pool '%s': there is no range %u", pool->name, i);
		return -EINVAL;
	}
	range = pool->view.range[i];
	err = paged_quiet(pool, "weir_paged_range_remove()");
	if (!err)
		err = paged_home(pool, 0, true);
	if (!err)
		err = paged_range_set(pool, i, &none);
	if (err)
		return err;
	range_drop(pool, i, &range);
	return 0;
}

int weir_paged_range_remove(struct weir_paged *pool, uint32_t range)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = range_remove(pool, range);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* ------------------------------------------------------------------ the end */

void weir_paged_destroy(struct weir_paged *pool)
{
	int err = -EIO;

	if (!pool)
		return;
	phys_client_stop(&pool->client);
	pthread_mutex_lock(&pool->lock);
	if (pool->open)
		log_error("paged pool '%s': destroyed with a bracket open", pool->name);
	pool->unfenced |= pool->open;
	pool->open = false;
	pool->nr_named = 0;
	pthread_mutex_unlock(&pool->lock);
	/* What kernels did wrong is logged. A call of the machine may work when tried again. */
	for (int tries = 0; err && tries < PAGED_TRIES; tries++) {
		(void)!weir_paged_sync(pool);
		err = weir_paged_flush(pool);
	}
	if (err)
		log_error("paged pool '%s': pages that kernels changed could not be written back "
			  "and are lost: %s",
			  pool->name, weir_strerror(err));
	for (uint32_t i = 0; i < WEIR_PAGED_RANGES_MAX; i++)
		range_drop(pool, i, &pool->view.range[i]);
	machine_pool_count(pool->machine, false);
	pool_free(pool);
}
