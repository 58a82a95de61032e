/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that comes and goes in the order of streams. Its addresses are there from the call on, and
 * until the free's turn comes; that it comes and goes is work that touches all of it, so that other
 * work without an order to that is a race, or has no memory. A pool keeps nothing of what is freed.
 */
#include "tests/fakecuda/fake.h"

cu_pool pool_handle(int device)
{
	return (cu_pool)(POOL_BASE + 16 * (uint64_t)device);
}

/* The device of a pool, or -1. */
static int pool_device(cu_pool pool)
{
	for (int i = 0; i < fake.config.devices; i++)
		if (pool_handle(i) == pool)
			return i;
	return -1;
}

static uint64_t pool_used(int device)
{
	uint64_t used = 0;

	for (size_t i = 0; i < fake.mappings.nr; i++) {
		const struct mapping *mapping = (struct mapping *)fake.mappings.at[i];

		if (mapping->kind == MAPPING_POOL && mapping->piece->memory == (unsigned)device)
			used += mapping->range.bytes;
	}
	return used;
}

/* ------------------------------------------------------------------ allocations */

/* Wait for the frees of a memory that are queued; false: there are none. */
static bool frees_wait(unsigned memory)
{
	uint64_t until[STREAMS_MAX] = {0};
	bool any = false;

	for (int i = 0; i < STREAMS_MAX; i++)
		for (struct op *op = fake.slot[i] ? fake.slot[i]->first : NULL; op; op = op->next) {
			if (op->kind != OP_FREE ||
			    mapping_find(op->touch[0].addr)->piece->memory != memory)
				continue;
			until[i] = op->seq;
			any = true;
		}
	slots_wait(until);
	return any;
}

/* device: -1 for the stream's. */
static cu_result pool_alloc(cu_ptr *addr, size_t bytes, int device, cu_stream handle)
{
	struct mapping *mapping;
	struct stream *stream;
	uint64_t used;
	struct op *op;
	cu_result result;
	int context;

	do {
		result = stream_for(handle, &stream, &context);
		if (result)
			return result;
		if (!addr || !bytes)
			return CU_INVALID_VALUE;
		if (stream->capturing)
			return CU_CAPTURE_UNSUPPORTED;
		if (device < 0)
			device = stream->device;
		result = mapping_create(MAPPING_POOL, (unsigned)device, bytes, stream->context,
					&mapping);
	} while (result == CU_OUT_OF_MEMORY && frees_wait((unsigned)device));
	if (result)
		return result;
	op = op_create(OP_ALLOC, 1);
	if (!op) {
		mapping_destroy(mapping);
		return CU_OUT_OF_MEMORY;
	}
	used = pool_used(device);
	if (fake.pool[device].used_high < used)
		fake.pool[device].used_high = used;
	*addr = mapping->range.addr;
	op->touch[0] = (struct touch){mapping->range.addr, bytes, true};
	stream_add(stream, op);
	return CU_SUCCESS;
}

cu_result fake_pool_alloc(cu_ptr *addr, size_t bytes, cu_stream stream)
{
	cu_result result = call_enter(CALL_pool_alloc);

	return call_leave(result ? result : pool_alloc(addr, bytes, -1, stream));
}

cu_result fake_pool_alloc_from(cu_ptr *addr, size_t bytes, cu_pool pool, cu_stream stream)
{
	cu_result result = call_enter(CALL_pool_alloc_from);
	int device = pool_device(pool);

	if (!result && device < 0)
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : pool_alloc(addr, bytes, device, stream));
}

/* Of memory of cuMemAlloc(), too. */
static cu_result pool_free(cu_ptr addr, cu_stream handle)
{
	struct mapping *mapping = mapping_find(addr);
	cu_result error = CU_SUCCESS, result;
	struct stream *stream;
	struct op *op;
	int context;

	result = context_current_undo(&context, &error);
	stream = result ? NULL : stream_find(handle, context, &result);
	if (!stream)
		return result;
	if (!mapping || mapping->range.addr != addr || mapping->freeing ||
	    (mapping->kind != MAPPING_POOL && mapping->kind != MAPPING_PLAIN))
		return CU_INVALID_VALUE;
	if (stream->graph)
		return CU_CAPTURE_UNSUPPORTED;
	op = op_create(OP_FREE, 1);
	if (!op)
		return CU_OUT_OF_MEMORY;
	op->touch[0] = (struct touch){addr, mapping->range.bytes, true};
	mapping->freeing = true;
	stream_add(stream, op);
	return error;
}

