/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes through copy engines: copies between objects, and between objects and the program's
 * buffers, by way of host memory that engines reach; and guards, a pattern behind an object's end.
 */
#include <errno.h>
#include <string.h>

#include "src/backend/machine.h"
#include "src/base/log.h"
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/mem/mem.h"

#define STAGE_BYTES (UINT64_C(1) << 20)
#define COPY_PIECES 64u /* of a batch */
#define SETTLE_TRIES 4u

/* Where a part of an object is for copy engines, and how many bytes of it lie there. offset is
 * inside its physical bytes. */
static void *dma_addr(const struct weir_mem *mem, uint64_t offset, uint64_t *bytes)
{
	uint64_t each = mem->physical_bytes / mem->nr_pieces;

	*bytes = each - offset % each;
	return (char *)chunk_addr(mem->piece[offset / each]) + offset % each;
}

int weir_mem_contiguous(const struct weir_mem *mem, uint64_t offset, uint64_t bytes)
{
	uint64_t here;

	if (!mem || !bytes || offset >= mem->bytes || bytes > mem->bytes - offset)
		return -EINVAL;
	(void)dma_addr(mem, offset, &here);
	return bytes <= here;
}

/* The pool's own stream of a device. Takes the lock. */
static int pool_stream(struct weir_pool *pool, uint32_t device, stream_id_t *out)
{
	struct backend *b = pool->backend;
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	if (!pool->has_stream[device]) {
		err = b->ops->stream_create(b, device, BACKEND_COPY_IN, &pool->stream[device]);
		pool->has_stream[device] = !err;
	}
	*out = pool->stream[device];
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* ------------------------------------------------------------------ queueing */

/* Queue a copy from one object's physical memory to another's. Part of it may be queued if it
 * fails. */
static int copy_queue(struct backend *b, stream_id_t stream, const struct weir_mem *dst,
		      uint64_t dst_offset, const struct weir_mem *src, uint64_t src_offset,
		      uint64_t bytes)
{
	int err = 0;

	while (bytes && !err) {
		struct backend_copy copy[COPY_PIECES];
		uint32_t nr = 0;

		for (; bytes && nr < COPY_PIECES; nr++) {
			uint64_t to, from, part;

			copy[nr].dst = dma_addr(dst, dst_offset, &to);
			copy[nr].src = dma_addr(src, src_offset, &from);
			part = MIN(bytes, MIN(to, from));
			copy[nr].bytes = part;
			dst_offset += part;
			src_offset += part;
			bytes -= part;
		}
		err = b->ops->copy(b, stream, copy, nr);
	}
	return err;
}

static int fence_now(struct backend *b, stream_id_t stream)
{
	fence_t fence;
	int err = b->ops->fence_record(b, stream, &fence);

	return err ? err : b->ops->fence_wait(b, fence);
}

/* ------------------------------------------------------------------ the program's buffers */

/* One transfer: a part of an object, and the buffer between. */
struct transfer {
	struct weir_mem *mem;
	struct weir_mem *stage; /* host memory, one piece */
	stream_id_t stream;
	bool in; /* to the object */
};

static int transfer_part(struct transfer *t, uint64_t offset, char *data, uint64_t bytes)
{
	struct backend *b = t->mem->pool->backend;
	uint64_t here;
	void *stage = dma_addr(t->stage, 0, &here);
	int err;

	/* Memory has bytes just where there is data. */
	if (t->in && data)
		memcpy(stage, data, bytes);
	if (t->in)
		err = copy_queue(b, t->stream, t->mem, offset, t->stage, 0, bytes);
	else
		err = copy_queue(b, t->stream, t->stage, 0, t->mem, offset, bytes);
	if (!err)
		err = fence_now(b, t->stream);
	if (!err && !t->in && data)
		memcpy(data, stage, bytes);
	return err;
}

/* After an error: what is queued may still use the object and the stage. */
static void transfer_settle(struct transfer *t)
{
	struct backend *b = t->mem->pool->backend;
	uint32_t i = 0;

	while (i < SETTLE_TRIES && fence_now(b, t->stream))
		i++;
	t->stage->stream = t->stream;
	t->stage->unfenced = i == SETTLE_TRIES;
}

/* data NULL: memory has no bytes. offset and bytes lie in the object's physical memory. */
static int transfer(struct weir_mem *mem, uint32_t device, uint64_t offset, char *data,
		    uint64_t bytes, bool in)
{
	struct weir_pool *pool = mem->pool;
	uint32_t host = cost_host_memory(&pool->backend->desc);
	struct transfer t = {.mem = mem, .in = in};
	int err = pool_stream(pool, device, &t.stream);

	if (!err)
		err = mem_make(pool, host, MIN(bytes, STAGE_BYTES), MEM_PAGE_MIN, &t.stage);
	if (err)
		return err;
	err = mem_add_engines(t.stage, WEIR_MEM_DEVICE(device));
	while (bytes && !err) {
		uint64_t part = MIN(bytes, STAGE_BYTES);

		err = transfer_part(&t, offset, data, part);
		offset += part;
		data = data ? data + part : NULL;
		bytes -= part;
	}
	if (err)
		transfer_settle(&t);
	pthread_mutex_lock(&pool->lock);
	mem_give_up(t.stage);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* Whether a device's copy engine may use a part of an object. */
static int engine_check(struct weir_mem *mem, uint32_t device, uint64_t offset, uint64_t bytes)
{
	struct weir_pool *pool = mem->pool;
	bool may;

	if (!mem_pool_is_mine(pool))
		return -ECHILD;
	if (!bytes || offset >= mem->bytes || bytes > mem->bytes - offset ||
	    device >= pool->backend->desc.nr_devices)
		return -EINVAL;
	pthread_mutex_lock(&pool->lock);
	may = mem->engines & WEIR_MEM_DEVICE(device);
	pthread_mutex_unlock(&pool->lock);
	if (may)
		return 0;
	log_error("copying '%s' (%s:%u): the copy engine of %s may not use it: map it for DMA",
		  mem->owner, mem->file, mem->line, pool->backend->desc.device[device].name);
	return -EACCES;
}

static int transfer_checked(struct weir_mem *mem, uint32_t device, uint64_t offset, char *data,
			    uint64_t bytes, bool in)
{
	int err;

	if (!mem)
		return -EINVAL;
	err = engine_check(mem, device, offset, bytes);
	if (!err && mem->pool->backend->data == WEIR_DATA_REAL && !data)
		err = -EINVAL;
	if (err)
		return err;
	if (mem->pool->backend->data != WEIR_DATA_REAL)
		data = NULL;
	return transfer(mem, device, offset, data, bytes, in);
}

int weir_mem_write(struct weir_mem *mem, uint32_t device, uint64_t offset, const void *data,
		   uint64_t bytes)
{
	return transfer_checked(mem, device, offset, (char *)(uintptr_t)data, bytes, true);
}

int weir_mem_read(struct weir_mem *mem, uint32_t device, uint64_t offset, void *data,
		  uint64_t bytes)
{
	return transfer_checked(mem, device, offset, data, bytes, false);
}

int weir_mem_copy(struct weir_stream *stream, struct weir_mem *dst, uint64_t dst_offset,
		  struct weir_mem *src, uint64_t src_offset, uint64_t bytes)
{
	struct backend *b;
	int err;

	if (!stream || !dst || !src || dst->pool->machine != src->pool->machine ||
	    stream_machine(stream) != dst->pool->machine)
		return -EINVAL;
	b = dst->pool->backend;
	err = engine_check(dst, stream_device(stream), dst_offset, bytes);
	if (!err)
		err = engine_check(src, stream_device(stream), src_offset, bytes);
	if (err)
		return err;
	if (dst == src && dst_offset < src_offset + bytes && src_offset < dst_offset + bytes)
		return -EINVAL;
	return copy_queue(b, stream_id(stream), dst, dst_offset, src, src_offset, bytes);
}

/* ------------------------------------------------------------------ contents of the library's */

void mem_zero_host(struct weir_mem *mem)
{
	uint64_t here;

	if (mem->pool->backend->data != WEIR_DATA_REAL)
		return;
	for (uint64_t at = 0; at < mem->physical_bytes; at += here) {
		void *addr = dma_addr(mem, at, &here);

		memset(addr, 0, here);
	}
}

/* A device that has the memory, or, of the host's, the first. */
static uint32_t guard_device(const struct weir_mem *mem)
{
	const struct weir_machine_desc *desc = &mem->pool->backend->desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (desc->device[d].memory == mem->memory)
			return d;
	return 0;
}

static void guard_pattern(uint8_t pattern[MEM_GUARD_MOST])
{
	for (uint32_t i = 0; i < MEM_GUARD_MOST; i++)
		pattern[i] = (uint8_t)(0xc5 + 29 * i);
}

/* The CPU reaches the host's memory, engines every other. */
static int guard_move(struct weir_mem *mem, uint8_t *data, bool in)
{
	uint64_t here;

	if (!mem_is_host(mem->pool, mem->memory))
		return transfer(mem, guard_device(mem), mem->bytes, (char *)data, mem->guard_bytes,
				in);
	for (uint64_t at = 0; at < mem->guard_bytes; at += here) {
		void *addr = dma_addr(mem, mem->bytes + at, &here);

		here = MIN(here, mem->guard_bytes - at);
		if (in)
			memcpy(addr, data + at, here);
		else
			memcpy(data + at, addr, here);
	}
	return 0;
}

int mem_guard_put(struct weir_mem *mem)
{
	uint8_t pattern[MEM_GUARD_MOST];

	guard_pattern(pattern);
	return guard_move(mem, pattern, true);
}

int mem_guard_check(struct weir_mem *mem)
{
	uint8_t pattern[MEM_GUARD_MOST], found[MEM_GUARD_MOST] = {0};
	uint32_t first = 0;
	int err = guard_move(mem, found, false);

	if (err)
		return err;
	guard_pattern(pattern);
	while (first < mem->guard_bytes && found[first] == pattern[first])
		first++;
	if (first == mem->guard_bytes)
		return 0;
	log_error("'%s' (%s:%u) of %llu bytes was written %u bytes beyond its end", mem->owner,
		  mem->file, mem->line, (unsigned long long)mem->bytes, first + 1);
	return -EUCLEAN;
}
