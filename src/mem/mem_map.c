/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use an object. Copy engines use the physical memory, whose alias is mapped for their
 * device when the first object there needs it, and stays so: taking an engine away is a matter of
 * accounting. Kernels and the CPU use addresses: see mem_window.c.
 */
#include <errno.h>

#include "src/base/log.h"
#include "src/mem/mem.h"

/* Check who is named, and add what is implied. */
static int masks_resolve(const struct weir_mem *mem, uint64_t *users, uint64_t *engines)
{
	const struct weir_machine_desc *desc = &mem->pool->backend->desc;
	uint64_t devices = WEIR_MEM_DEVICE(desc->nr_devices) - 1;
	uint64_t named = *users & ~WEIR_MEM_ALL;

	if (!(*users | *engines) || named & ~(devices | WEIR_MEM_CPU) || *engines & ~devices) {
		log_error("mapping '%s' (%s:%u): users 0x%llx and engines 0x%llx name no device, "
			  "or nobody",
			  mem->owner, mem->file, mem->line, (unsigned long long)*users,
			  (unsigned long long)*engines);
		return -EINVAL;
	}
	if (*users & WEIR_MEM_ALL)
		named |= devices | (mem_is_host(mem->pool, mem->memory) ? WEIR_MEM_CPU : 0);
	if (named & WEIR_MEM_CPU && !mem_is_host(mem->pool, mem->memory)) {
		log_error("mapping '%s' (%s:%u): the CPU reaches the host's memory alone",
			  mem->owner, mem->file, mem->line);
		return -ENOTSUP;
	}
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if ((named | *engines) & WEIR_MEM_DEVICE(d) && !mem_reaches(desc, d, mem->memory)) {
			log_error("mapping '%s' (%s:%u): %s has no link to memory '%s'", mem->owner,
				  mem->file, mem->line, desc->device[d].name,
				  desc->memory[mem->memory].name);
			return -ENOTSUP;
		}
	*users = named;
	*engines |= named & devices;
	return 0;
}

int weir_mem_map(struct weir_mem *mem, uint64_t users, uint64_t engines, void **addr)
{
	struct weir_pool *pool;
	int err;

	if (!mem)
		return -EINVAL;
	pool = mem->pool;
	if (!mem_pool_is_mine(pool))
		return -ECHILD;
	err = masks_resolve(mem, &users, &engines);
	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	err = mem_map_locked(mem, users, engines);
	if (!err)
		mem_file_show(mem);
	if (!err && addr && users)
		*addr = mem->window->base + mem->offset;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void weir_mem_unmap(struct weir_mem *mem, uint64_t users, uint64_t engines)
{
	if (!mem || !mem_pool_is_mine(mem->pool))
		return;
	pthread_mutex_lock(&mem->pool->lock);
	mem_unmap_locked(mem, users, engines);
	mem_file_show(mem);
	pthread_mutex_unlock(&mem->pool->lock);
}
