/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of addresses, the mappings in them, and what they say about an address. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"

size_t cuda_access_add(const struct cuda *cuda, enum backend_prot prot, uint32_t devices,
		       struct cu_access list[WEIR_DEVICES_MAX + 1], size_t nr)
{
	int flags = prot == BACKEND_PROT_NONE	? CU_ACCESS_NONE
		    : prot == BACKEND_PROT_READ ? CU_ACCESS_READ
						: CU_ACCESS_READWRITE;

	for (uint32_t d = 0; d < cuda->base.desc.nr_devices; d++)
		if (devices & (1u << d))
			list[nr++] = (struct cu_access){
				.location = {CU_LOCATION_DEVICE, cuda->device[d].device},
				.flags = flags,
			};
	if (devices & BACKEND_HOST_BIT)
		list[nr++] = (struct cu_access){
			.location = {CU_LOCATION_HOST_NUMA, cuda->host_node},
			.flags = flags,
		};
	return nr;
}

int cuda_access_set(struct cuda *cuda, cu_ptr addr, uint64_t bytes, const struct cu_access *list,
		    size_t nr)
{
	int err;

	cuda_relax(cuda);
	err = cuda_error(&cuda->driver, cuda->driver.mem_access(addr, bytes, list, nr),
			 "cuMemSetAccess");
	cuda_unrelax(cuda);
	return err;
}

/* ------------------------------------------------------------------ regions */

/* Index of the first region above addr. */
static uint32_t region_upper(const struct cuda *cuda, cu_ptr addr)
{
	uint32_t low = 0, high = cuda->nr_regions;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (cuda->region[mid]->base <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct cuda_region *cuda_region_at(const struct cuda *cuda, cu_ptr addr)
{
	uint32_t above = region_upper(cuda, addr);
	struct cuda_region *region = above ? cuda->region[above - 1] : NULL;

	return region && addr - region->base < region->bytes ? region : NULL;
}

/* Put a region into the table. */
static int region_add(struct cuda *cuda, struct cuda_region *region)
{
	uint32_t at;

	if (cuda->nr_regions == cuda->max_regions) {
		uint32_t max = cuda->max_regions ? cuda->max_regions * 2 : 64;
		struct cuda_region **table =
			realloc(cuda->region, max * sizeof(struct cuda_region *));

		if (!table)
			return -ENOMEM;
		cuda->region = table;
		cuda->max_regions = max;
	}
	at = region_upper(cuda, region->base);
	memmove(&cuda->region[at + 1], &cuda->region[at],
		(cuda->nr_regions - at) * sizeof(struct cuda_region *));
	cuda->region[at] = region;
	cuda->nr_regions++;
	return 0;
}

int cuda_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	struct cuda_region *region;
	int err;

	if (!unit || unit % b->desc.vmm.granularity_bytes || !bytes || bytes % unit)
		return -EINVAL;
	region = calloc(1, sizeof(*region) + bytes / unit * sizeof(region->mapping[0]));
	if (!region)
		return -ENOMEM;
	region->bytes = bytes;
	region->unit = unit;
	cuda_relax(cuda);
	err = cuda_error(driver, driver->mem_reserve(&region->base, bytes, unit & -unit, 0, 0),
			 "cuMemAddressReserve");
	if (err)
		goto err_free;
	pthread_mutex_lock(&cuda->lock);
	err = region_add(cuda, region);
	pthread_mutex_unlock(&cuda->lock);
	if (err)
		goto err_release;
	cuda_unrelax(cuda);
	*addr = (void *)(uintptr_t)region->base;
	return 0;

err_release:
	(void)cuda_error(driver, driver->mem_unreserve(region->base, bytes), "cuMemAddressFree");
err_free:
	cuda_unrelax(cuda);
	free(region);
	return err;
}

void cuda_va_release(struct backend *b, void *addr, uint64_t bytes)
{
	struct cuda *cuda = cuda_of(b);
	struct cuda_driver *driver = &cuda->driver;
	cu_ptr base = (cu_ptr)(uintptr_t)addr;
	struct cuda_region *region;
	uint32_t at;

	pthread_mutex_lock(&cuda->lock);
	at = region_upper(cuda, base);
	region = at ? cuda->region[at - 1] : NULL;
	if (!region || region->base != base || region->bytes != bytes || region->nr_mapped) {
		pthread_mutex_unlock(&cuda->lock);
		log_error("cuda: %p is released but is no reservation, or something is mapped in "
			  "it",
			  addr);
		return;
	}
	cuda->nr_regions--;
	memmove(&cuda->region[at - 1], &cuda->region[at],
		(cuda->nr_regions - (at - 1)) * sizeof(struct cuda_region *));
	pthread_mutex_unlock(&cuda->lock);
	cuda_relax(cuda);
	(void)cuda_error(driver, driver->mem_unreserve(base, bytes), "cuMemAddressFree");
	cuda_unrelax(cuda);
	free(region);
}

/* ------------------------------------------------------------------ mappings */

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

static bool is_host(const struct cuda *cuda, const struct cuda_chunk *chunk)
{
	return chunk && cuda->base.desc.memory[chunk->memory].kind == WEIR_MEMORY_HOST;
}

/* Set all of a mapping but what brackets count in it. */
static void mapping_set(struct cuda *cuda, struct cuda_region *region, struct cuda_mapping *mapping,
			struct cuda_mapping value)
{
	pthread_mutex_lock(&cuda->lock);
	value.readers = mapping->readers;
	value.writers = mapping->writers;
	region->nr_mapped += value.chunk != NULL;
	region->nr_mapped -= mapping->chunk != NULL;
	region->nr_host += is_host(cuda, value.chunk);
	region->nr_host -= is_host(cuda, mapping->chunk);
	*mapping = value;
	pthread_mutex_unlock(&cuda->lock);
}

/* Whether a chunk can be mapped so: the CPU reaches the host's memory only. */
static bool access_valid(const struct cuda *cuda, uint32_t memory, enum backend_prot prot,
			 uint32_t devices)
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
	uint32_t gpus = to->devices & ~BACKEND_HOST_BIT, lost = from->devices & ~to->devices;
	uint32_t host = to->devices & BACKEND_HOST_BIT;
	struct cu_access access[WEIR_DEVICES_MAX + 1];
	size_t nr = 0;

	if (to->given == BACKEND_PROT_NONE) {
		lost |= gpus & from->devices;
		gpus = 0;
	}
	if (from->chunk && from->given == to->given)
		gpus &= ~from->devices;
	if (from->chunk && from->prot == to->prot)
		host &= ~from->devices;
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
					uint32_t devices)
{
	struct cuda_mapping made = *mapping;

	made.chunk = chunk;
	made.prot = prot;
	made.devices = devices;
	made.given = cuda_debug_allowed(cuda, region, &made);
	return made;
}

