/* SPDX-License-Identifier: Apache-2.0 */
/* Plain memory as weir.h has it: pools are made and destroyed, objects allocated and freed. */
#include "src/mem/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"

#define REAP_ROUNDS 1000u /* of a pool that is destroyed */
#define REAP_NAP_NS 1000000u

/* ------------------------------------------------------------------ pools */

static bool guard_wanted(enum weir_guard guard)
{
#ifdef WEIR_DEBUG_CHECKS
	return guard != WEIR_GUARD_OFF;
#else
	return guard == WEIR_GUARD_ON;
#endif
}

/* Whose engines reach what is created in a memory: the device that has it, which zeroes it. Of the
 * host's those that are going to use it are not known yet, unless there is but one. */
static uint64_t first_devices(const struct weir_machine_desc *desc, uint32_t memory)
{
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].memory == memory || desc->nr_devices == 1)
			return BACKEND_DEVICE_BIT(d);
	return BACKEND_HOST_BIT;
}

/* From here on others may ask the pool for what it does not use. */
static void clients_add(struct weir_pool *pool)
{
	char name[PHYS_NAME_MAX];

	(void)snprintf(name, sizeof(name), "pool '%s'", pool->name);
	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++) {
		phys_client_add(&pool->client[m], phys_of(pool->machine, m), name, PHYS_NO_LIMIT);
		pool->client[m].devices = first_devices(&pool->backend->desc, m);
		phys_client_start(&pool->client[m], mem_give, pool);
	}
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
	/* The account is there from here on. */
	pool = phys_of(machine, 0) ? calloc(1, sizeof(*pool)) : NULL;
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
	err = mem_file_begin(pool);
	if (err)
		goto err_lock;
	clients_add(pool);
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
		mem_reap(pool);
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

	if (!pool || !mem_pool_is_mine(pool))
		return;
	b = pool->backend;
	for (uint32_t m = 0; m < b->desc.nr_memories; m++)
		phys_client_stop(&pool->client[m]);
	pthread_mutex_lock(&pool->lock);
	(void)mem_pool_tell(pool, WEIR_LOG_WARNING, "was not freed");
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
	for (uint32_t m = 0; m < b->desc.nr_memories; m++) {
		for (uint32_t c = 0; c < MEM_CLASSES; c++)
			chunk_pool_destroy(pool->chunks[m][c]);
		phys_client_del(&pool->client[m]);
	}
	machine_pool_count(pool->machine, false);
	mem_file_end(pool);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

uint64_t weir_pool_trim(struct weir_pool *pool)
{
	return pool && mem_pool_is_mine(pool) ? mem_trim(pool) : 0;
}

/* ------------------------------------------------------------------ allocating */

/* The page that an object of a size gets in a memory where none is asked for. */
static uint64_t default_page(enum weir_memory_kind kind, uint64_t bytes)
{
	if (kind == WEIR_MEMORY_HOST || bytes < MEM_PAGE_MIDDLE)
		return MEM_PAGE_MIN;
	return bytes < MEM_PAGE_LARGE ? MEM_PAGE_MIDDLE : MEM_PAGE_LARGE;
}

static int page_check(const struct weir_pool *pool, uint32_t memory, uint64_t page)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;

	if (page >= MEM_PAGE_MIN && is_power_of_2(page) && page <= desc->memory[memory].bytes)
		return 0;
	log_error("pool '%s': pages of %llu bytes are not to be had in memory '%s': ask for a "
		  "power of two from 4096 to its size, or for 0",
		  pool->name, (unsigned long long)page, desc->memory[memory].name);
	return -EINVAL;
}

