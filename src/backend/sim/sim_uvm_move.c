/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of managed memory on their way: chunks, faults, evictions, prefetches, and what each costs
 * the device's service thread. Without a policy a chunk that came in last is evicted last, and use
 * changes nothing. What is evicted goes to the host, to pages that it keeps until it is freed.
 */
#include <errno.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/log.h"
#include "src/base/util.h"

/* ------------------------------------------------------------------ lists, states */

static void list_remove(struct uvm_device *device, struct uvm_block *block)
{
	uvm_far_del(device, block);
	*(block->older ? &block->older->newer : &device->oldest) = block->newer;
	*(block->newer ? &block->newer->older : &device->newest) = block->older;
}

static void list_append(struct sim *sim, uint32_t index, struct uvm_block *block)
{
	struct uvm_device *device = &sim->uvm.device[index];

	block->older = device->newest;
	block->newer = NULL;
	*(device->newest ? &device->newest->newer : &device->oldest) = block;
	device->newest = block;
	uvm_far_add(sim, index, block);
}

/* Set which of a block's pages are on its device, and the range's note of whether that is all that
 * there is to look at. */
static void block_set_gpu(struct uvm_block *block, const struct uvm_pages *gpu)
{
	uint64_t *word = &block->range->away[block->index / 64];
	uint64_t bit = UINT64_C(1) << block->index % 64;
	uint32_t nr = uvm_pages_count(gpu);

	block->gpu = *gpu;
	if (block->range->note)
		block->range->note->block[block->index].nr_pages = nr;
	if (nr < block->nr_pages || block->range->advice)
		*word |= bit;
	else
		*word &= ~bit;
}

static uint32_t device_memory(const struct sim *sim, uint32_t device)
{
	return sim->base.desc.device[device].memory;
}

/* ------------------------------------------------------------------ costs */

static const struct weir_link_desc *host_link(const struct sim *sim, uint32_t device)
{
	const struct weir_machine_desc *desc = &sim->base.desc;

	return &desc->link[cost_link_find(desc, cost_host_memory(desc),
					  device_memory(sim, device))];
}

/* One more block that is serviced: in a batch beside its first, or to be evicted. */
static double block_ns(const struct sim *sim)
{
	return UVM_BLOCK_SHARE * (double)sim->base.desc.uvm.batch_ns;
}

/* Bytes over the link between a device and the host, without the copy's own latency. */
static double copy_ns(const struct sim *sim, uint32_t device, uint32_t nr_pages, bool to_host)
{
	const struct weir_link_desc *link = host_link(sim, device);
	uint32_t from = to_host ? device_memory(sim, device) : cost_host_memory(&sim->base.desc);

	return (double)link->copy_ns +
	       (double)nr_pages * (double)UVM_PAGE_BYTES * 1e9 / cost_copy_bytes_per_s(link, from);
}

/* ------------------------------------------------------------------ host pages */

/* Back a block's pages with pages of the host. */
static int host_back(struct sim *sim, struct uvm_block *block, const struct uvm_pages *pages,
		     uint32_t *nr_new)
{
	uint32_t memory = cost_host_memory(&sim->base.desc);
	struct uvm_pages more = uvm_pages_without(pages, &block->backed);
	uint64_t bytes = uvm_pages_count(&more) * UVM_PAGE_BYTES;
	struct uvm *uvm = &sim->uvm;

	if (bytes > uvm->host_limit_bytes - uvm->host_bytes ||
	    bytes > sim->base.desc.memory[memory].bytes - sim->memory[memory].used_bytes) {
		log_error("sim: memory '%s' is full: there is no room for managed memory to be "
			  "evicted to",
			  sim->base.desc.memory[memory].name);
		return -ENOMEM;
	}
	uvm->host_bytes += bytes;
	sim->memory[memory].used_bytes += bytes;
	for (uint32_t d = 0; d < sim->base.desc.nr_devices; d++)
		if (uvm->device[d].stats.host_peak_bytes < uvm->host_bytes)
			uvm->device[d].stats.host_peak_bytes = uvm->host_bytes;
	block->backed = uvm_pages_or(&block->backed, pages);
	*nr_new = uvm_pages_count(&more);
	return 0;
}

