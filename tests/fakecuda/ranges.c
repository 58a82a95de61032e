/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted ranges of addresses that do not overlap. */
#include <stdlib.h>
#include <string.h>

#include "src/base/util.h"
#include "tests/fakecuda/fake.h"

size_t ranges_after(const struct ranges *ranges, uint64_t addr)
{
	size_t at;

	SEARCH_SORTED(at, 0, ranges->nr, ranges->at[at]->addr + ranges->at[at]->bytes <= addr);
	return at;
}

struct range *ranges_find(const struct ranges *ranges, uint64_t addr)
{
	size_t at = ranges_after(ranges, addr);

	return at < ranges->nr && ranges->at[at]->addr <= addr ? ranges->at[at] : NULL;
}

bool ranges_any(const struct ranges *ranges, uint64_t addr, uint64_t bytes)
{
	size_t at = ranges_after(ranges, addr);

	return at < ranges->nr && ranges->at[at]->addr < addr + bytes;
}

bool ranges_add(struct ranges *ranges, struct range *range)
{
	size_t at = ranges_after(ranges, range->addr);

	if (ranges->nr == ranges->max) {
		size_t max = ranges->max ? 2 * ranges->max : 64;
		struct range **grown = realloc(ranges->at, max * sizeof(*grown));

		if (!grown)
			return false;
		ranges->at = grown;
		ranges->max = max;
	}
	memmove(&ranges->at[at + 1], &ranges->at[at], (ranges->nr - at) * sizeof(*ranges->at));
	ranges->at[at] = range;
	ranges->nr++;
	return true;
}

void ranges_del(struct ranges *ranges, const struct range *range)
{
	size_t at = ranges_after(ranges, range->addr);

	ranges->nr--;
	memmove(&ranges->at[at], &ranges->at[at + 1], (ranges->nr - at) * sizeof(*ranges->at));
}
