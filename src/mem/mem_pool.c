/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool has: the process that made it, the pools of chunks that its objects are cut from, and
 * how much of them is in use and free. */
#include <string.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/mem.h"

bool mem_pool_is_mine(const struct weir_pool *pool)
{
	if (pool->pid == getpid())
		return true;
	log_error("pool '%s' was made by process %ld, before a fork: make another one here",
		  pool->name, (long)pool->pid);
	return false;
}

/* ------------------------------------------------------------------ its chunks */

int mem_pool_chunks(struct weir_pool *pool, uint32_t memory, uint64_t page, struct chunk_pool **out)
{
	uint32_t class = page > pool->root_bytes ? log2_floor(page) : 0;
	struct backend *b = pool->backend;
	struct chunk_pool_config config;
	struct chunk_pool *chunks, *mine;
	int err;

	pthread_mutex_lock(&pool->lock);
	chunks = pool->chunks[memory][class];
	pthread_mutex_unlock(&pool->lock);
	if (chunks) {
		*out = chunks;
		return 0;
	}
	config = (struct chunk_pool_config){
		.client = &pool->client[memory],
		.root_bytes = class ? page : pool->root_bytes,
		.least_bytes = class ? page : MEM_PAGE_MIN,
		.idle_per_mille = MEM_IDLE_PER_MILLE,
		.nr_pooled = MEM_POOLED,
	};
	config.idle_bytes = 2 * config.root_bytes;
	/* The host's memory the CPU fills. */
	for (uint32_t d = 0; d < b->desc.nr_devices; d++)
		if (b->desc.device[d].memory == memory) {
			config.zero = true;
			config.zero_device = d;
		}
	err = chunk_pool_create(&config, &mine);
	if (err)
		return err;
	pthread_mutex_lock(&pool->lock);
	chunks = pool->chunks[memory][class];
	if (!chunks)
		pool->chunks[memory][class] = mine;
	pthread_mutex_unlock(&pool->lock);
	if (chunks)
		chunk_pool_destroy(mine);
	*out = chunks ? chunks : mine;
	return 0;
}

void mem_pool_room(struct weir_pool *pool, uint64_t room[WEIR_MEMORIES_MAX])
{
	struct backend *b = pool->backend;

	memset(room, 0, WEIR_MEMORIES_MAX * sizeof(room[0]));
	for (uint32_t m = 0; m < b->desc.nr_memories; m++) {
		uint64_t used = b->ops->memory_used(b, m), all = b->desc.memory[m].bytes;
		uint64_t others = b->ops->memory_room(b, m), unused = 0, limit;

		for (uint32_t c = 0; c < MEM_CLASSES; c++) {
			struct chunk_pool_stats stats;

			if (!pool->chunks[m][c])
				continue;
			chunk_pool_stats(pool->chunks[m][c], &stats);
			unused += stats.idle_bytes;
		}
		room[m] = MIN(all > used ? all - used : 0, others) + unused;
		limit = pool->limit_bytes[m] ? pool->limit_bytes[m] : UINT64_MAX;
		limit -= MIN(limit, pool->allocated_bytes[m]);
		room[m] = MIN(room[m], limit);
	}
}

void mem_pool_figures(struct weir_pool *pool, struct weir_pool_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->nr_unmaps_late = pool->nr_late;
	memcpy(out->dma_bytes, pool->dma_bytes, sizeof(out->dma_bytes));
	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++) {
		out->nr_objects[m] = pool->nr_objects[m];
		out->object_bytes[m] = pool->allocated_bytes[m];
		for (uint32_t c = 0; c < MEM_CLASSES; c++) {
			struct chunk_pool_stats stats;

			if (!pool->chunks[m][c])
				continue;
			chunk_pool_stats(pool->chunks[m][c], &stats);
			out->held_bytes[m] += stats.held_bytes;
		}
	}
}