/* ------------------------------------------------------------------ chunks */

/* What a block takes of a device's memory: 2 MiB, or where it is shorter, pieces of 64 KiB. */
static uint64_t chunk_bytes(const struct uvm_block *block)
{
	uint32_t nr = (block->nr_pages + UVM_GROUP_PAGES - 1) / UVM_GROUP_PAGES;

	return nr * (UVM_GROUP_PAGES * UVM_PAGE_BYTES);
}

static void chunk_put(struct sim *sim, struct uvm_block *block)
{
	struct uvm_device *device = &sim->uvm.device[block->device];

	list_remove(device, block);
	device->chunk_bytes -= chunk_bytes(block);
	sim->memory[device_memory(sim, block->device)].used_bytes -= chunk_bytes(block);
	block->device = UVM_NOWHERE;
}

/* Have all that a block has on its device on the host too: what is there already is not copied. */
static int block_copy_out(struct sim *sim, struct uvm_block *block, enum weir_cause cause,
			  struct uvm_cost *cost)
{
	const struct weir_uvm_desc *desc = &sim->base.desc.uvm;
	struct uvm_pages moved = uvm_pages_without(&block->gpu, &block->host);
	uint32_t nr = uvm_pages_count(&moved), nr_new = 0, device = block->device;
	int err;

	if (!nr)
		return 0;
	err = host_back(sim, block, &moved, &nr_new);
	if (err)
		return err;
	sim->uvm.device[device].stats.bytes[BACKEND_TO_HOST][cause] += nr * UVM_PAGE_BYTES;
	cost->ns[BACKEND_TIME_EVICTION] +=
		(double)nr * (double)desc->page_ns + (double)nr_new * (double)desc->host_page_ns +
		(double)host_link(sim, device)->latency_ns + copy_ns(sim, device, nr, true);
	block->host = uvm_pages_or(&block->host, &block->gpu);
	return 0;
}

/* Move what a block has on its device to the host. */
static int block_evict(struct sim *sim, struct uvm_block *block, enum weir_cause cause,
		       struct uvm_cost *cost)
{
	struct uvm_pages twice = uvm_pages_and(&block->gpu, &block->host);
	const struct uvm_pages none = {{0}};
	int err = block_copy_out(sim, block, cause, cost);

	if (err)
		return err;
	cost->ns[BACKEND_TIME_EVICTION] +=
		(cause == WEIR_CAUSE_PREFETCH ? 0 : block_ns(sim)) +
		(double)uvm_pages_count(&twice) * (double)sim->base.desc.uvm.page_ns;
	block_set_gpu(block, &none);
	chunk_put(sim, block);
	uvm_note_left(sim, block, cause);
	/* The driver maps later and beside everything else: nobody waits for that. */
	(void)uvm_map_accessed(sim, block);
	return 0;
}

/* Whether so many more bytes of managed memory fit a device, beside the program's context. */
static bool room_for(const struct sim *sim, uint32_t device, uint64_t bytes)
{
	const struct uvm_device *own = &sim->uvm.device[device];
	uint32_t memory = device_memory(sim, device);

	return bytes <= own->limit_bytes - own->chunk_bytes &&
	       bytes + sim->base.desc.uvm.context_bytes <=
		       sim->base.desc.memory[memory].bytes - sim->memory[memory].used_bytes;
}

/* Give a block a chunk on a device; others make room. Its contents are not there yet. -ENOSPC: only
 * the device's held block could. */
static int chunk_get(struct sim *sim, uint32_t device, struct uvm_block *block,
		     struct uvm_cost *cost)
{
	struct uvm_device *own = &sim->uvm.device[device];
	int err;

	while (!room_for(sim, device, chunk_bytes(block))) {
		struct uvm_block *victim = uvm_ask_victim(sim, device);

		if (!victim && own->held)
			return -ENOSPC;
		if (!victim) {
			log_error("sim: memory '%s' has no room for a block of managed memory",
				  sim->base.desc.memory[device_memory(sim, device)].name);
			return -ENOMEM;
		}
		err = block_evict(sim, victim, WEIR_CAUSE_EVICTION, cost);
		if (err)
			return err;
	}
	block->device = device;
	list_append(sim, device, block);
	own->chunk_bytes += chunk_bytes(block);
	sim->memory[device_memory(sim, device)].used_bytes += chunk_bytes(block);
	if (own->stats.gpu_peak_bytes < own->chunk_bytes)
		own->stats.gpu_peak_bytes = own->chunk_bytes;
	return 0;
}

