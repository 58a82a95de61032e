/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use an object. Copy engines reach all that is created in a memory that their device has a
 * link to, so theirs is a matter of accounting. Kernels and the CPU use addresses: see
 * mem_window.c.
 */
#include <errno.h>

#include "src/base/log.h"
#include "src/mem/mem.h"

/* Check who is named, and add what is implied. */
static int who_resolve(const struct weir_mem *mem, uint32_t *who)
{
	const struct weir_machine_desc *desc = &mem->pool->backend->desc;
	uint32_t devices = (1u << desc->nr_devices) - 1;
	uint32_t bits = *who & ~WEIR_MEM_ALL;

	if (!*who || bits & ~(devices | devices << MEM_DMA_SHIFT | WEIR_MEM_CPU)) {
		log_error("mapping '%s' (%s:%u): 0x%x names no device, or nobody", mem->owner,
			  mem->file, mem->line, *who);
		return -EINVAL;
	}
	if (*who & WEIR_MEM_ALL)
		bits |= devices | (mem_is_host(mem->pool, mem->memory) ? WEIR_MEM_CPU : 0);
	bits |= (bits & MEM_DEVICE_BITS) << MEM_DMA_SHIFT;
	if (bits & WEIR_MEM_CPU && !mem_is_host(mem->pool, mem->memory)) {
		log_error("mapping '%s' (%s:%u): the CPU reaches the host's memory alone",
			  mem->owner, mem->file, mem->line);
		return -ENOTSUP;
	}
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (bits & WEIR_MEM_DMA(d) && !mem_reaches(desc, d, mem->memory)) {
			log_error("mapping '%s' (%s:%u): %s has no link to memory '%s'", mem->owner,
				  mem->file, mem->line, desc->device[d].name,
				  desc->memory[mem->memory].name);
			return -ENOTSUP;
		}
	*who = bits;
	return 0;
}

int weir_mem_map(struct weir_mem *mem, uint32_t who, void **addr)
{
	struct weir_pool *pool;
	int err;

	if (!mem)
		return -EINVAL;
	pool = mem->pool;
	if (!mem_pool_is_mine(pool))
		return -ECHILD;
	err = who_resolve(mem, &who);
	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	err = mem_map_locked(mem, who);
	if (!err)
		mem_file_show(mem);
	if (!err && addr && who & MEM_ACCESS_BITS)
		*addr = mem->window->base + mem->offset;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void weir_mem_unmap(struct weir_mem *mem, uint32_t who)
{
	if (!mem || !mem_pool_is_mine(mem->pool))
		return;
	pthread_mutex_lock(&mem->pool->lock);
	mem_unmap_locked(mem, who);
	mem_file_show(mem);
	pthread_mutex_unlock(&mem->pool->lock);
}
