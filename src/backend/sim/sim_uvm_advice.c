/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has been advised of managed memory: what it means for the pages of a block, and which are
 * mapped on the host. A range has a place for advice from the first one on; before, and without,
 * nothing here is looked at. Read mostly goes before the preferred memory, that before who
 * accesses; none unsays another.
 */

#include "src/backend/sim/sim_internal.h"

#include "src/base/util.h"

struct uvm_advice *uvm_advice_of(const struct uvm_block *block)
{
	return block->range->advice ? &block->range->advice[block->index] : NULL;
}

bool uvm_duplicates(const struct uvm_block *block)
{
	const struct uvm_advice *advice = uvm_advice_of(block);

	return advice && advice->read_mostly;
}

/* ------------------------------------------------------------------ where a page is used */

struct uvm_pages uvm_usable(const struct uvm_block *block, uint32_t device, bool write)
{
	const struct uvm_advice *advice = uvm_advice_of(block);
	struct uvm_pages pages = {{0}};

	if (block->device == device)
		pages = block->gpu;
	if (!advice)
		return pages;
	/* Of two copies both may be read only. */
	if (write)
		pages = uvm_pages_without(&pages, &block->host);
	return uvm_pages_or(&pages, &advice->remote[device]);
}

struct uvm_pages uvm_in_place(const struct sim *sim, const struct uvm_block *block, uint32_t device)
{
	const struct weir_machine_desc *desc = &sim->base.desc;
	const struct uvm_advice *advice = uvm_advice_of(block);
	struct uvm_pages pages = {{0}};

	if (!advice || advice->read_mostly)
		return pages;
	if (advice->preferred == cost_host_memory(desc)) {
		pages = uvm_pages_range(0, block->nr_pages);
		if (block->device == device)
			pages = uvm_pages_without(&pages, &block->gpu);
	} else if (advice->preferred != desc->device[device].memory &&
		   advice->accessed_by & BACKEND_DEVICE_BIT(device)) {
		pages = block->host;
	}
	/* Mappings outlive the advice that made them. */
	return uvm_pages_or(&pages, &advice->remote[device]);
}

uint64_t uvm_in_place_bytes(const struct sim *sim, uint32_t device, const struct weir_use *use)
{
	const struct uvm_range *range = uvm_range_at(sim, use->addr);
	uint64_t begin = (uint64_t)((const char *)use->addr - range->base);
	uint64_t first = begin / UVM_PAGE_BYTES, last = (begin + use->bytes - 1) / UVM_PAGE_BYTES;
	uint64_t bytes = 0;

	for (uint64_t i = first / UVM_PAGES; range->advice && i <= last / UVM_PAGES; i++) {
		struct uvm_pages there = uvm_in_place(sim, &range->block[i], device);
		uint32_t from = i == first / UVM_PAGES ? (uint32_t)(first % UVM_PAGES) : 0;
		uint32_t to = i == last / UVM_PAGES ? (uint32_t)(last % UVM_PAGES) : UVM_PAGES - 1;
		struct uvm_pages of_use = uvm_pages_range(from, to - from + 1);

		there = uvm_pages_and(&there, &of_use);
		bytes += uvm_pages_count(&there) * UVM_PAGE_BYTES;
	}
	return MIN(bytes, use->bytes);
}

uint32_t uvm_threshold(const struct sim *sim, const struct uvm_block *block, uint32_t device)
{
	const struct uvm_advice *advice = uvm_advice_of(block);
	uint32_t threshold = sim->uvm.device[device].threshold;

	if (!advice || advice->preferred == UVM_NOWHERE)
		return threshold;
	/* More than the page comes only to where it is preferred. */
	if (advice->preferred != sim->base.desc.device[device].memory)
		return UVM_THRESHOLD_PAGE;
	return uvm_pages_count(&block->gpu) || uvm_pages_count(&block->host) ? threshold
									     : UVM_THRESHOLD_WHOLE;
}

/* ------------------------------------------------------------------ mappings */

uint32_t uvm_map_accessed(const struct sim *sim, struct uvm_block *block)
{
	struct uvm_advice *advice = uvm_advice_of(block);
	struct uvm_pages alone, more;
	uint32_t nr = 0;

	if (!advice || advice->read_mostly)
		return 0;
	alone = uvm_pages_without(&block->host, &block->gpu);
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++) {
		if (!(advice->accessed_by & BACKEND_DEVICE_BIT(d)) ||
		    advice->preferred == sim->base.desc.device[d].memory)
			continue;
		more = uvm_pages_without(&alone, &advice->remote[d]);
		nr += uvm_pages_count(&more);
		advice->remote[d] = alone;
	}
	return nr;
}

void uvm_unmap(struct uvm_block *block, const struct uvm_pages *pages)
{
	struct uvm_advice *advice = uvm_advice_of(block);

	for (uint32_t d = 0; advice && d < WEIR_DEVICES_MAX; d++)
		advice->remote[d] = uvm_pages_without(&advice->remote[d], pages);
}
