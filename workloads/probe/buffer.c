/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for kernels to work on: chunks, of the size of core's blocks where nothing else is said,
 * mapped side by side. */
#include <errno.h>
#include <stdlib.h>

#include "src/base/util.h"
#include "workloads/probe/internal.h"

#define UNIT_MAX (8 * MIB)

/* Neither a fence nor a mapping call may be lost where giving back depends on it. */
#define TRIES 4

uint64_t probe_room(const struct probe *p, uint32_t memory, uint64_t most, uint32_t parts)
{
	const struct weir_memory_desc *desc = &p->b->desc.memory[memory];
	uint64_t used = p->b->ops->memory_used(p->b, memory);
	uint64_t room = desc->bytes / 4, bytes = p->b->desc.vmm.granularity_bytes;

	if (desc->kind == WEIR_MEMORY_HOST && room > p->host_bytes)
		room = p->host_bytes;
	room = room > used ? (room - used) / parts : 0;
	room = MIN(room, most);
	while (bytes <= room / 2)
		bytes *= 2;
	return bytes;
}

int probe_buffer_create_turns(struct probe *p, uint32_t device, struct probe_turns turns,
			      uint64_t unit, uint32_t nr, struct probe_buffer *out)
{
	const struct backend_ops *ops = p->b->ops;
	struct probe_buffer buffer = {.bytes = nr * unit, .unit = unit};
	void *addr;
	int err;

	buffer.chunk = calloc(nr, sizeof(*buffer.chunk));
	if (!buffer.chunk)
		return -ENOMEM;
	err = ops->va_reserve(p->b, buffer.bytes, unit, &addr);
	if (err) {
		free(buffer.chunk);
		return err;
	}
	buffer.addr = addr;
	while (!err && buffer.nr < nr) {
		struct backend_chunk *chunk = &buffer.chunk[buffer.nr];
		uint32_t memory = turns.memory[buffer.nr % turns.nr];

		err = ops->chunk_create(p->b, memory, unit, 0, chunk);
		if (err)
			break;
		buffer.nr++;
		err = ops->map(p->b, buffer.addr + buffer.nr_mapped * unit, chunk,
			       BACKEND_PROT_WRITE, BACKEND_DEVICE_BIT(device));
		if (!err)
			buffer.nr_mapped++;
	}
	if (err)
		probe_buffer_destroy(p, &buffer);
	else
		*out = buffer;
	return err;
}

int probe_buffer_create_of(struct probe *p, uint32_t memory, uint64_t unit, uint32_t nr,
			   struct probe_buffer *out)
{
	const struct probe_turns turns = {&memory, 1};

	return probe_buffer_create_turns(p, p->device, turns, unit, nr, out);
}

int probe_buffer_create(struct probe *p, uint32_t memory, uint64_t bytes, struct probe_buffer *out)
{
	uint64_t unit = bytes < UNIT_MAX ? bytes : UNIT_MAX;

	return probe_buffer_create_of(p, memory, unit, (uint32_t)(bytes / unit), out);
}

void probe_stream_drain(struct probe *p, stream_id_t stream)
{
	const struct backend_ops *ops = p->b->ops;
	fence_t fence;

	for (int tries = 0; tries < TRIES; tries++)
		if (!ops->fence_record(p->b, stream, &fence) && !ops->fence_wait(p->b, fence))
			break;
}

void probe_drain(struct probe *p)
{
	for (uint32_t i = 0; i < p->nr_streams; i++)
		probe_stream_drain(p, p->stream[i]);
}

void probe_buffer_destroy(struct probe *p, struct probe_buffer *buffer)
{
	const struct backend_ops *ops = p->b->ops;

	if (!buffer->addr)
		return;
	probe_drain(p);
	for (uint32_t i = 0; i < buffer->nr_mapped; i++)
		for (int tries = 0; tries < TRIES; tries++)
			if (!ops->unmap(p->b, buffer->addr + i * buffer->unit))
				break;
	for (uint32_t i = 0; i < buffer->nr; i++)
		ops->chunk_destroy(p->b, &buffer->chunk[i]);
	ops->va_release(p->b, buffer->addr, buffer->bytes);
	free(buffer->chunk);
	*buffer = (struct probe_buffer){0};
}
