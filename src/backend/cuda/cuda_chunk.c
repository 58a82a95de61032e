/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: physical memory, mapped at an alias for good, and the table of those that core has. */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/cuda/cuda_internal.h"

/* The error of a call that makes a chunk. */
static int made(const struct cuda *cuda, bool quiet, cu_result result, const char *call)
{
	return quiet ? cuda_errno(result) : cuda_error(&cuda->driver, result, call);
}

/* Map the alias: for the devices whose copy engines use it, and for the CPU where it can. */
static int alias_map(struct cuda *cuda, struct cuda_chunk *chunk, bool quiet)
{
	struct cuda_driver *driver = &cuda->driver;
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	uint64_t users =
		chunk->devices | (cuda_is_host(cuda, chunk->memory) ? BACKEND_HOST_BIT : 0);
	size_t nr = cuda_access_add(cuda, BACKEND_PROT_WRITE, users, access, 0);
	int err = made(cuda, quiet, driver->mem_reserve(&chunk->alias, chunk->bytes, 0, 0, 0),
		       "cuMemAddressReserve");

	if (err)
		return err;
	err = made(cuda, quiet, driver->mem_map(chunk->alias, chunk->bytes, 0, chunk->handle, 0),
		   "cuMemMap");
	if (err)
		goto err_release;
	err = made(cuda, quiet, cuda_access_call(cuda, chunk->alias, chunk->bytes, access, nr),
		   "cuMemSetAccess");
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	(void)cuda_error(driver, driver->mem_unmap(chunk->alias, chunk->bytes), "cuMemUnmap");
err_release:
	(void)cuda_error(driver, driver->mem_unreserve(chunk->alias, chunk->bytes),
			 "cuMemAddressFree");
	return err;
}

int cuda_chunk_add(struct cuda *cuda, struct cuda_chunk *chunk)
{
	uint32_t at = cuda->free_place;

	if (!cuda_part_has_room(cuda, chunk->memory, chunk->bytes))
		return -ENOMEM;
	while (at < cuda->nr_chunks && cuda->chunk[at])
		at++;
	if (at == cuda->max_chunks) {
		uint32_t max = cuda->max_chunks ? cuda->max_chunks * 2 : 256;
		struct cuda_chunk **table = realloc(cuda->chunk, max * sizeof(struct cuda_chunk *));

		if (!table)
			return -ENOMEM;
		cuda->chunk = table;
		cuda->max_chunks = max;
	}
	cuda->chunk[at] = chunk;
	cuda->free_place = at + 1;
	if (at == cuda->nr_chunks)
		cuda->nr_chunks++;
	chunk->number = ++cuda->nr_created << 32 | (at + 1);
	cuda->used_bytes[chunk->memory] += chunk->bytes;
	return 0;
}

void cuda_chunk_del(struct cuda *cuda, const struct cuda_chunk *chunk)
{
	uint32_t at = (uint32_t)chunk->number - 1;

	cuda->chunk[at] = NULL;
	if (at < cuda->free_place)
		cuda->free_place = at;
	cuda->used_bytes[chunk->memory] -= chunk->bytes;
}

struct cuda_chunk *cuda_chunk_find(const struct cuda *cuda, const struct backend_chunk *named)
{
	uint32_t at = (uint32_t)named->handle - 1;
	struct cuda_chunk *chunk = at < cuda->nr_chunks ? cuda->chunk[at] : NULL;

	return chunk && chunk->number == named->handle ? chunk : NULL;
}

const struct cuda_chunk *cuda_chunk_at(const struct cuda *cuda, cu_ptr addr, uint64_t bytes)
{
	for (uint32_t at = 0; at < cuda->nr_chunks; at++) {
		const struct cuda_chunk *chunk = cuda->chunk[at];

		if (chunk && addr >= chunk->alias && addr - chunk->alias < chunk->bytes)
			return bytes <= chunk->bytes - (addr - chunk->alias) ? chunk : NULL;
	}
	return NULL;
}

/* What fails here stays behind until the process ends: the log has it. */
static void alias_unmap(struct cuda *cuda, const struct cuda_chunk *chunk)
{
	struct cuda_driver *driver = &cuda->driver;

	(void)cuda_error(driver, driver->mem_unmap(chunk->alias, chunk->bytes), "cuMemUnmap");
	(void)cuda_error(driver, driver->mem_unreserve(chunk->alias, chunk->bytes),
			 "cuMemAddressFree");
}

bool cuda_chunk_valid(const struct cuda *cuda, uint32_t memory, uint64_t bytes, uint64_t *devices)
{
	return memory < cuda->base.desc.nr_memories && bytes &&
	       bytes % cuda->base.desc.vmm.granularity_bytes == 0 &&
	       !backend_chunk_devices(&cuda->base, memory, devices);
}

int cuda_chunk_make(struct cuda *cuda, uint32_t memory, uint64_t bytes, uint64_t devices,
		    bool quiet, struct cuda_chunk **out)
{
	struct cuda_driver *driver = &cuda->driver;
	const struct cu_allocation_prop prop = {
		.type = CU_ALLOCATION_PINNED,
		.location = cuda_location(cuda, memory),
	};
	struct cuda_chunk *chunk;
	int err = cuda_devices_start(cuda, devices);

	if (err)
		return err;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	chunk->bytes = bytes;
	chunk->memory = memory;
	chunk->devices = devices;
	cuda_relax(cuda);
	err = made(cuda, quiet, driver->mem_create(&chunk->handle, bytes, &prop, 0), "cuMemCreate");
	if (err)
		goto err_free;
	err = alias_map(cuda, chunk, quiet);
	if (err)
		goto err_handle;
	cuda_unrelax(cuda);
	*out = chunk;
	return 0;

err_handle:
	(void)cuda_error(driver, driver->mem_release(chunk->handle), "cuMemRelease");
err_free:
	cuda_unrelax(cuda);
	free(chunk);
	return err;
}

void cuda_chunk_unmake(struct cuda *cuda, struct cuda_chunk *chunk)
{
	cuda_relax(cuda);
	alias_unmap(cuda, chunk);
	(void)cuda_error(&cuda->driver, cuda->driver.mem_release(chunk->handle), "cuMemRelease");
	cuda_unrelax(cuda);
	free(chunk);
}

bool cuda_chunk_is_host(const struct cuda *cuda, const struct cuda_chunk *chunk)
{
	return chunk && cuda->base.desc.memory[chunk->memory].kind == WEIR_MEMORY_HOST;
}