/*
 * Have a block's chunk on a device, as its newest one. What it has on another device goes by way of
 * the host. cause: why it comes, for a policy; nr_new: chunks that it took.
 */
static int block_attach(struct sim *sim, uint32_t device, struct uvm_block *block,
			enum weir_cause cause, struct uvm_cost *cost, uint32_t *nr_new)
{
	struct uvm_device *own = &sim->uvm.device[device];
	int err;

	*nr_new = block->device != device;
	if (block->device == device) {
		list_remove(own, block);
		list_append(sim, device, block);
		uvm_note_came(sim, block, false, cause);
		return 0;
	}
	if (block->device != UVM_NOWHERE) {
		err = block_evict(sim, block, WEIR_CAUSE_DEMAND, cost);
		if (err)
			return err;
	}
	err = chunk_get(sim, device, block, cost);
	if (err)
		return err;
	if (!uvm_pages_count(&block->host))
		own->stats.nr_first_touches++;
	uvm_note_came(sim, block, true, cause);
	return 0;
}

/* Pages of a block are on its device from now on; the host keeps its copies, or not. */
static void block_arrived(struct uvm_block *block, const struct uvm_pages *pages, bool keep)
{
	struct uvm_pages gpu = uvm_pages_or(&block->gpu, pages);

	if (!keep)
		block->host = uvm_pages_without(&block->host, pages);
	uvm_unmap(block, pages);
	block->cpu_mapped = uvm_pages_without(&block->cpu_mapped, pages);
	block_set_gpu(block, &gpu);
}

/* ------------------------------------------------------------------ faults */

/* The pages that a fault maps on the host: all of a block without contents; else what the tree
 * finds, but what the CPU has mapped only if it is the page itself. What the device has stays. */
static struct uvm_pages remote_pages(const struct uvm_batch *batch, const struct uvm_block *block,
				     uint32_t page)
{
	struct uvm_pages own = uvm_pages_range(page, 1);
	struct uvm_pages beside = uvm_pages_or(&block->gpu, &block->cpu_mapped);
	struct uvm_pages pages;

	if (block->device == UVM_NOWHERE && !uvm_pages_count(&block->host))
		return uvm_pages_range(0, block->nr_pages);
	pages = uvm_tree_region(&block->host, page, block->nr_pages,
				batch->sim->uvm.device[batch->device].threshold);
	pages = uvm_pages_without(&pages, &beside);
	return uvm_pages_or(&pages, &own);
}

/* A fault on a page that is to be used on the host. */
static int fault_in_place(struct uvm_batch *batch, struct uvm_block *block, uint32_t page)
{
	struct uvm_pages *remote = &uvm_advice_of(block)->remote[batch->device];
	const struct weir_uvm_desc *desc = &batch->sim->base.desc.uvm;
	struct uvm_pages pages, mapped;
	uint32_t nr_new = 0, nr_mapped;
	double *ns = batch->cost->ns;
	bool has_contents;
	int err;

	if (block->device != UVM_NOWHERE && block->device != batch->device) {
		err = block_evict(batch->sim, block, WEIR_CAUSE_DEMAND, batch->cost);
		if (err)
			return err;
	}
	has_contents = uvm_pages_has(&block->host, page);
	pages = remote_pages(batch, block, page);
	mapped = uvm_pages_and(&pages, &block->host);
	nr_mapped = uvm_pages_count(&mapped);
	err = host_back(batch->sim, block, &pages, &nr_new);
	if (err)
		return err;
	block->host = uvm_pages_or(&block->host, &pages);
	*remote = uvm_pages_or(remote, &pages);
	(void)uvm_map_accessed(batch->sim, block);

	batch->sim->uvm.device[batch->device].stats.nr_faults++;
	*(has_contents ? &batch->nr_remote : &batch->nr_first) += 1;
	ns[BACKEND_TIME_FIRST_TOUCH] +=
		(double)nr_new * (double)desc->host_page_ns +
		(double)(uvm_pages_count(&pages) - nr_mapped) * (double)desc->page_ns;
	ns[BACKEND_TIME_IN_PLACE] += (double)nr_mapped * (double)desc->page_ns;
	return 0;
}

