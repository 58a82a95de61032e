/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of chunks and of plain allocations. */
#include "tests/contract/cases/cases.h"

#define NR_CHUNKS 16

void contract_chunks(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk[NR_CHUNKS], host;
	uint64_t before = b->ops->memory_used(b, HOST);

	for (int i = 0; i < NR_CHUNKS; i++) {
		assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, 0, &chunk[i]), 0);
		assert_int_not_equal(chunk[i].handle, 0);
		assert_non_null(chunk[i].alias);
		assert_int_equal(chunk[i].bytes, c->unit);
		assert_int_equal(chunk[i].memory, GPU0);
		for (int other = 0; other < i; other++)
			assert_int_not_equal(chunk[i].handle, chunk[other].handle);
	}
	assert_int_equal(b->ops->memory_used(b, GPU0), NR_CHUNKS * c->unit);
	assert_int_equal(b->ops->memory_used(b, HOST), before);
	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, 0, &host), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), before + c->unit);
	if (can(c, CAN_BYTES))
		memset(host.alias, 1, c->unit);
	b->ops->chunk_destroy(b, &host);
	for (int i = 0; i < NR_CHUNKS; i++)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), before);
}

void contract_chunk_arguments(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t granularity = b->desc.vmm.granularity_bytes;
	struct backend_chunk chunk = {.handle = 77};

	assert_int_equal(b->ops->chunk_create(b, b->desc.nr_memories, c->unit, 0, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, 0, 0, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit + 1, 0, &chunk), -EINVAL);
	assert_int_equal(b->ops->chunk_create(b, GPU0, UINT64_MAX - granularity + 1, 0, &chunk),
			 -ENOMEM);
	assert_int_equal(chunk.handle, 77);
}

/* Only devices that are there and reach the memory can be named, any of them. */
void contract_chunk_devices(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk chunk = {.handle = 77};

	assert_int_equal(b->ops->chunk_create(b, GPU0, c->unit, c->devices + 1, &chunk), -EINVAL);
	assert_int_equal(
		b->ops->chunk_create(b, GPU0, c->unit, c->devices | BACKEND_HOST_BIT, &chunk),
		-EINVAL);
	assert_int_equal(chunk.handle, 77);
	for (uint32_t d = 0; d < b->desc.nr_devices; d++) {
		assert_int_equal(
			b->ops->chunk_create(b, HOST, c->unit, BACKEND_DEVICE_BIT(d), &chunk), 0);
		/* The CPU reaches it, too. */
		if (can(c, CAN_BYTES))
			memset(chunk.alias, 1, c->unit);
		b->ops->chunk_destroy(b, &chunk);
	}
}

/* An alias that is for no device at first, and for one after the other later. */
void contract_chunk_add_devices(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	struct backend_chunk host, gpu, gone;

	assert_int_equal(b->ops->chunk_create(b, HOST, c->unit, BACKEND_HOST_BIT, &host), 0);
	assert_int_equal(b->ops->chunk_add_devices(b, &host, 0), -EINVAL);
	assert_int_equal(b->ops->chunk_add_devices(b, &host, c->devices + 1), -EINVAL);
	if (can(c, CAN_BYTES))
		memset(host.alias, 3, c->unit);
	for (uint32_t d = b->desc.nr_devices; d--;) {
		uint32_t memory = b->desc.device[d].memory;
		struct backend_copy copy;
		stream_id_t stream;

		/* The second time it is there already. */
		for (int i = 0; i < 2; i++)
			assert_int_equal(b->ops->chunk_add_devices(b, &host, BACKEND_DEVICE_BIT(d)),
					 0);
		assert_int_equal(
			b->ops->chunk_create(b, memory, c->unit, BACKEND_DEVICE_BIT(d), &gpu), 0);
		assert_int_equal(b->ops->stream_create(b, d, BACKEND_COPY_IN, &stream), 0);
		copy = (struct backend_copy){gpu.alias, host.alias, c->unit};
		assert_int_equal(b->ops->copy(b, stream, &copy, 1), 0);
		contract_wait(b, stream);
		b->ops->stream_destroy(b, stream);
		gone = gpu;
		b->ops->chunk_destroy(b, &gpu);
		assert_int_equal(b->ops->chunk_add_devices(b, &gone, BACKEND_DEVICE_BIT(d)),
				 -EINVAL);
	}
	b->ops->chunk_destroy(b, &host);
}

/* A memory that is full says so, and holes in it are as good as any other room. */
void contract_full_memory(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint64_t granularity = b->desc.vmm.granularity_bytes;
	struct backend_chunk chunk[NR_CHUNKS], more = {.handle = 77};

	for (int i = 0; i < NR_CHUNKS; i++)
		assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(1), 0, &chunk[i]), 0);
	assert_int_equal(b->ops->chunk_create(b, GPU0, granularity, 0, &more), -ENOMEM);
	assert_int_equal(more.handle, 77);
	for (int i = 0; i < NR_CHUNKS; i += 2)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(8));
	assert_int_equal(b->ops->chunk_create(b, GPU0, MIB(8), 0, &more), 0);
	assert_int_equal(b->ops->memory_used(b, GPU0), MIB(16));
	b->ops->chunk_destroy(b, &more);
	for (int i = 1; i < NR_CHUNKS; i += 2)
		b->ops->chunk_destroy(b, &chunk[i]);
	assert_int_equal(b->ops->memory_used(b, GPU0), 0);
}

void contract_plain(void **state)
{
	struct contract *c = *state;
	struct backend *b = c->b;
	uint32_t last = b->desc.nr_memories - 1;
	uint64_t before = b->ops->memory_used(b, HOST);
	void *gpu, *host, *third = &gpu;

	assert_int_equal(b->ops->device_alloc(b, last, 1000, &gpu), 0);
	assert_in_range(b->ops->memory_used(b, last), 1000, MIB(2));
	assert_int_equal(b->ops->device_alloc(b, HOST, 1000, &host), 0);
	assert_in_range(b->ops->memory_used(b, HOST) - before, 1000, MIB(2));
	if (can(c, CAN_BYTES))
		memset(host, 1, 1000);
	assert_int_equal(b->ops->device_alloc(b, GPU0, 0, &third), -EINVAL);
	assert_int_equal(b->ops->device_alloc(b, b->desc.nr_memories, 1, &third), -EINVAL);
	if (can(c, CAN_FULL))
		assert_int_equal(b->ops->device_alloc(b, GPU0, MIB(17), &third), -ENOMEM);
	assert_ptr_equal(third, &gpu);
	b->ops->device_free(b, gpu);
	b->ops->device_free(b, host);
	b->ops->device_free(b, NULL);
	assert_int_equal(b->ops->memory_used(b, last), 0);
	assert_int_equal(b->ops->memory_used(b, HOST), before);
}
