/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory as the boundary names it: setup, allocations, advice, statistics, and the devices'
 * service threads. sim_uvm.h says what is modelled.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* What managed memory can have of a device's: the driver keeps the program's context there. */
static uint64_t device_limit(const struct weir_machine_desc *desc, uint32_t device)
{
	return desc->memory[desc->device[device].memory].bytes - desc->uvm.context_bytes;
}

void uvm_init(struct sim *sim)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		sim->uvm.device[d].limit_bytes = device_limit(desc, d);
		sim->uvm.device[d].threshold = UVM_THRESHOLD;
	}
	sim->uvm.host_limit_bytes = desc->memory[cost_host_memory(desc)].bytes;
}

void uvm_fini(struct sim *sim)
{
	for (size_t i = 0; i < sim->uvm.nr_ranges; i++)
		uvm_range_destroy(sim->uvm.range[i]);
	free(sim->uvm.range);
	for (uint32_t d = 0; d < WEIR_DEVICES_MAX; d++)
		uvm_far_fini(&sim->uvm.device[d].far);
}

/* ------------------------------------------------------------------ services */

uint64_t uvm_service_ns(struct sim *sim, uint32_t device, const struct uvm_cost *cost,
			uint64_t parts_ns[BACKEND_TIME_NR])
{
	struct uvm_device *own = &sim->uvm.device[device];
	uint64_t begin = MAX(own->thread_ns, sim->now_ns), ns = 0;

	for (int i = 0; i < BACKEND_TIME_NR; i++) {
		parts_ns[i] = sim_ns_ceil(cost->ns[i]);
		ns += parts_ns[i];
	}
	if (!ns)
		return 0;
	/* Waiting for the thread is waiting for what the launch needs. */
	parts_ns[BACKEND_TIME_DEMAND] += begin - sim->now_ns;
	own->thread_ns = begin + ns;
	return own->thread_ns - sim->now_ns;
}

/* ------------------------------------------------------------------ the boundary */

/* 0; -ENOSYS: it is not described what managed memory costs, logged. */
static int uvm_ready(const struct sim *sim)
{
	if (sim->base.desc.uvm.batch_faults)
		return 0;
	log_error("machine '%s' has no section \"uvm\": what managed memory costs on it is not "
		  "known; take another machine or manager",
		  sim->base.desc.name);
	return -ENOSYS;
}

static int setup_locked(struct sim *sim, const struct backend_managed *setup)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	uint64_t gpu, limit, host = desc->memory[cost_host_memory(desc)].bytes;
	struct uvm_device *device;

	if (setup->device >= desc->nr_devices)
		return -EINVAL;
	gpu = desc->memory[desc->device[setup->device].memory].bytes;
	if (setup->gpu_bytes > gpu || setup->host_bytes > host)
		return -EINVAL;
	if (sim->uvm.nr_ranges)
		return -EBUSY;
	device = &sim->uvm.device[setup->device];
	limit = device_limit(desc, setup->device);
	device->limit_bytes = setup->gpu_bytes ? MIN(setup->gpu_bytes, limit) : limit;
	device->threshold = setup->whole_blocks ? UVM_THRESHOLD_WHOLE : UVM_THRESHOLD;
	sim->uvm.host_limit_bytes = setup->host_bytes ? setup->host_bytes : host;
	sim->uvm.policy = setup->policy;
	return 0;
}

int sim_managed_setup(struct backend *b, const struct backend_managed *setup)
{
	struct sim *sim = sim_of(b);
	int err = uvm_ready(sim);

	if (err)
		return err;
	sim_enter(sim);
	err = setup_locked(sim, setup);
	sim_leave(sim);
	return err;
}

/* Half of what allocating and freeing cost together: as other memory of the first device. */
static uint64_t range_half_ns(const struct sim *sim, const struct uvm_range *range)
{
	const struct weir_device_desc *device = &sim->base.desc.device[0];

	return (device->malloc_ns + device->malloc_2mib_ns * range->nr_blocks) / 2;
}

/* Whether all memories together could hold one more range. */
static bool uvm_could_hold(const struct sim *sim, uint64_t bytes)
{
	uint64_t room = sim->uvm.host_limit_bytes, taken = 0;

	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		room += sim->uvm.device[d].limit_bytes;
	for (size_t i = 0; i < sim->uvm.nr_ranges; i++)
		taken += sim->uvm.range[i]->bytes;
	return taken <= room && bytes <= room - taken;
}

int sim_managed_alloc(struct backend *b, uint64_t bytes, void **addr)
{
	struct sim *sim = sim_of(b);
	struct uvm_range *range;
	int err = uvm_ready(sim);

	if (err)
		return err;
	if (!bytes)
		return -EINVAL;
	sim_enter(sim);
	err = uvm_could_hold(sim, bytes) ? uvm_range_create(sim, bytes, &range) : -ENOMEM;
	if (err)
		goto out_leave;
	err = uvm_note_create(sim, range);
	if (!err)
		err = uvm_range_add(&sim->uvm, range);
	if (err) {
		uvm_range_destroy(range);
		goto out_leave;
	}
	*addr = range->base;
	sim_spend_allocating(sim, range_half_ns(sim, range));
out_leave:
	sim_leave(sim);
	return err;
}

