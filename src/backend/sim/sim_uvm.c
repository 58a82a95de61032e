/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory as the boundary names it: ranges, setup, statistics. A range is addresses of its
 * own, which have bytes where the machine's data is real. sim_uvm.h says what is modelled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"

void uvm_init(struct sim *sim)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	for (uint32_t d = 0; d < desc->nr_devices; d++) {
		sim->uvm.device[d].limit_bytes = desc->memory[desc->device[d].memory].bytes;
		sim->uvm.device[d].threshold = UVM_THRESHOLD;
	}
	sim->uvm.host_limit_bytes = desc->memory[cost_host_memory(desc)].bytes;
}

/* ------------------------------------------------------------------ ranges */

/* Index of the first range that begins beyond an address. */
static size_t range_after(const struct sim *sim, uintptr_t addr)
{
	size_t low = 0, high = sim->uvm.nr_ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((uintptr_t)sim->uvm.range[middle]->base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct uvm_range *uvm_range_at(const struct sim *sim, const void *addr)
{
	size_t at = range_after(sim, (uintptr_t)addr);
	struct uvm_range *range = at ? sim->uvm.range[at - 1] : NULL;

	return range && (uintptr_t)addr - (uintptr_t)range->base < range->bytes ? range : NULL;
}

bool uvm_holds(const struct sim *sim, const void *addr, uint64_t bytes)
{
	const struct uvm_range *range = uvm_range_at(sim, addr);

	return range && bytes <= range->bytes - ((uintptr_t)addr - (uintptr_t)range->base);
}

static uint64_t range_mapped_bytes(const struct uvm_range *range)
{
	return range->nr_blocks * UVM_BLOCK_BYTES;
}

static void range_destroy(struct uvm_range *range)
{
	if (range->base)
		munmap(range->base, range_mapped_bytes(range));
	free(range->away);
	free(range->advice);
	free(range);
}

static void range_fill(struct uvm_range *range)
{
	uint64_t nr_pages = (range->bytes + UVM_PAGE_BYTES - 1) / UVM_PAGE_BYTES;

	for (uint32_t i = 0; i < range->nr_blocks; i++) {
		uint64_t left = nr_pages - i * (uint64_t)UVM_PAGES;
		struct uvm_block *block = &range->block[i];

		block->range = range;
		block->index = i;
		block->nr_pages = left < UVM_PAGES ? (uint32_t)left : UVM_PAGES;
		block->device = UVM_NOWHERE;
		range->away[i / 64] |= UINT64_C(1) << i % 64;
	}
}

static int range_create(const struct sim *sim, uint64_t bytes, struct uvm_range **out)
{
	uint64_t nr_blocks = bytes / UVM_BLOCK_BYTES + (bytes % UVM_BLOCK_BYTES != 0);
	int prot = sim->base.data == WEIR_DATA_REAL ? PROT_READ | PROT_WRITE : PROT_NONE;
	struct uvm_range *range;
	void *base;

	/* Pages are counted in 32 bits. */
	if (nr_blocks > UINT32_MAX / UVM_PAGES)
		return -ENOMEM;
	range = calloc(1, sizeof(*range) + nr_blocks * sizeof(range->block[0]));
	if (!range)
		return -ENOMEM;
	range->bytes = bytes;
	range->nr_blocks = (uint32_t)nr_blocks;
	range->away = calloc((nr_blocks + 63) / 64, sizeof(*range->away));
	if (!range->away)
		goto err_destroy;
	base = mmap(NULL, range_mapped_bytes(range), prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		goto err_destroy;
	range->base = base;
	range_fill(range);
	*out = range;
	return 0;

err_destroy:
	range_destroy(range);
	return -ENOMEM;
}

static int range_add(struct uvm *uvm, size_t at, struct uvm_range *range)
{
	if (uvm->nr_ranges == uvm->max_ranges) {
		size_t max = uvm->max_ranges ? 2 * uvm->max_ranges : 16;
		struct uvm_range **grown = realloc(uvm->range, max * sizeof(struct uvm_range *));

		if (!grown)
			return -ENOMEM;
		uvm->range = grown;
		uvm->max_ranges = max;
	}
	memmove(&uvm->range[at + 1], &uvm->range[at],
		(uvm->nr_ranges - at) * sizeof(struct uvm_range *));
	uvm->range[at] = range;
	uvm->nr_ranges++;
	return 0;
}

void uvm_fini(struct sim *sim)
{
	for (size_t i = 0; i < sim->uvm.nr_ranges; i++)
		range_destroy(sim->uvm.range[i]);
	free(sim->uvm.range);
}

/* ------------------------------------------------------------------ services */

uint64_t uvm_service_ns(struct sim *sim, uint32_t device, const struct uvm_cost *cost,
			uint64_t parts_ns[BACKEND_TIME_NR])
{
	struct uvm_device *own = &sim->uvm.device[device];
	uint64_t begin = own->thread_ns > sim->now_ns ? own->thread_ns : sim->now_ns, ns = 0;

	for (int i = 0; i < BACKEND_TIME_NR; i++) {
		parts_ns[i] = ns_ceil(cost->ns[i]);
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

int uvm_ready(const struct sim *sim)
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
	uint64_t gpu, host = desc->memory[cost_host_memory(desc)].bytes;
	struct uvm_device *device;

	if (setup->device >= desc->nr_devices)
		return -EINVAL;
	gpu = desc->memory[desc->device[setup->device].memory].bytes;
	if (setup->gpu_bytes > gpu || setup->host_bytes > host)
		return -EINVAL;
	if (sim->uvm.nr_ranges)
		return -EBUSY;
	device = &sim->uvm.device[setup->device];
	device->limit_bytes = setup->gpu_bytes ? setup->gpu_bytes : gpu;
	device->threshold = setup->whole_blocks ? UVM_THRESHOLD_WHOLE : UVM_THRESHOLD;
	sim->uvm.host_limit_bytes = setup->host_bytes ? setup->host_bytes : host;
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
	err = uvm_could_hold(sim, bytes) ? range_create(sim, bytes, &range) : -ENOMEM;
	if (err)
		goto out_leave;
	err = range_add(&sim->uvm, range_after(sim, (uintptr_t)range->base), range);
	if (err) {
		range_destroy(range);
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
	size_t at;

	if (!addr)
		return;
	sim_enter(sim);
	if (!sim->in_progress)
		engine_drain(sim, WEIR_DEVICES_MAX);
	range = uvm_range_at(sim, addr);
	if (!range || range->base != addr) {
		log_error("sim: freeing %p: not an allocation of managed memory", addr);
		sim_leave(sim);
		return;
	}
	for (uint32_t i = 0; i < range->nr_blocks; i++)
		uvm_block_free(sim, &range->block[i]);
	ns = range_half_ns(sim, range);
	at = range_after(sim, (uintptr_t)addr) - 1;
	sim->uvm.nr_ranges--;
	memmove(&sim->uvm.range[at], &sim->uvm.range[at + 1],
		(sim->uvm.nr_ranges - at) * sizeof(struct uvm_range *));
	range_destroy(range);
	sim_spend_allocating(sim, ns);
	sim_leave(sim);
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
