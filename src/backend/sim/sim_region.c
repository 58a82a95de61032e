/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations and the mappings in them. With real bytes a mapping is the chunk's part of its
 * memory's file, mapped a second time; outside kernels the CPU reaches it only where the mapping
 * says so or the reservation is not guarded. One function changes a mapping, sim_mapping_set(), and
 * keeps the counts in step.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Index of the first region that begins beyond an address. */
static size_t region_after(const struct sim *sim, uintptr_t addr)
{
	size_t at;

	SEARCH_SORTED(at, 0, sim->nr_regions, (uintptr_t)sim->region[at]->base <= addr);
	return at;
}

struct sim_region *sim_region_at(struct sim *sim, const void *addr)
{
	size_t at = region_after(sim, (uintptr_t)addr);
	struct sim_region *region;

	if (!at)
		return NULL;
	region = sim->region[at - 1];
	return (uintptr_t)addr - (uintptr_t)region->base < region->bytes ? region : NULL;
}

/* ------------------------------------------------------------------ mappings */

static void group_count_access(struct sim_group *group, const struct sim_mapping *mapping, int sign)
{
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++) {
		if (!(mapping->devices & BACKEND_DEVICE_BIT(d)) ||
		    mapping->prot == BACKEND_PROT_NONE)
			continue;
		group->readable[d] = (uint8_t)(group->readable[d] + sign);
		if (mapping->prot == BACKEND_PROT_WRITE)
			group->writable[d] = (uint8_t)(group->writable[d] + sign);
	}
}

static void place_count(const struct sim_piece *piece, const struct sim_place *place, int sign)
{
	struct sim_group *group = &place->region->group[place->unit / SIM_GROUP];

	if (piece->writes.first || piece->reads.first)
		group->moving = (uint8_t)(group->moving + sign);
}

void sim_region_piece_count(struct sim_piece *piece, int sign)
{
	for (uint32_t i = 0; i < piece->nr_places; i++)
		place_count(piece, sim_piece_place(piece, i), sign);
}

static void mapping_count(struct sim_region *region, uint64_t unit, int sign)
{
	const struct sim_mapping *mapping = &region->mapping[unit];
	struct sim_group *group = &region->group[unit / SIM_GROUP];

	if (!mapping->piece)
		return;
	group->in_memory[mapping->piece->memory] =
		(uint8_t)(group->in_memory[mapping->piece->memory] + sign);
	group_count_access(group, mapping, sign);
	place_count(mapping->piece, &(struct sim_place){region, unit}, sign);
	region->nr_mapped += (uint64_t)(int64_t)sign;
	if (mapping->devices & BACKEND_HOST_BIT)
		region->nr_host += (uint64_t)(int64_t)sign;
}

static void piece_leave(struct sim_piece *piece, const struct sim_region *region, uint64_t unit)
{
	struct sim_place *place = sim_piece_place(piece, 0);

	for (uint32_t i = 1; place->region != region || place->unit != unit; i++)
		place = sim_piece_place(piece, i);
	*place = *sim_piece_place(piece, --piece->nr_places);
}

static void piece_enter(struct sim_piece *piece, struct sim_region *region, uint64_t unit)
{
	*sim_piece_place(piece, piece->nr_places++) = (struct sim_place){region, unit};
}

int sim_piece_make_room(struct sim_piece *piece)
{
	if (piece->nr_places == BACKEND_PLACES_MAX)
		return -EINVAL;
	if (piece->nr_places < SIM_PLACES_FEW || piece->more)
		return 0;
	piece->more = malloc((BACKEND_PLACES_MAX - SIM_PLACES_FEW) * sizeof(*piece->more));
	return piece->more ? 0 : -ENOMEM;
}

void sim_mapping_set(struct sim_region *region, uint64_t unit, struct sim_mapping mapping)
{
	struct sim_mapping *now = &region->mapping[unit];

	mapping_count(region, unit, -1);
	if (now->piece)
		piece_leave(now->piece, region, unit);
	*now = mapping;
	if (mapping.piece)
		piece_enter(mapping.piece, region, unit);
	mapping_count(region, unit, 1);
}

