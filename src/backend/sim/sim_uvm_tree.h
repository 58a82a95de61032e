/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of the pages of a block, and what a fault brings of a block: pure functions.
 */
#ifndef WEIR_BACKEND_SIM_UVM_TREE_H
#define WEIR_BACKEND_SIM_UVM_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define UVM_PAGE_BYTES UINT64_C(4096)
#define UVM_PAGES 512u
#define UVM_BLOCK_BYTES (UVM_PAGES * UVM_PAGE_BYTES)
#define UVM_GROUP_PAGES 16u /* 64 KiB: filled whole by a fault */
#define UVM_LEVELS 10u	    /* subtrees of 1, 2, 4, ... UVM_PAGES pages */

#define UVM_WORDS (UVM_PAGES / 64)

/* A set of pages of a block. */
struct uvm_pages {
	uint64_t word[UVM_WORDS];
};

static inline bool uvm_pages_has(const struct uvm_pages *set, uint32_t page)
{
	return set->word[page / 64] >> page % 64 & 1;
}

/*
 * Sets are counted without the processor's instruction for that, which not every one has. These are
 * inline because a fault is little else than a dozen of them.
 */

/* How many bits each byte of a word has. */
static inline uint64_t uvm_byte_counts(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
	return (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
}

/* The sum of a word's bytes. */
static inline uint32_t uvm_bytes_sum(uint64_t word)
{
	word = (word & 0x00ff00ff00ff00ffu) + (word >> 8 & 0x00ff00ff00ff00ffu);
	return (uint32_t)(word * 0x0001000100010001u >> 48);
}

static inline uint32_t uvm_pages_count(const struct uvm_pages *set)
{
	uint64_t sums = 0; /* 64 a byte at most */

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		sums += uvm_byte_counts(set->word[i]);
	return uvm_bytes_sum(sums);
}

/* The pages in [first, first + nr). */
static inline struct uvm_pages uvm_pages_range(uint32_t first, uint32_t nr)
{
	struct uvm_pages set = {{0}};

	for (uint32_t i = first / 64; nr && 64 * i < first + nr; i++) {
		uint32_t begin = 64 * i > first ? 64 * i : first;
		uint32_t end = 64 * (i + 1) < first + nr ? 64 * (i + 1) : first + nr;

		set.word[i] = (~UINT64_C(0) >> (64 - (end - begin))) << begin % 64;
	}
	return set;
}

static inline struct uvm_pages uvm_pages_and(const struct uvm_pages *a, const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] & b->word[i];
	return set;
}

static inline struct uvm_pages uvm_pages_or(const struct uvm_pages *a, const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] | b->word[i];
	return set;
}

/* Those of a that are not in b. */
static inline struct uvm_pages uvm_pages_without(const struct uvm_pages *a,
						 const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] & ~b->word[i];
	return set;
}

/* The first page from on that is not in the set; UVM_PAGES: none. */
static inline uint32_t uvm_pages_next_missing(const struct uvm_pages *set, uint32_t from)
{
	for (uint32_t i = from / 64; i < UVM_WORDS; i++) {
		uint64_t missing = ~set->word[i];

		if (i == from / 64)
			missing &= ~UINT64_C(0) << from % 64;
		if (missing)
			return 64 * i + (uint32_t)__builtin_ctzll(missing);
	}
	return UVM_PAGES;
}

/* level[n]: of the subtree of 2^n pages around a page, how many are resident or in the page's group
 * of 64 KiB. Parameters as below. */
void uvm_tree_levels(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
		     uint32_t level[UVM_LEVELS]);

/*
 * What the driver looks at as a device faults on a page: the largest subtree of the binary tree
 * over the block's pages, around the page, of which more than threshold percent are resident or in
 * the page's group of 64 KiB; the page alone where there is none such.
 *
 * resident:  on the device already.
 * nr_pages:  of the block; what lies beyond is in no subtree.
 * threshold: the driver's own is UVM_THRESHOLD; 100 brings single pages, 0 the whole block.
 */
struct uvm_pages uvm_tree_region(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
				 uint32_t threshold);

/* What it brings: the same without what is resident, as the page is not. */
struct uvm_pages uvm_tree_bring(const struct uvm_pages *resident, uint32_t page, uint32_t nr_pages,
				uint32_t threshold);

#define UVM_THRESHOLD 51u
#define UVM_THRESHOLD_WHOLE 0u
#define UVM_THRESHOLD_PAGE 100u

/*
 * The k-th page, k < UVM_PAGES, that threads touch which go anywhere in a block: a fixed
 * permutation, so that runs repeat.
 */
uint32_t uvm_random_page(uint32_t k);

#endif