cu_result fake_pool_free(cu_ptr addr, cu_stream stream)
{
	cu_result result = call_enter(CALL_pool_free);

	return call_leave(result ? result : pool_free(addr, stream));
}

/* ------------------------------------------------------------------ pools */

static cu_result pool_get(cu_pool *pool, cu_device device)
{
	cu_result result = pool ? device_check(device) : CU_INVALID_VALUE;

	if (!result)
		*pool = pool_handle(device);
	return result;
}

cu_result fake_pool_default(cu_pool *pool, cu_device device)
{
	cu_result result = call_enter(CALL_pool_default);

	return call_leave(result ? result : pool_get(pool, device));
}

cu_result fake_pool_get(cu_pool *pool, cu_device device)
{
	cu_result result = call_enter(CALL_pool_get);

	return call_leave(result ? result : pool_get(pool, device));
}

cu_result fake_pool_trim(cu_pool pool, size_t bytes)
{
	cu_result result = call_enter(CALL_pool_trim);

	(void)bytes;
	if (!result && pool_device(pool) < 0)
		result = CU_INVALID_VALUE;
	return call_leave(result);
}

/* What is reserved is what is used. */
static cu_result attribute_get(int device, int attribute, void *value)
{
	const struct pool *pool = &fake.pool[device];

	switch (attribute) {
	case CU_POOL_REUSE_EVENTS:
	case CU_POOL_REUSE_OPPORTUNISTIC:
	case CU_POOL_REUSE_INTERNAL:
		*(int *)value = !pool->no_reuse[attribute];
		return CU_SUCCESS;
	case CU_POOL_RELEASE_THRESHOLD:
		*(uint64_t *)value = pool->threshold;
		return CU_SUCCESS;
	case CU_POOL_RESERVED:
	case CU_POOL_USED:
		*(uint64_t *)value = pool_used(device);
		return CU_SUCCESS;
	case CU_POOL_RESERVED_HIGH:
	case CU_POOL_USED_HIGH:
		*(uint64_t *)value = pool->used_high;
		return CU_SUCCESS;
	default:
		return CU_INVALID_VALUE;
	}
}

/* The high-water marks can be set to 0: they go on from what is used now. */
static cu_result attribute_set(int device, int attribute, const void *value)
{
	struct pool *pool = &fake.pool[device];

	switch (attribute) {
	case CU_POOL_REUSE_EVENTS:
	case CU_POOL_REUSE_OPPORTUNISTIC:
	case CU_POOL_REUSE_INTERNAL:
		pool->no_reuse[attribute] = !*(const int *)value;
		return CU_SUCCESS;
	case CU_POOL_RELEASE_THRESHOLD:
		pool->threshold = *(const uint64_t *)value;
		return CU_SUCCESS;
	case CU_POOL_RESERVED_HIGH:
	case CU_POOL_USED_HIGH:
		if (*(const uint64_t *)value)
			return CU_INVALID_VALUE;
		pool->used_high = pool_used(device);
		return CU_SUCCESS;
	default:
		return CU_INVALID_VALUE;
	}
}

cu_result fake_pool_attribute(cu_pool pool, int attribute, void *value)
{
	cu_result result = call_enter(CALL_pool_attribute);
	int device = pool_device(pool);

	if (!result && (device < 0 || !value))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : attribute_get(device, attribute, value));
}

cu_result fake_pool_set(cu_pool pool, int attribute, void *value)
{
	cu_result result = call_enter(CALL_pool_set);
	int device = pool_device(pool);

	if (!result && (device < 0 || !value))
		result = CU_INVALID_VALUE;
	return call_leave(result ? result : attribute_set(device, attribute, value));
}
