/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping, unmapping and change of access as the boundary names them. */
#include <errno.h>

#include "src/backend/cuda/cuda_internal.h"

/* The unit that begins at an address. Its mapping is the caller's to change: see the top of
 * cuda_internal.h. -EINVAL: there is none. */
static int unit_at(struct cuda *cuda, const void *addr, struct cuda_region **region,
		   struct cuda_mapping **mapping)
{
	cu_ptr at = (cu_ptr)(uintptr_t)addr;
	int err = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	*region = cuda_region_at(cuda, at);
	if (*region && (at - (*region)->base) % (*region)->unit == 0) {
		*mapping = &(*region)->mapping[(at - (*region)->base) / (*region)->unit];
		err = 0;
	}
	pthread_mutex_unlock(&cuda->lock);
	return err;
}

/* Set all of a mapping but what brackets count in it. */
static void mapping_set(struct cuda *cuda, struct cuda_region *region, struct cuda_mapping *mapping,
			struct cuda_mapping value)
{
	pthread_mutex_lock(&cuda->lock);
	value.readers = mapping->readers;
	value.writers = mapping->writers;
	if (mapping->chunk) {
		region->nr_mapped--;
		region->nr_in[mapping->chunk->memory]--;
	}
	if (value.chunk) {
		region->nr_mapped++;
		region->nr_in[value.chunk->memory]++;
	}
	*mapping = value;
	pthread_mutex_unlock(&cuda->lock);
}

/* Whether a chunk can be mapped so: the CPU reaches the host's memory only. */
static bool access_valid(const struct cuda *cuda, uint32_t memory, enum backend_prot prot,
			 uint64_t devices)
{
	const struct weir_machine_desc *desc = &cuda->base.desc;

	if (prot != BACKEND_PROT_NONE && prot != BACKEND_PROT_READ && prot != BACKEND_PROT_WRITE)
		return false;
	if (devices & BACKEND_HOST_BIT && desc->memory[memory].kind != WEIR_MEMORY_HOST)
		return false;
	return (devices & ~BACKEND_HOST_BIT) >> desc->nr_devices == 0;
}

/* Change who may do what in a unit that is mapped: in one call, which names those for whom it
 * changes. The driver leaves the others alone, whose kernels may be running. */
static int change_access(struct cuda *cuda, const void *addr, uint64_t bytes,
			 const struct cuda_mapping *from, const struct cuda_mapping *to)
{
	const uint64_t had = cuda_gpus_of(cuda, from->devices);
	const uint64_t has = cuda_gpus_of(cuda, to->devices);
	uint64_t gpus = has & ~BACKEND_HOST_BIT, lost = had & ~has;
	uint64_t host = has & BACKEND_HOST_BIT;
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	int err = cuda_devices_start(cuda, to->devices);
	size_t nr = 0;

	if (err)
		return err;
	if (to->given == BACKEND_PROT_NONE) {
		lost |= gpus & had;
		gpus = 0;
	}
	if (from->chunk && from->given == to->given)
		gpus &= ~had;
	if (from->chunk && from->prot == to->prot)
		host &= ~had;
	nr = cuda_access_add(cuda, to->given, gpus, access, nr);
	nr = cuda_access_add(cuda, to->prot, host, access, nr);
	nr = cuda_access_add(cuda, BACKEND_PROT_NONE, lost, access, nr);
	if (!nr)
		return 0;
	return cuda_access_set(cuda, (cu_ptr)(uintptr_t)addr, bytes, access, nr);
}

/* A mapping of the unit as core wants it. */
static struct cuda_mapping mapping_made(const struct cuda *cuda, const struct cuda_region *region,
					const struct cuda_mapping *mapping,
					const struct cuda_chunk *chunk, enum backend_prot prot,
					uint64_t devices)
{
	struct cuda_mapping made = *mapping;

	made.chunk = chunk;
	made.prot = prot;
	made.devices = devices;
	made.given = cuda_unit_allowed(cuda, region, &made);
	return made;
}

int cuda_map(struct backend *b, void *addr, const struct backend_chunk *named,
	     enum backend_prot prot, uint64_t devices)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	cu_ptr at = (cu_ptr)(uintptr_t)addr;
	struct cuda_mapping *mapping, made;
	struct cuda_chunk *chunk;
	struct cuda_region *region;
	int err = unit_at(cuda, addr, &region, &mapping);

	if (err)
		return err;
	pthread_mutex_lock(&cuda->lock);
	chunk = cuda_chunk_find(cuda, named);
	pthread_mutex_unlock(&cuda->lock);
	if (!chunk || mapping->chunk || chunk->bytes != region->unit ||
	    !access_valid(cuda, chunk->memory, prot, devices))
		return -EINVAL;
	err = cuda_debug_remap(cuda, "map", at, region->unit);
	if (err)
		return err;
	cuda_relax(cuda);
	err = cuda_error(driver, driver->mem_map(at, region->unit, 0, chunk->handle, 0),
			 "cuMemMap");
	if (err)
		goto out;
	made = mapping_made(cuda, region, mapping, chunk, prot, devices);
	err = change_access(cuda, addr, region->unit, mapping, &made);
	if (err)
		(void)cuda_error(driver, driver->mem_unmap(at, region->unit), "cuMemUnmap");
	else
		mapping_set(cuda, region, mapping, made);
out:
	cuda_unrelax(cuda);
	return err;
}

int cuda_unmap(struct backend *b, void *addr)
{
	struct cuda *cuda = cuda_of(b);
	cu_ptr at = (cu_ptr)(uintptr_t)addr;
	struct cuda_mapping *mapping;
	struct cuda_region *region;
	int err = unit_at(cuda, addr, &region, &mapping);

	if (err || !mapping->chunk)
		return -EINVAL;
	err = cuda_debug_remap(cuda, "unmap", at, region->unit);
	if (err)
		return err;
	cuda_relax(cuda);
	err = cuda_undo_error(&cuda->driver, cuda->driver.mem_unmap(at, region->unit),
			      "cuMemUnmap");
	cuda_unrelax(cuda);
	if (!err)
		mapping_set(cuda, region, mapping, (struct cuda_mapping){0});
	return err;
}

int cuda_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_mapping *mapping, made;
	struct cuda_region *region;
	int err = unit_at(cuda, addr, &region, &mapping);

	if (err || !mapping->chunk || !access_valid(cuda, mapping->chunk->memory, prot, devices))
		return -EINVAL;
	/* More, and what the CPU may do, changes nothing for kernels that run. */
	if (prot < mapping->prot || mapping->devices & ~devices & ~BACKEND_HOST_BIT)
		err = cuda_debug_remap(cuda, "change of access", (cu_ptr)(uintptr_t)addr,
				       region->unit);
	if (err)
		return err;
	made = mapping_made(cuda, region, mapping, mapping->chunk, prot, devices);
	err = change_access(cuda, addr, region->unit, mapping, &made);
	if (!err)
		mapping_set(cuda, region, mapping, made);
	return err;
}
