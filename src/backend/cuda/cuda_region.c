/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of addresses, and what an address is: a mapping's, a plain allocation's, or none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/backend/cuda/cuda_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* Index of the first region above addr. */
static uint32_t region_upper(const struct cuda *cuda, cu_ptr addr)
{
	uint32_t at;

	SEARCH_SORTED(at, 0, cuda->nr_regions, cuda->region[at]->base <= addr);
	return at;
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
	err = cuda_error(driver, driver->mem_reserve(&region->base, bytes, lowest_bit(unit), 0, 0),
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

enum backend_prot cuda_unit_allowed(const struct cuda *cuda, const struct cuda_region *region,
				    const struct cuda_mapping *mapping)
{
	enum backend_prot most = mapping->writers   ? BACKEND_PROT_WRITE
				 : mapping->readers ? BACKEND_PROT_READ
						    : BACKEND_PROT_NONE;

	return !cuda->debug || !region->guarded || most > mapping->prot ? mapping->prot : most;
}

/* ------------------------------------------------------------------ what an address is */

int cuda_resolve(const struct cuda *cuda, cu_ptr addr, uint64_t bytes, struct cuda_place *out)
{
	const struct cuda_region *region = cuda_region_at(cuda, addr);
	const struct cuda_mapping *mapping;
	uint64_t offset;

	if (!region) {
		const struct cuda_plain *plain = cuda_plain_at(cuda, addr, bytes);
		const struct cuda_chunk *chunk = plain ? NULL : cuda_chunk_at(cuda, addr, bytes);

		if (!plain && !chunk)
			return -EINVAL;
		*out = (struct cuda_place){addr, bytes,
					   plain ? plain->kind == CUDA_PLAIN_HOST
						 : cuda_chunk_is_host(cuda, chunk)};
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
		.host = cuda_chunk_is_host(cuda, mapping->chunk),
	};
	return 0;
}

int cuda_use_away(const struct cuda *cuda, const struct weir_use *use, uint32_t own,
		  uint64_t bytes[WEIR_MEMORIES_MAX])
{
	cu_ptr addr = (cu_ptr)(uintptr_t)use->addr;
	const struct cuda_region *region = cuda_region_at(cuda, addr);
	uint64_t begin, end;

	memset(bytes, 0, WEIR_MEMORIES_MAX * sizeof(bytes[0]));
	if (!region) {
		const struct cuda_plain *plain = cuda_plain_at(cuda, addr, use->bytes);

		if (!plain)
			return -EINVAL;
		if (plain->kind == CUDA_PLAIN_HOST)
			bytes[plain->memory] = use->bytes;
		return 0;
	}
	if (!use->bytes || use->bytes > region->bytes - (addr - region->base))
		return -EINVAL;
	begin = addr - region->base;
	end = begin + use->bytes;
	while (begin < end && region->nr_mapped > region->nr_in[own]) {
		uint64_t unit = begin / region->unit, next = (unit + 1) * region->unit;
		const struct cuda_chunk *chunk = region->mapping[unit].chunk;

		next = MIN(next, end);
		if (chunk && chunk->memory != own)
			bytes[chunk->memory] += next - begin;
		begin = next;
	}
	return 0;
}
