/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of managed memory: addresses of their own, which have bytes where the machine's data is
 * real.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/backend/sim/sim_internal.h"
#include "src/base/util.h"

/* Index of the first range that begins beyond an address. */
static size_t range_after(const struct uvm *uvm, uintptr_t addr)
{
	size_t at;

	SEARCH_SORTED(at, 0, uvm->nr_ranges, (uintptr_t)uvm->range[at]->base <= addr);
	return at;
}

struct uvm_range *uvm_range_at(const struct sim *sim, const void *addr)
{
	size_t at = range_after(&sim->uvm, (uintptr_t)addr);
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

void uvm_range_destroy(struct uvm_range *range)
{
	if (range->base)
		munmap(range->base, range_mapped_bytes(range));
	free(range->away);
	free(range->advice);
	free(range->note);
	free(range);
}

static void range_fill(struct uvm_range *range)
{
	uint64_t nr_pages = div_round_up(range->bytes, UVM_PAGE_BYTES);

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

int uvm_range_create(const struct sim *sim, uint64_t bytes, struct uvm_range **out)
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
	uvm_range_destroy(range);
	return -ENOMEM;
}

int uvm_range_add(struct uvm *uvm, struct uvm_range *range)
{
	size_t at = range_after(uvm, (uintptr_t)range->base);

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

void uvm_range_del(struct uvm *uvm, struct uvm_range *range)
{
	size_t at = range_after(uvm, (uintptr_t)range->base) - 1;

	uvm->nr_ranges--;
	memmove(&uvm->range[at], &uvm->range[at + 1],
		(uvm->nr_ranges - at) * sizeof(struct uvm_range *));
	uvm_range_destroy(range);
}
