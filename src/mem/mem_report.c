/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool says about itself: objects, statistics, the file that others read, and the checker.
 */
#include <errno.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/mem/mem.h"

void weir_mem_query(const struct weir_mem *mem, struct weir_mem_info *out)
{
	struct weir_pool *pool = mem->pool;

	*out = (struct weir_mem_info){.memory = mem->memory,
				      .bytes = mem->bytes,
				      .page_bytes = mem->page_bytes,
				      .physical_bytes = mem->physical_bytes,
				      .age_ns = clock_now_ns() - mem->created_ns,
				      .choice = mem->choice};
	pthread_mutex_lock(&pool->lock);
	out->users = mem->users;
	out->engines = mem->engines;
	if (mem->window)
		out->addr = mem->window->base + mem->offset;
	pthread_mutex_unlock(&pool->lock);
}

/* ------------------------------------------------------------------ objects that live */

uint64_t mem_pool_tell(struct weir_pool *pool, enum weir_log_level level, const char *what)
{
	uint64_t nr = 0;

	for (struct list_link *l = pool->live.next; l != &pool->live; l = l->next, nr++) {
		const struct weir_mem *mem = mem_of(l);

		log_message(level,
			    "pool '%s': %llu bytes in '%s' %s: owner '%s', allocated at %s:%u, "
			    "%.3f s ago",
			    pool->name, (unsigned long long)mem->bytes,
			    pool->backend->desc.memory[mem->memory].name, what, mem->owner,
			    mem->file, mem->line, (double)(clock_now_ns() - mem->created_ns) / 1e9);
	}
	return nr;
}

uint64_t weir_pool_report(struct weir_pool *pool)
{
	uint64_t nr;

	if (!pool || !mem_pool_is_mine(pool))
		return 0;
	pthread_mutex_lock(&pool->lock);
	nr = mem_pool_tell(pool, WEIR_LOG_INFO, "is in use");
	pthread_mutex_unlock(&pool->lock);
	return nr;
}

/* ------------------------------------------------------------------ statistics */

void weir_pool_query(struct weir_pool *pool, struct weir_pool_stats *out)
{
	pthread_mutex_lock(&pool->lock);
	mem_pool_figures(pool, out);
	pthread_mutex_unlock(&pool->lock);
}

/* ------------------------------------------------------------------ the checker */

/* What the walk counts, to be held against what the pool says. */
struct account {
	uint64_t nr_objects[WEIR_MEMORIES_MAX], bytes[WEIR_MEMORIES_MAX];
	uint64_t dma_bytes[WEIR_DEVICES_MAX];
};

static int broken(const struct weir_pool *pool, const char *what)
{
	log_error("pool '%s': %s", pool->name, what);
	return -EUCLEAN;
}

static int mem_account(const struct weir_mem *mem, struct account *account)
{
	const struct weir_pool *pool = mem->pool;
	const struct weir_machine_desc *desc = &pool->backend->desc;

	account->bytes[mem->memory] += mem->uncounted ? 0 : mem->physical_bytes;
	if (mem->users & ~mem->engines & ~WEIR_MEM_CPU)
		return broken(pool, "a device has an address, and no DMA");
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (mem->engines & WEIR_MEM_DEVICE(d) && desc->device[d].memory != mem->memory)
			account->dma_bytes[d] += mem->physical_bytes;
	if (mem->users && !mem->window)
		return broken(pool, "an object is mapped outside windows");
	if (mem->bytes + mem->guard_bytes > mem->physical_bytes ||
	    mem->physical_bytes % mem->page_bytes || mem->physical_bytes % mem->nr_pieces)
		return broken(pool, "an object's bytes are not its pieces'");
	return 0;
}

/* Whether an object's window has its roots. Counts it there. */
static int mem_check_window(const struct weir_mem *mem)
{
	struct mem_window *window = mem->window;
	uint64_t offset;

	if (!window)
		return 0;
	if (window->nr_units != mem->nr_pieces)
		return broken(mem->pool, "an object has pieces that its window has not");
	for (uint32_t i = 0; i < mem->nr_pieces; i++) {
		const struct backend_chunk *root = chunk_root_of(mem->piece[i], &offset);

		if (root->handle != window->at[i].chunk.handle || offset != mem->offset)
			return broken(mem->pool, "an object is not where its window says");
	}
	if (((uintptr_t)window->base + mem->offset) % mem->page_bytes)
		return broken(mem->pool, "an object's address is not aligned to its pages");
	window->found_objects++;
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		window->found_users[d] += (mem->users & WEIR_MEM_DEVICE(d)) != 0;
	window->found_users[WEIR_DEVICES_MAX] += (mem->users & WEIR_MEM_CPU) != 0;
	return 0;
}

