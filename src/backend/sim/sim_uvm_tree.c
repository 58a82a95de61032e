/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page sets and the driver's prefetch tree; see the header. State-free.
 */
#include "src/backend/sim/sim_uvm_tree.h"

/* How many pages a set has in nr words from one on. */
static uint32_t count_words(const struct uvm_pages *set, uint32_t first, uint32_t nr)
{
	uint64_t sums = 0;

	for (uint32_t i = first; i < first + nr; i++)
		sums += uvm_byte_counts(set->word[i]);
	return uvm_bytes_sum(sums);
}

/* The pages of the subtree of 2^n pages around a page: first, and how many the block has of it. */
static uint32_t subtree(uint32_t page, uint32_t n, uint32_t nr_pages, uint32_t *first)
{
	uint32_t nr = 1u << n;

	*first = page >> n << n;
	return nr_pages - *first < nr ? nr_pages - *first : nr;
}

void uvm_tree_levels(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
		     uint32_t level[UVM_LEVELS])
{
	/* In fields of 1, 2, 4, ... 32 bits, what each has of the set. */
	static const uint64_t even[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
					0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
	uint32_t group = page / UVM_GROUP_PAGES * UVM_GROUP_PAGES;
	uint32_t nr_group = nr_pages - group < UVM_GROUP_PAGES ? nr_pages - group : UVM_GROUP_PAGES;
	struct uvm_pages there = *resident;
	uint64_t counts;

	/* A group lies in one word. */
	there.word[group / 64] |= (~UINT64_C(0) >> (64 - nr_group)) << group % 64;
	counts = there.word[page / 64];
	level[0] = 1;
	for (uint32_t n = 1; n < UVM_LEVELS; n++) {
		uint32_t half = 1u << (n - 1), other = (page >> n << n) + ((page & half) ^ half);

		/* The other half, beside the one that the level before has counted. */
		level[n] = level[n - 1];
		if (half < 64) {
			level[n] += (uint32_t)(counts >> other % 64 & ((UINT64_C(1) << half) - 1));
			counts = (counts & even[n - 1]) + (counts >> half & even[n - 1]);
		} else {
			level[n] += count_words(&there, other / 64, half / 64);
		}
	}
}

struct uvm_pages uvm_tree_region(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
				 uint32_t threshold)
{
	uint32_t level[UVM_LEVELS], first, nr;

	uvm_tree_levels(resident, page, nr_pages, level);
	/* Not every level below must be dense enough: the highest one that is counts. */
	for (uint32_t n = UVM_LEVELS; n-- > 0;) {
		nr = subtree(page, n, nr_pages, &first);
		if (level[n] * 100 > nr * threshold)
			return uvm_pages_range(first, nr);
	}
	return uvm_pages_range(page, 1);
}

struct uvm_pages uvm_tree_bring(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
				uint32_t threshold)
{
	struct uvm_pages region = uvm_tree_region(resident, page, nr_pages, threshold);

	return uvm_pages_without(&region, resident);
}

uint32_t uvm_random_page(uint32_t k)
{
	/* A full cycle of k -> a k + c and two folds of its bits, each of which is a bijection of 9
	 * bits: evenly spread like random pages, not like a stride. */
	uint32_t page = (k * 301 + 89) % UVM_PAGES;

	page ^= page >> 4;
	page = (page * 173 + 57) % UVM_PAGES;
	page ^= page >> 5;
	return page * 429 % UVM_PAGES;
}