/* Which memory the parameters ask for. */
static int memory_pick(struct weir_pool *pool, const struct weir_mem_params *params,
		       uint32_t *memory, enum weir_choice *choice)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;
	uint64_t room[WEIR_MEMORIES_MAX];
	int err;

	if (params->memory != WEIR_MEMORY_ANY) {
		*memory = params->memory;
		*choice = WEIR_CHOICE_ASKED;
		if (*memory < desc->nr_memories)
			return 0;
		log_error("pool '%s': there is no memory %u", pool->name, params->memory);
		return -EINVAL;
	}
	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	mem_pool_room(pool, room);
	pthread_mutex_unlock(&pool->lock);
	err = weir_memory_choose(desc, room, params->bytes, &params->use, memory, choice);
	if (err == -EINVAL)
		log_error("pool '%s': a use by devices or in a pattern that there are not",
			  pool->name);
	return err;
}

/* Copy the end of a path: what tells files apart. */
static void source_copy(struct weir_mem *mem, const char *file)
{
	size_t length = file ? strlen(file) : 0;

	if (length >= sizeof(mem->file))
		file += length - sizeof(mem->file) + 1;
	(void)snprintf(mem->file, sizeof(mem->file), "%s", file ? file : "");
}

/* Zeros that the chunk pool did not make, and the guard. */
static int contents_put(struct weir_mem *mem, bool zero)
{
	if (zero && mem_is_host(mem->pool, mem->memory))
		mem_zero_host(mem);
	return mem->guard_bytes ? mem_guard_put(mem) : 0;
}

static int alloc_check(const struct weir_pool *pool, const struct weir_mem_params *params)
{
	if (!pool || !params)
		return -EINVAL;
	if (!mem_pool_is_mine(pool))
		return -ECHILD;
	if (params->bytes)
		return 0;
	log_error("pool '%s': an object of 0 bytes", pool->name);
	return -EINVAL;
}

int weir_mem_alloc_at(const char *file, unsigned line, struct weir_pool *pool,
		      const struct weir_mem_params *params, struct weir_mem **out)
{
	enum weir_choice choice;
	struct weir_mem *mem;
	uint32_t memory;
	uint64_t page;
	int err = alloc_check(pool, params);

	if (!err)
		err = memory_pick(pool, params, &memory, &choice);
	if (err)
		return err;
	page = params->page_bytes;
	if (!page)
		page = default_page(pool->backend->desc.memory[memory].kind, params->bytes);
	else
		err = page_check(pool, memory, page);
	if (!err)
		err = mem_create(pool, memory, page, params, &mem);
	if (err)
		return err;
	mem->choice = choice;
	mem->line = line;
	source_copy(mem, file);
	(void)snprintf(mem->owner, sizeof(mem->owner), "%s", params->owner ? params->owner : "");
	err = contents_put(mem, params->zero);
	pthread_mutex_lock(&pool->lock);
	if (err) {
		mem_give_up(mem);
	} else {
		list_add_tail(&pool->live, &mem->link);
		pool->nr_objects[memory]++;
		mem_file_show(mem);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!err)
		*out = mem;
	return err;
}

/* ------------------------------------------------------------------ freeing */

/* Wait for the stream, so that the guard can be looked at. */
static void guard_look(struct weir_mem *mem, struct weir_stream *stream)
{
	int err = 0;

	if (stream) {
		struct backend *b = mem->pool->backend;
		fence_t fence;

		err = b->ops->fence_record(b, stream_id(stream), &fence);
		if (!err)
			err = b->ops->fence_wait(b, fence);
	}
	if (!err)
		err = mem_guard_check(mem);
	if (err && err != -EUCLEAN)
		log_warning("pool '%s': the guard of '%s' (%s:%u) could not be looked at: %s",
			    mem->pool->name, mem->owner, mem->file, mem->line, weir_strerror(err));
}

void weir_mem_free(struct weir_mem *mem, struct weir_stream *stream)
{
	struct weir_pool *pool;

	if (!mem || !mem_pool_is_mine(mem->pool))
		return;
	pool = mem->pool;
	if (mem->guard_bytes)
		guard_look(mem, stream);
	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	mem_retire(mem);
	if (stream) {
		mem->stream = stream_id(stream);
		mem->unfenced = true;
	}
	mem_give_up(mem);
	pthread_mutex_unlock(&pool->lock);
}
