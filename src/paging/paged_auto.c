/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When pages of a range are best brought in, where nobody knows how it will be used. A page is
 * rented, used in place, until that has cost as much as buying it, and only then brought in: never
 * more than twice what the better of both costs (Karlin, Manasse, Rudolph, Sleator, "Competitive
 * snoopy caching", 1988). What was worth it once comes in at once after a drain; see pt_drained().
 *
 * A touch is a sector, the least that a link moves. Kernels say how many an access uses. One that
 * does not say is taken for a word somewhere, and costs what the rate of such accesses makes of it:
 * beyond the reach of translation forty times its bytes.
 */
#include "src/base/util.h"
#include "src/cost/cost.h"
#include "src/paging/paged.h"

#define SECTOR_BYTES 32u
#define LATE_PASSES 2u

/* What a word at random takes of a memory's link, in sectors that are read in order. */
static double word_sectors(const struct weir_paged *pool, uint32_t memory, uint64_t bytes)
{
	const struct weir_machine_desc *desc = &pool->backend->desc;
	const struct weir_use word = {.pattern = WEIR_RANDOM, .read_bytes = bytes};
	int link = cost_link_find(desc, memory, pool->memory);

	if (link < 0)
		return 1;
	return desc->link[link].inplace_bytes_per_s /
	       cost_inplace_bytes_per_s(&desc->link[link], &word, bytes);
}

/* The same of a range, whose words are in several memories. */
static uint32_t word_touches(const struct weir_paged *pool,
			     const struct weir_paged_range_config *config)
{
	uint64_t left = config->bytes;
	double sum = 0, nr = 1;

	for (uint32_t m = 0; m < pool->backend->desc.nr_memories; m++) {
		uint64_t there = MIN(config->near_bytes[m], left);

		if (there)
			sum += (double)there * word_sectors(pool, m, there);
		left -= there;
	}
	if (left)
		sum += (double)left * word_sectors(pool, pool->host_memory, left);
	if (config->bytes)
		nr = sum / (double)config->bytes;
	return nr < PAGED_ACCESS_MAX ? (uint32_t)(nr + 0.5) : PAGED_ACCESS_MAX;
}

void weir_paged_range_auto(const struct weir_paged *pool, struct weir_paged_range_config *config)
{
	const uint32_t nr_sectors = (1u << pool->view.page_shift) / SECTOR_BYTES;

	config->fill_only = 1;
	config->admit = nr_sectors;
	/* Who uses half of a page in one access may as well bring it in: that takes twice as long
	 * at most, and nothing the next time. */
	config->whole = nr_sectors / 2;
	config->late = config->read_only ? LATE_PASSES * nr_sectors : 0;
	config->word = word_touches(pool, config);
}
