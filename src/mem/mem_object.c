/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: made of pieces, and given up. One that cannot be freed at once (work is queued, an
 * unmapping failed) is doomed: it is tried again whenever the pool is used, and when it is
 * destroyed.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/machine.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/mem/mem.h"

/* ------------------------------------------------------------------ giving up */

/* Whether no queued work may use it any more. With the lock. */
static bool work_is_done(struct weir_mem *mem)
{
	struct backend *b = mem->pool->backend;
	int done = 1;

	if (mem->unfenced) {
		int err = b->ops->fence_record(b, mem->stream, &mem->fence);

		/* A stream that is gone has done its work. */
		if (err && err != -EINVAL)
			return false;
		mem->unfenced = false;
		if (err)
			mem->fence = 0;
	}
	if (mem->fence)
		done = b->ops->fence_done(b, mem->fence);
	/* Any other error is no answer; -EINVAL: the fence's stream is gone. */
	return done == 1 || done == -EINVAL;
}

/* Free it now, if that is possible. With the lock. */
static bool mem_free_try(struct weir_mem *mem)
{
	struct weir_pool *pool = mem->pool;

	if (!work_is_done(mem) || !mem_window_leave(mem))
		return false;
	for (uint32_t i = 0; i < mem->nr_pieces; i++)
		chunk_free(mem->chunks, mem->piece[i], 0);
	if (!mem->uncounted)
		pool->allocated_bytes[mem->memory] -= mem->physical_bytes;
	free(mem);
	return true;
}

void mem_retire(struct weir_mem *mem)
{
	mem->pool->nr_objects[mem->memory]--;
	mem_file_hide(mem);
	list_del(&mem->link);
}

void mem_give_up(struct weir_mem *mem)
{
	struct weir_pool *pool = mem->pool;

	if (mem_free_try(mem))
		return;
	pool->nr_late++;
	list_add_tail(&pool->doomed, &mem->link);
}

void mem_reap(struct weir_pool *pool)
{
	struct list_link *link = pool->doomed.next;

	while (link != &pool->doomed) {
		struct weir_mem *mem = mem_of(link);

		link = link->next;
		list_del(&mem->link);
		if (!mem_free_try(mem))
			list_add_tail(link, &mem->link);
	}
}

uint64_t mem_give(struct phys_client *client, uint64_t bytes)
{
	struct weir_pool *pool = client->owner;
	struct chunk_pool **chunks = pool->chunks[client->memory->index];
	uint64_t given = 0;

	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	for (uint32_t c = 0; c < MEM_CLASSES && given < bytes; c++)
		if (chunks[c])
			given += chunk_pool_trim(chunks[c], bytes - given);
	pthread_mutex_unlock(&pool->lock);
	return given;
}

uint64_t mem_trim(struct weir_pool *pool)
{
	uint64_t bytes = 0;

	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++)
		bytes += mem_give(&pool->client[m], UINT64_MAX);
	return bytes;
}

/* After an error: make room for so many bytes, where that is what was missing, of what the pool
 * holds unused in pages of other sizes and for doomed objects, else of what others do. false: there
 * is none. */
static bool room_make(const struct weir_mem *mem, int err, uint64_t bytes)
{
	struct phys_client *client = &mem->pool->client[mem->memory];

	if (err != -EAGAIN && err != -ENOMEM)
		return false;
	return mem_give(client, bytes) || phys_reclaim(client, bytes);
}

/* ------------------------------------------------------------------ pieces */

/* All pieces or none. fences: one a piece, of its zeroing; NULL: contents do not matter. */
static int pieces_take(struct weir_mem *mem, fence_t *fences)
{
	uint64_t left = mem->physical_bytes;
	uint64_t each = mem->nr_pieces > 1 ? left / mem->nr_pieces : left;
	uint32_t nr = 0;
	int err = 0;

	while (nr < mem->nr_pieces && !err) {
		err = chunk_alloc(mem->chunks, each, fences ? &fences[nr] : NULL, &mem->piece[nr]);
		if (!err)
			left -= each, nr++;
		else if (room_make(mem, err, left))
			err = 0;
	}
	while (err && nr--)
		chunk_free(mem->chunks, mem->piece[nr], fences ? fences[nr] : 0);
	return err;
}

static int zeroing_wait(struct weir_mem *mem, const fence_t *fences)
{
	struct backend *b = mem->pool->backend;
	int err = 0;

	for (uint32_t i = 0; i < mem->nr_pieces && !err; i++)
		if (fences[i])
			err = b->ops->fence_wait(b, fences[i]);
	for (uint32_t i = 0; i < mem->nr_pieces && err; i++)
		chunk_free(mem->chunks, mem->piece[i], fences[i]);
	return err;
}

/* Blocks: with zero. */
static int pieces_get(struct weir_mem *mem, bool zero)
{
	fence_t *fences = NULL;
	int err;

	if (zero) {
		fences = calloc(mem->nr_pieces, sizeof(*fences));
		if (!fences)
			return -ENOMEM;
	}
	err = pieces_take(mem, fences);
	if (!err && fences)
		err = zeroing_wait(mem, fences);
	free(fences);
	return err;
}

