/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of plain memory: made, trimmed, emptied. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/core/types.h"
#include "src/mem/mem.h"

#define REAP_ROUNDS 1000u /* of a pool that is destroyed */
#define REAP_NAP_NS 1000000u

uint64_t mem_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool pool_is_mine(const struct weir_pool *pool)
{
	if (pool->pid == getpid())
		return true;
	log_error("pool '%s' was made by process %ld, before a fork: make another one here",
		  pool->name, (long)pool->pid);
	return false;
}

/* ------------------------------------------------------------------ pools */

static bool guard_wanted(enum weir_guard guard)
{
#ifdef WEIR_DEBUG_CHECKS
	return guard != WEIR_GUARD_OFF;
#else
	return guard == WEIR_GUARD_ON;
#endif
}

int weir_pool_create(struct weir_machine *machine, const struct weir_pool_config *config,
		     struct weir_pool **out)
{
	static const struct weir_pool_config plain = {0};
	struct weir_pool *pool;
	int err;

	if (!machine || !out)
		return -EINVAL;
	config = config ? config : &plain;
	if ((unsigned)config->guard > WEIR_GUARD_ON) {
		log_error("pool: %d is no guard mode", (int)config->guard);
		return -EINVAL;
	}
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->machine = machine;
	pool->backend = machine_backend(machine);
	pool->root_bytes = MAX(MEM_PAGE_LARGE, pool->backend->desc.vmm.granularity_bytes);
	memcpy(pool->limit_bytes, config->limit_bytes, sizeof(pool->limit_bytes));
	(void)snprintf(pool->name, sizeof(pool->name), "%s", config->name ? config->name : "pool");
	/* Without bytes there is nothing to write over. */
	pool->guard = guard_wanted(config->guard) && pool->backend->data == WEIR_DATA_REAL;
	pool->pid = getpid();
	list_init(&pool->live);
	list_init(&pool->doomed);
	err = -pthread_mutex_init(&pool->lock, NULL);
	if (err)
		goto err_free;
	err = pool_file_begin(pool);
	if (err)
		goto err_lock;
	machine_pool_count(machine, true);
	*out = pool;
	return 0;

err_lock:
	pthread_mutex_destroy(&pool->lock);
err_free:
	free(pool);
	return err;
}

/* Give all objects up, and wait for those that are doomed. With the lock. */
static void pool_empty(struct weir_pool *pool)
{
	struct backend *b = pool->backend;

	while (!list_empty(&pool->live)) {
		struct weir_mem *mem = mem_of(pool->live.next);

		mem_retire(mem);
		mem_give_up(mem);
	}
	for (uint32_t i = 0; i < REAP_ROUNDS && !list_empty(&pool->doomed); i++) {
		struct list_link *link = pool->doomed.next;
		fence_t fence = mem_of(link)->fence;

		/* Another one's turn next: this may be one that cannot be unmapped. */
		list_del(link);
		list_add_tail(&pool->doomed, link);
		pthread_mutex_unlock(&pool->lock);
		/* Whether it is reached is asked again: an error is no answer. */
		if (fence && b->ops->fence_wait(b, fence))
			b->ops->host_spend(b, REAP_NAP_NS);
		pthread_mutex_lock(&pool->lock);
		pool_reap(pool);
	}
	for (struct list_link *l = pool->doomed.next; l != &pool->doomed; l = l->next)
		log_error("pool '%s': %llu bytes of '%s' (%s:%u) cannot be unmapped: they stay "
			  "taken until the process ends",
			  pool->name, (unsigned long long)mem_of(l)->physical_bytes,
			  mem_of(l)->owner, mem_of(l)->file, mem_of(l)->line);
}

void weir_pool_destroy(struct weir_pool *pool)
{
	struct backend *b;

	if (!pool || !pool_is_mine(pool))
		return;
	b = pool->backend;
	pthread_mutex_lock(&pool->lock);
	(void)pool_tell(pool, WEIR_LOG_WARNING, "was not freed");
	pool_empty(pool);
	pthread_mutex_unlock(&pool->lock);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++) {
		if (pool->dma_bytes[d])
			log_error("pool '%s': %llu bytes are still mapped for DMA by %s",
				  pool->name, (unsigned long long)pool->dma_bytes[d],
				  b->desc.device[d].name);
		if (pool->has_stream[d])
			b->ops->stream_destroy(b, pool->stream[d]);
	}
	if (!list_empty(&pool->doomed))
		return; /* their memory is mapped: what it came from stays, too */
	for (uint32_t m = 0; m < b->desc.nr_memories; m++)
		for (uint32_t c = 0; c < MEM_CLASSES; c++)
			chunk_pool_destroy(pool->chunks[m][c]);
	machine_pool_count(pool->machine, false);
	mem_file_destroy(pool->writer);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

uint64_t weir_pool_trim(struct weir_pool *pool)
{
	uint64_t bytes = 0;

	if (!pool || !pool_is_mine(pool))
		return 0;
	pthread_mutex_lock(&pool->lock);
	pool_reap(pool);
	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++)
		for (uint32_t c = 0; c < MEM_CLASSES; c++)
			if (pool->chunks[m][c])
				bytes += chunk_pool_trim(pool->chunks[m][c], 0);
	pthread_mutex_unlock(&pool->lock);
	return bytes;
}

void pool_room(struct weir_pool *pool, uint64_t room[WEIR_MEMORIES_MAX])
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
