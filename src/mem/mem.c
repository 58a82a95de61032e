/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: which pages and pieces, where they come from, and how they are freed. One that cannot be
 * freed at once (work is queued, an unmapping failed) is doomed: it is tried again whenever the
 * pool is used, and when it is destroyed.
 */
#include "src/mem/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/core/types.h"

/* ------------------------------------------------------------------ pages */

uint64_t mem_default_page(enum weir_memory_kind kind, uint64_t bytes)
{
	if (kind == WEIR_MEMORY_HOST || bytes < MEM_PAGE_MIDDLE)
		return MEM_PAGE_MIN;
	return bytes < MEM_PAGE_LARGE ? MEM_PAGE_MIDDLE : MEM_PAGE_LARGE;
}

static int page_check(const struct weir_pool *pool, uint32_t memory, uint64_t page)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;

	if (page >= MEM_PAGE_MIN && !(page & (page - 1)) && page <= desc->memory[memory].bytes)
		return 0;
	log_error("pool '%s': pages of %llu bytes are not to be had in memory '%s': ask for a "
		  "power of two from 4096 to its size, or for 0",
		  pool->name, (unsigned long long)page, desc->memory[memory].name);
	return -EINVAL;
}

/* ------------------------------------------------------------------ where pieces come from */

/* The pool of chunks for a page; made on first use. Blocks: then. */
static int chunks_get(struct weir_pool *pool, uint32_t memory, uint64_t page,
		      struct chunk_pool **out)
{
	uint32_t class = page > pool->root_bytes ? 63 - (uint32_t)__builtin_clzll(page) : 0;
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
	chunk_pool_config_init(&config, b, memory);
	config.root_bytes = class ? page : pool->root_bytes;
	config.least_bytes = class ? page : MEM_PAGE_MIN;
	config.idle_bytes = 2 * config.root_bytes;
	config.share_bytes = 0;	  /* what is mapped for whom, is by root */
	config.hold_peak = false; /* programs that share a memory need what is not in use */
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

/* Count bytes that are about to be taken. */
static int limit_take(struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	uint64_t limit = pool->limit_bytes[memory], *allocated = &pool->allocated_bytes[memory];
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	pool_reap(pool);
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

/* All pieces or none. fences: one a piece, of its zeroing; NULL: contents do not matter. */
static int pieces_take(struct weir_mem *mem, fence_t *fences)
{
	uint64_t left = mem->physical_bytes;
	uint64_t each = mem->nr_pieces > 1 ? left / mem->nr_pieces : left;
	uint32_t nr = 0;
	int err = 0;

	while (nr < mem->nr_pieces && !err) {
		err = chunk_alloc(mem->chunks, each, fences ? CHUNK_ZEROED : 0,
				  fences ? &fences[nr] : NULL, &mem->piece[nr]);
		nr += !err;
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

/* ------------------------------------------------------------------ objects */

/* How an object of a size is made up: of nr_pieces pieces, in all of *physical bytes. */
static uint64_t shape(const struct weir_pool *pool, uint64_t bytes, uint64_t page,
		      uint64_t *physical)
{
	uint64_t piece = mem_round_up(bytes, page);

	if (piece > pool->root_bytes)
		piece = MAX(pool->root_bytes, page);
	*physical = mem_round_up(bytes, piece);
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
				 .created_ns = mem_now_ns(),
				 .slot = MEM_FILE_RECORDS,
				 .nr_pieces = (uint32_t)nr};
	if (guard_bytes)
		mem->guard_bytes = (uint32_t)MIN(physical - bytes, MEM_GUARD_MOST);
	return mem;
}

static int mem_fill_try(struct weir_mem *mem, bool zero)
{
	int err = chunks_get(mem->pool, mem->memory, mem->page_bytes, &mem->chunks);

	return err ? err : pieces_get(mem, zero);
}

/* Give it its pieces. zero: by the chunk pool. */
static int mem_fill(struct weir_mem *mem, bool zero)
{
	int err = mem_fill_try(mem, zero);

	/* Pools of other pages, and doomed objects, may have what is missing. */
	if (err == -ENOMEM && weir_pool_trim(mem->pool))
		err = mem_fill_try(mem, zero);
	return err;
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

/* A program may have another way: a warning. */
static void no_room(const struct weir_pool *pool, uint32_t memory, uint64_t bytes)
{
	struct backend *b = pool->backend;

	log_warning("pool '%s': no room for %llu bytes in '%s', of which %llu of %llu are taken",
		    pool->name, (unsigned long long)bytes, b->desc.memory[memory].name,
		    (unsigned long long)b->ops->memory_used(b, memory),
		    (unsigned long long)b->desc.memory[memory].bytes);
}

/* What a program asks for: counted, within the limit. */
static int mem_create(struct weir_pool *pool, uint32_t memory, uint64_t page,
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
	pool_reap(pool);
	pool_room(pool, room);
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
	if (!pool_is_mine(pool))
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
		page = mem_default_page(pool->backend->desc.memory[memory].kind, params->bytes);
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

	if (!work_is_done(mem) || !mem_leave_window(mem))
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

void pool_reap(struct weir_pool *pool)
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

	if (!mem || !pool_is_mine(mem->pool))
		return;
	pool = mem->pool;
	if (mem->guard_bytes)
		guard_look(mem, stream);
	pthread_mutex_lock(&pool->lock);
	pool_reap(pool);
	mem_retire(mem);
	if (stream) {
		mem->stream = stream_id(stream);
		mem->unfenced = true;
	}
	mem_give_up(mem);
	pthread_mutex_unlock(&pool->lock);
}
