/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: addresses in which whole roots are mapped, with those in the access list who may use
 * some object of the window. Giving access either reaches all units of a window, or is undone;
 * taking it back cannot fail: where the backend refuses, the unit keeps more than is wanted until
 * it is next changed.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/base/hash.h"
#include "src/mem/mem.h"

#define CPU_USER WEIR_DEVICES_MAX
#define UNMAP_TRIES 4

/* NOLINTNEXTLINE(misc-redundant-expression): that they are the same is the point */
_Static_assert(WEIR_MEM_CPU == BACKEND_HOST_BIT, "one bit for the CPU");

/* ------------------------------------------------------------------ units of a window */

static int unit_set(struct backend *b, struct mem_window *window, uint32_t unit, uint64_t access)
{
	uint64_t before = window->at[unit].access;
	char *addr = window->base + unit * window->unit;
	int err = 0;

	if (access == before)
		return 0;
	if (!access)
		err = b->ops->unmap(b, addr);
	else if (!before)
		err = b->ops->map(b, addr, &window->at[unit].chunk, BACKEND_PROT_WRITE, access);
	else
		err = b->ops->set_access(b, addr, BACKEND_PROT_WRITE, access);
	if (!err)
		window->at[unit].access = access;
	return err;
}

uint64_t mem_window_wanted(const struct mem_window *window)
{
	uint64_t access = window->nr_users[CPU_USER] ? BACKEND_HOST_BIT : 0;

	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		if (window->nr_users[d])
			access |= BACKEND_DEVICE_BIT(d);
	return access;
}

static void users_count(struct mem_window *window, uint64_t access, uint32_t by)
{
	if (access & BACKEND_HOST_BIT)
		window->nr_users[CPU_USER] += by;
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		if (access & BACKEND_DEVICE_BIT(d))
			window->nr_users[d] += by;
}

/* All units get what is wanted, or keep what they had. */
static int window_open(struct backend *b, struct mem_window *window, uint64_t had)
{
	uint64_t wanted = mem_window_wanted(window);

	for (uint32_t i = 0; i < window->nr_units; i++) {
		int err = unit_set(b, window, i, wanted);

		if (!err)
			continue;
		/* A unit that cannot be put back has more than is wanted: that is allowed. */
		while (i--)
			(void)unit_set(b, window, i, had);
		return err;
	}
	return 0;
}

/* true: all units have just what is wanted. */
static bool window_close(struct backend *b, struct mem_window *window)
{
	uint64_t wanted = mem_window_wanted(window);
	bool all = true;

	for (uint32_t i = 0; i < window->nr_units; i++)
		all &= !unit_set(b, window, i, wanted);
	return all;
}

/* ------------------------------------------------------------------ windows */

static struct mem_window **bucket_of(struct weir_pool *pool, uint64_t handle)
{
	return &pool->window[hash_mix(0, handle) % MEM_WINDOW_BUCKETS];
}

static struct mem_window *window_find(struct weir_pool *pool, uint64_t handle)
{
	struct mem_window *window = *bucket_of(pool, handle);

	while (window && window->handle != handle)
		window = window->next;
	return window;
}

/* Reserve addresses for an object's roots. */
static int window_create(const struct weir_mem *mem, struct mem_window **out)
{
	struct backend *b = mem->pool->backend;
	uint32_t nr = mem->nr_pieces;
	struct mem_window *window = calloc(1, sizeof(*window) + nr * sizeof(window->at[0]));
	uint64_t offset;
	void *base;
	int err;

	if (!window)
		return -ENOMEM;
	window->nr_units = nr;
	for (uint32_t i = 0; i < nr; i++)
		window->at[i].chunk = *chunk_root_of(mem->piece[i], &offset);
	window->unit = window->at[0].chunk.bytes;
	if (nr == 1)
		window->handle = window->at[0].chunk.handle;
	err = b->ops->va_reserve(b, nr * window->unit, window->unit, &base);
	if (err) {
		free(window);
		return err;
	}
	window->base = base;
	*out = window;
	return 0;
}