void sim_managed_free(struct backend *b, void *addr)
{
	struct sim *sim = sim_of(b);
	struct uvm_range *range;
	uint64_t ns;

	if (!addr)
		return;
	sim_enter(sim);
	if (!sim->in_progress)
		sim_engine_drain(sim, WEIR_DEVICES_MAX);
	range = uvm_range_at(sim, addr);
	if (!range || range->base != addr) {
		log_error("sim: freeing %p: not an allocation of managed memory", addr);
		sim_leave(sim);
		return;
	}
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		uvm_block_free(sim, &range->block[i]);
	ns = range_half_ns(sim, range);
	uvm_range_del(&sim->uvm, range);
	sim_spend_allocating(sim, ns);
	sim_leave(sim);
}

_Static_assert(UVM_BLOCK_BYTES == BACKEND_MANAGED_BLOCK_BYTES, "advice is of whole blocks");

static int range_advise(struct uvm_range *range)
{
	if (range->advice)
		return 0;
	range->advice = calloc(range->nr_blocks, sizeof(*range->advice));
	if (!range->advice)
		return -ENOMEM;
	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		range->advice[i].preferred = UVM_NOWHERE;
		range->away[i / 64] |= UINT64_C(1) << i % 64;
	}
	return 0;
}

/* A block's pages that a device has mapped on the host are mapped no longer. */
static uint32_t remote_clear(struct uvm_advice *advice, uint32_t device)
{
	uint32_t nr = uvm_pages_count(&advice->remote[device]);

	advice->remote[device] = (struct uvm_pages){{0}};
	return nr;
}

/* @return pages whose mappings change. */
static uint32_t block_advise(struct sim *sim, struct uvm_block *block, enum backend_advice kind,
			     uint32_t to)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	struct uvm_advice *advice = uvm_advice_of(block);
	struct uvm_pages twice = uvm_pages_and(&block->gpu, &block->host);
	uint32_t nr = 0;

	switch (kind) {
	case BACKEND_ADVICE_READ_MOSTLY:
		advice->read_mostly = true;
		for (uint32_t d = 0; d < desc->nr_devices; d++)
			nr += remote_clear(advice, d);
		break;
	case BACKEND_ADVICE_UNSET_READ_MOSTLY:
		nr = uvm_pages_count(&twice);
		uvm_leave_one(sim, block,
			      block->device == UVM_NOWHERE ||
				      advice->preferred != desc->device[block->device].memory);
		advice->read_mostly = false;
		break;
	case BACKEND_ADVICE_PREFERRED:
		advice->preferred = to;
		for (uint32_t d = 0; d < desc->nr_devices; d++)
			if (desc->device[d].memory == to)
				nr += remote_clear(advice, d);
		break;
	case BACKEND_ADVICE_UNSET_PREFERRED:
		advice->preferred = UVM_NOWHERE;
		break;
	case BACKEND_ADVICE_ACCESSED_BY:
		advice->accessed_by |= BACKEND_DEVICE_BIT(to);
		break;
	case BACKEND_ADVICE_UNSET_ACCESSED_BY:
		advice->accessed_by &= ~BACKEND_DEVICE_BIT(to);
		break;
	case BACKEND_ADVICE_NR:
		break;
	}
	return nr + uvm_map_accessed(sim, block);
}

static int advise_locked(struct sim *sim, void *addr, uint64_t bytes, enum backend_advice advice,
			 uint32_t to)
{
	struct uvm_range *range = uvm_range_at(sim, addr);
	uint64_t offset, last, nr = 0;
	int err;

	if (!range)
		return -EINVAL;
	offset = (uint64_t)((const char *)addr - range->base);
	err = backend_advice_check(&sim->base, advice, to, offset, bytes, range->bytes);
	if (!err)
		err = range_advise(range);
	if (err)
		return err;
	last = (offset + bytes - 1) / UVM_BLOCK_BYTES;
	for (uint64_t i = offset / UVM_BLOCK_BYTES; i <= last; i++)
		nr += block_advise(sim, &range->block[i], advice, to);
	sim_spend(sim, nr * sim->base.desc.uvm.page_ns);
	return 0;
}

int sim_managed_advise(struct backend *b, void *addr, uint64_t bytes, enum backend_advice advice,
		       uint32_t to)
{
	struct sim *sim = sim_of(b);
	int err = uvm_ready(sim);

	if (err)
		return err;
	sim_enter(sim);
	err = advise_locked(sim, addr, bytes, advice, to);
	sim_leave(sim);
	return err;
}

int sim_managed_stats(struct backend *b, uint32_t device, struct backend_managed_stats *out)
{
	struct sim *sim = sim_of(b);

	if (!b->desc.uvm.batch_faults)
		return -ENOSYS;
	if (device >= b->desc.nr_devices)
		return -EINVAL;
	sim_enter(sim);
	*out = sim->uvm.device[device].stats;
	sim_leave(sim);
	return 0;
}
