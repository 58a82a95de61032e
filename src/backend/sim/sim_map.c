/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping, unmapping and change of access as the boundary names them: what is allowed, what it
 * costs, and the kernels that run into it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"

/* The unit that begins at an address; false: none does. */
static bool unit_at(struct sim *sim, const void *addr, struct sim_region **region, uint64_t *unit)
{
	struct sim_region *found = sim_region_at(sim, addr);
	uint64_t offset;

	if (!found)
		return false;
	offset = (uintptr_t)addr - (uintptr_t)found->base;
	if (offset % found->unit)
		return false;
	*region = found;
	*unit = offset / found->unit;
	return true;
}

/* Whether a memory's chunks can be mapped so: every device reaches it, the CPU only the host's. */
static bool access_valid(const struct sim *sim, uint32_t memory, enum backend_prot prot,
			 uint64_t devices)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	if (prot != BACKEND_PROT_NONE && prot != BACKEND_PROT_READ && prot != BACKEND_PROT_WRITE)
		return false;
	if (devices & BACKEND_HOST_BIT && desc->memory[memory].kind != WEIR_MEMORY_HOST)
		return false;
	devices &= ~BACKEND_HOST_BIT;
	if (devices >> desc->nr_devices)
		return false;
	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (devices & BACKEND_DEVICE_BIT(d) && desc->device[d].memory != memory &&
		    cost_link_find(desc, memory, desc->device[d].memory) < 0)
			return false;
	return true;
}

/* What host memory adds to a call that changes how a piece is mapped; each_ns: per MiB. */
static uint64_t host_pages_ns(const struct sim *sim, const struct sim_piece *piece,
			      uint64_t each_ns)
{
	if (sim->base.desc.memory[piece->memory].kind != WEIR_MEMORY_HOST)
		return 0;
	return (uint64_t)((double)piece->bytes / (1 << 20) * (double)each_ns);
}

uint64_t sim_access_more_ns(const struct sim *sim, const struct sim_piece *piece, uint32_t nr)
{
	const struct weir_vmm_desc *vmm = &sim->base.desc.vmm;

	if (nr < 2)
		return 0;
	return (nr - 1) *
	       (vmm->set_access_device_ns + host_pages_ns(sim, piece, vmm->set_access_host_mib_ns));
}

/* Whether copies go to the host's memory, or kernels read there. */
static bool host_busy(const struct sim *sim)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++)
		if (desc->memory[desc->link[l].a].kind == WEIR_MEMORY_HOST &&
		    (sim_flow_kind_runs(sim, l, 1, SIM_FLOW_COPY) ||
		     sim_flow_kind_runs(sim, l, 0, SIM_FLOW_READ)))
			return true;
	return false;
}

static bool is_memory_of(const struct sim *sim, uint32_t memory, uint64_t devices)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++)
		if (devices & BACKEND_DEVICE_BIT(d) && desc->device[d].memory == memory)
			return true;
	return false;
}

/* Whether copies come from the host to one of some devices. */
static bool copies_come(const struct sim *sim, uint64_t devices)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++) {
		const struct weir_link_desc *link = &desc->link[l];

		if (desc->memory[link->a].kind == WEIR_MEMORY_HOST &&
		    is_memory_of(sim, link->b, devices) && sim_copy_runs(sim, link->a, link->b))
			return true;
	}
	return false;
}

/* Whether copies go between one of some devices and another device. */
static bool copies_between(const struct sim *sim, uint64_t devices)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t l = 0; l < desc->nr_links; l++) {
		const struct weir_link_desc *link = &desc->link[l];

		if (desc->memory[link->a].kind != WEIR_MEMORY_HOST &&
		    (is_memory_of(sim, link->a, devices) || is_memory_of(sim, link->b, devices)) &&
		    (sim_copy_runs(sim, link->a, link->b) || sim_copy_runs(sim, link->b, link->a)))
			return true;
	}
	return false;
}

/* What giving access to devices takes longer for what runs beside it. */
static uint64_t access_busy_ns(const struct sim *sim, uint64_t devices)
{
	const struct weir_vmm_desc *vmm = &sim->base.desc.vmm;
	bool in = vmm->set_access_busy_in_ns && copies_come(sim, devices);

	return MAX(host_busy(sim) ? vmm->set_access_busy_ns : 0,
		   in ? vmm->set_access_busy_in_ns : 0);
}