/* ------------------------------------------------------------------ making */

/* How an object of a size is made up: of nr_pieces pieces, in all of *physical bytes. */
static uint64_t shape(const struct weir_pool *pool, uint64_t bytes, uint64_t page,
		      uint64_t *physical)
{
	uint64_t piece = round_up(bytes, page);

	if (piece > pool->root_bytes)
		piece = MAX(pool->root_bytes, page);
	*physical = round_up(bytes, piece);
	return *physical / piece;
}

/* In no list, without pieces. Sizes below a memory's cannot overflow when they are rounded up. */
static struct weir_mem *mem_new(struct weir_pool *pool, uint32_t memory, uint64_t bytes,
				uint64_t page, uint32_t guard_bytes)
{
	uint64_t physical, nr = shape(pool, bytes + guard_bytes, page, &physical);
	struct weir_mem *mem = calloc(1, sizeof(*mem) + nr * sizeof(mem->piece[0]));

	if (!mem)
		return NULL;
	*mem = (struct weir_mem){.pool = pool,
				 .memory = memory,
				 .bytes = bytes,
				 .page_bytes = page,
				 .physical_bytes = physical,
				 .created_ns = clock_now_ns(),
				 .slot = MEM_FILE_RECORDS,
				 .nr_pieces = (uint32_t)nr};
	if (guard_bytes)
		mem->guard_bytes = (uint32_t)MIN(physical - bytes, MEM_GUARD_MOST);
	return mem;
}

/* Give it its pieces. zero: by the chunk pool. */
static int mem_fill(struct weir_mem *mem, bool zero)
{
	int err;

	do { /* the first of its pages needs memory of its own */
		err = mem_pool_chunks(mem->pool, mem->memory, mem->page_bytes, &mem->chunks);
	} while (err && room_make(mem, err, mem->physical_bytes));
	if (!err)
		err = pieces_get(mem, zero);
	return err == -EAGAIN ? -ENOMEM : err;
}

int mem_make(struct weir_pool *pool, uint32_t memory, uint64_t bytes, uint64_t page_bytes,
	     struct weir_mem **out)
{
	struct weir_mem *mem = mem_new(pool, memory, bytes, page_bytes, 0);
	int err;

	if (!mem)
		return -ENOMEM;
	mem->uncounted = true;
	err = mem_fill(mem, false);
	if (err)
		free(mem);
	else
		*out = mem;
	return err;
}

/* Count bytes that are about to be taken. */
static int limit_take(struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	uint64_t limit = pool->limit_bytes[memory], *allocated = &pool->allocated_bytes[memory];
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	mem_reap(pool);
	if (limit && (bytes > limit || *allocated > limit - bytes))
		err = -ENOMEM;
	else
		*allocated += bytes;
	pthread_mutex_unlock(&pool->lock);
	if (err)
		log_warning("pool '%s': %llu bytes more are beyond its limit of %llu in '%s'",
			    pool->name, (unsigned long long)bytes, (unsigned long long)limit,
			    pool->backend->desc.memory[memory].name);
	return err;
}

static void limit_give(struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	pthread_mutex_lock(&pool->lock);
	pool->allocated_bytes[memory] -= bytes;
	pthread_mutex_unlock(&pool->lock);
}

/* A program may have another way: a warning. */
static void no_room(const struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	struct backend *b = pool->backend;
	char holders[PHYS_HOLDERS_MAX];

	phys_holders(phys_of(pool->machine, memory), holders);
	log_warning("pool '%s': no room for %llu bytes in '%s', of which %llu of %llu are taken: "
		    "%s",
		    pool->name, (unsigned long long)bytes, b->desc.memory[memory].name,
		    (unsigned long long)b->ops->memory_used(b, memory),
		    (unsigned long long)b->desc.memory[memory].bytes, holders);
}

int mem_create(struct weir_pool *pool, uint32_t memory, uint64_t page,
	       const struct weir_mem_params *params, struct weir_mem **out)
{
	struct weir_mem *mem;
	int err;

	if (params->bytes > pool->backend->desc.memory[memory].bytes) {
		no_room(pool, memory, params->bytes);
		return -ENOMEM;
	}
	mem = mem_new(pool, memory, params->bytes, page, pool->guard ? MEM_GUARD_BYTES : 0);
	if (!mem)
		return -ENOMEM;
	err = limit_take(pool, memory, mem->physical_bytes);
	if (err)
		goto err_free;
	err = mem_fill(mem, params->zero && !mem_is_host(pool, memory));
	if (err)
		goto err_limit;
	*out = mem;
	return 0;

err_limit:
	if (err == -ENOMEM)
		no_room(pool, memory, mem->physical_bytes);
	limit_give(pool, memory, mem->physical_bytes);
err_free:
	free(mem);
	return err;
}