/* Take the host's copies of pages of which the device has one too, for it to write them. */
static void block_collapse(struct uvm_batch *batch, struct uvm_block *block,
			   const struct uvm_pages *pages)
{
	const struct weir_uvm_desc *desc = &batch->sim->base.desc.uvm;
	struct uvm_pages twice = uvm_pages_and(&block->gpu, &block->host), unmapped;

	twice = uvm_pages_and(&twice, pages);
	unmapped = uvm_pages_and(&twice, &block->cpu_mapped);
	batch->cost->ns[BACKEND_TIME_DEMAND] +=
		(double)uvm_pages_count(&twice) * (double)desc->page_ns +
		(double)uvm_pages_count(&unmapped) * (double)desc->cpu_unmap_ns;
	block->host = uvm_pages_without(&block->host, &twice);
	block->cpu_mapped = uvm_pages_without(&block->cpu_mapped, &twice);
}

/* Pages of a region of a block, which took nr_chunks, come by a fault; on a write no other copy of
 * the region is left. first: what the chunk is charged to is first touch. */
static void region_bring(struct uvm_batch *batch, struct uvm_block *block,
			 const struct uvm_pages *region, uint32_t nr_chunks, bool first, bool write,
			 enum weir_cause cause)
{
	struct sim *sim = batch->sim;
	const struct weir_uvm_desc *desc = &sim->base.desc.uvm;
	struct uvm_pages pages = uvm_pages_without(region, &block->gpu);
	struct uvm_pages moved = uvm_pages_and(&pages, &block->host);
	struct uvm_pages unmapped = uvm_pages_and(&pages, &block->cpu_mapped);
	uint32_t nr_moved = uvm_pages_count(&moved);
	double *ns = batch->cost->ns;

	ns[first ? BACKEND_TIME_FIRST_TOUCH : BACKEND_TIME_DEMAND] +=
		(double)nr_chunks * (double)desc->populate_ns;
	ns[BACKEND_TIME_FIRST_TOUCH] +=
		(double)(uvm_pages_count(&pages) - nr_moved) * (double)desc->page_ns;
	if (nr_moved) {
		batch->copies = true;
		sim->uvm.device[batch->device].stats.bytes[BACKEND_TO_DEVICE][cause] +=
			nr_moved * UVM_PAGE_BYTES;
		ns[BACKEND_TIME_DEMAND] +=
			(double)nr_moved * (double)desc->page_ns +
			(double)uvm_pages_count(&unmapped) * (double)desc->cpu_unmap_ns +
			copy_ns(sim, batch->device, nr_moved, false);
	}
	if (write)
		block_collapse(batch, block, region);
	block_arrived(block, &pages, !write && uvm_duplicates(block));
}

/* Bring a whole block beside that of a fault, unless it is there, or meant to be elsewhere. */
static int beside_bring(struct uvm_batch *batch, struct uvm_block *block)
{
	const struct uvm_advice *advice = uvm_advice_of(block);
	const struct uvm_pages all = uvm_pages_range(0, block->nr_pages);
	struct uvm_pages in_place = uvm_in_place(batch->sim, block, batch->device);
	struct uvm_pages usable = uvm_usable(block, batch->device, false);
	uint32_t memory = device_memory(batch->sim, batch->device), nr_chunks;
	bool first;
	int err;

	if (uvm_pages_count(&usable) == block->nr_pages || uvm_pages_count(&in_place) ||
	    (advice && advice->preferred != UVM_NOWHERE && advice->preferred != memory))
		return 0;
	err = block_attach(batch->sim, batch->device, block, WEIR_CAUSE_PREFETCH, batch->cost,
			   &nr_chunks);
	if (err)
		return err;
	first = !uvm_pages_count(&block->host);
	batch->cost->ns[first ? BACKEND_TIME_FIRST_TOUCH : BACKEND_TIME_DEMAND] +=
		block_ns(batch->sim);
	region_bring(batch, block, &all, nr_chunks, first, false, WEIR_CAUSE_PREFETCH);
	return 0;
}

