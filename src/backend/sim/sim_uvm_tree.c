/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page sets and the driver's prefetch tree; see the header. State-free.
 */
#include "src/backend/sim/sim_uvm_tree.h"

/* Not the compiler's: without the instruction, which not every processor has, that is a call. */
static uint32_t bits_count(uint64_t word)
{
	word -= word >> 1 & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t)(word * 0x0101010101010101u >> 56);
}

uint32_t uvm_pages_count(const struct uvm_pages *set)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		nr += bits_count(set->word[i]);
	return nr;
}

struct uvm_pages uvm_pages_range(uint32_t first, uint32_t nr)
{
	struct uvm_pages set = {{0}};

	for (uint32_t i = 0; i < UVM_WORDS; i++) {
		uint32_t begin = 64 * i > first ? 64 * i : first;
		uint32_t end = 64 * (i + 1) < first + nr ? 64 * (i + 1) : first + nr;

		if (begin < end)
			set.word[i] = (~UINT64_C(0) >> (64 - (end - begin))) << begin % 64;
	}
	return set;
}

struct uvm_pages uvm_pages_and(const struct uvm_pages *a, const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] & b->word[i];
	return set;
}

struct uvm_pages uvm_pages_or(const struct uvm_pages *a, const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] | b->word[i];
	return set;
}

struct uvm_pages uvm_pages_without(const struct uvm_pages *a, const struct uvm_pages *b)
{
	struct uvm_pages set;

	for (uint32_t i = 0; i < UVM_WORDS; i++)
		set.word[i] = a->word[i] & ~b->word[i];
	return set;
}

uint32_t uvm_pages_next_missing(const struct uvm_pages *set, uint32_t from)
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

/* How many pages a set has of the subtree of nr pages, a power of two, that begins at first. */
static uint32_t count_in(const struct uvm_pages *set, uint32_t first, uint32_t nr)
{
	uint32_t count = 0;

	if (nr < 64)
		return bits_count(set->word[first / 64] >> first % 64 & ((UINT64_C(1) << nr) - 1));
	for (uint32_t i = first / 64; i < (first + nr) / 64; i++)
		count += bits_count(set->word[i]);
	return count;
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
	uint32_t group = page / UVM_GROUP_PAGES * UVM_GROUP_PAGES;
	struct uvm_pages there;

	there = uvm_pages_range(group, nr_pages - group < UVM_GROUP_PAGES ? nr_pages - group
									  : UVM_GROUP_PAGES);
	there = uvm_pages_or(resident, &there);
	level[0] = 1;
	for (uint32_t n = 1; n < UVM_LEVELS; n++) {
		uint32_t half = 1u << (n - 1);

		/* The other half, beside the one that the level before has counted. */
		level[n] = level[n - 1] +
			   count_in(&there, (page >> n << n) + ((page & half) ^ half), half);
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