static int list_check(const struct weir_pool *pool, const struct list_link *list, bool live,
		      struct account *account)
{
	for (const struct list_link *l = list->next; l != list; l = l->next) {
		const struct weir_mem *mem = (const struct weir_mem *)l;
		int err = mem->pool == pool ? mem_account(mem, account) : -EUCLEAN;

		if (!err)
			err = mem_check_window(mem);
		if (err)
			return err;
		account->nr_objects[mem->memory] += live;
	}
	return 0;
}

static void windows_forget(const struct list_link *list)
{
	for (const struct list_link *l = list->next; l != list; l = l->next) {
		struct mem_window *window = ((const struct weir_mem *)l)->window;

		if (!window)
			continue;
		window->found_objects = 0;
		memset(window->found_users, 0, sizeof(window->found_users));
	}
}

/* The windows of a list's objects, once these are counted. */
static int windows_check(const struct weir_pool *pool, const struct list_link *list)
{
	for (const struct list_link *l = list->next; l != list; l = l->next) {
		const struct mem_window *window = ((const struct weir_mem *)l)->window;

		if (!window)
			continue;
		if (window->found_objects != window->nr_objects ||
		    memcmp(window->found_users, window->nr_users, sizeof(window->nr_users)) != 0)
			return broken(pool, "a window counts objects that it has not");
		for (uint32_t i = 0; i < window->nr_units; i++)
			if (mem_window_wanted(window) & ~window->at[i].access)
				return broken(pool, "a root is mapped for fewer than it should be");
	}
	return 0;
}

/* The shared windows: each is of a root, and of some object. */
static int buckets_check(const struct weir_pool *pool)
{
	for (uint32_t i = 0; i < MEM_WINDOW_BUCKETS; i++)
		for (const struct mem_window *w = pool->window[i]; w; w = w->next)
			if (!w->handle || !w->nr_objects || w->nr_units != 1 ||
			    w->at[0].chunk.handle != w->handle)
				return broken(pool, "a shared window of no root, or of no object");
	return 0;
}

static int counts_check(const struct weir_pool *pool, const struct account *account)
{
	for (uint32_t m = 0; m < WEIR_MEMORIES_MAX; m++)
		/* Objects that are being made are counted, and in no list. */
		if (account->bytes[m] > pool->allocated_bytes[m] ||
		    account->nr_objects[m] != pool->nr_objects[m])
			return broken(pool, "objects do not add up to what is allocated");
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		if (account->dma_bytes[d] != pool->dma_bytes[d])
			return broken(pool, "objects do not add up to what is mapped for DMA");
	return 0;
}

static int guards_check(struct weir_pool *pool)
{
	struct list_link *link;
	int err = 0, bad;

	/* Reading blocks, so the lock is dropped for it; no object goes meanwhile. */
	pthread_mutex_lock(&pool->lock);
	for (link = pool->live.next; link != &pool->live; link = link->next) {
		if (!mem_of(link)->guard_bytes)
			continue;
		pthread_mutex_unlock(&pool->lock);
		bad = mem_guard_check(mem_of(link));
		if (bad == -EUCLEAN || (bad && !err))
			err = bad;
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int weir_pool_check(struct weir_pool *pool)
{
	struct account account;
	int err;

	if (!mem_pool_is_mine(pool))
		return -ECHILD;
	memset(&account, 0, sizeof(account));
	pthread_mutex_lock(&pool->lock);
	windows_forget(&pool->live);
	windows_forget(&pool->doomed);
	err = list_check(pool, &pool->live, true, &account);
	if (!err)
		err = list_check(pool, &pool->doomed, false, &account);
	if (!err)
		err = windows_check(pool, &pool->live);
	if (!err)
		err = windows_check(pool, &pool->doomed);
	if (!err)
		err = buckets_check(pool);
	if (!err)
		err = counts_check(pool, &account);
	for (uint32_t m = 0; !err && m < pool->backend->desc.nr_memories; m++)
		for (uint32_t c = 0; !err && c < MEM_CLASSES; c++)
			if (pool->chunks[m][c])
				err = chunk_pool_check(pool->chunks[m][c]);
	pthread_mutex_unlock(&pool->lock);
	if (!err && pool->guard)
		err = guards_check(pool);
	return err;
}