int cuda_map(struct backend *b, void *addr, const struct backend_chunk *named,
	     enum backend_prot prot, uint32_t devices)
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

int cuda_set_access(struct backend *b, void *addr, enum backend_prot prot, uint32_t devices)
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

/* ------------------------------------------------------------------ what an address is */

int cuda_resolve(const struct cuda *cuda, cu_ptr addr, uint64_t bytes, struct cuda_place *out)
{
	const struct cuda_region *region = cuda_region_at(cuda, addr);
	const struct cuda_mapping *mapping;
	uint64_t offset;

	if (!region) {
		const struct cuda_plain *plain = cuda_plain_at(cuda, addr, bytes);

		if (!plain)
			return -EINVAL;
		*out = (struct cuda_place){addr, bytes, plain->kind == CUDA_PLAIN_HOST};
		return 0;
	}
	if (bytes > region->bytes - (addr - region->base))
		return -EINVAL;
	mapping = &region->mapping[(addr - region->base) / region->unit];
	if (!mapping->chunk)
		return -EINVAL;
	offset = (addr - region->base) % region->unit;
	*out = (struct cuda_place){
		.at = mapping->chunk->alias + offset,
		.bytes = region->unit - offset < bytes ? region->unit - offset : bytes,
		.host = is_host(cuda, mapping->chunk),
	};
	return 0;
}

int cuda_host_share(const struct cuda *cuda, const struct weir_use *use, double *share)
{
	cu_ptr addr = (cu_ptr)(uintptr_t)use->addr;
	const struct cuda_region *region = cuda_region_at(cuda, addr);
	uint64_t begin, end, host_bytes = 0;

	if (!region) {
		const struct cuda_plain *plain = cuda_plain_at(cuda, addr, use->bytes);

		if (!plain)
			return -EINVAL;
		*share = plain->kind == CUDA_PLAIN_HOST;
		return 0;
	}
	if (!use->bytes || use->bytes > region->bytes - (addr - region->base))
		return -EINVAL;
	*share = 0;
	if (!region->nr_host)
		return 0;
	begin = addr - region->base;
	end = begin + use->bytes;
	while (begin < end) {
		uint64_t unit = begin / region->unit, next = (unit + 1) * region->unit;

		next = next < end ? next : end;
		if (is_host(cuda, region->mapping[unit].chunk))
			host_bytes += next - begin;
		begin = next;
	}
	*share = (double)host_bytes / (double)use->bytes;
	return 0;
}