/* The CPU alone takes what one device does. */
static uint64_t access_ns(const struct sim *sim, const struct sim_piece *piece, uint64_t devices)
{
	const struct weir_vmm_desc *vmm = &sim->base.desc.vmm;
	uint32_t nr = (uint32_t)__builtin_popcountll(devices & ~BACKEND_HOST_BIT);

	if (!devices)
		return 0;
	return vmm->set_access_ns + access_busy_ns(sim, devices) +
	       host_pages_ns(sim, piece, vmm->set_access_host_mib_ns) +
	       sim_access_more_ns(sim, piece, nr);
}

static int add_devices_locked(struct sim *sim, const struct backend_chunk *chunk, uint64_t devices)
{
	struct sim_piece *piece = sim_memory_chunk(sim, chunk);

	if (!piece || !devices || backend_chunk_devices(&sim->base, piece->memory, &devices))
		return -EINVAL;
	devices &= ~piece->devices;
	piece->devices |= devices;
	if (devices)
		sim_spend_driver(sim, access_ns(sim, piece, devices));
	return 0;
}

int sim_chunk_add_devices(struct backend *b, const struct backend_chunk *chunk, uint64_t devices)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = add_devices_locked(sim, chunk, devices);
	sim_leave(sim);
	return err;
}

static int map_locked(struct sim *sim, void *addr, const struct backend_chunk *chunk,
		      enum backend_prot prot, uint64_t devices)
{
	struct sim_mapping mapping = {.devices = devices, .prot = prot};
	struct sim_region *region;
	uint64_t unit;
	int err;

	mapping.piece = sim_memory_chunk(sim, chunk);
	if (!mapping.piece || !unit_at(sim, addr, &region, &unit) || region->mapping[unit].piece ||
	    mapping.piece->bytes != region->unit ||
	    !access_valid(sim, mapping.piece->memory, prot, devices))
		return -EINVAL;
	err = sim_piece_make_room(mapping.piece);
	if (!err)
		err = sim_unit_place(sim, region, unit, &mapping);
	if (err)
		return err;
	mapping.seen_write = sim->last_write;
	sim_mapping_set(region, unit, mapping);
	sim_spend_driver(sim, sim->base.desc.vmm.map_ns + access_ns(sim, mapping.piece, devices));
	return 0;
}

int sim_map(struct backend *b, void *addr, const struct backend_chunk *chunk,
	    enum backend_prot prot, uint64_t devices)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = map_locked(sim, addr, chunk, prot, devices);
	sim_leave(sim);
	return err;
}

static int unmap_locked(struct sim *sim, void *addr)
{
	const struct weir_vmm_desc *vmm = &sim->base.desc.vmm;
	struct sim_mapping nothing = {0};
	struct sim_region *region;
	uint64_t unit, cost_ns;
	int err;

	if (!unit_at(sim, addr, &region, &unit) || !region->mapping[unit].piece)
		return -EINVAL;
	err = sim_unit_place(sim, region, unit, &nothing);
	if (err)
		return err;
	sim_kernels_check_access(sim, region, unit, BACKEND_PROT_NONE, 0);
	cost_ns = vmm->unmap_ns +
		  host_pages_ns(sim, region->mapping[unit].piece, vmm->unmap_host_mib_ns);
	if (vmm->unmap_busy_peer_ns && copies_between(sim, region->mapping[unit].devices))
		cost_ns += vmm->unmap_busy_peer_ns;
	(void)sim_content(sim, region->mapping[unit].piece);
	sim_mapping_set(region, unit, nothing);
	sim_spend_driver(sim, cost_ns);
	return 0;
}

int sim_unmap(struct backend *b, void *addr)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = unmap_locked(sim, addr);
	sim_leave(sim);
	return err;
}

static int set_access_locked(struct sim *sim, void *addr, enum backend_prot prot, uint64_t devices)
{
	struct sim_region *region;
	struct sim_mapping mapping;
	uint64_t unit;

	if (!unit_at(sim, addr, &region, &unit) || !region->mapping[unit].piece)
		return -EINVAL;
	mapping = region->mapping[unit];
	mapping.prot = prot;
	mapping.devices = devices;
	if (!access_valid(sim, mapping.piece->memory, prot, devices))
		return -EINVAL;
	if (sim->base.data == WEIR_DATA_REAL &&
	    mprotect(addr, region->unit, sim_region_cpu_prot(region, &mapping)))
		return -ENOMEM;
	sim_kernels_check_access(sim, region, unit, prot, devices);
	sim_mapping_set(region, unit, mapping);
	sim_spend_driver(sim, access_ns(sim, mapping.piece, devices));
	return 0;
}

int sim_set_access(struct backend *b, void *addr, enum backend_prot prot, uint64_t devices)
{
	struct sim *sim = sim_of(b);
	int err;

	sim_enter(sim);
	err = set_access_locked(sim, addr, prot, devices);
	sim_leave(sim);
	return err;
}