/* Bring as many blocks behind that of a fault, or before it if negative, as there are, and as have
 * room without it. */
static int more_bring(struct uvm_batch *batch, struct uvm_block *block, int32_t more)
{
	struct uvm_range *range = block->range;
	struct uvm_device *own = &batch->sim->uvm.device[batch->device];
	int64_t index = block->index, step = more < 0 ? -1 : 1, last = index + more;
	int err = 0;

	own->held = block;
	while (index != last && !err) {
		index += step;
		if (index < 0 || index >= range->nr_blocks)
			break;
		err = beside_bring(batch, &range->block[index]);
	}
	own->held = NULL;
	return err == -ENOSPC ? 0 : err;
}

/* A fault on a page that is to be on the device. */
static int fault_move(struct uvm_batch *batch, struct uvm_block *block, uint32_t page, bool write)
{
	struct sim *sim = batch->sim;
	uint32_t nr_chunks, threshold = uvm_threshold(sim, block, batch->device);
	struct uvm_pages region;
	bool has_contents;
	int32_t more = 0;
	int err;

	err = block_attach(sim, batch->device, block, WEIR_CAUSE_DEMAND, batch->cost, &nr_chunks);
	if (err)
		return err;
	has_contents = uvm_pages_has(&block->host, page);
	if (!uvm_ask_fault(sim, block, page, write, &region, &more))
		region = uvm_tree_region(&block->gpu, page, block->nr_pages, threshold);
	sim->uvm.device[batch->device].stats.nr_faults++;
	*(has_contents ? &batch->nr_demand : &batch->nr_first) += 1;
	region_bring(batch, block, &region, nr_chunks, !has_contents, write, WEIR_CAUSE_DEMAND);
	return more ? more_bring(batch, block, more) : 0;
}

int uvm_fault(struct uvm_batch *batch, struct uvm_block *block, uint32_t page, bool write)
{
	struct uvm_pages in_place = uvm_in_place(batch->sim, block, batch->device);

	return uvm_pages_has(&in_place, page) ? fault_in_place(batch, block, page)
					      : fault_move(batch, block, page, write);
}

void uvm_batch_end(struct uvm_batch *batch)
{
	const struct weir_link_desc *link = host_link(batch->sim, batch->device);
	double batch_ns = (double)batch->sim->base.desc.uvm.batch_ns, fault_ns;
	uint32_t nr = batch->nr_first + batch->nr_demand + batch->nr_remote;
	double *ns = batch->cost->ns;

	if (!nr)
		return;
	/* Each of its faults is on another block, and its blocks are serviced one by one. */
	fault_ns = (batch_ns + block_ns(batch->sim) * (nr - 1)) / nr;
	ns[BACKEND_TIME_FIRST_TOUCH] += fault_ns * batch->nr_first;
	ns[BACKEND_TIME_DEMAND] += fault_ns * batch->nr_demand;
	ns[BACKEND_TIME_IN_PLACE] += fault_ns * batch->nr_remote;
	/* Its copies run one behind the other: the last one's latency shows. */
	if (batch->copies)
		ns[BACKEND_TIME_DEMAND] += (double)link->latency_ns;
	batch->nr_first = batch->nr_demand = batch->nr_remote = 0;
	batch->copies = false;
}

/* ------------------------------------------------------------------ prefetches, room, free */

/* To the device: block after block is given its chunk while the one before is copied. */
static int prefetch_in(struct sim *sim, uint32_t device, struct uvm_block *block,
		       struct uvm_cost *cost)
{
	struct uvm_pages all = uvm_pages_range(0, block->nr_pages), moved;
	uint32_t nr_moved, nr_chunks;
	double thread_ns, link_ns;
	int err;