/* Nothing is mapped in it. */
static void window_destroy(struct backend *b, struct mem_window *window)
{
	b->ops->va_release(b, window->base, window->nr_units * window->unit);
	free(window);
}

/* The object has a window from here on, for as long as it lives: so its address stays. */
static int window_join(struct weir_mem *mem)
{
	struct weir_pool *pool = mem->pool;
	struct mem_window *window = NULL, **bucket;
	const struct backend_chunk *root;
	uint64_t offset;
	int err;

	if (mem->window)
		return 0;
	root = chunk_root_of(mem->piece[0], &offset);
	if (mem->nr_pieces == 1)
		window = window_find(pool, root->handle);
	if (!window) {
		err = window_create(mem, &window);
		if (err)
			return err;
		if (window->handle) {
			bucket = bucket_of(pool, window->handle);
			window->next = *bucket;
			*bucket = window;
		}
	}
	window->nr_objects++;
	mem->window = window;
	mem->offset = mem->nr_pieces == 1 ? offset : 0;
	return 0;
}

/* ------------------------------------------------------------------ objects in them */

/* Count what copy engines may use from here on, or no longer. */
static void dma_count(struct weir_mem *mem, uint64_t engines, bool more)
{
	struct weir_pool *pool = mem->pool;
	const struct weir_machine_desc *desc = &pool->backend->desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		if (!(engines & WEIR_MEM_DEVICE(d)) || desc->device[d].memory == mem->memory)
			continue;
		if (more)
			pool->dma_bytes[d] += mem->physical_bytes;
		else
			pool->dma_bytes[d] -= mem->physical_bytes;
	}
}

int mem_add_engines(struct weir_mem *mem, uint64_t engines)
{
	int err = 0;

	for (uint32_t i = 0; i < mem->nr_pieces && engines && !err; i++)
		err = chunk_add_devices(mem->chunks, mem->piece[i], engines);
	return err;
}

int mem_map_locked(struct weir_mem *mem, uint64_t users, uint64_t engines)
{
	uint64_t access = users & ~mem->users, had;
	int err = mem_add_engines(mem, engines & ~mem->engines);

	if (err)
		return err;
	if (access) {
		err = window_join(mem);
		if (err)
			return err;
		had = mem_window_wanted(mem->window);
		users_count(mem->window, access, 1);
		err = window_open(mem->pool->backend, mem->window, had);
		if (err) {
			users_count(mem->window, access, -1u);
			return err;
		}
	}
	dma_count(mem, engines & ~mem->engines, true);
	mem->users |= users;
	mem->engines |= engines;
	return 0;
}

void mem_unmap_locked(struct weir_mem *mem, uint64_t users, uint64_t engines)
{
	if (users & WEIR_MEM_ALL)
		users = engines = UINT64_MAX;
	engines &= mem->engines;
	users = (users | engines) & mem->users;
	dma_count(mem, engines, false);
	mem->engines &= ~engines;
	mem->users &= ~users;
	if (users) {
		users_count(mem->window, users, -1u);
		(void)window_close(mem->pool->backend, mem->window);
	}
}

bool mem_window_leave(struct weir_mem *mem)
{
	struct weir_pool *pool = mem->pool;
	struct mem_window *window = mem->window, **at;

	mem_unmap_locked(mem, WEIR_MEM_ALL, 0);
	if (!window)
		return true;
	if (window->nr_objects == 1) {
		for (int i = 1; !window_close(pool->backend, window); i++)
			if (i == UNMAP_TRIES)
				return false;
		if (window->handle) {
			for (at = bucket_of(pool, window->handle); *at != window;)
				at = &(*at)->next;
			*at = window->next;
		}
		window_destroy(pool->backend, window);
	} else {
		window->nr_objects--;
	}
	mem->window = NULL;
	return true;
}