int sim_region_cpu_prot(const struct sim_region *region, const struct sim_mapping *mapping)
{
	bool open = mapping->devices & BACKEND_HOST_BIT || (!region->guarded && mapping->devices);

	if (!mapping->piece || !open || mapping->prot == BACKEND_PROT_NONE)
		return PROT_NONE;
	return mapping->prot == BACKEND_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

bool sim_pages_replace(char *addr, uint64_t bytes, int prot, int fd, uint64_t offset)
{
	int flags = fd >= 0 ? MAP_SHARED | MAP_NORESERVE : RESERVE_FLAGS;
	void *got = mmap(addr, bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	bool replaced = got != MAP_FAILED;

	/* No leak: the pages are the reservation's, and go with it. */
	/* cppcheck-suppress memleak */
	return replaced;
}

int sim_unit_place(struct sim *sim, const struct sim_region *region, uint64_t unit,
		   const struct sim_mapping *mapping)
{
	const struct sim_piece *piece = mapping->piece;
	int fd = piece ? sim->memory[piece->memory].fd : -1;

	if (sim->base.data != WEIR_DATA_REAL)
		return 0;
	if (!sim_pages_replace(region->base + unit * region->unit, region->unit,
			       sim_region_cpu_prot(region, mapping), fd, piece ? piece->offset : 0))
		return -ENOMEM;
	return 0;
}

int sim_region_remap(struct sim *sim, struct sim_region *region, uint64_t unit)
{
	return sim_unit_place(sim, region, unit, &region->mapping[unit]);
}

/* ------------------------------------------------------------------ reservations */

/* Addresses aligned to unit, a power of two or not. */
static char *addresses_reserve(uint64_t bytes, uint64_t unit)
{
	char *all = mmap(NULL, bytes + unit, PROT_NONE, RESERVE_FLAGS, -1, 0), *begin;

	if (all == MAP_FAILED)
		return NULL;
	begin = all + (unit - (uintptr_t)all % unit) % unit;
	/* Give back what lies before and behind. */
	if (begin > all)
		munmap(all, (size_t)(begin - all));
	munmap(begin + bytes, (size_t)(all + unit - begin));
	return begin;
}

void sim_region_free(struct sim_region *region)
{
	if (region->base)
		munmap(region->base, region->bytes);
	free(region->mapping);
	free(region->group);
	free(region);
}

static int region_create(uint64_t bytes, uint64_t unit, struct sim_region **out)
{
	struct sim_region *region = calloc(1, sizeof(*region));

	if (!region)
		return -ENOMEM;
	region->bytes = bytes;
	region->unit = unit;
	region->nr_units = bytes / unit;
	region->mapping = calloc(region->nr_units, sizeof(*region->mapping));
	region->group = calloc(div_round_up(region->nr_units, SIM_GROUP), sizeof(*region->group));
	if (!region->mapping || !region->group)
		goto err_free;
	region->base = addresses_reserve(bytes, unit);
	if (!region->base)
		goto err_free;
	*out = region;
	return 0;

err_free:
	sim_region_free(region);
	return -ENOMEM;
}

static int region_add(struct sim *sim, struct sim_region *region)
{
	size_t at = region_after(sim, (uintptr_t)region->base);

	if (sim->nr_regions == sim->max_regions) {
		size_t max = sim->max_regions ? 2 * sim->max_regions : 16;
		struct sim_region **grown = realloc(sim->region, max * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		sim->region = grown;
		sim->max_regions = max;
	}
	memmove(&sim->region[at + 1], &sim->region[at],
		(sim->nr_regions - at) * sizeof(struct sim_region *));
	sim->region[at] = region;
	sim->nr_regions++;
	return 0;
}

int sim_va_reserve(struct backend *b, uint64_t bytes, uint64_t unit, void **addr)
{
	struct sim *sim = sim_of(b);
	struct sim_region *region;
	int err;

	if (!unit || unit % b->desc.vmm.granularity_bytes || !bytes || bytes % unit)
		return -EINVAL;
	if (bytes > SIZE_MAX - unit)
		return -ENOMEM;
	err = region_create(bytes, unit, &region);
	if (err)
		return err;
	sim_enter(sim);
	err = region_add(sim, region);
	sim_leave(sim);
	if (err)
		sim_region_free(region);
	else
		*addr = region->base;
	return err;
}

void sim_va_release(struct backend *b, void *addr, uint64_t bytes)
{
	struct sim *sim = sim_of(b);
	struct sim_region *region;
	size_t at;

	sim_enter(sim);
	region = sim_region_at(sim, addr);
	if (!region || region->base != addr || region->bytes != bytes || region->nr_mapped) {
		log_error("sim: release of %p: not a reservation of %llu bytes, or not empty", addr,
			  (unsigned long long)bytes);
		sim_leave(sim);
		return;
	}
	at = region_after(sim, (uintptr_t)addr) - 1;
	sim->nr_regions--;
	memmove(&sim->region[at], &sim->region[at + 1],
		(sim->nr_regions - at) * sizeof(struct sim_region *));
	sim_region_free(region);
	sim_leave(sim);
}

static int guard_locked(struct sim *sim, void *reservation, bool guarded)
{
	struct sim_region *region = sim_region_at(sim, reservation);
	int err = 0;

	if (!region || region->base != reservation)
		return -EINVAL;
	if (region->guarded == guarded)
		return 0;
	region->guarded = guarded;
	if (sim->base.data != WEIR_DATA_REAL)
		return 0;
	for (uint64_t i = 0; !err && i < region->nr_units; i++)
		if (region->mapping[i].piece &&
		    mprotect(region->base + i * region->unit, region->unit,
			     sim_region_cpu_prot(region, &region->mapping[i])))
			err = -ENOMEM;
	if (!err)
		return 0;
	/* Splitting a host mapping failed: join what was split. */
	region->guarded = !guarded;
	for (uint64_t i = 0; i < region->nr_units; i++)
		if (region->mapping[i].piece)
			(void)mprotect(region->base + i * region->unit, region->unit,
				       sim_region_cpu_prot(region, &region->mapping[i]));
	return err;
}

int sim_access_guard(struct backend *b, void *reservation, bool guarded)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = guard_locked(sim, reservation, guarded);
	sim_leave(sim);
	return err;
}