	err = block_attach(sim, device, block, WEIR_CAUSE_PREFETCH, cost, &nr_chunks);
	if (err)
		return err;
	moved = uvm_pages_without(&block->host, &block->gpu);
	nr_moved = uvm_pages_count(&moved);
	thread_ns = (double)nr_chunks * (double)sim->base.desc.uvm.populate_ns;
	if (nr_moved) {
		link_ns = (double)host_link(sim, device)->latency_ns +
			  copy_ns(sim, device, nr_moved, false);
		sim->uvm.device[device].stats.bytes[BACKEND_TO_DEVICE][WEIR_CAUSE_PREFETCH] +=
			nr_moved * UVM_PAGE_BYTES;
		cost->ns[BACKEND_TIME_DEMAND] += MAX(thread_ns, link_ns);
	} else {
		cost->ns[BACKEND_TIME_FIRST_TOUCH] += thread_ns;
	}
	block_arrived(block, &all, uvm_duplicates(block));
	return 0;
}

static int prefetch_out(struct sim *sim, struct uvm_block *block, struct uvm_cost *cost)
{
	struct uvm_pages all = uvm_pages_range(0, block->nr_pages);
	uint32_t nr_new = 0;
	int err;

	if (block->device != UVM_NOWHERE) {
		err = uvm_duplicates(block) ? block_copy_out(sim, block, WEIR_CAUSE_PREFETCH, cost)
					    : block_evict(sim, block, WEIR_CAUSE_PREFETCH, cost);
		if (err)
			return err;
	}
	err = host_back(sim, block, &all, &nr_new);
	if (err)
		return err;
	cost->ns[BACKEND_TIME_FIRST_TOUCH] +=
		(double)nr_new * (double)sim->base.desc.uvm.host_page_ns;
	block->host = block->cpu_mapped = all;
	(void)uvm_map_accessed(sim, block);
	return 0;
}

int uvm_prefetch(struct sim *sim, uint32_t device, const struct weir_use *use, uint32_t memory,
		 struct uvm_cost *cost)
{
	struct uvm_range *range = uvm_range_at(sim, use->addr);
	uint64_t begin = (uint64_t)((const char *)use->addr - range->base);
	uint64_t last = (begin + use->bytes - 1) / UVM_BLOCK_BYTES;
	int err = 0;

	for (uint64_t i = begin / UVM_BLOCK_BYTES; !err && i <= last; i++)
		err = memory == device_memory(sim, device)
			      ? prefetch_in(sim, device, &range->block[i], cost)
			      : prefetch_out(sim, &range->block[i], cost);
	return err;
}

int uvm_make_room(struct sim *sim, uint32_t device, uint64_t bytes, struct uvm_cost *cost)
{
	uint32_t memory = device_memory(sim, device);
	int err = 0;

	while (!err && sim->uvm.device[device].oldest &&
	       bytes > sim->base.desc.memory[memory].bytes - sim->memory[memory].used_bytes)
		err = block_evict(sim, uvm_ask_victim(sim, device), WEIR_CAUSE_EVICTION, cost);
	return err;
}

void uvm_leave_one(struct sim *sim, struct uvm_block *block, bool host)
{
	struct uvm_pages twice = uvm_pages_and(&block->gpu, &block->host), gpu;

	if (!host) {
		block->host = uvm_pages_without(&block->host, &twice);
		block->cpu_mapped = uvm_pages_without(&block->cpu_mapped, &twice);
		return;
	}
	gpu = uvm_pages_without(&block->gpu, &twice);
	block_set_gpu(block, &gpu);
	if (block->device != UVM_NOWHERE && !uvm_pages_count(&gpu)) {
		chunk_put(sim, block);
		uvm_note_left(sim, block, WEIR_CAUSE_EVICTION);
	}
}

void uvm_block_free(struct sim *sim, struct uvm_block *block)
{
	uint64_t bytes = uvm_pages_count(&block->backed) * UVM_PAGE_BYTES;

	if (block->device != UVM_NOWHERE) {
		chunk_put(sim, block);
		if (block->range->note)
			block->range->note->nr_resident--;
	}
	sim->uvm.host_bytes -= bytes;
	sim->memory[cost_host_memory(&sim->base.desc)].used_bytes -= bytes;
}
